"""The graph in one DynamoDB table, for networks without dedicated servers. `items` describes the items of the table.

A commit is one transaction: the items that the batch touches are read, the batch is decided, and everything is written on the
condition that no item has changed since it was read. If an item has changed, the batch is decided again. All reads for members are
consistent and from the table itself; each kind of query takes one request. The service imposes two limits: a batch of more than 100
items or 4 MB is refused with `TooLarge`, and concurrent changes to one list are serialized.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from shoal.core.errors import Conflict, OutcomeUnknown
from shoal.core.ids import now_ms
from shoal.graph.contract import (
    MAX_TIME,
    Assoc,
    Batch,
    BlockRow,
    Cursor,
    LogSource,
    PendingInverses,
)
from shoal.graph.dynamodb.client import UNANSWERED, Backoff, Capacity, Service, TransactionOvertaken, parse
from shoal.graph.dynamodb.event_log import ADOPTION_SECONDS, DELAY_SECONDS, LOG_ATTRIBUTES, DynamoLog, encode
from shoal.graph.dynamodb.items import (
    Chunk,
    Item,
    ItemKey,
    Pair,
    count_at,
    counted_with,
    counts_in,
    entry_of,
    holding_of,
    key_at,
    link_at,
    link_of,
    list_bounds,
    node_of,
    object_at,
    triple_in,
    typed,
)
from shoal.graph.dynamodb.outbox import DynamoOutbox
from shoal.graph.dynamodb.scans import DynamoScans
from shoal.graph.dynamodb.table import prepare
from shoal.graph.dynamodb.transactions import WITH_LOG_ITEMS, Transaction, check_number
from shoal.graph.resolve import Known, Owns, Resolution, Touched, decide, every_shard
from shoal.graph.schema import ASSOC_TYPES, AnyNode, AssocType, Key
from shoal.locks import KeyedLocks

PATIENCE_SECONDS = 4.0
"""Seconds for which requests to a busy or unreachable service, or for a contested item, are retried."""


class DynamoGraph:
    """A complete store in one DynamoDB table. Create an instance with `open`."""

    joins = True

    def __init__(self, service: Service, spread: int, owns: Owns, log: DynamoLog) -> None:
        self._service = service
        self._spread = spread
        self._log = log
        self._owns = owns
        self._locks = KeyedLocks()
        self._in_flight: set[asyncio.Task[PendingInverses]] = set()
        self._outbox = outbox = DynamoOutbox(service, spread)
        self.claim = outbox.claim
        self.ack = outbox.ack
        self.put_back = outbox.put_back
        self.park = outbox.park
        self.parked = outbox.parked
        self.unpark = outbox.unpark
        self.backlog = outbox.backlog
        self.lag = outbox.lag
        self.on_event = outbox.on_event
        scans = DynamoScans(service, spread)
        self.obj_scan = scans.obj_scan
        self.assoc_scan = scans.assoc_scan
        self.count_scan = scans.count_scan
        self.count_set = scans.count_set
        self.sweep = scans.sweep
        self.sweep_history = scans.sweep_history

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        owns: Owns = every_shard,
        patience: float = PATIENCE_SECONDS,
        logs: bool | None = None,
        adoption: float = ADOPTION_SECONDS,
        delay: float = DELAY_SECONDS,
    ) -> DynamoGraph:
        """Open or create the table of a URL (see `client.parse`), with the credentials in the environment.

        Args:
            logs: Whether the event log is on from now on; None: as it is.
            adoption: Seconds until other processes that use the table have noticed that the log was turned on.
            delay: Seconds from a commit until readers of the log get its entries.

        Raises `InvalidInput` for any other URL, and `Unavailable` for a table that cannot be used.
        """
        location = parse(url)
        service = await Service.connect(location, patience=patience)
        try:
            table = await prepare(service, location.spread)
            log = DynamoLog(service, table, adoption, delay)
            if logs is not None:
                await log.switch(on=logs, is_new=table.is_new)
        except BaseException:
            await service.close()
            raise
        return cls(service, table.spread, owns, log)

    @property
    def capacity(self) -> Capacity:
        return self._service.capacity

    @property
    def round_trips(self) -> int:
        return self._service.capacity.requests.total()

    async def obj_get(self, ids: Sequence[int]) -> dict[int, AnyNode]:
        nodes = [node_of(item) for item in await self._service.get([object_at(id_) for id_ in ids])]
        return {node.id: node for node in nodes}

    async def key_get(self, keys: Sequence[Key]) -> dict[Key, int]:
        now = now_ms()
        items = await self._service.get([key_at((key.space, key.name)) for key in keys])
        locations = {item["ID"]["S"]: holding_of(item) for item in items}
        found = ((key, locations.get(key_at((key.space, key.name)).id)) for key in keys)
        return {key: held[0] for key, held in found if held is not None and not 0 < held[1] <= now}

    async def assoc_get(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await self._links(id1, atypes, id2s, alive=True)

    async def assoc_ended(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int]
    ) -> dict[AssocType, dict[int, Assoc]]:
        return await self._links(id1, atypes, id2s, alive=False)

    async def _links(
        self, id1: int, atypes: Sequence[AssocType], id2s: Sequence[int], *, alive: bool
    ) -> dict[AssocType, dict[int, Assoc]]:
        answer: dict[AssocType, dict[int, Assoc]] = {atype: {} for atype in atypes}
        for item in await self._service.get([link_at((id1, atype.number, id2)) for atype in atypes for id2 in id2s]):
            (_, atype, id2), link = triple_in(item), link_of(item)
            if link.alive is alive:
                answer[ASSOC_TYPES[atype]][id2] = Assoc(id2, link.time, link.data)
        return answer

    async def assoc_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        return await self._range(id1, atype, at, alive=True)

    async def assoc_ended_range(self, id1: int, atype: AssocType, at: Cursor) -> list[Assoc]:
        return await self._range(id1, atype, at, alive=False)

    async def _range(self, id1: int, atype: AssocType, at: Cursor, *, alive: bool) -> list[Assoc]:
        # Send no query for an empty interval, because the service rejects it.
        if at.limit <= 0 or at.after >= at.before - 1:
            return []
        first, last = list_bounds(Pair(id1, atype.number), at.after, at.before, alive=alive)
        items = await self._service.stretch(first, last, at.limit, newest_first=not at.oldest_first)
        return [entry_of(item) for item in items]

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:
        distinct = list(dict.fromkeys(id1s))
        pages = await asyncio.gather(*[self.assoc_range(id1, atype, at) for id1 in distinct])
        return {id1: page for id1, page in zip(distinct, pages, strict=True) if page}

    async def assoc_count(self, id1s: Sequence[int], atypes: Sequence[AssocType]) -> dict[AssocType, dict[int, int]]:
        answer: dict[AssocType, dict[int, int]] = {atype: {} for atype in atypes}
        for item in await self._service.get([count_at(Pair(id1, atype.number)) for atype in atypes for id1 in id1s]):
            for (id1, number), n in counts_in(item):
                counts = answer.get(ASSOC_TYPES[number]) if number in ASSOC_TYPES else None
                if n and counts is not None:
                    counts[id1] = n
        return answer

    def counted_with(self, atypes: Sequence[AssocType]) -> Sequence[AssocType]:
        return counted_with(tuple(atypes))

    async def assoc_ranks(self, id1s: Sequence[int], atype: AssocType, times: Sequence[int]) -> dict[int, list[int]]:
        distinct = list(dict.fromkeys(id1s))
        found = await asyncio.gather(*[self._ranks(Pair(id1, atype.number), times) for id1 in distinct])
        return dict(zip(distinct, found, strict=True))

    async def _ranks(self, pair: Pair, times: Sequence[int]) -> list[int]:
        """Return for each time the number of newer entries.

        The service has no order statistics, so the entries between adjacent times are counted, and the counts are summed.
        """
        newer: dict[int, int] = {}
        before, counted = MAX_TIME, 0
        for after in sorted(set(times), reverse=True):
            if after < before - 1:
                counted += await self._service.number(*list_bounds(pair, after, before))
                before = after + 1
            newer[after] = counted
        return [newer[moment] for moment in times]

    async def commit(self, batch: Batch) -> None:
        await self.commit_owing(batch)

    async def commit_owing(self, batch: Batch) -> PendingInverses:
        if batch.after is not None:
            await batch.after
        task = asyncio.create_task(self._decided(batch))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)
        # The commit continues if the caller is cancelled.
        return await asyncio.shield(task)

    async def _decided(self, batch: Batch) -> PendingInverses:
        """Read the items, evaluate the batch and write the result; repeat this while concurrent changes interfere."""
        touched = Touched([batch], self._owns)
        # Check the limit on the items of a transaction before reading: each of these objects, keys and associations takes at
        # least one.
        check_number(len(touched.ids) + len(touched.keys) + len(touched.triples))
        patience, unknown = Backoff(self._service.patience), False
        async with self._locks.of(_contested(batch, touched)):
            while True:
                try:
                    return await self._commit(batch, touched, patience)
                except TransactionOvertaken as error:
                    self.capacity.retries[error.cause] += 1
                    unknown = unknown or error.unknown
                    await patience.pause(error, unknown=unknown)
                except Conflict as conflict:
                    if not unknown:
                        raise
                    # An earlier attempt of this commit may have been stored, and may itself be the cause of this conflict.
                    raise OutcomeUnknown(UNANSWERED) from conflict

    async def _commit(self, batch: Batch, touched: Touched, patience: Backoff) -> PendingInverses:
        before, log_item = await self._load(touched, log_key := self._log.key(batch))
        chunk = await self._log.open_chunk(batch, log_item) if log_key is not None else None
        now = now_ms()
        known, changes = _copy(before), Resolution(logs=chunk is not None)
        pending_inverses = decide(batch, known, changes, owns=self._owns, now=now)
        jobs = self._outbox.numbered(changes.events)
        transaction = Transaction(self._service.table, self._spread)
        transaction.commit(touched, before, changes, jobs)
        if not transaction.changes:
            return []
        if chunk is None or not changes.logged:
            transaction.check_size()
            await self._service.transact(transaction.writes)
        else:
            check_number(len(transaction.writes), WITH_LOG_ITEMS)
            async with self._lane(chunk, patience):
                chunk = self._log.newest_of(chunk)
                # Readers wait from this time on until the items are applied, so it is that of this attempt.
                now = now_ms()
                transaction.log(chunk, len(changes.logged), encode(now, changes.logged), now)
                transaction.check_size()
                # While this commit waits for a busy service, the other ones of the lane must not.
                await self._service.transact(transaction.writes, waits=False)
                self._log.appended(chunk, len(changes.logged))
        self._outbox.added(jobs)
        return list(zip(jobs[len(jobs) - len(pending_inverses) :], pending_inverses, strict=True))

    @asynccontextmanager
    async def _lane(self, chunk: Chunk, patience: Backoff) -> AsyncIterator[None]:
        """Hold the lock of a lane, because transactions that change the same item at the same time cancel each other."""
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(patience.left):
                    await held.enter_async_context(self._locks.of([chunk.address.id]))
            except TimeoutError as error:
                raise TransactionOvertaken("LaneBusy") from error
            yield

    async def _load(self, touched: Touched, log_key: ItemKey | None) -> tuple[Known, Item | None]:
        """Return the rows, and the item at `log_key`."""
        known, log_item = Known(), None
        addresses = [object_at(id_) for id_ in touched.ids]
        addresses += [key_at(name) for name in touched.keys]
        addresses += [link_at(triple) for triple in touched.links]
        names = {key_at(name).id: name for name in touched.keys}
        attributes = ["version", "owner", "until", "time", "alive", "data"]
        if log_key is not None:
            addresses.append(log_key)
            attributes += LOG_ATTRIBUTES
        for item in await self._service.get(addresses, *attributes):
            if log_key is not None and item["ID"]["S"] == log_key.id:
                log_item = item
            elif "version" in item:
                known.versions[int(item["ID"]["S"])] = typed(item, "version")
            elif "owner" in item:
                known.keys[names[item["ID"]["S"]]] = holding_of(item)
            else:
                known.links[triple_in(item)] = link_of(item)
        return known, log_item

    async def block_scan(self, after: tuple[int, int, int, int], limit: int) -> list[BlockRow]:  # noqa: ARG002  # none
        return []

    async def block_drop(self, id1: int, atype: int) -> None:
        """Do nothing, because this store has no blocks."""

    @property
    def log_sources(self) -> Sequence[LogSource]:
        return self._log.sources

    async def close(self) -> None:
        try:
            if self._in_flight:
                await asyncio.wait(self._in_flight)
            await self._outbox.close()
        finally:
            await self._service.close()


def _contested(batch: Batch, touched: Touched) -> Iterator[str]:
    """Yield lock names for the objects, keys and counts of a batch.

    Two batches with a common name must not be committed concurrently.
    """
    yield from (str(id_) for id_ in touched.ids)
    yield from (key_at(name).id for name in touched.keys)
    yield from (" ".join(count_at(Pair(id1, atype))) for id1, atype, _ in touched.triples)
    for op in batch.assocs:
        if op.aggregate_id:
            counted = op.atype if ASSOC_TYPES[op.atype].aggregated else ASSOC_TYPES[op.atype].inverse
            yield " ".join(count_at(Pair(op.aggregate_id, counted)))


def _copy(known: Known) -> Known:
    copy = Known()
    copy.versions, copy.links, copy.keys = dict(known.versions), dict(known.links), dict(known.keys)
    return copy
