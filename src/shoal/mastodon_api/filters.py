"""Filters with keywords and statuses, and their v1 form.

A v1 filter has one phrase: it is a keyword of a filter, and its id is the id of that keyword.
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
from shoal.graph.access import own_object
from shoal.graph.payloads.members import filters_of
from shoal.http.params import Id
from shoal.mastodon_api import context as endpoints
from shoal.mastodon_api.context import Context, One, actor
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.statuses import FilterSummary


class FilterKeyword(msgspec.Struct):
    """Words that a filter looks for."""

    id: str
    keyword: str
    whole_word: bool


class FilterStatus(msgspec.Struct):
    """A status that a filter matches whatever it says."""

    id: str
    status_id: str


class Filter(FilterSummary, kw_only=True):
    """A filter with all that it looks for."""

    keywords: list[FilterKeyword]
    statuses: list[FilterStatus]


class OldFilter(msgspec.Struct, kw_only=True):
    """A filter of the older shape, which has one phrase: its id is that of the keyword."""

    id: str
    phrase: str
    context: list[str]
    expires_at: str | None
    irreversible: bool
    whole_word: bool


def keyword_entity(word: values.FilterKeyword) -> FilterKeyword:
    """A keyword."""
    return FilterKeyword(str(word.id), word.keyword, word.whole_word)


def status_entity(held: values.FilterPost) -> FilterStatus:
    """A status of a filter."""
    return FilterStatus(str(held.id), str(held.post_id))


def whole(filter_: values.Filter) -> Filter:
    """A filter with all that it looks for."""
    summary = serializers.filter_summary(filter_)
    return Filter(
        **msgspec.structs.asdict(summary),
        keywords=[keyword_entity(word) for word in filter_.keywords],
        statuses=[status_entity(held) for held in filter_.posts],
    )


def old(filter_: values.Filter, word: values.FilterKeyword) -> OldFilter:
    """One keyword of a filter in the older shape."""
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
    return [whole(filter_) for filter_ in await filters_of(front.graph, actor(context))]


async def create(context: Context, params: FilterParams) -> object:
    """A new filter, with its keywords."""
    front = context.deps
    return whole(await filters.create(front.writes, actor(context), _change_of(params)))


async def one(context: Context, params: One) -> object:
    """A filter of the caller's."""
    front = context.deps
    return whole(await own_object(front.graph, actor(context), params.id, values.Filter))


async def update(context: Context, params: ChangedFilter) -> object:
    """Change a filter: what is not given stays, and keywords are added, changed or (`_destroy`) taken away."""
    front = context.deps
    return whole(await filters.update(front.writes, actor(context), params.id, _change_of(params)))


async def delete(context: Context, params: One) -> object:
    """A filter ends."""
    front = context.deps
    await filters.delete(front.writes, actor(context), params.id)
    return {}


async def keywords(context: Context, params: One) -> object:
    """The keywords of a filter."""
    front = context.deps
    filter_ = await own_object(front.graph, actor(context), params.id, values.Filter)
    return [keyword_entity(word) for word in filter_.keywords]


async def add_keyword(context: Context, params: KeywordOf) -> object:
    """A new keyword of a filter."""
    front = context.deps
    word = KeywordChange(keyword=params.keyword, whole_word=params.whole_word)
    changed = await filters.update(front.writes, actor(context), params.id, FilterChange(words=[word]))
    return keyword_entity(changed.keywords[-1])


async def keyword(context: Context, params: One) -> object:
    """A keyword by its id."""
    front = context.deps
    return keyword_entity((await filters.filter_of_keyword(front.graph, actor(context), params.id))[1])


async def change_keyword(context: Context, params: KeywordOf) -> object:
    """Change a keyword."""
    front = context.deps
    filter_, held = await filters.filter_of_keyword(front.graph, actor(context), params.id)
    word = KeywordChange(id=held.id, keyword=params.keyword, whole_word=params.whole_word)
    changed = await filters.update(front.writes, actor(context), filter_.id, FilterChange(words=[word]))
    return keyword_entity(next(word for word in changed.keywords if word.id == held.id))


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
    filter_ = await own_object(front.graph, actor(context), params.id, values.Filter)
    return [status_entity(held) for held in filter_.posts]


