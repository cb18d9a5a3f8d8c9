"""JSON documents, typed records, dates and follow lists of archives.

Documents are read one item at a time, so that a list of a hundred thousand posts takes the memory of one post. Networks
and their forks write values differently: null for an empty text, a value for a list of one item, a list for a single
value. Such values are converted. A part of a record that cannot be converted is dropped and counted, and the rest of
the record is kept. Dates are Unix milliseconds.
"""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import ijson
import msgspec
from msgspec import inspect

from shoal.admin.archives.entries import Entries, Readable
from shoal.admin.archives.records import Omission, SkippedRecord
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.handles import MAX_ARCHIVE_BYTES, FollowList, read_archive

T = TypeVar("T")


class Fitted(NamedTuple, Generic[T]):
    """A record converted to a type. Values that do not fit the type are missing."""

    value: T | None
    """The record; None if a required field is missing."""
    dropped: int = 0
    """Number of fields and list items that did not fit and were dropped."""


class _Odd(Exception):
    pass


def fitted(value: Any, type_: type[T]) -> Fitted[T]:
    """Convert a value to a `msgspec` type. Optional fields and list items that do not fit the type are dropped."""
    try:
        return Fitted(msgspec.convert(value, type_, strict=False))
    except (msgspec.ValidationError, RecursionError):
        pass
    fitting = _Fitting()
    try:
        return Fitted(fitting.fit(value, _type(type_)), fitting.dropped)  # type: ignore[arg-type]  # types are hashable
    except (_Odd, RecursionError):
        return Fitted(None)


_type = cache(inspect.type_info)


class _Fitting:
    def __init__(self) -> None:
        self.dropped = 0

    def fit(self, value: Any, expected: inspect.Type) -> Any:
        """Convert a value. Raises `_Odd` if it does not fit, even after optional fields and list items were dropped."""
        match expected:
            case inspect.UnionType():
                return self._first(value, expected)
            case inspect.ListType():
                return self._list(value, expected.item_type)
        if (
            isinstance(value, list)
            and len(value) == 1
            and not isinstance(expected, inspect.TupleType | inspect.AnyType)
        ):
            value = value[0]
        match expected:
            case inspect.StructType():
                return self._struct(value, expected)
            case inspect.DictType():
                return self._dict(value, expected)
            case inspect.StrType() if isinstance(value, int) and not isinstance(value, bool):
                return str(value)
            case inspect.FloatType() if not _is_finite(value):
                raise _Odd
        try:
            return msgspec.convert(value, _python(expected), strict=False)
        except (msgspec.ValidationError, OverflowError) as error:
            raise _Odd from error

    def _first(self, value: Any, expected: inspect.UnionType) -> Any:
        if value is None and expected.includes_none:
            return None
        for type_ in expected.types:
            if isinstance(type_, inspect.NoneType):
                continue
            dropped = self.dropped
            try:
                return self.fit(value, type_)
            except _Odd:
                self.dropped = dropped
        raise _Odd

    def _list(self, value: Any, item: inspect.Type) -> list[Any]:
        if not isinstance(value, list):
            return [self.fit(value, item)]
        found = []
        for element in value:
            try:
                found.append(self.fit(element, item))
            except _Odd:
                self.dropped += 1
        return found

    def _dict(self, value: Any, expected: inspect.DictType) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _Odd
        found = {}
        for key, element in value.items():
            try:
                found[self.fit(key, expected.key_type)] = self.fit(element, expected.value_type)
            except _Odd:
                self.dropped += 1
        return found

    def _struct(self, value: Any, expected: inspect.StructType) -> Any:
        if not isinstance(value, dict):
            raise _Odd
        given = {}
        for field in expected.fields:
            if field.encode_name not in value:
                continue
            part = value[field.encode_name]
            try:
                given[field.name] = self.fit(part, field.type)
            except _Odd:
                # A null is an absent value, so it does not count as dropped.
                self.dropped += part is not None and not field.required
        try:
            return expected.cls(**given)
        except TypeError as error:
            raise _Odd from error


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


