"""Webhooks of server keys. A key sees and changes only the webhooks that it created. Mastodon has no equivalent."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.core.webhooks import MAX_GRACE_SECONDS, MAX_URL, USUAL_GRACE_SECONDS, Delivery, Webhook, WebhookFormat
from shoal.http.params import Id
from shoal.mastodon_api.context import Context, One, Router
from shoal.mastodon_api.entities.serializers import moment
from shoal.mastodon_api.events import access_of
from shoal.outgoing import networks_of
from shoal.webhooks import endpoints
from shoal.webhooks.endpoints import NewSecret, WebhookView, access_for

router = Router(auth="server", scope="server:webhooks", limit_class="server")

_PATH = "/api/shoal/v1/webhooks"
_MAX_TYPES = 1_000


class AddWebhookParams(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, Meta(max_length=MAX_URL)]
    """An https URL."""
    types: Annotated[str, Meta(max_length=_MAX_TYPES)] = ""
    """Types of events, separated by commas, such as `post.created,member`; empty for all that the webhook may receive."""
    private: bool = False
    """Send everything that the key may receive, instead of public data. Needs the scope `server:private`."""
    format: WebhookFormat = "standard"
    """`mastodon` for the events of Mastodon's admin webhooks, such as `account.created`. Needs the scope `admin:read`."""


class RotateParams(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    grace: Annotated[int, Meta(ge=0, le=MAX_GRACE_SECONDS)] = USUAL_GRACE_SECONDS
    """Seconds for which requests are signed with the former secret too."""


class NewSecretEntity(msgspec.Struct, kw_only=True):
    """The new secret of a webhook, which cannot be read again."""

    id: str
    secret: str


class DeliveryEntity(msgspec.Struct, kw_only=True):
    """A request to the URL of a webhook."""

    at: str
    event_id: str
    type: str
    status: int
    """The status of the response; 0 if there was none."""
    milliseconds: int
    excerpt: str
    """The first 200 characters of the response, or the cause of the failure."""


class ReplayEntity(msgspec.Struct, kw_only=True):
    parked: int
    """Number of events that will be delivered again."""


@router.get(_PATH, answer=list[WebhookView])
async def list_webhooks(context: Context, _params: None) -> object:
    """List the webhooks of the key, newest first."""
    return await endpoints.views(context.app.graph, context.caller.app_id)


@router.post(_PATH, answer=NewSecretEntity)
async def add_webhook(context: Context, params: AddWebhookParams) -> object:
    """Create a webhook that receives the events from now on. A network has at most 50 webhooks."""
    access = access_for(params.format, private=params.private, most=access_of(context.caller))
    app, key_id = context.app, context.caller.app_id
    return _secret(
        await endpoints.create(app.writes, app.events, params.url, params.types, access, params.format, key_id)
    )


@router.get(f"{_PATH}/{{id}}", answer=WebhookView)
async def get_webhook(context: Context, params: One) -> object:
    """Show a webhook of the key."""
    return await _shown(context, params.id)


@router.delete(f"{_PATH}/{{id}}", answer=dict)
async def delete_webhook(context: Context, params: One) -> None:
    """Delete a webhook with its parked events and its delivery log."""
    await endpoints.delete(context.app.writes, await _found(context, params.id))


@router.get(f"{_PATH}/{{id}}/deliveries", answer=list[DeliveryEntity])
async def list_deliveries(context: Context, params: One) -> object:
    """List the newest 50 deliveries of a webhook, newest first."""
    made = await endpoints.deliveries(context.app.graph, await _found(context, params.id))
    return [_delivery(delivery) for delivery in made]


@router.post(f"{_PATH}/{{id}}/pause", answer=WebhookView)
async def pause_webhook(context: Context, params: One) -> object:
    """Pause a webhook. Its events wait in the event log."""
    await endpoints.pause(context.app.writes, await _found(context, params.id))
    return await _shown(context, params.id)


@router.post(f"{_PATH}/{{id}}/resume", answer=WebhookView)
async def resume_webhook(context: Context, params: One) -> object:
    """Resume a webhook from the event at which it stopped; from now on, if that event was deleted from the event log."""
    app = context.app
    await endpoints.resume(app.writes, app.events, await _found(context, params.id))
    return await _shown(context, params.id)


@router.post(f"{_PATH}/{{id}}/test", answer=DeliveryEntity)
async def test_webhook(context: Context, params: One) -> object:
    """Send an event of the type `webhook.test`, even if the webhook is paused, and show the result."""
    app, webhook = context.app, await _found(context, params.id)
    allowed = networks_of(app.settings.outgoing_networks, "outgoing_networks")
    return _delivery(await endpoints.test(app.writes, allowed, app.at.root, webhook))


@router.post(f"{_PATH}/{{id}}/replay", answer=ReplayEntity)
async def replay_webhook(context: Context, params: One) -> object:
    """Deliver the parked events again, oldest first, until one fails."""
    return ReplayEntity(parked=await endpoints.replay(context.app.writes, await _found(context, params.id)))


@router.post(f"{_PATH}/{{id}}/rotate", answer=NewSecretEntity)
async def rotate_webhook(context: Context, params: RotateParams) -> object:
    """Create a new secret of a webhook."""
    webhook = await _found(context, params.id)
    return _secret(await endpoints.rotate(context.app.writes, webhook, params.grace))


async def _found(context: Context, id_: int) -> Webhook:
    return await endpoints.find(context.app.graph, id_, context.caller.app_id)


async def _shown(context: Context, id_: int) -> WebhookView:
    return await endpoints.view(context.app.graph, id_, context.caller.app_id)


def _secret(made: NewSecret) -> NewSecretEntity:
    return NewSecretEntity(id=str(made.id), secret=made.secret)


def _delivery(made: Delivery) -> DeliveryEntity:
    return DeliveryEntity(
        at=moment(made.at),
        event_id=made.event_id,
        type=made.type,
        status=made.status,
        milliseconds=made.milliseconds,
        excerpt=made.excerpt,
    )
