"""Filters with keywords and statuses, and the filters of API v1.

A v1 filter has one phrase, which is stored as a keyword of a filter. The id of the v1 filter is the id of the keyword.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.commands import filters
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.core import filters as values
from shoal.core.errors import InvalidInput
from shoal.core.filters import Filter as StoredFilter
from shoal.core.filters import FilterAction, FilterContext
from shoal.graph.access import filters_of, own_object
from shoal.http.params import Id
from shoal.mastodon_api.context import Context, One, Router, actor
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.statuses import FilterSummary

router = Router()


class FilterKeyword(msgspec.Struct):
    """A keyword or phrase of a filter."""

    id: str
    keyword: str
    whole_word: bool


class FilterStatus(msgspec.Struct):
    """A status that a filter matches regardless of its text."""

    id: str
    status_id: str


class Filter(FilterSummary, kw_only=True):
    """A filter with its keywords and statuses."""

    keywords: list[FilterKeyword]
    statuses: list[FilterStatus]


class OldFilter(msgspec.Struct, kw_only=True):
    """A filter of API v1: a single keyword of a filter. Its id is the id of the keyword."""

    id: str
    phrase: str
    context: list[str]
    expires_at: str | None
    irreversible: bool
    whole_word: bool


def keyword_entity(word: values.FilterKeyword) -> FilterKeyword:
    return FilterKeyword(str(word.id), word.keyword, word.whole_word)


def status_entity(filtered: values.FilterPost) -> FilterStatus:
    return FilterStatus(str(filtered.id), str(filtered.post_id))


def filter_entity(filter_: values.Filter) -> Filter:
    summary = serializers.filter_summary(filter_)
    return Filter(
        **msgspec.structs.asdict(summary),
        keywords=[keyword_entity(word) for word in filter_.keywords],
        statuses=[status_entity(filtered) for filtered in filter_.posts],
    )


def v1_entity(filter_: values.Filter, word: values.FilterKeyword) -> OldFilter:
    return OldFilter(
        id=str(word.id),
        phrase=word.keyword,
        context=[context.value for context in filter_.contexts],
        expires_at=serializers.moment(filter_.expires_at) if filter_.expires_at else None,
        irreversible=filter_.irreversible,
        whole_word=word.whole_word,
    )


_Text = Annotated[str, Meta(max_length=5_000)]
Contexts = Annotated[tuple[FilterContext, ...], Meta(max_length=20)]
Seconds = Annotated[int, Meta(ge=0, le=100 * 366 * 86_400)]


class KeywordParams(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword of a filter to add, change or delete (`_destroy`)."""

    id: Id | None = None
    keyword: _Text | None = None
    whole_word: bool | None = None
    destroy: bool = msgspec.field(default=False, name="_destroy")


