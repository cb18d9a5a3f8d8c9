"""The pool of child processes that decode pictures, so that no upload can harm the server.

Children start when the first picture arrives and exit after a minute without pictures, so an idle server has no
children. If a picture exceeds the limits, its child is killed, and its uploader gets the reason. Every call ends within
the time limit plus the time of the pictures queued before it. Scheduling is fair among members.

A child has no state between jobs, so it is always stopped by SIGKILL.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self, TypeVar

import msgspec

from shoal.core.errors import InvalidInput, Unavailable
from shoal.media.limits import UploadLimits
from shoal.media.protocol import (
    MAX_ANSWER,
    OUT_OF_MEMORY,
    Answer,
    Crop,
    Failure,
    Ready,
    Rendering,
    RenderJob,
    error_of,
)
from shoal.multiprocess.child_process import ChildDied, ChildProcess

START_SECONDS: Final = 30.0
"""Seconds within which a child must have started, even on a slow machine."""
_ANSWERS: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)
_Kind = TypeVar("_Kind", Rendering, Crop)
_log = logging.getLogger(__name__)


class Child(ChildProcess):
    jobs = 0

    @classmethod
    async def ready(cls, limits: UploadLimits) -> Self:
        """Start a child and wait until it is ready. Raises `Unavailable` if the child does not start."""
        try:
            child = await cls.start("shoal.media.worker", msgspec.json.encode(limits).decode())
        except OSError as error:
            _log.exception("cannot start a picture decoding process")
            raise Unavailable("pictures cannot be decoded right now") from error
        try:
            async with asyncio.timeout(START_SECONDS):
                answer = await child.receive(_ANSWERS, MAX_ANSWER)
            if isinstance(answer, Ready):
                return child
        except (ChildDied, TimeoutError):
            _log.exception("a picture decoding process does not start")
        except BaseException:
            await child.end()
            raise
        await child.end()
        raise Unavailable("pictures cannot be decoded right now")

    async def ask(self, job: RenderJob, kind: type[_Kind]) -> _Kind | Failure:
        """Run a job, and return its result, of the type `kind`.

        Raises `ChildDied`. After this error or a cancellation, kill the child.
        """
        self.jobs += 1
        await self.send(job)
        answer = await self.receive(_ANSWERS, MAX_ANSWER)
        if isinstance(answer, kind | Failure):
            return answer
        raise ChildDied


_Queue = deque[asyncio.Future[None]]


class FairSlots:
    """A limit of `slots` concurrent jobs. Waiting members get a slot in turn; the jobs of a member stay in order.

    An instance belongs to one event loop.
    """

    def __init__(self, slots: int, most_waiting: int, most_of_one: int) -> None:
        self._slot_count = slots
        self._free = slots
        self._most_waiting = most_waiting
        self._most_of_one = most_of_one
        # The waiting jobs by member. The first member is served next.
        self._queues: dict[str, _Queue] = {}

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def taken(self, member: str) -> AsyncIterator[None]:
        """Hold a slot during the block. Raises `Unavailable` at once if too many jobs wait, for this member or in total."""
        self._check_capacity(member)
        await self._take(member)
        try:
            yield
        finally:
            self._give()

    async def all_taken(self) -> None:
        """Take all slots permanently, each when it is free. Jobs that wait in the meantime still get their turns."""
        for _ in range(self._slot_count):
            await self._take("")

    def _check_capacity(self, member: str) -> None:
        if self._free:
            return
        if self.waiting >= self._most_waiting or len(self._queues.get(member, ())) >= self._most_of_one:
            raise Unavailable("too many pictures are being processed: try again in a few seconds")

    async def _take(self, member: str) -> None:
        if self._free:
            self._free -= 1
            return
        slot = asyncio.get_running_loop().create_future()
        self._queues.setdefault(member, deque()).append(slot)
        try:
            await slot
        except BaseException:
            if slot.done() and not slot.cancelled():
                # The slot was granted just when this task was canceled, so pass it on.
                self._give()
            raise

    def _give(self) -> None:
        """Give a free slot to the next waiting member. Canceled jobs are skipped."""
        while self._queues:
            member = next(iter(self._queues))
            queue = self._queues.pop(member)
            slot = queue.popleft()
            if queue:
                self._queues[member] = queue
            if not slot.done():
                slot.set_result(None)
                return
        self._free += 1


class Decoder:
    """Decodes pictures in child processes. It is an async context manager. `render` and `crop` may be called from any task."""

    def __init__(
        self,
        limits: UploadLimits | None = None,
        *,
        children: int = 1,
        max_waiting: int = 64,
        max_of_one: int = 32,
        jobs_per_child: int = 1000,
        idle_seconds: float = 60.0,
    ) -> None:
        """Create a decoder.

        Args:
            limits: Limits of each picture.
            children: Maximum number of pictures that are decoded concurrently.
            max_waiting: Maximum number of waiting jobs.
            max_of_one: Maximum number of waiting jobs per member.
            jobs_per_child: Number of jobs after which a child is replaced.
            idle_seconds: Seconds without a job after which a child exits.
        """
        self.limits = limits or UploadLimits()
        self._jobs_per_child = jobs_per_child
        self._idle_seconds = idle_seconds
        self._slots = FairSlots(children, max_waiting, max_of_one)
        self._busy: set[Child] = set()
        self._idle: dict[Child, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *error: object) -> None:
        """Kill all children. Waiting callers get `Unavailable`. A decoder cannot be entered again."""
        self._open = False
        for child in self._busy:
            child.kill()
        # Take all slots, which waits until no caller reads from a child.
        await self._slots.all_taken()
        for child in [*self._idle]:
            self._drop(child)
        while self._ending:
            await asyncio.wait(self._ending)

    @property
    def children(self) -> list[int]:
        return [child.pid for child in [*self._busy, *self._idle]]

    @property
    def waiting(self) -> int:
        return self._slots.waiting

    @property
    def busy(self) -> int:
        return len(self._busy)

    async def render(self, data: bytes, *, member: str = "", keep_kind: bool = False, still: bool = False) -> Rendering:
        """Return an uploaded picture in all sizes. `member` selects the queue; for the other arguments, see `RenderJob`.

        Raises `InvalidInput` with the reason, or `Unavailable` if too many jobs wait.
        """
        return await self._answer(RenderJob(data=data, keep_kind=keep_kind, still=still), Rendering, member)

    async def crop(self, data: bytes, width: int, height: int, small: int = 0, *, member: str = "") -> Crop:
        """Crop the middle of an uploaded picture to the shape `width` x `height`, and to at most as many pixels.

        `small` is the longer edge of an additional smaller copy; 0 for none. `member` and the errors are as in `render`.
        """
        return await self._answer(RenderJob(data=data, crop=(width, height), small=small), Crop, member)

    async def _answer(self, job: RenderJob, kind: type[_Kind], member: str) -> _Kind:
        self._check_open()
        self.limits.check_size(len(job.data))
        async with self._slots.taken(member):
            answer = await self._decoded(job, kind)
        if isinstance(answer, Failure):
            raise error_of(answer)
        return answer

    async def _decoded(self, job: RenderJob, kind: type[_Kind]) -> _Kind | Failure:
        child = await self._taken()
        reusable = False
        try:
            self._check_open()
            async with asyncio.timeout(self.limits.seconds):
                answer = await child.ask(job, kind)
            if isinstance(answer, Failure) and answer.kind == OUT_OF_MEMORY:
                raise self._past_limits()
            reusable = child.jobs < self._jobs_per_child
        except (ChildDied, TimeoutError) as error:
            self._check_open()
            _log.warning("a picture of %d bytes crashed its decoding process: %r", len(job.data), error)
            raise self._past_limits() from error
        finally:
            # After a cancellation, `reusable` is false. The child is then killed, because it is still decoding the
            # picture.
            (self._park if reusable and self._open else self._drop)(child)
        return answer

    def _past_limits(self) -> InvalidInput:
        return InvalidInput(f"this picture could not be decoded within the limits: {self.limits.in_words}")

    def _check_open(self) -> None:
        if not self._open:
            raise Unavailable("the server is stopping")

    async def _taken(self) -> Child:
        """Return a child for exclusive use.

        It is the child that was used last, so that other children reach their idle timeout.
        """
        self._check_open()
        while self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            if child.alive:
                self._busy.add(child)
                return child
            self._drop(child)
        child = await Child.ready(self.limits)
        self._busy.add(child)
        return child

    def _park(self, child: Child) -> None:
        self._busy.discard(child)
        self._idle[child] = asyncio.get_running_loop().call_later(self._idle_seconds, self._drop, child)

    def _drop(self, child: Child) -> None:
        self._busy.discard(child)
        if timer := self._idle.pop(child, None):
            timer.cancel()
        child.kill()
        task = asyncio.get_running_loop().create_task(child.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
