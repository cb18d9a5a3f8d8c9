"""Redis or Valkey: memory, keys and clients of each server."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from redis.exceptions import RedisError

from shoal.graph.redis.topology import ServerAddress, Url, connect, parse
from shoal.health.probes import EngineHealth, Measurement

_SECONDS = 1.0
_MOST_MEMORY = 0.9


async def look(url: str) -> list[EngineHealth]:
    where = parse(url)
    addresses = await _servers(where)
    return list(await asyncio.gather(*[_server(where, address) for address in addresses]))


async def _servers(where: Url) -> tuple[ServerAddress, ...]:
    why: Exception | None = None
    for address in where.addresses:
        async with AsyncExitStack() as stack:
            client = connect(where, address, 1, _SECONDS, _SECONDS)
            stack.push_async_callback(client.aclose)
            try:
                found = await where.look(client, address)
            except (RedisError, OSError) as error:
                why = error
                continue
            if found is not None:
                return found.addresses
    raise ConnectionError(f"no server responds{f': {why}' if why else ''}") from why


async def _server(where: Url, address: ServerAddress) -> EngineHealth:
    name = f"{address.host}:{address.port}"
    client = connect(where, address, 1, _SECONDS, _SECONDS)
    try:
        server_info: dict[str, Any] = await client.info()
        keys: int = await client.dbsize()
    except (RedisError, OSError):
        return EngineHealth("Redis", name, reached=False)
    finally:
        await client.aclose()
    used, most = server_info["used_memory"], server_info.get("maxmemory", 0)
    hits, misses = server_info["keyspace_hits"], server_info["keyspace_misses"]
    return EngineHealth(
        "Valkey" if "valkey_version" in server_info else "Redis",
        name,
        str(server_info.get("valkey_version", server_info["redis_version"])),
        (
            Measurement("memory_bytes", used, 0 < most < used / _MOST_MEMORY),
            *([Measurement("memory_most_bytes", most)] if most else []),
            Measurement("items", keys),
            Measurement("connections", server_info["connected_clients"]),
            Measurement("operations_per_second", server_info["instantaneous_ops_per_sec"]),
            Measurement("cache_hits", hits / (hits + misses) if hits + misses else 1.0),
            Measurement("evicted", server_info["evicted_keys"], server_info["evicted_keys"] > 0),
        ),
    )
