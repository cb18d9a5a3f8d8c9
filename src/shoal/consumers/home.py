"""Keep home timelines consistent with the graph: push new entries to active followers, merge follows, subtract unfollows.

Each consumer reads the current state of the graph, acts, and reads it again, so events may arrive late, twice or out of order.
Readers also filter the entries, so no reader sees an entry that a consumer has yet to remove.

When a high-fan-out source has few followers left, it is demoted: the entries that were not pushed are merged into the timelines of
its followers, and then the mark of the source is deleted. Until then its posts are both pushed and pulled, and a timeline holds
each entry once, so no entry is missed or shown twice. A post `p` of the source is committed before or after the demotion begins:

    p committed, source is high-fan-out    -> p is not pushed; the demotion begins later, so each merge finds p in the list
    p committed, source is being demoted   -> p is pushed, also to followers whose timelines are already merged

The follow event of a new follower merges the source. If the source becomes high-fan-out again, its mark has a new time: the merge
stops and the mark is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from shoal.consumers.context import Act, Effects
from shoal.core import events
from shoal.core.model import Post, Visibility
from shoal.graph.access import association
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWS, FOLLOWS_TAG, entries, followers, following, tag_id
from shoal.timelines.contract import Slots

_LEFT_BITS = 54
"""Bits of `mark` that hold the `left` of `Followers.page`. The 9 bits above them are the index of the source in the event."""


async def push_post(effects: Effects, event: events.PostCreated, mark: int) -> int | None:
    """Push a post to the followers of its author and, if it is public, of its tags."""
    if event.visibility is Visibility.DIRECT:
        await _push_to(effects, event.post_id, effects.timelines.slots(event.mention_ids))
        return None
    return await _push(effects, event.post_id, _sources(event.author_id, event.tag_ids, event.visibility), mark)


async def push_edit(effects: Effects, event: events.PostUpdated, mark: int) -> int | None:
    """Push an edited post to members who see it because of added tags or mentions."""
    if event.visibility is Visibility.DIRECT:
        await _push_to(effects, event.post_id, effects.timelines.slots(event.mention_ids))
    if event.visibility is not Visibility.PUBLIC:
        return None
    return await _push(effects, event.post_id, event.tags_added, mark)


async def push_share(effects: Effects, event: events.ShareCreated, mark: int) -> int | None:
    return await _push(effects, event.share_id, (event.author_id,), mark)


async def remove_post(effects: Effects, event: events.PostDeleted, mark: int) -> int | None:
    return await _remove(effects, event.post_id, (event.author_id, *event.tag_ids), mark)


async def remove_share(effects: Effects, event: events.ShareDeleted, mark: int) -> int | None:
    return await _remove(effects, event.share_id, (event.author_id,), mark)


async def drop_timeline(effects: Effects, event: events.MemberRemoved, mark: int) -> None:
    await effects.timelines.drop((event.member_id,))


def _sources(author: int, tag_ids: tuple[int, ...], visibility: Visibility) -> tuple[int, ...]:
    return (author, *tag_ids) if visibility is Visibility.PUBLIC else (author,)


async def _push(effects: Effects, entry: int, sources: tuple[int, ...], mark: int) -> int | None:
    return await _each_page(effects, partial(_push_to, effects, entry), sources, effects.page, mark)


async def _push_to(effects: Effects, entry: int, slots: Slots) -> None:
    effects.push_counter.pushed += await effects.timelines.push(entry, slots)


async def _remove(effects: Effects, entry: int, sources: tuple[int, ...], mark: int) -> int | None:
    # Removal scans all entries of each timeline, so its pages are smaller.
    page = max(1, effects.page // 20)
    return await _each_page(effects, partial(effects.timelines.remove, entry), sources, page, mark)


async def _each_page(effects: Effects, act: Act, sources: tuple[int, ...], page: int, mark: int) -> int | None:
    """Call `act` for the next page of followers of the sources, one source after the other.

    Returns the mark from which the next call continues, or None at the end.
    """
    left = mark & (1 << _LEFT_BITS) - 1
    for index in range(mark >> _LEFT_BITS, len(sources)):
        left = await effects.followers.page(sources[index], act, page, left)
        if left:
            return index << _LEFT_BITS | left
    return None


async def reconcile_follow(effects: Effects, event: events.FollowChanged, mark: int) -> None:
    """Add the source's posts to a member's timeline if the member follows the source now, otherwise remove them."""
    await effects.followers.changed(event.source_id)
    await reconcile(effects, event.follower_id, event.source_id)


async def reconcile(effects: Effects, member: int, source: int) -> None:
    """Merge the source's entries into the member's materialized timeline, or remove them if the member does not follow it."""
    if await effects.timelines.floor(member) is None:
        return
    follows = await _follows(effects, member, source)
    while True:
        await (_merge if follows else _subtract)(effects, member, source)
        # Repeat if the follow has changed in between: the event of that change may have been processed before this write.
        follows, before = await _follows(effects, member, source), follows
        if follows is before:
            return


async def _follows(effects: Effects, member: int, source: int) -> bool:
    return await association(effects.graph, member, following(source), source) is not None


async def _merge(effects: Effects, member: int, source: int) -> None:
    """Add the member to the follower set, then merge the source's entries into the timeline.

    Entries committed after the member was added are pushed, and earlier ones are in the list that is merged.
    """
    effects.followers.joined(source, member)
    floor = await effects.timelines.floor(member)
    if floor is None:
        return
    await effects.timelines.union(member, *await newest(effects, source, floor))


async def newest(effects: Effects, source: int, floor: int) -> tuple[list[int], int]:
    """Return the ids of a source's newest entries above `floor`, and an id above which no entry of the source is missing."""
    limit = effects.merge
    found = await effects.graph.assoc_range(source, entries(source), Cursor(after=floor, limit=limit))
    complete_above = found[-1].time - 1 if len(found) == limit else floor
    return [entry.time for entry in found], complete_above


