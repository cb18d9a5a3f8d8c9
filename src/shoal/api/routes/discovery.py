"""What this server is."""

from __future__ import annotations

from functools import partial
from typing import Any

from shoal.api.entities.about import Activity, ExtendedDescription, Language, WebFinger
from shoal.api.entities.instance import CustomEmoji, InstanceV1, InstanceV2, Nodeinfo, NodeinfoLinks
from shoal.api.entities.moderation import Rule
from shoal.api.http.calls import Body, Route
from shoal.api.http.limits.ratelimit import UNLIMITED
from shoal.api.instance import about, instance, wellknown
from shoal.api.rows import public, route
from shoal.settings import Settings

_HERE = "/api/v1/instance"
_BLOCKS = "/api/v1/domain_blocks"

_watched = partial(Route, "GET", auth="public", limit_class=UNLIMITED)
_none = partial(public, "GET", handler=about.nothing, answer=list[Any], stub=True)
_not_written = partial(public, "GET", handler=about.not_written, answer=ExtendedDescription, refuses=(404,), stub=True)
_none_for_members = partial(route, "GET", handler=about.nothing, answer=list[Any], stub=True)
_no_block = partial(route, handler=about.no_domain, scope="write:blocks", params=about.Domain, answer=dict, stub=True)


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        _watched("/health", instance.health, answer=Body("text/plain")),
        _watched("/ready", instance.ready, answer=dict[str, str], refuses=(503,)),
        public("GET", "/.well-known/nodeinfo", instance.nodeinfo_links, answer=NodeinfoLinks),
        public("GET", "/nodeinfo/2.0", instance.nodeinfo, answer=Nodeinfo),
        public("GET", "/api/v1/instance", instance.v1, answer=InstanceV1),
        public("GET", "/api/v2/instance", instance.v2, answer=InstanceV2),
        public("GET", "/.well-known/host-meta", wellknown.host_meta, answer=Body("application/xrd+xml")),
        public(
            "GET",
            "/.well-known/webfinger",
            wellknown.webfinger,
            params=wellknown.Resource,
            answer=Body("application/jrd+json", WebFinger),
            refuses=(404, 410),
        ),
        public("GET", f"{_HERE}/rules", about.rules, answer=list[Rule]),
        public("GET", f"{_HERE}/activity", about.activity, answer=list[Activity]),
        public("GET", f"{_HERE}/extended_description", about.extended_description, answer=ExtendedDescription),
        public("GET", f"{_HERE}/languages", about.languages, answer=list[Language]),
        public("GET", f"{_HERE}/translation_languages", about.no_translations, answer=dict, stub=True),
        _none(f"{_HERE}/peers", what="An empty list: this server talks to no other."),
        _none(f"{_HERE}/domain_blocks", what="An empty list: this server blocks no other."),
        _not_written(f"{_HERE}/privacy_policy"),
        _not_written(f"{_HERE}/terms_of_service"),
        _none("/api/v1/custom_emojis", answer=list[CustomEmoji], what="An empty list: there are no custom emoji."),
        _none_for_members("/api/v1/announcements", scope="read", what="An empty list: nothing is announced."),
        _none_for_members(_BLOCKS, scope="read:blocks", what="An empty list: there are no other servers to block."),
        _no_block("POST", _BLOCKS),
        _no_block("DELETE", _BLOCKS),
    )
