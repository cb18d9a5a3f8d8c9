"""Helpers for tests of notifications, including commits that other parts of Shoal would make."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from shoal import Handle, Shoal
from shoal.app.network import Network
from shoal.commands import reactions, relationships
from shoal.core.events import Event, PollEnded, ReportFiled, RequestChanged
from shoal.core.ids import shard_of
from shoal.core.model import Member, Poll, PollOption, Post, Report, Role
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import (
    EVERYBODY,
    REQUESTED_BY,
    REQUESTS,
    SERVES,
    VOTES,
    AssocType,
)
from shoal.queries import notifications
from shoal.queries.notifications import Notification, NotificationQuery


async def noted(shoal: Shoal, who: Handle, wish: NotificationQuery = notifications.ALL) -> list[Notification]:
    """Return all notifications of a member, once all jobs have run."""
    await shoal.settle()
    return await all_of(shoal.network, who.id, wish)


async def all_of(
    network: Network, member: int, wish: NotificationQuery = notifications.ALL, limit: int = 3
) -> list[Notification]:
    """Return all current notifications, read by pages."""
    found: list[Notification] = []
    before: int | None = 2**63 - 1
    while before is not None:
        page = await notifications.page(network.reads, member, Cursor(before=before, limit=limit), wish)
        found += page.items
        before = page.next
    return found


async def heard(shoal: Shoal, who: Handle) -> list[str]:
    """Return the notifications in short form, newest first, such as `ben like`."""
    return [f"{item.actor.member.name} {item.notice.kind}" for item in await noted(shoal, who)]


async def repeat_everything(network: Network, events: Sequence[Event], table: Any) -> None:
    """Run all consequences of these events once more."""
    for event in events:
        for consequence in table[type(event)]:
            mark = 0
            while mark is not None:
                mark = await consequence(network.effects, event, mark)
                if isinstance(mark, asyncio.Future):
                    mark = await mark


async def relate(shoal: Shoal, one: int, atype: AssocType, other: int, event: Any = None, *, end: bool = False) -> None:
    """Add an association, or delete it if `end` is set, on the shard of `one`."""
    batch = Batch(shard_of(one))
    put = batch.assoc_del if end else batch.assoc_add
    put(one, atype, other, shoal.network.writes.new_id(batch.shard))
    if event is not None:
        batch.emit(event)
    await shoal.network.store.commit(batch)


async def watch(shoal: Shoal, who: Handle, whom: Handle) -> None:
    """Follow a member with notifications for every post."""
    await relationships.follow(shoal.network.writes, who.id, whom.id, relationships.FollowOptions(notify=True))


async def mute_thread(shoal: Shoal, who: Handle, root: Post) -> None:
    """Mute the thread of a post."""
    await reactions.mute_thread(shoal.network.writes, who.id, root.id)


def ask_to_follow(shoal: Shoal, who: Handle, whom: Handle, *, end: bool = False) -> Awaitable[None]:
    """Send a follow request, or withdraw it if `end` is set."""
    return relate(shoal, who.id, REQUESTS, whom.id, RequestChanged(member_id=who.id, other_id=whom.id), end=end)


def refuse(shoal: Shoal, who: Handle, whom: Handle) -> Awaitable[None]:
    """Reject the follow request of `whom`."""
    event = RequestChanged(member_id=whom.id, other_id=who.id)
    return relate(shoal, who.id, REQUESTED_BY, whom.id, event, end=True)


async def a_poll(shoal: Shoal, who: Handle, voters: Sequence[Handle], expires_at: int) -> Post:
    """Create a post with an ended poll and the votes of these members."""
    post = await who.create("which?")
    batch = Batch(shard_of(who.id))
    ids = [shoal.network.writes.new_id(batch.shard) for _ in range(3)]
    options = tuple(PollOption(id_, str(id_)) for id_ in ids[1:])
    batch.obj_add(Poll(id=ids[0], owner_id=who.id, post_id=post.id, options=options, expires_at=expires_at))
    batch.emit(PollEnded(poll_id=ids[0]))
    for voter in voters:
        await relate(shoal, voter.id, VOTES, ids[0])
    await shoal.network.store.commit(batch)
    return post


async def a_report(shoal: Shoal, who: Handle, whom: Handle) -> Report:
    """Report a member."""
    batch = Batch(shard_of(who.id))
    report = Report(id=shoal.network.writes.new_id(batch.shard), reporter_id=who.id, target_id=whom.id, comment="spam")
    batch.obj_add(report)
    batch.emit(ReportFiled(report_id=report.id))
    await shoal.network.store.commit(batch)
    return report


async def promote(shoal: Shoal, who: Handle, role: Role) -> None:
    """Change the staff role of a member."""
    node = (await shoal.network.store.obj_get((who.id,)))[who.id]
    assert isinstance(node, Member)
    batch = Batch(shard_of(who.id))
    fields = {name: getattr(node, name) for name in node.__struct_fields__}
    batch.obj_set(Member(**{**fields, "role": role, "version": node.version + 1}))
    put = batch.assoc_add if role is not Role.NONE else batch.assoc_del
    put(who.id, SERVES, EVERYBODY, shoal.network.writes.new_id(batch.shard))
    await shoal.network.store.commit(batch)
