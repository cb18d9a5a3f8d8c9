"""The routes of the API in groups, and the endpoints that describe them: the OpenAPI document and the reference page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import msgspec
from starlette.responses import HTMLResponse, Response

from shoal.http import reference_page as reference
from shoal.http.openapi import document_of
from shoal.http.routes import Body, Route, RouteGroup
from shoal.mastodon_api import (
    accounts,
    albums,
    contacts,
    conversations,
    events,
    external_ids,
    feeds,
    filters,
    for_you,
    held_content,
    instance,
    kinds,
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
    server_keys,
    sessions,
    statuses,
    streaming,
    suggestions,
    tags,
    timelines,
    trends,
    webhooks,
)
from shoal.mastodon_api.admin import accounts as admin_accounts
from shoal.mastodon_api.admin import audit_log, blocklists, moderation_rules, statistics
from shoal.mastodon_api.admin import reports as admin_reports
from shoal.mastodon_api.admin import trends as admin_trends
from shoal.mastodon_api.context import Context, Router
from shoal.settings import Settings

_GROUPS = (
    ("discovery", "Information about this server.", (instance.router,)),
    (
        "sessions",
        "Apps, tokens, OAuth, sign-up and login sessions.",
        (oauth.router, registration.router, accounts.credentials_router, sessions.router),
    ),
    (
        "server keys",
        "Endpoints for server keys of other products.",
        (server_keys.router, external_ids.router, held_content.keys_router),
    ),
    ("events", "The event log, for server keys. Events are CloudEvents 1.0.", (events.router, events.schemas_router)),
    ("webhooks", "Events that are sent to URLs, for server keys.", (webhooks.router,)),
    (
        "accounts",
        "Accounts, and the caller's relationships to them.",
        (accounts.router, relationships.router, tags.account_router),
    ),
    ("statuses", "Statuses, and reactions to them.", (statuses.router, reactions.router, reactions.admin_router)),
    (
        "kinds",
        "Kinds of statuses with data of their own.",
        (kinds.router, kinds.admin_router),
    ),
    ("polls", "Polls and scheduled statuses.", (polls.router, scheduled_statuses.router)),
    ("media", "Media files.", (media.router,)),
    ("timelines", "Timelines.", (timelines.router, for_you.router)),
    ("feeds", "Named feeds.", (feeds.router, feeds.admin_router)),
    ("lists", "Lists of members.", (lists.router,)),
    ("albums", "Albums of photos.", (albums.router,)),
    ("tags", "Tags, trends and the tag cloud.", (tags.router, trends.router)),
    (
        "search",
        "Search, suggestions, contacts and the directory.",
        (search.router, suggestions.router, contacts.router),
    ),
    (
        "notifications",
        "Notifications, markers and conversations.",
        (notifications.router, notification_policy.router, push.router, conversations.router),
    ),
    ("filters", "Keyword filters that hide statuses.", (filters.router,)),
    (
        "moderation",
        "Reports and moderation of accounts.",
        (reports.router, admin_accounts.router, admin_reports.router, held_content.router, held_content.own_router),
    ),
    (
        "moderation rules",
        "Rules that hold or reject content, their dry runs, and bulk actions on statuses.",
        (moderation_rules.router, moderation_rules.bulk_router),
    ),
    (
        "blocklists",
        "E-mail domains, e-mail addresses and IP address ranges that cannot sign up, and ranges without access.",
        (blocklists.router,),
    ),
    (
        "administration",
        "Review of trends, statistics and the audit log.",
        (admin_trends.router, statistics.router, audit_log.router),
    ),
    (
        "streaming",
        "Live updates. `/api/v1/streaming` accepts a WebSocket; the paths below it send server-sent events.",
        (streaming.router,),
    ),
)

_CACHED = {"Cache-Control": "public, max-age=300"}


class _Descriptions:
    def __init__(self) -> None:
        self.groups: Sequence[RouteGroup] = ()
        self._lock = threading.Lock()
        self._generated: dict[tuple[str, str], str] = {}

    async def get(self, kind: str, base: str) -> str:
        if (kind, base) not in self._generated:
            # In a thread, because this takes a second of processor time.
            await asyncio.to_thread(self._generate, kind, base)
        return self._generated[kind, base]

    def _generate(self, kind: str, base: str) -> None:
        with self._lock:
            if (kind, base) not in self._generated:
                document = document_of(self.groups, base)
                text = reference.page_of(document) if kind == "html" else msgspec.json.encode(document).decode()
                self._generated[kind, base] = text


def _describing(groups: Sequence[RouteGroup], settings: Settings) -> RouteGroup:
    router = Router(auth="public")
    descriptions = _Descriptions()

    @router.get("/openapi.json", answer=dict)
    async def document(context: Context, _params: None) -> object:
        """Return the OpenAPI 3.1 document of the API."""
        text = await descriptions.get("json", context.app.at.path)
        return Response(text, media_type="application/json", headers=_CACHED)

    @router.get("/docs", answer=Body("text/html"))
    async def page(context: Context, _params: None) -> object:
        """Return the API reference as a page."""
        text = await descriptions.get("html", context.app.at.path)
        return HTMLResponse(text, headers={**reference.HEADERS, **_CACHED})

    group = RouteGroup("description", "Descriptions of the API.", tuple(router.routes(settings)))
    descriptions.groups = (*groups, group)
    return group


def parts(settings: Settings) -> tuple[RouteGroup, ...]:
    """Return the routes by group, in the order of `docs/api.md`. The routes of the last group describe the API."""
    groups = tuple(
        RouteGroup(name, what, tuple(route for router in routers for route in router.routes(settings)))
        for name, what, routers in _GROUPS
    )
    return (*groups, _describing(groups, settings))


def table(settings: Settings) -> tuple[Route, ...]:
    return tuple(route for group in parts(settings) for route in group.routes)
