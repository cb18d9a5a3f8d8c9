"""Reasons of a ranked post in words.

A value of a term is a scaled sum with weights, so a reason states a number only where it is exact: the likes and shares are those
of the post, and times seen, ages and distances follow from the value alone. Words claim no more than the value proves: an affinity
of 1 is the strongest that the member has, which may be a single like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from shoal.core.ranking.recipes import Recipe

TITLES: Mapping[str, str] = {
    "reactions": "Likes and shares",
    "tags": "Tags you care about",
    "author": "People you care about",
    "nearby": "Made near you",
    "friends": "People you follow",
    "rising": "Tags on the rise",
    "velocity": "Getting more than usual now",
    "common": "People in common with its author",
    "seen": "Seen already",
    "freshness": "New",
    "quality": "Described pictures, more than tags",
}
"""Titles of the terms, for people. Reasons have them as headings, so they claim nothing about a post."""


class ReasonWords(NamedTuple):
    """A reason in words that can be translated: a message with `%(name)s` for each of its numbers."""

    message: str
    numbers: Mapping[str, float] = MappingProxyType({})


def words_of(name: str, value: float, recipe: Recipe, reactions: int) -> str:
    """Return what a value of a term says about a post with this many likes and shares, in English; "" for a value of 0."""
    reason = reason_of(name, value, recipe, reactions)
    return reason.message % {key: spoken(number) for key, number in reason.numbers.items()} if reason else ""


def reason_of(name: str, value: float, recipe: Recipe, reactions: int) -> ReasonWords | None:
    """Return what a value of a term says about a post with this many likes and shares; None for a value of 0."""
    if not value:
        return None
    return _reactions(reactions) if name == "reactions" else _WORDS[name](value, recipe)


def spoken(number: float) -> str:
    """Return a number in English as people say it: whole from 10 on, otherwise to a tenth where it is not whole."""
    return f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"


def _reactions(number: int) -> ReasonWords:
    if number == 1:
        return ReasonWords("one like or share")
    return ReasonWords("%(n)s likes and shares", {"n": number})


def _tags(value: float, _recipe: Recipe) -> ReasonWords:
    if value < 0:
        return ReasonWords("you asked for less of its tags, or reported posts with them")
    return ReasonWords("you follow, like, share or use its tags, or asked for more of them")


def _author(value: float, _recipe: Recipe) -> ReasonWords:
    if value < 0:
        return ReasonWords("you asked for less by its author, or reported posts by them")
    return ReasonWords("you follow its author, reacted to their posts, or asked for more of them")


def _nearby(value: float, recipe: Recipe) -> ReasonWords:
    far = recipe.near_km * math.sqrt(max(0.0, 1.0 / value - 1.0))
    return ReasonWords("made about %(n)s km from where you post", {"n": far})


def _friends(value: float, _recipe: Recipe) -> ReasonWords:
    # One followee who likes the post makes 1/2, one who follows its author less.
    if value < 0.5:
        return ReasonWords("someone you follow follows its author")
    return ReasonWords("people you follow like it, or follow its author")


def _rising(_value: float, _recipe: Recipe) -> ReasonWords:
    return ReasonWords("one of its tags is used more than usual")


def _velocity(_value: float, _recipe: Recipe) -> ReasonWords:
    return ReasonWords("it is getting more reactions than its author usually gets")


def _common(_value: float, _recipe: Recipe) -> ReasonWords:
    return ReasonWords("you and its author have followers or followed accounts in common")


def _seen(value: float, _recipe: Recipe) -> ReasonWords:
    if value >= 1.0:
        return ReasonWords("you have liked, shared, saved, commented on or reacted to it")
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
