"""The caller's relationships to other accounts: follow, block, mute and more, and lists of the accounts concerned."""

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
from shoal.mastodon_api.context import Context, One, PageOf, Router, actor, cursor_of, paged, people_page
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.serializers import FamiliarFollowers, FollowersAtDay, MutedAccount, RelationshipTimes
from shoal.mastodon_api.entities.statuses import Account, Relationship
from shoal.queries import follows, members

router = Router()

_FAMILIAR = 100
"""Maximum number of accounts in a request for familiar followers. Further accounts are ignored."""

Command = Callable[[Writes, int, int], Awaitable[Relation]]


class FollowParams(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    reblogs: bool | None = None
    notify: bool | None = None
    languages: Annotated[tuple[Annotated[str, Meta(max_length=35)], ...], Meta(max_length=100)] | None = None


class MuteParams(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    notifications: bool = True
    duration: Annotated[int, Meta(ge=0, le=relationships.MAX_MUTE_SECONDS)] = 0


class NoteParams(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    comment: Annotated[str, Meta(max_length=8_000)] = ""


class SeriesQuery(msgspec.Struct, frozen=True):
    days: Annotated[int, Meta(ge=1, le=follows.MAX_DAYS)] = follows.DAYS


class AccountIds(msgspec.Struct, frozen=True):
    id: Annotated[tuple[Id, ...], Meta(max_length=400)] = ()


@router.get("/api/v1/accounts/relationships", scope="read:follows", answer=list[Relationship])
async def list_relationships(context: Context, params: AccountIds) -> object:
    """List the caller's relationships to these accounts, in the order of the ids."""
    ids = tuple(dict.fromkeys(params.id))
    relations = await full_relations(context.app.graph, actor(context), ids)
    return [serializers.relationship(id_, relations[id_]) for id_ in ids]


async def _check_exists(context: Context, id_: int) -> None:
    if not await members_by_id(context.app.graph, (id_,)):
        raise NotFound("Record not found")


def _add(path: str, command: Command, scope: str, what: str) -> None:
    """Add a `POST` route that calls a command on the account in its path."""

    @router.post(path, scope=scope, answer=Relationship, what=what)
    async def handler(context: Context, params: One) -> object:
        await _check_exists(context, params.id)
        return serializers.relationship(params.id, await command(context.app.writes, actor(context), params.id))


_ACCOUNT = "/api/v1/accounts/{id}"
_REQUEST = "/api/v1/follow_requests/{id}"
_FEATURE = "Feature an account on the caller's profile. The caller must follow it."
_UNFEATURE = "Stop featuring an account on the caller's profile."

_add(f"{_ACCOUNT}/unfollow", relationships.unfollow, "write:follows", "Unfollow an account, or withdraw a request.")
_add(
    f"{_ACCOUNT}/remove_from_followers",
    relationships.remove_follower,
    "write:follows",
    "Remove a follower, who may follow again.",
)
_add(
    f"{_ACCOUNT}/block",
    relationships.block,
    "write:blocks",
    "Block an account: neither sees the other any more, and follows and requests end both ways.",
)
_add(f"{_ACCOUNT}/unblock", relationships.unblock, "write:blocks", "Unblock an account; follows are not restored.")
_add(f"{_ACCOUNT}/unmute", relationships.unmute, "write:mutes", "Unmute an account.")
_add(f"{_ACCOUNT}/endorse", relationships.endorse, "write:accounts", _FEATURE)
_add(f"{_ACCOUNT}/unendorse", relationships.unendorse, "write:accounts", _UNFEATURE)
_add(f"{_ACCOUNT}/pin", relationships.endorse, "write:accounts", _FEATURE)
_add(f"{_ACCOUNT}/unpin", relationships.unendorse, "write:accounts", _UNFEATURE)
_add(f"{_REQUEST}/authorize", relationships.authorize_request, "write:follows", "Accept a follow request.")
_add(f"{_REQUEST}/reject", relationships.reject_request, "write:follows", "Reject a follow request.")


@router.post("/api/v1/accounts/{id}/follow", scope="write:follows", answer=Relationship)
async def follow(context: Context, params: FollowParams) -> object:
    """Follow an account, or send a follow request if it is locked. A repeated request changes the options that are sent."""
    await _check_exists(context, params.id)
    options = FollowOptions(shares=params.reblogs, notify=params.notify, languages=params.languages)
    relation = await relationships.follow(context.app.writes, actor(context), params.id, options)
    return serializers.relationship(params.id, relation)


@router.post("/api/v1/accounts/{id}/mute", scope="write:mutes", answer=Relationship)
async def mute(context: Context, params: MuteParams) -> object:
    """Mute an account and, by default, its notifications, for `duration` seconds; 0 mutes it permanently."""
    await _check_exists(context, params.id)
    relation = await relationships.mute(
        context.app.writes, actor(context), params.id, notifications=params.notifications, seconds=params.duration
    )
    return serializers.relationship(params.id, relation)


@router.post("/api/v1/accounts/{id}/note", scope="write:accounts", answer=Relationship)
async def note(context: Context, params: NoteParams) -> object:
    """Store a private note about an account; an empty comment deletes it."""
    await _check_exists(context, params.id)
    relation = await relationships.note(context.app.writes, actor(context), params.id, params.comment)
    return serializers.relationship(params.id, relation)


@router.get("/api/v1/blocks", scope="read:blocks", answer=list[Account])
async def blocks(context: Context, params: PageQuery) -> object:
    """List the accounts that the caller blocks, newest first."""
    return await _page(context, params, BLOCKS)


@router.get("/api/v1/follow_requests", scope="read:follows", answer=list[Account])
async def requests(context: Context, params: PageQuery) -> object:
    """List the accounts that request to follow the caller, newest first."""
    return await _page(context, params, REQUESTED_BY)


@router.get("/api/v1/endorsements", scope="read:accounts", answer=list[Account])
async def endorsements(context: Context, params: PageQuery) -> object:
    """List the accounts that the caller features on their profile, newest first."""
    return await _page(context, params, ENDORSES, followed_by=actor(context))


@router.get("/api/v1/accounts/{id}/endorsements", auth="optional", scope="read:accounts", answer=list[Account])
async def endorsed_by(context: Context, params: PageOf) -> object:
    """List the accounts that an account features on its profile, newest first."""
    await access_member(context.app.graph, params.id)
    cursor, viewer = cursor_of(params, 40, 80), context.caller.member_id
    found = await members.page(context.app.reads, viewer, params.id, ENDORSES, cursor, followed_by=params.id)
    return people_page(context, found, cursor)


@router.get("/api/v1/mutes", scope="read:mutes", answer=list[MutedAccount])
async def mutes(context: Context, params: PageQuery) -> object:
    """List the accounts that the caller mutes, newest first, with the expiry of each mute."""
    cursor, member = cursor_of(params, 40, 80), actor(context)
    found = await members.page(context.app.reads, member, member, MUTES, cursor, severed=True)
    muted = [
        # Append the key to the encoded account, before its closing brace.
        context.app.present.account(profile)[:-1] + b',"mute_expires_at":%b}' % _expiry(data)
        for profile, data in zip(found.profiles, found.data, strict=True)
    ]
    return paged(context, b"[%b]" % b",".join(muted), found.times, found.next, cursor)


def _expiry(data: bytes) -> bytes:
    until = mute_terms(data).expires_at
    return b'"%b"' % serializers.moment(until).encode() if until else b"null"


async def _page(context: Context, params: PageQuery, atype: AssocType, *, followed_by: int = 0) -> object:
    cursor, member = cursor_of(params, 40, 80), actor(context)
    found = await members.page(
        context.app.reads, member, member, atype, cursor, severed=atype is BLOCKS, followed_by=followed_by
    )
    return people_page(context, found, cursor)


@router.get("/api/v1/accounts/familiar_followers", scope="read:follows", answer=list[FamiliarFollowers])
async def familiar(context: Context, params: AccountIds) -> object:
    """List, for each account, the followers whom the caller also follows. The list is empty if the account hides its followers."""
    found = await members.familiar(context.app.reads, actor(context), tuple(dict.fromkeys(params.id))[:_FAMILIAR])
    return [
        FamiliarFollowers(str(id_), [raw(context.app.present.account(profile)) for profile in profiles])
        for id_, profiles in found.items()
    ]


@router.get("/api/shoal/v1/relationships/{id}/history", scope="read:follows", answer=RelationshipTimes)
async def history(context: Context, params: One) -> object:
    """List the periods in which the caller and an account followed each other. Visible to the caller only."""
    periods = await follows.history(context.app.reads, actor(context), params.id)
    return serializers.relationship_times(params.id, periods)


@router.get("/api/shoal/v1/followers/by_day", scope="read:follows", answer=list[FollowersAtDay])
async def growth(context: Context, params: SeriesQuery) -> object:
    """Count the caller's followers at the end of each day, oldest first, with gains and losses. Visible to the caller only."""
    series = await follows.by_day(context.app.reads, actor(context), params.days)
    return [serializers.followers_at_day(day) for day in series]
