"""The tag cloud in a DynamoDB table: the graph's or its own. Its items: `dynamodb_items`.

A version is larger than any transaction: it is written as slices that nothing reads, then one write makes it the *intent*. Each
slice is applied in a transaction that also deletes it, so exactly once. A final write completes the version. A process that takes
the lock, or reads for a merge, first completes an intent that it finds. Readers of the head see completed versions only.
Increments are found through the index, which is eventually consistent.
"""

from __future__ import annotations

import asyncio
import heapq
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from shoal.core.errors import Unavailable
from shoal.core.ids import now_ms
from shoal.graph.dynamodb.client import Backoff, Capacity, ConditionFailed, Service, parse
from shoal.graph.dynamodb.client import TransactionOvertaken as Contested
from shoal.graph.dynamodb.items import (
    END,
    Item,
    ItemKey,
    Value,
    address_of,
    attribute,
    digits,
    item_of,
    number_of,
    typed,
)
from shoal.graph.dynamodb.store import PATIENCE_SECONDS
from shoal.graph.dynamodb.table import prepare
from shoal.graph.dynamodb.transactions import ABSENT, PRESENT, Condition, Transaction, still
from shoal.tagcloud.contract import (
    KEEP_CLOUDS,
    KEEP_INCREMENTS_MS,
    LOCK_SECONDS,
    AuthorKey,
    Head,
    Merge,
    Overtaken,
    TagRow,
    TagRule,
    rank_in,
    says_something,
)
from shoal.tagcloud.dynamodb_items import (
    LOCK,
    RULES,
    STATE,
    ItemChange,
    State,
    StoredVersion,
    author_at,
    author_in,
    change,
    day_at,
    done_at,
    inbox_at,
    increment_of,
    increment_spot,
    part_of,
    piece_at,
    pieces,
    put_together,
    row_at,
    row_change,
    row_in,
    rule_at,
    rule_in,
    state_item,
    stored_in,
    whole,
)

SLICE_CHANGES = 99
"""Maximum changes in a slice. With the deletion of the slice itself they fill a transaction."""
SLICE_BYTES = 300_000
ALL = 10**9
"""A limit that is never reached."""
_CONCURRENT = 16
_DELETED_AT_ONCE = 2_000
"""Maximum of expired items of a kind that a merge deletes; the rest is left to the next ones."""
_RANKS_RETAINED = 3

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[ItemChange])


