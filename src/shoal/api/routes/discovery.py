"""What this server is."""

from __future__ import annotations

from shoal.api import instance
from shoal.api.calls import Route
from shoal.api.routes.making import public, route
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        public("GET", "/health", instance.health),
        public("GET", "/.well-known/nodeinfo", instance.nodeinfo_links),
        public("GET", "/nodeinfo/2.0", instance.nodeinfo),
        public("GET", "/api/v1/instance", instance.v1),
        public("GET", "/api/v2/instance", instance.v2),
        public("GET", "/api/v1/instance/rules", instance.nothing, stub=True),
        public("GET", "/api/v1/custom_emojis", instance.nothing, stub=True),
        route("GET", "/api/v1/announcements", instance.nothing, scope="read", stub=True),
    )
