"""Records of archives as types: a part of another form costs that part, and not the record.

Networks and their relatives differ in what they write: a null for an empty text, one value for a list of one, a list for one value.
Such values are converted; a part that cannot be is dropped and counted.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")


class Fitted(NamedTuple, Generic[T]):
    """A record as a type."""

    value: T | None
    """None for a value that lacks what the type requires."""
    dropped: int = 0
    """Parts that were dropped."""


class _Odd(Exception):
    """A value of another form."""


def fitted(value: Any, type_: type[T]) -> Fitted[T]:
    """Return a value as a type of `msgspec`, without the parts that are of another form."""
    try:
        return Fitted(msgspec.convert(value, type_, strict=False))
    except (msgspec.ValidationError, RecursionError):
        pass
    fitting = _Fitting()
    try:
        return Fitted(fitting.fit(value, _type(type_)), fitting.dropped)  # type: ignore[arg-type]  # types are hashable
    except (_Odd, RecursionError):
        return Fitted(None)


@cache
def _type(type_: type[Any]) -> inspect.Type:
    return inspect.type_info(type_)


class _Fitting:
    """One conversion."""

    def __init__(self) -> None:
        self.dropped = 0

    def fit(self, value: Any, wanted: inspect.Type) -> Any:
        """Return a value as a type. Raises `_Odd` if it is of another form, even without its odd parts."""
        match wanted:
            case inspect.UnionType():
                return self._first(value, wanted)
            case inspect.ListType():
                return self._list(value, wanted.item_type)
        if isinstance(value, list) and len(value) == 1 and not isinstance(wanted, inspect.TupleType | inspect.AnyType):
            value = value[0]
        match wanted:
            case inspect.StructType():
                return self._struct(value, wanted)
            case inspect.DictType():
                return self._dict(value, wanted)
            case inspect.StrType() if isinstance(value, int) and not isinstance(value, bool):
                return str(value)
            case inspect.FloatType() if not _is_finite(value):
                raise _Odd
        try:
            return msgspec.convert(value, _python(wanted), strict=False)
        except (msgspec.ValidationError, OverflowError) as error:
            raise _Odd from error

    def _first(self, value: Any, wanted: inspect.UnionType) -> Any:
        if value is None and wanted.includes_none:
            return None
        for type_ in wanted.types:
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
        for one in value:
            try:
                found.append(self.fit(one, item))
            except _Odd:
                self.dropped += 1
        return found

    def _dict(self, value: Any, wanted: inspect.DictType) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _Odd
        found = {}
        for key, one in value.items():
            try:
                found[self.fit(key, wanted.key_type)] = self.fit(one, wanted.value_type)
            except _Odd:
                self.dropped += 1
        return found

    def _struct(self, value: Any, wanted: inspect.StructType) -> Any:
        if not isinstance(value, dict):
            raise _Odd
        given = {}
        for field in wanted.fields:
            if field.encode_name not in value:
                continue
            part = value[field.encode_name]
            try:
                given[field.name] = self.fit(part, field.type)
            except _Odd:
                # A null stands for nothing.
                self.dropped += part is not None and not field.required
        try:
            return wanted.cls(**given)
        except TypeError as error:
            raise _Odd from error


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _python(wanted: inspect.Type) -> Any:
    """Return the Python type that a leaf stands for."""
    match wanted:
        case inspect.StrType():
            return str
        case inspect.IntType():
            return int
        case inspect.FloatType():
            return float
        case inspect.BoolType():
            return bool
        case inspect.BytesType():
            return bytes
        case inspect.TupleType():
            return tuple[tuple(map(_python, wanted.item_types))]  # type: ignore[misc]  # made at run time
        case inspect.EnumType():
            return wanted.cls
        case _:
            return Any
