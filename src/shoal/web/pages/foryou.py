"""Ranked feeds: For you, with the reasons of each post, and catching up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.commands.ranking import MOST_SEEN_AT_ONCE
from shoal.http.convert import Id
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.foryou.feed import RankedEntry
from shoal.queries.foryou.ranking import decode_cursor
from shoal.web import rows
from shoal.web.paging import SIZE
from shoal.web.rendering import page, part
from shoal.web.views.posts import PostView, answered, post_of, with_first_photo
from shoal.web.views.ranking import why_of
from shoal.web.views.tabs import home_tabs
from shoal.web.visit import Form, Visit


class RankedQuery(msgspec.Struct, frozen=True):
    """A page of For you."""

    cursor: Annotated[str, Meta(max_length=64)] = ""


class SeenForm(Form, frozen=True, kw_only=True):
    """Posts that were on the screen."""

    ids: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MOST_SEEN_AT_ONCE)]


async def for_you(visit: Visit, query: RankedQuery) -> Response:
    """The posts that should interest the member most, best first, each with its reasons."""
    member = visit.member
    cursor = decode_cursor(query.cursor) if query.cursor else None
    found = await feed.page(visit.front.reads, member.id, SIZE, cursor, explain=True)
    posts = await _ranked(visit, found.entries)
    following = visit.url("/for-you", cursor=found.next) if found.next else ""
    _ = visit.words.text
    end = _("That is all for now.")
    if visit.partial:
        return part(visit, "posts", posts=posts, next=following, end=end)
    return await page(
        visit,
        "for_you",
        title=_("For you"),
        tab="for-you",
        tabs=await home_tabs(visit),
        posts=posts,
        next=following,
        end=end,
        by_time=found.by_time,
    )


async def caught_up(visit: Visit, _params: None) -> Response:
    """The best of what one missed, friends who post rarely first; it has an end."""
    member, words = visit.member, visit.words
    found = await catch_up(visit.front.reads, member.id, explain=True)
    quiet, best = [await _ranked(visit, one) for one in (found.quiet, found.best)]
    since = words.full(found.since)
    left = words.plural("%(n)s more post is in your home.", "%(n)s more posts are in your home.", found.left_out)
    return await page(
        visit,
        "catch_up",
        title=words.text("Catch up"),
        tab="catch-up",
        tabs=await home_tabs(visit),
        quiet=quiet,
        best=best,
        end=words.text("That is all since %(when)s.") % {"when": since},
        left_out=left % {"n": words.number(found.left_out)} if found.left_out else "",
    )


async def seen(visit: Visit, told: SeenForm) -> Response:
    """Remember that posts were on the screen."""
    member = visit.checked(told)
    await ranking.add_seen_posts(visit.front.writes, member.id, told.ids)
    return Response(status_code=204)


async def _ranked(visit: Visit, entries: Sequence[RankedEntry]) -> list[PostView]:
    names = await answered(visit, [one.entry for one in entries])
    return with_first_photo(
        [post_of(visit, one.entry, names, why=why_of(visit, one.why, one.entry)) for one in entries]
    )


ROUTES = (
    rows.page("/for-you", for_you, RankedQuery),
    rows.page("/catch-up", caught_up),
    rows.form("/seen", seen, SeenForm),
)
