"""Counts the requests of the nine use cases, and writes them into their page: `python -m tests.graph.use_cases_page`.

The counts are deterministic: nothing else sends requests, and a request depends on the data and not on time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.dynamodb_queries import (
    PEOPLE,
    USE_CASES,
    Alternatives,
    Costs,
    UseCase,
    alternatives,
    count,
    count_home,
    fill,
)
from tests.engines.dynamodb import new_table
from tests.timelines.on_dynamodb import new_url as new_timelines

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "dynamodb-use-cases.md"


class Case(NamedTuple):
    """A use case with its costs for a member and, if visitors may use it, for a visitor."""

    use_case: UseCase
    visitor: Costs | None
    member: Costs


class Counts(NamedTuple):
    cases: list[Case]
    home: Costs
    """A home page from a timeline in another table."""
    others: Alternatives


async def counted() -> Counts:
    """Run all use cases and their alternatives on a new table."""
    url = new_table()
    filled = await fill(url, PEOPLE)
    cases: list[Case] = []
    for use_case in USE_CASES:
        visitor = await count(url, use_case, filled, as_member=False) if use_case.public else None
        cases.append(Case(use_case, visitor, await count(url, use_case, filled, as_member=True)))
    home = await count_home(url, new_timelines(), filled)
    return Counts(cases, home, await alternatives(url, filled))


def with_tables(text: str, counts: Counts) -> str:
    """Return the page with its tables updated."""
    tables = {
        "counts": _counts(counts),
        "requests": _requests(counts),
        "copies": _copies(counts),
        "follows": _follows(counts.others),
    }
    for name, table in tables.items():
        text = _in_place(text, name, table)
    return text


def _counts(counts: Counts) -> str:
    rows = [
        "| use case | parameter | key condition | cold: a visitor | cold: a member | warm | read units, cold |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for use_case, visitor, member in counts.cases:
        first = visitor or member
        cells = (
            use_case.name,
            use_case.parameters,
            use_case.condition,
            "" if visitor is None else len(visitor.cold.requests),
            len(member.cold.requests),
            max(len(costs.warm.requests) for costs in (visitor, member) if costs is not None),
            f"{first.cold.units:g}",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
        if (again := member.refilled) is not None:
            home = counts.home
            rows += [
                f"| {use_case.name}, timeline in memory | | | | {len(again.requests)} | | {again.units:g} |",
                f"| {use_case.name}, timeline in a table | | | | {len(home.cold.requests)} | {len(home.warm.requests)} |"
                f" {home.cold.units:g} |",
            ]
    return "\n".join(rows) + "\n"


def _requests(counts: Counts) -> str:
    rows = ["| use case | viewer | requests, cold |", "|---|---|---|"]
    for use_case, visitor, member in counts.cases:
        if visitor is not None:
            rows.append(f"| {use_case.name} | a visitor | {_listed(visitor.cold.requests)} |")
        rows.append(f"| {use_case.name} | a member | {_listed(member.cold.requests)} |")
        if member.refilled is not None:
            rows.append(f"| {use_case.name}, timeline in memory | a member | {_listed(member.refilled.requests)} |")
            rows.append(f"| {use_case.name}, timeline in a table | a member | {_listed(counts.home.cold.requests)} |")
    return "\n".join(rows) + "\n"


def _copies(counts: Counts) -> str:
    (followers,) = [case.visitor for case in counts.cases if case.use_case.name == "getFollowersByUserId"]
    assert followers is not None
    copies = counts.others
    return f"""\
| | one profile | copies |
|---|---:|---:|
| 25 followers, cold: requests | {len(followers.cold.requests)} | {copies.requests} |
| 25 followers, cold: read units | {followers.cold.units:g} | {copies.read_units:g} |
| entries with a copy of the member with 30 followers | 0 | {copies.entries} |
| a new picture or name: write units | {copies.one_profile:g} | {copies.write_units:g} |
| another number of followers or posts: write units beyond those of the follow or post | 0 | {copies.write_units:g} |
"""


def _follows(others: Alternatives) -> str:
    return f"""\
| the follows that a page of 21 authors needs | requests beyond the batch | read units | of a page of 21 other authors |
|---|---:|---:|---:|
| the whole list of 30, which is cached | 1 | {others.whole_list:g} | 0 |
| 21 associations, in the batch of the authors | 0 | {others.links:g} | {others.links:g} |
"""


def _listed(requests: Sequence[str]) -> str:
    return "<br>".join(f"{number}. {request}" for number, request in enumerate(requests, start=1))


def _in_place(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    place = re.compile(f"{re.escape(begin)}(?:.*{re.escape(end)})?", re.DOTALL)
    return place.sub(lambda _: f"{begin}\n{table}\n{end}", text, count=1)


async def _write() -> None:
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), await counted()), "utf-8")


if __name__ == "__main__":
    asyncio.run(_write())
