"""Two versions of Shoal on one network: the current one, and the next one with an expanded schema (`next_version.py`)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest

from shoal.admin.consistency.check import check
from shoal.app.network import open_network
from shoal.commands import members, oauth
from shoal.core.model import Post
from shoal.graph.contract import Cursor
from shoal.graph.postgres import schema as postgres_schema
from shoal.graph.schema import FOLLOWS, POSTED
from shoal.graph.sqlite import sql as sqlite_sql
from shoal.settings import build
from shoal_devcluster.program import Program
from tests.faults.cluster import SCOPES, cluster_fixture
from tests.faults.load import Load, Person
from tests.server_process import served
from tests.upgrades.next_version import MADE, WANTED

NEXT = "tests.upgrades.next_version"
ROOT = Path(__file__).parents[2]
_ANSWERS = 40


class At(NamedTuple):
    """The address of a server, for the load generator."""

    url: str

    def last_words(self) -> str:
        """Return an empty string: the output is not kept."""
        return ""


async def _people(store: Path) -> list[Person]:
    people = []
    async with open_network(build(store=f"sqlite:///{store}"), background=False) as network:
        app = await oauth.register(network.writes, "load", scopes=SCOPES)
        for name in ("ann", "ben", "cyd", "dan"):
            member = await members.register(network.writes, name)
            token = await oauth.issue_token(network.writes, app.app.id, member.id, SCOPES)
            people.append(Person(member.id, name, 0, token.text))
    return people


def test_sqlite_store_alternating_between_versions_under_load_loses_no_data(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    people = asyncio.run(_people(store))
    for turn, module in enumerate(("shoal.cli", NEXT, "shoal.cli", NEXT, "shoal.cli")):
        with served(store, module=module) as server:
            with Load([At(server.url)], people, turn) as load:  # type: ignore[list-item]
                load.more(_ANSWERS)
            server.kill()
    # The unfinished work of the next version is still stored, and this version has not changed it.
    assert _version(store) == len(sqlite_sql.MIGRATIONS) + 1
    with served(store, module=NEXT) as server:
        _until_equal(store)
        server.stop()
    asyncio.run(_holds(store, people))


def _version(store: Path) -> int:
    with closing(sqlite3.connect(store)) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
    return int(version)


def _names(store: Path, space: str) -> set[str]:
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as file:
        return {name for (name,) in file.execute("SELECT name FROM key WHERE space = ?", (space,))}


def _until_equal(store: Path) -> None:
    async def waited() -> None:
        async with asyncio.timeout(60):
            while _names(store, MADE) != _names(store, WANTED):  # noqa: ASYNC110  # another process makes them
                await asyncio.sleep(0.1)

    asyncio.run(waited())
    assert len(_names(store, MADE)) > _ANSWERS / 4


async def _holds(store: Path, people: Collection[Person]) -> None:
    """Check with this version that all acknowledged writes are stored exactly once."""
    async with open_network(build(store=f"sqlite:///{store}")) as network:
        await network.settle()
        for person in people:
            found = await network.store.obj_get([*person.posts, *person.deleted])
            texts = {id_: node.text for id_, node in found.items() if isinstance(node, Post)}
            assert {id_: text for id_, text in texts.items() if id_ in person.posts} == person.posts
            counts = await network.store.assoc_count([person.id], [POSTED, FOLLOWS])
            assert counts[POSTED].get(person.id, 0) == len(person.posts)
            follows = await network.store.assoc_range(person.id, FOLLOWS, Cursor(limit=100))
            assert {follow.id2 for follow in follows} == {id_ for id_, on in person.follows.items() if on}
        assert not await network.store.parked()
        report = await check(network)
        assert report.clean, report


def _replace(program: Program, module: str) -> None:
    """Stop a process of a cluster, and start another version in its place."""
    program.stop()
    program._command = [NEXT if part in {"shoal.cli", NEXT} else part for part in program._command]
    program._command = [module if part == NEXT else part for part in program._command]
    # The process runs in a different folder.
    program._environ = {**program._environ, "PYTHONPATH": str(ROOT)}
    program.start()


@pytest.mark.deep
def test_cluster_rolling_upgrade_and_rollback_under_load_loses_no_data() -> None:
    with cluster_fixture() as here:
        web, workers = here.cluster.web, here.cluster.workers
        with here.load(1) as load:
            load.more(3 * _ANSWERS)
            _replace(web[0], NEXT)
            # With a new web process and old workers, new events wait for a worker that knows them.
            load.more(3 * _ANSWERS)
            # A process of the current version may restart.
            _replace(web[1], "shoal.cli")
            _replace(workers[1], "shoal.cli")
            load.more(3 * _ANSWERS)
            _replace(workers[0], NEXT)
            load.more(3 * _ANSWERS)
            _replace(web[1], NEXT)
            load.more(2 * _ANSWERS)
            # Roll back, while one worker still knows the events of the next version.
            for program in web:
                _replace(program, "shoal.cli")
            load.more(2 * _ANSWERS)
        here.sound()
        wanted, made = asyncio.run(_tides(here.settings.store))
        assert made == wanted
        assert len(made) > _ANSWERS / 4


async def _tides(stores: object) -> tuple[set[str], set[str]]:
    assert isinstance(stores, dict)
    found: dict[str, set[str]] = {WANTED: set(), MADE: set()}
    for url in set(stores.values()):
        connection = await asyncpg.connect(url)
        try:
            assert (
                await connection.fetchval("SELECT max(applied) FROM shoal.version")
                == len(postgres_schema.MIGRATIONS) + 1
            )
            for space, name in await connection.fetch(
                "SELECT space, name FROM shoal.key WHERE space = ANY ($1)", [WANTED, MADE]
            ):
                found[space].add(name)
        finally:
            await connection.close()
    return found[WANTED], found[MADE]
