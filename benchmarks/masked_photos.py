"""Recommendation quality: how often For you finds a photo of an author that a viewer likes, without knowing its author.

Each author of the real data with at least twenty posts becomes a viewer, who likes the older four fifths of their own posts; the
newest fifth is hidden. The author, the votes and all other data of a post are masked: the ranking has tags, words and times. One
hidden post is ranked among 99 by others from the same month (or the nearest in time if the month has fewer), and is a hit if it
is among the first ten; random ranking yields 0.1. Popularity ranks by the votes in the data, recency by time; the raw engine is
the cosine of the tags, weighted by inverse frequency (TF-IDF).

"Ours" is `core.ranking`: strengths of likes, affinities to tags, the terms, and the balanced recipe. Half-lives of a like are
compared on half of the authors (tuned), everything else is measured on the other half (tested). Some of them like these posts
through the library, which must derive equal affinities.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import uvloop

from benchmarks.measure import Report
from shoal import Shoal
from shoal.core.errors import InvalidInput
from shoal.core.ids import EPOCH_MS, floor_at
from shoal.core.ranking import terms
from shoal.core.ranking.preferences import decay, strongest, tag_affinity, tag_strengths
from shoal.core.ranking.recipes import BALANCED
from shoal.core.ranking.terms import CandidateFacts
from shoal.core.text import check_tag
from shoal.queries.foryou.interests import interests_of

_LEAST = 20
"""Minimum number of posts of an author who becomes a viewer."""
_OTHERS = 99
_DEPTH = 10
_NEAREST = 300
"""Number of posts by others, nearest in time, from which the 99 are drawn if the month has fewer."""
_EACH = 5
"""Maximum number of hidden posts per viewer that are ranked."""
_HALF_LIVES = (1.0, 1 / 3, 1 / 12)
"""Fractions of the usual decay rate: half-lives of 30, 90 and 360 days."""
_THROUGH_THE_LIBRARY = 40
"""Maximum number of likes per viewer that are given through the library."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Photo(NamedTuple):
    """A post as the ranking sees it, with `author`, which is masked, and `votes`, by which popularity ranks."""

    author: str
    moment: int
    """Milliseconds since the first post, on the clock of the ids."""
    tags: tuple[str, ...]
    words: int
    votes: int
    month: str


class Case(NamedTuple):
    """A hidden post (the first) among others, and the posts that its viewer liked before."""

    liked: Ints
    candidates: Ints


_POSTS = Path("posts", "photos_cc0_pdm.jsonl.gz")


def are_in(data: Path) -> bool:
    return (data / _POSTS).exists()


def photos(data: Path) -> list[Photo]:
    with gzip.open(data / _POSTS) as lines:
        rows = sorted(map(msgspec.json.decode, lines), key=lambda row: str(row["created_at"]))
    moments = [datetime.fromisoformat(row["created_at"]) for row in rows]
    first = moments[0].timestamp()
    return [
        Photo(
            author=str(row["user_id"]),
            # An id cannot encode a time before 2024, so shift all times by a constant, which preserves the intervals.
            moment=EPOCH_MS + int((at.timestamp() - first) * 1_000),
            tags=_tags(row["tags"]),
            words=len(f"{row['name'] or ''} {row['description'] or ''}".split()),
            votes=row["votes"] or 0,
            month=f"{at:%Y-%m}",
        )
        for row, at in zip(rows, moments, strict=True)
    ]


