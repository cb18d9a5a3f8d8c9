"""`shoal doctor` behind real proxies: correct configurations, and common misconfigurations."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal import Shoal
from shoal.monitoring import doctor
from shoal_devcluster.program import free_port
from tests.deploy.proxies import caddy, nginx
from tests.doctor.conftest import PATIENT_SECONDS
from tests.doctor.findings import Found, visit
from tests.engines.certificates import SelfSigned, expired, self_signed
from tests.server_process import served

FORWARDED = "proxy_set_header X-Forwarded-For $remote_addr;"
UPGRADE = "proxy_set_header Upgrade $http_upgrade;"


class Behind:
    """A server whose base URL is the address of a proxy that is not started yet."""

    def __init__(self, folder: Path, port: int, made: SelfSigned) -> None:
        self.folder = folder
        self.port = port
        self.front = free_port()
        self.made = made

    def visit(self, scheme: str = "https", **more: object) -> Found:
        """Run the doctor against the server."""
        return visit(self.folder, port=self.port, base_url=f"{scheme}://localhost:{self.front}", **more)

    @contextlib.contextmanager
    def nginx(self, *changes: tuple[str, str], made: SelfSigned | None = None) -> Iterator[None]:
        """Start nginx in front of the server, with these changes to the file of `deploy/`."""
        folder = self.folder / "nginx"
        folder.mkdir(exist_ok=True)
        with nginx(folder, self.port, *changes, port=self.front, made=made or self.made):
            yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SelfSigned:
    return self_signed(tmp_path_factory.mktemp("certificate"), days=90)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Run a server; yield its folder and port."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    with served(folder / "shoal.db", "--port", str(port), SHOAL_RATE_LIMITS="true"):
        yield folder, port


@pytest.fixture
def behind(running: tuple[Path, int], made: SelfSigned, monkeypatch: pytest.MonkeyPatch) -> Behind:
    monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
    return Behind(*running, made)


CHECKS = ("tls", "clock_of_proxy", "forwarded", "websocket", "uploads")


def test_doctor_shipped_nginx_configuration_passes_all_checks(behind: Behind) -> None:
    with behind.nginx():
        found = behind.visit()
        assert {check: found.only(check).grade for check in CHECKS} == dict.fromkeys(CHECKS, "ok"), found.all
        assert "expires in 89 days" in found.only("tls").message or "in 90 days" in found.only("tls").message


def test_doctor_shipped_caddy_configuration_passes_all_checks(behind: Behind) -> None:
    (behind.folder / "caddy").mkdir(exist_ok=True)
    with caddy(behind.folder / "caddy", behind.port, port=behind.front):
        found = visit(behind.folder, port=behind.port, base_url=f"http://127.0.0.1:{behind.front}")
        assert {check: found.only(check).grade for check in CHECKS[1:]} == dict.fromkeys(CHECKS[1:], "ok"), found.all


@pytest.mark.parametrize(
    ("check", "message", "changes"),
    [
        (
            "forwarded",
            "can evade rate limits",
            [(FORWARDED, "proxy_set_header X-Forwarded-For $http_x_forwarded_for;")],
        ),
        ("forwarded", "share one rate limit", [(FORWARDED, 'proxy_set_header X-Forwarded-For "";')]),
        ("websocket", "blocks WebSockets", [(UPGRADE, "")]),
        ("uploads", "rejects request bodies", [("client_max_body_size 57m;", "client_max_body_size 10m;")]),
    ],
)
def test_doctor_proxy_misconfiguration_is_reported_by_exactly_one_check(
    behind: Behind, check: str, message: str, changes: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if check == "uploads":
        # On a busy machine, the proxy may refuse the upload late.
        monkeypatch.setattr(doctor, "_UPLOAD_SECONDS", PATIENT_SECONDS)
    with behind.nginx(*changes):
        found = behind.visit()
        assert found.bad() == {check}, found.all
        assert message in found.only(check).message


def test_doctor_proxy_without_backend_or_with_other_server_is_reported(behind: Behind) -> None:
    assert "proxy" in behind.visit().bad()
    with behind.nginx((f"127.0.0.1:{behind.port};", f"127.0.0.1:{free_port()};")):
        assert "returned status 502" in behind.visit().only("proxy").message
    port = free_port()
    (behind.folder / "other").mkdir(exist_ok=True)
    other = served(behind.folder / "other" / "shoal.db", "--port", str(port), SHOAL_TITLE="Elsewhere")
    with other, behind.nginx((f"127.0.0.1:{behind.port};", f"127.0.0.1:{port};")):
        assert "are different servers" in behind.visit().only("proxy").message


def test_doctor_expired_untrusted_or_expiring_certificate_is_reported(
    behind: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = expired(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(old.certificate))
    with behind.nginx(made=old):
        finding = behind.visit().only("tls")
        assert (finding.grade, "expired" in finding.message) == ("bad", True), finding
    with behind.nginx():
        assert behind.visit().only("tls").grade == "bad"
    (tmp_path / "soon").mkdir()
    soon = self_signed(tmp_path / "soon", days=5)
    monkeypatch.setenv("SSL_CERT_FILE", str(soon.certificate))
    with behind.nginx(made=soon):
        assert behind.visit().only("tls").grade == "warn"


def test_doctor_disabled_rate_limits_are_not_an_error(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "caddy").mkdir()
    with served(tmp_path / "shoal.db", "--port", str(port)), caddy(tmp_path / "caddy", port) as url:
        assert "rate_limits is off" in visit(tmp_path, port=port, base_url=url).only("forwarded").message


def test_doctor_unresolvable_host_name_is_reported(tmp_path: Path) -> None:
    assert "does not resolve" in visit(tmp_path, base_url="https://shoal.invalid").only("name").message


def test_doctor_base_url_without_tls_or_with_path_is_reported(tmp_path: Path) -> None:
    assert "does not use TLS" in visit(tmp_path, base_url="http://shoal.invalid").only("base_url").message
    assert visit(tmp_path, base_url="https://shoal.invalid/path").only("base_url").grade == "bad"


class _LateClock(http.server.BaseHTTPRequestHandler):
    """Answers with a `Date` header in the past."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(0)

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # named by the library
        """Nothing is logged."""


def test_doctor_clock_difference_to_proxy_is_reported(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _LateClock) as late:
        threading.Thread(target=late.serve_forever, daemon=True).start()
        found = visit(tmp_path, base_url=f"http://127.0.0.1:{late.server_port}")
        late.shutdown()
    finding = found.only("clock_of_proxy")
    assert (finding.grade, "ahead of the proxy" in finding.message) == ("bad", True)
    assert "is not from Shoal" in found.only("proxy").message


@pytest.mark.usefixtures("usual_patience")
def test_doctor_endless_proxy_response_times_out(tmp_path: Path) -> None:
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
    started.wait(60)
    assert "no response within" in visit(tmp_path, base_url=f"http://127.0.0.1:{ports[0]}").only("proxy").message
    finished.set()
    thread.join(60)


def test_doctor_run_before_first_start_leaves_store_usable(tmp_path: Path) -> None:
    visit(tmp_path)

    async def opened() -> None:
        async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as shoal:
            await shoal.register("ann")

    asyncio.run(opened())
    assert visit(tmp_path).only("store").grade == "ok"
