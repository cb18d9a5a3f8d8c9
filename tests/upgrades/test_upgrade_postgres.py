"""`shoal upgrade` of PostgreSQL databases: concurrent processes, and compatibility of versions with databases."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

import asyncpg
import pytest
from click.testing import CliRunner

from shoal.cli import main
from shoal.core.errors import Unavailable, of_other_version
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch
from shoal.graph.migrations import Migration, TableIndex, short
from shoal.graph.postgres import PostgresGraph, migrations, sql
from shoal.graph.postgres.bulk import PostgresSnapshot
from shoal.graph.postgres.migrations import GRAPH, PostgresUpgrade
from shoal.graph.schema import FOLLOWS, LIKES
from tests.async_runner import eventually, in_loop
from tests.engines import postgres as engine
from tests.stores import ANN, BEN, moment
from tests.upgrades.stored_networks import DUMP, restore, unpack
from tests.upgrades.test_schema_versions import Database


def following(n: int) -> Batch:
    """Return a batch with one follow."""
    batch = Batch(shard_of(ANN))
    batch.assoc_add(ANN, FOLLOWS, BEN + n, moment(n))
    return batch


async def old_database(folder: Path, url: str, rows: int) -> None:
    """Restore the third version into a database, with many rows."""
    unpack("postgresql", 3, folder)
    await restore(url, (folder / DUMP).read_text())
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "INSERT INTO shoal.association (id1, id2, time, revision, atype, alive, data) "
            "SELECT n % 100, n, n, 1, $1::smallint, n % 3 > 0, '' FROM generate_series(1, $2::bigint) AS n",
            LIKES.number,
            rows,
        )
    finally:
        await connection.close()


@in_loop
async def test_postgres_upgrade_builds_indexes_during_writes_and_resumes_after_kill(tmp_path: Path) -> None:
    url = await engine.database(database := Database())
    await old_database(tmp_path, url, 400_000)
    upgrade = PostgresUpgrade(url)
    steps = await upgrade.plan()
    assert [step.what for step in steps[:-1]] == [
        "index association_past",
        "index association_ended_by_time",
        "index association_ended_but_remembered",
        "index association_sweepable",
        "index association_listed",
        "index association_by_time_of_others",
    ]
    assert all(step.rows >= 400_000 and step.seconds > 0 for step in steps[:-1])
    told: list[str] = []
    other = await asyncpg.connect(url)
    try:
        # An open transaction blocks the upgrade during an index build.
        holding = other.transaction(isolation="repeatable_read")
        await holding.start()
        await other.execute("SELECT count(*) FROM shoal.association WHERE id1 = 0")
        running = asyncio.create_task(upgrade.upgrade(lambda what, _done, _total: told.append(what)))
        looking = await asyncpg.connect(url)
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active'"
        )

        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('shoal.association_past')"

        async def half_made() -> bool:
            return await looking.fetchval(valid) is False

        await eventually(half_made, True)
        # Other connections can write during the build.
        async with asyncio.timeout(60):
            for n in range(20):
                await looking.execute(
                    "UPDATE shoal.association SET time = time + 1 WHERE id1 = 1 AND id2 = $1", 1 + 100 * n
                )
        assert await looking.fetchval(end)
        with pytest.raises(Unavailable, match="run it again to resume"):
            await running
        assert await half_made()
        await holding.rollback()
        await looking.close()
    finally:
        await other.close()
    await upgrade.upgrade(lambda what, _done, _total: told.append(what))
    assert await upgrade.plan() == []
    assert any("index association_ended_by_time" in what for what in told)
    graph = await PostgresGraph.open(url)
    await graph.commit(following(1))
    await graph.close()
    indexes = (
        "SELECT indexrelid::regclass::text, indisvalid FROM pg_index "
        "WHERE indrelid = 'shoal.association'::regclass ORDER BY 1"
    )
    fresh = await engine.database(made := Database())
    await restore(fresh)
    await (await PostgresGraph.open(fresh)).close()
    found = []
    for one in (url, fresh):
        connection = await asyncpg.connect(one)
        found.append([tuple(row) for row in await connection.fetch(indexes)])
        await connection.close()
    assert found[0] == found[1]
    assert all(valid for _, valid in found[0])
    await restore(url)
    del database, made


class HeldUp:
    """Context manager of an upgrade whose index build waits for an earlier transaction."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database = Database()

    async def __aenter__(self) -> Self:
        self.url = await engine.database(self._database)
        await old_database(self._folder, self.url, 2_000)
        self._holding, self.looking = await asyncpg.connect(self.url), await asyncpg.connect(self.url)
        await self._holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await self._holding.execute("SELECT count(*) FROM shoal.association WHERE id1 = 0")
        self.running = asyncio.create_task(PostgresUpgrade(self.url).upgrade(lambda _what, _done, _total: None))
        await eventually(self.half_made, True)
        return self

    async def half_made(self) -> bool:
        """Return whether the index exists and is not yet valid."""
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('shoal.association_past')"
        return await self.looking.fetchval(valid) is False

    async def __aexit__(self, *_: object) -> None:
        await self._holding.close()
        await self.looking.close()
        await restore(self.url)


