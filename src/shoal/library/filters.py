"""Filters of words and posts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from shoal.commands import filters
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.core.filters import Filter, FilterAction, FilterContext, FilterKeyword, FilterPost
from shoal.graph.access import filters_of, own_object
from shoal.library.acting import AnyPost, Owned, id_of, one_of, post_id

AnyFilter: TypeAlias = Filter | int
ContextName: TypeAlias = Literal["home", "notifications", "public", "thread", "account"]
ActionName: TypeAlias = Literal["warn", "hide", "blur"]
FOREVER = -1
"""The `seconds` of a filter that does not expire."""


class OwnFilters(Owned):
    """The filters of a member."""

    async def all(self) -> list[Filter]:
        """Return all filters, including expired ones, oldest first. Raises `Unavailable`."""
        return await filters_of(self._reads.graph, self._owner)

    async def get(self, which: AnyFilter) -> Filter:
        """Return a filter. Raises `NotFound`."""
        return await own_object(self._reads.graph, Filter, self._owner, id_of(which))

    async def create(
        self,
        title: str,
        *,
        contexts: Sequence[FilterContext | ContextName],
        keywords: Sequence[str] = (),
        whole_word: bool = True,
        action: FilterAction | ActionName = FilterAction.WARN,
        seconds: int = FOREVER,
    ) -> Filter:
        """Create a filter that matches any of the keywords in these contexts and expires after `seconds`.

        Raises `InvalidInput` for a text that is empty or too long, and if there are too many filters or keywords.
        """
        change = FilterChange(
            title=title,
            contexts=_contexts(contexts),
            action=one_of(FilterAction, action, "action"),
            lasts=seconds,
            words=[KeywordChange(keyword=keyword, whole_word=whole_word) for keyword in keywords],
        )
        return await filters.create(self._writes, self._owner, change)

    async def update(
        self,
        which: AnyFilter,
        *,
        title: str | None = None,
        contexts: Sequence[FilterContext | ContextName] | None = None,
        action: FilterAction | ActionName | None = None,
        seconds: int | None = None,
    ) -> Filter:
        """Change the given values of a filter; None keeps a value. Raises `NotFound`, and `InvalidInput` for an invalid value."""
        change = FilterChange(
            title=title,
            contexts=None if contexts is None else _contexts(contexts),
            action=None if action is None else one_of(FilterAction, action, "action"),
            lasts=seconds,
        )
        return await filters.update(self._writes, self._owner, id_of(which), change)

    async def delete(self, which: AnyFilter) -> None:
        """Delete a filter. Raises `NotFound`."""
        await filters.delete(self._writes, self._owner, id_of(which))

    async def add_keyword(self, which: AnyFilter, keyword: str, *, whole_word: bool = True) -> FilterKeyword:
        """Add a keyword to a filter. Raises `NotFound`, and `InvalidInput` for an invalid keyword or too many keywords."""
        changed = await self._change(id_of(which), KeywordChange(keyword=keyword, whole_word=whole_word))
        return changed.keywords[-1]

    async def keyword(self, id_: int) -> FilterKeyword:
        """Return a keyword by id. Raises `NotFound`."""
        return (await filters.filter_of_keyword(self._reads.graph, self._owner, id_))[1]

    async def change_keyword(
        self, id_: int, *, keyword: str | None = None, whole_word: bool | None = None
    ) -> FilterKeyword:
        """Change the given values of a keyword. Raises `NotFound`, and `InvalidInput` for an invalid keyword."""
        filter_, _ = await filters.filter_of_keyword(self._reads.graph, self._owner, id_)
        changed = await self._change(filter_.id, KeywordChange(id=id_, keyword=keyword, whole_word=whole_word))
        return next(word for word in changed.keywords if word.id == id_)

    async def remove_keyword(self, id_: int) -> Filter:
        """Remove a keyword from its filter. Raises `NotFound`."""
        filter_, _ = await filters.filter_of_keyword(self._reads.graph, self._owner, id_)
        return await self._change(filter_.id, KeywordChange(id=id_, gone=True))

    async def add_post(self, which: AnyFilter, post: AnyPost) -> FilterPost:
        """Make a filter match this post, whatever its text. Raises `NotFound`, and `InvalidInput` for too many posts."""
        return await filters.add_post(self._writes, self._owner, id_of(which), post_id(post))

    async def post(self, id_: int) -> FilterPost:
        """Return a filter's entry for a post, by the id of the entry. Raises `NotFound`."""
        return (await filters.filter_of_post(self._reads.graph, self._owner, id_))[1]

    async def remove_post(self, id_: int) -> None:
        """Remove a filter's entry for a post, by the id of the entry. Raises `NotFound`."""
        await filters.remove_post(self._writes, self._owner, id_)

    async def _change(self, filter_id: int, word: KeywordChange) -> Filter:
        return await filters.update(self._writes, self._owner, filter_id, FilterChange(words=[word]))


def _contexts(given: Sequence[FilterContext | ContextName]) -> list[FilterContext]:
    return [one_of(FilterContext, context, "contexts") for context in given]
