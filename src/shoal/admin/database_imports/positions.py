"""Positions in the order of the rows of a section: values of a database as texts with their types, so that they can be stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID


def pack(values: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    """Return values of a database as texts with their types, so that they can be stored and used in a query later."""
    return tuple(_packed(value) for value in values)


def _packed(value: Any) -> tuple[str, str]:
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value).hex()
    if isinstance(value, datetime | date):
        return type(value).__name__, value.isoformat()
    if isinstance(value, bool | int):
        return "int", str(int(value))
    for type_ in (float, Decimal, UUID):
        if isinstance(value, type_):
            return type_.__name__, repr(value) if type_ is float else str(value)
    return "str", str(value)


def is_future(value: Any) -> bool:
    """Return whether a time is later than tomorrow: the zone of a time without an offset is unknown."""
    if not isinstance(value, date):
        return False
    limit = datetime.now(UTC) + timedelta(days=1)
    if not isinstance(value, datetime):
        return value > limit.date()
    return value > (limit if value.tzinfo else limit.replace(tzinfo=None))


def is_before(first: Any, second: Any) -> bool:
    try:
        return bool(first < second)
    except TypeError:
        # The type of the column has changed.
        return False


_UNPACK: dict[str, Any] = {
    "bytes": bytes.fromhex,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "UUID": UUID,
    "str": str,
}


def unpack(packed: Sequence[Sequence[str]]) -> list[Any]:
    """Return the values of `pack`."""
    return [_UNPACK[type_](text) for type_, text in packed]
