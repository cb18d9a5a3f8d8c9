"""Suggested accounts, the profile directory, and trending statuses."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from shoal.commands import relationships
from shoal.http.pagination import listed_data, page_size
from shoal.http.params import Id, Limit
from shoal.mastodon_api.context import Context, Router, actor, offset_page
from shoal.mastodon_api.entities.statuses import Account, Status
from shoal.mastodon_api.entities.tags import Suggestion
from shoal.queries import members, suggestions, trends

router = Router()

_DEEPEST = 10_000
"""Maximum offset in the directory and in lists of trends."""
_MOST_FOLLOWED = "most_followed"
_SIMILAR = "similar_to_recently_followed"
_SOURCES = {
    "friends": "friends_of_friends",
    "followers": _MOST_FOLLOWED,
    "follows_you": _SIMILAR,
    "liked": _SIMILAR,
    "tags": _SIMILAR,
    "nearby": _SIMILAR,
}
"""Mastodon's source for each reason of a suggestion.

For the last four, which Mastodon lacks, it is the least misleading source.
"""


class Count(msgspec.Struct, frozen=True):
    limit: Limit = Limit(0)


class Position(msgspec.Struct, frozen=True, kw_only=True):
    limit: Limit = Limit(0)
    offset: Limit = Limit(0)


class TrendingQuery(Position, frozen=True, kw_only=True):
    with_data: bool = False
    """Include `shoal.data` of other members' statuses, up to 4 KB each. A single status always includes all of it."""


class DirectoryQuery(Position, frozen=True, kw_only=True):
    """A page of the directory: accounts ordered by latest post (`active`) or by latest sign-up (`new`), latest first."""

    order: Literal["active", "new"] | UnsetType = UNSET
    local: bool = False
    """Has no effect: all accounts are local."""


class Dismissed(msgspec.Struct, frozen=True):
    account_id: Id


@router.get("/api/v2/suggestions", scope="read:accounts", answer=list[Suggestion])
async def suggested(context: Context, params: Count) -> object:
    """Suggest accounts to follow, best first, each with its reasons as text and numbers."""
    return [_entity(context, suggestion) for suggestion in await _suggestions(context, params)]


@router.get("/api/v1/suggestions", scope="read:accounts", answer=list[Account])
async def suggested_accounts(context: Context, params: Count) -> object:
    """Suggest accounts to follow, without reasons."""
    return context.app.present.accounts(suggestion.profile for suggestion in await _suggestions(context, params))


async def _suggestions(context: Context, params: Count) -> list[suggestions.Suggestion]:
    return await suggestions.suggestions(context.app.reads, actor(context), page_size(params.limit, 40, 80))


def _entity(context: Context, found: suggestions.Suggestion) -> dict[str, object]:
    # An account that is suggested without reasons is one of the most followed.
    sources = list(dict.fromkeys(_SOURCES[reason.source] for reason in found.reasons)) or [_MOST_FOLLOWED]
    return {
        "source": "global" if sources[0] == _MOST_FOLLOWED else "past_interactions",
        "sources": sources,
        "account": msgspec.Raw(context.app.present.account(found.profile)),
        "shoal": {"score": found.score, "reasons": [_reason(reason) for reason in found.reasons]},
    }


def _reason(reason: suggestions.SuggestionReason) -> dict[str, object]:
    return {name: value for name, value in reason._asdict().items() if name != "named"}


@router.delete("/api/v1/suggestions/{account_id}", scope="write:accounts", answer=dict)
async def dismiss(context: Context, params: Dismissed) -> None:
    """Do not suggest this account to the caller again."""
    await relationships.dismiss_suggestion(context.app.writes, actor(context), params.account_id)


@router.get("/api/v1/directory", auth="optional", scope="read:accounts", answer=list[Account])
async def directory(context: Context, params: DirectoryQuery) -> object:
    """List the accounts that are discoverable."""
    limit, offset = page_size(params.limit, 40, 80), min(max(0, params.offset), _DEEPEST)
    found = await members.directory_page(
        context.app.reads, context.caller.member_id, params.order or "active", limit, offset
    )
    return offset_page(context, context.app.present.accounts(found), offset, limit, more=len(found) == limit)


@router.get(
    "/api/v1/trends/statuses",
    auth="optional",
    scope="read:statuses",
    answer=list[Status],
    cached=True,
    by_owner=True,
)
async def trending(context: Context, params: TrendingQuery) -> object:
    """List statuses to which many different members are reacting."""
    limit, offset = page_size(params.limit), min(max(0, params.offset), _DEEPEST)
    viewer = context.caller.member_id
    found = await trends.page(context.app.reads, viewer, limit, offset)
    body = await context.app.present.page(viewer, found, listed_data(with_data=params.with_data))
    return offset_page(context, body, offset, limit, more=len(found) == limit)


@router.get("/api/v1/trends/links", auth="optional", scope="read:statuses", answer=list[dict[str, Any]], stub=True)
async def no_links(_context: Context, _params: Position) -> object:
    """Return an empty list: links do not trend here."""
    return b"[]"
