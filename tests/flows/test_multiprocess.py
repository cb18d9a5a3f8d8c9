"""Several processes on shared engines form one network: a change in one process is immediately visible in all others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from shoal import Handle, Shoal
from shoal.app.network import open_network
from shoal.commands import blocklists
from shoal.core.blocklists import EmailDomainBlock, IpSeverity
from shoal.core.errors import Disallowed, Gone, NotFound, Unavailable
from shoal.core.model import Post
from shoal.graph.access import get_object
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.cache.coherence import one_request
from shoal.graph.contract import Cursor
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.postgres import PostgresGraph
from shoal.graph.postgres.connections import ConnectionPool
from shoal.graph.redis.client import Nodes, Script
from shoal.http.middleware import IpGuard
from shoal.queries.foryou import feed
from shoal.queries.foryou.ranking import decode_cursor
from shoal.settings import build
from shoal.timelines.redis import RedisTimelines
from tests.async_runner import eventually, in_loop
from tests.engines import dynamodb, redis
from tests.flows.members import home_texts, register
from tests.flows.shared_network import SharedDatabases, processes

_QUESTIONS = ("obj_get", "key_get", "assoc_get", "assoc_range", "assoc_ranges", "assoc_count")


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yield a list of the engine calls of this task in the block as they are made."""
    asked: list[str] = []
    run = Nodes._run
    ours = ContextVar("ours", default=False)

    async def call(self: Nodes, *args: object, **more: object) -> object:
        if ours.get():
            asked.append("redis")
        return await run(self, *args, **more)  # type: ignore[arg-type]

    def question(name: str):  # type: ignore[no-untyped-def]  # stands in for methods of any shape
        method = getattr(PostgresGraph, name)

        async def ask(self: PostgresGraph, *args: object, **more: object) -> object:
            if ours.get():
                asked.append(name)
            return await method(self, *args, **more)

        return ask

    stand_ins = {name: question(name) for name in _QUESTIONS}
    token = ours.set(True)
    try:
        with patch.object(Nodes, "_run", call), patch.multiple(PostgresGraph, **stand_ins):
            yield asked
    finally:
        ours.reset(token)


