"""What consequences may touch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from shoal.core.ids import IdMaker
from shoal.discovery.filler import Filler
from shoal.discovery.nowhere import NoIndex
from shoal.fanout.aside import Aside
from shoal.fanout.loudness import Loudness
from shoal.graph.contract import Graph
from shoal.media.workshop import Workshop
from shoal.streaming.contract import Channel
from shoal.tagcloud.emitter import Emitter
from shoal.timelines.contract import Seats, Timelines

Act = Callable[[Seats], Awaitable[object]]
"""What is done to one page of followers."""


class Followers(Protocol):
    """The followers of sources, page by page, as seats of the timelines."""

    async def page(self, source: int, act: Act, size: int, left: int) -> int:
        """Act on the page of followers that `left` leads to (0: from the beginning); what leads to the next, 0 at the end.

        Everybody who followed the source before the first page was asked for, and still does, is in one of the pages. Of a
        loud source there are none.
        """
        ...

    async def changed(self, source: int) -> None:
        """Somebody, cold or warm, has begun or ended to follow the source: said before anything else is done about it.

        Of `EVERYBODY`: any member, any source.
        """
        ...

    def joined(self, source: int, member: int) -> None:
        """A member follows the source, and may be warm."""
        ...

    def left(self, source: int, member: int) -> None:
        """A member does not follow the source any more."""
        ...


@dataclass(frozen=True, slots=True)
class Effects:
    """The graph, and the derived stores that follow it."""

    graph: Graph
    timelines: Timelines
    followers: Followers
    loudness: Loudness
    """Says of which sources nothing is pushed."""
    channel: Channel
    """Where whoever is connected hears of it."""
    new_id: IdMaker
    tags: Emitter
    """Counts the tags of posts."""
    workshop: Workshop
    """Makes clips of what was uploaded."""
    page: int = 20_000
    """How many followers are pushed to, or read, before other jobs have a turn."""
    across: bool = True
    """Whether the ends of an association may lie in different stores, so that one may be there before the other."""
    merge: int = 800
    """How many entries of a source a follow brings into a timeline at the most."""
    aside: Aside = field(default_factory=Aside)
    """Does what mostly waits beside the jobs that follow."""
    search: Filler = field(default_factory=lambda: Filler(NoIndex()))
    """Keeps the search index as the graph is."""
