"""A RabbitMQ connection that reconnects, confirmed publishing, queue depth, and worker liveness.

While the broker is unreachable, every call raises `Unavailable`. Nothing is buffered: the publisher keeps its message.
A URL may name several nodes of a cluster. The broker reports only queued messages, so a liveness query asks each
consumer which messages it has in progress. RabbitMQ still counts the consumers of a dead node, so consumers that stay
silent are ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import aiormq
import msgspec
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from aiormq.exceptions import (
    AuthenticationError,
    ChannelAccessRefused,
    ConnectionNotAllowed,
    DeliveryError,
    ProbableAuthenticationError,
)

from shoal.core.errors import InvalidInput, Unavailable
from shoal.graph.connection_errors import (
    MisconfiguredEngine,
    UnreachableEngine,
    address_of,
    chain,
    check_file,
    checked_url,
    is_lasting,
    read_authorities,
    speaks_tls,
    why,
)
from shoal.tasks import cancel

_OPTIONS = {"cafile", "certfile", "keyfile"}
"""URL options of aiormq that name PEM files: trusted certificates, the client's certificate, and its key. Only for `amqps`."""


def url_of_each(url: str, *, heartbeat: int) -> list[str]:
    """Return a URL for each node of `amqp(s)://user:password@host:port,host:port/vhost?cafile=FILE`, for the client library.

    Raises `InvalidInput` for an invalid URL; the message does not contain the login.
    """
    parts = checked_url(url, "broker")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in ("amqp", "amqps") or not parts.netloc.rpartition("@")[2]:
        raise InvalidInput("broker: expected amqp://user:password@host:port/vhost", field="broker")
    if options.keys() - _OPTIONS or (options and parts.scheme != "amqps"):
        raise InvalidInput(
            f"broker: the only URL options are {', '.join(sorted(_OPTIONS))}, and they require amqps://", field="broker"
        )
    for name, file in options.items():
        (read_authorities if name == "cafile" else check_file)(file, "broker")
    login, at, hosts = parts.netloc.rpartition("@")
    query = f"{parts.query}{'&' if parts.query else ''}heartbeat={heartbeat}"
    return [parts._replace(netloc=f"{login}{at}{host}", query=query).geturl() for host in hosts.split(",")]


T = TypeVar("T")
Prepare = Callable[[AbstractConnection], Awaitable[Sequence[AbstractChannel]]]

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)
_LOST = ("error when creating transport", "Cancelling cause reader exited", "Unexpected connection close")
# `Link` logs each of these errors in one line with its reason. aiormq would log a traceback for every connection.
logging.getLogger("aiormq.connection").addFilter(lambda record: not str(record.msg).startswith(_LOST))

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_PATIENCE_SECONDS = 30.0
"""Seconds to wait for a reply, after which the broker counts as unavailable."""
_REFUSED_SECONDS = 1.0
"""Seconds after which a queue that refuses every message is tried over a new connection. The interval doubles each time."""
_LONGEST_REFUSED_SECONDS = 60.0
_CONNECT_SECONDS = 5.0
_GOODBYE_SECONDS = 2.0
_HEARTBEAT_SECONDS = 10
"""Seconds between two heartbeats. A connection that breaks silently is detected after three of them."""
_AT_ONCE = 256
"""Number of messages between two waits for confirmation. A larger number is not faster."""
_REFUSALS = (AuthenticationError, ChannelAccessRefused, ConnectionNotAllowed, ProbableAuthenticationError)
_PORT = 5672
_WANTS_TLS = "the server requires TLS: use amqps://"


class _Refusing(NamedTuple):
    """The time (event loop clock) at which to reconnect if a queue still refuses messages, and the backoff in seconds."""

    until: float
    seconds: float


