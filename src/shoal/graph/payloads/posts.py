"""Association payloads and list membership of posts: profile lists, threads, tags, cells, activity, emoji reactions, reports.

Every writer of posts uses these rules, so the length of a list equals the displayed count:

- A comment visible to everyone is in `commented_by` of its parent, any other in `commented_aside_by`; a thread reads both.
- Every entry of a member is in `posted`. Entries with a restricted audience are also in `posted_to_followers` or `posted_aside`,
  whose lengths are subtracted from that of `posted`.
- The root post of a thread lists every comment of the thread with its parent and author, so reading a thread takes one range read.
  The list remains if the root post is deleted.
- Public posts with a location are in the lists of their cells; readers hide posts that the viewer may not see.
- Activity times are rounded to the minute, so concurrent writers produce identical entries and the latest minute wins.
- An emoji position is an id on the post's shard with one of a fixed number of keys, which limits the number of emoji of a post.
  A declared reaction has the same associations, with its name in place of the emoji.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from shoal.core.events import PostNarrowed, ShareDeleted, TagsUsed
from shoal.core.ids import SEQUENCE_BITS, SHARD_BITS, SPREAD, floor_at, milliseconds_of, shard_of
from shoal.core.kind_index import kind_name
from shoal.core.model import OPEN, Post, Share, Visibility
from shoal.core.places import cells_of
from shoal.core.text import normalized, parse, tags_of
from shoal.graph.contract import Assoc, Batch, Cursor, Reader
from shoal.graph.schema import (
    ACTIVE,
    CHOOSES,
    COMMENTS_ON,
    IN_THREAD,
    PINS,
    PLACED_IN,
    POSTED,
    POSTED_RESTRICTED,
    POSTED_TO_FOLLOWERS,
    PUBLISHED,
    PUTS_EMOJI,
    REACTS,
    RESTRICTED_COMMENTS_ON,
    SHARES,
    SHOWS_EMOJI,
    VOTES,
    AssocType,
    Key,
    cell_id,
    emoji_position_key,
    index_id,
    public_list,
    share_key,
    tag_id,
    vote_key,
)

WINDOW_MS = 3 * 86_400_000
"""Age in milliseconds from which a reaction no longer counts."""

_MINUTE_MS = 60_000
_AUTHOR_BYTES = 8
_PLACE_BITS = SHARD_BITS + SEQUENCE_BITS


def may_be_active(post: Post) -> bool:
    return post.visibility is Visibility.PUBLIC and not post.parent_id


def active_at(post_id: int, reaction: int) -> int:
    """Return the time of a post's entry in the list of active posts, after a reaction at the time of the id `reaction`.

    The result is the start of the minute of the reaction, with 23 bits of a hash of the post in place of shard and sequence.
    Among a thousand posts in one minute of a list, two have equal times with a probability of 6 %; a reader whose page ends
    between these two misses one of them.
    """
    moment = milliseconds_of(reaction)
    offset = (post_id * SPREAD & (1 << 64) - 1) >> 64 - _PLACE_BITS
    return floor_at(moment - moment % _MINUTE_MS) | offset


def oldest_active(now: int) -> int:
    """Return a time older than the entries of all posts whose last reaction is recent enough to count.

    `now` is in Unix milliseconds.
    """
    return floor_at(now - WINDOW_MS - _MINUTE_MS)


_Listing = tuple[int, AssocType, int]


def listings(entry: Post | Share) -> Iterator[_Listing]:
    """Yield the associations that list a comment under its parent, and a restricted post or share under its author."""
    if isinstance(entry, Post) and entry.parent_id:
        yield entry.id, COMMENTS_ON if entry.open else RESTRICTED_COMMENTS_ON, entry.parent_id
    if isinstance(entry, Post) and (entry.hidden or entry.visibility is Visibility.DIRECT):
        yield entry.author_id, POSTED_RESTRICTED, entry.id
    elif entry.visibility not in OPEN:
        yield entry.author_id, POSTED_TO_FOLLOWERS, entry.id


def relist(batch: Batch, before: Post | Share | None, after: Post | Share | None, now: int) -> None:
    """Update the lists that contain a post or share, in the commit that changes it. `now` is an id of the current time.

    `before` is None for a new post or share, `after` for a deleted one. The time of the entry in each list is its id.
    """
    had, has = set(listings(before)) if before else set(), set(listings(after)) if after else set()
    for id1, atype, id2 in had - has:
        batch.assoc_del(id1, atype, id2, now if after is None else after.id)
    for id1, atype, id2 in has - had:
        author = (
            after.author_id.to_bytes(_AUTHOR_BYTES) if after and atype in (COMMENTS_ON, RESTRICTED_COMMENTS_ON) else b""
        )
        batch.assoc_add(id1, atype, id2, after.id if after else now, author)
    if after is None and isinstance(before, Post) and before.parent_id and not before.open:
        # Older versions listed every comment under its parent, even one that is not `open`, so delete that entry too.
        batch.assoc_del(before.id, COMMENTS_ON, before.parent_id, now)


def authors_of(comments: Iterable[Assoc]) -> list[int]:
    """Return the authors of the comments in a list, for the entries that contain the author.

    Use them only to prefetch: entries written by earlier versions have no author, and a repair may change this data.
    """
    return [int.from_bytes(entry.data) for entry in comments if len(entry.data) == _AUTHOR_BYTES]


def unlist(batch: Batch, post: Post, now: int) -> None:
    """Delete the entries of a post in the public lists of its data source. `now` is an id of the current time.

    A deletion needs a later time than the entry that it deletes, and the clock of the process that created the post may be ahead.
    So the time of the deletion is always later than that of the post. An entry in the list of active posts that is even later
    stays until it expires; readers ignore it.
    """
    if post.published:
        batch.assoc_del(public_list(batch.shard), PUBLISHED, post.id, max(now, post.id + 1))
    if may_be_active(post):
        batch.assoc_del(public_list(batch.shard), ACTIVE, post.id, now)


def narrow(batch: Batch, before: Post, after: Post, now: int) -> None:
    """Remove a post from lists, if its visibility becomes narrower, in the commit that changes it.

    The event of that commit updates shares and the search index. The caller updates tags and map cells, because the text may
    change as well.
    """
    if before.visibility is after.visibility:
        return
    unlist(batch, before, now)
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
            list_ids=list_ids(before),
        )
    )


class ThreadPosition(NamedTuple):
    id: int
    parent_id: int
    author_id: int
    """The author of the comment; 0 if it is unknown without reading the comment."""


def enter_thread(batch: Batch, post: Post) -> None:
    if post.root_id:
        batch.assoc_add(post.id, IN_THREAD, post.root_id, post.id, encoded_thread_position(post))


def leave_thread(batch: Batch, post: Post, now: int) -> None:
    if post.root_id:
        batch.assoc_del(post.id, IN_THREAD, post.root_id, now)


def encoded_thread_position(post: Post) -> bytes:
    """Return the data of the association that puts a comment in a thread: the ids of its parent and its author, 16 bytes."""
    return post.parent_id.to_bytes(8) + post.author_id.to_bytes(8)


def thread_position(assoc: Assoc) -> ThreadPosition:
    return ThreadPosition(assoc.id2, int.from_bytes(assoc.data[:8]), int.from_bytes(assoc.data[8:]))


def cell_ids(post: Post | None) -> frozenset[int]:
    """Return the ids of the map cells whose lists contain a post; empty for a post without a location."""
    if post is None or post.place is None or post.visibility is not Visibility.PUBLIC:
        return frozenset()
    return frozenset(map(cell_id, cells_of(post.place)))


def list_ids(post: Post) -> tuple[int, ...]:
    """Return the ids of the lists of its kind and its map cells that contain a post; none unless it is public."""
    kinds = (index_id(kind_name(post.kind)),) if post.kind and post.visibility is Visibility.PUBLIC else ()
    return (*kinds, *sorted(cell_ids(post)))


def move_between_cells(batch: Batch, before: Post | None, after: Post | None) -> None:
    """Update the map cells of a post in the commit that changes it. A new post has no `before`, a deleted one no `after`.

    The time of a post in the list of a cell is its id, as in the list of a tag. The data is the version of the post, which
    orders the changes.
    """
    had, has = cell_ids(before), cell_ids(after)
    post = after or before
    if post is None or had == has:
        return
    version = (after.version if after else post.version + 1).to_bytes(4)
    for cell in has - had:
        batch.assoc_add(post.id, PLACED_IN, cell, post.id, version)
    for cell in had - has:
        batch.assoc_del(post.id, PLACED_IN, cell, post.id, version)


def counted_tags(post: Post | None) -> dict[str, str]:
    """Return a post's canonical tags, each with its typed form; empty for a post that does not count: not public, or hidden."""
    if post is None or post.visibility is not Visibility.PUBLIC or post.hidden or not post.tags:
        return {}
    typed = dict(tags_of(post.text))
    if not typed.keys() >= set(post.tags):
        typed |= _lowercase_tags(post.text)
    return {tag: typed.get(tag, tag) for tag in post.tags}


