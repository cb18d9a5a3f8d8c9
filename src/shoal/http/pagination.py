"""Pages of a list: what a client may ask for, and the Link header that leads to its neighbours.

Cursors are ids. A limit that is missing, 0 or garbage is the default, one that is too high is the maximum: clients send all
of these and expect a page, so nothing here is ever an error.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import parse_qsl, urlencode

import msgspec

from shoal.http.params import CursorId, Limit

_OURS = frozenset({"max_id", "since_id", "min_id", "limit", "offset", "access_token"})
"""Parameters that a link sets anew, and the token, which must not be handed around."""


LISTED_DATA = 4 * 1024
"""Bytes of data that one status in a list or stream has at most, where it is asked for."""


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a page; structs of routes with more parameters inherit from it. A cursor of 0 was not given."""

    max_id: CursorId = CursorId(0)
    """Only what is older than this."""
    since_id: CursorId = CursorId(0)
    """The newest page of what is newer than this."""
    min_id: CursorId = CursorId(0)
    """The page right above this; like every page it comes newest first."""
    limit: Limit = Limit(0)

    def size(self, default: int = 20, maximum: int = 40) -> int:
        """How many items the page has at most."""
        return page_size(self.limit, default, maximum)


class WithData(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of all routes that answer several statuses."""

    with_data: bool = False
    """Include `shoal.data` of other people's statuses, up to 4 KB each. A status by its id always has all of it."""


class StatusesQuery(PageQuery, frozen=True, kw_only=True):
    """A page of statuses."""

    with_data: bool = False
    """See `WithData`."""


def listed_data(*, wanted: bool) -> int:
    """Up to how many bytes of data the status of somebody else has in a list or stream."""
    return LISTED_DATA if wanted else 0


def page_size(limit: int, default: int = 20, maximum: int = 40) -> int:
    """The limit as asked, in 1..maximum; the default when it is 0 or less."""
    return min(limit, maximum) if limit > 0 else default


def link_header(request_url: str, first: int | None, last: int | None, *, limit: int, more: bool) -> str:
    """The Link header of a page from cursor `first` (newest) to `last` (oldest); "" for an empty page.

    `more` says whether anything may follow: the page is full, or was cut short by a bound of work. toot matches `rel="next"` at
    the start of the header and masto splits it at commas: so next comes first, and there is no comma inside an address.
    """
    if first is None or last is None:
        return ""
    path, _, query = request_url.partition("?")
    kept = _kept(query)
    base = f"{_plain(path)}?{kept}limit={limit}"
    newer = f'<{base}&min_id={first}>; rel="prev"'
    return f'<{base}&max_id={last}>; rel="next", {newer}' if more else newer


def offset_links(request_url: str, offset: int, limit: int, *, more: bool) -> str:
    """The Link header of a list that is paged by position; "" for its only page."""
    path, _, query = request_url.partition("?")
    base = f"{_plain(path)}?{_kept(query)}limit={limit}"
    links = [f'<{base}&offset={offset + limit}>; rel="next"'] if more else []
    if offset:
        links.append(f'<{base}&offset={max(0, offset - limit)}>; rel="prev"')
    return ", ".join(links)


@lru_cache(maxsize=1_024)
def _kept(query: str) -> str:
    """The other parameters of the request, encoded anew, each with an & behind it. Clients repeat the same few."""
    kept = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _OURS]
    return f"{urlencode(kept)}&" if kept else ""


def _plain(path: str) -> str:
    return path.replace(",", "%2C").replace("<", "%3C").replace(">", "%3E")
