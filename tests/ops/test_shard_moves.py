"""Moves of data sources and parts of them between PostgreSQL stores under concurrent reads and writes."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import asyncpg
import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.database_imports.run import ImportMapped
from shoal.admin.report import nothing
from shoal.admin.resharding import Move, Mover
from shoal.core.errors import Conflict, InvalidInput, Unavailable
from shoal.core.events import InversePending
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch, Store
from shoal.graph.postgres import ranks
from shoal.graph.postgres.writer import Writer
from shoal.graph.schema import LIKES
from shoal.graph.shard_map import Digest, RowKind, RowNames, parse_shards
from shoal.graph.sharding.live_map import LiveMap
from shoal.graph.sharding.sharded_graph import ShardedGraph
from tests.async_runner import eventually, in_loop
from tests.ops.shard_move_network import (
    UPPER,
    Databases,
    Load,
    contents_of,
    id_in,
    member_on,
    mover,
    populate,
    process,
)
from tests.stores import all_links, all_objects, begin, broken_promises, id_on, moment

_MAP = """
issuer = "https://old.example"
[members]
table = "users"
fields = { id = "id", name = "name" }
[posts]
table = "posts"
fields = { id = "id", author = "user_id", text = { value = "Low tide" }, created_at = "at" }
"""
SOURCES = range(12, 16)
SHARDS = parse_shards("12-15")
LOADED = range(8, 20)
ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def network(processes: int = 2) -> AsyncIterator[tuple[list[Store], str, str]]:
    """Open processes of a network on one store, and provide an empty second store."""
    databases = Databases()
    here, there = await databases.one(), await databases.one()
    async with process(here) as first:
        await populate(first)
        if processes == 1:
            yield [first], here, there
            return
        async with process(here) as second:
            yield [first, second], here, there


async def rows_in(url: str, shards: str) -> int:
    """Return the number of rows of data sources, or parts of them, in a database."""
    connection = await asyncpg.connect(url)
    try:
        return int(
            await connection.fetchval(
                """SELECT (SELECT count(*) FROM shoal.object WHERE shoal.shard_of(id) = ANY ($1))
                + (SELECT count(*) FROM shoal.association WHERE shoal.shard_of(id1) = ANY ($1))
                + (SELECT count(*) FROM shoal.count WHERE shoal.shard_of(id1) = ANY ($1))
                + (SELECT count(*) FROM shoal.block WHERE shoal.shard_of(id1) = ANY ($1))
                + (SELECT count(*) FROM shoal.key WHERE shoal.key_shard(space, name, id) = ANY ($1))""",
                parse_shards(shards),
            )
        )
    finally:
        await connection.close()


@asynccontextmanager
async def small_blocks() -> AsyncIterator[None]:
    """Shrink the blocks so that a few posts fill every level."""
    with patch.multiple(ranks, BLOCK=2, FAN=2, OPEN=3, AT_ONCE=4):
        yield


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def child(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ops.shard_move_processes", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def killed(url: str, verb: str, sources: str, target: str, phase: str) -> None:
    """Run a mover that is killed in a phase."""
    process = child("mover", url, verb, sources, target, phase)
    await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL, f"the mover did not reach {phase}"


@in_loop
async def test_shard_move_keeps_external_ids_where_lookups_and_repeated_imports_find_them(tmp_path: Path) -> None:
    issuer, numbers = "https://old.example", range(40)
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as source, source:
        source.execute("CREATE TABLE users (id, name)")
        source.executemany("INSERT INTO users VALUES (?, ?)", ((n, f"member{n}") for n in numbers))
        source.execute("CREATE TABLE posts (id, user_id, at)")
        source.executemany("INSERT INTO posts VALUES (?, ?, ?)", ((n, n, 1_714_000_000 + n) for n in numbers))
    job = ImportMapped(_MAP, f"sqlite:///{old}")
    databases = Databases()
    here, there = await databases.one(), await databases.one()
    async with Shoal.open(here, media=f"file://{tmp_path}/media") as shoal:
        made = await job.carry_out(shoal.network, nothing)
        assert (made.counts["members"].taken, made.counts["posts"].taken) == (40, 40)
    async with mover(here) as moving:
        await moving.move(parse_shards("20-51"), there)
        assert await moving.finish(parse_shards("20-51"))
    async with Shoal.open(here, media=f"file://{tmp_path}/media") as shoal:
        for number in map(str, numbers):
            assert (await shoal.external_ids.member(issuer, number)).name == f"member{number}"
            assert await shoal.external_ids.find("posts", issuer, number)
        again = await job.carry_out(shoal.network, nothing)
        assert [(again.counts[kind].taken, again.counts[kind].there) for kind in ("members", "posts")] == [(0, 40)] * 2
        assert (await check(shoal.network)).clean


@in_loop
async def test_shard_move_rollback_and_finish_under_load_lose_no_data_and_serve_no_stale_reads() -> None:
    async with small_blocks(), network() as (graphs, here, there):
        load = Load(graphs, LOADED)
        async with load.running():
            await load.more(50)
            async with mover(here) as moving:
                (moved,) = await moving.move(SHARDS, there)
            await load.more(50)
            async with mover(here) as moving:
                (back,) = await moving.rollback(parse_shards("12-13"))
            await load.more(50)
            async with mover(here) as moving:
                assert await moving.finish(parse_shards("14-15"))
            await load.more(30)
        print(f"\nfrozen {moved.frozen:.3f} s and {back.frozen:.3f} s, the slowest request {load.longest:.3f} s")  # noqa: T201
        assert moved.rows
        for graph in graphs:
            await load.check(graph)
        async with process(here) as another:
            await load.check(another)
        assert await rows_in(here, "14-15") == await rows_in(there, "12-13") == 0
        assert await rows_in(here, "12-13")
        assert await rows_in(there, "14-15")


@in_loop
async def test_shard_move_keeps_contents_unchanged() -> None:
    async with network() as (graphs, here, there):
        before = await contents_of(graphs[0])
        async with mover(here) as moving:
            await moving.move(SHARDS, there)
        for graph in graphs:
            assert await contents_of(graph) == before
        async with mover(here) as moving:
            await moving.finish(SHARDS)
        assert await contents_of(graphs[1]) == before
        assert await rows_in(here, "12-15") == 0


@in_loop
async def test_scan_after_a_move_that_an_idle_process_did_not_notice_is_complete() -> None:
    async with network() as (graphs, here, there):
        before = await contents_of(graphs[0])
        watch = cast("ShardedGraph", graphs[1]).watch
        assert isinstance(watch, LiveMap)

        async def rests() -> bool:
            return here in watch._idle

        await eventually(rests, True)
        async with mover(here) as moving:
            await moving.move(SHARDS, there)
            await moving.finish(SHARDS)
        assert watch.map.version == 0
        assert await contents_of(graphs[1]) == before


@in_loop
async def test_shard_move_of_all_sources_empties_one_of_two_stores() -> None:
    databases = Databases()
    one, two = await databases.one(), await databases.one()
    store = {"0-31": one, "32-63": two}
    async with process(store) as graph, process(store) as other:
        await populate(graph)
        load = Load([graph, other], range(28, 40))
        before = await contents_of(graph)
        async with mover(store) as moving:
            await moving.move(parse_shards("32-63"), one)
        assert await contents_of(other) == before
        async with load.running():
            await load.more(50)
        async with mover(store) as moving:
            await moving.finish(parse_shards("32-63"))
        await load.check(graph)
        assert await rows_in(two, "0-63") == 0
        async with process(store) as another:
            await load.check(another)


@pytest.mark.parametrize("phase", ["clean", "association KB", "compare", "switch", "settle", "open"])
@in_loop
async def test_shard_move_after_mover_kill_keeps_network_writable_and_can_be_repeated(phase: str) -> None:
    async with network() as (graphs, here, there):
        load = Load(graphs, LOADED)
        async with load.running(2):
            await load.more(10)
            await killed(here, "move", "12-15", there, phase)
            # Writes to frozen data sources are allowed again when the freeze expires.
            await load.more(3, SOURCES)
            async with mover(here) as moving:
                await moving.move(SHARDS, there)
            await load.more(20)
        await load.check(graphs[0])
        async with mover(here) as moving:
            await moving.finish(SHARDS)
        await load.check(graphs[1])
        assert await rows_in(here, "12-15") == 0


@pytest.mark.parametrize("phase", ["association KB", "switch", "settle"])
@in_loop
async def test_shard_move_after_mover_kill_can_be_rolled_back(phase: str) -> None:
    async with network() as (graphs, here, there):
        load = Load(graphs, LOADED)
        async with load.running(2):
            await killed(here, "move", "12-15", there, phase)
            async with mover(here) as moving:
                await moving.rollback(SHARDS)
            await load.more(20)
        await load.check(graphs[0])
        assert await rows_in(there, "12-15") == 0


@pytest.mark.parametrize(
    ("verb", "phase"), [("rollback", "switch"), ("rollback", "settle"), ("rollback", "delete"), ("finish", "delete")]
)
@in_loop
async def test_shard_move_rollback_or_finish_after_kill_can_be_repeated(verb: str, phase: str) -> None:
    async with network() as (graphs, here, there):
        load = Load(graphs, LOADED)
        async with load.running(2):
            async with mover(here) as moving:
                await moving.move(SHARDS, there)
            await load.more(20)
            await killed(here, verb, "12-15", there, phase)
            await load.more(20)
            async with mover(here) as moving:
                await (moving.rollback(SHARDS) if verb == "rollback" else moving.finish(SHARDS))
        await load.check(graphs[0])
        owner, other = (there, here) if verb == "finish" else (here, there)
        assert await rows_in(owner, "12-15")
        assert await rows_in(other, "12-15") == 0


@pytest.mark.parametrize("phase", ["", "association KB", "switch", "settle"])
@in_loop
async def test_shard_move_of_half_a_data_source_under_load_and_after_mover_kill_loses_no_data(phase: str) -> None:
    async with small_blocks(), network() as (graphs, here, there):
        await populate(graphs[0], halves=[UPPER + 17])
        load = Load(graphs, [16, 17, UPPER + 17, 18])
        half = parse_shards("17:64-127")
        async with load.running():
            await load.more(20)
            if phase:
                await killed(here, "move", "17:64-127", there, phase)
                await load.more(3, [UPPER + 17])
            async with mover(here) as moving:
                await moving.move(half, there)
            await load.more(10, [17, UPPER + 17])
            async with mover(here) as moving:
                (back,) = await moving.rollback(half)
                assert back.rows
            await load.more(10, [17, UPPER + 17])
            assert await rows_in(there, "17") == 0
            async with mover(here) as moving:
                await moving.move(half, there)
                await moving.finish(half)
            await load.more(10, [17, UPPER + 17])
        for graph in graphs:
            await load.check(graph)
        assert await rows_in(here, "17:64-127") == await rows_in(there, "0-16,17:0-63,18-63") == 0
        assert await rows_in(here, "17:0-63")
        assert await rows_in(there, "17:64-127")
        async with process({"0-63": here}) as another:
            await load.check(another)


@in_loop
async def test_shard_move_with_write_after_expired_freeze_is_repeated_instead_of_refused() -> None:
    async with network(1) as ((graph,), here, there):
        drain, slow, likers = Mover._drain, True, iter(range(20, 60))

        async def like() -> None:
            await begin(graph, member_on(next(likers)), LIKES, id_in(12, 1), moment(1), aggregate_id=member_on(12))

        async def drained(moving: Mover, work: Move, *, few: int = 300) -> RowNames:
            nonlocal slow
            if few:
                await like()
            names = await drain(moving, work, few=few)
            if not few and slow:
                slow = False
                # This commit waits until the freeze has expired, and changes a count that was already copied.
                await like()
            return names

        with patch.object(Mover, "_drain", drained):
            async with mover(here) as moving:
                (moved,) = await moving.move(SHARDS, there)
        assert not slow
        assert moved.rows
        assert await broken_promises(graph) == []


@contextmanager
def commits_held(shard: int, until: asyncio.Event) -> Iterator[asyncio.Event]:
    """Suspend commits on a shard between the load of their rows and the decision on their changes.

    Yields an event that is set when the first one is suspended.
    """
    reached, load = asyncio.Event(), Writer._load  # no public step of a commit is between the two

    async def held(writer: Writer, tasks: list[Any], *, presuming: bool) -> Any:
        loaded = await load(writer, tasks, presuming=presuming)
        if any(task.batch.shard == shard for task in tasks):
            reached.set()
            await until.wait()
        return loaded

    with patch.object(Writer, "_load", held):
        yield reached


@pytest.mark.parametrize("side", ["actor", "post"])
@in_loop
async def test_like_committed_while_one_side_moves_to_another_store_keeps_its_inverse(side: str) -> None:
    async with network(1) as ((graph,), here, there):
        await populate(graph, halves=[UPPER + 17])
        half = parse_shards("17:64-127")
        async with mover(here) as moving:
            await moving.move(half, there)
        actor, author = (UPPER + 17, 3) if side == "actor" else (3, UPPER + 17)
        moved = asyncio.Event()
        with commits_held(shard_of(member_on(UPPER + 17)), moved) as reached:
            like = asyncio.create_task(
                begin(graph, member_on(actor), LIKES, id_in(author, 1), moment(1), aggregate_id=member_on(author))
            )
            await reached.wait()
            async with mover(here) as moving:
                await moving.rollback(half)
            moved.set()
            await like
        assert await broken_promises(graph) == []
        assert (await graph.assoc_get(member_on(actor), [LIKES], [id_in(author, 1)]))[LIKES]


class Told:
    """Collects the lines that a child prints."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line)

    async def goes_on(self) -> None:
        """Wait until the child has printed ten more lines."""
        before = len(self.lines)

        async def more() -> bool:
            assert self.child.poll() is None
            return len(self.lines) >= before + 10

        await eventually(more, True)

    async def end(self) -> list[str]:
        """Kill the child and return its complete lines."""
        self.child.kill()
        await asyncio.to_thread(self._reader.join)
        self.child.communicate()
        return [line for line in self.lines if line.endswith("\n")]


