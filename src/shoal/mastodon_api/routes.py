"""Every route of the API, in groups, and the endpoints that describe them as OpenAPI and as a page.

A route declares its authorization, parameters and answer. It is defined at the end of the module that has its handler. Both
descriptions are generated once for each root path.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import msgspec
from starlette.responses import HTMLResponse, Response

from shoal.http import reference_page as reference
from shoal.http.openapi import Schema, document_of
from shoal.http.routes import Body, Route, RouteGroup
from shoal.mastodon_api import (
    accounts,
    albums,
    contacts,
    conversations,
    filters,
    for_you,
    instance,
    lists,
    media,
    notification_policy,
    notifications,
    oauth,
    polls,
    push,
    reactions,
    registration,
    relationships,
    reports,
    scheduled_statuses,
    search,
    sessions,
    statuses,
    streaming,
    suggestions,
    tags,
    timelines,
    trends,
)
from shoal.mastodon_api import (
    context as endpoints,
)
from shoal.mastodon_api.admin import accounts as admin_accounts
from shoal.mastodon_api.admin import audit_log, blocklists, statistics
from shoal.mastodon_api.admin import reports as admin_reports
from shoal.mastodon_api.admin import trends as admin_trends
from shoal.mastodon_api.context import Context
from shoal.settings import Settings

_KEPT = "public, max-age=300"


class Description:
    """The description of the API's parts. Set `parts` before the first request: this is itself one of them."""

    parts: Sequence[RouteGroup] = ()

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._documents: dict[str, str] = {}
        self._pages: dict[str, str] = {}
        """By the path of the root, of which an application has one."""

    async def document(self, context: Context, _params: None) -> object:
        """The API as an OpenAPI 3.1 document."""
        made = await self._made(self._documents, context, lambda document: msgspec.json.encode(document).decode())
        return Response(made, media_type="application/json", headers={"Cache-Control": _KEPT})

    async def page(self, context: Context, _params: None) -> object:
        """The API as a page to read."""
        made = await self._made(self._pages, context, reference.page_of)
        return HTMLResponse(made, headers={**reference.HEADERS, "Cache-Control": _KEPT})

    async def _made(self, known: dict[str, str], context: Context, make: Callable[[Schema], str]) -> str:
        """Return a description, which a thread makes: it takes a second of processor time, and nobody else is to wait for it."""
        base = context.deps.at.path
        if base not in known:
            await asyncio.to_thread(self._make, known, base, make)
        return known[base]

    def _make(self, known: dict[str, str], base: str, make: Callable[[Schema], str]) -> None:
        with self._making:
            if base not in known:
                known[base] = make(document_of(self.parts, base))


def part(others: Sequence[RouteGroup]) -> RouteGroup:
    """The rows, which describe those of the others and themselves."""
    described = Description()
    own = RouteGroup(
        "description",
        "The API, described for programs and for people.",
        (
            endpoints.public("GET", "/openapi.json", described.document, answer=dict),
            endpoints.public("GET", "/docs", described.page, answer=Body("text/html")),
        ),
    )
    described.parts = (*others, own)
    return own


def parts(settings: Settings) -> tuple[RouteGroup, ...]:
    """The routes, part by part, in the order of `docs/api.md`. The settings say how large an upload may be.

    The last part describes the others and itself.
    """
    made = (
        RouteGroup(
            "discovery", "What this server is.", (*instance.ROUTES, *instance.WELL_KNOWN_ROUTES, *instance.ABOUT_ROUTES)
        ),
        RouteGroup(
            "sessions",
            "Apps, tokens and who the caller is: OAuth, signing up, and where a member is logged in.",
            (
                *oauth.METADATA_ROUTES,
                *oauth.APP_ROUTES,
                *oauth.ROUTES,
                *oauth.USERINFO_ROUTES,
                *registration.ROUTES,
                *accounts.routes(settings),
                *sessions.ROUTES,
                *registration.DELETION_ROUTES,
                *registration.INVITATION_ROUTES,
            ),
        ),
        RouteGroup(
            "accounts",
            "Accounts, and how the caller stands to them.",
            (
                *accounts.LOOKUP_ROUTES,
                *relationships.RELATIONSHIP_ROUTES,
                *accounts.ROUTES,
                *tags.ACCOUNT_ROUTES,
                *relationships.ROUTES,
                *accounts.PROFILE_ROUTES,
                *accounts.RECEIVED_ROUTES,
            ),
        ),
        RouteGroup("statuses", "Statuses, and what is done to them.", (*statuses.routes(settings), *reactions.ROUTES)),
        RouteGroup("polls", "Polls and scheduled statuses.", (*polls.ROUTES, *scheduled_statuses.ROUTES)),
        RouteGroup("media", "Media files.", media.routes(settings)),
        RouteGroup("timelines", "Timelines.", (*timelines.ROUTES, *for_you.ROUTES, *for_you.FEEDBACK_ROUTES)),
        RouteGroup("lists", "Lists of members.", lists.ROUTES),
        RouteGroup("albums", "Albums of photos.", albums.ROUTES),
        RouteGroup("tags", "Tags, trends and the tag cloud.", (*tags.ROUTES, *tags.FEATURED_ROUTES, *trends.ROUTES)),
        RouteGroup(
            "search",
            "Search, suggestions, friends from elsewhere and the directory.",
            (*search.ROUTES, *suggestions.ROUTES, *contacts.ROUTES),
        ),
        RouteGroup(
            "notifications",
            "Notifications, markers and conversations.",
            (
                *notifications.ROUTES,
                *notifications.GROUP_ROUTES,
                *notification_policy.ROUTES,
                *timelines.MARKER_ROUTES,
                *push.ROUTES,
                *conversations.ROUTES,
            ),
        ),
        RouteGroup("filters", "Filters: what a member does not want to read.", (*filters.ROUTES, *filters.V1_ROUTES)),
        RouteGroup(
            "moderation",
            "Reports, and what those do who look after the place.",
            (*reports.ROUTES, *admin_accounts.ROUTES, *admin_reports.ROUTES),
        ),
        RouteGroup(
            "blocklists",
            "Blocklists: who cannot sign up here, by e-mail domain, address or network, and which networks are kept out.",
            (*blocklists.EMAIL_BLOCK_ROUTES, *blocklists.IP_BLOCK_ROUTES),
        ),
        RouteGroup(
            "administration",
            "The network as a whole, for those who look after it: what trends, and whether it may; and figures.",
            (*admin_trends.ROUTES, *statistics.ROUTES, *audit_log.ROUTES),
        ),
        RouteGroup(
            "streaming",
            "Live updates. `/api/v1/streaming` takes a WebSocket; the paths below it send server-sent events.",
            streaming.ROUTES,
        ),
    )
    return (*made, part(made))


def table(settings: Settings) -> tuple[Route, ...]:
    """The routes, in one row."""
    return tuple(route for part in parts(settings) for route in part.routes)
