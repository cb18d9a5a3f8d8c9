"""Pages of a list: their parameters, and the Link header to the adjacent pages.

Cursors are ids. A limit that is missing, 0 or malformed is the default, and one that is too high is the maximum: clients send
all of these and expect a page, so these are never errors.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import parse_qsl, urlencode

import msgspec

from shoal.http.params import CursorId, Limit

_OURS = frozenset({"max_id", "since_id", "min_id", "limit", "offset", "access_token"})
"""Parameters that a link replaces, and the token, which a link must not contain."""


LISTED_DATA = 4 * 1024
"""Maximum bytes of a status's data in a list or stream, if requested."""


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The query parameters of a page. A cursor of 0 means that it is not set."""

    max_id: CursorId = CursorId(0)
    """Only items older than this."""
    since_id: CursorId = CursorId(0)
    """Only items newer than this, the newest first."""
    min_id: CursorId = CursorId(0)
    """The page immediately newer than this, in the same order as every page."""
    limit: Limit = Limit(0)

    def size(self, default: int = 20, maximum: int = 40) -> int:
        return page_size(self.limit, default, maximum)


class WithData(msgspec.Struct, frozen=True, kw_only=True):
    """The query parameter `with_data`, of all routes that return several statuses."""

    with_data: bool = False
    """Include `shoal.data` of other members' statuses, up to 4 KB each. A single status always includes all of it."""


class StatusesQuery(PageQuery, frozen=True, kw_only=True):
    """The query parameters of a page of statuses."""

    with_data: bool = False
    """Include `shoal.data` of other members' statuses, up to 4 KB each. A single status always includes all of it."""


def listed_data(*, with_data: bool) -> int:
    """Return the maximum bytes of custom data that a list or stream includes with another member's status."""
    return LISTED_DATA if with_data else 0


def page_size(limit: int, default: int = 20, maximum: int = 40) -> int:
    """Return the limit, at most the maximum; the default for 0 or less."""
    return min(limit, maximum) if limit > 0 else default


def link_header(request_url: str, first: int | None, last: int | None, *, limit: int, more: bool) -> str:
    """Return the Link header of a page from cursor `first` (newest) to `last` (oldest); "" for an empty page.

    `more` means that further items may follow: the page is full, or a limit on work cut it short. The client toot
    expects `rel="next"` at the start of the header, and masto splits the header at commas. Therefore the next page
    comes first, and URLs contain no commas.
    """
    if first is None or last is None:
        return ""
    path, _, query = request_url.partition("?")
    parameters = _other_parameters(query)
    base = f"{_plain(path)}?{parameters}limit={limit}"
    newer = f'<{base}&min_id={first}>; rel="prev"'
    return f'<{base}&max_id={last}>; rel="next", {newer}' if more else newer


def offset_links(request_url: str, offset: int, limit: int, *, more: bool) -> str:
    """Return the Link header of a page that clients request by offset; "" if all items fit on one page."""
    path, _, query = request_url.partition("?")
    base = f"{_plain(path)}?{_other_parameters(query)}limit={limit}"
    links = [f'<{base}&offset={offset + limit}>; rel="next"'] if more else []
    if offset:
        links.append(f'<{base}&offset={max(0, offset - limit)}>; rel="prev"')
    return ", ".join(links)


@lru_cache(maxsize=1_024)
def _other_parameters(query: str) -> str:
    """Return the query parameters that a link keeps, encoded and each followed by `&`.

    Page parameters and the token are omitted. The result is cached, because clients repeat a few queries.
    """
    parameters = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _OURS]
    return f"{urlencode(parameters)}&" if parameters else ""


def _plain(path: str) -> str:
    return path.replace(",", "%2C").replace("<", "%3C").replace(">", "%3E")
