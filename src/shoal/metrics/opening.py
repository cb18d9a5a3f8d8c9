"""Opens the metrics of a process beside its work, where the settings name a port for them."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from shoal.metrics.backups import BackupFigures
from shoal.metrics.deliveries import DeliveryFigures, DeliveryLag
from shoal.metrics.endpoint import answering
from shoal.metrics.engines import EngineFigures
from shoal.metrics.holdings import HoldingFigures
from shoal.metrics.page import MetricSource, MetricsPage
from shoal.metrics.pauses import ProcessPauses, pauses_watched
from shoal.metrics.process import ProcessFigures
from shoal.metrics.requests import RequestFigures
from shoal.observability.readiness import Readiness
from shoal.ops.cluster.heartbeat import place
from shoal.ops.vitals.watch import EngineWatch
from shoal.server import RunningFront, listen
from shoal.settings import Settings
from shoal.wiring import Network

_log = logging.getLogger(__name__)


@asynccontextmanager
async def telling(network: Network, running: RunningFront | None = None) -> AsyncIterator[None]:
    """Answer `GET /metrics` until the block ends: those of a web process if it has a front end, else those of a worker.

    Nothing happens without the setting `metrics_port`. An address that cannot be listened on is logged as an error, and the
    work goes on without metrics: who starts a process looks at the address before.
    """
    listener = _listener(network.settings)
    if listener is None:
        yield
        return
    lag = DeliveryLag()
    async with AsyncExitStack() as stack:
        # No job is counted by anybody who no longer tells it.
        stack.callback(setattr, network.runner, "done", network.runner.done)
        network.runner.done = lag.note
        pauses = await stack.enter_async_context(pauses_watched())
        page = MetricsPage(_sources(network, running, lag, pauses))
        stack.push_async_callback(page.close)
        await stack.enter_async_context(answering(listener, page.text))
        yield


def _sources(
    network: Network, running: RunningFront | None, lag: DeliveryLag, pauses: ProcessPauses
) -> Sequence[MetricSource]:
    front = running.front if running else None
    readiness = front.readiness if front else Readiness(network.probes)
    watch = front.engines if front else EngineWatch(network.engines)
    return (
        ProcessFigures("web" if running else "worker", pauses, readiness),
        *((RequestFigures(running),) if running else ()),
        DeliveryFigures(network, lag),
        HoldingFigures(network),
        BackupFigures(network),
        EngineFigures(watch),
    )


def _listener(settings: Settings) -> socket.socket | None:
    """Return the listening socket; None where metrics are told nowhere."""
    if not settings.metrics_port:
        return None
    host, port = settings.metrics_host, settings.metrics_port + place()
    try:
        return listen(host, port)
    except (OSError, OverflowError) as error:
        _log.error("no metrics: %s:%d cannot be listened on: %s", host, port, error)
        return None
