"""Recognition of repeated requests: keys that lead to the result of the first one."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.errors import Gone, InvalidInput
from shoal.core.ids import shard_of
from shoal.core.model import Post, ScheduledPost
from shoal.graph.contract import Batch
from shoal.graph.schema import Key, idempotency_key, import_key
from shoal.services.writes import Writes

_IDEMPOTENCY_MS = 3_600_000
"""Milliseconds for which a repeated request is recognised."""

Keys = Sequence[tuple[Key, int]]
"""Keys by which a post is found again, and for how long each (in milliseconds; 0: for good)."""


def request_keys(writes: Writes, author_id: int, request: str, record: str = "") -> Keys:
    """Return the keys of a request that is recognised when repeated, and of the record of an import."""
    if len(request) > writes.limits.idempotency_key:
        raise InvalidInput(f"Idempotency-Key: at most {writes.limits.idempotency_key} characters")
    shard = shard_of(author_id)
    keys = [(idempotency_key(author_id, shard, request), _IDEMPOTENCY_MS)] if request else []
    return [*keys, (import_key(shard, record), 0)] if record else keys


def plan_key(shard: int, scheduled_id: int) -> tuple[Key, int]:
    """Return the key by which the post is found that a scheduled post has become."""
    return import_key(shard, f"scheduled:{scheduled_id}"), _IDEMPOTENCY_MS


def take_keys(batch: Batch, keys: Keys, id_: int, now: int) -> None:
    """Make the keys lead to the object that the batch makes."""
    for key, keep_ms in keys:
        batch.key_add(key, id_, until=now + keep_ms if keep_ms else 0)


async def made_before(writes: Writes, keys: Keys) -> Post | ScheduledPost | None:
    """Return the result of the first request with these keys; None if there was none.

    Raises `Gone` if it was deleted since.
    """
    found = await writes.graph.key_get([key for key, _ in keys])
    if not found:
        return None
    key, id_ = next(iter(found.items()))
    return await first_made(writes, key.shard, id_)


async def first_made(writes: Writes, shard: int, id_: int) -> Post | ScheduledPost:
    """Return the object that a key leads to; a scheduled post may have become a post. Raises `Gone`."""
    node = (await writes.graph.obj_get((id_,))).get(id_)
    if node is None:
        key, _ = plan_key(shard, id_)
        id_ = (await writes.graph.key_get((key,))).get(key, 0)
        node = (await writes.graph.obj_get((id_,))).get(id_)
    if not isinstance(node, Post | ScheduledPost):
        raise Gone("the post that this request made has been deleted; a new one needs a new key")
    return node
