"""Commands for web push subscriptions. A session has at most one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from shoal.commands.context import Writes
from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.graph.access import association
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Cursor, Reader
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import PUSHES
from shoal.push import messages
from shoal.push.encryption import check_key
from shoal.push.messages import MAX_SUBSCRIPTIONS, PushPolicy, PushSubscription, check_endpoint


async def subscribe(writes: Writes, member_id: int, token_id: int, subscription: PushSubscription) -> None:
    """Create or replace the push subscription of the session with this token. Beyond the limit, the oldest is removed.

    Raises `InvalidInput` for an invalid endpoint or key, and `NotFound` if the session has just ended.
    """
    check_endpoint(subscription.endpoint)
    check_key(subscription.key)

    async def attempt() -> None:
        listed = await writes.graph.assoc_range(member_id, PUSHES, Cursor(limit=2 * MAX_SUBSCRIPTIONS))
        others = [assoc.id2 for assoc in listed if assoc.id2 != token_id]
        batch = Batch(shard_of(member_id))
        for id_ in others[MAX_SUBSCRIPTIONS - 1 :]:
            batch.assoc_del(member_id, PUSHES, id_, writes.new_id(batch.shard))
        batch.expect(token_id)
        batch.assoc_add(member_id, PUSHES, token_id, writes.new_id(batch.shard), messages.encode(subscription))
        await writes.commit(batch)

    await retry_on_conflict(attempt)


async def found(graph: Reader, member_id: int, token_id: int) -> PushSubscription:
    """Return the push subscription of a session. Raises `NotFound` if the session has none."""
    subscription = await association(graph, member_id, PUSHES, token_id)
    if subscription is None:
        raise NotFound("Record not found")
    return messages.decode(subscription.data)


async def is_made(graph: Reader, member_id: int, token_id: int) -> bool:
    return await association(graph, member_id, PUSHES, token_id) is not None


async def change(
    writes: Writes, member_id: int, token_id: int, alerts: Sequence[Kind] | None, policy: PushPolicy | None
) -> PushSubscription:
    """Change the alerts or the policy of a push subscription; None keeps the value.

    Raises `NotFound` if there is no subscription.
    """
    before = await found(writes.graph, member_id, token_id)
    after = replace(
        before,
        alerts=before.alerts if alerts is None else tuple(map(str, alerts)),
        policy=policy or before.policy,
    )
    await subscribe(writes, member_id, token_id, after)
    return after


async def end(writes: Writes, member_id: int, token_id: int) -> None:
    batch = Batch(shard_of(member_id))
    batch.assoc_del(member_id, PUSHES, token_id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
