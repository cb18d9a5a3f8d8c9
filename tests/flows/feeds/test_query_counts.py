"""I8: a page takes a constant number of reads, for 1 post or 40."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from shoal import Handle, Shoal
from shoal.commands import members
from shoal.commands import posts as post_verbs
from shoal.commands.context import Writes
from shoal.commands.posts import Draft
from shoal.core.ids import IdMaker, shard_of
from shoal.core.model import Post
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Batch, Cursor, Store
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.dynamodb.client import Service
from shoal.graph.postgres import PostgresGraph
from shoal.graph.schema import EVERYBODY, FOLLOWED_BY, FOLLOWS, HIGH_FAN_OUT
from shoal.graph.sqlite import SqliteGraph
from shoal.media.library import MediaLibrary
from shoal.queries import home, threads
from shoal.queries import members as member_queries
from shoal.queries import posts as post_queries
from shoal.queries.context import Reads
from shoal.queries.follows import history
from shoal.timelines.memory import MemoryTimelines
from tests.async_runner import in_loop
from tests.engines import dynamodb, postgres
from tests.flows.query_counts import Read, calls, statements, traced
from tests.tiers import deep

PAGE = Cursor(limit=40)


@asynccontextmanager
async def a_reader_of(followees: int, posts: int, url: str = "memory://") -> AsyncIterator[tuple[Shoal, Handle]]:
    """Ann follows members who take turns writing posts; ann likes each post, which is tagged and mentions ann."""
    async with Shoal.open(url) as shoal:
        ann = await shoal.register("ann")
        others = [await shoal.register(f"other{n}") for n in range(followees)]
        for other in others:
            await ann.follow(other)
        await ann.follow_tag("sea")
        for n in range(posts):
            author = others[n % followees]
            await ann.like(await author.create(f"{n} #tide @ann"))
        await shoal.settle()
        yield shoal, ann


@pytest.mark.parametrize("backend", ["sqlite", *deep("memory")])
@in_loop
async def test_home_timeline_read_count_is_independent_of_post_count(backend: str, tmp_path: Path) -> None:
    costs = []
    for posts in (1, 40, 200):
        url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path}/{posts}.db"
        async with a_reader_of(3, posts, url) as (shoal, ann):
            read = _home_of(ann)
            await read(shoal.network.reads)
            counted = await calls(shoal.network, read)
            ran = await statements(shoal.network, read) if backend == "sqlite" else 0
            costs.append((counted, ran))
    assert costs[0] == costs[1] == costs[2]
    assert costs[0][0].total() <= 12
    assert costs[0][1] <= 12


@pytest.mark.parametrize("backend", ["sqlite", *deep("memory")])
@in_loop
async def test_home_timeline_emoji_reactions_add_two_reads_per_page(backend: str, tmp_path: Path) -> None:
    costs = []
    for reacted in (0, 1, 20, 40):
        url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path}/{reacted}.db"
        async with a_reader_of(3, 40, url) as (shoal, ann):
            page = (await ann.home(limit=40)).entries
            for n, entry in enumerate(page[:reacted]):
                for emoji in ("👍", "❤️", "🎉")[: 1 + n % 3]:
                    await ann.react(entry.post, emoji)
            await shoal.settle()
            read = _home_of(ann)
            await read(shoal.network.reads)
            counted = await calls(shoal.network, read)
            ran = await statements(shoal.network, read) if backend == "sqlite" else 0
            costs.append((counted, ran))
    (none, none_ran), (one, one_ran), *more = costs
    # Without emoji, the emoji feature adds no reads.
    assert none.total() <= 12
    assert none_ran <= 12
    assert one - none == {"assoc_ranges": 1, "assoc_count": 1}
    assert not none - one
    # Includes a statement for the viewer's own emoji reactions, as for their likes.
    assert one_ran <= none_ran + 3
    assert all(cost == (one, one_ran) for cost in more)


@in_loop
async def test_home_timeline_read_count_is_independent_of_author_count() -> None:
    costs = []
    for followees in (1, 40):
        async with a_reader_of(followees, 40) as (shoal, ann):
            read = _home_of(ann)
            await read(shoal.network.reads)
            costs.append(await calls(shoal.network, read))
    assert costs[0] == costs[1]


@pytest.mark.parametrize("backend", ["sqlite", *deep("memory")])
@in_loop
async def test_home_timeline_cold_rebuild_read_count_is_independent_of_followee_count(
    backend: str, tmp_path: Path
) -> None:
    costs = []
    for followees in (5, 200):
        url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path}/{followees}.db"
        async with a_reader_of(followees, 200, url) as (shoal, ann):
            counted = await calls(shoal.network, _home_of(ann))
            await shoal.network.timelines.drop([ann.id])
            ran = await statements(shoal.network, _home_of(ann)) if backend == "sqlite" else 0
            costs.append((counted.total(), ran))
    # A source that fills the page alone is read a second time.
    assert abs(costs[0][0] - costs[1][0]) <= 1
    assert abs(costs[0][1] - costs[1][1]) <= 1
    assert max(costs[1]) <= 20


@in_loop
async def test_home_timeline_below_materialised_part_takes_constant_number_of_reads() -> None:
    costs = []
    for followees in (5, 100):
        async with a_reader_of(followees, 200) as (shoal, ann):
            timelines = shoal.network.timelines
            assert isinstance(timelines, MemoryTimelines)
            timelines.on_drop()
            reads = shoal.network.reads
            await _home_of(ann)(reads)
            slots = shoal.network.timelines.slots([ann.id])
            assert len(slots) == 1
            await shoal.network.timelines.union(ann.id, [], 2**62)
            costs.append((await calls(shoal.network, _home_of(ann))).total())
    assert abs(costs[0] - costs[1]) <= 1
    assert costs[1] <= 20


@pytest.mark.parametrize("backend", ["sqlite", *deep("memory")])
@in_loop
async def test_account_statuses_read_count_is_independent_of_post_count(backend: str, tmp_path: Path) -> None:
    costs = []
    for posts in (1, 40, 100):
        url = "memory://" if backend == "memory" else f"sqlite:///{tmp_path}/{posts}.db"
        async with a_reader_of(1, posts, url) as (shoal, ann):
            author = await shoal.member("other0")
            read = _posts_of(author, ann)
            ran = await statements(shoal.network, read) if backend == "sqlite" else 0
            costs.append((await calls(shoal.network, read), ran))
    assert costs[0] == costs[1] == costs[2]
    assert costs[0][0].total() <= 8
    assert costs[0][1] <= 12


@in_loop
async def test_thread_read_count_is_independent_of_depth_and_width() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")

        async def cost(depth: int, width: int) -> tuple[int, int]:
            root = post = await ann.create("root")
            for _ in range(depth):
                sisters = [await ann.comment(post, f"comment {n}") for n in range(width)]
                post = sisters[-1]
            below = (await calls(shoal.network, _thread_of(root, ann))).total()
            return below, (await calls(shoal.network, _thread_of(post, ann))).total()

        costs = {await cost(depth, width) for depth, width in ((2, 1), (7, 1), (2, 30), (20, 3))}
        assert len(costs) == 1
        assert max(costs.pop()) <= 20


@in_loop
async def test_followers_list_read_count_is_independent_of_page_size() -> None:
    costs = []
    for followers in (1, 25, 60):
        async with Shoal.open("memory://") as shoal:
            ann = await shoal.register("ann")
            for n in range(followers):
                await (await shoal.register(f"other{n}")).follow(ann)
            costs.append(await calls(shoal.network, _followers_of(ann)))
    assert costs[0] == costs[1]
    # The next page is prefetched.
    assert costs[2].total() <= costs[0].total() + 1
    assert costs[0].total() <= 5


@in_loop
async def test_likers_and_likes_received_by_member_read_count_is_independent_of_like_count() -> None:
    costs = []
    for likes in (1, 50):
        async with Shoal.open("memory://") as shoal:
            ann = await shoal.register("ann")
            post = await ann.create("hello")
            for n in range(likes):
                await (await shoal.register(f"other{n}")).like(post)
            liking = await calls(shoal.network, _likers_of(post, ann))
            total = await calls(shoal.network, _received_by(ann))
            costs.append((liking, total))
    assert costs[0] == costs[1]
    assert costs[0][1] == {"assoc_count": 1}


@in_loop
async def test_relationship_history_read_count_is_independent_of_length() -> None:
    costs = []
    for times in (0, 1, 15):
        async with Shoal.open("memory://") as shoal:
            ann, ben = await shoal.register("ann"), await shoal.register("ben")
            for _ in range(times):
                for one, other in ((ann, ben), (ben, ann)):
                    await one.follow(other)
                    await one.unfollow(other)
            costs.append(await calls(shoal.network, _history_of(ann, ben)))
    assert costs[0] == costs[1] == costs[2]
    # The profile of the other member, the start of the history, the current follows, and the ended follows.
    assert costs[0] == {"obj_get": 1, "assoc_get": 2, "assoc_ended": 1}


@in_loop
async def test_home_timeline_and_followers_read_count_is_independent_of_follow_history() -> None:
    costs = []
    for times in (0, 15):
        async with a_reader_of(3, 40) as (shoal, ann):
            for _ in range(times):
                for n in range(3):
                    await ann.unfollow(f"other{n}")
                    await ann.follow(f"other{n}")
            await shoal.settle()
            read = _home_of(ann)
            await read(shoal.network.reads)
            costs.append((await calls(shoal.network, read), await calls(shoal.network, _followers_of(ann))))
            follows = await shoal.network.store.assoc_range(ann.id, FOLLOWS, Cursor(limit=9))
            assert [follow.data for follow in follows] == [b""] * 3
    assert costs[0] == costs[1]


def _history_of(one: Handle, other: Handle) -> Read:
    return lambda reads: history(replace(reads, lasting=reads.graph), one.id, other.id)


def _home_of(viewer: Handle) -> Read:
    return lambda reads: home.page(reads, viewer.id, PAGE)


def _posts_of(author: Handle, viewer: Handle) -> Read:
    return lambda reads: post_queries.authored_page(reads, viewer.id, author.id, PAGE)


def _thread_of(post: Post, viewer: Handle) -> Read:
    return lambda reads: threads.thread(reads, viewer.id, post.id, above=100, below=100)


def _followers_of(member: Handle) -> Read:
    return lambda reads: member_queries.page(reads, member.id, member.id, FOLLOWED_BY, Cursor(limit=25))


def _likers_of(post: Post, viewer: Handle) -> Read:
    return lambda reads: member_queries.likers(reads, viewer.id, post.id)


def _received_by(member: Handle) -> Read:
    return lambda reads: member_queries.received(reads, member.id, member.id)


async def requests(read: Awaitable[object]) -> Counter[str]:
    """Return how often a read calls each operation of DynamoDB."""
    asked: Counter[str] = Counter()
    call = Service.call

    async def counting(service: Service, operation: str, **more: Any) -> Any:
        asked[operation] += 1
        return await call(service, operation, **more)

    with patch.object(Service, "call", counting):
        await read
    return asked


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "dynamodb"])
@in_loop
async def test_thread_query_count_is_independent_of_comment_count_on_every_backend(
    backend: str, tmp_path: Path
) -> None:
    costs = []
    for width in (3, 30):
        async with _a_graph(backend, tmp_path / f"{width}.db") as (graph, asked):
            writes = Writes(graph, IdMaker(), cast("MediaLibrary", None))
            ann = await members.register(writes, "ann")
            post = root = await post_verbs.create(writes, ann.id, Draft(text="root"))
            for n in range(width):
                deep = await post_verbs.create(writes, ann.id, Draft(text=str(n), parent_id=post.id))
                post = deep if n % 3 == 0 else post
            reads = cast("Reads", SimpleNamespace(graph=graph))
            costs.append(
                [await asked(threads.thread(reads, ann.id, at.id, above=100, below=100)) for at in (root, post)]
            )
    assert costs[0] == costs[1]
    assert max(costs[0]) <= {"sqlite": 14, "postgres": 14, "dynamodb": 1}[backend]


@asynccontextmanager
async def _a_graph(
    backend: str, path: Path
) -> AsyncIterator[tuple[Store, Callable[[Awaitable[object]], Awaitable[int]]]]:
    """Open a new store; yield it and a function that counts the requests of a read (on DynamoDB, only queries)."""
    graph: SqliteGraph | PostgresGraph | DynamoGraph

    async def asked(read: Awaitable[object]) -> int:
        if isinstance(graph, DynamoGraph):
            return (await requests(read))["query"]
        if isinstance(graph, PostgresGraph):
            before = graph.round_trips
            await read
            return graph.round_trips - before
        with traced(graph) as ran:
            await read
        return len(ran)

    if backend == "sqlite":
        graph = await SqliteGraph.open(path)
    elif backend == "postgres":
        graph = await PostgresGraph.open(await postgres.database(asked))
    else:
        graph = await DynamoGraph.open(dynamodb.new_table())
    try:
        yield graph, asked
    finally:
        await graph.close()


@pytest.mark.parametrize("followed", [3, 300])
@in_loop
async def test_home_timeline_warm_page_read_count_is_independent_of_high_fanout_sources(followed: int) -> None:
    costs = []
    for loud in (0, 1, 3_000):
        async with a_reader_of(3, 40) as (shoal, ann):
            await _follow_strangers(shoal, ann, followed)
            star = await shoal.member("other0")
            await _mark_loud(shoal, [*range(star.id + 1, star.id + loud), star.id][:loud])
            await ann.home(limit=40)
            texts = [entry.post.text for entry in (await ann.home(limit=40)).entries]
            asked, rows = await _asked(shoal, ann)
            assert len(texts) == 40
            costs.append((asked, rows))
    # The posts of the high fan-out member whom Ann follows are pulled.
    assert costs[1] == costs[2]
    assert costs[1][0] - costs[0][0] == Counter(assoc_ranges=costs[1][0]["assoc_ranges"])
    assert costs[1][0]["assoc_ranges"] <= 2
    assert costs[1][1] - costs[0][1] <= 40


async def _follow_strangers(shoal: Shoal, handle: Handle, many: int) -> None:
    batch = Batch(shard_of(handle.id))
    for n in range(many):
        batch.assoc_add(handle.id, FOLLOWS, handle.id + 1_000_000 + n, n + 1)
    await shoal.network.store.commit(batch)


async def _mark_loud(shoal: Shoal, sources: Sequence[int]) -> None:
    batch = Batch(shard_of(EVERYBODY))
    for time, source in enumerate(sources, start=1):
        batch.assoc_add(EVERYBODY, HIGH_FAN_OUT, source, time)
    await shoal.network.store.commit(batch)


async def _asked(shoal: Shoal, handle: Handle) -> tuple[Counter[str], int]:
    """Count the calls of a home timeline page to the store below the cache, and the associations and ids transferred."""
    memory = cast("CachedGraph", shoal.network.store)
    asked: Counter[str] = Counter()
    moved = 0
    # Background tasks, such as the agenda, may read at any time.
    ours = ContextVar("ours", default=False)

    def watched(name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal moved
            answer = await method(*args, **kwargs)
            if not ours.get():
                return answer
            asked[name] += 1
            ids = sum(len(arg) for arg in args if isinstance(arg, list))
            moved += len(answer) if isinstance(answer, list) else ids
            return answer

        return call

    names = ("obj_get", "assoc_get", "assoc_range", "assoc_ranges", "assoc_count")
    store = SimpleNamespace(**{name: watched(name, getattr(memory._store, name)) for name in names})
    token = ours.set(True)
    with patch.object(memory, "_store", store), patch.object(memory, "assoc_ranges", store.assoc_ranges):
        await home.page(shoal.network.reads, handle.id, PAGE)
    ours.reset(token)
    return asked, moved
