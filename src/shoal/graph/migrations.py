"""Schema versions of stores: how each is made of the one before, and which code may use a store of another version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.core.errors import Unavailable, of_other_version

Progress = Callable[[str, int, int], None]
"""Told of a step what it is, how much of it is done, and of how much: rows, or parts of a thousand."""

SHORT_ROWS = 1_000_000
"""A process that starts upgrades a store by itself where no step touches more rows: that takes seconds."""


class Walk(NamedTuple):
    """Changes of the rows of a table, made in batches in the order of its key.

    In each statement `{batch}` stands for the condition that a row is in the batch.
    """

    table: str
    key: tuple[str, ...]
    changes: tuple[str, ...]
    what: str


class TableIndex(NamedTuple):
    """An index to be made of the rows that a table has: `on` is what stands behind ON."""

    name: str
    on: str

    @property
    def table(self) -> str:
        """The table, with its schema."""
        return self.on.split()[0]

    @property
    def what(self) -> str:
        """Name the step."""
        return f"index {self.name}"


Part = str | Walk | TableIndex
"""Part of a migration; a text is a script that takes moments, however many rows there are."""


class Migration(NamedTuple):
    """One schema version: its parts, done in order.

    `readable_from` is the oldest schema version whose code may use the store from then on, 0 for this one. An expanding step
    names the version before it, or an older one; a contracting step names the version that brought what is used instead.
    """

    parts: tuple[Part, ...]
    readable_from: int = 0

    @property
    def script(self) -> str:
        """All of it as one script, for a store whose tables are small."""
        return "".join(f"{_statement(part)};\n" for part in self.parts)


def short(script: str, readable_from: int = 0) -> Migration:
    """Make a migration of one script that takes moments."""
    return Migration((script,), readable_from)


class PendingStep(NamedTuple):
    """A step of an upgrade that is still to be done: its rows, and how many seconds that will take about."""

    what: str
    rows: int
    seconds: float


def readable_from(migrations: Sequence[Migration], version: int) -> int:
    """Return the oldest schema version whose code may use a store of this one."""
    steps = enumerate(migrations[:version], 1)
    return max((migration.readable_from or number for number, migration in steps), default=0)


def check_usable(store: str, found: int, oldest: int, ours: int) -> None:
    """Check that code of schema version `ours` may use a store of version `found`, readable from `oldest` on.

    Raises `Unavailable`.
    """
    if found < ours or oldest > ours:
        raise Unavailable(f"{store} {of_other_version(found, ours)}")


def check_own(store: str, found: int, ours: int) -> None:
    """Check that a store has our own schema version: who takes whole rows away must know every column.

    Raises `Unavailable`.
    """
    if found != ours:
        raise Unavailable(f"{store} {of_other_version(found, ours)}")


def too_long(store: str, step: Walk | TableIndex) -> Unavailable:
    """Return the error of a process that does not begin an upgrade by itself."""
    return Unavailable(
        f"{store} needs an upgrade that touches more than {SHORT_ROWS:,} rows ({step.what}): run `shoal upgrade`, which says "
        "how long that takes, and start this again"
    )


def _statement(part: Part) -> str:
    if isinstance(part, str):
        return part.strip().removesuffix(";")
    if isinstance(part, Walk):
        return ";\n".join(change.format(batch="true") for change in part.changes)
    return f"CREATE INDEX {part.name} ON {part.on}"
