"""Dismiss notifications, change the notification policy, and store read positions (markers).

A dismissed notification does not return; a new action creates a new notification. The policy may hold notifications of a sender
for approval. Accepting the sender shows the held notifications, and later ones are not held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from shoal.commands.context import Writes
from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.core.model import Member, NoticePolicy, Treatment
from shoal.graph.access import access_member, pages_of
from shoal.graph.changes import change_object
from shoal.graph.contract import MAX_TIME, Assoc, Batch, Cursor
from shoal.graph.payloads.members import CLEARED, Mark, encode_mark, mark_id, marks
from shoal.graph.payloads.notifications import Group, ended, group_of, notice_of, release
from shoal.graph.schema import ACCEPTS_NOTICES, HELD, MARKED, NOTIFIED

_PAGE = 1_000
_MOST = 5_000
"""Maximum number of notifications dismissed per request for a group."""


async def dismiss(writes: Writes, member_id: int, time: int) -> None:
    """Dismiss the notification with this time. Raises `NotFound` if there is none."""
    found: list[Assoc] = []
    if 0 < time < MAX_TIME:
        found = await writes.graph.assoc_range(member_id, NOTIFIED, Cursor(before=time + 1, after=time - 1, limit=1))
    if not found:
        raise NotFound("Record not found")
    await _end(writes, member_id, found)


async def dismiss_group(writes: Writes, member_id: int, group: Group) -> None:
    found: list[Assoc] = []
    async for page in pages_of(writes.graph, member_id, NOTIFIED, _PAGE, before=group.last, after=group.first):
        found += [assoc for assoc in page if (of := notice_of(assoc)) and group_of(of, assoc.time) == group]
        if len(found) >= _MOST:
            break
    await _end(writes, member_id, found)


async def clear(writes: Writes, member_id: int) -> None:
    """Dismiss all notifications, however many, by hiding everything up to the newest one."""
    newest = await writes.graph.assoc_range(member_id, NOTIFIED, Cursor(limit=1))
    if newest:
        before = (await marks(writes.graph, member_id, (CLEARED,))).get(CLEARED)
        version = before.version + 1 if before else 1
        batch = Batch(shard_of(member_id))
        data = encode_mark(newest[0].time, version)
        batch.assoc_add(member_id, MARKED, mark_id(CLEARED), writes.new_id(batch.shard), data)
        await writes.graph.commit(batch)


async def _end(writes: Writes, member_id: int, found: Sequence[Assoc]) -> None:
    if found:
        batch = Batch(shard_of(member_id))
        for assoc in found:
            batch.put(ended(member_id, assoc))
        await writes.graph.commit(batch)


_MAX_HELD = 10_000


async def set_policy(writes: Writes, member_id: int, changes: dict[str, Treatment]) -> NoticePolicy:
    """Change policy rules by their name in `NoticePolicy`, and return the new policy."""
    updates: dict[str, Any] = {**changes}

    def change(member: Member) -> Member:
        return replace(member, notices=replace(member.notices, **updates))

    return (await change_object(writes.graph, lambda: access_member(writes.graph, member_id), change)).notices


async def accept_requests(writes: Writes, member_id: int, senders: Collection[int]) -> None:
    """Release the notifications of these senders that the policy holds for approval, and stop holding their later ones.

    Raises `NotFound` if one of them has no held notifications.
    """
    held = await _held_of(writes, member_id, senders)
    batch = Batch(shard_of(member_id))
    for sender in senders:
        batch.assoc_add(member_id, ACCEPTS_NOTICES, sender, writes.new_id(batch.shard))
    release(batch, member_id, held)
    await writes.graph.commit(batch)


async def dismiss_requests(writes: Writes, member_id: int, senders: Collection[int]) -> None:
    """Dismiss the notifications of these senders that the policy holds for approval. Later ones are held again.

    Raises `NotFound` if one of them has no held notifications.
    """
    batch = Batch(shard_of(member_id))
    for assoc in await _held_of(writes, member_id, senders):
        batch.put(ended(member_id, assoc, HELD))
    await writes.graph.commit(batch)


async def _held_of(writes: Writes, member_id: int, senders: Collection[int]) -> list[Assoc]:
    found: list[Assoc] = []
    actors: set[int] = set()
    looked = 0
    async for page in pages_of(writes.graph, member_id, HELD, _PAGE):
        matching = [(assoc, notice) for assoc in page if (notice := notice_of(assoc)) and notice.actor_id in senders]
        found += [assoc for assoc, _ in matching]
        actors |= {notice.actor_id for _, notice in matching}
        looked += len(page)
        if looked >= _MAX_HELD:
            break
    if actors != set(senders):
        raise NotFound("Record not found")
    return found


async def set_markers(writes: Writes, member_id: int, read: Mapping[str, int]) -> dict[str, Mark]:
    """Set the read positions (markers) of several timelines atomically, and return them. Each marker has its own version."""
    if not read:
        return {}
    before = await marks(writes.graph, member_id, read)
    batch = Batch(shard_of(member_id))
    for name, last_read_id in read.items():
        version = before[name].version + 1 if name in before else 1
        data = encode_mark(last_read_id, version)
        batch.assoc_add(member_id, MARKED, mark_id(name), writes.new_id(batch.shard), data)
    await writes.graph.commit(batch)
    return await marks(writes.graph, member_id, read)
