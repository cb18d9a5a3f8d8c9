"""Distribution of a network over its stores, and the output of `shoal shards`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.admin.report import nothing
from shoal.admin.resharding import Evenness, by_source, evenness, spread_of
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.core.placement import SHARDS
from shoal.graph.bulk import ASSOC_BYTES, Spread, weigh
from shoal.graph.contract import Store
from shoal.graph.schema import encode_node
from shoal.graph.shard_map import ShardMap, first_map, parse_shard_map, parse_shards, ranges_of, shown_url
from tests.async_runner import in_loop
from tests.ops.shard_move_network import Databases, member_on, mover, populate, process
from tests.stores import Backend, add, all_links, all_objects, id_on

ROOT = Path(__file__).resolve().parents[2]


class Blind:
    """A store without size statistics."""

    def __init__(self, store: Store) -> None:
        self.obj_scan = store.obj_scan
        self.assoc_scan = store.assoc_scan


@pytest.mark.parametrize("name", ["memory", "sqlite", "sharded-sqlite", "postgres", "sharded-postgres"])
@in_loop
async def test_shard_contents_are_counted_equally_on_every_store_backend(name: str, tmp_path: Path) -> None:
    async with Backend(name, tmp_path).open() as graph:
        await populate(graph)
        text = "type member " * 20
        await add(graph, Post(id=id_on(3, 90), author_id=member_on(3), text=text))
        by_shard = await spread_of(graph, nothing)
        held = by_source(by_shard)
        objects, links = await all_objects(graph), await all_links(graph)
        for source in range(64):
            nodes = [node for node in objects if shard_of(node.id) // 128 == source]
            size = sum(len(encode_node(node)) for node in nodes)
            size += sum(ASSOC_BYTES + len(row.data) for row in links if shard_of(row.id1) // 128 == source)
            assert held[source] == Spread(1, 4 if source == 3 else 3, size)
        assert await spread_of(Blind(graph), nothing) == by_shard  # type: ignore[arg-type]


def test_shard_evenness_returns_mean_standard_deviation_minimum_and_maximum() -> None:
    assert Evenness.of([2, 4, 4, 4, 5, 5, 7, 9]) == (5, 2, 2, 9)
    found = evenness([Spread(1, 10, 100), Spread(3, 10, 300)])
    assert found == {"members": (2, 1, 1, 3), "posts": (10, 0, 10, 10), "bytes": (200, 100, 100, 300)}


def test_shard_contents_of_data_source_are_sums_of_its_shards() -> None:
    assert by_source([Spread(1, 2, 3)] * SHARDS) == [Spread(128, 256, 384)] * 64
    assert weigh(Post(id=1, author_id=1)).posts == 1


def test_shard_map_after_move_and_rollback_names_owners_and_old_locations() -> None:
    first = first_map("a")
    moved = first.with_store("b").moving([3, 4], 0, 1, returns=False)
    assert (moved.version, moved.by_store()[1], moved.moved) == (1, [3, 4], {3: 0, 4: 0})
    back = moved.moving([3], 1, 0, returns=True)
    assert (back.version, back.by_store()[1], back.moved, back.left) == (2, [4], {4: 0}, {3: 1})
    assert ShardMap.from_plain(2, back.plain()) == back


def test_shard_map_names_ends_of_event_logs_until_a_move_is_finished() -> None:
    moved = first_map("a").with_store("b").moving([3, 4, 5], 0, 1, returns=False, end=(2**62, 1, 700))
    back = moved.moving([3], 1, 0, returns=True, end=(7, 2, 9))
    assert back.ends == {3: (7, 2, 9), 4: (2**62, 1, 700), 5: (2**62, 1, 700)}
    assert ShardMap.from_plain(2, back.plain()) == back
    finished = back._replace(moved={4: 0}, left={})
    assert ShardMap.from_plain(3, finished.plain()).ends == {4: (2**62, 1, 700)}


def test_shard_map_stored_by_version_0_2_is_read() -> None:
    stored = {"stores": ["a", "b"], "owners": [0] * 32 + [1] * 32, "moved": {"40": 0}, "left": {"3": 1}}
    known = ShardMap.from_plain(7, stored)
    assert [ranges_of(shards) for shards in known.by_store()] == ["0-31", "32-63"]
    assert (ranges_of(known.moved), set(known.moved.values())) == ("40", {0})
    assert (ranges_of(known.left), set(known.left.values())) == ("3", {1})


def _owners(cuts: list[tuple[int, int]]) -> list[int]:
    owners = [0] * SHARDS
    for start, owner in sorted(cuts):
        owners[start:] = [owner] * (SHARDS - start)
    return owners


owners_of_shards = st.lists(st.tuples(st.integers(0, SHARDS - 1), st.integers(0, 4)), max_size=30).map(_owners)


@settings(max_examples=30)
@given(owners_of_shards)
def test_shard_map_written_as_settings_names_each_shard_once(owners: list[int]) -> None:
    known = ShardMap(tuple("abcde"), tuple(owners))
    ranges = {ranges_of(shards): url for url, shards in zip(known.stores, known.by_store(), strict=True) if shards}
    assert [known.stores[owner] for owner in owners] == parse_shard_map(ranges)
    again = first_map(ranges)
    assert [again.stores[owner] for owner in again.owners] == [known.stores[owner] for owner in owners]
    assert ShardMap.from_plain(3, known.plain()) == known._replace(version=3)


@settings(max_examples=60)
@given(
    st.sets(st.integers(0, SHARDS - 1) | st.integers(0, 63).map(lambda source: source * 128), min_size=1), st.booleans()
)
def test_shard_ranges_of_random_shards_round_trip_through_text(shards: set[int], whole: bool) -> None:
    chosen = {shard // 128 * 128 + c for shard in shards for c in range(128)} if whole else shards
    assert parse_shards(ranges_of(chosen)) == sorted(chosen)


@pytest.mark.parametrize(
    ("text", "formatted", "number"),
    [
        ("3", "3", 128),
        ("12-15,20", "12-15,20", 640),
        ("5,3-5", "3-5", 384),
        ("17:0-63", "17:0-63", 64),
        ("18,17:64-127, 20:5", "17:64-127,18,20:5", 193),
        ("17:0-63,17:64-127,16", "16-17", 256),
        ("17:0-3,17:9", "17:0-3,17:9", 5),
    ],
)
def test_shard_ranges_are_parsed_and_formatted(text: str, formatted: str, number: int) -> None:
    assert (ranges_of(parse_shards(text)), len(parse_shards(text))) == (formatted, number)


@pytest.mark.parametrize(
    "text", ["", "x", "5-3", "64", "0-64", "-1", "1,,2", "17:", "17:128", "17:0-128", "64:0", "17:9-3", "17:0-1-2", "¹"]
)
def test_shard_ranges_with_invalid_text_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a list of data sources \(0 to 63\) and parts of them"):
        parse_shards(text)


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

        assert "counts and hashes equal on both sides" in await typed("move", "12-15,17:64-127", "--to", there)
        shown = await typed("show", "--by", "bytes")
        assert "map 1, kept in the stores" in shown
        assert f"{shown_url(there)}  12-15,17:64-127\n" in shown
        assert (
            f"12-15,17:64-127  moved from {shown_url(here)}: finish the move or roll it back; 0 changes recorded"
            in shown
        )
        await typed("rollback", "14-15")
        assert "rows deleted" in await typed("finish", "12-13,17:64-127")
        shown = await typed()
        assert "moves" not in shown
        assert f"{shown_url(here)}  0-11,14-16,17:0-63,18-63\n" in shown
        assert f"{shown_url(there)}  12-13,17:64-127\n" in shown
        bars = [line.split() for line in shown.splitlines() if "█" in line or "17:" in line]
        assert ["17", "1", "█" * 40] in bars
        assert ["17:0-63", "1", "█" * 40] in bars
        assert ["17:64-127", "0"] in bars
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
                await moving.move([shard_of(member_on(12))], there)
        await add(graph, Post(id=id_on(12, 90), author_id=member_on(12)))
        shown = (await asyncio.to_thread(shards, here)).stdout
        assert f"12:5  moving to {shown_url(there)} (copying); 1 changes recorded" in shown