@contextmanager
def rounds() -> Iterator[list[int]]:
    """Record for each query in the block the number of sequential queries answered before it."""
    depths: list[int] = []
    answered = 0
    ours = ContextVar("ours", default=False)

    def noted(method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def ask(*args: object, **more: object) -> object:
            nonlocal answered
            if not ours.get():
                return await method(*args, **more)
            depth = answered
            depths.append(depth)
            # Parallel queries are all sent before the first answer.
            await asyncio.sleep(0.02)
            try:
                return await method(*args, **more)
            finally:
                answered = max(answered, depth + 1)

        return ask

    stand_ins: dict[str, Any] = {name: noted(getattr(PostgresGraph, name)) for name in _QUESTIONS}
    token = ours.set(True)
    try:
        with patch.object(Nodes, "_run", noted(Nodes._run)), patch.multiple(PostgresGraph, **stand_ins):
            yield depths
    finally:
        ours.reset(token)


class Waits:
    """The number of sequential waits for engines in a block: parallel calls count as one wait."""

    def __init__(self) -> None:
        self.count = self.statements = self._in_flight = 0
        self._ours = ContextVar("ours", default=False)

    @contextmanager
    def counted(self) -> Iterator[None]:
        run, have = Nodes._run, ConnectionPool._have

        async def script(nodes: Nodes, client: Any, called: Script, *values: Any, **more: Any) -> Any:
            answer = run(nodes, client, called, *values, **more)
            # No request waits for the publication of its version tokens.
            return await (self._waiting(answer) if called.name != "versions.end" else answer)

        async def statement(pool: ConnectionPool, *values: Any, **more: Any) -> Any:
            self.statements += self._ours.get()
            return await self._waiting(have(pool, *values, **more))

        token = self._ours.set(True)
        try:
            with patch.object(Nodes, "_run", script), patch.object(ConnectionPool, "_have", statement), one_request():
                yield
        finally:
            self._ours.reset(token)

    async def _waiting(self, answer: Awaitable[Any]) -> Any:
        ours = self._ours.get()
        self.count += ours and not self._in_flight
        self._in_flight += ours
        try:
            return await answer
        finally:
            self._in_flight -= ours


async def seen_by(shoal: Shoal, handle: Handle) -> Handle:
    """Return a handle for this member in another process."""
    return await shoal.member(handle.id)


@in_loop
async def test_multiprocess_post_and_relationship_changes_are_visible_in_other_processes_immediately() -> None:
    place = SharedDatabases()
    async with processes(3, await place.settings()) as (one, two, three):
        ann, ben = await register(one, "ann", "ben")
        ann_two, ben_two, ben_three = await seen_by(two, ann), await seen_by(two, ben), await seen_by(three, ben)
        await ben_two.follow(ann)
        post = await ann.create("first")
        assert (await ben_two.read(post)).post.text == "first"
        await ben_three.like(post)
        for reader in (ben_two, ben, ann_two):
            assert (await reader.read(post)).likes == 1
        await ann_two.update(post, "second")
        for reader in (ben_two, ben_three, ben):
            assert (await reader.read(post)).post.text == "second"
        await ann.block(ben)
        for reader in (ben, ben_two, ben_three):
            with pytest.raises(NotFound):
                await reader.read(post)
        await ann_two.unblock(ben)
        await ann.delete(post)
        for reader in (ann, ann_two, ben_three):
            with pytest.raises((Gone, NotFound)):
                await reader.read(post)


@in_loop
async def test_home_timeline_shows_posts_made_in_any_process_to_followers_in_every_process() -> None:
    place = SharedDatabases()
    async with processes(3, await place.settings()) as (one, two, three):
        ann, *fans = await register(one, "ann", *(f"fan{n}" for n in range(5)))
        for fan in fans:
            await (await seen_by(two, fan)).follow(ann)
        for number, shoal in enumerate((one, two, three)):
            await (await seen_by(shoal, ann)).create(f"post {number}")
        await one.settle()
        for fan in fans:
            for shoal in (one, two, three):
                assert await home_texts(await seen_by(shoal, fan)) == ["post 2", "post 1", "post 0"]
        await (await seen_by(three, fans[0])).unfollow(ann)
        await one.settle()
        assert await home_texts(await seen_by(one, fans[0])) == []
        await (await seen_by(one, fans[0])).follow(ann)
        await ann.create("post 3")
        await one.settle()
        assert await home_texts(await seen_by(two, fans[0])) == ["post 3", "post 2", "post 1", "post 0"]


@in_loop
async def test_high_fan_out_mark_applies_in_every_process() -> None:
    place = SharedDatabases()
    async with processes(2, await place.settings(high_fan_out_from=2)) as (one, two):
        star, *fans = await register(one, "star", *(f"fan{n}" for n in range(4)))
        for fan in fans:
            await fan.follow(star)
        assert await home_texts(await seen_by(two, fans[0])) == []
        for shoal in (one, two):
            object.__setattr__(shoal.network.effects, "page", 2)
        await star.create("hello")
        await one.settle()
        timeline = await two.network.timelines.read(fans[0].id, Cursor(limit=9))
        assert timeline is not None
        assert timeline.ids == [], "the post was pushed instead of pulled"
        for shoal in (one, two):
            assert await home_texts(await seen_by(shoal, fans[0])) == ["hello"]


@in_loop
async def test_warm_home_page_takes_three_redis_calls_and_two_waits_for_1_or_40_posts() -> None:
    for posts in (1, 40):
        place = SharedDatabases()
        async with processes(1, await place.settings()) as (shoal,):
            ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(8)))
            for other in others:
                await ann.follow(other)
            for number in range(posts):
                await ann.like(await others[number % 8].create(f"post {number}"))
            await shoal.settle()
            await ann.home(limit=40)
            await ann.home(limit=40)
            with counted() as asked:
                page = await ann.home(limit=40)
            assert len(page.entries) == posts
            # The version token of the viewer in parallel with the timeline, then the version tokens of its entries.
            assert asked == ["redis"] * 3
            waits = Waits()
            with waits.counted():
                assert await ann.home(limit=40) == page
            assert waits.count == 2


@in_loop
async def test_like_follow_and_post_creation_wait_for_store_a_fixed_number_of_times_and_read_nothing_afterwards() -> (
    None
):
    place = SharedDatabases()
    async with processes(1, await place.settings(run_consequences=False)) as (shoal,):
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        posts = [await ben.create(f"post {n}") for n in range(3)]
        await ann.follow(ben)
        # Warm the cache with the members and the likes of Ann.
        for post in (*posts[:2], await ann.create("mine too")):
            await ann.like(post)
            await ann.read(post)

        async def cost(act: Callable[[], Awaitable[Any]]) -> tuple[int, int, int]:
            """Return the waits and statements of a change, and the statements to show a post afterwards."""
            waits = Waits()
            with waits.counted():
                made = await act()
                done = waits.count, waits.statements
                shown = await ann.read(made if isinstance(made, Post) else posts[2])
            assert (shown.likes, shown.liked) == ((0, False) if shown.post.author_id == ann.id else (1, True))
            return (*done, waits.statements - done[1])

        # The marks, which also return the version tokens, and the commit.
        assert await cost(lambda: ann.like(posts[2])) == (2, 1, 0)
        # The version tokens, the marks, the commit.
        assert await cost(lambda: ann.follow(cyd)) == (3, 1, 0)
        assert await cost(lambda: ann.create("mine")) == (3, 1, 0)


