"""`shoal upgrade`: batches that survive a kill, processes that go on meanwhile, and who may use a store of which version."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Self

import asyncpg
import pytest
from click.testing import CliRunner

from shoal.cli import main
from shoal.core.errors import Unavailable, of_other_version
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch
from shoal.graph.migrations import Migration, TableIndex, Walk, readable_from, short
from shoal.graph.postgres import PostgresGraph, migrating
from shoal.graph.postgres.migrating import GRAPH
from shoal.graph.postgres.snapshot import PostgresSnapshot
from shoal.graph.postgres.upgrade import PostgresUpgrade
from shoal.graph.schema import FOLLOWS, LIKES, POSTED
from shoal.graph.sqlite import SqliteGraph, sql
from shoal.graph.sqlite import migrating as sqlite_migrating
from shoal.graph.sqlite.migrating import BATCH_ROWS, migrate, place
from shoal.graph.sqlite.snapshot import SqliteSnapshot
from shoal.graph.sqlite.upgrade import SqliteUpgrade
from tests.engines import postgres as engine
from tests.running import eventually, in_loop, run
from tests.stores import ANN, BEN, moment
from tests.upgrades.store import DUMP, restore, unpack
from tests.upgrades.test_stored import Database

_ROWS = 12_000
_BATCH = 700
# Four times it is told of within one transaction at the most: each run gets on, and dies.
_DYING = """
import os, signal, sqlite3, sys
from pathlib import Path
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.migrating import migrate

left = 4

def told(what, done, total):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

path = Path(sys.argv[1])
migrate(sqlite3.connect(path, isolation_level=None), path, sql.MIGRATIONS, told, batch_rows=int(sys.argv[2]))
"""


_STEPS = [part.what for migration in sql.MIGRATIONS[2:] for part in migration.parts if not isinstance(part, str)]


def old_file(path: Path, version: int = 2, rows: int = _ROWS) -> None:
    """Write a file of an older version: lists in their order and out of it, live and ended entries, counts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = WAL")
        for migration in sql.MIGRATIONS[:version]:
            file.executescript(migration.script)
        file.execute(f"PRAGMA user_version = {version}")
        made = [
            # A few long lists, and many short ones.
            (
                n % (40, 4_000)[n % 2],
                (POSTED, FOLLOWS, LIKES)[n % 3].number,
                n,
                n + n % 7 // 6,
                int(n % 11 > 0),
                b"data",
            )
            for n in range(1, rows)
        ]
        file.executemany("INSERT INTO association VALUES (?, ?, ?, ?, ?, ?)", made)
        file.execute("INSERT INTO count SELECT id1, atype, sum(alive) FROM association GROUP BY 1, 2")


def contents(path: Path) -> list[object]:
    """All that is in a file."""
    with closing(sqlite3.connect(path)) as file:
        made = file.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
        tables = [name for kind, name, _ in made if kind == "table"]
        # What a file that was upgraded in one go knows of its versions, the other knows too.
        rows = [file.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]  # noqa: S608  # our own
        return [made, rows, file.execute("PRAGMA user_version").fetchone()]


def test_an_upgrade_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    once, often = tmp_path / "once.db", tmp_path / "often.db"
    for path in (once, often):
        old_file(path)
    with closing(sqlite3.connect(once, isolation_level=None)) as file:
        migrate(file, once, sql.MIGRATIONS)
    deaths, within = 0, set()
    while (done := subprocess.run([sys.executable, "-c", _DYING, str(often), str(_BATCH)], check=False)).returncode:
        assert done.returncode == -signal.SIGKILL
        deaths += 1
        assert deaths < 40
        with closing(sqlite3.connect(often)) as file:
            at = place(file)
            assert at.version < len(sql.MIGRATIONS)
            # Older versions, which know nothing of batches, do not open it.
            assert file.execute("PRAGMA user_version").fetchone() == (len(sql.MIGRATIONS),)
        within.add((at.version, at.part, at.done > 0))
        # `shoal upgrade` says what is left before it goes on.
        steps = run(SqliteUpgrade(f"sqlite:///{often}").plan())
        told = [step.what for step in steps if step.what != "tables"]
        assert told == _STEPS[-len(told) :]
        assert all(step.seconds > 0 for step in steps if step.rows)
    # In the middle of a walk that is its migration's first part, and of one that is not.
    assert {(2, 1, True), (3, 0, True)} <= within
    assert contents(often) == contents(once)


