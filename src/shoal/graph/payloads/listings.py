"""Which lists an entry stands in, so that lengths of lists are the counts that are told: the one rule, for all who change posts.

A comment that everybody may find is in the list `commented_by` of its parent; any other in `commented_aside_by`. So the length
of the first is what is told of a post, and a thread reads both. Every entry of a member is in `posted`. What not everybody
may find is in `posted_to_followers` or `posted_aside` as well, and is subtracted: few are.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.core.events import PostNarrowed
from shoal.core.model import OPEN, Post, Share, Visibility
from shoal.graph.contract import Batch
from shoal.graph.payloads.activity import may_be_active
from shoal.graph.schema import (
    ACTIVE,
    COMMENTS_ASIDE_ON,
    COMMENTS_ON,
    PINS,
    POSTED_ASIDE,
    POSTED_TO_FOLLOWERS,
    PUBLISHED,
    AssocType,
    public_list,
    tag_id,
)

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


def narrow(batch: Batch, before: Post, after: Post, now: int) -> None:
    """Take a post out of the lists that it may no longer be in, in the commit that narrows its visibility, if it does.

    Shares and the search index follow by the event. Tags and cells are the caller's, who may change the wording as well.
    """
    if before.visibility is after.visibility:
        return
    if before.published:
        batch.assoc_del(public_list(batch.shard), PUBLISHED, before.id, now)
    if may_be_active(before):
        batch.assoc_del(public_list(batch.shard), ACTIVE, before.id, now)
    if after.visibility is Visibility.DIRECT:
        batch.assoc_del(before.author_id, PINS, before.id, now)
    relist(batch, before, after, now)
    batch.emit(
        PostNarrowed(
            post_id=before.id,
            author_id=before.author_id,
            before=before.visibility,
            visibility=after.visibility,
            tag_ids=tuple(map(tag_id, before.tags)),
            mention_ids=tuple(mention.id for mention in before.mentions),
        )
    )
