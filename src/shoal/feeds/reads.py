"""What feeds may touch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from shoal.feeds.remembered import Remembered
from shoal.graph.contract import Reader
from shoal.tagcloud.likeness import RelatedTag
from shoal.tagcloud.reading import TagCloud
from shoal.timelines.audience import Audiences
from shoal.timelines.contract import Timelines


@dataclass(frozen=True, slots=True)
class Reads:
    """The graph to read, and the caches in front of it."""

    graph: Reader
    lasting: Reader
    """The same without what is remembered: a timeline that is rebuilt is made of this."""
    timelines: Timelines
    audiences: Audiences | None
    """Who is pushed to, where this process keeps that; a timeline that is rebuilt joins them."""
    tags: TagCloud
    length: int = 800
    """How many entries a timeline is rebuilt with."""
    rebuilding: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    """Timelines that are being rebuilt: whoever reads one waits for the same rebuild."""
    related: Remembered[tuple[str, int], list[RelatedTag]] = field(default_factory=Remembered)
    """Related tags, by the tag and by how many posts were looked at."""