def _lowercase_tags(text: str) -> dict[str, str]:
    """Return a text's tags by the form in which Shoal 0.2 and earlier stored them: NFKC in lower case, not case-folded."""
    typed: dict[str, str] = {}
    for span in parse(text):
        if span.kind == "tag":
            form = text[span.start + 1 : span.end]
            wave_dashes = form.replace("\uff5e", "\u301c")
            typed.setdefault(normalized("NFKC", normalized("NFKC", wave_dashes).lower()), form)
    return typed


def tags_used(before: Post | None, after: Post | None, at: int) -> TagsUsed | None:
    """Return the event for a commit that changes a post's tags at `at` (Unix ms); None if no count changes.

    A new post has no `before`, a deleted one no `after`. A tag whose typed form changes is removed and added.
    """
    had, has = counted_tags(before).items(), counted_tags(after).items()
    changes = [(name, form, 1) for name, form in has - had] + [(name, form, -1) for name, form in had - has]
    post = after or before
    if not changes or post is None:
        return None
    return TagsUsed(
        post_id=post.id,
        version=after.version if after else post.version + 1,
        author_id=post.author_id,
        written=post.created_at,
        at=at,
        changes=tuple(changes),
    )


def hidden_batch(post: Post, hidden: int, at: int) -> tuple[Post, Batch]:
    """Return the post with its reasons for being hidden replaced by `hidden` (0: visible), and the batch that stores it."""
    after = replace(post, hidden=hidden, version=post.version + 1)
    batch = Batch(shard_of(post.author_id))
    batch.obj_set(after)
    relist(batch, post, after, post.id)
    if (used := tags_used(post, after, at)) is not None:
        batch.emit(used)
    return after, batch