async def _subtract(effects: Effects, member: int, source: int) -> None:
    """Remove the source's entries from the timeline, except those that another followed source includes too."""
    effects.followers.left(source, member)
    window = await effects.timelines.read(member, Cursor(limit=effects.merge))
    if window is None or not window.ids:
        return
    atype = entries(source)
    theirs = (await effects.graph.assoc_get(source, (atype,), window.ids))[atype].keys()
    gone = list(theirs - await _still_brought(effects, member, theirs))
    if gone:
        await effects.timelines.subtract(member, gone)
        # Another source that includes these entries may have been followed and merged concurrently: add its entries again.
        await effects.timelines.union(member, list(await _still_brought(effects, member, gone)), window.floor)


async def _still_brought(effects: Effects, member: int, ids: Collection[int]) -> set[int]:
    """Return those of `ids` that a followed author or tag brings into the member's timeline. Takes two reads."""
    nodes = await effects.graph.obj_get(list(ids))
    sources = {
        post.id: _sources(post.author_id, tuple(map(tag_id, post.tags)), post.visibility)
        for post in nodes.values()
        if isinstance(post, Post)
    }
    every = {source for found in sources.values() for source in found}
    followed = await effects.graph.assoc_get(member, (FOLLOWS, FOLLOWS_TAG), list(every))
    brings = followed[FOLLOWS].keys() | followed[FOLLOWS_TAG].keys()
    return {post for post, found in sources.items() if not brings.isdisjoint(found)}


async def begin_demotion(effects: Effects, event: events.FollowChanged, mark: int) -> None:
    await effects.high_fan_out_sources.ease(event.source_id)


async def merge_demoted(effects: Effects, event: events.FollowersLost, mark: int) -> int | None:
    """Merge the source's entries into the timelines of a page of its followers, oldest follow first.

    After the last page, delete the mark of the source.
    """
    source = event.source_id
    if not await effects.high_fan_out_sources.fades(source, event.at):
        return None
    # Merging handles each timeline separately, so a page has fewer followers than in a push.
    size = max(1, effects.page // 200)
    atype = followers(source)
    page = await effects.graph.assoc_range(source, atype, Cursor(after=mark, limit=size, oldest_first=True))
    if page:
        await _merge_into_active(effects, source, [follower.id2 for follower in page])
        return page[-1].time
    await effects.high_fan_out_sources.end(source, event.at)
    return None


async def _merge_into_active(effects: Effects, source: int, members: list[int]) -> None:
    if not len(effects.timelines.slots(members)):
        return
    ids, complete_above = await newest(effects, source, 0)
    await asyncio.gather(*(effects.timelines.union(member, ids, complete_above) for member in members))
    # An unfollow event that was processed before the merge found no entries to remove, so look for members who no longer follow
    # the source. An unfollow event that is processed later removes the merged entries.
    atype = followers(source)
    still = (await effects.graph.assoc_get(source, (atype,), members))[atype]
    for member in members:
        if member not in still:
            await reconcile(effects, member, source)
