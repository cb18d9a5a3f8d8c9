"""The request log of a real server: one line per request, with id, member, route, status, stages and statements."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send
from websockets.sync.client import connect

from shoal.http.application import build_app
from shoal.http.rate_limits import OFF, MemoryLimiter
from shoal.observability.request_log import LoggedRequest
from shoal.observability.requests import MAX_LOGGED, Recorder, RequestLog
from tests.api.harness import ROUTES, authenticate
from tests.async_runner import in_loop
from tests.server_process import Server, served
from tests.tracing.logs import SLOW_MS, SPAN, TRACE, TRACEPARENT, Line, lines, locked, logged, request, signed_up

numbers = itertools.count()
STAGES = {"wait", "authenticate", "read", "handle", "render", "encode", "send"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path, str]]:
    """A server that logs every request as JSON, and the token of Ann."""
    folder = tmp_path_factory.mktemp("logged")
    log = folder / "log"
    settings = {"SHOAL_REQUEST_LOG": "all", "SHOAL_LOG_FORMAT": "json", "SHOAL_SLOW_MS": "60000"}
    with served(folder / "shoal.db", files=0, log=log, **settings) as server:
        yield server, log, signed_up(server.url, "ann")


def ask(
    server: Server,
    id_: str,
    method: str,
    path: str,
    token: str = "",
    *,
    data: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    said = {"X-Request-Id": id_, **({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    answer = httpx.request(method, server.url + path, headers=said, data=data, timeout=60)
    assert answer.headers["x-request-id"] == id_
    return answer


def check(line: Line) -> None:
    """Check the properties common to all request lines."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert set(line["stages"]) <= STAGES
    assert sum(line["stages"].values()) == pytest.approx(line["ms"], abs=0.01)
    assert all(ms >= 0 for ms in line["stages"].values())
    for number, ms in line.get("statements", {}).values():
        assert number >= 1
        # SQLite runs statements sequentially.
        assert 0 <= ms <= line["ms"] + 0.1


@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/api/v1/instance", "/api/v1/instance", 200),
        ("HEAD", "/api/v1/instance", "/api/v1/instance", 200),
        ("GET", "/health", "/health", 200),
        ("GET", "/api/v1/accounts/1234", "/api/v1/accounts/{id}", 404),
        ("GET", "/api/v1/timelines/home", "/api/v1/timelines/home", 401),
        ("DELETE", "/api/v1/instance", "(no such path)", 405),
        ("GET", "/api/v1/secret-thing?q=hidden", "(no such path)", 404),
        ("GET", "/secret-thing", "(no such page)", 404),
        ("POST", "/api/v1/apps", "/api/v1/apps", 400),
        ("POST", "/oauth/revoke", "/oauth/revoke", 401),
        ("OPTIONS", "/api/v1/statuses", "(preflight)", 204),
        ("GET", "/@ann", "/@{handle}", 200),
        ("GET", "/media/secret.jpg", "(file)", 404),
    ],
)
def test_request_log_line_contains_method_route_and_status(
    here: tuple[Server, Path, str], method: str, path: str, route: str, status: int
) -> None:
    server, log, _ = here
    answer = ask(server, f"status-{next(numbers)}", method, path)
    assert answer.status_code == status
    line = request(log, answer.headers["x-request-id"])
    check(line)
    assert (line["method"], line["route"], line["status"]) == (method, route, status)
    assert line["message"] == f"{method} {route} {status}"
    assert line.get("bytes", 0) == answer.num_bytes_downloaded
    assert "aborted" not in line


def test_request_log_of_unchanged_page_has_status_304(here: tuple[Server, Path, str]) -> None:
    server, log, token = here
    ask(server, "before-304", "POST", "/api/v1/statuses", token, data={"status": "first"})
    tag = ask(server, "whole", "GET", "/@ann.atom").headers["etag"]
    assert ask(server, "unchanged", "GET", "/@ann.atom", headers={"If-None-Match": tag}).status_code == 304
    line = request(log, "unchanged")
    assert (line["status"], line.get("bytes", 0)) == (304, 0)


