"""Ranking terms: score posts as an explainable weighted sum, and describe the reasons as text.

Each term has a value between -1 and 1, computed from facts about the post, and a weight from a recipe. A contribution is value
times weight; a score is the sum of contributions and does not depend on the other candidates. With weights 2 for reactions and 3
for freshness, and a half-life of a day:

    post   reactions  freshness   contributions   score
    a      1,023      a day old   2.0   1.5       3.5
    b      31         new         1.0   3.0       4.0
    c      none       2 days old  0.0   0.75      0.75

The function `values` computes all candidates and terms at once. A reason states a number only if the value determines that number
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.core.ranking.recipes import TERM_NAMES, Recipe

Column = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
"""A row per candidate, a column per term in the order of `TERMS`."""

FRIEND_FACTOR = 4
"""Weight of a like or share by a followee, relative to a like or share by another member."""
_REACTIONS_DOUBLINGS = 10
_VELOCITY_DOUBLINGS = 6
_RISING_DOUBLINGS = 4
_FOLLOWING_FRIEND = 0.5
"""Weight of a followee who follows the author, relative to a followee who likes the post."""


class CandidateFacts(NamedTuple):
    """Facts about candidate posts, as float64 columns of equal length. An unknown fact is 0, or NaN where stated."""

    likes: Column
    """Number of likes and shares by all members, including followees."""
    friend_likes: Column
    """Number of likes and shares by members whom the viewer follows."""
    friends_following: Column
    """Number of members whom the viewer follows and who follow the author."""
    tag_affinity: Column
    """The viewer's affinity to the tags of the post, -1 to 1."""
    author_affinity: Column
    """The viewer's affinity to the author, -1 to 1."""
    distance_km: Column
    """Distance from the viewer's location to that of the post; NaN if one of them is unknown."""
    from_country: Column
    """1 if the place of the post is in the country where the viewer lives, else 0."""
    rising: Column
    """Growth of the post's fastest-growing tag: uses in the last day relative to an average day; 1 for no growth."""
    recent: Column
    """Number of members who reacted recently, where each counts half after every six hours."""
    usual: Column
    """Average total of likes and shares of the author's other posts."""
    common: Column
    """Number of members who follow both viewer and author, or whom both follow."""
    viewer_circle: Column
    """Number of followers and followees of the viewer."""
    author_circle: Column
    """Number of followers and followees of the author."""
    seen: Column
    acted: Column
    """1 if the viewer has liked, shared, saved or commented on the post, else 0."""
    age_hours: Column
    described: Column
    """Fraction of the post's media that have a description; NaN without media."""
    words: Column
    """Number of words in the post's text, without tags."""
    author_reactions: Column
    """Number of likes and shares of all posts of the author. It is not a term; authors with few are eligible for exploration."""


class Term(NamedTuple):
    """A term of the score of a post (or, in `people`, of a suggested member)."""

    name: str
    unit: str
    """What a value of 1 means."""
    formula: str
    source: str
    """Origin of the formula."""


_SATURATION = "the logarithmic term frequency of Salton and Buckley (1988): each doubling counts equally"

TERMS = (
    Term(
        "reactions",
        "1,023 likes and shares by others",
        "min(1, log2(1 + others + 4 friends) / 10)",
        _SATURATION,
    ),
    Term(
        "tags",
        "the member's favorite tags",
        "affinity of the member to the tags, -1 to 1",
        "the relevance feedback of Rocchio (1971), with inverse document frequency (Sparck Jones 1972)",
    ),
    Term(
        "author",
        "the member's favorite author",
        "affinity of the member to the author, -1 to 1",
        "as `tags`, with authors instead of tags",
    ),
    Term(
        "nearby",
        "the member's own place",
        "1 / (1 + (distance / scale)^2); 0 where a place is not known",
        "the Cauchy kernel: one half at the scale, with a long tail like the distances between friends (Liben-Nowell 2005)",
    ),
    Term(
        "country",
        "posted in the member's country",
        "1 if the town nearest to the post's place is in the country where the member says that they live, else 0",
        "our own: photos of a country interest the people of that country, however large it is",
    ),
    Term(
        "friends",
        "many friends like the post or follow the author",
        "1 - 2^-(friends who like or share it + friends who follow the author / 2)",
        "the probability that at least one of several independent reasons applies (the independent cascade of Goldenberg 2001)",
    ),
    Term("rising", "the use of a tag grew sixteenfold", "min(1, log2(growth) / 4)", _SATURATION),
    Term(
        "velocity",
        "64 times the author's usual number of reactions, right now",
        "min(1, max(0, log2((1 + recent) / (1 + usual)) / 6))",
        "the logarithm of the observed over the expected number, with one added to each (Laplace). `recent` counts members who"
        " reacted, halved for every six hours since; `usual` is the average number of likes and shares of the author's other posts",
    ),
    Term(
        "common",
        "identical followers and followed accounts",
        "common / sqrt(members around the viewer * members around the author)",
        "the cosine similarity of Salton (1983) between two sets of neighbors",
    ),
    Term(
        "seen",
        "seen many times or already reacted to",
        "1 if the member has acted on it, else 1 - 2^-times",
        "exponential decay of novelty: each view halves the rest",
    ),
    Term(
        "freshness",
        "posted this moment",
        "2^-(age / half-life)",
        "exponential decay",
    ),
    Term(
        "quality",
        "all pictures described, and at least a sentence of text",
        "described / 2 + min(1, words / 8) / 2; without media min(1, words / 8)",
        "our own: favors accessible posts with more text than a list of tags",
    ),
)

