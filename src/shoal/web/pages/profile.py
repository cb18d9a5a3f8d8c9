"""A member's profile."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import members, relationships
from shoal.core.errors import Gone, NotFound
from shoal.core.filters import FilterContext
from shoal.core.model import Member
from shoal.graph.access import relation
from shoal.graph.contract import Cursor
from shoal.graph.schema import ENDORSES
from shoal.http.convert import Id
from shoal.queries import members as member_queries
from shoal.queries import posts
from shoal.queries import tags as tag_queries
from shoal.queries.hydration import Profile, profiles_by_id
from shoal.queries.members import familiar
from shoal.queries.pipeline import Page, filtered
from shoal.web import rows
from shoal.web.pages import syndication
from shoal.web.paging import BeforeQuery, feed_page, next_of
from shoal.web.rendering import part
from shoal.web.views.cards import profile_card
from shoal.web.views.people import bond_of, face_of
from shoal.web.views.posts import posts_of
from shoal.web.views.profiles import ProfileFacts, ProfileHead, head_of
from shoal.web.visit import Form, Visit

_ENDORSED = 6
"""Members whom a profile recommends that are shown there."""
_FOLLOW = {"follow": relationships.follow, "unfollow": relationships.unfollow}
_OTHERS = {
    "block": relationships.block,
    "unblock": relationships.unblock,
    "mute": relationships.mute,
    "unmute": relationships.unmute,
    "remove": relationships.remove_follower,
    "endorse": relationships.endorse,
    "unendorse": relationships.unendorse,
}


class HandlePath(BeforeQuery, frozen=True, kw_only=True):
    """A member by name."""

    handle: Annotated[str, Meta(max_length=300)]


class ProfilePath(HandlePath, frozen=True, kw_only=True):
    """A member's profile, and which of their posts are wanted."""

    show: Literal["photos", "posts", "replies"] = "photos"


class BondForm(Form, frozen=True, kw_only=True):
    """A change in how one stands to a member."""

    id: Id
    do: Literal["follow", "unfollow", "block", "unblock", "mute", "unmute", "remove", "endorse", "unendorse"]


_QUERIES = {
    "photos": posts.MemberFeedQuery(only_media=True, no_shares=True, no_comments=True),
    "posts": posts.MemberFeedQuery(no_comments=True),
    "replies": posts.ALL,
}


async def show(visit: Visit, path: ProfilePath) -> Response:
    """The page of a member: who they are, and what they posted."""
    name, ending = syndication.ending_of(path.handle)
    member = await member_of(visit, name)
    if ending:
        return await syndication.of_member(visit, member, ending)
    found = await _posts(visit, member, path)
    asked = {} if path.show == "photos" else {"show": path.show}
    following = next_of(visit, f"/@{member.name}", found.next, **asked)
    if visit.partial and path.show == "photos":
        return part(visit, "photo_grid", posts=await posts_of(visit, found.entries), next=following)
    if visit.partial:
        return part(visit, "posts", posts=await posts_of(visit, found.entries), next=following, end="")
    profile, shown = await _profile(visit, member)
    title = f"{shown.face.shown} (@{member.name})"
    card = profile_card(visit, profile)
    return await feed_page(visit, "profile", found, following, title=title, head=shown, tab=path.show, card=card)


async def _posts(visit: Visit, member: Member, path: ProfilePath) -> Page:
    reads, viewer = visit.front.reads, visit.viewer_id
    cursor = path.cursor(24 if path.show == "photos" else 20)
    found = await posts.authored_page(reads, viewer, member.id, cursor, _QUERIES[path.show])
    entries = await filtered(reads.graph, viewer, found.entries, FilterContext.ACCOUNT)
    if path.show == "posts" and not path.before:
        top = await posts.pinned(reads, viewer, member.id)
        entries = [*top, *(entry for entry in entries if entry.id not in {one.id for one in top})]
    return Page(entries, found.next)


async def head(visit: Visit, member: Member) -> ProfileHead:
    """Return the head of a member's profile."""
    return (await _profile(visit, member))[1]


async def _profile(visit: Visit, member: Member) -> tuple[Profile, ProfileHead]:
    reads, viewer = visit.front.reads, visit.viewer_id
    others = viewer if viewer != member.id else None
    profiles, relation_, known, endorsed, tags, received = await asyncio.gather(
        profiles_by_id(reads.graph, viewer, (member.id,)),
        relation(reads.graph, viewer, member.id),
        familiar(reads, others, (member.id,)) if others is not None else _nobody(),
        member_queries.page(reads, viewer, member.id, ENDORSES, Cursor(limit=_ENDORSED)),
        tag_queries.names(reads.graph, member.id),
        member_queries.received(reads, viewer, member.id),
    )
    if not profiles:
        # Suspended since the member was read.
        raise Gone(visit.words.text("This member is suspended."))
    facts = ProfileFacts(relation_, known.get(member.id, []), endorsed.profiles, tags, received)
    return profiles[0], head_of(visit, profiles[0], facts)


async def _nobody() -> dict[int, list[Profile]]:
    return {}


async def bond(visit: Visit, asked: BondForm) -> Response:
    """Follow, unfollow, mute, block, or take it back; a script gets the button anew."""
    me, writes = visit.checked(asked), visit.front.writes
    verb = _FOLLOW.get(asked.do) or _OTHERS[asked.do]
    stand = await verb(writes, me.id, asked.id)
    if not visit.partial:
        return visit.back(asked)
    node = (await visit.front.graph.obj_get((asked.id,))).get(asked.id)
    if not isinstance(node, Member):
        raise NotFound("There is no such member")
    return part(visit, "follow", bond=bond_of(visit, node, stand), face=face_of(visit, node))


async def member_of(visit: Visit, name: str) -> Member:
    """Return the member with this user name. Raises `NotFound`, or `Gone` for somebody who is suspended."""
    member = await members.find(visit.front.writes, name) if "@" not in name else None
    if member is None or member.pending:
        raise NotFound("There is no such member")
    if member.suspended:
        raise Gone(visit.words.text("This member is suspended."))
    return member


ROUTES = (
    rows.page("/@{handle}", show, ProfilePath, remembered=True),
    rows.form("/members/{id}/bond", bond, BondForm),
)
