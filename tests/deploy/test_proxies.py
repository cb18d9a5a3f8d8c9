"""The proxies of `deploy/` pass uploads, WebSockets and streams, and rate limits apply to the client address."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.sync.client import connect

from shoal.app.network import open_network
from shoal.commands import members, oauth
from shoal.settings import Settings
from tests.api.in_memory_network import picture
from tests.async_runner import run
from tests.deploy.proxies import PROXIES, trusting
from tests.server_process import served

SCOPES = ("read", "write")
LIMITS = '{"pages": "2/1h"}'
MIB = 1 << 20


class Front:
    """A proxy with a server behind it, and the token of a member."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def client(self, source: str = "127.0.0.1") -> httpx.Client:
        """Return a client that connects from this address."""
        transport = httpx.HTTPTransport(verify=trusting(), local_address=source)
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, transport=transport, headers=headers, timeout=60)


async def _token(store: Path) -> str:
    async with open_network(Settings(store=f"sqlite:///{store}", media="memory://"), background=False) as network:
        app = (await oauth.register(network.writes, "x", redirect_uris=("urn:x",), scopes=SCOPES)).app
        ann = await members.register(network.writes, "ann")
        return (await oauth.issue_token(network.writes, app.id, ann.id, SCOPES)).text


@pytest.fixture(scope="module", params=PROXIES)
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp(request.param)
    token = run(_token(folder / "shoal.db"))
    serving = served(
        folder / "shoal.db",
        SHOAL_MEDIA=f"file://{folder / 'media'}",
        SHOAL_RATE_LIMITS="true",
        SHOAL_LIMITS=LIMITS,
        SHOAL_TRUSTED_PROXIES='["127.0.0.1"]',
    )
    with serving as server, PROXIES[request.param](folder, int(server.url.rpartition(":")[2])) as url:
        yield Front(url, token)


def test_reverse_proxy_passes_image_upload_and_download(front: Front) -> None:
    with front.client() as client:
        made = client.post("/api/v2/media", files={"file": picture()})
        assert made.status_code == 200
        path = "/media/" + made.json()["url"].partition("/media/")[2]
        assert client.get(path).headers["content-type"].startswith("image/")


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="videos are taken where ffmpeg is")
def test_reverse_proxy_passes_large_upload_and_refuses_too_large_one(front: Front) -> None:
    clip = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"
    with front.client() as client:
        assert client.post("/api/v2/media", files={"file": clip + bytes(38 * MIB)}).status_code == 202
        # The connection may be closed while the client is still sending.
        with contextlib.suppress(httpx.WriteError):
            assert client.post("/api/v2/media", files={"file": clip + bytes(60 * MIB)}).status_code == 413


def test_reverse_proxy_passes_archive_larger_than_upload_limit(front: Front) -> None:
    with front.client() as client:
        # The server refuses the unauthenticated request; the proxy does not refuse the size.
        sent = client.post("/settings/import", files={"file": ("archive.zip", bytes(70 * MIB))})
        assert sent.status_code in {303, 401}, sent.text[:300]


class _Taking(http.server.BaseHTTPRequestHandler):
    """A server that reads the request body and returns its size."""

    def do_POST(self) -> None:
        size = left = int(self.headers["Content-Length"])
        while left and (piece := self.rfile.read(min(left, MIB))):
            left -= len(piece)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(size - left).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # named by the library
        """Nothing is logged."""


@pytest.mark.parametrize("name", PROXIES)
def test_reverse_proxy_body_size_limit_exempts_only_archive_import(name: str, tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Taking) as taking:
        threading.Thread(target=taking.serve_forever, daemon=True).start()
        with (
            PROXIES[name](tmp_path, taking.server_port) as url,
            httpx.Client(base_url=url, verify=trusting()) as client,
        ):
            sent = client.post("/settings/import", content=bytes(70 * MIB), timeout=60)
            assert (sent.status_code, sent.text) == (200, str(70 * MIB))
            with contextlib.suppress(httpx.WriteError):
                assert client.post("/settings", content=bytes(70 * MIB), timeout=60).status_code in {413, 502}
        taking.shutdown()


def test_reverse_proxy_passes_websocket(front: Front) -> None:
    url = f"ws{front.url.removeprefix('http')}/api/v1/streaming?stream=user&access_token={front.token}"
    with connect(url, ssl=trusting() if url.startswith("wss") else None) as socket, front.client() as client:
        posted = client.post("/api/v1/statuses", json={"status": "hello"}).json()
        told = json.loads(socket.recv(20))
        assert (told["event"], json.loads(told["payload"])["id"]) == ("update", posted["id"])


def test_reverse_proxy_does_not_buffer_event_stream(front: Front) -> None:
    with front.client() as client, client.stream("GET", "/api/v1/streaming/user") as answer:
        lines = answer.iter_lines()
        assert next(lines) == ":)"
        posted = client.post("/api/v1/statuses", json={"status": "hello"}).json()
        assert next(line for line in lines if line.startswith("event:")) == "event: update"
        assert json.loads(next(lines).removeprefix("data: "))["id"] == posted["id"]


def test_rate_limits_behind_proxy_use_client_address_despite_forged_headers(front: Front) -> None:
    with front.client("127.0.0.5") as one, front.client("127.0.0.6") as other:
        for number in range(3):
            lies = {"X-Forwarded-For": f"203.0.113.{number}", "Forwarded": f"for=203.0.113.{number}"}
            assert one.get("/", headers=lies).status_code == (200 if number < 2 else 429)
        assert other.get("/").status_code == 200


def test_reverse_proxy_closes_connection_with_incomplete_request_head(front: Front) -> None:
    """The proxy enforces its own limit of ten seconds: the connection never reaches Shoal and uses no slot."""
    where = urlsplit(front.url)
    assert where.port is not None
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(socket.create_connection(("127.0.0.1", where.port), timeout=40))
        if where.scheme == "https":
            wire = stack.enter_context(trusting().wrap_socket(wire, server_hostname=where.hostname))
        wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        said = b""
        while piece := wire.recv(4_096):
            said += piece
        assert b" 200 " not in said
    with front.client("127.0.0.7") as client:
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("kind", PROXIES)
def test_reverse_proxy_passes_503_with_retry_after_from_busy_server(kind: str, tmp_path: Path) -> None:
    token, large = run(_token(tmp_path / "shoal.db")), picture(3_000, 3_000)
    busy = served(
        tmp_path / "shoal.db",
        SHOAL_REQUESTS_AT_WORK="1",
        SHOAL_REQUESTS_WAITING="0",
        SHOAL_WAITING_SECONDS="0.1",
    )
    with busy as server:
        port = int(server.url.rpartition(":")[2])
        with (
            PROXIES[kind](tmp_path, port) as url,
            ThreadPoolExecutor(8) as together,
            Front(url, token).client() as client,
        ):
            answers = list(together.map(lambda _: client.post("/api/v2/media", files={"file": large}), range(24)))
            assert client.get("/api/v1/timelines/public").status_code == 200
    assert {answer.status_code for answer in answers} == {200, 503}
    for answer in answers:
        if answer.status_code == 503:
            assert int(answer.headers["Retry-After"]) > 0
            assert "error" in answer.json()
