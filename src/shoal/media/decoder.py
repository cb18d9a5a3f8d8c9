"""The pool of child processes that decode pictures, so that no upload can hurt the server.

Children start when the first picture comes and end after a minute without one: an idle server has none. A picture that costs more
than the limits ends its child, never the server, and its sender reads why. Every call ends within the limits' seconds and the
time that the pictures before it take.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Self, TypeVar

from shoal.core.errors import InvalidInput, Unavailable
from shoal.media.child import Child, ChildDied
from shoal.media.limits import UploadLimits
from shoal.media.protocol import OUT_OF_MEMORY, Crop, Failure, Rendering, RenderJob, error_of
from shoal.media.turns import FairTurns

_Kind = TypeVar("_Kind", Rendering, Crop)
_log = logging.getLogger(__name__)


class Decoder:
    """An async context manager; inside it, `render` and `crop` may be called from any task of the one event loop."""

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
        """At most `children` pictures at once and `max_waiting` in the queue, `max_of_one` of a member's.

        A child is replaced after `jobs_per_child`.
        """
        self.limits = limits or UploadLimits()
        self._jobs_per_child = jobs_per_child
        self._idle_seconds = idle_seconds
        self._turns = FairTurns(children, max_waiting, max_of_one)
        self._busy: set[Child] = set()
        self._idle: dict[Child, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *error: object) -> None:
        """End all children; callers that still wait get `Unavailable`. A decoder is not entered again."""
        self._open = False
        for child in self._busy:
            child.kill()
        # Whoever holds all the turns knows that no caller is left who reads from a child.
        await self._turns.all_taken()
        for child in [*self._idle]:
            self._drop(child)
        while self._ending:
            await asyncio.wait(self._ending)

    @property
    def children(self) -> list[int]:
        """The process ids of the children that run, for metrics and tests."""
        return [child.pid for child in [*self._busy, *self._idle]]

    @property
    def waiting(self) -> int:
        """Return how many pictures wait to be decoded."""
        return self._turns.waiting

    @property
    def busy(self) -> int:
        """Return how many pictures are being decoded."""
        return len(self._busy)

    async def render(self, data: bytes, *, member: str = "", keep_kind: bool = False, still: bool = False) -> Rendering:
        """The sizes of an uploaded file. It waits its turn among those of this `member`; for the others see `RenderJob`.

        `InvalidInput` says what is wrong with it; `Unavailable` that too many wait.
        """
        return await self._answer(RenderJob(data=data, keep_kind=keep_kind, still=still), Rendering, member)

    async def crop(self, data: bytes, width: int, height: int, *, member: str = "") -> Crop:
        """The middle of an uploaded file in a given shape, at most `width` x `height` pixels. Turns and errors as in `render`."""
        return await self._answer(RenderJob(data=data, crop=(width, height)), Crop, member)

    async def _answer(self, job: RenderJob, kind: type[_Kind], member: str) -> _Kind:
        self._check_open()
        self.limits.check_size(len(job.data))
        async with self._turns.taken(member):
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
            _log.warning("a picture of %d bytes ended its decoding process: %r", len(job.data), error)
            raise self._past_limits() from error
        finally:
            # Also when the caller was cancelled: the child is then in the middle of a picture.
            (self._park if reusable and self._open else self._drop)(child)
        return answer

    def _past_limits(self) -> InvalidInput:
        return InvalidInput(f"this picture could not be decoded within the limits: {self.limits.in_words}")

    def _check_open(self) -> None:
        if not self._open:
            raise Unavailable("the server is stopping")

    async def _taken(self) -> Child:
        """A child for this job alone: the one used last, so that the others come to their idle end."""
        self._check_open()
        while self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            if child.alive:
                self._busy.add(child)
                return child
            self._drop(child)
        child = await Child.start(self.limits)
        self._busy.add(child)
        return child

    def _park(self, child: Child) -> None:
        self._busy.discard(child)
        self._idle[child] = asyncio.get_running_loop().call_later(self._idle_seconds, self._drop, child)

    def _drop(self, child: Child) -> None:
        """Kill it now, and let a task of its own reap it."""
        self._busy.discard(child)
        if timer := self._idle.pop(child, None):
            timer.cancel()
        child.kill()
        task = asyncio.get_running_loop().create_task(child.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
