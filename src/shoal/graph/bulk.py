"""Bulk reads and writes of whole rows: moving a network, importing into an empty one, and consistent snapshots for backups.

Rows are written unchanged, without bumping times, changing counts or deriving inverses, so no other process may write concurrently.
An import is stored in parts; a part must contain only new rows, and is refused as a whole if any of its rows exists. Snapshots of
several stores are consistent: commits are blocked in all stores (`hold`), then all snapshots are opened, and then commits resume.
No commit completes in any store while all are blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import Conflict
from shoal.core.ids import SEQUENCE_BITS, compose, shard_of
from shoal.core.model import Member, Post
from shoal.core.placement import SHARDS, place
from shoal.graph.contract import AssocRow
from shoal.graph.schema import AnyNode, backup_key, encode_node
from shoal.graph.shard_map import ShardMap

T = TypeVar("T")
K = TypeVar("K")

NAMED_BY_PLACE = frozenset({"user_name", "email", "external_id"})
"""Key spaces whose keys are on the shard of their name; any other key is on the shard of the object to which it leads."""

ASSOC_BYTES = 26
"""Bytes of an association without its data: two ids, a time and a type."""


def _mark(kind: type[Member | Post]) -> bytes:
    encode = msgspec.msgpack.encode
    config = kind.__struct_config__
    return encode(config.tag_field) + encode(config.tag)


MEMBER_MARK = _mark(Member)
"""The first bytes of an encoded member, after the number of its fields."""
POST_MARK = _mark(Post)


class KeyRow(NamedTuple):
    space: str
    name: str
    id: int
    until: int

    @property
    def shard(self) -> int:
        return place(self.name).shard if self.space in NAMED_BY_PLACE else shard_of(self.id)


class Rows(NamedTuple):
    """Rows to be stored. A row replaces a stored row that has the same primary key."""

    objects: Sequence[AnyNode] = ()
    assocs: Sequence[AssocRow] = ()
    counts: Sequence[tuple[int, int, int]] = ()
    keys: Sequence[KeyRow] = ()

    def by_store(self, store_of: Callable[[int], int]) -> dict[int, Rows]:
        objects = grouped(self.objects, lambda node: store_of(shard_of(node.id)))
        assocs = grouped(self.assocs, lambda row: store_of(shard_of(row.id1)))
        counts = grouped(self.counts, lambda row: store_of(shard_of(row[0])))
        keys = grouped(self.keys, lambda row: store_of(row.shard))
        return {
            at: Rows(objects.get(at, ()), assocs.get(at, ()), counts.get(at, ()), keys.get(at, ()))
            for at in {*objects, *assocs, *counts, *keys}
        }


def grouped(things: Iterable[T], by: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for thing in things:
        groups.setdefault(by(thing), []).append(thing)
    return groups


class Spread(NamedTuple):
    """The size of a part of a network. `bytes` counts objects and associations without indexes."""

    members: int = 0
    posts: int = 0
    bytes: int = 0

    def plus(self, other: Spread) -> Spread:
        return Spread(self.members + other.members, self.posts + other.posts, self.bytes + other.bytes)


@runtime_checkable
class Movable(Protocol):
    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        """Return the keys above `(space, name)` in code point order, including expired keys."""

    async def put_rows(self, rows: Rows) -> None:
        """Store rows unchanged, all or none. Only for moving a network."""

    async def remove_rows(self, rows: Rows) -> None:
        """Delete the rows with the primary keys of these rows, whatever their other columns. Only for moving a network."""


@runtime_checkable
class Spreading(Protocol):
    """A store that can report the size of its shards without returning their rows."""

    async def spread(self) -> dict[int, Spread]:
        """Return the members, posts and bytes of each shard; empty shards may be missing."""


def weigh(node: AnyNode) -> Spread:
    return Spread(isinstance(node, Member), isinstance(node, Post), len(encode_node(node)))


Table = NDArray[np.int64]
ObjectRow = tuple[int, int, bytes]
"""Id, version, and the object as `encode_node` returns it."""

NO_LINKS: Table = np.empty((0, 4), np.int64)
NO_COUNTS: Table = np.empty((0, 3), np.int64)


class Occupied(Conflict):
    """A row of an import chunk already exists. Nothing was stored."""


class LoadPart(NamedTuple):
    """A chunk of an import: rows that are stored in one transaction, each kind sorted by its primary key."""

    objects: Sequence[ObjectRow] = ()
    keys: Sequence[KeyRow] = ()
    links: Table = NO_LINKS
    """Live associations without data, as id1, type, id2, time. None of their lists is ordered by id (`sql.BY_ID`)."""
    counts: Table = NO_COUNTS
    """Lengths of complete lists, as id1, type, length."""

    def by_store(self, owners: NDArray[np.int64]) -> dict[int, LoadPart]:
        objects = grouped(self.objects, lambda row: int(owners[shard_of(row[0])]))
        keys = grouped(self.keys, lambda row: int(owners[row.shard]))
        links, counts = (owners[shards_of(table[:, 0])] for table in (self.links, self.counts))
        return {
            at: LoadPart(objects.get(at, ()), keys.get(at, ()), self.links[links == at], self.counts[counts == at])
            for at in sorted({*objects, *keys, *links.tolist(), *counts.tolist()})
        }

    def changed(self) -> list[int]:
        return [*(row[0] for row in self.objects), *np.unique(self.counts[:, 0]).tolist()]


def shards_of(ids: Table) -> Table:
    return ids >> SEQUENCE_BITS & (SHARDS - 1)


@runtime_checkable
class Loading(Protocol):
    """A store that can import chunks of rows if `loads` is true. A sharded store can if all of its stores can."""

    @property
    def loads(self) -> bool: ...

    def store_of(self, shard: int) -> int:
        """Return the number of the store that keeps a shard; 0 for a store that is not sharded."""

    async def load(self, part: LoadPart) -> None:
        """Store a chunk of rows durably. A store in which one of the rows already exists stores none of them.

        Raises:
            Occupied: A row existed.
            Unavailable: As for a commit.
        """


FIRST = -(2**63)
"""A number that is less than every number in a primary key."""
HOLD_SECONDS = 1.0
"""Maximum seconds to wait for a store's running commits when blocking its commits.

