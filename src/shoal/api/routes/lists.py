"""Lists of members."""

from __future__ import annotations

from shoal.api import lists
from shoal.api.entities.people import UserList
from shoal.api.entities.statuses import Account, Status
from shoal.api.http.calls import Route
from shoal.api.listing import StatusesOf
from shoal.api.rows import one, route
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        route("GET", "/api/v1/lists", lists.several, scope="read:lists", answer=list[UserList]),
        route("POST", "/api/v1/lists", lists.create, scope="write:lists", params=lists.NewList, answer=UserList),
        one("GET", "/api/v1/lists/{id}", lists.one, scope="read:lists", answer=UserList),
        route("PUT", "/api/v1/lists/{id}", lists.update, scope="write:lists", params=lists.Changes, answer=UserList),
        one("DELETE", "/api/v1/lists/{id}", lists.delete, scope="write:lists", answer=dict),
        route(
            "GET",
            "/api/v1/lists/{id}/accounts",
            lists.accounts,
            scope="read:lists",
            params=lists.AccountsOf,
            answer=list[Account],
        ),
        route(
            "POST",
            "/api/v1/lists/{id}/accounts",
            lists.put_on,
            scope="write:lists",
            params=lists.Accounts,
            answer=dict,
        ),
        route(
            "DELETE",
            "/api/v1/lists/{id}/accounts",
            lists.take_off,
            scope="write:lists",
            params=lists.Accounts,
            answer=dict,
        ),
        one("GET", "/api/v1/accounts/{id}/lists", lists.with_account, scope="read:lists", answer=list[UserList]),
        route(
            "GET",
            "/api/v1/timelines/list/{id}",
            lists.timeline,
            scope="read:lists",
            params=StatusesOf,
            answer=list[Status],
        ),
    )
