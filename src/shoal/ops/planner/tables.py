"""A plan as tables of words: for the terminal and for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shoal.ops.planner import words
from shoal.ops.planner.plan import Plan
from shoal.ops.planner.shapes import ShapePart

_MOST_SWINGS = 12


class WordTable(NamedTuple):
    """A title, the names of the columns, and rows. All columns but the first are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def summary(plan: Plan) -> list[str]:
    """Return what matters most, in sentences."""
    shape, load, currency = plan.shape, plan.load, plan.prices.currency
    found = [
        f"{words.people(load.members)} members: {shape.name}, {words.price(plan.money, currency)}.",
        f"In the busiest hour {words.number(load.posts)} posts, {words.number(load.pages)} home pages and "
        f"{words.number(load.deliveries)} deliveries a second.",
    ]
    if shape.waits is None:
        found.append(f"No shape carries this: {shape.limits[0].what} would be {shape.limits[0].use:.1f} times full.")
    else:
        found.append(
            f"A post is in the timelines of its followers after {words.seconds(shape.waits.lag)} "
            f"(p99 {words.seconds(shape.waits.lag_p99)}), a home page takes {words.seconds(shape.waits.page)} "
            f"(p99 {words.seconds(shape.waits.page_p99)})."
        )
    if plan.assumptions.budget:
        budget = words.price(plan.assumptions.budget, currency)
        found.append(f"{budget} pay for {words.people(plan.affordable)} members.")
    return found


def tables(plan: Plan) -> list[WordTable]:
    """Return all tables of a plan."""
    return [_parts(plan), _load(plan), _waits(plan), _limits(plan), _carried(plan), _swings(plan)]


def _parts(plan: Plan) -> WordTable:
    rows = [_part(part, plan) for part in plan.shape.parts]
    rows.append(("together", "", "", "", "", "", words.money(plan.money)))
    columns = ("part", "number", "cores", "memory", "disk", "busy cores", f"{plan.prices.currency or 'money'} a month")
    return WordTable("What runs", columns, rows)


def _part(part: ShapePart, plan: Plan) -> tuple[str, ...]:
    money = words.money(part.money(plan.prices))
    if not part.cores:
        return part.name, "", "", "", words.size(part.objects or part.traffic), "", money
    disk = words.size(part.disk) if part.disk else ""
    return part.name, f"{part.count:,}", f"{part.cores:g}", words.size(part.memory), disk, f"{part.busy:.2f}", money


def _load(plan: Plan) -> WordTable:
    load = plan.load
    rates = {
        "posts": load.posts,
        "home pages": load.pages,
        "likes, follows": load.changes,
        "deliveries": load.deliveries,
        "timelines rebuilt": load.returns,
    }
    rows = [(f"{name} a second, busiest hour", words.number(rate)) for name, rate in rates.items()]
    rows += [
        ("deliveries of a post", words.number(load.per_post)),
        ("followers of the most-followed", words.people(load.largest)),
        ("loud members", words.people(load.loud)),
        ("loud members whom a reader follows", f"{load.loud_followees:.2g}"),
        ("warm home timelines", words.people(load.warm)),
        ("follows", words.number(load.all_follows)),
        (f"posts after {plan.assumptions.years:g} years", words.number(load.all_posts)),
        ("files of pictures then", words.size(load.picture_bytes)),
    ]
    return WordTable("Load", ("", "number"), rows)


def _waits(plan: Plan) -> WordTable:
    waits = plan.shape.waits
    rows = []
    if waits is not None:
        rows = [
            ("post to home timelines, median", words.seconds(waits.lag)),
            ("post to home timelines, p99", words.seconds(waits.lag_p99)),
            ("post of the most-followed who is pushed, to all", words.seconds(waits.largest)),
            ("home page in the server, median", words.seconds(waits.page)),
            ("home page in the server, p99", words.seconds(waits.page_p99)),
        ]
    return WordTable("How long members wait", ("", "time"), rows)


def _limits(plan: Plan) -> WordTable:
    rows = [(limit.what, f"{limit.use:.0%}") for limit in plan.shape.limits]
    return WordTable("How full it is", ("limit", "used of what it may be"), rows)


def _carried(plan: Plan) -> WordTable:
    rows = [
        (
            one.shape,
            words.people(one.members),
            ", then ".join(f"{end.what} ({words.people(end.members)})" for end in one.breaks[:3]) or "nothing",
        )
        for one in plan.carried
    ]
    return WordTable("What each shape carries, and what is full first", ("shape", "members", "full first"), rows)


def _swings(plan: Plan) -> WordTable:
    rows = [
        (
            swing.assumption.replace("_", " "),
            _value(swing.low),
            _value(swing.high),
            words.money(swing.money_low),
            words.money(swing.money_high),
            words.money(swing.width),
        )
        for swing in plan.swings[:_MOST_SWINGS]
    ]
    unit = plan.prices.currency or "money"
    columns = ("assumption", "low", "high", f"{unit} if low", f"{unit} if high", "swing")
    return WordTable("Which assumption matters most", columns, rows)


def assumptions(plan: Plan) -> WordTable:
    """Return everything that was assumed."""
    rows = [
        (name.replace("_", " "), _value(float(number)))
        for name, number in msgspec.structs.asdict(plan.assumptions).items()
    ]
    rows += [
        (f"price: {name.replace('_', ' ')}", f"{price:g}" if name != "currency" else price)
        for name, price in msgspec.structs.asdict(plan.prices).items()
    ]
    return WordTable("What is assumed", ("assumption", "value"), rows)


def _value(number: float) -> str:
    return words.number(number) if number >= 1_000 else f"{number:.3g}"
