"""Account handles on other networks, and the follow lists in the archives that these networks export.

The address, the link and the bare name of an account have one canonical form: `ann@mastodon.social`, `ann@instagram.com`,
`ann@x.com`, `ann.bsky.social@bsky.app` (or the DID).

| network | file | shape |
|---|---|---|
| Mastodon and compatible | `following_accounts.csv` | a column `Account address` |
| Pixelfed | `pixelfed-following.json` | a list of links to profiles |
| Instagram | `following.json` | `relationships_following`, each with `string_list_data` (`value`, `href`) or a `title` |
| X | `following.js` | `window.YTD.following.part0 = [...]`, each with a `userLink`, usually a number without a name |
| Bluesky | JSON records or lists | `records` of `app.bsky.graph.follow` (DIDs), or `follows` and lists with `handle` and `did` |

A CSV file or JSON list of handles or links is accepted too. Archives are untrusted: input is bounded before it is decoded.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from shoal.core.blocklists import ascii_domain
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.text import parse

MAX_HANDLE = 400
"""Maximum characters of a handle or link as typed: the longest name, the longest domain, and the path around them."""

INSTAGRAM = "instagram.com"
X = "x.com"
BLUESKY = "bsky.app"

_SITES = {"instagr.am": INSTAGRAM, "twitter.com": X, "threads.com": "threads.net"}
"""Alternative domains of a site."""
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
_NAMES = {
    INSTAGRAM: re.compile(r"[a-z0-9._]{1,30}"),
    X: re.compile(r"[a-z0-9_]{1,15}"),
    BLUESKY: re.compile(rf"{_DOMAIN.pattern}|did:[a-z]+:[a-z0-9._:%-]+"),
}
"""Names that the sites allow; Bluesky names are domains or decentralized identifiers."""
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,62}[a-z0-9_])?")
"""A name on any other site, by the rules of Mastodon."""
_MAX_DOMAIN = 253
_PAGES = {
    INSTAGRAM: frozenset({"accounts", "direct", "explore", "p", "reel", "reels", "stories", "tv"}),
    X: frozenset({"compose", "explore", "hashtag", "home", "i", "intent", "messages", "search", "settings", "share"}),
}
"""Paths of a site's own pages, which look like user names."""
_LINK = re.compile(r"(?:https?://)?([^/?#\s@:]+)(?::[0-9]{1,5})?/([^?#\s]*)", re.IGNORECASE)
_IN_BLUESKY = re.compile(r"(?<![\w.@/-])@?([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.bsky\.social)(?![\w-])", re.IGNORECASE)


class ForeignHandle(NamedTuple):
    """An account on another network, in lower case. `site` is the domain of its server; empty if only the name is known."""

    name: str
    site: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.site}" if self.site else self.name

    @property
    def user_name(self) -> str:
        """The user name under which to look for the account's owner in Shoal: the account name, without `.bsky.social`."""
        return self.name.removesuffix(".bsky.social") if self.site == BLUESKY else self.name


def read_handle(text: str, site: str = "") -> ForeignHandle | None:
    """Parse an address, link, DID, Bluesky handle, or a bare name on the server `site`. Return None for other text."""
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
    """Yield the accounts in a profile field, found in links and full addresses, possibly more than once."""
    for span in parse(text):
        found = _of_link(span.value) if span.kind == "link" else _at(span.value, span.domain)
        if found is not None:
            yield found
    for match in _IN_BLUESKY.finditer(text):
        yield ForeignHandle(match[1].lower(), BLUESKY)
    # Treat a word with a slash as a link too, because links are often typed without a scheme.
    for word in text.split():
        if "/" in word and "://" not in word and (handle := _of_link(word.strip("(),.;"))):
            yield handle


def _of_link(link: str) -> ForeignHandle | None:
    """Return the account whose profile page a link opens."""
    match = _LINK.fullmatch(link.partition("#")[0].partition("?")[0])
    if match is None:
        return None
    site = _site(match[1])
    path = [part for part in match[2].lower().split("/") if part]
    # Links of old Mastodon versions, of Bluesky, and of Instagram's app have a path component before the name.
    if len(path) > 1 and path[0] == {BLUESKY: "profile", INSTAGRAM: "_u"}.get(site, "users"):
        del path[0]
    elif site == BLUESKY:
        return None
    if len(path) != 1 or path[0] in _PAGES.get(site, ()):
        return None
    # `mastodon.social/@ann@example.org` is an account on example.org, in the web app of mastodon.social.
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


# Cached, because the accounts of a follow list are on few sites.
@lru_cache(maxsize=1_024)
def _site(domain: str) -> str:
    site = ascii_domain(domain.removesuffix("."))
    for prefix in ("www.", "m.", "mobile."):
        # Keep `m.social` unchanged, because its "m." is not the prefix of a mobile site.
        if site.startswith(prefix) and "." in site.removeprefix(prefix):
            site = site.removeprefix(prefix)
    return _SITES.get(site, site)


MAX_ARCHIVE_BYTES = 4 * 1024 * 1024
MOST_HANDLES = 10_000
_MOST_VALUES = 50 * MOST_HANDLES
"""Maximum commas per document. Bluesky has the most values per account, about thirty."""
_HEADERS = ("account address", "account", "address", "acct", "handle", "username", "user name", "did")
_MOST_COLUMNS = 50
_X_PREFIX = re.compile(rb"window\.YTD\.[a-z_]{1,40}\.part[0-9]{1,6}\s*=\s*")
_UNKNOWN = (
    "file: unknown follow list format; upload following_accounts.csv of Mastodon, following.json of Pixelfed or Instagram,"
    " following.js of X, follows of Bluesky as JSON, or a list of handles as CSV or JSON"
)