def test_request_log_line_contains_member_id_and_statements_but_no_content(
    here: tuple[Server, Path, str],
) -> None:
    server, log, token = here
    id_ = ask(server, "who", "GET", "/api/v1/accounts/verify_credentials", token).json()["id"]
    body = {"status": "A #secretword for nobody"}
    assert ask(server, "a-post", "POST", "/api/v1/statuses?access_token=hidden", token, data=body).status_code == 200
    line = request(log, "a-post")
    check(line)
    assert line["member"] == id_
    assert line["statements"]["sqlite"][0] >= 1
    assert line["stages"]["handle"] > 0
    said = json.dumps(line)
    assert not any(word in said for word in ("secretword", "hidden", token, "ann", "127.0.0.1", "localhost"))


def test_request_log_of_page_contains_render_time(here: tuple[Server, Path, str]) -> None:
    server, log, _ = here
    ask(server, "a-page", "GET", "/explore")
    assert request(log, "a-page")["stages"]["render"] > 0


def test_request_log_has_exactly_one_line_per_request(here: tuple[Server, Path, str]) -> None:
    server, log, _ = here
    before = len(lines(log, "request"))
    with httpx.Client() as client:
        ids = [client.get(f"{server.url}/api/v1/instance").headers["x-request-id"] for _ in range(20)]
    request(log, ids[-1])
    assert [line["id"] for line in lines(log, "request")[before:]] == ids
    # All lines of the log are JSON, because `lines` fails otherwise.
    assert {line["logger"] for line in lines(log)} == {"shoal.requests"}


def test_request_log_ignores_malformed_request_id_and_traceparent(here: tuple[Server, Path, str]) -> None:
    server, log, _ = here
    headers = {"X-Request-Id": 'x" y', "traceparent": "00-nothing"}
    id_ = httpx.get(f"{server.url}/api/v1/instance", headers=headers).headers["x-request-id"]
    assert id_ != headers["X-Request-Id"]
    assert not {"trace", "span", "parent"} & request(log, id_).keys()


def test_request_log_continues_caller_trace_with_new_span_per_request(here: tuple[Server, Path, str]) -> None:
    server, log, _ = here
    for id_ in ("first-of-trace", "second-of-trace"):
        ask(server, id_, "GET", "/api/v1/instance", headers=TRACEPARENT)
    first, second = request(log, "first-of-trace"), request(log, "second-of-trace")
    assert (first["trace"], first["parent"]) == (second["trace"], second["parent"]) == (TRACE, SPAN)
    assert len({first["span"], second["span"], SPAN}) == 3


def test_job_log_lines_contain_trace_of_request_that_caused_the_job(here: tuple[Server, Path, str]) -> None:
    server, log, token = here
    headers = {"traceparent": f"00-{'c' * 32}-{SPAN}-00"}
    ask(server, "causing", "POST", "/api/v1/statuses", token, data={"status": "with #trace"}, headers=headers)
    jobs = logged(log, lambda line: line.get("kind") == "job" and line.get("trace") == "c" * 32, 2)
    assert {line["event"] for line in jobs} >= {"PostCreated", "TagsUsed"}
    span = request(log, "causing")["span"]
    for line in jobs:
        assert (line["parent"], line["attempt"]) == (span, 1)
        assert re.fullmatch(r"0:\d+", line["job"])
        assert line["outcome"] in {"done", "waits"}
    number = len(lines(log))
    ask(server, "untraced", "POST", "/api/v1/statuses", token, data={"status": "without"})
    request(log, "untraced")
    (job,) = logged(log, lambda line: line.get("event") == "PostCreated" and line in lines(log)[number:])
    assert not {"trace", "span", "parent"} & job.keys()


def test_request_log_of_disconnected_client_has_status_499(here: tuple[Server, Path, str]) -> None:
    server, log, token = here
    with _connection(server) as gone:
        head = f"POST /api/v1/statuses HTTP/1.1\r\nHost: x\r\nX-Request-Id: gone\r\nAuthorization: Bearer {token}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n"
        gone.sendall(head.encode())
        # The server asks for the body once it reads it.
        assert gone.recv(1_000).startswith(b"HTTP/1.1 100 ")
        gone.sendall(b"{")
        time.sleep(0.2)
    line = request(log, "gone")
    check(line)
    assert (line["status"], line["route"], line["aborted"]) == (499, "/api/v1/statuses", True)
    # The read stage lasted until the client disconnected.
    assert line["stages"]["read"] > 100


