"""Metrics endpoint of a process for Prometheus, on its own port, if the settings name one.

The page is generated for each scrape from the counters of the process. The HTTP server accepts few connections, each with a
deadline.

| request | response |
|---|---|
| `GET /metrics` | the page |
| another path | 404 |
| another method | 405 |
| not HTTP | 400 |
| all connections in use | 503, or a close if as many again are being refused |
| deadline for sending or reading exceeded | a close |
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from itertools import chain

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from shoal.app.network import Network
from shoal.health.probes import EngineWatch
from shoal.health.readiness import Readiness
from shoal.monitoring.collectors import (
    DeliveryLag,
    ProcessPauses,
    backup_metrics,
    delivery_metrics,
    engine_metrics,
    holding_metrics,
    pauses_watched,
    process_metrics,
    request_metrics,
    webhook_metrics,
)
from shoal.multiprocess.supervisor import process_slot
from shoal.server import RunningApp, listen
from shoal.settings import Settings
from shoal.tasks import cancel

_log = logging.getLogger(__name__)

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEAD_BYTES = 8_192
_END = b"\r\n\r\n"


@asynccontextmanager
async def answering(
    listener: socket.socket, page: Callable[[], Awaitable[bytes]], *, most: int = 8, seconds: float = 10.0
) -> AsyncIterator[None]:
    """Serve requests on a listening socket until the block ends. Then close the socket and every connection.

    At most `most` connections are open concurrently, each for at most `seconds`.
    """
    connections = _Connections(page, most, seconds)
    server = await asyncio.start_server(connections.meet, sock=listener, limit=_HEAD_BYTES)
    try:
        yield
    finally:
        server.close()
        await connections.close()


class _Connections:
    def __init__(self, page: Callable[[], Awaitable[bytes]], most: int, seconds: float) -> None:
        self._page = page
        self._most = most
        self._seconds = seconds
        self._taken: set[asyncio.Task[None]] = set()

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        others = len(self._taken)
        if others >= 2 * self._most:
            writer.transport.abort()
            return
        answered = self._answered if others < self._most else _refused
        task = asyncio.create_task(self._meet(reader, writer, answered), name="shoal-metrics-client")
        self._taken.add(task)
        task.add_done_callback(self._taken.discard)
        with suppress(asyncio.CancelledError):
            await task

    async def close(self) -> None:
        """Close every connection, even if its response was not sent completely."""
        await cancel(*self._taken)

    async def _meet(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answered: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        closed = False
        try:
            async with asyncio.timeout(self._seconds):
                try:
                    head = await reader.readuntil(_END)
                except asyncio.LimitOverrunError:
                    head = b""
                writer.write(await answered(head))
                writer.close()
                # Wait until the client has read the whole response, or has disconnected.
                await writer.wait_closed()
                closed = True
        except (TimeoutError, asyncio.IncompleteReadError, OSError):
            return
        finally:
            if not closed:
                writer.transport.abort()

    async def _answered(self, head: bytes) -> bytes:
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _answer(400)
        method, target, _ = words
        if target.partition("?")[0] != PATH:
            return _answer(404)
        if method != "GET":
            return _answer(405, ("Allow", "GET"))
        try:
            text = await self._page()
        except Exception:  # noqa: BLE001  # the next scrape may succeed
            _log.exception("serving the metrics failed")
            return _answer(500)
        return _answer(200, ("Content-Type", CONTENT_TYPE), body=text)


async def _refused(_head: bytes) -> bytes:
    # Answer only after reading the request: if a connection is closed with unread data, the client may not get the response.
    return _answer(503)


def _answer(status: int, *headers: tuple[str, str], body: bytes | None = None) -> bytes:
    phrase = HTTPStatus(status).phrase
    content = f"{phrase}\n".encode() if body is None else body
    kind = () if body is not None else (("Content-Type", "text/plain; charset=utf-8"),)
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        *[f"{name}: {value}" for name, value in (*kind, *headers)],
        f"Content-Length: {len(content)}",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + _END + content


MetricSource = Callable[[], Awaitable[Iterable[Metric]]]
"""Returns the current metrics. They must not change afterwards, because another thread iterates over them."""


class MetricsPage(Collector):
    """The metrics page: the metrics of all `sources`, and the process metrics of `ProcessCollector`."""

    def __init__(self, sources: Mapping[str, MetricSource]) -> None:
        self._sources = sources
        self._metrics: Iterable[Metric] = ()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(namespace="shoal", registry=self._registry)
        self._making: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return the text of the page. Concurrent callers share one generation of it."""
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(), name="shoal-metrics")
        # A client that disconnects must not cancel the generation of the page, for which other clients may be waiting.
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Cancel the generation of the page, so that the sources can be closed."""
        await cancel(self._making)

    async def _make(self) -> bytes:
        read = await asyncio.gather(*(_read(name, source) for name, source in self._sources.items()))
        self._metrics = chain.from_iterable(read)
        # In a thread, because thousands of lines take about 10 ms.
        return await asyncio.to_thread(generate_latest, self._registry)

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of this scrape. If several sources have a metric of one name, their samples are merged."""
        merged: dict[str, Metric] = {}
        for metric in self._metrics:
            if metric.name in merged:
                merged[metric.name].samples.extend(metric.samples)
            else:
                merged[metric.name] = metric
        return merged.values()


