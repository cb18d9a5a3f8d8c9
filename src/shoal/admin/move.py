"""Move a whole network to other stores: every row, then the pending events, compared before the move is reported as complete.

No other process may have the source or the target open. A move may be interrupted and run again: rows that exist are compared
and not written again, and extra rows are deleted. Until the move finishes, a key marks the target as unfinished, so a store is
only overwritten if it is the target of an interrupted move. Pending events are emitted again in the target, which is safe
because consumers are idempotent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from shoal.admin.report import Progress
from shoal.core.errors import Conflict, InvalidInput, Unavailable
from shoal.core.events import Event
from shoal.core.ids import shard_of
from shoal.core.placement import source_of
from shoal.graph.bulk import FIRST, KeyRow, Movable, Rows
from shoal.graph.contract import Batch, Job, Store
from shoal.graph.schema import Key, encode_node

_AT_ONCE = 500
_LEASE_SECONDS = 60.0
_PATIENCE_SECONDS = 90.0
"""Seconds to wait for leased events. An event of a dead worker becomes available when its lease expires."""
_POLL_SECONDS = 0.5


async def forget_events(store: Store) -> None:
    await store.unpark([job for job, _ in await store.parked()])
    await store.ack(await claimed(store))
    while await store.backlog():  # noqa: ASYNC110  # acknowledgments may be written a moment later
        await asyncio.sleep(_POLL_SECONDS / 10)


async def emit_events(store: Store, found: Sequence[Event]) -> None:
    for start in range(0, len(found), _AT_ONCE):
        batch = Batch(0)
        for event in found[start : start + _AT_ONCE]:
            batch.emit(event)
        await store.commit(batch)


async def park_events(store: Store, found: Sequence[tuple[Event, str]]) -> None:
    """Commit events as parked jobs with their errors. The store must not have other unprocessed events."""
    await emit_events(store, [event for event, _ in found])
    for job, (_, error) in zip(await claimed(store), found, strict=True):
        await store.park(job, error)


async def claimed(store: Store) -> list[Job]:
    """Claim all events of a store, oldest first. They are released when the store is closed."""
    jobs: dict[tuple[int, int], Job] = {}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    while len(jobs) < await store.backlog():
        page = await store.claim(_AT_ONCE, _LEASE_SECONDS + _PATIENCE_SECONDS)
        jobs.update({(job.store, job.seq): job for job in page})
        if not page:
            if loop.time() > deadline:
                raise Unavailable("a worker has claimed events of this store: stop it first")
            await asyncio.sleep(_POLL_SECONDS)
    return [jobs[at] for at in sorted(jobs)]


R = TypeVar("R")
K = TypeVar("K", bound=Any)

_ROWS_AT_ONCE = 5_000

_MARK = KeyRow("move", "unfinished", 1, 0)
_MARK_KEY = Key(_MARK.shard, _MARK.space, _MARK.name)
_encode = msgspec.msgpack.Encoder().encode


class WholeStore(Store, Movable, Protocol):
    pass


class Sums:
    """The number and a hash of a network's rows, by kind and data source. Two stores are compared by them."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[str, int]]()
        self._hashes = Counter[tuple[str, int]]()

    def add(self, kind: str, source: int, row: bytes) -> None:
        """Count a row and add its hash to the sum. `row` must be encoded in the same way for all stores."""
        self._counts[kind, source] += 1
        self._hashes[kind, source] += int.from_bytes(blake2b(row, digest_size=8).digest())

    def rows(self, kind: str | None = None) -> int:
        return sum(count for (each, _), count in self._counts.items() if kind in {None, each})

    def differences(self, other: Sums) -> list[str]:
        return [
            f"{kind} of data source {source}"
            for kind, source in sorted({*self._counts, *other._counts})
            if self._counts[kind, source] != other._counts[kind, source]
            or self._hashes[kind, source] != other._hashes[kind, source]
        ]

    @property
    def digest(self) -> str:
        """A hash of all rows, by which an operator can compare two stores."""
        whole = repr(sorted((kind, count, self._hashes[kind]) for kind, count in self._counts.items()))
        return blake2b(whole.encode(), digest_size=8).hexdigest()


