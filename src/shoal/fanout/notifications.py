"""Notifying members of what concerns them.

For likes, follows and requests the graph is read again afterwards, so that a late notification is taken back.

A notification has the time of the act, as the graph tells it, not the time of processing: so processing twice, late or
in another order leaves the same list. Readers leave out what cannot be told from here (a share that is gone).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from shoal.core.events import (
    FollowChanged,
    LikeChanged,
    PollEnded,
    PostCreated,
    PostUpdated,
    PublishRefused,
    ReactionChanged,
    RequestChanged,
    ShareCreated,
)
from shoal.core.ids import shard_of
from shoal.core.model import Member, Poll, Post, ScheduledPost, Share, Treatment, Visibility
from shoal.core.visibility import may_see_share
from shoal.fanout import pushes
from shoal.fanout.effects import Effects
from shoal.fanout.welcome import reception
from shoal.graph.access import association, relations
from shoal.graph.contract import MAX_TIME, Assoc, Batch, Cursor
from shoal.graph.payloads.follows import follow_terms
from shoal.graph.payloads.notifications import Kind, Notice, begun, end_of_poll, ended, release, unpublished
from shoal.graph.schema import (
    ACCEPTS_NOTICES,
    FOLLOWS,
    HELD,
    LIKES,
    NOTIFIED,
    PUTS_EMOJI,
    REQUESTED_BY,
    REQUESTS,
    SHARED_BY,
    VOTED_BY,
    WATCHED_BY,
    AssocType,
    is_tag,
)
from shoal.outbox.runner import Outcome
from shoal.streaming import updates

_PAGE = 100
"""Members who are notified before other jobs have a turn."""

Told = Mapping[AssocType, Mapping[int, Assoc]]
"""Notifications of a member, shown and held back, by the id of their notice."""
Standing = Callable[[], Awaitable[int | None]]
"""A function that returns when an act was done; None when it is not, or no longer."""


async def tell_mentioned(effects: Effects, event: PostCreated, mark: int) -> Outcome:
    """Notify the members whom a new post mentions."""
    if not event.mention_ids:
        return None
    return await effects.aside.begin(_tell_named(effects, event.post_id, event.mention_ids, event.post_id))


async def tell_newly_mentioned(effects: Effects, event: PostUpdated, mark: int) -> Outcome:
    """Notify the members whom an edit mentions for the first time, with the time of the edit."""
    if not event.mentions_added:
        return None
    return await effects.aside.begin(_tell_named(effects, event.post_id, event.mentions_added, event.revision_id))


async def _tell_named(effects: Effects, post_id: int, members: Sequence[int], time: int) -> None:
    post = await _post(effects, post_id)
    if post is not None:
        named = {mention.id for mention in post.mentions}.intersection(members)
        await _tell_each(effects, named, Notice(Kind.MENTION, post.author_id, post.id), time, post)


async def tell_watchers(effects: Effects, event: PostCreated, mark: int) -> int | None:
    """Notify the members who watch the author, unless the post answers somebody else, or mentions them anyway."""
    if event.visibility is Visibility.DIRECT:
        return None
    # The watchers first: most authors have none, and then the post need not be read.
    page = await _page(effects, event.author_id, WATCHED_BY, mark)
    post = await _post(effects, event.post_id) if page else None
    if post is None or (post.parent_id and post.parent_author_id != post.author_id):
        return None
    watchers = [watcher.id2 for watcher in page if watcher.id2 not in event.mention_ids]
    await _tell_each(effects, watchers, Notice(Kind.POST, post.author_id, post.id), post.id, post)
    return _next(page)


async def tell_sharers(effects: Effects, event: PostUpdated, mark: int) -> int | None:
    """Notify the members who shared a post whose wording changed, unless the edit mentions them for the first time."""
    post = await _post(effects, event.post_id)
    if post is None or not event.revision_id:
        return None
    page = await _page(effects, post.id, SHARED_BY, mark)
    sharers = [sharer.id2 for sharer in page if sharer.id2 not in event.mentions_added]
    await _tell_each(effects, sharers, Notice(Kind.EDIT, post.author_id, post.id), event.revision_id, post)
    return _next(page)


async def tell_of_like(effects: Effects, event: LikeChanged, mark: int) -> Outcome:
    """Notify the author of a like."""
    return None if event.member_id == event.author_id else await effects.aside.begin(_tell_of_like(effects, event))


async def _tell_of_like(effects: Effects, event: LikeChanged) -> None:
    notice = Notice(Kind.LIKE, event.member_id, event.post_id)
    await _settle_of_post(effects, event, notice, _stands(effects, event.member_id, LIKES, event.post_id))


async def tell_of_reaction(effects: Effects, event: ReactionChanged, mark: int) -> Outcome:
    """Notify the author of an emoji that somebody put on their post."""
    return None if event.member_id == event.author_id else await effects.aside.begin(_tell_of_reaction(effects, event))


async def _tell_of_reaction(effects: Effects, event: ReactionChanged) -> None:
    notice = Notice(Kind.REACTION, event.member_id, event.post_id, event.emoji)
    await _settle_of_post(effects, event, notice, _stands(effects, event.member_id, PUTS_EMOJI, event.place_id))


async def _settle_of_post(
    effects: Effects, event: LikeChanged | ReactionChanged, notice: Notice, done: Standing
) -> None:
    async def stands() -> int | None:
        # What members did to a post that is gone goes too, a little later.
        return await done() if await _post(effects, event.post_id) is not None else None

    await _settle(effects, event.author_id, notice, stands, await _post(effects, event.post_id))


async def tell_of_share(effects: Effects, event: ShareCreated, mark: int) -> asyncio.Future[None]:
    """Notify the author of a share, if they may see it."""
    return await effects.aside.begin(_tell_of_share(effects, event))


async def _tell_of_share(effects: Effects, event: ShareCreated) -> None:
    found = await effects.graph.obj_get((event.share_id, event.author_id))
    share, sharer = found.get(event.share_id), found.get(event.author_id)
    post = await _post(effects, share.post_id) if isinstance(share, Share) else None
    if post is None or not isinstance(share, Share) or not isinstance(sharer, Member):
        return
    stand = (await relations(effects.graph, post.author_id, (sharer.id,)))[sharer.id]
    if may_see_share(post.author_id, share, sharer, stand):
        await _tell_each(effects, (post.author_id,), Notice(Kind.SHARE, sharer.id, post.id), share.id, post)


async def tell_of_follow(effects: Effects, event: FollowChanged, mark: int) -> Outcome:
    """Notify the member who is followed."""
    if is_tag(event.source_id):
        return None
    stands = _began(effects, event.follower_id, FOLLOWS, event.source_id)
    notice = Notice(Kind.FOLLOW, event.follower_id)
    return await effects.aside.begin(_settle(effects, event.source_id, notice, stands, None))


async def tell_of_request(effects: Effects, event: RequestChanged, mark: int) -> int | None:
    """Notify the member who gets a follow request. Either side may have ended the request, each at their own end."""
    asks = _began(effects, event.member_id, REQUESTS, event.other_id)
    asked = _stands(effects, event.other_id, REQUESTED_BY, event.member_id)

    async def stands() -> int | None:
        return await asks() if await asked() is not None else None

    await _settle(effects, event.other_id, Notice(Kind.REQUEST, event.member_id), stands, None)
    return None


async def tell_voters(effects: Effects, event: PollEnded, mark: int) -> int | None:
    """Notify the owner of a poll that is over, and everybody who voted in it."""
    poll = (await effects.graph.obj_get((event.poll_id,))).get(event.poll_id)
    post = await _post(effects, poll.post_id) if isinstance(poll, Poll) else None
    if post is None or not isinstance(poll, Poll):
        return None
    page = await _page(effects, poll.id, VOTED_BY, mark)
    members = {voter.id2 for voter in page} | {poll.owner_id}
    time = end_of_poll(poll.id, poll.expires_at)
    await _tell_each(effects, members, Notice(Kind.POLL, poll.owner_id, post.id), time, post)
    return _next(page)


async def tell_of_refusal(effects: Effects, event: PublishRefused, mark: int) -> int | None:
    """Notify the author of a scheduled post that could not be published."""
    node = (await effects.graph.obj_get((event.scheduled_id,))).get(event.scheduled_id)
    if isinstance(node, ScheduledPost) and node.refused:
        await note(effects, node.owner_id, unpublished(node), event.time)
    return None


async def forget(effects: Effects, member_id: int, notices: Iterable[Notice]) -> None:
    """Delete these notifications of a member; one read, and one commit where there is anything to delete."""
    await _end(effects, member_id, await _told(effects, member_id, notices))


async def _told(effects: Effects, member_id: int, notices: Iterable[Notice]) -> Told:
    ids = [notice.id for notice in notices]
    return await effects.graph.assoc_get(member_id, (NOTIFIED, HELD), ids) if ids else {}


async def _end(effects: Effects, member_id: int, told: Told) -> None:
    if any(told.values()):
        batch = Batch(shard_of(member_id))
        for atype, assocs in told.items():
            for assoc in assocs.values():
                batch.put(ended(member_id, assoc, atype))
        await effects.graph.commit(batch)


async def tell(effects: Effects, member_id: int, notice: Notice, time: int, post: Post | None) -> None:
    """Notify a member as their policy says: at once, held back, or not at all."""
    treatment = await reception(effects, member_id, notice, post)
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
        # The member has accepted the sender meanwhile, perhaps before this one was among the held ones.
        held = (await effects.graph.assoc_get(member_id, (HELD,), (notice.id,)))[HELD]
        again = Batch(batch.shard)
        release(again, member_id, held.values())
        await effects.graph.commit(again)


async def note(effects: Effects, member_id: int, notice: Notice, time: int) -> None:
    """Store a notification, tell the member's connected clients, and have messages sent to those that are closed."""
    batch = Batch(shard_of(member_id))
    for due in await pushes.due(effects, member_id, notice, time):
        batch.emit(due)
    batch.put(begun(member_id, notice, time))
    await effects.graph.commit(batch)
    await effects.channel.publish(updates.encode(updates.NotificationMade(member_id, time)))


