"""The event log of a DynamoDB table.

Transactions of the service have no order, and a reader does not see which ones are running. So all commits of a lane change one
item, and the service orders them. A lane has the shards with the same remainder. It is a sequence of chunks, numbered from 1, of
which only the newest is open. A commit appends its entries to the open chunk, in its transaction, on the condition that the chunk
is still open. If the chunk is full, the transaction closes it and creates the next one. Therefore:

- An entry never changes its position, and nothing is inserted before it. A reader writes nothing.
- A reader that has seen an open chunk must ignore later chunks of the same query, because a query is no snapshot.
- If a commit begins after another commit of its lane has ended, it is later in the log, whatever the clocks of their processes
  show.

Each lane is a log of its own for `event_log.EventLog`, which merges the lanes by time. The position of an entry is the number of
its chunk and its number in the chunk, from 1.

The state of the log is in the layout item of the table. If the log is turned off, readers are refused at once, and running
processes append to it until it is deleted. If it is turned on, they read that with their first commit after `ADOPTION_SECONDS`. The
log begins when all of them have read it, and readers are refused until then.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import md5
from itertools import takewhile
from typing import NamedTuple

from msgspec import msgpack

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import now_ms
from shoal.graph.contract import Batch, CursorTooOld, LogEntry, LogPlace, StorePage
from shoal.graph.dynamodb.client import (
    TRANSACTION_ITEMS,
    Backoff,
    ConditionFailed,
    Service,
    TransactionOvertaken,
)
from shoal.graph.dynamodb.items import (
    CHUNK_ENTRIES,
    LAYOUT,
    LAYOUT_VERSION,
    LOGGED_VERSION,
    Chunk,
    Item,
    ItemKey,
    Value,
    address_of,
    attribute,
    chunk_item,
    chunk_of,
    item_of,
    lane_bounds,
    typed,
)
from shoal.graph.dynamodb.table import Table
from shoal.graph.dynamodb.transactions import Condition, Transaction, still
from shoal.graph.event_log import OFF, Logged, may_log, place_in

ADOPTION_SECONDS = 60.0
"""Maximum age of the state of the log, while it is off, at the start of a commit."""
DELAY_SECONDS = 1.0
"""Seconds from a commit until readers get its entries. The service applies the items of a transaction one after the other, so an
object that an entry names may appear a moment after the entry."""
LOG_ATTRIBUTES = ("n", "closed", "log", "begins", "former")
"""What a commit reads of the item that `DynamoLog.key` names."""
_AHEAD_SECONDS = 300.0
"""An entry whose time is up to this far ahead has that of a fast clock, and waits. A time further ahead is wrong."""
_LANES_PER_PARTITION, _MOST_LANES = 4, 64
_LANE_BITS = 8
_TRIMMED_AT_ONCE = TRANSACTION_ITEMS
"""Chunks to read, and then to delete, in one request."""
_LAST_CHUNKS = 50
"""Chunks to read for the end of a lane."""
_POSITION = 2
"""Numbers in a position."""
_BEGINNING = LogPlace((1, 0))
_EXISTS = Condition("attribute_exists(#n)", {"#n": "n"}, {})


class LogState(NamedTuple):
    number: int
    """The stored number of the log; 0: off."""
    begins: int
    """When the log is complete (Unix ms), because all processes have adopted it."""
    former: int
    """The number of the last log, until it is deleted."""

    @classmethod
    def of(cls, layout: Item) -> LogState:
        return cls(*[typed(layout, name) if name in layout else 0 for name in ("log", "begins", "former")])


class DynamoLog:
    """The event log of a table: its state, the open chunks of its lanes, and a source for each lane."""

    def __init__(self, service: Service, table: Table, adoption: float, delay: float) -> None:
        self._service = service
        self._spread = table.spread
        self._adoption = adoption
        self._delay = delay
        # A table that was restored from a backup has another id, so its log has another number for cursors.
        self._table = int.from_bytes(md5(table.id.encode(), usedforsecurity=False).digest()[:6])
        self._lanes = min(_LANES_PER_PARTITION * table.spread, _MOST_LANES)
        self._newest: dict[int, Chunk] = {}
        """The open chunk of a lane, as far as this process knows."""
        self._adopt(table.layout)
        self.sources = tuple(Lane(self, service, lane) for lane in range(self._lanes))

    def _adopt(self, layout: Item) -> None:
        self.state = LogState.of(layout)
        self._next_read = time.monotonic() + self._adoption

    async def refresh(self) -> LogState:
        (layout,) = await self._service.get([LAYOUT])
        self._adopt(layout)
        return self.state

    async def started(self) -> LogState:
        """Read the state. Raises `InvalidInput` if the log is off, and `Unavailable` if it begins later."""
        state = await self.refresh()
        if not state.number:
            raise InvalidInput(OFF)
        if (wait := (state.begins - now_ms()) / 1000) > 0:
            raise Unavailable(f"the event log was turned on, and begins in {wait:.0f} s", retry_after=wait)
        return state

    def number_for_cursors(self, number: int, lane: int) -> int:
        return (number ^ self._table) << _LANE_BITS | lane

    def applied(self, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Return the entries up to the first one whose transaction may not be applied completely yet."""
        now = now_ms()
        oldest, latest = now - self._delay * 1000, now + _AHEAD_SECONDS * 1000
        return list(takewhile(lambda entry: not oldest < entry.at <= latest, entries))

    # Commits

    def key(self, batch: Batch) -> ItemKey | None:
        """Return the key of an item to read together with the rows of a batch; None if the batch needs none."""
        if not self.state.number:
            return LAYOUT if time.monotonic() >= self._next_read else None
        if not may_log(batch):
            return None
        lane = batch.shard % self._lanes
        return self._newest.get(lane, Chunk(self.state.number, lane, 1)).address

    async def open_chunk(self, batch: Batch, item: Item | None) -> Chunk | None:
        """Return the open chunk for a batch; None if the log is off. `item` was read at `key`."""
        if item is not None and address_of(item) == LAYOUT:
            self._adopt(item)
            item = None
        lane = batch.shard % self._lanes
        while number := self.state.number:
            if item is None or "closed" in item:
                item = await self.newest(number, lane)
            if item is not None and "closed" not in item:
                return self.newest_of(chunk_of(item))
            # The log was turned off, or the transaction that closed the chunk has not created the next one yet.
            if (await self.refresh()).number == number:
                raise TransactionOvertaken
            item = None
        return None

    def newest_of(self, chunk: Chunk) -> Chunk:
        """Return the open chunk of a lane: this one, or a newer one if this process knows it, with its known number of entries."""
        known = self._newest.get(chunk.lane)
        if known is None or known.log != chunk.log or known < chunk:
            known = self._newest[chunk.lane] = chunk
        return known

    def appended(self, chunk: Chunk, number: int) -> None:
        """Note that this process has appended entries to an open chunk."""
        chunk = chunk.following if chunk.is_full else chunk
        self._newest[chunk.lane] = chunk._replace(n=chunk.n + number)

    async def newest(self, number: int, lane: int) -> Item | None:
        return next(iter(await self._service.stretch(*lane_bounds(number, lane), 1, newest_first=True)), None)

    # The setting

    async def switch(self, *, on: bool, is_new: bool) -> None:
        """Turn the event log on, with a new number, or off. No-op if it already is.

        `is_new` is whether this process created the table. The entries of a log that was turned off are deleted by `log_trim`, or
        when it is turned on again.
        """
        while bool(self.state.number) is not on:
            (layout,) = await self._service.get([LAYOUT])
            if typed(layout, "version") > LOGGED_VERSION:
                raise Unavailable(
                    "event_log: a newer Shoal has written the table: change the setting with that version"
                )
            self._adopt(layout)
            if bool(self.state.number) is not on:
                await (self._turn_on(is_new=is_new) if on else self._turn_off())

    async def _turn_on(self, *, is_new: bool) -> None:
        await self.delete_former()
        number = secrets.randbits(8 * 6) + 1
        chunks = [Chunk(number, lane, 1) for lane in range(self._lanes)]
        await asyncio.gather(*[self._service.write("put_item", Item=chunk_item(chunk)) for chunk in chunks])
        begins = 0 if is_new else now_ms() + round(1.5 * self._adoption * 1000)
        if not await self._set({"version": LOGGED_VERSION, "log": number, "begins": begins}):
            await self._service.forget([chunk.address for chunk in chunks])

    async def _turn_off(self) -> None:
        await self._set({"version": LAYOUT_VERSION, "former": self.state.number})

    async def _set(self, values: Mapping[str, Value]) -> bool:
        """Replace the state, and return whether it was that of this process. Adopt the new one."""
        was = still(version=LOGGED_VERSION, log=self.state.number) if self.state.number else _OFF
        item = item_of(LAYOUT, {"spread": self._spread, **values})
        try:
            await self._service.write("put_item", Item=item, **was.parameters())
        except ConditionFailed:
            await self.refresh()
            return False
        self._adopt(item)
        return True

    async def delete_former(self) -> int:
        """Delete the log that was turned off last, if it still exists. Return the number of its entries."""
        former = self.state.former
        if not former:
            return 0
        deleted = 0
        # A process that has not noticed yet that the log is off may still append to a chunk, and create the next one. Without a
        # chunk it cannot. The second pass finds a chunk that the service was just creating during the first one.
        for _ in range(2):
            deleted += sum(await asyncio.gather(*[self._delete_lane(former, lane) for lane in range(self._lanes)]))
        condition = still(former=former).parameters()
        with suppress(ConditionFailed):
            await self._service.write("update_item", Key=LAYOUT.item(), UpdateExpression="REMOVE #former", **condition)
        await self.refresh()
        return deleted

    async def _delete_lane(self, number: int, lane: int) -> int:
        deleted = 0
        while items := await self._service.stretch(*lane_bounds(number, lane), _TRIMMED_AT_ONCE):
            await self._service.forget([address_of(item) for item in items])
            deleted += sum(len(_entries(item)) for item in items)
        return deleted


