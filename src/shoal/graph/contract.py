"""The contract of a graph store: objects, associations, keys, the transactional outbox, and the lists a commit has changed.

Every read takes many ids and costs one round trip; missing ids are omitted from the result. `commit` is all or nothing, and
returns once the batch is durable. One suite (`tests/contracts/`) runs on every store.

Glossary (`docs/glossary.md`): lift, owed, tally.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from msgspec import Struct, structs

from shoal.core.errors import Conflict, Unavailable
from shoal.core.events import AnyEvent, InverseOp
from shoal.core.model import Node
from shoal.graph.schema import AnyNode, AssocType, Key
from shoal.observability.tracing import carried


class JudgedLists:
    """Lists that a commit judged on the store where it acted: what it changed of their entries and lengths.

    A list that is not among `counts` may have changed, too.
    """

    __slots__ = ("counts", "entries")

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        """By how much each list became longer, by its object and type."""
        self.entries: dict[tuple[int, int], dict[int, tuple[int, bytes] | None]] = {}
        """Time and data of entries by the object that they lead to, in each list; None of those that ended."""

    def judge(self, id1: int, atype: int, by: int = 0) -> None:
        """A list was looked at, or became longer."""
        pair = (id1, atype)
        self.counts[pair] = self.counts.get(pair, 0) + by

    def note(self, id1: int, atype: int, id2: int, entry: tuple[int, bytes] | None) -> None:
        """An entry of a list is so from now on."""
        self.judge(id1, atype)
        self.entries.setdefault((id1, atype), {})[id2] = entry

    def forget(self) -> None:
        """The commit is judged anew."""
        self.counts.clear()
        self.entries.clear()


MAX_TIME = 2**63 - 1
WakeUp = Callable[[], None]
"""A callback that an outbox calls when there is work."""


class IdTaken(Conflict):
    """The id `id` is in use: take the next id."""

    def __init__(self, id_: int) -> None:
        super().__init__("another object has this id")
        self.id = id_


class Changed(Conflict):
    """An object is not there, or not at the version that the batch replaces; `id` is the object's."""

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
    """An object that the batch relies on is not there (any more)."""


class Standing(Conflict):
    """An association that the batch was to begin is alive already."""


class Frozen(Unavailable):
    """This data source is moving to another store: repeat in a moment."""


class Assoc(Struct, frozen=True, gc=False):
    """One association as its list shows it: whom it leads to, when (a snowflake, the cursor of the list), and a little data."""

    # Hundreds of thousands are remembered, and none leads to another: without `gc` the collection of garbage passes them over.
    id2: int
    time: int
    data: bytes


class AssocRow(NamedTuple):
    """One association as it is stored, alive or as a tombstone."""

    id1: int
    atype: int
    id2: int
    time: int
    alive: bool
    data: bytes


class BlockRow(NamedTuple):
    """A stored part of a ranked list: how many entries are alive from the end of the block before it up to a time."""

    id1: int
    atype: int
    level: int
    upto: int
    n: int


class Job(NamedTuple):
    """A claimed event. `step` and `mark` say how far its consequences have come; `attempt` counts failures.

    `at` is the moment of its commit in Unix milliseconds; 0 where the store does not tell, and of a job that was put back.
    """

    seq: int
    event: AnyEvent
    step: int = 0
    mark: int = 0
    attempt: int = 0
    store: int = 0
    at: int = 0


class ObjOp(NamedTuple):
    """`node` is added (`expected` 0), set (`expected`: the version it replaces) or, when None, deleted (0: any version)."""

    id: int
    node: Node | None
    expected: int = 0


class AssocOp(NamedTuple):
    """An association begins or ends at `time`.

    The later operation wins, and at the same time the one with the greater data. A `plain` operation is an inverse or a
    repair: it keeps its time, and may lose. The moment of a `silent` end is made up: no history has it. One that is to begin
    `anew` fails the batch with `Standing` where the association is alive.
    """

    id1: int
    atype: int
    id2: int
    time: int
    alive: bool
    data: bytes = b""
    tally: int = 0
    plain: bool = False
    silent: bool = False
    anew: bool = False


class KeyOp(NamedTuple):
    """A key comes to belong to `id` (until a moment in Unix milliseconds; 0: for good), or is given up by it."""

    key: Key
    id: int
    alive: bool
    until: int = 0