_SENTENCE_WORDS = 8


def values(facts: CandidateFacts, *, half_life_hours: float, near_km: float) -> Matrix:
    """Return the value of every term for every candidate post, -1 to 1, as a matrix of shape (candidates, terms).

    About 0.2 ms for a thousand candidates. Raises `ValueError` for columns of different lengths.
    """
    with np.errstate(invalid="ignore"):
        columns = {
            "reactions": _doublings(_weighted_likes(facts), _REACTIONS_DOUBLINGS),
            "tags": np.clip(facts.tag_affinity, -1.0, 1.0),
            "author": np.clip(facts.author_affinity, -1.0, 1.0),
            "nearby": np.nan_to_num(1.0 / (1.0 + (facts.distance_km / near_km) ** 2), nan=0.0),
            "country": np.where(facts.from_country > 0, 1.0, 0.0),
            "friends": 1.0 - np.exp2(-(facts.friend_likes + _FOLLOWING_FRIEND * facts.friends_following)),
            "rising": np.clip(np.log2(np.maximum(facts.rising, 1.0)) / _RISING_DOUBLINGS, 0.0, 1.0),
            "velocity": np.clip(np.log2((1.0 + facts.recent) / (1.0 + facts.usual)) / _VELOCITY_DOUBLINGS, 0.0, 1.0),
            "common": _cosine(facts.common, facts.viewer_circle, facts.author_circle),
            "seen": np.where(facts.acted > 0, 1.0, 1.0 - np.exp2(-facts.seen)),
            "freshness": np.exp2(-np.maximum(facts.age_hours, 0.0) / half_life_hours),
            "quality": _quality(facts.described, facts.words),
        }
    return np.stack([columns[name] for name in TERM_NAMES], axis=1)


def contributions(found: npt.NDArray[np.floating], recipe: Recipe) -> Matrix:
    contributed: Matrix = np.multiply(found, recipe.row(), dtype=np.float64)
    return contributed


def scores(contributed: Matrix) -> Column:
    summed: Column = contributed.sum(axis=1)
    return summed


