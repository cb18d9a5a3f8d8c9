"""State that several processes share: timelines, version tokens, rate limits, live updates and the broker.

It is in Redis and RabbitMQ, or, for several processes on one SQLite file, in the process that owns the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from shoal.app.backends import Backend, scheme_of
from shoal.app.paths import readers_path
from shoal.app.readers import StoreOwner, StoreReader
from shoal.core.errors import InvalidInput
from shoal.graph.cache.change_log import FollowedLog, OwnersLog
from shoal.graph.cache.coherence import VersionTokens
from shoal.graph.failover import Histories, HistoryTokens
from shoal.http.rate_limits import Limiter, SharedLimiter, rules
from shoal.multiprocess.shared_memory import NEWEST, OWNER, POSITION, USED, VERSION, SharedMemory, barrier
from shoal.settings import Settings
from shoal.streaming.contract import Channel
from shoal.timelines.contract import Readings, Timelines
from shoal.timelines.memory import OwnersTimelines, ReadTimelines, SharedRows, TimelineRows

_DAY_SECONDS = 86_400.0

_NODES = Backend("shoal.graph.redis.client", "Nodes", "redis")
_VERSION_TOKENS = Backend("shoal.graph.redis.version_tokens", "RedisVersionTokens", "redis")
_TIMELINES = Backend("shoal.timelines.redis", "RedisTimelines", "redis")
_READINGS = Backend("shoal.timelines.redis", "RedisReadings", "redis")
_LIMITER = Backend("shoal.http.redis_rate_limits", "RedisLimiter", "redis")
_CHANNEL = Backend("shoal.streaming.redis", "RedisChannel", "redis")
_BROKERS: Mapping[str, Backend] = dict.fromkeys(
    ("amqp", "amqps"), Backend("shoal.outbox.rabbitmq", "RabbitOutbox", "rabbitmq")
)
_SHARED = dict.fromkeys(("redis", "rediss", "redis+cluster", "rediss+cluster"), _NODES)
_SHOWN = "memory://, redis://host:port, redis+cluster://host:port,host:port"


@dataclass(frozen=True, slots=True)
class Sharing:
    """The components that all processes share."""

    timelines: Timelines
    readings: Readings
    versions: VersionTokens
    limiter: Limiter
    channel: Channel
    nodes: Any
    """The Redis servers that hold the state of all these components."""

    @property
    def round_trips(self) -> int:
        """Number of Redis scripts run so far."""
        return int(self.nodes.calls)


async def open_sharing(settings: Settings, stack: AsyncExitStack, histories: Histories) -> Sharing | None:
    """Open the shared components of the setting `timelines`; None if this process keeps its own.

    Their contents become invalid when `histories` records that a standby has taken over from the server of a store.
    """
    scheme = scheme_of(settings.timelines, "timelines", {"memory": None, **_SHARED}, _SHOWN)
    if scheme == "memory":
        return None
    try:
        nodes = await _NODES.load().open(settings.timelines)
    except ValueError as error:
        raise InvalidInput(f"timelines: {error}", field="timelines") from error
    stack.push_async_callback(nodes.close)
    tokens = _VERSION_TOKENS.load()(nodes)
    stack.push_async_callback(tokens.close)
    versions = HistoryTokens(tokens, histories)
    idle = settings.timeline_idle_days * _DAY_SECONDS
    timelines = _TIMELINES.load()(nodes, settings.timeline_length, idle_seconds=idle, mark=lambda: histories.mark)
    stack.push_async_callback(timelines.close)
    channel = _CHANNEL.load()(nodes)
    stack.push_async_callback(channel.close)
    return Sharing(
        timelines, _READINGS.load()(nodes), versions, _LIMITER.load()(nodes, rules(settings)), channel, nodes
    )


async def open_broker(settings: Settings, stack: AsyncExitStack, *, taking: bool = True) -> Any:
    """Open the broker of the settings, an outbox that can be published to; None without one.

    `taking`: whether this process runs jobs.
    """
    if not settings.broker:
        return None
    scheme = scheme_of(settings.broker, "broker", _BROKERS, "amqp://user:password@host:port/")
    broker = await _BROKERS[scheme].load().open(settings.broker, taking=taking)
    stack.push_async_callback(broker.close)
    return broker


@dataclass(frozen=True, slots=True)
class HostProcess:
    """One of several server processes on a host: the `owner` of the store, or a `reader`."""

    memory: SharedMemory
    slot: int
    limiter: SharedLimiter
    owner: StoreOwner | None
    reader: StoreReader | None = field(default=None)

    def log(self) -> OwnersLog | FollowedLog:
        """Return the change log: in the owner process to write it, in a reader process to read it."""
        if self.reader is None:
            return OwnersLog(self.memory, POSITION, barrier)
        return FollowedLog(self.memory, POSITION, self.reader.alive)

    def timelines(self) -> OwnersTimelines | ReadTimelines:
        """Return the timelines, which are read-only in a reader process. A new owner discards those of the previous owner."""
        if self.reader is None:
            return OwnersTimelines(self.memory.length, self._rows())
        return ReadTimelines(self.memory.length, self._rows(), self.reader.warm)

    def _rows(self) -> SharedRows:
        memory = self.memory
        rows = TimelineRows(memory.rings, memory.next, memory.floors, memory.members, memory.read_at)
        return SharedRows(rows, memory.filled, memory.words, VERSION, NEWEST, USED, barrier)


def open_host_process(settings: Settings, memory: SharedMemory, slot: int) -> HostProcess:
    """Return the components of process number `slot`. Raises `InvalidInput` unless the store is one SQLite file."""
    path = readers_path(settings)
    if path is None:
        raise InvalidInput("store: reader processes require a store in one SQLite file", field="store")
    limiter = SharedLimiter(rules(settings), memory.counts, slot)
    if slot == OWNER:
        return HostProcess(memory, slot, limiter, StoreOwner(memory, path))
    return HostProcess(memory, slot, limiter, None, StoreReader(memory, slot, path))