_OFF = Condition(
    "#version = :version AND attribute_not_exists(#former)",
    {"#version": "version", "#former": "former"},
    {":version": attribute(LAYOUT_VERSION)},
)


class Lane:
    """The event log of the shards of one lane."""

    def __init__(self, log: DynamoLog, service: Service, lane: int) -> None:
        self._log = log
        self._service = service
        self._lane = lane

    async def log_page(self, places: Mapping[int, LogPlace] | None, limit: int) -> StorePage:
        number = (await self._log.started()).number
        log = self._log.number_for_cursors(number, self._lane)
        place = place_in(places, log, _BEGINNING)
        if place is None:
            chunks = _without_gaps(await self._chunks(number, 0, _number_for(limit)))
            entries = [entry for item in chunks for entry in _log_entries(log, item)]
            place = LogPlace((chunk_of(chunks[0]).number, 0)) if chunks else _BEGINNING
        else:
            chunks, entries = await self._after(number, log, place, limit)
        applied = self._log.applied(entries)
        page = applied[:limit]
        more = len(applied) > limit or (len(applied) == len(entries) and bool(chunks) and "closed" in chunks[-1])
        end = LogPlace(page[-1].position, (page[-1].at,)) if page else place
        return StorePage(log, page, end, more=more, start=place)

    async def _after(self, number: int, log: int, place: LogPlace, limit: int) -> tuple[Sequence[Item], list[LogEntry]]:
        if len(place.position) != _POSITION:
            raise CursorTooOld.other_log()
        first, index = place.position
        chunks = await self._service.get([Chunk(number, self._lane, first).address])
        if not chunks:
            # The chunk of the place was trimmed. Nothing is missing if the place is at its end.
            first += 1
            chunks = await self._service.get([Chunk(number, self._lane, first).address])
            if not chunks or "previous" not in chunks[0] or typed(chunks[0], "previous") != index:
                raise CursorTooOld.trimmed()
            index = 0
        if "closed" in chunks[0]:
            chunks += await self._chunks(number, first + 1, _number_for(limit))
            if len(_without_gaps(chunks)) < len(chunks):
                raise CursorTooOld.trimmed()
        entries = [entry for item in chunks for entry in _log_entries(log, item)]
        if index > len(_entries(chunks[0])):
            raise CursorTooOld.other_log()
        return chunks, entries[index:]

    async def _chunks(self, number: int, first: int, limit: int) -> list[Item]:
        """Return up to `limit` chunks of the lane, from number `first` on."""
        chunks = await self._service.stretch(*lane_bounds(number, self._lane, first), limit)
        # An open chunk may have got more entries, and a following chunk, while the service executed the query.
        closed = len(list(takewhile(lambda item: "closed" in item, chunks)))
        return chunks[: closed + 1]

    async def log_end(self) -> StorePage:
        number = (await self._log.started()).number
        log = self._log.number_for_cursors(number, self._lane)
        place = _BEGINNING
        # Entries that are not applied yet may fill several chunks.
        for limit in (1, _LAST_CHUNKS):
            chunks = await self._service.stretch(*lane_bounds(number, self._lane), limit, newest_first=True)
            applied = self._log.applied([entry for item in reversed(chunks) for entry in _log_entries(log, item)])
            if applied:
                place = LogPlace(applied[-1].position, (applied[-1].at,))
                break
            if chunks:
                place = LogPlace((chunk_of(chunks[-1]).number, 0))
        return StorePage(log, (), place)

    async def log_trim(self, before: int) -> int:
        state = await self._log.refresh()
        if not state.number:
            return 0 if self._lane else await self._log.delete_former()
        # Usually not even the first chunk is old.
        trimmed, limit, patience = 0, 1, Backoff(self._service.patience)
        while True:
            page = await self._chunks(state.number, 0, limit)
            old = list(takewhile(lambda item: _is_older(item, before), page))
            if not old:
                return trimmed
            try:
                await self._delete(old)
            except TransactionOvertaken as error:
                # The last of these chunks got another entry, or another process trims this lane.
                await patience.pause(error)
                continue
            trimmed += sum(chunk_of(item).n for item in old)
            if len(old) < limit:
                return trimmed
            limit, patience = _TRIMMED_AT_ONCE, Backoff(self._service.patience)

    async def _delete(self, chunks: Sequence[Item]) -> None:
        """Delete the oldest chunks of the lane, all or none."""
        if "closed" in chunks[-1]:
            await self._note_trimmed(chunks[-1])
        else:
            closing = Transaction(self._service.table, 1)
            closing.close_old_chunk(chunk_of(chunks[-1]), now_ms())
            await self._service.transact(closing.writes)
        deleting = Transaction(self._service.table, 1)
        for item in chunks:
            deleting.delete(address_of(item), still(n=chunk_of(item).n))
        await self._service.transact(deleting.writes)

    async def _note_trimmed(self, item: Item) -> None:
        """Store in the chunk after this one how many entries this one had, for the cursors that are at its end."""
        # If that chunk was deleted, as in a table restored from a backup that was made during a trim, no such cursor is valid.
        with suppress(ConditionFailed):
            await self._service.write(
                "update_item",
                Key=chunk_of(item).following.address.item(),
                UpdateExpression="SET #previous = :previous",
                ConditionExpression=_EXISTS.expression,
                ExpressionAttributeNames={**_EXISTS.names, "#previous": "previous"},
                ExpressionAttributeValues={":previous": attribute(chunk_of(item).n)},
            )