@dataclass(slots=True, eq=False)
class Batch:
    """Everything one request changes, committed together on one shard. The graph derives inverses from the schema."""

    shard: int
    objects: list[ObjOp] = field(default_factory=list)
    assocs: list[AssocOp] = field(default_factory=list)
    keys: list[KeyOp] = field(default_factory=list)
    events: list[AnyEvent] = field(default_factory=list)
    expects: list[int] = field(default_factory=list)
    after: Awaitable[object] | None = None
    """Nothing is stored before this is done; may be awaited more than once."""
    presumed_new: bool = False
    """Most likely nothing that it names is stored yet, but for objects that it expects."""
    new_id: int = 0
    """An id that was made for this batch: nothing else leads to or from it."""
    fresh: set[int] = field(default_factory=set)
    """Ids made for this batch, with or without objects: `IdTaken` if one of its associations from or to them is stored, even as a
    tombstone, and `KeyTaken` if one of its keys belongs to them."""
    judged: JudgedLists | None = None
    """Where a store notes what became of the associations."""

    def obj_add(self, node: Node) -> None:
        """Insert; an object with the same id fails the batch with `IdTaken`."""
        self.objects.append(ObjOp(node.id, node))

    def obj_set(self, node: Node) -> None:
        """Replace version `node.version - 1`; any other version stored fails the batch with `Conflict`."""
        self.objects.append(ObjOp(node.id, node, node.version - 1))

    def obj_del(self, id_: int, expected: int = 0) -> None:
        """Delete; nothing happens when there is none. With an `expected` version, any other (or none) stored is a `Conflict`."""
        self.objects.append(ObjOp(id_, None, expected))

    def expect(self, id_: int) -> None:
        """Fail with `Missing` unless this object exists, where its shard is in the same store.

        In another store, the inverses of this batch that belong to the object are not applied at once unless it exists. They
        stay owed to a worker, who sees that it is gone.
        """
        self.expects.append(id_)

    def assoc_add(
        self, id1: int, atype: AssocType, id2: int, time: int, data: bytes = b"", *, tally: int = 0, anew: bool = False
    ) -> None:
        """Begin an association; the acting shard lifts its time past the stored one. `anew`: `Standing` if it is alive already."""
        self.assocs.append(AssocOp(id1, atype.number, id2, time, alive=True, data=data, tally=tally, anew=anew))

    def assoc_del(self, id1: int, atype: AssocType, id2: int, time: int, data: bytes = b"", *, tally: int = 0) -> None:
        """End an association; nothing happens when it is not alive."""
        self.assocs.append(AssocOp(id1, atype.number, id2, time, alive=False, data=data, tally=tally))

    def put(self, op: AssocOp) -> None:
        """An operation as it stands: an inverse that is owed, or a repair."""
        self.assocs.append(op)

    def key_add(self, key: Key, id_: int, *, until: int = 0) -> None:
        """Reserve a name; another owner fails the batch with `KeyTaken`, the same owner is no change."""
        self.keys.append(KeyOp(key, id_, alive=True, until=until))

    def key_del(self, key: Key, id_: int) -> None:
        """Give a name up, if it is this owner's."""
        self.keys.append(KeyOp(key, id_, alive=False))

    def emit(self, event: AnyEvent) -> None:
        """An event that is committed with the rest. It carries the trace on in which the batch is made, if there is one."""
        trace = carried()
        self.events.append(structs.replace(event, trace=trace) if trace else event)


class Cursor(NamedTuple):
    """A part of a list or a feed: `after < time < before`; the newest `limit` of it, or the oldest (`oldest_first`).

    Times are ids of objects or moments in their form, so no entry has the time 0.
    """

    before: int = MAX_TIME
    after: int = 0
    limit: int = 20
    oldest_first: bool = False

    def past(self, id_: int) -> Cursor:
        """Return the part that begins behind this id, in the cursor's direction."""
        before, after, limit, oldest_first = self
        return Cursor(before, id_, limit, oldest_first) if oldest_first else Cursor(id_, after, limit)

    def of(self, limit: int) -> Cursor:
        """Return this part with another limit."""
        before, after, _, oldest_first = self
        return Cursor(before, after, limit, oldest_first)


