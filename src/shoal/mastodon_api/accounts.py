"""Accounts: lookup, statuses, followers and followees, and the caller's own account and profile."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta

from shoal.commands import members
from shoal.commands.members import ProfileChange
from shoal.core.errors import Gone, NotFound
from shoal.core.licenses import License
from shoal.core.model import Member, QuotePolicy
from shoal.core.places import PlacePrecision
from shoal.core.text import canonical_tag
from shoal.gazetteer import MOST_TYPED
from shoal.graph.access import access_member
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, POSTED, REQUESTED_BY, AssocType
from shoal.http.pagination import StatusesQuery, listed_data
from shoal.http.params import Id, Upload
from shoal.mastodon_api.context import (
    FORM,
    AppContext,
    Context,
    One,
    PageOf,
    Router,
    actor,
    cursor_of,
    entries_page,
    people_page,
    profile_of,
)
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities import statuses as entities
from shoal.mastodon_api.entities.serializers import Preferences
from shoal.mastodon_api.entities.statuses import Account, CredentialAccount, Received, Status
from shoal.queries import members as member_queries
from shoal.queries import posts
from shoal.queries.hydration import profiles_by_id
from shoal.queries.pagination import read_by_page
from shoal.queries.posts import MemberFeedQuery, pinned

router = Router()
credentials_router = Router()


class AccountIds(msgspec.Struct, frozen=True):
    id: Annotated[tuple[Id, ...], Meta(max_length=100)] = ()


class Lookup(msgspec.Struct, frozen=True):
    """A user name with or without a domain: `ann`, `@ann`, `ann@our.domain`."""

    acct: Annotated[str, Meta(max_length=400)]


class Statuses(StatusesQuery, frozen=True, kw_only=True):
    id: Id
    only_media: bool = False
    exclude_replies: bool = False
    exclude_reblogs: bool = False
    pinned: bool = False
    tagged: Annotated[str, Meta(max_length=400)] = ""


@router.get("/api/v1/accounts", auth="optional", scope="read:accounts", answer=list[Account])
async def list_accounts(context: Context, params: AccountIds) -> object:
    """List accounts by id, omitting deleted accounts."""
    return context.app.present.accounts(await profiles_by_id(context.app.graph, context.caller.member_id, params.id))


@router.get("/api/v1/accounts/{id}", auth="optional", scope="read:accounts", answer=Account, cached=True)
async def get_account(context: Context, params: One) -> object:
    """Show an account by id."""
    await access_member(context.app.graph, params.id, showing=())
    return context.app.present.account(await profile_of(context, params.id))


@router.get("/api/v1/accounts/lookup", auth="optional", scope="read:accounts", answer=Account)
async def lookup(context: Context, params: Lookup) -> object:
    """Show an account by name."""
    name, _, domain = params.acct.strip().removeprefix("@").partition("@")
    if domain and domain.lower() not in context.app.at.names:
        raise NotFound("Record not found")
    member = await account_named(context.app, name)
    return context.app.present.account(await profile_of(context, member.id))


async def account_named(app_context: AppContext, name: str) -> Member:
    member = await members.find(app_context.writes, name)
    if member is None or member.pending:
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone
    return member


@router.get("/api/v1/accounts/{id}/statuses", auth="optional", scope="read:statuses", answer=list[Status], cached=True)
async def statuses(context: Context, params: Statuses) -> object:
    """List the statuses and shares of an account, or its pinned statuses."""
    app_context, cursor = context.app, cursor_of(params)
    await access_member(app_context.graph, params.id, showing=((POSTED, read_by_page(cursor)),))
    tag = canonical_tag(params.tagged.removeprefix("#"))
    if params.tagged and not tag:
        return b"[]"
    query = MemberFeedQuery(
        only_media=params.only_media,
        no_comments=params.exclude_replies,
        no_shares=params.exclude_reblogs,
        tag=tag,
    )
    if params.pinned:
        entries = await pinned(app_context.reads, context.caller.member_id, params.id, cursor, query)
        return await app_context.present.page(
            context.caller.member_id, entries, listed_data(with_data=params.with_data)
        )
    page = await posts.authored_page(app_context.reads, context.caller.member_id, params.id, cursor, query)
    return await entries_page(context, page, cursor, with_data=params.with_data)


@router.get(
    "/api/v1/accounts/{id}/followers", auth="optional", scope="read:accounts", answer=list[Account], cached=True
)
async def followers(context: Context, params: PageOf) -> object:
    """List the followers of an account, newest first; empty if the account hides them."""
    return await _connections(context, params, FOLLOWED_BY)


@router.get(
    "/api/v1/accounts/{id}/following", auth="optional", scope="read:accounts", answer=list[Account], cached=True
)
async def following(context: Context, params: PageOf) -> object:
    """List the accounts that an account follows, newest first; empty if it hides them."""
    return await _connections(context, params, FOLLOWS)


async def _connections(context: Context, params: PageOf, atype: AssocType) -> object:
    viewer, cursor = context.caller.member_id, cursor_of(params, 40, 80)
    showing = ((atype, member_queries.read_by_page(cursor)),)
    member = await access_member(context.app.graph, params.id, showing=showing)
    if member.hides_connections and viewer != member.id:
        return b"[]"
    return people_page(context, await member_queries.page(context.app.reads, viewer, params.id, atype, cursor), cursor)


@router.get("/api/shoal/v1/accounts/{id}/received", auth="optional", scope="read:accounts", answer=Received)
async def received(context: Context, params: One) -> object:
    """Return the total likes and shares of an account's posts that the caller can find: `{"likes": n, "shares": n}`."""
    await access_member(context.app.graph, params.id)
    found = await member_queries.received(context.app.reads, context.caller.member_id, params.id)
    return {"likes": found.likes, "shares": found.shares}