def best_first(scored: Column, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the row indices by score, highest first. Of equal scores, the newer id is first."""
    return np.lexsort((-ids, -scored))


def _weighted_likes(facts: CandidateFacts) -> Column:
    return np.maximum(facts.likes - facts.friend_likes, 0.0) + FRIEND_FACTOR * facts.friend_likes


def _doublings(amount: Column, most: int) -> Column:
    return np.minimum(np.log2(1.0 + amount) / most, 1.0)


def _cosine(common: Column, one: Column, other: Column) -> Column:
    cosine: Column = common / np.sqrt(np.maximum(one * other, 1.0))
    return np.minimum(cosine, 1.0)


def _quality(described: Column, words: Column) -> Column:
    text_quality = np.minimum(words / _SENTENCE_WORDS, 1.0)
    return np.where(np.isnan(described), text_quality, np.nan_to_num(described) / 2 + text_quality / 2)


TITLES: Mapping[str, str] = {
    "reactions": "Likes and shares",
    "tags": "Tags you care about",
    "author": "People you care about",
    "nearby": "Near you",
    "country": "From your country",
    "friends": "People you follow",
    "rising": "Trending tags",
    "velocity": "Unusually popular right now",
    "common": "People in common",
    "seen": "Already seen",
    "freshness": "New",
    "quality": "Descriptions and text",
}
"""Titles of the terms, for display. They are headings, and make no statement about a post."""


class ReasonWords(NamedTuple):
    """A reason as translatable text: a message with `%(name)s` for each of its numbers and names."""

    message: str
    numbers: Mapping[str, float] = MappingProxyType({})
    names: Mapping[str, str] = MappingProxyType({})


class ReasonFacts(NamedTuple):
    """The data for describing why a post is ranked where it is, apart from the values of its terms."""

    recipe: Recipe
    reactions: int = 0
    town: str = ""
    """The town where the viewer lives, if distances are measured from there."""
    country: str = ""
    picked: str = ""
    """A tag of the post that the viewer selected as an interest."""
    described: float = 0.0
    """Fraction of the post's media that have a description; NaN without media."""
    words: int = 0
    """Number of words in the post's text, without tags."""


def words_of(name: str, value: float, facts: ReasonFacts) -> str:
    """Describe in English why a term has this value for a post; "" if there is nothing to say."""
    reason = reason_of(name, value, facts)
    if reason is None:
        return ""
    return reason.message % {**reason.names, **{key: spoken(number) for key, number in reason.numbers.items()}}


def reason_of(name: str, value: float, facts: ReasonFacts) -> ReasonWords | None:
    """Return the reason to show for a term's value; None for the value 0, or if an edit of the post removed the reason."""
    if not value:
        return None
    if name == "reactions":
        return _reactions(facts.reactions)
    if name == "quality":
        return _content(facts.described, facts.words)
    if name == "country":
        return ReasonWords("from %(country)s, where you live", names={"country": facts.country})
    if name == "nearby":
        return _nearby(value, facts)
    if name == "tags" and value > 0 and facts.picked:
        return ReasonWords("you picked #%(tag)s", names={"tag": facts.picked})
    if name in _BY_VALUE:
        threshold, above, below = _BY_VALUE[name]
        return above if value >= threshold else below
    return _WITH_NUMBER[name](value, facts.recipe)


def spoken(number: float) -> str:
    """Format a number in English: without decimals if it is whole or at least 10, otherwise with one decimal."""
    return f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"


_RISING = ReasonWords("one of the post's tags is trending")
_VELOCITY = ReasonWords("the post gets more reactions than usual for its author")
_COMMON = ReasonWords("you and the post's author have followers or followed accounts in common")
_TEXT = ReasonWords("the post has text")
_DESCRIBED = ReasonWords("the post's media have descriptions")
_DESCRIBED_WITH_TEXT = ReasonWords("the post's media have descriptions, and it has text")
_PARTLY_DESCRIBED = ReasonWords("some of the post's media have descriptions")
_PARTLY_DESCRIBED_WITH_TEXT = ReasonWords("some of the post's media have descriptions, and it has text")
_BY_VALUE: Mapping[str, tuple[float, ReasonWords, ReasonWords]] = {
    "tags": (
        0.0,
        ReasonWords("you follow, like, share or use the post's tags, or asked for more of them"),
        ReasonWords("you asked to see less of the post's tags or reported posts with them"),
    ),
    "author": (
        0.0,
        ReasonWords("you follow the post's author, reacted to their posts, or asked for more"),
        ReasonWords("you asked to see less from the post's author or reported their posts"),
    ),
    # The value is less than 1/2 only if a single followee follows the author and none likes the post.
    "friends": (
        0.5,
        ReasonWords("people you follow like the post or follow its author"),
        ReasonWords("someone you follow follows the post's author"),
    ),
    "rising": (0.0, _RISING, _RISING),
    "velocity": (0.0, _VELOCITY, _VELOCITY),
    "common": (0.0, _COMMON, _COMMON),
}
"""Reasons without a number: a threshold, the reason for values at or above it, and the reason for lower values."""


def _reactions(number: int) -> ReasonWords:
    if number == 1:
        return ReasonWords("one like or share")
    return ReasonWords("%(n)s likes and shares", {"n": number})


def _content(described: float, words: int) -> ReasonWords | None:
    if described >= 1.0:
        return _DESCRIBED_WITH_TEXT if words else _DESCRIBED
    if described > 0.0:
        return _PARTLY_DESCRIBED_WITH_TEXT if words else _PARTLY_DESCRIBED
    return _TEXT if words else None


def _nearby(value: float, facts: ReasonFacts) -> ReasonWords:
    far = facts.recipe.near_km * math.sqrt(max(0.0, 1.0 / value - 1.0))
    if facts.town:
        return ReasonWords("about %(n)s km from %(town)s, where you live", {"n": far}, {"town": facts.town})
    return ReasonWords("about %(n)s km from where you post", {"n": far})


def _seen(value: float, _recipe: Recipe) -> ReasonWords:
    if value >= 1.0:
        return ReasonWords("you have liked, shared, saved, commented on or reacted to the post")
    times = round(-math.log2(1.0 - value))
    if times == 1:
        return ReasonWords("you have seen the post once")
    return ReasonWords("you have seen the post %(n)s times", {"n": times})


def _freshness(value: float, recipe: Recipe) -> ReasonWords:
    hours = max(0.0, -recipe.half_life_hours * math.log2(value))
    if hours < 1:
        return ReasonWords("posted within the hour")
    if hours < 48:
        return ReasonWords("posted %(n)s hours ago", {"n": round(hours)})
    return ReasonWords("posted %(n)s days ago", {"n": round(hours / 24)})


_WITH_NUMBER: Mapping[str, Callable[[float, Recipe], ReasonWords]] = {
    "seen": _seen,
    "freshness": _freshness,
}
