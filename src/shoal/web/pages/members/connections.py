"""Followers of a member, followees, and the followers whom the viewer knows."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.core.model import Member
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, AssocType
from shoal.queries import members
from shoal.queries.members import MemberPage, familiar
from shoal.web import rows
from shoal.web.pages.profile import member_of
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page, part
from shoal.web.views.people import face_of, people_of
from shoal.web.visit import Visit


class ConnectionsPath(BeforeQuery, frozen=True, kw_only=True):
    """A member, and a page of a list of others."""

    handle: Annotated[str, Meta(max_length=300)]


async def followers(visit: Visit, path: ConnectionsPath) -> Response:
    """A page of a member's followers, newest first."""
    title = visit.words.text("Followers of %(name)s")
    return await _connections(visit, path, FOLLOWED_BY, "followers", title)


async def following(visit: Visit, path: ConnectionsPath) -> Response:
    """A page of those whom a member follows, newest first."""
    title = visit.words.text("Followed by %(name)s")
    return await _connections(visit, path, FOLLOWS, "following", title)


async def known(visit: Visit, path: ConnectionsPath) -> Response:
    """Followers of a member whom the viewer follows."""
    viewer, member = visit.member, await member_of(visit, path.handle)
    found = (await familiar(visit.front.reads, viewer.id, (member.id,))).get(member.id, [])
    title = visit.words.text("Followers of %(name)s whom you follow")
    return await _shown(visit, member, MemberPage(found, [], None), "known", title)


async def _connections(visit: Visit, path: ConnectionsPath, atype: AssocType, tab: str, title: str) -> Response:
    member = await member_of(visit, path.handle)
    found = MemberPage([], [], None)
    if _shows(visit, member):
        found = await members.page(visit.front.reads, visit.viewer_id, member.id, atype, path.cursor(members.PAGE))
    return await _shown(visit, member, found, tab, title)


async def _shown(visit: Visit, member: Member, found: MemberPage, tab: str, title: str) -> Response:
    persons = await people_of(visit, found.profiles)
    following_page = next_of(visit, f"/@{member.name}/{tab}", found.next)
    if visit.partial:
        return part(visit, "people", people=persons, next=following_page)
    face = face_of(visit, member)
    return await page(
        visit,
        "connections",
        title=title % {"name": face.shown},
        people=persons,
        next=following_page,
        face=face,
        mine=member.id == visit.viewer_id,
        tab=tab,
        shows=_shows(visit, member),
    )


def _shows(visit: Visit, member: Member) -> bool:
    return not member.hides_connections or member.id == visit.viewer_id


ROUTES = (
    rows.page("/@{handle}/followers", followers, ConnectionsPath),
    rows.page("/@{handle}/following", following, ConnectionsPath),
    rows.page("/@{handle}/known", known, ConnectionsPath),
)
