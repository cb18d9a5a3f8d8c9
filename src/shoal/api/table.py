"""Every route of the API, part by part.

A row says who may call, with what, and what is answered. It stands at the end of the module that has its handler.
"""

from __future__ import annotations

from shoal.api import (
    accounts,
    albums,
    conversations,
    credentials,
    featured,
    filters,
    grouped,
    lists,
    markers,
    media,
    notice_policy,
    notifications,
    old_filters,
    polls,
    push,
    reactions,
    relations,
    reports,
    scheduled,
    search,
    statuses,
    tags,
    timelines,
)
from shoal.api.admin import accounts as admin_accounts
from shoal.api.admin import audit_log, email_blocks, ip_blocks, statistics
from shoal.api.admin import reports as admin_reports
from shoal.api.admin import trends as admin_trends
from shoal.api.discover import contacts, foryou, suggestions, trends, wishes
from shoal.api.http.calls import Route, RouteGroup
from shoal.api.instance import about, instance, wellknown
from shoal.api.live import streaming
from shoal.api.login import apps, invitations, leaving, oauth, openid, sessions, signup
from shoal.api.reference import description
from shoal.settings import Settings


def parts(settings: Settings) -> tuple[RouteGroup, ...]:
    """The routes, part by part, in the order of `docs/api.md`. The settings say how large an upload may be.

    The last part describes the others and itself.
    """
    made = (
        RouteGroup("discovery", "What this server is.", (*instance.ROUTES, *wellknown.ROUTES, *about.ROUTES)),
        RouteGroup(
            "sessions",
            "Apps, tokens and who the caller is: OAuth, signing up, and where a member is logged in.",
            (
                *openid.METADATA_ROUTES,
                *apps.ROUTES,
                *oauth.ROUTES,
                *openid.ROUTES,
                *signup.ROUTES,
                *credentials.routes(settings),
                *sessions.ROUTES,
                *leaving.ROUTES,
                *invitations.ROUTES,
            ),
        ),
        RouteGroup(
            "accounts",
            "Accounts, and how the caller stands to them.",
            (
                *accounts.LOOKUP_ROUTES,
                *relations.RELATIONSHIP_ROUTES,
                *accounts.ROUTES,
                *featured.ACCOUNT_ROUTES,
                *relations.ROUTES,
                *credentials.PROFILE_ROUTES,
                *accounts.RECEIVED_ROUTES,
            ),
        ),
        RouteGroup("statuses", "Statuses, and what is done to them.", (*statuses.routes(settings), *reactions.ROUTES)),
        RouteGroup("polls", "Polls and scheduled statuses.", (*polls.ROUTES, *scheduled.ROUTES)),
        RouteGroup("media", "Media files.", media.routes(settings)),
        RouteGroup("timelines", "Timelines.", (*timelines.ROUTES, *foryou.ROUTES, *wishes.ROUTES)),
        RouteGroup("lists", "Lists of members.", lists.ROUTES),
        RouteGroup("albums", "Albums of photos.", albums.ROUTES),
        RouteGroup("tags", "Tags, trends and the tag cloud.", (*tags.ROUTES, *featured.ROUTES, *trends.ROUTES)),
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
                *grouped.ROUTES,
                *notice_policy.ROUTES,
                *markers.ROUTES,
                *push.ROUTES,
                *conversations.ROUTES,
            ),
        ),
        RouteGroup("filters", "Filters: what a member does not want to read.", (*filters.ROUTES, *old_filters.ROUTES)),
        RouteGroup(
            "moderation",
            "Reports, and what those do who look after the place.",
            (*reports.ROUTES, *admin_accounts.ROUTES, *admin_reports.ROUTES),
        ),
        RouteGroup(
            "blocklists",
            "Blocklists: who cannot sign up here, by e-mail domain, address or network, and which networks are kept out.",
            (*email_blocks.ROUTES, *ip_blocks.ROUTES),
        ),
        RouteGroup(
            "administration",
            "The network as a whole, for those who look after it: what trends, and whether it may; and figures.",
            (*admin_trends.ROUTES, *statistics.ROUTES, *audit_log.ROUTES),
        ),
        RouteGroup(
            "streaming",
            "Live updates. The WebSocket is no row of the table: `api/live/streaming_socket.py`.",
            streaming.ROUTES,
        ),
    )
    return (*made, description.part(made))


def table(settings: Settings) -> tuple[Route, ...]:
    """The routes, in one row."""
    return tuple(route for part in parts(settings) for route in part.routes)
