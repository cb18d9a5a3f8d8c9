"""Write, encrypt and send due web push messages, concurrently with later jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from shoal.consumers.context import Effects
from shoal.consumers.members import drop_tokens
from shoal.core import events
from shoal.core.errors import NewerNeeded
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Member, Post, Token
from shoal.core.publishing import HeldContent
from shoal.core.text import isolated
from shoal.graph.access import association, declared_reactions
from shoal.graph.contract import Assoc, Batch, Cursor
from shoal.graph.payloads.notifications import ABOUT_POSTS, Notice, notice_of
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, NOTIFIED, PUSHES
from shoal.push import messages
from shoal.push.messages import MAX_SUBSCRIPTIONS, NoticeToSend, PushSubscription
from shoal.push.sender import PushSender, Sent

_log = logging.getLogger("shoal.push")

_GIVEN_UP_MS = 48 * 3_600_000
"""Milliseconds after which an unsent message is abandoned as outdated."""


async def due(effects: Effects, member_id: int, notice: Notice, time: int) -> Sequence[events.PushDue]:
    """Return the web push messages for a notification, to be added to its commit; none if the notification already exists.

    Takes one read, and up to two more if the member has subscriptions.
    """
    if effects.push_sender is None:
        return ()
    listed = await effects.graph.assoc_range(member_id, PUSHES, Cursor(limit=MAX_SUBSCRIPTIONS))
    subscriptions = [
        (assoc.id2, found) for assoc in listed if notice.kind in (found := messages.decode(assoc.data)).alerts
    ]
    if not subscriptions:
        return ()
    notification = await association(effects.graph, member_id, NOTIFIED, notice.id)
    if notification is not None and notification.time == time:
        return ()
    if any(found.policy != "all" for _, found in subscriptions) and notice.actor_id != member_id:
        subscriptions = await _allowed(effects, member_id, notice.actor_id, subscriptions)
    asked = effects.new_id(shard_of(member_id))
    return [
        events.PushDue(member_id=member_id, token_id=token_id, notice_id=notice.id, time=time, asked=asked)
        for token_id, _ in subscriptions
    ]


async def _allowed(
    effects: Effects, member_id: int, actor_id: int, subscriptions: Sequence[tuple[int, PushSubscription]]
) -> list[tuple[int, PushSubscription]]:
    between = await effects.graph.assoc_get(member_id, (FOLLOWS, FOLLOWED_BY), (actor_id,))
    allowed = {"all"}
    if between[FOLLOWS]:
        allowed.add("followed")
    if between[FOLLOWED_BY]:
        allowed.add("follower")
    return [subscription for subscription in subscriptions if subscription[1].policy in allowed]


async def send(effects: Effects, event: events.PushDue, mark: int) -> asyncio.Future[None] | None:
    """Start sending a push message, unless its notification was retracted, its session has ended, or it is two days old."""
    push_sender = effects.push_sender
    if push_sender is None or effects.new_id.now() - milliseconds_of(event.asked) > _GIVEN_UP_MS:
        return None
    subscription = await association(effects.graph, event.member_id, PUSHES, event.token_id)
    if subscription is None:
        return None
    endpoint = messages.decode(subscription.data).endpoint
    return push_sender.begin(endpoint, lambda: _send(effects, push_sender, event, subscription))


async def _send(effects: Effects, push_sender: PushSender, event: events.PushDue, subscription: Assoc) -> None:
    where = messages.decode(subscription.data)
    notification = await _message_content(effects, push_sender, event, where)
    if (
        notification is not None
        and await push_sender.deliver(where, messages.write(notification, push_sender.root)) is Sent.ENDED
    ):
        await _end(effects, event, subscription)


async def _message_content(
    effects: Effects, push_sender: PushSender, event: events.PushDue, where: PushSubscription
) -> NoticeToSend | None:
    """Return the content of a push message; None if its notification or recipient no longer exists."""
    graph = effects.graph
    notification = await association(graph, event.member_id, NOTIFIED, event.notice_id)
    if notification is None or notification.time != event.time:
        return None
    if (notice := notice_of(notification)) is None:
        raise NewerNeeded("this notification requires a newer Shoal")
    found = await graph.obj_get(list({event.member_id, event.token_id, notice.actor_id, notice.about} - {0}))
    member, token, actor = (found.get(id_) for id_ in (event.member_id, event.token_id, notice.actor_id))
    about = found.get(notice.about)
    if not (isinstance(member, Member) and isinstance(token, Token) and isinstance(actor, Member)):
        return None
    if token.is_expired(effects.new_id.now(), effects.lifetime):
        await drop_tokens(effects, member.id, (token.id,))
        return None
    if token.generation != member.generation or (notice.kind in ABOUT_POSTS and not isinstance(about, Post)):
        return None
    post = about if isinstance(about, Post) else None
    refusal = about.refusal if isinstance(about, HeldContent) else ""
    text = push_sender.key.open(where.sealed)
    named = (await declared_reactions(graph)).find(notice.emoji) if notice.emoji else None
    emoji = isolated(named.title) if named else notice.emoji
    return NoticeToSend(notice, notification.time, member.id, actor, post, where.language, text, refusal, emoji)


async def _end(effects: Effects, event: events.PushDue, subscription: Assoc) -> None:
    """Delete a push subscription that its push service no longer knows, unless the app has renewed it since."""
    now = await association(effects.graph, event.member_id, PUSHES, event.token_id)
    if now is None or now.data != subscription.data:
        return
    batch = Batch(shard_of(event.member_id))
    batch.assoc_del(event.member_id, PUSHES, event.token_id, effects.new_id(batch.shard))
    await effects.graph.commit(batch)
    _log.info("a push service ended a subscription of member %d", event.member_id)
