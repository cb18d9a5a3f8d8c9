"""Follow lists in the archives that other networks give their members: which accounts somebody follows there.

| network | file | shape |
|---|---|---|
| Mastodon and its relatives | `following_accounts.csv` | a column `Account address` |
| Pixelfed | `pixelfed-following.json` | a list of links to profiles |
| Instagram | `following.json` | `relationships_following`, each with `string_list_data` (`value`, `href`) or a `title` |
| X | `following.js` | `window.YTD.following.part0 = [...]`, each with a `userLink`, which as a rule has a number and no name |
| Bluesky | records or lists, JSON | `records` of `app.bsky.graph.follow` (DIDs), or `follows` and lists with `handle` and `did` |

A list of handles or links, one a row of CSV or one a text of a JSON list, is read too. What is read is bounded before it is
decoded: an archive comes from anybody.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.handles import BLUESKY, INSTAGRAM, ForeignHandle, read_handle

MAX_ARCHIVE_BYTES = 4 * 1024 * 1024
MOST_HANDLES = 10_000
"""Accounts of one follow list."""
_MOST_VALUES = 50 * MOST_HANDLES
"""Commas of a document: Bluesky has the most values for each account, thirty."""
_HEADERS = ("account address", "account", "address", "acct", "handle", "username", "user name", "did")
_MOST_COLUMNS = 50
_X_PREFIX = re.compile(rb"window\.YTD\.[a-z_]{1,40}\.part[0-9]{1,6}\s*=\s*")
_UNKNOWN = (
    "file: no follow list that can be read; send following_accounts.csv of Mastodon, following.json of Pixelfed or Instagram,"
    " following.js of X, follows of Bluesky as JSON, or a list of handles as CSV or JSON"
)


class FollowList(NamedTuple):
    """Accounts that somebody follows elsewhere, each once, in the order of the list."""

    handles: tuple[ForeignHandle, ...]
    unreadable: int
    """Entries that name nobody: numbers of X, accounts that are gone, anything that is no handle."""


class _ListedText(msgspec.Struct, frozen=True):
    """A link of Instagram; newer archives leave the value out."""

    value: str = ""
    href: str = ""


class _InstagramEntry(msgspec.Struct, frozen=True):
    string_list_data: tuple[_ListedText, ...]
    title: str = ""


class _XAccount(msgspec.Struct, frozen=True, rename="camel"):
    user_link: str = ""


class _FollowRecord(msgspec.Struct, frozen=True):
    """A record of `app.bsky.graph.follow`."""

    subject: str


class _Entry(msgspec.Struct, frozen=True):
    """An entry of a list: of X (`following`), a record (`value`) or an account of Bluesky."""

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
    """Return the accounts that a file of an archive says its owner follows.

    Raises `TooLarge` past 4 MiB or 10,000 entries, and `InvalidInput` for what is no follow list.
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
    """Return the accounts of a list of handles, addresses and links. Raises `TooLarge` past 10,000."""
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
        # The link of most accounts has a number (`intent/user?user_id=`), which nobody's profile names.
        return read_handle(entry.following.user_link) if "/" in entry.following.user_link else None
    if entry.value is not None:
        return read_handle(entry.value.subject, BLUESKY)
    # Bluesky's word for a handle that no longer leads to its account.
    known = "" if entry.handle == "handle.invalid" else entry.handle
    return read_handle(known) or read_handle(entry.did, BLUESKY)


def _in_csv(plain: bytes) -> Iterator[ForeignHandle | None]:
    """Yield the account of each row, from the column of a known name or else the first.

    Without such a column, at least one must say at which site it is: other texts have rows, too.
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
    """Return the column of the accounts; None where the first row is no header."""
    names = [name.strip().lower() for name in header[:_MOST_COLUMNS]]
    return next((names.index(known) for known in _HEADERS if known in names), None)
