"""Reasons of a ranked post in words, made from the values of its terms alone: each formula of `terms` read backwards.

A value of 1 may stand for more than it says: there it reads "at least", or "many".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

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


class ReasonWords(NamedTuple):
    """A reason in words that can be translated: a message with `%(name)s` for each of its numbers."""

    message: str
    numbers: Mapping[str, float] = MappingProxyType({})


def words_of(name: str, value: float, recipe: Recipe) -> str:
    """Return what a value of a term says, in English; "" for a value of 0."""
    reason = reason_of(name, value, recipe)
    return reason.message % {key: spoken(number) for key, number in reason.numbers.items()} if reason else ""


def reason_of(name: str, value: float, recipe: Recipe) -> ReasonWords | None:
    """Return what a value of a term says; None for a value of 0."""
    return _WORDS[name](value, recipe) if value else None


def spoken(number: float) -> str:
    """Return a number in English as people say it: whole from 10 on, otherwise to a tenth where it is not whole."""
    return f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"


def _reactions(value: float, _recipe: Recipe) -> ReasonWords:
    numbers = {"n": round(2.0 ** (10 * value) - 1), "times": FRIEND_FACTOR}
    if value >= 1.0:
        return ReasonWords(
            "at least %(n)s likes and shares, where those by people you follow count %(times)s times", numbers
        )
    return ReasonWords("%(n)s likes and shares, where those by people you follow count %(times)s times", numbers)


def _tags(value: float, _recipe: Recipe) -> ReasonWords:
    if value < 0:
        return ReasonWords("you asked for less of its tags, or reported posts with them")
    if value > 0.5:
        return ReasonWords("you often like, share or use its tags, or asked for more of them")
    return ReasonWords("you sometimes like, share or use its tags, or asked for more of them")


def _author(value: float, _recipe: Recipe) -> ReasonWords:
    if value < 0:
        return ReasonWords("you asked for less by its author, or reported posts by them")
    if value > 0.5:
        return ReasonWords("you often like or share what its author posts, or asked for more of it")
    return ReasonWords("you follow its author, liked their posts, or asked for more of them")


def _nearby(value: float, recipe: Recipe) -> ReasonWords:
    far = recipe.near_km * math.sqrt(max(0.0, 1.0 / value - 1.0))
    return ReasonWords("made about %(n)s km from where you post", {"n": far})


def _friends(value: float, _recipe: Recipe) -> ReasonWords:
    count = min(_MOST_FRIENDS, -math.log2(max(1.0 - value, 2.0**-_MOST_FRIENDS)))
    if count >= _MOST_FRIENDS:
        return ReasonWords("many people you follow like it, or follow its author")
    if count < 1:
        return ReasonWords("somebody you follow follows its author")
    if round(count) == 1:
        return ReasonWords("one person you follow likes it, or twice as many follow its author")
    return ReasonWords("about %(n)s people you follow like it, or twice as many follow its author", {"n": round(count)})


def _rising(value: float, _recipe: Recipe) -> ReasonWords:
    numbers = {"n": 2.0 ** (4 * value)}
    if value >= 1.0:
        return ReasonWords("one of its tags is used at least %(n)s times as much as usual", numbers)
    return ReasonWords("one of its tags is used %(n)s times as much as usual", numbers)


def _velocity(value: float, _recipe: Recipe) -> ReasonWords:
    numbers = {"n": 2.0 ** (6 * value)}
    if value >= 1.0:
        return ReasonWords(
            "in the last hours it got at least %(n)s times the reactions that its author usually gets", numbers
        )
    return ReasonWords("in the last hours it got %(n)s times the reactions that its author usually gets", numbers)


def _common(value: float, _recipe: Recipe) -> ReasonWords:
    return ReasonWords("you and its author have people around you in common (%(n)s%%)", {"n": round(100 * value)})


def _seen(value: float, _recipe: Recipe) -> ReasonWords:
    if value >= 1.0:
        return ReasonWords("you have liked, shared, saved or commented on it")
    times = round(-math.log2(1.0 - value))
    if times == 1:
        return ReasonWords("you have seen it once")
    return ReasonWords("you have seen it %(n)s times", {"n": times})


def _freshness(value: float, recipe: Recipe) -> ReasonWords:
    hours = max(0.0, -recipe.half_life_hours * math.log2(value))
    if hours < 1:
        return ReasonWords("posted within the hour")
    if hours < 48:
        return ReasonWords("posted %(n)s hours ago", {"n": round(hours)})
    return ReasonWords("posted %(n)s days ago", {"n": round(hours / 24)})


def _quality(value: float, _recipe: Recipe) -> ReasonWords:
    if value >= 0.5:
        return ReasonWords("its pictures are described, or it says a whole sentence")
    return ReasonWords("it says a few words")


_WORDS: Mapping[str, Callable[[float, Recipe], ReasonWords]] = {
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
