"""Migrate the schema of a PostgreSQL store while processes of the previous version run; implements `shoal upgrade`.

A starting process applies missing short steps in one transaction. Long steps need `shoal upgrade`: each index is built
`CONCURRENTLY`, which blocks no writer and can be killed at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import asyncpg

from shoal.core.errors import Unavailable
from shoal.graph.migrations import (
    SHORT_ROWS,
    Migration,
    PendingStep,
    Progress,
    TableIndex,
    check_usable,
    readable_from,
    too_long,
)
from shoal.graph.postgres import sql
from shoal.graph.postgres.connections import connect, goodbye
from shoal.graph.postgres.primary import LOST, lost_if_closed
from shoal.graph.postgres.schema import MIGRATIONS
from shoal.tasks import cancel

SESSION = "shoal schema "
"""Prefix of the session name of a process that uses the store; the schema version of its code follows."""
SESSION_NAME = f"{SESSION}{len(MIGRATIONS)}"
UPGRADING = "{} is being upgraded by another process: wait for it to finish, then start again"


class VersionLedger(NamedTuple):
    """A set of migrations and the table that records which were applied."""

    name: str
    table: str
    migrations: Sequence[Migration]


GRAPH = VersionLedger("the store", "version", MIGRATIONS)


async def migrate(connection: asyncpg.Connection, ledger: VersionLedger = GRAPH) -> None:
    """Apply missing schema versions. Other processes that open the store wait.

    Raises `Unavailable`, with nothing changed, if the migration would take long or would break a running process, and for a schema
    that is not Shoal's.
    """
    async with connection.transaction():
        await connection.execute(sql.LOCK_MIGRATION)
        await _check_ours(connection)
        found = await applied(connection, ledger)
        if found >= len(ledger.migrations):
            return
        if not await connection.fetchval(sql.MAY_MIGRATE):
            raise Unavailable(UPGRADING.format(ledger.name))
        for part in await unmade(connection, ledger, found):
            await _check_short(connection, ledger, part)
        await apply(connection, ledger, found)


async def check_version(connection: asyncpg.Connection, ledger: VersionLedger = GRAPH) -> None:
    """Raise `Unavailable` unless the code of this process can use the store's schema version.

    The check waits for the end of a running upgrade. A later upgrade sees this session, and is refused if
    this code cannot use the new version.
    """
    async with connection.transaction():
        await connection.execute(sql.AWAIT_MIGRATION)
        oldest = found = await applied(connection, ledger)
        if found > len(ledger.migrations):
            oldest = await connection.fetchval(sql.READABLE_FROM.format(ledger.table), found) or found
    check_usable(ledger.name, found, oldest, len(ledger.migrations))


async def check_own_version(connection: asyncpg.Connection) -> None:
    """Raise `Unavailable` if the schema version is not exactly this code's: code that copies whole rows must know every column."""
    found = await applied(connection, GRAPH)
    check_usable(GRAPH.name, found, found, len(GRAPH.migrations))


async def apply(connection: asyncpg.Connection, ledger: VersionLedger, found: int) -> None:
    """Apply the migrations after schema version `found`, in the open transaction."""
    await _check_sessions(connection, ledger)
    for number, migration in enumerate(ledger.migrations[found:], found + 1):
        for part in migration.parts:
            if isinstance(part, TableIndex):
                await _make_index(connection, part)
            elif isinstance(part, str):
                await connection.execute(part)
            else:
                raise TypeError(
                    "row-by-row migrations are for SQLite: PostgreSQL migrations must be SQL statements or indexes"
                )
        # This table is in the schema `shoal`, which the first migration of the graph creates.
        await connection.execute(sql.VERSIONS.format(ledger.table))
        if await connection.fetchval(sql.LACKS_READABLE_FROM, f"shoal.{ledger.table}"):
            await connection.execute(sql.ADD_READABLE_FROM.format(ledger.table))
        await connection.execute(sql.APPLIED.format(ledger.table), number, readable_from(ledger.migrations, number))


