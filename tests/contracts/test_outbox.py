"""The contract of `graph/contract.py` for events that commit with a graph, tested on every graph."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import cast

import msgspec
import pytest

from shoal.core.errors import Conflict
from shoal.core.events import (
    Event,
    FollowChanged,
    FollowersLost,
    FutureEvent,
    InverseOp,
    InversePending,
    PostCreated,
    PostDeleted,
    PostUpdated,
    ShareCreated,
    ShareDeleted,
)
from shoal.core.ids import shard_of
from shoal.core.model import Member, Visibility
from shoal.graph.contract import Batch, Job, Store
from shoal.graph.schema import FOLLOWS, POSTED
from tests.async_runner import eventually, in_loop
from tests.broker.relayed_store import RelayedBackend
from tests.stores import ANN, BACKENDS, BEN, CYD, DURABLE, Backend, add, begin, id_on, moment
from tests.tiers import deep


@pytest.fixture(params=[*BACKENDS, "rabbitmq"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend | RelayedBackend:
    """Every outbox: those of the graphs, and the broker's."""
    return RelayedBackend(tmp_path) if request.param == "rabbitmq" else Backend(request.param, tmp_path)


@pytest.fixture(params=[*DURABLE, "rabbitmq"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Backend | RelayedBackend:
    """Backends that outlive their process."""
    return RelayedBackend(tmp_path) if request.param == "rabbitmq" else Backend(request.param, tmp_path)


SHORT, LONG = 0.2, 3600.0
"""Leases and delays in seconds: one that a test waits for, and one that never expires. While a short one runs, a test makes
no requests: on a busy machine, even a short claim may take longer."""

EVENTS: list[Event] = [
    PostCreated(post_id=1, author_id=2, visibility=Visibility.UNLISTED, tag_ids=(-3, -4), mention_ids=(5,)),
    PostUpdated(post_id=1, author_id=2, tags_added=(-3,), tags_removed=(-4,)),
    PostDeleted(post_id=1, author_id=2, tag_ids=(-3,)),
    ShareCreated(share_id=1, author_id=2),
    ShareDeleted(share_id=1, author_id=2),
    FollowChanged(follower_id=1, source_id=-(2**63)),
    FollowersLost(source_id=-(2**63), at=moment(1)),
    InversePending(op=InverseOp(ANN, FOLLOWS.number, BEN, moment(1), alive=True, data=b"\x00\xff", aggregate_id=0)),
    # An event type of a newer version is kept unchanged.
    FutureEvent(data=msgspec.msgpack.encode({"type": "tide_turned", "height": 2.5})),
]


async def emit(graph: Store, *posts: int, actor: int = ANN) -> None:
    """Make one commit for each post with its `PostCreated` event only."""
    for post in posts:
        batch = Batch(shard_of(actor))
        batch.emit(PostCreated(post_id=post, author_id=actor))
        await graph.commit(batch)


def posts_of(jobs: list[Job]) -> list[int]:
    return [cast("PostCreated", job.event).post_id for job in jobs]


async def claim_all(graph: Store, page: int = 10) -> list[Job]:
    jobs: list[Job] = []
    while claimed := await graph.claim(page, LONG):
        jobs += claimed
    return jobs


def in_order(jobs: list[Job]) -> list[Job]:
    """The jobs sorted, without the commit time, which only some stores return, and only for new jobs."""
    return sorted((job._replace(at=0) for job in jobs), key=lambda job: (job.store, job.seq))


@in_loop
async def test_outbox_event_of_every_kind_round_trips(backend: Backend) -> None:
    async with backend.open() as graph:
        batch = Batch(shard_of(ANN))
        for event in EVENTS:
            batch.emit(event)
        await graph.commit(batch)
        jobs = await claim_all(graph)
        assert [job.event for job in jobs] == EVENTS
        assert {(job.step, job.mark, job.attempt) for job in jobs} == {(0, 0, 0)}


@in_loop
async def test_outbox_claim_returns_oldest_events_first_up_to_limit(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, *range(20))
        given: list[int] = []
        while jobs := await graph.claim(3, LONG):
            assert len(jobs) <= 3
            given += posts_of(jobs)
        assert given == list(range(20))


@pytest.mark.parametrize("limit", [1, 100, *deep(2, 5)])
@in_loop
async def test_outbox_claim_returns_every_event_of_every_store_once(backend: Backend, limit: int) -> None:
    async with backend.open() as graph:
        for n in range(30):
            await emit(graph, n, actor=id_on(n * 2))
        given: list[int] = []
        while jobs := await graph.claim(limit, LONG):
            assert len(jobs) <= limit
            given += posts_of(jobs)
        assert sorted(given) == list(range(30))


@in_loop
async def test_outbox_event_of_failed_batch_is_not_stored(backend: Backend) -> None:
    async with backend.open() as graph:
        await add(graph, Member(id=ANN, name="ann"))
        batch = Batch(shard_of(ANN))
        batch.emit(PostCreated(post_id=1, author_id=ANN))
        batch.obj_add(Member(id=ANN, name="ann"))
        with pytest.raises(Conflict):
            await graph.commit(batch)
        assert await graph.claim(10, LONG) == []
        assert await graph.backlog() == 0


@in_loop
async def test_outbox_claimed_event_is_not_redelivered_during_its_lease(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2)
        assert posts_of(await claim_all(graph)) == [1, 2]
        assert await graph.claim(10, LONG) == []
        assert await graph.backlog() == 2
        await emit(graph, 3)
        assert posts_of(await claim_all(graph)) == [3]


@in_loop
async def test_outbox_event_with_expired_lease_is_redelivered(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2, 3)
        first = await graph.claim(3, SHORT)
        await backend.pass_time(SHORT * 1.5)
        again = await claim_all(graph)
        assert posts_of(again) == [1, 2, 3]
        # Some stores count the expired lease as a failed attempt.
        assert [job._replace(attempt=0) for job in again] == first
        assert await claim_all(graph) == []


@in_loop
async def test_outbox_acknowledged_event_is_never_redelivered(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2, 3)
        jobs = await graph.claim(3, SHORT)
        await graph.ack(jobs[1:])
        await backend.pass_time(SHORT * 1.5)
        assert posts_of(await claim_all(graph)) == [1]
        await eventually(graph.backlog, 1)


@in_loop
async def test_outbox_acknowledgment_after_lease_expiry_deletes_job(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2)
        late = await graph.claim(2, SHORT)
        await backend.pass_time(SHORT * 1.5)
        again = await graph.claim(1, SHORT)
        await graph.ack(late)
        await backend.pass_time(SHORT * 1.5)
        assert posts_of(again) == [1]
        assert await claim_all(graph) == []
        await eventually(graph.backlog, 0)


@in_loop
async def test_outbox_put_back_job_resumes_from_its_checkpoint(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2)
        first, second = await claim_all(graph)
        await graph.put_back(first._replace(step=2, mark=moment(7), attempt=1))
        assert await claim_all(graph) == [first._replace(step=2, mark=moment(7), attempt=1)]
        await graph.put_back(second)
        assert await claim_all(graph) == [second]
        assert await graph.backlog() == 2


@in_loop
async def test_outbox_put_back_job_with_delay_is_delivered_after_delay(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2)
        first, second = await claim_all(graph)
        await graph.put_back(first, LONG)
        await graph.put_back(second, SHORT)
        await eventually(graph.backlog, 2)
        await backend.pass_time(SHORT * 1.5)
        await eventually(lambda: claim_all(graph), [second])


@in_loop
async def test_outbox_put_back_job_with_expired_lease_is_delivered_once(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2, 3)
        jobs = await graph.claim(3, SHORT)
        await backend.pass_time(SHORT * 1.5)
        assert posts_of(await graph.claim(1, LONG)) == [1]
        for job in jobs[1:]:
            await graph.put_back(job._replace(mark=9))
        assert sorted(await claim_all(graph)) == [job._replace(mark=9) for job in jobs[1:]]
        assert await claim_all(graph) == []


@in_loop
async def test_outbox_parked_job_is_kept_with_its_error(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2, actor=CYD)
        first, second = await claim_all(graph)
        await graph.park(first._replace(step=1, mark=5, attempt=9), "it cannot be done")
        ((parked, error),) = await graph.parked()
        assert (in_order([parked]), error) == (
            in_order([first._replace(step=1, mark=5, attempt=9)]),
            "it cannot be done",
        )
        await eventually(graph.backlog, 1)
        await graph.ack([second])
        await eventually(graph.backlog, 0)
        assert await claim_all(graph) == []


@in_loop
async def test_outbox_replayed_job_resumes_from_its_checkpoint(backend: Backend) -> None:
    async with backend.open() as graph:
        await emit(graph, 1, 2)
        await emit(graph, 3, actor=CYD)
        jobs = await claim_all(graph)
        for job in jobs:
            await graph.park(job._replace(step=1, mark=5, attempt=8), "no")
        woken: list[int] = []
        graph.on_event(lambda: woken.append(1))
        firsts = [in_order([job for job in jobs if job.store == store])[0] for store in {job.store for job in jobs}]
        assert await graph.unpark(firsts) == len(firsts)
        assert woken
        again = in_order([job._replace(step=1, mark=5) for job in firsts])
        assert in_order(await claim_all(graph)) == again
        left = [job for job in in_order(jobs) if job not in firsts]
        assert in_order([job for job, _ in await graph.parked()]) == [
            job._replace(step=1, mark=5, attempt=8) for job in left
        ]
        assert await graph.unpark(again) == 0
        await eventually(graph.backlog, len(again))
        await graph.ack(again)
        await eventually(graph.backlog, 0)


@in_loop
async def test_outbox_lag_is_age_of_oldest_pending_event(backend: Backend) -> None:
    async with backend.open() as graph:
        assert await graph.lag() == 0
        await emit(graph, 1)
        await backend.pass_time(0.05)
        await emit(graph, 2, actor=CYD)
        jobs = sorted(await claim_all(graph), key=lambda job: posts_of([job]))
        since = time.monotonic()
        before = await graph.lag()
        assert before >= 0.05
        await graph.ack(jobs[:1])
        await eventually(graph.backlog, 1)
        await graph.put_back(jobs[1])
        await backend.pass_time(0.01)
        after = await graph.lag()
        # The clock of the leases may be fixed or real: it advanced by at most this much.
        passed = time.monotonic() - since + 0.01
        assert 0 < after <= before + passed - 0.04
        await graph.ack(await claim_all(graph))
        await eventually(graph.backlog, 0)
        assert await graph.lag() == 0


@in_loop
async def test_outbox_waiter_is_woken_by_commit_with_events(backend: Backend) -> None:
    async with backend.open() as graph:
        woken: list[int] = []
        graph.on_event(lambda: woken.append(1))
        await begin(graph, ANN, POSTED, 1, moment(1))
        await asyncio.sleep(0)
        assert woken == []
        await emit(graph, 1)
        await asyncio.sleep(0)
        assert woken == [1]
        await emit(graph, 2, actor=CYD)
        await asyncio.sleep(0)
        assert woken == [1, 1]


@in_loop
async def test_outbox_events_survive_reopening_in_order(durable: Backend) -> None:
    async with durable.open() as graph:
        await emit(graph, *range(10))
        await emit(graph, *range(10, 20), actor=CYD)
    async with durable.open() as graph:
        given = posts_of(await claim_all(graph, page=4))
        assert sorted(given) == list(range(20))
        assert [post for post in given if post < 10] == list(range(10))
        assert [post for post in given if post >= 10] == list(range(10, 20))


@in_loop
async def test_outbox_unacknowledged_events_are_redelivered_after_reopening(durable: Backend) -> None:
    async with durable.open() as graph:
        await emit(graph, 1, 2, 3, 4)
        jobs = await claim_all(graph)
        await graph.ack([jobs[0], jobs[2]])
    async with durable.open() as graph:
        assert await graph.backlog() == 2
        assert posts_of(await claim_all(graph)) == [2, 4]


@pytest.mark.parametrize("name", DURABLE)
@in_loop
async def test_outbox_job_progress_survives_reopening(name: str, tmp_path: Path) -> None:
    """A store loses delays on restart; a broker keeps them."""
    durable = Backend(name, tmp_path)
    async with durable.open() as graph:
        await emit(graph, 1, 2)
        first, _ = await claim_all(graph)
        await graph.put_back(first._replace(step=1, mark=5), LONG)
        await graph.put_back(first._replace(step=3, mark=moment(8), attempt=2), LONG)
    async with durable.open() as graph:
        assert (await claim_all(graph))[0] == first._replace(step=3, mark=moment(8), attempt=2)


@in_loop
async def test_outbox_replayed_job_survives_reopening(durable: Backend) -> None:
    async with durable.open() as graph:
        await emit(graph, 1, 2)
        first, second = await claim_all(graph)
        await graph.park(first._replace(attempt=8, mark=3), "no")
        await graph.unpark([first])
        await graph.ack([second])
    async with durable.open() as graph:
        assert in_order(await claim_all(graph)) == in_order([first._replace(mark=3)])
        assert await graph.parked() == []


@in_loop
async def test_outbox_parked_jobs_survive_reopening_and_numbers_are_not_reused(durable: Backend) -> None:
    async with durable.open() as graph:
        await emit(graph, 1)
        (job,) = await claim_all(graph)
        await graph.park(job, "no")
    async with durable.open() as graph:
        await emit(graph, 2)
        (other,) = await claim_all(graph)
        await graph.park(other, "no again")
        assert [error for _, error in await graph.parked()] == ["no", "no again"]
