"""The recorder that the settings ask for, and what runs of jobs are called in the log."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, AsyncExitStack

from shoal.graph.contract import Job
from shoal.observability.request_log import Recorder
from shoal.observability.tracing import Record
from shoal.settings import Settings
from shoal.wiring.backends import Backend

_SPANS = Backend("shoal.observability.otel", "OpenTelemetrySpans", "otel")


def open_recorder(settings: Settings, stack: AsyncExitStack) -> Recorder:
    """Make the recorder. Raises `InvalidInput` where OpenTelemetry is asked for and not installed."""
    if not settings.opentelemetry:
        return Recorder(settings.request_log, settings.slow_ms)
    spans = _SPANS.load()()
    stack.push_async_callback(asyncio.to_thread, spans.close)
    return Recorder(settings.request_log, settings.slow_ms, spans)


class JobWatch:
    """Has each run of a job recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __call__(self, job: Job) -> AbstractContextManager[Record | None]:
        """Record inside the context."""
        event = type(job.event).__name__
        return self._recorder.job(f"{job.store}:{job.seq}", event, job.attempt + 1, job.event.trace)
