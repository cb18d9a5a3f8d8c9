"""A cached ranking: the posts in order with compact explanations, and its cursors."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.core.errors import InvalidInput
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.core.model import Post
from shoal.core.places import Location
from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.recipes import BALANCED, TERM_NAMES, Recipe
from shoal.core.ranking.reranking import Diversified, Source
from shoal.core.ranking.terms import ReasonFacts, contributions
from shoal.gazetteer import country_in_sentence
from shoal.queries.foryou.scoring import Scored, content_facts
from shoal.queries.foryou.sources import Proposal
from shoal.queries.hydration import Entry

_WRONG_CURSOR = "cursor: as the page before gave it"
_CURSOR_BYTES = 12
_TERMS = ",".join(TERM_NAMES)


class Habits(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Facts about the viewer and about tags at the time of a ranking, for the texts of its explanations."""

    tags: dict[str, int] = {}
    """Tags with an affinity above 0, with the number of liked photo posts (`Interests.liked_tags`)."""
    followed_tags: tuple[str, ...] = ()
    authors: dict[int, int] = {}
    """Number of liked posts by author (`Interests.likes`)."""
    rising: tuple[str, ...] = ()
    """Tags whose use grows, fastest first."""


NO_HABITS = Habits()


class Reading(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A ranked feed as cached: its posts in their final order, as columns of packed little-endian numbers."""

    terms: str
    """Names of the terms. A ranking by a version of Shoal with other terms cannot be read."""
    viewer: int
    ids: bytes
    """Ids of posts, 8 bytes each."""
    sources: bytes
    """`core.ranking.reranking.Source`, 2 bytes each."""
    lost: bytes
    """Positions lost to diversification, 2 bytes each; negative if gained."""
    rules: tuple[str, ...] = ()
    """The diversification rule that cost the positions; empty for none."""
    values: bytes = b""
    """Values of the terms, 4 bytes each, one row per post; empty unless an explanation was requested."""
    recipe: Recipe = BALANCED
    location: Location | None = None
    """Where the viewer lives, as of the ranking."""
    picked: tuple[str, ...] = ()
    """The tags that the viewer has selected as interests, as of the ranking."""
    friends: bytes = b""
    """Numbers of followees who like or share each post, and of those who follow its author, 2 bytes each; empty like `values`."""
    habits: Habits = NO_HABITS

    def __len__(self) -> int:
        return len(self.ids) // 8

    def part(self, first: int, last: int) -> list[int]:
        """Return the ids of the posts at positions `first` to `last`, without `last`."""
        found: list[int] = np.frombuffer(self.ids, "<i8")[first:last].tolist()
        return found

    def position_of(self, id_: int) -> int | None:
        found = np.flatnonzero(np.frombuffer(self.ids, "<i8") == id_)
        return int(found[0]) if len(found) else None

    def without(self, other: Reading) -> Reading:
        """Return this ranking without explanations and without the posts of another ranking."""
        missing = np.isin(np.frombuffer(self.ids, "<i8"), np.frombuffer(other.ids, "<i8"), invert=True)
        return Reading(
            terms=self.terms,
            viewer=self.viewer,
            ids=np.frombuffer(self.ids, "<i8")[missing].tobytes(),
            sources=np.frombuffer(self.sources, "<u2")[missing].tobytes(),
            lost=np.frombuffer(self.lost, "<i2")[missing].tobytes(),
            rules=tuple(compress(self.rules, missing.tolist())),
            recipe=self.recipe,
            location=self.location,
            picked=self.picked,
        )

    def followed_by(self, other: Reading, most: int) -> Reading:
        """Return at most `most` posts without explanations: first those of this ranking, then those of another."""
        return Reading(
            terms=self.terms,
            viewer=self.viewer,
            ids=(self.ids + other.ids)[: 8 * most],
            sources=(self.sources + other.sources)[: 2 * most],
            lost=(self.lost + other.lost)[: 2 * most],
            rules=(*self.rules, *other.rules)[:most],
            recipe=self.recipe,
            location=self.location,
            picked=self.picked,
        )

    def why(self, first: int, last: int) -> list[Why]:
        """Return the explanations of the posts at positions `first` to `last`, without `last`."""
        sources, lost = (
            np.frombuffer(column, kind)[first:last].tolist()
            for column, kind in ((self.sources, "<u2"), (self.lost, "<i2"))
        )
        counted = np.frombuffer(self.friends, "<u2").reshape(-1, 2)[first:last].tolist()
        return [
            Why(
                score=sum([term.contribution for term in terms]),
                sources=tuple(Source(source)),
                terms=terms,
                lost=places,
                rule=rule,
                recipe=self.recipe,
                location=self.location,
                picked=self.picked,
                friends=friends,
                friends_following=following,
                habits=self.habits,
            )
            for terms, source, places, rule, (friends, following) in zip(
                self._terms(first, last),
                sources,
                lost,
                self.rules[first:last],
                counted or [(0, 0)] * len(sources),
                strict=True,
            )
        ]

    def _terms(self, first: int, last: int) -> list[tuple[TermOfPost, ...]]:
        """Return the terms of the posts at these positions; none if the feed was ranked without explanations."""
        if not self.values:
            return [()] * len(self.part(first, last))
        values = np.frombuffer(self.values, "<f4").reshape(-1, len(TERM_NAMES))[first:last]
        weights = self.recipe.row()
        return [
            tuple(map(TermOfPost, TERM_NAMES, row, weights, added))
            for row, added in zip(values.tolist(), contributions(values, self.recipe).tolist(), strict=True)
        ]


class TermOfPost(NamedTuple):
    """The contribution of a term to the score of a post: the term's value times its weight."""

    name: str
    value: float
    weight: float
    contribution: float


class Why(NamedTuple):
    """The explanation of a post's position. The contributions of the terms add up to the score."""

    score: float
    sources: tuple[Source, ...]
    terms: tuple[TermOfPost, ...]
    lost: int
    """Positions lost to diversification; negative if gained."""
    rule: str
    """The diversification rule that cost these positions."""
    recipe: Recipe
    location: Location | None
    """Where the viewer lives."""
    picked: tuple[str, ...]
    """The tags that the viewer has selected as interests."""
    friends: int
    """Number of followees who like or share the post."""
    friends_following: int
    """Number of followees who follow its author."""
    habits: Habits

    def facts(self, entry: Entry, language: str) -> ReasonFacts:
        """Return the data that describe why the entry is ranked where it is, in a language."""
        town = country = ""
        if self.location is not None:
            town, country = self.location.town, country_in_sentence(self.location.country, language)
        post, author, habits = entry.post, entry.author.member, self.habits
        content = content_facts(post, entry.media)
        tag = max((tag for tag in post.tags if tag in habits.tags), key=habits.tags.__getitem__, default="")
        return ReasonFacts(
            self.recipe,
            entry.reactions,
            town,
            country,
            declared=bool(entry.named),
            picked=next((tag for tag in post.tags if tag in self.picked), ""),
            tag=tag,
            liked_with_tag=habits.tags.get(tag, 0),
            follows_tag=tag in habits.followed_tags,
            rising=next((tag for tag in habits.rising if tag in post.tags), ""),
            author=author.shown_name,
            liked_by_author=habits.authors.get(author.id, 0),
            follows_author=entry.relation.following,
            friends=self.friends,
            friends_following=self.friends_following,
            described=content.described,
            words=content.words,
        )


class ReadingCursor(NamedTuple):
    reading_id: int
    position: int

    def encode(self) -> str:
        packed = self.reading_id.to_bytes(8) + self.position.to_bytes(4)
        return urlsafe_b64encode(packed).decode()


def decode_cursor(text: str) -> ReadingCursor:
    """Decode a cursor. Raises `InvalidInput` for any other text."""
    try:
        packed = urlsafe_b64decode(text.encode())
    except ValueError as error:
        raise InvalidInput(_WRONG_CURSOR, field="cursor") from error
    if len(packed) != _CURSOR_BYTES or packed[0] >> 7:
        raise InvalidInput(_WRONG_CURSOR, field="cursor")
    return ReadingCursor(int.from_bytes(packed[:8]), int.from_bytes(packed[8:]))


def new_reading_id(viewer: int) -> int:
    """Return an unguessable id on the viewer's shard."""
    return compose(EPOCH_MS + secrets.randbits(40), shard_of(viewer), secrets.randbits(10))


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Reading)


