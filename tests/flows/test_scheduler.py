"""Agenda items run exactly once, in any process and despite crashes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from shoal import Handle, Shoal
from shoal import scheduler as agenda_module
from shoal.admin.archives.formats.documents import iso_moment
from shoal.admin.consistency.check import check
from shoal.admin.imports import records
from shoal.commands import oauth, posts, scheduled_posts
from shoal.commands.context import Limits, Writes
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.commands.scheduled_posts import moment_of_text
from shoal.core.errors import Conflict, Gone, InvalidInput, NotFound, Unauthenticated, Unavailable
from shoal.core.events import PollEnded
from shoal.core.ids import shard_of
from shoal.core.model import App, Member, Poll, Post, ScheduledPost
from shoal.graph.access import own_object
from shoal.graph.contract import Batch, Cursor, Graph
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import AGENDA, DUE, SCHEDULES
from shoal.queries.posts import waiting
from shoal.scheduler import Agenda
from tests.async_runner import eventually, in_loop, run
from tests.example_counts import examples
from tests.flows.members import register, texts
from tests.flows.simulation.invariants import GraphSnapshot

MINUTE = 60_000
POLL = PollDraft(options=("a", "b"), seconds=600)
SUSPENDED = "Your account was suspended"
TOO_LONG = "text has 400 characters; the maximum is 300"


def now() -> int:
    return time.time_ns() // 1_000_000


def agenda(shoal: Shoal, minutes: float = 0, writes: Writes | None = None) -> Agenda:
    """Return an agenda with its clock moved forward by `minutes`."""
    return Agenda(writes or shoal.network.writes, clock=lambda: now() + int(minutes * MINUTE))


async def plan(shoal: Shoal, who: Handle, text: str, minutes: float = 10, **more: object) -> ScheduledPost:
    draft = Draft(text=text, **more)  # type: ignore[arg-type]  # the fields of a draft
    made = await scheduled_posts.schedule(shoal.network.writes, who.id, draft, now() + int(minutes * MINUTE))
    assert isinstance(made, ScheduledPost)
    return made


async def an_app(shoal: Shoal) -> App:
    return (await oauth.register(shoal.network.writes, "Tide", redirect_uris=("urn:x",))).app


async def stays(shoal: Shoal, app: App) -> bool:
    """Return whether the app still exists after a day."""
    await agenda(shoal, 24 * 60 + 1).once()
    return app.id in await shoal.network.store.obj_get((app.id,))


@in_loop
async def test_oauth_app_unused_is_deleted_after_a_day() -> None:
    async with Shoal.open("memory://") as shoal:
        app = await an_app(shoal)
        assert await agenda(shoal, 24 * 60 - 1).once() == 0
        assert await due(shoal) == 1
        assert not await stays(shoal, app)
        assert await due(shoal) == 0
        assert (await check(shoal.network)).clean


@pytest.mark.parametrize("how", ["a token of its own", "a token of a member", "a code"])
@in_loop
async def test_oauth_app_with_token_or_code_is_not_deleted_as_unused(how: str) -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        app, writes = await an_app(shoal), shoal.network.writes
        if how == "a code":
            member = (await shoal.network.store.obj_get((ann.id,)))[ann.id]
            assert isinstance(member, Member)
            await oauth.issue_code(writes, member, app.id, ("read",), "urn:x")
        else:
            await oauth.issue_token(writes, app.id, ann.id if "member" in how else 0, ("read",))
        assert await due(shoal) == 0
        assert await stays(shoal, app)
        assert (await check(shoal.network)).clean


@in_loop
async def test_oauth_app_used_during_deletion_is_either_kept_or_deleted() -> None:
    async with Shoal.open("memory://") as shoal:
        made = [await an_app(shoal) for _ in range(12)]
        late = agenda(shoal, 24 * 60 + 1)
        used = (oauth.issue_token(shoal.network.writes, app.id, 0, ("read",)) for app in made)
        _, *answers = await asyncio.gather(late.once(), *used, return_exceptions=True)
        await late.once()
        there = await shoal.network.store.obj_get([app.id for app in made])
        for app, answer in zip(made, answers, strict=True):
            assert isinstance(answer, oauth.NewToken if app.id in there else Unauthenticated), answer
        assert await due(shoal) == 0


async def due(shoal: Shoal) -> int:
    return len(await shoal.network.store.assoc_range(AGENDA, DUE, Cursor(limit=1_000)))


async def told(shoal: Shoal) -> list[int]:
    """Return the polls with an undelivered `PollEnded` event."""
    jobs = await shoal.network.store.claim(10_000, 0.0)
    return [job.event.poll_id for job in jobs if isinstance(job.event, PollEnded)]


@in_loop
async def test_scheduled_post_is_published_at_its_time() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await ben.follow(ann)
        await ben.home()
        made = await plan(shoal, ann, "later #dawn", poll=changed(POLL, seconds=6_000), language="en")
        assert await agenda(shoal, 9).once() == 0
        assert texts(await ann.posts()) == []
        assert await agenda(shoal, 11).once() == 1
        await shoal.settle()
        (entry,) = (await ben.home()).entries
        assert (entry.post.text, entry.post.language, entry.post.tags) == ("later #dawn", "en", ("dawn",))
        assert entry.poll is not None
        assert entry.poll.poll.expires_at - entry.post.created_at == 6_000_000
        assert await agenda(shoal, 11).once() == 0
        with pytest.raises(NotFound):
            await own_object(shoal.network.store, ScheduledPost, ann.id, made.id)
        assert (await shoal.network.store.assoc_count((ann.id,), (SCHEDULES,)))[SCHEDULES] == {}
        assert (await check(shoal.network)).clean


@in_loop
async def test_scheduled_post_rescheduled_or_cancelled_is_not_published_at_old_time() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        moved, sooner, gone = [await plan(shoal, ann, text) for text in ("moved", "sooner", "gone")]
        writes = shoal.network.writes
        await scheduled_posts.put_off(writes, ann.id, moved.id, now() + 30 * MINUTE)
        await scheduled_posts.put_off(writes, ann.id, sooner.id, now() + 6 * MINUTE)
        await scheduled_posts.cancel(writes, ann.id, gone.id)
        for act in (
            scheduled_posts.cancel(writes, ann.id, gone.id),
            scheduled_posts.cancel(writes, ben.id, moved.id),
            scheduled_posts.put_off(writes, ben.id, moved.id, now() + 30 * MINUTE),
        ):
            with pytest.raises(NotFound):
                await act
        assert [one.id for one in (await waiting(shoal.network.store, ann.id, Cursor())).posts] == [sooner.id, moved.id]
        await agenda(shoal, 7).once()
        assert texts(await ann.posts()) == ["sooner"]
        await agenda(shoal, 15).once()
        assert texts(await ann.posts()) == ["sooner"]
        await agenda(shoal, 31).once()
        assert texts(await ann.posts()) == ["moved", "sooner"]
        assert await due(shoal) == 0


@in_loop
async def test_scheduled_post_creation_validates_time_content_and_limit() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        # By the clock of the network, which only moves when ids are made.
        ids = shoal.network.writes.new_id
        for minutes in (-10, 0, 4.9, 12 * 366 * 24 * 60):
            at = ids.now() + int(minutes * MINUTE)
            with pytest.raises(InvalidInput):
                await scheduled_posts.schedule(shoal.network.writes, ann.id, Draft(text="x"), at)
        for wrong in ({"parent_id": 1}, {"media": (1,)}):
            with pytest.raises(NotFound):
                await plan(shoal, ann, "x", **wrong)
        for draft in (Draft(), Draft(text="x", poll=PollDraft(options=("a",), seconds=600))):
            with pytest.raises(InvalidInput):
                await scheduled_posts.schedule(shoal.network.writes, ann.id, draft, now() + 10 * MINUTE)
        few = replace(shoal.network.writes, limits=Limits(scheduled=2))
        for _ in range(2):
            await scheduled_posts.schedule(few, ann.id, Draft(text="x"), now() + 10 * MINUTE)
        with pytest.raises(InvalidInput, match="limit of 2"):
            await scheduled_posts.schedule(few, ann.id, Draft(text="x"), now() + 10 * MINUTE)
        assert await due(shoal) == 2


@in_loop
async def test_scheduled_post_request_repeated_returns_the_scheduled_post_and_once_published_the_post() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        at, writes = now() + 10 * MINUTE, shoal.network.writes

        def again() -> Awaitable[ScheduledPost | Post]:
            return scheduled_posts.schedule(writes, ann.id, Draft(text="x"), at, request="key")

        made = await asyncio.gather(*[again() for _ in range(10)])
        assert len({one.id for one in made}) == 1
        with pytest.raises(Conflict, match="scheduled"):
            await posts.create(writes, ann.id, Draft(text="x"), request="key")
        await agenda(shoal, 11).once()
        (entry,) = (await ann.posts()).entries
        assert await again() == entry.post
        assert await posts.create(writes, ann.id, Draft(text="x"), request="key") == entry.post
        await ann.delete(entry)
        with pytest.raises(Gone):
            await again()


async def notified(who: Handle) -> list[tuple[Kind, int]]:
    """Return the notifications of a member as pairs of kind and subject."""
    return [(item.notice.kind, item.notice.about) for item in (await who.notifications.page()).items]


@pytest.mark.parametrize("obstacle", ["suspension", "maximum", "departure"])
@in_loop
async def test_scheduled_post_refused_for_a_while_is_kept_and_published_afterwards(obstacle: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        planned = await plan(shoal, ann, "x" * 400, 6)
        await plan(shoal, ben, "fine", 7)
        writes = shoal.network.writes
        refusing = writes
        match obstacle:
            case "suspension":
                await shoal.suspend(ann.id)
            case "maximum":
                refusing = replace(writes, limits=changed(writes.limits, text=300))
            case _:
                await shoal.delete_member(ann, days=3)
        await agenda(shoal, 10, refusing).once()
        await shoal.settle()
        assert texts(await ben.posts()) == ["fine"]
        (kept,) = (await waiting(shoal.network.store, ann.id, Cursor())).posts
        assert kept.id == planned.id
        assert kept.refused == (TOO_LONG if obstacle == "maximum" else SUSPENDED)
        assert (await check(shoal.network)).clean
        # Not before five minutes have passed.
        await agenda(shoal, 14).once()
        assert (await waiting(shoal.network.store, ann.id, Cursor())).posts == [kept]
        if obstacle == "suspension":
            await shoal.restore(ann.id)
        elif obstacle == "departure":
            await shoal.keep_member(ann)
        assert await notified(ann) == [(Kind.UNPUBLISHED, planned.id)]
        await agenda(shoal, 16).once()
        await shoal.settle()
        assert texts(await ann.posts()) == ["x" * 400]
        assert await notified(ann) == []
        assert await due(shoal) == 0
        assert (await check(shoal.network)).clean


@in_loop
async def test_scheduled_post_refused_for_a_day_waits_for_its_author() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        parent = await ben.create("parent")
        planned = await plan(shoal, ann, "an answer", 6, parent_id=parent.id)
        await ben.delete(parent)
        attempts = 0
        for minutes in range(7, 3 * 24 * 60, 5):
            attempts += await agenda(shoal, minutes).once()
        assert 8 < attempts < 16
        await shoal.settle()
        assert await due(shoal) == 0
        assert (await check(shoal.network)).clean
        (kept,) = (await waiting(shoal.network.store, ann.id, Cursor())).posts
        assert kept.refused == "A post or file that this post refers to no longer exists"
        assert await notified(ann) == [(Kind.UNPUBLISHED, planned.id)]
        moved = await scheduled_posts.put_off(shoal.network.writes, ann.id, planned.id, now() + 20 * MINUTE)
        assert (moved.refused, await notified(ann)) == ("", [])
        await agenda(shoal, 21).once()
        await shoal.settle()
        assert await notified(ann) == [(Kind.UNPUBLISHED, planned.id)]
        await scheduled_posts.cancel(shoal.network.writes, ann.id, planned.id)
        assert await notified(ann) == []
        assert await due(shoal) == 0
        assert (await check(shoal.network)).clean


@in_loop
async def test_scheduled_post_of_a_deleted_author_is_dropped() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann")
        await plan(shoal, ann, "of a deleted author", 6)
        batch = Batch(shard_of(ann.id))
        batch.obj_del((await shoal.network.store.obj_get((ann.id,)))[ann.id])
        await shoal.network.store.commit(batch)
        await agenda(shoal, 10).once()
        assert (await waiting(shoal.network.store, ann.id, Cursor())).posts == []
        assert await due(shoal) == 0


@in_loop
async def test_poll_end_event_is_sent_once() -> None:
    async with Shoal.open("memory://", run_consequences=False) as shoal:
        (ann,) = await register(shoal, "ann")
        writes = shoal.network.writes
        post = await posts.create(writes, ann.id, Draft(text="x", poll=POLL))
        other = await posts.create(writes, ann.id, Draft(text="y", poll=POLL))
        gone = await posts.create(writes, ann.id, Draft(text="z", poll=POLL))
        await ann.update(other, "y", poll=PollDraft(options=("a", "b"), seconds=6_000))
        await ann.delete(gone)
        assert await agenda(shoal, 9).once() == 0
        await asyncio.gather(*[agenda(shoal, 11).once() for _ in range(5)])
        assert await told(shoal) == [post.poll_id]
        await agenda(shoal, 101).once()
        assert sorted(await told(shoal)) == sorted([post.poll_id, other.poll_id])
        assert await due(shoal) == 0
        assert (await check(shoal.network, read_only=True)).clean


@in_loop
async def test_scheduler_ticket_without_matching_object_is_discarded() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        made = await plan(shoal, ann, "x")
        batch = Batch(made.id >> 10 & 8191)
        batch.obj_set(changed(made, ticket_id=1, version=2))
        await shoal.network.store.commit(batch)
        assert await agenda(shoal, 11).once() == 1
        assert await due(shoal) == 0
        assert texts(await ann.posts()) == []


@in_loop
async def test_scheduler_processes_more_due_tickets_than_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda_module, "_PAGE", 3)
    async with Shoal.open("memory://") as shoal:
        people = await register(shoal, *[f"other{n}" for n in range(5)])
        at = now() + 10 * MINUTE
        for n in range(20):
            await scheduled_posts.schedule(shoal.network.writes, people[n % 5].id, Draft(text=str(n)), at)
        later = agenda(shoal, 11)
        # Tickets with equal times at a page boundary can wait for the next run.
        assert await later.once() + await later.once() == 20
        assert await due(shoal) == 0
        assert sum([len((await one.posts()).entries) for one in people]) == 20


@in_loop
async def test_scheduler_retries_failed_ticket_after_backoff() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await register(shoal, "ann", "ben")
        await plan(shoal, ann, "first", 6)
        await plan(shoal, ben, "second", 7)
        broken = True
        clock = now() + 10 * MINUTE

        async def refuse(batch: Batch) -> None:
            if broken and any(getattr(op.node, "text", "") == "first" for op in batch.objects):
                raise Unavailable("the store is away")

        at_work = Agenda(_writes(shoal, refuse, _nothing), clock=lambda: clock)
        logging.disable(logging.ERROR)
        assert await at_work.once() == 1
        broken = False
        assert await at_work.once() == 0
        logging.disable(logging.NOTSET)
        clock += 3_000
        assert await at_work.once() == 1
        assert (texts(await ann.posts()), texts(await ben.posts())) == (["first"], ["second"])


class _Died(Exception):
    """The process died."""


class _Fragile:
    """A graph with hooks before and after each commit."""

    def __init__(
        self, graph: Graph, before: Callable[[Batch], Awaitable[None]], after: Callable[[Batch], Awaitable[None]]
    ) -> None:
        self._graph = graph
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        await self._before(batch)
        await self._graph.commit(batch)
        await self._after(batch)


async def _nothing(_batch: Batch) -> None: ...


def _writes(
    shoal: Shoal, before: Callable[[Batch], Awaitable[None]], after: Callable[[Batch], Awaitable[None]]
) -> Writes:
    graph = cast("Graph", _Fragile(shoal.network.writes.graph, before, after))
    return replace(shoal.network.writes, graph=graph)


@settings(deadline=None, max_examples=examples(20, full=40))
@given(seed=st.integers(0, 2**32), planned=st.integers(1, 6), asked=st.integers(0, 3), workers=st.integers(1, 4))
def test_scheduler_processes_each_ticket_exactly_once_despite_crashes(
    seed: int, planned: int, asked: int, workers: int
) -> None:
    chance = Random(seed)

    async def perhaps(_batch: Batch) -> None:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        if chance.random() < 0.3:
            raise _Died

    async def work(shoal: Shoal) -> None:
        # A worker that died starts again without state.
        for _ in range(4):
            await agenda(shoal, 20, _writes(shoal, perhaps, perhaps)).once()

    async def meddle(shoal: Shoal, ann: Handle, plans: list[ScheduledPost]) -> set[int]:
        """Cancel some of the scheduled posts concurrently, and return the ids of the cancelled ones."""
        taken: set[int] = set()
        for one in plans:
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                try:
                    await scheduled_posts.cancel(shoal.network.writes, ann.id, one.id)
                except (NotFound, Conflict):
                    continue
                taken.add(one.id)
        return taken

    async def story() -> None:
        async with Shoal.open("memory://", run_consequences=False) as shoal:
            (ann,) = await register(shoal, "ann")
            plans = [await plan(shoal, ann, str(n)) for n in range(planned)]
            polls = [
                (await posts.create(shoal.network.writes, ann.id, Draft(text="?", poll=POLL))).poll_id
                for _ in range(asked)
            ]
            meddling = asyncio.create_task(meddle(shoal, ann, plans))
            await asyncio.gather(*[work(shoal) for _ in range(workers)])
            taken = await meddling
            await agenda(shoal, 20).once()
            written = [text for text in texts(await ann.posts(limit=40)) if text != "?"]
            assert sorted(written) == [str(n) for n, one in enumerate(plans) if one.id not in taken]
            assert sorted(await told(shoal)) == sorted(polls)
            assert await due(shoal) == 0
            snapshot = await GraphSnapshot.of(shoal.network.store)
            assert not snapshot.all(ScheduledPost)
            assert not [*snapshot.wrong_lists(), *snapshot.missing_inverses(), *snapshot.wrong_counts()]
            assert all(poll.ticket_id == 0 for poll in snapshot.all(Poll))

    logging.disable(logging.ERROR)
    try:
        run(story())
    finally:
        logging.disable(logging.NOTSET)


@in_loop
async def test_scheduler_of_running_network_publishes_due_post(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled_posts, "LEAST_MS", 0)
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        await plan(shoal, ann, "soon", 0.01)
        await shoal.settle()

        async def published() -> list[str]:
            return texts(await ann.posts())

        await eventually(published, ["soon"])


def test_timestamp_in_lower_case_is_parsed_like_upper_case() -> None:
    for text in ("2026-01-01T00:00:00Z", "2026-01-01t00:00:00z", " 2026-01-01T00:00:00z", "2026-01-01t01:00:00+01:00"):
        assert moment_of_text(text) == 1_767_225_600_000
        assert iso_moment(text.strip()) == 1_767_225_600_000
        assert records.moment_of(text.strip()) == 1_767_225_600_000
    assert moment_of_text("soon") is None
