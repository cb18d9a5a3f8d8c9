"""Accounts, and how the caller stands to them."""

from __future__ import annotations

from shoal.api import accounts, relations
from shoal.api.calls import Route
from shoal.api.listing import One, PageOf
from shoal.api.routes.making import one, page, route, seen
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        seen("GET", "/api/v1/accounts", accounts.several, scope="read:accounts", params=accounts.Several),
        seen("GET", "/api/v1/accounts/lookup", accounts.lookup, scope="read:accounts", params=accounts.Lookup),
        route(
            "GET", "/api/v1/accounts/relationships", relations.several, scope="read:follows", params=relations.Others
        ),
        seen("GET", "/api/v1/accounts/{id}", accounts.one, scope="read:accounts", params=One),
        seen(
            "GET",
            "/api/v1/accounts/{id}/statuses",
            accounts.statuses,
            scope="read:statuses",
            params=accounts.StatusesOf,
        ),
        seen("GET", "/api/v1/accounts/{id}/followers", accounts.followers, scope="read:accounts", params=PageOf),
        seen("GET", "/api/v1/accounts/{id}/following", accounts.following, scope="read:accounts", params=PageOf),
        one("POST", "/api/v1/accounts/{id}/follow", relations.follow, scope="write:follows"),
        one("POST", "/api/v1/accounts/{id}/unfollow", relations.unfollow, scope="write:follows"),
        one("POST", "/api/v1/accounts/{id}/block", relations.block, scope="write:blocks"),
        one("POST", "/api/v1/accounts/{id}/unblock", relations.unblock, scope="write:blocks"),
        one("POST", "/api/v1/accounts/{id}/mute", relations.mute, scope="write:mutes"),
        one("POST", "/api/v1/accounts/{id}/unmute", relations.unmute, scope="write:mutes"),
        page("GET", "/api/v1/blocks", relations.blocks, scope="read:blocks"),
        page("GET", "/api/v1/mutes", relations.mutes, scope="read:mutes"),
        seen("GET", "/api/shoal/v1/accounts/{id}/received", accounts.received, scope="read:accounts", params=One),
    )
