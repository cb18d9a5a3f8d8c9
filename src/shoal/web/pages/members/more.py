"""Everything that one can do about a member besides following: notes, lists, less of them, none of them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import lists, relationships
from shoal.commands.relationships import MAX_MUTE_SECONDS, FollowOptions
from shoal.core.errors import InvalidInput, NotAllowed
from shoal.graph.access import access_member, relation
from shoal.http.convert import Id
from shoal.queries import lists as list_feed
from shoal.web import rows
from shoal.web.pages.profile import member_of
from shoal.web.rendering import page
from shoal.web.views.errors.refusals import told
from shoal.web.views.more import more_of
from shoal.web.visit import Form, Visit

_MOST_LISTS = 1_000
_Done = Literal[
    "", "muted", "unmuted", "blocked", "unblocked", "removed", "endorsed", "unendorsed", "noted", "listed", "terms"
]


class MorePath(msgspec.Struct, frozen=True, kw_only=True):
    """A member, and what was just done about them."""

    handle: Annotated[str, Meta(max_length=300)]
    done: _Done = ""


class MuteForm(Form, frozen=True, kw_only=True):
    """For how long a member is muted (0: until it is undone), and whether notifications of what they do are too."""

    id: Id
    seconds: Annotated[int, Meta(ge=0, le=MAX_MUTE_SECONDS)] = 0
    notifications: bool = False


class NoteForm(Form, frozen=True, kw_only=True):
    """A private note about a member; empty for none."""

    id: Id
    note: Annotated[str, Meta(max_length=20_000)] = ""


class ListsForm(Form, frozen=True, kw_only=True):
    """The lists that a member is to be on."""

    id: Id
    lists: Annotated[tuple[Id, ...], Meta(max_length=_MOST_LISTS)] = ()


class TermsForm(Form, frozen=True, kw_only=True):
    """Whether a followee's shares come home, and whether one is notified of what they post."""

    id: Id
    shares: bool = False
    notify: bool = False


async def more(visit: Visit, path: MorePath) -> Response:
    """The page of what one can do about a member."""
    return await _shown(visit, path.handle, path.done)


async def mute(visit: Visit, asked: MuteForm) -> Response:
    """Mute a member, for a while or until it is undone."""
    me = visit.checked(asked)
    await relationships.mute(
        visit.front.writes, me.id, asked.id, notifications=asked.notifications, seconds=asked.seconds
    )
    return visit.back(asked)


async def note(visit: Visit, asked: NoteForm) -> Response:
    """Keep a private note about a member."""
    me = visit.checked(asked)
    try:
        await relationships.note(visit.front.writes, me.id, asked.id, asked.note)
    except InvalidInput as error:
        member = await access_member(visit.front.graph, asked.id)
        return await _shown(visit, member.name, "", asked.note, told(visit.words, error))
    return visit.back(asked)


async def put_on_lists(visit: Visit, asked: ListsForm) -> Response:
    """Put a member on the chosen lists, and take them off the others."""
    me, writes = visit.checked(asked), visit.front.writes
    held = {one.id for one in await list_feed.with_member(visit.front.graph, me.id, asked.id)}
    wanted: set[int] = set(asked.lists)
    for list_id in wanted - held:
        await lists.put_on(writes, me.id, list_id, (asked.id,))
    for list_id in held - wanted:
        await lists.take_off(writes, me.id, list_id, (asked.id,))
    return visit.back(asked)


async def set_terms(visit: Visit, asked: TermsForm) -> Response:
    """Change what of a followee's one wants."""
    me = visit.checked(asked)
    stand = await relation(visit.front.graph, me.id, asked.id)
    if not (stand.following or stand.requested):
        raise NotAllowed(visit.words.text("You do not follow them."))
    await relationships.follow(
        visit.front.writes, me.id, asked.id, FollowOptions(shares=asked.shares, notify=asked.notify)
    )
    return visit.back(asked)


async def _shown(visit: Visit, name: str, done: str, typed: str | None = None, wrong: str = "") -> Response:
    me, member = visit.member, await member_of(visit, name)
    if member.id == me.id:
        raise NotAllowed(visit.words.text("This page is about others."))
    graph = visit.front.graph
    stand = await relation(graph, me.id, member.id)
    owned = await list_feed.owned(graph, me.id) if stand.following else []
    on = {one.id for one in await list_feed.with_member(graph, me.id, member.id)} if owned else set()
    shown = more_of(visit, member, stand, [(one.id, one.title, one.id in on) for one in owned])
    return await page(
        visit,
        "more",
        status=422 if wrong else 200,
        title=visit.words.text("More about %(name)s") % {"name": shown.face.shown},
        more=shown,
        done=done,
        note=stand.note if typed is None else typed,
        wrong=wrong,
        most=visit.front.writes.limits.private_note,
    )


ROUTES = (
    rows.page("/@{handle}/more", more, MorePath),
    rows.form("/members/{id}/mute", mute, MuteForm),
    rows.form("/members/{id}/note", note, NoteForm),
    rows.form("/members/{id}/lists", put_on_lists, ListsForm),
    rows.form("/members/{id}/terms", set_terms, TermsForm),
)
