"""The route table of the web app, and the page for paths without a route."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from shoal.core.errors import NotFound
from shoal.http.routes import ANONYMOUS, Context, Route
from shoal.mastodon_api.context import Front
from shoal.settings import Settings
from shoal.web import (
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
    filters,
    invitations,
    lists,
    login,
    maps,
    media,
    moderation,
    notifications,
    oauth,
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
    signup,
    streaming,
    tags,
    timelines,
    two_factor,
)
from shoal.web import settings as settings_pages
from shoal.web.errors import error_page
from shoal.web.request_context import logged_in, visit_of


def pages(settings: Settings) -> tuple[Route, ...]:
    """Return the routes of all pages. The settings limit the size of uploads."""
    return (
        *timelines.ROUTES,
        *timelines.FOR_YOU_ROUTES,
        *streaming.ROUTES,
        *explore.ROUTES,
        *login.ROUTES,
        *passkeys.LOGIN_ROUTES,
        *account_deletion.REACTIVATION_ROUTES,
        *account.RECOVERY_ROUTES,
        *signup.ROUTES,
        *recipes.ROUTES,
        *onboarding.routes(settings),
        *settings_pages.OVERVIEW_ROUTES,
        *profiles.routes(settings),
        *settings_pages.PRIVACY_ROUTES,
        *settings_pages.POSTING_ROUTES,
        *recipes.SETTINGS_ROUTES,
        *feedback.SETTINGS_ROUTES,
        *filters.ROUTES,
        *relationships.SETTINGS_ROUTES,
        *notifications.SETTINGS_ROUTES,
        *settings_pages.APPEARANCE_ROUTES,
        *account.PASSWORD_ROUTES,
        *account.EMAIL_ROUTES,
        *passkeys.ROUTES,
        *two_factor.ROUTES,
        *sessions.ROUTES,
        *contacts.ROUTES,
        *invitations.ROUTES,
        *archives.routes(settings),
        *archives.EXPORT_ROUTES,
        *account_deletion.ROUTES,
        *oauth.ROUTES,
        *posts.ROUTES,
        *compose.routes(settings),
        *conversations.routes(settings),
        *media.routes(settings),
        *revisions.routes(settings),
        *comments.ROUTES,
        *scheduled_posts.ROUTES,
        *search.COMPLETION_ROUTES,
        *feedback.ROUTES,
        *profiles.ROUTES,
        *relationships.ROUTES,
        *maps.PLACES_ROUTES,
        *albums.ROUTES,
        *albums.EDIT_ROUTES,
        *relationships.OPTIONS_ROUTES,
        *posts.LIKES_ROUTES,
        *posts.COMMENT_LIST_ROUTES,
        *ranking.ROUTES,
        *embed.ROUTES,
        *reports.ROUTES,
        *search.ROUTES,
        *tags.ROUTES,
        *maps.ROUTES,
        *explore.DIRECTORY_ROUTES,
        *notifications.ROUTES,
        *relationships.FOLLOW_REQUEST_ROUTES,
        *conversations.ROUTES,
        *timelines.SAVED_ROUTES,
        *lists.ROUTES,
        *assets.ROUTES,
        *moderation.ROUTES,
        *audit_log.ROUTES,
        *operations.ROUTES,
        *pwa.ROUTES,
        *timelines.SIDEBAR_ROUTES,
        *(components.ROUTES if settings.development else ()),
    )


class NoPage:
    """The ASGI application for paths without a route."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = await logged_in(self._front, request) or ANONYMOUS
        visit = await visit_of(Context(caller, request, self._front, {}))
        response = await error_page(visit, NotFound("There is no such page"))
        await response(scope, receive, send)
