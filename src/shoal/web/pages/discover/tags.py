"""A tag: its newest posts, its week, why it is where it is; and following it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import relationships
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.filters import FilterContext
from shoal.core.text import check_tag
from shoal.graph.schema import FOLLOWS_TAG, tag_id
from shoal.queries import public_timelines, tags
from shoal.queries.pipeline import Page, filtered
from shoal.tagcloud.cloud import RelatedTag, TagSummary
from shoal.web import rows
from shoal.web.pages import syndication
from shoal.web.paging import NamedQuery, feed_page, next_of
from shoal.web.rendering import part
from shoal.web.views.tabs import home_tabs
from shoal.web.views.tags import TagView, tag_view
from shoal.web.visit import Form, Visit

_ALIKE = 8


class TagForm(Form, frozen=True, kw_only=True):
    """Follow a tag, or do not any more."""

    name: Annotated[str, Meta(max_length=400)]
    do: Literal["follow", "unfollow"]


async def tag(visit: Visit, path: NamedQuery) -> Response:
    """The newest public posts under a tag."""
    stem, ending = syndication.ending_of(path.name)
    name = _checked(stem)
    if ending:
        return await syndication.of_tag(visit, name, ending)
    reads = visit.front.reads
    found = await public_timelines.tag_page(
        reads, visit.viewer_id, public_timelines.TagQuery(frozenset((name,))), path.cursor()
    )
    entries = await filtered(reads.graph, visit.viewer_id, found.entries, FilterContext.PUBLIC)
    following = next_of(visit, f"/tags/{stem}", found.next)
    if visit.partial:
        return await feed_page(visit, "tag", Page(entries, found.next), following)
    shown = await _shown(visit, name)
    return await feed_page(
        visit,
        "tag",
        Page(entries, found.next),
        following,
        title=f"#{shown.form}",
        tag=shown,
        tab=f"tag-{name}",
        tabs=await home_tabs(visit) if shown.following else [],
    )


async def follow(visit: Visit, asked: TagForm) -> Response:
    """Follow a tag, or do not any more; a script gets the button anew."""
    member = visit.checked(asked)
    name = _checked(asked.name)
    verb = relationships.follow_tag if asked.do == "follow" else relationships.unfollow_tag
    await verb(visit.front.writes, member.id, name)
    if visit.partial:
        return part(visit, "follow_tag", tag=tag_view(visit, name, None, (), following=asked.do == "follow"))
    return visit.back(asked, f"/tags/{name}")


async def _shown(visit: Visit, name: str) -> TagView:
    found, alike, following = await asyncio.gather(_summary(visit, name), _alike(visit, name), _follows(visit, name))
    # What moderators denied is in no cloud, so its numbers and its neighbours are nowhere either.
    return tag_view(visit, name, found, alike if found else (), following=following)


async def _summary(visit: Visit, name: str) -> TagSummary | None:
    """Return the numbers of a tag; None for one that was denied or never used, and while the tag cloud is away."""
    try:
        return await visit.front.reads.tags.summary(name)
    except Unavailable:
        return None


async def _alike(visit: Visit, name: str) -> list[RelatedTag]:
    try:
        return await tags.related(visit.front.reads, name, _ALIKE)
    except Unavailable:
        return []


async def _follows(visit: Visit, name: str) -> bool:
    if visit.viewer_id is None:
        return False
    held = await visit.front.graph.assoc_get(visit.viewer_id, (FOLLOWS_TAG,), (tag_id(name),))
    return bool(held[FOLLOWS_TAG])


def _checked(name: str) -> str:
    try:
        return check_tag(name)
    except InvalidInput:
        raise NotFound("There is no such tag") from None


ROUTES = (
    rows.page("/tags/{name}", tag, NamedQuery, remembered=True),
    rows.form("/tags/{name}/follow", follow, TagForm),
)
