"""The caller's own account: verify it, change its profile."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.api import present
from shoal.api.calls import Context
from shoal.api.convert import Upload
from shoal.api.front import Front
from shoal.api.listing import actor, profile_of
from shoal.services import members
from shoal.services.members import Profile

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


class Changes(msgspec.Struct, frozen=True):
    """What is to change: a value that is not there stays."""

    display_name: _Text | None = None
    note: _Text | None = None
    avatar: Upload | None = None
    header: Upload | None = None
    bot: bool | None = None
    discoverable: bool | None = None
    fields_attributes: Annotated[tuple[FieldParams, ...], Meta(max_length=100)] | None = None
    source: SourceParams = SourceParams()


async def verify(context: Context, _params: None) -> object:
    """The caller's account, with what only they see of it."""
    front: Front = context.deps
    return present.credential_account(await profile_of(context, actor(context)), front.at)


async def update(context: Context, params: Changes) -> object:
    """Change the profile."""
    front: Front = context.deps
    fields, source = params.fields_attributes, params.source
    changes = Profile(
        display_name=params.display_name,
        note=params.note,
        fields=None if fields is None else [(field.name, field.value) for field in fields],
        bot=params.bot,
        discoverable=params.discoverable,
        default_visibility=present.VISIBILITY[source.privacy] if source.privacy else None,
        default_sensitive=source.sensitive,
        default_language=source.language,
        avatar=params.avatar.data if params.avatar else None,
        header=params.header.data if params.header else None,
    )
    await members.update_profile(front.writes, actor(context), changes)
    return present.credential_account(await profile_of(context, actor(context)), front.at)
