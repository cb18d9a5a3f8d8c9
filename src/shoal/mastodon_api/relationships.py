"""How the caller stands to others: follow, block, mute and more, and the lists of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import relationships
from shoal.commands.context import Writes
from shoal.commands.relationships import FollowOptions
from shoal.core.errors import NotFound
from shoal.core.visibility import Relation
from shoal.graph.access import access_member, full_relations, members_by_id
from shoal.graph.payloads.follows import mute_terms
from shoal.graph.schema import BLOCKS, ENDORSES, MUTES, REQUESTED_BY, AssocType
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.http.responses import raw
from shoal.http.routes import Route
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, Handler, One, PageOf, actor, cursor_of, paged, people_page
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities import serializers as people_entities
from shoal.mastodon_api.entities.serializers import FamiliarFollowers, FollowersAtDay, MutedAccount, RelationshipTimes
from shoal.mastodon_api.entities.statuses import Account, Relationship
from shoal.queries import follows as followers_series
from shoal.queries import members
from shoal.queries.follows import history as relationship_history

Verb = Callable[[Writes, int, int], Awaitable[Relation]]


_FAMILIAR = 100
"""So many accounts, the first, are answered for at once."""


class FollowParams(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a follow: shares, notifications, and the languages that are wanted."""

    id: Id
    reblogs: bool | None = None
    notify: bool | None = None
    languages: Annotated[tuple[Annotated[str, Meta(max_length=35)], ...], Meta(max_length=100)] | None = None


class MuteParams(msgspec.Struct, frozen=True, kw_only=True):
    """How far and for how many seconds."""

    id: Id
    notifications: bool = True
    duration: Annotated[int, Meta(ge=0, le=relationships.MAX_MUTE_SECONDS)] = 0


class NoteParams(msgspec.Struct, frozen=True, kw_only=True):
    """A private note of the caller's about an account."""

    id: Id
    comment: Annotated[str, Meta(max_length=8_000)] = ""


class SeriesQuery(msgspec.Struct, frozen=True):
    """How many days of a series, the last of which is today."""

    days: Annotated[int, Meta(ge=1, le=followers_series.MAX_DAYS)] = followers_series.DAYS


class Others(msgspec.Struct, frozen=True):
    """Some accounts at once."""

    id: Annotated[tuple[Id, ...], Meta(max_length=400)] = ()


async def several(context: Context, params: Others) -> object:
    """One relationship for each id asked for, in that order."""
    front = context.deps
    ids = tuple(dict.fromkeys(params.id))
    stands = await full_relations(front.graph, actor(context), ids)
    return [serializers.relationship(id_, stands[id_]) for id_ in ids]


def _handler(verb: Verb) -> Handler[One]:
    async def handler(context: Context, params: One) -> object:
        await _access(context, params.id)
        front = context.deps
        return serializers.relationship(params.id, await verb(front.writes, actor(context), params.id))

    handler.__doc__ = verb.__doc__
    return handler


async def _access(context: Context, id_: int) -> None:
    front = context.deps
    if not await members_by_id(front.graph, (id_,)):
        raise NotFound("Record not found")


unfollow = _handler(relationships.unfollow)
block = _handler(relationships.block)
unblock = _handler(relationships.unblock)
unmute = _handler(relationships.unmute)
remove_follower = _handler(relationships.remove_follower)
endorse = _handler(relationships.endorse)
unendorse = _handler(relationships.unendorse)
authorize = _handler(relationships.authorize_request)
reject = _handler(relationships.reject_request)


async def follow(context: Context, params: FollowParams) -> object:
    """Follow an account, or ask to when it is locked. A repeated follow changes what it brings; what is not given stays."""
    front = context.deps
    await _access(context, params.id)
    options = FollowOptions(shares=params.reblogs, notify=params.notify, languages=params.languages)
    return serializers.relationship(
        params.id, await relationships.follow(front.writes, actor(context), params.id, options)
    )


async def mute(context: Context, params: MuteParams) -> object:
    """Mute an account, with its notifications unless told otherwise, for `duration` seconds (0: for ever)."""
    front = context.deps
    await _access(context, params.id)
    stand = await relationships.mute(
        front.writes, actor(context), params.id, notifications=params.notifications, seconds=params.duration
    )
    return serializers.relationship(params.id, stand)


async def note(context: Context, params: NoteParams) -> object:
    """Keep a note about an account, for oneself; an empty one takes it away."""
    front = context.deps
    await _access(context, params.id)
    stand = await relationships.note(front.writes, actor(context), params.id, params.comment)
    return serializers.relationship(params.id, stand)


async def blocks(context: Context, params: PageQuery) -> object:
    """Whom the caller blocks, newest first."""
    return await _page(context, params, BLOCKS)


async def asking(context: Context, params: PageQuery) -> object:
    """List the accounts that ask to follow the caller, newest first."""
    return await _page(context, params, REQUESTED_BY)


async def endorsements(context: Context, params: PageQuery) -> object:
    """Whom the caller shows on their profile, newest first."""
    return await _page(context, params, ENDORSES, followed_by=actor(context))


async def endorsed_by(context: Context, params: PageOf) -> object:
    """Whom an account shows on its profile, newest first."""
    front = context.deps
    await access_member(front.graph, params.id)
    cursor, viewer = cursor_of(params, 40, 80), context.caller.member_id
    found = await members.page(front.reads, viewer, params.id, ENDORSES, cursor, followed_by=params.id)
    return people_page(context, found, cursor)


