"""A tag as its page shows it: its week as bars, and why it is where it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from babel.dates import format_date

from shoal.tagcloud.cloud import DailyUses, RelatedTag, TagSummary, Trend
from shoal.tagcloud.contract import DAY_MS
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
    visit: Visit, name: str, found: TagSummary | None, alike: Sequence[RelatedTag], *, following: bool
) -> TagView:
    """Return a tag. One that nobody counted (denied, new or never used) has no days and no reasons."""
    words = visit.words
    icon, said = _TRENDS[found.trend] if found else ("hash", "")
    return TagView(
        name,
        found.form if found else name,
        tag_path(visit, name),
        following,
        words.plural("%(n)s post", "%(n)s posts", found.uses) % {"n": words.number(found.uses)} if found else "",
        words.text(said) if said else "",
        icon,
        tuple(_days(visit, found)) if found else (),
        tuple(_reasons(visit, found)) if found else (),
        found.merged if found else (),
        tuple((one.form, tag_path(visit, one.name)) for one in alike),
    )


def _days(visit: Visit, tag: DailyUses) -> Iterator[DayBar]:
    most = max(1, *(day.uses for day in tag.days))
    for day in reversed(tag.days):
        at = datetime.fromtimestamp(day.day * DAY_MS / 1000, UTC)
        height = max(_LEAST, round(_HIGH * day.uses / most, 1)) if day.uses else _LEAST
        yield DayBar(format_date(at, "EEE", locale=visit.words.code), visit.words.number(day.uses), height)


def _reasons(visit: Visit, tag: TagSummary) -> Iterator[str]:
    """Yield why a tag is where it is, in sentences."""
    words = visit.words
    if tag.recent_uses:
        by = words.plural("by %(n)s person", "by %(n)s people", tag.members) % {"n": words.number(tag.members)}
        text = words.plural(
            "Used %(n)s time since yesterday, %(by)s.", "Used %(n)s times since yesterday, %(by)s.", tag.recent_uses
        )
        yield text % {"n": words.number(tag.recent_uses), "by": by}
    else:
        yield words.text("Not used since yesterday.")
    if tag.recent_uses > 1 and tag.members > 1 and tag.loudest >= _LOUD:
        yield words.text("One of them is behind %(n)s %% of it, which counts for less.") % {
            "n": round(100 * tag.loudest)
        }
    if tag.rising:
        yield words.text("That is more than its week lets one expect, so it is among the rising tags.")
    else:
        yield words.text("That is no more than its week lets one expect, so it is not among the rising tags.")
