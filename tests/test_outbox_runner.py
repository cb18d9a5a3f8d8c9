"""The runner: claim, run a step, checkpoint, retry, park."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import pytest

from shoal.core.errors import NotYet, Unavailable
from shoal.core.events import FollowChanged, PostCreated, ShareCreated, ShareDeleted
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch, Job
from shoal.graph.memory import MemoryGraph
from shoal.outbox.runner import Consequence, Runner
from tests.async_runner import eventually, in_loop
from tests.stores import ANN, Clock

Table = Mapping[type, Sequence[Consequence[list[str]]]]
BIG, SMALL = PostCreated(post_id=1, author_id=1), ShareCreated(share_id=2, author_id=1)


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL + 1, logger="shoal.outbox.runner"):
        yield


class RunnerFixture:
    """An outbox with a runner; consequences record their work in `done`."""

    def __init__(
        self,
        table: Table,
        *,
        batch: int = 256,
        attempts: int = 3,
        concurrency: int = 1,
        step_seconds: float | None = None,
    ) -> None:
        self.clock = Clock()
        self.graph = MemoryGraph(clock=self.clock)
        self.done: list[str] = []
        self.finished: list[Job] = []
        self.runner = Runner(
            self.graph,
            table,
            self.done,
            batch=batch,
            attempts=attempts,
            first_delay=1.0,
            concurrency=concurrency,
            step_seconds=step_seconds,
            done=self.finished.append,
        )

    async def emit(self, *events: PostCreated | ShareCreated | FollowChanged | ShareDeleted) -> None:
        batch = Batch(shard_of(ANN))
        for event in events:
            batch.emit(event)
        await self.graph.commit(batch)


def saying(word: str) -> Consequence[list[str]]:
    async def say(done: list[str], event: object, mark: int) -> None:
        done.append(word)

    return say


def paging(word: str, pages: int) -> Consequence[list[str]]:
    async def page(done: list[str], event: object, mark: int) -> int | None:
        done.append(f"{word}{mark}")
        return mark + 1 if mark + 1 < pages else None

    return page


def failing(times: int, word: str = "failed") -> Consequence[list[str]]:
    async def fail(done: list[str], event: object, mark: int) -> None:
        if done.count(word) < times:
            done.append(word)
            raise ValueError(word)
        done.append("done")

    return fail


@in_loop
async def test_outbox_runner_runs_consequences_once_in_order() -> None:
    fixture = RunnerFixture({PostCreated: (saying("one"), saying("two"))})
    await fixture.emit(BIG)
    assert await fixture.runner.run_once() == 1
    assert await fixture.runner.run_once() == 0
    assert fixture.done == ["one", "two"]
    assert [job.event for job in fixture.finished] == [BIG]
    assert await fixture.graph.backlog() == 0


@in_loop
async def test_outbox_event_without_consequences_is_acknowledged() -> None:
    fixture = RunnerFixture({})
    await fixture.emit(BIG)
    await fixture.runner.drain()
    assert await fixture.graph.backlog() == 0


@in_loop
async def test_outbox_job_processed_in_pages_resumes_each_consequence_from_its_checkpoint() -> None:
    fixture = RunnerFixture({PostCreated: (paging("a", 3), paging("b", 2))})
    await fixture.emit(BIG)
    await fixture.runner.drain()
    assert fixture.done == ["a0", "a1", "a2", "b0", "b1"]


@in_loop
async def test_outbox_job_processed_in_many_pages_does_not_delay_small_job() -> None:
    fixture = RunnerFixture({PostCreated: (paging("page", 100),), ShareCreated: (saying("small"),)}, batch=2)
    await fixture.emit(BIG)
    await fixture.runner.run_once()
    await fixture.emit(SMALL)
    await fixture.runner.run_once()
    assert fixture.done == ["page0", "page1", "small"]
    await fixture.runner.drain()
    assert len(fixture.done) == 101


@in_loop
async def test_outbox_jobs_processed_in_pages_alternate_after_each_page() -> None:
    fixture = RunnerFixture({PostCreated: (paging("a", 3),), ShareCreated: (paging("b", 3),)})
    await fixture.emit(BIG, SMALL)
    await fixture.runner.drain()
    assert fixture.done == ["a0", "b0", "a1", "b1", "a2", "b2"]


@in_loop
async def test_outbox_failed_job_is_retried_with_exponential_backoff() -> None:
    fixture = RunnerFixture({PostCreated: (failing(2),)})
    await fixture.emit(BIG)
    for moment, expected in [(0.0, 1), (0.9, 1), (1.1, 2), (3.0, 2), (3.2, 3)]:
        fixture.clock.now = moment
        await fixture.runner.run_once()
        assert len(fixture.done) == expected, moment
    assert fixture.done == ["failed", "failed", "done"]
    assert await fixture.graph.backlog() == 0


@in_loop
async def test_outbox_retry_skips_completed_consequences() -> None:
    fixture = RunnerFixture({PostCreated: (saying("first"), failing(1))})
    await fixture.emit(BIG)
    await fixture.runner.run_once()
    fixture.clock.now = 2.0
    await fixture.runner.run_once()
    assert fixture.done == ["first", "failed", "done"]


@in_loop
async def test_outbox_failed_job_does_not_delay_other_jobs() -> None:
    fixture = RunnerFixture({PostCreated: (failing(9),), ShareCreated: (saying("other"),)})
    await fixture.emit(BIG, SMALL)
    await fixture.runner.run_once()
    assert fixture.done == ["failed", "other"]


@in_loop
async def test_outbox_job_after_last_attempt_is_parked_with_error() -> None:
    fixture = RunnerFixture({PostCreated: (failing(9),)}, attempts=3)
    await fixture.emit(BIG)
    for moment in (0.0, 10.0, 20.0, 30.0):
        fixture.clock.now = moment
        await fixture.runner.run_once()
    assert fixture.done == ["failed"] * 3
    assert [(job.event, job.attempt, error) for job, error in await fixture.graph.parked()] == [
        (BIG, 3, "ValueError('failed')")
    ]
    assert await fixture.graph.backlog() == 0


@in_loop
async def test_outbox_job_progress_resets_attempt_count() -> None:
    """Attempts are counted per page; otherwise a long fan-out with several transient errors would be parked."""

    async def page(done: list[str], event: object, mark: int) -> int | None:
        done.append(f"{mark}")
        if done.count(f"{mark}") == 1:
            raise ValueError(mark)
        return mark + 1 if mark < 4 else None

    fixture = RunnerFixture({PostCreated: (page,)}, attempts=2)
    await fixture.emit(BIG)
    for moment in range(0, 100, 5):
        fixture.clock.now = float(moment)
        await fixture.runner.run_once()
    assert fixture.done == [mark for mark in "01234" for _ in range(2)]
    assert await fixture.graph.parked() == []


@in_loop
async def test_outbox_job_of_dead_worker_is_redelivered_after_lease() -> None:
    fixture = RunnerFixture({PostCreated: (saying("done"),)})
    await fixture.emit(BIG)
    assert len(await fixture.graph.claim(10, lease=60.0)) == 1
    assert await fixture.runner.run_once() == 0
    fixture.clock.now = 61.0
    assert await fixture.runner.run_once() == 1


@in_loop
async def test_outbox_runner_started_processes_jobs_and_drain_waits_for_them() -> None:
    fixture = RunnerFixture({PostCreated: (paging("a", 3),)})
    fixture.runner.start()
    await fixture.emit(BIG)
    await fixture.runner.drain()
    assert fixture.done == ["a0", "a1", "a2"]
    await fixture.emit(BIG)
    await eventually(fixture.graph.backlog, 0)
    await fixture.runner.stop()


@in_loop
async def test_outbox_drain_with_failing_job_times_out() -> None:
    fixture = RunnerFixture({PostCreated: (failing(99),)}, attempts=99)
    await fixture.emit(BIG)
    with pytest.raises(TimeoutError):
        await fixture.runner.drain(0.05)


@in_loop
async def test_outbox_drain_of_busy_outbox_returns_despite_new_jobs() -> None:
    graph, done = MemoryGraph(), list[str]()

    async def spawn(done: list[str], event: PostCreated, mark: int) -> None:
        done.append(str(event.post_id))
        # Simulates a slow store that leaves the loop to other tasks.
        await asyncio.sleep(0.001)
        batch = Batch(shard_of(ANN))
        batch.emit(PostCreated(post_id=event.post_id + 1, author_id=1))
        await graph.commit(batch)

    async def chained(done: list[str], event: ShareCreated, mark: int) -> int | None:
        await asyncio.sleep(0.02)
        done.append(f"share {mark}")
        return mark + 1 if mark < 4 else None

    runner = Runner(graph, {PostCreated: (spawn,), ShareCreated: (chained,)}, done)
    batch = Batch(shard_of(ANN))
    batch.emit(BIG)
    batch.emit(SMALL)
    await graph.commit(batch)
    runner.start()
    await runner.drain(busy=True)
    assert await graph.backlog()
    assert "share 4" in done
    await runner.stop()


@in_loop
async def test_outbox_stop_finishes_claimed_jobs_and_leaves_new_jobs() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(done: list[str], event: object, mark: int) -> None:
        begun.set()
        await may_end.wait()
        done.append("slow")

    fixture = RunnerFixture({PostCreated: (slow,), ShareCreated: (saying("in hand"),), ShareDeleted: (saying("late"),)})
    await fixture.emit(BIG, SMALL)
    fixture.runner.start()
    await begun.wait()
    await fixture.emit(ShareDeleted(share_id=2, author_id=1))
    stopping = asyncio.create_task(fixture.runner.stop())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    may_end.set()
    await stopping
    assert fixture.done == ["slow", "in hand"]
    assert await fixture.graph.backlog() == 1


@in_loop
async def test_outbox_runner_yields_event_loop_between_jobs() -> None:
    """Long runs of jobs yield to the event loop periodically."""

    async def busy(done: list[str], event: object, mark: int) -> None:
        done.append("job")
        end = asyncio.get_running_loop().time() + 0.003
        while asyncio.get_running_loop().time() < end:
            pass

    fixture = RunnerFixture({PostCreated: (busy,)})
    await fixture.emit(BIG, BIG, BIG)
    asyncio.get_running_loop().call_soon(lambda: fixture.done.append("request"))
    await fixture.runner.run_once()
    assert fixture.done[:2] == ["job", "request"]


class Clocked:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@in_loop
async def test_outbox_runner_with_backlog_gets_larger_share_of_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the server would accept posts faster than it delivers them, and the queue would grow without bound."""
    clock = Clocked()
    monkeypatch.setattr("shoal.outbox.runner.time", clock)
    turns: list[int] = []

    async def busy(done: list[str], event: object, mark: int) -> None:
        clock.now += 0.001
        turns[-1] += 1

    fixture = RunnerFixture({PostCreated: (busy,)}, batch=10)
    monkeypatch.setattr(fixture.runner, "behind", lambda: 1.0)
    await fixture.emit(*[BIG] * 2_000)

    async def requests() -> None:
        while True:
            turns.append(0)
            clock.now += 0.03
            await asyncio.sleep(0)

    others = asyncio.create_task(requests())
    await asyncio.sleep(0)
    while await fixture.runner.run_once():
        pass
    others.cancel()
    # Five slices of at most 20 ms each; the end of a claim does not cut a slice.
    assert sorted(turns)[len(turns) // 2] >= 100


@in_loop
async def test_outbox_claim_from_unavailable_store_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.outbox.runner._POLL_SECONDS", 0.01)

    class Away(MemoryGraph):
        asked = 0

        async def claim(self, limit: int, lease: float) -> list[Job]:
            self.asked += 1
            if self.asked < 3:
                raise Unavailable("away")
            return await super().claim(limit, lease)

    outbox, done = Away(), list[str]()
    runner = Runner(outbox, {PostCreated: (saying("done"),)}, done)
    batch = Batch(shard_of(ANN))
    batch.emit(BIG)
    await outbox.commit(batch)
    runner.start()
    await runner.drain()
    await runner.stop()
    assert done == ["done"]


@in_loop
async def test_outbox_job_with_unavailable_store_is_retried_without_attempt_limit() -> None:
    turns = 0

    async def need_a_store(done: list[str], event: object, mark: int) -> None:
        nonlocal turns
        turns += 1
        if turns <= 20:
            raise Unavailable("the other store is down")
        done.append("done")

    fixture = RunnerFixture({PostCreated: (need_a_store,)}, attempts=3)
    await fixture.emit(BIG)
    for _ in range(25):
        await fixture.runner.run_once()
        fixture.clock.now += 1.1
    assert fixture.done == ["done"]
    assert await fixture.graph.parked() == []


@in_loop
async def test_outbox_job_postponed_by_its_consumer_is_retried_without_attempt_limit_or_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns = 0

    async def need_a_turn(done: list[str], event: object, mark: int) -> None:
        nonlocal turns
        turns += 1
        if turns <= 20:
            raise NotYet("others come first")
        done.append("done")

    fixture = RunnerFixture({PostCreated: (need_a_turn,)}, attempts=3)
    await fixture.emit(BIG)
    for _ in range(25):
        await fixture.runner.run_once()
        fixture.clock.now += 1.1
    assert fixture.done == ["done"]
    assert not caplog.records


@in_loop
async def test_outbox_jobs_delayed_by_unavailable_engine_log_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(done: list[str], event: object, mark: int) -> None:
        raise Unavailable("the store cannot be reached")

    fixture = RunnerFixture({PostCreated: (fail,)})
    for _ in range(20):
        await fixture.emit(BIG)
    with caplog.at_level(logging.WARNING, logger="shoal.outbox.runner"):
        await fixture.runner.run_once()
    assert caplog.messages == ["job PostCreated 1 is delayed: the store cannot be reached"]


@in_loop
async def test_outbox_job_redelivered_too_often_is_parked_without_running() -> None:
    """Stores that count claims report the attempts of a job whose workers died without a failure report."""
    fixture = RunnerFixture({PostCreated: (saying("harm"),)}, attempts=3)
    await fixture.emit(BIG)
    (job,) = await fixture.graph.claim(1, 60.0)
    await fixture.graph.put_back(job._replace(attempt=3))
    await fixture.runner.drain()
    assert fixture.done == []
    assert [(parked.event, error) for parked, error in await fixture.graph.parked()] == [
        (BIG, "its worker died or hung 3 times")
    ]


@in_loop
async def test_outbox_consumer_exceeding_its_time_limit_fails_the_job() -> None:
    async def hang(done: list[str], event: object, mark: int) -> None:
        done.append("begun")
        await asyncio.Event().wait()

    fixture = RunnerFixture({PostCreated: (hang,), ShareCreated: (saying("other"),)}, attempts=1, step_seconds=0.01)
    await fixture.emit(BIG, SMALL)
    await fixture.runner.drain()
    assert fixture.done == ["begun", "other"]
    assert [(job.event, error) for job, error in await fixture.graph.parked()] == [(BIG, "TimeoutError()")]


@in_loop
async def test_outbox_jobs_run_concurrently_up_to_limit() -> None:
    at_once: list[int] = []
    running = 0

    async def wait(done: list[str], event: object, mark: int) -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.001)
        running -= 1
        done.append("done")

    fixture = RunnerFixture({PostCreated: (wait,)}, concurrency=4)
    await fixture.emit(*[BIG] * 20)
    fixture.runner.start()
    await fixture.runner.drain()
    await fixture.runner.stop()
    assert len(fixture.done) == len(fixture.finished) == fixture.runner.finished == 20
    assert max(at_once) == 4


