"""OpenTelemetry spans of a real server, received over OTLP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from shoal.app.outboxes import open_recorder
from shoal.core.errors import InvalidInput
from shoal.settings import Settings
from tests.server_process import served
from tests.tracing.logs import SPAN, TRACE, TRACEPARENT, request, signed_up

BATCHES = {"OTEL_BSP_SCHEDULE_DELAY": "50", "SHOAL_OPENTELEMETRY": "true", "SHOAL_LOG_FORMAT": "json"}


class Receiver:
    """Collects spans and service names received over OTLP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Span] = []
        self.services: set[str] = set()

    def take(self, body: bytes) -> None:
        """Take one export."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.services.add(named["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def of_trace(self, trace: str, number: int, seconds: float = 60.0, name: str = "") -> list[Span]:
        """Wait until a trace has this number of spans, or of those with a name, and return them."""
        deadline = time.monotonic() + seconds
        while (
            len(found := [span for span in self.spans if span.trace_id.hex() == trace and name in {"", span.name}])
            < number
        ):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            receiver.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Suppress the log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def attributes(span: Span) -> dict[str, str | int]:
    return {
        one.key: one.value.int_value if one.value.HasField("int_value") else one.value.string_value
        for one in span.attributes
    }


def test_opentelemetry_trace_contains_request_stages_statements_and_jobs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with receiving() as receiver:
        settings = {**BATCHES, "SHOAL_REQUEST_LOG": "all", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        with served(tmp_path / "shoal.db", files=0, log=log, **settings) as server:
            token = signed_up(server.url, "ann")
            headers = {
                "Authorization": f"Bearer {token}",
                "X-Request-Id": "posted",
                **TRACEPARENT,
                "tracestate": "other=1",
            }
            post = httpx.post(f"{server.url}/api/v1/statuses", data={"status": "to #all"}, headers=headers)
            assert post.status_code == 200
            receiver.of_trace(TRACE, 12)
            receiver.of_trace(TRACE, 1, name="PostCreated")
            # Without a caller's trace, the server starts one.
            httpx.get(f"{server.url}/api/v1/nothing", headers={"X-Request-Id": "alone"})
            alone = request(log, "alone")
            receiver.of_trace(alone["trace"], 1)
            assert server.stop() == 0
        # The spans of a request may come in several exports. The server has sent the last one when it stops.
        found, begun = receiver.of_trace(TRACE, 12), receiver.of_trace(alone["trace"], 1)
    line = request(log, "posted")
    (root,) = [span for span in found if span.kind == Span.SPAN_KIND_SERVER]
    assert (root.name, root.parent_span_id.hex(), root.span_id.hex()) == ("POST /api/v1/statuses", SPAN, line["span"])
    assert root.trace_state == "other=1"
    told = attributes(root)
    assert (told["http.response.status_code"], told["http.route"]) == (200, "/api/v1/statuses")
    assert (told["shoal.request_id"], told["shoal.member_id"]) == ("posted", line["member"])
    inside = [span for span in found if span.parent_span_id == root.span_id and span.kind != Span.SPAN_KIND_CONSUMER]
    stages = {span.name for span in inside if span.kind == Span.SPAN_KIND_INTERNAL}
    assert stages == {"wait", "authenticate", "read", "handle", "encode", "send"}
    commits = [span for span in inside if span.name == "sqlite commit"]
    assert [attributes(span) for span in commits] == [{"db.system.name": "sqlite", "db.query.summary": "commit"}]
    for span in inside:
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano + 1_000
    jobs = {span.name for span in found if span.kind == Span.SPAN_KIND_CONSUMER}
    assert jobs >= {"PostCreated"}
    assert receiver.services == {"shoal"}
    assert [span.parent_span_id for span in begun if span.kind == Span.SPAN_KIND_SERVER] == [b""]


def test_opentelemetry_environment_sets_service_name_and_sampler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as receiver:
        for name, value in (
            ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url),
            ("OTEL_SERVICE_NAME", "fish"),
            ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
        ):
            monkeypatch.setenv(name, value)

        async def requests() -> None:
            async with AsyncExitStack() as stack:
                recorder = open_recorder(Settings(opentelemetry=True, request_log="off"), stack)
                for headers in ([(b"traceparent", TRACEPARENT["traceparent"].encode())], []):
                    record = recorder.begin("r", "GET", headers)
                    assert record is not None
                    assert record.trace is not None
                    # The trace is propagated either way; downstream services decide by the flag.
                    assert record.trace.flags == len(headers)
                    record.status = 500
                    recorder.end(record)

        asyncio.run(requests())
    (root, *_) = [span for span in receiver.spans if span.kind == Span.SPAN_KIND_SERVER]
    assert (root.trace_id.hex(), root.status.code) == (TRACE, Status.STATUS_CODE_ERROR)
    assert {span.trace_id.hex() for span in receiver.spans} == {TRACE}
    assert receiver.services == {"fish"}


def test_opentelemetry_unreachable_collector_does_not_delay_responses_or_shutdown(tmp_path: Path) -> None:
    settings = {**BATCHES, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with served(tmp_path / "shoal.db", files=0, log=tmp_path / "log", **settings) as server:
        for _ in range(20):
            assert httpx.get(f"{server.url}/api/v1/instance").status_code == 200
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 60


def test_opentelemetry_when_disabled_is_not_imported() -> None:
    code = (
        "import sys, shoal.cli.serve, shoal.cli.serve, shoal.app.outboxes; "
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_opentelemetry_setting_without_installed_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shoal.observability.otel", None)
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "shoal.observability.otel")

    async def opened() -> None:
        async with AsyncExitStack() as stack:
            open_recorder(Settings(opentelemetry=True), stack)

    with pytest.raises(InvalidInput, match=r"\.\[otel\]"):
        asyncio.run(opened())
