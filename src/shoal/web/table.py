"""Every page of the web app."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from shoal.core.errors import NotFound
from shoal.http.routes import ANONYMOUS, Context, Route
from shoal.mastodon_api.context import Front
from shoal.settings import Settings
from shoal.web.errors import error_page
from shoal.web.pages import (
    around,
    audit,
    authorize,
    beside,
    components,
    discover,
    explore,
    foryou,
    home,
    inbox,
    installed,
    kept,
    leaving,
    live,
    login,
    members,
    moderation,
    ops,
    passkey,
    posts,
    profile,
    recipe,
    recovery,
    said,
    signup,
    static,
    welcome,
)
from shoal.web.pages.settings import table as settings_table
from shoal.web.pages.writing import comments, compose, editing, files, message, scheduled, words
from shoal.web.visit import logged_in, visit_of


def pages(settings: Settings) -> tuple[Route, ...]:
    """Return the rows of all pages. The settings say how large an upload may be."""
    return (
        *home.ROUTES,
        *foryou.ROUTES,
        *live.ROUTES,
        *explore.ROUTES,
        *login.ROUTES,
        *passkey.ROUTES,
        *leaving.ROUTES,
        *recovery.ROUTES,
        *signup.ROUTES,
        *recipe.ROUTES,
        *welcome.routes(settings),
        *settings_table.routes(settings),
        *authorize.ROUTES,
        *posts.ROUTES,
        *compose.routes(settings),
        *message.routes(settings),
        *files.routes(settings),
        *editing.routes(settings),
        *comments.ROUTES,
        *scheduled.ROUTES,
        *words.ROUTES,
        *said.ROUTES,
        *profile.ROUTES,
        *members.ROUTES,
        *around.ROUTES,
        *discover.ROUTES,
        *inbox.ROUTES,
        *kept.ROUTES,
        *static.ROUTES,
        *moderation.ROUTES,
        *audit.ROUTES,
        *ops.ROUTES,
        *installed.ROUTES,
        *beside.ROUTES,
        *(components.ROUTES if settings.development else ()),
    )


class NoPage:
    """The application of addresses that lead nowhere."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive)
        caller = await logged_in(self._front, request) or ANONYMOUS
        visit = await visit_of(Context(caller, request, self._front, {}))
        response = await error_page(visit, NotFound("There is no such page"))
        await response(scope, receive, send)
