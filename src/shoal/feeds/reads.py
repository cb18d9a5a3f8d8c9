"""What feeds may touch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.discovery.contract import SearchIndex
from shoal.discovery.nowhere import NoIndex
from shoal.feeds.shared_answers import Remembered
from shoal.graph.contract import Reader, RememberingReader
from shoal.tagcloud.likeness import RelatedTag
from shoal.tagcloud.reading import TagCloud
from shoal.timelines.audience import Audiences
from shoal.timelines.contract import Timelines


class Candidate(NamedTuple):
    """A member who may be suggested: many whom the viewer follows follow them, or many do at all."""

    id: int
    friends: int


class Popular(NamedTuple):
    """A post that many like, and whether moderators keep it from trends."""

    id: int
    untrendable: bool


@dataclass(frozen=True, slots=True)
class Reads:
    """The graph to read, and the caches in front of it."""

    graph: RememberingReader
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
    search: SearchIndex = field(default_factory=NoIndex)
    trending: Remembered[None, list[Popular]] = field(default_factory=Remembered)
    """Posts that many like."""
    suggested: Remembered[int, list[Candidate]] = field(default_factory=Remembered)
    """Whom a viewer may want to follow, before it is asked whether they already do."""
    popular: Remembered[None, list[int]] = field(default_factory=Remembered)
    """Members who are active and whom many follow."""