@in_loop
async def test_outbox_runner_run_once_runs_claimed_jobs_concurrently() -> None:
    fixture = RunnerFixture({PostCreated: (paging("a", 3),), ShareCreated: (failing(1),)}, concurrency=4)
    await fixture.emit(BIG, SMALL, BIG)
    assert await fixture.runner.run_once() == 3
    fixture.clock.now = 2.0
    await fixture.runner.drain()
    assert sorted(fixture.done) == ["a0", "a0", "a1", "a1", "a2", "a2", "done", "failed"]


@in_loop
async def test_outbox_slow_job_blocks_only_one_concurrency_slot() -> None:
    may_end = asyncio.Event()

    async def slow(done: list[str], event: object, mark: int) -> None:
        await may_end.wait()
        done.append("slow")

    fixture = RunnerFixture({PostCreated: (slow,), ShareCreated: (saying("small"),)}, concurrency=2)
    await fixture.emit(BIG, *[SMALL] * 10)
    fixture.runner.start()
    await eventually(fixture.graph.backlog, 1)
    await fixture.emit(*[SMALL] * 10)
    await eventually(fixture.graph.backlog, 1)
    assert fixture.done == ["small"] * 20
    may_end.set()
    await fixture.runner.drain()
    await fixture.runner.stop()
    assert fixture.done[-1] == "slow"