@in_loop
async def test_postgres_upgrade_losing_monitoring_connection_is_reported_as_resumable(tmp_path: Path) -> None:
    async with HeldUp(tmp_path) as held:
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'shoal upgrade' AND query NOT LIKE 'CREATE INDEX CONCURRENTLY%'"
        )
        assert await held.looking.fetch(end)
        async with asyncio.timeout(60):
            with pytest.raises(Unavailable, match="run it again to resume"):
                await held.running


@in_loop
async def test_postgres_upgrade_when_cancelled_stops_immediately(tmp_path: Path) -> None:
    async with HeldUp(tmp_path) as held:
        held.running.cancel()
        async with asyncio.timeout(60):
            with pytest.raises(asyncio.CancelledError):
                await held.running
        # The server stops the build too.
        busy = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'shoal upgrade' AND state = 'active'"
        )
        await eventually(lambda: held.looking.fetchval(busy), 0)
        assert await held.half_made()


@in_loop
async def test_postgres_long_upgrade_is_run_only_by_shoal_upgrade_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await engine.database(database := Database())
    await old_database(tmp_path, url, 2_000)
    monkeypatch.setattr(migrations, "SHORT_ROWS", 1_000)
    with pytest.raises(Unavailable, match="run `shoal upgrade`"):
        await PostgresGraph.open(url)
    # An interrupted upgrade is just as long: its indexes exist but are invalid.
    connection = await asyncpg.connect(url)
    for name in ("association_past", "association_ended_by_time", "association_ended_but_remembered"):
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON shoal.association (alive)")
    with pytest.raises(Unavailable, match="run `shoal upgrade`"):
        await PostgresGraph.open(url)
    await connection.close()
    said = await asyncio.to_thread(CliRunner().invoke, main, ["--store", url, "upgrade"])
    assert said.exit_code == 0, said.output
    assert "index association_past: 2," in said.stdout
    await (await PostgresGraph.open(url)).close()
    await restore(url)
    del database


@in_loop
async def test_postgres_contracting_migration_waits_for_processes_of_old_version() -> None:
    url = await engine.database(database := Database())
    await restore(url)
    ours = await PostgresGraph.open(url)
    await ours.commit(following(1))
    version = len(GRAPH.migrations)
    index = TableIndex("object_by_tide", "shoal.object (tide)")
    expands = Migration(("ALTER TABLE shoal.object ADD COLUMN tide integer", index), readable_from=version)
    contracts = short("ALTER TABLE shoal.object DROP COLUMN tide", readable_from=version + 1)
    connection = await asyncpg.connect(url)
    try:
        await migrations.migrate(connection, GRAPH._replace(migrations=(*GRAPH.migrations, expands)))
        await ours.commit(following(2))
        theirs = await PostgresGraph.open(url)
        await theirs.commit(following(3))
        # A contracting migration waits until no process uses the old schema.
        later = GRAPH._replace(migrations=(*GRAPH.migrations, expands, contracts))
        with pytest.raises(Unavailable, match=f"older Shoal use it .schema version {version}; required: {version + 1}"):
            await migrations.migrate(connection, later)
        await ours.commit(following(4))
        assert (await ours.assoc_count([ANN], [FOLLOWS]))[FOLLOWS] == {ANN: 4}
        await ours.close()
        await theirs.close()
        await migrations.migrate(connection, later)
        with pytest.raises(Unavailable, match="newer Shoal"):
            await PostgresGraph.open(url)
    finally:
        await connection.close()
        await restore(url)
    del database


