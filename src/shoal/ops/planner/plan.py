"""A plan: the load of a network, the shape that carries it, what gives way first, and which assumption matters most."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec

from shoal.ops.planner.assumptions import Assumptions, Prices, changed, spreads
from shoal.ops.planner.calibration import Calibration
from shoal.ops.planner.cluster import Size, cluster
from shoal.ops.planner.load import Load, load_of
from shoal.ops.planner.one_process import LOUD_FROM, NAME, one_process
from shoal.ops.planner.shapes import NetworkShape

_LEAST, _MOST = 10.0, 1e10
"""Members between which it is looked for where a shape ends."""

SIZES = (Size(4, 2, 1, 1), Size(32, 16, 4, 4, own_search=True), Size(1_000, 500, 64, 64, own_search=True))
"""Shapes that are looked at beside the one that a load takes."""


class Break(msgspec.Struct, frozen=True):
    """A limit of a shape, and the members at which it is reached when everything grows with them."""

    what: str
    members: float
    """Infinite when it never is."""


class Carried(msgspec.Struct, frozen=True):
    """A shape of a fixed size, how many members it carries, and in which order its limits are reached."""

    shape: str
    members: float
    breaks: list[Break]


class Swing(msgspec.Struct, frozen=True):
    """The money a month if an assumption turned out lower or higher."""

    assumption: str
    low: float
    high: float
    money_low: float
    money_high: float

    @property
    def width(self) -> float:
        """How much there is between the two."""
        return abs(self.money_high - self.money_low)


class Plan(msgspec.Struct, frozen=True):
    """Everything that was worked out. Money is a month's."""

    assumptions: Assumptions
    prices: Prices
    calibration: str
    """The machine and the day of the costs."""
    load: Load
    shape: NetworkShape
    money: float
    carried: list[Carried]
    """Shapes by how many members they carry, the smallest first."""
    swings: list[Swing]
    """The assumption that matters most first."""
    affordable: float
    """Members that the budget pays for; 0 when there is none."""


def plan(of: Assumptions, prices: Prices, calibration: Calibration) -> Plan:
    """Work everything out."""
    shape = chosen(of, calibration)
    return Plan(
        assumptions=of,
        prices=prices,
        calibration=calibration.shown(),
        load=load_of(of, LOUD_FROM, warm_only=False),
        shape=shape,
        money=shape.money(prices),
        carried=carried(of, calibration),
        swings=swings(of, prices, calibration),
        affordable=affordable(of, prices, calibration) if of.budget else 0.0,
    )


def chosen(of: Assumptions, calibration: Calibration) -> NetworkShape:
    """Return the smallest shape that carries the load; when none does, the largest."""
    alone = one_process(of, calibration)
    return alone if alone.carries else cluster(of, calibration)


def carried(of: Assumptions, calibration: Calibration) -> list[Carried]:
    """Return how many members each shape carries, if all of them do what is assumed; and for each limit where it is reached."""
    shapes: list[tuple[str, Callable[[Assumptions], NetworkShape]]] = [
        (NAME, lambda given: one_process(given, calibration))
    ]
    shapes += [(_named(size), partial(cluster, calibration=calibration, size=size)) for size in SIZES]
    return sorted((_carried(name, of, shape) for name, shape in shapes), key=lambda one: one.members)


def _named(size: Size) -> str:
    stores = f"{size.stores} PostgreSQL{' and one for search' if size.own_search else ''}"
    return f"{stores}, {size.redis} Redis, {size.web:,} web processes, {size.workers} workers"


def _carried(name: str, of: Assumptions, shape: Callable[[Assumptions], NetworkShape]) -> Carried:
    def use(members: float, what: str) -> float:
        limits = shape(changed(of, "members", members)).limits
        return next((limit.use for limit in limits if limit.what == what), 0.0)

    names = [limit.what for limit in shape(of).limits]
    ends = [Break(what, _largest(lambda members, what=what: use(members, what) <= 1)) for what in names]  # type: ignore[misc]
    ends.sort(key=lambda end: end.members)
    return Carried(name, ends[0].members, [end for end in ends if math.isfinite(end.members)])


def affordable(of: Assumptions, prices: Prices, calibration: Calibration) -> float:
    """Return the members for whom the budget pays."""

    def fits(members: float) -> bool:
        return chosen(changed(of, "members", members), calibration).money(prices) <= of.budget

    return _largest(fits)


def swings(of: Assumptions, prices: Prices, calibration: Calibration) -> list[Swing]:
    """Return what each assumption would change alone."""

    def money(name: str, value: float) -> float:
        return chosen(changed(of, name, value), calibration).money(prices)

    found = [
        Swing(spread.name, spread.low, spread.high, money(spread.name, spread.low), money(spread.name, spread.high))
        for spread in spreads(of)
    ]
    return sorted(found, key=lambda swing: -swing.width)


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the number of members up to which something holds: infinite when it always does, 0 when it never does."""
    if holds(_MOST):
        return math.inf
    if not holds(_LEAST):
        return 0.0
    low, high = _LEAST, _MOST
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
