"""Create and retract notifications, according to each member's policy.

A notification has the time of the action in the graph, so processing an event twice, late or out of order does not change the list.
For likes, follows and follow requests the graph is read again afterwards, so that an outdated notification is retracted.

When a post is deleted, its notifications are retracted page by page, except for members who watched the author, shared the post or
voted in its poll. Readers skip notifications of deleted posts, so retraction only keeps lists from filling up with invisible
entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

from shoal.consumers import push
from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.ids import milliseconds_of, now_ms, shard_of
from shoal.core.model import (
    ACCEPT_ALL,
    Member,
    NoticePolicy,
    Poll,
    Post,
    Report,
    Role,
    ScheduledPost,
    Share,
    Treatment,
    Visibility,
)
from shoal.core.visibility import Relation, may_see, may_see_share
from shoal.graph.access import association, page_of, relations
from shoal.graph.contract import Assoc, Batch, find_object
from shoal.graph.payloads.conversations import root_of
from shoal.graph.payloads.follows import follow_terms
from shoal.graph.payloads.notifications import NEVER_HELD, Kind, Notice, begun, end_of_poll, ended, release, unpublished
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import (
    ACCEPTS_NOTICES,
    EVERYBODY,
    FOLLOWED_BY,
    FOLLOWS,
    HELD,
    LIKED_BY,
    LIKES,
    MUTES_THREAD,
    NOTIFIED,
    PUTS_EMOJI,
    REACTED_BY,
    REQUESTED_BY,
    REQUESTS,
    SHARED_BY,
    STAFF,
    VOTED_BY,
    WATCHED_BY,
    AssocType,
    is_tag,
)
from shoal.outbox.runner import Outcome
from shoal.streaming import updates

_DAY_MS = 86_400_000
_NEW_MS = 30 * _DAY_MS
"""Age in milliseconds below which an account counts as new."""
_FOLLOWER_MS = 3 * _DAY_MS
"""Age in milliseconds below which a follower still counts as a member who does not follow."""


async def is_welcome(effects: Effects, member_id: int, actor_id: int, post: Post | None) -> bool:
    """Return whether the member accepts a notification by this actor, about the post if there is one. Takes three reads.

    The member does not accept it from a suspended actor, if one of them has blocked the other, if the member has muted the actor's
    notifications or the thread, or may not see the post. Notifications that already exist are filtered by `queries.notifications`.
    """
    return await _meeting(effects, member_id, actor_id, post) is not None


async def _reception(effects: Effects, member_id: int, notice: Notice, post: Post | None) -> Treatment:
    """Return how to treat a notification: `DROP` if the member must not get it, otherwise by the member's policy.

    Takes three reads, and two more if the member has a policy.
    """
    met = await _meeting(effects, member_id, notice.actor_id, post)
    if met is None:
        return Treatment.DROP
    member, actor, relation = met
    if member.notices == ACCEPT_ALL or notice.kind in NEVER_HELD or actor.role is not Role.NONE:
        return Treatment.ACCEPT
    between = await effects.graph.assoc_get(member_id, (ACCEPTS_NOTICES, FOLLOWED_BY), (actor.id,))
    if actor.id in between[ACCEPTS_NOTICES]:
        return Treatment.ACCEPT
    now = now_ms()
    fan = between[FOLLOWED_BY].get(actor.id)
    follows_since = milliseconds_of(follow_terms(fan.data).began(fan.time)) if fan else now
    private = notice.kind is Kind.MENTION and post is not None and post.visibility is Visibility.DIRECT
    answers = not private or await _began_thread(effects, member_id, post)
    rules = _rules(member.notices, actor, relation, now, follows_since, answers=answers)
    return max(rules, key=list(Treatment).index, default=Treatment.ACCEPT)


def _rules(
    policy: NoticePolicy, actor: Member, relation: Relation, now: int, follows_since: int, *, answers: bool
) -> Iterator[Treatment]:
    """Yield how each policy rule that applies treats a notification.

    `answers` is False for a private mention that answers neither a post nor a thread of the recipient.
    """
    if now - follows_since < _FOLLOWER_MS:
        yield policy.not_followers
    if relation.following:
        return
    yield policy.not_following
    if now - actor.created_at < _NEW_MS:
        yield policy.new_accounts
    if actor.silenced:
        yield policy.limited_accounts
    if not answers:
        yield policy.private_mentions


async def _began_thread(effects: Effects, member_id: int, post: Post | None) -> bool:
    if post is None or not post.parent_id:
        return False
    root = await find_object(effects.graph, Post, post.root_id)
    return post.parent_author_id == member_id or (root is not None and root.author_id == member_id)


async def _meeting(
    effects: Effects, member_id: int, actor_id: int, post: Post | None
) -> tuple[Member, Member, Relation] | None:
    """Return the member, the actor and the member's relation to the actor; None if the member must not get the notification."""
    graph = effects.graph
    author_id = post.author_id if post else actor_id
    nodes = await graph.obj_get(list({member_id, actor_id, author_id}))
    member, actor = nodes.get(member_id), nodes.get(actor_id)
    if not isinstance(member, Member) or not isinstance(actor, Member) or actor.suspended:
        return None
    state = await relations(graph, member_id, {actor_id, author_id})
    if state[actor_id].severed or state[actor_id].muting_notifications:
        return None
    if post is not None:
        author = nodes.get(author_id)
        if not may_see(member_id, post, author if isinstance(author, Member) else None, state[author_id]):
            return None
        root = root_of(post)
        if root in (await graph.assoc_get(member_id, (MUTES_THREAD,), (root,)))[MUTES_THREAD]:
            return None
    return member, actor, state[actor_id]