@in_loop
async def test_like_with_cold_cache_reads_associations_in_parallel_with_setting_change_mark() -> None:
    place = SharedDatabases()
    async with processes(1, await place.settings(run_consequences=False)) as (shoal,):
        ann, ben = await register(shoal, "ann", "ben")
        post = await ben.create("hello")
        await ann.follow(ben)
        memory = shoal.network.store
        assert isinstance(memory, CachedGraph)
        # A mark would wait for the end of the previous change.
        await memory._guard.close()
        with rounds() as depths, one_request():
            await ann.like(post)
        assert depths[:3] == [0, 0, 0], (
            "the mark, the counts and the links of Ann are requested in parallel before the commit"
        )
        assert 0 not in depths[3:]
        assert (await ann.read(post)).liked


@in_loop
async def test_warm_home_page_takes_no_dynamodb_requests_in_several_processes() -> None:
    settings = build(store=dynamodb.new_table(), media="memory://", timelines=redis.single())
    async with processes(1, settings) as (shoal,):
        ann, ben, cyd = await register(shoal, "ann", "ben", "cyd")
        for other in (ben, cyd):
            await ann.follow(other)
        for number in range(8):
            await ann.like(await (ben, cyd)[number % 2].create(f"post {number}"))
        await shoal.settle()
    async with processes(2, replace(settings, run_consequences=False)) as (one, two):
        for shoal in (one, two):
            reader = await seen_by(shoal, ann)
            for _ in range(2):
                await reader.home()
            memory = shoal.network.store
            assert isinstance(memory, CachedGraph)
            assert isinstance(memory._store, DynamoGraph)
            before = memory._store.capacity.requests.total()
            waits = Waits()
            with waits.counted():
                assert len((await reader.home()).entries) == 8
            assert memory._store.capacity.requests.total() == before
            assert waits.count == 2, "only Redis is waited for"


@in_loop
async def test_cold_home_page_store_call_count_is_independent_of_post_count() -> None:
    costs = []
    for posts in (2, 40):
        place = SharedDatabases()
        settings = await place.settings()
        async with processes(1, settings) as (shoal,):
            ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(2)))
            for other in others:
                await ann.follow(other)
            for number in range(posts):
                await ann.like(await others[number % 2].create(f"post {number}"))
            await shoal.settle()
            await ann.home(limit=40)
        async with processes(1, settings) as (another,):
            with counted() as asked:
                await (await seen_by(another, ann)).home(limit=40)
            costs.append(len(asked))
    # With two stores, a query can become two parallel queries.
    assert max(costs) <= 24


@in_loop
async def test_home_timeline_without_redis_is_pulled_and_writes_continue() -> None:
    server = redis.own()
    place = SharedDatabases()
    place.timelines = server.url
    try:
        async with processes(2, await place.settings()) as (one, two):
            ann, ben = await register(one, "ann", "ben")
            await ben.follow(ann)
            await ann.create("before")
            await one.settle()
            assert await home_texts(ben) == ["before"]
            server.kill()
            ben_two = await seen_by(two, ben)
            post = await ann.create("meanwhile")
            assert await home_texts(ben_two) == ["meanwhile", "before"]
            await ben_two.like(post)
            assert (await ann.read(post)).likes == 1
            server.start()

            await ann.create("after")
            await one.settle()
            for shoal in (one, two):
                assert await home_texts(await seen_by(shoal, ben)) == ["after", "meanwhile", "before"]
    finally:
        server.kill()


@in_loop
async def test_home_timeline_after_redis_flush_is_rebuilt() -> None:
    place = SharedDatabases()
    async with processes(2, await place.settings()) as (one, two):
        ann, ben = await register(one, "ann", "ben")
        await ben.follow(ann)
        for number in range(3):
            await ann.create(f"post {number}")
            await one.settle()
            assert await home_texts(await seen_by(two, ben)) == [f"post {n}" for n in reversed(range(number + 1))]
            redis.single()  # which empties it


