"""Pages for members who leave: the receipt of what was deleted, and the way back."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import account_deletions
from shoal.core.errors import NotAllowed, TooMany, Unauthenticated
from shoal.mastodon_api import login_attempts
from shoal.web import rows
from shoal.web.entering import begin
from shoal.web.rendering import page
from shoal.web.views.errors.passwords import password_refusal
from shoal.web.views.leaving import departure_view
from shoal.web.visit import Form, Visit

_Typed = Annotated[str, Meta(max_length=2_000)]


class GoodbyePath(msgspec.Struct, frozen=True):
    """The text that opens a receipt: a member was told it when they left."""

    receipt: Annotated[str, Meta(max_length=100)]


class ComeBack(Form, frozen=True, kw_only=True):
    """A name and a password."""

    username: _Typed = ""
    password: _Typed = ""


async def receipt(visit: Visit, query: GoodbyePath) -> Response:
    """The receipt, for whoever has its address."""
    found = departure_view(visit, await account_deletions.receipt(visit.front.writes, query.receipt))
    return await page(visit, "goodbye", title=visit.words.text("Goodbye"), departure=found)


async def form(visit: Visit, _query: None) -> Response:
    """The form to keep an account that is to be deleted."""
    return await ask(visit)


async def come_back(visit: Visit, asked: ComeBack) -> Response:
    """Keep the account, and log in."""
    visit.check_sent(asked)
    try:
        member = await login_attempts.come_back(visit.anonymous, asked.username, asked.password)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await ask(visit, asked.username, refusal.words))
    return await begin(visit, member, "/")


async def ask(visit: Visit, name: str = "", wrong: str = "", status: int = 200) -> Response:
    """Return the form to come back, with what was wrong."""
    title = visit.words.text("Keep the account")
    return await page(visit, "come_back", status=status, title=title, name=name, wrong=wrong)


ROUTES = (
    rows.page("/goodbye/{receipt}", receipt, GoodbyePath, secret=True),
    rows.page("/comeback", form),
    rows.form("/comeback", come_back, ComeBack, limit_class="login"),
)
