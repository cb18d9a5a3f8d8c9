"""The context that every consumer receives: the graph and the stores derived from it.

Work that mostly waits for I/O runs as a background task while later jobs are processed, so that many such tasks share one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from shoal.consumers.active_posts import Activity
from shoal.consumers.high_fan_out import HighFanOutSources
from shoal.core.ids import IdMaker
from shoal.core.tokens import FOR_EVER, TokenLifetime
from shoal.graph.contract import Graph
from shoal.mail.sender import MailSender
from shoal.media.library import Workshop
from shoal.push.sender import PushSender
from shoal.search.indexing import Filler
from shoal.search.memory import NoIndex
from shoal.streaming.contract import Channel
from shoal.tagcloud.collection import Emitter
from shoal.timelines.contract import PushCounter, Slots, Timelines

_AT_ONCE = 256
_SECONDS = 60.0


class BackgroundTasks:
    """Runs up to `at_once` tasks concurrently, each for at most `seconds`."""

    def __init__(self, at_once: int = _AT_ONCE, seconds: float = _SECONDS) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, work: Coroutine[object, object, None]) -> asyncio.Future[None]:
        """Wait until fewer than `at_once` tasks are running, then start a task and return its future."""
        try:
            await self._free.acquire()
        except BaseException:
            work.close()
            raise
        task = asyncio.create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, work: Coroutine[object, object, None]) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await work
        finally:
            self._free.release()


Act = Callable[[Slots], Awaitable[object]]


class Followers(Protocol):
    """Reads the followers of a source in pages, as timeline slots."""

    async def page(self, source: int, act: Act, size: int, left: int) -> int:
        """Call `act` for the page of followers that begins at position `left` (0: the first page).

        Returns the position of the next page, or 0 after the last one. Every member who followed the source before the first page
        was requested, and still does, is in one of the pages. A high-fan-out source has no pages.
        """

    async def changed(self, source: int) -> None:
        """Record that a member started or stopped following the source. Call this before acting on the change.

        With the source `EVERYBODY`, any member may have followed or unfollowed any source.
        """

    def joined(self, source: int, member: int) -> None:
        """Record that a member, who may have a materialized timeline, follows the source."""

    def left(self, source: int, member: int) -> None:
        """Record that a member no longer follows the source."""


class Holding(NamedTuple):
    """The thresholds at which a reported post is removed from public lists until a moderator decides."""

    reports: int = 3
    """Number of reporters required; 0 disables the removal."""
    age_ms: int = 3 * 86_400_000
    """Minimum account age of a reporter at the time of the report, in milliseconds."""


_HOLDING = Holding()


@dataclass(frozen=True, slots=True)
class Effects:
    graph: Graph
    timelines: Timelines
    followers: Followers
    high_fan_out_sources: HighFanOutSources
    """Decides which sources are high-fan-out. The entries of these sources are not pushed."""
    channel: Channel
    new_id: IdMaker
    tags: Emitter
    """Counts the tags of posts."""
    workshop: Workshop
    push_counter: PushCounter = field(default_factory=PushCounter)
    page: int = 20_000
    """Number of followers that a job processes before other jobs run."""
    across: bool = True
    """Whether the two halves of an association may be in different stores, and so be written one after the other."""
    merge: int = 800
    """Maximum number of entries of a source that are merged into a member's timeline after the member follows it."""
    background: BackgroundTasks = field(default_factory=BackgroundTasks)
    """Runs work that mostly waits for I/O while later jobs are processed."""
    search: Filler = field(default_factory=lambda: Filler(NoIndex()))
    holding: Holding = _HOLDING
    mail_sender: MailSender | None = None
    """Sends mail; None if mail is not configured."""
    push_sender: PushSender | None = None
    """Sends web push messages; None if the server has no key for them."""
    lifetime: TokenLifetime = FOR_EVER
    """How long an unused token stays valid."""
    activity: Activity = field(default_factory=Activity)
    """Records which posts members currently react to."""
