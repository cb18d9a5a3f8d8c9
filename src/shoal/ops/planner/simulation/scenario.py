"""A scenario: how long, how much comes, what goes wrong, and how many follow those who post.

Glossary (`docs/glossary.md`): audience, loud.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.ops.planner.followers import FollowerClass
from shoal.ops.planner.load import Load
from shoal.ops.planner.simulation.faults import AnyFault

Floats = NDArray[np.float64]


class AuthorClasses(NamedTuple):
    """Authors by class: how many warm followers each has, how many authors there are, and their share of the posts."""

    followers: Floats
    authors: Floats
    posts: Floats

    @property
    def mean(self) -> float:
        """Deliveries of a post on average."""
        return float((self.followers * self.posts).sum())


class Scenario(NamedTuple):
    """Rates are a second, before any crowd comes."""

    seconds: float
    members: float
    warm: float
    """Warm home timelines."""
    posts: float
    pages: float
    changes: float
    returns: float
    """Timelines that are rebuilt for members who come back."""
    follows: float
    """Followees of a member."""
    loud_followees: float
    audiences: AuthorClasses
    faults: Sequence[AnyFault] = ()
    seed: int = 1
    most_behind: float = 3.0
    """The setting `most_behind_seconds`."""
    known: float = 1.0
    """Share of the readers of whom the process that answers remembers something."""
    length: int = 800
    """The setting `timeline_length`."""
    at_work: int = 256
    """The setting `requests_at_work`."""
    at_the_door: int = 1_024
    """The setting `requests_waiting`."""
    patience: float = 5.0
    """The setting `waiting_seconds`."""


def scenario_of(
    load: Load,
    follows: float,
    seconds: float,
    faults: Sequence[AnyFault],
    *,
    counted: float,
    loud_from: float,
    seed: int,
) -> Scenario:
    """Return a scenario of a planned load: `counted` is the share of followers who are pushed to, none of those of loud members."""
    return Scenario(
        seconds=seconds,
        members=load.members,
        warm=load.warm,
        posts=load.posts,
        pages=load.pages,
        changes=load.changes,
        returns=load.returns,
        follows=follows,
        loud_followees=load.loud_followees,
        audiences=audiences_of(load.by_class, counted, loud_from),
        faults=faults,
        seed=seed,
    )


def audiences_of(classes: Sequence[FollowerClass], counted: float, loud_from: float) -> AuthorClasses:
    """Return the audiences of classes of members. Loud ones have none."""
    followers = np.array([one.followers for one in classes])
    return AuthorClasses(
        np.where(followers <= loud_from, followers * counted, 0.0),
        np.maximum(1.0, np.array([one.members for one in classes])),
        np.array([one.posts for one in classes]),
    )
