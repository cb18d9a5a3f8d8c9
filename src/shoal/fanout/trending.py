"""Likes, shares, emoji and comments make a post active, which is where trends look. Nobody makes a post of their own active."""

from __future__ import annotations

from shoal.core.events import LikeChanged, PostCreated, ReactionChanged, ShareCreated
from shoal.core.model import OPEN
from shoal.fanout.effects import Effects
from shoal.outbox.runner import Outcome


async def count_reaction(effects: Effects, event: LikeChanged | ReactionChanged, mark: int) -> Outcome:
    """List a post that somebody likes or put an emoji on. The end of either changes nothing: readers look who reacts."""
    if not event.at or event.member_id == event.author_id:
        return None
    return effects.activity.reacted(effects.graph, event.post_id, event.at)


async def count_share(effects: Effects, event: ShareCreated, mark: int) -> Outcome:
    """List a post that somebody shared."""
    return effects.activity.reacted(effects.graph, event.shared_id, event.share_id) if event.shared_id else None


async def count_comment(effects: Effects, event: PostCreated, mark: int) -> Outcome:
    """List a post that somebody commented on for everybody to read."""
    if not event.answered_id or event.visibility not in OPEN:
        return None
    return effects.activity.reacted(effects.graph, event.answered_id, event.post_id)
