"""Decides whether a member is notified of another's act, and whether at once, before the notice is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator

from shoal.core.ids import milliseconds_of
from shoal.core.model import ACCEPT_ALL, Member, NoticePolicy, Post, Role, Treatment, Visibility
from shoal.core.visibility import Relation, may_see
from shoal.fanout.effects import Effects
from shoal.graph.access import relations
from shoal.graph.payloads.conversations import root_of
from shoal.graph.payloads.follows import follow_terms
from shoal.graph.payloads.notifications import NEVER_HELD, Kind, Notice
from shoal.graph.schema import ACCEPTS_NOTICES, FOLLOWED_BY, MUTES_THREAD

_DAY_MS = 86_400_000
_NEW_MS = 30 * _DAY_MS
"""An account younger than this is new."""
_FOLLOWER_MS = 3 * _DAY_MS
"""A follow younger than this does not count yet."""


async def is_welcome(effects: Effects, member_id: int, actor_id: int, post: Post | None) -> bool:
    """Whether news of this actor, about this post or none, come to the member. Three reads.

    Not from whom they mute together with their notifications, or across a block; not from who is suspended, about a post that
    they may not see, or in a thread of which they want to hear nothing more. What is noted already is for `feeds` to show or not.
    """
    return await _meeting(effects, member_id, actor_id, post) is not None


async def reception(effects: Effects, member_id: int, notice: Notice, post: Post | None) -> Treatment:
    """Return the treatment of a notice: `DROP` where it is not welcome, else the one that the member's policy gives.

    Three reads, and two more where there is a policy.
    """
    met = await _meeting(effects, member_id, notice.actor_id, post)
    if met is None:
        return Treatment.DROP
    member, actor, stand = met
    if member.notices == ACCEPT_ALL or notice.kind in NEVER_HELD or actor.role is not Role.NONE:
        return Treatment.ACCEPT
    between = await effects.graph.assoc_get(member_id, (ACCEPTS_NOTICES, FOLLOWED_BY), (actor.id,))
    if actor.id in between[ACCEPTS_NOTICES]:
        return Treatment.ACCEPT
    now = int(time.time() * 1000)
    fan = between[FOLLOWED_BY].get(actor.id)
    follows_since = milliseconds_of(follow_terms(fan.data).began(fan.time)) if fan else now
    answers = not _is_private(notice, post) or await _began_thread(effects, member_id, post)
    rules = _rules(member.notices, actor, stand, now, follows_since, answers=answers)
    return max(rules, key=list(Treatment).index, default=Treatment.ACCEPT)


def _rules(
    policy: NoticePolicy, actor: Member, stand: Relation, now: int, follows_since: int, *, answers: bool
) -> Iterator[Treatment]:
    """Yield the treatments of the rules that apply; `answers` is False for an unsolicited private mention."""
    if now - follows_since < _FOLLOWER_MS:
        yield policy.not_followers
    if stand.following:
        return
    yield policy.not_following
    if now - actor.created_at < _NEW_MS:
        yield policy.new_accounts
    if actor.silenced:
        yield policy.limited_accounts
    if not answers:
        yield policy.private_mentions


def _is_private(notice: Notice, post: Post | None) -> bool:
    return notice.kind is Kind.MENTION and post is not None and post.visibility is Visibility.DIRECT


async def _began_thread(effects: Effects, member_id: int, post: Post | None) -> bool:
    """Whether a post answers the member, or stands in a thread of theirs."""
    if post is None or not post.parent_id:
        return False
    root = (await effects.graph.obj_get((post.root_id,))).get(post.root_id)
    return post.parent_author_id == member_id or (isinstance(root, Post) and root.author_id == member_id)


async def _meeting(
    effects: Effects, member_id: int, actor_id: int, post: Post | None
) -> tuple[Member, Member, Relation] | None:
    """Return the member, the actor and the member's relation to the actor; None where the notice is not welcome."""
    graph = effects.graph
    author_id = post.author_id if post else actor_id
    nodes = await graph.obj_get(list({member_id, actor_id, author_id}))
    member, actor = nodes.get(member_id), nodes.get(actor_id)
    if not isinstance(member, Member) or not isinstance(actor, Member) or actor.suspended:
        return None
    stands = await relations(graph, member_id, {actor_id, author_id})
    if stands[actor_id].severed or stands[actor_id].muting_notifications:
        return None
    if post is not None:
        author = nodes.get(author_id)
        if not may_see(member_id, post, author if isinstance(author, Member) else None, stands[author_id]):
            return None
        root = root_of(post)
        if root in (await graph.assoc_get(member_id, (MUTES_THREAD,), (root,)))[MUTES_THREAD]:
            return None
    return member, actor, stands[actor_id]
