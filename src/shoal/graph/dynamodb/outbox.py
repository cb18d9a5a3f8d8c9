"""The outbox of a DynamoDB table: events in a few partitions. Conditional updates ensure that only one process claims an event.

A claim changes the keys of an event in the index, on the condition that they are those that the claiming process has seen. In the
index, new events are ordered by number; claimed events and those put back are ordered by the time when they are due again. The
index is eventually consistent. If a candidate from it was already claimed or deleted, the condition fails. An event that is not in
the index yet is claimed by the process that committed it, which remembers it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice

from shoal.core.errors import Unavailable
from shoal.core.events import Event
from shoal.core.ids import IdMaker, milliseconds_of, now_ms
from shoal.core.placement import SHARDS
from shoal.graph.contract import Job, WakeUp
from shoal.graph.dynamodb.client import Backoff, ConditionFailed, Service, TransactionOvertaken
from shoal.graph.dynamodb.items import (
    END,
    Item,
    ItemKey,
    Spot,
    Value,
    address_of,
    attribute,
    digits,
    event_at,
    item_of,
    job_of,
    job_values,
    new_spot,
    number_of,
    out_spot,
    outbox_at,
    parked_at,
)
from shoal.graph.dynamodb.transactions import ABSENT, PRESENT, Condition, Transaction, still

_REMEMBERED = 10_000
"""Number of its own unclaimed events that a process remembers. It finds the others in the index."""
_EVERYTHING = 2**31


class DynamoOutbox:
    """The outbox in a table. Sequence numbers contain the creation time, so events of several processes are roughly in order."""

    def __init__(self, service: Service, spread: int) -> None:
        self._service = service
        self._spread = spread
        self._new_id = IdMaker()
        self._maker = secrets.randbelow(SHARDS)
        # Unclaimed events that this process committed (`_new`) or put back (`_back`), with their index keys.
        self._new: dict[int, Spot] = {}
        self._back: dict[int, Spot] = {}
        # Events that this process claimed, or put back with a delay, with their index keys. Closing the outbox makes them
        # claimable.
        self._held: dict[int, Spot] = {}
        self._wake: WakeUp | None = None

    def on_event(self, wake: WakeUp) -> None:
        self._wake = wake

    def numbered(self, new: Sequence[Event]) -> list[Job]:
        return [Job(self._new_id(self._maker), event) for event in new]

    def added(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            _remember(self._new, job.seq, new_spot(job.seq, self._spread))
        if jobs and self._wake is not None:
            self._wake()

    async def claim(self, limit: int, lease: float) -> list[Job]:
        """Claim jobs whose lease or delay has expired, then new jobs; within both groups the oldest first."""
        waiting = await self._candidates(limit)
        jobs: list[Job] = []
        while waiting and len(jobs) < limit:
            part, waiting = waiting[: limit - len(jobs)], waiting[limit - len(jobs) :]
            claimed = await asyncio.gather(*[self._take(seq, spot, lease) for seq, spot in part])
            jobs += [job for job in claimed if job is not None]
        return jobs

    async def _candidates(self, limit: int) -> list[tuple[int, Spot]]:
        now = digits(now_ms())
        parts = [
            (f"{kind}#{p}", upto) for kind, upto in (("out", now + END), ("new", END)) for p in range(self._spread)
        ]
        pages = await asyncio.gather(*[self._service.index(part, "0", upto, limit) for part, upto in parts])
        found = {
            number_of(item["sort"]["S"]): Spot(item["part"]["S"], item["place"]["S"]) for page in pages for item in page
        }
        # Prefer the index keys that this process remembers, because the index may be outdated.
        found |= dict(islice(self._new.items(), limit))
        found |= {seq: spot for seq, spot in self._back.items() if spot.place < now + END}
        return sorted(found.items(), key=lambda candidate: (candidate[1].part.startswith("new"), candidate[1].place))

    async def _take(self, seq: int, seen: Spot, lease: float) -> Job | None:
        spot = out_spot(seq, now_ms() + round(lease * 1000), self._spread)
        item = await self._move(seq, spot, {}, still(part=seen.part, place=seen.place))
        self._let_go({seq})
        if item is None:
            return None
        self._held[seq] = spot
        return job_of(item)

    async def _move(self, seq: int, spot: Spot, values: Mapping[str, Value], condition: Condition) -> Item | None:
        """Change the index keys and some attributes of an event, and return its new state; None if the condition is false."""
        changed = {**values, "part": spot.part, "place": spot.place}
        try:
            return await self._service.write(
                "update_item",
                Key=event_at(seq, self._spread).item(),
                UpdateExpression="SET " + ", ".join(f"#{name} = :new_{name}" for name in changed),
                ConditionExpression=condition.expression,
                ExpressionAttributeNames={f"#{name}": name for name in changed} | dict(condition.names),
                ExpressionAttributeValues={f":new_{name}": attribute(value) for name, value in changed.items()}
                | dict(condition.values),
                ReturnValues="ALL_NEW",
            )
        except ConditionFailed:
            return None

    async def ack(self, jobs: Sequence[Job]) -> None:
        seqs = {job.seq for job in jobs}
        await self._service.forget([event_at(seq, self._spread) for seq in seqs])
        self._let_go(seqs)

    def _let_go(self, seqs: set[int]) -> None:
        for seq in seqs:
            for known in (self._new, self._back, self._held):
                known.pop(seq, None)

    async def put_back(self, job: Job, delay: float = 0.0) -> None:
        """Return an unfinished job to the outbox. Does nothing if the event is already done."""
        spot = out_spot(job.seq, now_ms() + round(delay * 1000), self._spread)
        progress: dict[str, Value] = {"step": job.step, "mark": job.mark, "attempt": job.attempt}
        stored = await self._move(job.seq, spot, progress, PRESENT)
        self._let_go({job.seq})
        if stored is not None:
            _remember(self._back, job.seq, spot)
            self._held[job.seq] = spot

    async def park(self, job: Job, error: str) -> None:
        parking = self._transaction()
        parking.put(item_of(parked_at(job.seq), {**job_values(job), "error": error}))
        parking.delete(event_at(job.seq, self._spread))
        parking.check_size()
        patience = Backoff(self._service.patience)
        while True:
            try:
                await self._service.transact(parking.writes)
                break
            except TransactionOvertaken as conflict:
                await patience.pause(conflict)
        self._let_go({job.seq})

    async def unpark(self, jobs: Sequence[Job]) -> int:
        items = await self._service.get([parked_at(job.seq) for job in jobs])
        there = [job_of(item)._replace(attempt=0) for item in items]
        done = await asyncio.gather(*[self._unpark_one(job) for job in there])
        self.added([job for job, unparked in zip(there, done, strict=True) if unparked])
        return sum(done)

    async def _unpark_one(self, job: Job) -> bool:
        unparking = self._transaction()
        unparking.delete(parked_at(job.seq), PRESENT)
        address, spot = event_at(job.seq, self._spread), new_spot(job.seq, self._spread)
        unparking.put(item_of(address, job_values(job), spot), ABSENT)
        try:
            await self._service.transact(unparking.writes)
        except TransactionOvertaken:
            return False
        return True

    def _transaction(self) -> Transaction:
        return Transaction(self._service.table, self._spread)

    async def parked(self) -> list[tuple[Job, str]]:
        first = parked_at(0)
        items = await self._service.stretch(first, ItemKey(first.id, END), _EVERYTHING)
        return [(job_of(item), item["error"]["S"]) for item in items]

    async def backlog(self) -> int:
        """Return the number of events in the outbox, by reading all of them."""
        return sum(await asyncio.gather(*[self._service.number(*part) for part in self._parts()]))

    async def lag(self) -> float:
        oldest = await asyncio.gather(*[self._service.stretch(*part, 1) for part in self._parts()])
        made = [milliseconds_of(number_of(address_of(head[0]).sort)) for head in oldest if head]
        return max(0.0, (now_ms() - min(made)) / 1000) if made else 0.0

    def _parts(self) -> list[tuple[ItemKey, ItemKey]]:
        return [(ItemKey(id_, "0"), ItemKey(id_, END)) for id_ in map(outbox_at, range(self._spread))]

    async def close(self) -> None:
        """End the leases and delays of this process's jobs, so that another process can claim them at once."""
        held, self._held = self._held, {}
        await asyncio.gather(*[self._release(seq, spot) for seq, spot in held.items()])

    async def _release(self, seq: int, spot: Spot) -> None:
        with suppress(Unavailable):
            await self._move(seq, new_spot(seq, self._spread), {}, still(part=spot.part, place=spot.place))


def _remember(spots: dict[int, Spot], seq: int, spot: Spot) -> None:
    spots[seq] = spot
    if len(spots) > _REMEMBERED:
        del spots[next(iter(spots))]
