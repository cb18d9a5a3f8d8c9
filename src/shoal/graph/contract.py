"""The contract of a graph store: objects, associations, keys and the transactional outbox.

Every read takes many ids and costs one round trip; missing ids are omitted from the result. `commit` stores all or nothing, and
returns once the batch is durable. One test suite (`tests/contracts/`) runs on every store.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from msgspec import DecodeError, Struct, msgpack, structs

from shoal.core.errors import Conflict, Gone, InvalidInput, Unavailable
from shoal.core.events import Event, InverseOp
from shoal.core.model import Node
from shoal.graph.schema import AnyNode, AssocType, Key
from shoal.observability.tracing import carried


class ListChanges:
    """The changes of list entries and list lengths that a commit made on the acting shard.

    A list that is missing from `counts` may have changed in an unknown way.
    """

    __slots__ = ("counts", "entries")

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        """Change in length, by `(id1, atype)`."""
        self.entries: dict[tuple[int, int], dict[int, tuple[int, bytes] | None]] = {}
        """Time and data of each changed entry, by `(id1, atype)` and then `id2`; None for a deleted entry."""

    def judge(self, id1: int, atype: int, by: int = 0) -> None:
        """Record that the commit depends on this list, and changes its length by `by`."""
        pair = (id1, atype)
        self.counts[pair] = self.counts.get(pair, 0) + by

    def note(self, id1: int, atype: int, id2: int, entry: tuple[int, bytes] | None) -> None:
        """Record the new time and data of an entry; None if it was deleted."""
        self.judge(id1, atype)
        self.entries.setdefault((id1, atype), {})[id2] = entry

    def forget(self) -> None:
        self.counts.clear()
        self.entries.clear()


N = TypeVar("N", bound=Node)
MAX_TIME = 2**63 - 1
WakeUp = Callable[[], None]


class IdTaken(Conflict):
    """The object id `id` is in use; the caller has to retry with a new id."""

    def __init__(self, id_: int) -> None:
        super().__init__("another object has this id")
        self.id = id_


class Changed(Conflict):
    """The object `id` does not exist, or does not have the version that the batch replaces."""

    def __init__(self, id_: int) -> None:
        super().__init__("it was changed or deleted in between; read it again and repeat")
        self.id = id_


class KeyTaken(Conflict):
    """The key belongs to another object, whose id is `id`."""

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


def frozen_refusal() -> Frozen:
    return Frozen("this part of the network is being moved: try again in a moment", retry_after=1.0)


class Assoc(Struct, frozen=True, gc=False):
    """A list entry: the id of the object to which the association leads, the association's time, and a few bytes of data.

    The time is a snowflake, which is the cursor of the list.
    """

    # Caches hold hundreds of thousands of entries, which form no cycles: with `gc=False` the garbage collector skips them.
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
    """A stored block of the rank index of a list: `n` consecutive live entries. `upto` is the time of the last one.

    The block begins after the last entry of the previous block.
    """

    id1: int
    atype: int
    level: int
    upto: int
    n: int


class Job(NamedTuple):
    """A claimed event. `step` and `mark` are its consumers' progress, and `attempt` is the number of failed attempts.

    `at` is the time at which the event was committed (Unix ms); 0 if the store does not report it, or if the job was put back.
    """

    seq: int
    event: Event
    step: int = 0
    mark: int = 0
    attempt: int = 0
    store: int = 0
    at: int = 0


PendingInverses = list[tuple[Job, InverseOp]]
"""Pending inverses for shards in other stores, with the jobs that apply them."""


class ObjOp(NamedTuple):
    """An operation on an object: add it, replace it, or delete it.

    If `node` is None, the object is deleted if its version is `expected` (0: any version). Otherwise `node` replaces the version
    `expected`, or is added if `expected` is 0. `former` is the replaced or deleted object as the caller has read it.
    """

    id: int
    node: Node | None
    expected: int = 0
    former: Node | None = None


class AssocOp(NamedTuple):
    """An operation that adds or deletes an association at `time`.

    Of two operations on one association, the later one wins; if the times are equal, the one with the greater data wins.

    - `plain`: an inverse or a repair. It keeps its time, and has no effect if a later operation is stored.
    - `silent`: a deletion that no member requested, such as a repair. A type of `WITH_HISTORY` (see
      `schema`) does not record it in its history.
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
    """An operation on a key: reserve it for the object `id` until a time in Unix milliseconds (0: permanently), or release it."""

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
    events: list[Event] = field(default_factory=list)
    expects: list[int] = field(default_factory=list)
    after: Awaitable[object] | None = None
    """To be awaited before anything is stored. It may be awaited more than once."""
    presumed_new: bool = False
    """A hint: most likely nothing that the batch names is stored yet, except for the objects that it expects."""
    bulk: bool = False
    """Whether the batch has many objects of an import. Caches keep nothing of it."""
    new_id: int = 0
    """An id that was created for this batch, so that no other association leads to or from it."""
    fresh: set[int] = field(default_factory=set)
    """Ids that were created for this batch, with or without objects.

    The batch fails with `IdTaken` if one of its associations from or to these ids is already stored, even as a tombstone, and with
    `KeyTaken` if one of its keys already belongs to one of these ids.
    """
    list_changes: ListChanges | None = None
    """If set, the store records here how the lists changed."""

    def obj_add(self, node: Node) -> None:
        """Add an object; fail the batch with `IdTaken` if the id exists."""
        self.objects.append(ObjOp(node.id, node))

    def obj_set(self, node: Node, former: Node | None = None) -> None:
        """Replace version `node.version - 1` of an object; fail the batch with `Conflict` if another version is stored.

        `former` is that version. It is required if the visibility changes.
        """
        self.objects.append(ObjOp(node.id, node, node.version - 1, former))

    def obj_del(self, target: int | Node, expected: int = 0) -> None:
        """Delete an object, if it exists. `target` is its id, or the object itself if the event log records its kind.

        With an `expected` version, the batch fails with `Conflict` if the object has another version or does not exist.
        """
        if isinstance(target, int):
            self.objects.append(ObjOp(target, None, expected))
        else:
            self.objects.append(ObjOp(target.id, None, expected, target))

    def expect(self, id_: int) -> None:
        """Fail the batch with `Missing` if this object does not exist in the store of the batch.

        An object of another store is not checked. If it does not exist, that store refuses the batch's inverses at the object,
        which stay pending until a worker finds that the object was deleted.
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

        If the acting shard has already stored it, alive or as a tombstone, its time is made later than the stored time. With
        `must_be_new`, the batch fails with `AssocExists` if the association is alive.
        """
        self.assocs.append(
            AssocOp(
                id1, atype.number, id2, time, alive=True, data=data, aggregate_id=aggregate_id, must_be_new=must_be_new
            )
        )

    def assoc_del(
        self, id1: int, atype: AssocType, id2: int, time: int, data: bytes = b"", *, aggregate_id: int = 0
    ) -> None:
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

    def emit(self, event: Event) -> None:
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
        """Return the rest of this range after an entry of time `id_`: older entries, or newer ones if `oldest_first`."""
        before, after, limit, oldest_first = self
        return Cursor(before, id_, limit, oldest_first) if oldest_first else Cursor(id_, after, limit)

    def of(self, limit: int) -> Cursor:
        before, after, _, oldest_first = self
        return Cursor(before, after, limit, oldest_first)


