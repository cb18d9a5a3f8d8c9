"""The contract of a graph store: objects, associations, keys and the transactional outbox.

Every read takes many ids and costs one round trip; missing ids are omitted from the result. `commit` is all or nothing and
returns once the batch is durable. One test suite (`tests/contracts/`) runs on every store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from msgspec import Struct, structs

from shoal.core.errors import Conflict, Unavailable
from shoal.core.events import AnyEvent, InverseOp
from shoal.core.model import Node
from shoal.graph.schema import AnyNode, AssocType, Key
from shoal.observability.tracing import carried


class ListChanges:
    """The changes that a commit made to lists on the acting shard: their entries and their lengths.

    A list missing from `counts` may have changed too.
    """

    __slots__ = ("counts", "entries")

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        """Change in length, by `(id1, atype)`."""
        self.entries: dict[tuple[int, int], dict[int, tuple[int, bytes] | None]] = {}
        """Time and data of each changed entry, by `(id1, atype)` and then `id2`; None for a deleted entry."""

    def judge(self, id1: int, atype: int, by: int = 0) -> None:
        """Record that a list was examined, or that its length changed by `by`."""
        pair = (id1, atype)
        self.counts[pair] = self.counts.get(pair, 0) + by

    def note(self, id1: int, atype: int, id2: int, entry: tuple[int, bytes] | None) -> None:
        """Record the new value of an entry; None if it was deleted."""
        self.judge(id1, atype)
        self.entries.setdefault((id1, atype), {})[id2] = entry

    def forget(self) -> None:
        """Discard everything recorded, because the commit is evaluated again."""
        self.counts.clear()
        self.entries.clear()


N = TypeVar("N", bound=Node)
MAX_TIME = 2**63 - 1
WakeUp = Callable[[], None]


class IdTaken(Conflict):
    """The object id `id` is in use; the caller takes the next id."""

    def __init__(self, id_: int) -> None:
        super().__init__("another object has this id")
        self.id = id_


class Changed(Conflict):
    """The object `id` is missing, or is not at the version that the batch replaces."""

    def __init__(self, id_: int) -> None:
        super().__init__("it was changed or deleted in between; read it again and repeat")
        self.id = id_


class KeyTaken(Conflict):
    """The key belongs to another object; `id` is its owner."""

    def __init__(self, key: Key, owner: int) -> None:
        super().__init__(f"the {key.space.replace('_', ' ')} is taken")
        self.key = key
        self.id = owner


class Missing(Conflict):
    """An object that the batch requires does not exist or was deleted."""


class AssocExists(Conflict):
    """An association that the batch adds with `must_be_new` is already alive."""


class Frozen(Unavailable):
    """The shard is moving to another store; retry shortly."""


class Assoc(Struct, frozen=True, gc=False):
    """A list entry: the object it leads to, its time (a snowflake, which is the cursor of the list), and a few bytes of data."""

    # Caches hold hundreds of thousands of these, and they form no cycles: with `gc=False` the garbage collector skips them.
    id2: int
    time: int
    data: bytes


class AssocRow(NamedTuple):
    """One association as stored, alive or as a tombstone."""

    id1: int
    atype: int
    id2: int
    time: int
    alive: bool
    data: bytes


class BlockRow(NamedTuple):
    """A stored block of a ranked list: `n` entries are alive between the end of the previous block and the time `upto`."""

    id1: int
    atype: int
    level: int
    upto: int
    n: int


class Job(NamedTuple):
    """A claimed event. `step` and `mark` record the progress of its consequences; `attempt` counts failures.

    `at` is the time of its commit in Unix milliseconds; 0 if the store does not report it, or if the job was put back.
    """

    seq: int
    event: AnyEvent
    step: int = 0
    mark: int = 0
    attempt: int = 0
    store: int = 0
    at: int = 0


PendingInverses = list[tuple[Job, InverseOp]]
"""Pending inverses for shards in other stores, with the jobs that apply them."""


class ObjOp(NamedTuple):
    """Add `node` (`expected` 0), replace version `expected` with it, or delete the object if it is None (0: any version)."""

    id: int
    node: Node | None
    expected: int = 0


class AssocOp(NamedTuple):
    """Add or delete an association at `time`.

    The later operation wins; at equal times, the one with the greater data wins.

    - `plain`: an inverse or a repair. It keeps its time, and may lose against a later stored operation.
    - `silent`: the time of this deletion is made up, so no history shows it.
    - `must_be_new`: fail the batch with `AssocExists` if the association is already alive.
    """

    id1: int
    atype: int
    id2: int
    time: int
    alive: bool
    data: bytes = b""
    aggregate_id: int = 0
    plain: bool = False
    silent: bool = False
    must_be_new: bool = False


class KeyOp(NamedTuple):
    """Reserve a key for `id` until a time in Unix milliseconds (0: permanently), or release it."""

    key: Key
    id: int
    alive: bool
    until: int = 0


@dataclass(slots=True, eq=False)
class Batch:
    """Everything that one request changes, committed atomically on one shard. The graph derives inverses from the schema."""

    shard: int
    objects: list[ObjOp] = field(default_factory=list)
    assocs: list[AssocOp] = field(default_factory=list)
    keys: list[KeyOp] = field(default_factory=list)
    events: list[AnyEvent] = field(default_factory=list)
    expects: list[int] = field(default_factory=list)
    after: Awaitable[object] | None = None
    """Awaited before anything is stored; may be awaited more than once."""
    presumed_new: bool = False
    """A hint: most likely nothing that the batch names is stored yet, except for the objects that it expects."""
    new_id: int = 0
    """An id made for this batch: no other association leads to or from it."""
    fresh: set[int] = field(default_factory=set)
    """Ids made for this batch, with or without objects. The batch fails with `IdTaken` if one of its associations from or to them
    is stored, even as a tombstone, and with `KeyTaken` if one of its keys belongs to them.
    """
    list_changes: ListChanges | None = None
    """If set, the store records here how the lists changed."""

    def obj_add(self, node: Node) -> None:
        """Add an object; fail the batch with `IdTaken` if the id exists."""
        self.objects.append(ObjOp(node.id, node))

    def obj_set(self, node: Node) -> None:
        """Replace version `node.version - 1`; fail the batch with `Conflict` if another version is stored."""
        self.objects.append(ObjOp(node.id, node, node.version - 1))

    def obj_del(self, id_: int, expected: int = 0) -> None:
        """Delete an object, if it exists. With an `expected` version, any other version, or none, is a `Conflict`."""
        self.objects.append(ObjOp(id_, None, expected))

    def expect(self, id_: int) -> None:
        """Fail with `Missing` unless this object exists, if its shard is in this store.

        If it is in another store and does not exist, the batch's inverses that belong to the object are not applied at once but
        stay pending for a worker, which sees that the object is gone.
        """
        self.expects.append(id_)

    def assoc_add(
        self,
        id1: int,
        atype: AssocType,
        id2: int,
        time: int,
        data: bytes = b"",
        *,
        aggregate_id: int = 0,
        must_be_new: bool = False,
    ) -> None:
        """Add an association.

        The acting shard bumps its time past the stored one. With `must_be_new`, the batch fails with `AssocExists` if it is alive.
        """
        self.assocs.append(
            AssocOp(
                id1, atype.number, id2, time, alive=True, data=data, aggregate_id=aggregate_id, must_be_new=must_be_new
            )
        )

    def assoc_del(
        self, id1: int, atype: AssocType, id2: int, time: int, data: bytes = b"", *, aggregate_id: int = 0
    ) -> None:
        """Delete an association, if it is alive."""
        self.assocs.append(AssocOp(id1, atype.number, id2, time, alive=False, data=data, aggregate_id=aggregate_id))

    def put(self, op: AssocOp) -> None:
        """Add an operation unchanged: a pending inverse or a repair."""
        self.assocs.append(op)

    def key_add(self, key: Key, id_: int, *, until: int = 0) -> None:
        """Reserve a key; fail the batch with `KeyTaken` if it has another owner. Idempotent for its owner.

        `until` is in Unix milliseconds (0: permanent).
        """
        self.keys.append(KeyOp(key, id_, alive=True, until=until))

    def key_del(self, key: Key, id_: int) -> None:
        """Release a key, if `id_` owns it."""
        self.keys.append(KeyOp(key, id_, alive=False))

    def emit(self, event: AnyEvent) -> None:
        """Add an event to the commit, with the current trace context if there is one."""
        trace = carried()
        self.events.append(structs.replace(event, trace=trace) if trace else event)


class Cursor(NamedTuple):
    """A range of a list or feed: the newest `limit` entries with `after < time < before`, or the oldest if `oldest_first`.

    Times are object ids, or times encoded as ids, so no entry has the time 0.
    """

    before: int = MAX_TIME
    after: int = 0
    limit: int = 20
    oldest_first: bool = False

    def past(self, id_: int) -> Cursor:
        """Return the range that starts behind this id, in the cursor's direction."""
        before, after, limit, oldest_first = self
        return Cursor(before, id_, limit, oldest_first) if oldest_first else Cursor(id_, after, limit)

    def of(self, limit: int) -> Cursor:
        """Return this range with another limit."""
        before, after, _, oldest_first = self
        return Cursor(before, after, limit, oldest_first)


