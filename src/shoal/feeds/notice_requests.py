"""Senders whose notifications a member's policy holds back: one request for each, the newest notification first.

Requests are made from the held notifications when they are read; nothing else is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.core.errors import NotFound
from shoal.feeds.hydrate import Entry, Profile
from shoal.feeds.merging.pull import check_limit
from shoal.feeds.notifications import shown
from shoal.feeds.reads import Reads
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.payloads.notifications import Notice, notice_of
from shoal.graph.schema import HELD

MOST_LOOKED_AT = 1_000
"""How many held notifications are looked at, from the newest."""
MOST_COUNTED = 100
"""Larger counts are not told exactly: nobody needs them, and they may grow without end."""

Held = tuple[Assoc, Notice]


class NoticeRequest(msgspec.Struct, frozen=True):
    """A sender, and what is held back of theirs: how many, the first and the last (snowflakes), the newest post of it."""

    sender: Profile
    count: int
    first: int
    last: int
    entry: Entry | None


class NoticeRequests(NamedTuple):
    """A page. `next` is the `before` of the page that follows; None at the end."""

    items: list[NoticeRequest]
    next: int | None


class HeldBack(NamedTuple):
    """How many requests there are, and notifications in them; each up to `MOST_COUNTED`."""

    requests: int
    notifications: int


async def page(reads: Reads, viewer: int, cursor: Cursor) -> NoticeRequests:
    """A page of requests; the cursor is the time of the newest notification of each."""
    check_limit(cursor)
    groups = [
        group for group in (await _by_sender(reads, viewer)).values() if cursor.after < group[0][0].time < cursor.before
    ]
    ordered = groups[::-1] if cursor.oldest_first else groups
    wanted = sorted(ordered[: cursor.limit], key=lambda group: -group[0][0].time)
    more = len(groups) > cursor.limit or cursor.oldest_first
    items = await _made(reads, viewer, wanted)
    return NoticeRequests(items, wanted[-1][0][0].time if more and wanted else None)


async def one(reads: Reads, viewer: int, sender_id: int) -> NoticeRequest:
    """The request of one sender. Raises `NotFound`."""
    group = (await _by_sender(reads, viewer)).get(sender_id)
    found = await _made(reads, viewer, [group]) if group else []
    if not found:
        raise NotFound("Record not found")
    return found[0]


async def held_back(reads: Reads, viewer: int) -> HeldBack:
    """How much waits for the viewer to decide."""
    groups = await _by_sender(reads, viewer)
    return HeldBack(min(len(groups), MOST_COUNTED), min(sum(map(len, groups.values())), MOST_COUNTED))


async def _by_sender(reads: Reads, viewer: int) -> dict[int, list[Held]]:
    """Held notifications by sender, newest first; the sender of the newest one comes first."""
    groups: dict[int, list[Held]] = {}
    for assoc in await reads.graph.assoc_range(viewer, HELD, Cursor(limit=MOST_LOOKED_AT)):
        if notice := notice_of(assoc):
            groups.setdefault(notice.actor_id, []).append((assoc, notice))
    return groups


async def _made(reads: Reads, viewer: int, groups: Sequence[Sequence[Held]]) -> list[NoticeRequest]:
    """Requests of these groups, without those of senders whom the viewer is not shown (any more)."""
    newest: Mapping[int, Sequence[Held]] = {group[0][0].time: group for group in groups}
    made = []
    for item in await shown(reads, viewer, [group[0] for group in groups]):
        group = newest[item.time]
        made.append(
            NoticeRequest(item.actor, min(len(group), MOST_COUNTED), group[-1][0].time, group[0][0].time, item.entry)
        )
    return made
