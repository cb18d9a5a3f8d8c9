"""Distribution of a network over its stores, and the output of `shoal shards`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.async_runner import in_loop
from tests.ops.shard_move_network import Databases, member_on, mover, populate, process
from tests.stores import Backend, add, all_links, all_objects, id_on

from shoal.admin.report import nothing
from shoal.admin.resharding import Evenness, by_store, evenness, spread_of
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.bulk import ASSOC_BYTES, Spread, weigh
from shoal.graph.contract import Store
from shoal.graph.schema import encode_node
from shoal.graph.shard_map import ShardMap, first_map, parse_sources, ranges_of, shown_url

ROOT = Path(__file__).resolve().parents[2]


class Blind:
    """A store without size statistics."""

    def __init__(self, store: Store) -> None:
        self.obj_scan = store.obj_scan
        self.assoc_scan = store.assoc_scan


@pytest.mark.parametrize("name", ["memory", "sqlite", "sharded-sqlite", "postgres", "sharded-postgres"])
@in_loop
async def test_shard_spread_is_equal_for_every_store_backend(name: str, tmp_path: Path) -> None:
    async with Backend(name, tmp_path).open() as graph:
        await populate(graph)
        text = "type member " * 20
        await add(graph, Post(id=id_on(3, 90), author_id=member_on(3), text=text))
        held = await spread_of(graph, nothing)
        objects, links = await all_objects(graph), await all_links(graph)
        for source in range(64):
            nodes = [node for node in objects if shard_of(node.id) // 128 == source]
            size = sum(len(encode_node(node)) for node in nodes)
            size += sum(ASSOC_BYTES + len(row.data) for row in links if shard_of(row.id1) // 128 == source)
            assert held[source] == Spread(1, 4 if source == 3 else 3, size)
        assert await spread_of(Blind(graph), nothing) == held  # type: ignore[arg-type]


def test_shard_evenness_returns_mean_deviation_minimum_and_maximum() -> None:
    assert Evenness.of([2, 4, 4, 4, 5, 5, 7, 9]) == (5, 2, 2, 9)
    found = evenness([Spread(1, 10, 100), Spread(3, 10, 300)])
    assert found == {"members": (2, 1, 1, 3), "posts": (10, 0, 10, 10), "bytes": (200, 100, 100, 300)}


def test_shard_spread_by_store_sums_its_data_sources() -> None:
    known = first_map({"0": "b", "1-63": "a"})
    assert known.stores == ("b", "a")
    assert by_store(known, [Spread(1, 2, 3)] * 64) == [Spread(1, 2, 3), Spread(63, 126, 189)]
    assert weigh(Post(id=1, author_id=1)).posts == 1


def test_shard_map_move_and_return_update_owners_and_leftovers() -> None:
    first = first_map("a")
    moved = first.with_store("b").moving([3, 4], 0, 1, returns=False)
    assert (moved.version, moved.of(1), moved.moved) == (1, [3, 4], {3: 0, 4: 0})
    back = moved.moving([3], 1, 0, returns=True)
    assert (back.version, back.of(1), back.moved, back.left) == (2, [4], {4: 0}, {3: 1})
    assert ShardMap.from_plain(2, back.plain()) == back


@pytest.mark.parametrize(("text", "sources"), [("3", [3]), ("12-15,20", [12, 13, 14, 15, 20]), ("5,3-5", [3, 4, 5])])
def test_data_source_ranges_are_parsed_and_formatted(text: str, sources: list[int]) -> None:
    assert parse_sources(text) == sources
    assert parse_sources(ranges_of(sources)) == sources


@pytest.mark.parametrize("text", ["", "x", "5-3", "64", "0-64", "-1", "1,,2"])
def test_data_source_ranges_with_invalid_text_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of data sources"):
        parse_sources(text)


def test_shown_store_url_omits_credentials() -> None:
    assert shown_url("postgresql://me:secret@host:5432/db?x=1") == "postgresql://host:5432/db"


def shards(store: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli", "--store", store, "shards", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@in_loop
async def test_shoal_shards_shows_move_from_start_to_finish() -> None:
    databases = Databases()
    here, there = await databases.one(), await databases.one()
    async with process(here) as graph:
        await populate(graph)

        async def typed(*arguments: str) -> str:
            done = await asyncio.to_thread(shards, here, *arguments)
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert "counts and hashes equal on both sides" in await typed("move", "12-15", "--to", there)
        shown = await typed("show", "--by", "bytes")
        assert "map 1, kept in the stores" in shown
        assert f"{shown_url(there)}  12-15" in shown
        assert f"12-15  moved from {shown_url(here)}: finish the move or roll it back; 0 changes noted" in shown
        await typed("rollback", "14-15")
        assert "rows deleted" in await typed("finish", "12-13")
        shown = await typed()
        assert "moves" not in shown
        assert f"{shown_url(there)}  12-13\n" in shown
        refused = await asyncio.to_thread(shards, here, "finish", "12")
        assert (refused.returncode, refused.stderr) == (
            1,
            "shoal: 12 has no move to finish: list moves with `shoal shards`\n",
        )


@in_loop
async def test_shoal_shards_after_mover_crash_shows_unfinished_move() -> None:
    databases = Databases()
    here, there = await databases.one(), await databases.one()

    class Died(Exception):
        pass

    def tell(phase: str, _done: int, _total: int) -> None:
        if phase == "compare":
            raise Died

    async with process(here) as graph:
        await populate(graph)
        async with mover(here, tell) as moving:
            with pytest.raises(Died):
                await moving.move([12], there)
        await add(graph, Post(id=id_on(12, 90), author_id=member_on(12)))
        shown = (await asyncio.to_thread(shards, here)).stdout
        assert f"12  moving to {shown_url(there)} (copying); 1 changes noted" in shown
