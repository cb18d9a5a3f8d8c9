"""Engines and processes that die, links that break, clocks that lie: what was acknowledged is there, and everything holds.

Real servers and processes, all on this machine; one cluster for the whole module, and another after a test that failed.
`Place.sound` says what must hold.
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
from tests.examples import DEEP
from tests.faults.cluster import Place, Places, crowd
from tests.faults.load import Person
from tests.faults.proxy import Link
from tests.running import eventually

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

MANY, FEW = (60, 30) if DEEP else (40, 20)
"""Acknowledged requests before something is done to the cluster, and after."""
CROWD = 200 if DEEP else 120
SAMPLE = 20
TO_EVERYBODY = "to everybody"
AWAY_SECONDS = 8.0
"""Longer than whoever waits for a PostgreSQL that is away: connecting takes 2.5 s at most, a lock 4 s."""
LATE_SECONDS = 0.4
ARRIVED_SECONDS = 0.05
READERS = 4
OWED = 20
HOUR_MS = 3_600_000

Begun = Callable[[Network, RabbitOutbox, list[int], int], Awaitable[bool]]


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    found = Places()
    yield found
    found.close()


@pytest.fixture
def here(places: Places) -> Place:
    return places.take()


def test_workers_that_are_killed_in_the_middle_of_a_fan_out_leave_nothing_undone(here: Place) -> None:
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


async def _kill_workers(here: Place, author: Person, followers: list[int], begun: Begun) -> None:
    """All of them, once a fan-out has begun; asking the store takes so long that it cannot be over."""
    async with open_network(here.settings, background=False) as network, _broker(here) as broker:
        here.links["postgres-1"].slow(0.2)
        here.links["postgres-2"].slow(0.2)
        post = (await posts.create(network.writes, author.id, Draft(text=TO_EVERYBODY))).id
        author.posts[post] = TO_EVERYBODY
        await eventually(lambda: begun(network, broker, followers, post), True, 30.0)
        for worker in here.cluster.workers:
            worker.kill()
        here.links["postgres-1"].heal()
        here.links["postgres-2"].heal()


@asynccontextmanager
async def _broker(here: Place, prefetch: int = 0) -> AsyncIterator[RabbitOutbox]:
    """The jobs at the broker; to be taken from there if there is a `prefetch`."""
    broker = await RabbitOutbox.open(here.settings.broker, taking=prefetch > 0, prefetch=prefetch)
    try:
        yield broker
    finally:
        await broker.close()


async def _in_hand(_network: Network, broker: RabbitOutbox, _followers: list[int], _post: int) -> bool:
    """A worker has the job, and waits to hear who the followers are."""
    return (await broker.figures()).in_hand > 0


async def _pushed(network: Network, _broker: RabbitOutbox, followers: list[int], post: int) -> bool:
    """The first timelines have the post."""
    return await _newest(network, followers[:SAMPLE], post) > 0


async def _newest(network: Network, followers: list[int], post: int) -> int:
    """On how many of these timelines a post is the newest entry."""
    windows = await asyncio.gather(*[network.timelines.read(member, Cursor(limit=1)) for member in followers])
    return sum(window is not None and window.ids == [post] for window in windows)


async def _reached(here: Place, author: Person, followers: list[int]) -> int:
    async with open_network(here.settings, background=False) as network:
        return await _newest(network, followers, max(author.posts))


async def _forget(here: Place, followers: list[int]) -> None:
    """Their timelines become cold: later checks need not look at them."""
    async with open_network(here.settings, background=False) as network:
        await network.timelines.drop(followers)


def test_a_web_process_that_is_killed_under_load_loses_nothing_and_the_other_goes_on(here: Place) -> None:
    with here.load(seed=2) as load:
        for web in here.cluster.web:
            load.more(MANY)
            web.kill()
            load.more(MANY)
            with load.at_ease():
                web.start()
        load.more(FEW)
    assert load.broken, "nobody noticed"
    here.sound()


def test_a_worker_that_is_killed_under_load_loses_nothing(here: Place) -> None:
    with here.load(seed=3) as load:
        for worker in here.cluster.workers:
            load.more(MANY)
            worker.kill()
            load.more(FEW)
            with load.at_ease():
                worker.start()
    here.sound()


def test_the_replica_of_a_redis_master_that_is_killed_takes_over(here: Place) -> None:
    redis = here.cluster.redis
    master, replica = redis.masters[0], redis.replicas[0]
    with here.load(seed=4) as load:
        load.more(MANY)
        # What the master acknowledges from now on, its replica never hears.
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


def test_redis_may_forget_everything_at_any_time(here: Place) -> None:
    with here.load(seed=5) as load:
        for _ in range(3):
            load.more(MANY)
            for member in here.cluster.redis.members:
                # One that follows another is told by that one.
                with contextlib.suppress(ResponseError):
                    member.ask("FLUSHALL")
        load.more(MANY)
    here.sound()


def test_members_notice_nothing_when_rabbitmq_is_away_and_what_follows_comes_after(here: Place) -> None:
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


def test_when_one_postgres_is_away_the_members_of_the_other_go_on(here: Place) -> None:
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


def test_a_link_to_postgres_may_be_slow(here: Place) -> None:
    # Both web processes judge by the same rows, and while one is about to store what it decided, the other has done so.
    with here.load(seed=9, twice=True) as load, _harmed(here.links["postgres-1"], lambda link: link.slow(0.05)):
        load.more(4 * MANY)
    assert load.served, load.refused
    here.sound()


def test_a_post_that_is_deleted_while_postgres_still_answers_with_it_does_not_come_back(here: Place) -> None:
    late = [asyncio.run(_delete_while_it_is_read(here, author)) for author in here.living_in(0)[:4]]
    assert any(late), "nobody was told of a post when it was gone"
    here.sound()


async def _delete_while_it_is_read(here: Place, author: Person) -> int:
    """How many were told of it by the web process that did not make it, and so does not remember it."""
    near, far = (f"{url}/api/v1/statuses" for url in here.urls)
    async with httpx.AsyncClient(timeout=20.0) as client:

        async def shown(url: str, times: int = 1) -> list[int]:
            answers = await asyncio.gather(*[client.get(url) for _ in range(times)])
            return [answer.status_code for answer in answers]

        made = await client.post(near, json={"status": "not for long"}, headers=author.bearer)
        post = int(made.json()["id"])
        with _harmed(here.links["postgres-1"], lambda link: link.hold_back(LATE_SECONDS)):
            early = asyncio.create_task(shown(f"{far}/{post}", READERS))
            await asyncio.sleep(ARRIVED_SECONDS)
        assert (await client.delete(f"{near}/{post}", headers=author.bearer)).status_code == 200
        author.deleted.add(post)
        assert await shown(f"{far}/{post}") == [404]
        told = await early
        assert await shown(f"{far}/{post}") == [404], "it is back"
        return told.count(200)


@pytest.mark.parametrize("harm", [Link.cut, Link.silence], ids=["cut", "silent"])
def test_a_link_to_postgres_may_be_broken_for_a_while(here: Place, harm: Callable[[Link], None]) -> None:
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
def test_members_notice_nothing_when_the_link_to_rabbitmq_is_broken(here: Place, harm: Callable[[Link], None]) -> None:
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


def test_jobs_may_come_twice_and_in_any_order(here: Place) -> None:
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


async def _owe(here: Place) -> None:
    """Members end that they like a post while the store of its author is away, so that it is owed, and like it again after."""
    posts_there = [post for author in here.living_in(1) for post in author.posts]
    likes = list(zip(cycle(here.living_in(0)), random.Random(9).sample(posts_there, OWED), strict=False))
    async with open_network(here.settings, background=False) as network:

        async def each(verb: Callable[[Writes, int, int], Awaitable[object]]) -> None:
            await asyncio.gather(*[verb(network.writes, person.id, post) for person, post in likes])

        await each(reactions.like)
        # So that this process remembers the posts.
        await each(reactions.like)
        with _harmed(here.links["postgres-2"], Link.cut):
            await each(reactions.unlike)
        await each(partial(_insist, reactions.like))
    for person, post in likes:
        person.likes[post] = True


async def _insist(
    verb: Callable[[Writes, int, int], Awaitable[object]], writes: Writes, member: int, post: int
) -> None:
    while True:
        with contextlib.suppress(Unavailable):
            await verb(writes, member, post)
            return
        await asyncio.sleep(0.1)


async def _shuffled(here: Place) -> list[Job]:
    """Put every job that waits at the broker there twice, in disorder, instead; which jobs there were."""
    async with open_outboxes(here.settings, read_only=True) as outboxes:
        await eventually(outboxes["store"].backlog, 0, 60)
    async with _broker(here, prefetch=10_000) as broker:
        jobs: list[Job] = []
        while await broker.ready() or len(jobs) < 100:
            jobs += await broker.claim(10_000, 600.0)
            await asyncio.sleep(0.05)
        twice = jobs * 2
        random.Random(9).shuffle(twice)
        await broker.send(twice)
        await broker.ack(jobs)
        return jobs


def test_what_a_member_did_last_counts_although_the_clock_has_stepped_back(here: Place) -> None:
    asyncio.run(_step_back(here))
    here.sound()


async def _step_back(here: Place) -> None:
    clock = [time.time_ns() // 1_000_000 + HOUR_MS]
    ann, bob = here.living_in(0)[0].id, here.living_in(1)[0].id
    async with open_network(here.settings, background=False) as network:
        maker = IdMaker(lambda: clock[0])
        # The second is another process, which was started after the clock had stepped back.
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