def encode_reading(reading: Reading) -> bytes:
    return _encoder.encode(reading)


def decode_reading(data: bytes) -> Reading | None:
    """Decode a ranking; None if another version of Shoal wrote it in another format."""
    try:
        reading = _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
    return reading if reading.terms == _TERMS else None


def reading_of(
    viewer: int,
    ranked: Scored,
    proposed: Mapping[int, Proposal],
    recipe: Recipe,
    interests: Interests,
    diversified: Sequence[Diversified] = (),
    *,
    explain: bool,
) -> Reading:
    """Encode a ranking: posts in order of position.

    `diversified` has the effect of diversification on each post. The values of the terms, and the `Habits` for
    explanations, are stored only with `explain`.
    """
    posts = ranked.posts
    proposals = [proposed[post.id] for post in posts]
    reading = Reading(
        terms=_TERMS,
        viewer=viewer,
        ids=_packed([post.id for post in posts], "<i8"),
        sources=_packed([proposal.source for proposal in proposals], "<u2"),
        lost=_packed([candidate.lost for candidate in diversified] or [0] * len(posts), "<i2"),
        rules=tuple(candidate.rule for candidate in diversified) or ("",) * len(posts),
        recipe=recipe,
        location=interests.location,
        picked=interests.picked,
    )
    if not explain:
        return reading
    authors, row = np.unique(np.array([post.author_id for post in posts], np.int64), return_inverse=True)
    following = interests.near.of(authors).friends[row]
    return msgspec.structs.replace(
        reading,
        values=_packed(ranked.values, "<f4"),
        friends=_packed(np.stack([[proposal.friends for proposal in proposals], following], axis=1), "<u2"),
        habits=_habits(posts, interests, ranked.rising),
    )


def _habits(posts: Sequence[Post], interests: Interests, rising: Sequence[str]) -> Habits:
    tags = dict.fromkeys(tag for post in posts for tag in post.tags)
    liked = {tag: interests.liked_tags.get(tag, 0) for tag in tags if interests.tags.get(tag, 0.0) > 0}
    authors = {post.author_id for post in posts}
    return Habits(
        tags=liked,
        followed_tags=tuple(tag for tag in liked if tag in interests.followed_tags),
        authors={author: number for author, number in interests.likes.items() if author in authors},
        rising=tuple(tag for tag in rising if tag in tags),
    )


def _packed(values: npt.ArrayLike, kind: str) -> bytes:
    return np.asarray(values).astype(kind).tobytes()
