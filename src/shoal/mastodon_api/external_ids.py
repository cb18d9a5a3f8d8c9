"""Members and other objects of another product, by their ids there. For server keys only; Mastodon has no equivalent."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import external_ids
from shoal.commands.external_ids import ExternalProfile
from shoal.core.errors import NotFound, ShoalError, TooMany
from shoal.core.external_ids import ExternalId, ExternalKind, external_id
from shoal.core.model import Member
from shoal.graph.access import get_object
from shoal.http.errors import reply_for
from shoal.http.params import MAX_WORDS, Id
from shoal.http.rate_limits import RateKey, counted_as
from shoal.http.responses import Reply
from shoal.mastodon_api.context import Context, One, Router
from shoal.mastodon_api.entities.serializers import moment

router = Router(auth="server", scope="server:members", limit_class="server")
_LINK_SCOPE = "server:link"

MAX_MEMBERS = 1_000
"""Maximum members of a batch."""
_MAX_CONCURRENT = 16
_PATH = "/api/shoal/v1/members/by-external-id"

# The commands check the bounds of Shoal. These bounds are wider, so that one wrong member of a batch does not refuse the others.
_Part = Annotated[str, Meta(max_length=2_000)]
_Text = Annotated[str, Meta(max_length=20_000)]


class ExternalIdPath(msgspec.Struct, frozen=True):
    """An external id in a path. Both parts are percent-encoded, slashes too."""

    issuer: _Part
    id: _Part


class ExternalObjectPath(ExternalIdPath, frozen=True):
    kind: ExternalKind
    """`posts`, `comments` or `media`: the kind of the external id."""


class MemberProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What the product knows about a member. Missing values keep the current ones of an existing member."""

    username: _Part = ""
    """The proposed user name. If it is taken, a free name like it is assigned. It never changes afterwards."""
    display_name: _Text | None = None
    note: _Text | None = None
    locale: _Part = ""
    """The language of the member, such as `de` or `pt-BR`. An unknown language is ignored."""

    def profile(self) -> ExternalProfile:
        return ExternalProfile(
            user_name=self.username, display_name=self.display_name, note=self.note, language=self.locale
        )


class PutMember(MemberProfile, frozen=True, kw_only=True):
    issuer: _Part
    id: _Part


class PutMembers(msgspec.Struct, frozen=True, kw_only=True):
    members: Annotated[tuple[PutMember, ...], Meta(min_length=1, max_length=MAX_MEMBERS)]


class LinkMember(msgspec.Struct, frozen=True, kw_only=True):
    issuer: _Part
    id: _Part
    member_id: Id
    """The existing member, who must have no role."""


class ExternalIdEntity(msgspec.Struct, kw_only=True):
    """The id of a member in another product."""

    issuer: str
    id: str


class LinkedObject(msgspec.Struct, kw_only=True):
    """The object that was imported with an external id."""

    id: str
    """The id of the status or of the media attachment."""
    kind: ExternalKind
    external_id: ExternalIdEntity


class LinkedMember(msgspec.Struct, kw_only=True):
    """A member as a server key sees them."""

    id: str
    username: str
    display_name: str
    note: str
    locale: str
    created_at: str
    suspended: bool
    """Whether the member is suspended, or is deleting their account."""
    external_ids: list[ExternalIdEntity]


class _ErrorBody(msgspec.Struct):
    error: str


class MemberResult(msgspec.Struct, kw_only=True):
    """The result for one member of a batch. `status` is that of a single request: 200, 201 for a new member, or an error."""

    issuer: str
    id: str
    status: int
    member: LinkedMember | None = None
    error: str | None = None
    retry_after: int | None = None
    """Seconds after which the request for this member may be repeated."""


@router.get(f"{_PATH}/{{issuer}}/{{id}}", answer=LinkedMember)
async def get_member(context: Context, params: ExternalIdPath) -> object:
    """Show the member with an external id."""
    return await _shown(context, await _found(context, params))


@router.put(f"{_PATH}/{{issuer}}/{{id}}", answer=LinkedMember, also=((201, "The member was created."),))
async def put_member(context: Context, params: PutMember) -> object:
    """Create or change the member with an external id. A new member has no password and no e-mail address.

    Idempotent: equal requests create one member, even if they are concurrent.
    """
    await _count(context, 1)
    made = await external_ids.upsert(context.app.writes, external_id(params.issuer, params.id), params.profile())
    return Reply(await _shown(context, made.member), 201 if made.created else 200)


