"""Relationships between members: followers and followees, follow requests, mutes, blocks, private notes and list membership."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from markupsafe import Markup
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import lists, relationships
from shoal.commands.relationships import MAX_MUTE_SECONDS, FollowOptions
from shoal.core.errors import InvalidInput, NotAllowed, NotFound
from shoal.core.model import Member
from shoal.core.visibility import Relation
from shoal.graph.access import access_member, relation, relations
from shoal.graph.payloads.follows import mute_terms
from shoal.graph.schema import BLOCKS, FOLLOWED_BY, FOLLOWS, MUTES, REQUESTED_BY, AssocType
from shoal.http.params import Id
from shoal.queries import lists as list_feed
from shoal.queries import members
from shoal.queries.members import MemberPage, familiar
from shoal.web import routing
from shoal.web.form_errors import error_text
from shoal.web.profiles import member_of
from shoal.web.rendering import BeforeQuery, HandlePath, next_of, page, part
from shoal.web.request_context import Handle, IdForm, PageContext, Text
from shoal.web.settings_layout import settings_page
from shoal.web.view_models import Face, Relationship, face_of, people_of, person_of, relationship_of, with_time


async def followers(ctx: PageContext, path: HandlePath) -> Response:
    title = ctx.words.text("Followers of %(name)s")
    return await _connections(ctx, path, FOLLOWED_BY, "followers", title)


async def following(ctx: PageContext, path: HandlePath) -> Response:
    title = ctx.words.text("People %(name)s follows")
    return await _connections(ctx, path, FOLLOWS, "following", title)


async def known(ctx: PageContext, path: HandlePath) -> Response:
    """List the followees of the viewer who follow a member."""
    viewer, member = ctx.member, await member_of(ctx, path.handle)
    found = (await familiar(ctx.reads, viewer.id, (member.id,))).get(member.id, [])
    title = ctx.words.text("Followers of %(name)s you know")
    return await _connections_page(ctx, member, MemberPage(found, [], None), "known", title)


async def _connections(ctx: PageContext, path: HandlePath, atype: AssocType, tab: str, title: str) -> Response:
    member = await member_of(ctx, path.handle)
    found = MemberPage([], [], None)
    if _shows(ctx, member):
        found = await members.page(ctx.reads, ctx.viewer_id, member.id, atype, path.cursor(members.PAGE))
    return await _connections_page(ctx, member, found, tab, title)


async def _connections_page(ctx: PageContext, member: Member, found: MemberPage, tab: str, title: str) -> Response:
    persons = await people_of(ctx, found.profiles)
    following_page = next_of(ctx, f"/@{member.name}/{tab}", found.next)
    if ctx.partial:
        return part(ctx, "people", people=persons, next=following_page)
    face = face_of(ctx, member)
    return await page(
        ctx,
        "connections",
        title=title % {"name": face.shown},
        people=persons,
        next=following_page,
        face=face,
        mine=member.id == ctx.viewer_id,
        tab=tab,
        shows=_shows(ctx, member),
    )


def _shows(ctx: PageContext, member: Member) -> bool:
    return not member.hides_connections or member.id == ctx.viewer_id


class FollowAnswerForm(IdForm, frozen=True, kw_only=True):
    do: Literal["accept", "reject"]


async def requests(ctx: PageContext, query: BeforeQuery) -> Response:
    member = ctx.member
    found = await members.page(ctx.reads, member.id, member.id, REQUESTED_BY, query.cursor(members.PAGE))
    persons = await people_of(ctx, found.profiles)
    following = next_of(ctx, "/requests", found.next)
    if ctx.partial:
        return part(ctx, "askers", people=persons, next=following)
    title = ctx.words.text("Follow requests")
    return await page(ctx, "requests", title=title, people=persons, next=following, locked=member.locked)


async def answer(ctx: PageContext, asked: FollowAnswerForm) -> Response:
    member = ctx.checked(asked)
    verb = relationships.authorize_request if asked.do == "accept" else relationships.reject_request
    await verb(ctx.writes, member.id, asked.id)
    if ctx.partial:
        return part(ctx, "answered", accepted=asked.do == "accept")
    return ctx.back(asked, "/requests")


async def follow_all(ctx: PageContext, ids: Iterable[int]) -> None:
    """Follow these members, except deleted members and members with a block between them and the viewer.

    Raises `InvalidInput` when the viewer reaches the maximum number of follows. Until then, members are followed in the
    order of `ids`.
    """
    for id_ in dict.fromkeys(ids):
        with suppress(NotAllowed, NotFound):
            await relationships.follow(ctx.writes, ctx.member.id, id_)


_HOUR = 3_600
_DAY = 24 * _HOUR


class More(msgspec.Struct, frozen=True):
    face: Face
    relationship: Relationship
    relation: Relation
    muted: Markup | str
    """How long the member is still muted, as text; empty if the member is not muted."""
    spans: tuple[tuple[int, str], ...]
    lists: tuple[tuple[int, str, bool], ...]
    path: str
    """The path of the page, relative to the root."""


def _more(ctx: PageContext, member: Member, current: Relation, lists: Sequence[tuple[int, str, bool]]) -> More:
    _ = ctx.words.text
    muted: Markup | str = _("indefinitely") if current.muting else ""
    if current.muting and current.muted_until:
        muted = with_time(ctx, _("until %(when)s"), current.muted_until)
    spans = (
        (0, _("indefinitely")),
        (_HOUR, _("for an hour")),
        (_DAY, _("for a day")),
        (7 * _DAY, _("for a week")),
        (30 * _DAY, _("for a month")),
    )
    return More(
        face_of(ctx, member),
        relationship_of(ctx, member, current),
        current,
        muted,
        spans,
        tuple(lists),
        f"/@{member.name}/more",
    )


_MOST_LISTS = 1_000
_Done = Literal[
    "", "muted", "unmuted", "blocked", "unblocked", "removed", "endorsed", "unendorsed", "noted", "listed", "terms"
]


class MorePath(msgspec.Struct, frozen=True, kw_only=True):
    handle: Handle
    done: _Done = ""


class MuteForm(IdForm, frozen=True, kw_only=True):
    """The duration of a mute in seconds, and whether notifications are muted too.

    A duration of 0 means until the mute is undone.
    """

    seconds: Annotated[int, Meta(ge=0, le=MAX_MUTE_SECONDS)] = 0
    notifications: bool = False


class NoteForm(IdForm, frozen=True, kw_only=True):
    note: Text = ""


class ListsForm(IdForm, frozen=True, kw_only=True):
    lists: Annotated[tuple[Id, ...], Meta(max_length=_MOST_LISTS)] = ()


class TermsForm(IdForm, frozen=True, kw_only=True):
    """The options of a follow: whether shares appear in the home timeline, and whether posts cause notifications."""

    shares: bool = False
    notify: bool = False


async def more(ctx: PageContext, path: MorePath, typed: str | None = None, wrong: str = "") -> Response:
    """Show the menu of a profile.

    A script gets the menu only. Anonymous viewers and the member get it as a page. Other viewers get a page with the
    settings of their relationship with the member.
    """
    me, member, graph = ctx.viewer, await member_of(ctx, path.handle), ctx.graph
    current = await relation(graph, ctx.viewer_id, member.id)
    menu: dict[str, Any] = {"more": _more(ctx, member, current, ()), "token": ctx.form_token}
    if ctx.partial:
        return part(ctx, "member_choices", **menu)
    if me is None or me.id == member.id:
        return await page(ctx, "member_choices", title=ctx.words.text("More options"), **menu)
    owned = await list_feed.owned(graph, me.id) if current.following else []
    on = {list_.id for list_ in await list_feed.with_member(graph, me.id, member.id)} if owned else set()
    shown = _more(ctx, member, current, [(list_.id, list_.title, list_.id in on) for list_ in owned])
    return await page(
        ctx,
        "more",
        title=ctx.words.text("More about %(name)s") % {"name": shown.face.shown},
        more=shown,
        done=path.done,
        note=current.note if typed is None else typed,
        wrong=wrong,
        most=ctx.limits.private_note,
    )


async def mute(ctx: PageContext, asked: MuteForm) -> Response:
    me = ctx.checked(asked)
    await relationships.mute(ctx.writes, me.id, asked.id, notifications=asked.notifications, seconds=asked.seconds)
    return ctx.back(asked)


async def note(ctx: PageContext, asked: NoteForm) -> Response:
    me = ctx.checked(asked)
    try:
        await relationships.note(ctx.writes, me.id, asked.id, asked.note)
    except InvalidInput as error:
        member = await access_member(ctx.graph, asked.id)
        return await more(ctx, MorePath(handle=member.name), asked.note, error_text(ctx.words, error))
    return ctx.back(asked)


async def put_on_lists(ctx: PageContext, asked: ListsForm) -> Response:
    """Put a member on the selected lists, and remove the member from all other lists of the viewer."""
    me, writes = ctx.checked(asked), ctx.writes
    current = {list_.id for list_ in await list_feed.with_member(ctx.graph, me.id, asked.id)}
    selected: set[int] = set(asked.lists)
    for list_id in selected - current:
        await lists.put_on(writes, me.id, list_id, (asked.id,))
    for list_id in current - selected:
        await lists.take_off(writes, me.id, list_id, (asked.id,))
    return ctx.back(asked)


async def set_terms(ctx: PageContext, asked: TermsForm) -> Response:
    """Set whether the viewer sees a followee's shares, and whether the followee's posts cause notifications."""
    me = ctx.checked(asked)
    current = await relation(ctx.graph, me.id, asked.id)
    if not (current.following or current.requested):
        raise NotAllowed(ctx.words.text("You are not following this person."))
    await relationships.follow(ctx.writes, me.id, asked.id, FollowOptions(shares=asked.shares, notify=asked.notify))
    return ctx.back(asked)


_SIZE = 40
_LISTS = {"muted": MUTES, "blocked": BLOCKS}


class MutedQuery(BeforeQuery, frozen=True, kw_only=True):
    show: Literal["muted", "blocked"] = "muted"


async def show(ctx: PageContext, query: MutedQuery) -> Response:
    member, reads, _ = ctx.member, ctx.reads, ctx.words.text
    atype = _LISTS[query.show]
    found = await members.page(reads, member.id, member.id, atype, query.cursor(_SIZE), severed=True)
    relations_by_id = await relations(reads.graph, member.id, [profile.member.id for profile in found.profiles])
    ends = [mute_terms(data).expires_at if atype is MUTES else 0 for data in found.data]
    until = _("until %(when)s")
    shown = [
        person_of(
            ctx,
            shown_profile,
            relations_by_id[shown_profile.member.id],
            with_time(ctx, until, end) if end else "",
        )
        for shown_profile, end in zip(found.profiles, ends, strict=True)
    ]
    following = next_of(ctx, "/settings/people", found.next, show=query.show)
    return await settings_page(ctx, "people", tab=query.show, people=shown, next=following)


ROUTES = (
    routing.page("/@{handle}/followers", followers, HandlePath),
    routing.page("/@{handle}/following", following, HandlePath),
    routing.page("/@{handle}/known", known, HandlePath),
    routing.page("/requests", requests, BeforeQuery),
    routing.form("/requests/{id}", answer, FollowAnswerForm),
    routing.page("/@{handle}/more", more, MorePath),
    routing.form("/members/{id}/mute", mute, MuteForm),
    routing.form("/members/{id}/note", note, NoteForm),
    routing.form("/members/{id}/lists", put_on_lists, ListsForm),
    routing.form("/members/{id}/terms", set_terms, TermsForm),
    routing.page("/settings/people", show, MutedQuery),
)
