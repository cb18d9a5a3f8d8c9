"""Search, suggestions and the directory."""

from __future__ import annotations

from typing import Any

from shoal.api import search, suggestions
from shoal.api.entities.search import Search, SearchV1, Suggestion
from shoal.api.entities.statuses import Account, Status
from shoal.api.http.calls import Route
from shoal.api.rows import route, seen
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    asked: dict[str, Any] = {"scope": "read:search", "params": search.Query}
    people: dict[str, Any] = {"scope": "read:accounts", "answer": list[Account]}
    return (
        seen("GET", "/api/v2/search", search.everything, answer=Search, **asked),
        route("GET", "/api/v1/search", search.as_before, answer=SearchV1, **asked),
        route("GET", "/api/v1/accounts/search", search.accounts, params=search.AccountQuery, **people),
        seen("GET", "/api/v1/directory", suggestions.directory, params=suggestions.DirectoryQuery, **people),
        route(
            "GET",
            "/api/v2/suggestions",
            suggestions.suggested,
            scope="read:accounts",
            params=suggestions.Count,
            answer=list[Suggestion],
        ),
        route("GET", "/api/v1/suggestions", suggestions.suggested_accounts, params=suggestions.Count, **people),
        route(
            "DELETE",
            "/api/v1/suggestions/{account_id}",
            suggestions.dismiss,
            scope="write:accounts",
            params=suggestions.Dismissed,
            answer=dict,
        ),
        seen(
            "GET",
            "/api/v1/trends/statuses",
            suggestions.trending,
            scope="read:statuses",
            params=suggestions.Trending,
            answer=list[Status],
        ),
        seen(
            "GET",
            "/api/v1/trends/links",
            suggestions.no_links,
            scope="read:statuses",
            params=suggestions.Position,
            answer=list[dict[str, Any]],
            stub=True,
        ),
    )
