"""Posts that members react to at present: a list for each data source, whose times say when the newest reaction came.

A time names the minute alone, so the entry of a post is the same whichever of the reactions of a minute is written, in
whatever order, how often and by how many processes: the latest minute wins. For example, post 7 is liked at 12:00:10, shared
at 12:00:50 and liked at 12:03:05. Each of two processes writes the first reaction of a minute that it hears of:

1. One hears of the share, then of the like of 12:03; it writes 12:00, then 12:03.
2. The other hears of the like of 12:03, then of the one of 12:00; it writes 12:03, then 12:00, which is older and lost.
3. The entry says 12:03. Hearing of any of them again changes nothing.
"""

from __future__ import annotations

from shoal.core.ids import SEQUENCE_BITS, SHARD_BITS, SPREAD, floor_at, milliseconds_of
from shoal.core.model import Post, Visibility

WINDOW_MS = 3 * 86_400_000
"""Age from which a reaction does not count any more, in milliseconds."""

_MINUTE_MS = 60_000
_PLACE_BITS = SHARD_BITS + SEQUENCE_BITS


def may_be_active(post: Post) -> bool:
    """Return whether reactions put the post into the list of its data source: it is public, and no comment."""
    return post.visibility is Visibility.PUBLIC and not post.parent_id


def active_at(post_id: int, reaction: int) -> int:
    """Return the time of a post's entry after a reaction, whose moment is given as an id.

    It is the beginning of the minute, and behind it, in place of shard and sequence, 23 bits of a hash of the post: of a
    thousand posts in the same minute of a list, two have the same time with a probability of 6 %. Then a reader whose
    limit ends between them misses one.
    """
    moment = milliseconds_of(reaction)
    place = (post_id * SPREAD & (1 << 64) - 1) >> 64 - _PLACE_BITS
    return floor_at(moment - moment % _MINUTE_MS) | place


def oldest_active(now: int) -> int:
    """Return a time that is earlier than every entry with a reaction that still counts; `now` in Unix milliseconds."""
    return floor_at(now - WINDOW_MS - _MINUTE_MS)
