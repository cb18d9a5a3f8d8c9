"""The proxies of `deploy/`, really run: their files as they ship, save for names, ports and certificates."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.ops.engines.program import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PATIENCE = 60.0


def _changed(text: str, *changes: tuple[str, str]) -> str:
    for before, after in changes:
        assert before in text, f"the file has no {before!r} any more"
        text = text.replace(before, after)
    return text


def _program(name: str) -> str:
    """Where it is. At a desk without it the test is skipped; in CI it fails."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return found


@contextlib.contextmanager
def _running(command: list[str], port: int, folder: Path) -> Iterator[None]:
    environment = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        until = time.monotonic() + PATIENCE
        while not _answers(port):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.02)
        yield
    finally:
        # nginx ends its children and goes; Caddy waits for connections as long as clients keep them.
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[str]:
    """The address of nginx in front of a server, by TLS with a certificate that nobody signed."""
    program, port, plain = _program("nginx"), free_port(), free_port()
    subject = ["-subj", "/CN=localhost", "-days", "2", "-nodes", "-newkey", "rsa:2048"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", "req", "-x509", *subject, *files], check=True, capture_output=True)
    site = _changed(
        (DEPLOY / "nginx.conf").read_text(),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("/etc/letsencrypt/live/social.example.org/fullchain.pem", str(folder / "cert.pem")),
        ("/etc/letsencrypt/live/social.example.org/privkey.pem", str(folder / "key.pem")),
        ("127.0.0.1:8500", f"127.0.0.1:{upstream}"),
    )
    (folder / "site.conf").write_text(site)
    places = [f"{name}_temp_path {folder / name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    lines = [
        *(["user root;"] if os.geteuid() == 0 else []),
        f"daemon off; pid {folder / 'pid'}; error_log stderr;",
        "events { worker_connections 256; }",
        f"http {{ access_log off; {' '.join(places)} include {folder / 'site.conf'}; }}",
    ]
    (folder / "nginx.conf").write_text("\n".join(lines))
    with _running([program, "-e", "stderr", "-c", str(folder / "nginx.conf")], port, folder):
        yield f"https://127.0.0.1:{port}"


@contextlib.contextmanager
def caddy(folder: Path, upstream: int) -> Iterator[str]:
    """The address of Caddy in front of a server, without TLS: it would ask for a certificate."""
    program, port = _program("caddy"), free_port()
    site = _changed(
        (DEPLOY / "Caddyfile").read_text(),
        ("{\n\tservers {", "{\n\tadmin off\n\tservers {"),
        ("social.example.org {", f"http://127.0.0.1:{port} {{"),
        ("127.0.0.1:8500", f"127.0.0.1:{upstream}"),
    )
    (folder / "Caddyfile").write_text(site)
    with _running([program, "run", "--config", str(folder / "Caddyfile")], port, folder):
        yield f"http://127.0.0.1:{port}"


def trusting() -> ssl.SSLContext:
    """Certificates are not what is tested."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


PROXIES: dict[str, Callable[[Path, int], contextlib.AbstractContextManager[str]]] = {"nginx": nginx, "caddy": caddy}
