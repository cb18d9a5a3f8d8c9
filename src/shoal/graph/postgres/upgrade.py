"""`shoal upgrade` for PostgreSQL: how long an upgrade takes, and doing it beside processes that read and write.

Each index is made `CONCURRENTLY`, which keeps nobody from writing and can be killed at any moment. What is left takes moments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import asyncpg

from shoal.core.errors import Unavailable
from shoal.graph.migrations import PendingStep, Progress, TableIndex
from shoal.graph.postgres import sql
from shoal.graph.postgres.connections import connect, goodbye, was_lost
from shoal.graph.postgres.migrating import GRAPH, UPGRADING, VersionLedger, applied, apply, qualified, unmade
from shoal.graph.postgres.primary import LOST

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
    """Upgrade of what one ledger counts in a database: of the graph, unless another one is named."""

    def __init__(self, url: str, ledger: VersionLedger = GRAPH) -> None:
        self._url = url
        self._ledger = ledger

    async def plan(self) -> list[PendingStep]:
        """Return the steps that are to be done, each with its rows and the seconds that it takes by a sample of them."""
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
        """Apply what is missing, beside processes that read and write. Other upgrades are kept out. Raises `Unavailable`."""
        working, looking = await connect(self._url, _PATIENT), await connect(self._url, _PATIENT)
        try:
            found = await applied(working, self._ledger)
            if not 0 < found < len(self._ledger.migrations):
                return
            if not await working.fetchval(sql.KEEP_MIGRATION):
                raise Unavailable(UPGRADING.format(self._ledger.name))
            for part in await unmade(working, self._ledger, found):
                await _make_beside(working, looking, part, progress)
            await working.execute(sql.LET_MIGRATE)
            async with working.transaction():
                await working.execute(sql.SHORT_LOCKS)
                await working.execute(sql.LOCK_MIGRATION)
                # Nobody else may have been quicker: what is there is left alone.
                if (found := await applied(working, self._ledger)) < len(self._ledger.migrations):
                    await apply(working, self._ledger, found)
        except (*LOST, asyncpg.PostgresError, AttributeError) as error:
            if isinstance(error, AttributeError) and not any(was_lost(one, error) for one in (working, looking)):
                raise
            raise Unavailable(f"the upgrade was interrupted ({error}): run it again, and it goes on") from error
        finally:
            await goodbye(looking)
            await goodbye(working)


async def _estimated(connection: asyncpg.Connection, part: TableIndex) -> PendingStep:
    """Measure on a temporary table with some of the rows. CONCURRENTLY reads the table twice."""
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


async def _make_beside(
    working: asyncpg.Connection, looking: asyncpg.Connection, part: TableIndex, progress: Progress
) -> None:
    if await working.fetchval(sql.IS_VALID_INDEX, qualified(part)) is False:
        # An upgrade was killed while it made this one.
        await working.execute(f"DROP INDEX CONCURRENTLY {qualified(part)}")
    task = asyncio.create_task(working.execute(f"CREATE INDEX CONCURRENTLY {part.name} ON {part.on}"))
    try:
        while not (await asyncio.wait((task,), timeout=_POLL_SECONDS))[0]:
            row = await looking.fetchrow(sql.INDEX_PROGRESS, working.get_server_pid())
            if row is not None:
                progress(f"{part.what}, {row['phase']}", row["done"], row["total"])
    except BaseException:
        # Nobody is to wait for all of the index; the server is told.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    await task
    progress(part.what, 1, 1)
