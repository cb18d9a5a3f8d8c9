"""Nodes of a RabbitMQ cluster are killed under load: the other nodes process every event exactly once."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from shoal import Shoal, amqp
from shoal.admin.consistency.check import check
from shoal.app.network import open_network
from shoal.core.errors import Unavailable
from shoal.core.events import PostCreated
from shoal.graph.contract import MAX_TIME, Cursor, Job
from shoal.graph.payloads.notifications import Kind
from shoal.library.handle import Handle
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.queries import notifications
from shoal.settings import Settings, build, environment
from shoal.timelines.contract import Timelines
from shoal_devcluster.program import Program
from tests.async_runner import eventually, in_loop, run
from tests.engines import postgres, rabbitmq_cluster, redis

MEMBERS = 8
MANY = 60
BOUND_SECONDS = 60.0
"""From the death of the queue leader to the next processed event."""
WORK = "shoal.work"


def test_rabbitmq_cluster_node_kill_loses_no_event_and_repeats_no_effect(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    cluster = rabbitmq_cluster.start()
    try:
        settings = build(
            store={part: run(postgres.database(request)) for part in ("0-31", "32-63")},
            timelines=redis.single(),
            broker=cluster.url,
            media=(tmp_path / "media").as_uri(),
            run_consequences=False,
        )
        workers = [_worker(tmp_path / name, settings) for name in ("one", "two")]
        try:
            run(_lives(settings, cluster))
        finally:
            for worker in workers:
                worker.stop()
    finally:
        cluster.stop()


@in_loop
async def test_outbox_publish_succeeds_after_queue_leader_dies_permanently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RabbitMQ 3.10 rejects all messages of a connection that publishes before the queue has a new leader."""
    monkeypatch.setattr(amqp, "_GONE_SECONDS", 3.0)
    cluster = await asyncio.to_thread(rabbitmq_cluster.start)
    try:
        # The node that declares a queue becomes its leader.
        worker = await RabbitOutbox.open(cluster.nodes[0].url)
        outbox = await RabbitOutbox.open(cluster.nodes[1].url, taking=False)
        cluster.nodes[0].kill()
        job = Job(1, PostCreated(post_id=1, author_id=1))

        async def sent() -> bool:
            try:
                await outbox.send([job])
            except Unavailable:
                return False
            return True

        await eventually(sent, True, BOUND_SECONDS)
        # The worker, which was connected to that node, is counted as silent and holds no job.
        assert (await outbox.figures()).silent == 1
        await eventually(outbox.backlog, 1, BOUND_SECONDS)
        await worker.close()
        await outbox.close()
    finally:
        await asyncio.to_thread(cluster.stop)


def _worker(folder: Path, settings: Settings) -> Program:
    folder.mkdir()
    command = [sys.executable, "-m", "shoal.cli", "worker", "--processes", "1"]
    program = Program("worker", command, folder, environ={**os.environ, **environment(settings)})
    program.start()
    return program


class _Crowd:
    """Members who follow each other, post and like, and a record of their actions."""

    def __init__(self, members: list[Handle], timelines: Timelines) -> None:
        self.members = members
        self.timelines = timelines
        self.posts: list[tuple[int, Handle]] = []
        self.likes: set[tuple[int, int]] = set()
        self.over = False

    async def work(self, member: Handle) -> None:
        for number in count():
            if self.over:
                return
            post = await member.create(f"number {number} #cluster")
            self.posts.append((post.id, member))
            liked, author = self.posts[hash((number, member.id)) % len(self.posts)]
            if author is not member:
                await member.like(liked)
                self.likes.add((member.id, liked))
            await asyncio.sleep(0.02)

    async def more(self) -> None:
        wanted = len(self.posts) + MANY

        async def done() -> bool:
            return len(self.posts) >= wanted

        await eventually(done, True)


async def _lives(settings: Settings, cluster: rabbitmq_cluster.RabbitCluster) -> None:
    async with open_network(settings) as network:
        shoal = Shoal(network)
        members = [await shoal.register(f"m{number}") for number in range(MEMBERS)]
        for member in members:
            for other in members:
                if other is not member:
                    await member.follow(other.id)
            await member.home()
        crowd = _Crowd(members, network.timelines)
        async with asyncio.TaskGroup() as group:
            for member in members:
                group.create_task(crowd.work(member))
            await crowd.more()
            # All clients are connected to the first node.
            first = await asyncio.to_thread(cluster.leader_of, WORK)
            assert first is cluster.nodes[0]
            await _killed(first, crowd)
            await asyncio.to_thread(first.start)
            await _whole(cluster)
            second = await asyncio.to_thread(cluster.leader_of, WORK)
            assert second is not first
            await _killed(second, crowd)
            await asyncio.to_thread(second.start)
            await crowd.more()
            crowd.over = True
        try:
            await shoal.settle(120.0)
        except TimeoutError:
            pytest.fail(f"jobs are left after two minutes:\n{await asyncio.to_thread(cluster.told)}")
        await _holds(shoal, crowd)


async def _killed(node: Program, crowd: _Crowd) -> None:
    """Kill a node; assert that the next event is processed in time, and that the load continues."""
    await asyncio.to_thread(node.kill)
    began = time.monotonic()
    post, follower = await crowd.members[0].create("after the death of a node"), crowd.members[1]
    crowd.posts.append((post.id, crowd.members[0]))

    async def arrived() -> bool:
        window = await crowd.timelines.read(follower.id, Cursor(limit=1_000))
        return window is not None and post.id in window.ids

    await eventually(arrived, True, BOUND_SECONDS)
    assert time.monotonic() - began < BOUND_SECONDS
    await crowd.more()


async def _whole(cluster: rabbitmq_cluster.RabbitCluster) -> None:
    async def members() -> int:
        return await asyncio.to_thread(cluster.members_of, WORK)

    await eventually(members, rabbitmq_cluster.NODES, 60.0)


async def _holds(shoal: Shoal, crowd: _Crowd) -> None:
    network = shoal.network
    assert await network.store.parked() == []
    report = await check(network, young=-1.0)
    assert report.clean, report
    # Posts that were created after the death of a node have no tag.
    counted = await shoal.tags.tag("cluster")
    assert counted is not None
    assert counted.uses == len(crowd.posts) - 2
    told: Counter[tuple[int, int]] = Counter()
    for member in crowd.members:
        before: int | None = MAX_TIME
        while before is not None:
            page = await notifications.page(network.reads, member.id, Cursor(before=before, limit=40))
            likes = [item for item in page.items if item.notice.kind is Kind.LIKE]
            told.update((item.actor.member.id, item.entry.id) for item in likes if item.entry is not None)
            before = page.next
    assert told == Counter(crowd.likes)