@in_loop
async def test_a_file_in_the_middle_of_an_upgrade_is_used_by_nobody(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    old_file(path)

    def stop(_what: str, done: int, _total: int) -> None:
        if done > _BATCH:
            raise KeyboardInterrupt

    with closing(sqlite3.connect(path, isolation_level=None)) as file, pytest.raises(KeyboardInterrupt):
        migrate(file, path, sql.MIGRATIONS, stop, batch_rows=_BATCH)
    with pytest.raises(Unavailable, match="older Shoal"):
        await SqliteGraph.open(path, read_only=True)
    graph = await SqliteGraph.open(path)
    assert (await graph.assoc_count([1], [POSTED]))[POSTED][1] > 0
    await graph.close()


@in_loop
async def test_an_interrupted_upgrade_of_a_file_ends_after_a_batch(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    old_file(path, rows=5 * BATCH_ROWS // 2)
    loop = asyncio.get_running_loop()
    told: list[tuple[str, int]] = []

    def tell(what: str, done: int, _total: int) -> None:
        told.append((what, done))
        if len(told) == 2:
            loop.call_soon_threadsafe(running.cancel)
            # The loop has its turn.
            time.sleep(0.2)

    running = asyncio.create_task(SqliteUpgrade(f"sqlite:///{path}").upgrade(tell))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert told == [(_STEPS[0], BATCH_ROWS), (_STEPS[0], 2 * BATCH_ROWS)]
    with closing(sqlite3.connect(path)) as file:
        assert place(file).done == 2 * BATCH_ROWS
    # Nobody holds it any more.
    await (await SqliteGraph.open(path)).close()


def test_a_long_upgrade_is_not_begun_by_a_process_that_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shoal.db"
    old_file(path)
    before = path.read_bytes()
    monkeypatch.setattr(sqlite_migrating, "SHORT_ROWS", _ROWS // 2)
    with pytest.raises(Unavailable, match="run `shoal upgrade`"):
        asyncio.run(SqliteGraph.open(path))
    said = CliRunner().invoke(main, ["--store", f"sqlite:///{path}", "upgrade", "--dry-run"])
    assert said.exit_code == 0, said.output
    assert f"lists in the order of their ids: {_ROWS - 1:,} rows, about" in said.stdout
    assert "s in all" in said.stdout
    assert not list(tmp_path.glob("*rehearsal*"))
    assert path.read_bytes() == before
    for told in ("done", "nothing to do"):
        said = CliRunner().invoke(main, ["--store", f"sqlite:///{path}", "upgrade"])
        assert said.exit_code == 0, said.output
        assert said.stdout.splitlines()[-1].endswith(told)

    async def opened() -> None:
        await (await SqliteGraph.open(path)).close()
        graph = await SqliteGraph.open(path)
        said = await asyncio.to_thread(CliRunner().invoke, main, ["--store", f"sqlite:///{path}", "upgrade"])
        await graph.close()
        assert said.exit_code == 0
        assert "nothing to do" in said.stdout

    asyncio.run(opened())


def test_who_may_use_a_store_is_what_its_steps_say() -> None:
    steps = (short(""), short(""), short("", readable_from=1), short("", readable_from=1), short("", readable_from=3))
    assert [readable_from(steps, version) for version in range(6)] == [0, 1, 2, 2, 2, 3]


@in_loop
async def test_a_file_of_the_next_version_is_used_where_that_only_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = sql.MIGRATIONS
    expands = short("ALTER TABLE object ADD COLUMN tide INTEGER", readable_from=len(now))
    for name, step, used in (("wide.db", expands, True), ("narrow.db", expands._replace(readable_from=0), False)):
        path = tmp_path / name
        monkeypatch.setattr(sql, "MIGRATIONS", (*now, step))
        await (await SqliteGraph.open(path)).close()
        monkeypatch.setattr(sql, "MIGRATIONS", now)
        for read_only in (False, True):
            if used:
                await (await SqliteGraph.open(path, read_only=read_only)).close()
            else:
                with pytest.raises(Unavailable, match="newer Shoal"):
                    await SqliteGraph.open(path, read_only=read_only)


@pytest.mark.parametrize("known", ["within our versions", "behind our versions"])
@in_loop
async def test_a_file_in_the_middle_of_a_newer_upgrade_is_left_alone(tmp_path: Path, known: str) -> None:
    path = tmp_path / "shoal.db"
    old_file(path)
    walk = Walk("object", ("id",), ("UPDATE object SET version = version WHERE {batch}",), "objects")
    newer = (*sql.MIGRATIONS, Migration(("ALTER TABLE object ADD COLUMN tide INTEGER", walk), len(sql.MIGRATIONS)))

    def stop(_what: str, done: int, _total: int) -> None:
        if done > _BATCH:
            raise KeyboardInterrupt

    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.executemany(
            "INSERT INTO object (id, version, data) VALUES (?, 1, x'')", [(n,) for n in range(1, 3 * _BATCH)]
        )
        if "behind" in known:
            migrate(file, path, sql.MIGRATIONS)
        with pytest.raises(KeyboardInterrupt):
            migrate(file, path, newer, stop, batch_rows=_BATCH)
        assert place(file).version == (len(sql.MIGRATIONS) if "behind" in known else 2)
    before = contents(path)
    for read_only in (True, False):
        with pytest.raises(Unavailable, match="newer Shoal"):
            await SqliteGraph.open(path, read_only=read_only)
    upgrade = SqliteUpgrade(f"sqlite:///{path}")
    with pytest.raises(Unavailable, match="newer Shoal"):
        await upgrade.plan()
    with pytest.raises(Unavailable, match="newer Shoal"):
        await upgrade.upgrade(lambda _what, _done, _total: None)
    with pytest.raises(Unavailable, match="newer Shoal"):
        SqliteSnapshot(path)
    assert contents(path) == before


def following(n: int) -> Batch:
    """One commit."""
    batch = Batch(shard_of(ANN))
    batch.assoc_add(ANN, FOLLOWS, BEN + n, moment(n))
    return batch


async def old_database(folder: Path, url: str, rows: int) -> None:
    """Bring the third version into a database, with many rows."""
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
async def test_indexes_are_made_beside_those_who_write_and_a_killed_upgrade_goes_on(tmp_path: Path) -> None:
    url = await engine.database(database := Database())
    await old_database(tmp_path, url, 400_000)
    upgrade = PostgresUpgrade(url)
    steps = await upgrade.plan()
    assert [step.what for step in steps[:-1]] == [
        "index association_past",
        "index association_ended_by_time",
        "index association_ended_but_remembered",
    ]
    assert all(step.rows >= 400_000 and step.seconds > 0 for step in steps[:-1])
    told: list[str] = []
    other = await asyncpg.connect(url)
    try:
        # Somebody who has not finished holds the upgrade up in the middle of an index.
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
        # Meanwhile others write as ever.
        async with asyncio.timeout(3):
            for n in range(20):
                await looking.execute(
                    "UPDATE shoal.association SET time = time + 1 WHERE id1 = 1 AND id2 = $1", 1 + 100 * n
                )
        assert await looking.fetchval(end)
        with pytest.raises(Unavailable, match="goes on"):
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
    """An upgrade that has begun an index and waits for a transaction which began before. Enter it."""

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
        """Whether the index is there, and not whole."""
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('shoal.association_past')"
        return await self.looking.fetchval(valid) is False

    async def __aexit__(self, *_: object) -> None:
        await self._holding.close()
        await self.looking.close()
        await restore(self.url)


@in_loop
async def test_an_upgrade_that_loses_the_connection_by_which_it_looks_says_that_it_goes_on(tmp_path: Path) -> None:
    async with HeldUp(tmp_path) as held:
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'shoal upgrade' AND query NOT LIKE 'CREATE INDEX CONCURRENTLY%'"
        )
        assert await held.looking.fetch(end)
        async with asyncio.timeout(10):
            with pytest.raises(Unavailable, match="goes on"):
                await held.running


@in_loop
async def test_an_interrupted_upgrade_of_a_database_ends_at_once(tmp_path: Path) -> None:
    async with HeldUp(tmp_path) as held:
        held.running.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await held.running
        # So does the server.
        busy = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'shoal upgrade' AND state = 'active'"
        )
        await eventually(lambda: held.looking.fetchval(busy), 0)
        assert await held.half_made()


@in_loop
async def test_a_long_upgrade_of_a_database_is_left_to_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await engine.database(database := Database())
    await old_database(tmp_path, url, 2_000)
    monkeypatch.setattr(migrating, "SHORT_ROWS", 1_000)
    with pytest.raises(Unavailable, match="run `shoal upgrade`"):
        await PostgresGraph.open(url)
    # Interrupted, it is as long: the indexes are there, and nobody may use them.
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
async def test_a_database_of_the_next_version_is_used_where_that_only_expanded_and_no_old_process_loses_its_store() -> (
    None
):
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
        await migrating.migrate(connection, GRAPH._replace(migrations=(*GRAPH.migrations, expands)))
        await ours.commit(following(2))
        theirs = await PostgresGraph.open(url)
        await theirs.commit(following(3))
        # What takes something away waits until nobody needs it.
        later = GRAPH._replace(migrations=(*GRAPH.migrations, expands, contracts))
        with pytest.raises(
            Unavailable, match=f"older Shoal use it .schema version {version}; from version {version + 1}"
        ):
            await migrating.migrate(connection, later)
        await ours.commit(following(4))
        assert (await ours.assoc_count([ANN], [FOLLOWS]))[FOLLOWS] == {ANN: 4}
        await ours.close()
        await theirs.close()
        await migrating.migrate(connection, later)
        with pytest.raises(Unavailable, match="newer Shoal"):
            await PostgresGraph.open(url)
    finally:
        await connection.close()
        await restore(url)
    del database


@in_loop
async def test_who_reads_for_long_holds_up_no_upgrade_of_other_tables() -> None:
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
            await working.execute("SET lock_timeout = '1s'")
            await migrating.migrate(working, GRAPH._replace(migrations=(*GRAPH.migrations, tide)))
    finally:
        await snapshot.close()
        await reading.close()
        await working.close()
        await restore(url)
    del database


@in_loop
async def test_a_process_that_comes_back_to_a_store_which_went_on_without_it_changes_nothing(
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
        # As if it had been away: its session is gone while a newer Shoal takes something away.
        await connection.execute("INSERT INTO shoal.version (applied, readable_from) VALUES ($1, $1)", version)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = $1",
            migrating.SESSION_NAME,
        )
        await eventually(refused, f"the store {of_other_version(version, version - 1)}")
        assert [record.levelname for record in caplog.records if "newer Shoal" in record.message] == ["ERROR"]
        # It looks again.
        await connection.execute("DELETE FROM shoal.version WHERE applied = $1", version)
        await eventually(refused, "")
    finally:
        await connection.close()
        await graph.close()
        await restore(url)
    del database