async def add_status(context: Context, params: StatusOf) -> object:
    """A status that the filter matches from now on, whatever it says."""
    front = context.deps
    return status_entity(await filters.add_post(front.writes, actor(context), params.id, params.status_id))


async def status(context: Context, params: One) -> object:
    """A status of a filter, by the id that it has there."""
    front = context.deps
    return status_entity((await filters.filter_of_post(front.graph, actor(context), params.id))[1])


async def remove_status(context: Context, params: One) -> object:
    """Take a status out of its filter."""
    front = context.deps
    await filters.remove_post(front.writes, actor(context), params.id)
    return {}


_read = endpoints.route.having(scope="read:filters")
_write = endpoints.route.having(scope="write:filters")

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


_SHARED = (
    "These parameters cannot be changed from this application because they apply to more than one filter keyword. "
    "Use a more recent application or the web interface."
)


class PhraseParams(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a filter of one phrase. A field that is not given keeps its value."""

    phrase: _Text | None = None
    context: Contexts | None = None
    irreversible: bool | None = None
    whole_word: bool | None = None
    expires_in: Seconds | UnsetType | None = UNSET


class ChangedPhrase(PhraseParams, frozen=True, kw_only=True):
    """Which filter, and what it is to be."""

    id: Id


async def several_v1(context: Context, _params: None) -> object:
    """The caller's filters in the older shape, one for each keyword."""
    front = context.deps
    return [
        old(filter_, word) for filter_ in await filters_of(front.graph, actor(context)) for word in filter_.keywords
    ]


async def create_v1(context: Context, params: PhraseParams) -> object:
    """A new filter with one phrase."""
    front = context.deps
    word = KeywordChange(keyword=params.phrase, whole_word=params.whole_word)
    made = await filters.create(
        front.writes,
        actor(context),
        _v1_change_of(params, title=params.phrase or "", irreversible=bool(params.irreversible), word=word),
    )
    return old(made, made.keywords[0])


async def one_v1(context: Context, params: One) -> object:
    """A filter of the older shape."""
    front = context.deps
    return old(*await filters.filter_of_keyword(front.graph, actor(context), params.id))


async def update_v1(context: Context, params: ChangedPhrase) -> object:
    """Change a filter of the older shape."""
    front = context.deps
    filter_, held = await filters.filter_of_keyword(front.graph, actor(context), params.id)
    alone = len(filter_.keywords) == 1 and not filter_.posts
    if not alone and _changes_more(filter_, params):
        raise InvalidInput(_SHARED)
    word = KeywordChange(id=held.id, keyword=params.phrase, whole_word=params.whole_word)
    change = _v1_change_of(params, title=params.phrase if alone else None, irreversible=params.irreversible, word=word)
    changed = await filters.update(front.writes, actor(context), filter_.id, change)
    return old(changed, next(word for word in changed.keywords if word.id == held.id))


async def delete_v1(context: Context, params: One) -> object:
    """A filter of the older shape ends; with its last keyword the whole of it."""
    front = context.deps
    member = actor(context)
    filter_, held = await filters.filter_of_keyword(front.graph, member, params.id)
    if len(filter_.keywords) == 1 and not filter_.posts:
        await filters.delete(front.writes, member, filter_.id)
    else:
        await filters.update(
            front.writes, member, filter_.id, FilterChange(words=[KeywordChange(id=held.id, gone=True)])
        )
    return {}


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
        lasts=lasting(params.expires_in),
        words=[word],
    )


def _changes_more(filter_: StoredFilter, params: PhraseParams) -> bool:
    """Whether more would change than the one keyword."""
    return (
        (params.context is not None and set(params.context) != set(filter_.contexts))
        or (params.irreversible is not None and params.irreversible != filter_.irreversible)
        or (isinstance(params.expires_in, int) or (params.expires_in is None and filter_.expires_at > 0))
    )


V1_ROUTES = (
    _read("GET", "/api/v1/filters", several_v1, answer=list[OldFilter]),
    _write("POST", "/api/v1/filters", create_v1, params=PhraseParams, answer=OldFilter),
    _read("GET", "/api/v1/filters/{id}", one_v1, params=One, answer=OldFilter),
    _write("PUT", "/api/v1/filters/{id}", update_v1, params=ChangedPhrase, answer=OldFilter),
    _write("DELETE", "/api/v1/filters/{id}", delete_v1, params=One, answer=dict),
)