class Reader(Protocol):
    """The reading half of a graph."""

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        """Objects by id."""
        ...

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Owners by key; expired keys are absent."""
        ...

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        """Which of `id2s` the object leads to, per type: every type asked for is in the answer."""
        ...

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        """Return this part of a list: newest first, or oldest first where the cursor says so."""
        ...

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        """`assoc_range` of many lists at once; an empty list is absent."""
        ...

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        """Lengths of lists (for tallied types: at the tally too), in O(1) each; 0 is left out, and what is not counted."""
        ...

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        """How many entries of each list are newer than each of `times`; every list asked for is in the answer.

        Costs O(log n) for each list and time where the type is `ranked` (`schema`); otherwise as much as counting them.
        """
        ...

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        """As `assoc_get`, of associations that have ended: their tombstones, with the time of the end, until they are swept."""
        ...

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        """As `assoc_range`, of the tombstones of an `ended_listed` type (`schema`)."""
        ...


class RememberingReader(Reader, Protocol):
    """A graph that keeps answers in memory, and can therefore answer what would take long to read for every request."""

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        """Where the lists of `id1` lead to that the list `listed` of `other` leads to as well, per type.

        All these types are counted. Of `listed`, the newest 100,000 are looked at.
        """
        ...


class Graph(Reader, Protocol):
    """A graph that can be changed."""

    async def commit(self, batch: Batch) -> None:
        """Make the batch durable, whole or not at all. Raises `Conflict` (see `Batch`), `StorageFull` or `Unavailable`.

        After `OutcomeUnknown` it may be durable, whole, or may not. After any other of these nothing was stored.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun, and let go of every resource."""
        ...


class Outbox(Protocol):
    """The events of a graph that have not been acted on."""

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Take up to `limit` jobs for `lease` seconds, oldest first; one that is not acknowledged by then is given again."""
        ...

    async def ack(self, jobs: Sequence[Job]) -> None:
        """These are done. May be written lazily: a job that is given again after a crash does no harm."""
        ...

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        """Not finished: keep the job's step, mark and attempt, and give it again after `delay` seconds."""
        ...

    async def bury(self, job: Job, error: str) -> None:
        """Set a job aside for a person to look at."""
        ...

    async def backlog(self) -> int:
        """How many events are not acknowledged, claimed or not."""
        ...

    async def lag(self) -> float:
        """For how many seconds the oldest event that is not acknowledged has waited; 0 when there is none."""
        ...

    async def buried(self) -> list[tuple[Job, str]]:
        """Return the jobs that were set aside, each with its error."""
        ...

    async def unbury(self, jobs: Sequence[Job]) -> int:
        """Give these buried jobs again from where they had come, with no attempt counted; how many of them were buried."""
        ...

    def on_event(self, wake: WakeUp) -> None:
        """Call `wake` (cheap, on the event loop) whenever a commit brought events."""
        ...


class Scanner(Protocol):
    """Reading everything in order of its key, in pages, for checks, exports and moves."""

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        """Objects with an id above `after`, in order of id."""
        ...

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        """Associations, tombstones too, above the triple `(id1, atype, id2)`, in its order."""
        ...

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        """`(id1, atype, n)` above the pair, in its order; zeros may be among them."""
        ...

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        """Put a count right (a repair)."""
        ...

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:
        """Blocks above `(id1, atype, level, upto)`, in its order; none where positions are found without blocks."""
        ...

    async def block_drop(self, id1: int, atype: int) -> None:
        """Delete the blocks of a list: the next read by position makes them anew (a repair)."""
        ...

    async def sweep(self, before: int, now: int) -> int:
        """Forget tombstones from before a snowflake, and keys that expired by `now` (Unix ms); how many.

        Tombstones of `placed` types stay for good, those of `REMEMBERED` types (`schema`) until `sweep_history`.
        """
        ...

    async def sweep_history(self, before: int) -> int:
        """Forget tombstones of `REMEMBERED` types (`schema`) from before a snowflake; how many."""
        ...


class Store(Graph, Outbox, Scanner, Protocol):
    """A whole graph, as `wiring` opens it."""

    async def commit_owing(self, batch: Batch) -> list[tuple[Job, InverseOp]]:
        """As `commit`; what the batch owes to shards that this store does not keep is returned with its jobs."""
        ...


Announce = Callable[[], Awaitable[None]]

announcing: ContextVar[Announce | None] = ContextVar("announcing", default=None)
"""Awaited by an embedded store before each change that this context makes. When it raises, the change is not made.

If this process is killed, a caller in another process knows by it whether the call can be repeated.
"""


async def announce() -> None:
    """Announce a change to the caller, if one wants to know. Raises `Unavailable` where it could not be announced."""
    tell = announcing.get()
    if tell is not None:
        await tell()
