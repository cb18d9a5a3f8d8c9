"""Group commit for a PostgreSQL store: waiting batches are committed as one group in two round trips.

The first round trip loads the rows that the batches touch. The batches are then decided one after the other (`resolve.decide`), and
the second round trip stores the result if every row is still as loaded. No lock is held between the two: a refused group is loaded
and decided again. Work that must precede the commit (`Batch.after`) runs during the first round trip, which batches of presumably
new rows (`Batch.presumed_new`) skip. Groups run concurrently unless they share a row, and rows are ordered by key, so groups never
deadlock. A batch is answered when its group is durable; if the connection is lost, the outcome may be unknown (`OutcomeUnknown`).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from shoal.core.errors import Conflict, Unavailable
from shoal.core.events import encode
from shoal.core.ids import now_ms, shard_of
from shoal.graph.contract import Batch, Frozen, Job, PendingInverses, frozen_refusal
from shoal.graph.postgres import sql
from shoal.graph.postgres.connections import FROZEN, ConnectionPool, HistoryEnded
from shoal.graph.postgres.owner import MEANWHILE
from shoal.graph.resolve import (
    KeyName,
    Known,
    Owns,
    Resolution,
    StoredAssoc,
    Touched,
    Triple,
    answer,
    copied,
    decide,
)
from shoal.graph.schema import encode_node
from shoal.observability.tracing import for_many

Name = int | Triple | KeyName
Columns = list[list[Any]]

_FIRST_REVISION = 1 << 30


class Loaded:
    """The stored state of the rows that the batches of a group commit read or write, and the revision of each existing row."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.known = Known()
        self.revisions: dict[Name, int] = {}
        for kind, revision, a, b, c, moment, alive, data, space, name in rows:
            if kind == 1:
                self.known.versions[a] = b
                self.revisions[a] = revision
            elif kind == 2:
                self.known.links[a, b, c] = StoredAssoc(moment, alive, data)
                self.revisions[a, b, c] = revision
            else:
                self.known.keys[space, name] = (a, b)
                self.revisions[space, name] = revision

    def presume(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            self.known.versions.setdefault(id_, 1)

    def next_revision(self, name: Name) -> int:
        """Return the revision of a row to pass to `shoal.commit`: positive for a new row, negative for one to be replaced."""
        stored = self.revisions.get(name)
        return random.randrange(1, _FIRST_REVISION) if stored is None else -(stored + 1)  # noqa: S311  # it guards nothing


def load_values(touched: Touched) -> Columns:
    return [list(touched.ids), *_columns(list(touched.links), 3), *_columns(list(touched.keys), 2)]


def commit_values(
    changes: Resolution, loaded: Loaded, touched: Touched, batches: Sequence[Batch], delays: Sequence[float]
) -> Columns:
    """Return the arguments of the SQL statement of a group commit.

    `touched` are the rows that the accepted `batches` read; `delays` are seconds, one for each event.
    """
    revision = loaded.next_revision
    nodes = sorted((id_, node) for id_, node in changes.objects.items() if node is not None)
    gone = sorted(id_ for id_, node in changes.objects.items() if node is None)
    links = sorted((*triple, *link) for triple, link in changes.links.items())
    counts = sorted((*pair, by) for pair, by in changes.counts.items() if by)
    seen = [triple for triple in touched.triples if triple not in changes.links]
    return [
        [id_ for id_, _ in nodes],
        [node.version for _, node in nodes],
        [revision(id_) for id_, _ in nodes],
        [encode_node(node) for _, node in nodes],
        gone,
        [loaded.revisions[id_] for id_ in gone if id_ in loaded.revisions],
        *_columns([(*link[:4], revision(link[:3]), *link[4:]) for link in links], 7),
        *_columns(counts, 3),
        *_key_values(changes, loaded, batches),
        [encode(event) for event in changes.events],
        list(delays),
        [id_ for id_ in touched.ids if id_ not in changes.objects],
        *_columns([(*triple, loaded.revisions.get(triple, 0)) for triple in seen], 4),
        *_seen_keys(changes, loaded, touched),
    ]


def _key_values(changes: Resolution, loaded: Loaded, batches: Sequence[Batch]) -> Columns:
    shards = {(op.key.space, op.key.name): op.key.shard for batch in batches for op in batch.keys}
    owned = sorted((name, owner) for name, owner in changes.keys.items() if owner is not None)
    lost = sorted(name for name, owner in changes.keys.items() if owner is None and name in loaded.revisions)
    return [
        *_columns([(*name, *owner, loaded.next_revision(name), shards[name]) for name, owner in owned], 6),
        *_columns([(*name, loaded.revisions[name], shards[name]) for name in lost], 4),
    ]


def _seen_keys(changes: Resolution, loaded: Loaded, touched: Touched) -> Columns:
    """Return the keys that the group reads and leaves unchanged, with the revisions that they must still have at the commit."""
    seen = [
        name
        for name in touched.keys
        if changes.keys.get(name) is None and not (name in changes.keys and name in loaded.revisions)
    ]
    return _columns([(*name, loaded.revisions.get(name, 0)) for name in seen], 3)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> Columns:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


GROUPS = 3
"""Concurrent groups, each on a separate connection."""
_GROUP_BATCHES = 512
_GROUP_OPERATIONS = 20_000
_GROUP_ATTEMPTS = 4
_ALONE_ATTEMPTS = 40
_JITTER_SECONDS = 0.002
_LONGEST_JITTER_SECONDS = 0.1
_SETTLE_SECONDS = 5.0
"""The committing process applies pending inverses itself; a worker takes over after this delay."""

# SQLSTATEs after which the group is evaluated again: rows have changed (SHOLD of our functions, 40001), two groups deadlocked
# (40P01), or a row that was only read is locked by a writer (55P03).
_OVERTAKEN = {"SHOLD", "40001", "40P01", "55P03"}
_OUTSIDE = "SHOUT"


class _Overtaken(Exception):
    """Nothing was stored, because rows that the group had read were changed concurrently."""


class _Outside(Exception):
    """Nothing was stored, because another process took the store over, or turned its event log on or off."""


class _ShardsFrozen(Exception):
    """Nothing was stored, because these shards are frozen for a move."""

    def __init__(self, shards: set[int]) -> None:
        super().__init__(shards)
        self.shards = shards


class _Task:
    """A batch and the future for its caller. If `settles`, the caller applies the pending inverses itself."""

    __slots__ = ("_triples", "batch", "future", "names", "presumed_new", "settles", "written")

    def __init__(self, batch: Batch, owns: Owns, future: asyncio.Future[PendingInverses], *, settles: bool) -> None:
        touched = Touched([batch], owns)
        self.batch = batch
        self.future = future
        self.settles = settles
        self._triples = touched.links
        self.written: set[Name] = {op.id for op in batch.objects} | touched.keys | touched.links
        self.names: set[Name] = self.written | touched.ids
        # A batch that replaces or deletes an object has existing rows, so do not presume that its rows are new.
        self.presumed_new = batch.presumed_new and not any(op.expected or op.node is None for op in batch.objects)

    def shards(self) -> set[int]:
        shards = [shard_of(op.id) for op in self.batch.objects] + [op.key.shard for op in self.batch.keys]
        shards += [shard_of(triple[0]) for triple in self._triples]
        shards += [shard_of(op.aggregate_id) for op in self.batch.assocs if op.aggregate_id]
        return set(shards)


class Writer:
    """Commits batches in groups. `submit` accepts a batch; `close` finishes pending ones."""

    def __init__(self, connections: ConnectionPool, owned_by: int, owns: Owns, wake: Callable[[], None]) -> None:
        self._connections = connections
        self._owned_by = owned_by
        self._owns = owns
        self._wake = wake
        self._tasks: deque[_Task] = deque()
        self._groups: set[asyncio.Task[None]] = set()
        # Names of the rows that running groups may write.
        self._busy: set[Name] = set()
        self._starting = False
        self._closing = False
        # The number of the event log, as of the last commit that it refused; 0 while the log is off.
        self._log = 0
        self.overtaken = 0

    def submit(self, batch: Batch, *, settles: bool) -> asyncio.Future[PendingInverses]:
        """Commit a batch. The result is its pending inverses for other stores. `settles`: the caller will apply them."""
        future: asyncio.Future[PendingInverses] = asyncio.get_running_loop().create_future()
        if self._closing:
            future.set_exception(Unavailable("the store is closing"))
            return future
        self._tasks.append(_Task(batch, self._owns, future, settles=settles))
        if not self._starting and len(self._groups) < GROUPS:
            # Start the group after this iteration of the event loop, so that other batches of the iteration join the group.
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)
        return future

    async def close(self) -> None:
        self._closing = True
        while self._tasks or self._groups:
            self._start()
            await asyncio.wait(self._groups)

    def _start(self) -> None:
        self._starting = False
        while self._tasks and len(self._groups) < GROUPS and (tasks := self._take()):
            with for_many():
                group = asyncio.create_task(self._run(tasks))
            self._groups.add(group)

    def _take(self) -> list[_Task]:
        """Remove and return the batches of the next group commit, oldest first.

        Batches that share a row with a running group wait, and so do later batches that share rows with waiting ones.
        """
        taken: list[_Task] = []
        waiting: list[_Task] = []
        blocked: set[Name] = set()
        operations = 0
        while self._tasks and len(taken) + len(waiting) < _GROUP_BATCHES and operations < _GROUP_OPERATIONS:
            task = self._tasks.popleft()
            if task.names.isdisjoint(self._busy) and task.names.isdisjoint(blocked):
                taken.append(task)
                operations += len(task.batch.assocs) + 1
            else:
                waiting.append(task)
                blocked |= task.names
        self._tasks.extendleft(reversed(waiting))
        for task in taken:
            self._busy |= task.written
        return taken

    async def _run(self, tasks: list[_Task]) -> None:
        answers = await self._answers(tasks)
        for task in tasks:
            self._busy -= task.written
        # Remove this group from the running ones before `_start`, which limits their number.
        self._groups.difference_update({asyncio.current_task()})
        self._start()
        for task, result in zip(tasks, answers, strict=True):
            answer(task.future, result)

    async def _answers(self, tasks: list[_Task]) -> list[Any]:
        """Commit batches as a group. Return the result or error of each batch.

        If the group fails although the store is available, its batches are retried one by one, so that one cannot fail the
        others.
        """
        try:
            return await self._patiently(tasks)
        except _ShardsFrozen as frozen:
            return await self._without(tasks, frozen.shards)
        except Unavailable as error:
            return [copied(error) for _ in tasks]
        except _Overtaken:
            if len(tasks) == 1:
                return [
                    Unavailable(
                        "too many concurrent changes to the same objects: try again in a moment", retry_after=1.0
                    )
                ]
        except Exception as error:  # noqa: BLE001  # the waiting callers must get any error
            if len(tasks) == 1:
                return [error]
        return [(await self._answers([task]))[0] for task in tasks]

    async def _without(self, tasks: list[_Task], frozen: set[int]) -> list[Any]:
        out = [not frozen.isdisjoint(task.shards()) for task in tasks]
        if not any(out):
            out = [True] * len(tasks)
        rest = [task for task, refused in zip(tasks, out, strict=True) if not refused]
        answers = iter(await self._answers(rest) if rest else [])
        return [frozen_refusal() if refused else next(answers) for refused in out]

    async def _patiently(self, tasks: list[_Task]) -> list[Any]:
        attempts = _GROUP_ATTEMPTS if len(tasks) > 1 else _ALONE_ATTEMPTS
        for attempt in range(attempts):
            try:
                return await self._commit(tasks, presuming=attempt == 0)
            except _Overtaken:
                if attempt == 0 and any(task.presumed_new for task in tasks):
                    # Most likely a row that was presumed new, and therefore not loaded, exists. Nothing was stored: load all rows
                    # and retry at once.
                    continue
                self.overtaken += 1
                await asyncio.sleep(_jitter(attempt))
        raise _Overtaken

    async def _load(self, tasks: list[_Task], *, presuming: bool) -> Loaded:
        """Load the rows that the batches read. With `presuming`, rows that are probably new are not read."""
        written = {op.id for task in tasks for op in task.batch.objects}
        presumed: list[Batch] = []
        rest: list[Batch] = []
        for task in tasks:
            is_presumed = presuming and task.presumed_new and written.isdisjoint(task.batch.expects)
            (presumed if is_presumed else rest).append(task.batch)
        rows: list[Any] = []
        if rest:
            rows = await self._connections.ask(sql.LOAD, *load_values(Touched(rest, self._owns)), reads=True)
        loaded = Loaded(rows)
        loaded.presume(id_ for batch in presumed for id_ in batch.expects)
        return loaded

    async def _commit(self, tasks: list[_Task], *, presuming: bool) -> list[Any]:
        history = self._connections.history
        loaded = await self._load(tasks, presuming=presuming)
        log = self._log
        changes = Resolution(logs=log != 0)
        answers: list[Any] = []
        accepted: list[Batch] = []
        unsettled: set[int] = set()
        now = now_ms()
        for task in tasks:
            try:
                pending_inverses = decide(task.batch, loaded.known, changes, owns=self._owns, now=now)
            except (Conflict, Frozen) as refusal:
                answers.append(refusal)
                continue
            accepted.append(task.batch)
            first = len(changes.events) - len(pending_inverses)
            answers.append(list(enumerate(pending_inverses, first)))
            if task.settles:
                unsettled.update(range(first, len(changes.events)))
        if accepted:
            delays = [_SETTLE_SECONDS if at in unsettled else 0.0 for at in range(len(changes.events))]
            values = commit_values(changes, loaded, Touched(accepted, self._owns), accepted, delays)
            for batch in accepted:
                if batch.after is not None:
                    await batch.after
            logged = () if changes.logged is None else (log, *_columns(changes.logged, 5))
            seqs = await self._store(logged, values, history)
            answers = [_with_jobs(result, changes, seqs) for result in answers]
            if len(unsettled) < len(changes.events):
                self._wake()
        return answers

    async def _store(self, logged: Sequence[Any], values: Sequence[Any], history: int) -> list[int]:
        """Store the changes, unless the store has failed over since the rows were loaded.

        After a failover, a revision may denote another state of its row. Raises `_Overtaken`.
        """
        try:
            statement = sql.COMMIT_LOGGED if logged else sql.COMMIT
            rows = await self._connections.ask(
                statement, *logged, self._owned_by, *values, translate=_translate_error, history=history
            )
        except HistoryEnded:
            raise _Overtaken from None
        except _Outside:
            current = await self._connections.ask(sql.CURRENT_LOG, self._owned_by, reads=True)
            if not current:
                raise Unavailable(MEANWHILE) from None
            self._log = current[0][0]
            raise _Overtaken from None
        seqs: list[int] = rows[0][0]
        return seqs


def _translate_error(error: Exception) -> Exception:
    state = getattr(error, "sqlstate", None)
    if state in _OVERTAKEN:
        return _Overtaken()
    if state == FROZEN:
        return _ShardsFrozen({int(shard) for shard in getattr(error, "detail", "").split(",")})
    return _Outside() if state == _OUTSIDE else error


def _with_jobs(result: Any, changes: Resolution, seqs: list[int]) -> Any:
    if isinstance(result, Exception):
        return result
    return [(Job(seqs[at], changes.events[at]), op) for at, op in result]


def _jitter(attempt: int) -> float:
    longest = min(_JITTER_SECONDS * 2.0**attempt, _LONGEST_JITTER_SECONDS)
    return random.random() * longest  # noqa: S311  # it guards nothing