async def _make_index(connection: asyncpg.Connection, part: TableIndex) -> None:
    valid = await connection.fetchval(sql.IS_VALID_INDEX, qualified(part))
    if valid is False:
        await connection.execute(f"DROP INDEX {qualified(part)}")
    if not valid:
        await connection.execute(f"CREATE INDEX {part.name} ON {part.on}")


async def _check_sessions(connection: asyncpg.Connection, ledger: VersionLedger) -> None:
    if ledger.table != GRAPH.table:
        return
    oldest = readable_from(ledger.migrations, len(ledger.migrations))
    if old := await older_sessions(connection, oldest):
        raise Unavailable(
            f"{ledger.name} cannot be upgraded while processes of an older Shoal use it (schema version {old[0]}; required: "
            f"{oldest} or newer): stop them first"
        )
    # Processes of Shoal 0.2 do not name their sessions. They are found by their lock on the store.
    if await connection.fetchval(sql.UNNAMED_OWNER, SESSION + "%"):
        raise Unavailable(f"{ledger.name} cannot be upgraded while processes of Shoal 0.2 use it: stop them first")


async def older_sessions(connection: asyncpg.Connection, oldest: int) -> list[int]:
    """Return the schema versions below `oldest` whose code uses the store, in order."""
    running = await connection.fetch(sql.SESSIONS, SESSION + "%")
    return sorted({version for (name,) in running if (version := int(name.removeprefix(SESSION))) < oldest})


async def _check_ours(connection: asyncpg.Connection) -> None:
    state = await connection.fetchrow(sql.STATE)
    if state["encoding"] != "UTF8":
        raise Unavailable("the encoding of the database is not UTF8: create a database with ENCODING 'UTF8'")
    if state["schema"] and not state["ours"]:
        raise Unavailable("the database has a schema named shoal that is not Shoal's: use another database")


async def applied(connection: asyncpg.Connection, ledger: VersionLedger) -> int:
    """Return the newest version that was applied; 0 for an empty database."""
    if not await connection.fetchval(sql.IS_THERE, f"shoal.{ledger.table}"):
        return 0
    found: int = await connection.fetchval(sql.VERSION.format(ledger.table))
    return found


async def unmade(connection: asyncpg.Connection, ledger: VersionLedger, found: int) -> list[TableIndex]:
    """Return the indexes that migrations after schema version `found` create on existing tables, and that do not exist yet.

    An invalid index, whose build was interrupted, counts as missing.
    """
    parts = [part for migration in ledger.migrations[found:] for part in migration.parts]
    return [
        part
        for part in parts
        if isinstance(part, TableIndex)
        and await connection.fetchval(sql.IS_THERE, part.table)
        and not await connection.fetchval(sql.IS_VALID_INDEX, qualified(part))
    ]


def qualified(part: TableIndex) -> str:
    return f"{part.table.rpartition('.')[0]}.{part.name}"


async def _check_short(connection: asyncpg.Connection, ledger: VersionLedger, part: TableIndex) -> None:
    # The server's row estimate may be outdated or missing; counting up to the limit takes a fraction of a second.
    limit = SHORT_ROWS + 1
    rows = await connection.fetchval(f"SELECT count(*) FROM (SELECT FROM {part.table} LIMIT {limit}) AS found")  # noqa: S608
    if rows > SHORT_ROWS:
        raise too_long(ledger.name, part)


_POLL_SECONDS = 0.3
_SAMPLE_ROWS = 50_000
_PATIENT: Mapping[str, str] = {
    "application_name": "shoal upgrade",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "enable_seqscan": "on",
    "maintenance_work_mem": "256MB",
}


