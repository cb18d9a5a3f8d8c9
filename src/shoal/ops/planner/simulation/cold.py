"""Home timelines that are gone: their members get no posts, and the next page of each takes a rebuild."""

from __future__ import annotations

import math

from shoal.ops.planner.simulation.faults import LostTimelines, Rush, of_kind
from shoal.ops.planner.simulation.scenario import Scenario


class ColdTimelines:
    """The share of warm timelines that a fault took and nobody has read since."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        losses = [fault for fault in scenario.faults if isinstance(fault, LostTimelines)]
        self._losses = sorted(losses, key=lambda fault: -fault.at)
        self.lost = 0.0

    def lose(self, moment: float) -> None:
        """Take what is gone by a moment."""
        while self._losses and self._losses[-1].at <= moment:
            self.lost += (1 - self.lost) * self._losses.pop().part

    def share(self, moment: float) -> float:
        """Return the share of pages for which a timeline must be rebuilt first: it is lost, or a member was away for long."""
        self.lose(moment)
        scenario = self._scenario
        crowd = max((rush.cold for rush in of_kind(scenario.faults, Rush, moment)), default=0.0)
        return min(1.0, self.lost + crowd + scenario.returns / max(scenario.pages, 1e-9))

    def read(self, pages: float) -> None:
        """Note pages of members drawn by chance: a timeline is warm once its member has read it."""
        self.lost *= math.exp(-pages / max(1.0, self._scenario.warm))
