"""Migrations of an SQLite file, in transactions of bounded length; an interrupted upgrade resumes where it stopped.

During an upgrade, the table `upgrade` has its progress, and `PRAGMA user_version` is the new version, which no older Shoal opens.
At the end the table is dropped. The table `version` records which code may use the file from then on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from shoal.core.errors import Unavailable
from shoal.graph.migrations import (
    SHORT_ROWS,
    Migration,
    Part,
    Progress,
    TableIndex,
    Walk,
    check_usable,
    readable_from,
    too_long,
)
from shoal.graph.sqlite.files import transaction

BATCH_ROWS = 50_000
"""Maximum rows changed in one transaction, which takes a few tenths of a second."""
_OPS_AT_ONCE = 100_000
"""SQLite virtual machine instructions between two progress reports of an index build."""
_OPS_A_ROW = 6
"""Instructions for each row of the table during an index build."""

_STARTED = """
    CREATE TABLE IF NOT EXISTS upgrade (
        one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, part INTEGER NOT NULL, done INTEGER NOT NULL,
        after TEXT NOT NULL)"""
_PLACE_PUT = "INSERT OR REPLACE INTO upgrade (one, version, part, done, after) VALUES (1, ?, ?, ?, ?)"
_VERSIONS = "CREATE TABLE IF NOT EXISTS version (applied INTEGER PRIMARY KEY, readable_from INTEGER NOT NULL)"
_APPLIED = "INSERT OR REPLACE INTO version (applied, readable_from) VALUES (?, ?)"
_OLDEST = "SELECT max(readable_from) FROM version WHERE (SELECT max(applied) FROM version) = ?"


class UpgradePosition(NamedTuple):
    """The progress of an upgrade: the schema version, and how much of the next version is done.

    The latter is the number of parts done and, for the next part, the number of rows done and the key of the last of them.
    """

    version: int
    part: int = 0
    done: int = 0
    after: tuple[int, ...] = ()


def check_version(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    at = own_position(connection, path, migrations)
    oldest = at.version
    if at.version > len(migrations) and _has(connection, "version"):
        oldest = connection.execute(_OLDEST, (at.version,)).fetchone()[0] or oldest
    check_usable(f"the store {path.name}", at.version, oldest, len(migrations))


def check_own_version(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    found = own_position(connection, path, migrations).version
    check_usable(f"the store {path.name}", found, found, len(migrations))


def migrate(
    connection: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Migration],
    progress: Progress | None = None,
    batch_rows: int = BATCH_ROWS,
) -> None:
    """Apply missing schema versions. A database of another application, or of a newer version, is not changed.

    Raises `Unavailable`, with nothing changed, if a newer Shoal has started an upgrade or, without a `progress` callback, if
    the upgrade would take long.
    """
    at = own_position(connection, path, migrations)
    if at.version >= len(migrations):
        return
    if progress is None:
        _check_short(connection, path, migrations, at)
    upgrading = _Upgrading(connection, migrations, progress or (lambda *_: None), batch_rows)
    while upgrading.run_step(path):
        pass


def pending(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> list[tuple[Part, int]]:
    """Return the remaining parts of all migrations, each with the number of rows that it will touch. Raises `Unavailable`."""
    at = own_position(connection, path, migrations)
    parts = _remaining(migrations, at)
    rows = {table: rows_of(connection, table) for table in {part.table for part in parts if not isinstance(part, str)}}
    found = [(part, 0 if isinstance(part, str) else rows[part.table]) for part in parts]
    if found and at.done:
        found[0] = (found[0][0], max(0, found[0][1] - at.done))
    return found


def _remaining(migrations: Sequence[Migration], at: UpgradePosition) -> list[Part]:
    return [part for migration in migrations[at.version :] for part in migration.parts][at.part :]


def rows_of(connection: sqlite3.Connection, table: str, limit: int = -1) -> int:
    """Count the rows of a table, up to a limit. A table that an earlier migration will create counts as empty."""
    if not _has(connection, table):
        return 0
    # No SQL injection is possible: table names are constants.
    (rows,) = connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT ?)", (limit,)).fetchone()  # noqa: S608
    return int(rows)


def progress_of(connection: sqlite3.Connection) -> UpgradePosition:
    """Return the schema version of a database file and, if an upgrade was interrupted, the step that it has reached."""
    version = _user_version(connection)
    if version and _has(connection, "upgrade"):
        found, part, done, after = connection.execute("SELECT version, part, done, after FROM upgrade").fetchone()
        return UpgradePosition(found, part, done, tuple(msgspec.json.decode(after)))
    return UpgradePosition(version)


def own_position(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> UpgradePosition:
    """Return the upgrade progress of a file. Raises `Unavailable` if an upgrade to a version newer than `migrations` has begun."""
    making = _user_version(connection)
    if making > len(migrations) and _has(connection, "upgrade"):
        check_usable(f"the store {path.name}", making, making, len(migrations))
    return progress_of(connection)


def _user_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _check_short(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration], at: UpgradePosition
) -> None:
    for part in _remaining(migrations, at):
        if not isinstance(part, str) and rows_of(connection, part.table, SHORT_ROWS + 1) > SHORT_ROWS:
            raise too_long(f"the store {path.name}", part)


class _Upgrading:
    def __init__(
        self, connection: sqlite3.Connection, migrations: Sequence[Migration], progress: Progress, batch_rows: int
    ) -> None:
        self._connection = connection
        self._migrations = migrations
        self._progress = progress
        self._batch_rows = batch_rows
        # The number of rows in the table of each `Part`, counted only once because a count reads the whole table.
        self._totals: dict[Part, int] = {}

    def run_step(self, path: Path) -> bool:
        """Process about one batch of rows, in a transaction that blocks other writers. Return whether rows are left."""
        with transaction(self._connection):
            _check_ours(self._connection, path)
            at = own_position(self._connection, path, self._migrations)
            rows = 0
            while at.version < len(self._migrations) and rows < self._batch_rows:
                at, touched = self._step(at, self._batch_rows - rows)
                rows += touched
            _write_down(self._connection, at, self._migrations)
        return at.version < len(self._migrations)

    def _step(self, at: UpgradePosition, limit: int) -> tuple[UpgradePosition, int]:
        """Run the next part of a migration, or at most `limit` rows of it. Return the new progress and the rows touched."""
        parts = self._migrations[at.version].parts
        part = parts[at.part]
        following = (
            UpgradePosition(at.version, at.part + 1) if at.part + 1 < len(parts) else UpgradePosition(at.version + 1)
        )
        if isinstance(part, str):
            for statement in _statements(part):
                self._connection.execute(statement)
            return following, 0
        total = self._total(part, at)
        if isinstance(part, TableIndex):
            make_index(self._connection, part, total, self._progress)
            return following, total
        after, rows = walk(self._connection, part, at.after, limit)
        self._progress(part.what, at.done + rows, total)
        return (following if after is None else at._replace(done=at.done + rows, after=after)), rows

    def _total(self, part: Walk | TableIndex, at: UpgradePosition) -> int:
        if part not in self._totals:
            # If a `Walk` deletes the rows that it processes, fewer rows may be left than it has already processed.
            self._totals[part] = max(rows_of(self._connection, part.table), at.done)
        return self._totals[part]


def unprocessed_rows(migrations: Sequence[Migration], at: UpgradePosition, table: str) -> tuple[str, tuple[int, ...]]:
    """Return an SQL condition, with its values, for the rows of a table that an interrupted migration has not processed yet."""
    part = migrations[at.version].parts[at.part] if at.version < len(migrations) else ""
    if isinstance(part, Walk) and part.table == table:
        return _behind(part, at.after), at.after
    return "true", ()


def _behind(part: Walk, after: tuple[int, ...]) -> str:
    return f"({', '.join(part.key)}) > ({', '.join('?' * len(part.key))})" if after else "true"


def walk(
    connection: sqlite3.Connection, part: Walk, after: tuple[int, ...], limit: int
) -> tuple[tuple[int, ...] | None, int]:
    """Apply the changes of a `Walk` to the next rows after a key. Return the last key (None at the end) and the number of rows."""
    names = ", ".join(part.key)
    placeholders = ", ".join("?" * len(part.key))
    behind = _behind(part, after)
    # No SQL injection is possible: table and column names are constants.
    last = connection.execute(
        f"SELECT {names} FROM {part.table} WHERE {behind} ORDER BY {names} LIMIT 1 OFFSET ?",  # noqa: S608
        (*after, limit - 1),
    ).fetchone()
    rows = limit
    if last is None:
        (rows,) = connection.execute(f"SELECT count(*) FROM {part.table} WHERE {behind}", after).fetchone()  # noqa: S608
    batch = behind if last is None else f"{behind} AND ({names}) <= ({placeholders})"
    for change in part.changes:
        connection.execute(change.format(batch=batch), (*after, *(last or ())))
    return last, rows


def make_index(connection: sqlite3.Connection, part: TableIndex, rows: int, progress: Progress) -> None:
    """Build an index in the open transaction: SQLite cannot do it in batches. The reported progress is an estimate."""
    looks = 0

    def look() -> int:
        nonlocal looks
        looks += 1
        progress(part.what, min(rows, looks * _OPS_AT_ONCE // _OPS_A_ROW), rows)
        return 0

    connection.set_progress_handler(look, _OPS_AT_ONCE)
    try:
        connection.execute(f"CREATE INDEX {part.name} ON {part.on}")
    finally:
        connection.set_progress_handler(None, 0)
    progress(part.what, rows, rows)


def put_position(connection: sqlite3.Connection, at: UpgradePosition) -> None:
    connection.execute(_STARTED)
    connection.execute(_PLACE_PUT, (*at[:3], msgspec.json.encode(at.after).decode()))


def _write_down(connection: sqlite3.Connection, at: UpgradePosition, migrations: Sequence[Migration]) -> None:
    connection.execute(_VERSIONS)
    for number in range(1, at.version + 1):
        connection.execute(_APPLIED, (number, readable_from(migrations, number)))
    if at.version < len(migrations):
        put_position(connection, at)
    else:
        connection.execute("DROP TABLE IF EXISTS upgrade")
    connection.execute(f"PRAGMA user_version = {max(at.version, len(migrations))}")


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements, because `executescript` would commit first. Semicolons within a trigger do not count."""
    statement = ""
    for part in script.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    if progress_of(connection).version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise Unavailable(f"{path} is a database that Shoal did not create: name another file")


def _has(connection: sqlite3.Connection, table: str) -> bool:
    statement = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)"
    return bool(connection.execute(statement, (table,)).fetchone()[0])
