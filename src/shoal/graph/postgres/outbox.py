"""The outbox of a PostgreSQL store, with events that are claimed by any number of processes.

A claim skips jobs that other processes are claiming, and is valid until its lease ends. A job whose lease ended, because its worker
died or hangs, is delivered again with one more attempt counted. Acknowledged and returned jobs are batched for a moment, and
written with the next claim at the latest. A crash of the server may lose its last second of claims and acknowledgments: these jobs
are delivered again.

If the reply to a claim is lost, the claim holds jobs that no worker knows of. The next claim releases them first, so they need not
wait for the end of their lease. Acknowledged jobs are released in the same manner if the standby that takes over lacks the
acknowledgment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from shoal.core import events
from shoal.core.errors import ShoalError
from shoal.graph.contract import Job, WakeUp
from shoal.graph.postgres import sql
from shoal.graph.postgres.connections import LONG_PATIENCE, ConnectionPool

_GATHER_SECONDS = 0.03
_RETRY_SECONDS = 1.0


class PostgresOutbox:
    """The outbox in a PostgreSQL store. Commits on the pool `lazy` do not wait for the disk; those on `durable` do.

    `me` identifies this process as the holder of jobs.
    """

    def __init__(self, lazy: ConnectionPool, durable: ConnectionPool, me: int, check: Callable[[], None]) -> None:
        self._lazy = lazy
        self._durable = durable
        self._me = me
        self._check = check
        self._wake: WakeUp | None = None
        self._done: set[int] = set()
        self._back: dict[int, tuple[Job, float]] = {}
        # Numbers of the claimed jobs that were neither acknowledged nor put back, and whether more jobs may have been claimed by
        # a statement whose reply was lost.
        self._claimed: set[int] = set()
        self._astray = False
        self._history = lazy.history
        # One statement at a time, so that no claim reads jobs whose acknowledgment or progress is being written.
        self._lock = asyncio.Lock()
        self._batching: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def on_event(self, wake: WakeUp) -> None:
        self._wake = wake

    def woken(self) -> None:
        if self._wake is not None:
            self._wake()

    async def claim(self, limit: int, lease: float) -> list[Job]:
        self._check()
        if self._astray or self._history != self._lazy.history:
            await self._let_go_of_the_unknown()
        try:
            rows = await self._settling(sql.CLAIM, limit, float(lease))
        except BaseException:
            self._astray = True
            raise
        jobs = sorted(_job(row) for row in rows)
        self._claimed.update(job.seq for job in jobs)
        return jobs

    async def _let_go_of_the_unknown(self) -> None:
        async with self._lock:
            known, history = self._claimed | self._done | self._back.keys(), self._lazy.history
            await self._lazy.ask(sql.LET_GO_BUT, self._me, list(known))
            self._astray, self._history = False, history

    async def ack(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._done.add(job.seq)
            self._back.pop(job.seq, None)
            self._claimed.discard(job.seq)
        self._gather()

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        """Return a job to the outbox; does nothing if another worker has taken it over."""
        self._claimed.discard(job.seq)
        if job.seq not in self._done:
            self._back[job.seq] = (job, delay)
            self._gather()

    async def park(self, job: Job, error: str) -> None:
        self._check()
        values = (job.seq, events.encode(job.event), job.step, job.mark, job.attempt, error.replace("\0", " "))
        async with self._lock:
            self._back.pop(job.seq, None)
            await self._durable.ask(sql.PARK, *values)
            self._claimed.discard(job.seq)

    async def parked(self) -> list[tuple[Job, str]]:
        rows = await self._lazy.ask(sql.PARKED, patience=LONG_PATIENCE)
        return [(_job(row[:5]), row[5]) for row in rows]

    async def unpark(self, jobs: Sequence[Job]) -> int:
        self._check()
        async with self._lock:
            seqs = [job.seq for job in jobs]
            given = len(await self._durable.ask(sql.UNPARK, seqs))
        if given:
            self.woken()
        return given

    async def backlog(self) -> int:
        await self._flush()
        return int((await self._lazy.ask(sql.OUTBOX_SIZE, patience=LONG_PATIENCE))[0][0])

    async def lag(self) -> float:
        await self._flush()
        return max(0.0, (await self._lazy.ask(sql.OUTBOX_LAG))[0][0] or 0.0)

    async def close(self) -> None:
        """Write batched acknowledgments, and release the jobs that this process still holds."""
        self._closing.set()
        if self._batching is not None:
            await self._batching
        try:
            await self._flush()
            await self._lazy.ask(sql.LET_GO, self._me, patience=LONG_PATIENCE)
        except ShoalError:
            # The store does not answer: the leases of the claimed jobs expire by themselves.
            self._done.clear()

    async def _flush(self) -> None:
        if self._done or self._back or self._lock.locked():
            await self._settling(sql.SETTLE)

    async def _settling(self, statement: str, *more: Any) -> list[Any]:
        """Run a statement that also writes the collected acknowledgments and jobs to retry. Return its rows."""
        async with self._lock:
            done, back = list(self._done), dict(self._back)
            rows = await self._lazy.ask(statement, done, *_columns(back), self._me, *more)
            self._done.difference_update(done)
            for seq, entry in back.items():
                if self._back.get(seq) is entry:
                    del self._back[seq]
            return rows

    def _gather(self) -> None:
        if self._batching is None or self._batching.done():
            self._batching = asyncio.create_task(self._write_soon(), name="shoal-outbox-settle")

    async def _write_soon(self) -> None:
        pause = _GATHER_SECONDS
        while (self._done or self._back) and not self._closing.is_set():
            try:
                async with asyncio.timeout(pause):
                    await self._closing.wait()
            except TimeoutError:
                pass
            try:
                await self._flush()
            except ShoalError:
                # The store is unavailable. The next attempt writes the same acknowledgments and jobs.
                pause = _RETRY_SECONDS


def _columns(back: dict[int, tuple[Job, float]]) -> list[list[Any]]:
    rows = back.values()
    return [
        [job.seq for job, _ in rows],
        [job.step for job, _ in rows],
        [job.mark for job, _ in rows],
        [job.attempt for job, _ in rows],
        [float(delay) for _, delay in rows],
    ]


def _job(row: Sequence[Any]) -> Job:
    seq, event, step, mark, attempt = row
    return Job(seq, events.decode(event), step, mark, attempt)
