"""Faults of a simulated network: slow responses, unavailable stores, crashes of workers, late and repeated events.

All random choices come from one seed, so a run can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from random import Random
from typing import Any, TypeVar

from shoal.core.errors import OutcomeUnknown, Unavailable
from shoal.core.events import Event, InverseOp
from shoal.graph.cache.coherence import MarkedChange, Renewal
from shoal.graph.contract import Batch, Job, Outbox, Store, WakeUp
from tests.version_tokens import LocalVersionTokens

T = TypeVar("T")
Step = Callable[[str], Awaitable[None]]
_TURNS = (0, 0, 0, 1, 1, 4)


class Crash(Exception):
    """A simulated crash of a worker."""


class Dice:
    """The random choices of a run. Once it is `calm`, there are no more faults."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.calm = False

    def happens(self, chance: float) -> bool:
        return not self.calm and self.random.random() < chance

    def some(self, things: Iterable[T]) -> list[T]:
        """Return a random subset in random order. When calm, it contains all items."""
        chosen = [thing for thing in things if self.calm or self.random.random() < 0.5]
        self.random.shuffle(chosen)
        return chosen

    async def pause(self, _name: str = "") -> None:
        """Give other tasks a random number of turns, which may be zero."""
        if not self.calm:
            for _ in range(_TURNS[int(self.random.random() * len(_TURNS))]):
                await asyncio.sleep(0)

    async def crash(self, _name: str = "") -> None:
        if self.happens(0.02):
            raise Crash

    async def crash_later(self, name: str) -> None:
        await self.pause()
        await self.crash(name)


class Lossy:
    """A connection to a store. Before a commit the store may be unavailable, and after a commit the response may be lost."""

    def __init__(self, dice: Dice, away: float, lost: float) -> None:
        self._dice = dice
        self._away = away
        self._lost = lost

    async def reach(self, name: str) -> None:
        await self._dice.pause()
        if name.startswith("commit") and self._dice.happens(self._away):
            raise Unavailable("the store is unavailable")

    async def answer(self, name: str) -> None:
        await self._dice.pause()
        if name.startswith("commit") and self._dice.happens(self._lost):
            raise OutcomeUnknown("the connection was lost before the response")


class Between:
    """A wrapper of a component that calls hooks before and after each of its asynchronous methods."""

    def __init__(self, part: object, before: Step, after: Step) -> None:
        self._part = part
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)
        if not iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._before(name)
            answer = await method(*args, **kwargs)
            await self._after(name)
            return answer

        # Most calls of a run go through a wrapper, so later calls find it as an attribute.
        setattr(self, name, call)
        return call


class Haltable:
    """A store whose commits can be halted to inspect it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._halts = 0
        self._committing = 0
        self._changed = asyncio.Condition()
        self.said: list[Event] = []
        """The events of all commits, in the order in which the commits began."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._halts)
            self._committing += 1
            self.said += batch.events
        try:
            return await self._store.commit_owing(batch)
        finally:
            async with self._changed:
                self._committing -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def halted(self) -> AsyncIterator[None]:
        """Wait for the commits in progress, and hold back new ones until the block ends."""
        async with self._changed:
            self._halts += 1
            await self._changed.wait_for(lambda: not self._committing)
        try:
            yield
        finally:
            async with self._changed:
                self._halts -= 1
                self._changed.notify_all()


class SlowVersionTokens(LocalVersionTokens):
    """Version tokens whose calls may be delayed. In some runs, all tokens are deleted now and then."""

    def __init__(self, dice: Dice) -> None:
        super().__init__()
        self._dice = dice
        self._flushes = dice.random.choice((0.0, 0.1))

    async def read(self, ids: Sequence[int]) -> dict[int, bytes]:
        await self._dice.pause()
        found = await super().read(ids)
        await self._dice.pause()
        return found

    async def begin(self, ids: Sequence[int], *, reading: bool = False) -> MarkedChange:
        await self._dice.pause()
        begun = await super().begin(ids, reading=reading)
        if self._dice.happens(self._flushes):
            self.flush()
        return begun

    async def end(self, ids: Sequence[int], begun: MarkedChange | None, *, changed: bool = True) -> dict[int, Renewal]:
        await self._dice.pause()
        renewed = await super().end(ids, begun, changed=changed)
        await self._dice.pause()
        return renewed


class Unruly:
    """An outbox that delivers jobs late, repeatedly, to several workers and in any order, and loses acknowledgments."""

    def __init__(self, outbox: Outbox, dice: Dice) -> None:
        self._outbox = outbox
        self._dice = dice
        # A repeated job may repair the error of another one, so some runs repeat no jobs.
        self._repeats = dice.random.choice((0.0, 0.2))
        self._losses = dice.random.choice((0.0, 0.1))
        self._open: dict[tuple[int, int], Job] = {}
        self._opening = asyncio.Lock()
        self.history: list[Job] = []
        """All jobs so far, as they were first claimed."""

    async def _open_all(self) -> None:
        # The lock serializes claims: during a claim, its jobs are neither open nor claimable.
        async with self._opening:
            for job in await self._outbox.claim(1_000, 1e9):
                self._open[job.store, job.seq] = job
                self.history.append(job)

    async def undone(self) -> list[Event]:
        """Return the events of all jobs that are not acknowledged."""
        await self._open_all()
        return [job.event for job in self._open.values()]

    async def claim(self, limit: int, lease: float) -> list[Job]:
        await self._open_all()
        again = [self._dice.random.choice(self.history)] if self.history and self._dice.happens(self._repeats) else []
        return self._dice.some(self._open.values()) + again

    async def ack(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if not self._dice.happens(self._losses):
                self._open.pop((job.store, job.seq), None)
                await self._outbox.ack([job])

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        if (job.store, job.seq) in self._open and not self._dice.happens(self._losses):
            self._open[job.store, job.seq] = job._replace(attempt=0)

    async def park(self, job: Job, error: str) -> None:
        raise AssertionError(f"{job} is parked: {error}")

    async def backlog(self) -> int:
        return await self._outbox.backlog() + len(self._open)

    async def parked(self) -> list[tuple[Job, str]]:
        return []

    async def lag(self) -> float:
        return await self._outbox.lag()

    async def unpark(self, jobs: Sequence[Job]) -> int:
        raise AssertionError(f"these jobs were never parked: {jobs}")

    def on_event(self, wake: WakeUp) -> None:
        """Do nothing, because the workers of a simulation do not sleep."""
