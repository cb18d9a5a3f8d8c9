"""Accounts, and how the caller stands to them."""

from __future__ import annotations

from shoal.api import accounts, credentials, featured, relations
from shoal.api.entities.people import FamiliarFollowers, FeaturedTag, MutedAccount, Preferences
from shoal.api.entities.statuses import Account, CredentialAccount, Received, Relationship, Status
from shoal.api.http.calls import Handler, Route
from shoal.api.listing import One, PageOf
from shoal.api.rows import one, page, route, seen
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        seen(
            "GET",
            "/api/v1/accounts",
            accounts.several,
            scope="read:accounts",
            params=accounts.Several,
            answer=list[Account],
        ),
        seen(
            "GET",
            "/api/v1/accounts/lookup",
            accounts.lookup,
            scope="read:accounts",
            params=accounts.Lookup,
            answer=Account,
        ),
        route(
            "GET",
            "/api/v1/accounts/relationships",
            relations.several,
            scope="read:follows",
            params=relations.Others,
            answer=list[Relationship],
        ),
        route(
            "GET",
            "/api/v1/accounts/familiar_followers",
            relations.familiar,
            scope="read:follows",
            params=relations.Others,
            answer=list[FamiliarFollowers],
        ),
        seen("GET", "/api/v1/accounts/{id}", accounts.one, scope="read:accounts", params=One, answer=Account),
        seen(
            "GET",
            "/api/v1/accounts/{id}/statuses",
            accounts.statuses,
            scope="read:statuses",
            params=accounts.Statuses,
            answer=list[Status],
        ),
        seen(
            "GET",
            "/api/v1/accounts/{id}/followers",
            accounts.followers,
            scope="read:accounts",
            params=PageOf,
            answer=list[Account],
        ),
        seen(
            "GET",
            "/api/v1/accounts/{id}/following",
            accounts.following,
            scope="read:accounts",
            params=PageOf,
            answer=list[Account],
        ),
        seen(
            "GET",
            "/api/v1/accounts/{id}/featured_tags",
            featured.of_account,
            scope="read:accounts",
            params=One,
            answer=list[FeaturedTag],
        ),
        seen(
            "GET",
            "/api/v1/accounts/{id}/endorsements",
            relations.endorsed_by,
            scope="read:accounts",
            params=PageOf,
            answer=list[Account],
        ),
        route(
            "POST",
            "/api/v1/accounts/{id}/follow",
            relations.follow,
            scope="write:follows",
            params=relations.FollowParams,
            answer=Relationship,
        ),
        _verb("unfollow", relations.unfollow, "write:follows"),
        _verb("remove_from_followers", relations.remove_follower, "write:follows"),
        _verb("block", relations.block, "write:blocks"),
        _verb("unblock", relations.unblock, "write:blocks"),
        route(
            "POST",
            "/api/v1/accounts/{id}/mute",
            relations.mute,
            scope="write:mutes",
            params=relations.MuteParams,
            answer=Relationship,
        ),
        _verb("unmute", relations.unmute, "write:mutes"),
        route(
            "POST",
            "/api/v1/accounts/{id}/note",
            relations.note,
            scope="write:accounts",
            params=relations.NoteParams,
            answer=Relationship,
        ),
        _verb("endorse", relations.endorse, "write:accounts"),
        _verb("unendorse", relations.unendorse, "write:accounts"),
        _verb("pin", relations.endorse, "write:accounts"),
        _verb("unpin", relations.unendorse, "write:accounts"),
        page("GET", "/api/v1/blocks", relations.blocks, scope="read:blocks", answer=list[Account]),
        page("GET", "/api/v1/mutes", relations.mutes, scope="read:mutes", answer=list[MutedAccount]),
        page("GET", "/api/v1/endorsements", relations.endorsements, scope="read:accounts", answer=list[Account]),
        page("GET", "/api/v1/follow_requests", relations.asking, scope="read:follows", answer=list[Account]),
        _answer("authorize", relations.authorize),
        _answer("reject", relations.reject),
        route(
            "DELETE",
            "/api/v1/profile/avatar",
            credentials.remove_avatar,
            scope="write:accounts",
            answer=CredentialAccount,
        ),
        route(
            "DELETE",
            "/api/v1/profile/header",
            credentials.remove_header,
            scope="write:accounts",
            answer=CredentialAccount,
        ),
        route("GET", "/api/v1/preferences", credentials.preferences, scope="read:accounts", answer=Preferences),
        seen(
            "GET",
            "/api/shoal/v1/accounts/{id}/received",
            accounts.received,
            scope="read:accounts",
            params=One,
            answer=Received,
        ),
    )


def _verb(name: str, handler: Handler, scope: str) -> Route:
    return one("POST", f"/api/v1/accounts/{{id}}/{name}", handler, scope=scope, answer=Relationship)


def _answer(name: str, handler: Handler) -> Route:
    path = f"/api/v1/follow_requests/{{id}}/{name}"
    return one("POST", path, handler, scope="write:follows", answer=Relationship)
