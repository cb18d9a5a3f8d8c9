"""Filters of events: conditions on fields of their data, such as `author_id=123,tags=dawn,tags=dusk`.

A filter selects an event if each of its fields has one of the values given for it. A deletion, whose data have none of the fields,
is selected: the receiver needs it to remove its copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Final

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.text import canonical_tag
from shoal.queries.event_data import RemovedData
from shoal.queries.events import TYPES, Access, Event, types_of

MAX_FILTER: Final = 1_000
"""Maximum characters of a filter."""
_MAX_CONDITIONS = 20
_ID = re.compile(r"-?\d{1,19}")


class _Field:
    """A field that can be compared: a text, a truth value, one of a few names, or a list of texts."""

    def __init__(self, field: msgspec.inspect.Field) -> None:
        parts = field.type.types if isinstance(field.type, msgspec.inspect.UnionType) else (field.type,)
        kind = next(part for part in parts if not isinstance(part, msgspec.inspect.NoneType))
        is_list = isinstance(kind, msgspec.inspect.ListType)
        item = kind.item_type if isinstance(kind, msgspec.inspect.ListType) else kind
        self.name = field.name
        self.is_private = not field.required
        """Whether the field is present only with access to accounts."""
        self.allowed: tuple[str, ...] = ()
        """All of the values; empty if any text is."""
        if isinstance(item, msgspec.inspect.BoolType):
            self.allowed = ("true", "false")
        elif isinstance(item, msgspec.inspect.EnumType):
            self.allowed = tuple(str(one.value) for one in item.cls)
        self.is_comparable = isinstance(item, msgspec.inspect.StrType) or (bool(self.allowed) and not is_list)
        self.is_id = field.name == "id" or field.name.endswith("_id")

    def canonical(self, value: str) -> str:
        """Return a value in the form of the data. An empty one selects data without a value. Raises `InvalidInput`."""
        if self.allowed and value not in self.allowed:
            raise InvalidInput(
                f"filter: {self.name} is one of {', '.join(self.allowed)} (got {value[:80]!r})", field="filter"
            )
        if self.is_id and value and not _ID.fullmatch(value):
            raise InvalidInput(f"filter: {self.name} is a number (got {value[:80]!r})", field="filter")
        if self.name != "tags" or not value:
            return value
        tag = canonical_tag(value.removeprefix("#"))
        if not tag or "," in tag:
            raise InvalidInput(f"filter: {value[:80]!r} is not a tag", field="filter")
        return tag


@cache
def _fields(data: type[msgspec.Struct]) -> Mapping[str, _Field]:
    """Return the fields of the data of a type of events that can be compared."""
    info = msgspec.inspect.type_info(data)
    assert isinstance(info, msgspec.inspect.StructType)  # noqa: S101  # the data are structs
    return {field.name: field for field in map(_Field, info.fields) if field.is_comparable}


def checked_filter(text: str, types: str, access: Access) -> str:
    """Return a filter of events of these `types` (see `types_of`), with its values in the form of the data.

    Raises `InvalidInput` if a field is missing in one of the types, a value is impossible, or there are more than 20 conditions.
    """
    if len(text) > MAX_FILTER:
        raise InvalidInput(f"filter: at most {MAX_FILTER} characters (got {len(text)})", field="filter")
    parts = [part for part in map(str.strip, text.split(",")) if part]
    if len(parts) > _MAX_CONDITIONS:
        raise InvalidInput(f"filter: at most {_MAX_CONDITIONS} conditions (got {len(parts)})", field="filter")
    chosen = {name: TYPES[name].data for name in sorted(types_of(types, access)) if TYPES[name].data is not RemovedData}
    if parts and not chosen:
        raise InvalidInput("filter: deletions have no fields to compare", field="filter")
    conditions: dict[str, None] = {}
    for part in parts:
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InvalidInput(
                f"filter: expected conditions such as author_id=123, separated by commas (got {part[:80]!r})",
                field="filter",
            )
        found: _Field | None = None
        for type_, data in chosen.items():
            found = _fields(data).get(name)
            if found is None:
                known = ", ".join(_fields(data))
                raise InvalidInput(f"filter: {type_} has no field {name[:80]!r}; it has {known}", field="filter")
        assert found is not None  # noqa: S101  # there are types
        if found.is_private and not access.accounts:
            raise InvalidInput(f"filter: {name} is private data: allow private data", field="filter")
        conditions[f"{name}={found.canonical(value)}"] = None
    return ",".join(conditions)


@lru_cache(256)
def selector(text: str) -> Callable[[Event], bool]:
    """Return the function that tells which events a filter selects, which `checked_filter` returned."""
    conditions: dict[str, set[str]] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        conditions.setdefault(name, set()).add(value)

    def selects(event: Event) -> bool:
        return all(
            not values.isdisjoint(_texts(getattr(event.data, name)))
            for name, values in conditions.items()
            if hasattr(event.data, name)
        )

    return selects


def _texts(value: Any) -> Iterable[str]:
    if value is None or value == []:
        return ("",)
    if isinstance(value, bool):
        return ("true",) if value else ("false",)
    if isinstance(value, Enum):
        return (str(value.value),)
    return value if isinstance(value, list) else (value,)
