"""`shoal upgrade` of SQLite files: batches that survive a kill, and compatibility of versions with files."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.cli import main
from shoal.core.errors import Unavailable
from shoal.graph.migrations import Migration, Walk, readable_from, short
from shoal.graph.schema import FOLLOWS, LIKES, POSTED
from shoal.graph.sqlite import SqliteGraph, sql
from shoal.graph.sqlite import migrations as sqlite_migrating
from shoal.graph.sqlite.bulk import SqliteSnapshot
from shoal.graph.sqlite.migrations import BATCH_ROWS, migrate, progress_of
from shoal.graph.sqlite.upgrade import SqliteUpgrade
from tests.async_runner import in_loop, run

_ROWS = 12_000
_BATCH = 700
# At most four progress calls per transaction, so each run makes progress before it is killed.
_DYING = """
import os, signal, sqlite3, sys
from pathlib import Path
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.migrations import migrate

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
    """Write a file of an older version: ordered and unordered lists, live and removed entries, counts."""
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
        file.execute("BEGIN")
        file.executemany("INSERT INTO association VALUES (?, ?, ?, ?, ?, ?)", made)
        file.execute("INSERT INTO count SELECT id1, atype, sum(alive) FROM association GROUP BY 1, 2")
        file.execute("COMMIT")


def contents(path: Path) -> list[object]:
    """Return the schema and all rows of a file."""
    with closing(sqlite3.connect(path)) as file:
        made = file.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
        tables = [name for kind, name, _ in made if kind == "table"]
        # This includes the version tables, which must also be equal.
        rows = [file.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]  # noqa: S608  # our own
        return [made, rows, file.execute("PRAGMA user_version").fetchone()]


def test_sqlite_upgrade_killed_repeatedly_resumes_and_completes(tmp_path: Path) -> None:
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
            at = progress_of(file)
            assert at.version < len(sql.MIGRATIONS)
            # Older versions without batches do not open it.
            assert file.execute("PRAGMA user_version").fetchone() == (len(sql.MIGRATIONS),)
        within.add((at.version, at.part, at.done > 0))
        # `shoal upgrade` reports the remaining steps before it resumes.
        steps = run(SqliteUpgrade(f"sqlite:///{often}").plan())
        told = [step.what for step in steps if step.what != "tables"]
        assert told == _STEPS[-len(told) :]
        assert all(step.seconds > 0 for step in steps if step.rows)
    # The kills hit a walk that is the first part of its migration, and one that is not.
    assert {(2, 1, True), (3, 0, True)} <= within
    assert contents(often) == contents(once)


@in_loop
async def test_sqlite_file_with_unfinished_upgrade_is_refused_read_only(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    old_file(path)

    def stop(_what: str, done: int, _total: int) -> None:
        if done > _BATCH:
            raise KeyboardInterrupt

    with closing(sqlite3.connect(path, isolation_level=None)) as file, pytest.raises(KeyboardInterrupt):
        migrate(file, path, sql.MIGRATIONS, stop, batch_rows=_BATCH)
    with pytest.raises(Unavailable, match="this Shoal requires"):
        await SqliteGraph.open(path, read_only=True)
    graph = await SqliteGraph.open(path)
    assert (await graph.assoc_count([1], [POSTED]))[POSTED][1] > 0
    await graph.close()


@in_loop
async def test_sqlite_upgrade_when_cancelled_stops_after_current_batch(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    old_file(path, rows=5 * BATCH_ROWS // 2)
    loop = asyncio.get_running_loop()
    told: list[tuple[str, int]] = []

    def tell(what: str, done: int, _total: int) -> None:
        told.append((what, done))
        if len(told) == 2:
            asyncio.run_coroutine_threadsafe(cancelled(), loop).result(60)

    async def cancelled() -> None:
        """Cancel the upgrade, and let it handle the cancellation."""
        running.cancel()
        for _ in range(20):
            await asyncio.sleep(0)

    running = asyncio.create_task(SqliteUpgrade(f"sqlite:///{path}").upgrade(tell))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert told == [(_STEPS[0], BATCH_ROWS), (_STEPS[0], 2 * BATCH_ROWS)]
    with closing(sqlite3.connect(path)) as file:
        assert progress_of(file).done == 2 * BATCH_ROWS
    # The file is not locked any more.
    await (await SqliteGraph.open(path)).close()


def test_sqlite_long_upgrade_is_run_only_by_shoal_upgrade_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shoal.db"
    old_file(path)
    before = path.read_bytes()
    monkeypatch.setattr(sqlite_migrating, "SHORT_ROWS", _ROWS // 2)
    with pytest.raises(Unavailable, match="run `shoal upgrade`"):
        asyncio.run(SqliteGraph.open(path))
    said = CliRunner().invoke(main, ["--store", f"sqlite:///{path}", "upgrade", "--dry-run"])
    assert said.exit_code == 0, said.output
    assert f"lists in the order of their ids: {_ROWS - 1:,} rows, about" in said.stdout
    assert "s in total" in said.stdout
    assert not list(tmp_path.glob("*rehearsal*"))
    assert path.read_bytes() == before
    for told in ("done", "up to date"):
        said = CliRunner().invoke(main, ["--store", f"sqlite:///{path}", "upgrade"])
        assert said.exit_code == 0, said.output
        assert said.stdout.splitlines()[-1].endswith(told)

    async def opened() -> None:
        await (await SqliteGraph.open(path)).close()
        graph = await SqliteGraph.open(path)
        said = await asyncio.to_thread(CliRunner().invoke, main, ["--store", f"sqlite:///{path}", "upgrade"])
        await graph.close()
        assert said.exit_code == 0
        assert "up to date" in said.stdout

    asyncio.run(opened())


def test_schema_oldest_compatible_version_is_computed_from_migration_steps() -> None:
    steps = (short(""), short(""), short("", readable_from=1), short("", readable_from=1), short("", readable_from=3))
    assert [readable_from(steps, version) for version in range(6)] == [0, 1, 2, 2, 2, 3]


@in_loop
async def test_sqlite_file_of_next_version_opens_if_schema_only_expanded(
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
async def test_sqlite_file_with_unfinished_newer_upgrade_is_refused_unchanged(tmp_path: Path, known: str) -> None:
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
        assert progress_of(file).version == (len(sql.MIGRATIONS) if "behind" in known else 2)
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


def test_sqlite_upgrade_with_failed_commit_leaves_no_open_transaction(tmp_path: Path) -> None:
    table = "CREATE TABLE made (id INTEGER PRIMARY KEY, other INTEGER REFERENCES made DEFERRABLE INITIALLY DEFERRED)"
    with closing(sqlite3.connect(tmp_path / "shoal.db", isolation_level=None)) as file:
        file.execute("PRAGMA foreign_keys = ON")
        # COMMIT checks the constraint.
        with pytest.raises(sqlite3.IntegrityError):
            migrate(file, tmp_path / "shoal.db", [Migration((table, "INSERT INTO made VALUES (1, 2)"))])
        assert not file.in_transaction
        migrate(file, tmp_path / "shoal.db", [short(table)])
