"""Readings of ranked feeds on Redis: a string each, which goes by itself."""

from __future__ import annotations

import numpy as np

from shoal.graph.redis.client import Nodes, Script, keys_of, shards_of
from shoal.timelines.readings import KEPT_SECONDS

_PREFIX = "r"

_KEEP = Script(
    "readings.keep",
    r"""
-- ARGV: one key, the reading, and seconds.
return {refused, first(1, 'SET', ARGV[1], ARGV[2], 'EX', ARGV[3]) and true}
""",
)

_GET = Script(
    "readings.get",
    r"""
-- ARGV: one key.
return {refused, first(1, 'GET', ARGV[1])}
""",
    grows=False,
)


class RedisReadings:
    """Readings that several processes share. Their ids say their shard, as those of objects do."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def keep(self, id_: int, data: bytes) -> None:
        at = np.array([id_], np.int64)
        key = keys_of(_PREFIX, at).tobytes()
        await self._nodes.each(_KEEP, shards_of(at), lambda _: (key, data, KEPT_SECONDS), batch=1)

    async def get(self, id_: int) -> bytes | None:
        at = np.array([id_], np.int64)
        key = keys_of(_PREFIX, at).tobytes()
        parts = await self._nodes.each(_GET, shards_of(at), lambda _: (key,), batch=1)
        data: bytes | None = parts[-1].result or None
        return data
