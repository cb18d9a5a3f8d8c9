"""Relationships between members: followers and followees, follow requests, mutes, blocks, private notes and list membership."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Literal

import msgspec
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
from shoal.web.form_errors import told
from shoal.web.profiles import member_of
from shoal.web.rendering import BeforeQuery, HandlePath, next_of, page, part
from shoal.web.request_context import Handle, IdForm, Text, Visit
from shoal.web.settings_layout import settings_page
from shoal.web.view_models import Bond, Face, bond_of, face_of, people_of, person_of


async def followers(visit: Visit, path: HandlePath) -> Response:
    title = visit.words.text("Followers of %(name)s")
    return await _connections(visit, path, FOLLOWED_BY, "followers", title)


async def following(visit: Visit, path: HandlePath) -> Response:
    title = visit.words.text("Followed by %(name)s")
    return await _connections(visit, path, FOLLOWS, "following", title)


async def known(visit: Visit, path: HandlePath) -> Response:
    """List the followers of a member whom the viewer follows."""
    viewer, member = visit.member, await member_of(visit, path.handle)
    found = (await familiar(visit.reads, viewer.id, (member.id,))).get(member.id, [])
    title = visit.words.text("Followers of %(name)s whom you follow")
    return await _connections_page(visit, member, MemberPage(found, [], None), "known", title)


async def _connections(visit: Visit, path: HandlePath, atype: AssocType, tab: str, title: str) -> Response:
    member = await member_of(visit, path.handle)
    found = MemberPage([], [], None)
    if _shows(visit, member):
        found = await members.page(visit.reads, visit.viewer_id, member.id, atype, path.cursor(members.PAGE))
    return await _connections_page(visit, member, found, tab, title)


async def _connections_page(visit: Visit, member: Member, found: MemberPage, tab: str, title: str) -> Response:
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


class FollowAnswerForm(IdForm, frozen=True, kw_only=True):
    do: Literal["accept", "reject"]


async def requests(visit: Visit, query: BeforeQuery) -> Response:
    member = visit.member
    found = await members.page(visit.reads, member.id, member.id, REQUESTED_BY, query.cursor(members.PAGE))
    persons = await people_of(visit, found.profiles)
    following = next_of(visit, "/requests", found.next)
    if visit.partial:
        return part(visit, "askers", people=persons, next=following)
    title = visit.words.text("Follow requests")
    return await page(visit, "requests", title=title, people=persons, next=following, locked=member.locked)


async def answer(visit: Visit, asked: FollowAnswerForm) -> Response:
    member = visit.checked(asked)
    verb = relationships.authorize_request if asked.do == "accept" else relationships.reject_request
    await verb(visit.writes, member.id, asked.id)
    if visit.partial:
        return part(visit, "answered", accepted=asked.do == "accept")
    return visit.back(asked, "/requests")


async def follow_all(visit: Visit, ids: Iterable[int]) -> None:
    """Follow these members, except deleted members and members who block the viewer or are blocked.

    Raises `InvalidInput` once the viewer follows the maximum; the members before it are followed by then.
    """
    for id_ in dict.fromkeys(ids):
        with suppress(NotAllowed, NotFound):
            await relationships.follow(visit.writes, visit.member.id, id_)


_HOUR = 3_600
_DAY = 24 * _HOUR


class More(msgspec.Struct, frozen=True):
    face: Face
    bond: Bond
    relation: Relation
    muted: str
    """How long the member is muted, as text; empty if not muted."""
    spans: tuple[tuple[int, str], ...]
    """Durations of a mute in seconds, each with its label."""
    lists: tuple[tuple[int, str, bool], ...]
    """The viewer's lists: id, title, and whether the member is on it."""
    path: str
    """The path of the page, relative to the root."""


