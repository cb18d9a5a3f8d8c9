"""Association payloads and list membership of posts: profile lists, threads, tags, cells, activity, emoji reactions, reports.

Every writer of posts uses these rules, so the length of a list equals the displayed count:
- A comment visible to everybody is in `commented_by` of its parent, any other in `commented_aside_by`; a thread reads both.
- Every entry of a member is in `posted`; restricted entries are in `posted_to_followers` or `posted_aside` too, and are
  subtracted.
- The thread root lists every comment below it with parent and author, so a thread is one range read. It outlives a deleted
  root.
- Public posts with a place are in the lists of their cells; readers hide what the viewer may not see.
- Activity times have minute precision, so concurrent writers produce the same entry and the latest minute wins.
- An emoji position is an id on the post's shard with one of a fixed number of keys, which bounds the emoji of a post.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from shoal.core.events import PostNarrowed, TagsUsed
from shoal.core.ids import SEQUENCE_BITS, SHARD_BITS, SPREAD, floor_at, milliseconds_of, shard_of
from shoal.core.model import OPEN, Post, Share, Visibility
from shoal.core.places import cells_of
from shoal.core.text import normalized, parse, tags_of
from shoal.graph.contract import Assoc, Batch, Cursor, Reader
from shoal.graph.schema import (
    ACTIVE,
    COMMENTS_ASIDE_ON,
    COMMENTS_ON,
    IN_THREAD,
    PINS,
    PLACED_IN,
    POSTED_ASIDE,
    POSTED_TO_FOLLOWERS,
    PUBLISHED,
    SHOWS_EMOJI,
    AssocType,
    Key,
    cell_id,
    emoji_place_key,
    public_list,
    tag_id,
)

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


class ThreadPlace(NamedTuple):
    """A comment in a thread."""

    id: int
    parent_id: int
    author_id: int
    """0 where that is not known without reading the comment."""


def enter_thread(batch: Batch, post: Post) -> None:
    """Add a new comment to its thread, in the commit that makes it."""
    if post.root_id:
        batch.assoc_add(post.id, IN_THREAD, post.root_id, post.id, place_of(post))


def leave_thread(batch: Batch, post: Post, now: int) -> None:
    """Remove a deleted comment from its thread; `now` is an id of the moment."""
    if post.root_id:
        batch.assoc_del(post.id, IN_THREAD, post.root_id, now)


def place_of(post: Post) -> bytes:
    """Return the data of a comment's association with its thread: its parent and its author, 16 bytes."""
    return post.parent_id.to_bytes(8) + post.author_id.to_bytes(8)


def placed(assoc: Assoc) -> ThreadPlace:
    """Decode a comment from the list of its thread."""
    return ThreadPlace(assoc.id2, int.from_bytes(assoc.data[:8]), int.from_bytes(assoc.data[8:]))


def cell_ids(post: Post | None) -> frozenset[int]:
    """Return the ids of the cells that a post is listed in; none for a post without a place."""
    if post is None or post.place is None or post.visibility is not Visibility.PUBLIC:
        return frozenset()
    return frozenset(map(cell_id, cells_of(post.place)))


def move_between_cells(batch: Batch, before: Post | None, after: Post | None) -> None:
    """Move a post to its cells in the commit that changes it. A new post has no `before`, a deleted one no `after`.

    Its time in a list is its id, as under a tag; the data, the version of the post, tell changes apart.
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
    """The tags with which a post counts, canonical, as they were typed: none unless it is public and in sight."""
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
    """The event of a change made at this moment (Unix ms), to go into its commit; None when nothing counts otherwise.

    A post that comes has no `before`, one that goes no `after`. A tag that is spelled otherwise goes and comes.
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
    """The post as it is when it is `hidden` for these reasons (0: in sight), and the batch that makes it so."""
    after = replace(post, hidden=hidden, version=post.version + 1)
    batch = Batch(shard_of(post.author_id))
    batch.obj_set(after)
    relist(batch, post, after, post.id)
    if (used := tags_used(post, after, at)) is not None:
        batch.emit(used)
    return after, batch


_MANY = 100
"""More places than a post ever has."""


class EmojiPlace(NamedTuple):
    """An emoji of a post, and the id at which it is counted there."""

    id: int
    emoji: str


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[tuple[EmojiPlace, ...]] = msgspec.msgpack.Decoder(tuple[EmojiPlace, ...])


def encode_chosen(places: Iterable[EmojiPlace]) -> bytes:
    """Return the data of a member's association with a post: every emoji that they put on it, at its place."""
    return _encoder.encode(tuple(places))


def chosen_of(assoc: Assoc | None) -> tuple[EmojiPlace, ...]:
    """Decode the emoji that a member put on a post, in the order in which they did."""
    return _decoder.decode(assoc.data) if assoc is not None else ()


def encode_place(number: int, emoji: str) -> bytes:
    """Return the data of a post's association with a place: the number of its key, a byte, and the emoji."""
    return bytes((number,)) + emoji.encode()


def key_of_place(post_id: int, assoc: Assoc) -> Key:
    """Return the key of a place on a post."""
    return emoji_place_key(shard_of(post_id), post_id, assoc.data[0])


async def emoji_places(graph: Reader, post_ids: Sequence[int]) -> dict[int, list[EmojiPlace]]:
    """Return the places of each post, the oldest first; a post without any is left out. One read."""
    found = await graph.assoc_ranges(post_ids, SHOWS_EMOJI, Cursor(limit=_MANY))
    return {
        post: [EmojiPlace(one.id2, one.data[1:].decode()) for one in reversed(listed)] for post, listed in found.items()
    }


_MOST = 32
"""Reports by one member of one post that are remembered there."""
_SIZE = 8
"""Bytes of an id."""


def encode_reports(newest: int, before: Assoc | None) -> bytes:
    """Return the data with a new report in front of those before it."""
    return (newest.to_bytes(_SIZE) + (before.data if before else b""))[: _MOST * _SIZE]


def reports_of(assoc: Assoc) -> list[int]:
    """Return the ids of the reports."""
    return [int.from_bytes(assoc.data[at : at + _SIZE]) for at in range(0, len(assoc.data), _SIZE)]
