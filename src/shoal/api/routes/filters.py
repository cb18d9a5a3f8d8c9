"""Filters: what a member does not want to read."""

from __future__ import annotations

from functools import partial

from shoal.api import filters, old_filters
from shoal.api.entities.filters import Filter, FilterKeyword, FilterStatus, OldFilter
from shoal.api.http.calls import Route
from shoal.api.listing import One
from shoal.api.rows import route
from shoal.settings import Settings

_get = partial(route, "GET", scope="read:filters")
_post = partial(route, "POST", scope="write:filters")
_put = partial(route, "PUT", scope="write:filters")
_delete = partial(route, "DELETE", scope="write:filters", params=One, answer=dict)


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        _get("/api/v2/filters", filters.several, answer=list[Filter]),
        _post("/api/v2/filters", filters.create, params=filters.FilterParams, answer=Filter),
        _get("/api/v2/filters/{id}", filters.one, params=One, answer=Filter),
        _put("/api/v2/filters/{id}", filters.update, params=filters.ChangedFilter, answer=Filter),
        _delete("/api/v2/filters/{id}", filters.delete),
        _get("/api/v2/filters/{id}/keywords", filters.keywords, params=One, answer=list[FilterKeyword]),
        _post("/api/v2/filters/{id}/keywords", filters.add_keyword, params=filters.KeywordOf, answer=FilterKeyword),
        _get("/api/v2/filters/keywords/{id}", filters.keyword, params=One, answer=FilterKeyword),
        _put("/api/v2/filters/keywords/{id}", filters.change_keyword, params=filters.KeywordOf, answer=FilterKeyword),
        _delete("/api/v2/filters/keywords/{id}", filters.remove_keyword),
        _get("/api/v2/filters/{id}/statuses", filters.statuses, params=One, answer=list[FilterStatus]),
        _post("/api/v2/filters/{id}/statuses", filters.add_status, params=filters.StatusOf, answer=FilterStatus),
        _get("/api/v2/filters/statuses/{id}", filters.status, params=One, answer=FilterStatus),
        _delete("/api/v2/filters/statuses/{id}", filters.remove_status),
        _get("/api/v1/filters", old_filters.several, answer=list[OldFilter]),
        _post("/api/v1/filters", old_filters.create, params=old_filters.PhraseParams, answer=OldFilter),
        _get("/api/v1/filters/{id}", old_filters.one, params=One, answer=OldFilter),
        _put("/api/v1/filters/{id}", old_filters.update, params=old_filters.ChangedPhrase, answer=OldFilter),
        _delete("/api/v1/filters/{id}", old_filters.delete),
    )
