"""A plan as tables for the terminal, as plots, and as one self-contained HTML file."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from jinja2 import Environment, PackageLoader

from shoal.charts import Chart, Color, as_svg
from shoal_planner import units
from shoal_planner.calibration import Calibration
from shoal_planner.one_process import HIGH_FAN_OUT_FROM, NAME, ShapePart
from shoal_planner.plan import Plan, chosen
from shoal_planner.plots import Axes, Landmark, PlotBar, PlotLine, bars, lines
from shoal_planner.workload import Assumptions, Load, changed, load_of

_MOST_SWINGS = 12


class WordTable(NamedTuple):
    """A table of text with a title. All columns but the first contain numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def summary(plan: Plan) -> list[str]:
    shape, load, currency = plan.shape, plan.load, plan.prices.currency
    found = [
        f"{units.people(load.members)} members: {shape.name}, {units.price(plan.money, currency)}.",
        f"In the busiest hour {units.number(load.posts)} posts, {units.number(load.pages)} home pages and "
        f"{units.number(load.deliveries)} deliveries per second.",
    ]
    if shape.waits is None:
        found.append(f"No shape handles this load: {shape.limits[0].what} would be at {shape.limits[0].use:.0%}.")
    else:
        found.append(
            f"A post is in the timelines of its followers after {units.seconds(shape.waits.lag)} "
            f"(p99 {units.seconds(shape.waits.lag_p99)}); a home page takes {units.seconds(shape.waits.page)} "
            f"(p99 {units.seconds(shape.waits.page_p99)})."
        )
    if plan.assumptions.budget:
        budget = units.price(plan.assumptions.budget, currency)
        found.append(f"{budget} is enough for {units.people(plan.affordable)} members.")
    return found


def tables(plan: Plan) -> list[WordTable]:
    limits = [(limit.what, f"{limit.use:.0%}") for limit in plan.shape.limits]
    full = WordTable("Utilization", ("resource", "used"), limits)
    return [_parts(plan), _load(plan), _waits(plan), full, _carried(plan), _swings(plan)]


def _parts(plan: Plan) -> WordTable:
    rows = [_part(part, plan) for part in plan.shape.parts]
    rows.append(("total", "", "", "", "", "", units.money(plan.money)))
    columns = ("part", "number", "cores", "memory", "disk", "busy cores", f"{plan.prices.currency or 'cost'} per month")
    return WordTable("Components", columns, rows)


def _part(part: ShapePart, plan: Plan) -> tuple[str, ...]:
    money = units.money(part.money(plan.prices))
    if not part.cores:
        return part.name, "", "", "", units.size(part.objects or part.traffic), "", money
    disk = units.size(part.disk) if part.disk else ""
    return part.name, f"{part.count:,}", f"{part.cores:g}", units.size(part.memory), disk, f"{part.busy:,.2f}", money


def _load(plan: Plan) -> WordTable:
    load = plan.load
    rates = {
        "posts": load.posts,
        "home pages": load.pages,
        "likes, follows": load.changes,
        "deliveries": load.deliveries,
        "rebuilt timelines": load.returns,
    }
    rows = [(f"{name} per second, busiest hour", units.number(rate)) for name, rate in rates.items()]
    rows += [
        ("deliveries per post", units.number(load.per_post)),
        ("followers of the most-followed member", units.people(load.largest)),
        ("high fan-out members", units.people(load.high_fan_out)),
        ("of these, followed by a reader", f"{load.high_fan_out_followees:.2g}"),
        ("warm home timelines", units.people(load.warm)),
        ("follows", units.number(load.all_follows)),
        (f"posts after {plan.assumptions.years:g} years", units.number(load.all_posts)),
        (f"picture files after {plan.assumptions.years:g} years", units.size(load.picture_bytes)),
    ]
    return WordTable("Load", ("", "number"), rows)


