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
from shoal.queries.event_filter import MAX_FILTER
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
    filter: Annotated[str, Meta(max_length=MAX_FILTER)] = ""
    """Conditions on the data of events, separated by commas, such as `author_id=123,tags=dawn`; empty for none."""
    private: bool = False
    """Send everything that the key may receive, instead of public data. Needs the scope `server:private`."""
    format: WebhookFormat = "standard"
    """`mastodon` for the events of Mastodon's admin webhooks, such as `account.created`: needs `private` and `admin:read`."""


class UpdateWebhookParams(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    url: Annotated[str, Meta(max_length=MAX_URL)] | None = None
    """An https URL."""
    types: Annotated[str, Meta(max_length=_MAX_TYPES)] | None = None
    """Types of events, separated by commas; empty for all."""
    filter: Annotated[str, Meta(max_length=MAX_FILTER)] | None = None
    """Conditions on the data of events, separated by commas; empty for none."""


class RotateParams(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    grace: Annotated[int, Meta(ge=0, le=MAX_GRACE_SECONDS)] = USUAL_GRACE_SECONDS
    """Seconds for which requests are signed with the current secret too; 0 ends all former ones."""


class WebhookEntity(msgspec.Struct, kw_only=True):
    """A webhook, without its secret."""

    id: str
    url: str
    types: str
    """Types of events, separated by commas; empty for all."""
    filter: str
    """Conditions on the data of events, separated by commas; empty for none."""
    private: bool
    """Whether private data is sent too."""
    format: WebhookFormat
    paused: str | None
    """Why no events are sent: `manual`, `key`, `failing`, `gone`, `full`, `expired` or `no_key`; null if events are sent."""
    failed_attempts: int
    """Failed deliveries of the next event."""
    retry_at: str | None
    """When that event is sent again; null if the last delivery succeeded."""
    parked: int
    """Number of events that failed for three days, and can be replayed."""
    lag_events: int | None
    """Number of waiting events that one read of the log finds, at most 200; null if it is unknown."""
    lag_seconds: float | None
    """Age of the oldest of them; 0 if none wait, null if it is not known."""


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
    """Number of parked events."""


@router.get(_PATH, answer=list[WebhookEntity])
async def list_webhooks(context: Context, _params: None) -> object:
    """List the webhooks of the key, newest first."""
    views = await endpoints.views(context.app.graph, context.app.events, context.caller.app_id)
    return [_entity(view) for view in views]


@router.post(_PATH, answer=NewSecretEntity)
async def add_webhook(context: Context, params: AddWebhookParams) -> object:
    """Create a webhook that receives the events from now on. A network has at most 50 webhooks, and a key 10."""
    access = access_for(params.format, private=params.private, most=access_of(context.caller))
    app, key_id = context.app, context.caller.app_id
    made = await endpoints.create(
        app.writes, app.events, params.url, params.types, access, params.format, key_id, params.filter
    )
    return _secret(made)


@router.get(f"{_PATH}/{{id}}", answer=WebhookEntity)
async def get_webhook(context: Context, params: One) -> object:
    """Show a webhook of the key."""
    return await _shown(context, params.id)


@router.patch(f"{_PATH}/{{id}}", answer=WebhookEntity)
async def update_webhook(context: Context, params: UpdateWebhookParams) -> object:
    """Change the URL, the types or the filter of a webhook. Its secrets stay.

    Events that are not delivered yet follow the new values.
    """
    webhook, key_id = await _found(context, params.id), context.caller.app_id
    await endpoints.update(
        context.app.writes, webhook, url=params.url, types=params.types, filter_=params.filter, key_id=key_id
    )
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


@router.post(f"{_PATH}/{{id}}/pause", answer=WebhookEntity)
async def pause_webhook(context: Context, params: One) -> object:
    """Pause a webhook. Its events wait in the event log."""
    await endpoints.pause(context.app.writes, await _found(context, params.id), context.caller.app_id)
    return await _shown(context, params.id)


@router.post(f"{_PATH}/{{id}}/resume", answer=WebhookEntity)
async def resume_webhook(context: Context, params: One) -> object:
    """Resume a webhook from the event at which it stopped; from now on, if that event was deleted from the event log.

    A key cannot resume a webhook that an operator paused.
    """
    app = context.app
    await endpoints.resume(app.writes, app.events, await _found(context, params.id), context.caller.app_id)
    return await _shown(context, params.id)


@router.post(f"{_PATH}/{{id}}/test", answer=DeliveryEntity)
async def test_webhook(context: Context, params: One) -> object:
    """Send an event of the type `webhook.test`, even if the webhook is paused, and show the result."""
    app, webhook = context.app, await _found(context, params.id)
    allowed = networks_of(app.settings.webhook_networks, "webhook_networks")
    return _delivery(await endpoints.test(app.writes, allowed, app.at.root, webhook))


@router.post(f"{_PATH}/{{id}}/replay", answer=ReplayEntity)
async def replay_webhook(context: Context, params: One) -> object:
    """Deliver the parked events again, oldest first, until one fails. Each shows the current state of its object."""
    return ReplayEntity(parked=await endpoints.replay(context.app.writes, await _found(context, params.id)))


@router.post(f"{_PATH}/{{id}}/rotate", answer=NewSecretEntity)
async def rotate_webhook(context: Context, params: RotateParams) -> object:
    """Create a new secret of a webhook. At most five secrets are valid at a time."""
    webhook = await _found(context, params.id)
    return _secret(await endpoints.rotate(context.app.writes, webhook, params.grace))


async def _found(context: Context, id_: int) -> Webhook:
    return await endpoints.find(context.app.graph, id_, context.caller.app_id)


async def _shown(context: Context, id_: int) -> WebhookEntity:
    return _entity(await endpoints.view(context.app.graph, context.app.events, id_, context.caller.app_id))


def _entity(view: WebhookView) -> WebhookEntity:
    return WebhookEntity(
        id=str(view.id),
        url=view.url,
        types=view.types,
        filter=view.filter,
        private=view.private,
        format=view.format,
        paused=view.paused or None,
        failed_attempts=view.failed_attempts,
        retry_at=moment(view.retry_at) if view.retry_at else None,
        parked=view.parked,
        lag_events=view.lag.events if view.lag else None,
        lag_seconds=round(view.lag.seconds, 3) if view.lag else None,
    )


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
