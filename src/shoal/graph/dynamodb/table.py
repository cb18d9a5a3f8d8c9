"""Opening or creating the DynamoDB table, with its one index and the item that says how it is laid out."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from shoal.core.errors import Unavailable
from shoal.graph.dynamodb.items import INDEX, LAYOUT, LAYOUT_VERSION, item_of, typed
from shoal.graph.dynamodb.service import Backoff, ConditionFailed, Service
from shoal.graph.dynamodb.upgrade import upgrade
from shoal.graph.dynamodb.writes import ABSENT

_CREATION_SECONDS = 120.0
_KEYS = {"ID": "HASH", "sort": "RANGE"}
_INDEX_KEYS = {"part": "HASH", "place": "RANGE"}


async def prepare(service: Service, spread: int) -> int:
    """See to it that the table is there; into how many parts it is cut: as it was made, whatever is asked for now.

    Raises `Unavailable` for a table of somebody else's, or of a newer Shoal.
    """
    description = await _describe(service)
    if description is None:
        await _create(service)
        description = await _ready(service)
    if _keys_of(description) != _KEYS or [_keys_of(index) for index in _indexes(description)] != [_INDEX_KEYS]:
        raise Unavailable(f"{service.table} is a table, but not Shoal's: name another one")
    return await _layout(service, spread)


async def _layout(service: Service, spread: int) -> int:
    item = item_of(LAYOUT, {"version": LAYOUT_VERSION, "spread": spread})
    try:
        await service.write("put_item", Item=item, **ABSENT.parameters())
    except ConditionFailed:
        (item,) = await service.get([LAYOUT])
    version = typed(item, "version")
    # A newer Shoal says from which layout on its table may be used; one that says nothing means its own.
    oldest = typed(item, "readable_from") if "readable_from" in item else version
    if version == 1:
        await upgrade(service, typed(item, "spread"))
    elif version < LAYOUT_VERSION or oldest > LAYOUT_VERSION:
        raise Unavailable(f"the table {service.table} is of another version; this Shoal reads {LAYOUT_VERSION}")
    stored: int = typed(item, "spread")
    return stored


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
    """Paid by request: no capacity to plan, and none that stands idle."""
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
        # Another process was first.
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


def _indexes(description: dict[str, Any]) -> list[dict[str, Any]]:
    indexes: list[dict[str, Any]] = description.get("GlobalSecondaryIndexes", [])
    return indexes
