"""The instance: configuration, health, nodeinfo, rules, activity, languages, and accounts below `/.well-known/`."""

from __future__ import annotations

from html import escape
from importlib.metadata import version
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import PlainTextResponse, Response

from shoal.commands import members
from shoal.commands.tags import MAX_FOLLOWED_TAGS
from shoal.core.errors import Gone, NotFound
from shoal.core.media_files import MISSING_HEADER
from shoal.core.text import LINK_LENGTH
from shoal.http.rate_limits import UNLIMITED
from shoal.http.responses import Reply
from shoal.http.routes import Body
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, Front
from shoal.mastodon_api.entities import moderation as moderation_entities
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.instance import (
    Activity,
    CustomEmoji,
    ExtendedDescription,
    InstanceV1,
    InstanceV2,
    Language,
    Nodeinfo,
    NodeinfoLinks,
    WebFinger,
    WebFingerLink,
)
from shoal.mastodon_api.entities.moderation import Rule, rules_of
from shoal.mastodon_api.entities.statuses import Account
from shoal.queries.hydration import profiles_by_id
from shoal.settings import Settings

_LANGUAGES = """
    ar العربية|bg Български|bn বাংলা|ca Català|cs Čeština|cy Cymraeg|da Dansk|de Deutsch|el Ελληνικά|en English|eo Esperanto
    es Español|et Eesti|eu Euskara|fa فارسی|fi Suomi|fr Français|fy Frysk|ga Gaeilge|gd Gàidhlig|gl Galego|he עברית|hi हिन्दी
    hr Hrvatski|hu Magyar|hy Հայերեն|id Bahasa Indonesia|is Íslenska|it Italiano|ja 日本語|ka ქართული|kk Қазақша|ko 한국어
    ku Kurdî|lt Lietuvių|lv Latviešu|mk Македонски|ml മലയാളം|mr मराठी|ms Bahasa Melayu|my ဗမာစာ|nb Norsk bokmål|nl Nederlands
    nn Norsk nynorsk|oc Occitan|pa ਪੰਜਾਬੀ|pl Polski|pt Português|ro Română|ru Русский|sk Slovenčina|sl Slovenščina|sq Shqip
    sr Српски|sv Svenska|sw Kiswahili|ta தமிழ்|te తెలుగు|th ไทย|tr Türkçe|uk Українська|ur اردو|vi Tiếng Việt|zh 中文
"""
LANGUAGES = [
    Language(*entry.strip().split(" ", 1)) for line in _LANGUAGES.strip().splitlines() for entry in line.split("|")
]
"""Languages that clients offer. A status may be in any other, too."""


class Domain(msgspec.Struct, frozen=True):
    """A server."""

    domain: Annotated[str, Meta(max_length=400)] = ""


async def rules(context: Context, _params: None) -> list[Rule]:
    """The rules of this server."""
    front = context.deps
    return moderation_entities.rules_of(front.settings)


async def activity(context: Context, _params: None) -> list[Activity]:
    """The last twelve weeks, this one first: statuses, members who wrote one, and members who came."""
    front = context.deps
    totals = await front.network_totals.totals()
    return [Activity(str(week.began), str(week.posts), str(week.authors), str(week.members)) for week in totals.weeks]


async def extended_description(context: Context, _params: None) -> ExtendedDescription:
    """Return the server's description of itself, as HTML."""
    front = context.deps
    return ExtendedDescription(None, f"<p>{escape(front.settings.description)}</p>")


async def languages(_context: Context, _params: None) -> list[Language]:
    """Languages for clients to offer."""
    return LANGUAGES


async def nothing(_context: Context, _params: None) -> object:
    """An empty list."""
    return b"[]"


async def no_translations(_context: Context, _params: None) -> object:
    """An empty object: nothing is translated."""
    return b"{}"


async def not_written(_context: Context, _params: None) -> object:
    """404: this server publishes no such text."""
    raise NotFound("Record not found")


async def no_domain(_context: Context, _params: Domain) -> object:
    """An empty object: there are no other servers to hear of, so none to block."""
    return b"{}"


async def contact(front: Front) -> Account | None:
    """The account of whom members may ask, where the setting names one."""
    name = front.settings.contact_account
    member = await members.find(front.writes, name) if name else None
    found = await profiles_by_id(front.graph, None, (member.id,)) if member else []
    return serializers.account(found[0], front.at) if found else None


_HERE = "/api/v1/instance"
_BLOCKS = "/api/v1/domain_blocks"