class FilterParams(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a filter. A field that is omitted keeps its value."""

    title: _Text | None = None
    context: Contexts | None = None
    filter_action: FilterAction | None = None
    expires_in: Seconds | UnsetType | None = UNSET
    """Seconds until the filter expires; empty for never."""
    keywords_attributes: Annotated[tuple[KeywordParams, ...], Meta(max_length=300)] = ()


class ChangedFilter(FilterParams, frozen=True, kw_only=True):
    id: Id


class KeywordOf(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword to add or change. `id` is the id of its filter if it is added, and its own id if it is changed."""

    id: Id
    keyword: _Text | None = None
    whole_word: bool | None = None


class StatusOf(msgspec.Struct, frozen=True):
    id: Id
    status_id: Id


def _seconds(expires_in: int | UnsetType | None) -> int | None:
    """Convert an expiry for `FilterChange`: None if the field was omitted, -1 if the filter never expires, otherwise seconds."""
    if expires_in is UNSET:
        return None
    return -1 if expires_in is None else expires_in


def _change_of(params: FilterParams) -> FilterChange:
    return FilterChange(
        title=params.title,
        contexts=params.context,
        action=params.filter_action,
        lasts=_seconds(params.expires_in),
        words=[
            KeywordChange(id=word.id or 0, keyword=word.keyword, whole_word=word.whole_word, gone=word.destroy)
            for word in params.keywords_attributes
        ],
    )


@router.get("/api/v2/filters", scope="read:filters", answer=list[Filter])
async def list_filters(context: Context, _params: None) -> object:
    """List the caller's filters."""
    return [filter_entity(filter_) for filter_ in await filters_of(context.app.graph, actor(context))]


@router.post("/api/v2/filters", scope="write:filters", answer=Filter)
async def create(context: Context, params: FilterParams) -> object:
    """Create a filter with its keywords."""
    return filter_entity(await filters.create(context.app.writes, actor(context), _change_of(params)))


@router.get("/api/v2/filters/{id}", scope="read:filters", answer=Filter)
async def get_filter(context: Context, params: One) -> object:
    """Show one of the caller's filters."""
    return filter_entity(await own_object(context.app.graph, values.Filter, actor(context), params.id))


@router.put("/api/v2/filters/{id}", scope="write:filters", answer=Filter)
async def update(context: Context, params: ChangedFilter) -> object:
    """Update a filter: omitted fields keep their values, and keywords are added, changed or (`_destroy`) deleted."""
    return filter_entity(await filters.update(context.app.writes, actor(context), params.id, _change_of(params)))


@router.delete("/api/v2/filters/{id}", scope="write:filters", answer=dict)
async def delete(context: Context, params: One) -> None:
    """Delete a filter and its keywords."""
    await filters.delete(context.app.writes, actor(context), params.id)


@router.get("/api/v2/filters/{id}/keywords", scope="read:filters", answer=list[FilterKeyword])
async def list_keywords(context: Context, params: One) -> object:
    """List the keywords of a filter."""
    filter_ = await own_object(context.app.graph, values.Filter, actor(context), params.id)
    return [keyword_entity(word) for word in filter_.keywords]


@router.post("/api/v2/filters/{id}/keywords", scope="write:filters", answer=FilterKeyword)
async def add_keyword(context: Context, params: KeywordOf) -> object:
    """Add a keyword to a filter."""
    word = KeywordChange(keyword=params.keyword, whole_word=params.whole_word)
    changed = await filters.update(context.app.writes, actor(context), params.id, FilterChange(words=[word]))
    return keyword_entity(changed.keywords[-1])


@router.get("/api/v2/filters/keywords/{id}", scope="read:filters", answer=FilterKeyword)
async def get_keyword(context: Context, params: One) -> object:
    """Show a keyword of a filter."""
    return keyword_entity((await filters.filter_of_keyword(context.app.graph, actor(context), params.id))[1])


@router.put("/api/v2/filters/keywords/{id}", scope="write:filters", answer=FilterKeyword)
async def change_keyword(context: Context, params: KeywordOf) -> object:
    """Update a keyword of a filter."""
    filter_, before = await filters.filter_of_keyword(context.app.graph, actor(context), params.id)
    word = KeywordChange(id=before.id, keyword=params.keyword, whole_word=params.whole_word)
    changed = await filters.update(context.app.writes, actor(context), filter_.id, FilterChange(words=[word]))
    return keyword_entity(next(word for word in changed.keywords if word.id == before.id))


@router.delete("/api/v2/filters/keywords/{id}", scope="write:filters", answer=dict)
async def remove_keyword(context: Context, params: One) -> None:
    """Remove a keyword from its filter."""
    filter_, before = await filters.filter_of_keyword(context.app.graph, actor(context), params.id)
    await filters.update(
        context.app.writes, actor(context), filter_.id, FilterChange(words=[KeywordChange(id=before.id, gone=True)])
    )


@router.get("/api/v2/filters/{id}/statuses", scope="read:filters", answer=list[FilterStatus])
async def list_statuses(context: Context, params: One) -> object:
    """List the statuses of a filter."""
    filter_ = await own_object(context.app.graph, values.Filter, actor(context), params.id)
    return [status_entity(filtered) for filtered in filter_.posts]


@router.post("/api/v2/filters/{id}/statuses", scope="write:filters", answer=FilterStatus)
async def add_status(context: Context, params: StatusOf) -> object:
    """Add a status to a filter, which matches it regardless of its text."""
    return status_entity(await filters.add_post(context.app.writes, actor(context), params.id, params.status_id))


@router.get("/api/v2/filters/statuses/{id}", scope="read:filters", answer=FilterStatus)
async def get_status(context: Context, params: One) -> object:
    """Show a filter's entry for a status, by the id of the entry (`FilterStatus`), not of the status."""
    return status_entity((await filters.filter_of_post(context.app.graph, actor(context), params.id))[1])


@router.delete("/api/v2/filters/statuses/{id}", scope="write:filters", answer=dict)
async def remove_status(context: Context, params: One) -> None:
    """Remove a status from its filter."""
    await filters.remove_post(context.app.writes, actor(context), params.id)


_SHARED = (
    "These parameters cannot be changed from this application because they apply to more than one filter keyword. "
    "Use a more recent application or the web interface."
)


class PhraseParams(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a v1 filter. A field that is omitted keeps its value."""

    phrase: _Text | None = None
    context: Contexts | None = None
    irreversible: bool | None = None
    whole_word: bool | None = None
    expires_in: Seconds | UnsetType | None = UNSET


class ChangedPhrase(PhraseParams, frozen=True, kw_only=True):
    id: Id


@router.get("/api/v1/filters", scope="read:filters", answer=list[OldFilter])
async def list_v1(context: Context, _params: None) -> object:
    """List the caller's filters in the format of API v1, one per keyword."""
    return [
        v1_entity(filter_, word)
        for filter_ in await filters_of(context.app.graph, actor(context))
        for word in filter_.keywords
    ]


@router.post("/api/v1/filters", scope="write:filters", answer=OldFilter)
async def create_v1(context: Context, params: PhraseParams) -> object:
    """Create a filter with one phrase."""
    word = KeywordChange(keyword=params.phrase, whole_word=params.whole_word)
    made = await filters.create(
        context.app.writes,
        actor(context),
        _v1_change_of(params, title=params.phrase or "", irreversible=bool(params.irreversible), word=word),
    )
    return v1_entity(made, made.keywords[0])


@router.get("/api/v1/filters/{id}", scope="read:filters", answer=OldFilter)
async def get_v1(context: Context, params: One) -> object:
    """Show a filter in the format of API v1."""
    return v1_entity(*await filters.filter_of_keyword(context.app.graph, actor(context), params.id))


@router.put("/api/v1/filters/{id}", scope="write:filters", answer=OldFilter)
async def update_v1(context: Context, params: ChangedPhrase) -> object:
    """Update a filter in the format of API v1."""
    filter_, before = await filters.filter_of_keyword(context.app.graph, actor(context), params.id)
    is_only_keyword = len(filter_.keywords) == 1 and not filter_.posts
    if not is_only_keyword and _changes_more(filter_, params):
        raise InvalidInput(_SHARED)
    word = KeywordChange(id=before.id, keyword=params.phrase, whole_word=params.whole_word)
    change = _v1_change_of(
        params, title=params.phrase if is_only_keyword else None, irreversible=params.irreversible, word=word
    )
    changed = await filters.update(context.app.writes, actor(context), filter_.id, change)
    return v1_entity(changed, next(word for word in changed.keywords if word.id == before.id))


@router.delete("/api/v1/filters/{id}", scope="write:filters", answer=dict)
async def delete_v1(context: Context, params: One) -> None:
    """Delete a filter in the format of API v1. If its keyword is the last of a filter of API v2, that filter is deleted too."""
    member = actor(context)
    filter_, before = await filters.filter_of_keyword(context.app.graph, member, params.id)
    if len(filter_.keywords) == 1 and not filter_.posts:
        await filters.delete(context.app.writes, member, filter_.id)
    else:
        await filters.update(
            context.app.writes, member, filter_.id, FilterChange(words=[KeywordChange(id=before.id, gone=True)])
        )


def _v1_change_of(
    params: PhraseParams, *, title: str | None, irreversible: bool | None, word: KeywordChange
) -> FilterChange:
    action = None
    if irreversible is not None:
        action = FilterAction.HIDE if irreversible else FilterAction.WARN
    return FilterChange(
        title=title,
        contexts=params.context,
        action=action,
        irreversible=irreversible,
        lasts=_seconds(params.expires_in),
        words=[word],
    )


def _changes_more(filter_: StoredFilter, params: PhraseParams) -> bool:
    """Return whether the request changes a property that all keywords of the filter share."""
    return (
        (params.context is not None and set(params.context) != set(filter_.contexts))
        or (params.irreversible is not None and params.irreversible != filter_.irreversible)
        or (isinstance(params.expires_in, int) or (params.expires_in is None and filter_.expires_at > 0))
    )
