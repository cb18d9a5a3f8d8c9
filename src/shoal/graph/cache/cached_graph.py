"""A graph with a read-through cache in front of a store. This page describes all of `shoal.graph.cache`.

| module | layer |
|---|---|
| `responses` | whole responses, read sets (what a response depends on) and the change log |
| `cached_graph` | objects, counts and short lists, in front of the store; records dependencies and prefetches |
| `coherence` | decides whether cached data may be used or stored |
| `lru` | the bounded LRU map, and the entries of the graph cache |

Cached reads cost no query. Objects stay decoded; counts are cached, and short lists whole. A commit invalidates what it may
change, before and after it is durable; a read overtaken by a commit is not cached. Reads shared by several callers continue
when one of them is cancelled. Keys, positions, tombstones, the outbox and scans always go to the store.

A prefetch runs alongside the version token query. Its result is never older than the request, and is cached, or preferred to the
cached value, only if the tokens show that nothing has changed since before the query.

Example: member 7 has 3 followers, and the count is not cached. The process has made 40 commits:

1. A reader enters with ticket 40 and queries the store, which counts 3. The response is in flight.
2. A follow of 7 commits. The count is invalidated before and after it; the guard is now at 41.
3. The response arrives. It was right when the query was made, so the reader gets 3, but 40 is not 41: 3 is not cached.
4. The next reader misses, queries the store and gets 4, which is cached until the next such commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from shoal.core.events import InverseOp
from shoal.core.model import Post
from shoal.graph.bulk import Loading, LoadPart
from shoal.graph.cache.coherence import FollowedLog, Guard, LogGuard, SoleGuard, StampGuard, Stamps
from shoal.graph.cache.lru import HEAD, ListHead, ListSet, Memories, companions, count_in, kilobytes
from shoal.graph.cache.responses import (
    ChangeLog,
    ReadSet,
    being_made,
    depends_on,
    lists_of,
    name_marks,
    not_noted,
    unnoted,
)
from shoal.graph.contract import MAX_TIME, Assoc, Batch, Cursor, Graph, Job, JudgedLists, Reader, Store
from shoal.graph.schema import AnyNode, AssocType, Key


class Beneath:
    """Reads from the store, and commits through the memory. No answer that is made of what it reads is remembered."""

    def __init__(self, memory: Graph, store: Store) -> None:
        self.obj_get = unnoted(store.obj_get)
        self.key_get = unnoted(store.key_get)
        self.assoc_get = unnoted(store.assoc_get)
        self.assoc_range = unnoted(store.assoc_range)
        self.assoc_ranges = unnoted(store.assoc_ranges)
        self.assoc_ranks = unnoted(store.assoc_ranks)
        self.assoc_ended = unnoted(store.assoc_ended)
        self.assoc_ended_range = unnoted(store.assoc_ended_range)
        self.assoc_count = unnoted(store.assoc_count)
        self.commit = memory.commit
        self.close = memory.close


class Unremembered:
    """The questions to a store whose answers are not remembered."""

    def __init__(self, store: Store) -> None:
        self.key_get = store.key_get
        self.assoc_ranks = store.assoc_ranks
        self.assoc_ended = store.assoc_ended
        self.assoc_ended_range = store.assoc_ended_range
        self.claim = store.claim
        self.ack = store.ack
        self.put_back = store.put_back
        self.bury = store.bury
        self.backlog = store.backlog
        self.lag = store.lag
        self.buried = store.buried
        self.unbury = store.unbury
        self.on_event = store.on_event
        self.obj_scan = store.obj_scan
        self.assoc_scan = store.assoc_scan
        self.count_scan = store.count_scan
        self.block_scan = store.block_scan
        self.block_drop = store.block_drop
        self.sweep = store.sweep
        self.sweep_history = store.sweep_history


T = TypeVar("T")


class UnderWay:
    """Changes of a store, which goes on with them when a caller is cancelled: what was remembered must be forgotten afterwards."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of the work, which is done to its end even if this is cancelled."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(_answering(work, answer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await answer

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever waited has it, or has gone.
            task.exception()

    async def close(self) -> None:
        """Wait for everything that is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _answering(work: Coroutine[Any, Any, T], answer: asyncio.Future[T]) -> None:
    """Do the work, and answer with its result or error, unless nobody waits any more.

    Where the end of a task is awaited, or shielded, the answer comes one or two turns of the loop later.
    """
    try:
        result = await work
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except Exception as error:  # noqa: BLE001  # whoever waits gets it
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(result)


_SHORT = 256
"""A list of at most so many associations is remembered whole."""
_SHORT_AFAR = 2_048
FEW = 2
"""So many ends, at most, does a verb ask about: a post and its author."""
_BRIEF = 16
"""Newest entries of each list, at most, that are remembered where many lists are read at once."""

_NOTHING: frozenset[int] = frozenset()
_SET = 100_000
"""The newest entries, at most, of a list that others are compared with."""


class CachedGraph(Unremembered):
    """A store behind memories of about `objects` kilobytes of objects, four times as many associations in short
    lists and as many of the newest of lists (250 bytes each), and the counts of twice as many objects (300 bytes each, 40 if
    they are new and alike). What lists have in common takes about as much as the counts, where it is asked for.

    With `stamps` other processes may write to the same store. It is a round trip away then, and not a few microseconds: lists
    are remembered whole up to a greater length, and of the others at once as many of the newest as are ever remembered.

    With a `log` that several processes share, this one writes to it what it changes, or follows it and changes nothing.
    """

    def __init__(
        self, store: Store, objects: int = 200_000, *, stamps: Stamps | None = None, log: ChangeLog | None = None
    ) -> None:
        super().__init__(store)
        self._store = store
        self._short = _SHORT if stamps is None else _SHORT_AFAR
        self._head = 0 if stamps is None else HEAD
        self._kept = kept = Memories(objects, afar=stamps is not None)
        self._objects, self._counts, self._lists, self._heads = kept.objects, kept.counts, kept.lists, kept.heads
        self._sets, self._common, self._newest_sets = kept.sets, kept.common, kept.newest_sets
        self._guard: Guard = SoleGuard()
        if stamps is not None:
            self._guard = StampGuard(stamps, 4 * objects, kept.forget, partial(companions, kept.objects))
        elif isinstance(log, FollowedLog):
            self._guard = LogGuard(log, kept.forget, kept.clear)
        self.memories = kept.by_name
        """The memories by name, for figures. Bulk reads of objects, counts and heads count what they asked for."""
        self.changes = log or ChangeLog()
        """Marks of what this process has changed, for answers that are remembered whole."""
        self._under_way = UnderWay()

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        ticket = await self._guard.enter(ids)
        known = self._objects.many(ids)
        if len(known) < len(ids) and (missing := [id_ for id_ in ids if id_ not in known]):
            found = await self._store.obj_get(missing)
            known.update(found)
            for id_, node in found.items():
                if self._guard.keeps(ticket, id_):
                    self._objects.put(id_, node, kilobytes(node))
        return known

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        return await self._counts_of(id1s, atypes, await self._guard.enter(id1s))

    async def _counts_of(
        self, id1s: Sequence[int], atypes: Sequence[AssocType], ticket: Any
    ) -> dict[AssocType, dict[int, int]]:
        answer: dict[AssocType, dict[int, int]] = {atype: {} for atype in atypes}
        numbered = [(atype.number, answer[atype]) for atype in atypes]
        known = self._counts.many(id1s)
        missing = [] if len(known) == len(id1s) else [id1 for id1 in id1s if id1 not in known]
        for id1, held in known.items():
            try:
                for number, counts in numbered:
                    if n := held[number]:
                        counts[id1] = n
            except KeyError:
                # Remembered, but not of all these types.
                for number, counts in numbered:
                    count = count_in(held, number)
                    if count is None:
                        missing.append(id1)
                        self._counts.count(0, 1)
                        break
                    if count:
                        counts[id1] = count
        if missing:
            await self._count(missing, atypes, answer, ticket)
        return answer

    async def _count(
        self, id1s: Sequence[int], atypes: Sequence[AssocType], answer: dict[AssocType, dict[int, int]], ticket: Any
    ) -> None:
        found = await self._store.assoc_count(id1s, atypes)
        for atype, counts in found.items():
            answer[atype].update(counts)
        self._keep_counts(id1s, found, ticket)

    def _keep_counts(self, id1s: Sequence[int], found: Mapping[AssocType, Mapping[int, int]], ticket: Any) -> None:
        for id1 in id1s:
            if self._guard.keeps(ticket, id1):
                self._counts.keep(id1, [(atype.number, counts.get(id1, 0)) for atype, counts in found.items()])

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if not id2s:
            return {atype: {} for atype in atypes}
        ticket = await self._guard.enter((id1,))
        if self._head and (not self._guard.keeps(ticket, id1) or self._is_one_of_many(id1, atypes, id2s)):
            # It cannot be remembered, or is hardly worth it: no more is read than what is asked for.
            return await self._store.assoc_get(id1, atypes, id2s)
        if self._head and len(id2s) <= FEW and self._lacks_counts(id1, atypes):
            # Lists that are worth to be read whole are known the next time. To learn it first would be a wait more, for a verb.
            _, found = await asyncio.gather(
                self._counts_of((id1,), atypes, ticket), self._store.assoc_get(id1, atypes, id2s)
            )
            return found
        answer: dict[AssocType, dict[int, Assoc]] = {atype: {} for atype in atypes}
        short: list[AssocType] = []
        long: list[AssocType] = []
        # Counts first: lists that are empty (blocks and mutes, for most members) are not looked into.
        for atype, counts in (await self._counts_of((id1,), atypes, ticket)).items():
            n = counts.get(id1, 0)
            if n > self._short or not atype.counted:
                long.append(atype)
            elif n:
                short.append(atype)
        lists = await self._short_lists(id1, short, ticket) if short else {}
        for atype in short:
            links = lists[atype.number]
            answer[atype] = {id2: links[id2] for id2 in id2s if id2 in links}
        if long:
            answer.update(await self._store.assoc_get(id1, long, id2s))
        return answer

    def _is_one_of_many(self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]) -> bool:
        """Whether one association alone is asked for, of a list that is not remembered."""
        if len(atypes) > 1 or len(id2s) > 1:
            return False
        (atype,) = atypes
        lists = self._lists.get(id1) or {}
        return self._counts.of(id1, atype.number) != 0 and atype.number not in lists

    def _lacks_counts(self, id1: int, atypes: Sequence[AssocType]) -> bool:
        """Whether it is not remembered how long all of these lists are."""
        return any(atype.counted and self._counts.of(id1, atype.number) is None for atype in atypes)

    async def _short_lists(
        self, id1: int, atypes: Sequence[AssocType], ticket: Any
    ) -> Mapping[int, Mapping[int, Assoc]]:
        """Whole lists, which cost hardly more to read than the few of each that are asked for; by the number of their type."""
        known = dict(self._lists.get(id1) or {})  # a copy: a commit may take something out of it meanwhile
        missing = [atype for atype in atypes if atype.number not in known]
        if not missing:
            return known
        whole = Cursor(limit=self._short + 1)
        if self._head:
            pages = await asyncio.gather(*[self._store.assoc_range(id1, atype, whole) for atype in missing])
        else:
            pages = [await self._store.assoc_range(id1, atype, whole) for atype in missing]
        found = {atype.number: {assoc.id2: assoc for assoc in page} for atype, page in zip(missing, pages, strict=True)}
        if self._guard.keeps(ticket, id1):
            kept = {**(self._lists.get(id1) or {}), **found}
            self._lists.put(id1, kept, sum(map(len, kept.values())))
        return known | found

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        if atype.counted and not (await self.assoc_count((id1,), (atype,)))[atype].get(id1, 0):
            return []
        before, after, limit, oldest_first = at
        if not oldest_first and limit <= HEAD:
            head = await self._newest(id1, atype, limit, read=before == MAX_TIME)
            if head is not None:
                page = [assoc for assoc in head.assocs if after < assoc.time < before][:limit]
                # What is older than the head may belong to the page too.
                if len(page) == limit or head.whole or head.assocs[-1].time <= after:
                    return page
        return await self._store.assoc_range(id1, atype, at)

    async def _newest(self, id1: int, atype: AssocType, least: int, *, read: bool) -> ListHead | None:
        """At least so many of the newest of a list, if it has them; None when they are not remembered, and not to be read."""
        ticket = await self._guard.enter((id1,))
        head = self._heads.of(id1, atype.number)
        if read and (head is None or not head.reaches(least)):
            size = max(least, self._head)
            assocs = await self._store.assoc_range(id1, atype, Cursor(limit=size))
            head = ListHead(assocs, len(assocs) < size or not assocs)
            if self._guard.keeps(ticket, id1):
                self._heads.keep(id1, atype.number, head)
        return head

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        # Afar, to ask for the stamps of many lists costs as much as to read them.
        if self._head or at.limit > _BRIEF or at != Cursor(limit=at.limit):
            return await self._store.assoc_ranges(id1s, atype, at)
        ticket = await self._guard.enter(id1s)
        answer: dict[int, list[Assoc]] = {}
        missing: list[int] = []
        for id1 in id1s:
            head = self._heads.of(id1, atype.number)
            if head is None or not head.reaches(at.limit):
                missing.append(id1)
            elif head.assocs:
                answer[id1] = head.assocs[: at.limit]
        self._heads.count(len(id1s), len(missing))
        if missing:
            found = await self._store.assoc_ranges(missing, atype, at)
            answer.update(found)
            for id1 in missing:
                if self._guard.keeps(ticket, id1):
                    assocs = list(found.get(id1, ()))
                    self._heads.keep(id1, atype.number, ListHead(assocs, len(assocs) < at.limit))
        return answer

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        """As `RememberingReader.assoc_common`: exact, and remembered until one of the lists changes."""
        if not (await self.assoc_count((other,), (listed,)))[listed]:
            return dict.fromkeys(atypes, _NOTHING)
        those = await self._set(other, listed)
        ticket = await self._guard.enter((id1,))
        answer: dict[AssocType, frozenset[int]] = {}
        for atype in atypes:
            held = self._common.of(id1, atype.number)
            if held is None or held.version != those.version:
                held = ListSet(those.version, await self._intersection(id1, atype, those.ids))
                if self._guard.keeps(ticket, id1):
                    self._common.keep(id1, atype.number, held)
            answer[atype] = held.ids
        return answer

    async def _set(self, id1: int, atype: AssocType) -> ListSet:
        ticket = await self._guard.enter((id1,))
        held = self._sets.of(id1, atype.number)
        if held is None:
            page = await self._store.assoc_range(id1, atype, Cursor(limit=_SET))
            held = self._newest_sets.of(id1, atype.number, frozenset([assoc.id2 for assoc in page]))
            if self._guard.keeps(ticket, id1):
                self._sets.keep(id1, atype.number, held)
        return held

    async def _intersection(self, id1: int, atype: AssocType, those: frozenset[int]) -> frozenset[int]:
        """Reads whichever is shorter: the whole list, or what of it may be in the answer."""
        ticket = await self._guard.enter((id1,))
        n = (await self._counts_of((id1,), (atype,), ticket))[atype].get(id1, 0)
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
        return await self._under_way.finish(self._commit(batch))

    async def _commit(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        lists = lists_of(batch)
        names = name_marks([op.key for op in batch.keys]) if batch.keys else []
        changed = {id_ for id_, _ in lists}.union([op.id for op in batch.objects], names)
        stored = False
        # What is known of the lists as they were, and what the commit made of them: so none has to be read again.
        batch.judged, known = JudgedLists(), self._kept.known_of(lists)

        def settle(alone: Collection[int]) -> None:
            self._kept.forget_changed(batch, lists)
            if stored:
                self._kept.remember(batch, alone, known)

        async with self._guard.change(changed, settle) as batch.after:
            self._kept.forget_changed(batch, lists)
            try:
                owed = await self._store.commit_owing(batch)
                stored = True
                return owed
            finally:
                self._kept.forget_changed(batch, lists)
                self.changes.note([*names, *[op.id for op in batch.objects]], lists)

    def forget_all(self) -> None:
        """The store is not as it was read: another server has taken over."""
        self._kept.clear()
        self.changes.forget_all()
        if isinstance(self._guard, SoleGuard):
            self._guard.renew()

    @property
    def loads(self) -> bool:
        """Whether the store takes parts of an import."""
        return isinstance(self._store, Loading) and self._store.loads

    async def load(self, part: LoadPart) -> None:
        """See `Loading`."""
        if not isinstance(self._store, Loading):
            raise TypeError("this store takes no parts")
        await self._under_way.finish(self._load(self._store, part))

    async def _load(self, store: Loading, part: LoadPart) -> None:
        changed = part.changed()

        def forget(_alone: Collection[int] = ()) -> None:
            for id_ in changed:
                self._kept.forget(id_)

        async with self._guard.change(changed, forget) as marked:
            try:
                if marked is not None:
                    await marked
                await store.load(part)
            finally:
                forget()
                self.changes.forget_all()

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        await self._under_way.finish(self._count_set(id1, atype, n))

    def beneath(self) -> Graph:
        """Return a view of this graph that remembers nothing it reads; its changes drop what this cache holds."""
        return Beneath(self, self._store)

    async def close(self) -> None:
        """Close the store, after the operations under way have finished."""
        await self._under_way.close()
        await self._guard.close()
        await self._store.close()

    async def _count_set(self, id1: int, atype: int, n: int) -> None:
        def forget(_alone: Collection[int] = ()) -> None:
            self._counts.forget(id1)
            # An empty list was told by its count.
            self._common.forget(id1)

        async with self._guard.change((id1,), forget) as marked:
            try:
                if marked is not None:
                    await marked
                await self._store.count_set(id1, atype, n)
            finally:
                forget()
                self.changes.note((), ((id1, atype),))


class AheadGraph(CachedGraph):
    """A graph with a memory that asks its store beside the stamps, where it is known to have to."""

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if not 0 < len(id2s) <= FEW or not self.asks_for_links(id1, atypes):
            return await super().assoc_get(id1, atypes, id2s)

        async def ask() -> tuple[dict[AssocType, dict[int, int]], dict[AssocType, dict[int, Assoc]]]:
            return await asyncio.gather(
                self._store.assoc_count((id1,), atypes), self._store.assoc_get(id1, atypes, id2s)
            )

        (counts, found), ticket = await self._stamped().enter_beside((id1,), ask())
        self._keep_counts((id1,), counts, ticket)
        return found

    def asks_for_links(self, id1: int, atypes: Sequence[AssocType]) -> bool:
        """Return whether the store is asked for a few links of these types and for their counts, whatever the stamp is.

        Where the request has asked for that stamp already, there is nothing to put a question beside.
        """
        guard = self._guard
        return (
            isinstance(guard, StampGuard)
            and len(atypes) > 1
            and guard.waits((id1,))
            and guard.has_seen(id1)
            and self._lacks_counts(id1, atypes)
        )

    def recalled_author(self, post_id: int) -> int:
        """Return whose post this is, as far as it is remembered; otherwise 0. That never changes, but the post may have gone."""
        node = self._objects.get(post_id)
        return node.author_id if isinstance(node, Post) else 0

    async def beside_list(
        self, id1: int, atype: AssocType, ids: Sequence[int], ask: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[T] | None:
        """Put a question to something else while the stamps of these ids are asked for, of which `id1` is one.

        Returns its answer if the list, or that it is empty, is remembered, and was so before the question was put: until the
        caller waits for something else, `assoc_common` with the list is as it was then. None where that is not known, or where
        there is nothing to wait for: then the question is to be put afterwards.
        """
        guard = self._guard
        if (
            not isinstance(guard, StampGuard)
            or not guard.waits(ids)
            or not guard.has_seen(id1)
            or not self._has_set(id1, atype)
        ):
            return None
        answer, ticket = await guard.enter_beside(ids, ask())
        return (answer,) if guard.keeps(ticket, id1) and self._has_set(id1, atype) else None

    def _has_set(self, id1: int, atype: AssocType) -> bool:
        count = self._counts.of(id1, atype.number)
        return count == 0 or (count is not None and self._sets.of(id1, atype.number) is not None)

    def _stamped(self) -> StampGuard:
        if not isinstance(self._guard, StampGuard):
            raise TypeError("this memory knows of every change itself")
        return self._guard


def author_to_ask_about(graph: Reader, viewer: int, atypes: Sequence[AssocType], post_id: int) -> int:
    """Return whose post this is, if it is remembered, and the viewer's links of these types are not; otherwise 0."""
    if isinstance(graph, AheadGraph) and graph.asks_for_links(viewer, atypes):
        return graph.recalled_author(post_id)
    return 0


class NotedGraph(AheadGraph):
    """A graph with a memory, whose reads are noted in the read set of the answer that is being made, if one is.

    Without `stamps` it is for a process that knows of every change by its log: it makes them all itself, or follows the log of the
    one that does.
    """

    def __init__(
        self, store: Store, objects: int = 200_000, *, stamps: Stamps | None = None, log: ChangeLog | None = None
    ) -> None:
        super().__init__(store, objects, stamps=stamps, log=log)
        self.key_get = self._key_get
        self.assoc_ranks = unnoted(store.assoc_ranks)
        self.assoc_ended = unnoted(store.assoc_ended)
        self.assoc_ended_range = unnoted(store.assoc_ended_range)
        self.obj_scan = unnoted(store.obj_scan)
        self.assoc_scan = unnoted(store.assoc_scan)
        self.count_scan = unnoted(store.count_scan)

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        if (read := being_made()) is not None:
            await self._note(read, ids)
        return await super().obj_get(ids)

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        if (read := being_made()) is not None:
            await self._note(read, id1s, atypes)
        return await super().assoc_count(id1s, atypes)

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        if (read := being_made()) is not None:
            await self._note(read, (id1,), atypes)
        return await super().assoc_get(id1, atypes, id2s)

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        if (read := being_made()) is not None:
            await self._note(read, (id1,), (atype,))
        return await super().assoc_range(id1, atype, at)

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        if (read := being_made()) is not None:
            await self._note(read, id1s, (atype,))
        return await super().assoc_ranges(id1s, atype, at)

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        if (read := being_made()) is not None:
            await self._note(read, (id1,), atypes)
            await self._note(read, (other,), (listed,))
        return await super().assoc_common(id1, atypes, other, listed)

    async def _key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        if (read := being_made()) is not None:
            names = name_marks(keys)
            if len(names) < len(keys):
                not_noted()
            await self._note(read, names)
        return await self._store.key_get(keys)

    async def _note(self, read: ReadSet, ids: Sequence[int], atypes: Sequence[AssocType] = ()) -> None:
        """Note objects, or lists of these types; before they are read, for a stamp that is asked for later may be a newer one."""
        guard = self._guard
        if isinstance(guard, StampGuard):
            stamps = (await guard.enter(ids)).stamps
            if ids and not read.stamps:
                depends_on(lambda: guard.are_still(read.stamps), answer=True)
            read.note_stamps(ids, stamps)
        elif atypes:
            read.note_lists(ids, atypes)
        else:
            read.note_objects(ids)
