"""Handles of accounts elsewhere: the one form that an address, a link and a bare name of the same account share.

An account of the fediverse is `ann@mastodon.social`, of Instagram `ann@instagram.com`, of X `ann@x.com`, and of Bluesky
`ann.bsky.social@bsky.app`, or the account's DID in place of its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from shoal.core.email_blocks import ascii_domain
from shoal.core.text import parse

MAX_HANDLE = 400
"""Maximum characters of a handle or link as it is given: the longest name, the longest domain, and the path around them."""

INSTAGRAM = "instagram.com"
X = "x.com"
BLUESKY = "bsky.app"

_SITES = {"instagr.am": INSTAGRAM, "twitter.com": X, "threads.com": "threads.net"}
"""Other domains of the same site."""
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
_NAMES = {
    INSTAGRAM: re.compile(r"[a-z0-9._]{1,30}"),
    X: re.compile(r"[a-z0-9_]{1,15}"),
    BLUESKY: re.compile(rf"{_DOMAIN.pattern}|did:[a-z]+:[a-z0-9._:%-]+"),
}
"""Names that the sites allow; those of Bluesky are domains or decentralized identifiers."""
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,62}[a-z0-9_])?")
"""A name anywhere else, as Mastodon has them."""
_MAX_DOMAIN = 253
_PAGES = {
    INSTAGRAM: frozenset({"accounts", "direct", "explore", "p", "reel", "reels", "stories", "tv"}),
    X: frozenset({"compose", "explore", "hashtag", "home", "i", "intent", "messages", "search", "settings", "share"}),
}
"""Paths of a site that would pass for names."""
_LINK = re.compile(r"(?:https?://)?([^/?#\s@:]+)(?::[0-9]{1,5})?/([^?#\s]*)", re.IGNORECASE)
_IN_BLUESKY = re.compile(r"(?<![\w.@/-])@?([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.bsky\.social)(?![\w-])", re.IGNORECASE)


class ForeignHandle(NamedTuple):
    """An account elsewhere, in lower case. `site` is the domain of its server, empty where only a name is known."""

    name: str
    site: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.site}" if self.site else self.name

    @property
    def user_name(self) -> str:
        """The name without what Bluesky adds to it: one that the same person may have chosen here."""
        return self.name.removesuffix(".bsky.social") if self.site == BLUESKY else self.name


def read_handle(text: str, site: str = "") -> ForeignHandle | None:
    """Return the account that an address, a link, a DID, a handle of Bluesky or a bare name (at `site`) names.

    None for anything else.
    """
    if len(text) > MAX_HANDLE:
        return None
    text = text.strip()
    if text.startswith("at://"):
        text = text.removeprefix("at://").partition("/")[0]
    if "/" in text:
        return _of_link(text)
    name, at, domain = text.removeprefix("@").lower().partition("@")
    if at:
        return _at(name, domain)
    if not site and (name.startswith("did:") or "." in name):
        return _at(name, BLUESKY)
    return _at(name, site) if site else _bare(name)


def handles_in(text: str) -> Iterator[ForeignHandle]:
    """Yield the accounts that a row of a profile names, by links and whole addresses. Some may come twice."""
    for span in parse(text):
        found = _of_link(span.value) if span.kind == "link" else _at(span.value, span.domain)
        if found is not None:
            yield found
    for match in _IN_BLUESKY.finditer(text):
        yield ForeignHandle(match[1].lower(), BLUESKY)
    # Links are often typed without a scheme.
    for word in text.split():
        if "/" in word and "://" not in word and (handle := _of_link(word.strip("(),.;"))):
            yield handle


def _of_link(link: str) -> ForeignHandle | None:
    """Return the account whose page a link opens."""
    match = _LINK.fullmatch(link.partition("#")[0].partition("?")[0])
    if match is None:
        return None
    site = _site(match[1])
    path = [part for part in match[2].lower().split("/") if part]
    # Mastodon's older addresses, those of Bluesky, and those that Instagram's app opens.
    if len(path) > 1 and path[0] == {BLUESKY: "profile", INSTAGRAM: "_u"}.get(site, "users"):
        del path[0]
    elif site == BLUESKY:
        return None
    if len(path) != 1 or path[0] in _PAGES.get(site, ()):
        return None
    # `mastodon.social/@ann@example.org` is an account of example.org as mastodon.social shows it.
    name, at, domain = path[0].removeprefix("@").partition("@")
    return _at(name, domain if at else site)


def _at(name: str, domain: str) -> ForeignHandle | None:
    site = _site(domain)
    allowed = _NAMES.get(site, _NAME)
    if len(site) > _MAX_DOMAIN or not _DOMAIN.fullmatch(site) or not allowed.fullmatch(name):
        return None
    return ForeignHandle(name, site)


def _bare(name: str) -> ForeignHandle | None:
    return ForeignHandle(name) if _NAME.fullmatch(name) else None


# The accounts of a follow list are of few sites.
@lru_cache(maxsize=1_024)
def _site(domain: str) -> str:
    """Return the one domain that a site has here."""
    site = ascii_domain(domain.removesuffix("."))
    for prefix in ("www.", "m.", "mobile."):
        # `m.social` is a domain of its own.
        if site.startswith(prefix) and "." in site.removeprefix(prefix):
            site = site.removeprefix(prefix)
    return _SITES.get(site, site)
