"""Objects of the library for a shared store: their methods call the owner of the store, in this process or in another.

They are of subclasses of the library's own, so a handle is a `Handle`, and what takes one takes it.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from shoal.core.errors import InvalidInput
from shoal.library.sharing.caller import Call
from shoal.library.sharing.session import SharingSession
from shoal.library.sharing.surface import ELSEWHERE, Method, kinds_of, surface
from shoal.library.sharing.values import Values
from shoal.settings import Settings
from shoal.wiring import Network, calls_path

_NO_NETWORK = (
    "a shared network is used by its methods: it may be in another process, so what is beneath them cannot be had"
)


class SharedNetwork:
    """A shared store for one application. `root` makes the library's object of a network, such as `Shoal`.

    `shoal` may be made before a process is forked; `opened` belongs to one process and its event loop.
    """

    def __init__(self, settings: Settings, root: Callable[[Network], Any], **waits: float) -> None:
        path = calls_path(settings)
        if path is None:
            raise InvalidInput("a shared network is a store in one SQLite file: sqlite:///shoal.db")
        kinds = kinds_of(root(ELSEWHERE))
        nouns = surface(kinds)
        values = Values(nouns, self._handle)
        self.session = SharingSession(settings, path, root, nouns, values, **waits)
        self._kinds = {
            noun: type(kind.__name__, (kind,), {"__module__": kind.__module__, **_methods(noun, nouns[noun])})
            for noun, kind in kinds.items()
        }
        self._kinds["shoal"].network = property(_no_network)  # type: ignore[attr-defined]
        self.shoal: Any = self._made("shoal", None)
        self.shoal.closing = AsyncExitStack()

    @asynccontextmanager
    async def opened(self, *, wait: bool = True) -> AsyncIterator[Any]:
        """Take part in the store until the block ends. Raises as `SharingSession.opened`."""
        async with self.session.opened(wait=wait), self.shoal.closing:
            yield self.shoal

    def _handle(self, id_: int, name: str) -> Any:
        handle = self._made("member", (id_, name))
        handle.id, handle.name = id_, name
        return handle

    def _made(self, root: str, member: tuple[int, str] | None) -> Any:
        """Make a network or a handle with its nouns. Nothing of what the class itself would have is there."""
        thing = self._bare(root, member)
        for noun in self._kinds:
            if noun.startswith(f"{root}."):
                setattr(thing, noun.partition(".")[2], self._bare(noun, member))
        return thing

    def _bare(self, noun: str, member: tuple[int, str] | None) -> Any:
        thing: Any = object.__new__(self._kinds[noun])
        thing._session, thing._member = self.session, member
        return thing


def _no_network(_self: object) -> Network:
    raise RuntimeError(_NO_NETWORK)


def _methods(noun: str, methods: Mapping[str, Method]) -> dict[str, Any]:
    return {name: (_streaming if method.streams else _calling)(noun, name, method) for name, method in methods.items()}


def _calling(noun: str, name: str, method: Method) -> Callable[..., Any]:
    @functools.wraps(method.function)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._session.call(_call(self, noun, name, method, args, kwargs))

    return call


def _streaming(noun: str, name: str, method: Method) -> Callable[..., Any]:
    @functools.wraps(method.function)
    def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        items: AsyncGenerator[Any, None] = self._session.stream(_call(self, noun, name, method, args, kwargs))
        return items

    return stream


def _call(thing: Any, noun: str, name: str, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    bound = method.bound(args, kwargs)
    return Call(noun, name, method, thing._member, bound.args[1:], bound.kwargs)
