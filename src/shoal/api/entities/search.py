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


class SuggestionReason(msgspec.Struct):
    """One reason for a suggestion: the contribution is the value times the weight."""

    source: str
    """`friends`, `followers`, `follows_you`, `liked`, `tags` or `nearby`."""
    number: float
    """How many people whom the caller follows follow them, how many followers, liked posts or tags, or how many kilometres."""
    value: float
    """0 to 1."""
    weight: float
    contribution: float
    words: str
    friends: list[str]
    """User names of up to two of the people whom the caller follows and who follow them."""


class SuggestionExtras(msgspec.Struct):
    """Why somebody is suggested, the strongest reason first. The contributions add up to the score."""

    score: float
    reasons: list[SuggestionReason]


class Suggestion(msgspec.Struct):
    """Somebody whom the caller may want to follow. `source` is the older word for the first of the `sources`."""

    source: str
    sources: list[str]
    account: Account
    shoal: SuggestionExtras