class Link:
    """A connection to the broker that reconnects after an error. `prepare` opens its channels after each connect."""

    def __init__(self, url: str, prepare: Prepare, lost: Callable[[], None]) -> None:
        self._urls = url_of_each(url, heartbeat=_HEARTBEAT_SECONDS)
        """A URL for each node of the broker. The next attempt uses the first URL."""
        self._prepare = prepare
        self._lost = lost
        self._out: aiormq.Channel | None = None
        self._ended: asyncio.Future[None] | None = None
        self._attempted = asyncio.Event()
        self._renewal = asyncio.Event()
        self._opened = False
        self._refusal: MisconfiguredEngine | None = None
        """The permanent refusal of the broker in the last attempt; None if there was none."""
        self._last_reason = ""
        self._refusing: dict[tuple[str, str], _Refusing] = {}
        """Queues that refuse messages, by exchange and routing key."""
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start connecting, and return after the first attempt. If the broker is unreachable, further attempts follow.

        Raises `MisconfiguredEngine` if the broker refuses the login, or its certificate is not trusted.
        """
        self._task = asyncio.create_task(self._keep_connected(), name="shoal-broker")
        await self._attempted.wait()
        if self._refusal is not None:
            await self.close()
            raise self._refusal
        self._opened = True

    async def close(self) -> None:
        await cancel(self._task)

    def renew(self) -> None:
        """Reconnect, so that `prepare` creates all channels and consumers again."""
        self._renewal.set()

    @property
    def up(self) -> bool:
        return self._ended is not None

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which uses a channel of this connection.

        Raises `Unavailable` if the connection breaks first. The client library alone would leave some tasks waiting and
        cancel others.
        """
        task, over = asyncio.ensure_future(work), self._ended
        try:
            if over is not None:
                await asyncio.wait((task, over), timeout=_PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if not (task.done() or over.done()):
                    # Without a new connection, other tasks that use this channel would wait for ever.
                    self.renew()
        finally:
            if not task.done():
                task.cancel()
        (answer,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(answer, BaseException):
            raise Unavailable("the message broker is unreachable or refused a message") from answer
        return answer

    async def publish(self, queue: str, bodies: Sequence[bytes], *, exchange: str = "") -> None:
        """Publish messages, and return when the broker has all of them on disk.

        If this raises `Unavailable`, the broker may have some of the messages.

        With an exchange, `queue` is the routing key, and the messages are then on disk in every queue that the key is
        bound to.
        """
        for start in range(0, len(bodies), _AT_ONCE):
            await self.ask(self._publish(exchange, queue, bodies[start : start + _AT_ONCE]))

    async def _publish(self, exchange: str, queue: str, bodies: Sequence[bytes]) -> None:
        if self._out is None:
            raise Unavailable("the message broker is unreachable")
        confirmed = await asyncio.gather(
            *[_publish_one(self._out, exchange, queue, body) for body in bodies], return_exceptions=True
        )
        self._look_for_refusals((exchange, queue), confirmed)
        for answer in confirmed:
            if isinstance(answer, BaseException):
                raise answer

    def _look_for_refusals(self, target: tuple[str, str], answers: Sequence[object]) -> None:
        """Reconnect if a queue was deleted, or seems to refuse every message.

        The channel may be the cause. If the node that leads a quorum queue dies and another node's channel publishes
        there for the first time before the queue has a new leader, RabbitMQ 3.10 refuses this message and all later
        ones on the channel until the dead node returns (`rabbit_fifo_client:enqueue/3`).
        """
        now = asyncio.get_running_loop().time()
        if any(isinstance(answer, aiormq.PublishError) for answer in answers):
            self.renew()
        elif any(isinstance(answer, DeliveryError) for answer in answers):
            refusing = self._refusing.setdefault(target, _Refusing(now + _REFUSED_SECONDS, _REFUSED_SECONDS))
            if now >= refusing.until:
                _log.warning("the message broker accepts no messages for %s: reconnecting", "".join(target))
                seconds = min(2 * refusing.seconds, _LONGEST_REFUSED_SECONDS)
                self._refusing[target] = _Refusing(now + seconds, seconds)
                self.renew()
        elif not any(isinstance(answer, BaseException) for answer in answers):
            self._refusing.pop(target, None)

    async def _keep_connected(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._connect_once()
                pause = _FIRST_PAUSE_SECONDS
            except Exception as error:  # noqa: BLE001  # whatever it was, the next attempt may succeed
                await self._log_failure(error)
            self._attempted.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _log_failure(self, error: Exception) -> None:
        """Log why an attempt to connect failed, unless the previous attempt failed for the same reason.

        If the first attempt fails permanently, `open` raises the error instead.
        """
        url = self._urls[0]
        address, reason = address_of(url), await _reason(url, error)
        self._refusal = None
        if reason == _WANTS_TLS or is_lasting(error) or isinstance(error, _REFUSALS) or "OpenOk" in str(error):
            self._refusal = MisconfiguredEngine("the message broker is misconfigured")
            self._refusal.__cause__ = UnreachableEngine(f"{address}: {reason}")
        if self._last_reason != reason and (self._opened or self._refusal is None):
            _log.warning("the message broker is unreachable: %s: %s", address, reason)
            self._last_reason = reason
        self._urls.append(self._urls.pop(0))

    async def _connect_once(self) -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await aiormq.connect(self._urls[0])
        self._renewal.clear()
        stale = asyncio.ensure_future(self._renewal.wait())
        over = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                out = cast("aiormq.Channel", await connection.channel())
                channels = [out, *await self._prepare(connection)]
            self._out, self._ended, self._refusal, self._last_reason = out, over, None, ""
            self._attempted.set()
            ends = [stale, connection.closing, *[channel.closing for channel in channels]]
            ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            errors = [task.exception() for task in ended if not task.cancelled()]
            reason = next((f": {why(error)}" for error in errors if isinstance(error, Exception)), "")
            _log.warning("lost the connection to the message broker%s", reason)
        finally:
            self._out = self._ended = None
            over.set_result(None)
            stale.cancel()
            self._lost()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await connection.close(ConnectionError("closed"))


async def _publish_one(channel: aiormq.Channel, exchange: str, queue: str, body: bytes) -> None:
    # Do not call aiormq's publish method: it draws a random message id, and waits for the socket for each message. This saves a
    # fifth of the time.
    properties = aiormq.spec.Basic.Properties(delivery_mode=2, message_id=str(next(_numbers)))
    # Set `mandatory`, so that the broker returns a message to a deleted queue instead of dropping it silently.
    await channel.basic_publish(
        body, exchange=exchange, routing_key=queue, properties=properties, mandatory=True, wait=False
    )


async def _reason(url: str, error: Exception) -> str:
    parts = urlsplit(url)
    if "Connection.OpenOk" in str(error):
        # RabbitMQ closes the connection without a reply, and aiormq does not pass on RabbitMQ's error message.
        return f"there is no virtual host {unquote(parts.path[1:]) or '/'!r}, or the user has no access to it"
    # A RabbitMQ node that expects TLS closes a plain-text connection without a reply.
    never_there = any(isinstance(cause, ConnectionRefusedError | TimeoutError) for cause in chain(error))
    plain = parts.scheme == "amqp" and not isinstance(error, _REFUSALS) and not never_there
    if plain and parts.hostname and await speaks_tls(parts.hostname, parts.port or _PORT):
        return _WANTS_TLS
    return why(error)


_BROKER_PATIENCE_SECONDS = 0.25
"""Seconds that RabbitMQ waits for a quorum queue before it reports an empty queue (`rabbit_quorum_queue:stat/1`)."""
_TRIES = 40
"""Number of attempts to read the depth of a queue while the broker is busy: ten seconds in total."""


class Depth(NamedTuple):
    messages: int
    consumers: int


async def depth_of(channel: AbstractChannel, queue: str) -> Depth:
    """Return the depth of a queue. Raises `Unavailable` if the broker is too busy to report it.

    RabbitMQ reports a busy queue as empty, without messages and consumers. If the queue seems empty and the reply took
    as long as the broker waits for a queue, the reply is ignored and the query repeated.
    """
    loop = asyncio.get_running_loop()
    for _ in range(_TRIES):
        asked_at = loop.time()
        declared = await channel.queue_declare(queue, passive=True)
        depth = Depth(declared.message_count or 0, declared.consumer_count or 0)
        if any(depth) or loop.time() - asked_at < _BROKER_PATIENCE_SECONDS:
            return depth
    raise Unavailable(f"the message broker is too busy to report the length of {queue}")


_REPLIES = "amq.rabbitmq.reply-to"
_REPLY_SECONDS = 1.0
"""Seconds after which a process that has not replied counts as busy or stuck."""
_GONE_SECONDS = 35.0
"""Seconds of silence after which a consumer does not count as a live process: three heartbeats, and a margin."""
_FORGOTTEN_SECONDS = 60.0
"""If the pause between two queries is longer, the silence before the pause is ignored."""


class Replies(NamedTuple, Generic[T]):
    """The replies to a liveness query, and the number of consumers that did not reply but may still be processing."""

    answers: list[T]
    silent: int


class _Silence(NamedTuple):
    """The number of consumers that did not reply, the time since when it is unchanged, and the time of the last query."""

    many: int
    since: float
    seen: float


class LivenessQuery(Generic[T]):
    """Sends liveness queries and replies, on a channel of its own.

    `own` returns this process's reply; if it is None, this process only queries.
    """

    def __init__(
        self, exchange: str, kind: type[T], own: Callable[[], T] | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._exchange = exchange
        self._own = own
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._channel: AbstractChannel | None = None
        self._answers: asyncio.Queue[tuple[str | None, T]] = asyncio.Queue()
        self._lock = asyncio.Lock()
        self._questions = 0
        self._clock = clock
        self._silence = _Silence(0, 0.0, 0.0)

    async def prepare(self, channel: AbstractChannel) -> None:
        await channel.basic_consume(_REPLIES, self._on_reply, no_ack=True)
        if self._own is not None:
            queue = (await channel.queue_declare("", exclusive=True, auto_delete=True)).queue or ""
            await channel.queue_bind(queue, self._exchange)
            await channel.basic_consume(queue, self._on_query, no_ack=True)
        self._channel = channel

    async def send(self, expected: int) -> Replies[T]:
        """Query `expected` processes and return their replies. There are fewer replies if some processes are silent."""
        async with self._lock:
            self._questions += 1
            question = str(self._questions)
            found: list[T] = []
            if expected and self._channel is not None:
                properties = aiormq.spec.Basic.Properties(reply_to=_REPLIES, correlation_id=question)
                await self._channel.basic_publish(b"", exchange=self._exchange, properties=properties)
                await self._collect_replies(question, expected, found)
            return Replies(found, self._silent_processes(max(0, expected - len(found))))

    def _silent_processes(self, silent: int) -> int:
        """Return how many of the consumers that did not reply may belong to live processes."""
        now, before = self._clock(), self._silence
        known = silent == before.many and now - before.seen < _FORGOTTEN_SECONDS
        self._silence = _Silence(silent, before.since if known else now, now)
        return 0 if now - self._silence.since >= _GONE_SECONDS else silent

    async def _collect_replies(self, question: str, expected: int, found: list[T]) -> None:
        try:
            async with asyncio.timeout(_REPLY_SECONDS):
                while len(found) < expected:
                    answered, answer = await self._answers.get()
                    if answered == question:
                        found.append(answer)
                    else:
                        # A late reply is a sign of life.
                        self._silence = _Silence(0, 0.0, 0.0)
        except TimeoutError:
            return

    async def _on_reply(self, message: DeliveredMessage) -> None:
        properties = message.header.properties
        self._answers.put_nowait((properties.correlation_id, self._decoder.decode(message.body)))

    async def _on_query(self, message: DeliveredMessage) -> None:
        asked = message.header.properties
        if self._own is not None and asked.reply_to:
            properties = aiormq.spec.Basic.Properties(correlation_id=asked.correlation_id)
            body = msgspec.msgpack.encode(self._own())
            await message.channel.basic_publish(body, routing_key=asked.reply_to, properties=properties)
