"""Members who like a post, who shared it, and who reacted to it with an emoji."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.graph.contract import Cursor
from shoal.graph.schema import LIKED_BY, SHARED_BY
from shoal.http.convert import Id
from shoal.queries import members
from shoal.queries.hydration import Entry
from shoal.queries.members import MemberPage
from shoal.web import rows
from shoal.web.pages.posts import post_with_id
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page, part
from shoal.web.views.people import people_of
from shoal.web.views.posts import post_of
from shoal.web.visit import Visit

_LISTS = {"likes": LIKED_BY, "shares": SHARED_BY}


class LikesPath(BeforeQuery, frozen=True, kw_only=True):
    """A post, and what was done to it: `likes`, `shares`, or an emoji."""

    id: Id
    by: Annotated[str, Meta(max_length=100)] = "likes"


async def likes(visit: Visit, path: LikesPath) -> Response:
    """A page of the members who like a post, shared it, or put an emoji on it, newest first."""
    entry = await post_with_id(visit, path.id)
    found = await _found(visit, path, entry)
    persons = await people_of(visit, found.profiles)
    following = next_of(visit, f"/posts/{entry.post.id}/likes", found.next, by=path.by)
    if visit.partial:
        return part(visit, "people", people=persons, next=following)
    words = visit.words
    tabs = [
        ("likes", words.plural("%(n)s like", "%(n)s likes", entry.likes) % {"n": words.number(entry.likes)}),
        ("shares", words.plural("%(n)s share", "%(n)s shares", entry.shares) % {"n": words.number(entry.shares)}),
        *((one.emoji, f"{one.emoji} {words.number(one.count)}") for one in entry.emoji),
    ]
    return await page(
        visit,
        "likes",
        title=words.text("Who likes and shares it"),
        post=post_of(visit, entry),
        people=persons,
        next=following,
        tabs=tabs,
        tab=path.by,
    )


async def _found(visit: Visit, path: LikesPath, entry: Entry) -> MemberPage:
    reads, cursor = visit.front.reads, Cursor(path.cursor().before, 0, members.PAGE)
    atype = _LISTS.get(path.by)
    if atype is not None:
        return await members.page(reads, visit.viewer_id, entry.post.id, atype, cursor)
    return (await members.emoji_page(reads, visit.viewer_id, entry.post.id, path.by, cursor))[1]


ROUTES = (rows.page("/posts/{id}/likes", likes, LikesPath),)
