"""Every route of the API on one screen: who may call it, with what, and which function answers."""

from __future__ import annotations

from functools import partial

from shoal.api import (
    accounts,
    apps,
    credentials,
    instance,
    media,
    oauth,
    reactions,
    relations,
    signup,
    statuses,
    tags,
    timelines,
    trends,
)
from shoal.api.calls import Route
from shoal.api.listing import One, PageOf
from shoal.api.pages import PageQuery
from shoal.settings import Settings

_FORM = 64 * 1024
"""Bytes of a multipart body besides its files."""

_route = partial(Route, limit_class="api")
_public = partial(Route, auth="public", limit_class="api")
_one = partial(Route, limit_class="api", params=One)
_seen = partial(Route, auth="optional", limit_class="api")
_page = partial(Route, limit_class="api", params=PageQuery)


def table(settings: Settings) -> tuple[Route, ...]:
    """The routes; the settings say how large an upload may be."""
    return (*_DISCOVERY, *_ACCOUNTS, *_STATUSES, *_LISTS, *_uploads(settings.max_upload_bytes))


_DISCOVERY = (
    _public("GET", "/health", instance.health),
    _public("GET", "/.well-known/nodeinfo", instance.nodeinfo_links),
    _public("GET", "/nodeinfo/2.0", instance.nodeinfo),
    _public("GET", "/api/v1/instance", instance.v1),
    _public("GET", "/api/v2/instance", instance.v2),
    _public("GET", "/api/v1/instance/rules", instance.nothing),
    _public("GET", "/api/v1/custom_emojis", instance.nothing),
    _route("GET", "/api/v1/announcements", instance.nothing, scope="read"),
    _public("POST", "/api/v1/apps", apps.register, params=apps.NewApp),
    _route("GET", "/api/v1/apps/verify_credentials", apps.verify, auth="app"),
    Route("POST", "/oauth/token", oauth.token, auth="public", limit_class="login", params=oauth.TokenRequest),
    _public("POST", "/oauth/revoke", oauth.revoke, params=oauth.Revocation),
)

_ACCOUNTS = (
    Route(
        "POST",
        "/api/v1/accounts",
        signup.sign_up,
        auth="app",
        scope="write:accounts",
        limit_class="signup",
        params=signup.SignUp,
    ),
    _seen("GET", "/api/v1/accounts", accounts.several, scope="read:accounts", params=accounts.Several),
    _route("GET", "/api/v1/accounts/verify_credentials", credentials.verify, scope="read:accounts"),
    _seen("GET", "/api/v1/accounts/lookup", accounts.lookup, scope="read:accounts", params=accounts.Lookup),
    _route("GET", "/api/v1/accounts/relationships", relations.several, scope="read:follows", params=relations.Others),
    _seen("GET", "/api/v1/accounts/{id}", accounts.one, scope="read:accounts", params=One),
    _seen(
        "GET", "/api/v1/accounts/{id}/statuses", accounts.statuses, scope="read:statuses", params=accounts.StatusesOf
    ),
    _seen("GET", "/api/v1/accounts/{id}/followers", accounts.followers, scope="read:accounts", params=PageOf),
    _seen("GET", "/api/v1/accounts/{id}/following", accounts.following, scope="read:accounts", params=PageOf),
    _one("POST", "/api/v1/accounts/{id}/follow", relations.follow, scope="write:follows"),
    _one("POST", "/api/v1/accounts/{id}/unfollow", relations.unfollow, scope="write:follows"),
    _one("POST", "/api/v1/accounts/{id}/block", relations.block, scope="write:blocks"),
    _one("POST", "/api/v1/accounts/{id}/unblock", relations.unblock, scope="write:blocks"),
    _one("POST", "/api/v1/accounts/{id}/mute", relations.mute, scope="write:mutes"),
    _one("POST", "/api/v1/accounts/{id}/unmute", relations.unmute, scope="write:mutes"),
    _seen("GET", "/api/shoal/v1/accounts/{id}/received", accounts.received, scope="read:accounts", params=One),
)

