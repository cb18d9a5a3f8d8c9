"""Logging in by a passkey, and what browsers ask devices with."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import JSONResponse, Response

from shoal.commands import authentication, passkeys, sessions
from shoal.core.credentials import MOST_CHARACTERS, Purpose, site_of
from shoal.core.errors import Leaving, NotAllowed, NotFound, TooMany, Unauthenticated, Unconfirmed
from shoal.mastodon_api import login_attempts
from shoal.web import rows
from shoal.web.entering import begin, passkey_refusal
from shoal.web.pages.login import login_page
from shoal.web.visit import Form, Visit


class QuestionQuery(msgspec.Struct, frozen=True):
    """The purpose that a passkey is wanted for."""

    kind: Literal["login", "second", "confirm", "add"] = "login"


class ByPasskey(Form, frozen=True, kw_only=True):
    """The answer of a device."""

    answer: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""


async def question(visit: Visit, query: QuestionQuery) -> Response:
    """Return what a browser asks a device with, as JSON. To strangers it says nothing about any account."""
    return JSONResponse(await _options(visit, query))


async def _options(visit: Visit, query: QuestionQuery) -> dict[str, object]:
    front = visit.front
    site, writes = site_of(front.at.root, front.settings.title), front.writes
    match query.kind:
        case "login":
            return await authentication.passkey_options(writes, site, Purpose.LOG_IN)
        case "second":
            found = await sessions.halfway(writes, visit.browser.login)
            if found is None:
                raise NotFound("There is no such page")
            return await authentication.passkey_options(writes, site, Purpose.SECOND, found.member)
        case "confirm":
            return await authentication.passkey_options(writes, site, Purpose.CONFIRM, visit.member)
        case "add":
            return await passkeys.options(writes, site, visit.member)


async def log_in(visit: Visit, asked: ByPasskey) -> Response:
    """Log in by the answer of a device, alone."""
    visit.check_sent(asked)
    try:
        member = await login_attempts.by_passkey(visit.anonymous, asked.answer)
    except Leaving:
        return visit.go("/comeback")
    except Unconfirmed:
        return visit.go("/signup/confirm")
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = passkey_refusal(visit.words, error)
        return refusal.on(await login_page(visit, asked.to, wrong=refusal.words))
    return await begin(visit, member, asked.to, proved=True)


ROUTES = (
    rows.page("/login/passkey", question, QuestionQuery, secret=True),
    rows.form("/login/passkey", log_in, ByPasskey, limit_class="login", secret=True),
)
