"""Account deletion: delete the account, show the receipt of the deleted data, and cancel a pending deletion.

Deletion requires the password, or another proof that the account belongs to the member (`web.ownership`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import account_deletions
from shoal.core.errors import InvalidInput, NotAllowed, TooMany, Unauthenticated
from shoal.core.model import AccountDeletion
from shoal.i18n import Translated
from shoal.mastodon_api import login_attempts
from shoal.web import routing
from shoal.web.authentication import begin, password_refusal
from shoal.web.form_errors import RIGHT, Wrong
from shoal.web.ownership import confirmed, proof
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, PageContext
from shoal.web.settings_layout import settings_page


class LeaveForm(Form, frozen=True, kw_only=True):
    password: Line = ""
    sure: bool = False


async def show(ctx: PageContext, _query: None = None, wrong: Wrong = RIGHT) -> Response:
    return await settings_page(ctx, "account", wrong=wrong, days=ctx.limits.leaving_days)


async def leave(ctx: PageContext, asked: LeaveForm) -> Response:
    """Deactivate the account and schedule its deletion. Log out the browser and redirect it to the page about the deletion."""
    member, _ = ctx.checked(asked), ctx.words.text
    if not asked.sure:
        return await show(ctx, wrong={"sure": _("Check this box to confirm.")})
    try:
        farewell = await login_attempts.leave(ctx.anonymous, member.id, await proof(ctx, asked.password))
    except NotAllowed:
        return await show(ctx)
    except InvalidInput:
        return await show(ctx, wrong={"password": _("Incorrect password.")})
    except TooMany as error:
        refusal = password_refusal(ctx.words, error)
        return refusal.on(await show(ctx, wrong={"password": refusal.words}))
    response = ctx.go(f"/goodbye/{farewell.receipt}")
    ctx.browser.log_out(response)
    return response


def _counts(words: Translated, deletion: AccountDeletion) -> list[tuple[str, str]]:
    """Return the kinds of data that an account deletion deletes, each with its number. Kinds with the number 0 are left out."""
    _ = words.text
    kinds = {
        "posts": _("Posts and comments"),
        "media": _("Pictures, video and audio"),
        "shares": _("Shares"),
        "likes": _("Likes"),
        "bookmarks": _("Saved posts"),
        "reactions": _("Emoji reactions"),
        "votes": _("Votes in polls"),
        "followers": _("Followers"),
        "follows": _("Followed members"),
        "tags": _("Followed tags"),
        "albums": _("Albums"),
        "lists": _("Lists"),
        "feeds": _("Feeds"),
        "filters": _("Filters"),
        "invitations": _("Invitations"),
        "scheduled": _("Scheduled posts"),
        "conversations": _("Conversations"),
        "notifications": _("Notifications"),
        "blocks": _("Blocked members"),
        "mutes": _("Muted members"),
        "notes": _("Notes about members"),
    }
    counts = [(label, words.number(n)) for kind, label in kinds.items() if (n := deletion.counts.get(kind, 0))]
    if size := deletion.counts.get("bytes", 0):
        counts.append((_("Files in megabytes"), words.about(size / 1e6)))
    return counts


class GoodbyePath(msgspec.Struct, frozen=True):
    receipt: Annotated[str, Meta(max_length=100)]


class ComeBack(Form, frozen=True, kw_only=True):
    username: Line = ""
    password: Line = ""


async def receipt(ctx: PageContext, query: GoodbyePath) -> Response:
    words, deletion = ctx.words, await account_deletions.receipt(ctx.writes, query.receipt)
    return await page(ctx, "goodbye", title=words.text("Goodbye"), deletion=deletion, counts=_counts(words, deletion))


async def form(ctx: PageContext, _query: None) -> Response:
    return await ask(ctx)


async def come_back(ctx: PageContext, asked: ComeBack) -> Response:
    ctx.check_sent(asked)
    try:
        if found := await confirmed(ctx):
            member = await account_deletions.keep(ctx.writes.by(ctx.writes.actor.proved(found)), found.id)
        else:
            member = await login_attempts.come_back(ctx.anonymous, asked.username, asked.password)
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = password_refusal(ctx.words, error)
        return refusal.on(await ask(ctx, asked.username, refusal.words))
    return await begin(ctx, member, "/")


async def ask(ctx: PageContext, name: str = "", wrong: str = "", status: int = 0) -> Response:
    title = ctx.words.text("Keep my account")
    known = await confirmed(ctx) is not None
    return await page(ctx, "come_back", status=status, title=title, name=name, wrong=wrong, confirmed=known)


ROUTES = (
    routing.page("/settings/account", show),
    routing.form("/settings/account", leave, LeaveForm, limit_class="login"),
    routing.page("/goodbye/{receipt}", receipt, GoodbyePath, secret=True),
    routing.page("/comeback", form),
    routing.form("/comeback", come_back, ComeBack, limit_class="login"),
)
