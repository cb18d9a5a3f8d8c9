"""Update the search index, tag counts and active posts (the source of trends).

A changed object is read again, and its index row is computed from its current state. Tags of suspended members are not counted.
Likes, shares, reactions and comments make a post active, except those by its author.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from shoal.consumers.context import Effects
from shoal.core import events
from shoal.core.model import HIDDEN_WITH_AUTHOR, OPEN, Member, Post
from shoal.graph.access import page_of
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import find_object
from shoal.graph.payloads.posts import hidden_batch
from shoal.graph.schema import ATTACHED, POSTED
from shoal.outbox.runner import Outcome
from shoal.tagcloud.contract import TagChange, Use

_PAGE = 100


async def hide_or_reveal_posts(effects: Effects, event: events.SuspensionChanged, mark: int) -> int | None:
    """Hide or reveal a member's posts after a suspension change, newest first, one page at a time."""
    author = await find_object(effects.graph, Member, event.member_id)
    if author is None:
        return None
    page, next_mark = await page_of(effects.graph, author.id, POSTED, mark, _PAGE)
    await asyncio.gather(*(_follow(effects, entry.id2, author.id) for entry in page))
    return next_mark


async def _follow(effects: Effects, post_id: int, author_id: int) -> None:
    # Repeat after each change of the post: the author may have been suspended or restored in between, and the consumer of that
    # event may have read the post before this change.
    while await retry_on_conflict(partial(_follow_once, effects, post_id, author_id)):
        continue


async def _follow_once(effects: Effects, post_id: int, author_id: int) -> bool:
    found = await effects.graph.obj_get((post_id, author_id))
    post, author = found.get(post_id), found.get(author_id)
    if not isinstance(post, Post) or not isinstance(author, Member):
        return False
    why = post.hidden | HIDDEN_WITH_AUTHOR if author.suspended else post.hidden & ~HIDDEN_WITH_AUTHOR
    if why == post.hidden:
        return False
    at = effects.new_id.now()
    await effects.graph.commit(hidden_batch(post, why, at)[1])
    return True


_INDEX_PAGE = 500


async def look_at_post(
    effects: Effects,
    event: events.PostCreated | events.PostUpdated | events.PostNarrowed | events.PostDeleted,
    mark: int,
) -> asyncio.Future[None]:
    """Update the post's entry in the search index, or delete it. The returned future completes once the change is durable."""
    return effects.search.look(effects.graph, (event.post_id,))


async def look_at_member(
    effects: Effects, event: events.ProfileChanged | events.SuspensionChanged | events.MemberRemoved, mark: int
) -> asyncio.Future[None]:
    """Update the member's entry in the search index, or delete it. The returned future completes once the change is durable."""
    return effects.search.look(effects.graph, (event.member_id,))


async def look_at_posts_with(effects: Effects, event: events.MediaDescribed, mark: int) -> Outcome:
    """Reindex the posts that use media with a changed description, page by page, newest first."""
    page, next_mark = await page_of(effects.graph, event.media_id, ATTACHED, mark, _INDEX_PAGE)
    if not page:
        return None
    safe = effects.search.look(effects.graph, [put.id2 for put in page])
    if next_mark is None:
        return safe
    # Shield the future, because other consumers wait for it too: canceling this step must not cancel it for them.
    await asyncio.shield(safe)
    return next_mark


async def count_and_look(effects: Effects, event: events.TagsUsed, mark: int) -> asyncio.Future[None]:
    """Count the tags of a post, and update its entry in the search index. The returned future completes once both are durable."""
    return _counted(effects, (event,))


async def count_and_look_at_imported(
    effects: Effects, event: events.ImportedTagsUsed, mark: int
) -> asyncio.Future[None]:
    """Do the same as `count_and_look` for several posts."""
    return _counted(effects, event.uses)


def _counted(effects: Effects, uses: Sequence[events.TagsUsed]) -> asyncio.Future[None]:
    # Most uses share a future.
    futures = {
        effects.tags.count(
            Use(
                used.post_id,
                used.version,
                used.author_id,
                used.written,
                used.at,
                tuple(TagChange(*c) for c in used.changes),
            )
        )
        for used in uses
    }
    return asyncio.ensure_future(_all(*futures, effects.search.look(effects.graph, [used.post_id for used in uses])))


async def _all(*futures: asyncio.Future[None]) -> None:
    # Shield the futures, because other jobs wait for them too: canceling this wait must not cancel those.
    await asyncio.gather(*map(asyncio.shield, futures))


async def count_reaction(effects: Effects, event: events.LikeChanged | events.ReactionChanged, mark: int) -> Outcome:
    """Record a like or emoji reaction as recent activity on its post.

    Removals are not recorded: readers check which reactions exist.
    """
    if not event.at or event.member_id == event.author_id:
        return None
    return effects.activity.reacted(effects.graph, event.post_id, event.at)


async def count_share(effects: Effects, event: events.ShareCreated, mark: int) -> Outcome:
    return effects.activity.reacted(effects.graph, event.shared_id, event.share_id) if event.shared_id else None


async def count_comment(effects: Effects, event: events.PostCreated, mark: int) -> Outcome:
    """Record a public or unlisted comment as activity of the post that it answers."""
    if not event.answered_id or event.visibility not in OPEN:
        return None
    return effects.activity.reacted(effects.graph, event.answered_id, event.post_id)