async def _read(name: str, source: MetricSource) -> Iterable[Metric]:
    try:
        return await source()
    except Exception:  # noqa: BLE001  # the other sources are still reported
        _log.exception("cannot read %s", name)
        return ()


@asynccontextmanager
async def telling(network: Network, running: RunningApp | None = None) -> AsyncIterator[None]:
    """Serve `GET /metrics` until the block ends.

    The metrics are those of a web process if `running` is given, otherwise of a worker.

    Without the setting `metrics_port`, nothing is served. If the port is not available, an error is logged and the
    process runs without metrics; `shoal serve` and `shoal worker` check the port before.
    """
    listener = _listener(network.settings)
    if listener is None:
        yield
        return
    lag = DeliveryLag()
    async with AsyncExitStack() as stack:
        # Restore the previous callback when the block ends, because no job may be counted afterwards.
        stack.callback(setattr, network.runner, "done", network.runner.done)
        network.runner.done = lag.note
        pauses = await stack.enter_async_context(pauses_watched())
        page = MetricsPage(_sources(network, running, lag, pauses))
        stack.push_async_callback(page.close)
        await stack.enter_async_context(answering(listener, page.text))
        yield


def _sources(
    network: Network, running: RunningApp | None, lag: DeliveryLag, pauses: ProcessPauses
) -> Mapping[str, MetricSource]:
    app_context = running.app if running else None
    readiness = app_context.readiness if app_context else Readiness(network.probes)
    watch = app_context.engines if app_context else EngineWatch(network.engines)
    sources: dict[str, MetricSource] = {
        "process metrics": partial(process_metrics, "web" if running else "worker", pauses, readiness),
        "delivery metrics": partial(delivery_metrics, network, lag),
        "webhook metrics": partial(webhook_metrics, network),
        "cache metrics": partial(holding_metrics, network),
        "backup metrics": partial(backup_metrics, network),
        "engine metrics": partial(engine_metrics, watch),
    }
    if running is not None:
        sources["request metrics"] = partial(request_metrics, running)
    return sources


def _listener(settings: Settings) -> socket.socket | None:
    """Return the listening socket; None if metrics are disabled or the port is not available."""
    if not settings.metrics_port:
        return None
    host, port = settings.metrics_host, settings.metrics_port + process_slot()
    try:
        return listen(host, port)
    except (OSError, OverflowError) as error:
        _log.error("metrics are unavailable: cannot listen on %s:%d: %s", host, port, error)
        return None
