"""Export of requests and jobs as OpenTelemetry spans over OTLP, configured by the standard variables `OTEL_*`.

Only a process with the setting `opentelemetry` imports this module. The module needs `pip install -e '.[otel]'`.
"""

from __future__ import annotations

from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from shoal.observability.request_log import summary_of
from shoal.observability.tracing import SAMPLED, Record, TraceContext

_SYSTEMS = {"postgres": "postgresql", "dynamodb": "aws.dynamodb"}
"""Engines whose name in the semantic conventions differs from Shoal's name."""
_CLOSE_MS = 5_000
_SERVICE = "shoal"


class OpenTelemetrySpans:
    """Exports spans to OpenTelemetry in the background. Spans beyond `OTEL_BSP_MAX_QUEUE_SIZE` are dropped."""

    def __init__(self) -> None:
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: _SERVICE}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(_SERVICE)

    def begin(
        self, name: str, parent: TraceContext | None, state: str, *, job: bool
    ) -> tuple[Span, TraceContext | None]:
        """Begin a span. Return the span and its ids; None instead of the ids if `OTEL_SDK_DISABLED` is set."""
        kind = SpanKind.CONSUMER if job else SpanKind.SERVER
        span = self._tracer.start_span(name, _context_of(parent, state), kind)
        ids = span.get_span_context()
        if not ids.is_valid:
            return span, None
        made = TraceContext(ids.trace_id.to_bytes(16), ids.span_id.to_bytes(8), int(ids.trace_flags) & SAMPLED)
        return span, made

    def end(self, record: Record, name: str, attributes: dict[str, str | int]) -> None:
        """End the span of a finished request or job, with a child span for each of its stages and statements to stores."""
        span: Any = record.span
        if not span.is_recording():
            return
        span.update_name(name)
        span.set_attributes(attributes)
        if record.status >= 500 or record.outcome in {"failed", "parked"}:
            span.set_status(Status(StatusCode.ERROR))
        inside = set_span_in_context(span, Context())

        def at(moment: float) -> int:
            return record.began_ns + int((moment - record.began) * 1e9)

        for stage, began, ended in record.spans():
            child = self._tracer.start_span(stage, inside, start_time=at(began))
            child.end(at(ended))
        for store, what, began, ended in record.statements:
            summary = summary_of(what)
            described = {"db.system.name": _SYSTEMS.get(store, store), "db.query.summary": summary}
            child = self._tracer.start_span(
                f"{store} {summary}", inside, SpanKind.CLIENT, described, start_time=at(began)
            )
            child.end(at(ended))
        span.end(at(record.ended))

    def close(self) -> None:
        """Export pending spans, for at most five seconds."""
        self._provider.force_flush(_CLOSE_MS)
        self._provider.shutdown()


def _context_of(parent: TraceContext | None, state: str) -> Context:
    # Never use OpenTelemetry's current context: an application that embeds Shoal may have its own spans there.
    if parent is None:
        return Context()
    ids = SpanContext(
        int.from_bytes(parent.trace_id),
        int.from_bytes(parent.span_id),
        is_remote=True,
        trace_flags=TraceFlags(parent.flags),
        trace_state=TraceState.from_header([state]) if state else None,
    )
    return set_span_in_context(NonRecordingSpan(ids), Context())
