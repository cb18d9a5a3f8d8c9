"""State that several processes share: timelines, version tokens, rate limits, live updates and the broker.

It is in Redis and RabbitMQ, or, for several processes on one SQLite file, in the process that owns the file. On DynamoDB, processes
share timelines and live updates: a version token would cost as much to read as the object, and each process has its own rate
limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from shoal.app.backends import Backend, scheme_of
from shoal.app.paths import readers_path, store_urls
from shoal.app.readers import StoreOwner, StoreReader
from shoal.core.errors import InvalidInput
from shoal.graph.cache.change_log import FollowedLog, OwnersLog
from shoal.graph.cache.coherence import UnsharedTokens, VersionTokens
from shoal.graph.failover import Histories, HistoryTokens
from shoal.graph.shard_map import shown_url
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
_DYNAMO_TIMELINES = Backend("shoal.timelines.dynamodb", "DynamoTimelines", "dynamodb")
_DYNAMO_READINGS = Backend("shoal.timelines.dynamodb", "DynamoReadings", "dynamodb")
_DYNAMO_CHANNEL = Backend("shoal.streaming.dynamodb", "DynamoChannel", "dynamodb")
_BROKERS: Mapping[str, Backend] = dict.fromkeys(
    ("amqp", "amqps"), Backend("shoal.outbox.rabbitmq", "RabbitOutbox", "rabbitmq")
)
_SHARED = dict.fromkeys(("redis", "rediss", "redis+cluster", "rediss+cluster"), _NODES)
_TIMELINES_OF = {"memory": None, "dynamodb": _DYNAMO_TIMELINES, **_SHARED}
_SHOWN = "memory://, redis://host:port, redis+cluster://host:port,host:port, dynamodb://table"


@dataclass(frozen=True, slots=True)
class Sharing:
    """The state that all processes of a network share in Redis or DynamoDB."""

    timelines: Timelines
    readings: Readings
    versions: VersionTokens
    limiter: Limiter | None
    """None if each process counts requests on its own."""
    channel: Channel
    sent: Callable[[], int]

    @property
    def round_trips(self) -> int:
        return self.sent()


async def open_sharing(settings: Settings, stack: AsyncExitStack, histories: Histories) -> Sharing | None:
    """Open the state that processes share, at the URL in the setting `timelines`; None if each process has its own in memory.

    The shared state becomes invalid when `histories` records that a standby has taken over from the server of a store.
    """
    scheme = check_timelines(settings)
    if scheme == "memory":
        return None
    return await (_open_dynamodb(settings, stack) if scheme == "dynamodb" else _open_redis(settings, stack, histories))


def check_timelines(settings: Settings) -> str:
    """Return the scheme of the setting `timelines`. Raises `InvalidInput` if the scheme is unknown or does not suit the store."""
    scheme = scheme_of(settings.timelines, "timelines", _TIMELINES_OF, _SHOWN)
    if scheme == "dynamodb":
        for url in store_urls(settings):
            if urlsplit(url).scheme != scheme:
                raise InvalidInput(
                    f"timelines: dynamodb://table requires a store on DynamoDB (got {shown_url(url)}):"
                    " use memory:// or redis://host:port",
                    field="timelines",
                )
            if urlsplit(url).netloc == urlsplit(settings.timelines).netloc:
                raise InvalidInput(
                    f"timelines: the table {urlsplit(url).netloc} belongs to the store: name another table",
                    field="timelines",
                )
    return scheme


async def _open_redis(settings: Settings, stack: AsyncExitStack, histories: Histories) -> Sharing:
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
    limiter = _LIMITER.load()(nodes, rules(settings))
    return Sharing(timelines, _READINGS.load()(nodes), versions, limiter, channel, lambda: int(nodes.calls))


async def _open_dynamodb(settings: Settings, stack: AsyncExitStack) -> Sharing:
    idle, backend = settings.timeline_idle_days * _DAY_SECONDS, _DYNAMO_TIMELINES.load()
    try:
        timelines = await backend.open(settings.timelines, settings.timeline_length, idle_seconds=idle)
    except InvalidInput as error:
        raise InvalidInput(f"timelines: {error}", field="timelines") from error
    stack.push_async_callback(timelines.close)
    table = timelines.service
    channel = _DYNAMO_CHANNEL.load()(table)
    stack.push_async_callback(channel.close)
    readings = _DYNAMO_READINGS.load()(table)
    return Sharing(timelines, readings, UnsharedTokens(), None, channel, table.capacity.requests.total)


async def open_broker(settings: Settings, stack: AsyncExitStack, *, taking: bool = True) -> Any:
    """Open the broker that the settings name, an outbox to which events can be published; None if no broker is configured.

    `taking` means that this process runs jobs.
    """
    if not settings.broker:
        return None
    scheme = scheme_of(settings.broker, "broker", _BROKERS, "amqp://user:password@host:port/")
    broker = await _BROKERS[scheme].load().open(settings.broker, taking=taking, queues=settings.broker_queues)
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
        """Return the log of changes to the store: writable in the owner process, read-only in a reader process."""
        if self.reader is None:
            return OwnersLog(self.memory, POSITION, barrier)
        return FollowedLog(self.memory, POSITION, self.reader.alive)

    def timelines(self) -> OwnersTimelines | ReadTimelines:
        """Return the timelines, read-only in a reader process. A new owner process discards the timelines of its predecessor."""
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
