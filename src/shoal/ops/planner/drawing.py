"""The plots of a plan."""

from __future__ import annotations

import math
from collections.abc import Callable

from shoal.charts.plots import Axes, Landmark, PlotBar, PlotLine, bars, lines
from shoal.charts.shapes import Chart, Colour
from shoal.ops.planner import words
from shoal.ops.planner.assumptions import Assumptions, changed
from shoal.ops.planner.calibration import Calibration
from shoal.ops.planner.load import Load, load_of
from shoal.ops.planner.one_process import LOUD_FROM, NAME
from shoal.ops.planner.plan import Plan, chosen

_FEWEST, _MOST = 4, 9
"""Powers of ten of members between which plots are drawn."""
_STEPS = 6
_SWINGS = 12
_RATES = (0.01, 10_000.0)
"""Posts a day of an author."""

_LOADS: tuple[tuple[str, Colour, Callable[[Load], float]], ...] = (
    ("deliveries", "after", lambda load: load.deliveries),
    ("home pages", "violet", lambda load: load.pages),
    ("likes, follows", "amber", lambda load: load.changes),
    ("posts", "rose", lambda load: load.posts),
)


def charts(plan: Plan, calibration: Calibration) -> list[Chart]:
    """Draw all plots of a plan."""
    return [
        load_chart(plan),
        money_chart(plan, calibration),
        carried_chart(plan),
        swings_chart(plan),
        push_or_pull_chart(plan.assumptions, calibration),
    ]


def load_chart(plan: Plan) -> Chart:
    """Draw load against members."""
    loads = [
        (members, load_of(changed(plan.assumptions, "members", members), LOUD_FROM, warm_only=False))
        for members in _sizes()
    ]
    drawn = [
        PlotLine(name, colour, [(members, rate(load)) for members, load in loads]) for name, colour, rate in _LOADS
    ]
    axes = Axes("members", "a second, in the busiest hour", words.people, words.number)
    return lines(
        "Load against members",
        "The busiest hour, when each member does what is assumed. Posts of loud members are not delivered but pulled.",
        drawn,
        axes,
        marks=[Landmark(float(plan.assumptions.members), "this plan")],
    )


def money_chart(plan: Plan, calibration: Calibration) -> Chart:
    """Draw what the smallest shape that carries the load costs, against members."""
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for members in _sizes():
        shape = chosen(changed(plan.assumptions, "members", members), calibration)
        found[shape.name == NAME].append((members, shape.money(plan.prices)))
    names: tuple[tuple[bool, str, Colour], ...] = ((True, "one process", "violet"), (False, "several", "after"))
    drawn = [PlotLine(name, colour, found[alone]) for alone, name, colour in names if found[alone]]
    return lines(
        f"{plan.prices.currency or 'Money'} a month against members",
        f"The smallest shape that carries the load, with what is kept for {plan.assumptions.years:g} years.",
        drawn,
        Axes("members", "a month", words.people, words.number),
        marks=[
            Landmark(float(plan.assumptions.members), f"this plan: {words.price(plan.money, plan.prices.currency)}")
        ],
    )


def carried_chart(plan: Plan) -> Chart:
    """Draw how many members each shape carries, and what gives way first."""
    drawn = [
        PlotBar(
            one.shape,
            1e3,
            max(1e3, one.members if math.isfinite(one.members) else 10.0**_MOST),
            f"{words.people(one.members)}: {one.breaks[0].what}" if one.breaks else "no end",
            "violet" if one.shape == NAME else "after",
        )
        for one in plan.carried
    ]
    return bars(
        "What each shape carries",
        "The members up to whom nothing is full, and what is full then.",
        drawn,
        words.people,
        "members",
    )


def swings_chart(plan: Plan) -> Chart:
    """Draw what each assumption would change alone, the widest first: a tornado."""
    drawn = [
        PlotBar(
            swing.assumption.replace("_", " "),
            swing.money_low,
            swing.money_high,
            f"{value(swing.low)} to {value(swing.high)}: {words.money(swing.money_low)} to {words.money(swing.money_high)}",
        )
        for swing in plan.swings[:_SWINGS]
    ]
    return bars(
        "Which assumption matters most",
        f"{plan.prices.currency or 'Money'} a month when one assumption alone turns out low (grey) or high.",
        drawn,
        words.number,
        "a month",
        middle=plan.money,
        log=False,
    )


def push_or_pull_chart(of: Assumptions, calibration: Calibration) -> Chart:
    """Draw what one follower costs a day who is pushed to, and one who pulls, by how often the author posts."""
    one, several = calibration.one_process, calibration.shared
    low, high = _RATES

    def line(name: str, colour: Colour, cost: Callable[[float], float], *, dashed: bool = False) -> PlotLine:
        return PlotLine(name, colour, [(rate, cost(rate) * 1e6) for rate in (low, high)], dashed)

    pushed = several.worker_delivery + several.redis_delivery
    drawn = [
        line("push, memory", "violet", lambda rate: rate * one.delivery_far),
        line("pull, memory", "violet", lambda _: of.pages * one.pull, dashed=True),
        line("push, Redis", "after", lambda rate: rate * pushed),
        line("pull, Redis", "after", lambda _: of.pages * several.web_pull, dashed=True),
    ]
    return lines(
        "Push or pull",
        f"Processor time a day for one follower who reads {of.pages:g} pages a day, by how often the author posts.",
        drawn,
        Axes("posts a day of the author", "microseconds a day", words.number, words.number),
        marks=[_crossing(of.pages * several.web_pull / pushed), _crossing(of.pages * one.pull / one.delivery_far)],
    )


def _crossing(rate: float) -> Landmark:
    return Landmark(rate, f"as dear at {words.number(rate)} a day")


def value(number: float) -> str:
    """Tell the value of an assumption."""
    return words.number(number) if number >= 1_000 else f"{number:.3g}"


def _sizes() -> list[float]:
    return [10.0 ** (_FEWEST + step / _STEPS) for step in range((_MOST - _FEWEST) * _STEPS + 1)]