_MANY = 200
"""Maximum number of emoji positions to read; no post has as many."""
_BY_NAME = 255
"""The number of the positions of declared reactions, whose keys have the name instead."""


class EmojiPosition(NamedTuple):
    """An emoji or declared reaction on a post, and the id by which these reactions are counted."""

    id: int
    emoji: str
    """The emoji, or the name of a declared reaction."""


Positions: TypeAlias = Sequence[EmojiPosition]
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[tuple[EmojiPosition, ...]] = msgspec.msgpack.Decoder(tuple[EmojiPosition, ...])


def encode_chosen(positions: Iterable[EmojiPosition]) -> bytes:
    return _encoder.encode(tuple(positions))


def chosen_of(assoc: Assoc | None) -> tuple[EmojiPosition, ...]:
    """Decode the emoji with which a member reacted to a post, in the order in which the member added them."""
    return _decoder.decode(assoc.data) if assoc is not None else ()


def encode_position(position: int | str, emoji: str) -> bytes:
    """Encode the data of the association from a post to an emoji: the emoji's position on the post (one byte), and the emoji.

    The position is the one that `emoji_position_key` reserves.
    """
    return bytes((_BY_NAME if isinstance(position, str) else position,)) + emoji.encode()


def key_of_position(post_id: int, assoc: Assoc) -> Key:
    number, text = assoc.data[0], assoc.data[1:].decode()
    return emoji_position_key(shard_of(post_id), post_id, text if number == _BY_NAME else number)