class Intents:
    def __init__(self, service: Service, spread: int) -> None:
        self._service = service
        self._spread = spread
        self._slots = asyncio.Semaphore(_CONCURRENT)
        # Past days of which a cleanup found no stored author counts.
        self._empty: set[int] = set()

    async def stored(self) -> StoredVersion:
        return stored_in(await self._service.get([STATE]))

    async def settled(self) -> State:
        """Apply the stored changes of the next version, if there are any, and return the newest version."""
        while True:
            stored = await self.stored()
            if stored.next is None:
                return stored.state
            await self._finish(stored.intent, stored.next)

    async def write(self, merge: Merge, holder: bytes) -> None:
        before = await self.settled()
        if merge.head.version != before.version + 1:
            raise Overtaken("the tag cloud was changed concurrently")
        after, intent = self._after(before, merge), secrets.token_hex(8)
        slices = self._slices(intent, after.version, await self._changes(merge))
        await self._store_slices(slices)
        if not await self._propose(before, intent, after, holder):
            await self._service.forget([address_of(item) for item in slices])
            raise Overtaken("the tag cloud was changed concurrently")
        await self._finish(intent, after)
        # The version is complete: the cleanup can wait.
        with suppress(Unavailable):
            await self._clean_up(after)

    async def _changes(self, merge: Merge) -> list[ItemChange]:
        head, spread = merge.head, self._spread
        changes = [row_change(row, spread) for row in {row.id: row for row in merge.rows}.values()]
        changes += [
            change(author_at(key, spread), {"n": n} if n else None)
            for key, n in merge.authors.items()
            if key[1] >= merge.before_day
        ]
        changes += [
            change(rule_at(rule.name), {"denied": rule.denied, "target": rule.target} if says_something(rule) else None)
            for rule in {rule.name: rule for rule in merge.rules}.values()
        ]
        for bucket, marks in merge.marks.items():
            changes += whole(f"tagmarks#{bucket}", digits(head.version), marks)
        increments = list(dict.fromkeys(merge.increments))
        changes += [
            change(done_at(id_), {"at": head.at}, increment_spot("tagdone", id_, head.at, spread)) for id_ in increments
        ]
        changes += [change(address, None) for address in await self.inbox_pieces(increments)]
        changes += whole("tagcloud", digits(head.version), head.cloud, at=head.at)
        changes += whole("tagranks", digits(head.version), head.state)
        return changes

    async def inbox_pieces(self, increments: Sequence[bytes]) -> list[ItemKey]:
        items = await self._service.get([inbox_at(id_) for id_ in increments], "of")
        return [piece_at(item["ID"]["S"], "body", number) for item in items for number in range(typed(item, "of"))]

    def _slices(self, intent: str, version: int, changes: Iterable[ItemChange]) -> list[Item]:
        return [
            item_of(
                ItemKey(f"tagslice#{number % self._spread}", f"{digits(version)}#{intent}#{number:06d}"),
                {"version": version, "data": data},
            )
            for number, data in enumerate(_cut(changes))
        ]

    async def _store_slices(self, slices: Sequence[Item]) -> None:
        """Store slices of the changes of a version with one request each, because all of them may exceed the limit of a request."""
        await self._each(lambda item: self._service.write("put_item", Item=item), slices)

    async def _propose(self, before: State, intent: str, after: State, holder: bytes) -> bool:
        """Announce the next version, whose changes are stored as slices.

        Return False if another process has written a version first, or has taken the lock.
        """
        stored = StoredVersion(before, intent, after)
        patience = Backoff(self._service.patience)
        while True:
            transaction = self._transaction()
            transaction.put(state_item(stored), _is(before.version))
            if holder:
                transaction.check(LOCK, still(holder=holder))
            try:
                await self._service.transact(transaction.writes)
            except Contested as error:
                now = await self.stored()
                if now.intent == intent:
                    return True
                if now != StoredVersion(before) or (holder and not await self._is_held_by(holder)):
                    return False
                await patience.pause(error)
            else:
                return True

    async def _is_held_by(self, holder: bytes) -> bool:
        return any(typed(item, "holder") == holder for item in await self._service.get([LOCK]))

    async def _finish(self, intent: str, after: State) -> None:
        await self._each(self._apply, await self._slices_of(f"{digits(after.version)}#{intent}#"))
        transaction = self._transaction()
        transaction.put(state_item(StoredVersion(after)), _is(after.version - 1, intent))

        async def is_finished() -> bool:
            return (await self.stored()).intent != intent

        await self._commit(transaction, is_finished)

    async def _slices_of(self, beginning: str) -> list[Item]:
        found = await asyncio.gather(
            *[
                self._service.stretch(ItemKey(id_, beginning), ItemKey(id_, beginning + END), ALL)
                for id_ in (f"tagslice#{p}" for p in range(self._spread))
            ]
        )
        return [item for part in found for item in part]

    async def _apply(self, item: Item) -> None:
        address = address_of(item)
        transaction = self._transaction()
        transaction.delete(address, PRESENT)
        for write in _decoder.decode(typed(item, "data")):
            if write.values is None:
                transaction.delete(write.address)
            else:
                transaction.put(write.item())

        async def is_applied() -> bool:
            return not await self._service.get([address], "version")

        await self._commit(transaction, is_applied)

    async def _commit(self, transaction: Transaction, is_done: Callable[[], Awaitable[bool]]) -> None:
        """Repeat a transaction until it succeeds, or until `is_done` shows that another process has made the same change."""
        patience = Backoff(self._service.patience)
        while True:
            try:
                return await self._service.transact(transaction.writes)
            except Contested as error:
                if await is_done():
                    return None
                await patience.pause(error)

    async def _each(self, work: Callable[[Item], Awaitable[object]], items: Sequence[Item]) -> None:
        """Call `work` for all items with limited concurrency. After an error, running calls are finished before it is raised."""

        async def one(item: Item) -> None:
            async with self._slots:
                await work(item)

        for answer in await asyncio.gather(*map(one, items), return_exceptions=True):
            if answer is not None:
                raise answer

    def _transaction(self) -> Transaction:
        return Transaction(self._service.table, self._spread)

    async def _clean_up(self, state: State) -> None:
        """Delete expired items, including the stored changes (slices) of processes that died before they announced a version."""
        version, spread = state.version, self._spread
        past = [self._delete_range(f"tagslice#{p}", f"{digits(version)}{END}") for p in range(spread)]
        past += [
            self._delete_range("tagcloud", digits(version - KEEP_CLOUDS) + END),
            self._delete_range("tagranks", digits(version - _RANKS_RETAINED) + END),
        ]
        done = [self._delete_increments(f"tagdone#{p}", state.at - KEEP_INCREMENTS_MS) for p in range(spread)]
        days = [self._delete_day(day) for day in state.days if day < state.before_day]
        await asyncio.gather(*past, *done, *days)

    async def _delete_day(self, day: int) -> None:
        found = await asyncio.gather(*[self._delete_range(f"tagday#{day}#{p}", END) for p in range(self._spread)])
        if max(found) < _DELETED_AT_ONCE:
            self._empty.add(day)

    async def _delete_range(self, id_: str, upto: str) -> int:
        found = await self._service.stretch(ItemKey(id_, "!"), ItemKey(id_, upto), _DELETED_AT_ONCE)
        await self._service.forget([address_of(item) for item in found])
        return len(found)

    async def _delete_increments(self, part: str, before: int) -> None:
        found = await self._service.index(part, "!", digits(before), _DELETED_AT_ONCE)
        await self._service.forget([address_of(item) for item in found])

    def _after(self, before: State, merge: Merge) -> State:
        """Return the state after a merge. A past day stays in `days` until a cleanup finds no stored author counts of it."""
        head, first = merge.head, merge.before_day
        days = {day for day in before.days if day >= first or day not in self._empty}
        days |= {day for (_, day, _), n in merge.authors.items() if n and day >= first}
        self._empty -= days
        return State(head.version, head.at, head.complete_to, first, tuple(sorted(days)))


