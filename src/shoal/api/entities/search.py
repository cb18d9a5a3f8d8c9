"""What a search answers on the wire of the Mastodon API."""

from __future__ import annotations

import msgspec

from shoal.api.entities.statuses import Account, Status
from shoal.api.entities.tags import Tag


class Search(msgspec.Struct):
    """What was found; all three are always there."""

    accounts: list[Account]
    statuses: list[Status]
    hashtags: list[Tag]


class SearchV1(msgspec.Struct):
    """The same, with hashtags by their names alone."""

    accounts: list[Account]
    statuses: list[Status]
    hashtags: list[str]


class Suggestion(msgspec.Struct):
    """Somebody whom the caller may want to follow. `source` is the older word for the first of the `sources`."""

    source: str
    sources: list[str]
    account: Account
