"""Deleting the account, for whoever knows its password."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import InvalidInput, TooMany
from shoal.mastodon_api import login_attempts
from shoal.web import rows
from shoal.web.pages.settings.frame import settings_page
from shoal.web.views.errors.passwords import password_refusal
from shoal.web.views.errors.refusals import RIGHT, Wrong
from shoal.web.visit import Form, Visit


class LeaveForm(Form, frozen=True, kw_only=True):
    """The password, and that one means it."""

    password: Annotated[str, Meta(max_length=2_000)] = ""
    sure: bool = False


async def show(visit: Visit, _query: None) -> Response:
    """Say what deleting the account means, with the form for it."""
    return await _page(visit)


async def leave(visit: Visit, asked: LeaveForm) -> Response:
    """Hide the account and have it deleted; the browser is logged out, and shown the receipt."""
    member, _ = visit.checked(asked), visit.words.text
    if not asked.sure:
        return await _page(visit, {"sure": _("Tick this, if you mean it.")})
    try:
        told = await login_attempts.leave(visit.anonymous, member.id, asked.password)
    except InvalidInput:
        return await _page(visit, {"password": _("This is not your password.")})
    except TooMany as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await _page(visit, {"password": refusal.words}))
    response = visit.go(f"/goodbye/{told.receipt}")
    visit.browser.log_out(response)
    return response


async def _page(visit: Visit, wrong: Wrong = RIGHT) -> Response:
    days = visit.front.writes.limits.leaving_days
    return await settings_page(visit, "account", wrong=wrong, name=visit.member.name, days=days)


ROUTES = (
    rows.page("/settings/account", show),
    rows.form("/settings/account", leave, LeaveForm, limit_class="login"),
)