_COMMIT = msgpack.Decoder(tuple[int, list[tuple[int, int, int, int, int]]])
"""Decodes the time of a commit in Unix milliseconds, and its entries as in `Logged`."""


def encode(at: int, entries: Sequence[Logged]) -> bytes:
    return msgpack.encode((at, entries))


def _entries(item: Item) -> list[tuple[int, ...]]:
    """Return the entries of a chunk, each with its time first."""
    commits = [_COMMIT.decode(commit["B"]) for commit in item["entries"]["L"]]
    return [(at, *entry) for at, entries in commits for entry in entries]


def _log_entries(log: int, item: Item) -> list[LogEntry]:
    chunk = chunk_of(item).number
    return [LogEntry(log, (chunk, n), *entry) for n, entry in enumerate(_entries(item), 1)]


def _number_for(limit: int) -> int:
    """Return the number of chunks that usually have more than `limit` entries."""
    return limit // CHUNK_ENTRIES + 2


def _is_older(item: Item, before: int) -> bool:
    entries = _entries(item)
    return bool(entries) and entries[-1][0] < before


def _without_gaps(items: Sequence[Item]) -> Sequence[Item]:
    """Return the last of these chunks that have no gap between them: a query during a trim may find some of the deleted chunks."""
    numbers = [chunk_of(item).number for item in items]
    gaps = [at for at in range(1, len(items)) if numbers[at] != numbers[at - 1] + 1]
    return items[gaps[-1] :] if gaps else items
