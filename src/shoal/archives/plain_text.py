"""Plain text of the HTML that Mastodon and Pixelfed keep of a post: lines, whole links, and mentions with their server."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

from shoal.core.text import with_line_ends

_PARAGRAPHS = frozenset({"p", "div", "blockquote", "pre", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6"})
_HIDDEN = frozenset({"script", "style", "head", "title", "template"})
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t\n]+")


def plain(html: str) -> str:
    """Return the text that the HTML of a post shows. A link is its address, unless other words stand for it."""
    reader = _Reader()
    reader.feed(with_line_ends(html))
    reader.close()
    return _BLANK_LINES.sub("\n\n", "".join(reader.pieces)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._link: str | None = None
        self._link_at = 0
        self._mention = False
        self._hidden = 0
        self._as_typed = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag == "br":
            self.pieces.append("\n")
        elif tag in _PARAGRAPHS:
            self._as_typed += tag == "pre"
            self._paragraph()
        elif tag == "li":
            self._line()
            self.pieces.append("- ")
        elif tag == "a":
            given = dict(attrs)
            self._link, self._link_at = given.get("href") or "", len(self.pieces)
            self._mention = "mention" in (given.get("class") or "").split()
        elif tag == "img" and (words := dict(attrs).get("alt")):
            # An emoji of the server's own, as older archives have them.
            self.pieces.append(words)

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag in _PARAGRAPHS:
            self._as_typed = max(0, self._as_typed - (tag == "pre"))
            self._paragraph()
        elif tag == "a" and self._link is not None:
            shown = "".join(self.pieces[self._link_at :])
            self.pieces[self._link_at :] = [_written(shown, self._link, mention=self._mention)]
            self._link = None

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        text = data if self._as_typed else _SPACES.sub(" ", data)
        # Between two paragraphs there is nothing to see.
        if text.strip() or (self.pieces and not self.pieces[-1].endswith("\n")):
            self.pieces.append(text)

    def _paragraph(self) -> None:
        if self.pieces:
            self.pieces.append("\n\n")

    def _line(self) -> None:
        if self.pieces and not self.pieces[-1].endswith("\n"):
            self.pieces.append("\n")


def _written(shown: str, link: str, *, mention: bool) -> str:
    """Return a link as somebody types it."""
    if not link.startswith(("http://", "https://")):
        return shown
    if mention and shown.startswith("@"):
        # Mastodon shows the name alone, and here it would be somebody else's.
        return shown if "@" in shown[1:] else f"{shown}@{_host(link)}"
    if (mention and shown.startswith("#")) or not shown.strip():
        return shown
    if shown.rstrip("…") in link or shown == _without_scheme(link):
        return link
    return f"{shown} ({link})"


def _host(link: str) -> str:
    try:
        return urlsplit(link).hostname or ""
    except ValueError:
        return ""


def _without_scheme(link: str) -> str:
    return link.partition("://")[2]
