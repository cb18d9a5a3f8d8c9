"""Comparison of two rankings: how another recipe changes the first posts that members see.

Each member has two tops: the first posts by the recipe before and by the recipe after the change. Some figures are computed per
member (overlap, rank-biased overlap, authors, tags) and averaged over members; the others are computed over all tops together. With
the tops

    member   before    after
    1        a b c     a c d
    2        a b       a b

the overlaps are 2/3 and 1, so 0.83 on average, and one of the two members sees no change.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from statistics import fmean, median
from typing import NamedTuple

import msgspec
import numpy as np

PERSISTENCE = 0.9
"""Probability in `rank_biased_overlap` that a reader continues to the next position: the first ten positions weigh 86 %."""
OVERLAP_BINS = 10
MOST_CHANGES = 10
_LEAST_FOLLOWERS = (0, 10, 100, 1_000)


class TopPost(NamedTuple):
    id: int
    author: int
    tags: tuple[str, ...]
    age_hours: float


Top = Sequence[TopPost]
"""The first posts of a feed, best first."""


class TwoTops(NamedTuple):
    before: Top
    after: Top


class ShownAuthor(NamedTuple):
    name: str
    followers: int


class BeforeAfter(msgspec.Struct, frozen=True):
    """A figure of a replay, under the recipe before the change and under the one after it."""

    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


class ExposureBucket(msgspec.Struct, frozen=True):
    """Authors with `least` to `most` followers, and the fraction of all exposure (0 to 1) that they get under two recipes."""

    least: int
    """Fewest followers."""
    most: int | None
    """Most followers; None for no limit."""
    authors: int
    """Number of these authors with a post in any top, before or after."""
    share: BeforeAfter

    @property
    def words(self) -> str:
        return f"{self.least:,}+" if self.most is None else f"{self.least:,} to {self.most:,}"


class AuthorChange(msgspec.Struct, frozen=True):
    """An author, and the fraction of all exposure (0 to 1) that the author gets under two recipes."""

    name: str
    followers: int
    share: BeforeAfter


class ReplayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of the first posts of members' ranked feeds under two recipes.

    Members whose feed is empty under both recipes are left out.
    """

    members: int
    unchanged: int
    """Members whose tops are identical."""
    overlap: float
    """Mean of the function `overlap` over all members."""
    overlaps: tuple[int, ...]
    """Histogram of members by overlap: below 0.1, below 0.2 and so on; the last bin has 0.9 and more."""
    rank_biased_overlap: float
    """Mean of the function `rank_biased_overlap` over all members."""
    age_hours: BeforeAfter
    """Median age of a post, over all positions of all members."""
    authors: BeforeAfter
    """Distinct authors per top, on average."""
    tags: BeforeAfter
    """Distinct tags per top, on average."""
    authors_shown: BeforeAfter
    """Distinct authors in all tops together."""
    gini: BeforeAfter
    """Gini coefficient of the exposure, over all authors with a post in any top, before or after."""
    exposure: tuple[ExposureBucket, ...]
    gains: tuple[AuthorChange, ...]
    losses: tuple[AuthorChange, ...]


def figures(pairs: Iterable[TwoTops], authors: Mapping[int, ShownAuthor]) -> ReplayFigures:
    """Compare the top posts of members' ranked feeds under two recipes. `authors` must contain the author of every post.

    Members who see no posts under either recipe are skipped. If no member is left, the overlaps are 1 and all other figures 0.
    """
    tops = [pair for pair in pairs if pair.before or pair.after]
    ids = [([post.id for post in pair.before], [post.id for post in pair.after]) for pair in tops]
    overlaps = [overlap(before, after) for before, after in ids]
    shares = _shares([pair.before for pair in tops]), _shares([pair.after for pair in tops])
    shown = sorted({*shares[0], *shares[1]})
    changed = [_change(authors[author], author, shares) for author in shown]
    return ReplayFigures(
        members=len(tops),
        unchanged=sum(before == after for before, after in ids),
        overlap=fmean(overlaps) if tops else 1.0,
        overlaps=_bins(overlaps),
        rank_biased_overlap=fmean([rank_biased_overlap(*pair) for pair in ids]) if tops else 1.0,
        age_hours=_both(tops, _median_age),
        authors=_both(tops, lambda side: _mean([len({post.author for post in top}) for top in side])),
        tags=_both(tops, lambda side: _mean([len({tag for post in top for tag in post.tags}) for top in side])),
        authors_shown=BeforeAfter(*(float(len(share)) for share in shares)),
        gini=BeforeAfter(*(gini([share.get(author, 0.0) for author in shown]) for share in shares)),
        exposure=_buckets(changed),
        gains=_largest([exposed for exposed in changed if exposed.share.change > 0]),
        losses=_largest([exposed for exposed in changed if exposed.share.change < 0]),
    )