def _tags(given: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for tag in given:
        # Some tags are invalid: too long, or without a letter.
        with suppress(InvalidInput):
            found[check_tag(tag)] = None
    return tuple(found)


def cases(all_: Sequence[Photo], authors: Sequence[str], rng: np.random.Generator) -> list[Case]:
    """Return up to five cases for each of these authors."""
    written, months = defaultdict(list), defaultdict(list)
    for at, photo in enumerate(all_):
        written[photo.author].append(at)
        months[photo.month].append(at)
    moments = np.array([photo.moment for photo in all_])
    found = []
    for author in authors:
        own = written[author]
        shown = len(own) - len(own) // 5
        for hidden in rng.permutation(own[shown:])[:_EACH].tolist():
            others = [at for at in months[all_[hidden].month] if all_[at].author != author]
            if len(others) < _OTHERS:
                nearest = np.argsort(np.abs(moments - moments[hidden]), kind="stable").tolist()
                others = list(islice((at for at in nearest if all_[at].author != author), _NEAREST))
            drawn = rng.choice(others, _OTHERS, replace=False)
            found.append(Case(np.array(own[:shown]), np.concatenate(([hidden], drawn))))
    return found


def authors_of(all_: Sequence[Photo]) -> list[str]:
    return sorted(author for author, posts in Counter(photo.author for photo in all_).items() if posts >= _LEAST)


Scorer = Callable[[Case], Floats]


def ours(all_: Sequence[Photo], uses: Mapping[str, int], forgetting: float = 1.0) -> Scorer:
    """Score by the terms and the balanced recipe of the feed, using unmasked data only."""

    def scored(case: Case) -> Floats:
        found = [all_[at] for at in case.candidates.tolist()]
        now = max(photo.moment for photo in found)
        likes = [all_[at] for at in case.liked.tolist()]
        affinities = affinities_of(likes, uses, now, forgetting)
        nothing, unknown = np.zeros(len(found)), np.full(len(found), np.nan)
        facts = CandidateFacts(**dict.fromkeys(CandidateFacts._fields, nothing))._replace(
            tag_affinity=np.array([sum(affinities.get(tag, 0.0) for tag in photo.tags) for photo in found]),
            age_hours=np.array([(now - photo.moment) / 3_600_000 for photo in found]),
            words=np.array([float(photo.words) for photo in found]),
            distance_km=unknown,
        )
        values = terms.values(facts, half_life_hours=BALANCED.half_life_hours, near_km=BALANCED.near_km)
        return terms.scores(terms.contributions(values, BALANCED))

    return scored


def affinities_of(likes: Sequence[Photo], uses: Mapping[str, int], now: int, forgetting: float) -> dict[str, float]:
    """Return affinities to tags, derived by the feed's formula from likes given when the posts were created."""
    strengths = tag_strengths((photo.tags, decay(floor_at(photo.moment), now) ** forgetting) for photo in likes)
    return strongest({tag: tag_affinity(strength, uses[tag]) for tag, strength in strengths.items()})


def cosine(all_: Sequence[Photo], uses: Mapping[str, int]) -> Scorer:
    """Score by the cosine of a post's tags with the tags of all liked posts, weighted by inverse frequency."""
    weights = {tag: math.log(len(all_) / count) for tag, count in uses.items()}

    def scored(case: Case) -> Floats:
        liked = Counter(tag for at in case.liked.tolist() for tag in all_[at].tags)
        tags = [all_[at].tags for at in case.candidates.tolist()]
        norms = [math.sqrt(sum(weights[tag] ** 2 for tag in own)) for own in tags]
        sums = [sum(liked[tag] * weights[tag] ** 2 for tag in own) for own in tags]
        return np.array([sum_ / norm if norm else 0.0 for sum_, norm in zip(sums, norms, strict=True)])

    return scored


def hit_rate(cases: Sequence[Case], scorer: Scorer) -> float:
    """Return the fraction of cases whose hidden post is among the first ten; ties are broken at random."""
    hits = []
    for case in cases:
        scored = scorer(case)
        better, equal = (scored > scored[0]).sum(), (scored == scored[0]).sum()
        hits.append(min(1.0, max(0.0, (_DEPTH - better) / equal)))
    return float(np.mean(hits))


async def other_affinities(all_: Sequence[Photo], liking: Sequence[Case]) -> int:
    """Return for how many viewers the library derives different affinities from likes given now."""
    other = 0
    for case in liking:
        liked = [photo for photo in (all_[at] for at in case.liked.tolist()) if photo.tags][:_THROUGH_THE_LIBRARY]
        async with Shoal.open("memory://") as shoal:
            author, viewer = [await shoal.register(name) for name in ("author", "viewer")]
            for photo in liked:
                await viewer.like(await author.create(" ".join(f"#{tag}" for tag in photo.tags)))
            await shoal.settle()
            found = await interests_of(shoal.network.reads, viewer.id)
        uses = Counter(tag for photo in liked for tag in photo.tags)
        wanted = affinities_of(liked, uses, EPOCH_MS, 0.0)
        other += found.tags.keys() != wanted.keys() or any(
            abs(value - wanted[tag]) > 1e-3 for tag, value in found.tags.items()
        )
    return other


def measure(report: Report, data: Path, seed: int, most: int, checked: int) -> None:
    all_ = photos(data)
    rng = np.random.default_rng(seed)
    authors = rng.permutation(authors_of(all_)).tolist()[:most]
    tuned, tested = (cases(all_, part, rng) for part in (authors[::2], authors[1::2]))
    uses = Counter(tag for photo in all_ for tag in photo.tags)
    report.add("photos: authors that are also viewers", len(authors), "authors")
    report.add("photos: hidden posts ranked, tuned", len(tuned), "posts")
    report.add("photos: hidden posts ranked, tested", len(tested), "posts")
    for forgetting in _HALF_LIVES:
        rate = hit_rate(tuned, ours(all_, uses, forgetting))
        report.add(f"photos, tuned: likes with a half-life of {30 / forgetting:g} days, hit rate@{_DEPTH}", rate)
    votes, moments = (np.array([getattr(photo, name) for photo in all_], np.float64) for name in ("votes", "moment"))
    by_votes, by_time = (hit_rate(tested, partial(_column, column)) for column in (votes, moments))
    report.add(f"photos: popularity, hit rate@{_DEPTH}", by_votes)
    report.add(f"photos: recency, hit rate@{_DEPTH}", by_time)
    rate = hit_rate(tested, ours(all_, uses))
    report.add(f"photos: ours, hit rate@{_DEPTH}", rate, raw=hit_rate(tested, cosine(all_, uses)))
    report.add("photos: ours, relative to the better of popularity and recency", rate / max(by_votes, by_time), "times")
    tagged = [case for case in tested if all_[case.candidates[0]].tags]
    report.add(f"photos: ours, hidden posts with tags, hit rate@{_DEPTH}", hit_rate(tagged, ours(all_, uses)))
    report.check("photos: viewers who like a post that is hidden from them", _leaks(tuned) + _leaks(tested), 0)
    found = uvloop.run(other_affinities(all_, tested[:: max(1, len(tested) // checked)][:checked]))
    report.check("photos: viewers of whom the library has other affinities", found, 0)


def _column(column: Floats, case: Case) -> Floats:
    return column[case.candidates]


def _leaks(cases: Sequence[Case]) -> int:
    return sum(case.candidates[0] in case.liked for case in cases)
