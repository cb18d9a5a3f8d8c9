"""A scenario: duration, load, faults, and the follower sets of authors, including timelines that are cold after a fault."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal_planner.workload import FollowerClass

MOST_SECONDS = 86_400.0
F = TypeVar("F", bound="LastingFault")
Moment = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
"""Seconds from the start."""
Part = Annotated[float, msgspec.Meta(gt=0, le=1)]


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    at: Moment = 0.0

    @property
    def end(self) -> float:
        return self.at


class LastingFault(Fault, frozen=True, kw_only=True):
    lasting: Annotated[float, msgspec.Meta(gt=0, le=MOST_SECONDS)] = 60.0

    @property
    def end(self) -> float:
        return self.at + self.lasting

    def now(self, moment: float) -> bool:
        return self.at <= moment < self.end


class SlowStore(LastingFault, frozen=True, kw_only=True, tag="slow"):
    """Commits are slow in a fraction of the stores."""

    by: Annotated[float, msgspec.Meta(ge=1, le=1_000)] = 10.0
    part: Part = 1.0
    """Fraction of the stores. The single store of one process is slow for any value."""

    def description(self) -> str:
        return f"commits take {self.by:g} times as long{_share(self.part, 'stores')}"


class StoreAway(LastingFault, frozen=True, kw_only=True, tag="away"):
    """A fraction of the stores is unavailable. Writes of their members are refused, but in one process, the writes wait."""

    part: Part = 0.5

    def description(self) -> str:
        return f"no commits{_share(self.part, 'stores')}"


class LostWorkers(LastingFault, frozen=True, kw_only=True, tag="workers"):
    """A fraction of the workers is gone. Their jobs are redelivered by the broker or when the lease expires."""

    part: Part = 0.5
    lease: Annotated[float, msgspec.Meta(ge=0, le=600)] | None = None
    """Seconds until the jobs are redelivered; by default 0 with a broker and 60 without."""

    def description(self) -> str:
        return f"{self.part:.0%} of the workers are down"


class LostTimelines(Fault, frozen=True, kw_only=True, tag="timelines"):
    """A fraction of the warm timelines is lost at a moment; each is rebuilt when its member reads."""

    part: Part = 1 / 3

    def description(self) -> str:
        return f"{self.part:.0%} of the timelines are lost"


class Celebrity(LastingFault, frozen=True, kw_only=True, tag="celebrity"):
    """A member followed by a fraction of all members posts once a second and is not demoted to pull."""

    part: Part = 0.3

    def description(self) -> str:
        return f"a celebrity posts once per second to {self.part:.0%} of the members"


class Rush(LastingFault, frozen=True, kw_only=True, tag="rush"):
    """Posts, pages and changes arrive more often, and a fraction of the readers has a cold timeline."""

    by: Annotated[float, msgspec.Meta(gt=0, le=1_000)] = 5.0
    cold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.02
    """Fraction of the pages for which a timeline must be rebuilt first."""

    def description(self) -> str:
        return f"the load is multiplied by {self.by:g}"


AnyFault = SlowStore | StoreAway | LostWorkers | LostTimelines | Celebrity | Rush
KINDS: tuple[type[AnyFault], ...] = (SlowStore, StoreAway, LostWorkers, LostTimelines, Celebrity, Rush)


def of_kind(faults: Sequence[AnyFault], kind: type[F], moment: float) -> list[F]:
    return [fault for fault in faults if isinstance(fault, kind) and fault.now(moment)]


def crowding(faults: Sequence[AnyFault], moment: float) -> float:
    return math.prod(rush.by for rush in of_kind(faults, Rush, moment))


def slowness(faults: Sequence[AnyFault], moment: float) -> float:
    return math.prod(slow.by for slow in of_kind(faults, SlowStore, moment))


def kind_of(fault: AnyFault) -> str:
    return str(fault.__struct_config__.tag)


def _share(part: float, of: str) -> str:
    return f" in {part:.0%} of the {of}" if part < 1 else ""


Floats = NDArray[np.float64]


class AuthorClasses(NamedTuple):
    """Classes of authors: followers with materialized timelines per author, number of authors, and fraction of all posts."""

    followers: Floats
    authors: Floats
    posts: Floats

    @property
    def mean(self) -> float:
        return float((self.followers * self.posts).sum())


class Scenario(NamedTuple):
    """The load to simulate. Rates are per second, outside of any `Rush`."""

    seconds: float
    members: float
    warm: float
    posts: float
    pages: float
    changes: float
    returns: float
    """Timelines rebuilt for returning members."""
    follows: float
    high_fan_out_followees: float
    author_classes: AuthorClasses
    faults: Sequence[AnyFault] = ()
    seed: int = 1
    most_behind: float = 3.0
    """The setting `most_behind_seconds`."""
    known: float = 1.0
    """Fraction of the readers who are cached by the process that answers."""
    length: int = 800
    """The setting `timeline_length`."""
    at_work: int = 256
    """The setting `requests_at_work`."""
    at_the_door: int = 1_024
    """The setting `requests_waiting`."""
    patience: float = 5.0
    """The setting `waiting_seconds`."""


def author_classes_of(classes: Sequence[FollowerClass], counted: float, high_fan_out_from: float) -> AuthorClasses:
    """Return the author classes of a scenario from the follower classes of a load.

    `counted` is the fraction of followers to whom posts are pushed. Posts of authors with more than `high_fan_out_from` followers
    are pushed to no follower.
    """
    followers = np.array([class_.followers for class_ in classes])
    return AuthorClasses(
        np.where(followers <= high_fan_out_from, followers * counted, 0.0),
        np.maximum(1.0, np.array([class_.members for class_ in classes])),
        np.array([class_.posts for class_ in classes]),
    )


class ColdTimelines:
    """The fraction of warm timelines lost in faults and not read since."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        losses = [fault for fault in scenario.faults if isinstance(fault, LostTimelines)]
        self._losses = sorted(losses, key=lambda fault: -fault.at)
        self.lost = 0.0

    def lose(self, moment: float) -> None:
        while self._losses and self._losses[-1].at <= moment:
            self.lost += (1 - self.lost) * self._losses.pop().part

    def share(self, moment: float) -> float:
        """Return the fraction of pages for which the timeline must be rebuilt, after a loss or a long absence of the member."""
        self.lose(moment)
        scenario = self._scenario
        crowd = max((rush.cold for rush in of_kind(scenario.faults, Rush, moment)), default=0.0)
        return min(1.0, self.lost + crowd + scenario.returns / max(scenario.pages, 1e-9))

    def read(self, pages: float) -> None:
        self.lost *= math.exp(-pages / max(1.0, self._scenario.warm))
