"""The outcome of a simulation: totals, and what happened when."""

from __future__ import annotations

import msgspec


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the simulated time, in seconds from the beginning. Rates are a second, times in seconds.

    Lags and waits for pages are those of what arrived in it, 0 if nothing did.
    """

    begin: float
    end: float
    faults: list[str]
    """Kinds of faults that went on in it."""
    posts: float
    """Posts that were committed."""
    refused: float
    """Posts that were refused."""
    pages: float
    pages_refused: float
    deliveries: float
    uncommitted: float
    """Posts that were taken on and not committed yet: the mean."""
    queue: float
    """Posts that were committed and had consequences left: the mean."""
    queue_most: float
    lag: float
    """From a post to the home timelines of its followers: the median."""
    lag_p99: float
    page: float
    """A home page in the server: the median."""
    page_p99: float


class SimulatedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Totals, and stretches of the time. Every post that came was refused, or was delivered by the end, or is left."""

    shape: str
    members: float
    seconds: float
    """Simulated."""
    came: float
    """Posts that members wanted to make."""
    refused: float
    delivered: float
    """Posts that were in all home timelines by the end."""
    left: float
    """Posts that were not."""
    drained: float | None
    """Seconds after the end until none was left; None when that took more than an hour."""
    pages: float
    pages_refused: float
    deliveries: float
    """Entries of timelines, those after the end included."""
    lag: float
    lag_p99: float
    lag_most: float
    page: float
    page_p99: float
    queue: float
    """Posts that were committed and had consequences left: the mean."""
    queue_most: float
    memory: float
    """Bytes of our own processes and of Redis."""
    busy: dict[str, float]
    """Share of the time that each part worked."""
    phases: list[Stretch]
    """About ten, and none has a fault in one part of it only."""
    series: list[Stretch]
    """The phases in smaller pieces, to be drawn."""
