"""The caller's own account: verify it, change its profile."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import people as people_entities
from shoal.api.entities import presenter
from shoal.api.entities import statuses as entities
from shoal.api.entities.people import Preferences
from shoal.api.entities.statuses import CredentialAccount
from shoal.api.http.calls import Route
from shoal.api.http.convert import Upload
from shoal.api.listing import actor, profile_of
from shoal.commands import members
from shoal.commands.members import ProfileChange
from shoal.core.model import QuotePolicy
from shoal.core.places import PlacePrecision
from shoal.graph.access import access_member
from shoal.graph.schema import REQUESTED_BY
from shoal.settings import Settings

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
    """Kept for clients that show it; there are no quotes here."""


class ShoalProfileParams(msgspec.Struct, frozen=True):
    """How the caller reads, as far as the server decides it, and how exactly places are kept."""

    aggregate_reblogs: bool | None = None
    """Whether a status stands once in home and lists: a reblog is left out where the status or an older reblog of it stands
    among the 40 below."""
    place_precision: PlacePrecision | None = None
    """How exactly the places of new statuses are stored: rounded to so many metres, not at all, or as they are. Statuses that
    are there stay as they are."""
    rankable: bool | None = None
    """Whether the caller's statuses may appear in feeds that are ranked by interest."""
    findable_by_email: bool | None = None
    """Whether those who know the caller's e-mail address can find them by it."""


class CredentialChanges(msgspec.Struct, frozen=True):
    """Changes to the caller's profile. A field that is None keeps its value."""

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
    """Websites that may name the caller as an author."""
    source: SourceParams = SourceParams()
    shoal: ShoalProfileParams = ShoalProfileParams()


async def verify(context: Context, _params: None) -> object:
    """The caller's account, with what only they see of it."""
    return await _shown(context)


async def update(context: Context, params: CredentialChanges) -> object:
    """Change the profile."""
    front = context.deps
    fields, source = params.fields_attributes, params.source
    changes = ProfileChange(
        display_name=params.display_name,
        note=params.note,
        fields=None if fields is None else [(field.name, field.value) for field in fields],
        bot=params.bot,
        discoverable=params.discoverable,
        locked=params.locked,
        hides_connections=params.hide_collections,
        indexable=params.indexable,
        folds_shares=params.shoal.aggregate_reblogs,
        rankable=params.shoal.rankable,
        findable_by_email=params.shoal.findable_by_email,
        default_visibility=presenter.VISIBILITY[source.privacy] if source.privacy else None,
        default_sensitive=source.sensitive,
        default_language=source.language,
        quote_policy=source.quote_policy,
        place_precision=params.shoal.place_precision,
        attribution_domains=params.attribution_domains,
        avatar=params.avatar.data if params.avatar else None,
        header=params.header.data if params.header else None,
    )
    await members.update_profile(front.writes, actor(context), changes)
    return await _shown(context)


async def remove_avatar(context: Context, _params: None) -> object:
    """Take the picture of the profile away."""
    front = context.deps
    await members.remove_picture(front.writes, actor(context), "avatar")
    return await _shown(context)


async def remove_header(context: Context, _params: None) -> object:
    """Take the picture at the head of the profile away."""
    front = context.deps
    await members.remove_picture(front.writes, actor(context), "header")
    return await _shown(context)


async def preferences(context: Context, _params: None) -> object:
    """How the caller posts and reads, unless they say otherwise."""
    front = context.deps
    return people_entities.preferences(await access_member(front.graph, actor(context)))


async def _shown(context: Context) -> entities.CredentialAccount:
    front = context.deps
    member = actor(context)
    asking = (await front.graph.assoc_count((member,), (REQUESTED_BY,)))[REQUESTED_BY].get(member, 0)
    return presenter.credential_account(await profile_of(context, member), front.at, asking)


PROFILE_ROUTES = (
    rows.route(
        "DELETE",
        "/api/v1/profile/avatar",
        remove_avatar,
        scope="write:accounts",
        answer=CredentialAccount,
    ),
    rows.route(
        "DELETE",
        "/api/v1/profile/header",
        remove_header,
        scope="write:accounts",
        answer=CredentialAccount,
    ),
    rows.route("GET", "/api/v1/preferences", preferences, scope="read:accounts", answer=Preferences),
)


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows; the settings say how large a picture may be."""
    return (
        rows.route(
            "GET",
            "/api/v1/accounts/verify_credentials",
            verify,
            scope="read:accounts",
            answer=CredentialAccount,
        ),
        rows.route(
            "PATCH",
            "/api/v1/accounts/update_credentials",
            update,
            scope="write:accounts",
            params=CredentialChanges,
            max_body=2 * settings.max_upload_bytes + 2 * rows.FORM,
            answer=CredentialAccount,
        ),
    )