class PostgresUpgrade:
    """The upgrade of a database to the newest version of `ledger`, by default the version ledger of the graph."""

    def __init__(self, url: str, ledger: VersionLedger = GRAPH) -> None:
        self._url = url
        self._ledger = ledger

    async def plan(self) -> list[PendingStep]:
        """Return the remaining steps, each with its number of rows and its duration in seconds, estimated from a sample."""
        connection = await connect(self._url, _PATIENT)
        try:
            found = await applied(connection, self._ledger)
            if not 0 < found < len(self._ledger.migrations):
                return []
            steps = [await _estimated(connection, part) for part in await unmade(connection, self._ledger, found)]
            return [*steps, PendingStep("tables", 0, 0.0)]
        finally:
            await goodbye(connection)

    async def upgrade(self, progress: Progress) -> None:
        """Apply missing schema versions while processes read and write. Only one upgrade can run at a time.

        Raises `Unavailable`.
        """
        working, looking = await connect(self._url, _PATIENT), await connect(self._url, _PATIENT)
        try:
            with lost_if_closed(working, looking):
                await self._upgrade(working, looking, progress)
        except (*LOST, asyncpg.PostgresError) as error:
            raise Unavailable(f"the upgrade was interrupted ({error}): run it again to resume") from error
        finally:
            await goodbye(looking)
            await goodbye(working)

    async def _upgrade(self, working: asyncpg.Connection, looking: asyncpg.Connection, progress: Progress) -> None:
        found = await applied(working, self._ledger)
        if not 0 < found < len(self._ledger.migrations):
            return
        if not await working.fetchval(sql.KEEP_MIGRATION):
            raise Unavailable(UPGRADING.format(self._ledger.name))
        for part in await unmade(working, self._ledger, found):
            await _build_concurrently(working, looking, part, progress)
        await working.execute(sql.LET_MIGRATE)
        async with working.transaction():
            await working.execute(sql.SHORT_LOCKS)
            await working.execute(sql.LOCK_MIGRATION)
            # Another process may have applied versions in between: do not apply them again.
            if (found := await applied(working, self._ledger)) < len(self._ledger.migrations):
                await apply(working, self._ledger, found)


async def _estimated(connection: asyncpg.Connection, part: TableIndex) -> PendingStep:
    """Estimate the seconds of an index build by one on a sample of the rows, doubled because CONCURRENTLY reads a table twice."""
    loop = asyncio.get_running_loop()
    rows: int = await connection.fetchval(f"SELECT count(*) FROM {part.table}")  # noqa: S608
    async with connection.transaction():
        await connection.execute(
            f"CREATE TEMP TABLE sample ON COMMIT DROP AS SELECT * FROM {part.table} LIMIT {_SAMPLE_ROWS}"  # noqa: S608
        )
        began = loop.time()
        sampled = await connection.fetchval("SELECT count(*) FROM sample")
        await connection.execute(f"CREATE INDEX sample_index ON {part.on.replace(part.table, 'sample', 1)}")
        seconds = loop.time() - began
    return PendingStep(part.what, rows, 2 * seconds * rows / max(1, sampled))


async def _build_concurrently(
    working: asyncpg.Connection, looking: asyncpg.Connection, part: TableIndex, progress: Progress
) -> None:
    if await working.fetchval(sql.IS_VALID_INDEX, qualified(part)) is False:
        # An earlier upgrade was killed while it built this index.
        await working.execute(f"DROP INDEX CONCURRENTLY {qualified(part)}")
    task = asyncio.create_task(working.execute(f"CREATE INDEX CONCURRENTLY {part.name} ON {part.on}"))
    try:
        while not (await asyncio.wait((task,), timeout=_POLL_SECONDS))[0]:
            row = await looking.fetchrow(sql.INDEX_PROGRESS, working.get_server_pid())
            if row is not None:
                progress(f"{part.what}, {row['phase']}", row["done"], row["total"])
    except BaseException:
        # Cancel the index build on the server instead of waiting for its end.
        await cancel(task)
        raise
    await task
    progress(part.what, 1, 1)
