"""The outbox runner of a network: its handlers, limits, back-pressure and job log.

`open_outboxes` opens the outboxes without the rest of the network, for commands that list jobs or retry parked jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from shoal.app.backends import Backend
from shoal.app.shared import open_broker
from shoal.app.stores import open_store
from shoal.commands.context import Limits, Pressure
from shoal.consumers.context import Effects
from shoal.consumers.table import TABLE
from shoal.graph.contract import Graph, Outbox, Store
from shoal.observability.requests import Recorder
from shoal.outbox.runner import Runner
from shoal.search.indexing import Filler
from shoal.settings import Settings
from shoal.timelines.contract import Timelines

_SPANS = Backend("shoal.observability.otel", "OpenTelemetrySpans", "otel")


def open_recorder(settings: Settings, stack: AsyncExitStack) -> Recorder:
    """Create the recorder of requests and jobs. Raises `InvalidInput` if OpenTelemetry is enabled but not installed."""
    if not settings.opentelemetry:
        return Recorder(settings.request_log, settings.slow_ms)
    spans = _SPANS.load()()
    stack.push_async_callback(asyncio.to_thread, spans.close)
    return Recorder(settings.request_log, settings.slow_ms, spans)


_STEP_SECONDS = 60.0
"""Timeout of a page of a fan-out, which normally takes well under a second."""
_CONCURRENCY = 64
"""Concurrent jobs of a process with remote stores: their requests are batched."""
_SEARCH = 3.0
"""Search delay at which posts are refused, as a multiple of the timeline delay: late search results are less noticeable."""
_POLL_SECONDS = 0.05
"""Interval of polling for events of other processes."""


def refusal_limit(settings: Settings) -> float:
    """Return the fan-out delay in seconds beyond which new posts are refused; 0 for no limit.

    With a broker, or if the setting `run_consequences` is off, other processes deliver posts. Their delay is unknown, so there
    is no limit.
    """
    return settings.most_behind_seconds if settings.run_consequences and not settings.broker else 0.0


def pressure_of(runner: Runner[Effects], search: Filler, settings: Settings) -> Pressure:
    return Pressure(lambda: max(runner.behind(), search.behind() / _SEARCH), refusal_limit(settings))


def probes_of(store: Store, timelines: Timelines, outbox: Outbox) -> Mapping[str, Callable[[], Awaitable[object]]]:
    """Return, for each component that may be remote, a function that sends it a cheap request."""
    # `store.lag` queries every store for its oldest event.
    probes: dict[str, Callable[[], Awaitable[object]]] = {"stores": store.lag, "timelines": partial(timelines.floor, 0)}
    return probes if outbox is store else {**probes, "broker": outbox.backlog}


def runner_of(outbox: Outbox, effects: Effects, recorder: Recorder, *, afar: bool) -> Runner[Effects]:
    """Return the runner of jobs. `afar` means that stores and timelines are remote, so that more jobs run concurrently."""
    if not afar:
        return Runner(outbox, TABLE, effects, recorder=recorder)
    return Runner(
        outbox,
        TABLE,
        effects,
        concurrency=_CONCURRENCY,
        step_seconds=_STEP_SECONDS,
        poll_seconds=_POLL_SECONDS,
        recorder=recorder,
    )


def limits_of(settings: Settings) -> Limits:
    """Return the limits that apply to members, such as the length of a post and the bytes of their media."""
    return Limits(
        text=settings.max_post_characters,
        media=settings.max_media_per_post,
        member_bytes=settings.max_member_bytes,
        follows=settings.max_follows,
        leaving_days=settings.leaving_days,
        passwords=settings.password_login,
    )


class OpenOutboxes(dict[str, Outbox]):
    """Outboxes by name, with the graph of the store, which contains the audit log."""

    def __init__(self, store: Store) -> None:
        super().__init__(store=store)
        self.graph: Graph = store


@asynccontextmanager
async def open_outboxes(settings: Settings, *, read_only: bool) -> AsyncIterator[OpenOutboxes]:
    """Open the outboxes by name: `store`, and `broker` if there is one. Raises `Unavailable` if one cannot be opened."""
    async with AsyncExitStack() as stack:
        outboxes = OpenOutboxes(await open_store(settings, stack, read_only=read_only, sole=False))
        if (broker := await open_broker(settings, stack, taking=False)) is not None:
            outboxes["broker"] = broker
        yield outboxes
