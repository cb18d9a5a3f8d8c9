"""The graph in one SQLite file: the embedded default.

WAL with `synchronous=FULL`; one writer thread (`writer`), and readers that never wait for it. Short reads run on the event loop:
a handful of index lookups cost less than a thread switch. Long ones (scans, many lists) run in a separate thread. One process
owns a file; another may read it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from shoal.core import events
from shoal.core.errors import ShoalError, Unavailable
from shoal.core.ids import now_ms
from shoal.graph.bulk import KeyRow, LoadPart, Rows, Spread
from shoal.graph.contract import (
    Assoc,
    AssocRow,
    Batch,
    BlockRow,
    Cursor,
    Job,
    LogPlace,
    LogSource,
    PendingInverses,
    StorePage,
    WakeUp,
    announce,
)
from shoal.graph.memory import Leases
from shoal.graph.resolve import Owns, every_shard
from shoal.graph.schema import ASSOC_TYPES, AnyNode, AssocType, Key, decode_node
from shoal.graph.sqlite import bulk, event_log, files, ranks, sql
from shoal.graph.sqlite.files import connect
from shoal.graph.sqlite.migrations import check_version, migrate
from shoal.graph.sqlite.writer import Writer, fetched
from shoal.observability.tracing import timed

T = TypeVar("T")

_SWEEP_ROWS = 1_000
"""Maximum rows that a sweep deletes in one transaction, which takes a few milliseconds of the writer thread."""
_RECENT_EVENTS = 1_024
"""Number of unclaimed events in memory above which claims read the file."""
_INLINE_LISTS = 64
"""Maximum number of lists that are read on the event loop; more lists are read in the thread."""

PAGE_BYTES = 1_024
"""A small change in the middle of a list writes a page, so pages are small. Existing files keep their page size."""
LOG_BYTES = 32 << 20
_WRITER_CACHE_KIB = 65_536
_READER_CACHE_KIB = 16_384


class SqliteGraph:
    """A complete store in one SQLite file. Create it with `open`."""

    loads = True

    def __init__(self, path: Path, owns: Owns, *, read_only: bool, logs: bool | None) -> None:
        self._path = path
        self._lock: int | None = None
        writing: sqlite3.Connection | None = None
        with ExitStack() as undo:
            if not read_only:
                self._lock = files.own(path)
                undo.callback(files.release, self._lock)
                writing = undo.enter_context(
                    closing(connect(path, _WRITER_CACHE_KIB, page_bytes=PAGE_BYTES, log_bytes=LOG_BYTES))
                )
                migrate(writing, path, sql.MIGRATIONS)
                event_log.switch(writing, on=logs)
            self._reading = undo.enter_context(closing(connect(path, _READER_CACHE_KIB, read_only=True)))
            self._scanning = undo.enter_context(closing(connect(path, _READER_CACHE_KIB, read_only=True)))
            check_version(self._reading, path, sql.MIGRATIONS)
            undo.pop_all()
        self._thread = ThreadPoolExecutor(1, "shoal-scan")
        self._leases = Leases()
        self._claimed = 0
        # Numbers of acknowledged or parked events that later claims will still read, because they are above `_claimed`.
        self._early: set[int] = set()
        # The newest committed events, with consecutive numbers: claims need not read them from the file.
        self._recent: deque[Job] = deque()
        self._committed = 0
        """Number of the newest event that the writer has reported."""
        self._wake: WakeUp | None = None
        self._writer = Writer(writing, owns, self._added) if writing is not None else None
        self._writing = writing

    @classmethod
    async def open(
        cls, path: Path, *, owns: Owns = every_shard, read_only: bool = False, logs: bool | None = None
    ) -> SqliteGraph:
        """Open or create the file. Raises `Unavailable` when another process owns it, or a newer Shoal wrote it.

        `logs` turns the event log on or off, unless it is None or the file is opened read-only.
        """
        try:
            return cls(path, owns, read_only=read_only, logs=logs)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"cannot open the store {path.name}: {error}") from error

    def _added(self, jobs: Sequence[Job], last: int) -> None:
        """Note the events of a group commit. `last` is the number of the newest event, which may have been stored or not."""
        recent = self._recent
        expected = recent[-1].seq + 1 if recent else jobs[0].seq if jobs else 0
        if len(recent) < _RECENT_EVENTS and [job.seq for job in jobs] == [*range(expected, last + 1)]:
            recent.extend(jobs)
        else:
            recent.clear()
        self._committed = last
        self._woken()

    def _woken(self) -> None:
        if self._wake is not None:
            self._wake()

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        if not ids:
            return {}
        nodes = [decode_node(data) for (data,) in fetched(self._reading, sql.OBJ_GET, (sql.json_list(ids),))]
        return {node.id: node for node in nodes}

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        if not keys:
            return {}
        now = now_ms()
        by_name = {(key.space, key.name): key for key in keys}
        statement = sql.for_rows(sql.KEY_GET, len(by_name), 2)
        found = fetched(self._reading, statement, [part for name in by_name for part in name])
        return {by_name[space, name]: id_ for space, name, id_, until in found if not 0 < until <= now}

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return self._links(sql.ASSOC_GET, id1, atypes, id2s)

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return self._links(sql.ASSOC_ENDED, id1, atypes, id2s)

    def _links(
        self, statement: str, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        answer: dict[AssocType, dict[int, Assoc]] = {atype: {} for atype in atypes}
        if id2s:
            numbers = sql.json_list([atype.number for atype in atypes])
            for number, id2, moment, data in fetched(self._reading, statement, (id1, numbers, sql.json_list(id2s))):
                answer[ASSOC_TYPES[number]][id2] = Assoc(id2, moment, data)
        return answer

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        statement = sql.ASSOC_RANGE[atype.number in sql.BY_ID, at.oldest_first]
        values = (id1, atype.number, at.before, at.after, at.limit)
        return list(starmap(Assoc, fetched(self._reading, statement, values)))

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        values = (id1, atype.number, at.before, at.after, at.limit)
        return list(starmap(Assoc, fetched(self._reading, sql.ASSOC_ENDED_RANGE[at.oldest_first], values)))

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        if not id1s:
            return {}
        statement = sql.ASSOC_RANGES[atype.number in sql.BY_ID, at.oldest_first]
        # Read each list once, even if it was named twice.
        values = (sql.json_list(list(dict.fromkeys(id1s))), atype.number, at.before, at.after, at.limit)

        def read(connection: sqlite3.Connection) -> dict[int, list[Assoc]]:
            return _by_list(fetched(connection, statement, values), at.limit, oldest_first=at.oldest_first)

        return read(self._reading) if len(id1s) <= _INLINE_LISTS else await self._in_thread(read)

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        answer: dict[AssocType, dict[int, int]] = {atype: {} for atype in atypes}
        numbers = sql.json_list([atype.number for atype in atypes])
        for number, id1, n in fetched(self._reading, sql.COUNT_GET, (sql.json_list(id1s), numbers)):
            answer[ASSOC_TYPES[number]][id1] = n
        return answer

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        found, overfull = await self._ranks(id1s, atype, times, ranks.OPEN)
        if self._writer is not None:
            for id1 in overfull:
                await self._divide(self._writer, id1, atype)
        if overfull:
            found |= (await self._ranks(overfull, atype, times, sql.FOREVER))[0]
        return found

    async def _ranks(
        self, id1s: Collection[int], atype: AssocType, times: Sequence[int], most: int
    ) -> tuple[dict[int, list[int]], set[int]]:
        def read(connection: sqlite3.Connection) -> tuple[dict[int, list[int]], set[int]]:
            return ranks.ranks(connection, id1s, atype, times, most=most)

        inline = atype.ranked and len(id1s) * len(times) <= _INLINE_LISTS and most <= ranks.OPEN
        return read(self._reading) if inline else await self._in_thread(read)

    async def _divide(self, writer: Writer, id1: int, atype: AssocType) -> None:
        """Divide a list into rank index blocks in several transactions, so that commits can run in between.

        Blocks hold only counts of entries, so a read that creates them does not `announce` a change.
        """
        afresh = True
        while await self._written(writer, partial(ranks.divide, id1=id1, atype=atype, afresh=afresh)):
            afresh = False

    def store_of(self, _shard: int) -> int:
        return 0

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> PendingInverses:
        if batch.after is not None:
            await batch.after
        pending_inverses: PendingInverses = await self._write(batch)
        return pending_inverses

    async def _write(self, work: Batch | Callable[[sqlite3.Connection], Any]) -> Any:
        if self._writer is None:
            raise ShoalError("the store was opened read-only")
        await announce()
        return await self._written(self._writer, work)

    async def _written(self, writer: Writer, work: Batch | Callable[[sqlite3.Connection], Any]) -> Any:
        # If the caller is cancelled, the group is committed nevertheless.
        return await timed("sqlite", "commit", writer.submit(work))

    async def claim(self, limit: int, lease: float) -> list[Job]:
        jobs = self._leases.due(limit)
        while len(jobs) < limit and (more := self._next_jobs(limit - len(jobs))):
            self._claimed = more[-1].seq
            jobs += [job for job in more if job.seq not in self._early] if self._early else more
        if self._early:
            self._early = {seq for seq in self._early if seq > self._claimed}
        self._leases.give(jobs, lease)
        return jobs

    def _next_jobs(self, limit: int) -> list[Job]:
        """Return the first events after `_claimed`, from memory if they have just been committed."""
        recent = self._recent
        while recent and recent[0].seq <= self._claimed:
            recent.popleft()
        if recent and recent[0].seq == self._claimed + 1:
            return [recent.popleft() for _ in range(min(limit, len(recent)))]
        if self._writer is not None and 0 < self._committed <= self._claimed:
            return []
        committed = self._committed
        jobs = list(starmap(_job, self._reading.execute(sql.OUTBOX_NEXT, (self._claimed, limit))))
        if not jobs:
            self._claimed = max(self._claimed, committed)
        return jobs

    async def ack(self, jobs: Sequence[Job]) -> None:
        seqs = [job.seq for job in jobs]
        self._forget_claims(seqs)
        if self._writer is not None:
            self._writer.acknowledge(seqs)

    def _forget_claims(self, seqs: list[int]) -> None:
        self._early.update(seq for seq in seqs if seq > self._claimed)
        self._leases.done(seqs)

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        self._leases.put_back(job, delay)
        if self._writer is not None:
            self._writer.keep(job)

    async def park(self, job: Job, error: str) -> None:
        def park(write: sqlite3.Connection) -> None:
            write.execute(sql.PARK, (job.seq, events.encode(job.event), job.step, job.mark, job.attempt, error))
            # Delete the job in this commit: a later acknowledgment could delete it after it was requeued.
            write.execute(sql.OUTBOX_DELETE, (sql.json_list([job.seq]),))

        await self._write(park)
        self._forget_claims([job.seq])

    async def backlog(self) -> int:
        return await self._in_thread(lambda read: int(read.execute(sql.OUTBOX_SIZE).fetchone()[0]))

    async def lag(self) -> float:
        oldest = await self._in_thread(lambda read: read.execute(sql.OUTBOX_OLDEST).fetchone()[0])
        return max(0, now_ms() - oldest) / 1000 if oldest is not None else 0.0

    async def parked(self) -> list[tuple[Job, str]]:
        return await self._in_thread(lambda read: [(_job(*row[:5]), row[5]) for row in read.execute(sql.PARKED)])

    async def unpark(self, jobs: Sequence[Job]) -> int:
        requested = {job.seq for job in jobs}
        given = [job for job, _ in await self.parked() if job.seq in requested]
        seqs = [job.seq for job in given]

        def unpark(write: sqlite3.Connection) -> int:
            write.execute(sql.UNPARK, (now_ms(), sql.json_list(seqs)))
            return write.execute(sql.DELETE_PARKED, (sql.json_list(seqs),)).rowcount

        count = int(await self._write(unpark))
        self._early.difference_update(seqs)
        for job in given:
            # Claims read only jobs with numbers above `_claimed`, so return all other jobs to `_leases`.
            if job.seq <= self._claimed:
                self._leases.put_back(job._replace(attempt=0), 0.0)
        self._woken()
        return count

    def on_event(self, wake: WakeUp) -> None:
        self._wake = wake

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        return await self._in_thread(
            lambda read: [decode_node(data) for (data,) in read.execute(sql.OBJ_SCAN, (after, limit))]
        )

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        rows = await self._in_thread(lambda read: read.execute(sql.ASSOC_SCAN, (*after, limit)).fetchall())
        return [AssocRow(id1, atype, id2, moment, bool(alive), data) for id1, atype, id2, moment, alive, data in rows]

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        return await self._in_thread(lambda read: read.execute(sql.COUNT_SCAN, (*after, limit)).fetchall())

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        await self._write(lambda write: write.execute(sql.COUNT_SET, (id1, atype, n)).rowcount)

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:
        return await self._in_thread(lambda read: list(starmap(BlockRow, read.execute(ranks.SCAN, (*after, limit)))))

    async def block_drop(self, id1: int, atype: int) -> None:
        await self._write(lambda write: write.execute(ranks.DROP, (id1, atype)).rowcount)

    async def sweep(self, before: int, now: int) -> int:
        swept = 0
        for statement in sql.ASSOC_SWEEPS:
            swept += await self._sweep(statement, before)
        return swept + await self._sweep(sql.KEY_SWEEP, now)

    async def sweep_history(self, before: int) -> int:
        return await self._sweep(sql.HISTORY_SWEEP, before)

    async def _sweep(self, statement: str, bound: int) -> int:
        """Delete all rows older than `bound` by repeating `statement`: commits can run between its short transactions."""

        def delete(write: sqlite3.Connection) -> int:
            return write.execute(statement, (bound, _SWEEP_ROWS)).rowcount

        swept, page = 0, _SWEEP_ROWS
        while page == _SWEEP_ROWS:
            page = int(await self._write(delete))
            swept += page
        return swept

    async def key_scan(self, after: tuple[str, str], limit: int) -> list[KeyRow]:
        return await self._in_thread(lambda read: bulk.keys_after(read, after, limit))

    async def put_rows(self, rows: Rows) -> None:
        await self._write(lambda write: bulk.put_rows(write, rows))

    async def remove_rows(self, rows: Rows) -> None:
        await self._write(lambda write: bulk.remove_rows(write, rows))

    async def load(self, part: LoadPart) -> None:
        await self._write(lambda write: bulk.load(write, part))

    async def spread(self) -> dict[int, Spread]:
        return await self._in_thread(bulk.spread)

    @property
    def log_sources(self) -> Sequence[LogSource]:
        return (self,)

    async def log_page(self, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
        return await self._in_thread(lambda read: event_log.page(read, places, limit))

    async def log_end(self) -> StorePage:
        return await self._in_thread(event_log.end)

    async def log_trim(self, before: int) -> int:
        return await self._sweep(event_log.TRIM, before)

    async def _in_thread(self, read: Callable[[sqlite3.Connection], T]) -> T:
        work = asyncio.get_running_loop().run_in_executor(self._thread, read, self._scanning)
        return await timed("sqlite", "scan", work)

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        self._thread.shutdown()
        self._reading.close()
        self._scanning.close()
        if self._writing is not None:
            self._writing.close()
        if self._lock is not None:
            files.release(self._lock)
            self._lock = None


def _by_list(rows: Sequence[tuple[int, int, int, bytes]], limit: int, *, oldest_first: bool) -> dict[int, list[Assoc]]:
    lists: dict[int, list[Assoc]] = {}
    for id1, id2, moment, data in rows:
        lists.setdefault(id1, []).append(Assoc(id2, moment, data))
    for page in lists.values():
        page.sort(key=attrgetter("time"), reverse=not oldest_first)
        del page[limit:]
    return lists


def _job(seq: int, event: bytes, step: int, mark: int, attempt: int, at: int = 0) -> Job:
    return Job(seq, events.decode(event), step, mark, attempt, at=at)
