"""Active posts: posts with recent reactions are listed, regardless of the order and repetition of events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Handle, Shoal, Visibility
from shoal.admin.consistency.check import check
from shoal.commands.audit import drop_old
from shoal.consumers import active_posts
from shoal.consumers.active_posts import Activity, forget_inactive
from shoal.consumers.table import TABLE
from shoal.core.errors import Unavailable
from shoal.core.events import LikeChanged, PostCreated, ReactionChanged, ShareCreated
from shoal.core.ids import EPOCH_MS, compose, floor_at, milliseconds_of, shard_of
from shoal.core.model import Post
from shoal.graph.contract import Batch, Cursor, Store
from shoal.graph.memory import MemoryGraph
from shoal.graph.payloads.posts import WINDOW_MS, active_at
from shoal.graph.schema import ACTIVE, PUBLIC_LISTS, public_list
from shoal.scheduler import Upkeep
from tests.async_runner import in_loop, run
from tests.flows.members import register
from tests.flows.notifications.notification_helpers import repeat_everything
from tests.stores import Backend, Forgetful, add, all_links, begin, broken_promises, id_on

MINUTE_MS = 60_000
BEGIN = EPOCH_MS + 10_000 * MINUTE_MS
NOW = BEGIN + 30 * MINUTE_MS
SOURCES = (0, 40, 63)
"""Data sources that are in different stores."""


@pytest.fixture(params=["one store", "two stores"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | dict[str, str]:
    """The stores of a network: with two stores, ann and ben are in the first, dan and joe in the second."""
    if request.param == "one store":
        return "memory://"
    return {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}


def post(source: int, n: int = 1, **more: object) -> Post:
    return Post(id=id_on(source, n), author_id=id_on(source), **more)  # type: ignore[arg-type]  # fields of a post


def at(milliseconds: int, number: int = 0) -> int:
    """Return an id created at a moment, on the shard of a reacting member."""
    return compose(milliseconds, 77, number)


async def listed(graph: Store) -> dict[int, int]:
    """Return the time of the newest reaction to each active post (Unix ms); check that each is in the list of its shard."""
    pages = await graph.assoc_ranges(PUBLIC_LISTS, ACTIVE, Cursor(limit=1_000))
    assert all(public == public_list(shard_of(entry.id2)) for public, page in pages.items() for entry in page)
    return {entry.id2: milliseconds_of(entry.time) for page in pages.values() for entry in page}


async def hear(graph: Store, process: Activity, *reactions: tuple[int, int]) -> None:
    """Send reactions (post and moment) to a process in this order."""
    heard = [process.reacted(graph, post_id, at(moment, n)) for n, (post_id, moment) in enumerate(reactions)]
    await asyncio.gather(*(future for future in heard if future is not None))


REACTIONS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 5 * MINUTE_MS), st.integers(0, 2), st.integers(1, 3)), max_size=30
)


@given(REACTIONS, st.randoms(use_true_random=False))
def test_trending_candidates_entry_has_minute_of_newest_reaction_for_any_event_order(
    reactions: Sequence[tuple[int, int, int, int]], random: object
) -> None:
    posts = [post(0, 1), post(0, 2), post(40, 3), post(63, 4), post(63, 5)]

    async def story() -> None:
        graph = MemoryGraph()
        for one in posts:
            await add(graph, one)
        processes = [Activity(lambda: NOW) for _ in range(3)]
        told = [(posts[n].id, BEGIN + ms, process) for n, ms, process, times in reactions for _ in range(times)]
        random.shuffle(told)  # type: ignore[attr-defined]  # a Random of hypothesis
        await asyncio.gather(*(hear(graph, processes[process], (id_, ms)) for id_, ms, process in told))
        newest: dict[int, int] = {}
        for id_, ms, _ in told:
            newest[id_] = max(newest.get(id_, 0), ms - ms % MINUTE_MS)
        assert await listed(graph) == newest
        before = await all_links(graph)
        random.shuffle(told)  # type: ignore[attr-defined]  # as above
        for id_, ms, process in told:
            await hear(graph, processes[process - 1], (id_, ms))
        assert await all_links(graph) == before

    run(story())


@in_loop
async def test_trending_candidates_are_listed_updated_and_expired_on_every_backend(backend: Backend) -> None:
    async with backend.open() as graph:
        posts = [post(source, n) for source in SOURCES for n in (1, 2)]
        aside = [post(0, 3, visibility=Visibility.FOLLOWERS), post(40, 4, parent_id=posts[0].id, root_id=posts[0].id)]
        for one in (*posts, *aside):
            await add(graph, one)
        process = Activity(lambda: NOW)
        await hear(graph, process, *((one.id, BEGIN + 70_000) for one in (*posts, *aside, post(0, 99))))
        assert await listed(graph) == {one.id: BEGIN + MINUTE_MS for one in posts}
        await hear(graph, process, (posts[0].id, BEGIN + 5 * MINUTE_MS), (posts[2].id, BEGIN))
        assert await listed(graph) == {one.id: BEGIN + MINUTE_MS for one in posts} | {
            posts[0].id: BEGIN + 5 * MINUTE_MS
        }
        # A removed post is listed again by a newer reaction, but not by a late event of an old reaction.
        await forget_inactive(graph, BEGIN + 4 * MINUTE_MS + WINDOW_MS)
        assert await listed(graph) == {posts[0].id: BEGIN + 5 * MINUTE_MS}
        await hear(graph, Activity(lambda: NOW), (posts[1].id, BEGIN + 70_000), (posts[2].id, BEGIN + 9 * MINUTE_MS))
        assert await listed(graph) == {
            posts[0].id: BEGIN + 5 * MINUTE_MS,
            posts[2].id: BEGIN + 9 * MINUTE_MS,
        }
        await forget_inactive(graph, NOW + 2 * WINDOW_MS)
        await graph.sweep(floor_at(NOW + WINDOW_MS), NOW)
        assert [row for row in await all_links(graph) if row.atype == ACTIVE.number] == []
        assert await broken_promises(graph) == []


@in_loop
async def test_trending_candidates_deletion_of_one_post_does_not_affect_others() -> None:
    graph = MemoryGraph()
    kept, gone = post(0, 1), post(0, 2)
    await add(graph, kept, gone)
    process = Activity(lambda: NOW)

    async def delete_when_read(ids: Sequence[int]) -> object:
        found = await MemoryGraph.obj_get(graph, ids)
        batch = Batch(shard_of(gone.id))
        batch.obj_del(gone)
        await graph.commit(batch)
        return found

    with patch.object(graph, "obj_get", delete_when_read):
        await hear(graph, process, (gone.id, BEGIN), (kept.id, BEGIN))
    assert await listed(graph) == {kept.id: BEGIN}


@in_loop
async def test_trending_candidates_write_is_retried_after_store_outage() -> None:
    graph = Forgetful(MemoryGraph())
    one = post(0)
    await add(graph._store, one)
    process = Activity(lambda: NOW)
    for refusals, losses in ((1, 0), (0, 1)):
        graph.refusals, graph.losses = refusals, losses
        with pytest.raises(Unavailable):
            await hear(graph, process, (one.id, BEGIN))
    await hear(graph, process, (one.id, BEGIN))
    assert (process.written, await listed(graph._store)) == (1, {one.id: BEGIN})


@in_loop
async def test_trending_candidates_reactions_within_a_minute_are_one_entry_and_batched() -> None:
    graph = Forgetful(MemoryGraph())
    posts = [post(0, n) for n in range(1, 50)]
    await add(graph._store, *posts)
    process = Activity(lambda: NOW)
    commits = 0

    async def commit(batch: Batch) -> None:
        nonlocal commits
        commits += 1
        await graph._store.commit(batch)

    with patch.object(graph, "commit", commit):
        await hear(graph, process, *((one.id, BEGIN + n) for n in range(40) for one in posts))
        assert (process.written, commits) == (49, 3)
        for n in range(40, 80):
            await hear(graph, process, (posts[0].id, BEGIN + n))
        assert (process.written, commits) == (49, 3)
        # Reactions outside the window are not written.
        await hear(graph, Activity(lambda: NOW), (posts[0].id, NOW - WINDOW_MS - 2 * MINUTE_MS))
        await hear(graph, process, (posts[0].id, BEGIN + MINUTE_MS))
        assert (process.written, commits) == (50, 4)


async def react(by: Handle, kind: str, to: Post) -> None:
    if kind == "comment":
        await by.comment(to, "so it is")
    elif kind == "emoji":
        await by.react(to, "👍")
    else:
        await getattr(by, kind)(to)


@pytest.mark.parametrize("kind", ["like", "share", "emoji", "comment"])
@in_loop
async def test_trending_candidates_count_every_kind_of_reaction_except_authors_own(
    kind: str, url: str | dict[str, str]
) -> None:
    async with Shoal.open(url) as shoal:
        ann, dan = await register(shoal, "ann", "dan")
        own, others = await ann.create("own"), await ann.create("others")
        await react(ann, kind, own)
        await react(dan, kind, others)
        await shoal.settle()
        found = await listed(shoal.network.store)
        assert list(found) == [others.id]
        assert found[others.id] % MINUTE_MS == 0
        assert (await check(shoal.network)).clean


@in_loop
async def test_trending_candidates_duplicate_and_reordered_events_change_no_rows(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, dan = await register(shoal, "ann", "ben", "dan")
        first = await ann.create("first")
        share = await dan.share(first)
        comment = await ben.comment(first, "so it is")
        await dan.like(first)
        await shoal.settle()
        before = await all_links(shoal.network.store)
        new_id = shoal.network.writes.new_id
        liked = LikeChanged(
            member_id=dan.id, post_id=first.id, author_id=ann.id, at=new_id(shard_of(dan.id)) - (90_000 << 23)
        )
        events = (
            liked,
            LikeChanged(member_id=dan.id, post_id=first.id, author_id=ann.id),
            PostCreated(post_id=comment.id, author_id=ben.id, answered_id=first.id),
            ShareCreated(share_id=share.id, author_id=dan.id, shared_id=first.id),
        )
        await repeat_everything(shoal.network, events * 2, {type(event): TABLE[type(event)][-1:] for event in events})
        assert await all_links(shoal.network.store) == before
        # Events of older versions, without times and posts.
        old = (
            ReactionChanged(member_id=dan.id, post_id=first.id, author_id=ann.id, place_id=1, emoji="👍"),
            ShareCreated(share_id=share.id, author_id=dan.id),
        )
        await repeat_everything(shoal.network, old, {type(event): TABLE[type(event)][-1:] for event in old})
        assert await all_links(shoal.network.store) == before


@in_loop
async def test_trending_candidates_deleted_post_is_removed_despite_late_reaction(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, dan = await register(shoal, "ann", "dan")
        gone = await ann.create("gone")
        await dan.like(gone)
        await shoal.settle()
        assert list(await listed(shoal.network.store)) == [gone.id]
        await ann.delete(gone)
        assert await listed(shoal.network.store) == {}
        await shoal.settle()
        late = shoal.network.writes.new_id(shard_of(dan.id)) + (MINUTE_MS << 23)
        event = LikeChanged(member_id=dan.id, post_id=gone.id, author_id=ann.id, at=late)
        await repeat_everything(shoal.network, (event,), TABLE)
        assert await listed(shoal.network.store) == {}
        assert (await check(shoal.network)).clean


@in_loop
async def test_trending_candidates_without_recent_reactions_are_removed_by_upkeep(url: str | dict[str, str]) -> None:
    async with Shoal.open(url) as shoal:
        ann, ben, dan = await register(shoal, "ann", "ben", "dan")
        posts = [await one.create(str(n)) for one in (ann, dan) for n in range(30)]
        for one in posts:
            await ben.like(one)
        await shoal.settle()
        network = shoal.network
        assert set(await listed(network.store)) == {one.id for one in posts}

        async def forget(now: int) -> None:
            """Remove entries as if three days had passed."""
            await forget_inactive(network.store, now + WINDOW_MS + 3 * MINUTE_MS)

        with patch.object(active_posts, "_FORGOTTEN_AT_ONCE", 7):
            await Upkeep(
                network.store,
                network.timelines,
                network.effects.high_fan_out_sources.review,
                forget,
                14.0,
                30.0,
                400.0,
                partial(drop_old, network.writes),
                0.0,
                30.0,
            ).once()
        assert await listed(network.store) == {}
        ended = [row for row in await all_links(network.store) if row.atype == ACTIVE.number]
        assert len(ended) == len(posts)
        await network.store.sweep(max(row.time for row in ended) + 1, 0)
        assert [row for row in await all_links(network.store) if row.atype == ACTIVE.number] == []


@in_loop
async def test_consistency_check_removes_trending_candidate_of_missing_post() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        kept = await ann.create("kept")
        await ben.like(kept)
        await shoal.settle()
        gone = kept.id + 1
        await begin(shoal.network.store, public_list(shard_of(gone)), ACTIVE, gone, active_at(gone, gone))
        report = await check(shoal.network)
        assert {line.name: line.found for line in report.invariants if line.found} == {"ends": 1}
        await check(shoal.network, repair=True)
        assert (await check(shoal.network)).clean
        assert list(await listed(shoal.network.store)) == [kept.id]
