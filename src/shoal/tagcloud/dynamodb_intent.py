"""How a version gets into DynamoDB whole or not at all, though it is larger than any transaction.

First the whole of it is laid down in slices, which nobody reads. Then one write of the state makes it the *intent*: from now
on the version will be, whoever dies. Each slice is applied in one transaction that takes the slice itself away, on the
condition that it is there: so once, however many are at it, and never after a later version. When no slice is left, one
write of the state finishes the version. Whoever takes the lock, or reads what a merge reads, and finds an intent goes on with it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from shoal.core.errors import Unavailable
from shoal.graph.dynamodb.items import END, Item, ItemKey, address_of, digits, item_of, typed
from shoal.graph.dynamodb.service import Backoff, Service
from shoal.graph.dynamodb.service import TransactionOvertaken as Contested
from shoal.graph.dynamodb.writes import ABSENT, PRESENT, Condition, Transaction, still
from shoal.tagcloud.contract import KEEP_CLOUDS, KEEP_INCREMENTS_MS, Merge, Overtaken
from shoal.tagcloud.dynamodb_items import (
    STATE,
    ItemChange,
    State,
    StoredVersion,
    author_at,
    change,
    done_at,
    done_spot,
    inbox_at,
    piece_at,
    row_change,
    rule_at,
    state_item,
    stored_in,
    whole,
)
from shoal.tagcloud.rows import says_something

SLICE_CHANGES = 99
"""With the slice itself they fill a transaction."""
SLICE_BYTES = 300_000
ALL = 10**9
"""As a limit: none."""
_SIDE_BY_SIDE = 16
_FORGOTTEN_AT_ONCE = 2_000
"""So much of a kind that is past a merge deletes at most; the rest waits for the next ones."""
_RANKS_KEPT = 3

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[ItemChange])


class Intents:
    """The writing of versions to one table."""

    def __init__(self, service: Service, spread: int) -> None:
        self._service = service
        self._spread = spread
        self._places = asyncio.Semaphore(_SIDE_BY_SIDE)
        # Past days that have no authors any more.
        self._empty: set[int] = set()

    async def stored(self) -> StoredVersion:
        """The newest finished version, and the intent of the next one."""
        return stored_in(await self._service.get([STATE]))

    async def settled(self) -> State:
        """The newest version, when no intent is left."""
        while True:
            stored = await self.stored()
            if stored.next is None:
                return stored.state
            await self._finish(stored.intent, stored.next)

    async def write(self, merge: Merge) -> None:
        """Make a version durable. Raises `Overtaken` when there is another one."""
        before = await self.settled()
        if merge.head.version != before.version + 1:
            raise Overtaken("another version of the tag cloud was written meanwhile")
        after, intent = self._after(before, merge), secrets.token_hex(8)
        slices = self._slices(intent, after.version, await self._changes(merge))
        await self._lay_down(slices)
        if not await self._decide(before, intent, after):
            await self._service.forget([address_of(item) for item in slices])
            raise Overtaken("another version of the tag cloud was written meanwhile")
        await self._finish(intent, after)
        # The version is there: what is left over can wait.
        with suppress(Unavailable):
            await self._tidy(after)

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
        changes += [change(done_at(id_), {"at": head.at}, done_spot(id_, head.at, spread)) for id_ in increments]
        changes += [change(address, None) for address in await self.lying(increments)]
        changes += whole("tagcloud", digits(head.version), head.cloud, at=head.at)
        changes += whole("tagranks", digits(head.version), head.state)
        return changes

    async def lying(self, increments: Sequence[bytes]) -> list[ItemKey]:
        """Every piece of those of these increments that lie in the inbox."""
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

    async def _lay_down(self, slices: Sequence[Item]) -> None:
        """Each in a request of its own: together they may be more than one takes."""
        await self._each(lambda item: self._service.write("put_item", Item=item), slices)

    async def _decide(self, before: State, intent: str, after: State) -> bool:
        """Make the slices what will be; False when somebody else was first."""
        stored = StoredVersion(before, intent, after)
        patience = Backoff(self._service.patience)
        while True:
            transaction = self._transaction()
            transaction.put(state_item(stored), _is(before.version))
            try:
                await self._service.transact(transaction.writes)
            except Contested as error:
                now = await self.stored()
                if now.intent == intent:
                    return True
                if now != StoredVersion(before):
                    return False
                await patience.pause(error)
            else:
                return True

    async def _finish(self, intent: str, after: State) -> None:
        """Apply what is left of an intent, and make its version the newest."""
        await self._each(self._apply, await self._slices_of(f"{digits(after.version)}#{intent}#"))
        patience = Backoff(self._service.patience)
        while True:
            transaction = self._transaction()
            transaction.put(state_item(StoredVersion(after)), _is(after.version - 1, intent))
            try:
                await self._service.transact(transaction.writes)
            except Contested as error:
                if (await self.stored()).intent != intent:
                    return
                await patience.pause(error)
            else:
                return

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
        for one in _decoder.decode(typed(item, "data")):
            if one.values is None:
                transaction.delete(one.address)
            else:
                transaction.put(one.item())
        patience = Backoff(self._service.patience)
        while True:
            try:
                await self._service.transact(transaction.writes)
            except Contested as error:
                if not await self._service.get([address], "version"):
                    return
                await patience.pause(error)
            else:
                return

    async def _each(self, work: Callable[[Item], Awaitable[object]], items: Sequence[Item]) -> None:
        """Some at a time. When one fails, the others are ended all the same: nothing of it goes on by itself."""

        async def one(item: Item) -> None:
            async with self._places:
                await work(item)

        for answer in await asyncio.gather(*map(one, items), return_exceptions=True):
            if answer is not None:
                raise answer

    def _transaction(self) -> Transaction:
        return Transaction(self._service.table, self._spread)

    async def _tidy(self, state: State) -> None:
        """Forget what nobody reads any more, slices of those who died before they were decided among it."""
        version, spread = state.version, self._spread
        past = [self._past(f"tagslice#{p}", f"{digits(version)}{END}") for p in range(spread)]
        past += [
            self._past("tagcloud", digits(version - KEEP_CLOUDS) + END),
            self._past("tagranks", digits(version - _RANKS_KEPT) + END),
        ]
        done = [self._past_increments(f"tagdone#{p}", state.at - KEEP_INCREMENTS_MS) for p in range(spread)]
        days = [self._past_day(day) for day in state.days if day < state.before_day]
        await asyncio.gather(*past, *done, *days)

    async def _past_day(self, day: int) -> None:
        found = await asyncio.gather(*[self._past(f"tagday#{day}#{p}", END) for p in range(self._spread)])
        if max(found) < _FORGOTTEN_AT_ONCE:
            self._empty.add(day)

    async def _past(self, id_: str, upto: str) -> int:
        found = await self._service.stretch(ItemKey(id_, "!"), ItemKey(id_, upto), _FORGOTTEN_AT_ONCE)
        await self._service.forget([address_of(item) for item in found])
        return len(found)

    async def _past_increments(self, part: str, before: int) -> None:
        found = await self._service.index(part, "!", digits(before), _FORGOTTEN_AT_ONCE)
        await self._service.forget([address_of(item) for item in found])

    def _after(self, before: State, merge: Merge) -> State:
        """The state once the merge is in. A past day stays among the days until it was seen to be empty."""
        head, first = merge.head, merge.before_day
        days = {day for day in before.days if day >= first or day not in self._empty}
        days |= {day for (_, day, _), n in merge.authors.items() if n and day >= first}
        self._empty -= days
        return State(head.version, head.at, head.complete_to, first, tuple(sorted(days)))


def _is(version: int, intent: str = "") -> Condition:
    """The state is of this version, with this intent or with none."""
    if intent:
        return still(version=version, intent=intent)
    if not version:
        return ABSENT
    of_it = still(version=version)
    return Condition(
        f"{of_it.expression} AND attribute_not_exists(#intent)", {**of_it.names, "#intent": "intent"}, of_it.values
    )


def _cut(changes: Iterable[ItemChange]) -> Iterator[bytes]:
    """Changes in slices that are small enough, encoded."""
    held: list[msgspec.Raw] = []
    size = 0
    for one in changes:
        data = _encoder.encode(one)
        if held and (len(held) == SLICE_CHANGES or size + len(data) > SLICE_BYTES):
            yield _encoder.encode(held)
            held, size = [], 0
        held.append(msgspec.Raw(data))
        size += len(data)
    if held:
        yield _encoder.encode(held)
