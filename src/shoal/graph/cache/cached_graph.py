"""The graph that requests use: a cache in front of a store. The package docstring describes the layers.

Objects are cached decoded, counts by list, short lists whole, and long lists by their newest entries. Tombstones, ranks, the outbox
and scans always go to the store. A change continues when its caller is cancelled, because the cache must be updated afterwards.

Where version tokens are used, `CachedGraph` prefetches: if a read will most likely have to query the store, the query is sent while
the token of the object is read. The result is never older than the request. It is cached, or preferred to cached data, only if the
token shows that nothing has changed since before the query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from shoal.core.events import InverseOp
from shoal.core.model import Post
from shoal.graph.bulk import Loading, LoadPart
from shoal.graph.cache.change_log import ChangeLog, FollowedLog, lists_of, name_marks
from shoal.graph.cache.coherence import Guard, LogGuard, SoleGuard, VersionTokenGuard, VersionTokens
from shoal.graph.cache.dependencies import ReadSet, current_read_set, depends_on, do_not_cache, untracked
from shoal.graph.cache.entries import (
    HEAD,
    CacheEntries,
    KnownLinks,
    ListPrefix,
    ListSet,
    count_in,
    kilobytes,
    prefetch_hints,
)
from shoal.graph.contract import (
    MAX_TIME,
    Assoc,
    Batch,
    Cursor,
    Graph,
    Job,
    Joining,
    ListChanges,
    LogSource,
    Reader,
    Store,
)
from shoal.graph.schema import AnyNode, AssocType, Key

T = TypeVar("T")

_SHORT = 256
"""Maximum length of a list that is cached whole."""
_SHORT_REMOTE = 2_048
FEW = 2
"""Maximum number of objects for which a command looks up associations in one query: a post and its author."""
_FEW_LOOK_UPS = 50
"""Maximum number of look-ups in a list that is cached for one request only; for more, the list is read whole. A look-up costs a
read unit of DynamoDB, and so do about 60 entries of a list.
"""
_BRIEF = 16
"""Maximum number of newest entries of each list that are cached when many lists are read at once."""

_NOTHING: frozenset[int] = frozenset()
_SET = 100_000
"""Maximum number of newest entries of a list with which other lists are intersected."""


class UncachedView:
    """A view of a cached graph whose reads go to the store, and whose commits go through the cache.

    Responses computed from these reads are not cached.
    """

    def __init__(self, cached: CachedGraph, store: Store) -> None:
        self.obj_get = untracked(store.obj_get)
        self.key_get = untracked(store.key_get)
        self.assoc_get = untracked(store.assoc_get)
        self.assoc_range = untracked(store.assoc_range)
        self.assoc_ranges = untracked(store.assoc_ranges)
        self.assoc_ranks = untracked(store.assoc_ranks)
        self.assoc_ended = untracked(store.assoc_ended)
        self.assoc_ended_range = untracked(store.assoc_ended_range)
        self.assoc_count = untracked(store.assoc_count)
        self.commit = cached.commit
        self.close = cached.close


class ShieldedTasks:
    """Tasks that run to completion even if the caller is cancelled."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(_resolve(work, result))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await result

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Mark the exception as retrieved, because the caller has received it or was cancelled.
            task.exception()

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _resolve(work: Coroutine[Any, Any, T], result: asyncio.Future[T]) -> None:
    """Run the coroutine, and set the future to its result or error, unless the future was cancelled.

    This is faster than `asyncio.shield` or awaiting the task: those deliver the result one or two iterations of the event loop
    later.
    """
    try:
        value = await work
    except asyncio.CancelledError:
        result.cancel()
        raise
    except Exception as error:  # noqa: BLE001  # passed on to the waiter
        if not result.done():
            result.set_exception(error)
    else:
        if not result.done():
            result.set_result(value)


def is_prefix(at: Cursor) -> bool:
    """Return whether the range `at` has the newest entries of a list and is short enough to be cached."""
    return at.limit <= HEAD and at == Cursor(limit=at.limit)


ListRange = tuple[int, AssocType, Cursor]
"""A range of a list, as the arguments of `assoc_range`."""


