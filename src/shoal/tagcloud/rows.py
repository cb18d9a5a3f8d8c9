"""Rows of tags as databases keep them: columns for what is searched and sorted by, one blob for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from shoal.tagcloud.contract import Day, Merge, TagRow, TagRule
from shoal.tagcloud.heat import Heat

Rest = tuple[tuple[Heat, Heat, Heat], dict[str, int], dict[int, Day]]

ORDER_COLUMNS = ("hour", "day", "week", "n")
"""By the windows of `heat`; the last one is that of window -1."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Rest)


def row_values(row: TagRow) -> tuple[int, str, int, float, float, float, bytes]:
    """Id, name, uses, the ranks of the three heats, and the rest."""
    hour, day, week = row.heats
    rest = _encoder.encode((row.heats, row.forms, row.days))
    return row.id, row.name, row.n, hour.rank, day.rank, week.rank, rest


def rows_of(found: Iterable[Any]) -> list[TagRow]:
    """Rows from their id, name, uses and rest."""
    return [TagRow(id_, name, n, *_decoder.decode(rest)) for id_, name, n, rest in found]


class Parts:
    """The changes of a merge to each table, in the order of the table's key: neighbours share a page.

    And two writers that change the same rows do so in one order, so that they never wait for each other in a circle.
    """

    def __init__(self, merge: Merge) -> None:
        rows = sorted({row.id: row for row in merge.rows}.items())
        self.rows = [row_values(row) for _, row in rows if not row.blank]
        self.gone = [id_ for id_, row in rows if row.blank]
        recent = sorted(
            (day, tag, member, n) for (tag, day, member), n in merge.authors.items() if day >= merge.before_day
        )
        self.authors = [author for author in recent if author[3]]
        """Day, tag, member, and how often."""
        self.silent = [author[:3] for author in recent if not author[3]]
        rules = {rule.name: rule for rule in merge.rules}.values()
        self.rules = [rule for rule in rules if says_something(rule)]
        self.revoked = [rule.name for rule in rules if not says_something(rule)]
        self.increments = sorted(set(merge.increments))
        self.marks = sorted(merge.marks.items())


def says_something(rule: TagRule) -> bool:
    """Whether a rule is to be kept."""
    return rule.denied or bool(rule.target)