_PAGE = 100
"""Number of members that are notified before other jobs run."""

StoredNotices = Mapping[AssocType, Mapping[int, Assoc]]
"""Stored notifications of a member by notice id. The outer keys tell shown notifications from held ones."""
ActionState = Callable[[], Awaitable[int | None]]
"""A callback that returns the time of an action; None if the action was not done or was undone."""


async def tell_mentioned(effects: Effects, event: events.PostCreated, mark: int) -> Outcome:
    if not event.mention_ids:
        return None
    return await effects.background.begin(_tell_named(effects, event.post_id, event.mention_ids, event.post_id))


async def tell_newly_mentioned(effects: Effects, event: events.PostUpdated, mark: int) -> Outcome:
    """Notify the members that an edit mentions for the first time. The notification has the time of the edit."""
    if not event.mentions_added:
        return None
    return await effects.background.begin(_tell_named(effects, event.post_id, event.mentions_added, event.revision_id))


async def _tell_named(effects: Effects, post_id: int, members: Sequence[int], time: int) -> None:
    post = await find_object(effects.graph, Post, post_id)
    if post is not None:
        named = {mention.id for mention in post.mentions}.intersection(members)
        await _tell_each(effects, named, Notice(Kind.MENTION, post.author_id, post.id), time, post)


async def tell_watchers(effects: Effects, event: events.PostCreated, mark: int) -> int | None:
    """Notify the members who asked for notifications of the author's new posts.

    A reply to another author notifies none of them. Members whom the post mentions are skipped, because they get a notification of
    the mention.
    """
    if event.visibility is Visibility.DIRECT:
        return None
    # Read the watchers first: most authors have none, and then the post need not be read.
    page, next_mark = await page_of(effects.graph, event.author_id, WATCHED_BY, mark, _PAGE)
    post = await find_object(effects.graph, Post, event.post_id) if page else None
    if post is None or (post.parent_id and post.parent_author_id != post.author_id):
        return None
    watchers = [watcher.id2 for watcher in page if watcher.id2 not in event.mention_ids]
    await _tell_each(effects, watchers, Notice(Kind.POST, post.author_id, post.id), post.id, post)
    return next_mark


