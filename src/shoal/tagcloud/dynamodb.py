"""The tag cloud in a DynamoDB table: that of the graph, or one of its own. Its items: `dynamodb_items`.

A version is written by way of an intent (`dynamodb_intent`). Readers of the head see finished versions only; whoever asks for
what a merge reads first sees to it that no intent is left. An increment is found in the index, which may be a moment late.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Collection, Iterable
from contextlib import suppress

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
from shoal.graph.dynamodb.location import parse
from shoal.graph.dynamodb.service import Capacity, ConditionFailed, Service
from shoal.graph.dynamodb.store import PATIENCE_SECONDS
from shoal.graph.dynamodb.table import prepare
from shoal.graph.dynamodb.writes import ABSENT, still
from shoal.tagcloud.contract import KEEP_CLOUDS, LOCK_SECONDS, AuthorKey, Head, Merge, TagRow, TagRule
from shoal.tagcloud.dynamodb_intent import ALL, Intents
from shoal.tagcloud.dynamodb_items import (
    LOCK,
    RULES,
    author_at,
    author_in,
    day_at,
    done_at,
    inbox_at,
    inbox_spot,
    increment_of,
    part_of,
    piece_at,
    pieces,
    put_together,
    row_at,
    row_in,
    rule_in,
)

_PAGE = 5_000
_CLOCKS_DIFFER_MS = 60_000
"""By more the clocks of two machines never differ, unless one is wrong."""
_FREE = "attribute_not_exists(#until) OR #holder = :holder OR #until <= :now OR #since > :later"


class DynamoCloud:
    """See `contract.CloudStore`. Make one with `open`."""

    def __init__(self, service: Service, spread: int) -> None:
        self._service = service
        self._spread = spread
        self._intents = Intents(service, spread)
        self._under_way: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, url: str, *, patience: float = PATIENCE_SECONDS) -> DynamoCloud:
        """Open or create the table of a URL, as `DynamoGraph.open` does. Raises `InvalidInput` and `Unavailable`."""
        place = parse(url)
        service = await Service.connect(place, patience=patience)
        try:
            return cls(service, await prepare(service, place.spread))
        except BaseException:
            await service.close()
            raise

    @property
    def capacity(self) -> Capacity:
        """The cost of this store's requests so far."""
        return self._service.capacity

    @property
    def round_trips(self) -> int:
        """Return how many requests were answered so far."""
        return self._service.capacity.requests.total()

    async def lock(self, holder: bytes, seconds: float = LOCK_SECONDS) -> bool:
        try:
            await self._take_lock(holder, time.time_ns() // 1_000_000, round(seconds * 1000))
        except ConditionFailed:
            return False
        await self._intents.settled()
        return True

    async def _take_lock(self, holder: bytes, now: int, lasts: int) -> None:
        """By the clocks of those who take it; one that was taken in the future says nothing."""
        values: dict[str, Value] = {
            "holder": holder,
            "now": now,
            "until": now + lasts,
            "later": now + _CLOCKS_DIFFER_MS,
        }
        await self._service.write(
            "update_item",
            Key=LOCK.item(),
            UpdateExpression="SET #holder = :holder, #since = :now, #until = :until",
            ConditionExpression=_FREE,
            ExpressionAttributeNames={f"#{name}": name for name in ("holder", "since", "until")},
            ExpressionAttributeValues={f":{name}": attribute(value) for name, value in values.items()},
        )

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
            # Forgotten meanwhile: there are newer ones.
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
        wanted, after = list(buckets), digits(after_version) + END
        found = await asyncio.gather(
            *[
                self._service.stretch(ItemKey(id_, after), ItemKey(id_, END), ALL)
                for id_ in (f"tagmarks#{bucket}" for bucket in wanted)
            ]
        )
        return {
            bucket: list(put_together(items).values()) for bucket, items in zip(wanted, found, strict=True) if items
        }

    async def tags(self, ids: Collection[int]) -> dict[int, TagRow]:
        await self._intents.settled()
        rows = map(row_in, await self._service.get([row_at(id_, self._spread) for id_ in ids]))
        return {row.id: row for row in rows}

    async def authors(self, keys: Collection[AuthorKey]) -> dict[AuthorKey, int]:
        state = await self._intents.settled()
        wanted = [author_at(key, self._spread) for key in keys if key[1] >= state.before_day]
        return dict(map(author_in, await self._service.get(wanted)))

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
        def rank(row: TagRow) -> tuple[float, int]:
            return (-row.n if window < 0 else -row.heats[window].rank, row.id)

        await self._intents.settled()
        best: list[TagRow] = []
        for part in range(self._spread):
            after = digits(-(2**63))
            while page := await self._rows_after(part, after, _PAGE):
                best = heapq.nsmallest(limit, [*best, *map(row_in, page)], key=rank)
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

    async def write(self, merge: Merge) -> None:
        # A caller that goes away takes only its answer along.
        await self._finished(self._intents.write(merge))

    async def _finished(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.shield(task)

    async def put(self, id_: bytes, body: bytes) -> None:
        first, *others = pieces(body)
        count = 1 + len(others)
        for number, piece in enumerate(others, 1):
            item = item_of(inbox_at(id_, number), {"data": piece, "of": count})
            await self._service.write("put_item", Item=item)
        item = item_of(inbox_at(id_), {"data": first, "of": count}, inbox_spot(id_, time.time_ns(), self._spread))
        with suppress(ConditionFailed):
            await self._service.write("put_item", Item=item, **ABSENT.parameters())

    async def inbox(self, limit: int) -> list[tuple[bytes, bytes]]:
        items = {item["ID"]["S"]: item for item in await self._service.get(await self._lying(limit))}
        more = await self._service.get(
            [piece_at(id_, "body", number) for id_, item in items.items() for number in range(1, typed(item, "of"))]
        )
        bodies: dict[str, list[Item]] = {id_: [item] for id_, item in items.items()}
        for item in more:
            bodies[item["ID"]["S"]].append(item)
        oldest = sorted(items.values(), key=lambda item: str(item["place"]["S"]))
        return [
            (increment_of(item), _joined(parts))
            for item in oldest
            if len(parts := bodies[item["ID"]["S"]]) == typed(item, "of")
        ]

    async def _lying(self, limit: int) -> list[ItemKey]:
        """The first pieces of the oldest increments in the inbox."""
        found = await asyncio.gather(
            *[self._service.index(f"taginbox#{p}", "!", END, limit) for p in range(self._spread)]
        )
        items = sorted((item for part in found for item in part), key=lambda item: str(item["place"]["S"]))
        return [address_of(item) for item in items[:limit]]

    async def discard(self, increments: Collection[bytes]) -> None:
        await self._service.forget(await self._intents.lying(list(increments)))

    async def waiting(self) -> int:
        return len(await self._lying(ALL))

    async def close(self) -> None:
        try:
            if self._under_way:
                await asyncio.wait(self._under_way)
        finally:
            await self._service.close()

    async def _all(self, id_: str, beginning: str) -> list[Item]:
        """All items of one `ID` whose keys begin so."""
        return await self._service.stretch(ItemKey(id_, f"{beginning}#"), ItemKey(id_, f"{beginning}#{END}"), ALL)


def _joined(parts: Iterable[Item]) -> bytes:
    return b"".join(typed(part, "data") for part in sorted(parts, key=lambda part: str(part["sort"]["S"])))