def test_request_log_of_event_stream_is_written_on_close(here: tuple[Server, Path, str]) -> None:
    server, log, token = here
    headers = {"Authorization": f"Bearer {token}", "X-Request-Id": "a-stream"}
    with httpx.stream("GET", f"{server.url}/api/v1/streaming/user", headers=headers) as stream:
        pieces = stream.iter_raw()
        next(pieces)
        time.sleep(0.3)
        assert not [line for line in lines(log, "request") if line["id"] == "a-stream"]
    line = request(log, "a-stream")
    assert (line["status"], line["route"]) == (200, "/api/v1/streaming/user")
    assert line["stages"]["send"] > 250
    assert line["bytes"] > 0


def test_request_log_of_websocket_is_written_on_close(here: tuple[Server, Path, str]) -> None:
    server, log, token = here
    address = f"ws://{urlsplit(server.url).netloc}/api/v1/streaming?stream=user&access_token={token}"
    headers = {"X-Request-Id": "a-socket", **TRACEPARENT}
    with connect(address, additional_headers=headers, open_timeout=60) as socket_:
        assert socket_.response is not None
        assert socket_.response.headers["x-request-id"] == "a-socket"
        socket_.send("{}")
        socket_.recv(60)
    line = request(log, "a-socket")
    assert (line["status"], line["route"], line["trace"]) == (101, "/api/v1/streaming", TRACE)
    assert line["bytes"] > 0
    assert "aborted" not in line
    with pytest.raises(Exception, match="401"):
        connect(
            f"ws://{urlsplit(server.url).netloc}/api/v1/streaming",
            additional_headers={"X-Request-Id": "refused"},
            open_timeout=60,
        )
    assert request(log, "refused")["status"] == 401


