"""Methods of the library that another process may call, with arguments and results as plain values.

Only types in the signatures of these methods are decoded. A plain value is None, a boolean, a number, text, bytes or a list.
Anything else is a single-item map: the number of its type and its parts. Type numbers follow from the methods, so both sides need
equal versions of the library.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from datetime import datetime
from enum import Enum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args, get_type_hints

import msgspec

from shoal.app.network import Network
from shoal.core.errors import InvalidInput
from shoal.core.model import Member
from shoal.library.acting import Identity
from shoal.library.handle import Handle


class _Elsewhere:
    """Stands for the network of another process when library objects are created. It cannot be used."""

    def __getattr__(self, name: str) -> _Elsewhere:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


ELSEWHERE = cast("Network", _Elsewhere())


class Method(NamedTuple):
    """A public library method, with what is needed to call it from another process."""

    function: Callable[..., Any]
    signature: inspect.Signature
    hints: Mapping[str, Any]
    """The evaluated annotations."""
    streams: bool
    """Whether it is an asynchronous generator."""
    idempotent: bool
    """Whether it has an argument `request`, which makes repeated calls idempotent."""
    paths: frozenset[str]
    """Arguments that are paths."""
    decoder: msgspec.msgpack.Decoder[Any] | None
    """A decoder of its results; None if they are sent as plain values (handles, and items of streams)."""

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Return the arguments by name, and make paths absolute. Raises `TypeError` for unknown or missing arguments."""
        found = self.signature.bind(None, *args, **kwargs)
        for name in self.paths & found.arguments.keys():
            if isinstance(value := found.arguments[name], str | Path):
                found.arguments[name] = Path(value).absolute()
        return found


Nouns = Mapping[str, Mapping[str, Method]]
"""For each noun, such as `member.lists`, its methods by name."""


@cache
def methods_of(kind: type) -> Mapping[str, Method]:
    """Return the asynchronous public methods of a class by name."""
    found = {name: _method(value) for name, value in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}
    return {name: method for name, method in found.items() if method is not None}


def _method(function: Callable[..., Any]) -> Method | None:
    streams = str(function.__annotations__.get("return", "")).startswith("AsyncGenerator[")
    if not streams and not inspect.iscoroutinefunction(function):
        return None
    hints = get_type_hints(function)
    answer = hints["return"]
    plain = streams or (isinstance(answer, type) and issubclass(answer, Identity))
    return Method(
        function,
        inspect.signature(function),
        hints,
        streams,
        idempotent="request" in hints,
        paths=frozenset(name for name, hint in hints.items() if Path in get_args(hint)),
        decoder=None if plain else msgspec.msgpack.Decoder(answer),
    )


def nouns_of(thing: object) -> dict[str, type]:
    """Return the attributes of an object that are library objects, such as `handle.lists`: their names and classes."""
    return {name: type(value) for name, value in vars(thing).items() if name[0] != "_" and _is_noun(type(value))}


def _is_noun(kind: type) -> bool:
    return kind.__module__.startswith("shoal.library.") and bool(methods_of(kind))


def handle_for(network: Network, id_: int, name: str) -> Handle:
    """Return a `Handle` for calls to this network. Only the member's id and name are needed."""
    return Handle(network, cast("Member", Identity(id_, name)))


def kinds_of(shoal: object) -> dict[str, type]:
    """Return the classes of the library objects by name (noun), such as `shoal`, `shoal.tags`, `member`, `member.lists`."""
    kinds: dict[str, type] = {}
    for name, root in (("shoal", shoal), ("member", handle_for(ELSEWHERE, 0, ""))):
        kinds[name] = type(root)
        kinds |= {f"{name}.{noun}": kind for noun, kind in nouns_of(root).items()}
    return kinds


def surface(kinds: Mapping[str, type]) -> Nouns:
    """Return the public methods of each class: by the noun (name) of the library object, then by method name."""
    return {noun: methods_of(kind) for noun, kind in kinds.items()}


_PLAIN: tuple[Any, ...] = (type(None), bool, int, float, str, bytes)
_SEQUENCES: tuple[type, ...] = (tuple, set, frozenset)


