"""Opens stores written by the code of each earlier schema version, and checks that all data is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.graph.postgres import schema as graph_postgres
from shoal.graph.schema import FOLLOWS, LIKED_BY
from shoal.graph.sqlite import SqliteGraph
from shoal.graph.sqlite import sql as graph_sqlite
from shoal.search import postgres_sql as search_postgres
from shoal.search import sqlite_sql as search_sqlite
from shoal.tagcloud import postgres_sql as tags_postgres
from shoal.tagcloud import sqlite_sql as tags_sqlite
from tests.async_runner import in_loop
from tests.engines import postgres as engine
from tests.upgrades.sample_network import PASSWORD
from tests.upgrades.stored_networks import DUMP, ENGINES, FILES, restore, unpack, versions

KEPT = [(name, version) for name in ENGINES for version in versions(name)]
FIRST = {"sqlite": 1, "postgresql": 2}
"""The oldest schema version of each engine."""


class Database:
    """Owns a test database until the test finishes."""


@asynccontextmanager
async def laid_out(name: str, version: int, folder: Path) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Restore a saved store; yield its URL and expected facts."""
    facts = unpack(name, version, folder)
    if name == "sqlite":
        yield f"sqlite:///{folder / FILES[0]}", facts
        return
    url = await engine.database(database := Database())
    await restore(url, (folder / DUMP).read_text())
    try:
        yield url, facts
    finally:
        # Recreate the schema for other tests.
        await restore(url)
    del database


@pytest.mark.parametrize(("name", "version"), KEPT)
@in_loop
async def test_stored_network_of_each_schema_version_opens_with_all_data(
    name: str, version: int, tmp_path: Path
) -> None:
    async with laid_out(name, version, tmp_path) as (url, facts), Shoal.open(url, media=tmp_path.as_uri()) as shoal:
        await shoal.settle()
        people = {who: await shoal.log_in(who, PASSWORD) for who in facts["members"]}
        assert {who: person.id for who, person in people.items()} == facts["members"]
        store = shoal.network.store
        for follower, followed in facts["follows"]:
            assert followed in (await store.assoc_get(follower, [FOLLOWS], [followed]))[FOLLOWS]
        for follower, followed in facts["unfollowed"]:
            assert not (await store.assoc_get(follower, [FOLLOWS], [followed]))[FOLLOWS]
        counts = (await store.assoc_count(list(facts["members"].values()), [FOLLOWS]))[FOLLOWS]
        assert sum(counts.values()) == len(facts["follows"])
        ann, ben, cyd = people["ann"], people["ben"], people["cyd"]
        texts = {**facts["posts"], **facts["late"]}
        read = await ann.read_several([int(post) for post in texts])
        assert {str(entry.post.id): entry.post.text for entry in read} == texts
        for post, likers in facts["likes"].items():
            assert (await store.assoc_count([int(post)], [LIKED_BY]))[LIKED_BY] == {int(post): len(likers)}
            assert set((await store.assoc_get(int(post), [LIKED_BY], likers))[LIKED_BY]) == set(likers)
        late = {int(post) for post in facts["late"]}
        for who, home in facts["homes"].items():
            shown = [entry.post.id for entry in (await people[who].home(limit=40)).entries]
            # Unlike the first version, a share does not show a post again that the member has seen.
            assert set(shown) - late == set(home), who
            assert (late <= set(shown)) == (who in {"ann", "ben", "cyd"}), who
        # The parked job is kept and can be processed.
        (aside,) = await shoal.network.store.parked()
        assert aside[1] == "set aside to be kept"
        await shoal.network.store.unpark([aside[0]])
        new = await ann.create("written by today's #tide")
        await cyd.like(new)
        await ben.unfollow(ann)
        await shoal.settle()
        assert [entry.post.id for entry in (await cyd.home(limit=1)).entries] == [new.id]
        assert [entry.post.id for entry in (await ben.home(limit=1)).entries] == [max(late)]
        found = await check(shoal.network, repair=True)
        assert found.clean or found.repaired, found
        report = await check(shoal.network)
        assert report.clean, report
        assert sum(line.checked for line in report.invariants) > 100


@pytest.mark.parametrize(("name", "version"), [kept for kept in KEPT if kept[0] == "sqlite"])
def test_sample_sqlite_store_of_each_version_has_rows_in_all_its_tables(
    name: str, version: int, tmp_path: Path
) -> None:
    unpack(name, version, tmp_path)
    with closing(sqlite3.connect(tmp_path / FILES[0])) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (version,)
        tables = {table for (table,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        counts = {table: file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}  # noqa: S608
    # Reading a long list creates blocks.
    assert [table for table, n in counts.items() if not n] == ([] if version < 5 else ["block"])


@pytest.mark.parametrize("version", versions("sqlite"))
@in_loop
async def test_upgraded_sqlite_file_has_tables_and_indexes_of_new_file(version: int, tmp_path: Path) -> None:
    unpack("sqlite", version, tmp_path)
    made = []
    for path in (tmp_path / FILES[0], tmp_path / "new.db"):
        await (await SqliteGraph.open(path)).close()
        with closing(sqlite3.connect(path)) as file:
            rows = file.execute("SELECT name, sql FROM sqlite_schema ORDER BY name")
            made.append({name: " ".join((script or "").split()) for name, script in rows})
    assert made[0] == made[1]


def test_sample_store_exists_for_each_previous_schema_version() -> None:
    now = {"sqlite": graph_sqlite.MIGRATIONS, "postgresql": graph_postgres.MIGRATIONS}
    for name, migrations in now.items():
        wanted = set(range(FIRST[name], len(migrations)))
        missing = sorted(wanted - set(versions(name)))
        assert not missing, (
            f"new schema version: check out the previous commit, run `python -m tests.upgrades.stored_networks {name}`, "
            f"and commit {name}-{missing[0]}.tar.xz"
        )


def test_sample_store_exists_for_previous_search_and_tag_schemas(tmp_path: Path) -> None:
    for file, migrations in ((FILES[1], tags_sqlite.MIGRATIONS), (FILES[2], search_sqlite.MIGRATIONS)):
        found = set()
        for version in versions("sqlite"):
            folder = tmp_path / str(version)
            folder.mkdir(exist_ok=True)
            unpack("sqlite", version, folder)
            if (folder / file).exists():
                with closing(sqlite3.connect(folder / file)) as stored:
                    found.add(stored.execute("PRAGMA user_version").fetchone()[0])
        assert {len(migrations), len(migrations) - 1} & found, (
            f"{file}: run `python -m tests.upgrades.stored_networks sqlite` first"
        )
    dumps = ""
    for version in versions("postgresql"):
        unpack("postgresql", version, tmp_path)
        dumps += (tmp_path / DUMP).read_text()
    for table, migrations in (
        ("tag_version", tags_postgres.MIGRATIONS),
        ("search_version", search_postgres.MIGRATIONS),
    ):
        assert f"INSERT INTO shoal.{table} VALUES" in dumps
        assert f"({max(1, len(migrations) - 1)})" in dumps, (
            f"{table}: run `python -m tests.upgrades.stored_networks postgresql` first"
        )
