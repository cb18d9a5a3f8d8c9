"""Bulk reads and writes of whole rows: moving a network, importing into an empty one, and consistent snapshots for backups.

Rows are written as they are: no time is changed, no count moves, no inverse follows, so no other process may write meanwhile.
An import part must contain new rows only; if any row exists the part is refused whole. Snapshots of several stores are taken at
one moment: all stores are held, then opened, then released, and no commit completes in any of them while all are held.

Glossary (`docs/glossary.md`): lift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import Conflict
from shoal.core.ids import SEQUENCE_BITS, compose, shard_of
from shoal.core.model import Member, Post
from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE, place, source_of
from shoal.graph.contract import AssocRow
from shoal.graph.schema import AnyNode, backup_key, encode_node
from shoal.graph.shard_map import ShardMap

NAMED_BY_PLACE = frozenset({"user_name", "email"})
"""Spaces of keys that lie where their name says; the others lie where the object lies that they lead to."""

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
    """One key as it is stored."""

    space: str
    name: str
    id: int
    until: int

    @property
    def shard(self) -> int:
        """Where it lies."""
        return place(self.name).shard if self.space in NAMED_BY_PLACE else shard_of(self.id)


class Rows(NamedTuple):
    """Rows to be stored. Those that are there under the same names are replaced."""

    objects: Sequence[AnyNode] = ()
    assocs: Sequence[AssocRow] = ()
    counts: Sequence[tuple[int, int, int]] = ()
    keys: Sequence[KeyRow] = ()

    def on(self, chosen: Callable[[int], bool]) -> Rows:
        """Return the rows on the chosen shards."""
        return Rows(
            [node for node in self.objects if chosen(shard_of(node.id))],
            [row for row in self.assocs if chosen(shard_of(row.id1))],
            [row for row in self.counts if chosen(shard_of(row[0]))],
            [row for row in self.keys if chosen(row.shard)],
        )


class Spread(NamedTuple):
    """How much of a network lies in one place. Bytes are those of objects and associations, without indexes."""

    members: int = 0
    posts: int = 0
    bytes: int = 0

    def plus(self, other: Spread) -> Spread:
        """Both together."""
        return Spread(self.members + other.members, self.posts + other.posts, self.bytes + other.bytes)


@runtime_checkable
class Movable(Protocol):
    """A store that a network can be taken from and to."""

    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        """Keys above `(space, name)` in the order of their code points, expired ones too."""
        ...

    async def put_rows(self, rows: Rows) -> None:
        """Store rows as they stand, all or none; to be asked for nothing but a move."""
        ...

    async def remove_rows(self, rows: Rows) -> None:
        """Take rows of these names away; what else is in them does not matter. To be asked for nothing but a move."""
        ...


@runtime_checkable
class Spreading(Protocol):
    """A store that knows how much lies on its data sources without reading everything out."""

    async def spread(self) -> dict[int, Spread]:
        """By data source; what holds nothing may be left out."""
        ...


def weigh(node: AnyNode) -> Spread:
    """Return what one object adds to the spread: itself as a member or a post, and its bytes."""
    return Spread(isinstance(node, Member), isinstance(node, Post), len(encode_node(node)))


Table = NDArray[np.int64]
ObjectRow = tuple[int, int, bytes]
"""Id, version, and the object as `encode_node` gives it."""

NO_LINKS: Table = np.empty((0, 4), np.int64)
NO_COUNTS: Table = np.empty((0, 3), np.int64)

_SOURCE_SHIFT = SEQUENCE_BITS + SHARDS_PER_SOURCE.bit_length() - 1


class Occupied(Conflict):
    """A row of the part is there already. Nothing was stored."""


class LoadPart(NamedTuple):
    """Rows that are stored together, each kind in the order of its keys."""

    objects: Sequence[ObjectRow] = ()
    keys: Sequence[KeyRow] = ()
    links: Table = NO_LINKS
    """Associations that are alive and say nothing: id1, type, id2, time. Their lists are not those ordered by id (`sql.BY_ID`)."""
    counts: Table = NO_COUNTS
    """Lengths of whole lists: id1, type, length."""

    def on(self, chosen: NDArray[np.bool_]) -> LoadPart:
        """Return the rows on the chosen data sources (64 truth values)."""
        return LoadPart(
            [row for row in self.objects if chosen[source_of(shard_of(row[0]))]],
            [row for row in self.keys if chosen[source_of(row.shard)]],
            self.links[chosen[sources_of(self.links[:, 0])]],
            self.counts[chosen[sources_of(self.counts[:, 0])]],
        )

    def __bool__(self) -> bool:
        return bool(self.objects or self.keys or len(self.links) or len(self.counts))

    def changed(self) -> list[int]:
        """Return the ids of what is remembered otherwise from now on."""
        return [*(row[0] for row in self.objects), *np.unique(self.counts[:, 0]).tolist()]


def sources_of(ids: Table) -> Table:
    """Return the data source of each id."""
    return ids >> _SOURCE_SHIFT & (DATA_SOURCES - 1)


@runtime_checkable
class Loading(Protocol):
    """A store that takes parts. `loads` says whether it does: one made of others does if they do."""

    @property
    def loads(self) -> bool:
        """Whether `load` may be called."""
        ...

    async def load(self, part: LoadPart) -> None:
        """Store a part, durably: all of it, or nothing in any store of which a row is there.

        Raises `Occupied` if a row was there already, and `Unavailable` as a commit does.
        """
        ...


FIRST = -(2**63)
"""Below every number of a key."""
HOLD_SECONDS = 1.0
"""How long a store is asked to be held: commits wait meanwhile, and would be refused after four seconds."""

Row = tuple[Any, ...]


class SnapshotTable(Enum):
    """The tables that a snapshot is read in, in the order in which they are written and restored."""

    OBJECTS = "objects"
    """Id, version, and the object as `encode_node` gives it."""
    ASSOCIATIONS = "associations"
    """As `contract.AssocRow`, tombstones too."""
    COUNTS = "counts"
    """id1, type, length of the list."""
    KEYS = "keys"
    """As `rows.KeyRow`."""
    EVENTS = "events"
    """Number in the outbox, and the event as `core.events.encode` gives it."""
    BURIED = "buried"
    """As events, of those that were set aside, and the error of each."""


FIRST_KEYS: Mapping[SnapshotTable, Row] = {
    SnapshotTable.OBJECTS: (FIRST,),
    SnapshotTable.ASSOCIATIONS: (FIRST, FIRST, FIRST),
    SnapshotTable.COUNTS: (FIRST, FIRST),
    SnapshotTable.KEYS: ("", ""),
    SnapshotTable.EVENTS: (FIRST,),
    SnapshotTable.BURIED: (FIRST,),
}
"""Where the first page of a table begins; the columns of a key are the first ones of a row."""


class SnapshotSource(Protocol):
    """One store. All methods raise `Unavailable` when it cannot be reached, or did not let itself be held in time."""

    async def hold(self) -> None:
        """Wait for the commits under way, and keep every new one waiting until `release`."""
        ...

    async def open(self) -> None:
        """Fix what `page` reads: the store as it is at this moment."""
        ...

    async def release(self) -> None:
        """Let commits go on. Raises `Unavailable` if they were not all kept waiting since `hold`."""
        ...

    async def map(self) -> ShardMap | None:
        """Return the newest shard map in the snapshot; None where the store keeps none."""
        ...

    async def page(self, table: SnapshotTable, after: Row, limit: int) -> list[Row]:
        """Return the rows of the snapshot whose key is above `after`, in order of the key."""
        ...

    async def forget(self) -> None:
        """Let go of the snapshot: what the store keeps for it may go."""
        ...

    async def note(self, row: KeyRow) -> None:
        """Store a key that says when the network was last backed up, in the store of now and not in the snapshot."""
        ...

    async def close(self) -> None:
        """Let go of everything, also of what is held."""
        ...


def receipt(moment: int) -> KeyRow:
    """Return the row of the key that says when the newest good backup was made, in Unix milliseconds."""
    key = backup_key()
    return KeyRow(key.space, key.name, compose(moment, key.shard), 0)
