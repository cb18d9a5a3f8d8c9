"""Rate limits shared by all processes, counted by Redis with its clock.

While Redis is unavailable, each process counts by itself: it is better to exceed a limit than to refuse all requests.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from zlib import crc32

import numpy as np

from shoal.core.errors import Unavailable
from shoal.core.ids import shard_of
from shoal.core.placement import SHARDS
from shoal.graph.redis.client import Nodes, Script
from shoal.http.rate_limits import MemoryLimiter, RateKey, RateRule, RateWindow
from shoal.throttled_log import ThrottledLog

_log = logging.getLogger(__name__)

_AWAY_SECONDS = 1.0

_TAKE = Script.load(__package__, "limits.take")
_GIVE_BACK = Script.load(__package__, "limits.give_back", grows=False)


class _RedisWindow(RateWindow):
    __slots__ = ()


class RedisLimiter:
    """A `Limiter` that is exact across processes."""

    def __init__(self, nodes: Nodes, rules: Mapping[str, RateRule]) -> None:
        self._nodes = nodes
        self._rules = dict(rules)
        self._alone = MemoryLimiter(rules)
        self.classes = frozenset(rules)
        # `_alone`, which replaces this limiter while Redis is unavailable, counts refused requests in the same dictionary.
        self.refused = self._alone.refused
        self._away_until = 0.0
        self._outage = ThrottledLog(_log)

    async def take(self, key: RateKey, cost: int = 1) -> RateWindow | None:
        rule = self._rules.get(key.limit_class)
        if rule is None or not rule.limit:
            return None
        if time.monotonic() >= self._away_until:
            try:
                return await self._take(key, rule, cost)
            except Unavailable:
                # After this timeout, count in this process for a while, so that other requests do not wait for Redis.
                self._away_until = time.monotonic() + _AWAY_SECONDS
                self._outage.warning("shared rate limits are unreachable: each process counts on its own")
        return await self._alone.take(key, cost)

    async def give_back(self, key: RateKey, window: RateWindow) -> None:
        """Undo the count of a request where it was counted: in Redis or in this process.

        If Redis is unavailable, the request stays counted, so the caller may be refused one request too early.
        """
        if not isinstance(window, _RedisWindow):
            await self._alone.give_back(key, window)
        elif time.monotonic() >= self._away_until:
            shard, name = _shard_and_name(key)
            counted = b"%b:%d" % (name, window.reset)
            with contextlib.suppress(Unavailable):
                await self._nodes.each(_GIVE_BACK, np.array([shard], np.int64), lambda _: (counted,), batch=1)

    async def _take(self, key: RateKey, rule: RateRule, cost: int) -> RateWindow:
        shard, name = _shard_and_name(key)
        parts = await self._nodes.each(
            _TAKE, np.array([shard], np.int64), lambda _: (name, rule.limit, rule.seconds, cost), batch=1
        )
        used, taken, reset, left = parts[-1].result
        if not taken:
            self.refused[key.limit_class] += 1
        wait = 0.0 if taken else max(1.0, left / 1000)
        return _RedisWindow(rule.limit, max(0, rule.limit - used), reset, wait)


def _shard_and_name(key: RateKey) -> tuple[int, bytes]:
    """Return the shard whose Redis server has the count, and the name of the count without its window."""
    shard = shard_of(key.who) if isinstance(key.who, int) else crc32(key.who.encode()) % SHARDS
    return shard, f"r:{{{shard:04x}}}:{key.limit_class}:{key.who}".encode()
