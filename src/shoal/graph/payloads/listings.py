"""Which lists an entry stands in, so that lengths of lists are the counts that are told: the one rule, for all who change posts.

A comment that everybody may find is in the list `commented_by` of its parent; any other in `commented_aside_by`. So the length
of the first is what is told of a post, and a thread reads both. Every entry of a member is in `posted`. What not everybody
may find is in `posted_to_followers` or `posted_aside` as well, and is subtracted: few are.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.core.model import OPEN, Post, Share, Visibility
from shoal.graph.contract import Batch
from shoal.graph.schema import COMMENTS_ASIDE_ON, COMMENTS_ON, POSTED_ASIDE, POSTED_TO_FOLLOWERS, AssocType

_Place = tuple[int, AssocType, int]


def places(entry: Post | Share) -> Iterator[_Place]:
    """The associations that say who may count the entry: as a comment, and as an entry that not everybody may find."""
    if isinstance(entry, Post) and entry.parent_id:
        yield entry.id, COMMENTS_ON if entry.open else COMMENTS_ASIDE_ON, entry.parent_id
    if isinstance(entry, Post) and (entry.hidden or entry.visibility is Visibility.DIRECT):
        yield entry.author_id, POSTED_ASIDE, entry.id
    elif entry.visibility not in OPEN:
        yield entry.author_id, POSTED_TO_FOLLOWERS, entry.id


def relist(batch: Batch, before: Post | Share | None, after: Post | Share | None, now: int) -> None:
    """Move an entry to its places in the commit that changes it; `now` is an id of the moment.

    A new entry has no `before`, a deleted one no `after`. It keeps its place in each list, whose time is its id.
    """
    had, has = set(places(before)) if before else set(), set(places(after)) if after else set()
    for id1, atype, id2 in had - has:
        batch.assoc_del(id1, atype, id2, now if after is None else after.id)
    for id1, atype, id2 in has - had:
        batch.assoc_add(id1, atype, id2, after.id if after else now)
    if after is None and isinstance(before, Post) and before.parent_id and not before.open:
        # Older networks had every comment in the one list.
        batch.assoc_del(before.id, COMMENTS_ON, before.parent_id, now)
