"""What consequences may touch."""

from __future__ import annotations

from dataclasses import dataclass, field

from shoal.core.ids import IdMaker
from shoal.graph.contract import Graph
from shoal.timelines.audience import Audiences
from shoal.timelines.contract import Timelines


@dataclass(frozen=True, slots=True)
class Effects:
    """The graph, and the derived stores that follow it."""

    graph: Graph
    timelines: Timelines
    audiences: Audiences
    new_id: IdMaker
    loud: set[int] = field(default_factory=set)
    """Sources with too many warm followers to push to; shared with the readers, who pull from them."""
    loud_from: int = 500_000
    """A source with more warm followers than this is loud."""
    page: int = 20_000
    """How many followers are pushed to, or read, before other jobs have a turn."""
    merge: int = 800
    """How many entries of a source a follow brings into a timeline at the most."""
