"""Search for accounts, statuses and hashtags.

`#tide` finds only hashtags, and `@ann` only accounts. The exact name of an account also finds only accounts, unless
`type` is given. Statuses are found for members only. With `resolve`, a URL of this server finds the account, status or
hashtag that it links to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from shoal.core.ids import MAX_ID
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.http.pagination import WithData, listed_data, page_size
from shoal.http.params import CursorId as CursorValue
from shoal.http.params import Id, Limit
from shoal.mastodon_api.context import Context, Router, offset_page
from shoal.mastodon_api.entities.statuses import Account
from shoal.mastodon_api.entities.tags import Search, SearchV1
from shoal.mastodon_api.tags import counted_tags
from shoal.queries import search
from shoal.queries.hydration import Entry, Profile, hydrate, profiles_by_id
from shoal.queries.search import ResultRange

router = Router()

_NAME = re.compile(r"@?([A-Za-z0-9_]+)(?:@([^\s@/]+))?")
_OURS = re.compile(r"(?:@(?P<name>\w+)(?:/(?P<id>\d{1,19}))?|tags/(?P<tag>[^/?#]+))/?(?:[?#].*)?")
_ACCOUNTS, _STATUSES, _HASHTAGS = "accounts", "statuses", "hashtags"

Text = Annotated[str, Meta(max_length=2_000)]


class Query(WithData, frozen=True, kw_only=True):
    """A search query, and which results to return. `offset` has an effect only with `type`."""

    q: Text
    type: Annotated[str, Meta(max_length=40)] = ""
    limit: Limit = Limit(0)
    offset: Limit = Limit(0)
    resolve: bool = False
    """Whether a URL of this server finds the object that it links to. If not, the URL is searched as text."""
    following: bool = False
    account_id: Id = Id(0)
    max_id: CursorValue = CursorValue(0)
    min_id: CursorValue = CursorValue(0)


class AccountQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: Text
    limit: Limit = Limit(0)
    offset: Limit = Limit(0)
    resolve: bool = False
    """Whether a URL of this server finds the account that it links to. If not, the URL is searched as text."""
    following: bool = False


class _Found(msgspec.Struct):
    accounts: list[Profile] = []
    statuses: list[Entry] = []
    hashtags: list[str] = []


@router.get("/api/v2/search", auth="optional", scope="read:search", answer=Search)
async def search_all(context: Context, params: Query) -> object:
    """Search for accounts, statuses and hashtags."""
    result = await _search(context, params)
    counted = await context.app.reads.tags.counted(result.hashtags) if result.hashtags else {}
    return await _results(context, params, result, await counted_tags(context, result.hashtags, counted))


@router.get("/api/v1/search", scope="read:search", answer=SearchV1)
async def search_all_v1(context: Context, params: Query) -> object:
    """Search for accounts, statuses and hashtags; hashtags are returned as names."""
    result = await _search(context, params)
    return await _results(context, params, result, result.hashtags)


async def _results(context: Context, params: Query, found: _Found, hashtags: Sequence[object]) -> dict[str, object]:
    present, data = context.app.present, listed_data(with_data=params.with_data)
    return {
        _ACCOUNTS: msgspec.Raw(present.accounts(found.accounts)),
        _STATUSES: msgspec.Raw(await present.page(context.caller.member_id, found.statuses, data)),
        _HASHTAGS: hashtags,
    }


@router.get("/api/v1/accounts/search", scope="read:accounts", answer=list[Account])
async def accounts(context: Context, params: AccountQuery) -> object:
    """Search for accounts by name."""
    limit, offset = page_size(params.limit, 40, 80), max(0, params.offset)
    part = ResultRange(limit, min(offset, search.MOST))
    if params.resolve and (named := await _at_address(context, params.q.strip())) is not None:
        profiles_found = named.accounts[part.offset :]
    else:
        profiles_found = await _accounts(context, params.q.strip(), part, following=params.following)
    more = len(profiles_found) == limit and part.end < search.MOST
    return offset_page(context, context.app.present.accounts(profiles_found), offset, limit, more=more)


async def _search(context: Context, params: Query) -> _Found:
    text, kind = params.q.strip(), params.type
    if not text or kind not in ("", _ACCOUNTS, _STATUSES, _HASHTAGS):
        return _Found()
    if params.resolve and (named := await _at_address(context, text)) is not None:
        return named if not kind else _Found(**{kind: getattr(named, kind)})
    part = ResultRange(page_size(params.limit), min(max(0, params.offset), search.MOST) if kind else 0)
    result = _Found()
    if kind in ("", _ACCOUNTS):
        result.accounts = await _accounts(context, text, part, following=params.following)
    if kind in ("", _HASHTAGS) and not (kind == "" and _is_for_accounts(text, result.accounts)):
        result.hashtags = await search.tags(context.app.reads, context.caller.member_id, text, part)
    viewer = context.caller.member_id
    if viewer is not None and _wants_statuses(kind, text, result.accounts):
        cursor = Cursor(min(params.max_id or MAX_TIME, MAX_ID), params.min_id or -1, part.limit)
        result.statuses = await search.posts(
            context.app.reads, viewer, text, cursor, offset=part.offset, author=params.account_id or None
        )
    return result


def _wants_statuses(kind: str, text: str, people: Sequence[Profile]) -> bool:
    if text.startswith("#"):
        return False
    return kind == _STATUSES or (kind == "" and not _is_for_accounts(text, people))


def _is_for_accounts(text: str, people: Sequence[Profile]) -> bool:
    """Return whether a query can only mean an account: it starts with `@`, or it is exactly the name of a found account."""
    if text.startswith("@"):
        return True
    match = _NAME.fullmatch(text)
    return match is not None and bool(people) and people[0].member.name == match[1].lower()


async def _accounts(context: Context, text: str, part: ResultRange, *, following: bool) -> list[Profile]:
    if text.startswith("#") or "://" in text:
        return []
    match = _NAME.fullmatch(text)
    if match is not None:
        if match[2] and match[2].lower() not in context.app.at.names:
            return []
        text = match[1]
    return await search.members(context.app.reads, context.caller.member_id, text, part, following=following)


async def _at_address(context: Context, text: str) -> _Found | None:
    """Return the object at a URL of this server. None if the text is no such URL, or the caller may not see the object."""
    scheme, _, rest = text.partition("://")
    host, _, path = rest.partition("/")
    base = context.app.at.path[1:] and f"{context.app.at.path[1:]}/"
    match = _OURS.fullmatch(path.removeprefix(base)) if path.startswith(base) else None
    if match is None or scheme.lower() not in ("http", "https") or host.lower() not in context.app.at.names:
        return None
    if match["tag"]:
        return _Found(hashtags=await search.tags(context.app.reads, None, unquote(match["tag"]), ResultRange(1)))
    if match["id"]:
        id_ = min(int(match["id"]), MAX_ID)
        return _Found(statuses=await hydrate(context.app.graph, context.caller.member_id, (id_,), unasked=False))
    member = await search.member_named(context.app.reads, match["name"])
    return _Found(
        accounts=await profiles_by_id(context.app.graph, context.caller.member_id, (member.id,)) if member else [],
    )
