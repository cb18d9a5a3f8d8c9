"""Reasons of a ranked post in words, made from the values of its terms alone: each formula of `terms` read backwards.

A value of 1 may stand for more than it says: there it reads "at least", or "many".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from shoal.core.ranking.recipes import Recipe
from shoal.core.ranking.terms import FRIEND_FACTOR

TITLES: Mapping[str, str] = {
    "reactions": "Liked and shared by many",
    "tags": "Tags you care about",
    "author": "People you care about",
    "nearby": "Made near you",
    "friends": "Liked by people you follow",
    "rising": "Tags on the rise",
    "velocity": "Getting more than usual now",
    "common": "People in common with its author",
    "seen": "Seen already",
    "freshness": "New",
    "quality": "Described pictures, more than tags",
}
"""Titles of the terms, for people."""

_MOST_FRIENDS = 8.0


def words_of(name: str, value: float, recipe: Recipe) -> str:
    """Return what a value of a term says, in English; "" for a value of 0."""
    return _WORDS[name](value, recipe) if value else ""


def _reactions(value: float, _recipe: Recipe) -> str:
    amount = round(2.0 ** (10 * value) - 1)
    more = "at least " if value >= 1.0 else ""
    return f"{more}{amount:,} likes and shares, where those by people you follow count {FRIEND_FACTOR} times"


def _tags(value: float, _recipe: Recipe) -> str:
    if value < 0:
        return "you asked for less of its tags, or reported posts with them"
    often = "often" if value > 0.5 else "sometimes"
    return f"you {often} like, share or use its tags, or asked for more of them"


def _author(value: float, _recipe: Recipe) -> str:
    if value < 0:
        return "you asked for less by its author, or reported posts by them"
    if value > 0.5:
        return "you often like or share what its author posts, or asked for more of it"
    return "you follow its author, liked their posts, or asked for more of them"


def _nearby(value: float, recipe: Recipe) -> str:
    return f"made about {_round(recipe.near_km * math.sqrt(max(0.0, 1.0 / value - 1.0)))} km from where you post"


def _friends(value: float, _recipe: Recipe) -> str:
    count = min(_MOST_FRIENDS, -math.log2(max(1.0 - value, 2.0**-_MOST_FRIENDS)))
    if count >= _MOST_FRIENDS:
        return "many people you follow like it, or follow its author"
    if count < 1:
        return "somebody you follow follows its author"
    who = "one person you follow likes it" if round(count) == 1 else f"about {round(count)} people you follow like it"
    return f"{who}, or twice as many follow its author"


def _rising(value: float, _recipe: Recipe) -> str:
    more = "at least " if value >= 1.0 else ""
    return f"one of its tags is used {more}{_round(2.0 ** (4 * value))} times as much as usual"


def _velocity(value: float, _recipe: Recipe) -> str:
    more = "at least " if value >= 1.0 else ""
    return (
        f"in the last hours it got {more}{_round(2.0 ** (6 * value))} times the reactions that its author usually gets"
    )


def _common(value: float, _recipe: Recipe) -> str:
    return f"you and its author have people around you in common ({value:.0%})"


def _seen(value: float, _recipe: Recipe) -> str:
    if value >= 1.0:
        return "you have liked, shared, saved or commented on it"
    times = round(-math.log2(1.0 - value))
    return "you have seen it once" if times == 1 else f"you have seen it {times} times"


def _freshness(value: float, recipe: Recipe) -> str:
    hours = max(0.0, -recipe.half_life_hours * math.log2(value))
    if hours < 1:
        return "posted within the hour"
    return f"posted {round(hours)} hours ago" if hours < 48 else f"posted {round(hours / 24)} days ago"


def _quality(value: float, _recipe: Recipe) -> str:
    return "its pictures are described, or it says a whole sentence" if value >= 0.5 else "it says a few words"


def _round(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.1f}"


_WORDS: Mapping[str, Callable[[float, Recipe], str]] = {
    "reactions": _reactions,
    "tags": _tags,
    "author": _author,
    "nearby": _nearby,
    "friends": _friends,
    "rising": _rising,
    "velocity": _velocity,
    "common": _common,
    "seen": _seen,
    "freshness": _freshness,
    "quality": _quality,
}
