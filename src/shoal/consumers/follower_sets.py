"""Two implementations of `consumers.context.Followers`, for several processes and for a single one.

`ListedFollowers` pages through the graph by time, so any process can resume the fan-out of another. If the followers of a source
fit in one page, they are cached under a version token. A follow or unfollow invalidates the token before the source is merged into
the follower's timeline or removed from it. So every entry that is committed too late for this merge is pushed to the new follower
as well.

`PackedFollowers` keeps only active followers, as packed timeline slots in the memory of the process. A source with more than
`high_fan_out_from` active followers becomes high-fan-out. Example: members 1, 2 and 3 follow source 8, all are active, and the
follower set of 8 is not in memory. A push reads the follower set, two followers at a time:

1. The push reads the newest two followers: 3 and 2. Then 3 unfollows, and the active member 4 follows. The set is incomplete,
   so both are only recorded as touched.
2. The push reads the remaining follower, 1. The set now has the slots of 3, 2 and 1.
3. The push looks up the touched members in the graph: 3 does not follow, so its slot is removed; 4 does, so its slot is added.
4. The set is complete: 1, 2 and 4. The post is pushed to them, and the next push from 8 reads no followers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.consumers.context import Act
from shoal.consumers.high_fan_out import HighFanOutSources
from shoal.graph.access import association, count_of
from shoal.graph.cache.coherence import VersionTokens
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Graph, Reader
from shoal.graph.schema import EVERYBODY, followers, following
from shoal.timelines.contract import Slots, Timelines
from shoal.timelines.follower_sets import FollowerSet, FollowerSetCache

_SEQUENCE_BITS = 10


class ListedFollowers:
    """Reads followers in pages from the graph (see `consumers.context.Followers`).

    A page position (`left`) is the time of the last processed follow, without the sequence bits. Up to `retained` followers are
    cached, 8 bytes each.
    """

    def __init__(
        self,
        graph: Reader,
        timelines: Timelines,
        versions: VersionTokens,
        high_fan_out_sources: HighFanOutSources,
        retained: int = 4_000_000,
    ) -> None:
        self.high_fan_out_sources = high_fan_out_sources
        self._graph = graph
        self._timelines = timelines
        self._versions = versions
        self._known: Recent[int, tuple[bytes, Slots]] = Recent(retained)

    async def page(self, source: int, act: Act, size: int, left: int) -> int:
        if await self.high_fan_out_sources.holds(source):
            return 0
        version = None
        if not left:
            version = await self._list_version(source)
            known = self._known.get(source)
            if known is not None and known[0] == version is not None:
                await act(known[1])
                return 0
        listed, more = await self._list(source, size, left)
        if more and not left and await self._is_high_fan_out(source):
            return 0
        slots = self._timelines.slots([follower.id2 for follower in listed])
        await act(slots)
        if more:
            # Follows within one millisecond have the same position, so some may be on this page and on the next. These few
            # followers are processed twice, which is harmless.
            return listed[-1].time >> _SEQUENCE_BITS
        if version is not None:
            self._known.put(source, (version, slots), len(slots) + 50)
        return 0

    async def _list_version(self, source: int) -> bytes | None:
        """Return the version of the follower list of `source`; None while it is being changed.

        The version joins the token of this list with the token of `EVERYBODY`, which is replaced when any list may have changed.
        """
        names = (_version_key(source), _version_key(EVERYBODY))
        versions = await self._versions.read(names)
        return versions[names[0]] + versions[names[1]] if len(versions) == 2 else None

    async def changed(self, source: int) -> None:
        begun = await self._versions.begin((_version_key(source),))
        await self._versions.end((_version_key(source),), begun)

    def joined(self, source: int, member: int) -> None:
        """Do nothing: each page of followers is read from the graph."""

    left = joined

    async def _list(self, source: int, size: int, left: int) -> tuple[Sequence[Assoc], bool]:
        """Return a page of follows at the position `left` and older ones, newest first, and whether there may be more.

        Many follows can share one position. If all follows of the page have the position `left`, a larger page is read, because
        the next call would otherwise read the same page again.
        """
        before = left + 1 << _SEQUENCE_BITS if left else MAX_TIME
        while True:
            listed = await self._graph.assoc_range(source, followers(source), Cursor(before=before, limit=size))
            more = len(listed) == size
            if not more or listed[-1].time >> _SEQUENCE_BITS != left:
                return listed, more
            size *= 2

    async def _is_high_fan_out(self, source: int) -> bool:
        if await count_of(self._graph, source, followers(source)) <= self.high_fan_out_sources.threshold:
            return False
        await self.high_fan_out_sources.add(source)
        return True


def _version_key(source: int) -> int:
    """Return the id whose version token is the version of the list of a source's followers.

    It is not the id of the source, because that token changes with every post.
    """
    return ~source


_LEFT_BITS = 31
_READ_AT_ONCE = 20_000


class PackedFollowers:
    """Reads followers in pages from follower sets in memory (see `consumers.context.Followers`).

    A page position (`left`) consists of the serial number of the follower set (20 bits) and the number of slots still to process
    (31 bits).
    """

    def __init__(
        self,
        graph: Graph,
        timelines: Timelines,
        follower_set_cache: FollowerSetCache,
        high_fan_out_sources: HighFanOutSources,
        *,
        read: int = _READ_AT_ONCE,
    ) -> None:
        self.follower_set_cache = follower_set_cache
        self.high_fan_out_sources = high_fan_out_sources
        self._graph = graph
        self._timelines = timelines
        self._read = read

    async def page(self, source: int, act: Act, size: int, left: int) -> int:
        follower_set = await self._follower_set(source)
        if follower_set is None:
            return 0
        last, reloaded = len(follower_set), False
        if left:
            reloaded = left >> _LEFT_BITS != follower_set.serial
            last = last if reloaded else min(last, left & (1 << _LEFT_BITS) - 1)
        while last:
            first = max(0, last - size)
            await act(follower_set.slots(first, last))
            # Concurrent fan-outs may evict each other's follower set from the cache. If the set had to be read again, process it
            # completely in this call: the next call might find it evicted again, and fan-out might never finish.
            if first and not reloaded:
                return follower_set.serial << _LEFT_BITS | first
            if first:
                await asyncio.sleep(0)
            last = min(first, len(follower_set))
        return 0

    async def changed(self, source: int) -> None:
        """Do nothing: this implementation only needs the changes that `joined` and `left` record."""

    def joined(self, source: int, member: int) -> None:
        self.follower_set_cache.add(source, member, self._timelines.slots((member,)))

    def left(self, source: int, member: int) -> None:
        self.follower_set_cache.discard(source, member, self._timelines.slots((member,)))

    async def _follower_set(self, source: int) -> FollowerSet | None:
        """Return the follower set of a source; None if the source has too many followers to push to."""
        if await self.high_fan_out_sources.holds(source):
            return None
        # Compare with None: an empty follower set is cached too, and must not be read again for each post.
        if (follower_set := self.follower_set_cache.get(source)) is None:
            follower_set = await self._read_follower_set(source)
        if follower_set is not None and len(follower_set) <= self.high_fan_out_sources.threshold:
            return follower_set
        # Mark the source as high-fan-out before its entries are no longer pushed, so that readers pull every entry that was not
        # pushed.
        await self.high_fan_out_sources.add(source)
        self.follower_set_cache.forget(source)
        return None

    async def _read_follower_set(self, source: int) -> FollowerSet | None:
        """Read the follower set of a source; None if it is too large.

        A set that is too large is incomplete and must not be cached.
        """
        follower_set = self.follower_set_cache.begin(source)
        before = MAX_TIME
        while len(follower_set) <= self.high_fan_out_sources.threshold:
            page = await self._graph.assoc_range(source, followers(source), Cursor(before=before, limit=self._read))
            follower_set.extend(self._timelines.slots([follower.id2 for follower in page]))
            if len(page) < self._read:
                break
            before = page[-1].time
            # Yield to other tasks only between pages: at each yield, the job waits until all requests that are ready have run.
            await asyncio.sleep(0)
        if len(follower_set) > self.high_fan_out_sources.threshold:
            return None
        await self._touch_up(source, follower_set)
        self.follower_set_cache.finish(source, follower_set)
        return follower_set

    async def _touch_up(self, source: int, follower_set: FollowerSet) -> None:
        """Update `follower_set` for members who followed, unfollowed or got a materialized timeline while it was being read."""
        while follower_set.touched:
            member = follower_set.touched.pop()
            follows = await association(self._graph, member, following(source), source)
            for slot in self._timelines.slots((member,)).tolist():
                follower_set.add(slot) if follows is not None else follower_set.discard(slot)