async def tell_sharers(effects: Effects, event: events.PostUpdated, mark: int) -> int | None:
    """Notify the members who shared an edited post, unless the edit mentions them for the first time."""
    post = await find_object(effects.graph, Post, event.post_id)
    if post is None or not event.revision_id:
        return None
    page, next_mark = await page_of(effects.graph, post.id, SHARED_BY, mark, _PAGE)
    sharers = [sharer.id2 for sharer in page if sharer.id2 not in event.mentions_added]
    await _tell_each(effects, sharers, Notice(Kind.EDIT, post.author_id, post.id), event.revision_id, post)
    return next_mark


async def tell_of_like(effects: Effects, event: events.LikeChanged, mark: int) -> Outcome:
    if event.member_id == event.author_id:
        return None
    notice = Notice(Kind.LIKE, event.member_id, event.post_id)
    done = _state_of(effects, event.member_id, LIKES, event.post_id)
    return await effects.background.begin(_settle_of_post(effects, event, notice, done))


async def tell_of_reaction(effects: Effects, event: events.ReactionChanged, mark: int) -> Outcome:
    if event.member_id == event.author_id:
        return None
    notice = Notice(Kind.REACTION, event.member_id, event.post_id, event.emoji)
    done = _state_of(effects, event.member_id, PUTS_EMOJI, event.place_id)
    return await effects.background.begin(_settle_of_post(effects, event, notice, done))


async def _settle_of_post(
    effects: Effects, event: events.LikeChanged | events.ReactionChanged, notice: Notice, done: ActionState
) -> None:
    async def state() -> int | None:
        # Check the post as well, because reactions to a deleted post still exist until they are cleaned up.
        return await done() if await find_object(effects.graph, Post, event.post_id) is not None else None

    post = await find_object(effects.graph, Post, event.post_id)
    await _settle(effects, event.author_id, notice, state, post)


async def tell_of_share(effects: Effects, event: events.ShareCreated, mark: int) -> asyncio.Future[None]:
    """Notify the author of a shared post, if the author may see the share."""
    return await effects.background.begin(_tell_of_share(effects, event))


async def _tell_of_share(effects: Effects, event: events.ShareCreated) -> None:
    found = await effects.graph.obj_get((event.share_id, event.author_id))
    share, sharer = found.get(event.share_id), found.get(event.author_id)
    post = await find_object(effects.graph, Post, share.post_id) if isinstance(share, Share) else None
    if post is None or not isinstance(share, Share) or not isinstance(sharer, Member):
        return
    relation = (await relations(effects.graph, post.author_id, (sharer.id,)))[sharer.id]
    if may_see_share(post.author_id, share, sharer, relation):
        await _tell_each(effects, (post.author_id,), Notice(Kind.SHARE, sharer.id, post.id), share.id, post)


async def tell_of_follow(effects: Effects, event: events.FollowChanged, mark: int) -> Outcome:
    if is_tag(event.source_id):
        return None
    state = _began(effects, event.follower_id, FOLLOWS, event.source_id)
    notice = Notice(Kind.FOLLOW, event.follower_id)
    return await effects.background.begin(_settle(effects, event.source_id, notice, state, None))


async def tell_of_request(effects: Effects, event: events.RequestChanged, mark: int) -> None:
    """Notify the recipient of a follow request, unless it was withdrawn or answered since."""
    asks = _began(effects, event.member_id, REQUESTS, event.other_id)
    asked = _state_of(effects, event.other_id, REQUESTED_BY, event.member_id)

    async def state() -> int | None:
        return await asks() if await asked() is not None else None

    await _settle(effects, event.other_id, Notice(Kind.REQUEST, event.member_id), state, None)


async def tell_voters(effects: Effects, event: events.PollEnded, mark: int) -> int | None:
    poll = await find_object(effects.graph, Poll, event.poll_id)
    post = await find_object(effects.graph, Post, poll.post_id) if poll is not None else None
    if poll is None or post is None:
        return None
    page, next_mark = await page_of(effects.graph, poll.id, VOTED_BY, mark, _PAGE)
    members = {voter.id2 for voter in page} | {poll.owner_id}
    time = end_of_poll(poll.id, poll.expires_at)
    await _tell_each(effects, members, Notice(Kind.POLL, poll.owner_id, post.id), time, post)
    return next_mark


