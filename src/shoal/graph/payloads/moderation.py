"""Lists of moderation: the pictures of posts that moderators hid, and the posts that a bulk action changed.

The pictures are in lists of the data sources, so that the commit that hides a post can add them. They contain the blurhashes, and
remain after the author deletes the post.
"""

from __future__ import annotations

from msgspec.structs import replace

from shoal.core.bulk_moderation import BulkAction, Verb
from shoal.core.events import PostHidden, PostUpdated
from shoal.core.ids import shard_of
from shoal.core.model import HIDDEN_BY_MODERATION, Media, Post
from shoal.graph.contract import Assoc, Batch, Cursor, Reader
from shoal.graph.payloads.posts import hidden_batch
from shoal.graph.schema import BULK_CHANGED, PUBLIC_LISTS, REMOVED_PICTURES, public_list

MAX_REMOVED = 1_000
"""Maximum number of hidden posts, newest first, whose pictures are compared with new ones."""


async def blurhashes_of(graph: Reader, post: Post) -> list[str]:
    found = await graph.obj_get(post.media) if post.media else {}
    return [node.blurhash for id_ in post.media if isinstance(node := found.get(id_), Media) and node.blurhash]


async def removed_pictures(graph: Reader) -> list[str]:
    """Return the blurhashes of the pictures of the posts that moderators hid last."""
    lists = await graph.assoc_ranges(PUBLIC_LISTS, REMOVED_PICTURES, Cursor(limit=MAX_REMOVED))
    newest = sorted((entry for page in lists.values() for entry in page), key=lambda entry: entry.time, reverse=True)
    return [blurhash for entry in newest[:MAX_REMOVED] for blurhash in entry.data.decode().split()]


async def moderated_batch(graph: Reader, post: Post, *, hidden: bool, now: int, at: int) -> tuple[Post, Batch]:
    """Return a post that moderators hide or reveal, and the batch that stores it, with the list of removed pictures.

    `now` is an id of the current time, `at` the time in Unix milliseconds. The post is no longer part of bulk actions that hid it.
    """
    why = post.hidden | HIDDEN_BY_MODERATION if hidden else post.hidden & ~HIDDEN_BY_MODERATION
    after, batch = hidden_batch(post, why, at)
    public = public_list(batch.shard)
    for each in await bulk_marks(graph, post.id, "hide"):
        unmark(batch, each, post.id, now)
    if not hidden:
        batch.assoc_del(public, REMOVED_PICTURES, post.id, now)
        return after, batch
    batch.emit(PostHidden(post_id=post.id))
    if found := await blurhashes_of(graph, post):
        batch.assoc_add(public, REMOVED_PICTURES, post.id, now, " ".join(found).encode())
    return after, batch


async def bulk_marks(graph: Reader, post_id: int, verb: Verb) -> list[Assoc]:
    """Return the marks of the bulk actions that changed a post in this way."""
    marks = await graph.assoc_range(post_id, BULK_CHANGED, Cursor())
    return [mark for mark in marks if mark.data == verb.encode()]


async def bulk_batch(graph: Reader, post: Post, verb: Verb, *, on: bool, now: int, at: int) -> Batch:
    """Return the batch by which a bulk action changes a post, or changes it back. For `now` and `at`, see `moderated_batch`."""
    if verb == "hide":
        return (await moderated_batch(graph, post, hidden=on, now=now, at=at))[1]
    field = "sensitive" if verb == "mark_sensitive" else "untrendable"
    batch = Batch(shard_of(post.author_id))
    batch.obj_set(replace(post, version=post.version + 1, **{field: on}))
    if verb == "mark_sensitive":
        # The search index contains whether a post is sensitive, and pages that show the post change.
        mentioned = tuple(mention.id for mention in post.mentions)
        event = PostUpdated(
            post_id=post.id, author_id=post.author_id, visibility=post.visibility, mention_ids=mentioned
        )
        batch.emit(event)
    return batch


def mark(batch: Batch, post_id: int, action: BulkAction, now: int) -> None:
    batch.assoc_add(post_id, BULK_CHANGED, action.id, now, action.verb.encode())


def unmark(batch: Batch, mark: Assoc, post_id: int, now: int) -> None:
    batch.assoc_del(post_id, BULK_CHANGED, mark.id2, now)