@in_loop
async def test_outbox_stop_finishes_concurrent_jobs_and_claims_no_more() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(done: list[str], event: object, mark: int) -> None:
        begun.set()
        await may_end.wait()
        done.append("slow")

    fixture = RunnerFixture({PostCreated: (slow,)}, concurrency=2)
    await fixture.emit(BIG, BIG, BIG)
    fixture.runner.start()
    await begun.wait()
    stopping = asyncio.create_task(fixture.runner.stop())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    may_end.set()
    await stopping
    assert fixture.done == ["slow", "slow"]
    assert await fixture.graph.backlog() == 1


async def hangs(done: list[str], event: object, mark: int) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("concurrency", [1, 3])
@in_loop
async def test_outbox_stop_with_hung_jobs_times_out_and_releases_them(concurrency: int) -> None:
    fixture = RunnerFixture({ShareCreated: (saying("done"),), PostCreated: (hangs,)}, concurrency=concurrency)
    await fixture.emit(SMALL, BIG, BIG)
    fixture.runner.start()

    async def done() -> list[str]:
        return fixture.done[:1]

    await eventually(done, ["done"])
    async with asyncio.timeout(60):
        await fixture.runner.stop(0.05)
    assert await fixture.graph.backlog() == 2
    fixture.clock.now += 100.0
    table: Table = {PostCreated: (saying("again"),), ShareCreated: (saying("twice"),)}
    await Runner(fixture.graph, table, fixture.done).run_once()
    assert (fixture.done.count("again"), fixture.done.count("twice"), await fixture.graph.backlog()) == (2, 0, 0)


