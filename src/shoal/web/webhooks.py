"""Pages of webhooks for admins: create them, review their deliveries, pause, resume, test and delete them."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.model import Role
from shoal.core.webhooks import MAX_URL, Delivery, Pause
from shoal.http.params import Id
from shoal.i18n import When
from shoal.outgoing import networks_of
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.rendering import page
from shoal.web.request_context import Form, PageContext
from shoal.webhooks import endpoints
from shoal.webhooks.endpoints import NewSecret, WebhookView


class WebhookForm(Form, frozen=True, kw_only=True):
    url: Annotated[str, Meta(max_length=MAX_URL)] = ""
    types: Annotated[str, Meta(max_length=1_000)] = ""


class WebhookPath(msgspec.Struct, frozen=True):
    id: Id
    done: Literal["", "change", "test"] = ""


class ActionForm(Form, frozen=True, kw_only=True):
    id: Id
    do: Literal["pause", "resume", "test", "replay", "rotate", "delete"]


class WebhookItem(NamedTuple):
    view: WebhookView
    state: str
    wrong: bool
    """Whether deliveries fail, or the endpoint was paused because they did."""


class DeliveryRow(NamedTuple):
    when: When
    delivery: Delivery


_USUAL = WebhookForm()


def _item(ctx: PageContext, view: WebhookView) -> WebhookItem:
    _, words = ctx.words.text, ctx.words
    states = {
        Pause.MANUAL: _("Paused"),
        Pause.KEY: _("Paused by its server key"),
        Pause.FAILING: _("Paused: deliveries failed for three days"),
        Pause.GONE: _("Paused: the server says that this URL is gone"),
        Pause.FULL: _("Paused: too many events are parked"),
        Pause.EXPIRED: _("Paused: events were deleted from the event log before they were delivered"),
        Pause.NO_KEY: _("Paused: its server key was deleted"),
    }
    if view.paused:
        return WebhookItem(view, states[view.paused], wrong=view.paused not in {Pause.MANUAL, Pause.KEY})
    if view.failed_attempts:
        state = words.counted("%(n)s failed attempt", "%(n)s failed attempts", view.failed_attempts)
        return WebhookItem(view, state, wrong=True)
    return WebhookItem(view, _("Active"), wrong=False)


async def show_all(
    ctx: PageContext, _params: None = None, wrong: Wrong = RIGHT, typed: WebhookForm = _USUAL
) -> Response:
    ctx.staff(Role.ADMIN)
    items = [_item(ctx, view) for view in await endpoints.views(ctx.graph)]
    return await page(ctx, "webhooks", title=ctx.words.text("Webhooks"), items=items, wrong=wrong, typed=typed)


async def add(ctx: PageContext, asked: WebhookForm) -> Response:
    ctx.staff(Role.ADMIN)
    ctx.check_sent(asked)
    try:
        # Private data needs more than a browser session: the command line or a server key.
        made = await endpoints.create(ctx.writes, ctx.app.events, asked.url.strip(), asked.types)
    except InvalidInput as error:
        return await show_all(ctx, None, wrong_of(ctx.words, error), asked)
    return await _shown(ctx, made.id, made)


async def show_one(ctx: PageContext, asked: WebhookPath) -> Response:
    ctx.staff(Role.ADMIN)
    return await _shown(ctx, asked.id, done=asked.done)


async def _shown(ctx: PageContext, id_: int, made: NewSecret | None = None, *, done: str = "") -> Response:
    webhook, _ = await endpoints.find(ctx.graph, id_), ctx.words.text
    deliveries = await endpoints.deliveries(ctx.graph, webhook)
    confirmation, failure = _("Done.") if done else "", ""
    if done == "test" and (tested := next((one for one in deliveries if one.type == endpoints.TEST_TYPE), None)):
        confirmation = _("The server accepted the test event.")
        if not tested.succeeded:
            cause = str(tested.status or tested.excerpt)
            failure = _("The test event was not accepted: %(cause)s") % {"cause": cause}
    return await page(
        ctx,
        "webhook",
        title=ctx.words.text("Webhook"),
        item=_item(ctx, await endpoints.view(ctx.graph, id_)),
        secret=made.secret if made else "",
        rows=[DeliveryRow(ctx.when(each.at), each) for each in deliveries],
        confirmation=confirmation,
        failure=failure,
    )


async def act(ctx: PageContext, asked: ActionForm) -> Response:
    ctx.staff(Role.ADMIN)
    ctx.check_sent(asked)
    webhook = await endpoints.find(ctx.graph, asked.id)
    match asked.do:
        case "pause":
            await endpoints.pause(ctx.writes, webhook)
        case "resume":
            await endpoints.resume(ctx.writes, ctx.app.events, webhook)
        case "test":
            allowed = networks_of(ctx.settings.webhook_networks, "webhook_networks")
            await endpoints.test(ctx.writes, allowed, ctx.app.at.root, webhook)
        case "replay":
            await endpoints.replay(ctx.writes, webhook)
        case "rotate":
            return await _shown(ctx, webhook.id, await endpoints.rotate(ctx.writes, webhook))
        case "delete":
            await endpoints.delete(ctx.writes, webhook)
            return ctx.go("/ops/webhooks")
    return ctx.go(f"/ops/webhooks/{webhook.id}", done="test" if asked.do == "test" else "change")


ROUTES = (
    routing.page("/ops/webhooks", show_all),
    routing.form("/ops/webhooks", add, WebhookForm, secret=True),
    routing.page("/ops/webhooks/{id}", show_one, WebhookPath),
    routing.form("/ops/webhooks/{id}", act, ActionForm, secret=True),
)
