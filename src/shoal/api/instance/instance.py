"""The instance: what this server is and what it allows, for clients that meet it for the first time."""

from __future__ import annotations

from importlib.metadata import version

from starlette.responses import PlainTextResponse

from shoal.api import rows
from shoal.api.context import Context, Front
from shoal.api.entities.instance import InstanceV1, InstanceV2, Nodeinfo, NodeinfoLinks
from shoal.api.entities.moderation import rules_of
from shoal.api.http.calls import Body
from shoal.api.http.limits.ratelimit import UNLIMITED
from shoal.api.http.replies import Reply
from shoal.api.instance.about import contact
from shoal.commands.tags import MAX_FOLLOWED_TAGS
from shoal.core.media_files import MISSING_HEADER
from shoal.core.text import LINK_LENGTH
from shoal.settings import Settings

_SHOAL = version("shoal")
_VERSION = f"4.4.0 (compatible; Shoal {_SHOAL})"
"""Clients read the part before the space, and switch features on by it. Raise it as they are there."""
_API_VERSION = 5
"""Mastodon's own count of additions: 2 is grouped notifications, 3 `attribution_domains`, 4 deleting media, 5 the filter action
`blur`, all there; 7 is quotes."""
_SOURCE = ""
"""Where the source is published: nowhere yet."""
_NODEINFO = "http://nodeinfo.diaspora.software/ns/schema/2.0"


async def v1(context: Context, _params: None) -> object:
    """Instance, the older shape."""
    front = context.deps
    settings, totals = front.settings, await front.network_totals.totals()
    return {
        "uri": front.at.netloc,
        "title": settings.title,
        "short_description": settings.description,
        "description": settings.description,
        "email": settings.contact_email,
        "version": _VERSION,
        "urls": {"streaming_api": _streaming(front)},
        "stats": {"user_count": totals.members, "status_count": totals.posts, "domain_count": 1},
        "thumbnail": front.at.root + MISSING_HEADER,
        "languages": ["en"],
        "registrations": settings.registrations,
        "approval_required": _waits(settings),
        "invites_enabled": settings.invitations == "members",
        "configuration": _configuration(front),
        "contact_account": await contact(front),
        "rules": rules_of(settings),
    }


async def v2(context: Context, _params: None) -> object:
    """Instance, the newer shape."""
    front = context.deps
    settings, totals = front.settings, await front.network_totals.totals()
    thumbnail = front.at.root + MISSING_HEADER
    return {
        "domain": front.at.netloc,
        "title": settings.title,
        "version": _VERSION,
        "source_url": _SOURCE,
        "description": settings.description,
        "usage": {"users": {"active_month": totals.active}},
        "thumbnail": {"url": thumbnail, "blurhash": None, "versions": {"@1x": thumbnail, "@2x": thumbnail}},
        "icon": [],
        "languages": ["en"],
        "configuration": {
            **_configuration(front),
            "urls": {
                "streaming": _streaming(front),
                "status": None,
                "about": f"{front.at.root}/about",
                "privacy_policy": None,
                "terms_of_service": None,
            },
            "vapid": {"public_key": front.push_key},
            "translation": {"enabled": False},
            "timelines_access": _timelines_access(),
            "limited_federation": True,
        },
        "registrations": {
            "enabled": settings.registrations,
            "approval_required": _waits(settings),
            "reason_required": False,
            "message": None,
            "min_age": None,
            "url": None,
        },
        "api_versions": {"mastodon": _API_VERSION},
        "contact": {"email": settings.contact_email, "account": await contact(front)},
        "rules": rules_of(settings),
    }


def _waits(settings: Settings) -> bool:
    """Return whether somebody who signs up by an app waits for approval: apps prove no work."""
    return settings.approval or settings.signup_work > 0


def _configuration(front: Front) -> dict[str, object]:
    limits, uploads = front.writes.limits, front.media.limits
    clips = front.media.clips.limits if front.media.clips else None
    return {
        "accounts": {
            "max_featured_tags": limits.featured_tags,
            "max_pinned_statuses": limits.pins,
            "max_followed_tags": MAX_FOLLOWED_TAGS,
            "signup_work": front.settings.signup_work,
        },
        "statuses": {
            "max_characters": limits.text,
            "max_media_attachments": limits.media,
            "characters_reserved_per_url": LINK_LENGTH,
            "supported_mime_types": ["text/plain"],
        },
        "reactions": {"max_reactions": limits.emoji_of_member},
        "media_attachments": {
            "supported_mime_types": list(front.media.accepted_types),
            "description_limit": limits.description,
            "image_size_limit": uploads.max_bytes,
            "image_matrix_limit": uploads.max_pixels,
            "video_size_limit": clips.max_bytes if clips else 0,
            "video_frame_rate_limit": clips.max_frame_rate if clips else 0,
            "video_matrix_limit": clips.max_pixels if clips else 0,
        },
        "polls": {
            "max_options": limits.poll_options,
            "max_characters_per_option": limits.poll_option,
            "min_expiration": limits.poll_least_seconds,
            "max_expiration": limits.poll_most_seconds,
        },
    }


def _timelines_access() -> dict[str, dict[str, str]]:
    access = {"local": "public", "remote": "disabled"}
    return {"live_feeds": access, "hashtag_feeds": access, "trending_link_feeds": access}


def _streaming(front: Front) -> str:
    return "ws" + front.at.root.removeprefix("http")


async def health(_context: Context, _params: None) -> object:
    """`OK`, for whoever watches over the server."""
    return PlainTextResponse("OK")


async def ready(context: Context, _params: None) -> object:
    """Whether the stores, timelines and broker answer; 503 says which does not."""
    front = context.deps
    parts = await front.readiness.parts()
    said = {name: "ok" if well else "does not answer" for name, well in parts.items()}
    return Reply(said, 200 if all(parts.values()) else 503)


async def nodeinfo_links(context: Context, _params: None) -> object:
    """Where the node information is."""
    front = context.deps
    return {"links": [{"rel": _NODEINFO, "href": f"{front.at.root}/nodeinfo/2.0"}]}


async def nodeinfo(context: Context, _params: None) -> object:
    """Return the software of this server and its size, in the form that surveys of the network read."""
    front = context.deps
    totals = await front.network_totals.totals()
    return {
        "version": "2.0",
        "software": {"name": "shoal", "version": _SHOAL},
        "protocols": [],
        "services": {"inbound": [], "outbound": []},
        "openRegistrations": front.settings.registrations,
        "usage": {"users": {"total": totals.members, "activeMonth": totals.active}, "localPosts": totals.posts},
        "metadata": {
            "nodeName": front.settings.title,
            "nodeDescription": front.settings.description,
            # By this word clients of Pleroma know that a server has them.
            "features": ["pleroma_emoji_reactions"],
            # Clients that choose their protocol by the name of the software recognize forks of Mastodon by this.
            "upstream": {"name": "mastodon"},
        },
    }


_watched = rows.public.having(limit_class=UNLIMITED)

ROUTES = (
    _watched("GET", "/health", health, answer=Body("text/plain")),
    _watched("GET", "/ready", ready, answer=dict[str, str], refuses=(503,)),
    rows.public("GET", "/.well-known/nodeinfo", nodeinfo_links, answer=NodeinfoLinks),
    rows.public("GET", "/nodeinfo/2.0", nodeinfo, answer=Nodeinfo),
    rows.public("GET", "/api/v1/instance", v1, answer=InstanceV1),
    rows.public("GET", "/api/v2/instance", v2, answer=InstanceV2),
)
