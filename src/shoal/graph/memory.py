"""The graph in dictionaries: the reference with which other backends are compared. Its data is lost when the process ends.

`Leases` holds the job leases of any store that one process owns. It is not stored: after a crash every event is delivered again.
"""

from __future__ import annotations

import itertools
import secrets
import time
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from shoal.core.errors import InvalidInput
from shoal.core.ids import now_ms, shard_of
from shoal.graph.bulk import ASSOC_BYTES, KeyRow, Rows, Spread, weigh
from shoal.graph.contract import (
    MAX_TIME,
    Assoc,
    AssocRow,
    Batch,
    BlockRow,
    Cursor,
    Job,
    LogEntry,
    LogPlace,
    LogSource,
    PendingInverses,
    StorePage,
    WakeUp,
)
from shoal.graph.event_log import BEGINNING, OFF, check_former, page_of, place_in
from shoal.graph.resolve import Known, Owns, Resolution, StoredAssoc, Triple, decide, every_shard
from shoal.graph.schema import ASSOC_TYPES, UNSWEPT, WITH_HISTORY, AnyNode, AssocType, Key


class Leases:
    """The jobs that are leased to a worker, and those that were put back with a delay."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._out: dict[int, tuple[float, Job]] = {}
        self._waiting: list[tuple[float, int, Job]] = []
        self._deadlines: list[tuple[float, int]] = []
        self._ties = itertools.count()

    def give(self, jobs: Sequence[Job], lease: float) -> None:
        deadline = self._clock() + lease
        for job in jobs:
            self._out[job.seq] = (deadline, job)
            heappush(self._deadlines, (deadline, job.seq))

    def due(self, limit: int) -> list[Job]:
        """Return up to `limit` jobs whose delay or lease has expired, and end their leases."""
        now = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, seq = heappop(self._deadlines)
            out = self._out.get(seq)
            if out is not None and out[0] == deadline:
                del self._out[seq]
                heappush(self._waiting, (now, next(self._ties), out[1]))
        ready: list[Job] = []
        while self._waiting and len(ready) < limit and self._waiting[0][0] <= now:
            ready.append(heappop(self._waiting)[2])
        return ready

    def done(self, seqs: Sequence[int]) -> None:
        ended = {seq for seq in seqs if self._out.pop(seq, None) is None}
        if ended and self._waiting:
            self._waiting = [entry for entry in self._waiting if entry[2].seq not in ended]
            heapify(self._waiting)

    def put_back(self, job: Job, delay: float) -> None:
        """Make a job claimable again in `delay` seconds. Even if its lease has expired, it is claimable only once."""
        self.done([job.seq])
        heappush(self._waiting, (self._clock() + delay, next(self._ties), job))


class _Lists:
    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._times: dict[Triple, int] = {}

    def of(self, id1: int, atype: int) -> list[tuple[int, int]]:
        return self._entries.get((id1, atype), [])

    def set_time(self, triple: Triple, moment: int | None) -> None:
        """Set the time of an association, which determines its position in the list; None removes the association."""
        id1, atype, id2 = triple
        if (old := self._times.pop(triple, None)) is not None:
            entries = self._entries[id1, atype]
            del entries[bisect_left(entries, (old, id2))]
        if moment is not None:
            self._times[triple] = moment
            insort(self._entries.setdefault((id1, atype), []), (moment, id2))


class MemoryGraph:
    """A whole store in memory; `owns` selects the shards that it keeps (all, by default). `logs` turns the event log on."""

    def __init__(
        self, owns: Owns = every_shard, clock: Callable[[], float] = time.monotonic, *, logs: bool = False
    ) -> None:
        self._owns = owns
        self._objects: dict[int, AnyNode] = {}
        # The versions, times and owners of the stored rows, against which a batch is checked.
        self._known = Known()
        self._live = _Lists()
        # Tombstones of the association types for which the store can list tombstones (`ended_listed`).
        self._ended = _Lists()
        # Heaps of the tombstones and expiring keys that `sweep` and `sweep_history` may delete, oldest first. A row that
        # changed after it was added is skipped when popped.
        self._sweepable: list[tuple[int, Triple]] = []
        self._past: list[tuple[int, Triple]] = []
        self._expiring: list[tuple[int, tuple[str, str]]] = []
        self._counts: dict[tuple[int, int], int] = {}
        self._jobs: dict[int, Job] = {}
        self._unclaimed: deque[int] = deque()
        self._parked: list[tuple[Job, str]] = []
        self._clock = clock
        # When each event was committed or requeued by `unpark`, in the order of the jobs.
        self._since: dict[int, float] = {}
        self._leases = Leases(clock)
        self._seq = 0
        self._wake: WakeUp | None = None
        self._log = secrets.randbits(62) if logs else 0
        self._log_rows: deque[LogEntry] = deque()

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        return {id_: node for id_ in ids if (node := self._objects.get(id_)) is not None}

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        now = now_ms()
        found = ((key, self._known.keys.get((key.space, key.name))) for key in keys)
        return {key: held[0] for key, held in found if held is not None and not 0 < held[1] <= now}

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return self._links(id1, atypes, id2s, alive=True)

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return self._links(id1, atypes, id2s, alive=False)

    def _links(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int], *, alive: bool
    ) -> dict[AssocType, dict[int, Assoc]]:
        answer: dict[AssocType, dict[int, Assoc]] = {}
        for atype in atypes:
            links = ((id2, self._known.links.get((id1, atype.number, id2))) for id2 in id2s)
            answer[atype] = {
                id2: Assoc(id2, link.time, link.data) for id2, link in links if link and link.alive is alive
            }
        return answer

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        return self._range(self._live, id1, atype, at)

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        return self._range(self._ended, id1, atype, at)

    def _range(self, lists: _Lists, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        entries = lists.of(id1, atype.number)
        low = bisect_right(entries, (at.after, MAX_TIME))
        high = bisect_left(entries, (at.before, -MAX_TIME))
        page = entries[low:high][: at.limit] if at.oldest_first else entries[low:high][::-1][: at.limit]
        return [Assoc(id2, moment, self._known.links[id1, atype.number, id2].data) for moment, id2 in page]

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        pages = {id1: await self.assoc_range(id1, atype, at) for id1 in id1s}
        return {id1: page for id1, page in pages.items() if page}

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        return {atype: {id1: n for id1 in id1s if (n := self._counts.get((id1, atype.number)))} for atype in atypes}

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        lists = {id1: self._live.of(id1, atype.number) for id1 in id1s}
        return {
            id1: [len(entries) - bisect_right(entries, (moment, MAX_TIME)) for moment in times]
            for id1, entries in lists.items()
        }

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> PendingInverses:
        if batch.after is not None:
            await batch.after
        for op in batch.objects:
            check_former(op, self._objects.get(op.id))
        changes = Resolution(logs=self._log != 0)
        pending_inverses = decide(batch, self._known, changes, owns=self._owns, now=now_ms())
        self._store(changes)
        first = self._seq - len(pending_inverses) + 1
        if changes.events and self._wake:
            self._wake()
        return [(self._jobs[first + i], op) for i, op in enumerate(pending_inverses)]

    def _store(self, changes: Resolution) -> None:
        for id_, node in changes.objects.items():
            if node is None:
                self._objects.pop(id_, None)
            else:
                self._objects[id_] = node  # type: ignore[assignment]  # a Node is one of AnyNode
        for pair, by in changes.counts.items():
            self._counts[pair] = self._counts.get(pair, 0) + by
        for triple, link in changes.links.items():
            self._relist(triple, link)
        for name, owner in changes.keys.items():
            if owner is not None:
                self._expire(name, owner[1])
        for event in changes.events:
            self._seq += 1
            self._wait(Job(self._seq, event, at=now_ms()))
        for logged in changes.logged or ():
            position = self._log_rows[-1].position[0] + 1 if self._log_rows else 1
            self._log_rows.append(LogEntry(self._log, (position,), now_ms(), *logged))

    def _wait(self, job: Job) -> None:
        self._jobs[job.seq] = job
        self._since[job.seq] = self._clock()
        self._unclaimed.append(job.seq)

    def _relist(self, triple: Triple, link: StoredAssoc) -> None:
        self._live.set_time(triple, link.time if link.alive else None)
        atype = ASSOC_TYPES.get(triple[1])
        if atype is not None and atype.ended_listed:
            self._ended.set_time(triple, None if link.alive else link.time)
        if not link.alive:
            if triple[1] in WITH_HISTORY:
                heappush(self._past, (link.time, triple))
            elif triple[1] not in UNSWEPT:
                heappush(self._sweepable, (link.time, triple))

    def _expire(self, name: tuple[str, str], until: int) -> None:
        if until > 0:
            heappush(self._expiring, (until, name))

    async def claim(self, limit: int, lease: float) -> list[Job]:
        jobs = self._leases.due(limit)
        while self._unclaimed and len(jobs) < limit:
            # Skip jobs that were acknowledged before anyone claimed them.
            if job := self._jobs.get(self._unclaimed.popleft()):
                jobs.append(job)
        self._leases.give(jobs, lease)
        return jobs

    async def ack(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._jobs.pop(job.seq, None)
            self._since.pop(job.seq, None)
        self._leases.done([job.seq for job in jobs])

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        if job.seq in self._jobs:
            self._jobs[job.seq] = job
            self._leases.put_back(job, delay)

    async def park(self, job: Job, error: str) -> None:
        await self.ack([job])
        self._parked.append((job, error))

    async def backlog(self) -> int:
        return len(self._jobs)

    async def lag(self) -> float:
        return self._clock() - next(iter(self._since.values()), self._clock())

    async def parked(self) -> list[tuple[Job, str]]:
        return list(self._parked)

    async def unpark(self, jobs: Sequence[Job]) -> int:
        seqs = {job.seq for job in jobs}
        given = [job for job, _ in self._parked if job.seq in seqs]
        self._parked = [entry for entry in self._parked if entry[0].seq not in seqs]
        for job in given:
            self._wait(job._replace(attempt=0))
        if given and self._wake:
            self._wake()
        return len(given)

    def on_event(self, wake: WakeUp) -> None:
        self._wake = wake

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        return [self._objects[id_] for id_ in sorted(id_ for id_ in self._objects if id_ > after)[:limit]]

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        triples = sorted(triple for triple in self._known.links if triple > after)[:limit]
        return [AssocRow(*triple, *self._known.links[triple]) for triple in triples]

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        pairs = sorted(pair for pair in self._counts if pair > after)[:limit]
        return [(*pair, self._counts[pair]) for pair in pairs]

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        self._counts[id1, atype] = n

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:  # noqa: ARG002  # none
        return []

    async def block_drop(self, id1: int, atype: int) -> None:
        """Do nothing: this store computes ranks without blocks."""

    async def sweep(self, before: int, now: int) -> int:
        keys, expired = self._known.keys, 0
        while self._expiring and self._expiring[0][0] <= now:
            until, name = heappop(self._expiring)
            if name in keys and keys[name][1] == until:
                del keys[name]
                expired += 1
        return expired + self._sweep(self._sweepable, before)

    async def sweep_history(self, before: int) -> int:
        return self._sweep(self._past, before)

    def _sweep(self, heap: list[tuple[int, Triple]], before: int) -> int:
        swept = 0
        while heap and heap[0][0] < before:
            moment, triple = heappop(heap)
            link = self._known.links.get(triple)
            if link is not None and not link.alive and link.time == moment:
                self._forget(triple)
                swept += 1
        return swept

    def _forget(self, triple: Triple) -> None:
        if self._known.links.pop(triple, None) is not None:
            self._live.set_time(triple, None)
            self._ended.set_time(triple, None)

    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        names = sorted(name for name in self._known.keys if name > after)[:limit]
        return [KeyRow(*name, *self._known.keys[name]) for name in names]

    async def put_rows(self, rows: Rows) -> None:
        for node in rows.objects:
            self._objects[node.id] = node
            self._known.versions[node.id] = node.version
        for row in rows.assocs:
            self._known.links[row[:3]] = link = StoredAssoc(*row[3:])
            self._relist(row[:3], link)
        self._counts.update({row[:2]: row[2] for row in rows.counts})
        for key in rows.keys:
            self._known.keys[key[:2]] = key[2:]
            self._expire(key[:2], key.until)

    async def remove_rows(self, rows: Rows) -> None:
        for node in rows.objects:
            self._objects.pop(node.id, None)
            self._known.versions.pop(node.id, None)
        for row in rows.assocs:
            self._forget(row[:3])
        for count in rows.counts:
            self._counts.pop(count[:2], None)
        for key in rows.keys:
            self._known.keys.pop(key[:2], None)

    async def spread(self) -> dict[int, Spread]:
        spreads: dict[int, Spread] = {}
        weights = [(id_, weigh(node)) for id_, node in self._objects.items()]
        weights += [
            (id1, Spread(0, 0, ASSOC_BYTES + len(link.data))) for (id1, _, _), link in self._known.links.items()
        ]
        for id_, weight in weights:
            shard = shard_of(id_)
            spreads[shard] = spreads.get(shard, Spread()).plus(weight)
        return spreads

    @property
    def log_sources(self) -> Sequence[LogSource]:
        return (self,)

    async def log_page(self, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
        place = place_in(places, self._check_log(), BEGINNING)
        after = place.position[0] if place is not None else 0
        start = max(0, after - self._log_rows[0].position[0]) if self._log_rows else 0
        return page_of(self._log, place, list(itertools.islice(self._log_rows, start, start + limit + 2)), limit)

    async def log_end(self) -> StorePage:
        return page_of(self._check_log(), None, [*self._log_rows][-1:], 1)._replace(entries=())

    async def log_trim(self, before: int) -> int:
        trimmed = 0
        while len(self._log_rows) > 1 and self._log_rows[0].at < before:
            self._log_rows.popleft()
            trimmed += 1
        return trimmed

    def _check_log(self) -> int:
        if not self._log:
            raise InvalidInput(OFF)
        return self._log

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""