_Text = Annotated[str, Meta(max_length=20_000)]


class FieldParams(msgspec.Struct, frozen=True):
    """A row of the table on a profile."""

    name: _Text = ""
    value: _Text = ""


class SourceParams(msgspec.Struct, frozen=True):
    """Defaults for new posts."""

    privacy: Literal["public", "unlisted", "private", "direct"] | None = None
    sensitive: bool | None = None
    language: Annotated[str, Meta(max_length=35)] | None = None
    quote_policy: QuotePolicy | None = None
    """Stored for clients that show it; this server has no quotes."""


class ShoalProfileParams(msgspec.Struct, frozen=True):
    """Preferences that Mastodon does not have."""

    aggregate_reblogs: bool | None = None
    """Whether a status appears once in the home timeline and in lists: a reblog is omitted if the status or an older
    reblog of it is among the 40 statuses below."""
    place_precision: PlacePrecision | None = None
    """The precision with which places of new statuses are stored: rounded to a number of meters, as the coordinates of the town
    (`city`), exact, or not at all. Existing statuses do not change."""
    location: Annotated[str, Meta(max_length=MOST_TYPED)] | None = None
    """The town or country where the caller lives, such as `Palermo, Italy` or `India`; empty deletes it. It is used to rank the
    caller's feed. The server must know the names of places."""
    shows_location: bool | None = None
    """Whether others can see the caller's location."""
    rankable: bool | None = None
    """Whether the caller's statuses may appear in feeds ranked by interest."""
    findable_by_email: bool | None = None
    """Whether people who know the caller's e-mail address can find them by it."""
    shows_photo_details: bool | None = None
    """Whether new images show camera, lens, exposure and date. Existing images do not change."""
    default_license: License | None = None
    """The license of new statuses with attachments."""
    allows_downloads: bool | None = None
    """Whether the images of new statuses may be downloaded."""


class CredentialChanges(msgspec.Struct, frozen=True):
    display_name: _Text | None = None
    note: _Text | None = None
    avatar: Upload | None = None
    header: Upload | None = None
    locked: bool | None = None
    bot: bool | None = None
    discoverable: bool | None = None
    hide_collections: bool | None = None
    indexable: bool | None = None
    fields_attributes: Annotated[tuple[FieldParams, ...], Meta(max_length=100)] | None = None
    attribution_domains: Annotated[tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=200)] | None = None
    """Websites that may credit the caller as an author."""
    source: SourceParams = SourceParams()
    shoal: ShoalProfileParams = ShoalProfileParams()


@credentials_router.get("/api/v1/accounts/verify_credentials", scope="read:accounts", answer=CredentialAccount)
async def verify(context: Context, _params: None) -> object:
    """Show the caller's account with its private fields."""
    return await _shown(context)


@credentials_router.patch(
    "/api/v1/accounts/update_credentials",
    scope="write:accounts",
    answer=CredentialAccount,
    max_body=lambda settings: 2 * settings.max_upload_bytes + 2 * FORM,
)
async def update(context: Context, params: CredentialChanges) -> object:
    """Update the caller's profile."""
    fields, source, extras = params.fields_attributes, params.source, params.shoal
    location = UNSET if extras.location is None else await members.location_of(extras.location)
    changes = ProfileChange(
        display_name=params.display_name,
        note=params.note,
        fields=None if fields is None else [(field.name, field.value) for field in fields],
        bot=params.bot,
        discoverable=params.discoverable,
        locked=params.locked,
        hides_connections=params.hide_collections,
        indexable=params.indexable,
        folds_shares=extras.aggregate_reblogs,
        rankable=extras.rankable,
        findable_by_email=extras.findable_by_email,
        shows_photo_details=extras.shows_photo_details,
        default_license=extras.default_license,
        allows_downloads=extras.allows_downloads,
        default_visibility=serializers.VISIBILITY[source.privacy] if source.privacy else None,
        default_sensitive=source.sensitive,
        default_language=source.language,
        quote_policy=source.quote_policy,
        place_precision=extras.place_precision,
        location=location,
        shows_location=extras.shows_location,
        attribution_domains=params.attribution_domains,
        avatar=params.avatar.data if params.avatar else None,
        header=params.header.data if params.header else None,
    )
    await members.update_profile(context.app.writes, actor(context), changes)
    return await _shown(context)


@router.delete("/api/v1/profile/avatar", scope="write:accounts", answer=CredentialAccount)
async def remove_avatar(context: Context, _params: None) -> object:
    """Delete the caller's avatar."""
    await members.remove_picture(context.app.writes, actor(context), "avatar")
    return await _shown(context)


@router.delete("/api/v1/profile/header", scope="write:accounts", answer=CredentialAccount)
async def remove_header(context: Context, _params: None) -> object:
    """Delete the caller's header image."""
    await members.remove_picture(context.app.writes, actor(context), "header")
    return await _shown(context)


@router.get("/api/v1/preferences", scope="read:accounts", answer=Preferences)
async def preferences(context: Context, _params: None) -> object:
    """Show the caller's default settings for posting and reading."""
    return serializers.preferences(await access_member(context.app.graph, actor(context)))


async def _shown(context: Context) -> entities.CredentialAccount:
    member = actor(context)
    requests = (await context.app.graph.assoc_count((member,), (REQUESTED_BY,)))[REQUESTED_BY].get(member, 0)
    return serializers.credential_account(await profile_of(context, member), context.app.at, requests)
