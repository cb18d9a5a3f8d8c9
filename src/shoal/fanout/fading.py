"""A loud source that has few followers left becomes quiet: what was not pushed is merged, then its mark goes.

While a source fades it is pushed to again and still pulled from, and a timeline holds each entry once. So nobody misses an
entry or sees one twice, wherever the merge has come. Post `p` of a loud source, worked off before and after:

    p committed, mark is "loud"    -> p is left out; the mark turns to "fading" later, so each merge finds p in the list
    p committed, mark is "fading"  -> p is pushed, also to those whom the merge has passed

A follower who comes meanwhile is merged by the event of the follow; most of them stand at the end of the list, where the merge
ends. If the source grows loud again, its mark is another one: the merge stops, and takes nothing away.

Glossary (`docs/glossary.md`): loud.
"""

from __future__ import annotations

import asyncio

from shoal.core.events import FollowChanged, LoudnessLost
from shoal.fanout import home
from shoal.fanout.effects import Effects
from shoal.graph.contract import Cursor
from shoal.graph.schema import followers


async def begin(effects: Effects, event: FollowChanged, mark: int) -> int | None:
    """Somebody may have left a loud source, so that few are left."""
    await effects.loudness.ease(event.source_id)
    return None


async def merge(effects: Effects, event: LoudnessLost, mark: int) -> int | None:
    """Merge the source into the timelines of a page of its followers, the longest first; at the end take its mark away."""
    source = event.source_id
    if not await effects.loudness.fades(source, event.at):
        return None
    # A timeline is merged by itself: a page is smaller here.
    size = max(1, effects.page // 200)
    atype = followers(source)
    page = await effects.graph.assoc_range(source, atype, Cursor(after=mark, limit=size, oldest_first=True))
    if page:
        await _bring(effects, source, [follower.id2 for follower in page])
        return page[-1].time
    await effects.loudness.end(source, event.at)
    return None


async def _bring(effects: Effects, source: int, members: list[int]) -> None:
    """Merge what the source posted into the warm timelines of its followers."""
    if not len(effects.timelines.seats(members)):
        return
    ids, complete_above = await home.newest(effects, source, 0)
    await asyncio.gather(*(effects.timelines.union(member, ids, complete_above) for member in members))
    # The event of an unfollow may have been worked off before the merge. Any other will find what was merged.
    atype = followers(source)
    still = (await effects.graph.assoc_get(source, (atype,), members))[atype]
    for member in members:
        if member not in still:
            await home.reconcile(effects, member, source)
