"""The 64 data sources and what lies on each, as a plate of squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from shoal.graph.bulk import Spread
from shoal.ops.moves.shards import Evenness
from shoal.web.visit import Visit

_ACROSS = 8
_CELL = 40
_SHADES = 5


class Cell(msgspec.Struct, frozen=True):
    """A data source on the plate: its place, and a shade from 0 (few members) to 4 (many)."""

    x: int
    y: int
    shade: int
    number: int
    words: str


class EvennessRow(msgspec.Struct, frozen=True):
    """Mean, deviation and extremes of what lies on the data sources."""

    name: str
    mean: str
    deviation: str
    part: str
    """The deviation in percent of the mean."""
    least: str
    most: str


class ShardsView(msgspec.Struct, frozen=True):
    """Everything on the page of data sources."""

    cells: tuple[Cell, ...]
    rows: tuple[EvennessRow, ...]


def shards_of(visit: Visit, held: Sequence[Spread], even: Mapping[str, Evenness]) -> ShardsView:
    """Return what lies on each data source, and how evenly."""
    words, members = visit.words, [each.members for each in held]
    low, high = min(members), max(members)
    cells = tuple(
        Cell(
            n % _ACROSS * _CELL,
            n // _ACROSS * _CELL,
            round((each.members - low) / max(1, high - low) * (_SHADES - 1)),
            n,
            words.text("Data source %(n)d: %(members)s members, %(posts)s posts")
            % {"n": n, "members": words.number(each.members), "posts": words.number(each.posts)},
        )
        for n, each in enumerate(held)
    )
    names = {"members": words.text("Members"), "posts": words.text("Posts"), "bytes": words.text("Bytes")}
    rows = tuple(
        EvennessRow(
            names[name],
            words.decimal(one.mean, ",.1f"),
            words.decimal(one.deviation, ",.1f"),
            f"{words.decimal(100 * one.deviation / one.mean, '.1f')} %" if one.mean else "",
            words.number(one.least),
            words.number(one.most),
        )
        for name, one in even.items()
    )
    return ShardsView(cells, rows)
