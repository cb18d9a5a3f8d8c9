"""Statuses, and what is done to them."""

from __future__ import annotations

from shoal.api import reactions, statuses
from shoal.api.entities.statuses import Account, Likers, Status, StatusContext, StatusEdit, StatusSource
from shoal.api.http.calls import Route
from shoal.api.listing import One, PageOf, StatusesOf
from shoal.api.rows import one, route, seen, statuses_page
from shoal.settings import Settings


def routes(settings: Settings) -> tuple[Route, ...]:
    """The rows; the settings say how large a thumbnail may be."""
    return (
        route(
            "POST",
            "/api/v1/statuses",
            statuses.create,
            scope="write:statuses",
            params=statuses.NewStatus,
            max_body=statuses.MAX_BODY,
            answer=Status,
            delivers=True,
        ),
        seen(
            "GET",
            "/api/v1/statuses",
            statuses.several,
            scope="read:statuses",
            params=statuses.Several,
            answer=list[Status],
        ),
        seen("GET", "/api/v1/statuses/{id}", statuses.one, scope="read:statuses", params=One, answer=Status),
        route(
            "PUT",
            "/api/v1/statuses/{id}",
            statuses.update,
            scope="write:statuses",
            params=statuses.Edit,
            # Base64 makes four bytes of three.
            max_body=statuses.MAX_BODY + settings.max_upload_bytes * 4 // 3,
            answer=Status,
        ),
        Route(
            "DELETE",
            "/api/v1/statuses/{id}",
            statuses.delete,
            scope="write:statuses",
            limit_class="delete",
            params=statuses.Deletion,
            answer=Status,
        ),
        seen(
            "GET",
            "/api/v1/statuses/{id}/context",
            statuses.around,
            scope="read:statuses",
            params=statuses.Around,
            answer=StatusContext,
        ),
        seen(
            "GET",
            "/api/shoal/v1/statuses/{id}/replies",
            statuses.replies,
            scope="read:statuses",
            params=StatusesOf,
            answer=list[Status],
        ),
        one("GET", "/api/v1/statuses/{id}/source", statuses.source, scope="read:statuses", answer=StatusSource),
        seen(
            "GET",
            "/api/v1/statuses/{id}/history",
            statuses.history,
            scope="read:statuses",
            params=One,
            answer=list[StatusEdit],
        ),
        one("POST", "/api/v1/statuses/{id}/favourite", reactions.favourite, scope="write:favourites", answer=Status),
        one(
            "POST", "/api/v1/statuses/{id}/unfavourite", reactions.unfavourite, scope="write:favourites", answer=Status
        ),
        route(
            "POST",
            "/api/v1/statuses/{id}/reblog",
            reactions.reblog,
            scope="write:statuses",
            params=reactions.Reblog,
            answer=Status,
            delivers=True,
        ),
        Route(
            "POST",
            "/api/v1/statuses/{id}/unreblog",
            reactions.unreblog,
            scope="write:statuses",
            limit_class="delete",
            params=One,
            answer=Status,
        ),
        one("POST", "/api/v1/statuses/{id}/bookmark", reactions.bookmark, scope="write:bookmarks", answer=Status),
        one("POST", "/api/v1/statuses/{id}/pin", reactions.pin, scope="write:accounts", answer=Status),
        one("POST", "/api/v1/statuses/{id}/unpin", reactions.unpin, scope="write:accounts", answer=Status),
        one("POST", "/api/v1/statuses/{id}/mute", reactions.mute_thread, scope="write:mutes", answer=Status),
        one("POST", "/api/v1/statuses/{id}/unmute", reactions.unmute_thread, scope="write:mutes", answer=Status),
        one("POST", "/api/v1/statuses/{id}/unbookmark", reactions.unbookmark, scope="write:bookmarks", answer=Status),
        seen(
            "GET",
            "/api/v1/statuses/{id}/favourited_by",
            reactions.favourited_by,
            scope="read:accounts",
            params=PageOf,
            answer=list[Account],
        ),
        seen(
            "GET",
            "/api/v1/statuses/{id}/reblogged_by",
            reactions.reblogged_by,
            scope="read:accounts",
            params=PageOf,
            answer=list[Account],
        ),
        statuses_page("GET", "/api/v1/favourites", reactions.favourites, scope="read:favourites"),
        statuses_page("GET", "/api/v1/bookmarks", reactions.bookmarks, scope="read:bookmarks"),
        seen(
            "GET",
            "/api/shoal/v1/statuses/{id}/likers",
            reactions.likers,
            scope="read:accounts",
            params=One,
            answer=Likers,
        ),
    )
