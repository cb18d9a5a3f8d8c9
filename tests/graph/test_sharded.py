"""A sharded graph of several stores: data placement, and pending inverses of an unavailable store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shoal.commands.posts import _deletion
from shoal.core.errors import Unavailable
from shoal.core.events import InverseOp, InversePending, PostCreated
from shoal.core.ids import EPOCH_MS, IdMaker, shard_of
from shoal.core.model import Member, Post, Visibility
from shoal.core.placement import SHARDS, SHARDS_PER_SOURCE
from shoal.graph.bulk import KeyRow, Rows
from shoal.graph.contract import MAX_TIME, Assoc, AssocRow, Batch, Cursor, Frozen, Job, Missing, Store
from shoal.graph.memory import MemoryGraph
from shoal.graph.payloads.posts import narrow
from shoal.graph.resolve import Owns
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, LIKES, POSTED, PUBLISHED, AnyNode, Key, public_list
from shoal.graph.shard_map import ShardMap, ShardState, first_map, parse_shard_map
from shoal.graph.sharding.live_map import LiveMap, MapNews
from shoal.graph.sharding.sharded_graph import ShardedGraph
from tests.async_runner import eventually, in_loop
from tests.stores import (
    ANN,
    BEN,
    CYD,
    POST_OF_BEN,
    Backend,
    add,
    all_counts,
    all_links,
    all_objects,
    begin,
    broken_promises,
    contents,
    end,
    id_on,
    moment,
)

HALVES = [shard * 2 // SHARDS for shard in range(SHARDS)]
ANNS, BENS = shard_of(ANN), shard_of(BEN)


class Fragile(MemoryGraph):
    """A store that can be made unavailable and counts commits."""

    def __init__(self, index: int, owners: Sequence[int]) -> None:
        super().__init__(lambda shard: owners[shard] == index)
        self.down = False
        self.commits = 0

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        self._reached()
        self.commits += 1
        return await super().commit_owing(batch)

    async def claim(self, limit: int, lease: float) -> list[Job]:
        self._reached()
        return await super().claim(limit, lease)

    def _reached(self) -> None:
        if self.down:
            raise Unavailable("the store is away")


def two_stores() -> tuple[ShardedGraph, Fragile, Fragile]:
    """Return a graph with Ann in the first store, and Ben and Cyd in the second."""
    one, two = Fragile(0, HALVES), Fragile(1, HALVES)
    return ShardedGraph([one, two], HALVES), one, two


async def settle_what_is_owed(graph: ShardedGraph) -> list[InverseOp]:
    """Settle the pending inverses of claimed events, as a worker does."""
    jobs = await graph.claim(10, 60)
    pending_inverses = [job.event.op for job in jobs if isinstance(job.event, InversePending)]
    await graph.settle(pending_inverses)
    await graph.ack(jobs)
    return pending_inverses


class Suspended(MemoryGraph):
    """A store whose first scan is answered after a pause of the process, in which its rows moved to another store."""

    def __init__(self, other: MemoryGraph) -> None:
        super().__init__()
        self.is_over = False
        self._other = other

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        if not self.is_over:
            self.is_over = True
            await self._other.put_rows(Rows(objects=list((await self.obj_get([ANN])).values())))
            return []
        return await super().obj_scan(after, limit)


# Data placement


@in_loop
async def test_sharded_graph_stores_objects_keys_and_associations_in_the_store_of_their_shard() -> None:
    graph, one, two = two_stores()
    for id_ in (ANN, BEN, CYD):
        batch = Batch(shard_of(id_))
        batch.obj_add(Member(id=id_, name="m"))
        batch.key_add(Key(batch.shard, "user_name", str(id_)), id_)
        await graph.commit(batch)
    await begin(graph, ANN, FOLLOWS, BEN, moment(1))
    assert [set(await store.obj_get([ANN, BEN, CYD])) for store in (one, two)] == [{ANN}, {BEN, CYD}]
    assert [[row[:3] for row in await all_links(store)] for store in (one, two)] == [
        [(ANN, FOLLOWS.number, BEN)],
        [(BEN, FOLLOWED_BY.number, ANN)],
    ]
    keys = [Key(shard_of(id_), "user_name", str(id_)) for id_ in (ANN, BEN, CYD)]
    assert [set((await store.key_get(keys)).values()) for store in (one, two)] == [{ANN}, {BEN, CYD}]
    assert await graph.key_get(keys) == dict(zip(keys, (ANN, BEN, CYD), strict=True))


@in_loop
async def test_scan_of_a_process_that_was_suspended_while_rows_moved_reads_them_in_their_new_store() -> None:
    there = MemoryGraph()
    here = Suspended(there)
    batch = Batch(shard_of(ANN))
    batch.obj_add(Member(id=ANN, name="ann"))
    await here.commit(batch)
    graph = ShardedGraph([here, there], [0] * SHARDS)

    class Lease:
        renewed = False

        def fresh(self, _store: int) -> bool:
            return self.renewed or not here.is_over

        async def renew(self, _store: int) -> None:
            self.renewed = True
            graph.remap([here, there], [1] * SHARDS)

    graph.watch = Lease()
    assert [node.id for node in await graph.obj_scan(0, 10)] == [ANN]


def _object(batch: Batch) -> None:
    batch.obj_add(Member(id=BEN, name="ben"))


def _key(batch: Batch) -> None:
    batch.key_add(Key(BENS, "user_name", "ben"), BEN)


def _list(batch: Batch) -> None:
    batch.assoc_add(BEN, FOLLOWS, ANN, moment(1))


@pytest.mark.parametrize("stray", [_object, _key, _list])
@in_loop
async def test_sharded_graph_batch_with_data_of_another_store_is_refused(stray: Callable[[Batch], None]) -> None:
    graph, one, two = two_stores()
    batch = Batch(ANNS)
    batch.obj_add(Member(id=ANN, name="ann"))
    stray(batch)
    with pytest.raises(ValueError, match="in the store of its acting shard"):
        await graph.commit(batch)
    assert (one.commits, two.commits) == (0, 0)


@in_loop
async def test_cross_store_association_to_missing_object_leaves_inverse_pending() -> None:
    graph, _, _ = two_stores()
    batch = Batch(ANNS)
    batch.expect(BEN)
    batch.assoc_add(ANN, FOLLOWS, BEN, moment(1))
    await graph.commit(batch)
    assert await graph.assoc_range(ANN, FOLLOWS, Cursor()) == [Assoc(BEN, moment(1), b"")]
    assert await graph.assoc_range(BEN, FOLLOWED_BY, Cursor()) == []
    assert await graph.backlog() == 1
    await settle_what_is_owed(graph)
    assert await broken_promises(graph) == []


@in_loop
async def test_cross_store_association_to_existing_object_has_inverse_when_commit_returns() -> None:
    graph, _, _ = two_stores()
    await add(graph, Member(id=BEN, name="ben"))
    batch = Batch(ANNS)
    batch.expect(BEN)
    batch.assoc_add(ANN, FOLLOWS, BEN, moment(1))
    await graph.commit(batch)
    assert await broken_promises(graph) == []
    assert await graph.backlog() == 0


def two_halves_of_each_data_source() -> tuple[ShardedGraph, Fragile, Fragile]:
    owners = [shard % SHARDS_PER_SOURCE * 2 // SHARDS_PER_SOURCE for shard in range(SHARDS)]
    one, two = Fragile(0, owners), Fragile(1, owners)
    return ShardedGraph([one, two], owners), one, two


@in_loop
async def test_public_post_list_stored_in_another_store_is_updated_when_commit_returns() -> None:
    graph, one, two = two_halves_of_each_data_source()
    author, post = id_on(17, 0, shard=100), id_on(17, 1, shard=100)
    public = public_list(shard_of(author))
    batch = Batch(shard_of(author))
    batch.obj_add(Post(id=post, author_id=author))
    batch.assoc_add(public, PUBLISHED, post, post)
    await graph.commit(batch)
    assert await graph.assoc_range(public, PUBLISHED, Cursor()) == [Assoc(post, post, b"")]
    assert [len(await all_links(store)) for store in (one, two)] == [1, 0]
    batch = Batch(shard_of(author))
    batch.assoc_del(public, PUBLISHED, post, moment(9))
    await graph.commit(batch)
    assert await graph.assoc_range(public, PUBLISHED, Cursor()) == []
    assert await graph.backlog() == 0


@in_loop
async def test_public_post_list_in_unavailable_store_is_updated_after_recovery_in_any_order() -> None:
    graph, one, _ = two_halves_of_each_data_source()
    author, posts = id_on(17, 0, shard=100), [id_on(17, n, shard=100) for n in (1, 2)]
    public = public_list(shard_of(author))
    one.down = True
    for post in posts:
        batch = Batch(shard_of(author))
        batch.assoc_add(public, PUBLISHED, post, post)
        await graph.commit(batch)
    batch = Batch(shard_of(author))
    batch.assoc_del(public, PUBLISHED, posts[0], moment(9))
    await graph.commit(batch)
    one.down = False
    jobs = await graph.claim(10, 60)
    await graph.settle([job.event.op for job in reversed(jobs) if isinstance(job.event, InversePending)])
    await graph.ack(jobs)
    assert len(jobs) == 3
    assert await graph.assoc_range(public, PUBLISHED, Cursor()) == [Assoc(posts[1], posts[1], b"")]


SKEW_MS = 3_000
"""Time by which the clock of one process is ahead of that of another."""


def _deleted(post: Post, now: int) -> Batch:
    return _deletion(post, None, now)


def _narrowed(post: Post, now: int) -> Batch:
    batch = Batch(shard_of(post.id))
    narrow(batch, post, replace(post, visibility=Visibility.FOLLOWERS), now)
    return batch


@pytest.mark.parametrize("change", [_deleted, _narrowed])
@in_loop
async def test_public_post_list_in_another_store_drops_deleted_or_restricted_post_despite_clock_skew(
    change: Callable[[Post, int], Batch],
) -> None:
    graph, _, _ = two_halves_of_each_data_source()
    author, shard = id_on(17, 0, shard=100), shard_of(id_on(17, shard=100))
    ahead, behind = IdMaker(lambda: EPOCH_MS + 60_000 + SKEW_MS), IdMaker(lambda: EPOCH_MS + 60_000)
    post = Post(id=ahead(shard), author_id=author)
    batch = Batch(shard)
    batch.obj_add(post)
    batch.assoc_add(public_list(shard), PUBLISHED, post.id, post.id)
    await graph.commit(batch)
    await graph.commit(change(post, behind(shard)))
    assert await graph.assoc_range(public_list(shard), PUBLISHED, Cursor()) == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2_000)), min_size=1, max_size=40), st.integers(1, 5))
def test_public_post_list_polled_by_time_misses_posts_only_within_clock_skew_and_repeats_none(
    steps: list[tuple[bool, int]], limit: int
) -> None:
    """Two processes publish, one with a clock that is ahead, while a reader continues after the newest post that it knows."""
    now = EPOCH_MS + 60_000
    makers = IdMaker(lambda: now), IdMaker(lambda: now + SKEW_MS)
    shards = [shard_of(id_on(17, shard=part)) for part in (5, 100)]
    written: dict[int, int] = {}
    polled: list[int] = []

    async def publish() -> list[int]:
        nonlocal now
        graph, _, _ = two_halves_of_each_data_source()
        public = public_list(shards[0])
        for is_ahead, passed in steps:
            now += passed
            post = makers[is_ahead](shards[is_ahead])
            batch = Batch(shards[is_ahead])
            batch.assoc_add(public, PUBLISHED, post, post)
            await graph.commit(batch)
            written[post] = now
            found = await graph.assoc_range(public, PUBLISHED, Cursor(after=max(polled, default=0)))
            polled.extend(entry.id2 for entry in reversed(found))
        read: list[int] = []
        while page := await graph.assoc_range(
            public, PUBLISHED, Cursor(before=min(read, default=MAX_TIME), limit=limit)
        ):
            read += [entry.id2 for entry in page]
        return read

    assert asyncio.run(publish()) == sorted(written, reverse=True)
    assert len(polled) == len(set(polled))
    for post in written.keys() - set(polled):
        # A reader misses a post only if it already knew a newer one, written before it by less than the skew.
        assert any(0 <= written[post] - written[other] <= SKEW_MS and other > post for other in polled)


@in_loop
async def test_association_starting_at_object_of_another_store_is_refused() -> None:
    graph, one, two = two_halves_of_each_data_source()
    batch = Batch(shard_of(id_on(17, shard=100)))
    batch.assoc_add(id_on(17, shard=5), FOLLOWS, ANN, moment(1))
    with pytest.raises(ValueError, match="in the store of its acting shard"):
        await graph.commit(batch)
    assert (one.commits, two.commits) == (0, 0)


@in_loop
async def test_sharded_graph_commit_within_one_store_does_not_call_other_stores() -> None:
    graph, one, two = two_stores()
    await begin(graph, BEN, FOLLOWS, CYD, moment(1))
    assert (one.commits, two.commits) == (0, 1)
    assert await graph.backlog() == 0


# Inverses across stores


@in_loop
async def test_cross_store_inverse_is_written_when_commit_returns(tmp_path: Path) -> None:
    for name in ("sharded-memory", "sharded-sqlite"):
        async with Backend(name, tmp_path).open() as graph:
            await begin(graph, ANN, FOLLOWS, CYD, moment(1), b"data")
            assert await graph.assoc_range(CYD, FOLLOWED_BY, Cursor(limit=5)) == [Assoc(ANN, moment(1), b"data")]
            await end(graph, ANN, FOLLOWS, CYD, moment(2))
            assert await graph.assoc_range(CYD, FOLLOWED_BY, Cursor(limit=5)) == []
            assert await graph.claim(10, 60) == [], "an applied inverse is not claimed by a worker"


@in_loop
async def test_sharded_graph_commit_with_many_inverses_calls_each_store_once() -> None:
    graph, one, two = two_stores()
    batch = Batch(ANNS)
    for n in range(50):
        batch.assoc_add(ANN, FOLLOWS, id_on(32 + n % 32, n), moment(n))
    batch.emit(PostCreated(post_id=1, author_id=ANN))
    await graph.commit(batch)
    assert (one.commits, two.commits) == (1, 1)
    assert await broken_promises(graph) == []
    assert [job.event for job in await graph.claim(10, 60)] == [PostCreated(post_id=1, author_id=ANN)]


@in_loop
async def test_cross_store_inverse_of_unavailable_store_is_applied_after_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph, _, two = two_stores()
    two.down = True
    await begin(graph, ANN, LIKES, POST_OF_BEN, moment(5), b"data", aggregate_id=BEN)
    assert "1 inverse associations are pending for store 1" in caplog.text
    assert await graph.assoc_range(ANN, LIKES, Cursor(limit=5)) == [Assoc(POST_OF_BEN, moment(5), b"data")]
    assert await graph.backlog() == 1
    two.down = False
    assert await broken_promises(graph) != []
    assert len(await settle_what_is_owed(graph)) == 1
    assert await graph.assoc_range(POST_OF_BEN, LIKED_BY, Cursor(limit=5)) == [Assoc(ANN, moment(5), b"data")]
    assert await graph.assoc_count([POST_OF_BEN, BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 1, BEN: 1}}
    assert await broken_promises(graph) == []
    assert await graph.backlog() == 0


@in_loop
async def test_cross_store_inverse_applied_twice_is_counted_once() -> None:
    graph, _, two = two_stores()
    two.down = True
    await begin(graph, ANN, LIKES, POST_OF_BEN, moment(5), aggregate_id=BEN)
    two.down = False
    pending_inverses = await settle_what_is_owed(graph)
    await graph.settle(pending_inverses)
    assert await graph.assoc_count([POST_OF_BEN, BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 1, BEN: 1}}


@in_loop
async def test_cross_store_inverse_applied_late_does_not_undo_later_change() -> None:
    graph, _, two = two_stores()
    two.down = True
    await begin(graph, ANN, FOLLOWS, BEN, moment(5))
    two.down = False
    await end(graph, ANN, FOLLOWS, BEN, moment(1))
    await settle_what_is_owed(graph)
    assert await graph.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=5)) == []
    assert await graph.assoc_count([BEN], [FOLLOWED_BY]) == {FOLLOWED_BY: {}}
    assert await broken_promises(graph) == []


@in_loop
async def test_cross_store_inverse_is_repaired_after_crash_between_commits(tmp_path: Path) -> None:
    backend = Backend("sharded-sqlite", tmp_path)
    async with backend.open():
        """Make the files."""
    first = await backend.open_store(0)
    await begin(first, ANN, FOLLOWS, CYD, moment(1), b"data")
    await first.close()
    async with backend.open() as graph:
        assert isinstance(graph, ShardedGraph)
        assert await broken_promises(graph) == [
            f"{(await all_links(graph))[0]} has no inverse",
        ]
        assert len(await settle_what_is_owed(graph)) == 1
        assert await graph.assoc_range(CYD, FOLLOWED_BY, Cursor(limit=5)) == [Assoc(ANN, moment(1), b"data")]
        assert await broken_promises(graph) == []
    async with backend.open() as graph:
        assert await graph.backlog() == 0


@in_loop
async def test_sharded_graph_commit_succeeds_when_acknowledging_its_pending_inverse_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, one, _ = two_stores()

    async def refuse(_jobs: Sequence[Job]) -> None:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(one, "ack", refuse)
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
    assert await graph.backlog() == 1
    await settle_what_is_owed(graph)
    assert (await broken_promises(graph), await graph.backlog()) == ([], 0)


@in_loop
async def test_sharded_graph_commit_with_unavailable_primary_store_changes_nothing() -> None:
    graph, one, two = two_stores()
    one.down = True
    with pytest.raises(Unavailable):
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
    assert two.commits == 0
    assert await all_links(graph) == []


@in_loop
async def test_sharded_graph_job_claim_skips_unavailable_store(caplog: pytest.LogCaptureFixture) -> None:
    graph, one, _ = two_stores()
    for actor in (ANN, BEN):
        batch = Batch(shard_of(actor))
        batch.emit(PostCreated(post_id=actor + 1, author_id=actor))
        await graph.commit(batch)
    one.down = True
    jobs = await graph.claim(10, 60) + await graph.claim(10, 60)
    assert [job.store for job in jobs] == [1]
    one.down = False
    assert "store 0 is unreachable" in caplog.text
    assert [job.store for job in await graph.claim(10, 60)] == [0]


@in_loop
async def test_sharded_graph_claim_of_only_some_jobs_wakes_workers_for_the_remaining_jobs() -> None:
    graph, _, _ = two_stores()
    for number in range(7):
        batch = Batch(shard_of(ANN))
        batch.emit(PostCreated(post_id=number + 1, author_id=ANN))
        await graph.commit(batch)
    woken: list[int] = []
    graph.on_event(lambda: woken.append(1))
    assert [len(await graph.claim(4, 60)), len(woken)] == [4, 1]
    assert [len(await graph.claim(4, 60)), len(woken)] == [3, 1], "the half of the other store, which has no jobs"
    assert [len(await graph.claim(4, 60)), len(woken)] == [0, 1]


@in_loop
async def test_sharded_graph_put_back_acknowledged_and_parked_jobs_go_to_the_store_they_came_from() -> None:
    graph, one, two = two_stores()
    for actor in (ANN, BEN):
        batch = Batch(shard_of(actor))
        batch.emit(PostCreated(post_id=actor + 1, author_id=actor))
        await graph.commit(batch)
    first, second = sorted(await graph.claim(10, 60), key=lambda job: job.store)
    assert first.seq == second.seq
    await graph.put_back(second._replace(mark=7))
    assert await graph.claim(10, 60) == [second._replace(mark=7)]
    await graph.ack([second])
    assert (await one.backlog(), await two.backlog()) == (1, 0)
    await graph.park(first, "no")
    assert await graph.parked() == [(first, "no")]
    assert await graph.backlog() == 0


@in_loop
async def test_sharded_graph_list_pages_read_one_store_only() -> None:
    graph, _, two = two_stores()
    for n in range(5):
        await begin(graph, ANN, FOLLOWS, id_on(n * 15, n), moment(n))
    await add(graph, Member(id=ANN, name="ann"))
    await begin(graph, ANN, POSTED, id_on(0, 3), moment(9))
    two.down = True
    assert len(await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=10))) == 5
    assert len((await graph.assoc_ranges([ANN], FOLLOWS, Cursor(limit=10)))[ANN]) == 5


# Shard map changes


class Freezing(Fragile):
    """A store that refuses commits while it is frozen, and counts the refusals."""

    def __init__(self, index: int, owners: Sequence[int]) -> None:
        super().__init__(index, owners)
        self.frozen = False
        self.refused = 0

    async def refusals(self) -> int:
        """Return the number of refusals, at most 4."""
        return min(self.refused, 4)

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        if self.frozen:
            self.refused += 1
            raise Frozen("this part of the network is being moved: repeat in a moment")
        return await super().commit_owing(batch)


@in_loop
async def test_sharded_graph_commit_to_frozen_data_source_waits_for_new_shard_map() -> None:
    owners = list(HALVES)
    one, two = Freezing(0, owners), Freezing(1, owners)
    graph = ShardedGraph([one, two], owners)
    await add(graph, Member(id=BEN, name="ben"))
    two.frozen = True
    writing = asyncio.gather(
        begin(graph, BEN, POSTED, POST_OF_BEN, moment(1)),
        begin(graph, ANN, LIKES, POST_OF_BEN, moment(2), aggregate_id=BEN),
    )
    await eventually(two.refusals, 4)
    assert not writing.done()
    await one.put_rows(Rows(objects=[Member(id=BEN, name="ben")]))
    graph.remap([one, two], [0] * SHARDS)
    await writing
    assert await graph.assoc_count([BEN, POST_OF_BEN], [POSTED, LIKED_BY]) == {
        POSTED: {BEN: 1},
        LIKED_BY: {BEN: 1, POST_OF_BEN: 1},
    }
    assert await graph.backlog() == 0
    assert await broken_promises(graph) == []


class Held(Fragile):
    """A store that suspends each commit until `released`."""

    def __init__(self, index: int, owners: Sequence[int]) -> None:
        super().__init__(index, owners)
        self.reached, self.released = asyncio.Event(), asyncio.Event()

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        self.reached.set()
        await self.released.wait()
        return await super().commit_owing(batch)


@pytest.mark.parametrize(("shard", "held"), [(ANNS, 0), (BENS, 1)], ids=["actor", "post"])
@in_loop
async def test_sharded_graph_commit_that_a_new_shard_map_overtakes_is_repeated_on_the_new_store(
    shard: int, held: int
) -> None:
    owners = list(HALVES)
    old, new = Held(held, owners), Fragile(1 - held, owners)
    stores = [old, new] if held == 0 else [new, old]
    graph = ShardedGraph(stores, owners)
    like = asyncio.create_task(begin(graph, ANN, LIKES, POST_OF_BEN, moment(1), aggregate_id=BEN))
    await old.reached.wait()
    graph.remap(stores, [1 - held if at == shard else owner for at, owner in enumerate(HALVES)])
    old.released.set()
    await like
    assert await broken_promises(graph) == []
    assert await graph.assoc_count([ANN], [LIKES]) == {LIKES: {ANN: 1}}
    assert await graph.assoc_count([POST_OF_BEN, BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 1, BEN: 1}}
    assert await graph.backlog() == 0


class Keeper:
    """The side of a store that has a shard map, which records the calls of a process."""

    def __init__(self, url: str, newest: ShardMap, calls: list[tuple[str, str]]) -> None:
        self._url = url
        self.newest = newest
        self._calls = calls

    async def beat(self, _me: int, version: int, *, joins: bool) -> MapNews:
        del joins
        return MapNews(self.newest if version < self.newest.version else None, [])

    async def look(self, version: int) -> MapNews:
        return MapNews(self.newest if version < self.newest.version else None, [])

    async def leave(self, _me: int) -> None:
        self._calls.append(("leave", self._url))

    async def offer(self, _known: ShardMap) -> None:
        self._calls.append(("offer", self._url))

    async def admit(self, _shards: list[int], _version: int, _seconds: float, _ends: object) -> None:
        self._calls.append(("admit", self._url))

    async def marks(self) -> dict[int, ShardState]:
        return {}

    async def close(self, _me: int) -> None:
        """Do nothing."""


@in_loop
async def test_shard_map_change_opens_moved_shards_before_other_stores_get_the_map() -> None:
    first = first_map({"0-31": "a", "32-62": "b", "63": "c"})
    calls: list[tuple[str, str]] = []

    async def store(_url: str, owns: Owns) -> Store:
        return MemoryGraph(owns)

    live = LiveMap(store, lambda url: Keeper(url, first.moving([7], 0, 2, returns=False), calls), first)
    await live.open()
    await live.close()
    assert calls[:2] == [("offer", "c"), ("admit", "c")]
    assert sorted(calls[2:]) == [("offer", "a"), ("offer", "b")]


@in_loop
async def test_idle_process_leaves_stores_and_registers_again_when_it_reads() -> None:
    calls: list[tuple[str, str]] = []
    known = first_map({"0-31": "a", "32-63": "b"})

    async def both_left() -> bool:
        return {("leave", "a"), ("leave", "b")} <= {*calls}

    async def store(_url: str, owns: Owns) -> Store:
        return MemoryGraph(owns)

    live = LiveMap(store, lambda url: Keeper(url, known, calls), known, idle_seconds=0.05, look_seconds=60.0)
    graph = await live.open()
    await eventually(both_left, True)
    assert not live.fresh(0)
    assert await graph.obj_get([ANN, BEN]) == {}
    assert live.fresh(0)
    calls.clear()
    await eventually(both_left, True)
    await live.close()


class Slow(Keeper):
    """A store whose answers take a few iterations of the event loop."""

    async def beat(self, me: int, version: int, *, joins: bool) -> MapNews:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await super().beat(me, version, joins=joins)

    async def leave(self, me: int) -> None:
        await asyncio.sleep(0)
        await super().leave(me)


@pytest.mark.parametrize("turns", range(12))
@in_loop
async def test_process_that_becomes_idle_closes_at_once(turns: int) -> None:
    known = first_map({"0-31": "a", "32-63": "b"})

    async def store(_url: str, owns: Owns) -> Store:
        return MemoryGraph(owns)

    live = LiveMap(store, lambda url: Slow(url, known, []), known, idle_seconds=0.0, look_seconds=60.0)
    await live.open()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await live.close()


@in_loop
async def test_idle_process_adopts_new_shard_map_without_being_used() -> None:
    calls: list[tuple[str, str]] = []
    known = first_map({"0-31": "a", "32-63": "b"})
    keepers: dict[str, Keeper] = {}

    async def both_left() -> bool:
        return {("leave", "a"), ("leave", "b")} <= {*calls}

    async def store(_url: str, owns: Owns) -> Store:
        return MemoryGraph(owns)

    def keeper(url: str) -> Keeper:
        return keepers.setdefault(url, Keeper(url, known, calls))

    live = LiveMap(store, keeper, known, idle_seconds=0.05, look_seconds=0.05)
    await live.open()
    await eventually(both_left, True)
    moved = known.moving([7], 0, 1, returns=False)
    for each in keepers.values():
        each.newest = moved

    async def is_adopted() -> bool:
        return live.map.version == moved.version

    await eventually(is_adopted, True)
    await live.close()


@in_loop
async def test_sharded_graph_missing_object_is_retried_with_new_shard_map() -> None:
    owners = list(HALVES)
    one, two = Fragile(0, owners), Fragile(1, owners)
    graph = ShardedGraph([one, two], owners)
    batch = Batch(BENS)
    batch.expect(BEN)
    batch.assoc_add(BEN, POSTED, POST_OF_BEN, moment(1))

    async def missing(_batch: Batch) -> list[tuple[Job, InverseOp]]:
        await one.put_rows(Rows(objects=[Member(id=BEN, name="ben")]))
        graph.remap([one, two], [0] * SHARDS)
        raise Missing("it was deleted in between")

    two.commit_owing = missing  # type: ignore[method-assign, assignment]
    await graph.commit(batch)
    batch.expect(CYD)
    with pytest.raises(Missing):
        await graph.commit(batch)


@in_loop
async def test_sharded_graph_reads_ignore_rows_of_data_sources_owned_elsewhere() -> None:
    graph, one, _ = two_stores()
    for n in range(6):
        await begin(graph, BEN, FOLLOWS, id_on(40, 10 + n), moment(n))
        await add(graph, Member(id=id_on(40, 20 + n), name="m"))
    await add(graph, Member(id=ANN, name="ann"))
    before = await contents(graph), await graph.key_scan(("", ""), 5), await graph.spread()
    # Rows that a data source move has already copied or has not deleted yet.
    stale = [Member(id=id_on(41, n), name="old") for n in range(9)]
    links = [AssocRow(id_on(41, n), FOLLOWS.number, ANN, moment(n), alive=True, data=b"") for n in range(9)]
    counts = [(id_on(41, n), FOLLOWS.number, 1) for n in range(9)]
    await one.put_rows(Rows(stale, links, counts, [KeyRow("import", "old", id_on(41), 0)]))
    assert (await contents(graph), await graph.key_scan(("", ""), 5), await graph.spread()) == before
    for page in (1, 2, 7):
        assert len(await all_objects(graph, page)) == 7
        assert len(await all_links(graph, page)) == 12
        assert len(await all_counts(graph, page)) == 7
    assert await graph.obj_get([id_on(41)]) == {}


class Wary:
    """Treats the map of a store as current only after `renew`, which may replace the map."""

    def __init__(self, renewed: Callable[[], None]) -> None:
        self._sure: set[int] = set()
        self._renewed = renewed

    def fresh(self, place: int) -> bool:
        return place in self._sure

    async def renew(self, place: int) -> None:
        self._sure.add(place)
        self._renewed()


@in_loop
async def test_sharded_graph_reads_renew_stale_shard_map_first() -> None:
    owners = list(HALVES)
    one, two = Fragile(0, owners), Fragile(1, owners)
    graph = ShardedGraph([one, two], owners)
    await one.put_rows(Rows([Member(id=BEN, name="new")], [AssocRow(BEN, FOLLOWS.number, ANN, moment(1), True, b"")]))
    for ask in (
        lambda: graph.obj_get([BEN]),
        lambda: graph.assoc_range(BEN, FOLLOWS, Cursor(limit=1)),
        lambda: graph.assoc_ranges([BEN], FOLLOWS, Cursor(limit=1)),
        lambda: graph.assoc_get(BEN, [FOLLOWS], [ANN]),
    ):
        graph.remap([one, two], HALVES)
        graph.watch = Wary(lambda: graph.remap([one, two], [0] * SHARDS))
        answer = await ask()
        assert answer
        assert answer != {FOLLOWS: {}}


# Shard maps


def test_shard_map_names_a_store_for_every_data_source() -> None:
    urls = parse_shard_map({"0-9,10:0-63": "a", "11-63": "b", "10:64-127": "c"})
    assert urls == ["a"] * (10 * 128 + 64) + ["c"] * 64 + ["b"] * (53 * 128)


@pytest.mark.parametrize(
    ("ranges", "complaint"),
    [
        (
            {"all": "a"},
            r"'all' is not a list of data sources \(0 to 63\) and parts of them \(shards 0 to 127\), such as 12-15,17:0-63",
        ),
        ({"": "a"}, "'' is not a list"),
        ({"-5": "a"}, "'-5' is not a list"),
        ({"0-x": "a"}, "'0-x' is not a list"),
        ({"0-63": "a", "5-3": "b"}, "'5-3' is not a list"),
        ({"0-31": "a", "31-63": "b"}, "31 is listed twice"),
        ({"0-63": "a", "7": "b"}, "7 is listed twice"),
        ({"0-63": "a", "7:3-5,9:1": "b"}, "7:3-5,9:1 is listed twice"),
        ({"0-64": "a"}, "'0-64' is not a list"),
        ({"0-62,63:0-128": "a"}, "'0-62,63:0-128' is not a list"),
        ({"64:0": "a"}, "'64:0' is not a list"),
        ({"7:5-3": "a"}, "'7:5-3' is not a list"),
        ({"7:": "a"}, "'7:' is not a list"),
        ({"0-31": "a", "33-63": "b"}, "no store for 32"),
        ({"0-16,17:0-63": "a", "18-63": "b"}, "no store for 17:64-127"),
        ({}, "no store for 0-63"),
    ],
)
def test_shard_map_incomplete_or_ambiguous_is_refused(ranges: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_shard_map(ranges)


def test_sharded_graph_without_owner_for_a_shard_is_refused() -> None:
    with pytest.raises(ValueError, match=rf"must have {SHARDS} shards \(got 64\)"):
        ShardedGraph([MemoryGraph()], [0] * 64)
