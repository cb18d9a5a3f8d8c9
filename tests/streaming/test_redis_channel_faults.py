"""Redis failures while a channel is followed: messages are ordered and complete, or followers get a gap and continue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis import Redis

from shoal.core.errors import Unavailable
from shoal.graph.redis.client import Nodes
from shoal.streaming.contract import Gap, Position
from shoal.streaming.redis import RedisChannel
from shoal_devcluster import redis as engine
from shoal_devcluster.program import Program
from shoal_devcluster.redis import RedisCluster, RedisServer
from tests.async_runner import eventually, in_loop
from tests.channel_followers import publish, told
from tests.engines import redis


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """A cluster for tests that break it; each test restores it."""
    running = redis.own_cluster(node_timeout=redis.QUICK_FAILOVER_SECONDS)
    yield running
    running.stop()


@pytest.fixture
def server() -> Iterator[Program]:
    """A server that the test may kill."""
    program = redis.own("--repl-diskless-sync-delay", "0")
    yield program
    program.kill()


QUICK = {"answer_seconds": 0.5}
"""Short timeouts for tests in which a server does not answer."""


@asynccontextmanager
async def opened(url: str, patience: Mapping[str, float] = redis.PATIENT) -> AsyncIterator[RedisChannel]:
    nodes = Nodes(url, **patience)
    channel = RedisChannel(nodes, 1_000, block_seconds=0.5)
    try:
        yield channel
    finally:
        await channel.close()
        await nodes.close()


async def insist(channel: RedisChannel, message: str) -> None:
    """Publish with retries, as an outbox does."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return await channel.publish(message.encode())
        except Unavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


@dataclass
class Listener:
    """Follows the channel through failures, as a hub does: one list of messages between consecutive gaps."""

    channel: RedisChannel
    heard: list[list[int]] = field(default_factory=list)
    away: int = 0
    at: Position = field(init=False)

    async def run(self) -> None:
        while True:
            try:
                async with aclosing(self.channel.follow(self.at)) as messages:
                    async for self.at, message in messages:
                        self.heard[-1].append(int(message))
            except Gap:
                await self.start()
            except Unavailable:
                self.away += 1
                await asyncio.sleep(0.05)

    async def start(self) -> None:
        while True:
            try:
                self.at = await self.channel.end()
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                self.heard.append([])
                return

    async def newest(self) -> int:
        return self.heard[-1][-1] if self.heard[-1] else -1


@asynccontextmanager
async def listening(channel: RedisChannel) -> AsyncIterator[Listener]:
    """Follow the channel from its current end until the block ends."""
    listener = Listener(channel)
    await listener.start()
    task = asyncio.create_task(listener.run())
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def whole(heard: list[int]) -> bool:
    """Return whether the numbers have no gap; a number republished without confirmation may occur twice."""
    once = sorted(set(heard))
    return once == list(range(once[0], once[-1] + 1)) if once else True


def master_of_the_log(cluster: RedisCluster) -> RedisServer:
    """Return the master that holds the log of shard 0."""
    slots = cluster.members[0].ask("CLUSTER", "KEYSLOT", "{0000}")
    for member in cluster.members:
        if member.ask("ROLE").startswith("[b'master'"):
            owned = member.ask("CLUSTER", "COUNTKEYSINSLOT", slots)
            if int(owned):
                return member
    raise AssertionError("no master has the log")


@pytest.mark.parametrize("how", ["kill", "pause"])
@in_loop
async def test_redis_update_log_reports_gap_at_master_failover_and_continues(how: str, cluster: RedisCluster) -> None:
    async with (
        opened(cluster.url, QUICK) as channel,
        opened(cluster.url, QUICK) as another,
        listening(another) as listener,
    ):
        for number in range(50):
            await insist(channel, str(number))
        await eventually(listener.newest, 49)
        # On a busy machine, another server may have taken over already.
        before = len(listener.heard)
        fallen = master_of_the_log(cluster)
        getattr(fallen.program, how)()
        deadline, number = time.monotonic() + 120, 50
        while len(listener.heard) == before:
            assert time.monotonic() < deadline, f"{number} messages were published, and no gap was reported"
            await insist(channel, str(number))
            number += 1
        (cluster.start if how == "kill" else fallen.program.resume)()
        cluster.settle()
        for last in range(number, number + 50):
            await insist(channel, str(last))
        await eventually(listener.newest, number + 49)
        assert before > 1 or set(listener.heard[0]) >= set(range(50))
        assert all(map(whole, listener.heard))


