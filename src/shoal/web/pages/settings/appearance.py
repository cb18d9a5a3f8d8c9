"""Appearance: how pages look in this browser, and in which language. For strangers, too."""

from __future__ import annotations

from typing import Literal

from starlette.responses import Response

from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.shell import look_of
from shoal.web.visit import LANGUAGE_COOKIE, LOOK_COOKIE, Form, Visit
from shoal.words.languages import LANGUAGES


class AppearanceForm(Form, frozen=True, kw_only=True):
    """How pages look."""

    scheme: Literal["system", "light", "dark"] = "system"
    contrast: bool = False
    dense: bool = False
    still: bool = False
    language: Literal["browser", "en", "de"] = "browser"


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """How pages look now."""
    _, cookies = visit.words.text, visit.request.cookies
    schemes = (
        ("system", _("As the system"), _("Light by day and dark by night, where the system does so")),
        ("light", _("Light"), ""),
        ("dark", _("Dark"), ""),
    )
    chosen = cookies.get(LANGUAGE_COOKIE, "")
    return await settings_page(
        visit,
        "appearance",
        saved=query.saved,
        look=look_of(cookies.get(LOOK_COOKIE, "")),
        schemes=schemes,
        languages=[("browser", _("As the browser asks")), *LANGUAGES.items()],
        language=chosen if chosen in LANGUAGES else "browser",
    )


async def save(visit: Visit, asked: AppearanceForm) -> Response:
    """Keep it in this browser."""
    visit.check_sent(asked)
    flags = [flag for flag in ("contrast", "dense", "still") if getattr(asked, flag)]
    look = "-".join([asked.scheme if asked.scheme != "system" else "", *flags]).strip("-")
    response = saved_at(visit, "appearance")
    visit.keep_choice(response, LOOK_COOKIE, look)
    visit.keep_choice(response, LANGUAGE_COOKIE, "" if asked.language == "browser" else asked.language)
    return response


ROUTES = (
    rows.page("/settings/appearance", show, SettingsQuery),
    rows.form("/settings/appearance", save, AppearanceForm, limit_class="pages"),
)
