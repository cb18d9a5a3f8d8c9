"""The route table of the web app, and the page for paths without a route."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from shoal.core.errors import NotFound
from shoal.http.routes import ANONYMOUS, Context, Route
from shoal.mastodon_api.context import AppContext
from shoal.settings import Settings
from shoal.web import (
    about,
    account,
    account_deletion,
    albums,
    archives,
    assets,
    audit_log,
    comments,
    components,
    compose,
    contacts,
    conversations,
    embed,
    explore,
    feedback,
    feeds,
    filters,
    held_content,
    invitations,
    lists,
    login,
    maps,
    media,
    moderation,
    moderation_rules,
    notifications,
    oauth,
    oidc,
    onboarding,
    operations,
    passkeys,
    posts,
    profiles,
    pwa,
    ranking,
    recipes,
    relationships,
    reports,
    revisions,
    scheduled_posts,
    search,
    sessions,
    sharing,
    signup,
    streaming,
    tags,
    timelines,
    two_factor,
    webhooks,
)
from shoal.web import settings as settings_pages
from shoal.web.errors import error_page
from shoal.web.request_context import ctx_of, logged_in

MASTODON_PATHS = {
    "/home": "/",
    "/public": "/explore",
    "/public/local": "/explore",
    "/public/remote": "/explore",
    "/bookmarks": "/saved",
    "/favourites": "/liked",
    "/publish": "/compose",
    "/follow_requests": "/requests",
    "/followed_tags": "/lists",
    "/mutes": "/settings/people",
    "/blocks": "/settings/people",
    "/filters": "/settings/filters",
    "/directory": "/explore/people",
    "/keyboard-shortcuts": "/keys",
    "/settings/preferences": "/settings",
}
"""Paths of Mastodon's web app, which members type or have bookmarked, and the pages here with that content."""


def pages(settings: Settings) -> tuple[Route, ...]:
    return (
        *about.ROUTES,
        *account.ROUTES,
        *account_deletion.ROUTES,
        *albums.ROUTES,
        *archives.routes(settings),
        *assets.ROUTES,
        *audit_log.ROUTES,
        *comments.ROUTES,
        *compose.routes(settings),
        *contacts.ROUTES,
        *conversations.routes(settings),
        *embed.ROUTES,
        *explore.ROUTES,
        *feedback.ROUTES,
        *feeds.ROUTES,
        *filters.ROUTES,
        *held_content.ROUTES,
        *invitations.ROUTES,
        *lists.ROUTES,
        *login.ROUTES,
        *maps.ROUTES,
        *media.routes(settings),
        *moderation.ROUTES,
        *moderation_rules.ROUTES,
        *notifications.ROUTES,
        *oauth.ROUTES,
        *oidc.ROUTES,
        *onboarding.routes(settings),
        *operations.ROUTES,
        *passkeys.ROUTES,
        *posts.ROUTES,
        *profiles.routes(settings),
        *pwa.ROUTES,
        *ranking.ROUTES,
        *recipes.ROUTES,
        *relationships.ROUTES,
        *reports.ROUTES,
        *revisions.routes(settings),
        *scheduled_posts.ROUTES,
        *search.ROUTES,
        *sessions.ROUTES,
        *settings_pages.ROUTES,
        *sharing.routes(settings),
        *signup.ROUTES,
        *streaming.ROUTES,
        *tags.ROUTES,
        *timelines.ROUTES,
        *two_factor.ROUTES,
        *webhooks.ROUTES,
        *(components.ROUTES if settings.development else ()),
    )


async def no_page(app_context: AppContext, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    caller = await logged_in(app_context, request) or ANONYMOUS
    ctx = await ctx_of(Context(caller, request, app_context, {}))
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    page = MASTODON_PATHS.get(path) if request.method in {"GET", "HEAD"} else None
    response = ctx.go(page) if page else await error_page(ctx, NotFound("There is no such page"))
    await response(scope, receive, send)
