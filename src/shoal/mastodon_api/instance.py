"""Information about the server: configuration, health, nodeinfo, rules, activity and languages, and WebFinger."""

from __future__ import annotations

from html import escape
from importlib.metadata import version
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import PlainTextResponse, Response

from shoal.commands import members
from shoal.commands.tags import MAX_FOLLOWED_TAGS
from shoal.core.errors import NotFound
from shoal.core.media_files import MISSING_HEADER
from shoal.core.text import LINK_LENGTH
from shoal.http.rate_limits import UNLIMITED
from shoal.http.responses import Reply
from shoal.http.routes import Body
from shoal.mastodon_api.accounts import account_named
from shoal.mastodon_api.context import AppContext, Context, Router
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.instance import (
    Activity,
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
from shoal.mastodon_api.entities.statuses import Account, CustomEmoji
from shoal.queries.hydration import profiles_by_id
from shoal.settings import Settings

router = Router(auth="public")

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
"""Languages that clients should offer. A status may be in another language."""


class Domain(msgspec.Struct, frozen=True):
    domain: Annotated[str, Meta(max_length=400)] = ""


@router.get("/api/v1/instance/rules", answer=list[Rule])
async def rules(context: Context, _params: None) -> list[Rule]:
    """List the rules of this server."""
    return rules_of(context.app.settings)


@router.get("/api/v1/instance/activity", answer=list[Activity])
async def activity(context: Context, _params: None) -> list[Activity]:
    """Return the activity of the last twelve weeks, current week first: statuses, authors and new members."""
    totals = await context.app.network_totals.totals()
    return [Activity(str(week.began), str(week.posts), str(week.authors), str(week.members)) for week in totals.weeks]


@router.get("/api/v1/instance/extended_description", answer=ExtendedDescription)
async def extended_description(context: Context, _params: None) -> ExtendedDescription:
    """Return the server's extended description as HTML."""
    return ExtendedDescription(None, f"<p>{escape(context.app.settings.description)}</p>")


@router.get("/api/v1/instance/languages", answer=list[Language])
async def languages(_context: Context, _params: None) -> list[Language]:
    """List the languages that clients should offer for statuses."""
    return LANGUAGES


@router.get("/api/v1/instance/peers", answer=list[str], stub=True, what="Return an empty list: there is no federation.")
@router.get(
    "/api/v1/instance/domain_blocks", answer=list[Any], stub=True, what="Return an empty list: no server is blocked."
)
@router.get(
    "/api/v1/custom_emojis",
    answer=list[CustomEmoji],
    stub=True,
    what="Return an empty list: there are no custom emoji.",
)
@router.get(
    "/api/v1/announcements",
    auth="user",
    scope="read",
    answer=list[Any],
    stub=True,
    what="Return an empty list: there are no announcements.",
)
@router.get(
    "/api/v1/domain_blocks",
    auth="user",
    scope="read:blocks",
    answer=list[str],
    stub=True,
    what="Return an empty list: there are no other servers to block.",
)
async def nothing(_context: Context, _params: None) -> object:
    """Return an empty list, because Shoal does not have this feature."""
    return b"[]"


@router.get("/api/v1/instance/translation_languages", answer=dict, stub=True)
async def no_translations(_context: Context, _params: None) -> object:
    """Return an empty object: there is no translation."""
    return b"{}"


@router.get("/api/v1/instance/privacy_policy", answer=ExtendedDescription, refuses=(404,))
async def privacy_policy(context: Context, _params: None) -> ExtendedDescription:
    """Return the privacy policy (setting `privacy_policy`) as HTML; 404 if there is none."""
    return _document(context, context.app.settings.privacy_policy)


@router.get("/api/v1/instance/terms_of_service", answer=ExtendedDescription, refuses=(404,))
async def terms_of_service(context: Context, _params: None) -> ExtendedDescription:
    """Return the terms of service (setting `terms_of_service`) as HTML; 404 if there are none."""
    return _document(context, context.app.settings.terms_of_service)


def _document(context: Context, text: str) -> ExtendedDescription:
    if not text:
        raise NotFound("Record not found")
    return ExtendedDescription(None, context.app.at.html(text))


@router.post("/api/v1/domain_blocks", auth="user", scope="write:blocks", answer=dict, stub=True)
@router.delete("/api/v1/domain_blocks", auth="user", scope="write:blocks", answer=dict, stub=True)
async def no_domain(_context: Context, _params: Domain) -> object:
    """Return an empty object: this server does not federate, so it blocks no other servers."""
    return b"{}"


async def contact(app_context: AppContext) -> Account | None:
    name = app_context.settings.contact_account
    member = await members.find(app_context.writes, name) if name else None
    found = await profiles_by_id(app_context.graph, None, (member.id,)) if member else []
    return serializers.account(found[0], app_context.at) if found else None


_SHOAL = version("shoal")
_VERSION = f"4.4.0 (compatible; Shoal {_SHOAL})"
"""Clients enable features by the Mastodon version at the beginning.

Raise this version when Shoal implements the features of a later Mastodon version.
"""
_API_VERSION = 5
"""Mastodon's API version. Implemented: 2 grouped notifications, 3 `attribution_domains`, 4 deletion of media, 5 the
filter action `blur`. Missing: 7 quotes."""
_SOURCE = ""
"""URL of the source code; empty because it is not published yet."""
_NODEINFO = "http://nodeinfo.diaspora.software/ns/schema/2.0"


@router.get("/api/v1/instance", answer=InstanceV1)
async def v1(context: Context, _params: None) -> object:
    """Show the instance in the format of API v1."""
    settings, totals = context.app.settings, await context.app.network_totals.totals()
    return {
        "uri": context.app.at.netloc,
        "title": settings.title,
        "short_description": settings.description,
        "description": settings.description,
        "email": settings.contact_email,
        "version": _VERSION,
        "urls": {"streaming_api": _streaming(context.app)},
        "stats": {"user_count": totals.members, "status_count": totals.posts, "domain_count": 1},
        "thumbnail": context.app.at.root + MISSING_HEADER,
        "languages": ["en"],
        "registrations": settings.registrations and settings.password_login,
        "approval_required": _waits(settings),
        "invites_enabled": settings.invitations == "members",
        "configuration": _configuration(context.app),
        "contact_account": await contact(context.app),
        "rules": rules_of(settings),
    }


@router.get("/api/v2/instance", answer=InstanceV2)
async def v2(context: Context, _params: None) -> object:
    """Show the instance in the format of API v2."""
    settings, totals = context.app.settings, await context.app.network_totals.totals()
    thumbnail = context.app.at.root + MISSING_HEADER
    access = {"local": "public", "remote": "disabled"}
    return {
        "domain": context.app.at.netloc,
        "title": settings.title,
        "version": _VERSION,
        "source_url": _SOURCE,
        "description": settings.description,
        "usage": {"users": {"active_month": totals.active}},
        "thumbnail": {"url": thumbnail, "blurhash": None, "versions": {"@1x": thumbnail, "@2x": thumbnail}},
        "icon": [],
        "languages": ["en"],
        "configuration": {
            **_configuration(context.app),
            "urls": {
                "streaming": _streaming(context.app),
                "status": None,
                "about": f"{context.app.at.root}/about",
                "privacy_policy": f"{context.app.at.root}/about/privacy" if settings.privacy_policy else None,
                "terms_of_service": f"{context.app.at.root}/about/terms" if settings.terms_of_service else None,
            },
            "vapid": {"public_key": context.app.push_key},
            "translation": {"enabled": False},
            "timelines_access": {"live_feeds": access, "hashtag_feeds": access, "trending_link_feeds": access},
            "limited_federation": True,
        },
        "registrations": {
            "enabled": settings.registrations and settings.password_login,
            "approval_required": _waits(settings),
            "reason_required": False,
            "message": None,
            "min_age": None,
            "url": None if settings.password_login else f"{context.app.at.root}/signup",
        },
        "api_versions": {"mastodon": _API_VERSION},
        "contact": {"email": settings.contact_email, "account": await contact(context.app)},
        "rules": rules_of(settings),
    }


def _waits(settings: Settings) -> bool:
    """Return whether sign-ups through apps need approval.

    They do if all sign-ups do, or if a proof of work is required, which apps cannot provide.
    """
    return settings.approval or settings.signup_work > 0


def _configuration(app_context: AppContext) -> dict[str, object]:
    limits, uploads = app_context.writes.limits, app_context.media.limits
    clips = app_context.media.clips.limits if app_context.media.clips else None
    return {
        "accounts": {
            "max_featured_tags": limits.featured_tags,
            "max_pinned_statuses": limits.pins,
            "max_followed_tags": MAX_FOLLOWED_TAGS,
            "signup_work": app_context.settings.signup_work,
        },
        "statuses": {
            "max_characters": limits.text,
            "max_media_attachments": limits.media,
            "characters_reserved_per_url": LINK_LENGTH,
            "supported_mime_types": ["text/plain"],
        },
        "reactions": {"max_reactions": limits.emoji_of_member},
        "media_attachments": {
            "supported_mime_types": list(app_context.media.accepted_types),
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


def _streaming(app_context: AppContext) -> str:
    return "ws" + app_context.at.root.removeprefix("http")


@router.get("/health", limit_class=UNLIMITED, answer=Body("text/plain"))
async def health(_context: Context, _params: None) -> object:
    """Return `OK`, for monitoring."""
    return PlainTextResponse("OK")


@router.get("/ready", limit_class=UNLIMITED, answer=dict[str, str], refuses=(503,))
async def ready(context: Context, _params: None) -> object:
    """Check whether the stores, timelines and broker are reachable. If one of them is not, the status is 503."""
    parts = await context.app.readiness.parts()
    states = {name: "ok" if well else "does not answer" for name, well in parts.items()}
    return Reply(states, 200 if all(parts.values()) else 503)


@router.get("/.well-known/nodeinfo", answer=NodeinfoLinks)
async def nodeinfo_links(context: Context, _params: None) -> object:
    """Return the links to the nodeinfo documents."""
    return {"links": [{"rel": _NODEINFO, "href": f"{context.app.at.root}/nodeinfo/2.0"}]}


@router.get("/nodeinfo/2.0", answer=Nodeinfo)
async def nodeinfo(context: Context, _params: None) -> object:
    """Return the software and size of this server, in the format of nodeinfo 2.0."""
    totals = await context.app.network_totals.totals()
    return {
        "version": "2.0",
        "software": {"name": "shoal", "version": _SHOAL},
        "protocols": [],
        "services": {"inbound": [], "outbound": []},
        "openRegistrations": context.app.settings.registrations,
        "usage": {"users": {"total": totals.members, "activeMonth": totals.active}, "localPosts": totals.posts},
        "metadata": {
            "nodeName": context.app.settings.title,
            "nodeDescription": context.app.settings.description,
            # Pleroma clients recognize by this name that the server supports emoji reactions.
            "features": ["pleroma_emoji_reactions"],
            # Clients that choose their protocol by the server's software recognize a fork of Mastodon by this key.
            "upstream": {"name": "mastodon"},
        },
    }


_PROFILE = "http://webfinger.net/rel/profile-page"
_XRD = """<?xml version="1.0" encoding="UTF-8"?>
<XRD xmlns="http://docs.oasis-open.org/ns/xri/xrd-1.0">
  <Link rel="lrdd" template="{root}/.well-known/webfinger?resource={{uri}}"/>
</XRD>
"""


class Resource(msgspec.Struct, frozen=True):
    resource: Annotated[str, Meta(max_length=1_000)]


@router.get("/.well-known/host-meta", answer=Body("application/xrd+xml"))
async def host_meta(context: Context, _params: None) -> Response:
    """Return the URL of WebFinger as XRD."""
    return Response(_XRD.format(root=context.app.at.root), media_type="application/xrd+xml")


@router.get("/.well-known/webfinger", answer=Body("application/jrd+json", WebFinger), refuses=(404, 410))
async def webfinger(context: Context, params: Resource) -> Response:
    """Look up an account by `acct:name@domain` or the URL of its profile."""
    member = await account_named(context.app, _name(context.app, params.resource))
    url = context.app.at.account(member.name)
    found = WebFinger(
        subject=f"acct:{member.name}@{context.app.at.domain}",
        aliases=[url],
        links=[WebFingerLink(_PROFILE, "text/html", url)],
    )
    return Response(msgspec.json.encode(found), media_type="application/jrd+json")


def _name(app_context: AppContext, resource: str) -> str:
    """Return the user name in a WebFinger resource. Raises `NotFound` if the resource belongs to another server."""
    if resource.startswith(app_context.at.root + "/"):
        name = resource.removeprefix(app_context.at.root + "/")
        here = name.startswith("@")
    else:
        name, _, domain = resource.removeprefix("acct:").removeprefix("@").partition("@")
        here = domain.lower() in app_context.at.names
    name = name.removeprefix("@")
    if not here or "@" in name:
        raise NotFound("Record not found")
    return name