@in_loop
async def test_postgres_upgrade_is_refused_while_version_0_2_process_is_connected(tmp_path: Path) -> None:
    url = await engine.database(database := Database())
    await old_database(tmp_path, url, 100)
    old = await asyncpg.connect(url, server_settings={"application_name": "shoal"})
    try:
        for lock in (sql.OWN_SHARED, sql.OWN_ALONE):
            assert await old.fetchval(lock)
            with pytest.raises(Unavailable, match=r"Shoal 0\.2"):
                await PostgresGraph.open(url)
            await old.execute(sql.DISOWN)
        # Unrelated locks in this database, and equal locks in other databases, have no effect.
        await old.execute("SELECT pg_advisory_lock(1)")
        other = await asyncpg.connect(await engine.database(elsewhere := Database()))
        assert await other.fetchval(sql.OWN_ALONE)
        await (await PostgresGraph.open(url)).close()
        await other.close()
    finally:
        await old.close()
        await restore(url)
    del database, elsewhere


@in_loop
async def test_postgres_long_read_transaction_does_not_block_upgrade_of_other_tables() -> None:
    url = await engine.database(database := Database())
    await restore(url)
    await (await PostgresGraph.open(url)).close()
    snapshot = await PostgresSnapshot.connect(url)
    reading, working = await asyncpg.connect(url), await asyncpg.connect(url)
    tide = short("CREATE TABLE shoal.tide (id integer)", readable_from=len(GRAPH.migrations))
    try:
        await snapshot.hold()
        await snapshot.open()
        await snapshot.release()
        held = (
            "SELECT relname FROM pg_locks JOIN pg_class ON pg_class.oid = relation "
            "WHERE relnamespace = 'shoal'::regnamespace"
        )
        assert [name for (name,) in await working.fetch(held)] == []
        async with reading.transaction():
            await reading.execute("SELECT FROM shoal.version")
            await working.execute("SET lock_timeout = '60s'")
            await migrations.migrate(working, GRAPH._replace(migrations=(*GRAPH.migrations, tide)))
    finally:
        await snapshot.close()
        await reading.close()
        await working.close()
        await restore(url)
    del database


@in_loop
async def test_postgres_process_reconnecting_to_newer_schema_refuses_commits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = await engine.database(database := Database())
    await restore(url)
    graph = await PostgresGraph.open(url)
    await graph.commit(following(1))
    version = len(GRAPH.migrations) + 1
    connection = await asyncpg.connect(url)

    async def refused() -> str:
        try:
            await graph.commit(following(2))
        except Unavailable as error:
            return str(error)
        return ""

    try:
        # Simulate a lost session during which a newer Shoal contracts the schema.
        await connection.execute("INSERT INTO shoal.version (applied, readable_from) VALUES ($1, $1)", version)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = $1",
            migrations.SESSION_NAME,
        )
        await eventually(refused, f"the store {of_other_version(version, version - 1)}")
        assert [record.levelname for record in caplog.records if "newer Shoal" in record.message] == ["ERROR"]
        # The process checks the version again.
        await connection.execute("DELETE FROM shoal.version WHERE applied = $1", version)
        await eventually(refused, "")
    finally:
        await connection.close()
        await graph.close()
        await restore(url)
    del database
