"""`shoal doctor` behind real proxies: right ones, and each mistake that is made with them."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal import Shoal
from shoal_devcluster.program import free_port
from tests.deploy.proxies import caddy, nginx
from tests.doctor.asking import Found, visit
from tests.engines.certificates import SelfSigned, expired, self_signed
from tests.serving import served

FORWARDED = "proxy_set_header X-Forwarded-For $remote_addr;"
UPGRADE = "proxy_set_header Upgrade $http_upgrade;"


class Behind:
    """A server that knows itself by the address of a proxy, which is not there yet."""

    def __init__(self, folder: Path, port: int, made: SelfSigned) -> None:
        self.folder = folder
        self.port = port
        self.front = free_port()
        self.made = made

    def visit(self, scheme: str = "https", **more: object) -> Found:
        """Have the doctor look at it."""
        return visit(self.folder, port=self.port, base_url=f"{scheme}://localhost:{self.front}", **more)

    @contextlib.contextmanager
    def nginx(self, *changes: tuple[str, str], made: SelfSigned | None = None) -> Iterator[None]:
        """Put nginx in front, with these changes to the file of `deploy/`."""
        folder = self.folder / "nginx"
        folder.mkdir(exist_ok=True)
        with nginx(folder, self.port, *changes, port=self.front, made=made or self.made):
            yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SelfSigned:
    return self_signed(tmp_path_factory.mktemp("certificate"), days=90)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """The folder of a server, and its port."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    with served(folder / "shoal.db", "--port", str(port), SHOAL_RATE_LIMITS="true"):
        yield folder, port


@pytest.fixture
def behind(running: tuple[Path, int], made: SelfSigned, monkeypatch: pytest.MonkeyPatch) -> Behind:
    monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
    return Behind(*running, made)


CHECKS = ("tls", "clock_of_proxy", "forwarded", "websocket", "uploads")


def test_nginx_as_it_ships_is_right(behind: Behind) -> None:
    with behind.nginx():
        found = behind.visit()
        assert {check: found.only(check).grade for check in CHECKS} == dict.fromkeys(CHECKS, "ok"), found.all
        assert "good for 89 more days" in found.only("tls").said or "90 more" in found.only("tls").said


def test_caddy_as_it_ships_is_right(behind: Behind) -> None:
    (behind.folder / "caddy").mkdir(exist_ok=True)
    with caddy(behind.folder / "caddy", behind.port, port=behind.front):
        found = visit(behind.folder, port=behind.port, base_url=f"http://127.0.0.1:{behind.front}")
        assert {check: found.only(check).grade for check in CHECKS[1:]} == dict.fromkeys(CHECKS[1:], "ok"), found.all


@pytest.mark.parametrize(
    ("check", "said", "changes"),
    [
        ("forwarded", "limits of their own", [(FORWARDED, "proxy_set_header X-Forwarded-For $http_x_forwarded_for;")]),
        ("forwarded", "one to the server", [(FORWARDED, 'proxy_set_header X-Forwarded-For "";')]),
        ("websocket", "do not get through", [(UPGRADE, "")]),
        ("uploads", "refuses bodies", [("client_max_body_size 57m;", "client_max_body_size 10m;")]),
    ],
)
def test_each_mistake_of_a_proxy_is_found_and_no_other(
    behind: Behind, check: str, said: str, changes: list[tuple[str, str]]
) -> None:
    with behind.nginx(*changes):
        found = behind.visit()
        assert found.bad() == {check}, found.all
        assert said in found.only(check).said


def test_a_proxy_that_reaches_nobody_or_another_server_is_found(behind: Behind) -> None:
    assert "proxy" in behind.visit().bad()
    with behind.nginx((f"127.0.0.1:{behind.port};", f"127.0.0.1:{free_port()};")):
        assert "answers 502" in behind.visit().only("proxy").said
    port = free_port()
    (behind.folder / "other").mkdir(exist_ok=True)
    other = served(behind.folder / "other" / "shoal.db", "--port", str(port), SHOAL_TITLE="Elsewhere")
    with other, behind.nginx((f"127.0.0.1:{behind.port};", f"127.0.0.1:{port};")):
        assert "another server answers" in behind.visit().only("proxy").said


def test_a_certificate_that_is_over_or_unknown_or_over_soon_is_told(
    behind: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = expired(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(old.certificate))
    with behind.nginx(made=old):
        finding = behind.visit().only("tls")
        assert (finding.grade, "expired" in finding.said) == ("bad", True), finding
    with behind.nginx():
        assert behind.visit().only("tls").grade == "bad"
    (tmp_path / "soon").mkdir()
    soon = self_signed(tmp_path / "soon", days=5)
    monkeypatch.setenv("SSL_CERT_FILE", str(soon.certificate))
    with behind.nginx(made=soon):
        assert behind.visit().only("tls").grade == "warn"


def test_limits_that_are_off_are_no_error(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "caddy").mkdir()
    with served(tmp_path / "shoal.db", "--port", str(port)), caddy(tmp_path / "caddy", port) as url:
        assert "rate_limits are off" in visit(tmp_path, port=port, base_url=url).only("forwarded").said


def test_a_name_that_has_no_address_is_told(tmp_path: Path) -> None:
    assert "has no address" in visit(tmp_path, base_url="https://shoal.invalid").only("name").said


def test_an_address_without_tls_is_told(tmp_path: Path) -> None:
    assert "without TLS" in visit(tmp_path, base_url="http://shoal.invalid").only("base_url").said
    assert visit(tmp_path, base_url="https://shoal.invalid/path").only("base_url").grade == "bad"


class _LateClock(http.server.BaseHTTPRequestHandler):
    """Answers with a time that is a quarter of an hour old."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(0)

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the library
        """Nothing is logged."""


def test_a_clock_that_disagrees_with_the_proxys_is_told(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _LateClock) as late:
        threading.Thread(target=late.serve_forever, daemon=True).start()
        found = visit(tmp_path, base_url=f"http://127.0.0.1:{late.server_port}")
        late.shutdown()
    finding = found.only("clock_of_proxy")
    assert (finding.grade, "ahead of the proxy" in finding.said) == ("bad", True)
    assert "not as Shoal does" in found.only("proxy").said


def test_an_answer_that_never_ends_is_given_up(tmp_path: Path) -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(b"HTTP/1.1 200 OK\r\n")
                while True:
                    writer.write(b"X-More: 1\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.2)
        finally:
            writer.transport.abort()

    def serve() -> None:
        async def main() -> None:
            server = await asyncio.start_server(drip, "127.0.0.1", 0)
            ports.append(server.sockets[0].getsockname()[1])
            started.set()
            await asyncio.to_thread(finished.wait, 60)
            server.close()

        asyncio.run(main())

    started, finished, ports = threading.Event(), threading.Event(), list[int]()
    thread = threading.Thread(target=serve)
    thread.start()
    started.wait(10)
    assert "no answer within" in visit(tmp_path, base_url=f"http://127.0.0.1:{ports[0]}").only("proxy").said
    finished.set()
    thread.join(20)


def test_the_library_opens_what_was_looked_at(tmp_path: Path) -> None:
    visit(tmp_path)

    async def opened() -> None:
        async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as shoal:
            await shoal.register("ann")

    asyncio.run(opened())
    assert visit(tmp_path).only("store").grade == "ok"