class Reader(Protocol):
    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]: ...

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Return the id of the object that owns each key; expired keys are absent."""

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        """Return the associations from `id1` to any of `id2s`, by type and `id2`. The result has every requested type."""

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        """Return a range of a list, newest first, or oldest first if the cursor has `oldest_first`."""

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        """Return the result of `assoc_range` for many lists, by `id1`; empty lists are absent."""

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        """Return the counts of objects, by type and `id1`, in O(1) each.

        The count of an object is the length of its list of the type, or its aggregate count, such as the likes of all posts of an
        author. Counts of 0 are absent, and so are all counts of a type that is not `counted`.
        """

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        """Return how many entries of each list are newer than each of `times`. The result has every requested list.

        Costs O(log n) for each list and time if the type is `ranked` (`schema`); otherwise O(n).
        """

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        """Return deleted associations from `id1` to any of `id2s`, by type and `id2`: tombstones, with the time of deletion.

        A tombstone is found until it is swept.
        """

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        """Return a range of the tombstones of an `ended_listed` type (`schema`), in the order of the cursor."""


async def find_object(graph: Reader, kind: type[N], id_: int) -> N | None:
    """Return the object with this id; None if there is no object of this kind, or if the id is 0."""
    node = (await graph.obj_get((id_,))).get(id_) if id_ else None
    return node if isinstance(node, kind) else None


@runtime_checkable
class Joining(Protocol):
    """A store that sends concurrent point reads as one request if `joins` is true.

    Point reads are `obj_get`, `key_get`, `assoc_get`, `assoc_ended` and `assoc_count`. `joins` is true for a sharded store if it is
    true for each of its stores. With such a store, prefetching costs no requests if it is done together with another read.
    """

    @property
    def joins(self) -> bool: ...

    def counted_with(self, atypes: Sequence[AssocType]) -> Sequence[AssocType]:
        """Return these types, and all other types whose counts are stored with the counts of these types.

        `assoc_count` reads the counts of all returned types at no extra cost.
        """


class RememberingReader(Reader, Protocol):
    """A graph with an in-memory cache. It can answer queries that would take too many reads of a store in each request."""

    async def assoc_common(
        self, id1: int, atypes: Sequence[AssocType], other: int, listed: AssocType
    ) -> dict[AssocType, frozenset[int]]:
        """Return the intersection of each list of `id1` with the list `listed` of `other`, per type.

        All of these types must be counted. Of the list `listed`, only the newest 100,000 entries are examined.
        """


class Graph(Reader, Protocol):
    """A graph that can be changed."""

    async def commit(self, batch: Batch) -> None:
        """Store the batch durably and atomically.

        Raises:
            Conflict: See `Batch`. Nothing was stored.
            StorageFull: Nothing was stored.
            Unavailable: Nothing was stored.
            OutcomeUnknown: Either the whole batch is durable, or nothing was stored.
        """

    async def close(self) -> None:
        """Finish started work, and release every resource of the graph."""


class Outbox(Protocol):
    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Claim up to `limit` jobs for `lease` seconds, oldest first. A job that is not acknowledged by then is delivered again."""

    async def ack(self, jobs: Sequence[Job]) -> None:
        """Mark jobs as done.

        The store may write this lazily, so after a crash a job may be delivered again, which consumers tolerate.
        """

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        """Put an unfinished job back into the outbox, with its step, mark and attempt.

        It is delivered again after `delay` seconds.
        """

    async def park(self, job: Job, error: str) -> None:
        """Park a job that failed in all its attempts, for an operator."""

    async def backlog(self) -> int:
        """Return the number of unacknowledged events, claimed or not."""

    async def lag(self) -> float:
        """Return the age in seconds of the oldest unacknowledged event; 0 if there is none."""

    async def parked(self) -> list[tuple[Job, str]]:
        """Return the parked jobs, each with its error."""

    async def unpark(self, jobs: Sequence[Job]) -> int:
        """Requeue parked jobs at the step that they had reached, with the attempts reset. Returns how many jobs were requeued."""

    def on_event(self, wake: WakeUp) -> None:
        """Call `wake` whenever a commit contains events. It is called on the event loop, so it must be fast."""


