"""Public posts as an Atom feed (RFC 4287), with their pictures, videos and sounds as enclosures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from mimetypes import guess_type
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from shoal.core.model import Media, MediaKind, Member, Post
from shoal.core.text import plain_excerpt
from shoal.core.visibility import is_sensitive
from shoal.queries.hydration import Entry
from shoal.web.visit import Visit

CONTENT_TYPE = "application/atom+xml; charset=utf-8"
_ATOM = "http://www.w3.org/2005/Atom"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not have (2.2)."""
_TITLE = 80


class AtomChannel(NamedTuple):
    """The head of an Atom feed."""

    address: str
    """Its own."""
    page: str
    """The page that it is a feed of; its id too."""
    title: str
    subtitle: str = ""
    icon: str = ""


def atom(visit: Visit, channel: AtomChannel, entries: Sequence[Entry]) -> bytes:
    """Return a feed of these entries as an XML document."""
    feed = Element("feed", {"xmlns": _ATOM, "xml:lang": visit.words.code})
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
        _entry(visit, feed, entry)
    made: bytes = tostring(feed, encoding="utf-8", xml_declaration=True)
    return made


def _entry(visit: Visit, feed: Element, entry: Entry) -> None:
    post, author, at = entry.post, entry.author.member, visit.front.at
    address = at.status(author.name, post.id)
    made = SubElement(feed, "entry")
    _text(made, "id", address)
    _text(made, "title", _title(visit, post, author))
    _text(made, "published", _moment(post.created_at))
    _text(made, "updated", _moment(_changed(post)))
    _link(made, "alternate", address, "text/html")
    by = SubElement(made, "author")
    _text(by, "name", author.shown_name)
    _text(by, "uri", at.account(author.name))
    for tag in post.tags:
        SubElement(made, "category", {"term": tag, "scheme": f"{at.root}/tags/"})
    shown = () if post.spoiler or is_sensitive(post, author) else entry.media
    for media in shown:
        _enclose(visit, made, media)
    content = SubElement(made, "content", {"type": "html"})
    content.text = _clean(_content(visit, entry, shown))


def _title(visit: Visit, post: Post, author: Member) -> str:
    words = post.spoiler or plain_excerpt(post.text, _TITLE)
    return words or visit.words.text("By %(name)s") % {"name": author.shown_name}


def _content(visit: Visit, entry: Entry, shown: Iterable[Media]) -> str:
    """Return a post as HTML. One with a warning says that alone: readers show everything at once."""
    post, at = entry.post, visit.front.at
    if post.spoiler:
        return f"<p>{escape(post.spoiler)}</p>"
    pictures = "".join(
        f'<p><img src="{escape(at.media(one.preview_key))}" alt="{escape(one.description)}"></p>'
        for one in shown
        if one.preview_key
    )
    return pictures + at.html(post.text, post.mentions)


def _enclose(visit: Visit, made: Element, media: Media) -> None:
    key = media.key or media.preview_key
    if not key:
        return
    kind = guess_type(key)[0] or ("image/jpeg" if media.kind is MediaKind.IMAGE else "application/octet-stream")
    link = _link(made, "enclosure", visit.front.at.media(key), kind)
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
