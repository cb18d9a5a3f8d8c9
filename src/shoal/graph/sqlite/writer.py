"""The single writer thread of an SQLite store with group commit, and queries that translate SQLite errors.

A group costs a fixed number of statements and one fsync. Batches are decided one after the other (`resolve.decide`), so a failed
one does not affect the others. A batch is answered after its group is on disk. Statements run without the GIL. An association is
in `association` or in `displaced`, never both (`sql.BY_ID`).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from shoal.core.errors import Conflict, OutcomeUnknown, ShoalError, StorageFull, Unavailable
from shoal.core.events import InverseOp, encode
from shoal.core.ids import now_ms
from shoal.graph.contract import Batch, Frozen, Job, PendingInverses
from shoal.graph.migrations import Migration
from shoal.graph.resolve import Known, Owns, Resolution, StoredAssoc, Touched, Triple, answer, copied, decide
from shoal.graph.schema import encode_node
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.event_log import log_of
from shoal.graph.sqlite.files import connect, roll_back
from shoal.graph.sqlite.migrations import migrate
from shoal.observability.tracing import recording

Row = tuple[int, int, int, int, bool, bytes]
"""id1, type, id2, time, alive, data."""

_BY_ID = frozenset(sql.BY_ID)


def put_links(write: sqlite3.Connection, rows: Iterable[Row], displaced: Collection[Triple]) -> None:
    """Store associations in the open transaction. `displaced` has the keys of associations that may be in the table `displaced`."""
    here: list[sql.Row] = []
    there: list[sql.Row] = []
    # Write in table order, because neighboring rows share a page.
    for row in sorted(rows):
        id1, atype, id2, moment, alive, data = row
        if atype not in _BY_ID:
            here.append(row)
        elif alive and moment == id2:
            here.append((id1, atype, id2, moment, sql.IN_PLACE, data))
        else:
            there.append(row)
    for statement, part in ((sql.LINK_PUT, here), (sql.DISPLACED_PUT, there)):
        for prepared, values in sql.in_rows(statement, part, 6):
            write.execute(prepared, values)
    write.executemany(sql.LINK_DELETE, [row[:3] for row in there])
    if displaced:
        write.executemany(sql.DISPLACED_DELETE, [row[:3] for row in here if row[:3] in displaced])


def remove_links(write: sqlite3.Connection, triples: Collection[Triple]) -> None:
    write.executemany(sql.LINK_DELETE, triples)
    write.executemany(sql.DISPLACED_DELETE, [triple for triple in triples if triple[1] in _BY_ID])


T = TypeVar("T")

_GROUP_BATCHES = 512
_GROUP_OPERATIONS = 20_000
_UNKNOWN = "the disk failed during a write: the change may or may not have been stored"
_IDLE_SECONDS = 0.05
"""How long an acknowledgment waits for a commit, to be written in the same transaction."""
_GATHERED = 3
"""Minimum size of a group after which the writer waits for as many tasks again."""
_GATHER_SECONDS = 0.001
_GATHER_TIMES = 4


class _Task(NamedTuple):
    """A batch, or another change to the database, with the future for its result."""

    work: Batch | Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


class Writer:
    """Commits groups of batches in a thread. Call `submit` on the event loop; `acknowledge` and `keep` return at once."""

    def __init__(self, connection: sqlite3.Connection, owns: Owns, added: Callable[[Sequence[Job], int], None]) -> None:
        self._connection = connection
        self._owns = owns
        self._on_added = added
        # Events of the current group.
        self._added: list[Job] = []
        # Keys of associations that the current group commit reads or writes and that are stored in the table `displaced`.
        self._displaced: set[Triple] = set()
        self._seq: int = connection.execute(sql.OUTBOX_LAST).fetchone()[0]
        self._logs = log_of(connection) != 0
        self._tasks: deque[_Task] = deque()
        self._acks: deque[int] = deque()
        self._keeps: deque[tuple[int, int, int, int]] = deque()
        # The number of tasks that were committed in the last group.
        self._last = 0
        self._pending = threading.Event()
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="shoal-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Batch | Callable[[sqlite3.Connection], Any]) -> asyncio.Future[Any]:
        """Commit a batch, or run a function that changes the store. The result is the pending inverses, or that of the function."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closing:
            future.set_exception(Unavailable("the store is closing"))
            return future
        self._tasks.append(_Task(work, future))
        self._pending.set()
        return future

    def acknowledge(self, seqs: Iterable[int]) -> None:
        self._acks.extend(seqs)
        self._pending.set()

    def keep(self, job: Job) -> None:
        """Store the progress of a job with one of the next groups of batches."""
        self._keeps.append((job.step, job.mark, job.attempt, job.seq))
        self._pending.set()

    async def close(self) -> None:
        self._closing = True
        self._pending.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while True:
            self._pending.wait()
            self._pending.clear()
            # Read `_closing` before the queues: if it is set, every batch submitted before `close` is already in a queue.
            closing = self._closing
            if not self._tasks and not closing:
                # If only acknowledgments are pending, wait for a commit in which to write them.
                self._pending.wait(_IDLE_SECONDS)
            while self._tasks or self._acks or self._keeps:
                self._gather()
                self._group()
            if closing:
                return

    def _gather(self) -> None:
        """Wait for more batches if they are likely: committing a single one costs about as much as committing twenty.

        The callers of the last group are likely to submit again, but the event loop needs a moment to resume each of them.
        """
        for _ in range(_GATHER_TIMES if self._last >= _GATHERED else 0):
            if len(self._tasks) >= self._last or self._closing:
                return
            time.sleep(_GATHER_SECONDS)

    def _take(self) -> list[_Task]:
        tasks: list[_Task] = []
        operations = 0
        while self._tasks and len(tasks) < _GROUP_BATCHES and operations < _GROUP_OPERATIONS:
            task = self._tasks.popleft()
            tasks.append(task)
            operations += len(task.work.assocs) + 1 if isinstance(task.work, Batch) else 1
        return tasks

    def _group(self) -> None:
        """Commit the next batches as a group; if the database fails, commit each alone, so that one cannot fail the others."""
        tasks = self._take()
        self._last = len(tasks)
        acks, keeps = _drain(self._acks), _drain(self._keeps)
        seq = self._seq
        self._added = []
        try:
            answers = self._commit(tasks, acks, keeps)
        except OutcomeUnknown as error:
            # Do not retry the batches one by one: if one was stored, a second attempt could conflict with it.
            answers = [copied(error) for _ in tasks]
            self._acks.extendleft(acks)
            self._keeps.extendleft(reversed(keeps))
        except Exception as error:  # noqa: BLE001  # the waiting callers must get any error
            answers = [refusal(error)] if len(tasks) == 1 else [self._alone(task) for task in tasks]
            if tasks or not self._closing:
                self._acks.extendleft(acks)
                self._keeps.extendleft(reversed(keeps))
            if not tasks and not self._closing:
                # Most likely the disk is full. The acknowledged events stay in the outbox until there is space.
                time.sleep(_IDLE_SECONDS)
        added = (self._added, self._seq) if self._seq != seq else None
        self._loop.call_soon_threadsafe(self._answer, tasks, answers, added)

    def _alone(self, task: _Task) -> Any:
        try:
            return self._commit([task], [], [])[0]
        except Exception as error:  # noqa: BLE001  # as above
            return refusal(error)

    def _answer(self, tasks: list[_Task], answers: list[Any], added: tuple[list[Job], int] | None) -> None:
        for task, result in zip(tasks, answers, strict=True):
            answer(task.future, result)
        if added is not None:
            self._on_added(*added)

    def _commit(self, tasks: list[_Task], acks: list[int], keeps: list[tuple[int, int, int, int]]) -> list[Any]:
        connection = self._connection
        seq, added = self._seq, len(self._added)
        # Roll back an earlier group whose rollback failed: otherwise no group could begin.
        roll_back(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            answers, changes = self._decide(tasks)
            self._store(changes)
            if keeps:
                connection.executemany(sql.OUTBOX_KEEP, keeps)
            if acks:
                connection.execute(sql.OUTBOX_DELETE, (sql.json_list(acks),))
        except BaseException:
            self._seq = seq
            del self._added[added:]
            roll_back(connection)
            raise
        try:
            connection.execute("COMMIT")
        except Exception as error:
            del self._added[added:]
            # Catch more than OperationalError: a damaged file raises DatabaseError, a lack of memory MemoryError.
            roll_back(connection)
            if _code(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY}:
                self._seq = seq
                raise
            # After a failed sync, the write-ahead log may contain the transaction, and a recovery may restore it.
            raise OutcomeUnknown(_UNKNOWN) from error
        return answers

    def _decide(self, tasks: list[_Task]) -> tuple[list[Any], Resolution]:
        known = self._load([task.work for task in tasks if isinstance(task.work, Batch)])
        changes = Resolution(logs=self._logs)
        answers: list[Any] = []
        now = now_ms()
        for task in tasks:
            if not isinstance(task.work, Batch):
                answers.append(task.work(self._connection))
                continue
            try:
                pending_inverses = decide(task.work, known, changes, owns=self._owns, now=now)
            except (Conflict, Frozen) as refusal:
                answers.append(refusal)
            else:
                answers.append(self._pending_inverses(changes, pending_inverses))
        return answers, changes

    def _pending_inverses(self, changes: Resolution, pending_inverses: Sequence[InverseOp]) -> PendingInverses:
        first = len(changes.events) - len(pending_inverses)
        return [
            (Job(self._seq + 1 + index, changes.events[index]), op) for index, op in enumerate(pending_inverses, first)
        ]

    def _load(self, batches: Sequence[Batch]) -> Known:
        known = Known()
        self._displaced.clear()
        touched = Touched(batches, self._owns)
        read = self._connection.execute
        if touched.ids:
            known.versions.update(read(sql.OBJ_VERSIONS, (sql.json_list(list(touched.ids)),)))
        for statement, values in sql.in_rows(sql.KEY_GET, list(touched.keys), 2):
            known.keys.update({(space, name): (id_, until) for space, name, id_, until in read(statement, values)})
        for statement, values in sql.in_rows(sql.LINKS_GET, list(touched.links), 3):
            for id1, atype, id2, moment, alive, data, displaced in read(statement, values):
                known.links[id1, atype, id2] = StoredAssoc(moment, bool(alive), data)
                if displaced:
                    self._displaced.add((id1, atype, id2))
        return known

    def _store(self, changes: Resolution) -> None:
        write = self._connection.execute
        nodes = [(id_, node.version, encode_node(node)) for id_, node in changes.objects.items() if node is not None]
        gone = [id_ for id_, node in changes.objects.items() if node is None]
        links = ((*triple, *link) for triple, link in changes.links.items())
        counts = sorted((*pair, by) for pair, by in changes.counts.items() if by)
        keys = [(*name, *owner) for name, owner in changes.keys.items() if owner is not None]
        now = now_ms()
        jobs = [Job(seq, event, at=now) for seq, event in enumerate(changes.events, self._seq + 1)]
        events = [(job.seq, encode(job.event), now) for job in jobs]
        logged = [(now, *entry) for entry in changes.logged or ()]
        self._seq += len(jobs)
        self._added += jobs
        for statement, rows, width in (
            (sql.OBJ_PUT, nodes, 3),
            (sql.COUNT_ADD, counts, 3),
            (sql.KEY_PUT, keys, 4),
            (sql.OUTBOX_PUT, events, 3),
            (sql.LOG_PUT, logged, 6),
        ):
            for prepared, values in sql.in_rows(statement, rows, width):
                write(prepared, values)
        put_links(self._connection, links, self._displaced)
        if gone:
            write(sql.OBJ_DELETE, (sql.json_list(gone),))
        for name, owner in changes.keys.items():
            if owner is None:
                write(sql.KEY_DELETE, name)


def _drain(queue: deque[T]) -> list[T]:
    return [queue.popleft() for _ in range(len(queue))]


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def refusal(error: Exception) -> Exception:
    if isinstance(error, ShoalError):
        return error
    if _code(error) == sqlite3.SQLITE_FULL:
        return StorageFull("the store's disk is full: nothing was stored; free disk space and try again")
    if _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        damaged = Unavailable("the store's file is damaged: nothing was stored; restore the newest backup")
        damaged.__cause__ = error
        return damaged
    if isinstance(error, sqlite3.OperationalError):
        refused = Unavailable("writing to the store failed: nothing was stored; try again in a moment")
        refused.__cause__ = error
        return refused
    return error


def reader(path: Path, cache_kib: int, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """Open a read-only connection to the file or, if there is none, to empty tables in memory."""
    if path.exists():
        return connect(path, cache_kib, read_only=True)
    empty = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate(empty, path, migrations)
    return empty


def fetched(connection: sqlite3.Connection, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    """Run a statement on the event loop, return all its rows, and record it in the trace of the current request."""
    record = recording()
    if record is None:
        return connection.execute(statement, values).fetchall()
    began = perf_counter()
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        record.add("sqlite", statement, began)


def asked(work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    """Run `work` and return its result. SQLite errors become `Unavailable` or `StorageFull`."""
    try:
        return work(connection)
    except sqlite3.Error as error:
        raise refusal(error) from error