New commits wait during this time, and would be refused after four seconds.
"""

Row = tuple[Any, ...]


class SnapshotTable(Enum):
    """The tables of a snapshot, in the order in which they are written and restored."""

    OBJECTS = "objects"
    """Id, version, and the object as `encode_node` returns it."""
    ASSOCIATIONS = "associations"
    """`contract.AssocRow`, including tombstones."""
    COUNTS = "counts"
    """id1, type, and length of the list."""
    KEYS = "keys"
    EVENTS = "events"
    """Position in the outbox, and the event as `core.events.encode` returns it."""
    PARKED = "buried"
    """Parked jobs: the columns of an event, and the error of the job."""


FIRST_KEYS: Mapping[SnapshotTable, Row] = {
    SnapshotTable.OBJECTS: (FIRST,),
    SnapshotTable.ASSOCIATIONS: (FIRST, FIRST, FIRST),
    SnapshotTable.COUNTS: (FIRST, FIRST),
    SnapshotTable.KEYS: ("", ""),
    SnapshotTable.EVENTS: (FIRST,),
    SnapshotTable.PARKED: (FIRST,),
}
"""Position before the first row of each table. The columns of the primary key are the first columns of a row."""


class SnapshotSource(Protocol):
    """The consistent snapshot of one store, from which a backup is made.

    All methods raise `Unavailable` if the store cannot be reached or its commits could not be blocked in time.
    """

    async def hold(self) -> None:
        """Block new commits until `release`, and wait for running commits."""

    async def open(self) -> None: ...

    async def release(self) -> None:
        """Resume commits. Raises `Unavailable` if commits were not blocked all the time since `hold`."""

    async def map(self) -> ShardMap | None:
        """Return the newest shard map in the snapshot; None if the store has no copy of the map."""

    async def page(self, table: SnapshotTable, after: Row, limit: int) -> list[Row]:
        """Return the rows of the snapshot whose key is above `after`, in key order."""

    async def forget(self) -> None:
        """End the snapshot. Until this call, the store keeps the versions of changed and deleted rows for it."""

    async def note(self, row: KeyRow) -> None:
        """Store this row, which records the time of the last backup, in the live store. The snapshot does not contain it."""

    async def close(self) -> None:
        """Discard the snapshot, resume commits if they are blocked, and free all other resources."""


def receipt(moment: int) -> KeyRow:
    """Return the row of the key that records the time of the newest complete backup (Unix ms)."""
    key = backup_key()
    return KeyRow(key.space, key.name, compose(moment, key.shard), 0)
