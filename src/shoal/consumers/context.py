"""The context that every consumer receives: the graph and the stores derived from it.

Work that mostly waits runs as a background task, concurrently with later jobs, so that many such tasks share one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from shoal.consumers.active_posts import Activity
from shoal.consumers.high_fan_out import Loudness
from shoal.core.ids import IdMaker
from shoal.core.tokens import FOR_EVER, TokenLifetime
from shoal.graph.contract import Graph
from shoal.mail.sender import Postman
from shoal.media.library import Workshop
from shoal.push.sender import Courier
from shoal.search.contract import NoIndex
from shoal.search.indexing import Filler
from shoal.streaming.contract import Channel
from shoal.tagcloud.collection import Emitter
from shoal.timelines.contract import PushTally, Seats, Timelines

_AT_ONCE = 256
_SECONDS = 60.0


class Aside:
    """At most `at_once` works side by side, each of which has failed after so many seconds."""

    def __init__(self, at_once: int = _AT_ONCE, seconds: float = _SECONDS) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, work: Coroutine[object, object, None]) -> asyncio.Future[None]:
        """Begin the work, as soon as there is a place for it; what is returned is done when it is."""
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


Act = Callable[[Seats], Awaitable[object]]
"""An action on one page of followers."""


class Followers(Protocol):
    """The followers of sources, page by page, as seats in the timelines."""

    async def page(self, source: int, act: Act, size: int, left: int) -> int:
        """Act on the page that `left` points to (0: the first), and return what points to the next; 0 at the end.

        Everybody who followed the source before the first page was asked for, and still does, is in one of the pages. A
        loud source has none.
        """
        ...

    async def changed(self, source: int) -> None:
        """Note that somebody, cold or warm, began or ceased to follow the source. Call it before acting on the change.

        `EVERYBODY` stands for any member and any source.
        """
        ...

    def joined(self, source: int, member: int) -> None:
        """Note that a member, who may be warm, follows the source."""
        ...

    def left(self, source: int, member: int) -> None:
        """Note that a member does not follow the source any more."""
        ...


class Holding(NamedTuple):
    """When a reported post is held out of public lists."""

    reports: int = 3
    """Members who must have reported it; 0: none ever is."""
    age_ms: int = 3 * 86_400_000
    """How long a reporter must have been a member when they reported it, in milliseconds."""


_HOLDING = Holding()


@dataclass(frozen=True, slots=True)
class Effects:
    """The graph, and the derived stores that follow it."""

    graph: Graph
    timelines: Timelines
    followers: Followers
    loudness: Loudness
    """Decides which sources are loud: their entries are not pushed."""
    channel: Channel
    """Carries updates to connected clients."""
    new_id: IdMaker
    tags: Emitter
    """Counts the tags of posts."""
    workshop: Workshop
    """Converts uploads into clips."""
    tally: PushTally = field(default_factory=PushTally)
    """Counts what is pushed."""
    page: int = 20_000
    """Followers that are pushed to, or read, before other jobs have a turn."""
    across: bool = True
    """Whether the two ends of an association may lie in different stores, so that one may arrive before the other."""
    merge: int = 800
    """Maximum entries of a source that a new follow brings into a timeline."""
    aside: Aside = field(default_factory=Aside)
    """Runs work that mostly waits, beside the jobs that follow."""
    search: Filler = field(default_factory=lambda: Filler(NoIndex()))
    """Keeps the search index up to date with the graph."""
    holding: Holding = _HOLDING
    postman: Postman | None = None
    """Sends mail; None where none is set up."""
    courier: Courier | None = None
    """Sends web push messages; None where the server has no key for them."""
    lifetime: TokenLifetime = FOR_EVER
    """How long tokens last that nobody uses."""
    activity: Activity = field(default_factory=Activity)
    """Lists the posts that members react to."""
