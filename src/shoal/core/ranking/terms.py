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
    reactions: Column
    """Number of declared reactions, times their weights."""
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
    photos: Column
    """1 if the post shows a photo or video without a warning, else 0. It is not a term; the feed opens with such posts."""


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
        "min(1, log2(1 + others + 4 friends + reactions) / 10), where declared reactions count by their weights",
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
        "posted near where the member lives or last posted",
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
        "64 times as many recent reactions as the author's posts usually get",
        "min(1, max(0, log2((1 + recent) / (1 + usual)) / 6))",
        "the logarithm of the observed over the expected number, with one added to each (Laplace). `recent` counts members who"
        " reacted, halved for every six hours since; `usual` is the average number of likes and shares of the author's other posts",
    ),
    Term(
        "common",
        "the author has the same followers and follows the same accounts as the viewer",
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
    """Return the row indices in order of score, highest first. Rows with equal scores are in order of id, newest first."""
    return np.lexsort((-ids, -scored))


def _weighted_likes(facts: CandidateFacts) -> Column:
    return np.maximum(facts.likes - facts.friend_likes, 0.0) + FRIEND_FACTOR * facts.friend_likes + facts.reactions


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
    "quality": "Picture descriptions and text",
}
"""Titles of the terms, for display. They are headings, and make no statement about a post."""


class ReasonWords(NamedTuple):
    """A reason as translatable text: a message with `%(name)s` for each of its numbers and names."""

    message: str
    numbers: Mapping[str, float] = MappingProxyType({})
    names: Mapping[str, str] = MappingProxyType({})
    many: str = ""
    """The message if `number` is not 1; empty if the message has no plural form."""
    number: int = 0
    """The number in `message` and `many`, as `%(n)s`."""


def counted(one: str, many: str, n: int, **names: str) -> ReasonWords:
    """Return a reason that states a number, as its singular and plural messages."""
    return ReasonWords(one, names=names, many=many, number=n)


class ReasonFacts(NamedTuple):
    """The data that explain, together with the values of the terms, why a post is ranked where it is."""

    recipe: Recipe
    reactions: int = 0
    town: str = ""
    """The town where the viewer lives, if distances are measured from there."""
    country: str = ""
    declared: bool = False
    """Whether the post has declared reactions, which may count too."""
    picked: str = ""
    """A tag of the post that the viewer selected as an interest."""
    tag: str = ""
    """The tag of the post of which the viewer liked the most photos, among those with an affinity above 0."""
    liked_with_tag: int = 0
    """Number of photo posts with this tag among the viewer's newest 200 likes."""
    follows_tag: bool = False
    rising: str = ""
    """The tag of the post whose use grows fastest."""
    author: str = ""
    """The display name, or else the user name."""
    liked_by_author: int = 0
    """Number of posts by the author among the viewer's newest 200 likes."""
    follows_author: bool = False
    friends: int = 0
    """Number of members whom the viewer follows and who like or share the post, as far as the ranking has read them."""
    friends_following: int = 0
    """Number of members whom the viewer follows and who follow the author, as far as the ranking has read them."""
    described: float = 0.0
    """Fraction of the post's media that have a description; NaN without media."""
    words: int = 0
    """Number of words in the post's text, without tags."""


def words_of(name: str, value: float, facts: ReasonFacts) -> str:
    """Describe in English why a term has this value for a post; "" for a value without a reason to show."""
    reason = reason_of(name, value, facts)
    if reason is None:
        return ""
    numbers = {key: spoken(number) for key, number in reason.numbers.items()}
    message = reason.many if reason.many and reason.number != 1 else reason.message
    return message % {"n": spoken(reason.number), **numbers, **reason.names}


def reason_of(name: str, value: float, facts: ReasonFacts) -> ReasonWords | None:
    """Return the reason to show for a term's value.

    None for a value of 0, or if the reason no longer exists because the post was edited.
    """
    return _REASONS[name](value, facts) if value else None


def spoken(number: float) -> str:
    """Format a number in English: without decimals if it is whole or at least 10, otherwise with one decimal."""
    return f"{number:,.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"


def _reactions(_value: float, facts: ReasonFacts) -> ReasonWords:
    if facts.declared:
        return ReasonWords("likes, shares and other reactions")
    return counted("one like or share", "%(n)s likes and shares", facts.reactions)


