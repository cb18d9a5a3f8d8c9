"""The password: another one, for whoever knows the present one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import sessions
from shoal.core.errors import InvalidInput, TooMany
from shoal.core.model import Member
from shoal.mastodon_api import login_attempts
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.errors.passwords import password_refusal
from shoal.web.views.errors.refusals import RIGHT, Wrong, wrong_of
from shoal.web.visit import Form, Visit

_Secret = Annotated[str, Meta(max_length=2_000)]


class PasswordForm(Form, frozen=True, kw_only=True):
    """The password that one has, and the one that one wants."""

    current_password: _Secret = ""
    new_password: _Secret = ""


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """The form for another password."""
    return await _page(visit, saved=query.saved)


async def save(visit: Visit, asked: PasswordForm) -> Response:
    """Replace the password. Everybody else is logged out; this browser stays."""
    member, front = visit.checked(asked), visit.front
    try:
        await login_attempts.change_password(visit.anonymous, member.id, asked.current_password, asked.new_password)
    except InvalidInput as error:
        return await _page(visit, wrong_of(visit.words, error, **_rules(visit)))
    except TooMany as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await _page(visit, {"current_password": refusal.words}))
    now = (await front.graph.obj_get((member.id,))).get(member.id)
    response = saved_at(visit, "password")
    if isinstance(now, Member):
        visit.browser.log_in(response, (await sessions.begin(front.writes, now, proved=True, origin=visit.origin)).text)
    return response


def _rules(visit: Visit) -> dict[str, str]:
    _, limits = visit.words.text, visit.front.writes.limits
    said = _("A password has %(least)s to %(most)s characters.")
    return {
        "current_password": _("This is not your password."),
        "new_password": said % {"least": limits.password_least, "most": visit.words.number(limits.password_most)},
    }


async def _page(visit: Visit, wrong: Wrong = RIGHT, *, saved: bool = False) -> Response:
    return await settings_page(visit, "password", wrong=wrong, saved=saved, name=visit.member.name)


ROUTES = (
    rows.page("/settings/password", show, SettingsQuery),
    rows.form("/settings/password", save, PasswordForm, limit_class="login"),
)