_STATUSES = (
    _route(
        "POST",
        "/api/v1/statuses",
        statuses.create,
        scope="write:statuses",
        params=statuses.NewStatus,
        max_body=statuses.MAX_BODY,
    ),
    _seen("GET", "/api/v1/statuses", statuses.several, scope="read:statuses", params=statuses.Several),
    _seen("GET", "/api/v1/statuses/{id}", statuses.one, scope="read:statuses", params=One),
    _route(
        "PUT",
        "/api/v1/statuses/{id}",
        statuses.update,
        scope="write:statuses",
        params=statuses.Edit,
        max_body=statuses.MAX_BODY,
    ),
    Route("DELETE", "/api/v1/statuses/{id}", statuses.delete, scope="write:statuses", limit_class="delete", params=One),
    _seen("GET", "/api/v1/statuses/{id}/context", statuses.around, scope="read:statuses", params=One),
    _one("GET", "/api/v1/statuses/{id}/source", statuses.source, scope="read:statuses"),
    _seen("GET", "/api/v1/statuses/{id}/history", statuses.history, scope="read:statuses", params=One),
    _one("POST", "/api/v1/statuses/{id}/favourite", reactions.favourite, scope="write:favourites"),
    _one("POST", "/api/v1/statuses/{id}/unfavourite", reactions.unfavourite, scope="write:favourites"),
    _route("POST", "/api/v1/statuses/{id}/reblog", reactions.reblog, scope="write:statuses", params=reactions.Reblog),
    Route(
        "POST",
        "/api/v1/statuses/{id}/unreblog",
        reactions.unreblog,
        scope="write:statuses",
        limit_class="delete",
        params=One,
    ),
    _one("POST", "/api/v1/statuses/{id}/bookmark", reactions.bookmark, scope="write:bookmarks"),
    _one("POST", "/api/v1/statuses/{id}/unbookmark", reactions.unbookmark, scope="write:bookmarks"),
    _seen("GET", "/api/v1/statuses/{id}/favourited_by", reactions.favourited_by, scope="read:accounts", params=PageOf),
    _seen("GET", "/api/v1/statuses/{id}/reblogged_by", reactions.reblogged_by, scope="read:accounts", params=PageOf),
    _seen("GET", "/api/shoal/v1/statuses/{id}/likers", reactions.likers, scope="read:accounts", params=One),
)

_LISTS = (
    _page("GET", "/api/v1/timelines/home", timelines.home, scope="read:statuses"),
    _seen("GET", "/api/v1/timelines/tag/{tag}", timelines.tag, scope="read:statuses", params=timelines.Tagged),
    _page("GET", "/api/v1/favourites", reactions.favourites, scope="read:favourites"),
    _page("GET", "/api/v1/bookmarks", reactions.bookmarks, scope="read:bookmarks"),
    _page("GET", "/api/v1/blocks", relations.blocks, scope="read:blocks"),
    _page("GET", "/api/v1/mutes", relations.mutes, scope="read:mutes"),
    _seen("GET", "/api/v1/tags/{name}", tags.one, scope="read:follows", params=tags.ByName),
    _route("POST", "/api/v1/tags/{name}/follow", tags.follow, scope="write:follows", params=tags.ByName),
    _route("POST", "/api/v1/tags/{name}/unfollow", tags.unfollow, scope="write:follows", params=tags.ByName),
    _seen("GET", "/api/v1/trends/tags", trends.tags, scope="read:follows", params=trends.Trending),
    _seen("GET", "/api/v1/trends", trends.tags, scope="read:follows", params=trends.Trending),
    _seen("GET", "/api/shoal/v1/tags/cloud", trends.cloud, scope="read:follows", params=trends.CloudQuery),
    _seen("GET", "/api/shoal/v1/tags/cloud.svg", trends.picture, scope="read:follows", params=trends.CloudQuery),
    _public("GET", "/api/shoal/v1/tags/{name}/related", trends.alike, params=trends.RelatedQuery),
)


def _uploads(most: int) -> tuple[Route, ...]:
    """Routes that take files of so many bytes."""
    upload = partial(
        Route,
        "POST",
        handler=media.upload,
        scope="write:media",
        limit_class="media",
        params=media.NewMedia,
        max_body=most + _FORM,
    )
    return (
        upload("/api/v1/media"),
        upload("/api/v2/media"),
        _one("GET", "/api/v1/media/{id}", media.one, scope="write:media"),
        _route("PUT", "/api/v1/media/{id}", media.describe, scope="write:media", params=media.Described),
        _route(
            "PATCH",
            "/api/v1/accounts/update_credentials",
            credentials.update,
            scope="write:accounts",
            params=credentials.Changes,
            max_body=2 * most + 2 * _FORM,
        ),
    )
