"""`shoal upgrade` of the search index and the tag cloud."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from types import ModuleType

import asyncpg
import pytest
from click.testing import CliRunner

from shoal import Shoal
from shoal.cli import main
from shoal.graph.migrations import Migration, TableIndex, Walk
from shoal.graph.postgres import migrations
from shoal.graph.shard_map import shown_url
from shoal.graph.sqlite import files, sql
from shoal.graph.sqlite.upgrade import SqliteUpgrade
from shoal.search import postgres as index
from shoal.search import sqlite_sql as index_sql
from shoal.tagcloud import postgres as cloud
from shoal.tagcloud import sqlite_sql as cloud_sql
from tests.async_runner import in_loop, run
from tests.engines import postgres as engine
from tests.upgrades.stored_networks import restore, unpack
from tests.upgrades.test_schema_versions import Database


def test_sqlite_search_and_tag_files_are_upgraded_with_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack("sqlite", 2, tmp_path)
    store = f"sqlite:///{tmp_path}/shoal.db"
    # Simulate a next version with long migration steps.
    by_author = TableIndex("post_by_author_again", "post (author, id)")
    by_day = Walk("author", ("day", "tag", "member"), ("UPDATE author SET day = day WHERE {batch}",), "authors")
    monkeypatch.setattr(index_sql, "MIGRATIONS", (*index_sql.MIGRATIONS, Migration((by_author,))))
    monkeypatch.setattr(cloud_sql, "MIGRATIONS", (*cloud_sql.MIGRATIONS, Migration((by_day,))))
    made = {"": sql.MIGRATIONS, ".search": index_sql.MIGRATIONS, ".tags": cloud_sql.MIGRATIONS}

    def versions() -> dict[str, int]:
        found = {}
        for suffix in made:
            with closing(sqlite3.connect(f"{tmp_path}/shoal.db{suffix}")) as file:
                (found[suffix],) = file.execute("PRAGMA user_version").fetchone()
        return found

    said = CliRunner().invoke(main, ["--store", store, "upgrade", "--dry-run"])
    assert said.exit_code == 0, said.output
    assert f"search in {store}.search: index post_by_author_again: " in said.stdout
    assert f"tags in {store}.tags: authors: " in said.stdout
    assert versions() == {"": 2, ".search": 2, ".tags": 1}
    # The process that has the store open owns the files.
    run(SqliteUpgrade(store).upgrade(lambda _what, _done, _total: None))
    lock = files.own(tmp_path / "shoal.db")
    said = CliRunner().invoke(main, ["--store", store, "upgrade"])
    assert said.exit_code == 1
    assert versions() == {"": len(sql.MIGRATIONS), ".search": 2, ".tags": 1}
    files.release(lock)
    said = CliRunner().invoke(main, ["--store", store, "upgrade"])
    assert said.exit_code == 0, said.output
    assert versions() == {suffix: len(steps) for suffix, steps in made.items()}
    assert not list(tmp_path.glob("*rehearsal*"))
    said = CliRunner().invoke(main, ["--store", store, "upgrade"])
    assert [line.rpartition(": ")[2] for line in said.stdout.splitlines()] == ["up to date"] * 3


@pytest.mark.parametrize(
    ("what", "module", "on"), [("search", index, "search_post (author)"), ("tags", cloud, "tag_author (tag)")]
)
@in_loop
async def test_postgres_search_and_tag_tables_are_upgraded_with_store(
    monkeypatch: pytest.MonkeyPatch, what: str, module: ModuleType, on: str
) -> None:
    url = await engine.database(database := Database())
    await restore(url)
    async with Shoal.open(url):
        """Make all tables."""
    more = TableIndex("next_to_come", f"shoal.{on}")
    ledger = module.LEDGER
    monkeypatch.setattr(module, "LEDGER", ledger._replace(migrations=(*ledger.migrations, Migration((more,)))))
    said = await asyncio.to_thread(CliRunner().invoke, main, ["--store", url, "upgrade"])
    assert said.exit_code == 0, said.output
    assert f"{what} in {shown_url(url)}: done" in said.stdout
    connection = await asyncpg.connect(url)
    assert await connection.fetchval(
        "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('shoal.next_to_come')"
    )
    assert await migrations.applied(connection, ledger) == len(ledger.migrations) + 1
    await connection.close()
    await restore(url)
    del database