class Scanner(Protocol):
    """Scans of the whole store in key order, in pages, for checks, exports and moves."""

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        """Return objects with an id above `after`, in the order of their ids."""

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        """Return associations, including tombstones, above the triple `(id1, atype, id2)`, in the order of the triples."""

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        """Return counts as `(id1, atype, n)` above the pair `(id1, atype)`, in the order of the pairs; `n` may be 0."""

    async def count_set(self, id1: int, atype: int, n: int) -> None: ...

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:
        """Return blocks of rank indexes above `(id1, atype, level, upto)`, in this order; none if the engine has no such blocks."""

    async def block_drop(self, id1: int, atype: int) -> None:
        """Delete the blocks of a list's rank index as a repair. The next read by rank rebuilds them."""

    async def sweep(self, before: int, now: int) -> int:
        """Delete old tombstones and expired keys, and return the number of deletions.

        Tombstones must be older than the snowflake `before`, and keys must have expired by `now` (Unix ms). Tombstones of types
        that are `positional` (see `schema`) are permanent; tombstones of `WITH_HISTORY` types are kept until `sweep_history`.
        """

    async def sweep_history(self, before: int) -> int:
        """Delete tombstones of `WITH_HISTORY` types (`schema`) older than the snowflake `before`. Returns the number deleted."""


class LogEntry(NamedTuple):
    """One recorded change, without content: a reader of the log looks up the current state of the objects that it names.

    Deliveries may repeat, and two members may change one association in different stores. So ignore an entry with a lower `version`
    than another one about the same object or association; of two equal versions, a deletion wins. The commits of one member are
    delivered in their order. Those of different members may be delivered in another order.
    """

    log: int
    """The number of the event log that has the entry."""
    position: tuple[int, ...]
    """Position in this log. Positions of one log are comparable."""
    at: int
    """When the change was committed, in Unix milliseconds."""
    kind: int
    """A number of `event_log.LogKind`, or a greater one from a newer Shoal."""
    subject: int
    """The member who acted, or for an audit entry its list."""
    object: int
    other: int
    version: int
    """The version of an object, or the time of an association."""

    @property
    def id(self) -> str:
        """An id that is equal in every delivery of this entry.

        It contains the time, because an older copy of a store uses positions again.
        """
        return "-".join(f"{part:x}" for part in (self.log, *self.position, self.at))