class Values:
    """The types that occur in remote calls, by number, for converting values to plain values and back.

    `identity` creates the object that represents a member in this process.
    """

    def __init__(self, nouns: Nouns, identity: Callable[[int, str], object]) -> None:
        found: set[type] = set()
        for methods in nouns.values():
            for method in methods.values():
                for hint in method.hints.values():
                    _collect(hint, found)
        structured = sorted(found, key=_name)
        self.identity = identity
        self._kinds: list[type] = [*_SEQUENCES, dict, datetime, msgspec.UnsetType, Identity, *structured]
        self._numbers = {kind: number for number, kind in enumerate(self._kinds)}
        shape = [(noun, name, _shape(method)) for noun, methods in nouns.items() for name, method in methods.items()]
        fields = [(_name(kind), _fields(kind)) for kind in structured]
        self.fingerprint = hashlib.sha256(repr((version("shoal"), sorted(shape), fields)).encode()).hexdigest()
        """A digest that is equal on both sides if their versions are."""

    def with_handles(self, identity: Callable[[int, str], object]) -> Values:
        """Return a copy of these `Values` with another `identity` function."""
        other = copy(self)
        other.identity = identity
        return other

    def plain(self, value: Any) -> Any:
        """Encode a value for another process (see `made`).

        Raises `TypeError` for an unknown type, and `InvalidInput` if the value is nested too deeply.
        """
        try:
            return self._plain(value)
        except RecursionError:
            raise InvalidInput("the value is nested too deeply") from None

    def made(self, plain: Any) -> Any:
        """Decode a value that another process sent. Raises `ValueError` if it is invalid."""
        try:
            return self._made(plain)
        except (LookupError, TypeError, RecursionError) as error:
            raise ValueError("the message from the other process is not a valid encoded value") from error

    def _plain(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is list:
            return [self._plain(item) for item in value]
        number = self._numbers.get(kind)
        if number is None:
            return self._near(value)
        return {number: self._parts(kind, value)}

    def _parts(self, kind: type, value: Any) -> Any:
        if kind in _SEQUENCES or issubclass(kind, tuple):
            return [self._plain(item) for item in value]
        if kind is dict:
            return [[self._plain(key), self._plain(item)] for key, item in value.items()]
        if kind is datetime:
            return value.isoformat()
        if kind is msgspec.UnsetType:
            return None
        if issubclass(kind, Enum):
            return value.value
        return [self._plain(getattr(value, field)) for field in _fields(kind)]

    def _near(self, value: Any) -> Any:
        """Encode a value of an unknown class as its base class or as the nearest known type, such as a `Path` as text."""
        if isinstance(value, Identity):
            return {self._numbers[Identity]: [value.id, value.name]}
        for kind in _PLAIN[1:]:
            if isinstance(value, kind):
                return kind(value)
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        if isinstance(value, Path):
            return str(value.absolute())
        if isinstance(value, Mapping):
            return self._plain(dict(value))
        if isinstance(value, Iterable):
            return [self._plain(item) for item in value]
        raise TypeError(f"{type(value).__name__} cannot be sent to the process that owns the store")

    def _made(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self._made(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        ((number, parts),) = plain.items()
        if not isinstance(number, int) or number < 0:
            raise ValueError("the message from the other process has an invalid type number")
        kind = self._kinds[number]
        if kind in _SEQUENCES:
            return kind(map(self._made, parts))
        if kind is dict:
            return {self._made(key): self._made(item) for key, item in parts}
        if kind is datetime:
            return datetime.fromisoformat(parts)
        if kind is msgspec.UnsetType:
            return msgspec.UNSET
        if kind is Identity:
            return self.identity(*parts)
        if issubclass(kind, Enum):
            return kind(parts)
        values = map(self._made, parts)
        return kind(*values) if issubclass(kind, tuple) else kind(**dict(zip(_fields(kind), values, strict=True)))


def _shape(method: Method) -> str:
    """Describe the signature of a method as text: processes of different versions are detected by a digest of it."""
    given = method.signature.parameters.values()
    arguments = [
        (parameter.name, parameter.kind.name, str(parameter.annotation), parameter.default is parameter.empty)
        for parameter in given
    ]
    return f"{arguments} {method.signature.return_annotation}"


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, Enum):
        return tuple(str(member.value) for member in kind)
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return tuple(getattr(kind, "_fields", ()))


def _collect(hint: Any, found: set[type]) -> None:
    """Add the structured types in a type hint, and those in their fields, to `found`."""
    for part in get_args(hint):
        _collect(part, found)
    if not isinstance(hint, type) or hint in found:
        return
    if issubclass(hint, Enum):
        found.add(hint)
    elif issubclass(hint, msgspec.Struct) or dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        found.add(hint)
        for field in _field_hints(cast("type", hint)):
            _collect(field, found)


@cache
def _field_hints(kind: type) -> tuple[Any, ...]:
    return tuple(get_type_hints(kind).values())
