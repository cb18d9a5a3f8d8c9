"""A tag as its page shows it: its week as bars, and why it is where it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from babel.dates import format_date

from shoal.tagcloud.increment import DAY_MS
from shoal.tagcloud.likeness import RelatedTag
from shoal.tagcloud.words import Counted, Trend, trend
from shoal.web.views.posts import tag_path
from shoal.web.visit import Visit

_HIGH = 60
"""The height of the greatest bar."""
_LEAST = 1.5
_LOUD = 0.4
"""From this share on it is said that one member used a tag most."""
_TRENDS = {
    Trend.UP: ("trending-up", "On the rise"),
    Trend.MORE: ("trending-up", "A little livelier than its week"),
    Trend.STEADY: ("chart-no-axes-column", "As lively as its week"),
    Trend.LESS: ("chart-no-axes-column", "A little quieter than its week"),
    Trend.DOWN: ("chart-no-axes-column", "Quieter than its week"),
}


class DayBar(NamedTuple):
    """A day of a tag, as a bar."""

    name: str
    """The day of the week, in short."""
    uses: str
    height: float
    """0 to 60."""


class TagView(msgspec.Struct, frozen=True):
    """A tag."""

    name: str
    form: str
    """The spelling that most use."""
    path: str
    following: bool
    uses: str
    trend: str
    icon: str
    days: tuple[DayBar, ...]
    """The last seven, oldest first."""
    reasons: tuple[str, ...]
    merged: tuple[str, ...]
    alike: tuple[tuple[str, str], ...]
    """Tags that go with it, each with its address."""


def tag_view(
    visit: Visit, name: str, counted: Counted | None, alike: Sequence[RelatedTag], *, following: bool
) -> TagView:
    """Return a tag. One that nobody counted (denied, new or never used) has no days and no reasons."""
    words = visit.words
    icon, said = _TRENDS[trend(counted)] if counted else ("hash", "")
    return TagView(
        name,
        counted.form if counted else name,
        tag_path(visit, name),
        following,
        words.plural("%(n)s post", "%(n)s posts", counted.uses) % {"n": words.number(counted.uses)} if counted else "",
        words.text(said) if said else "",
        icon,
        tuple(_days(visit, counted)) if counted else (),
        tuple(_reasons(visit, counted)) if counted else (),
        counted.merged if counted else (),
        tuple((one.form, tag_path(visit, one.name)) for one in alike),
    )


def _days(visit: Visit, counted: Counted) -> Iterator[DayBar]:
    most = max(1, *(day.uses for day in counted.days))
    for day in reversed(counted.days):
        at = datetime.fromtimestamp(day.day * DAY_MS / 1000, UTC)
        height = max(_LEAST, round(_HIGH * day.uses / most, 1)) if day.uses else _LEAST
        yield DayBar(format_date(at, "EEE", locale=visit.words.code), visit.words.number(day.uses), height)


def _reasons(visit: Visit, counted: Counted) -> Iterator[str]:
    """Yield why a tag is where it is, in sentences."""
    words, why = visit.words, counted.reasons
    if why.today:
        by = words.plural("by %(n)s person", "by %(n)s people", why.members) % {"n": words.number(why.members)}
        text = words.plural(
            "Used %(n)s time since yesterday, %(by)s.", "Used %(n)s times since yesterday, %(by)s.", why.today
        )
        yield text % {"n": words.number(why.today), "by": by}
    else:
        yield words.text("Not used since yesterday.")
    if why.today > 1 and why.members > 1 and why.loudest >= _LOUD:
        yield words.text("One of them is behind %(n)s %% of it, which counts for less.") % {
            "n": round(100 * why.loudest)
        }
    if why.surprise > 0:
        yield words.text("That is more than its week lets one expect, so it is among the rising tags.")
    else:
        yield words.text("That is no more than its week lets one expect, so it is not among the rising tags.")
