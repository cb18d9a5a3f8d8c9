"""Open, create or upgrade the DynamoDB table, its one index, and the item that stores the layout version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from shoal.core.errors import Unavailable
from shoal.graph.dynamodb.client import Backoff, ConditionFailed, Service, TransactionOvertaken
from shoal.graph.dynamodb.items import (
    END,
    INDEX,
    LAYOUT,
    LAYOUT_VERSION,
    LOGGED_VERSION,
    Item,
    ItemKey,
    address_of,
    count_at,
    counts_in,
    item_of,
    link_of,
    single_count_at,
    triple_in,
    typed,
)
from shoal.graph.dynamodb.transactions import ABSENT, Transaction, still
from shoal.graph.schema import WITH_HISTORY

_AT_ONCE = 100


async def upgrade(service: Service, spread: int, version: int) -> None:
    """Upgrade a table of the layout `version`.

    Since layout 2, tombstones of `WITH_HISTORY` types have index partitions of their own, and some types have a list of their
    tombstones. Since layout 3, counts that are read together share an item. The upgrade may be interrupted and repeated, and
    several processes may run it concurrently. It begins by storing the new version, so that code of an earlier layout does not
    open the table.
    """
    layout = {"version": LAYOUT_VERSION, "spread": spread}
    with suppress(ConditionFailed):
        begun = item_of(LAYOUT, {**layout, "upgraded_from": version})
        await service.write("put_item", Item=begun, **still(version=version).parameters())
    parts = range(spread)
    if version == 1:
        await asyncio.gather(
            *(_each(service, f"dead#{part}", partial(_move_tombstone, service, spread)) for part in parts)
        )
    await asyncio.gather(*(_each(service, f"count#{part}", partial(_move_count, service, spread)) for part in parts))
    with suppress(ConditionFailed):
        # If this write fails, another process has upgraded the table first.
        await service.write("put_item", Item=item_of(LAYOUT, layout), **still(upgraded_from=version).parameters())


async def _each(service: Service, part: str, move: Callable[[ItemKey], Awaitable[None]]) -> None:
    """Call `move` with the key of every item in an index partition: in sequence for items of one object, otherwise concurrently."""

    async def in_turn(addresses: Iterable[ItemKey]) -> None:
        for address in addresses:
            await move(address)

    after, full = "0", True
    while full:
        page = await service.index(part, after, END, _AT_ONCE)
        by_object = groupby(map(address_of, page), lambda address: address.id)
        await asyncio.gather(*[in_turn(list(addresses)) for _, addresses in by_object])
        full = len(page) == _AT_ONCE
        after = page[-1]["place"]["S"] + END if page else after


async def _move_count(service: Service, spread: int, address: ItemKey) -> None:
    """Move a count into the item for its group of counts. Does nothing if the count has no group or was moved before."""
    patience = Backoff(service.patience)
    while True:
        stored = await service.get([address])
        if not stored:
            return
        counts = dict(counts_in(stored[0]))
        (pair, n), *_ = counts.items()
        if address != single_count_at(pair) or address == count_at(pair):
            return
        transaction = Transaction(service.table, spread)
        transaction.delete(address, still(n=n))
        transaction.count({pair: n})
        try:
            await service.transact(transaction.writes)
        except TransactionOvertaken as error:
            await patience.pause(error)
        else:
            return


async def _move_tombstone(service: Service, spread: int, address: ItemKey) -> None:
    """Move a tombstone to the index partition that version 2 of the table layout uses, by writing it with new index keys.

    Does nothing if it is no longer in its partition of layout 1, because it was changed or moved concurrently.
    """
    if triple_in(address.item())[1] not in WITH_HISTORY:
        return
    patience = Backoff(service.patience)
    while True:
        stored = await service.get([address])
        if not stored or not stored[0].get("part", {}).get("S", "").startswith("dead#"):
            return
        transaction = Transaction(service.table, spread)
        transaction.rewrite_assoc(triple_in(stored[0]), link_of(stored[0]))
        try:
            await service.transact(transaction.writes)
        except TransactionOvertaken as error:
            await patience.pause(error)
        else:
            return


_CREATION_SECONDS = 120.0
_KEYS = {"ID": "HASH", "sort": "RANGE"}
_INDEX_KEYS = {"part": "HASH", "place": "RANGE"}


class Table(NamedTuple):
    """A table that is ready for use. `id` differs for each table, also for one that was restored from a backup of another one."""

    id: str
    layout: Item
    is_new: bool

    @property
    def spread(self) -> int:
        """The number of index partitions per kind, which is fixed when the table is created."""
        spread: int = typed(self.layout, "spread")
        return spread


async def prepare(service: Service, spread: int) -> Table:
    """Create or upgrade the table if necessary. `spread` only applies to a new table.

    Raises `Unavailable` for a table of another application or of a newer Shoal.
    """
    description = await _describe(service)
    if description is None:
        await _create(service)
        description = await _ready(service)
    indexes = description.get("GlobalSecondaryIndexes", [])
    if _keys_of(description) != _KEYS or [_keys_of(index) for index in indexes] != [_INDEX_KEYS]:
        raise Unavailable(f"the table {service.table} was not created by Shoal: name another table")
    layout, is_new = await _layout(service, spread)
    created = description["CreationDateTime"].timestamp()
    return Table(f"{description['TableArn']} {created}", layout, is_new)


async def _layout(service: Service, spread: int) -> tuple[Item, bool]:
    """Return the layout item, and whether it was created."""
    item = item_of(LAYOUT, {"version": LAYOUT_VERSION, "spread": spread})
    try:
        await service.write("put_item", Item=item, **ABSENT.parameters())
    except ConditionFailed:
        (item,) = await service.get([LAYOUT])
    else:
        return item, True
    version = typed(item, "version")
    # A newer Shoal stores the oldest layout version whose code can read its table. Without this attribute, only code of the table's
    # own version can.
    oldest = typed(item, "readable_from") if "readable_from" in item else version
    begun = typed(item, "upgraded_from") if "upgraded_from" in item else version
    if begun < LAYOUT_VERSION and version <= LAYOUT_VERSION:
        await upgrade(service, typed(item, "spread"), begun)
        (item,) = await service.get([LAYOUT])
    elif oldest > LOGGED_VERSION:
        raise Unavailable(
            f"a newer Shoal has written the table {service.table}: this Shoal reads layout versions up to {LOGGED_VERSION}"
        )
    return item, False


async def _describe(service: Service) -> dict[str, Any] | None:
    try:
        answer = await service.call("describe_table", TableName=service.table)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return None
    description: dict[str, Any] = answer["Table"]
    return description


async def _create(service: Service) -> None:
    """Create the table with on-demand billing, so that no capacity has to be planned, and unused capacity costs nothing."""
    names = (*_KEYS, *_INDEX_KEYS)
    try:
        await service.call(
            "create_table",
            TableName=service.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            KeySchema=_schema(_KEYS),
            GlobalSecondaryIndexes=[
                {"IndexName": INDEX, "KeySchema": _schema(_INDEX_KEYS), "Projection": {"ProjectionType": "KEYS_ONLY"}}
            ],
        )
    except ClientError as error:
        # This error code means that another process has created the table first.
        if error.response["Error"]["Code"] != "ResourceInUseException":
            raise


async def _ready(service: Service) -> dict[str, Any]:
    patience = Backoff(_CREATION_SECONDS)
    while (description := await _describe(service)) is None or description["TableStatus"] == "CREATING":
        await patience.pause()
    return description


def _schema(keys: dict[str, str]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()]


def _keys_of(description: dict[str, Any]) -> dict[str, str]:
    return {key["AttributeName"]: key["KeyType"] for key in description["KeySchema"]}