@in_loop
async def test_shard_move_with_writers_in_other_processes_loses_no_posts() -> None:
    async with network(1) as (graphs, here, there):
        writers = [Told(child("writer", here, str(first), "8-19")) for first in (10_000, 500_000)]
        try:
            await asyncio.gather(*[writer.goes_on() for writer in writers])
            async with mover(here) as moving:
                await moving.move(SHARDS, there)
            await asyncio.gather(*[writer.goes_on() for writer in writers])
            async with mover(here) as moving:
                await moving.rollback(SHARDS)
            await asyncio.gather(*[writer.goes_on() for writer in writers])
        finally:
            told = [await writer.end() for writer in writers]
        lines = [line.split() for lines in told for line in lines]
        print(f"\n{len(lines)} posts, the slowest {max(float(seconds) for _, seconds in lines):.3f} s")  # noqa: T201
        posts = [int(post) for post, _ in lines]
        assert set(await graphs[0].obj_get(posts)) == set(posts)
        await settled(graphs[0])
        assert await broken_promises(graphs[0]) == []


async def settled(graph: Store) -> None:
    """Apply the pending inverses of killed processes, as a worker would."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    while await graph.backlog():
        for job in await graph.claim(100, 60):
            assert isinstance(graph, ShardedGraph)
            assert isinstance(job.event, InversePending)
            await graph.settle([job.event.op])
            await graph.ack([job])
        assert loop.time() < deadline
        await asyncio.sleep(0.05)


@in_loop
async def test_shard_move_during_suspended_process_serves_no_stale_reads() -> None:
    async with network(1) as (graphs, here, there):
        member = member_on(13)
        reader = child("reader", here, str(member))
        try:
            assert reader.stdout is not None
            await asyncio.to_thread(reader.stdout.readline)
            os.kill(reader.pid, signal.SIGSTOP)
            async with mover(here) as moving:
                await moving.move(SHARDS, there)
            node = (await graphs[0].obj_get([member]))[member]
            batch = Batch(shard_of(member))
            batch.obj_set(type(node)(id=member, name="m13", version=node.version + 1))  # type: ignore[call-arg]
            await graphs[0].commit(batch)
            acknowledged = time.monotonic()
            os.kill(reader.pid, signal.SIGCONT)
            later: list[int] = []
            # The process may have written thousands of lines before it was suspended.
            for _ in range(20_000):
                began, version = (await asyncio.to_thread(reader.stdout.readline)).split()
                if float(began) > acknowledged:
                    later.append(int(version))
                if len(later) > 50:
                    break
        finally:
            reader.kill()
            await asyncio.to_thread(reader.communicate)
        assert len(later) > 50
        assert set(later) == {node.version + 1}


@in_loop
async def test_shard_move_with_unequal_copy_is_refused_and_can_be_repeated() -> None:
    async with network(1) as (graphs, here, there):
        before = await contents_of(graphs[0])

        def tell(phase: str, _done: int, _total: int) -> None:
            if phase == "compare":
                # Run outside this event loop: the mover blocks until the command exits.
                subprocess.run([sys.executable, "-c", _SPOIL, there], check=True)

        async with mover(here, tell) as moving:
            with pytest.raises(Conflict, match="the copy differs in association"):
                await moving.move(SHARDS, there)
        assert await contents_of(graphs[0]) == before
        async with mover(here) as moving:
            await moving.move(SHARDS, there)
        assert await contents_of(graphs[0]) == before


_SPOIL = """
import asyncio, asyncpg, sys
async def main():
    connection = await asyncpg.connect(sys.argv[1])
    await connection.execute("UPDATE shoal.association SET time = time + 1 WHERE shoal.shard_of(id1) / 128 = 12")
    await connection.close()
