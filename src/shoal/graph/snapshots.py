"""Reading a store as it is at one moment, beside the processes that go on writing to it: what a backup is made of.

Several stores are read at the same moment: every one of them is held, then all are opened, then all are let go. No commit ends
in any of them while all are held, so the snapshots are what would be left if every process died at that instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from shoal.core.ids import compose
from shoal.graph.rows import KeyRow
from shoal.graph.schema import backup_key
from shoal.graph.sharding.shard_map import ShardMap

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
