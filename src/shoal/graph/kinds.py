"""Kinds as stored, and the index of their posts.

Each kind is an object with its name as a key, and one list has all of them. The lists of the index contain posts (`INDEX_OF`), and
each post has its lists (`INDEXED`), so that a change of the post finds them whatever the declaration of the kind was.
"""

from __future__ import annotations

from shoal.core.errors import Conflict
from shoal.core.ids import shard_of
from shoal.core.kinds import MAX_KINDS, PostKind
from shoal.core.model import Post
from shoal.graph.access import objects_of
from shoal.graph.cache.coherence import another_request
from shoal.graph.contract import Batch, Cursor, Graph, Reader, find_object
from shoal.graph.schema import EVERYBODY, INDEXED, KINDS, index_id, kind_key


async def find_kind(graph: Reader, name: str) -> PostKind | None:
    """Return the kind with this name; None if there is none."""
    key = kind_key(name)
    return await find_object(graph, PostKind, (await graph.key_get((key,))).get(key, 0))


async def all_kinds(graph: Reader) -> list[PostKind]:
    """Return all kinds, by name."""
    # Concurrent additions may exceed the limit slightly.
    listed = await graph.assoc_range(EVERYBODY, KINDS, Cursor(limit=2 * MAX_KINDS))
    return sorted(await objects_of(graph, PostKind, [entry.id2 for entry in listed]), key=lambda kind: kind.name)


_AT_ONCE = 20
"""Lists changed in a commit: a DynamoDB transaction has at most 100 items, and an entry takes four."""
_MOST = 1_000
"""Upper bound of the lists that contain a post: 8 numbers or times have 48, and 4 pairs up to 24."""
_TRIES = 16
_GONE = 2**32 - 1
"""The version in the index of a deleted post."""


def index_names(post: Post | None, kind: PostKind | None) -> set[str]:
    """Return the names of the lists that must contain a post; empty if it does not exist or has no kind."""
    return kind.names(post) if post is not None and kind is not None and post.kind == kind.name else set()


async def index_post(graph: Graph, post_id: int, *, repair: bool = False) -> None:
    """Make the index contain a post as it is now. Idempotent, and safe when other processes do the same.

    The post is read again after each change, because it may have been changed concurrently. The data of an entry are the versions
    of the post and of its kind, so outdated changes have no effect. With `repair`, entries are changed whatever their versions are.
    """
    indexed = b""
    for _ in range(_TRIES):
        with another_request():
            post = await find_object(graph, Post, post_id)
            kind = await find_kind(graph, post.kind) if post is not None and post.kind else None
            version = (post.version if post else _GONE).to_bytes(4) + (kind.schema_version if kind else _GONE).to_bytes(
                4
            )
            if version == indexed or not await _index_once(
                graph, post_id, index_names(post, kind), version, repair=repair
            ):
                return
            indexed = version
    raise Conflict("the post kept changing while it was indexed; try again")


async def _index_once(graph: Graph, post_id: int, names: set[str], version: bytes, *, repair: bool) -> bool:
    """Put a post into the lists with these names only. Return whether anything was changed."""
    expected = set(map(index_id, names))
    entries = await graph.assoc_range(post_id, INDEXED, Cursor(limit=_MOST))
    listed = {entry.id2: entry.data for entry in entries}
    added, removed = expected - listed.keys(), listed.keys() - expected
    changes = [*((id_, True) for id_ in sorted(added)), *((id_, False) for id_ in sorted(removed))]
    former: dict[int, bytes] = {}
    if repair and changes:
        ended = await graph.assoc_ended(post_id, (INDEXED,), sorted(added))
        former = listed | {id_: entry.data for id_, entry in ended[INDEXED].items()}
    for start in range(0, len(changes), _AT_ONCE):
        batch = Batch(shard_of(post_id))
        for id_, alive in changes[start : start + _AT_ONCE]:
            data = _later(version, former.get(id_, b""))
            if alive:
                batch.assoc_add(post_id, INDEXED, id_, post_id, data)
            else:
                batch.assoc_del(post_id, INDEXED, id_, post_id, data)
        await graph.commit(batch)
    return bool(changes)


def _later(version: bytes, stored: bytes) -> bytes:
    """Return the version or, if it is not later than the stored one, the stored one with the next number at its end."""
    if version > stored:
        return version
    return stored[:8] + (int.from_bytes(stored[8:12]) + 1).to_bytes(4)
