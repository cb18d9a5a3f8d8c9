"""The items of the one DynamoDB table: their keys, attributes, and keys in the index. docs/data-layout.md lists them.

The table's keys are `ID` and `sort`; all items of an object have its id. The one index, `ordered`, serves several purposes: its
keys are the attributes `part` (the partition) and `place` (the position in the partition), and an item without these is not in it.
The index holds only keys, so a change that does not move an item costs nothing there. It is eventually consistent: no read for a
member uses it, only scans, sweeps, and candidates for claims, each of which is looked up again in the table.

Numbers in keys are 16 hexadecimal digits, offset by 2**63 so that text order is number order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import md5
from typing import Any, NamedTuple

from shoal.core import events
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Node
from shoal.graph.contract import Assoc, AssocRow, Job
from shoal.graph.resolve import KeyName, StoredAssoc, Triple
from shoal.graph.schema import (
    ASSOC_TYPES,
    MEMBER_COUNTS,
    POST_COUNTS,
    RESTRICTED_COMMENTED_BY,
    VIEWER_LISTS,
    WITH_HISTORY,
    AnyNode,
    AssocType,
    decode_node,
    encode_node,
)

Item = Mapping[str, Any]
"""An item in the format of the service: `{"ID": {"S": "7"}, ...}`."""
Value = int | str | bytes | bool

LAYOUT_VERSION = 3
LOGGED_VERSION = 4
"""The version of a table with an event log. Code of version 3 would commit without writing to the log, so it must not open it."""
INDEX = "ordered"
END = "~"
"""A suffix: a prefix with it sorts after every key that begins with the prefix."""
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_TYPES = 999


class ItemKey(NamedTuple):
    id: str
    sort: str

    def item(self) -> dict[str, Any]:
        return {"ID": {"S": self.id}, "sort": {"S": self.sort}}


class Spot(NamedTuple):
    part: str
    place: str


class Pair(NamedTuple):
    """The identity of a list: the id of its object and the number of its association type."""

    id1: int
    atype: int


LAYOUT = ItemKey("layout", "layout")


def digits(number: int) -> str:
    """Format a number as text whose text order is the number order. Numbers outside 64 bits are clamped."""
    return f"{min(max(number, _LOWEST), _HIGHEST) + 2**63:016x}"


def number_of(text: str) -> int:
    return int(text, 16) - 2**63


def typed(item: Item, name: str) -> Any:
    ((kind, value),) = item[name].items()
    return int(value) if kind == "N" else value


def attribute(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    return {"S": value} if isinstance(value, str) else {"B": value}


def item_of(address: ItemKey, values: Mapping[str, Value], spot: Spot | None = None) -> Item:
    placed = {**values, "part": spot.part, "place": spot.place} if spot else values
    return address.item() | {name: attribute(value) for name, value in placed.items()}


def address_of(item: Item) -> ItemKey:
    return ItemKey(item["ID"]["S"], item["sort"]["S"])


# Objects


def object_at(id_: int) -> ItemKey:
    return ItemKey(str(id_), "object")


def object_spot(id_: int, spread: int) -> Spot:
    return Spot(f"object#{shard_of(id_) % spread}", digits(id_))


def object_item(node: Node, spread: int) -> Item:
    values: dict[str, Value] = {"version": node.version, "data": encode_node(node)}
    return item_of(object_at(node.id), values, object_spot(node.id, spread))


def node_of(item: Item) -> AnyNode:
    return decode_node(item["data"]["B"])


# Associations


def link_at(triple: Triple) -> ItemKey:
    return ItemKey(str(triple[0]), f"link#{triple[1]:03d}#{digits(triple[2])}")


def list_at(triple: Triple, time: int, *, alive: bool = True) -> ItemKey:
    """Return the key of the list entry of an association or, if not `alive`, of its entry in the list of tombstones."""
    return ItemKey(str(triple[0]), f"{_list(alive)}#{triple[1]:03d}#{digits(time)}#{digits(triple[2])}")


def _list(alive: bool) -> str:
    return "list" if alive else "ended"


def list_bounds(pair: Pair, after: int, before: int, *, alive: bool = True) -> tuple[ItemKey, ItemKey]:
    """Return the keys of the first and the last possible entry with `after < time < before`."""
    start = f"{_list(alive)}#{pair.atype:03d}#"
    return (
        ItemKey(str(pair.id1), f"{start}{digits(after)}#{END}"),
        ItemKey(str(pair.id1), f"{start}{digits(before - 1)}#{END}"),
    )


LINK_KINDS = ("link", "dead", "past")
"""Kinds of index partitions with associations: those that are not swept, and the tombstones of each of the two sweeps."""


def link_spot(triple: Triple, time: int, *, kind: str, spread: int) -> Spot:
    """Return the index partition that lists an association, one of the partitions of this `kind`, and its sort key there."""
    return Spot(f"{kind}#{shard_of(triple[0]) % spread}", f"{triple_text(triple)}#{digits(time)}")


def triple_text(triple: tuple[int, int, int]) -> str:
    """Format a triple `(id1, atype, id2)` as text that sorts in scan order.

    This text and the time are the index key of an association.
    """
    id1, atype, id2 = triple
    if atype < 0:
        return digits(id1)
    return f"{pair_text((id1, atype))}#{digits(id2)}"


def pair_text(pair: tuple[int, int]) -> str:
    id1, atype = pair
    return digits(id1) if atype < 0 else f"{digits(id1)}#{min(atype, _TYPES):03d}"


def link_item(triple: Triple, link: StoredAssoc, *, spread: int) -> Item:
    values: dict[str, Value] = {"time": link.time, "alive": link.alive, "data": link.data}
    kind = (
        "link" if link.alive or ASSOC_TYPES[triple[1]].positional else "past" if triple[1] in WITH_HISTORY else "dead"
    )
    return item_of(link_at(triple), values, link_spot(triple, link.time, kind=kind, spread=spread))


def triple_in(item: Item) -> Triple:
    address = address_of(item)
    _, atype, id2 = address.sort.split("#")
    return int(address.id), int(atype), number_of(id2)


def link_of(item: Item) -> StoredAssoc:
    return StoredAssoc(typed(item, "time"), item["alive"]["BOOL"], item["data"]["B"])


def time_in_index(item: Item) -> int:
    return number_of(item["place"]["S"].rpartition("#")[2])


def ended_entry_of(item: Item) -> ItemKey | None:
    """Return the key of the entry of a tombstone in the list of tombstones; None if its association type has no such list.

    `item` is the tombstone's item in the index.
    """
    triple = triple_in(item)
    return list_at(triple, time_in_index(item), alive=False) if ASSOC_TYPES[triple[1]].ended_listed else None


def row_of(item: Item) -> AssocRow:
    return AssocRow(*triple_in(item), *link_of(item))


def entry_of(item: Item) -> Assoc:
    _, _, time, id2 = item["sort"]["S"].split("#")
    return Assoc(number_of(id2), number_of(time), item["data"]["B"])


# Counts

COUNT_GROUPS: Mapping[str, Sequence[AssocType]] = {
    "post": (*POST_COUNTS, RESTRICTED_COMMENTED_BY),
    "profile": MEMBER_COUNTS,
    "viewer": VIEWER_LISTS,
}
"""Types whose counts share one item for each object, because pages read them together. A request reads at most 100 items.
A change of the groups needs a new layout version, except for types that no table contains.

