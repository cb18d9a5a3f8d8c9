"""How often each emoji stands on posts, and whether the viewer put it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from shoal.graph.contract import Assoc, Reader
from shoal.graph.payloads.posts import EmojiPlace, chosen_of, emoji_places
from shoal.graph.schema import EMOJI_PUT_BY


class EmojiCount(msgspec.Struct, frozen=True):
    """An emoji on a post."""

    emoji: str
    count: int
    me: bool
    """Whether the viewer put it there."""


async def emoji_counts(
    graph: Reader, post_ids: Sequence[int], mine: Mapping[int, Assoc]
) -> dict[int, tuple[EmojiCount, ...]]:
    """Return the emoji of each post, in the order in which they came there; two reads.

    `mine` are the viewer's `REACTS` associations with the posts.
    """
    found = await placed_counts(graph, post_ids, mine)
    return {post: tuple(count for _, count in counts) for post, counts in found.items()}


async def placed_counts(
    graph: Reader, post_ids: Sequence[int], mine: Mapping[int, Assoc]
) -> dict[int, list[tuple[EmojiPlace, EmojiCount]]]:
    """Return the emoji of each post as `emoji_counts` does, each with its place."""
    there = await emoji_places(graph, post_ids)
    ids = [place.id for places in there.values() for place in places]
    counts = (await graph.assoc_count(ids, (EMOJI_PUT_BY,)))[EMOJI_PUT_BY] if ids else {}
    chosen = {place.id for assoc in mine.values() for place in chosen_of(assoc)}
    return {
        post: [
            (place, EmojiCount(place.emoji, n, place.id in chosen)) for place in places if (n := counts.get(place.id))
        ]
        for post, places in there.items()
    }
