"""Opening or creating the DynamoDB table, with its one index and the item that says how it is laid out."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from botocore.exceptions import ClientError

from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.dynamodb.items import INDEX, LAYOUT, LAYOUT_VERSION, item_of, typed
from shoal.graph.dynamodb.service import Backoff, ConditionFailed, Service
from shoal.graph.dynamodb.upgrade import upgrade
from shoal.graph.dynamodb.writes import ABSENT

SPREAD = 8
"""In so many parts the index is cut, for its throughput: one part takes 1,000 writes a second."""
_LARGEST_SPREAD = 64
_CREATION_SECONDS = 120.0
_KEYS = {"ID": "HASH", "sort": "RANGE"}
_INDEX_KEYS = {"part": "HASH", "place": "RANGE"}


class TableLocation(NamedTuple):
    """The place and the options of a table, as its URL gives them."""

    table: str
    region: str | None
    endpoint: str | None
    spread: int


def parse(url: str) -> TableLocation:
    """`dynamodb://table?region=...&endpoint=...&spread=...`; only the table must be named. Raises `InvalidInput`."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if (
        parts.scheme != "dynamodb"
        or not parts.netloc
        or parts.path.strip("/")
        or options.keys() - TableLocation._fields
    ):
        raise InvalidInput("a table's URL is dynamodb://table?region=...&endpoint=...&spread=...")
    spread = options.get("spread", str(SPREAD))
    if not spread.isdecimal() or not 1 <= int(spread) <= _LARGEST_SPREAD:
        raise InvalidInput(f"spread is a number from 1 to {_LARGEST_SPREAD}")
    # Not `hostname`, which is in lower case: tables' names are not.
    return TableLocation(parts.netloc, options.get("region"), options.get("endpoint"), int(spread))


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
    if typed(item, "version") == 1:
        await upgrade(service, typed(item, "spread"))
    elif typed(item, "version") != LAYOUT_VERSION:
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
