"""Scans of a DynamoDB table in key order, for checks, exports and moves; and sweeps.

The table has no order over all of its items. The index has an order within each of its `spread` partitions per kind, which are read
concurrently and merged; then the items themselves are read from the table. So a returned row is current. A row that was committed
just now may still be missing from the index, and appears in the next scan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from shoal.graph.contract import AssocRow
from shoal.graph.dynamodb.client import ConditionFailed, Service
from shoal.graph.dynamodb.items import (
    END,
    LINK_KINDS,
    Item,
    ItemKey,
    Pair,
    Value,
    address_of,
    attribute,
    count_at,
    count_name,
    count_spot,
    counts_in,
    digits,
    ended_entry_of,
    node_of,
    number_of,
    row_of,
    time_in_index,
    triple_text,
)
from shoal.graph.dynamodb.transactions import Condition, still
from shoal.graph.schema import ASSOC_TYPES, AnyNode

_SWEPT_AT_ONCE = 1000
_SPARE = 8
"""Number of keys to read per partition beyond the average, because the partitions are not exactly even."""


class DynamoScans:
    def __init__(self, service: Service, spread: int) -> None:
        self._service = service
        self._spread = spread

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        items = await self._page(["object"], digits(after), limit, lambda item: digits(int(item["ID"]["S"])))
        return [node_of(item) for item in items]

    async def assoc_scan(self, after: tuple[int, int, int], limit: int) -> list[AssocRow]:
        items = await self._page(LINK_KINDS, triple_text(after), limit, lambda item: triple_text(row_of(item)[:3]))
        return [row_of(item) for item in items]

    async def count_scan(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int]]:
        # The page may begin and end in the middle of an object's items. Begin with the first item of the object in `after`, and
        # read enough items for `limit` counts without the last object, whose items may be incomplete.
        size = limit + 2 * len(ASSOC_TYPES)
        items = await self._page(["count"], digits(after[0] - 1), size, lambda item: digits(int(item["ID"]["S"])))
        if len(items) == size:
            last = items[-1]["ID"]
            items = [item for item in items if item["ID"] != last]
        rows = sorted((*pair, n) for item in items for pair, n in counts_in(item))
        return [row for row in rows if row[:2] > after][:limit]

    async def _page(self, kinds: Sequence[str], after: str, limit: int, order: Callable[[Item], str]) -> list[Item]:
        """Return `limit` items after a key, or all that are left. Items deleted since the index was read are skipped."""
        parts = [f"{kind}#{p}" for kind in kinds for p in range(self._spread)]
        # An association that was just deleted or added again may be in two partitions of the index. Return it only once.
        page: dict[ItemKey, Item] = {}
        while len(page) < limit:
            needed = limit - len(page)
            places = await self._places(parts, after + END, needed)
            items = await self._service.get([address for _, address in places])
            page |= {address_of(item): item for item in items}
            if len(places) < needed:
                break
            after = places[-1][0]
        return sorted(page.values(), key=order)

    async def _places(self, parts: Sequence[str], after: str, limit: int) -> list[tuple[str, ItemKey]]:
        """Return the first `limit` index entries after `after` over all of these partitions: their sort keys and item keys.

        Fewer are returned only if there are no more.
        """
        share = limit // len(parts) + _SPARE
        found: list[tuple[str, ItemKey]] = []
        read = dict.fromkeys(parts, after)
        """Last position that was read in each partition that has more."""
        asked = list(parts)
        while asked:
            pages = await asyncio.gather(*[self._service.index(part, read[part], END, share) for part in asked])
            for part, page in zip(asked, pages, strict=True):
                found += [(item["place"]["S"], address_of(item)) for item in page]
                if len(page) < share:
                    del read[part]
                else:
                    read[part] = page[-1]["place"]["S"] + END
            found.sort()
            # Skip a partition that was read beyond the last item of the page, because its remaining items come after the page.
            asked = [part for part, place in read.items() if len(found) < limit or place < found[limit - 1][0]]
        return found[:limit]

    async def count_set(self, id1: int, atype: int, n: int) -> None:
        pair = Pair(id1, atype)
        address = count_at(pair)
        spot = count_spot(address, self._spread)
        values: dict[str, Value] = {count_name(pair): n, "part": spot.part, "place": spot.place}
        await self._service.write(
            "update_item",
            Key=address.item(),
            UpdateExpression=f"SET {', '.join(f'#{name} = :{name}' for name in values)}",
            ExpressionAttributeNames={f"#{name}": name for name in values},
            ExpressionAttributeValues={f":{name}": attribute(value) for name, value in values.items()},
        )

    async def sweep(self, before: int, now: int) -> int:
        parts = range(self._spread)
        dead = [self._sweep(f"dead#{p}", END, lambda item: _old_tombstone(item, before)) for p in parts]
        ended = [self._sweep(f"until#{p}", digits(now) + END, _ended_key) for p in parts]
        return sum(await asyncio.gather(*dead, *ended))

    async def sweep_history(self, before: int) -> int:
        parts = range(self._spread)
        past = [self._sweep(f"past#{p}", END, lambda item: _old_tombstone(item, before)) for p in parts]
        return sum(await asyncio.gather(*past))

    async def _sweep(self, part: str, upto: str, judge: Callable[[Item], Condition | None]) -> int:
        swept, after, full = 0, "0", True
        while full:
            page = await self._service.index(part, after, upto, _SWEPT_AT_ONCE)
            done = await asyncio.gather(*[self._forget(item, judge(item)) for item in page])
            swept += sum(done)
            full = len(page) == _SWEPT_AT_ONCE
            after = page[-1]["place"]["S"] + END if page else after
        return swept

    async def _forget(self, item: Item, condition: Condition | None) -> bool:
        if condition is None:
            return False
        address = address_of(item)
        if item["part"]["S"].startswith("past#") and (entry := ended_entry_of(item)):
            # The tombstone is also an entry of the list of tombstones. Delete this entry first: if the process dies before it
            # deletes the tombstone, the next sweep finds the tombstone in the index, and repeats both deletions.
            await self._service.write("delete_item", Key=entry.item())
        try:
            await self._service.write("delete_item", Key=address.item(), **condition.parameters())
        except ConditionFailed:
            return False
        return True


def _old_tombstone(item: Item, before: int) -> Condition | None:
    """Return the condition for deleting a tombstone that was found in the index; None if it is too young to delete.

    The index may be outdated, so the condition is false if the association has changed since.
    """
    time = time_in_index(item)
    return still(time=time, alive=False) if time < before else None


def _ended_key(item: Item) -> Condition:
    return still(until=number_of(item["place"]["S"].partition("#")[0]))