async def tell_of_refusal(effects: Effects, event: events.PublishRefused, mark: int) -> None:
    scheduled = await find_object(effects.graph, ScheduledPost, event.scheduled_id)
    if scheduled is not None and scheduled.refused:
        await note(effects, scheduled.owner_id, unpublished(scheduled), event.time)


async def tell_of_held(effects: Effects, event: events.ContentHeld, mark: int) -> int | None:
    """Notify moderators that content of a member waits for approval, with one notification for each member."""
    return await _tell_staff(effects, Notice(Kind.HELD, event.member_id), event.held_id, mark)


async def tell_of_decision(effects: Effects, event: events.HeldDecided, mark: int) -> None:
    # The actor of this notification is the author, so that the moderator stays anonymous.
    kind = Kind.APPROVED if event.approved else Kind.REJECTED
    await note(effects, event.member_id, Notice(kind, event.member_id, event.about), event.time)


async def forget(effects: Effects, member_id: int, notices: Iterable[Notice]) -> None:
    await _end(effects, member_id, await _stored_notices(effects, member_id, notices))


async def _stored_notices(effects: Effects, member_id: int, notices: Iterable[Notice]) -> StoredNotices:
    ids = [notice.id for notice in notices]
    return await effects.graph.assoc_get(member_id, (NOTIFIED, HELD), ids) if ids else {}


async def _end(effects: Effects, member_id: int, stored: StoredNotices) -> None:
    if any(stored.values()):
        batch = Batch(shard_of(member_id))
        for atype, assocs in stored.items():
            for assoc in assocs.values():
                batch.put(ended(member_id, assoc, atype))
        await effects.graph.commit(batch)


async def tell(effects: Effects, member_id: int, notice: Notice, time: int, post: Post | None) -> None:
    """Notify a member, hold the notification, or drop it, according to the member's policy."""
    treatment = await _reception(effects, member_id, notice, post)
    if treatment is Treatment.ACCEPT:
        await note(effects, member_id, notice, time)
    elif treatment is Treatment.FILTER:
        await _hold(effects, member_id, notice, time)


async def _hold(effects: Effects, member_id: int, notice: Notice, time: int) -> None:
    batch = Batch(shard_of(member_id))
    batch.put(begun(member_id, notice, time, HELD))
    await effects.graph.commit(batch)
    between = await effects.graph.assoc_get(member_id, (ACCEPTS_NOTICES,), (notice.actor_id,))
    if between[ACCEPTS_NOTICES]:
        # The member may have accepted the sender before this notification was stored as held, so it was not released then: release
        # it now.
        held = (await effects.graph.assoc_get(member_id, (HELD,), (notice.id,)))[HELD]
        again = Batch(batch.shard)
        release(again, member_id, held.values())
        await effects.graph.commit(again)


async def note(effects: Effects, member_id: int, notice: Notice, time: int) -> None:
    """Store a notification, publish it to the member's connected clients, and queue web push messages."""
    batch = Batch(shard_of(member_id))
    for due in await push.due(effects, member_id, notice, time):
        batch.emit(due)
    batch.put(begun(member_id, notice, time))
    await effects.graph.commit(batch)
    await effects.channel.publish(updates.encode(updates.NotificationMade(member_id, time)))


async def _settle(effects: Effects, member_id: int, notice: Notice, state: ActionState, post: Post | None) -> None:
    """Create the notification of an action if the action is still in effect according to `state`, otherwise delete it."""
    if member_id == notice.actor_id:
        return
    time = await state()
    while True:
        if time is None:
            stored = await _stored_notices(effects, member_id, (notice,))
            # Check again after reading the notification. If the action is still undone, delete this notification. If the action
            # was repeated in between, the notification may belong to the repetition and must be kept.
            if await state() is None:
                await _end(effects, member_id, stored)
        else:
            await tell(effects, member_id, notice, time, post)
        # Repeat if the action was undone or repeated in between: the event of that may have been processed before this write.
        time, before = await state(), time
        if time == before:
            return


