"""The items of the tag cloud in the DynamoDB table of the graph: their keys and attributes. docs/data-layout.md lists them.

Numbers in keys are as in `graph.dynamodb.items`. Tags are in parts by ranges of their ids, which are made of digests: so the
parts are even, and in sequence they are in scan order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from shoal.graph.dynamodb.items import Item, ItemKey, Spot, Value, digits, item_of, number_of, typed
from shoal.tagcloud.contract import AuthorKey, TagRow, TagRule

STATE = ItemKey("tags", "state")
LOCK = ItemKey("tags", "lock")
RULES = (ItemKey("tags", "rule#"), ItemKey("tags", "rule#\U0010ffff"))
PIECE = 250_000
"""Maximum bytes of a value in an item; larger values are split into pieces."""

_encoder = msgspec.msgpack.Encoder()
_NUMBERS = ("version", "at", "complete_to", "before_day")
_row_decoder = msgspec.msgpack.Decoder(TagRow)


class State(msgspec.Struct, frozen=True, array_like=True):
    """The newest version of the tag cloud, without its data. `days` have stored author counts, and may be expired."""

    version: int = 0
    at: int = 0
    complete_to: int = 0
    before_day: int = 0
    days: tuple[int, ...] = ()


class StoredVersion(NamedTuple):
    """The newest version of the tag cloud.

    While the next version is being written, `next` is the state of that version, and `intent` the id of its stored changes.
    """

    state: State
    intent: str = ""
    next: State | None = None


class ItemChange(msgspec.Struct, frozen=True, array_like=True):
    """The new state of an item. If `values` is None, the item is deleted."""

    id: str
    sort: str
    values: dict[str, Any] | None = None
    spot: tuple[str, str] | None = None

    @property
    def address(self) -> ItemKey:
        return ItemKey(self.id, self.sort)

    def item(self) -> Item:
        return item_of(self.address, self.values or {}, Spot(*self.spot) if self.spot else None)


def change(address: ItemKey, values: Mapping[str, Value] | None, spot: Spot | None = None) -> ItemChange:
    return ItemChange(address.id, address.sort, dict(values) if values is not None else None, spot)


def state_item(stored: StoredVersion) -> Item:
    *numbers, days = msgspec.structs.astuple(stored.state)
    values: dict[str, Value] = {**dict(zip(_NUMBERS, numbers, strict=True)), "days": _encoder.encode(days)}
    if stored.next is not None:
        values |= {"intent": stored.intent, "next": _encoder.encode(stored.next)}
    return item_of(STATE, values)


def stored_in(items: Iterable[Item]) -> StoredVersion:
    for item in items:
        version, at, complete_to, before_day = (typed(item, name) for name in _NUMBERS)
        days = msgspec.msgpack.decode(typed(item, "days"), type=tuple[int, ...])
        state = State(version, at, complete_to, before_day, days)
        if "intent" in item:
            return StoredVersion(state, typed(item, "intent"), msgspec.msgpack.decode(typed(item, "next"), type=State))
        return StoredVersion(state)
    return StoredVersion(State())


# Large values


def pieces(data: bytes) -> list[bytes]:
    return [data[start : start + PIECE] for start in range(0, max(1, len(data)), PIECE)]


def piece_at(id_: str, before: str, number: int) -> ItemKey:
    return ItemKey(id_, f"{before}#{number:04d}")


def put_together(items: Iterable[Item]) -> dict[str, bytes]:
    """Put large values together from their pieces, which are stored in one item each. The items must be sorted.

    The key of a value in the result is the sort key of its items without the number of the piece. A value is left out if one of its
    pieces is missing.
    """
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item["sort"]["S"].rpartition("#")[0], []).append(item)
    return {
        name: b"".join(typed(part, "data") for part in parts)
        for name, parts in found.items()
        if len(parts) == typed(parts[0], "of")
    }


def whole(id_: str, before: str, data: bytes, **more: Value) -> list[ItemChange]:
    cut = pieces(data)
    return [
        change(piece_at(id_, before, number), {"data": part, "of": len(cut), **more}) for number, part in enumerate(cut)
    ]


# Rows, authors, rules


def part_of(id_: int, spread: int) -> int:
    """Return the index partition of a tag. Each of the `spread` partitions holds a range of tag ids."""
    return min(spread - 1, ((id_ + 2**63) * spread) >> 63)


def row_at(id_: int, spread: int) -> ItemKey:
    return ItemKey(f"tag#{part_of(id_, spread)}", digits(id_))


def row_change(row: TagRow, spread: int) -> ItemChange:
    return change(row_at(row.id, spread), None if row.blank else {"data": _encoder.encode(row)})


def row_in(item: Item) -> TagRow:
    return _row_decoder.decode(typed(item, "data"))


def day_at(tag: int, day: int, spread: int) -> str:
    return f"tagday#{day}#{part_of(tag, spread)}"


def author_at(key: AuthorKey, spread: int) -> ItemKey:
    tag, day, member = key
    return ItemKey(day_at(tag, day, spread), f"{digits(tag)}#{digits(member)}")


def author_in(item: Item) -> tuple[AuthorKey, int]:
    tag, member = item["sort"]["S"].split("#")
    return (number_of(tag), int(item["ID"]["S"].split("#")[1]), number_of(member)), typed(item, "n")


def rule_at(name: str) -> ItemKey:
    return ItemKey("tags", f"rule#{name}")


def rule_in(item: Item) -> TagRule:
    return TagRule(item["sort"]["S"].removeprefix("rule#"), item["denied"]["BOOL"], typed(item, "target"))


# Increments


def done_at(id_: bytes) -> ItemKey:
    return ItemKey(f"tagdone#{id_.hex()}", "done")


def inbox_at(id_: bytes, piece: int = 0) -> ItemKey:
    return piece_at(f"taginbox#{id_.hex()}", "body", piece)


def increment_spot(kind: str, id_: bytes, at: int, spread: int) -> Spot:
    """Return the index key of an increment: `tagdone` by its merge (Unix ms), or `taginbox` by its arrival (Unix ns)."""
    part = (id_[0] if id_ else 0) % spread
    return Spot(f"{kind}#{part}", f"{digits(at)}#{id_.hex()}")


def increment_of(item: Item) -> bytes:
    return bytes.fromhex(item["ID"]["S"].partition("#")[2])
