"""JSON shapes of search results in the Mastodon API."""

from __future__ import annotations

import msgspec

from shoal.api.entities.statuses import Account, Status
from shoal.api.entities.tags import Tag


class Search(msgspec.Struct):
    """Results of a search. All three lists are always there."""

    accounts: list[Account]
    statuses: list[Status]
    hashtags: list[Tag]


class SearchV1(msgspec.Struct):
    """Results of a search, with hashtags by their names alone."""

    accounts: list[Account]
    statuses: list[Status]
    hashtags: list[str]


class Suggestion(msgspec.Struct):
    """Somebody whom the caller may want to follow. `source` is the older word for the first of the `sources`."""

    source: str
    sources: list[str]
    account: Account