def _is(version: int, intent: str = "") -> Condition:
    if intent:
        return still(version=version, intent=intent)
    if not version:
        return ABSENT
    of_it = still(version=version)
    return Condition(
        f"{of_it.expression} AND attribute_not_exists(#intent)", {**of_it.names, "#intent": "intent"}, of_it.values
    )


def _cut(changes: Iterable[ItemChange]) -> Iterator[bytes]:
    encoded: list[msgspec.Raw] = []
    size = 0
    for item in changes:
        data = _encoder.encode(item)
        if encoded and (len(encoded) == SLICE_CHANGES or size + len(data) > SLICE_BYTES):
            yield _encoder.encode(encoded)
            encoded, size = [], 0
        encoded.append(msgspec.Raw(data))
        size += len(data)
    if encoded:
        yield _encoder.encode(encoded)


_PAGE = 5_000
_FREE = "attribute_not_exists(#holder) OR #holder = :holder"
_EXPIRED = "#holder = :seen_holder AND #since = :seen_since AND #until = :seen_until"


class _SeenLock(NamedTuple):
    """The state of the lock, with the time (seconds, monotonic) when this process first saw it in that state."""

    holder: bytes
    since: int
    until: int
    first_seen: float

    @property
    def expired(self) -> bool:
        return time.monotonic() - self.first_seen >= (self.until - self.since) / 1000