def _waits(plan: Plan) -> WordTable:
    waits = plan.shape.waits
    rows = []
    if waits is not None:
        rows = [
            ("post to home timelines, median", units.seconds(waits.lag)),
            ("post to home timelines, p99", units.seconds(waits.lag_p99)),
            ("post of the most-followed pushed author, to all", units.seconds(waits.largest)),
            ("home page in the server, median", units.seconds(waits.page)),
            ("home page in the server, p99", units.seconds(waits.page_p99)),
        ]
    return WordTable("Response times", ("", "time"), rows)


def _carried(plan: Plan) -> WordTable:
    rows = [
        (
            capacity.shape,
            units.people(capacity.members),
            ", then ".join(f"{end.what} ({units.people(end.members)})" for end in capacity.breaks[:3]) or "none",
        )
        for capacity in plan.carried
    ]
    return WordTable("Capacity and first bottlenecks of each shape", ("shape", "members", "bottlenecks"), rows)


def _swings(plan: Plan) -> WordTable:
    rows = [
        (
            swing.assumption.replace("_", " "),
            _value(swing.low),
            _value(swing.high),
            units.money(swing.money_low),
            units.money(swing.money_high),
            units.money(swing.width),
        )
        for swing in plan.swings[:_MOST_SWINGS]
    ]
    unit = plan.prices.currency or "cost"
    columns = ("assumption", "low", "high", f"{unit} if low", f"{unit} if high", "swing")
    return WordTable("Most important assumptions", columns, rows)


def assumptions(plan: Plan) -> WordTable:
    rows = [
        (name.replace("_", " "), _value(float(number)))
        for name, number in msgspec.structs.asdict(plan.assumptions).items()
    ]
    rows += [
        (f"price: {name.replace('_', ' ')}", f"{price:g}" if name != "currency" else price)
        for name, price in msgspec.structs.asdict(plan.prices).items()
    ]
    return WordTable("Assumptions", ("assumption", "value"), rows)


def _value(number: float) -> str:
    return units.number(number) if number >= 1_000 else f"{number:.3g}"


_FEWEST, _MOST = 4, 10
"""Exponents of the range of members in plots."""
_STEPS = 6
_RATES = (0.01, 10_000.0)
"""Range of posts per author and day in the plot of push and pull."""

_LOADS: tuple[tuple[str, Color, Callable[[Load], float]], ...] = (
    ("deliveries", "after", lambda load: load.deliveries),
    ("home pages", "violet", lambda load: load.pages),
    ("likes, follows", "amber", lambda load: load.changes),
    ("posts", "rose", lambda load: load.posts),
)


def charts(plan: Plan, calibration: Calibration) -> list[Chart]:
    return [
        _load_chart(plan),
        _money_chart(plan, calibration),
        _carried_chart(plan),
        _swings_chart(plan),
        _push_or_pull_chart(plan.assumptions, calibration),
    ]


def _load_chart(plan: Plan) -> Chart:
    loads = [
        (members, load_of(changed(plan.assumptions, "members", members), HIGH_FAN_OUT_FROM, warm_only=False))
        for members in _sizes()
    ]
    series = [PlotLine(name, color, [(members, rate(load)) for members, load in loads]) for name, color, rate in _LOADS]
    axes = Axes("members", "per second, in the busiest hour", units.people, units.number)
    return lines(
        "Load by number of members",
        "In the busiest hour, with the assumed activity per member. Posts of high fan-out members are pulled.",
        series,
        axes,
        marks=[Landmark(float(plan.assumptions.members), "this plan")],
    )


def _money_chart(plan: Plan, calibration: Calibration) -> Chart:
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for members in _sizes():
        shape = chosen(changed(plan.assumptions, "members", members), calibration)
        found[shape.name == NAME].append((members, shape.money(plan.prices)))
    names: tuple[tuple[bool, str, Color], ...] = ((True, "one process", "violet"), (False, "several", "after"))
    series = [PlotLine(name, color, found[alone]) for alone, name, color in names if found[alone]]
    return lines(
        f"{plan.prices.currency or 'Cost'} per month by number of members",
        f"The cheapest shape that handles the load, with the data of {plan.assumptions.years:g} years.",
        series,
        Axes("members", "per month", units.people, units.number),
        marks=[
            Landmark(float(plan.assumptions.members), f"this plan: {units.price(plan.money, plan.prices.currency)}")
        ],
    )