asyncio.run(main())
"""


@in_loop
async def test_shard_move_source_store_refuses_late_commit_after_finish() -> None:
    async with network() as (graphs, here, there):
        async with mover(here) as moving:
            await moving.move(SHARDS, there)
            await moving.finish(SHARDS)
        # Simulates a process that resumes in the middle of a commit.
        with pytest.raises(asyncpg.PostgresError, match="a shard is frozen"):
            await execute(
                here,
                f"SELECT shoal.watch(ARRAY[{id_on(12, 9)}], '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')",
            )
        assert len(await all_objects(graphs[0])) == len(await all_objects(graphs[1]))


@in_loop
async def test_shard_move_invalid_request_is_refused_with_reason() -> None:
    async with network(1) as (graphs, here, there):
        databases = Databases()
        foreign = await databases.one()
        async with process(foreign) as other:
            await populate(other)
        async with mover(here) as moving:
            with pytest.raises(InvalidInput, match="is not empty and not part of this network"):
                await moving.move(SHARDS, foreign)
            with pytest.raises(Unavailable, match="are one store"):
                await moving.move(SHARDS, f"{here}?application_name=other")
            with pytest.raises(Unavailable, match="another move is running"):
                async with mover(here):
                    pass
            with pytest.raises(InvalidInput, match="12-15 has no move to roll back"):
                await moving.rollback(SHARDS)
            with pytest.raises(InvalidInput, match="12-15 has no move to finish"):
                await moving.finish(SHARDS)
            await moving.move(SHARDS, there)
            assert await moving.move(SHARDS, there) == []
            with pytest.raises(InvalidInput, match="the last move of 12-15 is not finished"):
                await moving.move(SHARDS, here)
        assert len(await all_links(graphs[0]))


@in_loop
async def test_shard_map_in_database_overrides_configured_stores() -> None:
    async with network(1) as (graphs, here, there):
        before = await contents_of(graphs[0])
        async with mover(here) as moving:
            await moving.move(parse_shards("0-63"), there)
            await moving.finish(parse_shards("0-63"))
        assert await rows_in(here, "0-63") == 0
        for known in (here, {"0-31": here, "32-63": there}, there):
            async with process(known) as graph:
                assert await contents_of(graph) == before


def test_shard_move_sets_of_row_names_and_checksums_can_be_added_and_subtracted() -> None:
    entries = [
        ("object", 5, None, None, None, None),
        ("key", None, None, None, "s", "n"),
        ("count", 5, 1, None, None, None),
    ]
    names = RowNames.of([*entries, *entries])
    assert names.size == 3
    assert [kind for kind, _ in names.columns()] == [RowKind.OBJECT, RowKind.COUNT, RowKind.KEY]
    assert names.minus(RowNames.of(entries[:1])).size == 2
    assert names.plus(RowNames.of([("association", 1, 2, 3, None, None)])).size == 4
    one, two = Digest({RowKind.KEY: (2, 70)}), Digest({RowKind.KEY: (1, 30)})
    assert (one - two) == Digest({RowKind.KEY: (1, 40)})
    assert one.differences(two) == ["key"]