class DynamoCloud:
    """A `contract.CloudStore` in DynamoDB. Create it with `open`."""

    def __init__(self, service: Service, spread: int) -> None:
        self._service = service
        self._spread = spread
        self._intents = Intents(service, spread)
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: _SeenLock | None = None

    @classmethod
    async def open(cls, url: str, *, patience: float = PATIENCE_SECONDS) -> DynamoCloud:
        """Open or create the table of a URL, as `DynamoGraph.open` does. Raises `InvalidInput` and `Unavailable`."""
        location = parse(url)
        service = await Service.connect(location, patience=patience)
        try:
            return cls(service, (await prepare(service, location.spread)).spread)
        except BaseException:
            await service.close()
            raise

    @property
    def capacity(self) -> Capacity:
        return self._service.capacity

    @property
    def round_trips(self) -> int:
        return self._service.capacity.requests.total()

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        seen, condition = self._seen, _FREE
        values: dict[str, Value] = {}
        if seen is not None and seen.expired:
            condition = f"{_FREE} OR ({_EXPIRED})"
            values = {"seen_holder": seen.holder, "seen_since": seen.since, "seen_until": seen.until}
        if not await self._put_lock(holder, seconds, condition, values):
            await self._look_at_lock()
            return False
        await self._intents.settled()
        return True

    async def renew(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        return await self._put_lock(holder, seconds, "#holder = :holder", {})

    async def _put_lock(self, holder: bytes, seconds: float, condition: str, values: Mapping[str, Value]) -> bool:
        # Each renewal changes the lock's item, even if the clock does not advance.
        since = max(now_ms(), self._seen.since + 1 if self._seen else 0)
        taken = _SeenLock(holder, since, since + round(seconds * 1000), time.monotonic())
        values = {**values, "holder": holder, "since": since, "until": taken.until}
        try:
            await self._service.write(
                "update_item",
                Key=LOCK.item(),
                UpdateExpression="SET #holder = :holder, #since = :since, #until = :until",
                ConditionExpression=condition,
                ExpressionAttributeNames={f"#{name}": name for name in ("holder", "since", "until")},
                ExpressionAttributeValues={f":{name}": attribute(value) for name, value in values.items()},
            )
        except ConditionFailed:
            return False
        self._seen = taken
        return True

    async def _look_at_lock(self) -> None:
        """Record since when the lock has been in its current state.

        DynamoDB has no clock, and the clocks of two machines differ. A lock has therefore expired once this process has seen
        it unchanged for its duration.
        """
        for item in await self._service.get([LOCK]):
            seen = _SeenLock(typed(item, "holder"), typed(item, "since"), typed(item, "until"), time.monotonic())
            if self._seen is None or seen[:3] != self._seen[:3]:
                self._seen = seen

    async def unlock(self, holder: bytes) -> None:
        with suppress(ConditionFailed):
            await self._service.write("delete_item", Key=LOCK.item(), **still(holder=holder).parameters())

    async def version(self) -> int:
        return (await self._intents.stored()).state.version

    async def head(self) -> Head:
        while True:
            state = (await self._intents.stored()).state
            if not state.version:
                return Head()
            version = digits(state.version)
            found = await asyncio.gather(*[self._all(kind, version) for kind in ("tagcloud", "tagranks")])
            cloud, ranks = (put_together(items).get(version) for items in found)
            # If an item is missing, this version was just deleted because newer versions exist: read again.
            if cloud is not None and ranks is not None:
                return Head(state.version, state.at, state.complete_to, cloud, ranks)

    async def clouds(self, limit: int) -> list[tuple[int, int, bytes]]:
        newest = (await self._intents.stored()).state.version
        oldest = max(0, newest - min(limit, KEEP_CLOUDS)) + 1
        if newest < oldest:
            return []
        found = await self._service.stretch(
            ItemKey("tagcloud", digits(oldest)), ItemKey("tagcloud", digits(newest) + END), ALL
        )
        at = {item["sort"]["S"].rpartition("#")[0]: typed(item, "at") for item in found}
        whole = put_together(found)
        return [(number_of(version), at[version], whole[version]) for version in sorted(whole, reverse=True)]

    async def merged(self, increments: Collection[bytes]) -> set[bytes]:
        await self._intents.settled()
        return {increment_of(item) for item in await self._service.get([done_at(id_) for id_ in increments], "at")}

    async def marks(self, buckets: Collection[int], after_version: int) -> dict[int, list[bytes]]:
        await self._intents.settled()
        requested, after = list(buckets), digits(after_version) + END
        found = await asyncio.gather(
            *[
                self._service.stretch(ItemKey(id_, after), ItemKey(id_, END), ALL)
                for id_ in (f"tagmarks#{bucket}" for bucket in requested)
            ]
        )
        return {
            bucket: list(put_together(items).values()) for bucket, items in zip(requested, found, strict=True) if items
        }

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        await self._intents.settled()
        rows = map(row_in, await self._service.get([row_at(id_, self._spread) for id_ in ids]))
        return {row.id: row for row in rows}

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        state = await self._intents.settled()
        requested = [author_at(key, self._spread) for key in keys if key[1] >= state.before_day]
        return dict(map(author_in, await self._service.get(requested)))

    async def author_counts(self, days: Collection[tuple[int, int]]) -> dict[AuthorKey, int]:
        state = await self._intents.settled()
        found = await asyncio.gather(
            *[
                self._all(day_at(tag, day, self._spread), digits(tag))
                for tag, day in set(days)
                if day >= state.before_day
            ]
        )
        return dict(author_in(item) for items in found for item in items)

    async def top(self, window: int, limit: int) -> list[TagRow]:
        await self._intents.settled()
        best: list[TagRow] = []
        for part in range(self._spread):
            after = digits(-(2**63))
            while page := await self._rows_after(part, after, _PAGE):
                best = heapq.nsmallest(limit, [*best, *map(row_in, page)], key=lambda row: rank_in(row, window))
                after = page[-1]["sort"]["S"]
        return best

    async def scan(self, after: int, limit: int) -> list[TagRow]:
        await self._intents.settled()
        rows: list[TagRow] = []
        for part in range(part_of(after, self._spread), self._spread):
            rows += map(row_in, await self._rows_after(part, digits(after), limit - len(rows)))
            if len(rows) == limit:
                break
        return rows

    async def _rows_after(self, part: int, after: str, limit: int) -> list[Item]:
        return await self._service.stretch(ItemKey(f"tag#{part}", after + "!"), ItemKey(f"tag#{part}", END), limit)

    async def rules(self) -> dict[str, TagRule]:
        await self._intents.settled()
        return {rule.name: rule for rule in map(rule_in, await self._service.stretch(*RULES, ALL))}

    async def write(self, merge: Merge, holder: bytes = b"") -> None:
        # If the caller is cancelled, the write continues.
        task = asyncio.ensure_future(self._intents.write(merge, holder))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def put(self, id_: bytes, body: bytes) -> None:
        first, *others = pieces(body)
        count = 1 + len(others)
        for number, piece in enumerate(others, 1):
            item = item_of(inbox_at(id_, number), {"data": piece, "of": count})
            await self._service.write("put_item", Item=item)
        item = item_of(
            inbox_at(id_), {"data": first, "of": count}, increment_spot("taginbox", id_, time.time_ns(), self._spread)
        )
        with suppress(ConditionFailed):
            await self._service.write("put_item", Item=item, **ABSENT.parameters())

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        items = {item["ID"]["S"]: item for item in await self._service.get(await self._oldest_in_inbox(limit))}
        more = await self._service.get(
            [piece_at(id_, "body", number) for id_, item in items.items() for number in range(1, typed(item, "of"))]
        )
        bodies: dict[str, list[Item]] = {id_: [item] for id_, item in items.items()}
        for item in more:
            bodies[item["ID"]["S"]].append(item)
        oldest = sorted(items.values(), key=lambda item: str(item["place"]["S"]))
        found: list[tuple[bytes, bytes]] = []
        for item in oldest:
            parts = sorted(bodies[item["ID"]["S"]], key=lambda part: str(part["sort"]["S"]))
            if len(parts) == typed(item, "of"):
                found.append((increment_of(item), b"".join(typed(part, "data") for part in parts)))
        return found

    async def _oldest_in_inbox(self, limit: int) -> list[ItemKey]:
        """Return the keys of the oldest increments in the inbox: for each, the item key of its first piece."""
        found = await asyncio.gather(
            *[self._service.index(f"taginbox#{p}", "!", END, limit) for p in range(self._spread)]
        )
        items = sorted((item for part in found for item in part), key=lambda item: str(item["place"]["S"]))
        return [address_of(item) for item in items[:limit]]

    async def discard(self, increments: Collection[bytes]) -> None:
        await self._service.forget(await self._intents.inbox_pieces(list(increments)))

    async def waiting(self) -> int:
        return len(await self._oldest_in_inbox(ALL))

    async def close(self) -> None:
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            await self._service.close()

    async def _all(self, id_: str, beginning: str) -> list[Item]:
        return await self._service.stretch(ItemKey(id_, f"{beginning}#"), ItemKey(id_, f"{beginning}#{END}"), ALL)
