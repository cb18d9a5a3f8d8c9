"""Public posts and profiles for other programs: Atom feeds (RFC 4287), Open Graph, JSON-LD and oEmbed metadata.

Atom feeds include only public posts; photos, videos and audio are enclosures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from importlib.metadata import version
from mimetypes import guess_type
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from shoal.core.media_files import still_of
from shoal.core.model import OPEN, Media, MediaKind, Member, Post, Visibility
from shoal.core.text import plain_excerpt
from shoal.core.visibility import is_sensitive
from shoal.graph.contract import Cursor
from shoal.queries import posts, public_timelines
from shoal.queries.hydration import Entry, Profile
from shoal.queries.pipeline import Page
from shoal.queries.posts import MemberFeedQuery
from shoal.web.request_context import PageContext
from shoal.web.view_models import Photo, photo_of

CONTENT_TYPE = "application/atom+xml; charset=utf-8"
_ATOM = "http://www.w3.org/2005/Atom"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow (section 2.2)."""
_TITLE = 80


class AtomChannel(NamedTuple):
    address: str
    page: str
    title: str
    subtitle: str = ""
    icon: str = ""


def _atom(ctx: PageContext, channel: AtomChannel, entries: Sequence[Entry]) -> bytes:
    feed = Element("feed", {"xmlns": _ATOM, "xml:lang": ctx.words.code})
    _text(feed, "id", channel.page)
    _text(feed, "title", channel.title)
    if channel.subtitle:
        _text(feed, "subtitle", channel.subtitle)
    _text(feed, "updated", _moment(max((_changed(entry.post) for entry in entries), default=0)))
    _link(feed, "self", channel.address, "application/atom+xml")
    _link(feed, "alternate", channel.page, "text/html")
    if channel.icon:
        _text(feed, "icon", channel.icon)
    SubElement(feed, "generator", {"version": version("shoal")}).text = "Shoal"
    for entry in entries:
        _entry(ctx, feed, entry)
    return bytes(tostring(feed, encoding="utf-8", xml_declaration=True))


def _entry(ctx: PageContext, feed: Element, entry: Entry) -> None:
    post, author, at = entry.post, entry.author.member, ctx.app.at
    address = at.status(author.name, post.id)
    made = SubElement(feed, "entry")
    _text(made, "id", address)
    _text(made, "title", _title(ctx, post, author))
    _text(made, "published", _moment(post.created_at))
    _text(made, "updated", _moment(_changed(post)))
    _link(made, "alternate", address, "text/html")
    if entry.media and post.license.url:
        _link(made, "license", post.license.url, "text/html")
    by = SubElement(made, "author")
    _text(by, "name", author.shown_name)
    _text(by, "uri", at.account(author.name))
    for tag in post.tags:
        SubElement(made, "category", {"term": tag, "scheme": f"{at.root}/tags/"})
    shown = () if post.spoiler or is_sensitive(post, author) else entry.media
    for media in shown:
        _enclose(ctx, made, media)
    content = SubElement(made, "content", {"type": "html"})
    content.text = _clean(_content(ctx, entry, shown))


def _title(ctx: PageContext, post: Post, author: Member) -> str:
    words = post.spoiler or plain_excerpt(post.shown_text, _TITLE)
    return words or ctx.words.text("By %(name)s") % {"name": author.shown_name}


def _content(ctx: PageContext, entry: Entry, shown: Iterable[Media]) -> str:
    """Return a post as HTML. For a post with a content warning, return only the warning, because feed readers do not hide text."""
    post, at = entry.post, ctx.app.at
    if post.spoiler:
        return f"<p>{escape(post.spoiler)}</p>"
    pictures = "".join(
        f'<p><img src="{escape(at.media(picture.preview_key))}" alt="{escape(picture.description)}"></p>'
        for picture in shown
        if picture.preview_key
    )
    return pictures + at.html(post.shown_text, post.mentions)


def _enclose(ctx: PageContext, made: Element, media: Media) -> None:
    key = media.key or media.preview_key
    if not key:
        return
    kind = guess_type(key)[0] or ("image/jpeg" if media.kind is MediaKind.IMAGE else "application/octet-stream")
    link = _link(made, "enclosure", ctx.app.at.media(key), kind)
    if media.description:
        link.set("title", _clean(media.description))


def _link(parent: Element, rel: str, href: str, kind: str) -> Element:
    return SubElement(parent, "link", {"rel": rel, "type": kind, "href": _clean(href)})


def _text(parent: Element, name: str, text: str) -> None:
    SubElement(parent, name).text = _clean(text)


def _clean(text: str) -> str:
    return _NOT_XML.sub("", text)


def _changed(post: Post) -> int:
    return post.edited_at or post.created_at


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1_000, UTC).isoformat().replace("+00:00", "Z")


_ENTRIES = 20
_OURS, _COMMON = "atom", "rss"
"""The ending of a feed's path, and another ending that feed readers try, which redirects to the first."""


def ending_of(name: str) -> tuple[str, str]:
    """Split the end of a path into the name and the ending of a feed, such as `.atom`. The ending is empty if there is none."""
    stem, dot, ending = name.rpartition(".")
    return (stem, ending.lower()) if dot and ending.lower() in {_OURS, _COMMON} else (name, "")