_none = endpoints.public.having(answer=list[Any], stub=True)
_none_for_members = endpoints.route.having(answer=list[Any], stub=True)
_not_written = endpoints.public.having(answer=ExtendedDescription, refuses=(404,), stub=True)
_no_block = endpoints.route.having(scope="write:blocks", answer=dict, stub=True).taking(Domain)

ABOUT_ROUTES = (
    endpoints.public("GET", f"{_HERE}/rules", rules, answer=list[Rule]),
    endpoints.public("GET", f"{_HERE}/activity", activity, answer=list[Activity]),
    endpoints.public("GET", f"{_HERE}/extended_description", extended_description, answer=ExtendedDescription),
    endpoints.public("GET", f"{_HERE}/languages", languages, answer=list[Language]),
    endpoints.public("GET", f"{_HERE}/translation_languages", no_translations, answer=dict, stub=True),
    _none("GET", f"{_HERE}/peers", nothing, what="An empty list: this server talks to no other."),
    _none("GET", f"{_HERE}/domain_blocks", nothing, what="An empty list: this server blocks no other."),
    _not_written("GET", f"{_HERE}/privacy_policy", not_written),
    _not_written("GET", f"{_HERE}/terms_of_service", not_written),
    _none(
        "GET",
        "/api/v1/custom_emojis",
        nothing,
        answer=list[CustomEmoji],
        what="An empty list: there are no custom emoji.",
    ),
    _none_for_members(
        "GET", "/api/v1/announcements", nothing, scope="read", what="An empty list: nothing is announced."
    ),
    _none_for_members(
        "GET", _BLOCKS, nothing, scope="read:blocks", what="An empty list: there are no other servers to block."
    ),
    _no_block("POST", _BLOCKS, no_domain),
    _no_block("DELETE", _BLOCKS, no_domain),
)


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


_watched = endpoints.public.having(limit_class=UNLIMITED)

ROUTES = (
    _watched("GET", "/health", health, answer=Body("text/plain")),
    _watched("GET", "/ready", ready, answer=dict[str, str], refuses=(503,)),
    endpoints.public("GET", "/.well-known/nodeinfo", nodeinfo_links, answer=NodeinfoLinks),
    endpoints.public("GET", "/nodeinfo/2.0", nodeinfo, answer=Nodeinfo),
    endpoints.public("GET", "/api/v1/instance", v1, answer=InstanceV1),
    endpoints.public("GET", "/api/v2/instance", v2, answer=InstanceV2),
)


_PROFILE = "http://webfinger.net/rel/profile-page"
_XRD = """<?xml version="1.0" encoding="UTF-8"?>
<XRD xmlns="http://docs.oasis-open.org/ns/xri/xrd-1.0">
  <Link rel="lrdd" template="{root}/.well-known/webfinger?resource={{uri}}"/>
</XRD>
"""


class Resource(msgspec.Struct, frozen=True):
    """The account to look up: `acct:name@domain`, or the URL of a profile."""

    resource: Annotated[str, Meta(max_length=1_000)]


async def host_meta(context: Context, _params: None) -> Response:
    """Where WebFinger is, as XRD."""
    front = context.deps
    return Response(_XRD.format(root=front.at.root), media_type="application/xrd+xml")


async def webfinger(context: Context, params: Resource) -> Response:
    """Where an account is."""
    front = context.deps
    member = await members.find(front.writes, _name(front, params.resource))
    if member is None or member.pending:
        raise NotFound("Record not found")
    if member.suspended:
        raise Gone
    url = front.at.account(member.name)
    found = WebFinger(
        subject=f"acct:{member.name}@{front.at.domain}",
        aliases=[url],
        links=[WebFingerLink(_PROFILE, "text/html", url)],
    )
    return Response(msgspec.json.encode(found), media_type="application/jrd+json")


def _name(front: Front, resource: str) -> str:
    """The user name that is meant. Raises `NotFound` for what is not ours."""
    ours = {front.at.domain.lower(), front.at.netloc.lower()}
    if resource.startswith(front.at.root + "/"):
        name = resource.removeprefix(front.at.root + "/")
        here = name.startswith("@")
    else:
        name, _, domain = resource.removeprefix("acct:").removeprefix("@").partition("@")
        here = domain.lower() in ours
    name = name.removeprefix("@")
    if not here or "@" in name:
        raise NotFound("Record not found")
    return name


WELL_KNOWN_ROUTES = (
    endpoints.public("GET", "/.well-known/host-meta", host_meta, answer=Body("application/xrd+xml")),
    endpoints.public(
        "GET",
        "/.well-known/webfinger",
        webfinger,
        params=Resource,
        answer=Body("application/jrd+json", WebFinger),
        refuses=(404, 410),
    ),
)