def _tags(value: float, facts: ReasonFacts) -> ReasonWords:
    if value < 0:
        return ReasonWords("you asked to see less of the post's tags or reported posts with them")
    tag = f"#{facts.picked or facts.tag}"
    if facts.picked:
        return ReasonWords("because you picked %(tag)s", names={"tag": tag})
    if facts.liked_with_tag:
        return counted(
            "because you liked a %(tag)s photo", "because you liked %(n)s %(tag)s photos", facts.liked_with_tag, tag=tag
        )
    if facts.follows_tag:
        return ReasonWords("because you follow %(tag)s", names={"tag": tag})
    if facts.tag:
        return ReasonWords("because you like, share or use %(tag)s, or asked for more", names={"tag": tag})
    return ReasonWords("you follow, like, share or use the post's tags, or asked for more of them")


def _author(value: float, facts: ReasonFacts) -> ReasonWords:
    if value < 0:
        return ReasonWords("you asked to see less from the post's author or reported their posts")
    if facts.liked_by_author:
        return counted(
            "because you liked a post by %(name)s",
            "because you liked %(n)s posts by %(name)s",
            facts.liked_by_author,
            name=facts.author,
        )
    if facts.follows_author:
        return ReasonWords("because you follow %(name)s", names={"name": facts.author})
    return ReasonWords("you follow the post's author, reacted to their posts, or asked for more")


def _nearby(value: float, facts: ReasonFacts) -> ReasonWords:
    far = facts.recipe.near_km * math.sqrt(max(0.0, 1.0 / value - 1.0))
    if facts.town:
        return ReasonWords("about %(n)s km from %(town)s, where you live", {"n": far}, {"town": facts.town})
    return ReasonWords("about %(n)s km from where you post", {"n": far})


def _country(_value: float, facts: ReasonFacts) -> ReasonWords:
    return ReasonWords("from %(country)s, where you live", names={"country": facts.country})


def _friends(value: float, facts: ReasonFacts) -> ReasonWords:
    if facts.friends:
        return counted(
            "liked or shared by someone you follow", "liked or shared by %(n)s people you follow", facts.friends
        )
    if facts.friends_following:
        return counted(
            "someone you follow follows %(name)s",
            "%(n)s people you follow follow %(name)s",
            facts.friends_following,
            name=facts.author,
        )
    # The value of the term is below 1/2 only if exactly one followee follows the author, and no followee likes the post.
    if value < 0.5:
        return ReasonWords("someone you follow follows the post's author")
    return ReasonWords("people you follow like the post or follow its author")


def _rising(_value: float, facts: ReasonFacts) -> ReasonWords:
    tag = f"#{facts.rising}"
    if facts.rising:
        return ReasonWords("%(tag)s is trending", names={"tag": tag})
    return ReasonWords("one of the post's tags is trending")


def _velocity(_value: float, facts: ReasonFacts) -> ReasonWords:
    if facts.author:
        return ReasonWords("more reactions than usual for %(name)s", names={"name": facts.author})
    return ReasonWords("the post gets more reactions than usual for its author")


def _common(_value: float, _facts: ReasonFacts) -> ReasonWords:
    return ReasonWords("you and the post's author have followers or followed accounts in common")


def _seen(value: float, _facts: ReasonFacts) -> ReasonWords:
    if value >= 1.0:
        return ReasonWords("you have liked, shared, saved, commented on or reacted to the post")
    return counted("you have seen the post once", "you have seen the post %(n)s times", round(-math.log2(1.0 - value)))


def _freshness(value: float, facts: ReasonFacts) -> ReasonWords:
    hours = max(0.0, -facts.recipe.half_life_hours * math.log2(value))
    if hours < 1:
        return ReasonWords("posted in the last hour")
    if hours < 48:
        return counted("posted one hour ago", "posted %(n)s hours ago", round(hours))
    return counted("posted one day ago", "posted %(n)s days ago", round(hours / 24))


def _content(_value: float, facts: ReasonFacts) -> ReasonWords | None:
    if facts.described >= 1.0:
        if facts.words:
            return ReasonWords("the post's media have descriptions, and it has text")
        return ReasonWords("the post's media have descriptions")
    if facts.described > 0.0:
        if facts.words:
            return ReasonWords("some of the post's media have descriptions, and it has text")
        return ReasonWords("some of the post's media have descriptions")
    return ReasonWords("the post has text") if facts.words else None


_REASONS: Mapping[str, Callable[[float, ReasonFacts], ReasonWords | None]] = {
    "reactions": _reactions,
    "tags": _tags,
    "author": _author,
    "nearby": _nearby,
    "country": _country,
    "friends": _friends,
    "rising": _rising,
    "velocity": _velocity,
    "common": _common,
    "seen": _seen,
    "freshness": _freshness,
    "quality": _content,
}
