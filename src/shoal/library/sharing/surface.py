"""All methods of the library that another process may call, derived from its classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args, get_type_hints

import msgspec

from shoal.core.model import Member
from shoal.library.acting import Identity
from shoal.library.handle import Handle
from shoal.wiring import Network


class _Elsewhere:
    """A network that another process has. Objects of the library can be made of it; they must not use it."""

    def __getattr__(self, name: str) -> _Elsewhere:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


ELSEWHERE = cast("Network", _Elsewhere())


class Method(NamedTuple):
    """A public method, as it can be called from another process."""

    function: Callable[..., Any]
    signature: inspect.Signature
    streams: bool
    """Whether it yields answers until the caller stops."""
    recognised: bool
    """Whether it takes a `request`, by which a call that is repeated is recognised."""
    paths: frozenset[str]
    """Arguments that are paths."""
    decoder: msgspec.msgpack.Decoder[Any] | None
    """A decoder of its answers; None where they are sent as plain values (handles, and items of streams)."""

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Return arguments by name, with absolute paths. Raises `TypeError` for those that the method does not take."""
        found = self.signature.bind(None, *args, **kwargs)
        for name in self.paths & found.arguments.keys():
            found.arguments[name] = Path(found.arguments[name]).absolute()
        return found


Nouns = Mapping[str, Mapping[str, Method]]
"""Methods by name, by noun."""


def methods_of(kind: type) -> dict[str, Method]:
    """Return the asynchronous public methods of a class by name."""
    found = {name: _method(value) for name, value in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}
    return {name: method for name, method in found.items() if method is not None}


def _method(function: Callable[..., Any]) -> Method | None:
    streams = str(function.__annotations__.get("return", "")).startswith("AsyncGenerator[")
    if not streams and not inspect.iscoroutinefunction(function):
        return None
    hints = get_type_hints(function)
    answer = hints.pop("return")
    plain = streams or (isinstance(answer, type) and issubclass(answer, Identity))
    return Method(
        function,
        inspect.signature(function),
        streams,
        recognised="request" in hints,
        paths=frozenset(name for name, hint in hints.items() if Path in get_args(hint)),
        decoder=None if plain else msgspec.msgpack.Decoder(answer),
    )


def nouns_of(thing: object) -> dict[str, type]:
    """Return the classes of the nouns that an object has, such as `handle.lists`, by attribute."""
    return {name: type(value) for name, value in vars(thing).items() if name[0] != "_" and _is_noun(type(value))}


def _is_noun(kind: type) -> bool:
    return kind.__module__.startswith("shoal.library.") and bool(methods_of(kind))


def handle_for(network: Network, id_: int, name: str) -> Handle:
    """Return a handle of the library itself, which calls this network. A handle needs no more of a member than this."""
    return Handle(network, cast("Member", Identity(id_, name)))


def kinds_of(shoal: object) -> dict[str, type]:
    """Return the classes of a network, of its members and of their nouns: `shoal`, `shoal.tags`, `member`, `member.lists`."""
    kinds: dict[str, type] = {}
    for name, root in (("shoal", shoal), ("member", handle_for(ELSEWHERE, 0, ""))):
        kinds[name] = type(root)
        kinds |= {f"{name}.{noun}": kind for noun, kind in nouns_of(root).items()}
    return kinds


def surface(kinds: Mapping[str, type]) -> Nouns:
    """Return the methods of each class."""
    return {noun: methods_of(kind) for noun, kind in kinds.items()}
