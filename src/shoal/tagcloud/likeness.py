"""How much two tags belong together: pure arithmetic."""

from __future__ import annotations

import math

import msgspec


class RelatedTag(msgspec.Struct, frozen=True):
    """A tag that goes with another one."""

    name: str
    form: str
    """The spelling that most use."""
    uses: int
    together: int
    """In how many of the posts that were looked at both stand."""
    likeness: float
    """See `likeness`."""


def likeness(together: int, posts: int, uses: int, other_uses: int) -> float:
    """From 0 (never in one post) to 1 (always): the cosine n_ab / sqrt(n_a * n_b), where n_ab is estimated from a sample.

    `together` of the `posts` looked at, all of which have the one tag, have the other too; `uses` and `other_uses` are those of
    either tag in all. It is the coefficient of Ochiai (1957, "Zoogeographical studies on the soleoid fishes"), as used for tags
    by Cattuto, Benz, Hotho and Stumme (2008, "Semantic Grounding of Tag Relatedness in Social Bookmarking Systems"): a tag that
    stands everywhere stands beside this one as well, and that says little.
    """
    if not together or not posts:
        return 0.0
    return min(1.0, together / posts * math.sqrt(max(uses, posts) / max(other_uses, together)))