async def _settle(effects: Effects, member_id: int, notice: Notice, stands: Standing, post: Post | None) -> None:
    """Notify the member of an act exactly if it is done at this moment."""
    if member_id == notice.actor_id:
        return
    time = await stands()
    while True:
        if time is None:
            told = await _told(effects, member_id, (notice,))
            # Looked up again after the notification was: what was told by then is of an act that is over, and not of the next one,
            # which may have been done and told in between.
            if await stands() is None:
                await _end(effects, member_id, told)
        else:
            await tell(effects, member_id, notice, time, post)
        # It may have been taken back, or done again, meanwhile; the event of that may even have been worked off already.
        time, before = await stands(), time
        if time == before:
            return


def _stands(effects: Effects, id1: int, atype: AssocType, id2: int) -> Standing:
    async def stands() -> int | None:
        found = await association(effects.graph, id1, atype, id2)
        return found.time if found else None

    return stands


def _began(effects: Effects, id1: int, atype: AssocType, id2: int) -> Standing:
    """As `_stands`, for a follow or request: changing its terms does not begin it anew."""

    async def began() -> int | None:
        found = await association(effects.graph, id1, atype, id2)
        return follow_terms(found.data).began(found.time) if found else None

    return began


async def _tell_each(effects: Effects, members: Iterable[int], notice: Notice, time: int, post: Post | None) -> None:
    """Notify each member. Nobody is notified of their own acts, except that their poll is over."""
    others = [member for member in members if member != notice.actor_id or notice.kind is Kind.POLL]
    await asyncio.gather(*(tell(effects, member, notice, time, post) for member in others))


async def _page(effects: Effects, id1: int, atype: AssocType, mark: int) -> list[Assoc]:
    return await effects.graph.assoc_range(id1, atype, Cursor(before=mark or MAX_TIME, limit=_PAGE))


def _next(page: Sequence[Assoc]) -> int | None:
    return page[-1].time if len(page) == _PAGE else None


async def _post(effects: Effects, post_id: int) -> Post | None:
    node = (await effects.graph.obj_get((post_id,))).get(post_id)
    return node if isinstance(node, Post) else None
