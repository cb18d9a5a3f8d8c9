"""Filters as they stand on the wire of the Mastodon API, in the newer shape and in the older one."""

from __future__ import annotations

import msgspec

from shoal.api.entities import presenter
from shoal.api.entities.statuses import FilterSummary
from shoal.core import filters as values


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


def keyword(word: values.FilterKeyword) -> FilterKeyword:
    """A keyword."""
    return FilterKeyword(str(word.id), word.keyword, word.whole_word)


def status(held: values.FilterPost) -> FilterStatus:
    """A status of a filter."""
    return FilterStatus(str(held.id), str(held.post_id))


def whole(filter_: values.Filter) -> Filter:
    """A filter with all that it looks for."""
    summary = presenter.filter_summary(filter_)
    return Filter(
        **msgspec.structs.asdict(summary),
        keywords=[keyword(word) for word in filter_.keywords],
        statuses=[status(held) for held in filter_.posts],
    )


def old(filter_: values.Filter, word: values.FilterKeyword) -> OldFilter:
    """One keyword of a filter in the older shape."""
    return OldFilter(
        id=str(word.id),
        phrase=word.keyword,
        context=[context.value for context in filter_.contexts],
        expires_at=presenter.moment(filter_.expires_at) if filter_.expires_at else None,
        irreversible=filter_.irreversible,
        whole_word=word.whole_word,
    )
