"""A tag: its newest posts, its use over the past week, its trend and related tags; follow and unfollow it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec
from babel.dates import format_date
from starlette.responses import Response

from shoal.commands import relationships
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.filters import FilterContext
from shoal.core.text import check_tag
from shoal.graph.schema import FOLLOWS_TAG, tag_id
from shoal.queries import public_timelines, tags
from shoal.queries.pipeline import filtered
from shoal.tagcloud.cloud import DailyUses, RelatedTag, TagSummary, Trend
from shoal.tagcloud.contract import DAY_MS
from shoal.web import routing, syndication
from shoal.web.rendering import BeforeQuery, feed_page, next_of, part
from shoal.web.request_context import Form, TagName, Visit
from shoal.web.timelines import home_tabs
from shoal.web.view_models import tag_path

_HIGH = 60
"""Height of the highest bar."""
_LEAST = 1.5
_LOUD = 0.4
"""Minimum fraction of a tag's uses by one member that is mentioned."""
_TRENDS = {
    Trend.UP: ("trending-up", "On the rise"),
    Trend.MORE: ("trending-up", "A little livelier than its week"),
    Trend.STEADY: ("chart-no-axes-column", "As lively as its week"),
    Trend.LESS: ("chart-no-axes-column", "A little quieter than its week"),
    Trend.DOWN: ("chart-no-axes-column", "Quieter than its week"),
}


class DayBar(NamedTuple):
    name: str
    """The abbreviated weekday."""
    uses: str
    height: float
    """0 to 60."""


class TagView(msgspec.Struct, frozen=True):
    name: str
    form: str
    """The most used spelling."""
    path: str
    following: bool
    uses: str
    trend: str
    icon: str
    days: tuple[DayBar, ...]
    """The last seven days, oldest first."""
    reasons: tuple[str, ...]
    merged: tuple[str, ...]
    alike: tuple[tuple[str, str], ...]
    """Related tags, each with its URL."""


def _tag_view(
    visit: Visit, name: str, found: TagSummary | None, alike: Sequence[RelatedTag], *, following: bool
) -> TagView:
    words = visit.words
    icon, said = _TRENDS[found.trend] if found else ("hash", "")
    return TagView(
        name,
        found.form if found else name,
        tag_path(visit, name),
        following,
        words.counted("%(n)s post", "%(n)s posts", found.uses) if found else "",
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
    words, _ = visit.words, visit.words.text
    if tag.recent_uses:
        yield words.counted(
            "Used %(n)s time since yesterday, %(by)s.",
            "Used %(n)s times since yesterday, %(by)s.",
            tag.recent_uses,
            by=words.counted("by %(n)s person", "by %(n)s people", tag.members),
        )
    else:
        yield _("Not used since yesterday.")
    if tag.recent_uses > 1 and tag.members > 1 and tag.loudest >= _LOUD:
        yield _("One of them is behind %(n)s %% of it, which counts for less.") % {"n": round(100 * tag.loudest)}
    if tag.rising:
        yield _("That is more than its week lets one expect, so it is among the rising tags.")
    else:
        yield _("That is no more than its week lets one expect, so it is not among the rising tags.")


_ALIKE = 8


class TagPath(BeforeQuery, frozen=True, kw_only=True):
    name: TagName


class TagForm(Form, frozen=True, kw_only=True):
    name: TagName
    do: Literal["follow", "unfollow"]


async def tag(visit: Visit, path: TagPath) -> Response:
    stem, ending = syndication.ending_of(path.name)
    name = _checked(stem)
    if ending:
        return await syndication.of_tag(visit, name, ending)
    reads = visit.reads
    found = await public_timelines.tag_page(
        reads, visit.viewer_id, public_timelines.TagQuery(frozenset((name,))), path.cursor()
    )
    entries = await filtered(reads.graph, visit.viewer_id, found.entries, FilterContext.PUBLIC)
    following = next_of(visit, f"/tags/{stem}", found.next)
    if visit.partial:
        return await feed_page(visit, "tag", entries, following)
    shown = await _shown(visit, name)
    return await feed_page(
        visit,
        "tag",
        entries,
        following,
        title=f"#{shown.form}",
        tag=shown,
        tab=f"tag-{name}",
        tabs=await home_tabs(visit) if shown.following else [],
    )


async def follow(visit: Visit, asked: TagForm) -> Response:
    """Follow or unfollow a tag. A script gets the updated button."""
    member = visit.checked(asked)
    name = _checked(asked.name)
    verb = relationships.follow_tag if asked.do == "follow" else relationships.unfollow_tag
    await verb(visit.writes, member.id, name)
    if visit.partial:
        return part(visit, "follow_tag", tag=_tag_view(visit, name, None, (), following=asked.do == "follow"))
    return visit.back(asked, f"/tags/{name}")


async def _shown(visit: Visit, name: str) -> TagView:
    found, alike, following = await asyncio.gather(_summary(visit, name), _alike(visit, name), _follows(visit, name))
    # A denied tag is not in the cloud, so show neither its numbers nor its related tags.
    return _tag_view(visit, name, found, alike if found else (), following=following)


async def _summary(visit: Visit, name: str) -> TagSummary | None:
    """Return the statistics of a tag; None if it was denied or never used, and while the tag cloud is unavailable."""
    try:
        return await visit.reads.tags.summary(name)
    except Unavailable:
        return None


async def _alike(visit: Visit, name: str) -> list[RelatedTag]:
    try:
        return await tags.related(visit.reads, name, _ALIKE)
    except Unavailable:
        return []


async def _follows(visit: Visit, name: str) -> bool:
    if visit.viewer_id is None:
        return False
    held = await visit.graph.assoc_get(visit.viewer_id, (FOLLOWS_TAG,), (tag_id(name),))
    return bool(held[FOLLOWS_TAG])


def _checked(name: str) -> str:
    try:
        return check_tag(name)
    except InvalidInput:
        raise NotFound("There is no such tag") from None


ROUTES = (
    routing.page("/tags/{name}", tag, TagPath, remembered=True),
    routing.form("/tags/{name}/follow", follow, TagForm),
)
