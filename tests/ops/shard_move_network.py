"""A network on several PostgreSQL stores, with processes that read and write while its data sources move."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from unittest.mock import patch

from shoal.admin.report import Progress, nothing
from shoal.admin.resharding import Mover, open_mover
from shoal.app.stores import map_of, open_side, open_store
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post
from shoal.core.placement import DATA_SOURCES, SHARDS_PER_SOURCE, source_of
from shoal.graph.contract import Batch, Cursor, Store
from shoal.graph.schema import FOLLOWS, LIKED_BY, LIKES, POSTED, Key
from shoal.graph.sharding import live_map, sharded_graph
from shoal.settings import build
from tests.engines import postgres
from tests.engines.patience import PATIENT_SECONDS
from tests.stores import broken_promises, contents, id_on, moment


class Databases:
    """The owner of empty databases, which exist as long as this object."""

    async def one(self) -> str:
        return await postgres.database(self)


@contextmanager
def patient() -> Iterator[None]:
    """Lengthen the timeouts of requests during a switch and of opening a store that joins.

    A killed mover stops writes for 3 s of the usual 4.5 s, and a busy machine may need the rest, and more, for other work.
    """
    with (
        patch.object(sharded_graph, "_SWITCH_SECONDS", PATIENT_SECONDS),
        patch.object(live_map, "_OPEN_SECONDS", PATIENT_SECONDS),
    ):
        yield


@asynccontextmanager
async def process(store: str | dict[str, str], event_log: str = "") -> AsyncIterator[Store]:
    """Open the graph as a separate process would, with long timeouts."""
    async with AsyncExitStack() as stack:
        stack.enter_context(patient())
        yield await open_store(build(store=store, event_log=event_log), stack, read_only=False, sole=False)


@asynccontextmanager
async def mover(store: str | dict[str, str], tell: Progress = nothing) -> AsyncIterator[Mover]:
    """Open a mover for the data sources of this network."""
    async with open_mover(map_of(build(store=store)), open_side, tell) as opened:
        yield opened


UPPER = DATA_SOURCES
"""Added to a data source, names the upper half of its shards; without it, the lower half."""


def id_in(half: int, n: int = 0) -> int:
    """Return the n-th id in one half of a data source."""
    return id_on(half % UPPER, n, shard=5 if half < UPPER else 100)


def member_on(half: int) -> int:
    """Return the only member in one half of a data source."""
    return id_in(half)


def half_of(id_: int) -> int:
    shard = shard_of(id_)
    return source_of(shard) + (UPPER if shard % SHARDS_PER_SOURCE >= SHARDS_PER_SOURCE // 2 else 0)


async def populate(graph: Store, posts: int = 3, halves: Sequence[int] = range(DATA_SOURCES)) -> None:
    """Create a member in each half, with a name, posts, follows across stores and a tombstone."""
    for source in halves:
        member = member_on(source)
        batch = Batch(shard_of(member))
        batch.obj_add(Member(id=member, name=f"m{source}"))
        batch.key_add(Key(batch.shard, "import", f"m{source}"), member)
        for n in range(posts):
            post = id_in(source, 1 + n)
            batch.obj_add(Post(id=post, author_id=member, text=f"post {n}"))
            batch.assoc_add(member, POSTED, post, post)
        batch.assoc_add(member, FOLLOWS, member_on((source + 7) % DATA_SOURCES), moment(source))
        batch.assoc_add(member, FOLLOWS, member_on((source + 33) % DATA_SOURCES), moment(source))
        await graph.commit(batch)
        await _end(graph, member, member_on((source + 33) % DATA_SOURCES))


async def _end(graph: Store, member: int, other: int) -> None:
    batch = Batch(shard_of(member))
    batch.assoc_del(member, FOLLOWS, other, moment(500))
    await graph.commit(batch)


class Load:
    """Writers and readers on several processes. Each acknowledged write is recorded, and read at once from another process."""

    def __init__(self, graphs: Sequence[Store], sources: Sequence[int], *, first: int = 1_000) -> None:
        self._graphs = graphs
        self._sources = sources
        self._numbers = itertools.count(first)
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.posts: list[int] = []
        self.likes: list[tuple[int, int]] = []
        self.longest = 0.0
        """Duration of the slowest request, in seconds."""
        self.errors: list[str] = []

    @asynccontextmanager
    async def running(self, writers: int = 3) -> AsyncIterator[None]:
        self._tasks = [
            asyncio.create_task(self._write(graph, other))
            for graph, other in zip(self._graphs, [*self._graphs[1:], self._graphs[0]], strict=True)
            for _ in range(writers)
        ]
        try:
            yield
        finally:
            self._stopping = True
            await asyncio.gather(*self._tasks)

    async def more(self, posts: int, sources: Sequence[int] = range(DATA_SOURCES), patience: float = 60.0) -> None:
        """Wait for `posts` more posts on these data sources."""
        wanted = self._posts_on(sources) + posts
        deadline = asyncio.get_running_loop().time() + patience
        while self._posts_on(sources) < wanted:
            assert asyncio.get_running_loop().time() < deadline, f"writes have stopped: {self.errors[:3]}"
            await asyncio.sleep(0.01)

    def _posts_on(self, sources: Sequence[int]) -> int:
        return sum(half_of(post) in sources for post in self.posts)

    async def _write(self, graph: Store, other: Store) -> None:
        while not self._stopping:
            try:
                await self._post(graph, other)
                await self._like(graph, other)
            except Exception as error:  # noqa: BLE001  # every failure of a request counts
                self.errors.append(repr(error))

    async def _timed(self, work: asyncio.Future[None] | object) -> None:
        began = asyncio.get_running_loop().time()
        await work  # type: ignore[misc]
        self.longest = max(self.longest, asyncio.get_running_loop().time() - began)

    async def _post(self, graph: Store, other: Store) -> None:
        n = next(self._numbers)
        source = self._sources[n % len(self._sources)]
        author, post = member_on(source), id_in(source, n)
        batch = Batch(shard_of(author))
        batch.obj_add(Post(id=post, author_id=author, text=str(n)))
        batch.assoc_add(author, POSTED, post, post)
        batch.key_add(Key(batch.shard, "import", str(post)), post)
        batch.emit(PostCreated(post_id=post, author_id=author))
        await self._timed(graph.commit(batch))
        self.posts.append(post)
        # The author may have newer posts by now.
        (ranks,) = (await other.assoc_ranks([author], POSTED, [0, post])).values()
        if ranks[0] <= ranks[1]:
            self.errors.append(f"post {n} is at position {ranks[1]} of {ranks[0]}")
        if post not in await other.obj_get([post]):
            self.errors.append(f"post {n} was not seen by another process")

    async def _like(self, graph: Store, other: Store) -> None:
        n = next(self._numbers)
        source = self._sources[n % len(self._sources)]
        liker = member_on((n * 31) % DATA_SOURCES)
        post = id_in(source, 1 + n % 3)
        batch = Batch(shard_of(liker))
        batch.expect(post)
        batch.assoc_add(liker, LIKES, post, moment(n), str(n).encode(), aggregate_id=member_on(source))
        await self._timed(graph.commit(batch))
        self.likes.append((liker, post))
        seen = (await other.assoc_get(liker, [LIKES], [post]))[LIKES].get(post)
        if seen is None or seen.time < moment(n):
            self.errors.append(f"like {n} was not seen by another process")

    async def check(self, graph: Store) -> None:
        """Check that no request failed, no write is lost and all counts are correct."""
        assert not self.errors, self.errors[:3]
        assert self.posts
        assert self.likes
        assert set(await graph.obj_get(self.posts)) == set(self.posts)
        keys = [Key(shard_of(post), "import", str(post)) for post in self.posts]
        assert set((await graph.key_get(keys)).values()) == set(self.posts)
        for liker, post in set(self.likes):
            assert (await graph.assoc_get(post, [LIKED_BY], [liker]))[LIKED_BY], (liker, post)
        assert await broken_promises(graph) == []
        for source in self._sources:
            times = [entry.time for entry in await graph.assoc_range(member_on(source), POSTED, Cursor(limit=1_000))]
            ranks = await graph.assoc_ranks([member_on(source)], POSTED, times)
            assert ranks == {member_on(source): list(range(len(times)))}
        await self._check_tallies(graph)

    async def _check_tallies(self, graph: Store) -> None:
        for source in self._sources:
            posts = [id_in(source, 1 + n) for n in range(3)]
            counts = (await graph.assoc_count([*posts, member_on(source)], [LIKED_BY]))[LIKED_BY]
            assert sum(counts.get(post, 0) for post in posts) == counts.get(member_on(source), 0)


async def contents_of(graph: Store) -> tuple[object, ...]:
    """Return the contents of a graph, including its keys."""
    keys = []
    after = ("", "")
    while page := await graph.key_scan(after, 500):  # type: ignore[attr-defined]
        keys += page
        after = page[-1][:2]
    return *await contents(graph), keys
