"""Plain text of the HTML that Mastodon and Pixelfed store for a post, with full links and mentions, and polls as text.

Archives are untrusted, so the HTML is read by a tokenizer with linear running time: it reads each character a bounded
number of times and, like a browser, drops a tag or comment that is not closed. `html.parser` takes quadratic time for such
tags. Polls become text because they are over and accept no votes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from shoal.core.text import as_text, with_line_ends

_PARAGRAPHS = frozenset({"p", "div", "blockquote", "pre", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6"})
_HIDDEN = frozenset({"script", "style", "head", "title", "template"})
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t\n]+")

# Possessive quantifiers (`*+`) do not backtrack, so the time of a failed match is proportional to the characters that
# it read.
_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)")
_ATTRIBUTE = re.compile(
    r"[\s/]*+(?:(>)|([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>\"'][^\s>]*+)?))?+)"
)
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)|<(?!!--)[!?/][^>]*+>", re.DOTALL)
_COMMENT_START = re.compile(r"<(?:[!?]|/[^A-Za-z])")
_LONG_NUMBER = re.compile(r"&#[0-9]{8,}+;?")


def plain(markup: str) -> str:
    """Return the text of a post from its HTML. A link becomes its URL, unless its text says something else."""
    writer = _Writer()
    for token in _tokens(with_line_ends(markup)):
        if isinstance(token, str):
            writer.text(token)
        elif token.closing:
            writer.end(token.name)
        else:
            writer.start(token.name, token.attributes)
    return _BLANK_LINES.sub("\n\n", "".join(writer.pieces)).strip()


def unescape(text: str) -> str:
    """Replace the character references of a text. A reference to an invalid character becomes U+FFFD."""
    # `html.unescape` raises `ValueError` for a number of more than 4,300 digits.
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))


def abbreviates(shown: str, link: str) -> bool:
    """Return whether a text is a link as apps shorten it: without scheme and `www.`, or cut off with dots."""
    begun = shown.strip().removesuffix("...").rstrip("…").lower()
    whole = link.lower()
    bare = whole.partition("://")[2]
    return bool(begun) and any(form.startswith(begun) for form in (whole, bare, bare.removeprefix("www.")))


def file_name(url: str) -> str:
    """Return the last part of the path of a URL, or an empty string."""
    try:
        return PurePosixPath(_split(url).path).name
    except ValueError:
        return ""


class _Tag(NamedTuple):
    name: str
    attributes: dict[str, str]
    closing: bool


def _tokens(markup: str) -> Iterator[str | _Tag]:
    """Yield the texts and tags of an HTML document. Elements that browsers hide are left out."""
    at = 0
    while (start := markup.find("<", at)) >= 0:
        if start > at:
            yield unescape(markup[at:start])
        if opened := _TAG.match(markup, start):
            tag, at = _tag(markup, opened)
            if tag is None:
                return
            if tag.name in _HIDDEN and not tag.closing:
                at = _end_of(markup, tag.name, at)
            else:
                yield tag
        elif _COMMENT_START.match(markup, start):
            if not (comment := _COMMENT.match(markup, start)):
                return
            at = comment.end()
        else:
            yield "<"
            at = start + 1
    if at < len(markup):
        yield unescape(markup[at:])


def _tag(markup: str, opened: re.Match[str]) -> tuple[_Tag | None, int]:
    """Return the tag whose name `opened` matches, and the position after it. If its ">" is missing, the tag is None."""
    attributes: dict[str, str] = {}
    at = opened.end()
    while found := _ATTRIBUTE.match(markup, at):
        at = found.end()
        end, name, *values = found.groups()
        if end:
            return _Tag(opened[2].lower(), attributes, bool(opened[1])), at
        attributes.setdefault(name.lower(), unescape(next(filter(None, values), "")))
    return None, len(markup)


def _end_of(markup: str, name: str, at: int) -> int:
    """Return the position after the end tag of a hidden element or, without an end tag, the end of the text."""
    found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(markup, at)
    # A regular expression for the whole tag would read to the end of the text at each tag that is not closed.
    return markup.find(">", found.end()) + 1 or len(markup) if found else len(markup)


class _Writer:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._link: str | None = None
        self._link_at = 0
        self._mention = False
        self._preformatted = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "br":
            self.pieces.append("\n")
        elif tag in _PARAGRAPHS:
            self._preformatted += tag == "pre"
            self._paragraph()
        elif tag == "li":
            self._line()
            self.pieces.append("- ")
        elif tag == "a":
            self._link, self._link_at = attributes.get("href", ""), len(self.pieces)
            self._mention = "mention" in attributes.get("class", "").split()
        elif tag == "img" and (alt := attributes.get("alt")):
            # In older archives, a custom emoji is an image, whose alternative text is the emoji's name.
            self.pieces.append(alt)

    def end(self, tag: str) -> None:
        if tag in _PARAGRAPHS:
            self._preformatted = max(0, self._preformatted - (tag == "pre"))
            self._paragraph()
        elif tag == "a" and self._link is not None:
            shown = "".join(self.pieces[self._link_at :])
            self.pieces[self._link_at :] = [_written(shown, self._link, mention=self._mention)]
            self._link = None

    def text(self, data: str) -> None:
        text = data if self._preformatted else _SPACES.sub(" ", data)
        # Omit whitespace between two paragraphs, because browsers do not show it.
        if text.strip() or (self.pieces and not self.pieces[-1].endswith("\n")):
            self.pieces.append(text)

    def _paragraph(self) -> None:
        if self.pieces:
            self.pieces.append("\n\n")

    def _line(self) -> None:
        if self.pieces and not self.pieces[-1].endswith("\n"):
            self.pieces.append("\n")


def _written(shown: str, link: str, *, mention: bool) -> str:
    """Return a link as plain text: its URL, its text followed by the URL in parentheses, or a mention with its server."""
    if not link.startswith(("http://", "https://")):
        return shown
    if mention and shown.startswith("@"):
        # Mastodon shows a mention without its server. Without the server, it would mention a member of this network.
        return shown if "@" in shown[1:] else f"{shown}@{_host(link)}"
    if (mention and shown.startswith("#")) or not shown.strip():
        return shown
    if abbreviates(shown, link):
        return link
    return f"{shown} ({link})"


def _host(link: str) -> str:
    try:
        return _split(link).hostname or ""
    except ValueError:
        return ""


def _split(url: str) -> SplitResult:
    # `urlsplit` normalizes the host, which takes quadratic time for combining marks.
    return urlsplit(as_text(url))


def with_options(text: str, options: Sequence[str]) -> str:
    """Return a text followed by the options of its poll, one option per line."""
    return "\n\n".join(filter(None, (text, "\n".join(f"- {option}" for option in options))))