Transactions that change one item conflict. The acts that change the counts of a post conflict anyway, because each requires that
the post exists. The likes and shares that a member receives are not in the group of their profile.
"""
_GROUP_OF = {atype.number: group for group, atypes in COUNT_GROUPS.items() for atype in atypes}


def count_at(pair: Pair) -> ItemKey:
    group = _GROUP_OF.get(pair.atype)
    return ItemKey(str(pair.id1), f"counts#{group}") if group else single_count_at(pair)


def single_count_at(pair: Pair) -> ItemKey:
    """Return the key of an item that stores a single count.

    In layouts 1 and 2, each count had such an item; now only the counts of types outside `COUNT_GROUPS` have one.
    """
    return ItemKey(str(pair.id1), f"count#{pair.atype:03d}")


def count_name(pair: Pair) -> str:
    return f"n{pair.atype:03d}" if pair.atype in _GROUP_OF else "n"


def count_spot(address: ItemKey, spread: int) -> Spot:
    id1 = int(address.id)
    return Spot(f"count#{shard_of(id1) % spread}", f"{digits(id1)}#{address.sort.partition('#')[2]}")


def counts_in(item: Item) -> Iterator[tuple[Pair, int]]:
    id1, (kind, _, name) = int(item["ID"]["S"]), item["sort"]["S"].partition("#")
    if kind == "count":
        yield Pair(id1, int(name)), typed(item, "n")
        return
    for attribute_name in sorted(item):
        if attribute_name[0] == "n" and attribute_name[1:].isdecimal():
            yield Pair(id1, int(attribute_name[1:])), typed(item, attribute_name)


@lru_cache(maxsize=1_024)
def counted_with(atypes: tuple[AssocType, ...]) -> tuple[AssocType, ...]:
    """Return these types and the types whose counts are stored in the same DynamoDB items."""
    groups = {_GROUP_OF.get(atype.number) for atype in atypes}
    grouped = [atype for group, several in COUNT_GROUPS.items() if group in groups for atype in several]
    return tuple(dict.fromkeys((*atypes, *grouped)))


# Keys


def key_at(name: KeyName) -> ItemKey:
    return ItemKey(f"key#{name[0]}#{name[1]}", "key")


def key_item(name: KeyName, owner: int, until: int, spread: int) -> Item:
    """Return the item of a unique key. A key with an expiry time (`until` is not 0) is also in the index, ordered by this time."""
    address = key_at(name)
    digest = md5(address.id.encode(), usedforsecurity=False).hexdigest()
    spot = Spot(f"until#{int(digest, 16) % spread}", f"{digits(until)}#{digest}") if until > 0 else None
    return item_of(address, {"owner": owner, "until": until}, spot)


def holding_of(item: Item) -> tuple[int, int]:
    return typed(item, "owner"), typed(item, "until")


# Events


def outbox_at(part: int) -> str:
    return f"outbox#{part}"


def event_at(seq: int, spread: int) -> ItemKey:
    return ItemKey(outbox_at(_part_of(seq, spread)), digits(seq))


def _part_of(seq: int, spread: int) -> int:
    """Return the number of the index partition in which an event is listed.

    The sequence numbers of most events end in zeros, so the milliseconds are added to distribute the events.
    """
    return (seq + milliseconds_of(seq)) % spread


def new_spot(seq: int, spread: int) -> Spot:
    return Spot(f"new#{_part_of(seq, spread)}", digits(seq))


def out_spot(seq: int, due: int, spread: int) -> Spot:
    """Return the index keys of an event that is claimed or was put back, and cannot be claimed before `due` (Unix ms)."""
    return Spot(f"out#{_part_of(seq, spread)}", f"{digits(due)}#{digits(seq)}")


def parked_at(seq: int) -> ItemKey:
    return ItemKey("buried", digits(seq))


def job_values(job: Job) -> dict[str, Value]:
    return {"event": events.encode(job.event), "step": job.step, "mark": job.mark, "attempt": job.attempt}


def job_of(item: Item) -> Job:
    step, mark, attempt = (typed(item, name) for name in ("step", "mark", "attempt"))
    return Job(number_of(item["sort"]["S"]), events.decode(item["event"]["B"]), step, mark, attempt)


# The event log

CHUNK_ENTRIES = 16
"""Entries of a full chunk of the event log. An entry takes about 45 bytes, so most chunks have at most the 1 KB of a write unit."""
_LAST_CHUNK = 2**62


class Chunk(NamedTuple):
    """A chunk of the event log, an item with `n` entries of one lane. `log` is the stored number of the log."""

    log: int
    lane: int
    number: int
    n: int = 0

    @property
    def address(self) -> ItemKey:
        return ItemKey(f"log#{self.log:x}#{self.lane}", digits(self.number))

    @property
    def is_full(self) -> bool:
        return self.n >= CHUNK_ENTRIES

    @property
    def following(self) -> Chunk:
        return Chunk(self.log, self.lane, self.number + 1)


def lane_bounds(log: int, lane: int, first: int = 0) -> tuple[ItemKey, ItemKey]:
    """Return the keys of the chunk `first` and of the last possible chunk of a lane."""
    return Chunk(log, lane, first).address, Chunk(log, lane, _LAST_CHUNK).address


def chunk_of(item: Item) -> Chunk:
    address = address_of(item)
    _, log, lane = address.id.split("#")
    return Chunk(int(log, 16), int(lane), number_of(address.sort), typed(item, "n"))


def chunk_item(chunk: Chunk, *commits: bytes) -> Item:
    return {**item_of(chunk.address, {"n": chunk.n}), "entries": {"L": [attribute(commit) for commit in commits]}}