@in_loop
async def test_outbox_stop_with_job_ignoring_cancellation_returns() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def stubborn(done: list[str], event: object, mark: int) -> None:
        begun.set()
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()

    fixture = RunnerFixture({PostCreated: (stubborn,)}, concurrency=2)
    await fixture.emit(BIG)
    fixture.runner.start()
    await begun.wait()
    async with asyncio.timeout(60):
        await fixture.runner.stop(0.05)
    assert await fixture.graph.backlog() == 1
    may_end.set()


@in_loop
async def test_outbox_stop_with_unresolved_future_times_out() -> None:
    futures: list[asyncio.Future[None]] = []
    fixture = RunnerFixture({PostCreated: (promising(futures),)})
    await fixture.emit(BIG)
    fixture.runner.start()

    async def promises() -> int:
        return len(futures)

    await eventually(promises, 1)
    async with asyncio.timeout(60):
        await fixture.runner.stop(0.05)
    assert await fixture.graph.backlog() == 1


@in_loop
async def test_outbox_job_finished_while_another_is_acknowledged_is_acknowledged_too() -> None:
    acknowledging = asyncio.Event()

    class Slow(MemoryGraph):
        async def ack(self, jobs: Sequence[Job]) -> None:
            acknowledging.set()
            await asyncio.sleep(0.01)
            await super().ack(jobs)

    async def late(done: list[str], event: object, mark: int) -> None:
        await acknowledging.wait()
        done.append("late")

    outbox, done = Slow(), list[str]()
    runner = Runner(outbox, {PostCreated: (late,), ShareCreated: (saying("early"),)}, done, concurrency=4)
    batch = Batch(shard_of(ANN))
    batch.emit(BIG)
    batch.emit(SMALL)
    await outbox.commit(batch)
    runner.start()
    await eventually(outbox.backlog, 0)
    await runner.stop()
    assert done == ["early", "late"]


