"""Web push subscriptions of the caller's session: the endpoint of the app, and the notifications that are pushed to it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import push_subscriptions
from shoal.core.errors import InvalidInput, NotFound
from shoal.graph.payloads.notifications import WITHOUT_ACTOR, Kind
from shoal.http.authentication import bearer_of
from shoal.i18n import language_for
from shoal.mastodon_api.context import AppContext, Context, Router, actor
from shoal.mastodon_api.entities.notifications import WebPushSubscription
from shoal.push import messages
from shoal.push.encryption import ServerKey
from shoal.push.messages import KEY_BYTES, MAX_ENDPOINT, SECRET_BYTES, WIRE_KINDS, PushPolicy, PushSubscription

router = Router()

_Word = Annotated[str, Meta(max_length=200)]
_WITHOUT_ALERT = WITHOUT_ACTOR | {Kind.REACTION, Kind.HELD}
"""Kinds of notifications that clients cannot select in `alerts`."""


class PushKeys(msgspec.Struct, frozen=True):
    """The app's keys for encrypting messages to it, in base64."""

    p256dh: _Word = ""
    """The public key: an uncompressed P-256 point of 65 bytes."""
    auth: _Word = ""
    """A secret of 16 bytes."""


class PushTarget(msgspec.Struct, frozen=True):
    """The push service endpoint of an app, and its keys."""

    endpoint: Annotated[str, Meta(max_length=MAX_ENDPOINT)] = ""
    """An https URL on the public internet."""
    keys: PushKeys = PushKeys()
    standard: bool = False
    """Whether messages are encrypted by RFC 8291 and 8292. If not, they are encrypted by earlier drafts."""


class PushAlerts(msgspec.Struct, frozen=True, rename={"sign_up": "admin.sign_up", "report": "admin.report"}):
    """Types of notifications to push."""

    mention: bool = False
    status: bool = False
    reblog: bool = False
    follow: bool = False
    follow_request: bool = False
    favourite: bool = False
    poll: bool = False
    update: bool = False
    sign_up: bool = False
    report: bool = False

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of notifications to push.

        Emoji reactions are pushed if favourites are, because clients cannot select emoji reactions.
        """
        selected = {
            Kind.MENTION: self.mention,
            Kind.POST: self.status,
            Kind.SHARE: self.reblog,
            Kind.FOLLOW: self.follow,
            Kind.REQUEST: self.follow_request,
            Kind.LIKE: self.favourite,
            Kind.REACTION: self.favourite,
            Kind.POLL: self.poll,
            Kind.EDIT: self.update,
            Kind.REGISTRATION: self.sign_up,
            Kind.REPORT: self.report,
        }
        return [kind for kind, is_selected in selected.items() if is_selected]


class PushData(msgspec.Struct, frozen=True):
    """Which types of notifications to push, and from which senders."""

    alerts: PushAlerts | None = None
    policy: PushPolicy | None = None


class PushParams(msgspec.Struct, frozen=True):
    subscription: PushTarget = PushTarget()
    data: PushData = PushData()


class PushChanges(msgspec.Struct, frozen=True):
    data: PushData = PushData()
    policy: PushPolicy | None = None
    """The policy of a client that sends it outside `data`, as Mastodon's documentation says."""


@router.get("/api/v1/push/subscription", scope="push", answer=WebPushSubscription, refuses=(404,))
async def get_subscription(context: Context, _params: None) -> object:
    """Show the push subscription of the caller's session."""
    key = _key(context.app)
    found = await push_subscriptions.found(context.app.graph, actor(context), context.caller.token_id)
    return _shown(context, found, key)


@router.post("/api/v1/push/subscription", scope="push", answer=WebPushSubscription, refuses=(404,))
async def subscribe(context: Context, params: PushParams) -> object:
    """Subscribe the caller's session to push messages. This replaces its previous subscription."""
    app_context, target = context.app, params.subscription
    key = _key(app_context)
    if not target.endpoint:
        raise InvalidInput("subscription[endpoint] is missing", field="endpoint")
    subscription = PushSubscription(
        endpoint=target.endpoint,
        key=messages.check_bytes(target.keys.p256dh, KEY_BYTES, "p256dh"),
        secret=messages.check_bytes(target.keys.auth, SECRET_BYTES, "auth"),
        alerts=tuple(map(str, (params.data.alerts or PushAlerts()).kinds)),
        policy=params.data.policy or "all",
        standard=target.standard,
        language=language_for(context.request.headers.get("accept-language", "")),
        sealed=key.seal(bearer_of(context.request) or ""),
    )
    await push_subscriptions.subscribe(app_context.writes, actor(context), context.caller.token_id, subscription)
    return _shown(context, subscription, key)


@router.put("/api/v1/push/subscription", scope="push", answer=WebPushSubscription, refuses=(404,))
async def change_subscription(context: Context, params: PushChanges) -> object:
    """Change the types and senders of push messages."""
    key = _key(context.app)
    alerts = params.data.alerts.kinds if params.data.alerts else None
    policy = params.data.policy or params.policy
    changed = await push_subscriptions.change(
        context.app.writes, actor(context), context.caller.token_id, alerts, policy
    )
    return _shown(context, changed, key)


@router.delete("/api/v1/push/subscription", scope="push", answer=dict)
async def unsubscribe(context: Context, _params: None) -> None:
    """Delete the push subscription of the caller's session."""
    await push_subscriptions.end(context.app.writes, actor(context), context.caller.token_id)


def _key(app_context: AppContext) -> ServerKey:
    if app_context.server_key is None:
        raise NotFound("Record not found")
    return app_context.server_key


def _shown(context: Context, found: PushSubscription, key: ServerKey) -> WebPushSubscription:
    return WebPushSubscription(
        id=str(context.caller.token_id),
        endpoint=found.endpoint,
        standard=found.standard,
        alerts={WIRE_KINDS[kind]: kind in found.alerts for kind in Kind if kind not in _WITHOUT_ALERT},
        policy=found.policy,
        server_key=key.public,
    )
