"""Content that waits for approval: the author's own, and the queue for moderators and server keys. Mastodon has no equivalent."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.commands import held_content
from shoal.core.ids import milliseconds_of
from shoal.core.model import Role, Visibility
from shoal.core.publishing import MAX_REASON, HeldContent
from shoal.graph.access import get_object
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.mastodon_api.context import Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities.serializers import WIRE_VISIBILITY, moment
from shoal.queries.moderation import held_page

router = Router(role=Role.MODERATOR)
own_router = Router()
keys_router = Router(auth="server", scope="server:moderation", limit_class="server")

_KEYS_PATH = "/api/shoal/v1/moderation/held"
_PATH = "/api/shoal/v1/admin/held"
_OWN_PATH = "/api/shoal/v1/held"


class OwnHeldEntity(msgspec.Struct, kw_only=True):
    """Content that its author sees as waiting for approval, or as rejected."""

    id: str
    kind: Literal["post", "edit", "profile", "media"]
    """For `media`, a new description of the file."""
    text: str
    data: str
    """`data` of a status, as JSON; empty without."""
    visibility: str
    media_ids: list[str]
    descriptions: list[str]
    """Descriptions of the files of a status, in the order of `media_ids`. The approval fails if they have been changed since."""
    target_id: str | None
    """The status of an edit, or the file of a description."""
    created_at: str
    rejected_at: str | None
    """Null while it waits."""
    refusal: str
    """Why it was rejected; may be empty."""


class HeldEntity(OwnHeldEntity, kw_only=True):
    """Content that waits for approval, as moderators see it."""

    account_id: str
    reason: str
    """Why it was held."""
    rule: str
    """The rule that held it; empty for the moderation hook."""


class DecisionParams(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    action: Literal["approve", "reject"]
    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""
    """Why it is rejected, for the author."""


class DecisionEntity(msgspec.Struct, kw_only=True):
    """The result of a decision. A repeated decision has the same result for 30 days."""

    id: str
    action: Literal["approve", "reject"]
    published_id: str | None
    """The created or edited status, the account of a profile change, or the described file."""


def _own(held: HeldContent) -> OwnHeldEntity:
    return OwnHeldEntity(
        id=str(held.id),
        kind=held.kind,
        text=held.text,
        data=held.data,
        visibility=WIRE_VISIBILITY[Visibility(held.visibility)],
        media_ids=list(map(str, held.media)),
        descriptions=list(held.descriptions),
        target_id=str(held.target_id) if held.target_id else None,
        created_at=moment(milliseconds_of(held.id)),
        rejected_at=moment(held.rejected_at) if held.rejected_at else None,
        refusal=held.refusal,
    )


def _entity(held: HeldContent) -> HeldEntity:
    own = msgspec.structs.asdict(_own(held))
    return HeldEntity(**own, account_id=str(held.owner_id), reason=held.reason, rule=held.rule)


@own_router.get(_OWN_PATH, scope="read:statuses", answer=list[OwnHeldEntity])
async def list_own(context: Context, params: PageQuery) -> object:
    """List the caller's content that is waiting for approval or was rejected, newest first."""
    cursor = cursor_of(params)
    found = await held_page(context.app.graph, cursor, actor(context))
    return paged(context, list(map(_own, found.items)), [held.id for held in found.items], found.next, cursor)


@own_router.delete(f"{_OWN_PATH}/{{id}}", scope="write:statuses", answer=dict)
async def withdraw(context: Context, params: One) -> None:
    """Delete content of the caller that is waiting for approval or was rejected."""
    await held_content.withdraw(context.app.writes, actor(context), params.id)


@router.get(_PATH, scope="admin:read:reports", answer=list[HeldEntity])
@keys_router.get(_KEYS_PATH, answer=list[HeldEntity])
async def list_held(context: Context, params: PageQuery) -> object:
    """List the content that is waiting for approval, newest first."""
    cursor = cursor_of(params)
    found = await held_page(context.app.graph, cursor)
    return paged(context, list(map(_entity, found.items)), [held.id for held in found.items], found.next, cursor)


@router.get(f"{_PATH}/{{id}}", scope="admin:read:reports", answer=HeldEntity)
@keys_router.get(f"{_KEYS_PATH}/{{id}}", answer=HeldEntity)
async def get_held(context: Context, params: One) -> object:
    """Show content that is waiting for approval or was rejected."""
    return _entity(await get_object(context.app.graph, HeldContent, params.id))


@router.post(f"{_PATH}/{{id}}/decision", scope="admin:write:reports", answer=DecisionEntity)
@keys_router.post(f"{_KEYS_PATH}/{{id}}/decision", answer=DecisionEntity)
async def decide(context: Context, params: DecisionParams) -> object:
    """Approve content, which is then public, or reject it for a reason that its author sees."""
    published: str | None = None
    if params.action == "approve":
        published = str(await held_content.approve(context.app.writes, params.id))
    else:
        await held_content.reject(context.app.writes, params.id, params.reason)
    return DecisionEntity(id=str(params.id), action=params.action, published_id=published)