def promising(futures: list[asyncio.Future[None]]) -> Consequence[list[str]]:
    async def promise(done: list[str], event: object, mark: int) -> asyncio.Future[None]:
        done.append("promised")
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    return promise


@pytest.mark.parametrize("concurrency", [1, 2])
@in_loop
async def test_outbox_job_returning_future_is_acknowledged_after_it_resolves_and_blocks_no_other_jobs(
    concurrency: int,
) -> None:
    futures: list[asyncio.Future[None]] = []
    fixture = RunnerFixture(
        {PostCreated: (promising(futures),), ShareCreated: (saying("small"),)}, concurrency=concurrency
    )
    await fixture.emit(*[BIG] * 3, SMALL)
    fixture.runner.start()

    async def done() -> list[str]:
        return sorted(fixture.done)

    await eventually(done, ["promised"] * 3 + ["small"])
    await eventually(fixture.graph.backlog, 3)
    futures[1].set_result(None)
    await eventually(fixture.graph.backlog, 2)
    stopping = asyncio.ensure_future(fixture.runner.stop())
    await asyncio.sleep(0.01)
    assert not stopping.done()
    for future in (futures[0], futures[2]):
        future.set_result(None)
    await stopping
    assert (await fixture.graph.backlog(), fixture.runner.finished, len(fixture.finished)) == (0, 4, 4)