@router.post(_PATH, answer=list[MemberResult], max_body=MAX_WORDS, max_fields=8 * MAX_MEMBERS)
async def put_members(context: Context, params: PutMembers) -> object:
    """Create or change up to 1,000 members, each like `PUT`. The results are in the order of the request.

    Members succeed or fail independently. The body has at most 1 MiB.
    """
    await _count(context, len(params.members))
    free = asyncio.Semaphore(_MAX_CONCURRENT)

    async def put(member: PutMember) -> MemberResult:
        async with free:
            try:
                made = await external_ids.upsert(
                    context.app.writes, external_id(member.issuer, member.id), member.profile()
                )
                shown = await _shown(context, made.member)
            except ShoalError as error:
                return _failed(member, error)
        return MemberResult(issuer=member.issuer, id=member.id, status=201 if made.created else 200, member=shown)

    # If one of them fails unexpectedly, the group cancels the others.
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(put(member)) for member in params.members]
    return [task.result() for task in tasks]


def _failed(member: PutMember, error: ShoalError) -> MemberResult:
    reply = reply_for(error)
    wait = dict(reply.headers).get("Retry-After")
    return MemberResult(
        issuer=member.issuer,
        id=member.id,
        status=reply.status,
        error=msgspec.convert(reply.body, _ErrorBody).error,
        retry_after=int(wait) if wait else None,
    )


async def _count(context: Context, members: int) -> None:
    """Count created or changed members. Raises `TooMany`."""
    window = await context.app.limiter.take(RateKey("server_members", counted_as(context.caller) or 0), members)
    if window is not None and window.wait:
        raise TooMany("Too many requests", retry_after=window.wait)


@router.post(f"{_PATH}/{{issuer}}/{{id}}/link", scope=_LINK_SCOPE, answer=LinkedMember)
async def link_member(context: Context, params: LinkMember) -> object:
    """Give an existing member an external id, of which a member has at most five. Idempotent. Members with a role are refused."""
    external = external_id(params.issuer, params.id)
    return await _shown(context, await external_ids.link(context.app.writes, params.member_id, external, staff=False))


@router.delete(f"{_PATH}/{{issuer}}/{{id}}", scope=_LINK_SCOPE, answer=dict)
async def unlink_member(context: Context, params: ExternalIdPath) -> None:
    """Remove an external id from its member, and revoke the tokens that were exchanged through it. The member stays."""
    member = await _found(context, params)
    await external_ids.release(context.app.writes, member, external_id(params.issuer, params.id))


@router.get("/api/shoal/v1/members/{id}", answer=LinkedMember)
async def get_by_id(context: Context, params: One) -> object:
    """Show a member with their external ids, by the member's id."""
    return await _shown(context, await get_object(context.app.graph, Member, params.id))


@router.get("/api/shoal/v1/by-external-id/{kind}/{issuer}/{id}", answer=LinkedObject)
async def get_object_by_external_id(context: Context, params: ExternalObjectPath) -> object:
    """Show the id of the post, comment or media object that was imported with an external id."""
    external = external_id(params.issuer, params.id)
    found = await external_ids.object_id_of(context.app.graph, params.kind, external)
    return LinkedObject(id=str(found), kind=params.kind, external_id=_entity(external))


async def _found(context: Context, params: ExternalIdPath) -> Member:
    member = await external_ids.find(context.app.graph, external_id(params.issuer, params.id))
    if member is None:
        raise NotFound("Record not found")
    return member


async def _shown(context: Context, member: Member) -> LinkedMember:
    return LinkedMember(
        id=str(member.id),
        username=member.name,
        display_name=member.display_name,
        note=member.note,
        locale=member.default_language,
        created_at=moment(member.created_at),
        suspended=member.suspended,
        external_ids=[_entity(external) for external in await external_ids.of_member(context.app.graph, member.id)],
    )


def _entity(external: ExternalId) -> ExternalIdEntity:
    return ExternalIdEntity(issuer=external.issuer, id=external.id)
