"""Tags, trends and the tag cloud."""

from __future__ import annotations

from shoal.api import featured, tags, trends
from shoal.api.entities.people import FeaturedTag
from shoal.api.entities.tags import AlikeTag, Cloud, Tag
from shoal.api.http.calls import Body, Handler, Route
from shoal.api.rows import one, page, public, route, seen
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        seen("GET", "/api/v1/tags/{name}", tags.one, scope="read:follows", params=tags.ByName, answer=Tag),
        route("POST", "/api/v1/tags/{name}/follow", tags.follow, scope="write:follows", params=tags.ByName, answer=Tag),
        route(
            "POST", "/api/v1/tags/{name}/unfollow", tags.unfollow, scope="write:follows", params=tags.ByName, answer=Tag
        ),
        _verb("feature", tags.feature, "write:accounts"),
        _verb("unfeature", tags.unfeature, "write:accounts"),
        page("GET", "/api/v1/followed_tags", tags.followed, scope="read:follows", answer=list[Tag]),
        route("GET", "/api/v1/featured_tags", featured.mine, scope="read:accounts", answer=list[FeaturedTag]),
        route(
            "POST",
            "/api/v1/featured_tags",
            featured.add,
            scope="write:accounts",
            params=featured.NewTag,
            answer=FeaturedTag,
        ),
        route(
            "GET", "/api/v1/featured_tags/suggestions", featured.suggestions, scope="read:accounts", answer=list[Tag]
        ),
        one("DELETE", "/api/v1/featured_tags/{id}", featured.remove, scope="write:accounts", answer=dict),
        seen("GET", "/api/v1/trends/tags", trends.tags, scope="read:follows", params=trends.Trending, answer=list[Tag]),
        seen("GET", "/api/v1/trends", trends.tags, scope="read:follows", params=trends.Trending, answer=list[Tag]),
        seen(
            "GET",
            "/api/shoal/v1/tags/cloud",
            trends.cloud,
            scope="read:follows",
            params=trends.CloudQuery,
            answer=Cloud,
        ),
        seen(
            "GET",
            "/api/shoal/v1/tags/cloud.svg",
            trends.picture,
            scope="read:follows",
            params=trends.CloudQuery,
            answer=Body("image/svg+xml"),
        ),
        public(
            "GET", "/api/shoal/v1/tags/{name}/related", trends.alike, params=trends.RelatedQuery, answer=list[AlikeTag]
        ),
    )


def _verb(name: str, handler: Handler, scope: str) -> Route:
    return route("POST", f"/api/v1/tags/{{name}}/{name}", handler, scope=scope, params=tags.ByName, answer=Tag)
