"""A shape of a network: which parts run, how many of each, how busy they are, and what limits them."""

from __future__ import annotations

import math

import msgspec

from shoal.ops.planner.assumptions import Prices

GIB = float(1 << 30)


class ShapePart(msgspec.Struct, frozen=True):
    """Machines or processes that do the same. Cores, memory and disk are those of each."""

    name: str
    count: int
    cores: float
    memory: float
    disk: float = 0.0
    busy: float = 0.0
    """Cores that all of them keep busy in the busiest hour."""
    objects: float = 0.0
    """Bytes of files of pictures."""
    traffic: float = 0.0
    """Bytes a month."""

    def money(self, prices: Prices) -> float:
        """Return what all of them cost a month."""
        each = self.cores * prices.core + self.memory / GIB * prices.memory_gib + self.disk / GIB * prices.disk_gib
        return self.count * each + self.objects / GIB * prices.object_gib + self.traffic / GIB * prices.traffic_gib


class ShapeLimit(msgspec.Struct, frozen=True):
    """Something that is full at `use` 1."""

    what: str
    use: float


class Waits(msgspec.Struct, frozen=True):
    """How long members wait, in seconds."""

    lag: float
    """From the post to the home timelines of an author with few followers: the median."""
    lag_p99: float
    largest: float
    """Until the post of the most-followed member who is pushed has reached everybody."""
    page: float
    """A home page in the server: the median."""
    page_p99: float


class NetworkShape(msgspec.Struct, frozen=True):
    """One way to run a network, under a given load."""

    name: str
    parts: list[ShapePart]
    limits: list[ShapeLimit]
    """The tightest first."""
    waits: Waits | None
    """None when it does not carry the load."""

    @property
    def carries(self) -> bool:
        """Whether nothing is full."""
        return self.limits[0].use <= 1

    def money(self, prices: Prices) -> float:
        """Return what it costs a month."""
        return sum(part.money(prices) for part in self.parts)


def tightest_first(limits: list[ShapeLimit]) -> list[ShapeLimit]:
    """Sort limits by how full they are."""
    return sorted(limits, key=lambda limit: -limit.use)


def waiting(busy: float, turn: float) -> float:
    """Return the mean wait for a server that is busy for this share of the time and works `turn` seconds at a time.

    A queue with random arrivals and turns of one length (Pollaczek and Khinchine).
    """
    return turn * busy / (2 * (1 - busy)) if busy < 1 else float("inf")


def waiting_p99(busy: float, turn: float) -> float:
    """Return the wait that one in a hundred exceeds: the tail of such a queue falls exponentially.

    It is never below the mean wait, which plans show as the usual one: where fewer than one in a hundred wait, the mean is above
    that quantile.
    """
    # ln(100 * busy) times the mean of those who wait at all.
    return waiting(busy, turn) * max(1.0, _log_hundred(busy) / busy) if busy > 0 else 0.0


def _log_hundred(busy: float) -> float:
    return 4.605170186 + math.log(busy)
