"""Moves of a whole network to other stores."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Shoal
from shoal.admin.move import Sums, move_network
from shoal.admin.report import nothing
from shoal.core.errors import Conflict, InvalidInput
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.core.model import Member
from shoal.core.placement import SHARDS
from shoal.graph.bulk import KeyRow, Movable, Rows
from shoal.graph.contract import AssocRow, Batch, Store
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import FOLLOWS
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.graph.sqlite import SqliteGraph
from tests.async_runner import in_loop, run
from tests.ops.shard_move_network import Databases, contents_of, populate, process
from tests.stores import id_on, moment

ROOT = Path(__file__).resolve().parents[2]


async def network_with_everything(graph: Store) -> None:
    """Fill a graph with data of each kind, including pending and parked jobs and an expiring key."""
    await populate(graph)
    batch = Batch(shard_of(id_on(9)))
    batch.emit(PostCreated(post_id=1, author_id=id_on(9)))
    await graph.commit(batch)
    await graph.park((await graph.claim(1, 60))[0], "it would not")
    for source in (9, 40):
        batch = Batch(shard_of(id_on(source)))
        batch.emit(PostCreated(post_id=2, author_id=id_on(source)))
        await graph.commit(batch)
    assert isinstance(graph, Movable)
    await graph.put_rows(
        Rows(keys=[KeyRow("idempotency", "soon\U0001f41f", id_on(3), 2**50), KeyRow("email", "a@b", id_on(3), 0)])
    )


@asynccontextmanager
async def sqlite(path: Path) -> AsyncIterator[Store]:
    graph = await SqliteGraph.open(path)
    try:
        yield graph
    finally:
        await graph.close()


async def events_of(graph: Store) -> tuple[list[object], list[object]]:
    waiting = [job.event for job in await graph.claim(100, 60)]
    return sorted(waiting, key=repr), [(job.event, error) for job, error in await graph.parked()]


@in_loop
async def test_network_move_from_sqlite_to_two_postgresql_and_back_keeps_all_data(tmp_path: Path) -> None:
    databases = Databases()
    stores = {"0-31": await databases.one(), "32-63": await databases.one()}
    path, returned = tmp_path / "here.db", tmp_path / "back.db"
    async with sqlite(path) as here:
        await network_with_everything(here)
        async with process(stores) as there:
            moved = await move_network(here, there, nothing)
            assert await contents_of(there) == await contents_of(here)
            assert (moved.events, moved.parked) == (2, 1)
    async with process(stores) as there, sqlite(returned) as back:
        again = await move_network(there, back, nothing)
        assert again.sums.digest == moved.sums.digest
        assert await contents_of(back) == await contents_of(there)
    # Events claimed by a move are available again after the store is reopened.
    async with sqlite(path) as here, process(stores) as there, sqlite(returned) as back:
        assert await events_of(there) == await events_of(back) == await events_of(here)


@in_loop
async def test_network_move_after_interruption_resumes_and_removes_stale_rows(tmp_path: Path) -> None:
    async with sqlite(tmp_path / "here.db") as here, sqlite(tmp_path / "there.db") as there:
        await network_with_everything(here)

        class Interrupted(Exception):
            pass

        def tell(phase: str, _done: int, _total: int) -> None:
            if phase == "counts":
                raise Interrupted

        with pytest.raises(Interrupted):
            await move_network(here, there, tell)
        # Rows written and deleted at the source between the two moves.
        await here.remove_rows(Rows(objects=[Member(id=id_on(5), name="m5")]))  # type: ignore[attr-defined]
        await populate_one(here, 5)
        moved = await move_network(here, there, nothing)
        assert moved.sums.rows("objects") > moved.written - moved.sums.rows("counts") - moved.sums.rows("keys")
        assert await contents_of(there) == await contents_of(here)
        with pytest.raises(InvalidInput, match="not empty"):
            await move_network(here, there, nothing)


async def populate_one(graph: Store, source: int) -> None:
    batch = Batch(shard_of(id_on(source)))
    batch.assoc_add(id_on(source), FOLLOWS, id_on(source + 1), moment(900), b"later")
    await graph.commit(batch)


@in_loop
async def test_network_move_with_incomplete_copy_raises_conflict(tmp_path: Path) -> None:
    class Forgetful(MemoryGraph):
        async def put_rows(self, rows: Rows) -> None:
            await super().put_rows(rows._replace(assocs=rows.assocs[1:]))

    async with sqlite(tmp_path / "here.db") as here:
        await populate(here)
        with pytest.raises(Conflict, match="the copy differs from the original: associations of data source"):
            await move_network(here, Forgetful(), nothing)


@in_loop
async def test_network_move_onto_itself_or_from_unfinished_copy_is_refused() -> None:
    graph, empty = MemoryGraph(), MemoryGraph()
    with pytest.raises(InvalidInput, match="are one store"):
        await move_network(graph, graph, nothing)
    await graph.put_rows(Rows(keys=[KeyRow("move", "unfinished", 1, 0)]))
    with pytest.raises(InvalidInput, match="the target of an interrupted move"):
        await move_network(graph, empty, nothing)


ids = st.integers(0, 63).flatmap(lambda source: st.integers(0, 3).map(lambda n: id_on(source, n)))
assoc_rows = st.builds(AssocRow, ids, st.integers(1, 22), ids, st.integers(0, 9), st.booleans(), st.binary(max_size=3))
key_rows = st.builds(
    KeyRow,
    st.just("import"),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3),
    ids,
    st.integers(0, 9),
)
count_rows = st.tuples(ids, st.integers(1, 22), st.integers(-1, 3))
members = st.builds(Member, id=ids, name=st.text(max_size=2), version=st.integers(1, 5))


R = TypeVar("R")


def named(rows: Sequence[R], name: Callable[[R], object]) -> list[R]:
    """Remove rows with duplicate names."""
    return list({name(row): row for row in rows}.values())


def some_of(data: st.DataObject, rows: Sequence[R]) -> list[R]:
    return data.draw(st.lists(st.sampled_from(rows), unique_by=repr)) if rows else []


@given(st.lists(members), st.lists(assoc_rows), st.lists(count_rows), st.lists(key_rows), st.data())
def test_network_move_with_arbitrary_target_content_makes_both_stores_equal(
    objects: list[Member],
    assocs: list[AssocRow],
    counts: list[tuple[int, int, int]],
    keys: list[KeyRow],
    data: st.DataObject,
) -> None:
    rows = Rows(
        named(objects, lambda node: node.id),
        named(assocs, lambda row: row[:3]),
        named(counts, lambda row: row[:2]),
        named(keys, lambda row: row[:2]),
    )
    halves = [shard * 2 // SHARDS for shard in range(SHARDS)]
    here, there = MemoryGraph(), ShardedGraph([MemoryGraph(), MemoryGraph()], halves)

    async def moved() -> None:
        await here.put_rows(rows)
        changed = Rows(
            some_of(data, rows.objects),
            [row._replace(time=row.time + 1) for row in some_of(data, rows.assocs)],
            some_of(data, rows.counts),
            some_of(data, rows.keys),
        )
        await there.put_rows(changed)
        await there.put_rows(
            Rows(objects=[Member(id=id_on(1, 77), name="stray")], keys=[KeyRow("move", "unfinished", 1, 0)])
        )
        done = await move_network(here, there, nothing)
        assert done.sums.rows("counts") == sum(1 for row in rows.counts if row[2])
        assert await contents_of(here) == await contents_of(there)

    run(moved())


def test_network_move_checksums_ignore_row_order_and_detect_every_difference() -> None:
    one, two = Sums(), Sums()
    for row in (b"a", b"b", b"b"):
        one.add("keys", 3, row)
    for row in (b"b", b"a", b"b"):
        two.add("keys", 3, row)
    assert one.differences(two) == []
    assert one.digest == two.digest
    two.add("keys", 4, b"a")
    assert one.differences(two) == ["keys of data source 4"]
    three = Sums()
    for row in (b"a", b"a", b"b"):
        three.add("keys", 3, row)
    assert one.differences(three) == ["keys of data source 3"]


def shoal(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_shoal_move_from_sqlite_file_to_two_databases_completes_in_one_command(tmp_path: Path) -> None:
    databases = Databases()
    path = tmp_path / "here.db"

    async def prepare() -> dict[str, str]:
        async with sqlite(path) as here:
            await populate(here)
        return {"0-31": await databases.one(), "32-63": await databases.one()}

    stores = asyncio.run(prepare())
    done = shoal("move", "--from", f"sqlite:///{path}", "--to", json.dumps(stores))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^256 objects, counts and hashes equal on both sides$", done.stdout, re.MULTILINE)
    assert re.search(r"^\d+ tags counted in the target store$", done.stdout, re.MULTILINE)
    assert f"set `media` to {path.with_name('here.db.media').as_uri()}" in done.stdout
    assert "shoal@" not in done.stdout, "the output contains credentials"
    shown = shoal("--store", json.dumps(stores), "shards")
    assert shown.returncode == 0, shown.stderr
    assert "map from the settings" in shown.stdout
    assert re.search(r"over the data sources .*\n  members +1.0 +0.0 +1 +1\n  posts +3.0 +0.0 +3 +3\n", shown.stdout)


def test_shoal_move_of_store_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "here.db"

    async def held() -> subprocess.CompletedProcess[str]:
        async with sqlite(path):
            return await asyncio.to_thread(
                shoal, "move", "--from", f"sqlite:///{path}", "--to", f"sqlite:///{tmp_path / 'there.db'}"
            )

    done = asyncio.run(held())
    assert done.returncode == 1
    assert f"here.db is in use by another process, {os.getpid()} (" in done.stderr
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM key").fetchone() == (0,)
    connection.close()


@in_loop
async def test_network_move_to_several_stores_keeps_external_ids_where_lookups_find_them(tmp_path: Path) -> None:
    stores = {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}
    media = f"file://{tmp_path}/media"
    async with Shoal.open(f"sqlite:///{tmp_path}/whole.db", media=media) as shoal:
        for number in range(20):
            await shoal.external_ids.upsert("https://shop.example", str(number), user_name=f"member{number}")
    async with (
        sqlite(tmp_path / "whole.db") as here,
        process(stores) as there,
    ):
        await move_network(here, there, nothing)
    async with Shoal.open(stores, media=media) as shoal:
        for number in range(20):
            member = await shoal.external_ids.member("https://shop.example", str(number))
            assert member.name == f"member{number}"