def overlap(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the number of posts that two lists have in common, divided by the length of the longer list.

    This is the agreement at a depth of Webber, Moffat and Zobel (2010). Two empty lists have overlap 1.
    """
    longer = max(len(before), len(after))
    return len({*before} & {*after}) / longer if longer else 1.0


def rank_biased_overlap(before: Sequence[int], after: Sequence[int], persistence: float = PERSISTENCE) -> float:
    """Return how similar two lists of posts are, 0 (disjoint) to 1 (equal), with more weight on the first positions.

    This is the extrapolated rank-biased overlap of Webber, Moffat and Zobel, "A similarity measure for indefinite rankings" (2010),
    equation 32. Let X(d) be the number of posts in common among the first d, s and l the lengths of the shorter and the longer
    list, and p the probability that a reader continues to the next position:

        (1 - p)/p * (sum over d <= l of X(d)/d p^d  +  sum over s < d <= l of X(s) (d - s)/(s d) p^d)
        + ((X(l) - X(s))/l + X(s)/s) p^l

    Kendall's tau is not applicable: it compares two orders of the same posts, but these lists have different posts. Each post
    occurs in a list at most once.
    """
    short, long = sorted((before, after), key=len)
    if not short:
        return 0.0 if long else 1.0
    s, p = len(short), persistence
    common = _common(short, long)
    at_short = common[s - 1]
    total = sum(x / d * p**d for d, x in enumerate(common, 1))
    total += sum(at_short * (d - s) / (s * d) * p**d for d in range(s + 1, len(long) + 1))
    rest = (common[-1] - at_short) / len(long) + at_short / s
    return min(1.0, (1 - p) / p * total + rest * p ** len(long))


def _common(short: Sequence[int], long: Sequence[int]) -> list[int]:
    """Return for each length, from 1 to that of `long`, how many posts the prefixes of that length have in common."""
    positions = {id_: position for position, id_ in enumerate(short)}
    meets = Counter(max(position, positions[id_]) for position, id_ in enumerate(long) if id_ in positions)
    return list(accumulate(meets[depth] for depth in range(len(long))))


def exposures(tops: Iterable[Sequence[int]]) -> dict[int, float]:
    """Return the exposure of each author in lists of authors: the sum of 1 / log2(1 + position) over the author's positions.

    The first position is 1. This is the discount of Järvelin and Kekäläinen (2002), which Singh and Joachims, "Fairness of
    exposure in rankings" (2018) use for the attention that a position receives.
    """
    found: defaultdict[int, float] = defaultdict(float)
    for top in tops:
        for position, author in enumerate(top, 1):
            found[author] += 1.0 / math.log2(1.0 + position)
    return dict(found)


def gini(values: Sequence[float]) -> float:
    """Return the inequality of non-negative values: 0 if all are equal, (n - 1)/n if all but one are 0.

    This is the coefficient of Gini (1912): for values in rising order, the sum of (2 i - n - 1) x(i), divided by n times the
    sum of the values. It is 0 if all values are 0.
    """
    total = math.fsum(values)
    if not total:
        return 0.0
    ordered = np.sort(np.array(values, np.float64))
    weights = 2.0 * np.arange(1, len(ordered) + 1) - len(ordered) - 1.0
    return max(0.0, float(weights @ ordered) / (len(ordered) * total))


def _shares(tops: Sequence[Top]) -> dict[int, float]:
    found = exposures([post.author for post in top] for top in tops)
    total = math.fsum(found.values())
    return {author: exposure / total for author, exposure in found.items()}


def _change(author: ShownAuthor, id_: int, shares: tuple[Mapping[int, float], Mapping[int, float]]) -> AuthorChange:
    return AuthorChange(author.name, author.followers, BeforeAfter(*(share.get(id_, 0.0) for share in shares)))


def _largest(changed: Iterable[AuthorChange]) -> tuple[AuthorChange, ...]:
    return tuple(sorted(changed, key=lambda author: (-abs(author.share.change), author.name))[:MOST_CHANGES])


def _buckets(changed: Sequence[AuthorChange]) -> tuple[ExposureBucket, ...]:
    found = []
    for least, following in zip(_LEAST_FOLLOWERS, (*_LEAST_FOLLOWERS[1:], None), strict=True):
        here = [
            author
            for author in changed
            if least <= author.followers and (following is None or author.followers < following)
        ]
        share = BeforeAfter(
            math.fsum(author.share.before for author in here), math.fsum(author.share.after for author in here)
        )
        found.append(ExposureBucket(least, None if following is None else following - 1, len(here), share))
    return tuple(found)


def _bins(overlaps: Iterable[float]) -> tuple[int, ...]:
    # Add a tolerance for rounding errors. For example, an overlap of 3 / 10 belongs to bin 3 of 10, although its product with 10
    # may be just below 3.
    counted = Counter(min(int(share_ * OVERLAP_BINS + 1e-9), OVERLAP_BINS - 1) for share_ in overlaps)
    return tuple(counted[at] for at in range(OVERLAP_BINS))


def _both(tops: Sequence[TwoTops], figure: Callable[[Sequence[Top]], float]) -> BeforeAfter:
    return BeforeAfter(figure([pair.before for pair in tops]), figure([pair.after for pair in tops]))


def _median_age(side: Sequence[Top]) -> float:
    ages = [post.age_hours for top in side for post in top]
    return median(ages) if ages else 0.0


def _mean(counts: Sequence[int]) -> float:
    return fmean(counts) if counts else 0.0