class CachedGraph:
    """A store behind caches of objects, associations, list prefixes and counts.

    `objects` is the capacity for objects, in kilobytes. The caches also hold `4 * objects` associations in short lists, as many
    in list prefixes (250 bytes each), and the counts of `2 * objects` objects (300 bytes each; 40 if they are new and alike).
    Intersections of lists take about as much memory as the counts, if they are queried.

    - With `versions`, other processes may write to this store, and a query takes a network round trip. So lists of up to 2,048
      entries are cached whole, instead of 256, and a list prefix is always read up to its maximum length (`HEAD`).
    - With a shared `log`, this process either writes its changes to the log, or follows the log and changes nothing.

    Every read is recorded in the read set of the response in progress, if there is one.
    """

    def __init__(
        self,
        store: Store,
        objects: int = 200_000,
        *,
        versions: VersionTokens | None = None,
        log: ChangeLog | None = None,
    ) -> None:
        self._store = store
        # These results are never cached, because the cache cannot tell when they change. Responses that are computed from them are
        # not cached either.
        self.assoc_ranks = untracked(store.assoc_ranks)
        self.assoc_ended = untracked(store.assoc_ended)
        self.assoc_ended_range = untracked(store.assoc_ended_range)
        self.obj_scan = untracked(store.obj_scan)
        self.assoc_scan = untracked(store.assoc_scan)
        self.count_scan = untracked(store.count_scan)
        self.claim = store.claim
        self.ack = store.ack
        self.put_back = store.put_back
        self.park = store.park
        self.backlog = store.backlog
        self.lag = store.lag
        self.parked = store.parked
        self.unpark = store.unpark
        self.on_event = store.on_event
        self.block_scan = store.block_scan
        self.block_drop = store.block_drop
        self.sweep = store.sweep
        self.sweep_history = store.sweep_history

        self._joining: Joining | None = store if isinstance(store, Joining) and store.joins else None
        self._short = _SHORT if versions is None else _SHORT_REMOTE
        self._head = 0 if versions is None else HEAD
        self._entries = entries = CacheEntries(objects, remote=versions is not None)
        self._objects, self._counts = entries.objects, entries.counts
        self._lists, self._prefixes = entries.lists, entries.prefixes
        self._links = entries.links
        self._sets, self._common, self._newest_sets = entries.sets, entries.common, entries.newest_sets
        self._token_guard: VersionTokenGuard | None = None
        self._lists_last = True
        """Whether cached lists serve more than one request."""
        self._guard: Guard = SoleGuard()
        if versions is not None:
            hints = partial(prefetch_hints, entries.objects)
            self._guard = self._token_guard = VersionTokenGuard(versions, 4 * objects, entries.forget, hints)
            self._lists_last = self._token_guard.shared
        elif isinstance(log, FollowedLog):
            self._guard = LogGuard(log, entries.forget, entries.clear)
        self.memories = entries.by_name
        """The caches by name, for metrics. Bulk reads of objects, counts and list prefixes count hits and misses."""
        self.changes = log or ChangeLog()
        """Log of what this process has changed, for the response cache."""
        self._shielded = ShieldedTasks()

    async def _note(self, read: ReadSet, ids: Sequence[int], atypes: Sequence[AssocType] = ()) -> None:
        """Record that the response depends on objects or, if `atypes` are given, on their lists of these types.

        Call it before the data is read: a version token that is read later may be newer than the data.
        """
        if (guard := self._token_guard) is not None:
            versions = (await guard.enter(ids)).versions
            if ids and not read.versions:
                depends_on(lambda: guard.are_still(read.versions), answer=True)
            read.note_versions(ids, versions)
        elif atypes:
            read.note_lists(ids, atypes)
        else:
            read.note_objects(ids)

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        if (read := current_read_set()) is not None:
            names = name_marks(keys)
            if len(names) < len(keys):
                do_not_cache()
            await self._note(read, names)
        return await self._store.key_get(keys)

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        if (read := current_read_set()) is not None:
            await self._note(read, ids)
        return await self._objects_of(ids, await self._guard.enter(ids))

    async def _objects_of(self, ids: Sequence[int], ticket: Any) -> dict[int, AnyNode]:
        known = self._objects.many(ids)
        if len(known) < len(ids) and (missing := [id_ for id_ in ids if id_ not in known]):
            found = await self._store.obj_get(missing)
            known.update(found)
            for id_, node in found.items():
                if self._guard.keeps(ticket, id_):
                    self._objects.put(id_, node, kilobytes(node))
        return known

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        if (read := current_read_set()) is not None:
            await self._note(read, id1s, atypes)
        return await self._counts_of(id1s, atypes, await self._guard.enter(id1s))

    async def _counts_of(
        self, id1s: Sequence[int], atypes: Sequence[AssocType], ticket: Any
    ) -> dict[AssocType, dict[int, int]]:
        known = self._counts.many(id1s)
        missing = [] if len(known) == len(id1s) else [id1 for id1 in id1s if id1 not in known]
        answer: dict[AssocType, dict[int, int]] = {}
        try:
            for atype in atypes:
                number = atype.number
                answer[atype] = {id1: n for id1, lengths in known.items() if (n := lengths[number])}
        except KeyError:
            # The dictionary of counts of an object lacks a requested type.
            answer = {atype: {} for atype in atypes}
            missing += self._add_counts(known, answer)
        if missing:
            found = await self._store.assoc_count(missing, self._counted_with(atypes))
            for atype in atypes:
                answer[atype].update(found[atype])
            self._keep_counts(missing, found, ticket)
        return answer

    def _add_counts(self, known: Mapping[int, dict[int, int]], answer: Mapping[AssocType, dict[int, int]]) -> list[int]:
        """Add the cached counts of objects to `answer`, and return the objects of which a count is unknown."""
        missing = []
        for id1, lengths in known.items():
            for atype, counts in answer.items():
                count = count_in(lengths, atype.number)
                if count is None:
                    missing.append(id1)
                    self._counts.count(0, 1)
                    break
                if count:
                    counts[id1] = count
        return missing

    async def _lengths_of(self, id1: int, atypes: Sequence[AssocType], ticket: Any) -> list[int]:
        """Return the counts of one object: a faster `_counts_of`."""
        if (lengths := self._counts.get(id1)) is not None:
            try:
                known = [lengths[atype.number] for atype in atypes]
            except KeyError:
                pass  # A count is 0 or unknown, as `_counts_of` decides.
            else:
                self._counts.count(1, 0)
                return known
        answer = await self._counts_of((id1,), atypes, ticket)
        return [answer[atype].get(id1, 0) for atype in atypes]

    def _counted_with(self, atypes: Sequence[AssocType]) -> Sequence[AssocType]:
        return atypes if self._joining is None else self._joining.counted_with(atypes)

    def _keep_counts(self, id1s: Sequence[int], found: Mapping[AssocType, Mapping[int, int]], ticket: Any) -> None:
        for id1 in id1s:
            if self._guard.keeps(ticket, id1):
                self._counts.keep(id1, [(atype.number, counts.get(id1, 0)) for atype, counts in found.items()])

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if (read := current_read_set()) is not None:
            await self._note(read, (id1,), atypes)
        if not id2s:
            return {atype: {} for atype in atypes}
        if (guard := self._token_guard) is not None and len(id2s) <= FEW and self.prefetches_links(id1, atypes):
            counting = self._store.assoc_count((id1,), self._counted_with(atypes))
            query = asyncio.gather(counting, self._store.assoc_get(id1, atypes, id2s))
            (lengths, found), ticket = await guard.enter_with((id1,), query)
            self._keep_counts((id1,), lengths, ticket)
            return found
        ticket = await self._guard.enter((id1,))
        if self._head and (not self._guard.keeps(ticket, id1) or self._is_one_of_many(id1, atypes, id2s)):
            # If the lists cannot be cached, or caching them is hardly worth it, read only the requested associations.
            return await self._store.assoc_get(id1, atypes, id2s)
        if (self._head or self._joining) and len(id2s) <= FEW and self._lacks_counts(id1, atypes):
            # The counts determine which lists the next read caches. Read them together with the associations: a separate read
            # before would add a round trip to the request.
            _, found = await asyncio.gather(
                self._counts_of((id1,), atypes, ticket), self._look_up(id1, atypes, id2s, ticket)
            )
            return found
        answer: dict[AssocType, dict[int, Assoc]] = {atype: {} for atype in atypes}
        short: list[AssocType] = []
        long: list[AssocType] = []
        # Read the counts first, because empty lists (blocks and mutes, for most members) need not be read.
        for atype, n in zip(atypes, await self._lengths_of(id1, atypes, ticket), strict=True):
            if n > self._short or not atype.counted:
                long.append(atype)
            elif n:
                short.append(atype)
        if self._joining:
            short, long = self._from_links(id1, short, long, id2s, answer)
        lists = await self._short_lists(id1, short, ticket) if short else {}
        for atype in short:
            links = lists[atype.number]
            answer[atype] = {id2: links[id2] for id2 in id2s if id2 in links}
        if long:
            answer.update(await self._look_up(id1, long, id2s, ticket))
        return answer

    async def _look_up(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int], ticket: Any
    ) -> dict[AssocType, dict[int, Assoc]]:
        """Read only the requested associations. If the store joins reads, the associations are cached."""
        found = await self._store.assoc_get(id1, atypes, id2s)
        if self._joining and self._guard.keeps(ticket, id1):
            for atype in atypes:
                known = self._links.of(id1, atype.number) or KnownLinks({})
                self._links.keep(id1, atype.number, known.with_found(id2s, found[atype]))
        return found

    def _from_links(
        self,
        id1: int,
        short: Sequence[AssocType],
        long: Sequence[AssocType],
        id2s: Sequence[int],
        answer: dict[AssocType, dict[int, Assoc]],
    ) -> tuple[list[AssocType], list[AssocType]]:
        """Fill `answer` with associations that were cached when they were looked up earlier.

        Returns two lists of types that are not in the cache: the types of `short` whose lists are to be read whole, and the types
        of which only the associations with `id2s` are to be read. If no later request can use a list, a few such look-ups cost
        less than reading the whole list, because they join other point reads.
        """
        lists = self._lists.get(id1) or {}
        reads_whole = self._lists_last or len(id2s) > _FEW_LOOK_UPS
        whole = [atype for atype in short if reads_whole or atype.number in lists]
        looked_up = [*long, *[atype for atype in short if atype not in whole]]
        for types in (whole, looked_up):
            for atype in [atype for atype in types if atype.number not in lists]:
                known = self._links.of(id1, atype.number)
                if known is not None and all(id2 in known.entries for id2 in id2s):
                    answer[atype] = {id2: assoc for id2 in id2s if (assoc := known.entries[id2]) is not None}
                    types.remove(atype)
        return whole, looked_up

    def _is_one_of_many(self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]) -> bool:
        """Return whether a single association is requested, and its list is neither cached nor known to be empty."""
        if len(atypes) > 1 or len(id2s) > 1:
            return False
        (atype,) = atypes
        lists = self._lists.get(id1) or {}
        return self._counts.of(id1, atype.number) != 0 and atype.number not in lists

    def _lacks_counts(self, id1: int, atypes: Sequence[AssocType]) -> bool:
        return any(atype.counted and self._counts.of(id1, atype.number) is None for atype in atypes)

    async def _short_lists(
        self, id1: int, atypes: Sequence[AssocType], ticket: Any
    ) -> Mapping[int, Mapping[int, Assoc]]:
        """Read lists completely, and return them by type number.

        The lists are short, so this costs hardly more than reading a few of their entries.
        """
        known = dict(self._lists.get(id1) or {})  # a copy: a concurrent commit may remove lists
        missing = [atype for atype in atypes if atype.number not in known]
        if not missing:
            return known
        whole = Cursor(limit=self._short + 1)
        if self._head or self._joining:
            pages = await asyncio.gather(*[self._store.assoc_range(id1, atype, whole) for atype in missing])
        else:
            pages = [await self._store.assoc_range(id1, atype, whole) for atype in missing]
        found = {atype.number: {assoc.id2: assoc for assoc in page} for atype, page in zip(missing, pages, strict=True)}
        if self._guard.keeps(ticket, id1):
            self._entries.keep_lists(id1, found)
        return known | found

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        if (read := current_read_set()) is not None:
            await self._note(read, (id1,), (atype,))
        if atype.counted:
            ticket = await self._guard.enter((id1,))
            if await self._lengths_of(id1, (atype,), ticket) == [0]:
                return []
        before, after, limit, oldest_first = at
        if not oldest_first and limit <= HEAD:
            head = await self._newest(id1, atype, limit, read=before == MAX_TIME)
            if head is not None:
                page = [assoc for assoc in head.assocs if after < assoc.time < before][:limit]
                # Return the page if it is complete. If not, entries that are older than the cached prefix may belong to it.
                if len(page) == limit or head.whole or head.assocs[-1].time <= after:
                    return page
        if limit <= self._short or at != Cursor(limit=limit):
            return await self._store.assoc_range(id1, atype, at)
        ticket = await self._guard.enter((id1,))
        page = await self._store.assoc_range(id1, atype, at)
        if len(page) <= self._short and self._guard.keeps(ticket, id1):
            # The page is the whole list, so its associations can be looked up without another read.
            self._entries.keep_lists(id1, {atype.number: {assoc.id2: assoc for assoc in page}})
        return page

    async def _newest(self, id1: int, atype: AssocType, least: int, *, read: bool) -> ListPrefix | None:
        """Return the cached prefix of a list; None if it is not cached and `read` is false.

        If `read`, entries are read from the store unless the prefix has the newest `least` entries or the whole list.
        """
        ticket = await self._guard.enter((id1,))
        head = self._prefixes.of(id1, atype.number)
        if read and (head is None or not head.reaches(least)):
            size = max(least, self._head)
            assocs = await self._store.assoc_range(id1, atype, Cursor(limit=size))
            head = ListPrefix(assocs, len(assocs) < size or not assocs)
            if self._guard.keeps(ticket, id1):
                self._prefixes.keep(id1, atype.number, head)
        return head

    @property
    def joining(self) -> bool:
        """Whether the store joins concurrent reads into one request, so that prefetching saves requests."""
        return self._joining is not None

    async def prefetched(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        """Return the newest entries of a list if they are cached, otherwise nothing. Reads nothing from the store."""
        await self._guard.enter((id1,))
        head = self._prefixes.of(id1, atype.number)
        return head.assocs[: at.limit] if head is not None and is_prefix(at) and head.reaches(at.limit) else []

    def _has_prefix(self, id1: int, atype: AssocType, at: Cursor) -> bool:
        head = self._prefixes.of(id1, atype.number)
        return self._counts.of(id1, atype.number) == 0 or (head is not None and head.reaches(at.limit))

    async def prefetch(
        self,
        ids: Sequence[int],
        counts: Sequence[tuple[Sequence[int], Sequence[AssocType]]],
        lists: Sequence[ListRange],
    ) -> None:
        """Read objects, list lengths, and the newest entries of lists into the cache, unless they are cached already.

        Later reads are answered from the cache unless a commit intervened. Does nothing if the store does not join concurrent
        reads.
        """
        if self._joining is None:
            return
        owners = [*ids, *[id1 for id1s, _ in counts for id1 in id1s], *[id1 for id1, _, _ in lists]]
        ticket = await self._guard.enter(list(dict.fromkeys(owners)))
        reads: list[Coroutine[Any, Any, Any]] = []
        if missing := [id_ for id_ in ids if self._objects.get(id_) is None]:
            reads.append(self._objects_of(missing, ticket))
        for id1s, atypes in counts:
            if lacking := [id1 for id1 in id1s if any(self._counts.of(id1, atype.number) is None for atype in atypes)]:
                reads.append(self._counts_of(lacking, atypes, ticket))
        for id1, atype, at in lists:
            if is_prefix(at) and not self._has_prefix(id1, atype, at):
                reads.append(self._newest(id1, atype, at.limit, read=True))
        if reads:
            await asyncio.gather(*reads)

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        if (read := current_read_set()) is not None:
            await self._note(read, id1s, (atype,))
        # Do not use the cache if `_head` is set, because other processes write to the store then: reading the tokens of many lists
        # would cost as much as reading the lists.
        if self._head or at.limit > _BRIEF or at != Cursor(limit=at.limit):
            return await self._store.assoc_ranges(id1s, atype, at)
        ticket = await self._guard.enter(id1s)
        answer: dict[int, list[Assoc]] = {}
        missing: list[int] = []
        for id1 in id1s:
            head = self._prefixes.of(id1, atype.number)
            if head is None or not head.reaches(at.limit):
                missing.append(id1)
            elif head.assocs:
                answer[id1] = head.assocs[: at.limit]
        self._prefixes.count(len(id1s), len(missing))
        if missing:
            found = await self._store.assoc_ranges(missing, atype, at)
            answer.update(found)
            for id1 in missing:
                if self._guard.keeps(ticket, id1):
                    assocs = list(found.get(id1, ()))
                    self._prefixes.keep(id1, atype.number, ListPrefix(assocs, len(assocs) < at.limit))
        return answer

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        if (read := current_read_set()) is not None:
            await self._note(read, (id1,), atypes)
            await self._note(read, (other,), (listed,))
        ticket = await self._guard.enter((other,))
        if await self._lengths_of(other, (listed,), ticket) == [0]:
            return dict.fromkeys(atypes, _NOTHING)
        those = await self._set(other, listed)
        ticket = await self._guard.enter((id1,))
        answer: dict[AssocType, frozenset[int]] = {}
        for atype in atypes:
            cached = self._common.of(id1, atype.number)
            if cached is None or cached.version != those.version:
                cached = ListSet(those.version, await self._intersection(id1, atype, those.ids))
                if self._guard.keeps(ticket, id1):
                    self._common.keep(id1, atype.number, cached)
            answer[atype] = cached.ids
        return answer

    async def _set(self, id1: int, atype: AssocType) -> ListSet:
        ticket = await self._guard.enter((id1,))
        cached = self._sets.of(id1, atype.number)
        if cached is None:
            page = await self._store.assoc_range(id1, atype, Cursor(limit=_SET))
            cached = self._newest_sets.of(id1, atype.number, frozenset([assoc.id2 for assoc in page]))
            if self._guard.keeps(ticket, id1):
                self._sets.keep(id1, atype.number, cached)
        return cached

    async def _intersection(self, id1: int, atype: AssocType, those: frozenset[int]) -> frozenset[int]:
        """Return the ids of a list that are also in `those`.

        The shorter of the two is read: the whole list, or only its associations with `those` ids.
        """
        ticket = await self._guard.enter((id1,))
        (n,) = await self._lengths_of(id1, (atype,), ticket)
        if not n:
            return _NOTHING
        if n <= self._short:
            return those.intersection((await self._short_lists(id1, (atype,), ticket))[atype.number])
        if n <= len(those):
            page = await self._store.assoc_range(id1, atype, Cursor(limit=len(those)))
            if len(page) < len(those):
                return those.intersection([assoc.id2 for assoc in page])
        return frozenset((await self._store.assoc_get(id1, (atype,), list(those)))[atype])

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        return await self._shielded.run(self._commit_bulk(batch) if batch.bulk else self._commit(batch))

    async def _commit_bulk(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        pending_inverses: list[tuple[Job, InverseOp]] = []

        async def write() -> None:
            pending_inverses.extend(await self._store.commit_owing(batch))

        names = name_marks([op.key for op in batch.keys]) if batch.keys else []
        changed = {id_ for id_, _ in lists_of(batch)}.union([op.id for op in batch.objects], names)
        await self._write(changed, partial(self._entries.forget_many, changed), write, self.changes.forget_all)
        return pending_inverses

    async def _commit(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        lists = lists_of(batch)
        names = name_marks([op.key for op in batch.keys]) if batch.keys else []
        changed = {id_ for id_, _ in lists}.union([op.id for op in batch.objects], names)
        stored = False
        # The lists after the commit are computed without another read: from the lists cached before it, and the changes that
        # the store reports.
        batch.list_changes, before = ListChanges(), self._entries.snapshot(lists)

        def settle(exclusive: Collection[int]) -> None:
            self._entries.forget_changed(batch, lists)
            if stored:
                self._entries.update(batch, exclusive, before)

        async with self._guard.change(changed, settle) as batch.after:
            self._entries.forget_changed(batch, lists)
            try:
                pending_inverses = await self._store.commit_owing(batch)
                stored = True
                return pending_inverses
            finally:
                self._entries.forget_changed(batch, lists)
                self.changes.note([*names, *[op.id for op in batch.objects]], lists)

    def forget_all(self) -> None:
        """Invalidate the whole cache, because a server that may lack the last changes has taken over the store."""
        self._entries.clear()
        self.changes.forget_all()
        if isinstance(self._guard, SoleGuard):
            self._guard.renew()

    @property
    def loads(self) -> bool:
        return isinstance(self._store, Loading) and self._store.loads

    def store_of(self, shard: int) -> int:
        return self._store.store_of(shard) if isinstance(self._store, Loading) else 0

    async def load(self, part: LoadPart) -> None:
        if not isinstance(self._store, Loading):
            raise TypeError("this store does not support bulk imports")
        changed = part.changed()
        forget = partial(self._entries.forget_many, changed)
        await self._shielded.run(self._write(changed, forget, partial(self._store.load, part), self.changes.forget_all))

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        def forget() -> None:
            self._counts.forget(id1)
            # Invalidate intersections too, because an intersection with an empty list is derived from the list's count of 0.
            self._common.forget(id1)

        log = partial(self.changes.note, (), ((id1, atype),))
        await self._shielded.run(self._write((id1,), forget, partial(self._store.count_set, id1, atype, n), log))

    async def _write(
        self,
        changed: Collection[int],
        forget: Callable[[], None],
        write: Callable[[], Awaitable[None]],
        log: Callable[[], None],
    ) -> None:
        """Run `write`, which changes the store without a batch.

        The cached data of `changed` is invalidated before and after it.
        """
        async with self._guard.change(changed, lambda _exclusive: forget()) as marked:
            try:
                if marked is not None:
                    await marked
                await write()
            finally:
                forget()
                log()

    def uncached(self) -> Graph:
        return UncachedView(self, self._store)

    @property
    def log_sources(self) -> Sequence[LogSource]:
        return self._store.log_sources

    async def close(self) -> None:
        """Close the store, after the changes in progress have finished."""
        await self._shielded.close()
        await self._guard.close()
        await self._store.close()

    def prefetches_links(self, id1: int, atypes: Sequence[AssocType]) -> bool:
        """Return whether a read of these associations is sent concurrently with the read of the version token of `id1`.

        False if the request has already read that token.
        """
        guard = self._token_guard
        return (
            guard is not None
            and len(atypes) > 1
            and guard.waits((id1,))
            and guard.has_seen(id1)
            and self._lacks_counts(id1, atypes)
        )

    def cached_author(self, post_id: int) -> int:
        """Return the author of a post if the post is cached, otherwise 0.

        The author never changes, but the post may have been deleted by now.
        """
        node = self._objects.get(post_id)
        return node.author_id if isinstance(node, Post) else 0

    async def query_with_tokens(
        self, id1: int, atype: AssocType, ids: Sequence[int], ask: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[T] | None:
        """Run a query while the version tokens of `ids` are read, and return its result in a tuple.

        The ids include `id1`. Returns None if this request has read all the tokens already, or if the list of `id1` was not in
        the cache during the whole query; then the caller has to run the query. After a result, `assoc_common` uses the list as it
        was during the query, if it is called before the next `await`.
        """
        guard = self._token_guard
        if guard is None or not guard.waits(ids) or not guard.has_seen(id1) or not self._has_set(id1, atype):
            return None
        answer, ticket = await guard.enter_with(ids, ask())
        return (answer,) if guard.keeps(ticket, id1) and self._has_set(id1, atype) else None

    def _has_set(self, id1: int, atype: AssocType) -> bool:
        count = self._counts.of(id1, atype.number)
        return count == 0 or (count is not None and self._sets.of(id1, atype.number) is not None)


def author_to_ask_about(graph: Reader, viewer: int, atypes: Sequence[AssocType], post_id: int) -> int:
    """Return the author of a post, if the viewer's associations with that author can be read along with the version tokens.

    Returns 0 if they cannot, or if the post is not cached.
    """
    if isinstance(graph, CachedGraph) and graph.prefetches_links(viewer, atypes):
        return graph.cached_author(post_id)
    return 0
