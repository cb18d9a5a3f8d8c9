"""DynamoDB: the size of the table and its number of items, which the service updates every six hours."""

from __future__ import annotations

from shoal.graph.dynamodb.client import Service, parse
from shoal.health.probes import EngineHealth, Measurement

_SECONDS = 2.0


async def look(url: str) -> list[EngineHealth]:
    """Return size and number of items of the DynamoDB table at `url`. Raises `Unavailable`."""
    location = parse(url)
    service = await Service.connect(location, patience=_SECONDS)
    try:
        description = (await service.call("describe_table", TableName=location.table))["Table"]
    finally:
        await service.close()
    return [
        EngineHealth(
            "DynamoDB",
            location.table,
            measurements=(
                Measurement("stored_bytes", description["TableSizeBytes"]),
                Measurement("items", description["ItemCount"]),
            ),
        )
    ]