class MovedNetwork(NamedTuple):
    sums: Sums
    written: int
    """Number of rows that the target lacked."""
    events: int
    parked: int


class _Kind(NamedTuple, Generic[R, K]):
    name: str
    first: K
    scan: Callable[[WholeStore, K, int], Awaitable[list[R]]]
    key: Callable[[R], K]
    shard: Callable[[R], int]
    pack: Callable[[R], bytes]
    rows: Callable[[Sequence[R]], Rows]
    counts: Callable[[R], bool] = lambda _row: True
    """Returns whether a row contains information. A count of zero does not."""


_KINDS: tuple[_Kind[Any, Any], ...] = (
    _Kind(
        "objects",
        FIRST,
        lambda store, after, limit: store.obj_scan(after, limit),
        lambda node: node.id,
        lambda node: shard_of(node.id),
        encode_node,
        lambda found: Rows(objects=found),
    ),
    _Kind(
        "associations",
        (FIRST, FIRST, FIRST),
        lambda store, after, limit: store.assoc_scan(after, limit),
        lambda row: row[:3],
        lambda row: shard_of(row[0]),
        _encode,
        lambda found: Rows(assocs=found),
    ),
    _Kind(
        "counts",
        (FIRST, FIRST),
        lambda store, after, limit: store.count_scan(after, limit),
        lambda row: row[:2],
        lambda row: shard_of(row[0]),
        _encode,
        lambda found: Rows(counts=found),
        lambda row: row[2] != 0,
    ),
    _Kind(
        "keys",
        ("", ""),
        lambda store, after, limit: store.key_scan(after, limit),
        lambda row: row[:2],
        lambda row: row.shard,
        _encode,
        lambda found: Rows(keys=found),
        lambda row: row != _MARK,
    ),
)


async def move_network(source: Store, target: Store, tell: Progress) -> MovedNetwork:
    """Copy a network to an empty store, or resume an interrupted copy.

    Raises `InvalidInput` for an unsuitable store, and `Conflict` if the copy differs from the source.
    """
    here, there = whole(source), whole(target)
    await _begin(here, there)
    sums = Sums()
    written = sum([await _merge(kind, here, there, sums, tell) for kind in _KINDS])
    found = Sums()
    for kind in _KINDS:
        await _add_rows(kind, there, found, tell)
    if differences := sums.differences(found):
        raise Conflict(f"the copy differs from the original: {', '.join(differences[:5])}; run the move again")
    events, parked = await _move_events(here, there, tell)
    await there.remove_rows(Rows(keys=[_MARK]))
    return MovedNetwork(sums, written, events, parked)


def whole(store: Store) -> WholeStore:
    """Return the store. Raises `InvalidInput` unless all its rows can be exported and imported."""
    if not isinstance(store, Movable):
        raise InvalidInput("this kind of store does not support moving a network")
    return store


async def _begin(here: WholeStore, there: WholeStore) -> None:
    if await here.key_get([_MARK_KEY]):
        raise InvalidInput("the source store is the target of an interrupted move: finish that move first")
    if not await there.key_get([_MARK_KEY]) and await has_content(there):
        raise InvalidInput("the target store is not empty: name an empty store")
    await there.put_rows(Rows(keys=[_MARK]))
    if await here.key_get([_MARK_KEY]):
        await there.remove_rows(Rows(keys=[_MARK]))
        raise InvalidInput("source and target are one store: name another, empty target store")


async def has_content(store: WholeStore) -> bool:
    for kind in _KINDS:
        if await kind.scan(store, kind.first, 1):
            return True
    return bool(await store.backlog() or await store.parked())


