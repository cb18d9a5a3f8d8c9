"""The effect of a wish: what "more like this" or "less like this" moves in the ranking of the post that it was said of."""

from __future__ import annotations

from typing import NamedTuple

from shoal.core.model import Post
from shoal.core.ranking.preferences import Interests, Wishes
from shoal.feeds.foryou.feed import recipe_for
from shoal.feeds.foryou.interests import interests_of, wished
from shoal.feeds.reads import Reads
from shoal.graph.access import members_by_id
from shoal.graph.payloads.members import tastes_of


class Effect(NamedTuple):
    """A term of a post before and after a tap."""

    author_id: int
    """The author who was meant; 0 where a tag was."""
    tag: str
    taps: int
    """All taps for more, less those for less: -5 to 5."""
    term: str
    """`author` or `tags`."""
    weight: float
    before: float
    """Value of the term, -1 to 1."""
    after: float
    words: str

    @property
    def contribution_before(self) -> float:
        """Part of the term in the score, before."""
        return self.before * self.weight

    @property
    def contribution(self) -> float:
        """Part of the term in the score from now on."""
        return self.after * self.weight


async def effect_of(reads: Reads, viewer: int, post: Post, tag: str, before: Wishes, after: Wishes) -> Effect:
    """Return what a change of the viewer's wishes moves, about a tag of a post or, where that is "", about its author."""
    interests = await interests_of(reads, viewer)
    weights = recipe_for(reads, await tastes_of(reads.graph, viewer)).weights
    was, now = [_value(await wished(reads, interests, wishes), post, tag) for wishes in (before, after)]
    weight = weights.tags if tag else weights.author
    if tag:
        meant = f"posts under #{tag}"
    else:
        authors = await members_by_id(reads.graph, (post.author_id,))
        meant = f"posts by @{authors[post.author_id].name}"
    return Effect(
        author_id=0 if tag else post.author_id,
        tag=tag,
        taps=after.tags.get(tag, 0) if tag else after.authors.get(post.author_id, 0),
        term="tags" if tag else "author",
        weight=weight,
        before=was,
        after=now,
        words=f"{meant} {_count_words((now - was) * weight)}",
    )


def _value(interests: Interests, post: Post, tag: str) -> float:
    if not tag:
        return interests.authors.get(post.author_id, 0.0)
    return max(-1.0, min(1.0, sum(interests.tags.get(name, 0.0) for name in post.tags)))


def _count_words(change: float) -> str:
    if not change:
        return "count as before"
    return f"count {abs(change):.2f} {'more' if change > 0 else 'less'} than before"
