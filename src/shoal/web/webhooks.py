"""Pages of webhooks for admins: create and change them, review their deliveries, pause, resume, test and delete them."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import InvalidInput, NotAllowed, TooMany
from shoal.core.ids import now_ms
from shoal.core.model import Role
from shoal.core.webhooks import MAX_URL, Delivery, Pause, WebhookFormat
from shoal.http.params import Id
from shoal.i18n import When
from shoal.mastodon_api import login_attempts
from shoal.outgoing import networks_of
from shoal.queries.event_filter import MAX_FILTER
from shoal.queries.events import END, PUBLIC
from shoal.web import routing
from shoal.web.authentication import PasswordRefusal, password_refusal
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.ownership import owner_of, proof
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, PageContext
from shoal.webhooks import endpoints
from shoal.webhooks.endpoints import NewSecret, WebhookView, access_for


class WebhookForm(Form, frozen=True, kw_only=True):
    url: Annotated[str, Meta(max_length=MAX_URL)] = ""
    types: Annotated[str, Meta(max_length=1_000)] = ""
    filter: Annotated[str, Meta(max_length=MAX_FILTER)] = ""
    private: bool = False
    format: WebhookFormat = "standard"
    password: Line = ""
    """The password of the admin, for private data."""


class WebhookPath(msgspec.Struct, frozen=True):
    id: Id
    done: Literal["", "change", "test"] = ""


class EditForm(Form, frozen=True, kw_only=True):
    id: Id
    url: Annotated[str, Meta(max_length=MAX_URL)] = ""
    types: Annotated[str, Meta(max_length=1_000)] = ""
    filter: Annotated[str, Meta(max_length=MAX_FILTER)] = ""
    password: Line = ""
    """The password of the admin, for a new URL of private data."""


class ActionForm(Form, frozen=True, kw_only=True):
    id: Id
    do: Literal["pause", "resume", "test", "replay", "rotate", "delete"]


class WebhookItem(NamedTuple):
    view: WebhookView
    state: str
    wrong: bool
    """Whether deliveries fail, or the endpoint was paused because they did."""
    oldest: When | None
    """The time of the oldest event that waits; None if no event is known to wait."""


class DeliveryRow(NamedTuple):
    when: When
    delivery: Delivery


_USUAL = WebhookForm()


def _item(ctx: PageContext, view: WebhookView) -> WebhookItem:
    _, words = ctx.words.text, ctx.words
    waits = view.lag is not None and view.lag.events > 0
    oldest = ctx.when(now_ms() - round(1_000 * view.lag.seconds)) if view.lag and waits else None
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
        wrong = view.paused not in {Pause.MANUAL, Pause.KEY}
        return WebhookItem(view, states[view.paused], wrong, oldest)
    if view.failed_attempts:
        state = words.counted("%(n)s failed attempt", "%(n)s failed attempts", view.failed_attempts)
        return WebhookItem(view, state, wrong=True, oldest=oldest)
    return WebhookItem(view, _("Active"), wrong=False, oldest=oldest)


async def show_all(
    ctx: PageContext, _params: None = None, wrong: Wrong = RIGHT, typed: WebhookForm = _USUAL
) -> Response:
    ctx.staff(Role.ADMIN)
    items = [_item(ctx, view) for view in await endpoints.views(ctx.graph, ctx.app.events)]
    return await page(
        ctx,
        "webhooks",
        title=ctx.words.text("Webhooks"),
        items=items,
        wrong=wrong,
        typed=typed,
        owner=await owner_of(ctx),
        log_is_off=await _log_is_off(ctx),
    )


async def _log_is_off(ctx: PageContext) -> bool:
    try:
        await ctx.app.events.read(END, limit=1)
    except InvalidInput:
        return True
    return False


async def add(ctx: PageContext, asked: WebhookForm) -> Response:
    ctx.staff(Role.ADMIN)
    ctx.check_sent(asked)
    try:
        access = access_for(asked.format, private=asked.private)
        if access != PUBLIC and (refusal := await _not_owner(ctx, asked.password)):
            return refusal.on(await show_all(ctx, None, {"password": refusal.words}, asked))
        url, filter_ = asked.url.strip(), endpoints.filter_of(asked.format, asked.types, asked.filter, access)
        await _check_new(ctx, url, asked.types, filter_)
        made = await endpoints.create(
            ctx.writes, ctx.app.events, url, asked.types, access, asked.format, filter_=filter_
        )
    except InvalidInput as error:
        return await show_all(ctx, None, wrong_of(ctx.words, error), asked)
    return await _shown(ctx, made.id, made)


async def _check_new(ctx: PageContext, *chosen: str) -> None:
    """Raise `InvalidInput` if there is such a webhook: reloading the page with the new secret sends the form again."""
    if any((webhook.url, webhook.types, webhook.filter) == chosen for webhook in await endpoints.all_of(ctx.graph)):
        raise InvalidInput("url: a webhook with this URL, these types and this filter exists already", field="url")


async def _not_owner(ctx: PageContext, password: str) -> PasswordRefusal | None:
    """Return why the viewer has not proved that the account is theirs; None if they have."""
    try:
        if await login_attempts.is_owner(ctx.anonymous, ctx.member, await proof(ctx, password)):
            return None
    except (NotAllowed, TooMany) as error:
        return password_refusal(ctx.words, error)
    return PasswordRefusal(ctx.words.text("Incorrect password."))


async def show_one(ctx: PageContext, asked: WebhookPath) -> Response:
    ctx.staff(Role.ADMIN)
    return await _shown(ctx, asked.id, done=asked.done)


async def _shown(
    ctx: PageContext,
    id_: int,
    made: NewSecret | None = None,
    *,
    done: str = "",
    wrong: Wrong = RIGHT,
    typed: EditForm | None = None,
) -> Response:
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
        item=_item(ctx, await endpoints.view(ctx.graph, ctx.app.events, id_)),
        wrong=wrong,
        typed=typed or webhook,
        owner=await owner_of(ctx),
        secret=made.secret if made else "",
        rows=[DeliveryRow(ctx.when(each.at), each) for each in deliveries],
        confirmation=confirmation,
        failure=failure,
        log_is_off=await _log_is_off(ctx),
    )


async def edit(ctx: PageContext, asked: EditForm) -> Response:
    ctx.staff(Role.ADMIN)
    ctx.check_sent(asked)
    webhook, url = await endpoints.find(ctx.graph, asked.id), asked.url.strip()
    if webhook.access and url != webhook.url and (refusal := await _not_owner(ctx, asked.password)):
        return refusal.on(await _shown(ctx, webhook.id, wrong={"password": refusal.words}, typed=asked))
    try:
        await endpoints.update(ctx.writes, webhook, url=url, types=asked.types, filter_=asked.filter)
    except InvalidInput as error:
        return await _shown(ctx, webhook.id, wrong=wrong_of(ctx.words, error), typed=asked)
    return ctx.go(f"/ops/webhooks/{webhook.id}", done="change")


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
    routing.form("/ops/webhooks", add, WebhookForm, limit_class="login", secret=True),
    routing.page("/ops/webhooks/{id}", show_one, WebhookPath),
    routing.form("/ops/webhooks/{id}", act, ActionForm, secret=True),
    routing.form("/ops/webhooks/{id}/edit", edit, EditForm, limit_class="login", secret=True),
)
