"""Timelines on Redis: trimming, batching of commands, and expiry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from shoal.core.errors import StorageFull
from shoal.core.ids import EPOCH_MS, compose
from shoal.graph.contract import Cursor
from shoal.graph.redis.client import Nodes, keys_of
from shoal.timelines.contract import Timelines
from shoal.timelines.memory import MemoryTimelines
from shoal.timelines.redis import RedisTimelines
from tests.async_runner import eventually, in_loop, run
from tests.engines import redis
from tests.example_counts import examples

MANY = 5_000


def people(n: int) -> list[int]:
    """Return member ids on various shards with various creation times."""
    return [compose(EPOCH_MS + 7_919 * 32 * k, 613 * k % 8_192) for k in range(1, n + 1)]


def entry(n: int) -> int:
    """The n-th entry, in order."""
    return compose(EPOCH_MS + 10_000_000_000 + n, 5)


ANN, BEN, CYD = people(3)


def long_ago() -> float:
    """A clock in the past: every entry counts as new, so writes skip the check of floors."""
    return EPOCH_MS / 1000


@asynccontextmanager
async def nodes_at(url: str) -> AsyncIterator[Nodes]:
    nodes = Nodes(url, **redis.PATIENT)
    yield nodes
    await nodes.close()


async def warm_up(timelines: Timelines, members: Sequence[int], ids: Sequence[int] = ()) -> None:
    for member in members:
        await timelines.create(member)
        await timelines.fill(member, ids, 0)


async def ids(timelines: Timelines, member: int) -> list[int] | None:
    window = await timelines.read(member, Cursor(limit=MANY))
    return None if window is None else window.ids


def key(member: int) -> bytes:
    return keys_of("t", np.array([member])).tobytes()


def entries_held(server: Redis, member: int) -> int:
    """Return the number of entries in the string of a member, including trimmed ones."""
    return (int(server.strlen(key(member))) - 32) // 8


@pytest.mark.parametrize("warm", [0, 1, 30])
@in_loop
async def test_redis_timelines_push_and_remove_create_no_keys_for_cold_members(warm: int) -> None:
    members = people(60)
    async with nodes_at(redis.single()) as nodes:
        for clock in (long_ago, lambda: 5e9):
            timelines = RedisTimelines(nodes, clock=clock)
            await warm_up(timelines, members[:warm])
            assert await timelines.push(entry(1), timelines.slots(members[::-1])) == warm
            await timelines.remove(entry(1), timelines.slots(members))
            assert len(await timelines.members(MANY)) == warm
    with Redis.from_url(redis.server().url) as server:
        assert server.dbsize() == warm


@in_loop
async def test_redis_timelines_after_flushall_are_cold_and_can_be_rebuilt() -> None:
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes)
        await warm_up(timelines, (ANN,), [5, 6])
        with Redis.from_url(redis.server().url) as server:
            server.flushall()
            server.script_flush()
        assert await timelines.push(7, timelines.slots((ANN,))) == 0
        assert await timelines.read(ANN, Cursor(limit=5)) is None
        assert await timelines.floor(ANN) is None
        await warm_up(timelines, (ANN,), [5, 6, 7])
        assert await ids(timelines, ANN) == [7, 6, 5]


@in_loop
async def test_redis_timeline_fill_from_outdated_create_is_ignored() -> None:
    async with nodes_at(redis.single()) as nodes:
        first, second = RedisTimelines(nodes), RedisTimelines(nodes)
        await first.create(ANN)
        with Redis.from_url(redis.server().url) as server:
            server.flushall()
        # The first client has already read the graph, so it misses entries that are pushed now.
        await second.create(ANN)
        await first.fill(ANN, [1], 0)
        assert await first.read(ANN, Cursor(limit=5)) is None
        await second.fill(ANN, [1, 2], 0)
        assert await ids(first, ANN) == [2, 1]


@in_loop
async def test_redis_timeline_created_concurrently_by_two_processes_accepts_fills_of_both() -> None:
    async with nodes_at(redis.single()) as nodes:
        first, second = RedisTimelines(nodes), RedisTimelines(nodes)
        await first.create(ANN)
        await second.create(ANN)
        await second.fill(ANN, [1, 2], 0)
        await first.fill(ANN, [1], 0)
        assert await ids(first, ANN) == [2, 1]


@in_loop
async def test_redis_timeline_filled_before_store_failover_is_cold_and_late_fill_is_ignored() -> None:
    async with nodes_at(redis.single()) as nodes:
        marks = [b"\0\0"]
        timelines, late = RedisTimelines(nodes, mark=lambda: marks[-1]), RedisTimelines(nodes)
        await warm_up(timelines, (ANN, BEN), [1])
        await late.create(CYD)
        marks.append(b"\1\0")
        assert await timelines.read(ANN, Cursor(limit=5)) is None
        assert await timelines.floor(ANN) is None
        assert not set(await timelines.members(1_000)) & {ANN, BEN, CYD}
        # A fill that was read before the mark changed is too late.
        await timelines.create(CYD)
        await late.fill(CYD, [1], 0)
        assert await timelines.read(CYD, Cursor(limit=5)) is None
        await timelines.fill(CYD, [2], 0)
        assert await ids(timelines, CYD) == [2]
        # A client that still has the old mark treats only the new timeline as cold.
        assert await late.read(CYD, Cursor(limit=5)) is None
        assert await late.read(BEN, Cursor(limit=5)) is not None


@in_loop
async def test_redis_timeline_without_reads_expires_despite_pushes() -> None:
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes, 5, idle_seconds=1.0)
        await warm_up(timelines, (ANN,))
        for n in range(20):
            await timelines.push(entry(n), timelines.slots((ANN,)))

        async def cold() -> bool:
            await timelines.push(entry(50), timelines.slots((ANN,)))
            return await timelines.floor(ANN) is None

        await eventually(cold, True)
        assert await timelines.members(5) == []


@in_loop
async def test_redis_timeline_expiry_is_extended_only_by_reads() -> None:
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes, 5, idle_seconds=1_000.0)
        await warm_up(timelines, (ANN, BEN))
        with Redis.from_url(redis.server().url) as server:
            for member in (ANN, BEN):
                server.expire(key(member), 100)
            for n in range(20):
                await timelines.push(entry(n), timelines.slots((BEN,)))
            await timelines.union(BEN, [entry(30)], 0)
            await timelines.subtract(BEN, [entry(30)])
            await timelines.remove(entry(9), timelines.slots((BEN,)))
            await timelines.floor(BEN)
            await timelines.create(BEN)
            await timelines.read(ANN, Cursor(limit=1))
            assert 900 < server.ttl(key(ANN)) <= 1_000
            assert 0 < server.ttl(key(BEN)) <= 100
        await timelines.drop_idle(500.0)
        assert await timelines.members(5) == [ANN]
        await timelines.drop_idle(1_000.0)
        assert await timelines.members(5) == [ANN]


@in_loop
async def test_redis_timelines_receiving_equal_entries_are_trimmed_at_different_times() -> None:
    members = people(200)
    length = 800
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes, length, clock=long_ago)
        await warm_up(timelines, members, [entry(n) for n in range(length)])
        slots = timelines.slots(members)
        cut_at: dict[int, list[int]] = {}
        with Redis.from_url(redis.server().url) as server:
            held = dict.fromkeys(members, length)
            for n in range(length, 5 * length // 2):
                assert await timelines.push(entry(n), slots) == len(members)
                now = {member: entries_held(server, member) for member in members[::10]}
                for member, count in now.items():
                    if count <= held[member]:
                        cut_at.setdefault(n, []).append(member)
                    held[member] = count
                    assert length <= count <= length * 7 // 4
            most = max(server.memory_usage(key(member), samples=0) or 0 for member in members)
        assert len({member for cut in cut_at.values() for member in cut}) == 20
        assert len(cut_at) > 20
        assert most <= 18 * length
        for member in (members[0], members[-1]):
            window = await timelines.read(member, Cursor(limit=MANY))
            assert window == (
                [entry(n) for n in range(5 * length // 2 - 1, 3 * length // 2 - 1, -1)],
                entry(3 * length // 2 - 1),
            )


@in_loop
async def test_redis_timelines_have_individual_trim_lengths() -> None:
    members = people(40)
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes, 800, clock=long_ago)
        await warm_up(timelines, members)
        with Redis.from_url(redis.server().url) as server:
            for member in members:
                # Half way between the smallest and the largest trim length; each member gets its own call.
                server.append(key(member), bytes(8 * (800 + 360 + 90)))
                await timelines.push(entry(1), timelines.slots((member,)))
            cut = sum(entries_held(server, member) == 800 for member in members)
        assert 5 <= cut <= 35


@in_loop
async def test_redis_timelines_push_trims_at_most_four_timelines_per_call() -> None:
    members = people(150)
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes, 10, clock=long_ago)
        await warm_up(timelines, members)
        with Redis.from_url(redis.server().url) as server:
            for member in members:
                server.append(key(member), bytes(8 * 100))
            await timelines.push(entry(1), timelines.slots(members))
            assert sum(entries_held(server, member) < 100 for member in members) == 4


@pytest.mark.parametrize("where", ["single", "cluster"])
@in_loop
async def test_redis_timelines_concurrent_commands_share_one_call_per_server(where: str) -> None:
    members = people(1_000)
    async with nodes_at(getattr(redis, where)()) as nodes:
        timelines = RedisTimelines(nodes)
        await warm_up(timelines, members[:30])
        servers = 1 if where == "single" else 3
        before = nodes.calls
        written = await asyncio.gather(
            *(timelines.push(entry(n), timelines.slots(members[n : n + 4])) for n in range(40))
        )
        assert nodes.calls - before <= servers
        assert written == [max(0, min(4, 30 - n)) for n in range(40)]
        before = nodes.calls
        await asyncio.gather(*(timelines.remove(entry(n), timelines.slots(members[n : n + 1])) for n in range(40)))
        assert nodes.calls - before <= servers
        before = nodes.calls
        windows = await asyncio.gather(*(timelines.read(member, Cursor(limit=9)) for member in members[:15]))
        assert nodes.calls - before <= servers
        assert [len(window.ids) if window else 0 for window in windows[3:]] == [3] * 12
        before = nodes.calls
        assert await timelines.push(entry(99), timelines.slots(members)) == 30
        assert nodes.calls - before <= 4 + 2 * (servers - 1)


@in_loop
async def test_redis_timeline_push_below_floor_is_ignored() -> None:
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes, 3)
        await warm_up(timelines, (ANN,))
        await timelines.union(ANN, [20, 21, 22], 10)
        assert await timelines.push(9, timelines.slots((ANN,))) == 0
        assert await timelines.read(ANN, Cursor(limit=5)) == ([22, 21, 20], 10)


@in_loop
async def test_redis_timeline_removal_of_trimmed_entries_keeps_floor() -> None:
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes, 3, slack=3.0, clock=long_ago)
        await warm_up(timelines, (ANN,))
        for n in range(1, 6):
            await timelines.push(n, timelines.slots((ANN,)))
        await timelines.remove(2, timelines.slots((ANN,)))
        await timelines.subtract(ANN, [1, 2])
        assert await timelines.floor(ANN) == 2
        assert await timelines.read(ANN, Cursor(limit=5)) == ([5, 4, 3], 2)


@in_loop
async def test_redis_timelines_on_full_server_raise_storage_full_and_remain_readable() -> None:
    async with nodes_at(redis.single()) as nodes:
        timelines = RedisTimelines(nodes)
        await warm_up(timelines, (ANN,), [5, 6])
        with Redis.from_url(redis.server().url) as server:
            server.config_set("maxmemory", 1)
            try:
                with pytest.raises(StorageFull):
                    await timelines.push(7, timelines.slots((ANN,)))
                assert await ids(timelines, ANN) == [6, 5]
                await timelines.remove(5, timelines.slots((ANN,)))
                assert await ids(timelines, ANN) == [6]
                await timelines.drop((ANN,))
            finally:
                server.config_set("maxmemory", 0)
        assert await ids(timelines, ANN) is None


VERBS = ["push", "push", "push", "push", "push", "remove", "union", "subtract", "drop", "create", "fill"]
NUMBERS = st.integers(1, 30)
ACTS = st.tuples(
    st.sampled_from(VERBS),
    st.sets(st.sampled_from([ANN, BEN, CYD]), min_size=1),
    NUMBERS,
    st.lists(NUMBERS, max_size=9),
)


async def act(timelines: Timelines, verb: str, members: set[int], number: int, others: list[int]) -> None:
    if verb in {"push", "remove"}:
        await getattr(timelines, verb)(number, timelines.slots(sorted(members)))
    elif verb == "drop":
        await timelines.drop(sorted(members))
    else:
        for member in sorted(members):
            arguments = {"union": (others, number), "fill": (others, number), "subtract": (others,), "create": ()}[verb]
            await getattr(timelines, verb)(member, *arguments)


@settings(deadline=None, max_examples=examples(40, full=150))
@given(length=st.integers(1, 9), slack=st.sampled_from([0.0, 0.5, 1.0, 3.0]), acts=st.lists(ACTS, max_size=60))
def test_redis_timelines_match_memory_timelines_above_both_floors(
    length: int, slack: float, acts: list[tuple[str, set[int], int, list[int]]]
) -> None:
    async def story() -> None:
        async with nodes_at(redis.single()) as nodes:
            memory = MemoryTimelines(8, length)
            packed = RedisTimelines(nodes, length, slack=slack, clock=long_ago)
            for step in [("create", {ANN, BEN}, 1, []), ("fill", {ANN}, 1, []), *acts]:
                for timelines in (memory, packed):
                    await act(timelines, *step)
            for member in (ANN, BEN, CYD):
                await compare(memory, packed, member)

    run(story())


async def compare(memory: Timelines, packed: Timelines, member: int) -> None:
    one, other = await memory.read(member, Cursor(limit=MANY)), await packed.read(member, Cursor(limit=MANY))
    if one is None or other is None:
        assert one is other
        assert (await memory.floor(member) is None) == (await packed.floor(member) is None)
        return
    assert await packed.floor(member) == other.floor
    above = max(one.floor, other.floor)
    assert [id_ for id_ in one.ids if id_ > above] == [id_ for id_ in other.ids if id_ > above]


@settings(deadline=None, max_examples=examples(20, full=60))
@given(length=st.integers(1, 9), rounds=st.integers(1, 60), joined=st.integers(0, 60))
def test_redis_timeline_after_pushes_in_order_matches_memory_timeline(length: int, rounds: int, joined: int) -> None:
    async def story() -> None:
        async with nodes_at(redis.single()) as nodes:
            both = (MemoryTimelines(8, length), RedisTimelines(nodes, length, clock=long_ago))
            for timelines in both:
                for n in range(1, rounds + 1):
                    if n == min(joined, rounds):
                        await warm_up(timelines, (ANN,))
                    await timelines.push(entry(n), timelines.slots((ANN,)))
            assert await both[0].read(ANN, Cursor(limit=MANY)) == await both[1].read(ANN, Cursor(limit=MANY))

    run(story())
