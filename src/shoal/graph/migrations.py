"""Schema versions of stores: the migrations between them, and which code may use a store of another version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.core.errors import Unavailable, of_other_version

Progress = Callable[[str, int, int], None]
"""Progress callback: the step's description, the rows (or thousandths) done, and their total."""

SHORT_ROWS = 1_000_000
"""Maximum number of rows that a step may touch for a starting process to upgrade the store itself: that takes seconds."""


class Walk(NamedTuple):
    """Changes to all rows of a table, made in batches in key order.

    In each statement, `{batch}` is replaced by the condition that a row is in the current batch.
    """

    table: str
    key: tuple[str, ...]
    changes: tuple[str, ...]
    what: str


class TableIndex(NamedTuple):
    """An index to be built on a table that may have rows. `on` is the SQL text that follows ON."""

    name: str
    on: str

    @property
    def table(self) -> str:
        return self.on.split()[0]

    @property
    def what(self) -> str:
        return f"index {self.name}"


Part = str | Walk | TableIndex
"""A part of a migration. A string is an SQL script that is fast for any number of rows."""


class Migration(NamedTuple):
    """One schema version: its parts, in the order in which they are done.

    `readable_from` is the oldest schema version whose code may use the store after this migration; 0 means only this version. For
    an expanding step, it is the previous version or an older one; for a contracting step, the version that introduced the
    replacement.
    """

    parts: tuple[Part, ...]
    readable_from: int = 0

    @property
    def script(self) -> str:
        """All parts of the migration as one script, for a store with small tables."""
        return "".join(f"{_statement(part)};\n" for part in self.parts)


def short(script: str, readable_from: int = 0) -> Migration:
    return Migration((script,), readable_from)


class PendingStep(NamedTuple):
    """A step that an upgrade still has to do, with the number of rows to change and the estimated seconds."""

    what: str
    rows: int
    seconds: float


def readable_from(migrations: Sequence[Migration], version: int) -> int:
    """Return the oldest schema version whose code may use a store of this version."""
    steps = enumerate(migrations[:version], 1)
    return max((migration.readable_from or number for number, migration in steps), default=0)


def check_usable(store: str, found: int, oldest: int, ours: int) -> None:
    """Raise `Unavailable` if code of schema version `ours` may not use a store of version `found`.

    `oldest` is the oldest schema version whose code may use the store.
    """
    if found < ours or oldest > ours:
        raise Unavailable(f"{store} {of_other_version(found, ours)}")


def too_long(store: str, step: Walk | TableIndex) -> Unavailable:
    return Unavailable(
        f"{store} needs an upgrade that touches more than {SHORT_ROWS:,} rows ({step.what}): run `shoal upgrade`, which shows "
        "the estimated time, then start this command again"
    )


def _statement(part: Part) -> str:
    if isinstance(part, str):
        return part.strip().removesuffix(";")
    if isinstance(part, Walk):
        return ";\n".join(change.format(batch="true") for change in part.changes)
    return f"CREATE INDEX {part.name} ON {part.on}"
