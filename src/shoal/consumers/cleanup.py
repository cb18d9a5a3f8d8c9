"""Delete what depends on a deleted post, poll or album, page by page, so that every count equals the number of live associations.

This covers likes, shares, bookmarks, reactions, reporters, revisions, media references, late tags, votes and album entries. When
the visibility of a post is narrowed, its shares that are no longer allowed are deleted; readers hide them anyway. An album, its
photos and the posts of these photos belong to one member, so each commit is on that member's shard.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial

from shoal.consumers.context import Effects
from shoal.consumers.notifications import forget
from shoal.core import events
from shoal.core.ids import floor_at, milliseconds_of, shard_of
from shoal.core.model import OPEN, Post, Revision, Share, Visibility
from shoal.core.visibility import may_share
from shoal.graph import schema
from shoal.graph.access import association, page_of
from shoal.graph.contract import Assoc, AssocOp, Batch, Cursor, Missing, find_object
from shoal.graph.media import release
from shoal.graph.payloads.members import collected_of
from shoal.graph.payloads.notifications import Kind, Notice
from shoal.graph.payloads.posts import (
    chosen_of,
    key_of_position,
    put_reactions,
    unshare_batch,
    unvote_batch,
    vote_keys,
)

_PAGE = 200
_CLOCKS_MS = 60_000
"""Upper bound in milliseconds of the clock difference between two processes."""

Clear = Callable[[Effects, events.PostDeleted, Assoc], Coroutine[None, None, None]]


async def clear_emoji_positions(effects: Effects, event: events.PostDeleted, mark: int) -> int | None:
    page = await effects.graph.assoc_range(event.post_id, schema.SHOWS_EMOJI, Cursor(limit=_PAGE))
    batch = Batch(shard_of(event.post_id))
    for position in page:
        batch.assoc_del(event.post_id, schema.SHOWS_EMOJI, position.id2, effects.new_id(batch.shard))
        batch.key_del(key_of_position(event.post_id, position), position.id2)
        batch.key_del(schema.emoji_id_key(batch.shard, position.id2), position.id2)
    if page:
        await effects.graph.commit(batch)
    return 1 if len(page) == _PAGE else None


async def release_media(effects: Effects, event: events.PostDeleted, mark: int) -> None:
    """Release the media of a deleted post. Media that other posts use are kept."""
    await _release(effects, event, event.media_ids)


async def _clear(
    atype: schema.AssocType, clear: Clear, effects: Effects, event: events.PostDeleted, mark: int
) -> int | None:
    """Clear a list page by page.

    Clearing removes the associations from the list, so the next page to clear is always the first.
    """
    page = await effects.graph.assoc_range(event.post_id, atype, Cursor(limit=_PAGE))
    await asyncio.gather(*(clear(effects, event, assoc) for assoc in page))
    await _end_strays(effects, event.post_id, atype, page, event.author_id if atype.aggregated else 0)
    return 1 if len(page) == _PAGE else None


async def _end_strays(
    effects: Effects, id1: int, atype: schema.AssocType, page: Sequence[Assoc], aggregate_id: int = 0
) -> None:
    """Delete the inverses of `page` that are still listed after `clear`: their associations are missing or not yet written.

    Otherwise the next page would contain them again, and cleanup would never end.
    """
    left = (await effects.graph.assoc_get(id1, (atype,), [assoc.id2 for assoc in page]))[atype] if page else {}
    batch = Batch(shard_of(id1))
    for assoc in left.values():
        op = AssocOp(id1, atype.number, assoc.id2, assoc.time + 1, alive=False, aggregate_id=aggregate_id, plain=True)
        batch.put(op)
    if batch.assocs:
        await effects.graph.commit(batch)


async def _clear_link(atype: schema.AssocType, effects: Effects, event: events.PostDeleted, member: Assoc) -> None:
    """Delete an association between a member and the post, without emitting an event."""
    batch = Batch(shard_of(member.id2))
    batch.assoc_del(member.id2, atype, event.post_id, effects.new_id(batch.shard), aggregate_id=event.author_id)
    await effects.graph.commit(batch)


async def _clear_reaction(effects: Effects, event: events.PostDeleted, member: Assoc) -> None:
    batch = Batch(shard_of(member.id2))
    now = effects.new_id(batch.shard)
    put_reactions(batch, member.id2, event.post_id, now, had=chosen_of(member), has=())
    await effects.graph.commit(batch)


async def _clear_share(effects: Effects, event: events.PostDeleted, sharer: Assoc) -> None:
    share = await find_object(effects.graph, Share, int.from_bytes(sharer.data))
    if share is not None:
        await _end_share(effects, share)


async def _end_share(effects: Effects, share: Share) -> None:
    """Delete a share. The event of the deletion removes the share from the timelines."""
    batch = unshare_batch(share, effects.new_id(shard_of(share.author_id)))
    # The sharer may have deleted the share concurrently. Then nothing is left to clear.
    with contextlib.suppress(Missing):
        await effects.graph.commit(batch)


async def _clear_revision(effects: Effects, event: events.PostDeleted, revision: Assoc) -> None:
    node = await find_object(effects.graph, Revision, revision.id2)
    if node is not None:
        await _release(effects, event, node.media)
    batch = Batch(shard_of(event.post_id))
    batch.assoc_del(event.post_id, schema.REVISED, revision.id2, effects.new_id(batch.shard))
    batch.obj_del(revision.id2)
    await effects.graph.commit(batch)


async def _release(effects: Effects, event: events.PostDeleted, media_ids: Sequence[int]) -> None:
    """Release the media of a post, one after the other. Media that no other post uses become unattached."""
    for id_ in media_ids:
        await release(effects.graph, effects.new_id, event.post_id, id_)


async def _clear_tag(effects: Effects, event: events.PostDeleted, tag: Assoc) -> None:
    batch = Batch(shard_of(event.post_id))
    batch.assoc_del(event.post_id, schema.TAGGED, tag.id2, effects.new_id(batch.shard))
    await effects.graph.commit(batch)


async def clear_votes(effects: Effects, event: events.PollRemoved, mark: int) -> int | None:
    page = await effects.graph.assoc_range(event.poll_id, schema.VOTED_BY, Cursor(limit=_PAGE))
    keys = {voter.id2: vote_keys(voter.id2, event.poll_id, len(event.option_ids)) for voter in page}
    stored = await effects.graph.key_get([key for each in keys.values() for key in each]) if keys else {}

    async def clear(voter: int, each: Sequence[schema.Key]) -> None:
        votes = {key: stored[key] for key in each if key in stored}
        now = effects.new_id(shard_of(voter))
        await effects.graph.commit(unvote_batch(voter, event.poll_id, event.option_ids, votes, now))

    await asyncio.gather(*(clear(voter, each) for voter, each in keys.items()))
    await _end_strays(effects, event.poll_id, schema.VOTED_BY, page)
    return 1 if len(page) == _PAGE else None


async def clear_late(effects: Effects, op: events.InverseOp) -> None:
    """Delete a late association of a deleted post or poll, or a late share that a narrowed visibility no longer allows.

    An association is late if its inverse arrives from another store after the post or poll was cleaned up.
    """
    of = int.from_bytes(op.data) if op.atype in _OF_NO_OBJECT else op.id1
    if op.atype not in _LATE or not op.alive or not of:
        return
    node = (await effects.graph.obj_get((of,))).get(of)
    invalidated = op.atype == schema.SHARED_BY.number and isinstance(node, Post) and not may_share(op.id2, node)
    if node is None or invalidated:
        await _LATE[op.atype](effects, op)


async def _late_reaction(clear: Clear, effects: Effects, op: events.InverseOp) -> None:
    await clear(effects, events.PostDeleted(post_id=op.id1, author_id=op.aggregate_id), Assoc(op.id2, op.time, op.data))


async def _late_vote(effects: Effects, op: events.InverseOp) -> None:
    # The data of this association has one byte per chosen option, so the vote has at most `len(op.data)` keys.
    votes = await effects.graph.key_get(vote_keys(op.id2, op.id1, len(op.data)))
    options = await _chosen(effects, op.id2, op.id1)
    await effects.graph.commit(unvote_batch(op.id2, op.id1, options, votes, effects.new_id(shard_of(op.id2))))


async def _chosen(effects: Effects, voter: int, poll_id: int) -> set[int]:
    """Return the options of a deleted poll that a member chose, found among all their votes since the poll was created."""
    at = Cursor(after=floor_at(milliseconds_of(poll_id) - _CLOCKS_MS), limit=_PAGE, oldest_first=True)
    options: set[int] = set()
    while True:
        page = await effects.graph.assoc_range(voter, schema.CHOOSES, at)
        options.update(choice.id2 for choice in page if choice.data == poll_id.to_bytes(8))
        if len(page) < _PAGE:
            return options
        # All choices of a vote have the same time, and a page may end in the middle of them: begin the next page at this time.
        at = at.past(page[-1].time - 1)


async def _late_end(atype: schema.AssocType, effects: Effects, op: events.InverseOp) -> None:
    batch = Batch(shard_of(op.id2))
    batch.assoc_del(op.id2, atype, op.id1, effects.new_id(batch.shard))
    await effects.graph.commit(batch)


_OF_NO_OBJECT = {schema.CHOSEN_BY.number, schema.EMOJI_PUT_BY.number}
"""Inverses whose `id1` is a poll option or an emoji position instead of an object. Their data is the id of the poll or post."""


clear_likes = partial(_clear, schema.LIKED_BY, partial(_clear_link, schema.LIKES))
clear_marks = tuple(partial(_clear, mark.inverse, partial(_clear_link, mark.atype)) for mark in schema.POST_MARKS)
clear_reactions = partial(_clear, schema.REACTED_BY, _clear_reaction)
clear_revisions = partial(_clear, schema.REVISED, _clear_revision)
# Each deleted share emits an event, which removes it from the timelines.
clear_shares = partial(_clear, schema.SHARED_BY, _clear_share)
# These associations hide the post from members who reported it. The reports themselves are kept.
clear_reporters = partial(_clear, schema.POST_REPORTED_BY, partial(_clear_link, schema.REPORTS_POST))
# A concurrent edit may have added tags to the post while it was being deleted.
clear_tags = partial(_clear, schema.TAGGED, _clear_tag)

_LATE: Mapping[int, Callable[[Effects, events.InverseOp], Awaitable[None]]] = {
    schema.LIKED_BY.number: partial(_late_reaction, partial(_clear_link, schema.LIKES)),
    **{mark.inverse.number: partial(_late_reaction, partial(_clear_link, mark.atype)) for mark in schema.POST_MARKS},
    schema.SHARED_BY.number: partial(_late_reaction, _clear_share),
    schema.REACTED_BY.number: partial(_late_reaction, _clear_reaction),
    schema.POST_REPORTED_BY.number: partial(_late_reaction, partial(_clear_link, schema.REPORTS_POST)),
    schema.EMOJI_PUT_BY.number: partial(_late_end, schema.PUTS_EMOJI),
    schema.VOTED_BY.number: _late_vote,
    schema.CHOSEN_BY.number: partial(_late_end, schema.CHOOSES),
}
"""The function that deletes each late association, by the number of its inverse."""


async def end_shares_of_narrowed(effects: Effects, event: events.PostNarrowed, mark: int) -> int | None:
    page, next_mark = await page_of(effects.graph, event.post_id, schema.SHARED_BY, mark, _PAGE)
    post = await find_object(effects.graph, Post, event.post_id) if page else None
    if post is None:
        return None
    shares = await effects.graph.obj_get([int.from_bytes(sharer.data) for sharer in page])
    await _end_invalidated(
        effects, post, [share for share in shares.values() if isinstance(share, Share) and _is_invalidated(share, post)]
    )
    return next_mark


async def end_late_share(effects: Effects, event: events.ShareCreated, mark: int) -> None:
    """Delete a share that was created while the visibility of its post was being narrowed."""
    found = await effects.graph.obj_get((event.share_id, event.shared_id))
    share, post = found.get(event.share_id), found.get(event.shared_id)
    if not isinstance(share, Share) or not isinstance(post, Post) or not _is_invalidated(share, post):
        return
    existing = await association(effects.graph, share.author_id, schema.SHARES, post.id)
    if existing is not None and int.from_bytes(existing.data) == share.id:
        await _end_invalidated(effects, post, [share])


def _is_invalidated(share: Share, post: Post) -> bool:
    """Return whether `commands.reactions.share` would reject this share if it were created now."""
    wider = post.visibility is Visibility.FOLLOWERS and share.visibility in OPEN
    return wider or not may_share(share.author_id, post)


async def _end_invalidated(effects: Effects, post: Post, shares: Sequence[Share]) -> None:
    await asyncio.gather(*(_end_share(effects, share) for share in shares))
    await forget(effects, post.author_id, [Notice(Kind.SHARE, share.author_id, post.id) for share in shares])


_ALBUM_PAGE = 15
"""Photos removed per commit: a DynamoDB transaction is limited to 100 items, and a photo takes up to six."""
_ALBUMS = 1_000
"""Maximum number of albums to read; no member may have as many."""


async def drop_photos(effects: Effects, event: events.PostDeleted, mark: int) -> None:
    """Remove the photos of a deleted post from all albums, except photos that were added to the album from another post."""
    for media_id in event.media_ids:
        there = await effects.graph.assoc_range(media_id, schema.COLLECTED_IN, Cursor(limit=_ALBUMS))
        batch = Batch(shard_of(media_id))
        for assoc in there:
            collected = await association(effects.graph, assoc.id2, schema.COLLECTS, media_id)
            if collected is None or collected_of(collected).post_id == event.post_id:
                batch.assoc_del(assoc.id2, schema.COLLECTS, media_id, effects.new_id(batch.shard))
        if batch.assocs:
            await effects.graph.commit(batch)


async def empty_album(effects: Effects, event: events.AlbumDeleted, mark: int) -> int | None:
    page = await effects.graph.assoc_range(event.album_id, schema.COLLECTS, Cursor(limit=_ALBUM_PAGE))
    batch = Batch(shard_of(event.album_id))
    for assoc in page:
        batch.assoc_del(event.album_id, schema.COLLECTS, assoc.id2, effects.new_id(batch.shard))
    if page:
        await effects.graph.commit(batch)
    return 1 if len(page) == _ALBUM_PAGE else None