async def of_member(ctx: PageContext, member: Member, ending: str) -> Response:
    """Return a feed of the member's public posts, newest first, without comments and shares."""
    at, path = ctx.app.at, f"/@{member.name}"
    if ending == _COMMON:
        return ctx.go(f"{path}.{_OURS}")
    query = MemberFeedQuery(no_comments=True, no_shares=True, public_only=True)
    found = await posts.authored_page(ctx.reads, None, member.id, Cursor(limit=_ENTRIES), query)
    page = at.account(member.name)
    shown = f"{member.shown_name} (@{member.name})"
    icon = at.avatar(still_of(member.avatar))
    return _feed(ctx, AtomChannel(f"{page}.{_OURS}", page, shown, plain_excerpt(member.note, 300), icon), found)


async def of_tag(ctx: PageContext, tag: str, ending: str) -> Response:
    if ending == _COMMON:
        return ctx.go(f"/tags/{tag}.{_OURS}")
    query = public_timelines.TagQuery(frozenset((tag,)))
    found = await public_timelines.tag_page(ctx.reads, None, query, Cursor(limit=_ENTRIES))
    page = ctx.app.at.tag(tag)
    return _feed(ctx, AtomChannel(f"{page}.{_OURS}", page, f"#{tag} · {ctx.settings.title}"), found)


def _feed(ctx: PageContext, channel: AtomChannel, found: Page) -> Response:
    body = _atom(ctx, channel, found.entries)
    version = f'"{sha256(body).hexdigest()[:20]}"'
    headers = {"ETag": version, "Cache-Control": ctx.publicly_cacheable(300), "Vary": "Accept-Language"}
    if version in ctx.request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=CONTENT_TYPE)


_WORDS = 300
_CONTEXT = "https://schema.org"


class Card(msgspec.Struct, frozen=True):
    url: str
    title: str
    words: str
    kind: str
    pictures: tuple[Photo, ...]
    large: bool
    """Whether the pictures are the subject of the page. If not, the picture is an avatar."""
    data: Markup
    index: bool
    made: str = ""
    author: str = ""
    oembed: str = ""
    atom: str = ""


def post_card(ctx: PageContext, entry: Entry) -> Card | None:
    """Return the metadata (Open Graph) of a post, or None unless it is public."""
    post, author = entry.post, entry.author.member
    if post.visibility not in OPEN:
        return None
    at, shown = ctx.app.at, author.shown_name
    url = at.status(author.name, post.id)
    hides = bool(post.spoiler) or is_sensitive(post, author)
    pictures = () if hides else tuple(photo_of(ctx, file) for file in entry.media if file.kind is not MediaKind.AUDIO)
    words = post.spoiler or plain_excerpt(post.shown_text, _WORDS)
    made = ctx.when(post.created_at).iso
    data = {
        "@context": _CONTEXT,
        "@type": "SocialMediaPosting",
        "@id": url,
        "url": url,
        "datePublished": made,
        "author": _person(ctx, author),
        "text": words,
        "image": [picture.large or picture.preview for picture in pictures],
        "interactionStatistic": [_number("LikeAction", entry.likes), _number("CommentAction", entry.comments)],
    }
    if pictures and post.license.url:
        data["license"] = post.license.url
    return Card(
        url=url,
        title=f"{shown} (@{author.name})",
        words=words,
        kind="article",
        pictures=pictures,
        large=bool(pictures),
        data=_json(data),
        index=author.indexable and post.visibility is Visibility.PUBLIC,
        made=made,
        author=at.account(author.name),
        oembed=f"{at.root}/api/oembed?url={url}",
        atom=f"{at.account(author.name)}.atom",
    )


def profile_card(ctx: PageContext, profile: Profile) -> Card:
    member, at = profile.member, ctx.app.at
    url = at.account(member.name)
    words = plain_excerpt(member.note, _WORDS)
    picture = Photo(0, "image", at.avatar(still_of(member.avatar)), "", "", 400, 400, "", "r100", "f22", "", "")
    data = {
        "@context": _CONTEXT,
        "@type": "ProfilePage",
        "url": url,
        "mainEntity": {
            **_person(ctx, member),
            "description": words,
            "image": picture.preview,
            "interactionStatistic": [_number("FollowAction", profile.followers)],
            "agentInteractionStatistic": _number("WriteAction", profile.posts),
        },
    }
    return Card(
        url=url,
        title=f"{member.shown_name} (@{member.name})",
        words=words,
        kind="profile",
        pictures=(picture,),
        large=False,
        data=_json(data),
        index=member.indexable,
        author=url,
        atom=f"{url}.atom",
    )


def _person(ctx: PageContext, member: Member) -> dict[str, Any]:
    url = ctx.app.at.account(member.name)
    return {
        "@type": "Person",
        "name": member.display_name or member.name,
        "alternateName": f"@{member.name}",
        "url": url,
    }


def _number(action: str, n: int) -> dict[str, Any]:
    return {
        "@type": "InteractionCounter",
        "interactionType": f"{_CONTEXT}/{action}",
        "userInteractionCount": n,
    }


def _json(data: dict[str, Any]) -> Markup:
    """Return the data as JSON that is safe within a script element."""
    text = json.dumps(data, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704 (no tag)