@in_loop
async def test_outbox_job_with_failed_future_is_retried_and_finally_parked() -> None:
    futures: list[asyncio.Future[None]] = []
    fixture = RunnerFixture({PostCreated: (promising(futures),)}, attempts=2)
    await fixture.emit(BIG)
    # Unavailable stores do not count as attempts; the two errors after them do.
    for error in (Unavailable("away"), Unavailable("away"), ValueError("broken"), ValueError("broken")):
        assert await fixture.runner.run_once() == 1
        futures[-1].set_exception(error)
        await asyncio.sleep(0.01)
        fixture.clock.now += 10.0
    assert await fixture.runner.run_once() == 0
    assert [job.event for job, _ in await fixture.graph.parked()] == [BIG]


@in_loop
async def test_outbox_job_with_several_futures_runs_all_consequences_and_completes_after_all_resolve() -> None:
    first, last = (asyncio.get_running_loop().create_future() for _ in range(2))

    def promising(promise: asyncio.Future[None], word: str) -> Consequence[list[str]]:
        async def promised(done: list[str], event: object, mark: int) -> asyncio.Future[None]:
            done.append(word)
            return promise

        return promised

    fixture = RunnerFixture({PostCreated: (promising(first, "told"), saying("pushed"), promising(last, "looked at"))})
    await fixture.emit(BIG)
    await fixture.runner.run_once()
    assert fixture.done == ["told", "pushed", "looked at"]
    last.set_result(None)
    await asyncio.sleep(0)
    await fixture.runner.run_once()
    assert (fixture.finished, await fixture.graph.backlog()) == ([], 1)
    first.set_result(None)
    await fixture.runner.drain()
    assert [job.event for job in fixture.finished] == [BIG]


@in_loop
@pytest.mark.parametrize("also", [saying("pushed"), paging("page", 2), failing(1, "pushed")])
async def test_outbox_job_with_failed_future_restarts_at_consequence_that_returned_future(
    also: Consequence[list[str]],
) -> None:
    async def told(done: list[str], event: object, mark: int) -> asyncio.Future[None]:
        done.append("told")
        promise = asyncio.get_running_loop().create_future()
        if done.count("told") == 1:
            promise.set_exception(ValueError("told"))
        else:
            promise.set_result(None)
        return promise

    fixture = RunnerFixture({PostCreated: (saying("first"), told, also)})
    await fixture.emit(BIG)
    for _ in range(6):
        await fixture.runner.run_once()
        fixture.clock.now += 10
        await asyncio.sleep(0)
    assert await fixture.graph.backlog() == 0
    assert (fixture.done.count("first"), fixture.done.count("told")) == (1, 2)