async def _merge(kind: _Kind[R, K], here: WholeStore, there: WholeStore, sums: Sums, tell: Progress) -> int:
    """Make the target's rows of a kind equal to the source's. Both are scanned in order. Return the number of written rows."""
    behind = _TargetScan(kind, there)
    after, read, written = kind.first, 0, 0
    # A task that does nothing, in place of a first write.
    writing = asyncio.ensure_future(asyncio.sleep(0))
    try:
        while page := await kind.scan(here, after, _ROWS_AT_ONCE):
            after = kind.key(page[-1])
            expected = {kind.key(row): row for row in page if kind.counts(row)}
            for row in expected.values():
                sums.add(kind.name, source_of(kind.shard(row)), kind.pack(row))
            stored = await behind.until(after)
            await writing
            put = [row for key, row in expected.items() if stored.get(key) != row]
            strays = [row for key, row in stored.items() if key not in expected]
            # Write this page while the next page is read and hashed.
            writing = asyncio.ensure_future(_write(kind, there, put, strays))
            read, written = read + len(page), written + len(put)
            tell(kind.name, read, 0)
    finally:
        await writing
    while strays := await behind.page():
        await there.remove_rows(kind.rows(strays))
    return written


async def _write(kind: _Kind[R, K], there: WholeStore, put: Sequence[R], remove: Sequence[R]) -> None:
    if remove:
        await there.remove_rows(kind.rows(remove))
    if put:
        await there.put_rows(kind.rows(put))


class _TargetScan(Generic[R, K]):
    """A scan of the target, parallel to that of the source. It skips rows without information, such as counts of 0."""

    def __init__(self, kind: _Kind[R, K], store: WholeStore) -> None:
        self._kind = kind
        self._store = store
        self._after = kind.first
        self._rows: list[R] = []
        self._ended = False

    async def until(self, last: K) -> dict[K, R]:
        """Return all remaining rows whose keys are at most `last`."""
        key = self._kind.key
        while not self._ended and not (self._rows and key(self._rows[-1]) > last):
            await self._read()
        found = {key(row): row for row in self._rows if key(row) <= last}
        self._rows = self._rows[len(found) :]
        return {name: row for name, row in found.items() if self._kind.counts(row)}

    async def page(self) -> list[R]:
        """Return some of the remaining rows; empty if none remains."""
        while not self._rows and not self._ended:
            await self._read()
            self._rows = [row for row in self._rows if self._kind.counts(row)]
        rows, self._rows = self._rows, []
        return rows

    async def _read(self) -> None:
        page = await self._kind.scan(self._store, self._after, _ROWS_AT_ONCE)
        self._rows += page
        self._ended = not page
        if page:
            self._after = self._kind.key(page[-1])


async def _add_rows(kind: _Kind[R, K], store: WholeStore, sums: Sums, tell: Progress) -> None:
    after, read = kind.first, 0
    while page := await kind.scan(store, after, _ROWS_AT_ONCE):
        after = kind.key(page[-1])
        read += len(page)
        for row in page:
            if kind.counts(row):
                sums.add(kind.name, source_of(kind.shard(row)), kind.pack(row))
        tell(f"compare {kind.name}", read, 0)


async def _move_events(here: WholeStore, there: WholeStore, tell: Progress) -> tuple[int, int]:
    """Emit the source's pending and parked events in the target. Return the number of pending events and of parked events."""
    await forget_events(there)
    parked = await here.parked()
    await park_events(there, [(job.event, error) for job, error in parked])
    jobs = await claimed(here)
    await emit_events(there, [job.event for job in jobs])
    tell("events", len(jobs), len(jobs))
    if (await there.backlog(), len(await there.parked())) != (len(jobs), len(parked)):
        raise Conflict("the copied events differ from the originals; run the move again")
    return len(jobs), len(parked)


def describe_move(moved: MovedNetwork) -> Iterable[str]:
    for kind in _KINDS:
        yield f"{moved.sums.rows(kind.name):,} {kind.name}, counts and hashes equal on both sides"
    yield f"{moved.events:,} events, {moved.parked:,} parked jobs"
    yield f"hash of all rows: {moved.sums.digest}"