_LEAVES: Mapping[type[inspect.Type], Any] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.BytesType: bytes,
}


def _python(expected: inspect.Type) -> Any:
    if isinstance(expected, inspect.TupleType):
        return tuple[tuple(map(_python, expected.item_types))]  # type: ignore[misc]  # made at run time
    return expected.cls if isinstance(expected, inspect.EnumType) else _LEAVES.get(type(expected), Any)


_X_FORM = "%a %b %d %H:%M:%S %z %Y"


def iso_moment(text: str) -> int:
    """Return the time of an ISO 8601 date, which is in UTC unless it has an offset; 0 if it is invalid."""
    try:
        found = datetime.fromisoformat(text.upper())
        return _milliseconds(found if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return 0


def x_moment(text: str) -> int:
    """Return the time of a date in the format of X (`Wed Oct 10 20:19:24 +0000 2018`); 0 if it is invalid."""
    try:
        return _milliseconds(datetime.strptime(text, _X_FORM))  # noqa: DTZ007  # the form has %z
    except (ValueError, OverflowError):
        return 0


def _milliseconds(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000


def document(entries: Entries, name: str, most_bytes: int, type: type[T]) -> T | None:  # noqa: A002 (as in msgspec)
    """Decode a short JSON document as a record; None if it is not JSON, or lacks a required field."""
    try:
        found = msgspec.json.decode(entries.read(name, most_bytes).removeprefix(BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return fitted(found, type).value


MAX_ITEM = 4 << 20
"""Maximum bytes of an item of a list, and maximum bytes between two items."""
MAX_DEPTH = 64
"""Maximum nesting depth. An item that is nested more deeply is malformed."""
_MAX_PREFIX = 200
_PIECE = 1 << 16
_LONG_NUMBER = re.compile(rb"(?<![0-9])([0-9]{2000})[0-9]++")
_OPENS = frozenset({"start_map", "start_array"})
_CLOSES = frozenset({"end_map", "end_array"})
_MALFORMED: Final = object()
"""Yielded for an item that is nested too deeply, and for a document without the list."""


def items(file: Readable, name: str, type: type[T], *, inner: str = "") -> Iterator[Fitted[T]]:  # noqa: A002 (as in msgspec)
    """Iterate over the items of the list `name` in a document. If `name` is empty, the document itself is the list.

    If the document has another value in place of the list, this value is the only item. The exception is a map with numeric
    keys, as PHP writes a list with gaps: its values are the items. A document without the list yields one malformed item. If an
    item is a map with the key `inner`, the value of that key is yielded instead.

    Raises `InvalidInput` for a file that is not JSON, and `TooLarge` for an item of more than 4 MiB.
    """
    for value in _values(file, name):
        part = value.get(inner, value) if inner and isinstance(value, dict) else value
        yield fitted(part, type)


def count(file: Readable, name: str) -> int:
    """Return the number of items of the list `name` in a document. If `name` is empty, the document itself is the list.

    Raises `InvalidInput` for a file that is not JSON, and `TooLarge` for an item of more than 4 MiB.
    """
    return sum(value is not _MALFORMED for value in _values(file, name))


def behind_name(file: Readable) -> Readable:
    """Return the JSON in a script of an X archive. The script assigns it to a name: `window.YTD.tweets.part0 = [...]`."""
    head = file.read(_MAX_PREFIX).removeprefix(BOM_UTF8)
    _, equals, rest = head.partition(b"=")
    return _Rest(rest if equals and head.lstrip().startswith(b"window.") else head, file)


def _values(file: Readable, name: str) -> Iterator[Any]:
    metered = _Metered(file)
    found = _List(name)
    try:
        # Do not use the parser's option `use_float`: it would refuse a document with an integer of more than 64 bits.
        for event, value in ijson.basic_parse(metered, buf_size=_PIECE):
            if found.add(event, _number(value) if event == "number" else value):
                metered.since = 0
                yield found.take()
    except (ijson.JSONError, UnicodeDecodeError, ArithmeticError) as error:
        raise InvalidInput("file: a document in this archive is damaged: it is not JSON", field="file") from error
    if not found.found:
        yield _MALFORMED


def _number(value: int | Decimal) -> int | float | str:
    """Return a number from JSON. A number that `msgspec` cannot represent is returned as text."""
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 64 else str(value)
    number = float(value)
    return number if math.isfinite(number) else str(value)


class _List:
    """Assembles the items of a JSON list from the events of the JSON parser."""

    def __init__(self, name: str) -> None:
        self.found = False
        self._name = name
        self._depth = 0
        self._expected = not name
        # Nesting depth of the items while the parser is inside the list `name`; otherwise -1. If the document has a
        # single value instead of the list, this value is the only item.
        self._level = -1
        self._single = self._first_key = False
        self._builder: ijson.ObjectBuilder | None = None
        self._too_deep = False

    def add(self, event: str, value: Any) -> bool:
        """Process one event of the JSON parser. Return whether it completes an item of the list."""
        self._depth -= event in _CLOSES
        if self._builder is None:
            self._begin(event)
        elif self._first_key and event == "map_key" and value.isdecimal():
            # The value is a map instead of a list: the values of the map are the items.
            self._builder, self._level, self._single = None, self._depth, False
        self._first_key = self._single and event == "start_map" and self._depth == self._level
        self._expected = self._level < 0 and event == "map_key" and value == self._name
        if self._builder is not None and not self._too_deep:
            self._builder.event(event, value)
        if event in _OPENS:
            self._open()
        return self._builder is not None and self._depth == self._level

    def take(self) -> Any:
        value = self._builder.value if self._builder is not None and not self._too_deep else _MALFORMED
        self._builder, self._too_deep = None, False
        if self._single:
            self._level, self._single = -1, False
        return value

    def _begin(self, event: str) -> None:
        if self._level >= 0:
            if self._depth < self._level:
                self._level = -1
            elif event != "map_key":
                self._builder = ijson.ObjectBuilder()
        elif self._expected:
            self.found = True
            if event == "start_array":
                self._level = self._depth + 1
            else:
                self._builder, self._level, self._single = ijson.ObjectBuilder(), self._depth, True

    def _open(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            if self._builder is None:
                raise TooLarge(f"file: a document may have at most {MAX_DEPTH} levels of nesting", field="file")
            self._too_deep = True


class _Metered:
    """A file with two limits: on the bytes between two items, and on the digits of a number (4,000).

    A longer number would crash the JSON parser, because Python does not convert longer integers.
    """

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.since = 0
        self._begun = self._in_number = False

    def read(self, size: int = -1, /) -> bytes:
        data = self._read(size)
        while self._in_number and data.isdigit():
            data = self._read(size)
        if not self._begun and data:
            self._begun, data = True, data.removeprefix(BOM_UTF8)
        self._in_number = data[-1:].isdigit()
        return _LONG_NUMBER.sub(rb"\1", data)

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.since += len(data)
        if self.since > MAX_ITEM + _PIECE:
            raise TooLarge(f"file: an item in a document may have at most {MAX_ITEM} bytes", field="file")
        return data


class _Rest:
    def __init__(self, head: bytes, file: Readable) -> None:
        self._head = head
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        # `ijson` first reads zero bytes to find out whether the file returns bytes or text.
        if not size:
            return b""
        head, self._head = self._head, b""
        return head or self._file.read(size)


_NO_FOLLOWS = FollowList((), 0)


def follow_list(entries: Entries, name: str) -> FollowList | SkippedRecord:
    """Return the accounts in the follow list `name`. If the file is damaged or too large, return a skipped record.

    A list of an unknown format counts as empty.
    """
    try:
        data = entries.read(name, MAX_ARCHIVE_BYTES)
    except TooLarge:
        return SkippedRecord("follows", name, Omission.TOO_MANY)
    except InvalidInput:
        return SkippedRecord("follows", name, Omission.MALFORMED)
    try:
        return read_archive(data)
    except TooLarge:
        return SkippedRecord("follows", name, Omission.TOO_MANY)
    except InvalidInput:
        return _NO_FOLLOWS
