"""Tags, trends and the tag cloud."""

from __future__ import annotations

from shoal.api import tags, trends
from shoal.api.calls import Route
from shoal.api.routes.making import public, route, seen
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        seen("GET", "/api/v1/tags/{name}", tags.one, scope="read:follows", params=tags.ByName),
        route("POST", "/api/v1/tags/{name}/follow", tags.follow, scope="write:follows", params=tags.ByName),
        route("POST", "/api/v1/tags/{name}/unfollow", tags.unfollow, scope="write:follows", params=tags.ByName),
        seen("GET", "/api/v1/trends/tags", trends.tags, scope="read:follows", params=trends.Trending),
        seen("GET", "/api/v1/trends", trends.tags, scope="read:follows", params=trends.Trending),
        seen("GET", "/api/shoal/v1/tags/cloud", trends.cloud, scope="read:follows", params=trends.CloudQuery),
        seen("GET", "/api/shoal/v1/tags/cloud.svg", trends.picture, scope="read:follows", params=trends.CloudQuery),
        public("GET", "/api/shoal/v1/tags/{name}/related", trends.alike, params=trends.RelatedQuery),
    )
