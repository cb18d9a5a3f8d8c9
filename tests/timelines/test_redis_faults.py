"""Redis loses servers, data or slots: reads never return wrong timelines, and lost timelines are rebuilt.

A reader rebuilds a cold timeline from a list of all entries, as the home timeline does from the graph.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pytest
from redis import Redis

from shoal.core.errors import Unavailable
from shoal.graph.redis.client import Nodes, shards_of
from shoal.graph.redis.topology import Topology
from shoal.timelines.redis import RedisTimelines
from shoal_devcluster.redis import RedisCluster, RedisServer
from tests.async_runner import eventually, in_loop
from tests.engines import redis
from tests.timelines.test_redis import ANN, entry, ids, key, nodes_at, people, warm_up

T = TypeVar("T")

PEOPLE = people(60)
MANY = 5_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """A cluster for the tests that break it. Each test restores it."""
    running = redis.own_cluster(node_timeout=redis.QUICK_FAILOVER_SECONDS)
    yield running
    running.stop()


@dataclass
class Network:
    """All members follow one source."""

    timelines: RedisTimelines
    posted: list[int] = field(default_factory=list)
    rebuilt: set[int] = field(default_factory=set)

    async def post(self) -> None:
        """Add an entry to the graph, and push it until all members have it."""
        self.posted.append(entry(len(self.posted)))
        await insist(self.timelines.push, self.posted[-1], self.timelines.slots(PEOPLE))

    async def see(self, member: int) -> None:
        """Check that a readable timeline has all pushed entries; rebuild a cold one."""
        pushed = self.posted[::-1]
        try:
            found = await ids(self.timelines, member)
            if found is None:
                self.rebuilt.add(member)
                await self.timelines.create(member)
                await self.timelines.fill(member, pushed[:], 0)
                return
        except Unavailable:
            return
        assert found == pushed

    async def settle(self) -> None:
        """Wait until all members can read all entries."""
        for member in PEOPLE:
            while await insist(ids, self.timelines, member) is None:
                await self.see(member)
            await self.see(member)


async def insist(act: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Repeat a call while it is unavailable, as an outbox does."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return await act(*arguments)
        except Unavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def home_of(nodes: Nodes, members: list[int], address: tuple[str, int]) -> set[int]:
    """Return the members whose timelines are on this server."""
    topology: Topology = await nodes._known()
    places = topology.server_of_shard[shards_of(np.array(members))]
    return {member for member, place in zip(members, places, strict=True) if topology.addresses[place] == address}


def masters_now(cluster: RedisCluster) -> list[RedisServer]:
    return [member for member in cluster.members if member.ask("ROLE").startswith("[b'master'")]


@pytest.mark.parametrize("how", ["kill", "pause"])
@in_loop
async def test_redis_cluster_failover_makes_timelines_cold_and_loses_no_entries(
    how: str, cluster: RedisCluster
) -> None:
    nodes = Nodes(cluster.url, answer_seconds=0.5)
    network = Network(RedisTimelines(nodes, MANY))
    # On a busy machine, even a server without a fault may not answer in time.
    await insist(network.timelines.clear)
    await insist(warm_up, network.timelines, PEOPLE)
    for _ in range(5):
        await network.post()
    fallen = masters_now(cluster)[0]
    theirs = await insist(home_of, nodes, PEOPLE, ("127.0.0.1", fallen.port))
    assert 5 < len(theirs) < 55
    getattr(fallen.program, how)()
    for _ in range(30):
        await network.post()
        await asyncio.gather(*(network.see(member) for member in PEOPLE))
    assert network.rebuilt == theirs
    (cluster.start if how == "kill" else fallen.program.resume)()
    cluster.settle()
    for _ in range(10):
        await network.post()
        await asyncio.gather(*(network.see(member) for member in PEOPLE))
    await network.settle()
    assert network.rebuilt == theirs
    await network.timelines.close()
    await nodes.close()


@in_loop
async def test_redis_restart_from_old_snapshot_makes_all_timelines_cold() -> None:
    program = redis.own()
    async with nodes_at(program.url) as nodes:
        timelines = RedisTimelines(nodes)
        slots = timelines.slots((ANN,))
        await warm_up(timelines, (ANN,))
        await timelines.push(1, slots)
        with Redis.from_url(program.url) as server:
            server.save()
        await timelines.push(2, slots)
        program.kill()
        with pytest.raises(Unavailable):
            await timelines.push(3, slots)
        program.start()
        with Redis.from_url(program.url) as server:
            assert server.strlen(key(ANN)) == 32 + 8
        await eventually(lambda: available(timelines), True)
        await timelines.push(3, slots)
        assert await timelines.floor(ANN) is None
        assert await timelines.members(5) == []
        assert await ids(timelines, ANN) is None
        await timelines.create(ANN)
        await timelines.fill(ANN, [1, 2, 3], 0)
        assert await ids(timelines, ANN) == [3, 2, 1]
    program.stop()


async def available(timelines: RedisTimelines) -> bool:
    try:
        await timelines.floor(ANN)
    except Unavailable:
        return False
    return True


@in_loop
async def test_redis_cluster_slot_migration_applies_all_pushes(
    cluster: RedisCluster,
) -> None:
    cluster.settle()
    async with nodes_at(cluster.url) as nodes:
        timelines = RedisTimelines(nodes)
        await timelines.clear()
        one, two, three = (ANN + n for n in range(3))
        slots = timelines.slots((one, two, three))
        homes = [(member, await home_of(nodes, [ANN], ("127.0.0.1", member.port))) for member in masters_now(cluster)]
        source = next(member for member, theirs in homes if theirs)
        target = next(member for member, theirs in homes if not theirs)
        slot = int(source.ask("CLUSTER", "KEYSLOT", key(ANN).decode()))
        await warm_up(timelines, (one, two))
        begin_move(source, target, slot)
        move(source, target, one)
        # The timeline of `one` has moved, that of `two` has not, and that of `three` is created on the target of the slot.
        await warm_up(timelines, (three,))
        assert await timelines.push(entry(1), slots) == 3
        assert await ids(timelines, two) == await ids(timelines, three) == [entry(1)]
        # After moving back, the timeline of `one` has the entry that was pushed in between.
        source.ask("CLUSTER", "SETSLOT", slot, "STABLE")
        move(target, source, one)
        assert await ids(timelines, one) == [entry(1)]
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        for member in (one, two):
            move(source, target, member)
        end_move(cluster, target, slot)
        assert await timelines.push(entry(2), slots) == 3
        assert await ids(timelines, three) == [entry(2), entry(1)]
        # On the other server, the timeline is cold.
        assert await ids(timelines, one) is None
        begin_move(target, source, slot)
        move(target, source, two)
        move(target, source, three)
        end_move(cluster, source, slot)


def begin_move(source: RedisServer, target: RedisServer, slot: int) -> None:
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)


def move(source: RedisServer, target: RedisServer, member: int) -> None:
    assert source.ask("MIGRATE", "127.0.0.1", target.port, key(member).decode(), 0, 5_000) == "OK"


def end_move(cluster: RedisCluster, target: RedisServer, slot: int) -> None:
    for member in (target, *(master for master in masters_now(cluster) if master is not target)):
        member.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
