"""Filters in their older shape, where each has one phrase: a keyword here, and its id is the keyword's."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import filters as filter_entities
from shoal.api.entities.filters import OldFilter
from shoal.api.filters import Contexts, Seconds, lasting
from shoal.api.http.convert import Id
from shoal.api.listing import One, actor
from shoal.commands import filters
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.core.errors import InvalidInput
from shoal.core.filters import Filter, FilterAction
from shoal.graph.payloads.members import filters_of

_Text = Annotated[str, Meta(max_length=5_000)]

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


async def several(context: Context, _params: None) -> object:
    """The caller's filters in the older shape, one for each keyword."""
    front = context.deps
    return [
        filter_entities.old(filter_, word)
        for filter_ in await filters_of(front.graph, actor(context))
        for word in filter_.keywords
    ]


async def create(context: Context, params: PhraseParams) -> object:
    """A new filter with one phrase."""
    front = context.deps
    word = KeywordChange(keyword=params.phrase, whole_word=params.whole_word)
    made = await filters.create(
        front.writes,
        actor(context),
        _change_of(params, title=params.phrase or "", irreversible=bool(params.irreversible), word=word),
    )
    return filter_entities.old(made, made.keywords[0])


async def one(context: Context, params: One) -> object:
    """A filter of the older shape."""
    front = context.deps
    return filter_entities.old(*await filters.filter_of_keyword(front.graph, actor(context), params.id))


async def update(context: Context, params: ChangedPhrase) -> object:
    """Change a filter of the older shape."""
    front = context.deps
    filter_, held = await filters.filter_of_keyword(front.graph, actor(context), params.id)
    alone = len(filter_.keywords) == 1 and not filter_.posts
    if not alone and _changes_more(filter_, params):
        raise InvalidInput(_SHARED)
    word = KeywordChange(id=held.id, keyword=params.phrase, whole_word=params.whole_word)
    change = _change_of(params, title=params.phrase if alone else None, irreversible=params.irreversible, word=word)
    changed = await filters.update(front.writes, actor(context), filter_.id, change)
    return filter_entities.old(changed, next(word for word in changed.keywords if word.id == held.id))


async def delete(context: Context, params: One) -> object:
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


def _change_of(
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


def _changes_more(filter_: Filter, params: PhraseParams) -> bool:
    """Whether more would change than the one keyword."""
    return (
        (params.context is not None and set(params.context) != set(filter_.contexts))
        or (params.irreversible is not None and params.irreversible != filter_.irreversible)
        or (isinstance(params.expires_in, int) or (params.expires_in is None and filter_.expires_at > 0))
    )


_read = rows.route.having(scope="read:filters")
_write = rows.route.having(scope="write:filters")

ROUTES = (
    _read("GET", "/api/v1/filters", several, answer=list[OldFilter]),
    _write("POST", "/api/v1/filters", create, params=PhraseParams, answer=OldFilter),
    _read("GET", "/api/v1/filters/{id}", one, params=One, answer=OldFilter),
    _write("PUT", "/api/v1/filters/{id}", update, params=ChangedPhrase, answer=OldFilter),
    _write("DELETE", "/api/v1/filters/{id}", delete, params=One, answer=dict),
)
