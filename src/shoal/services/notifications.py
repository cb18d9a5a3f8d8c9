"""Dismissal of notifications: one, a group, or all. Dismissed ones do not come back; new acts bring new ones."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.errors import NotFound
from shoal.core.ids import shard_of
from shoal.graph.contract import MAX_TIME, Assoc, Batch, Cursor
from shoal.graph.payloads.members import CLEARED, encode_mark, mark_id, marks
from shoal.graph.payloads.notifications import Group, ended, group_of, notice_of
from shoal.graph.schema import MARKED, NOTIFIED
from shoal.services.writes import Writes

_PAGE = 1_000
_MOST = 5_000
"""Notifications of a group that one request dismisses."""


async def dismiss(writes: Writes, member_id: int, time: int) -> None:
    """Dismiss the notification with this time. Raises `NotFound`."""
    found: list[Assoc] = []
    if 0 < time < MAX_TIME:
        found = await writes.graph.assoc_range(member_id, NOTIFIED, Cursor(before=time + 1, after=time - 1, limit=1))
    if not found:
        raise NotFound("Record not found")
    await _end(writes, member_id, found)


async def dismiss_group(writes: Writes, member_id: int, group: Group) -> None:
    """Dismiss all notifications of a group; nothing happens when there are none."""
    found: list[Assoc] = []
    before = group.last
    while len(found) < _MOST:
        page = await writes.graph.assoc_range(
            member_id, NOTIFIED, Cursor(before=before, after=group.first, limit=_PAGE)
        )
        found += [assoc for assoc in page if (of := notice_of(assoc)) and group_of(of, assoc.time) == group]
        if len(page) < _PAGE:
            break
        before = page[-1].time
    await _end(writes, member_id, found)


async def clear(writes: Writes, member_id: int) -> None:
    """Dismiss all notifications: all that are not newer than the newest are hidden from now on, however many."""
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
