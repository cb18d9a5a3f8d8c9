"""From what a request says to a typed struct: lenient about how a value is written, strict about what it is.

Leniency is what clients need (Mastodon's own server is as lenient): numbers and booleans as strings, any text or number for
true that is no word for false, one value where a list is expected, a list as a dictionary of numbers, null and, save for
texts, "" for a value that is not given; "undefined" and "null" for an object that is not given; a field that may be UNSET or
None takes them for None. Every refusal is an `InvalidInput` that names the field and says what is allowed.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import IO, Any, Protocol, TypeVar

import msgspec
from msgspec import inspect

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import MAX_ID
from shoal.http.errors import refusal

T = TypeVar("T")


class Bytes(Protocol):
    """Where the bytes of a file are."""

    @property
    def size(self) -> int:
        """How many they are."""

    def copy_to(self, target: IO[bytes]) -> None:
        """Write all of them to a file."""

    @property
    def data(self) -> bytes:
        """All of them."""

    def close(self) -> None:
        """Forget them."""


class Upload:
    """A file that came with a request: the name its sender gave it, and its bytes."""

    __slots__ = ("_bytes", "filename")

    def __init__(self, filename: str, data: Bytes) -> None:
        self.filename = filename
        self._bytes = data

    @property
    def data(self) -> bytes:
        """Its bytes, until it is closed."""
        return self._bytes.data

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._bytes.size

    def copy_to(self, target: IO[bytes]) -> None:
        """Write its bytes to a file, also those of a row whose files stay on the disk. It blocks for the time of a disk."""
        self._bytes.copy_to(target)

    def close(self) -> None:
        """Free its bytes before the request is answered: a request that waits for something else need not keep them."""
        self._bytes.close()


class _Inline:
    """The bytes of a file that stood in a text."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data)

    def copy_to(self, target: IO[bytes]) -> None:
        """Write the bytes to a file."""
        target.write(self.data)

    def close(self) -> None:
        """Forget them."""
        self.data = b""


class _Whole(type):
    """A metaclass for kinds of whole numbers. Their values are plain ints, as encoders and stores refuse subclasses."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, int)


class Id(int, metaclass=_Whole):
    """An id from the wire. One that is malformed or too large names nothing: `NotFound`."""


class CursorId(int, metaclass=_Whole):
    """An id to page from; 0 for one that is absent or garbage, the largest id for one that is larger."""


class Limit(int, metaclass=_Whole):
    """How many items are asked for; 0 for garbage, which means the default."""


class Json:
    """Any JSON value. A text, which is all that a form can send, is decoded; in JSON any other value is taken as it is."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class _HasNul(Exception):
    """A text contains U+0000, which PostgreSQL cannot keep."""


_ABSENT = object()
"""The value that a fixer returns for input that counts as not given."""

Fixer = Callable[[Any], object]
_PREPARED: dict[type[Any], dict[str, Fixer | None]] = {}
"""Fixers to apply to each field of a struct before msgspec sees it, by wire name; None for fields without one."""

_UNDEFINED = frozenset({"undefined", "null"})
"""Texts that JavaScript clients send in a form for an object or a list of objects that they do not have."""

_COLLECTIONS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)