def _state_of(effects: Effects, id1: int, atype: AssocType, id2: int) -> ActionState:
    async def state() -> int | None:
        found = await association(effects.graph, id1, atype, id2)
        return found.time if found else None

    return state


def _began(effects: Effects, id1: int, atype: AssocType, id2: int) -> ActionState:
    """Return a function that returns the time at which a follow or follow request began, or None if there is none.

    Later changes of its options do not change this time.
    """

    async def began() -> int | None:
        found = await association(effects.graph, id1, atype, id2)
        return follow_terms(found.data).began(found.time) if found else None

    return began


async def _tell_each(effects: Effects, members: Iterable[int], notice: Notice, time: int, post: Post | None) -> None:
    """Notify each member except the actor.

    A closed poll is an exception: its owner, who is the actor of the notification, is notified too.
    """
    others = [member for member in members if member != notice.actor_id or notice.kind is Kind.POLL]
    await asyncio.gather(*(tell(effects, member, notice, time, post) for member in others))


_RETRACTION_PAGE = 200


async def forget_mentions(effects: Effects, event: events.PostDeleted, mark: int) -> None:
    notice = Notice(Kind.MENTION, event.author_id, event.post_id)
    await asyncio.gather(*(forget(effects, member, (notice,)) for member in event.mention_ids))


async def forget_likes(effects: Effects, event: events.PostDeleted, mark: int) -> int | None:
    return await _forget(effects, event, LIKED_BY, Kind.LIKE, mark)


async def forget_shares(effects: Effects, event: events.PostDeleted, mark: int) -> int | None:
    return await _forget(effects, event, SHARED_BY, Kind.SHARE, mark)


async def forget_reactions(effects: Effects, event: events.PostDeleted, mark: int) -> int | None:
    """Retract the author's notifications of emoji, before the list of reactions is cleared."""

    def notices(who: Assoc) -> list[Notice]:
        return [Notice(Kind.REACTION, who.id2, event.post_id, position.emoji) for position in chosen_of(who)]

    return await _forget_page(effects, event, REACTED_BY, notices, mark)


async def _forget(effects: Effects, event: events.PostDeleted, atype: AssocType, kind: Kind, mark: int) -> int | None:
    return await _forget_page(effects, event, atype, lambda who: [Notice(kind, who.id2, event.post_id)], mark)


async def _forget_page(
    effects: Effects, event: events.PostDeleted, atype: AssocType, notices: Callable[[Assoc], list[Notice]], mark: int
) -> int | None:
    page, next_mark = await page_of(effects.graph, event.post_id, atype, mark, _RETRACTION_PAGE)
    await forget(effects, event.author_id, [notice for who in page for notice in notices(who)])
    return next_mark


_RECENT_MS = 86_400_000
"""Milliseconds for which a member counts as new. Profile changes of older members do not notify the moderators."""


async def tell_of_member(
    effects: Effects, event: events.MemberRegistered | events.ProfileChanged, mark: int
) -> int | None:
    """Notify moderators of a new member, once the email address is confirmed. Imported members are skipped."""
    member = await find_object(effects.graph, Member, event.member_id)
    if member is None or member.dated or member.unconfirmed:
        return None
    now = effects.new_id(shard_of(member.id))
    if milliseconds_of(now) - milliseconds_of(member.id) > _RECENT_MS:
        return None
    return await _tell_staff(effects, Notice(Kind.REGISTRATION, member.id), member.id, mark)


async def tell_of_report(effects: Effects, event: events.ReportFiled, mark: int) -> int | None:
    report = await find_object(effects.graph, Report, event.report_id)
    if report is None:
        return None
    return await _tell_staff(effects, Notice(Kind.REPORT, report.reporter_id, report.id), report.id, mark)


async def _tell_staff(effects: Effects, notice: Notice, time: int, mark: int) -> int | None:
    page, next_mark = await page_of(effects.graph, EVERYBODY, STAFF, mark, _PAGE)
    others = [member.id2 for member in page if member.id2 != notice.actor_id]
    await asyncio.gather(*(note(effects, member, notice, time) for member in others))
    return next_mark