def put_reactions(batch: Batch, member_id: int, post_id: int, time: int, *, had: Positions, has: Positions) -> None:
    """Replace the reactions of a member to a post. `had` are those as stored, and `has` the new ones, in the order of their use."""
    if has:
        batch.assoc_add(member_id, REACTS, post_id, time, encode_chosen(has))
    else:
        batch.assoc_del(member_id, REACTS, post_id, time)
    for position in had:
        if position not in has:
            batch.assoc_del(member_id, PUTS_EMOJI, position.id, time)
    for position in has:
        if position not in had:
            # An `EmojiPosition` does not refer to its post. So store the post's id as data: the consumer that writes the inverse
            # needs it to check whether the post still exists.
            batch.assoc_add(member_id, PUTS_EMOJI, position.id, time, post_id.to_bytes(8))


async def emoji_positions(graph: Reader, post_ids: Sequence[int]) -> dict[int, list[EmojiPosition]]:
    """Return the emoji with which each post was reacted to, oldest first, in one read. A post without reactions is missing."""
    found = await graph.assoc_ranges(post_ids, SHOWS_EMOJI, Cursor(limit=_MANY))
    return {
        post: [EmojiPosition(assoc.id2, assoc.data[1:].decode()) for assoc in reversed(listed)]
        for post, listed in found.items()
    }


_MOST = 32
"""Maximum number of reports of a post by one member that are kept, newest first."""
_SIZE = 8


def encode_reports(newest: int, before: Assoc | None) -> bytes:
    return (newest.to_bytes(_SIZE) + (before.data if before else b""))[: _MOST * _SIZE]


def reports_of(assoc: Assoc) -> list[int]:
    return [int.from_bytes(assoc.data[at : at + _SIZE]) for at in range(0, len(assoc.data), _SIZE)]


def unshare_batch(share: Share, now: int) -> Batch:
    """Return the batch that deletes a share. Its commit fails with `Missing` if the share no longer exists."""
    batch = Batch(shard_of(share.author_id))
    batch.obj_del(share)
    batch.assoc_del(share.author_id, POSTED, share.id, now)
    batch.assoc_del(share.author_id, POSTED_TO_FOLLOWERS, share.id, now)
    batch.assoc_del(share.author_id, SHARES, share.post_id, now, aggregate_id=share.post_author_id)
    batch.key_del(share_key(share.author_id, batch.shard, share.post_id), share.id)
    batch.expect(share.id)
    batch.emit(ShareDeleted(share_id=share.id, author_id=share.author_id))
    return batch


def vote_keys(voter_id: int, poll_id: int, options: int) -> list[Key]:
    shard = shard_of(voter_id)
    return [vote_key(voter_id, shard, poll_id, ordinal) for ordinal in range(max(1, options))]


def unvote_batch(voter_id: int, poll_id: int, option_ids: Iterable[int], votes: Mapping[Key, int], now: int) -> Batch:
    """Return the batch that deletes a member's votes in a poll; `votes` has the stored keys of `vote_keys` with their owners."""
    batch = Batch(shard_of(voter_id))
    batch.assoc_del(voter_id, VOTES, poll_id, now)
    for option in option_ids:
        batch.assoc_del(voter_id, CHOOSES, option, now)
    for key, vote in votes.items():
        batch.key_del(key, vote)
    return batch
