"""One store for several processes: one of them opens the network, and the others call its methods over a socket.

The process that holds the store's lock is the owner. The other processes send it the calls of their application. When the
owner ends, another process takes the lock and opens the network.

    no owner ---- the lock is free ----> owner (until this process ends)
       |  ^
       |  +----- the owner ended -----+
       +-- the owner answers --> caller

A call whose owner ended is repeated with the next owner if the old one had not begun to change the store for it, or if the
call has a `request` that identifies it. For any other call the outcome is unknown: `OutcomeUnknown`. The application's
objects are subclasses of the library's classes, so their handles are accepted like any `Handle`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from shoal.app.network import Network, open_network
from shoal.app.paths import calls_path
from shoal.core.errors import InUse, InvalidInput, OutcomeUnknown, ShoalError, Unavailable
from shoal.library.handle import Handle
from shoal.library.remote_calls import SILENCE_SECONDS, Call, OwnedNetwork, RemoteNetwork
from shoal.library.remote_methods import ELSEWHERE, Method, Nouns, Values, kinds_of, surface
from shoal.multiprocess.link import NotListening
from shoal.multiprocess.rpc import PeerGone, connect
from shoal.settings import Settings

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 30.0
_MOST_ATTEMPTS = 4
"""Maximum attempts, so that a call that crashes its owner does not crash one process after the other."""
_CLOSED = "this Shoal is closed"
_UNKNOWN = "the process that owns the store exited during this change: it may or may not have been stored"
_KILLED = "the process that owns the store exited on every attempt of this call"


class SharingSession:
    """Calls library methods on a store's network in the process that owns it: this one or another."""

    def __init__(
        self,
        settings: Settings,
        path: Path,
        root: Callable[[Network], Any],
        nouns: Nouns,
        values: Values,
        *,
        patience: float = PATIENCE_SECONDS,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._settings = settings
        self._path = path
        self._root = root
        self._nouns = nouns
        self._values = values
        self._patience = patience
        self._silence = silence
        self._side: OwnedNetwork | RemoteNetwork | None = None
        self._reason = _CLOSED
        self._open = False

    @property
    def owner(self) -> bool:
        """Whether this process owns the network."""
        return isinstance(self._side, OwnedNetwork)

    @asynccontextmanager
    async def opened(self, *, wait: bool) -> AsyncIterator[None]:
        """Use the shared store until the block ends, as its owner or by calls to the owner process.

        If the store cannot be used, `Unavailable` is raised by this method if `wait`, and otherwise by the calls.
        """
        self._found, self._ending = asyncio.Event(), asyncio.Event()
        self._broken: Exception | None = None
        self._side, self._open, self._reason = None, True, "the store is being opened"
        running = asyncio.create_task(self._run())
        try:
            if wait:
                await self._current_side()
            yield
        finally:
            self._open = False
            self._ending.set()
            await running

    async def call(self, call: Call) -> Any:
        """Return the result of the method, or raise its error, `Unavailable` or `OutcomeUnknown`."""
        for _ in range(_MOST_ATTEMPTS):
            side = await self._current_side()
            if isinstance(side, OwnedNetwork):
                return self._as_shared(await self._bound(side, call))
            try:
                return await side.call(call)
            except PeerGone as gone:
                if gone.begun and not _is_idempotent(call):
                    raise OutcomeUnknown(_UNKNOWN) from gone
        raise OutcomeUnknown(_KILLED) if _is_idempotent(call) else Unavailable(_KILLED)

    async def stream(self, call: Call) -> AsyncGenerator[Any, None]:
        """Run a streaming method in the owner process, and yield its items.

        If the owner process ends, live updates continue with the next owner, and other streams raise `Unavailable`.
        """
        resumes = "after" in call.method.signature.parameters
        while True:
            side = await self._current_side()
            items = self._bound(side, call) if isinstance(side, OwnedNetwork) else side.stream(call)
            try:
                async with aclosing(items):
                    async for item in items:
                        call = _resumed(call, getattr(item, "position", ""))
                        yield item
            except PeerGone:
                if not resumes:
                    raise
                # The position is invalid in the next owner process, which therefore reports that items may have been missed.
                call = _resumed(call, _position(call))
            else:
                return

    def _bound(self, side: OwnedNetwork, call: Call) -> Any:
        return call.method.function(side.target(call.noun, call.member), *call.args, **call.kwargs)

    def _as_shared(self, answer: Any) -> Any:
        return self._values.identity(answer.id, answer.name) if isinstance(answer, Handle) else answer

    async def _current_side(self) -> OwnedNetwork | RemoteNetwork:
        """Return the network if this process owns it, else the connection to its owner. Raises `Unavailable` on timeout."""
        if not self._open:
            raise RuntimeError(_CLOSED)
        if isinstance(self._side, RemoteNetwork) and self._side.client.ended.done():
            self._lose()
        if self._side is None:
            try:
                async with asyncio.timeout(self._patience):
                    await self._found.wait()
            except TimeoutError as error:
                raise Unavailable(self._reason) from error
        if self._broken is not None:
            raise self._broken
        if self._side is None:
            return await self._current_side()
        return self._side

    def _use(self, side: OwnedNetwork | RemoteNetwork) -> None:
        self._side = side
        self._found.set()

    def _lose(self) -> None:
        self._side = None
        self._reason = "the process that owns the store has exited"
        self._found.clear()

    async def _run(self) -> None:
        """Connect to the owner, or become the owner, repeatedly, until this process stops."""
        pause = 0.0
        while not self._ending.is_set():
            try:
                if await self._stay_connected() or await self._own():
                    pause = 0.0
                    continue
            except Unavailable as error:
                self._reason = str(error)
            except Exception as error:  # noqa: BLE001  # raised where the network is opened or called
                # A `ShoalError`, or a `ValueError` for an invalid setting, is not logged, because the caller reports it.
                if not isinstance(error, ShoalError | ValueError):
                    _log.exception("cannot open the shared store")
                self._broken = error
                self._found.set()
                return
            # The pause is random, so that the processes do not all try to take the lock at once.
            pause = min(0.5, pause * 2 + 0.01)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.5, 1.5)):  # noqa: S311  # not a secret
                    await self._ending.wait()

    async def _stay_connected(self) -> bool:
        """Stay connected to the owner until it ends. Return False if there is none."""
        try:
            client = await connect(self._path, self._values.fingerprint, silence=self._silence)
        except NotListening as error:
            self._reason = str(error)
            return False
        self._use(RemoteNetwork(client, self._values))
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait((ending, client.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            self._lose()
            await client.close()
        return True

    async def _own(self) -> bool:
        """Own the network until this process stops. Return False if another process owns it."""
        async with AsyncExitStack() as stack:
            try:
                network = await stack.enter_async_context(open_network(self._settings))
            except InUse as error:
                self._reason = f"{error}, or make it share the store"
                return False
            shoal = self._root(network)
            await stack.enter_async_context(shoal.closing)
            owned = OwnedNetwork(shoal, network, self._nouns, self._values)
            await stack.enter_async_context(owned.serving(self._path))
            self._use(owned)
            try:
                await self._ending.wait()
            finally:
                self._lose()
        return True


def _is_idempotent(call: Call) -> bool:
    return call.method.idempotent and bool(call.method.bound(call.args, call.kwargs).arguments.get("request"))


def _position(call: Call) -> str:
    return call.method.bound(call.args, call.kwargs).arguments.get("after") or ""


def _resumed(call: Call, position: str) -> Call:
    """Return the call with the argument `after=position`, if its method has this parameter."""
    if "after" not in call.method.signature.parameters:
        return call
    bound = call.method.bound(call.args, call.kwargs)
    bound.arguments["after"] = position
    return call._replace(args=bound.args[1:], kwargs=bound.kwargs)


_NO_NETWORK = "the network of a `SharedNetwork` may be open in another process: only its methods are available"


class SharedNetwork:
    """A store that the processes of one application share. `root` creates the library's object for a network, such as `Shoal`.

    `shoal` may be created before a process is forked; `opened` belongs to one process and its event loop.
    """

    def __init__(self, settings: Settings, root: Callable[[Network], Any], **waits: float) -> None:
        path = calls_path(settings)
        if path is None:
            raise InvalidInput(
                "a network that several processes open requires a store in one SQLite file, such as sqlite:///shoal.db"
            )
        kinds = kinds_of(root(ELSEWHERE))
        nouns = surface(kinds)
        values = Values(nouns, self._handle)
        self.session = SharingSession(settings, path, root, nouns, values, **waits)
        self._kinds = {
            noun: type(kind.__name__, (kind,), {"__module__": kind.__module__, **_methods(noun, nouns[noun])})
            for noun, kind in kinds.items()
        }
        self._kinds["shoal"].network = property(_no_network)  # type: ignore[attr-defined]
        self.shoal: Any = self._proxy("shoal", None)
        self.shoal.closing = AsyncExitStack()

    @asynccontextmanager
    async def opened(self, *, wait: bool = True) -> AsyncIterator[Any]:
        """Use the shared store until the block ends. With `wait`, raises `Unavailable` if the store cannot be used."""
        async with self.session.opened(wait=wait), self.shoal.closing:
            yield self.shoal

    def _handle(self, id_: int, name: str) -> Any:
        handle = self._proxy("member", (id_, name))
        handle.id, handle.name = id_, name
        return handle

    def _proxy(self, root: str, member: tuple[int, str] | None) -> Any:
        """Create a `Shoal` or `Handle` and its library objects. Their methods call the session instead of a network."""
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