def convert(params: Mapping[str, object], type: type[T]) -> T:  # noqa: A002 (msgspec.convert's own word)
    """The struct that the parameters describe; unknown ones are ignored. `InvalidInput`, or `NotFound` from an `Id`."""
    try:
        return msgspec.convert(_fix_fields(params, _fixers(type)), type, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise refusal(str(error), type) from None


def prepare(type: type[Any]) -> None:  # noqa: A002 (as above)
    """Do now what the first `convert` to this type would do."""
    _fixers(type)


def _fixers(kind: type[Any]) -> dict[str, Fixer | None]:
    known = _PREPARED.get(kind)
    if known is None:
        info = inspect.type_info(kind)
        if not isinstance(info, inspect.StructType):
            raise TypeError(f"{kind!r} is not a msgspec.Struct")
        known = _PREPARED[kind] = {field.encode_name: _field_fixer(field) for field in info.fields}
    return known


def _fix_fields(params: Mapping[str, object], fixers: Mapping[str, Fixer | None]) -> dict[str, object]:
    fixed = {}
    for name, fix in fixers.items():
        value = params.get(name)
        if value is None and not (name in params and isinstance(fix, _Clearable)):
            continue
        if fix is not None:
            try:
                value = fix(value)
            except _HasNul:
                raise InvalidInput(f"{name} must not contain the character U+0000", field=name) from None
            if value is _ABSENT:
                continue
        fixed[name] = value
    return fixed


class _Clearable:
    """The fixer of a field that may be UNSET or None: where a value is empty it is None, and no longer "not given"."""

    def __init__(self, fix: Fixer | None) -> None:
        self._fix = fix

    def __call__(self, value: object) -> object:
        fixed = value if self._fix is None or value is None else self._fix(value)
        # A form says an empty dictionary by empty values in it.
        return None if fixed is _ABSENT or fixed == {} else fixed


def _field_fixer(field: inspect.Field) -> Fixer | None:
    fix = _fixer(field.type)
    # msgspec says of a default that is UNSET that there is none, though the field is not required.
    unset = not field.required and field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    return _Clearable(fix) if unset and _may_be_none(field.type) else fix


def _may_be_none(info: inspect.Type) -> bool:
    return isinstance(info, inspect.UnionType) and any(isinstance(kind, inspect.NoneType) for kind in info.types)


def _fixer(info: inspect.Type) -> Fixer | None:
    if isinstance(info, inspect.Metadata):
        return _fixer(info.type)
    if isinstance(info, inspect.UnionType):
        some = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
        return _fixer(some[0]) if len(some) == 1 else None
    if isinstance(info, _COLLECTIONS):
        fix = _list_fixer(_fixer(info.item_type))
        return _unless_undefined(fix) if isinstance(info.item_type, inspect.StructType) else fix
    if isinstance(info, inspect.StructType):
        return _unless_undefined(_struct_fixer(_fixers(info.cls)))
    if isinstance(info, inspect.StrType):
        return _fix_text
    if isinstance(info, inspect.BoolType):
        return _fix_bool
    if isinstance(info, inspect.FloatType):
        return _fix_float
    return None if isinstance(info, inspect.DictType) else _fix_blank


def _unless_undefined(fix: Fixer) -> Fixer:
    return lambda value: _ABSENT if isinstance(value, str) and value in _UNDEFINED else fix(value)


def _struct_fixer(fixers: Mapping[str, Fixer | None]) -> Fixer:
    def fix(value: Any) -> object:
        if isinstance(value, dict):
            return _fix_fields(value, fixers)
        return _ABSENT if value == "" else value

    return fix


def _list_fixer(fix_item: Fixer | None) -> Fixer:
    def fix(value: Any) -> object:
        items = _items(value)
        # `a[]=` is how a form says the empty list.
        given = [item for item in items if item is not None and item != ""]
        if fix_item is None:
            return given
        return [item for item in map(fix_item, given) if item is not _ABSENT]

    return fix


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and value and all(key.isdecimal() and len(key) < 10 for key in value):
        return [value[key] for key in sorted(value, key=int)]
    return [value]


def _fix_text(value: Any) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and "\0" in value:
        raise _HasNul
    return value


_FALSE = frozenset({"0", "f", "false", "off"})
"""How false is written, in any case, as Rails has it: but `False`, which is true there, is never meant so by Python's clients."""


def _fix_bool(value: Any) -> object:
    if isinstance(value, str):
        return _ABSENT if value == "" else value.lower() not in _FALSE
    return bool(value) if isinstance(value, int | float) else value


def _fix_float(value: Any) -> object:
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return _fix_blank(value)
        # Comparisons let a NaN pass any maximum, so it must not get as far as that; text is refused in words.
        return number if math.isfinite(number) else "not finite"
    return value


def _fix_blank(value: Any) -> object:
    return _ABSENT if value == "" else value


def _decode(kind: type[Any], value: Any) -> object:
    """msgspec's hook for the types of this module."""
    if kind is Id:
        number = _integer(value)
        if number is None or abs(number) > MAX_ID:
            raise NotFound("Record not found")
        return number
    if kind in (CursorId, Limit):
        return min(max(_integer(value) or 0, 0), MAX_ID)
    if kind is Upload and isinstance(value, str):
        return _inline_file(value)
    return Json(_decoded_json(value)) if kind is Json else value


def _inline_file(text: str) -> object:
    """A file as a `data:` URL in Base64 (RFC 2397), which is how JSON brings one; any other text stays what it is."""
    head, comma, body = text.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return text
    try:
        return Upload("", _Inline(base64.b64decode(body, validate=True)))
    except binascii.Error:
        raise InvalidInput("a field that takes a file has a text that is not Base64") from None


def _decoded_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidInput("a field that takes JSON has a text that is not JSON") from None


def _integer(value: Any) -> int | None:
    """The number in at most 40 digits of ASCII (int() itself also takes blanks, underscores and other scripts)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 40 and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    return None
