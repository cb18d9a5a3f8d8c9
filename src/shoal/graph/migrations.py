"""Schema versions of stores: the migrations between them, and which code may use a store of another version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal.core.errors import Unavailable, of_other_version

Progress = Callable[[str, int, int], None]
"""Progress callback: the step's description, the rows (or thousandths) done, and their total."""

SHORT_ROWS = 1_000_000
"""A starting process upgrades a store itself if no step touches more rows: that takes seconds."""


class Walk(NamedTuple):
    """Changes to the rows of a table, made in batches in key order.

    In each statement, `{batch}` is replaced by the condition that a row is in the batch.
    """

    table: str
    key: tuple[str, ...]
    changes: tuple[str, ...]
    what: str


class TableIndex(NamedTuple):
    """An index to be built on a table with rows: `on` is the text after ON."""

    name: str
    on: str

    @property
    def table(self) -> str:
        """The table, with its schema."""
        return self.on.split()[0]

    @property
    def what(self) -> str:
        return f"index {self.name}"


Part = str | Walk | TableIndex
"""Part of a migration; a string is a script that is fast for any number of rows."""


class Migration(NamedTuple):
    """One schema version: its parts, done in order.

    `readable_from` is the oldest schema version whose code may use the store from then on, 0 for this one. An expanding step
    names the version before it, or an older one; a contracting step names the version that introduced the replacement.
    """

    parts: tuple[Part, ...]
    readable_from: int = 0

    @property
    def script(self) -> str:
        """The whole migration as one script, for a store whose tables are small."""
        return "".join(f"{_statement(part)};\n" for part in self.parts)


def short(script: str, readable_from: int = 0) -> Migration:
    return Migration((script,), readable_from)


class PendingStep(NamedTuple):
    """A remaining step of an upgrade: its rows and its estimated seconds."""

    what: str
    rows: int
    seconds: float


def readable_from(migrations: Sequence[Migration], version: int) -> int:
    """Return the oldest schema version whose code may use a store of this version."""
    steps = enumerate(migrations[:version], 1)
    return max((migration.readable_from or number for number, migration in steps), default=0)


def check_usable(store: str, found: int, oldest: int, ours: int) -> None:
    """Raise `Unavailable` unless code of schema version `ours` may use a store of version `found`, readable from `oldest` on."""
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