def _more(visit: Visit, member: Member, stand: Relation, lists: Sequence[tuple[int, str, bool]]) -> More:
    _ = visit.words.text
    muted = _("until you undo it") if stand.muting else ""
    if stand.muting and stand.muted_until:
        muted = _("until %(when)s") % {"when": visit.words.full(stand.muted_until)}
    spans = (
        (0, _("until I undo it")),
        (_HOUR, _("for an hour")),
        (_DAY, _("for a day")),
        (7 * _DAY, _("for a week")),
        (30 * _DAY, _("for a month")),
    )
    return More(
        face_of(visit, member),
        bond_of(visit, member, stand),
        stand,
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
    """The duration of a mute in seconds (0: until undone), and whether notifications are muted too."""

    seconds: Annotated[int, Meta(ge=0, le=MAX_MUTE_SECONDS)] = 0
    notifications: bool = False


class NoteForm(IdForm, frozen=True, kw_only=True):
    note: Text = ""


class ListsForm(IdForm, frozen=True, kw_only=True):
    lists: Annotated[tuple[Id, ...], Meta(max_length=_MOST_LISTS)] = ()


class TermsForm(IdForm, frozen=True, kw_only=True):
    """Whether a followee's shares appear in the home timeline, and whether their posts cause notifications."""

    shares: bool = False
    notify: bool = False


async def more(visit: Visit, path: MorePath, typed: str | None = None, wrong: str = "") -> Response:
    me, member = visit.member, await member_of(visit, path.handle)
    if member.id == me.id:
        raise NotAllowed(visit.words.text("This page is about others."))
    graph = visit.graph
    stand = await relation(graph, me.id, member.id)
    owned = await list_feed.owned(graph, me.id) if stand.following else []
    on = {one.id for one in await list_feed.with_member(graph, me.id, member.id)} if owned else set()
    shown = _more(visit, member, stand, [(one.id, one.title, one.id in on) for one in owned])
    return await page(
        visit,
        "more",
        title=visit.words.text("More about %(name)s") % {"name": shown.face.shown},
        more=shown,
        done=path.done,
        note=stand.note if typed is None else typed,
        wrong=wrong,
        most=visit.limits.private_note,
    )


async def mute(visit: Visit, asked: MuteForm) -> Response:
    me = visit.checked(asked)
    await relationships.mute(visit.writes, me.id, asked.id, notifications=asked.notifications, seconds=asked.seconds)
    return visit.back(asked)


async def note(visit: Visit, asked: NoteForm) -> Response:
    me = visit.checked(asked)
    try:
        await relationships.note(visit.writes, me.id, asked.id, asked.note)
    except InvalidInput as error:
        member = await access_member(visit.graph, asked.id)
        return await more(visit, MorePath(handle=member.name), asked.note, told(visit.words, error))
    return visit.back(asked)


async def put_on_lists(visit: Visit, asked: ListsForm) -> Response:
    """Add a member to the selected lists and remove the member from all others."""
    me, writes = visit.checked(asked), visit.writes
    held = {one.id for one in await list_feed.with_member(visit.graph, me.id, asked.id)}
    wanted: set[int] = set(asked.lists)
    for list_id in wanted - held:
        await lists.put_on(writes, me.id, list_id, (asked.id,))
    for list_id in held - wanted:
        await lists.take_off(writes, me.id, list_id, (asked.id,))
    return visit.back(asked)


async def set_terms(visit: Visit, asked: TermsForm) -> Response:
    """Set whether the viewer gets a followee's shares and notifications about their posts."""
    me = visit.checked(asked)
    stand = await relation(visit.graph, me.id, asked.id)
    if not (stand.following or stand.requested):
        raise NotAllowed(visit.words.text("You do not follow them."))
    await relationships.follow(visit.writes, me.id, asked.id, FollowOptions(shares=asked.shares, notify=asked.notify))
    return visit.back(asked)


_SIZE = 40
_LISTS = {"muted": MUTES, "blocked": BLOCKS}


class MutedQuery(BeforeQuery, frozen=True, kw_only=True):
    show: Literal["muted", "blocked"] = "muted"


async def show(visit: Visit, query: MutedQuery) -> Response:
    """List the muted or blocked members, latest first."""
    member, reads, _ = visit.member, visit.reads, visit.words.text
    atype = _LISTS[query.show]
    found = await members.page(reads, member.id, member.id, atype, query.cursor(_SIZE), severed=True)
    stands = await relations(reads.graph, member.id, [one.member.id for one in found.profiles])
    ends = [mute_terms(data).expires_at if atype is MUTES else 0 for data in found.data]
    until = _("until %(when)s")
    shown = [
        person_of(visit, one, stands[one.member.id], until % {"when": visit.words.full(end)} if end else "")
        for one, end in zip(found.profiles, ends, strict=True)
    ]
    following = next_of(visit, "/settings/people", found.next, show=query.show)
    return await settings_page(visit, "people", tab=query.show, people=shown, next=following)


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