async def mutes(context: Context, params: PageQuery) -> object:
    """Whom the caller mutes, newest first, and until when."""
    front = context.deps
    cursor, member = cursor_of(params, 40, 80), actor(context)
    found = await members.page(front.reads, member, member, MUTES, cursor, severed=True)
    muted = [
        # An account is JSON that is ready: its end is opened for one more key.
        front.present.account(profile)[:-1] + b',"mute_expires_at":%b}' % _expiry(data)
        for profile, data in zip(found.profiles, found.data, strict=True)
    ]
    return paged(context, b"[%b]" % b",".join(muted), found.times, found.next, cursor)


def _expiry(data: bytes) -> bytes:
    until = mute_terms(data).expires_at
    return b'"%b"' % serializers.moment(until).encode() if until else b"null"


async def _page(context: Context, params: PageQuery, atype: AssocType, *, followed_by: int = 0) -> object:
    front = context.deps
    cursor, member = cursor_of(params, 40, 80), actor(context)
    found = await members.page(
        front.reads, member, member, atype, cursor, severed=atype is BLOCKS, followed_by=followed_by
    )
    return people_page(context, found, cursor)


async def familiar(context: Context, params: Others) -> object:
    """For each account those whom the caller follows among its followers; nobody where an account hides them."""
    front = context.deps
    found = await members.familiar(front.reads, actor(context), tuple(dict.fromkeys(params.id))[:_FAMILIAR])
    return [
        people_entities.FamiliarFollowers(str(id_), [raw(front.present.account(one)) for one in profiles])
        for id_, profiles in found.items()
    ]


async def history(context: Context, params: One) -> object:
    """Tell when the caller and an account followed each other: since when, until when, and again. Nobody else is told."""
    told = await relationship_history(context.deps.reads, actor(context), params.id)
    return people_entities.relationship_times(params.id, told)


async def growth(context: Context, params: SeriesQuery) -> object:
    """Count the caller's followers at the end of each day, oldest first, and how many came and went. Nobody else is told."""
    series = await followers_series.by_day(context.deps.reads, actor(context), params.days)
    return [people_entities.followers_at_day(day) for day in series]


RELATIONSHIP_ROUTES = (
    endpoints.route(
        "GET",
        "/api/v1/accounts/relationships",
        several,
        scope="read:follows",
        params=Others,
        answer=list[Relationship],
    ),
    endpoints.route(
        "GET",
        "/api/v1/accounts/familiar_followers",
        familiar,
        scope="read:follows",
        params=Others,
        answer=list[FamiliarFollowers],
    ),
    endpoints.one(
        "GET",
        "/api/shoal/v1/relationships/{id}/history",
        history,
        scope="read:follows",
        answer=RelationshipTimes,
    ),
    endpoints.route(
        "GET",
        "/api/shoal/v1/followers/by_day",
        growth,
        scope="read:follows",
        params=SeriesQuery,
        answer=list[FollowersAtDay],
    ),
)


def _verb(name: str, handler: Handler[One], scope: str) -> Route:
    return endpoints.one("POST", f"/api/v1/accounts/{{id}}/{name}", handler, scope=scope, answer=Relationship)


def _answer(name: str, handler: Handler[One]) -> Route:
    path = f"/api/v1/follow_requests/{{id}}/{name}"
    return endpoints.one("POST", path, handler, scope="write:follows", answer=Relationship)


ROUTES = (
    endpoints.seen(
        "GET",
        "/api/v1/accounts/{id}/endorsements",
        endorsed_by,
        scope="read:accounts",
        params=PageOf,
        answer=list[Account],
    ),
    endpoints.route(
        "POST",
        "/api/v1/accounts/{id}/follow",
        follow,
        scope="write:follows",
        params=FollowParams,
        answer=Relationship,
    ),
    _verb("unfollow", unfollow, "write:follows"),
    _verb("remove_from_followers", remove_follower, "write:follows"),
    _verb("block", block, "write:blocks"),
    _verb("unblock", unblock, "write:blocks"),
    endpoints.route(
        "POST",
        "/api/v1/accounts/{id}/mute",
        mute,
        scope="write:mutes",
        params=MuteParams,
        answer=Relationship,
    ),
    _verb("unmute", unmute, "write:mutes"),
    endpoints.route(
        "POST",
        "/api/v1/accounts/{id}/note",
        note,
        scope="write:accounts",
        params=NoteParams,
        answer=Relationship,
    ),
    _verb("endorse", endorse, "write:accounts"),
    _verb("unendorse", unendorse, "write:accounts"),
    _verb("pin", endorse, "write:accounts"),
    _verb("unpin", unendorse, "write:accounts"),
    endpoints.page("GET", "/api/v1/blocks", blocks, scope="read:blocks", answer=list[Account]),
    endpoints.page("GET", "/api/v1/mutes", mutes, scope="read:mutes", answer=list[MutedAccount]),
    endpoints.page("GET", "/api/v1/endorsements", endorsements, scope="read:accounts", answer=list[Account]),
    endpoints.page("GET", "/api/v1/follow_requests", asking, scope="read:follows", answer=list[Account]),
    _answer("authorize", authorize),
    _answer("reject", reject),
)