class Reader(Protocol):
    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]: ...

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Return owners by key; expired keys are absent."""

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        """Return the associations from `id1` to any of `id2s`, by type and `id2`; the result has every requested type."""

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        """Return a range of a list, newest first, or oldest first if the cursor has `oldest_first`."""

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        """Do `assoc_range` for many lists; empty lists are absent."""

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        """Return list lengths in O(1) each, including the aggregate count of types that have one.

        Lists of length 0 or of uncounted types are absent.
        """

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        """Return how many entries of each list are newer than each of `times`; the result has every requested list.

        Costs O(log n) for each list and time if the type is `ranked` (`schema`); otherwise O(n).
        """

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        """Return deleted associations as `assoc_get` does: tombstones, with the time of deletion, until they are swept."""

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        """Return a range of the tombstones of an `ended_listed` type (`schema`), as `assoc_range` does."""


async def find_object(graph: Reader, kind: type[N], id_: int) -> N | None:
    """Return the object with this id; None if there is none of this kind, and for the id 0."""
    node = (await graph.obj_get((id_,))).get(id_) if id_ else None
    return node if isinstance(node, kind) else None


class RememberingReader(Reader, Protocol):
    """A graph with an in-memory cache, which can answer queries that would be too expensive to read for every request."""

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        """Return the intersection of each list of `id1` with the list `listed` of `other`, per type.

        All these types are counted. Of `listed`, only the newest 100,000 entries are examined.
        """


class Graph(Reader, Protocol):
    """A graph that can be changed."""

    async def commit(self, batch: Batch) -> None:
        """Make the batch durable, atomically.

        Raises:
            Conflict: See `Batch`. Nothing was stored.
            StorageFull: Nothing was stored.
            Unavailable: Nothing was stored.
            OutcomeUnknown: The whole batch may be durable or not.
        """

    async def close(self) -> None:
        """Finish started work and release every resource."""


class Outbox(Protocol):
    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Claim up to `limit` jobs for `lease` seconds, oldest first; a job not acknowledged by then is delivered again."""

    async def ack(self, jobs: Sequence[Job]) -> None:
        """Mark jobs as done. May be written lazily: handlers tolerate a job that is delivered again after a crash."""

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        """Return an unfinished job, with its step, mark and attempt, and deliver it again after `delay` seconds."""

    async def bury(self, job: Job, error: str) -> None:
        """Park a failed job for an operator."""

    async def backlog(self) -> int:
        """Return the number of unacknowledged events, claimed or not."""

    async def lag(self) -> float:
        """Return the age in seconds of the oldest unacknowledged event; 0 if there is none."""

    async def buried(self) -> list[tuple[Job, str]]:
        """Return the parked jobs, each with its error."""

    async def unbury(self, jobs: Sequence[Job]) -> int:
        """Requeue parked jobs at the step they had reached, with the attempts reset. Returns how many of them were parked."""

    def on_event(self, wake: WakeUp) -> None:
        """Call `wake` (cheap, on the event loop) whenever a commit contains events."""