class LogPlace(NamedTuple):
    """A position in the log of one store: all entries up to it have been delivered.

    `proof` detects that the store has lost or replaced entries before the position.
    """

    position: tuple[int, ...]
    proof: tuple[int, ...] = ()


MAX_CURSOR = 65_536
"""Maximum characters of an encoded `LogCursor`. A place in a log takes about 40."""
_MAX_PARTS = 4
"""Maximum numbers in a position or its proof."""


class LogCursor(Struct, frozen=True):
    """A place in the event log of a network: one in the log of each store, by the number of the log."""

    places: Mapping[int, LogPlace] = {}

    def encode(self) -> str:
        return urlsafe_b64encode(msgpack.encode(list(self.places.items()))).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> LogCursor:
        """Parse an encoded cursor. Raises `InvalidInput`."""
        try:
            data = b64decode(text[: MAX_CURSOR + 1] + "=" * (-len(text) % 4), b"-_", validate=True)
            places = dict(msgpack.decode(data, type=list[tuple[int, LogPlace]]))
        except (ValueError, DecodeError):
            places = {}
        numbers = [number for place in places.values() for number in (*place.position, *place.proof)]
        is_valid = (
            all(1 <= log <= MAX_TIME and 1 <= len(place.position) <= _MAX_PARTS for log, place in places.items())
            and all(len(place.proof) <= _MAX_PARTS for place in places.values())
            and all(0 <= number <= MAX_TIME for number in numbers)
        )
        if len(text) > MAX_CURSOR or not places or not is_valid:
            raise InvalidInput("after: this is not a cursor of the event log", field="after")
        return cls(places)


class CursorTooOld(Gone):
    """Entries after a cursor are missing. Take the end of the log, read the current state again, and continue from that end."""

    @classmethod
    def trimmed(cls) -> Self:
        return cls(f"the cursor is too old: entries after it were deleted; {_RESYNCHRONIZE}")

    @classmethod
    def other_log(cls) -> Self:
        return cls(
            "the cursor belongs to another event log, or the store lost entries that it covers (restored from a backup, or failed "
            f"over); {_RESYNCHRONIZE}"
        )


_RESYNCHRONIZE = "take the end of the log, read the current state again, and continue from that end"


class StorePage(NamedTuple):
    """A page of the log of one store. `place` is the place after all of its `entries`; if `more`, further entries follow."""

    log: int
    entries: Sequence[LogEntry]
    place: LogPlace
    more: bool = False
    proof: tuple[int, ...] = ()
    """The proof of any place in this page, without the `at` of the entry there."""
    start: LogPlace | None = None
    """The place before the first entry."""
    reached: tuple[int, ...] = ()
    """A position before which no further entry can appear; empty: the position of `place`."""

    def place_at(self, entry: LogEntry) -> LogPlace:
        return LogPlace(entry.position, (*self.proof, entry.at))


class LogSource(Protocol):
    """The event log of one store. `event_log.EventLog` reads the logs of all stores of a network."""

    async def log_page(self, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
        """Return the entries after the place in this log, or the oldest stored ones if `places` is None.

        If `places` has no place in this log, no entry of it has been delivered: the first entry that the log ever had is next. An
        entry is returned only when no entry can be committed before it any more.

        Raises:
            CursorTooOld: Entries after the place have been trimmed, or entries before it are not those that were delivered.
            InvalidInput: The store keeps no event log.
        """

    async def log_end(self) -> StorePage:
        """Return an empty page at the end of the log. Raises `InvalidInput` if the store keeps no event log."""

    async def log_trim(self, before: int) -> int:
        """Delete the oldest entries, from before a time (Unix ms), and return their number. It may keep the newest entry."""


class Store(Graph, Outbox, Scanner, Protocol):
    """A store with everything that `shoal.app` needs: graph, outbox and scans."""

    @property
    def log_sources(self) -> Sequence[LogSource]:
        """The event logs of the stores of this graph."""

    async def commit_owing(self, batch: Batch) -> PendingInverses:
        """Commit the batch, and return its inverses that belong to other stores, each with the pending job that would write it."""


Announce = Callable[[], Awaitable[None]]

pre_commit_hook: ContextVar[Announce | None] = ContextVar("pre_commit_hook", default=None)
"""Awaited by an embedded store before each change that this context makes. If it raises, the change is not made.

With it, a caller in another process learns that a change may have been made. If this process is then killed, the caller can tell
whether it may repeat the call.
"""


async def announce() -> None:
    """Call the `pre_commit_hook` of this context, if it has one, before a change is committed.

    Raises `Unavailable` if that fails.
    """
    tell = pre_commit_hook.get()
    if tell is not None:
        await tell()
