"""Account deletion: delete the account, show the receipt of what was deleted, and cancel a pending deletion.

Deletion requires the password.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import account_deletions
from shoal.core.errors import InvalidInput, NotAllowed, TooMany, Unauthenticated
from shoal.core.model import Departure
from shoal.mastodon_api import login_attempts
from shoal.web import routing
from shoal.web.authentication import begin, password_refusal
from shoal.web.form_errors import RIGHT, Wrong
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, Visit
from shoal.web.settings_layout import settings_page


class LeaveForm(Form, frozen=True, kw_only=True):
    """The password and an explicit confirmation."""

    password: Line = ""
    sure: bool = False


async def show(visit: Visit, _query: None = None, wrong: Wrong = RIGHT) -> Response:
    return await settings_page(visit, "account", wrong=wrong, days=visit.limits.leaving_days)


async def leave(visit: Visit, asked: LeaveForm) -> Response:
    """Deactivate the account and schedule its deletion. The browser is logged out and redirected to the receipt."""
    member, _ = visit.checked(asked), visit.words.text
    if not asked.sure:
        return await show(visit, wrong={"sure": _("Tick this, if you mean it.")})
    try:
        told = await login_attempts.leave(visit.anonymous, member.id, asked.password)
    except InvalidInput:
        return await show(visit, wrong={"password": _("This is not your password.")})
    except TooMany as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await show(visit, wrong={"password": refusal.words}))
    response = visit.go(f"/goodbye/{told.receipt}")
    visit.browser.log_out(response)
    return response


class DepartureView(NamedTuple):
    """An account deletion as text for the receipt page."""

    name: str
    until: str
    """When the deletion begins."""
    begun: bool
    done: str
    """When the deletion was completed; empty until then."""
    counts: list[tuple[str, str]]
    """What was deleted, and how much of it."""


def _departure_view(visit: Visit, departure: Departure) -> DepartureView:
    """Return an account deletion for the receipt page, without the kinds whose count is 0."""
    words = visit.words
    counts = [(label, words.number(n)) for kind, label in _kinds(visit).items() if (n := departure.counts.get(kind, 0))]
    if size := departure.counts.get("bytes", 0):
        counts.append((words.text("Megabytes of files"), words.about(size / 1e6)))
    return DepartureView(
        departure.name,
        words.full(departure.at),
        departure.begun_at > 0,
        words.full(departure.done_at) if departure.done_at else "",
        counts,
    )


def _kinds(visit: Visit) -> dict[str, str]:
    _ = visit.words.text
    return {
        "posts": _("Posts and comments"),
        "media": _("Pictures, videos and sounds"),
        "shares": _("Shares"),
        "likes": _("Likes"),
        "bookmarks": _("Saved posts"),
        "reactions": _("Emoji on posts"),
        "votes": _("Votes in polls"),
        "followers": _("Followers"),
        "follows": _("Members followed"),
        "tags": _("Tags followed"),
        "albums": _("Albums"),
        "lists": _("Lists"),
        "filters": _("Filters"),
        "invitations": _("Invitations"),
        "scheduled": _("Scheduled posts"),
        "conversations": _("Conversations"),
        "notifications": _("Notifications"),
        "blocks": _("Members blocked"),
        "mutes": _("Members muted"),
        "notes": _("Notes about members"),
    }


class GoodbyePath(msgspec.Struct, frozen=True):
    """The secret of a receipt, which the member was given when they deleted the account."""

    receipt: Annotated[str, Meta(max_length=100)]


class ComeBack(Form, frozen=True, kw_only=True):
    username: Line = ""
    password: Line = ""


async def receipt(visit: Visit, query: GoodbyePath) -> Response:
    found = _departure_view(visit, await account_deletions.receipt(visit.front.writes, query.receipt))
    return await page(visit, "goodbye", title=visit.words.text("Goodbye"), departure=found)


async def form(visit: Visit, _query: None) -> Response:
    return await ask(visit)


async def come_back(visit: Visit, asked: ComeBack) -> Response:
    """Cancel the deletion and log in."""
    visit.check_sent(asked)
    try:
        member = await login_attempts.come_back(visit.anonymous, asked.username, asked.password)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = password_refusal(visit.words, error)
        return refusal.on(await ask(visit, asked.username, refusal.words))
    return await begin(visit, member, "/")


async def ask(visit: Visit, name: str = "", wrong: str = "", status: int = 0) -> Response:
    title = visit.words.text("Keep the account")
    return await page(visit, "come_back", status=status, title=title, name=name, wrong=wrong)


ROUTES = (
    routing.page("/settings/account", show),
    routing.form("/settings/account", leave, LeaveForm, limit_class="login"),
    routing.page("/goodbye/{receipt}", receipt, GoodbyePath, secret=True),
    routing.page("/comeback", form),
    routing.form("/comeback", come_back, ComeBack, limit_class="login"),
)