@in_loop
async def test_timeline_rebuild_does_not_persist_stale_cached_data() -> None:
    """One process loses Redis briefly during a change; another process with access to Redis processes the event."""
    place = SharedDatabases()
    elsewhere = await place.settings(run_consequences=False)
    async with processes(1, elsewhere) as (one,), processes(1, replace(elsewhere, run_consequences=True)) as (two,):
        ann, ben = await register(one, "ann", "ben")
        post = await ann.create("first")
        await two.settle()
        ben_two = await seen_by(two, ben)
        assert await home_texts(ben_two) == []
        # Process two now caches that Ben has no follows.
        assert not (await ben_two.read(post)).relation.following
        with _cut_off(one):
            await ben.follow(ann)
            await two.settle()

        async def home_of_ben() -> list[str]:
            return await home_texts(ben_two)

        await eventually(home_of_ben, ["first"])
        await ann.create("second")
        await two.settle()
        assert await home_texts(ben_two) == ["second", "first"]
        # A rebuilt timeline must be correct too.
        await two.network.timelines.drop((ben.id,))
        cyd = (await register(one, "cyd"))[0]
        await cyd.create("third")
        await two.settle()
        with _cut_off(one):
            await ben.follow(cyd)
            await two.settle()
            await home_texts(ben_two)
        await eventually(home_of_ben, ["third", "second", "first"])


@contextmanager
def _cut_off(shoal: Shoal) -> Iterator[None]:
    """Cut this process off from Redis."""
    timelines = shoal.network.timelines
    assert isinstance(timelines, RedisTimelines)
    with patch.object(timelines._nodes, "each", side_effect=Unavailable("the cache cannot be reached")):
        yield


@in_loop
async def test_network_with_local_timelines_refuses_a_second_process() -> None:
    place = SharedDatabases()
    settings = await place.settings(timelines="memory://")
    async with open_network(settings):
        with pytest.raises(Unavailable):
            async with open_network(settings):
                pass
        with pytest.raises(Unavailable):
            async with open_network(await _shared(place, settings.store)):
                pass
    async with open_network(settings):
        pass


async def _shared(place: SharedDatabases, store: object):  # type: ignore[no-untyped-def]  # settings of the same stores
    from_new = await place.settings()
    return type(from_new)(store=store, timelines=from_new.timelines, media="memory://")  # type: ignore[arg-type]


@in_loop
async def test_ip_block_made_in_other_process_applies_after_next_refresh() -> None:
    place = SharedDatabases()
    there = {"client": ("203.0.113.9", 1)}
    async with processes(2, await place.settings()) as (one, two):
        guard = IpGuard(two.network.store)
        await guard.look()
        await one.blocklists.block_network("203.0.113.0/24")
        await guard.look()
        assert guard.severity(there) is IpSeverity.NO_ACCESS
        await one.blocklists.unblock("203.0.113.0/24")
        await guard.look()
        assert guard.severity(there) is None


@in_loop
async def test_email_domain_block_use_is_counted_in_every_process() -> None:
    place = SharedDatabases()
    async with processes(3, await place.settings()) as (one, two, three):
        block = await one.blocklists.block_domain("spam.example")
        for client in ("192.0.2.1", "192.0.2.2"):
            for shoal in (one, two, three):
                with pytest.raises(Disallowed):
                    await blocklists.check_email(shoal.network.writes, "a@mail.spam.example", client)
        found = await get_object(three.network.store, EmailDomainBlock, block.id)
        assert [day.uses for day in found.days] == [6]
        # Two addresses can share a bit in rare cases.
        assert 1 <= found.days[0].accounts <= 2
        await two.blocklists.unblock("spam.example")
        await blocklists.check_email(three.network.writes, "a@mail.spam.example", "192.0.2.1")


@in_loop
async def test_ranked_for_you_page_takes_at_most_eight_round_trips_and_next_page_four() -> None:
    for posts in (8, 40):
        place = SharedDatabases()
        async with processes(1, await place.settings()) as (shoal,):
            ann, *others = await register(shoal, "ann", *(f"other{n}" for n in range(8)))
            for other in others:
                await ann.follow(other)
            for number in range(posts):
                await ann.like(await others[number % 8].create(f"post {number}"))
            await ann.set_recipe("fresh")
            await ann.mark_seen(1)
            await shoal.settle()
            for _ in range(2):
                await feed.page(shoal.network.reads, ann.id, 20, deadline=60.0)
            with rounds() as asked:
                page = await feed.page(shoal.network.reads, ann.id, 5, deadline=60.0)
            assert len(page.entries) == 5
            assert not page.by_time
            assert 1 + max(asked) <= 8
            with rounds() as asked:
                await feed.page(shoal.network.reads, ann.id, 5, decode_cursor(page.next), deadline=60.0)
            assert 1 + max(asked) <= 4