class Scanner(Protocol):
    """Scans of the whole store in key order, in pages, for checks, exports and moves."""

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        """Return objects with an id above `after`, by id."""

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        """Return associations, including tombstones, above the triple `(id1, atype, id2)`, in its order."""

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        """Return `(id1, atype, n)` above the pair, in its order; `n` may be 0."""

    async def count_set(self, id1: int, atype: int, n: int) -> None: ...

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:
        """Return blocks above `(id1, atype, level, upto)`, in its order; none if the engine computes ranks without blocks."""

    async def block_drop(self, id1: int, atype: int) -> None:
        """Delete the blocks of a list as a repair: the next read by rank rebuilds them."""

    async def sweep(self, before: int, now: int) -> int:
        """Delete tombstones older than the snowflake `before`, and keys that expired by `now` (Unix ms). Returns their number.

        Tombstones of `placed` types are permanent; tombstones of `WITH_HISTORY` types (`schema`) stay until `sweep_history`.
        """

    async def sweep_history(self, before: int) -> int:
        """Delete tombstones of `WITH_HISTORY` types (`schema`) older than the snowflake `before`. Returns their number."""


class Store(Graph, Outbox, Scanner, Protocol):
    """A whole graph, as `shoal.app` opens it."""

    async def commit_owing(self, batch: Batch) -> PendingInverses:
        """Commit as `commit` does; return the pending inverses for shards that this store does not keep, with their jobs."""


Announce = Callable[[], Awaitable[None]]

pre_commit_hook: ContextVar[Announce | None] = ContextVar("pre_commit_hook", default=None)
"""Awaited by an embedded store before each change that this context makes. When it raises, the change is not made.

If this process is killed, a caller in another process can tell from it whether to repeat the call.
"""


async def announce() -> None:
    """Announce a change, if this context has set `pre_commit_hook`. Raises `Unavailable` if the change could not be announced."""
    tell = pre_commit_hook.get()
    if tell is not None:
        await tell()
