"""Notifications: whose reach the member at once, wait, or never come."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import notifications, push_subscriptions
from shoal.core.model import NoticePolicy, Treatment
from shoal.graph.payloads.notifications import Kind
from shoal.push.subscription import KEY_BYTES, MAX_ENDPOINT, SECRET_BYTES, PushSubscription, check_bytes
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.visit import Form, Visit

_RULES = NoticePolicy.__struct_fields__


class NoticesForm(Form, frozen=True, kw_only=True):
    """The policy for notifications from five kinds of senders."""

    not_following: Treatment = Treatment.ACCEPT
    not_followers: Treatment = Treatment.ACCEPT
    new_accounts: Treatment = Treatment.ACCEPT
    private_mentions: Treatment = Treatment.ACCEPT
    limited_accounts: Treatment = Treatment.ACCEPT


class PushForm(Form, frozen=True, kw_only=True):
    """A subscription of this browser at its push service, or its end."""

    do: Literal["begin", "end"]
    endpoint: Annotated[str, Meta(max_length=MAX_ENDPOINT)] = ""
    p256dh: Annotated[str, Meta(max_length=200)] = ""
    auth: Annotated[str, Meta(max_length=200)] = ""


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """The rules as they are."""
    _, policy = visit.words.text, visit.member.notices
    words = {
        "not_following": (_("From people whom you do not follow"), ""),
        "not_followers": (_("From people who do not follow you"), _("Or have for less than three days")),
        "new_accounts": (_("From new members"), _("Who joined in the last thirty days, and whom you do not follow")),
        "private_mentions": (_("Direct messages that nobody asked for"), _("From people whom you do not follow")),
        "limited_accounts": (_("From people whom moderators have quietened"), _("And whom you do not follow")),
    }
    treatments = (
        (Treatment.ACCEPT, _("Show")),
        (Treatment.FILTER, _("Hold back")),
        (Treatment.DROP, _("Ignore")),
    )
    rules = [(name, *words[name], getattr(policy, name)) for name in _RULES]
    key = visit.front.push_key
    return await settings_page(
        visit,
        "notifications",
        saved=query.saved,
        rules=rules,
        treatments=treatments,
        push_key=key,
        pushing=bool(key) and await push_subscriptions.is_made(visit.front.graph, visit.member.id, visit.session_id),
    )


async def save(visit: Visit, asked: NoticesForm) -> Response:
    """Keep the rules as they were filled in."""
    member = visit.checked(asked)
    changes = {name: getattr(asked, name) for name in _RULES}
    await notifications.set_policy(visit.front.writes, member.id, changes)
    return saved_at(visit, "notifications")


async def push(visit: Visit, asked: PushForm) -> Response:
    """Have messages sent to this browser, or no more. A script sends this form: only it can ask the browser."""
    member = visit.checked(asked)
    if asked.do == "end" or visit.front.server_key is None:
        await push_subscriptions.end(visit.front.writes, member.id, visit.session_id)
        return Response(status_code=204)
    wanted = PushSubscription(
        endpoint=asked.endpoint,
        key=check_bytes(asked.p256dh, KEY_BYTES, "p256dh"),
        secret=check_bytes(asked.auth, SECRET_BYTES, "auth"),
        alerts=tuple(map(str, Kind)),
        language=visit.words.code,
    )
    await push_subscriptions.subscribe(visit.front.writes, member.id, visit.session_id, wanted)
    return Response(status_code=204)


ROUTES = (
    rows.page("/settings/notifications", show, SettingsQuery),
    rows.form("/settings/notifications", save, NoticesForm),
    rows.form("/settings/push", push, PushForm),
)