@in_loop
async def test_redis_update_log_is_unavailable_while_redis_is_down_and_starts_again_after_restart(
    server: Program,
) -> None:
    async with opened(server.url) as channel, listening(channel) as listener:
        await insist(channel, "0")
        await eventually(listener.newest, 0)
        server.kill()
        with pytest.raises(Unavailable):
            await channel.publish(b"1")
        with pytest.raises(Unavailable):
            await channel.end()
        with pytest.raises(Unavailable):
            await told(channel, listener.at, 1)
        await eventually(_is_away(listener), True)
        server.start()
        await eventually(_afresh(listener), True)
        await insist(channel, "2")
        await eventually(listener.newest, 2)
        assert list(map(set, listener.heard)) == [{0}, {2}]


def _is_away(listener: Listener):  # type: ignore[no-untyped-def]  # a condition for `eventually`
    async def ask() -> bool:
        return listener.away > 0

    return ask


def _afresh(listener: Listener):  # type: ignore[no-untyped-def]  # a condition for `eventually`
    async def ask() -> bool:
        return len(listener.heard) > 1

    return ask


@in_loop
async def test_redis_update_log_broken_connection_loses_no_messages(server: Program) -> None:
    async with opened(server.url) as channel, listening(channel) as listener:
        await insist(channel, "0")
        await eventually(listener.newest, 0)
        with Redis.from_url(server.url) as client:
            for number in range(1, 20):
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                await insist(channel, str(number))
        await eventually(listener.newest, 19)
        assert len(listener.heard) == 1
        assert set(listener.heard[0]) == set(range(20))


@in_loop
async def test_redis_update_log_after_manual_replica_promotion_reports_gap_and_continues(server: Program) -> None:
    host, port = server.url[8:-2].split(":")
    replica = engine.start(redis.folder(), "replica", "--replicaof", host, port)
    try:
        async with opened(f"redis://{host}:{port},{replica.url[8:]}") as channel:
            start = await channel.end()
            await publish(channel, map(str, range(5)))
            with Redis.from_url(replica.url) as client, Redis.from_url(server.url) as old:

                async def copied() -> bool:
                    offset = old.info("replication")["master_repl_offset"]
                    return (
                        bool(client.exists("l:{0000}:0000000000000000"))
                        and client.info("replication")["slave_repl_offset"] == offset
                    )

                await eventually(copied, True)
                client.execute_command("REPLICAOF", "NO", "ONE")
                # The old master stays up and follows the new one: its answers are not the log.
                old.execute_command("REPLICAOF", *replica.url[8:-2].split(":"))
            with pytest.raises(Gap):
                await told(channel, start, 1)
            end = await channel.end()
            await publish(channel, ["after"])
            assert [message for _, message in await told(channel, end, 1)] == [b"after"]
    finally:
        replica.kill()


@in_loop
async def test_redis_update_log_on_deposed_master_is_ignored(server: Program) -> None:
    deposed = redis.own()
    try:
        async with (
            opened(f"redis://{deposed.url[8:-2]},{server.url[8:]}") as channel,
            opened(server.url) as another,
        ):
            with Redis.from_url(deposed.url) as old, Redis.from_url(server.url) as new:
                # A replica of an unreachable master still answers reads.
                new.execute_command("REPLICAOF", "127.0.0.1", "1")
                await channel.end()
                old.execute_command("REPLICAOF", "127.0.0.1", "1")
                new.execute_command("REPLICAOF", "NO", "ONE")
            end = await another.end()
            await publish(another, ["after"])
            assert [message for _, message in await told(channel, end, 1)] == [b"after"]
    finally:
        deposed.kill()
