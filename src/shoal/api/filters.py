"""Filters with their keywords and statuses: posts that the caller does not want to read."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import filters as filter_entities
from shoal.api.entities.filters import Filter, FilterKeyword, FilterStatus
from shoal.api.http.convert import Id
from shoal.api.listing import One, actor
from shoal.commands import filters
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.core.filters import FilterAction, FilterContext
from shoal.graph.payloads.members import filters_of

_Text = Annotated[str, Meta(max_length=5_000)]
Contexts = Annotated[tuple[FilterContext, ...], Meta(max_length=20)]
Seconds = Annotated[int, Meta(ge=0, le=100 * 366 * 86_400)]


class KeywordParams(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword in a filter that is made or changed."""

    id: Id | None = None
    keyword: _Text | None = None
    whole_word: bool | None = None
    destroy: bool = msgspec.field(default=False, name="_destroy")


class FilterParams(msgspec.Struct, frozen=True, kw_only=True):
    """A filter's properties. A field that is not given keeps its value."""

    title: _Text | None = None
    context: Contexts | None = None
    filter_action: FilterAction | None = None
    expires_in: Seconds | UnsetType | None = UNSET
    """Seconds; empty for ever."""
    keywords_attributes: Annotated[tuple[KeywordParams, ...], Meta(max_length=300)] = ()


class ChangedFilter(FilterParams, frozen=True, kw_only=True):
    """Which filter, and what it is to be."""

    id: Id


class KeywordOf(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword, new in the filter of this id or to be changed by its own."""

    id: Id
    keyword: _Text | None = None
    whole_word: bool | None = None


class StatusOf(msgspec.Struct, frozen=True):
    """A status that a filter is to match."""

    id: Id
    status_id: Id


def lasting(expires_in: int | UnsetType | None) -> int | None:
    """Return when a filter ends, as `FilterChange` takes it: None for not given, -1 for never, else seconds."""
    if expires_in is UNSET:
        return None
    return -1 if expires_in is None else expires_in


def _change_of(params: FilterParams) -> FilterChange:
    return FilterChange(
        title=params.title,
        contexts=params.context,
        action=params.filter_action,
        lasts=lasting(params.expires_in),
        words=[
            KeywordChange(id=word.id or 0, keyword=word.keyword, whole_word=word.whole_word, gone=word.destroy)
            for word in params.keywords_attributes
        ],
    )


async def several(context: Context, _params: None) -> object:
    """The caller's filters."""
    front = context.deps
    return [filter_entities.whole(filter_) for filter_ in await filters_of(front.graph, actor(context))]


async def create(context: Context, params: FilterParams) -> object:
    """A new filter, with its keywords."""
    front = context.deps
    return filter_entities.whole(await filters.create(front.writes, actor(context), _change_of(params)))


async def one(context: Context, params: One) -> object:
    """A filter of the caller's."""
    front = context.deps
    return filter_entities.whole(await filters.own_filter(front.graph, actor(context), params.id))


async def update(context: Context, params: ChangedFilter) -> object:
    """Change a filter: what is not given stays, and keywords are added, changed or (`_destroy`) taken away."""
    front = context.deps
    return filter_entities.whole(await filters.update(front.writes, actor(context), params.id, _change_of(params)))


async def delete(context: Context, params: One) -> object:
    """A filter ends."""
    front = context.deps
    await filters.delete(front.writes, actor(context), params.id)
    return {}


async def keywords(context: Context, params: One) -> object:
    """The keywords of a filter."""
    front = context.deps
    filter_ = await filters.own_filter(front.graph, actor(context), params.id)
    return [filter_entities.keyword(word) for word in filter_.keywords]


async def add_keyword(context: Context, params: KeywordOf) -> object:
    """A new keyword of a filter."""
    front = context.deps
    word = KeywordChange(keyword=params.keyword, whole_word=params.whole_word)
    changed = await filters.update(front.writes, actor(context), params.id, FilterChange(words=[word]))
    return filter_entities.keyword(changed.keywords[-1])


async def keyword(context: Context, params: One) -> object:
    """A keyword by its id."""
    front = context.deps
    return filter_entities.keyword((await filters.filter_of_keyword(front.graph, actor(context), params.id))[1])


async def change_keyword(context: Context, params: KeywordOf) -> object:
    """Change a keyword."""
    front = context.deps
    filter_, held = await filters.filter_of_keyword(front.graph, actor(context), params.id)
    word = KeywordChange(id=held.id, keyword=params.keyword, whole_word=params.whole_word)
    changed = await filters.update(front.writes, actor(context), filter_.id, FilterChange(words=[word]))
    return filter_entities.keyword(next(word for word in changed.keywords if word.id == held.id))


async def remove_keyword(context: Context, params: One) -> object:
    """Take a keyword out of its filter."""
    front = context.deps
    filter_, held = await filters.filter_of_keyword(front.graph, actor(context), params.id)
    await filters.update(
        front.writes, actor(context), filter_.id, FilterChange(words=[KeywordChange(id=held.id, gone=True)])
    )
    return {}


async def statuses(context: Context, params: One) -> object:
    """The statuses of a filter."""
    front = context.deps
    filter_ = await filters.own_filter(front.graph, actor(context), params.id)
    return [filter_entities.status(held) for held in filter_.posts]


async def add_status(context: Context, params: StatusOf) -> object:
    """A status that the filter matches from now on, whatever it says."""
    front = context.deps
    return filter_entities.status(await filters.add_post(front.writes, actor(context), params.id, params.status_id))


async def status(context: Context, params: One) -> object:
    """A status of a filter, by the id that it has there."""
    front = context.deps
    return filter_entities.status((await filters.filter_of_post(front.graph, actor(context), params.id))[1])


async def remove_status(context: Context, params: One) -> object:
    """Take a status out of its filter."""
    front = context.deps
    await filters.remove_post(front.writes, actor(context), params.id)
    return {}


_read = rows.route.having(scope="read:filters")
_write = rows.route.having(scope="write:filters")

ROUTES = (
    _read("GET", "/api/v2/filters", several, answer=list[Filter]),
    _write("POST", "/api/v2/filters", create, params=FilterParams, answer=Filter),
    _read("GET", "/api/v2/filters/{id}", one, params=One, answer=Filter),
    _write("PUT", "/api/v2/filters/{id}", update, params=ChangedFilter, answer=Filter),
    _write("DELETE", "/api/v2/filters/{id}", delete, params=One, answer=dict),
    _read("GET", "/api/v2/filters/{id}/keywords", keywords, params=One, answer=list[FilterKeyword]),
    _write("POST", "/api/v2/filters/{id}/keywords", add_keyword, params=KeywordOf, answer=FilterKeyword),
    _read("GET", "/api/v2/filters/keywords/{id}", keyword, params=One, answer=FilterKeyword),
    _write("PUT", "/api/v2/filters/keywords/{id}", change_keyword, params=KeywordOf, answer=FilterKeyword),
    _write("DELETE", "/api/v2/filters/keywords/{id}", remove_keyword, params=One, answer=dict),
    _read("GET", "/api/v2/filters/{id}/statuses", statuses, params=One, answer=list[FilterStatus]),
    _write("POST", "/api/v2/filters/{id}/statuses", add_status, params=StatusOf, answer=FilterStatus),
    _read("GET", "/api/v2/filters/statuses/{id}", status, params=One, answer=FilterStatus),
    _write("DELETE", "/api/v2/filters/statuses/{id}", remove_status, params=One, answer=dict),
)