def _carried_chart(plan: Plan) -> Chart:
    series = [
        PlotBar(
            capacity.shape,
            1e3,
            max(1e3, capacity.members if math.isfinite(capacity.members) else 10.0**_MOST),
            f"{units.people(capacity.members)}: {capacity.breaks[0].what}" if capacity.breaks else "unlimited",
            "violet" if capacity.shape == NAME else "after",
        )
        for capacity in plan.carried
    ]
    return bars(
        "Capacity of each shape",
        "The number of members at which the first bottleneck is reached, and the bottleneck.",
        series,
        units.people,
        "members",
    )


def _swings_chart(plan: Plan) -> Chart:
    """Draw the effect of each assumption alone, the largest first (a tornado diagram)."""
    series = [
        PlotBar(
            swing.assumption.replace("_", " "),
            swing.money_low,
            swing.money_high,
            f"{_value(swing.low)} to {_value(swing.high)}: {units.money(swing.money_low)} to {units.money(swing.money_high)}",
        )
        for swing in plan.swings[:_MOST_SWINGS]
    ]
    return bars(
        "Most important assumptions",
        f"{plan.prices.currency or 'Cost'} per month if a single assumption is low (gray) or high.",
        series,
        units.number,
        "per month",
        middle=plan.money,
        log=False,
    )


def _push_or_pull_chart(of: Assumptions, calibration: Calibration) -> Chart:
    """Draw what a follower costs per day by push and by pull, against the author's posts per day."""
    one, several = calibration.one_process, calibration.shared
    low, high = _RATES

    def line(name: str, color: Color, cost: Callable[[float], float], *, dashed: bool = False) -> PlotLine:
        return PlotLine(name, color, [(rate, cost(rate) * 1e6) for rate in (low, high)], dashed)

    pushed = several.worker_delivery + several.redis_delivery
    series = [
        line("push, memory", "violet", lambda rate: rate * one.delivery_far),
        line("pull, memory", "violet", lambda _: of.pages * one.pull, dashed=True),
        line("push, Redis", "after", lambda rate: rate * pushed),
        line("pull, Redis", "after", lambda _: of.pages * several.web_pull, dashed=True),
    ]
    return lines(
        "Push or pull",
        f"CPU time per day for one follower who reads {of.pages:g} pages a day, by the posting rate of the author.",
        series,
        Axes("posts per day by the author", "microseconds per day", units.number, units.number),
        marks=[_crossing(of.pages * several.web_pull / pushed), _crossing(of.pages * one.pull / one.delivery_far)],
    )


def _crossing(rate: float) -> Landmark:
    return Landmark(rate, f"equal at {units.number(rate)} per day")


def _sizes() -> list[float]:
    return [10.0 ** (_FEWEST + step / _STEPS) for step in range((_MOST - _FEWEST) * _STEPS + 1)]


def page(plan: Plan, calibration: Calibration, *, ours: bool) -> str:
    """Return the plan as an HTML report. `ours` means that the costs were measured on this machine."""
    where = "" if ours else ", another machine; `shoal plan --calibrate` measures this one"
    environment = Environment(
        loader=PackageLoader("shoal_planner", ""), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html").render(
        title=f"Plan for {plan.load.members:,.0f} members",
        sentences=[*summary(plan), f"Costs were measured on {plan.calibration}{where}."],
        pictures=[(chart, b64encode(as_svg(chart)).decode()) for chart in charts(plan, calibration)],
        tables=[table for table in (*tables(plan), assumptions(plan)) if table.rows],
    )
