"""Home timelines and cached rankings in a DynamoDB table of their own. It is a cache: it may be deleted at any time.

All items of a member are one item collection, so a timeline is read by one query. A timeline is two items:

- The *head* has the state of the timeline and the newest pushed entries, as a number set. It stays below 1 KB, so that a push
  costs one write unit. Adding to a set is idempotent and commutes with every other change, so any number of workers may push to
  a timeline concurrently, and a push needs no read.
- The *tail* has all other entries in 8 bytes each. A push that finds the head full moves the head's entries to the tail.

Every other change is a compare-and-swap on the version of the head; if it concerns the tail too, both are written in one
transaction. The head names the version of its tail, so a reader that sees only one of both changed reads again. An expired item
counts as missing, whether the service has deleted it yet or not.

For example, a timeline has the head {70, 80} and the tail 50, 60, its length is 3, and a head is full with two entries:

1. 90 is pushed, but the head is full. The worker writes the tail 60, 70, 80 and an empty head with the floor 50, in one
   transaction, and then adds 90 to the head.
2. Another worker has pushed 85 in between: the transaction removes 70 and 80 from the set and leaves 85.
3. A reader finds 60, 70, 80, 85 and 90. Three of them count, so for this reader the floor is 70.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
from botocore.exceptions import ClientError

from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Cursor
from shoal.graph.dynamodb.client import WRITE_AT_ONCE, Backoff, ConditionFailed, Service, TransactionOvertaken, parse
from shoal.graph.dynamodb.grouping import Grouping
from shoal.graph.dynamodb.items import Item, ItemKey, Value, attribute, item_of, typed
from shoal.graph.dynamodb.store import PATIENCE_SECONDS
from shoal.timelines.contract import RETENTION_SECONDS, Ids, Window

_HEAD, _TAIL, _RANKING = "head", "tail", "ranking"
_HEAD_LENGTH = 80
"""Entries at which a head is full: 84 of 19 digits fit into a kilobyte with the rest of the item."""
_NEVER_EMPTY = "0"
"""An element of every number set, because a set must not be empty. No entry has this id."""
_BEGUN = 10_000
_COLD = 200_000
_LOOKS = 20
_LOOK_SECONDS = 0.01
_RENEWALS = 14
"""A reader extends the life of a timeline when a fourteenth of it has passed: every day of 14 days."""
_SKEW_SECONDS = 60
"""The clocks of two processes differ by less. A reader treats a timeline as cold so long before it expires, because a process whose
clock is ahead may not push to it any more.
"""
_KEYS = {"ID": "HASH", "sort": "RANGE"}
_CREATION_SECONDS = 120.0

_PUSH = (
    """UPDATE "{table}" SET "ids" = set_add("ids", ?) WHERE "ID" = ? AND "sort" = 'head'"""
    """ AND "until" > ? AND "floor" < ? AND size("ids") <= ?"""
)
_REFUSED = {"ConditionalCheckFailed", "ConditionalCheckFailedException"}
_RETRIED = {
    "InternalServerError",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "ThrottlingError",
    "TransactionConflict",
}


Result = TypeVar("Result")


class _Missing(Unavailable):
    """The table does not exist."""


class _Table(Service):
    """The table of the timelines. Requests raise `Unavailable` if it was deleted."""

    async def call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        try:
            return await super().call(operation, **parameters)
        except ClientError as error:
            if _code(error) != "ResourceNotFoundException":
                raise
            raise _Missing(f"the table {self.table} does not exist: restart Shoal to create it") from error


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


async def _prepare(table: Service) -> None:
    """Create the table if necessary. Raises `Unavailable` for a table of another kind."""
    patience = Backoff(_CREATION_SECONDS)
    while (description := await _describe(table)) is None or description["TableStatus"] == "CREATING":
        if description is None:
            await _unless(
                "ResourceInUseException",
                table,
                "create_table",
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in _KEYS],
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in _KEYS.items()],
            )
        await patience.pause()
    keys = {key["AttributeName"]: key["KeyType"] for key in description["KeySchema"]}
    if keys != _KEYS or description.get("GlobalSecondaryIndexes"):
        raise Unavailable(f"the table {table.table} has another purpose: set timelines to the URL of another table")
    expiry = await table.call("describe_time_to_live", TableName=table.table)
    if expiry["TimeToLiveDescription"]["TimeToLiveStatus"] not in {"ENABLED", "ENABLING"}:
        expires = {"Enabled": True, "AttributeName": "until"}
        await _unless("ValidationException", table, "update_time_to_live", TimeToLiveSpecification=expires)


async def _describe(table: Service) -> dict[str, Any] | None:
    with suppress(_Missing):
        description: dict[str, Any] = (await table.call("describe_table", TableName=table.table))["Table"]
        return description
    return None


async def _unless(code: str, table: Service, operation: str, **parameters: Any) -> None:
    """Send a request, and ignore an error with this code, which means that another process was first."""
    try:
        await table.call(operation, TableName=table.table, **parameters)
    except ClientError as error:
        if _code(error) != code:
            raise


class _Stored(NamedTuple):
    """A timeline as it is stored. Entries at or below the floor are not part of it."""

    start: int
    version: int
    filled: bool
    floor: int
    until: int
    head: Ids
    tail: Ids
    tail_until: int

    def visible(self, length: int) -> tuple[Ids, int]:
        """Return the newest `length` entries, oldest first, and the floor above which they are complete."""
        return _bounded(np.concatenate((self.head, self.tail)), self.floor, length)


def _bounded(ids: Ids, floor: int, length: int) -> tuple[Ids, int]:
    """Return the newest `length` unique ids above the floor, oldest first, and the floor above which they are complete."""
    ids = np.unique(ids)
    ids = ids[ids > floor]
    over = len(ids) - length
    return (ids[over:], int(ids[over - 1])) if over > 0 else (ids, floor)


class DynamoTimelines:
    """Timelines of up to `length` entries, for members whose ids are their slots.

    A timeline that is not read for `idle_seconds` expires; it may expire up to a fourteenth of this time earlier. The head item
    of a timeline is full with `head_length` entries. Create an instance with `open`.
    """

    def __init__(
        self,
        service: Service,
        length: int = 800,
        *,
        idle_seconds: float = 14 * 86_400,
        head_length: int = _HEAD_LENGTH,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.length = length
        self.service = service
        self._idle = max(1, int(idle_seconds))
        self._margin = min(_SKEW_SECONDS, self._idle // _RENEWALS)
        self._head_length = head_length
        self._clock = clock
        self._statement = _PUSH.format(table=service.table)
        self._begun: dict[int, int] = {}
        # Members whose timelines were cold at the last push. A cold timeline is read first, which costs less than a refused write.
        self._cold: Recent[int, bool] = Recent(_COLD)
        # One write adds the entries of several pushes to a timeline, if these arrive during another push.
        self._pushing = Grouping("timelines.push", self._push)

    @classmethod
    async def open(
        cls, url: str, length: int, *, idle_seconds: float, patience: float = PATIENCE_SECONDS
    ) -> DynamoTimelines:
        """Open or create the table of a URL, with the credentials in the environment.

        Raises `InvalidInput` for any other URL, and `Unavailable` for a table that cannot be used.
        """
        location = parse(url)
        if "spread=" in url:
            raise InvalidInput("the URL option spread is only for the table of the store: remove it")
        service = await _Table.connect(location, patience=patience)
        try:
            await _prepare(service)
        except BaseException:
            await service.close()
            raise
        return cls(service, length, idle_seconds=idle_seconds)

    def slots(self, members: Sequence[int]) -> Ids:
        return np.array(members, np.int64)

    async def create(self, member: int) -> None:
        start, now = secrets.randbits(31) + 1, self._now()
        head: dict[str, Value] = {
            "start": start,
            "version": secrets.randbits(40) + 1,
            "filled": False,
            "floor": 0,
            "tail": 0,
            "until": now + self._idle,
        }
        item = {**item_of(_key(member, _HEAD), head), "ids": {"NS": [_NEVER_EMPTY]}}
        try:
            await self.service.write(
                "put_item",
                Item=item,
                ConditionExpression="attribute_not_exists(#ID) OR #until <= :now",
                ExpressionAttributeNames={"#ID": "ID", "#until": "until"},
                ExpressionAttributeValues={":now": attribute(now + self._margin)},
            )
        except ConditionFailed:
            if (found := await self._look(member, self._margin)) is None:
                raise Unavailable("a timeline was dropped while it was created") from None
            start = found.start
        if len(self._begun) >= _BEGUN:
            del self._begun[next(iter(self._begun))]
        self._begun[member] = start

    async def fill(self, member: int, ids: Sequence[int], floor: int) -> None:
        # Fill the timeline only if this process created it. Another process may have replaced it by one that lacks
        # earlier pushes.
        await self._revise(member, _merging(ids, floor), fill=True, start=self._begun.pop(member, 0))

    async def union(self, member: int, ids: Sequence[int], floor: int) -> None:
        await self._revise(member, _merging(ids, floor))

    async def subtract(self, member: int, ids: Sequence[int]) -> None:
        gone = np.array(ids, np.int64)
        await self._revise(member, lambda held, floor: (held[~np.isin(held, gone)], floor))

    async def remove(self, entry: int, slots: Ids) -> None:
        members = np.unique(slots).tolist()
        found: dict[str, dict[str, Item]] = {}
        for item in await self.service.get([_key(member, sort) for member in members for sort in (_HEAD, _TAIL)]):
            found.setdefault(item["ID"]["S"], {})[item["sort"]["S"]] = item
        holders = [int(member) for member, items in found.items() if _HEAD in items and _may_hold(items, entry)]
        await asyncio.gather(*(self.subtract(member, (entry,)) for member in holders))

    async def _revise(
        self,
        member: int,
        change: Callable[[Ids, int], tuple[Ids, int]],
        *,
        fill: bool = False,
        start: int = 0,
        full: bool = False,
    ) -> None:
        """Replace the entries and the floor of a warm timeline by the result of `change`.

        With `fill`, the timeline becomes readable. With `start`, nothing happens unless the timeline still has this `start`: it may
        have been replaced. With `full`, nothing happens unless the head is full; its entries are then moved to the tail.
        """
        patience = Backoff(self.service.patience)
        while (found := await self._look(member)) is not None:
            if (start and found.start != start) or (full and len(found.head) < self._head_length):
                return
            before = found.visible(self.length)
            ids, floor = _bounded(*change(*before), self.length)
            if not (fill or full) and floor == before[1] and np.array_equal(ids, before[0]):
                return
            try:
                await self._replace(member, found, ids, floor, fill=fill, full=full)
            except (ConditionFailed, TransactionOvertaken) as error:
                await patience.pause(error)
            else:
                return

    async def _replace(self, member: int, found: _Stored, ids: Ids, floor: int, *, fill: bool, full: bool) -> None:
        """Replace the contents of a timeline, unless anything but pushes has changed it since it was read."""
        version = found.version + 1
        values: dict[str, Value] = {"version": version, "floor": floor}
        if fill:
            values["filled"] = True
        gone = found.head[~np.isin(found.head, ids)]
        # The tail may keep entries at or below the floor, because readers ignore them.
        kept = found.tail[found.tail > floor]
        if not (fill or full) and np.isin(ids, np.concatenate((found.head, kept))).all() and np.isin(kept, ids).all():
            await self.service.write("update_item", **_update(member, found.version, values, gone))
            return
        # The update removes only the entries of `found.head`, so entries that were pushed after the read are kept.
        update = _update(member, found.version, {**values, "tail": version}, found.head)
        tail = item_of(
            _key(member, _TAIL), {"version": version, "data": ids.astype("<i8").tobytes(), "until": self._tail_until()}
        )
        await self.service.transact(
            [
                {"Put": {"TableName": self.service.table, "Item": tail}},
                {"Update": {"TableName": self.service.table, **update}},
            ]
        )

    async def push(self, entry: int, slots: Ids) -> int:
        if not len(slots):
            return 0
        return await self._pushing.ask((entry, slots))

    async def _push(self, sent: list[tuple[int, Ids]]) -> list[int | Unavailable]:
        due: dict[int, set[int]] = {}
        for entry, slots in sent:
            for member in slots.tolist():
                due.setdefault(member, set()).add(entry)
        taken, failed = await self._deliver(due)
        results: list[int | Unavailable] = []
        for entry, slots in sent:
            members = slots.tolist()
            error = next((failed[member] for member in members if member in failed), None)
            results.append(sum(entry in taken.get(member, ()) for member in members) if error is None else error)
        return results

    async def _deliver(self, due: Mapping[int, set[int]]) -> tuple[dict[int, set[int]], dict[int, Unavailable]]:
        """Add the entries in `due`, by member, to the timelines.

        Return the entries that were written, and the errors of the members whose timelines could not be written.
        """
        failed: dict[int, Unavailable] = {}
        taken = {member: entries for member, entries in due.items() if self._cold.get(member) is None}
        refused = await self._write(taken, failed)
        unsure = {member: entries for member, entries in due.items() if member in refused or member not in taken}
        for member in refused:
            del taken[member]
        patience = Backoff(self.service.patience)
        while unsure:
            ready = await self._made_ready(unsure, failed)
            refused = await self._write(ready, failed)
            taken.update((member, entries) for member, entries in ready.items() if member not in refused)
            unsure = {member: ready[member] for member in refused}
            if unsure:
                await _attempt(patience.pause(), unsure, failed)
            unsure = {member: entries for member, entries in unsure.items() if member not in failed}
        return taken, failed

    async def _made_ready(self, due: Mapping[int, set[int]], failed: dict[int, Unavailable]) -> dict[int, set[int]]:
        """Return the entries of `due` that can be pushed now, by member. Errors are added to `failed`, by member.

        Entries for cold timelines, and entries at or below the floor, are left out. If the head item of a timeline is full, its
        entries are moved to the tail item first.
        """
        reading = self.service.get([_key(member, _HEAD) for member in due], "floor", "until", "ids")
        heads = await _attempt(reading, due, failed) or []
        known, now, full = {int(item["ID"]["S"]): item for item in heads}, self._now(), list[int]()
        ready: dict[int, set[int]] = {}
        for member, entries in due.items():
            if member in failed:
                continue
            head = known.get(member)
            if head is None or typed(head, "until") <= now:
                self._cold.put(member, True)
                continue
            self._cold.forget(member)
            floor = typed(head, "floor")
            if above := {entry for entry in entries if entry > floor}:
                ready[member] = above
                if len(head["ids"]["NS"]) > self._head_length:
                    full.append(member)
        await asyncio.gather(*(self._move(member, failed) for member in full))
        return {member: entries for member, entries in ready.items() if member not in failed}

    async def _move(self, member: int, failed: dict[int, Unavailable]) -> None:
        await _attempt(self._revise(member, lambda ids, floor: (ids, floor), full=True), (member,), failed)

    async def _write(self, due: Mapping[int, set[int]], failed: dict[int, Unavailable]) -> set[int]:
        """Add entries to the head items of timelines.

        Return the members whose head refused them: it is cold, full, or has a higher floor.
        """
        members = list(due)
        parts = [members[at : at + WRITE_AT_ONCE] for at in range(0, len(members), WRITE_AT_ONCE)]
        refused = set[int]()
        await asyncio.gather(*(self._write_part(part, due, refused, failed) for part in parts))
        return refused

    async def _write_part(
        self, members: list[int], due: Mapping[int, set[int]], refused: set[int], failed: dict[int, Unavailable]
    ) -> None:
        patience, now = Backoff(self.service.patience), attribute(self._now())
        while members:
            statements = [
                {
                    "Statement": self._statement,
                    "Parameters": [
                        {"NS": [str(entry) for entry in due[member]]},
                        {"S": str(member)},
                        now,
                        attribute(min(due[member])),
                        attribute(self._head_length),
                    ],
                }
                for member in members
            ]
            sending = self.service.call(
                "batch_execute_statement", Statements=statements, ReturnConsumedCapacity="TOTAL"
            )
            if (answer := await _attempt(sending, members, failed)) is None:
                return
            codes = [response.get("Error", {}).get("Code") for response in answer["Responses"]]
            refused.update(member for member, code in zip(members, codes, strict=True) if code in _REFUSED)
            for member, code in zip(members, codes, strict=True):
                if code and code not in _REFUSED | _RETRIED:
                    failed[member] = Unavailable(f"the table {self.service.table} refused a push: {code}")
            members = [member for member, code in zip(members, codes, strict=True) if code in _RETRIED]
            if members:
                self.service.capacity.retries.update(code for code in codes if code in _RETRIED)
                await _attempt(patience.pause(), members, failed)
                members = [member for member in members if member not in failed]

    async def read(self, member: int, at: Cursor) -> Window | None:
        found = await self._look(member, self._margin)
        if found is None or not found.filled:
            return None
        await self._renew(member, found)
        ids, floor = found.visible(self.length)
        ids = ids[(ids > at.after) & (ids < at.before)]
        page = ids[: at.limit] if at.oldest_first else ids[: -at.limit - 1 : -1]
        return Window(page.tolist(), floor)

    async def _renew(self, member: int, found: _Stored) -> None:
        """Extend the life of a timeline that was read. Its tail lives twice as long, so that it outlives the head."""
        now = self._now()
        lives = []
        if found.until - now < self._idle - self._idle / _RENEWALS:
            lives.append((_HEAD, found.until, now + self._idle))
        if found.tail_until and found.tail_until - now < self._idle:
            lives.append((_TAIL, found.tail_until, self._tail_until()))
        with suppress(ConditionFailed, Unavailable):
            await asyncio.gather(
                *(
                    self.service.write(
                        "update_item",
                        Key=_key(member, sort).item(),
                        UpdateExpression="SET #until = :until",
                        ConditionExpression="#until = :found AND #until > :now",
                        ExpressionAttributeNames={"#until": "until"},
                        ExpressionAttributeValues={
                            ":until": attribute(until),
                            ":found": attribute(before),
                            ":now": attribute(now),
                        },
                    )
                    for sort, before, until in lives
                )
            )

    async def floor(self, member: int) -> int | None:
        found = await self._look(member, self._margin)
        return None if found is None else found.visible(self.length)[1]

    async def _look(self, member: int, margin: int = 0) -> _Stored | None:
        """Read a timeline; None if it is cold or expires within `margin` seconds."""
        for _ in range(_LOOKS):
            items = await self.service.stretch(_key(member, _HEAD), _key(member, _TAIL), 2)
            found = {item["sort"]["S"]: item for item in items}
            head, tail = found.get(_HEAD), found.get(_TAIL)
            if head is None or typed(head, "until") <= self._now() + margin:
                return None
            if not typed(head, "tail"):
                return _stored(head, None)
            if tail is not None and typed(tail, "version") == typed(head, "tail"):
                return _stored(head, tail)
            # The head was read before a transaction and the tail after it, or vice versa: read both again.
            await asyncio.sleep(_LOOK_SECONDS)
        # The tail was deleted, so the timeline has to be rebuilt.
        await self.drop((member,))
        return None

    async def drop(self, members: Sequence[int]) -> None:
        for member in members:
            self._begun.pop(member, None)
        await self.service.forget([_key(member, sort) for member in dict.fromkeys(members) for sort in (_HEAD, _TAIL)])

    async def drop_idle(self, seconds: float) -> None:
        # Timelines that were idle for `idle_seconds` have expired already.
        if seconds < self._idle:
            before = self._now() + self._idle - seconds
            async for heads in self._heads():
                await self.drop([member for member, head in heads if typed(head, "until") < before])

    async def clear(self) -> None:
        async for heads in self._heads():
            await self.drop([member for member, _ in heads])

    async def members(self, most: int) -> list[int]:
        found: list[int] = []
        async for heads in self._heads():
            now = self._now()
            found += [member for member, head in heads if head["filled"]["BOOL"] and typed(head, "until") > now]
            if len(found) >= most:
                break
        return found[:most]

    async def _heads(self) -> AsyncIterator[list[tuple[int, Item]]]:
        """Yield all stored timelines in pages, each as the member and the timeline's head item. This scans the whole table."""
        more: dict[str, Any] = {}
        while True:
            answer = await self.service.call(
                "scan",
                TableName=self.service.table,
                FilterExpression="#sort = :head",
                ProjectionExpression="#ID, #filled, #until",
                ExpressionAttributeNames={f"#{name}": name for name in ("ID", "sort", "filled", "until")},
                ExpressionAttributeValues={":head": attribute(_HEAD)},
                ReturnConsumedCapacity="TOTAL",
                **more,
            )
            yield [(int(item["ID"]["S"]), item) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return
            more = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _now(self) -> int:
        return int(self._clock())

    def _tail_until(self) -> int:
        return self._now() + 2 * self._idle

    async def close(self) -> None:
        await self._pushing.close()
        await self.service.close()


async def _attempt(act: Awaitable[Result], members: Iterable[int], failed: dict[int, Unavailable]) -> Result | None:
    try:
        return await act
    except Unavailable as error:
        failed.update(dict.fromkeys(members, error))
        return None


def _key(member: int, sort: str) -> ItemKey:
    return ItemKey(str(member), sort)


def _merging(ids: Sequence[int], floor: int) -> Callable[[Ids, int], tuple[Ids, int]]:
    new = np.array(ids, np.int64)
    return lambda held, held_floor: (np.concatenate((held, new)), max(held_floor, floor))


def _update(member: int, version: int, values: Mapping[str, Value], gone: Iterable[int]) -> dict[str, Any]:
    """Return an update of the head item of the member's timeline: it sets `values` and removes the entries `gone`.

    The update fails if the head item no longer has this version.
    """
    expression = "SET " + ", ".join(f"#{name} = :{name}" for name in values)
    names = {f"#{name}": name for name in values}
    given = {f":{name}": attribute(value) for name, value in values.items()} | {":before": attribute(version)}
    if numbers := [str(entry) for entry in gone]:
        expression += " DELETE #ids :gone"
        names["#ids"] = "ids"
        given[":gone"] = {"NS": numbers}
    return {
        "Key": _key(member, _HEAD).item(),
        "UpdateExpression": expression,
        "ConditionExpression": "#version = :before",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": given,
    }


def _stored(head: Item, tail: Item | None) -> _Stored:
    start, version, floor, until = (typed(head, name) for name in ("start", "version", "floor", "until"))
    return _Stored(
        start,
        version,
        head["filled"]["BOOL"],
        floor,
        until,
        _entries_of(head),
        _NONE if tail is None else np.frombuffer(typed(tail, "data"), "<i8"),
        0 if tail is None else typed(tail, "until"),
    )


_NONE: Ids = np.empty(0, np.int64)


def _entries_of(head: Item) -> Ids:
    return np.array([int(number) for number in head["ids"]["NS"] if number != _NEVER_EMPTY], np.int64)


def _may_hold(items: Mapping[str, Item], entry: int) -> bool:
    """Return whether a timeline may contain an entry.

    `items` are the head and the tail of the timeline, which may have been read at different times.
    """
    head, tail = items[_HEAD], items.get(_TAIL)
    if str(entry) in head["ids"]["NS"]:
        return True
    if tail is None or typed(tail, "version") != typed(head, "tail"):
        return bool(typed(head, "tail"))
    return bool((np.frombuffer(typed(tail, "data"), "<i8") == entry).any())


class DynamoReadings:
    """A cache of ranked feeds in the DynamoDB table of the timelines, shared by several processes."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.time) -> None:
        self._service = service
        self._clock = clock

    async def keep(self, id_: int, data: bytes) -> None:
        until = int(self._clock()) + RETENTION_SECONDS
        await self._service.write("put_item", Item=item_of(_ranking(id_), {"data": data, "until": until}))

    async def get(self, id_: int) -> bytes | None:
        for item in await self._service.get([_ranking(id_)]):
            if typed(item, "until") > self._clock():
                data: bytes = typed(item, "data")
                return data
        return None


def _ranking(id_: int) -> ItemKey:
    return ItemKey(f"ranking#{id_}", _RANKING)
