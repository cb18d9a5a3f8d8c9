"""Killed engines and processes, broken links, wrong clocks: acknowledged writes are present, and the check passes.

Real servers and processes on this machine; one cluster for the module, and a new cluster after a failed test.
`Place.sound` checks the invariants.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle

import httpx
import pytest
from redis.exceptions import ResponseError

from shoal.app.network import Network, open_network
from shoal.app.outboxes import open_outboxes
from shoal.commands import members, posts, reactions, relationships
from shoal.commands.context import Writes
from shoal.commands.posts import Draft
from shoal.core.errors import Unavailable
from shoal.core.events import InversePending
from shoal.core.ids import IdMaker
from shoal.graph.contract import Cursor, Job
from shoal.graph.schema import FOLLOWS, LIKES
from shoal.outbox.rabbitmq import RabbitOutbox
from tests.async_runner import eventually
from tests.example_counts import DEEP
from tests.faults.cluster import ClusterFixture, ClusterFixtures, crowd
from tests.faults.load import Person
from tests.faults.proxy import Link

MANY, FEW = (60, 30) if DEEP else (40, 20)
"""Acknowledged requests before and after a fault."""
CROWD = 200 if DEEP else 120
SAMPLE = 20
TO_EVERYBODY = "to everybody"
AWAY_SECONDS = 8.0
"""Longer than the timeouts of a PostgreSQL outage: 2.5 s for a connection, 4 s for a lock."""
LATE_SECONDS = 0.4
READERS = 4
OWED = 20
HOUR_MS = 3_600_000

Begun = Callable[[Network, RabbitOutbox, list[int], int], Awaitable[bool]]


@pytest.fixture(scope="module")
def places() -> Iterator[ClusterFixtures]:
    found = ClusterFixtures()
    yield found
    found.close()


@pytest.fixture
def here(places: ClusterFixtures) -> ClusterFixture:
    return places.take()


def test_fanout_completes_after_workers_are_killed_midway(here: ClusterFixture) -> None:
    author = here.people[0]
    followers = asyncio.run(crowd(here, author, CROWD))
    here.rest()
    for begun in (_in_hand, _pushed):
        asyncio.run(_kill_workers(here, author, followers, begun))
        for worker in here.cluster.workers:
            worker.start()
        here.sound()
        assert asyncio.run(_reached(here, author, followers)) == CROWD
    asyncio.run(_forget(here, followers))


async def _kill_workers(here: ClusterFixture, author: Person, followers: list[int], begun: Begun) -> None:
    """Kill all workers once a fan-out has begun; slow links to the stores keep it from completing."""
    async with open_network(here.settings, background=False) as network, _broker(here) as broker:
        here.links["postgres-1"].slow(0.2)
        here.links["postgres-2"].slow(0.2)
        post = (await posts.create(network.writes, author.id, Draft(text=TO_EVERYBODY))).id
        author.posts[post] = TO_EVERYBODY
        await eventually(lambda: begun(network, broker, followers, post), True)
        for worker in here.cluster.workers:
            worker.kill()
        here.links["postgres-1"].heal()
        here.links["postgres-2"].heal()


@asynccontextmanager
async def _broker(here: ClusterFixture, prefetch: int = 0) -> AsyncIterator[RabbitOutbox]:
    """Open the broker; consume from it if `prefetch` is set."""
    broker = await RabbitOutbox.open(here.settings.broker, taking=prefetch > 0, prefetch=prefetch)
    try:
        yield broker
    finally:
        await broker.close()


async def _in_hand(_network: Network, broker: RabbitOutbox, _followers: list[int], _post: int) -> bool:
    """Return whether a worker holds the job and is reading the followers."""
    return (await broker.figures()).in_hand > 0


async def _pushed(network: Network, _broker: RabbitOutbox, followers: list[int], post: int) -> bool:
    """Return whether the first timelines have the post."""
    return await _newest(network, followers[:SAMPLE], post) > 0


async def _newest(network: Network, followers: list[int], post: int) -> int:
    """Return the number of these timelines whose newest entry is the post."""
    windows = await asyncio.gather(*[network.timelines.read(member, Cursor(limit=1)) for member in followers])
    return sum(window is not None and window.ids == [post] for window in windows)


async def _reached(here: ClusterFixture, author: Person, followers: list[int]) -> int:
    async with open_network(here.settings, background=False) as network:
        return await _newest(network, followers, max(author.posts))


async def _forget(here: ClusterFixture, followers: list[int]) -> None:
    """Drop the timelines of the followers, so that later checks skip them."""
    async with open_network(here.settings, background=False) as network:
        await network.timelines.drop(followers)


def test_web_process_kill_under_load_loses_no_acknowledged_write(here: ClusterFixture) -> None:
    with here.load(seed=2) as load:
        for web in here.cluster.web:
            load.more(MANY)
            web.kill()
            load.more(MANY)
            with load.at_ease():
                web.start()
        load.more(FEW)
    assert load.broken, "no request failed"
    here.sound()


def test_worker_kill_under_load_loses_no_job(here: ClusterFixture) -> None:
    with here.load(seed=3) as load:
        for worker in here.cluster.workers:
            load.more(MANY)
            worker.kill()
            load.more(FEW)
            with load.at_ease():
                worker.start()
    here.sound()


def test_redis_replica_takes_over_after_master_is_killed(here: ClusterFixture) -> None:
    redis = here.cluster.redis
    master, replica = redis.masters[0], redis.replicas[0]
    with here.load(seed=4) as load:
        load.more(MANY)
        # Writes acknowledged by the master from now on do not reach the replica.
        replica.program.pause()
        master.ask("CLIENT", "KILL", "TYPE", "replica")
        try:
            load.more(MANY)
            master.program.kill()
            replica.program.resume()
            load.more(MANY)
            with load.at_ease():
                redis.settle()
            load.more(MANY)
        finally:
            replica.program.resume()
            with load.at_ease():
                redis.start()
        load.more(FEW)
    here.sound()


def test_redis_flush_under_load_loses_no_acknowledged_write(here: ClusterFixture) -> None:
    with here.load(seed=5) as load:
        for _ in range(3):
            load.more(MANY)
            for member in here.cluster.redis.members:
                # Replicas are flushed by their master.
                with contextlib.suppress(ResponseError):
                    member.ask("FLUSHALL")
        load.more(MANY)
    here.sound()


def test_rabbitmq_outage_is_invisible_to_members_and_jobs_run_later(here: ClusterFixture) -> None:
    with here.load(seed=6) as load:
        load.more(FEW)
        for end in (here.cluster.rabbitmq.stop, here.cluster.rabbitmq.kill):
            end()
            load.more(MANY)
            with load.at_ease():
                here.cluster.rabbitmq.start()
            load.more(FEW)
    assert load.served, load.refused
    here.sound()


def test_postgres_outage_affects_only_members_of_that_store(here: ClusterFixture) -> None:
    with here.halves(seed=7) as (other, away):
        other.more(FEW)
        away.more(FEW)
        back_at = time.monotonic() + AWAY_SECONDS
        here.cluster.postgres[1].kill()
        try:
            other.more(MANY)
            away.all_refused()
            with other.at_ease(), away.at_ease():
                while time.monotonic() < back_at:
                    other.more(1)
        finally:
            here.cluster.postgres[1].start()
        away.more(MANY)
    assert other.served, other.refused
    here.sound()


def test_postgres_slow_link_loses_no_acknowledged_write(here: ClusterFixture) -> None:
    # Both web processes decide on shared rows; one commits between the read and the commit of the other.
    with here.load(seed=9, twice=True) as load, _harmed(here.links["postgres-1"], lambda link: link.slow(0.05)):
        load.more(4 * MANY)
    assert load.served, load.refused
    here.sound()


def test_post_deletion_during_slow_postgres_read_is_not_undone_by_cache(here: ClusterFixture) -> None:
    late = [asyncio.run(_delete_while_it_is_read(here, author)) for author in here.living_in(0)[:4]]
    assert any(late), "no reader received the post after its deletion"
    here.sound()


async def _delete_while_it_is_read(here: ClusterFixture, author: Person) -> int:
    """Return how many readers received the post from the web process that has not cached it."""
    near, far = (f"{url}/api/v1/statuses" for url in here.urls)
    async with httpx.AsyncClient(timeout=60) as client:

        async def shown(url: str, times: int = 1) -> list[int]:
            answers = await asyncio.gather(*[client.get(url) for _ in range(times)])
            return [answer.status_code for answer in answers]

        made = await client.post(near, json={"status": "not for long"}, headers=author.bearer)
        post = int(made.json()["id"])
        with _harmed(here.links["postgres-1"], lambda link: link.hold_back(LATE_SECONDS)):
            seen = here.links["postgres-1"].watch_for(post.to_bytes(8, "big"))
            early = asyncio.create_task(shown(f"{far}/{post}", READERS))
            assert await asyncio.to_thread(seen.wait, 60), "the post was not read"
        assert (await client.delete(f"{near}/{post}", headers=author.bearer)).status_code == 200
        author.deleted.add(post)
        assert await shown(f"{far}/{post}") == [404]
        told = await early
        assert await shown(f"{far}/{post}") == [404], "the deleted post is visible again"
        return told.count(200)


@pytest.mark.parametrize("harm", [Link.cut, Link.silence], ids=["cut", "silent"])
def test_postgres_broken_link_affects_only_members_of_that_store(
    here: ClusterFixture, harm: Callable[[Link], None]
) -> None:
    with here.halves(seed=10) as (cut_off, other):
        cut_off.more(FEW)
        with _harmed(here.links["postgres-1"], harm):
            other.more(FEW)
            with other.at_ease():
                cut_off.all_refused()
        cut_off.more(FEW)
    assert other.served, other.refused
    here.sound()


@pytest.mark.parametrize("harm", [Link.cut, Link.silence], ids=["cut", "silent"])
def test_rabbitmq_broken_link_is_invisible_to_members(here: ClusterFixture, harm: Callable[[Link], None]) -> None:
    with here.load(seed=12) as load:
        with _harmed(here.links["rabbitmq"], harm):
            load.more(MANY)
        load.more(FEW)
    assert load.served, load.refused
    here.sound()


@contextmanager
def _harmed(link: Link, harm: Callable[[Link], None]) -> Iterator[None]:
    harm(link)
    try:
        yield
    finally:
        link.heal()


def test_worker_jobs_delivered_twice_and_out_of_order_have_the_same_effect(here: ClusterFixture) -> None:
    for worker in here.cluster.workers:
        worker.stop()
    with here.load(seed=9) as load:
        load.more(5 * MANY)
    asyncio.run(_owe(here))
    jobs = asyncio.run(_shuffled(here))
    assert len(jobs) > 100
    assert sum(isinstance(job.event, InversePending) for job in jobs) >= OWED
    for worker in here.cluster.workers:
        worker.start()
    here.sound()


async def _owe(here: ClusterFixture) -> None:
    """Unlike posts while the store of the author is unreachable, so that the inverse is pending, and like them again."""
    posts_there = [post for author in here.living_in(1) for post in author.posts]
    likes = list(zip(cycle(here.living_in(0)), random.Random(9).sample(posts_there, OWED), strict=False))
    async with open_network(here.settings, background=False) as network:

        async def each(verb: Callable[[Writes, int, int], Awaitable[object]]) -> None:
            await asyncio.gather(*[verb(network.writes, person.id, post) for person, post in likes])

        await each(reactions.like)
        # Repeated, so that this process caches the posts.
        await each(reactions.like)
        with _harmed(here.links["postgres-2"], Link.cut):
            await each(reactions.unlike)
        await each(partial(_insist, reactions.like))
    for person, post in likes:
        person.likes[post] = True


async def _insist(
    verb: Callable[[Writes, int, int], Awaitable[object]], writes: Writes, member: int, post: int
) -> None:
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(Unavailable):
            await verb(writes, member, post)
            return
        assert time.monotonic() < deadline, "the store stays unavailable"
        await asyncio.sleep(0.1)


async def _shuffled(here: ClusterFixture) -> list[Job]:
    """Replace the jobs at the broker by two copies of each in random order; return the jobs."""
    async with open_outboxes(here.settings, read_only=True) as outboxes:
        await eventually(outboxes["store"].backlog, 0, 60)
    async with _broker(here, prefetch=10_000) as broker:
        jobs: list[Job] = []
        deadline = time.monotonic() + 120
        while await broker.ready() or len(jobs) < 100:
            assert time.monotonic() < deadline, f"{len(jobs)} jobs were delivered"
            jobs += await broker.claim(10_000, 600.0)
            await asyncio.sleep(0.05)
        twice = jobs * 2
        random.Random(9).shuffle(twice)
        await broker.send(twice)
        await broker.ack(jobs)
        return jobs


def test_member_actions_after_clock_step_back_override_earlier_ones(here: ClusterFixture) -> None:
    asyncio.run(_step_back(here))
    here.sound()


async def _step_back(here: ClusterFixture) -> None:
    clock = [time.time_ns() // 1_000_000 + HOUR_MS]
    ann, bob = here.living_in(0)[0].id, here.living_in(1)[0].id
    async with open_network(here.settings, background=False) as network:
        maker = IdMaker(lambda: clock[0])
        # `late` simulates a process started after the clock step.
        early, late = replace(network.writes, new_id=maker), replace(network.writes, new_id=IdMaker(lambda: clock[0]))
        cat = (await members.register(early, "cat")).id
        first = await posts.create(early, cat, Draft(text="before"))
        await relationships.follow(early, cat, bob)
        await relationships.follow(early, cat, ann)
        await reactions.like(early, cat, first.id)
        clock[0] -= 2 * HOUR_MS
        second = await posts.create(early, cat, Draft(text="after"))
        third = await posts.create(late, cat, Draft(text="from another process"))
        await relationships.unfollow(late, cat, bob)
        await relationships.unfollow(early, cat, ann)
        await relationships.follow(late, cat, ann)
        await reactions.unlike(late, cat, first.id)
        assert third.id < first.id < second.id
        follows = await network.store.assoc_range(cat, FOLLOWS, Cursor(limit=10))
        likes = await network.store.assoc_range(cat, LIKES, Cursor(limit=10))
        assert ([follow.id2 for follow in follows], list(likes)) == ([ann], [])
