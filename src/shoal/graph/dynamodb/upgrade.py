"""Upgrade of a table that an older Shoal made."""

from __future__ import annotations

import asyncio

from shoal.graph.dynamodb.items import END, LAYOUT, LAYOUT_VERSION, ItemKey, address_of, item_of, link_of, triple_in
from shoal.graph.dynamodb.service import Backoff, ConditionFailed, Service, TransactionOvertaken
from shoal.graph.dynamodb.writes import Transaction, still
from shoal.graph.schema import REMEMBERED

_AT_ONCE = 100


async def upgrade(service: Service, spread: int) -> None:
    """Bring a table of layout 1 to layout 2: tombstones of `REMEMBERED` types are swept apart, and some are listed.

    It may end at any point and begin again, and several processes may do it at once.
    """
    await asyncio.gather(*(_move_tombstones(service, spread, part) for part in range(spread)))
    now = item_of(LAYOUT, {"version": LAYOUT_VERSION, "spread": spread})
    try:
        await service.write("put_item", Item=now, **still(version=1).parameters())
    except ConditionFailed:
        # Another process was first.
        return


async def _move_tombstones(service: Service, spread: int, part: int) -> None:
    after, full = "0", True
    while full:
        page = await service.index(f"dead#{part}", after, END, _AT_ONCE)
        wanted = [address_of(item) for item in page if triple_in(item)[1] in REMEMBERED]
        await asyncio.gather(*(_move_tombstone(service, spread, address) for address in wanted))
        full = len(page) == _AT_ONCE
        after = page[-1]["place"]["S"] + END if page else after


async def _move_tombstone(service: Service, spread: int, address: ItemKey) -> None:
    """Store a tombstone anew, as it is, unless somebody has changed it."""
    patience = Backoff(service.patience)
    while True:
        stored = await service.get([address])
        if not stored or not stored[0].get("part", {}).get("S", "").startswith("dead#"):
            return
        transaction = Transaction(service.table, spread)
        transaction.store_anew(triple_in(stored[0]), link_of(stored[0]))
        try:
            await service.transact(transaction.writes)
        except TransactionOvertaken as error:
            await patience.pause(error)
        else:
            return