def test_request_log_escapes_line_breaks_sent_by_client(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served(tmp_path / "shoal.db", log=log, SHOAL_REQUEST_LOG="all", SHOAL_SLOW_MS="60000") as server:
        forged = "x%0a2026-01-01%2000:00:00,000%20INFO%20shoal.requests:%20GET%20/forged%20200"
        for path in (f"/{forged}", f"/@{forged}", f"/api/v1/{forged}", f"/api/v1/accounts/{forged}", "/%e2%80%ae"):
            httpx.get(server.url + path, headers={b"User-Agent": "\u202e\x9b".encode()})
        last = httpx.get(f"{server.url}/health").headers["x-request-id"]
        deadline = time.monotonic() + 60
        while f"id={last} " not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    written = log.read_text().splitlines()
    assert len(written) == 6
    for line in written:
        assert re.match(
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO shoal\.requests: GET \S.* id=\S+ bytes=\d+ wait=", line
        )
        assert "forged" not in line


def test_error_that_ends_a_server_is_logged_in_format_of_log() -> None:
    def ended(log_format: str) -> str:
        command = [
            sys.executable,
            "-m",
            "shoal.cli",
            "--store",
            "postgresql://127.0.0.1:1/shoal",
            "serve",
            "--port",
            "0",
        ]
        environ = {**os.environ, "SHOAL_LOG_FORMAT": log_format}
        process = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        assert (process.returncode, process.stdout) == (1, "")
        return process.stderr

    (line,) = (json.loads(line) for line in ended("json").splitlines())
    assert (line["level"], line["logger"]) == ("error", "shoal.cli.group")
    assert ended("text") == f"shoal: {line['message']}\n"
    assert line["message"].startswith("the store is unreachable: try again in a few seconds (127.0.0.1:1/shoal: ")


def test_request_log_in_slow_mode_contains_request_blocked_by_store_lock(tmp_path: Path) -> None:
    store, log = tmp_path / "shoal.db", tmp_path / "log"
    with served(store, log=log, SHOAL_LOG_FORMAT="json", SHOAL_SLOW_MS=SLOW_MS) as server:
        token = signed_up(server.url, "ann")
        for number in range(20):
            ask(server, f"quick-{number}", "GET", "/api/v1/instance")
        with locked(store):
            ask(server, "slow", "POST", "/api/v1/statuses", token, data={"status": "late"})
        line = request(log, "slow")
    assert line["ms"] >= float(SLOW_MS)
    (commit,) = [span for span in line["spans"] if span[:2] == ["sqlite", "commit"]]
    assert commit[3] >= float(SLOW_MS)
    # The sign-up request may also be slow, because it hashes a password.
    # A busy machine may delay some of the quick requests.
    assert not {f"quick-{number}" for number in range(20)} <= {one["id"] for one in lines(log, "request")}


async def nowhere(_scope: Scope, receive: Receive, send: Send) -> None:
    """Send a part of a response, then fail."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError("it broke")


async def asked(mode: RequestLog, path: str, slow_ms: float = 60_000.0) -> tuple[Recorder, list[Message]]:
    """Return a recorder after one request to the small API, and the messages sent."""
    recorder = Recorder(mode, slow_ms)
    app = build_app(
        ROUTES, None, authenticate=authenticate, limiter=MemoryLimiter(OFF), fallback=nowhere, recorder=recorder
    )
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        await asyncio.sleep(0)
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        "client": ("1.2.3.4", 5),
    }
    with contextlib.suppress(RuntimeError):
        await app(scope, receive, send)
    return recorder, sent


def entries(caplog: pytest.LogCaptureFixture) -> list[LoggedRequest]:
    return [one.msg for one in caplog.records if isinstance(one.msg, LoggedRequest)]


@in_loop
async def test_request_log_contains_internal_errors(caplog: pytest.LogCaptureFixture) -> None:
    await asked("all", "/api/v1/crash")
    await asked("all", "/broken")
    crash, broken = entries(caplog)
    assert (crash.status, crash.route, crash.aborted) == (500, "/api/v1/crash", False)
    assert (broken.status, broken.bytes, broken.aborted) == (200, 4, True)


@in_loop
async def test_request_log_of_refused_websocket_handshake_has_status_403(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = build_app(ROUTES, None, authenticate=authenticate, limiter=MemoryLimiter(OFF), recorder=Recorder("all"))
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        await asyncio.sleep(0)
        sent.append(message)

    scope = {"type": "websocket", "path": "/x", "query_string": b"", "headers": [], "client": ("1.2.3.4", 5)}
    await app(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert [(one.status, one.aborted) for one in entries(caplog)] == [(403, False)]


@pytest.mark.parametrize(
    ("mode", "slow_ms", "number"), [("off", 0.0, 0), ("slow", 0.0, 1), ("slow", 6e4, 0), ("all", 6e4, 1)]
)
def test_request_log_mode_and_slow_threshold_select_logged_requests(
    mode: RequestLog, slow_ms: float, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, sent = asyncio.run(asked(mode, "/api/v1/instance", slow_ms))
    assert sent[0]["status"] == 200
    assert len(entries(caplog)) == number
    assert len(recorder.slow) == (1 if mode != "off" and slow_ms == 0.0 else 0)


def test_slow_request_list_keeps_latest_requests_up_to_limit() -> None:
    recorder = Recorder("slow", 0.0)
    for number in range(MAX_LOGGED + 5):
        record = recorder.begin(str(number), "GET", [])
        assert record is not None
        recorder.end(record)
    assert [recorder.slow[0].id, recorder.slow[-1].id, len(recorder.slow)] == ["5", str(MAX_LOGGED + 4), MAX_LOGGED]


def test_request_recorder_when_off_records_only_requests_with_traceparent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder("off", 0.0)
    assert recorder.begin("a", "GET", []) is None
    record = recorder.begin("b", "GET", [(b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())])
    assert record is not None
    assert record.trace is not None
    assert record.trace.trace_id.hex() == TRACE
    recorder.end(record)
    with recorder.job("0:1", "PostCreated", 1, b"") as none:
        assert none is None
    assert (caplog.records, list(recorder.slow)) == ([], [])


@contextlib.contextmanager
def _connection(server: Server) -> Iterator[socket.socket]:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0)) as opened:
        yield opened
