"""Filters: words and posts that a member does not want to read.

Made from `shoal.library.filters` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.filters import Filter, FilterAction, FilterContext, FilterKeyword, FilterPost
from shoal.library import filters as awaited
from shoal.library.acting import AnyPost
from shoal.library.filters import FOREVER, ActionName, AnyFilter, ContextName
from shoal.sync.calling import Calling


class OwnFilters(Calling):
    """The filters of a member."""

    _awaited: awaited.OwnFilters

    def all(self) -> list[Filter]:
        """All filters, oldest first; expired ones too. Raises `Unavailable`."""
        return self._loop.call(self._awaited.all())

    def get(self, which: AnyFilter) -> Filter:
        """A filter by id, as it is now. Raises `NotFound`."""
        return self._loop.call(self._awaited.get(which))

    def create(
        self,
        title: str,
        *,
        contexts: Sequence[FilterContext | ContextName],
        keywords: Sequence[str] = (),
        whole_word: bool = True,
        action: FilterAction | ActionName = FilterAction.WARN,
        seconds: int = FOREVER,
    ) -> Filter:
        """Make a filter that matches any of the keywords in these places, for so many seconds.

        Raises `InvalidInput` for a text that is empty or too long, and for one filter or keyword too many.
        """
        return self._loop.call(
            self._awaited.create(
                title, contexts=contexts, keywords=keywords, whole_word=whole_word, action=action, seconds=seconds
            )
        )

    def update(
        self,
        which: AnyFilter,
        *,
        title: str | None = None,
        contexts: Sequence[FilterContext | ContextName] | None = None,
        action: FilterAction | ActionName | None = None,
        seconds: int | None = None,
    ) -> Filter:
        """Change the given values of a filter; None stays. Raises `NotFound`, and `InvalidInput` as `create`."""
        return self._loop.call(
            self._awaited.update(which, title=title, contexts=contexts, action=action, seconds=seconds)
        )

    def delete(self, which: AnyFilter) -> None:
        """Delete a filter. Raises `NotFound`."""
        self._loop.call(self._awaited.delete(which))

    def add_keyword(self, which: AnyFilter, keyword: str, *, whole_word: bool = True) -> FilterKeyword:
        """Add a keyword to a filter. Raises `NotFound`, and `InvalidInput` as `create`."""
        return self._loop.call(self._awaited.add_keyword(which, keyword, whole_word=whole_word))

    def keyword(self, id_: int) -> FilterKeyword:
        """A keyword by its id. Raises `NotFound`."""
        return self._loop.call(self._awaited.keyword(id_))

    def change_keyword(self, id_: int, *, keyword: str | None = None, whole_word: bool | None = None) -> FilterKeyword:
        """Change the given values of a keyword. Raises `NotFound`, and `InvalidInput` as `create`."""
        return self._loop.call(self._awaited.change_keyword(id_, keyword=keyword, whole_word=whole_word))

    def remove_keyword(self, id_: int) -> Filter:
        """Take a keyword out of its filter. Raises `NotFound`."""
        return self._loop.call(self._awaited.remove_keyword(id_))

    def add_post(self, which: AnyFilter, post: AnyPost) -> FilterPost:
        """Have a filter match a post, whatever it says. Raises `NotFound`, and `InvalidInput` for one too many."""
        return self._loop.call(self._awaited.add_post(which, post))

    def post(self, id_: int) -> FilterPost:
        """A post of a filter, by the id that it has there. Raises `NotFound`."""
        return self._loop.call(self._awaited.post(id_))

    def remove_post(self, id_: int) -> None:
        """Take a post out of its filter, by the id that it has there. Raises `NotFound`."""
        self._loop.call(self._awaited.remove_post(id_))
