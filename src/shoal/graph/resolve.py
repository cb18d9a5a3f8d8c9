"""The changes that a batch makes, decided in one place for every engine, without I/O.

An engine loads the rows that the batches of a group commit read or write (`Touched`) into a `Known`, calls `decide` for each batch
in turn, and stores the `Resolution`. So the rules are written once: the later time wins, a commit on the acting shard raises its
time above a stored one, counts change only with a real change, inverses follow the schema. `decide` checks every condition before
it changes anything.

For example, A follows B, and B belongs to another store:

1. A's store stores the follow at time 105. The inverse, "B is followed by A" at 105, is pending for B's store.
2. A unfollows in a process whose clock is behind, at time 103. A did this last, so it must win: 103 is raised to 106. A's store
keeps a tombstone of 106, and the deletion of the inverse is pending, with the time 106 too.
3. B's store gets the deletion first. It is `plain`: it keeps its time and leaves a tombstone of 106; no count changes.
4. The addition, 105, arrives late. It loses against 106 and changes nothing: both ends agree, and B's follower count is right.

An entry in the public list of a data source is pending for the store of the list in the same way, if the acting shard is in
another part of the data source and that part has another store.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from shoal.core.errors import Unavailable
from shoal.core.events import Event, InverseOp, InversePending
from shoal.core.ids import shard_of
from shoal.core.model import Node
from shoal.graph import event_log
from shoal.graph.contract import (
    AssocExists,
    AssocOp,
    Batch,
    Changed,
    IdTaken,
    KeyTaken,
    ListChanges,
    Missing,
    frozen_refusal,
)
from shoal.graph.payloads import follows
from shoal.graph.schema import ASSOC_TYPES

Triple = tuple[int, int, int]
KeyName = tuple[str, str]
Owns = Callable[[int], bool]
"""Returns whether a store keeps a shard."""


def every_shard(_shard: int) -> bool:
    return True


class StoredAssoc(NamedTuple):
    time: int
    alive: bool
    data: bytes


class Known:
    """The stored state of the rows that the batches of a group commit read or write.

    A row that is not stored has no entry. `decide` updates the state.
    """

    __slots__ = ("keys", "links", "versions")

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}
        self.links: dict[Triple, StoredAssoc] = {}
        self.keys: dict[KeyName, tuple[int, int]] = {}


class Resolution:
    """The changes to store for the batches of a group commit: final states, count differences, events in order, and log entries.

    `logged` is None if the store keeps no event log.
    """

    __slots__ = ("counts", "events", "keys", "links", "list_changes", "logged", "objects")

    def __init__(self, *, logs: bool = False) -> None:
        self.list_changes: ListChanges | None = None
        self.objects: dict[int, Node | None] = {}
        self.links: dict[Triple, StoredAssoc] = {}
        self.keys: dict[KeyName, tuple[int, int] | None] = {}
        self.counts: dict[tuple[int, int], int] = {}
        self.events: list[Event] = []
        self.logged: list[event_log.Logged] | None = [] if logs else None


class Touched:
    """The keys of all rows that the batches of a group commit read.

    `histories` are rows with follow times. The commit checks such a row for concurrent changes only if the group changes it.
    """

    __slots__ = ("histories", "ids", "keys", "triples")

    def __init__(self, batches: Iterable[Batch], owns: Owns) -> None:
        self.ids: set[int] = set()
        self.keys: set[KeyName] = set()
        self.triples: set[Triple] = set()
        self.histories: set[Triple] = set()
        for batch in batches:
            self.ids.update(op.id for op in batch.objects)
            self.ids.update(id_ for id_ in batch.expects if owns(shard_of(id_)))
            self.keys.update((op.key.space, op.key.name) for op in batch.keys)
            for op in batch.assocs:
                if owns is not every_shard and not owns(shard_of(op.id1)):
                    continue
                self._add(op.id1, op.atype, op.id2)
                inverse = ASSOC_TYPES[op.atype].inverse
                if inverse and not op.plain and owns(shard_of(op.id2)):
                    self._add(op.id2, inverse, op.id1)

    def _add(self, id1: int, atype: int, id2: int) -> None:
        self.triples.add((id1, atype, id2))
        if history := ASSOC_TYPES[atype].history:
            self.histories.add((id1, history, id2))

    @property
    def links(self) -> set[Triple]:
        return self.triples | self.histories if self.histories else self.triples


def decide(batch: Batch, known: Known, changes: Resolution, *, owns: Owns, now: int) -> list[InverseOp]:
    """Apply one batch to `known` and `changes`, or raise a `Conflict` or `Frozen` and change nothing.

    `Frozen` is raised if the shard map has changed since the batch was routed to this store.

    Args:
        owns: Whether this store keeps a shard. Operations for other shards are returned, and stored as `InversePending` events.
        now: Unix milliseconds, for keys that expire.
    """
    if owns is not every_shard and _has_moved(batch, owns):
        raise frozen_refusal()
    _check(batch, known, owns, now)
    changes.list_changes = batch.list_changes
    if batch.list_changes is not None:
        batch.list_changes.forget()
    for obj in batch.objects:
        if changes.logged is not None and (entry := event_log.of_object(obj, known.versions.get(obj.id, 0))):
            changes.logged.append(entry)
        changes.objects[obj.id] = obj.node
        known.versions[obj.id] = obj.node.version if obj.node else 0
    for key in batch.keys:
        name = (key.key.space, key.key.name)
        if key.alive:
            if key.until and known.keys.get(name) == (key.id, 0):
                # A permanent key stays permanent when it is reserved again with an expiry.
                continue
            known.keys[name] = changes.keys[name] = (key.id, key.until)
        elif known.keys.get(name, (0, 0))[0] == key.id:
            del known.keys[name]
            changes.keys[name] = None
    pending_inverses = [inverse for op in batch.assocs if (inverse := _link(op, known, changes, owns))]
    changes.events.extend(batch.events)
    changes.events.extend(InversePending(op=op) for op in pending_inverses)
    return pending_inverses


def _has_moved(batch: Batch, owns: Owns) -> bool:
    """Return whether this store no longer has a shard that it needs to commit the batch.

    It needs the acting shard, and the shard of `id1` of each association that has an inverse or is an inverse (`plain`). Such an
    association cannot be left pending for another store, because a pending operation is applied without creating an inverse.
    Any other association (an entry of a public list) may belong to another store.
    """
    return not owns(batch.shard) or any(
        not owns(shard_of(op.id1)) for op in batch.assocs if op.plain or ASSOC_TYPES[op.atype].inverse
    )


def _check(batch: Batch, known: Known, owns: Owns, now: int) -> None:
    for obj in batch.objects:
        stored = known.versions.get(obj.id, 0)
        if (obj.node is not None or obj.expected) and stored != obj.expected:
            if not obj.expected:
                raise IdTaken(obj.id)
            raise Changed(obj.id)
    for key in batch.keys:
        owner, until = known.keys.get((key.key.space, key.key.name), (0, 0))
        if key.alive and owner and (owner != key.id or owner in batch.fresh) and not 0 < until <= now:
            raise KeyTaken(key.key, owner)
    for id_ in batch.expects:
        if owns(shard_of(id_)) and not known.versions.get(id_):
            raise Missing("the object was deleted concurrently")
    for op in batch.assocs:
        if op.must_be_new and (link := known.links.get((op.id1, op.atype, op.id2))) is not None and link.alive:
            raise AssocExists("the association already exists")
    if batch.fresh:
        _check_fresh(batch, known)


def _check_fresh(batch: Batch, known: Known) -> None:
    for op in batch.assocs:
        for id_ in (op.id1, op.id2):
            if id_ in batch.fresh and (op.id1, op.atype, op.id2) in known.links:
                raise IdTaken(id_)


def _link(op: AssocOp, known: Known, changes: Resolution, owns: Owns) -> InverseOp | None:
    """Apply an operation and its inverse. If one of the two belongs to another store, return it instead of applying it."""
    if owns is not every_shard and not owns(shard_of(op.id1)):
        if changes.logged is not None:
            _log(op, None, changes.logged)
        return InverseOp(op.id1, op.atype, op.id2, op.time, op.alive, op.data, op.aggregate_id)
    if op.plain:
        _move(op, known, changes)
        return None
    stored = known.links.get((op.id1, op.atype, op.id2))
    if not op.alive and (stored is None or not stored.alive):
        if changes.list_changes is not None:
            changes.list_changes.judge(op.id1, op.atype)
        return None
    atype = ASSOC_TYPES[op.atype]
    # An operation that is not later than the stored association gets the time just after it. In types with a `history`, an
    # operation at an equal time is never later.
    if stored is not None and not (op.time > stored.time if atype.history else _later(op, stored)):
        if atype.versioned:
            return None
        op = op._replace(time=stored.time + 1)
    if op.alive and op.data and atype.history and (stored is None or not stored.alive):
        # The follow was deleted while its options were being changed: it begins again now.
        op = op._replace(data=follows.restarted(op.data))
    if changes.logged is not None:
        _log(op, stored, changes.logged)
    _move(op, known, changes)
    inverse = atype.inverse
    if not inverse:
        return None
    if owns(shard_of(op.id2)):
        _move(
            AssocOp(op.id2, inverse, op.id1, op.time, op.alive, op.data, op.aggregate_id, op.plain, op.silent),
            known,
            changes,
        )
        return None
    return InverseOp(op.id2, inverse, op.id1, op.time, op.alive, op.data, op.aggregate_id)


def _log(op: AssocOp, stored: StoredAssoc | None, logged: list[event_log.Logged]) -> None:
    if entry := event_log.of_association(op, was_alive=stored is not None and stored.alive):
        logged.append(entry)


def _later(op: AssocOp, stored: StoredAssoc) -> bool:
    """Return whether the operation wins over the stored association.

    At equal times the greater data wins: if an association keeps its time when it changes, its data contains a version
    number. For types with a history, a deletion wins instead: its data is the history, which may be longer in one store for a
    while.
    """
    if op.time != stored.time:
        return op.time > stored.time
    if ASSOC_TYPES[op.atype].history and not (op.alive and stored.alive):
        return stored.alive
    return op.data > stored.data


def _move(op: AssocOp, known: Known, changes: Resolution) -> None:
    """Apply one operation if it is later than the stored one; update counts if the association is created or deleted."""
    triple = (op.id1, op.atype, op.id2)
    stored = known.links.get(triple)
    after = stored if stored is not None and not _later(op, stored) else StoredAssoc(op.time, op.alive, op.data)
    if ASSOC_TYPES[op.atype].history:
        after = _remember(op, stored, after, known, changes)
    if changes.list_changes is not None:
        changes.list_changes.note(op.id1, op.atype, op.id2, (after.time, after.data) if after.alive else None)
    if after == stored:
        return
    known.links[triple] = changes.links[triple] = after
    was_alive = stored is not None and stored.alive
    if after.alive is not was_alive and ASSOC_TYPES[op.atype].counted:
        _count(changes, op.id1, op.atype, 1 if after.alive else -1)
        if op.aggregate_id and ASSOC_TYPES[op.atype].aggregated:
            _count(changes, op.aggregate_id, op.atype, 1 if after.alive else -1)


def _remember(
    op: AssocOp, stored: StoredAssoc | None, after: StoredAssoc, known: Known, changes: Resolution
) -> StoredAssoc:
    """Record the start or end of a follow in its history, even if `op` is too old to be applied. Return the association to store.

    A deleted association has its history in its own tombstone. A live one has it in a separate tombstone, whose type is the
    `history` of its type and which appears in no list.
    """
    past = (op.id1, ASSOC_TYPES[op.atype].history, op.id2)
    link = known.links.get(past)
    if stored is None and link is None and after.alive:
        # The first follow has no history yet: its beginning is that of the association.
        return after
    known_moments = follows.moments_of(link.data) if link is not None else frozenset()
    moments = _moments(stored) | _moments_of_operation(op)
    if not after.alive:
        return after._replace(data=follows.encode_moments(moments - known_moments))
    added = moments - _moments(after) - known_moments
    if added:
        data = follows.encode_moments(known_moments | added)
        if link is None or data != link.data:
            time = abs(follows.in_order(known_moments | added)[-1])
            known.links[past] = changes.links[past] = StoredAssoc(time, alive=False, data=data)
    return after


def _moments(stored: StoredAssoc | None) -> frozenset[int]:
    if stored is None:
        return frozenset()
    if stored.alive:
        return frozenset((follows.beginning(stored.time, stored.data),))
    return follows.moments_until(stored.time, stored.data)


def _moments_of_operation(op: AssocOp) -> frozenset[int]:
    if op.alive:
        return frozenset((follows.beginning(op.time, op.data),))
    recorded = follows.moments_of(op.data)
    return recorded if op.silent else recorded | {-op.time}


def answer(future: Future[Any], result: Any) -> None:
    """Set the result of a batch, or its error, on the future of the caller, unless the caller was cancelled."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def copied(error: Unavailable) -> Unavailable:
    """Return a copy of an error for one of several callers: one shared exception would accumulate the tracebacks of all."""
    copy = type(error)(str(error), retry_after=error.retry_after)
    copy.__cause__ = error
    return copy


def _count(changes: Resolution, id_: int, atype: int, by: int) -> None:
    pair = (id_, atype)
    changes.counts[pair] = changes.counts.get(pair, 0) + by
    if changes.list_changes is not None:
        changes.list_changes.judge(id_, atype, by)
