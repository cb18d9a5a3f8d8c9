"""Every route of the API, part by part.

A row says who may call, with what, and what is answered. It stands at the end of the module that has its handler.
"""

from __future__ import annotations

from types import ModuleType

from shoal.api import (
    accounts,
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
    reactions,
    relations,
    scheduled,
    search,
    statuses,
    suggestions,
    tags,
    timelines,
    trends,
)
from shoal.api.http.calls import Part, Route
from shoal.api.routes import administration, blocklists, description, discovery, moderation, sessions, streaming
from shoal.settings import Settings


def parts(settings: Settings) -> tuple[Part, ...]:
    """The routes, part by part, in the order of `docs/api.md`. The settings say how large an upload may be.

    The last part describes the others and itself.
    """
    made = (
        _part(discovery, settings),
        _part(sessions, settings),
        Part(
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
        Part("statuses", "Statuses, and what is done to them.", (*statuses.routes(settings), *reactions.ROUTES)),
        Part("polls", "Polls and scheduled statuses.", (*polls.ROUTES, *scheduled.ROUTES)),
        Part("media", "Media files.", media.routes(settings)),
        Part("timelines", "Timelines.", timelines.ROUTES),
        Part("lists", "Lists of members.", lists.ROUTES),
        Part("tags", "Tags, trends and the tag cloud.", (*tags.ROUTES, *featured.ROUTES, *trends.ROUTES)),
        Part("search", "Search, suggestions and the directory.", (*search.ROUTES, *suggestions.ROUTES)),
        Part(
            "notifications",
            "Notifications, markers and conversations.",
            (
                *notifications.ROUTES,
                *grouped.ROUTES,
                *notice_policy.ROUTES,
                *markers.ROUTES,
                *conversations.ROUTES,
            ),
        ),
        Part("filters", "Filters: what a member does not want to read.", (*filters.ROUTES, *old_filters.ROUTES)),
        _part(moderation, settings),
        _part(blocklists, settings),
        _part(administration, settings),
        _part(streaming, settings),
    )
    return (*made, description.part(made))


def table(settings: Settings) -> tuple[Route, ...]:
    """The routes, in one row."""
    return tuple(route for part in parts(settings) for route in part.routes)


def _part(module: ModuleType, settings: Settings) -> Part:
    return Part(module.__name__.rpartition(".")[2], (module.__doc__ or "").strip(), module.routes(settings))