class FollowList(NamedTuple):
    """Accounts followed on another network, without duplicates, in the order of the list."""

    handles: tuple[ForeignHandle, ...]
    unreadable: int
    """Entries that identify no account: numeric ids of X, deleted accounts, invalid handles."""


class _ListedText(msgspec.Struct, frozen=True):
    """A link in a follow list of an Instagram archive. In recent archives `value` is missing."""

    value: str = ""
    href: str = ""


class _InstagramEntry(msgspec.Struct, frozen=True):
    string_list_data: tuple[_ListedText, ...]
    title: str = ""


class _XAccount(msgspec.Struct, frozen=True, rename="camel"):
    user_link: str = ""


class _FollowRecord(msgspec.Struct, frozen=True):
    """A record of the type `app.bsky.graph.follow`, from a Bluesky archive."""

    subject: str


class _Entry(msgspec.Struct, frozen=True):
    """An entry of a follow list. X sets `following`. Bluesky sets `value` for a record, and `handle` and `did` for an account."""

    following: _XAccount | None = None
    value: _FollowRecord | None = None
    handle: str = ""
    did: str = ""


class _Document(msgspec.Struct, frozen=True):
    relationships_following: tuple[_InstagramEntry, ...] = ()
    records: tuple[_Entry, ...] = ()
    follows: tuple[_Entry, ...] = ()


_decoder = msgspec.json.Decoder(_Document | tuple[str | _Entry, ...])


def read_archive(data: bytes) -> FollowList:
    """Return the followed accounts listed in one file of another network's archive.

    Raises `TooLarge` for more than 4 MiB or 10,000 entries, and `InvalidInput` if the file is not a follow list.
    """
    if len(data) > MAX_ARCHIVE_BYTES:
        raise TooLarge(f"file: at most {MAX_ARCHIVE_BYTES} bytes, not {len(data)}", field="file")
    plain = data.removeprefix(b"\xef\xbb\xbf").strip()
    plain = _X_PREFIX.sub(b"", plain, count=1).removesuffix(b";")
    if plain.count(b",") > _MOST_VALUES:
        raise TooLarge(f"file: at most {MOST_HANDLES} accounts", field="file")
    entries = _in_json(plain) if plain[:1] in (b"{", b"[") else _in_csv(plain)
    return _collected(entries, "file")


def read_handles(typed: Iterable[str]) -> FollowList:
    """Return the accounts of a list of handles, addresses and links. Raises `TooLarge` for more than 10,000."""
    return _collected(map(read_handle, typed), "handles")


def _collected(entries: Iterable[ForeignHandle | None], field: str) -> FollowList:
    handles: dict[ForeignHandle, None] = {}
    unreadable = 0
    for at, handle in enumerate(entries):
        if at >= MOST_HANDLES:
            raise TooLarge(f"{field}: at most {MOST_HANDLES} accounts", field=field)
        if handle is None:
            unreadable += 1
        else:
            handles[handle] = None
    return FollowList(tuple(handles), unreadable)


def _in_json(plain: bytes) -> Iterator[ForeignHandle | None]:
    try:
        found = _decoder.decode(plain)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise InvalidInput(_UNKNOWN, field="file") from None
    if isinstance(found, _Document):
        if not any((found.relationships_following, found.records, found.follows)):
            raise InvalidInput(_UNKNOWN, field="file")
        return _in_document(found)
    if found and all(entry == _Entry() for entry in found):
        raise InvalidInput(_UNKNOWN, field="file")
    return (read_handle(entry) if isinstance(entry, str) else _of_entry(entry) for entry in found)


def _in_document(document: _Document) -> Iterator[ForeignHandle | None]:
    for entry in document.relationships_following:
        link = entry.string_list_data[0] if entry.string_list_data else _ListedText()
        yield read_handle(link.value or entry.title, INSTAGRAM) or read_handle(link.href)
    yield from map(_of_entry, (*document.records, *document.follows))


def _of_entry(entry: _Entry) -> ForeignHandle | None:
    if entry.following is not None:
        # Most links contain only a numeric id (`intent/user?user_id=`) and no user name, so most entries count as unreadable.
        return read_handle(entry.following.user_link) if "/" in entry.following.user_link else None
    if entry.value is not None:
        return read_handle(entry.value.subject, BLUESKY)
    # Bluesky writes "handle.invalid" for a handle that no longer belongs to the account.
    known = "" if entry.handle == "handle.invalid" else entry.handle
    return read_handle(known) or read_handle(entry.did, BLUESKY)


def _in_csv(plain: bytes) -> Iterator[ForeignHandle | None]:
    """Yield the account of each row, from the column with a known header, or else from the first column.

    Without such a header, at least one account must name its server, because otherwise any text would pass as a list of user
    names.
    """
    whole = False
    column: int | None = None
    try:
        rows = (row for row in csv.reader(io.StringIO(plain.decode("utf-8"), newline="")) if row)
        for at, row in enumerate(rows):
            if not at and (known := _column(row)) is not None:
                column = known
                continue
            handle = read_handle(row[column or 0]) if len(row) > (column or 0) else None
            whole = whole or (handle is not None and handle.site != "")
            yield handle
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput(_UNKNOWN, field="file") from None
    if column is None and not whole:
        raise InvalidInput(_UNKNOWN, field="file")


def _column(header: Sequence[str]) -> int | None:
    """Return the index of the column that contains the accounts; None if `header` has no known column name."""
    names = [name.strip().lower() for name in header[:_MOST_COLUMNS]]
    return next((names.index(known) for known in _HEADERS if known in names), None)
