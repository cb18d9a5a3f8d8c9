"""The event log while data sources move between PostgreSQL stores: nothing is missing, and each member's order is kept."""

from __future__ import annotations

import asyncio
from itertools import count
from random import Random

import pytest

from shoal.core.model import Post
from shoal.graph.contract import LogCursor, Store
from shoal.graph.event_log import EventLog, LogKind
from shoal.graph.shard_map import parse_shards
from tests.async_runner import eventually, in_loop
from tests.event_log_replica import Replica, facts_of
from tests.ops.shard_move_network import Databases, Load, id_in, member_on, mover, populate, process
from tests.ops.test_shard_moves import LOADED, SHARDS, SOURCES, killed
from tests.stores import add
from tests.tiers import deep

FIRST = 100_000


class Story:
    """A member per moved data source who posts one post after the other, and a consumer that follows."""

    def __init__(self, graph: Store, after: LogCursor) -> None:
        self._graph = graph
        self._stopping = False
        self._posts: dict[int, list[int]] = {member_on(source): [] for source in SOURCES}
        self.replica = Replica()
        self.replica.cursor = after

    async def write(self, source: int) -> None:
        for n in count(FIRST):
            if self._stopping:
                return
            post = id_in(source, n)
            await add(self._graph, Post(id=post, author_id=member_on(source)))
            self._posts[member_on(source)].append(post)

    async def follow(self) -> None:
        dice = Random(3)
        while not self._stopping:
            await self.replica.read(EventLog(self._graph), dice.randint(1, 30))
            await asyncio.sleep(0.01)

    async def end(self, tasks: list[asyncio.Task[None]]) -> None:
        self._stopping = True
        await asyncio.gather(*tasks)
        # A marker waits until the former store has no running transaction from before the switch.
        await eventually(self._is_complete, True)
        delivered: dict[int, list[int]] = {member: [] for member in self._posts}
        for entry in self.replica.entries:
            if entry.kind == LogKind.POST_CREATED and entry.subject in delivered:
                delivered[entry.subject].append(entry.object)
        for member, posts in self._posts.items():
            assert [post for post in delivered[member] if post in set(posts)] == posts

    async def _is_complete(self) -> bool:
        await self.replica.read(EventLog(self._graph))
        objects = {entry.object for entry in self.replica.entries}
        is_delivered = all(objects.issuperset(posts) for posts in self._posts.values())
        return is_delivered and self.replica.facts == await facts_of(self._graph)


@pytest.mark.parametrize("phase", ["", *deep("switch", "settle", "open")])
@in_loop
async def test_event_log_follows_members_through_move_rollback_and_mover_kill(phase: str) -> None:
    databases = Databases()
    here, there = await databases.one(), await databases.one()
    async with process(here, "on"):
        pass
    # The store that joins gets the event log from the mover.
    async with process(here) as graph, process(here) as other:
        start = await EventLog(graph).end()
        await populate(graph)
        story, load = Story(graph, start), Load([graph, other], LOADED)
        tasks = [asyncio.create_task(story.write(source)) for source in SOURCES]
        tasks.append(asyncio.create_task(story.follow()))
        async with load.running(1), asyncio.timeout(300):
            await load.more(20)
            if phase:
                await killed(here, "move", "12-15", there, phase)
                await load.more(3, SOURCES)
            async with mover(here) as moving:
                await moving.move(SHARDS, there)
            await load.more(20)
            async with mover(here) as moving:
                await moving.rollback(parse_shards("12-13"))
            await load.more(20)
            async with mover(here) as moving:
                await moving.finish(parse_shards("14-15"))
            await load.more(10)
        await story.end(tasks)
        assert len({entry.id for entry in story.replica.entries}) == len(story.replica.entries)
        # The former store has entries of the moved members, and the new store has those since.
        assert len({entry.log for entry in story.replica.entries if entry.subject == member_on(14)}) == 2
