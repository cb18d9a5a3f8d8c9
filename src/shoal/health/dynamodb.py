"""DynamoDB: the size of the table and its number of items, which the service updates every six hours."""

from __future__ import annotations

from shoal.graph.dynamodb.client import Service, parse
from shoal.health.probes import EngineVitals, Vital

_SECONDS = 2.0


async def look(url: str) -> list[EngineVitals]:
    """Return the figures of a table. Raises `Unavailable`."""
    place = parse(url)
    service = await Service.connect(place, patience=_SECONDS)
    try:
        told = (await service.call("describe_table", TableName=place.table))["Table"]
    finally:
        await service.close()
    return [
        EngineVitals(
            "DynamoDB",
            place.table,
            vitals=(Vital("stored_bytes", told["TableSizeBytes"]), Vital("items", told["ItemCount"])),
        )
    ]
