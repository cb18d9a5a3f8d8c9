"""Invitations: the caller's links by which others sign up."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities.presenter import moment
from shoal.api.http.scopes import granted
from shoal.api.listing import One, actor
from shoal.commands import invitations
from shoal.core.errors import SecondFactorNeeded
from shoal.core.model import Role
from shoal.core.signup import USUAL_SECONDS, Invitation

_INVITES = "/api/shoal/v1/invites"


class NewInvite(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation to be made."""

    max_uses: Annotated[int, Meta(ge=0, le=1_000_000)] = 1
    """How many may sign up by it: 1 to 100; 0, for moderators and admins: any number."""
    expires_in: Annotated[int, Meta(ge=0, le=1_000_000_000)] = USUAL_SECONDS
    """Seconds for which it is good: an hour to 30 days; 0, for moderators and admins: it has no end."""
    autofollow: bool = False
    """Whether those who sign up by it follow the caller."""


class InviteEntity(msgspec.Struct, kw_only=True):
    """A link by which others sign up."""

    id: str
    code: str
    """The `invite_code` of `POST /api/v1/accounts`."""
    url: str
    created_at: str
    expires_at: str | None
    max_uses: int | None
    uses: int
    autofollow: bool
    open: bool
    """Whether somebody can sign up by it now."""


async def several(context: Context, _params: None) -> object:
    """List the caller's invitations, newest first: the open ones, and those that are over or used up."""
    front = context.deps
    return [_shown(front, one) for one in await invitations.of_member(front.writes, actor(context))]


async def create(context: Context, params: NewInvite) -> object:
    """Make an invitation. Who may is for the setting `invitations`."""
    front = context.deps
    for_staff = invitations.is_for_staff(front.writes, uses=params.max_uses, seconds=params.expires_in)
    if for_staff and context.caller.unguarded:
        raise SecondFactorNeeded
    made = await invitations.create(
        front.writes, actor(context), uses=params.max_uses, seconds=params.expires_in, follow=params.autofollow
    )
    return _shown(front, made)


async def end(context: Context, params: One) -> object:
    """End an own invitation; moderators and admins, with the scope `admin:write:accounts`, end those of others, too."""
    front, caller = context.deps, context.caller
    guarded_staff = caller.role is not Role.NONE and not caller.unguarded
    as_staff = guarded_staff and granted(caller.scopes, "admin:write:accounts")
    verb = invitations.end_as_staff if as_staff else invitations.end
    await verb(front.writes, actor(context), params.id)
    return {}


def _shown(front: Front, invitation: Invitation) -> InviteEntity:
    return InviteEntity(
        id=str(invitation.id),
        code=invitation.code,
        url=f"{front.at.root}/invite/{invitation.code}",
        created_at=moment(invitation.created_at),
        expires_at=moment(invitation.expires_at) if invitation.expires_at else None,
        max_uses=invitation.most or None,
        uses=invitation.used,
        autofollow=invitation.follow,
        open=invitation.is_open(time.time_ns() // 1_000_000),
    )


ROUTES = (
    rows.route("GET", _INVITES, several, scope="read:accounts", answer=list[InviteEntity]),
    rows.route("POST", _INVITES, create, scope="write:accounts", params=NewInvite, answer=InviteEntity),
    rows.one("DELETE", f"{_INVITES}/{{id}}", end, scope="write:accounts", answer=dict),
)
