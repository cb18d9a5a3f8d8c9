"""HTML of what people typed, in the form that Mastodon clients parse.

Nothing of the text gets in unescaped, and taking the tags out again gives the text back, with paragraphs for blank lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape

from shoal.core.text import Span, parse

LINK_SHOWN = 30
"""How many characters of a link are shown, after its scheme."""

_BLANK_LINES = re.compile(r"\n{2,}")


def to_html(text: str, *, mentions: Mapping[str, str], tag_url: Callable[[str], str], domain: str = "") -> str:
    """A text as safe HTML; no text gives "".

    `mentions` says the account URL of a lower-case user name: a name that it has not, or one at a domain that is not
    ours (`domain`), stays plain text. `tag_url` is called with a canonical tag. Both must give http(s) addresses.
    """
    text = text.strip("\n")
    if not text:
        return ""
    pieces = ["<p>"]
    at = 0
    for span in parse(text):
        markup = _markup(text, span, mentions, tag_url, domain)
        if markup:
            pieces += (_plain(text[at : span.start]), markup)
            at = span.end
    pieces += (_plain(text[at:]), "</p>")
    return "".join(pieces)


def _plain(text: str) -> str:
    html = escape(text)
    if "\n" not in html:
        return html
    return _BLANK_LINES.sub("</p><p>", html).replace("\n", "<br />")


def _markup(text: str, span: Span, mentions: Mapping[str, str], tag_url: Callable[[str], str], domain: str) -> str:
    """One span as HTML; "" for a mention of nobody here."""
    if span.kind == "link":
        return _link(span.value)
    typed = text[span.start + 1 : span.end]
    if span.kind == "tag":
        return f'<a href="{escape(tag_url(span.value))}" class="mention hashtag" rel="tag">#<span>{escape(typed)}</span></a>'
    url = mentions.get(span.value) if span.domain in ("", domain.lower()) else None
    if not url:
        return ""
    link = f'<a href="{escape(url)}" class="u-url mention">@<span>{escape(typed)}</span></a>'
    return f'<span class="h-card" translate="no">{link}</span>'


def _link(url: str) -> str:
    scheme = url.index("://") + 3
    cut = scheme + LINK_SHOWN
    shown_as = "ellipsis" if len(url) > cut else ""
    return (
        f'<a href="{escape(url)}" target="_blank" rel="nofollow noopener" translate="no">'
        f'<span class="invisible">{url[:scheme]}</span>'
        f'<span class="{shown_as}">{escape(url[scheme:cut])}</span>'
        f'<span class="invisible">{escape(url[cut:])}</span></a>'
    )
