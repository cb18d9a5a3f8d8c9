"""What this server is."""

from __future__ import annotations

from typing import Any

from shoal.api import instance
from shoal.api.calls import Body, Route
from shoal.api.instance_entities import CustomEmoji, InstanceV1, InstanceV2, Nodeinfo, NodeinfoLinks, Rule
from shoal.api.routes.making import public, route
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        public("GET", "/health", instance.health, answer=Body("text/plain")),
        public("GET", "/.well-known/nodeinfo", instance.nodeinfo_links, answer=NodeinfoLinks),
        public("GET", "/nodeinfo/2.0", instance.nodeinfo, answer=Nodeinfo),
        public("GET", "/api/v1/instance", instance.v1, answer=InstanceV1),
        public("GET", "/api/v2/instance", instance.v2, answer=InstanceV2),
        public("GET", "/api/v1/instance/rules", instance.nothing, answer=list[Rule], stub=True),
        public("GET", "/api/v1/custom_emojis", instance.nothing, answer=list[CustomEmoji], stub=True),
        route("GET", "/api/v1/announcements", instance.nothing, scope="read", answer=list[dict[str, Any]], stub=True),
    )
