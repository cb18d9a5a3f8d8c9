"""The proxies of `deploy/`, run with the shipped configuration files except for names, ports and certificates."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

from shoal_devcluster.program import free_port
from tests.deploy.programs import DEPLOY, changed, program, running
from tests.engines.certificates import SelfSigned, self_signed


@contextlib.contextmanager
def nginx(
    folder: Path, upstream: int, *changes: tuple[str, str], port: int = 0, made: SelfSigned | None = None
) -> Iterator[str]:
    """Run nginx in front of a server, with a self-signed certificate and `changes` to its file; yield the URL."""
    installed, port, plain = program("nginx"), port or free_port(), free_port()
    made = made or self_signed(folder)
    site = changed(
        (DEPLOY / "nginx.conf").read_text(),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("/etc/letsencrypt/live/social.example.org/fullchain.pem", str(made.certificate)),
        ("/etc/letsencrypt/live/social.example.org/privkey.pem", str(made.key)),
        ("127.0.0.1:8500", f"127.0.0.1:{upstream}"),
        *changes,
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
    with running([installed, "-e", "stderr", "-c", str(folder / "nginx.conf")], port, folder):
        yield f"https://127.0.0.1:{port}"


@contextlib.contextmanager
def caddy(folder: Path, upstream: int, *, port: int = 0) -> Iterator[str]:
    """Run Caddy in front of a server, without TLS, for which it would request a certificate; yield the URL."""
    installed, port = program("caddy"), port or free_port()
    site = changed(
        (DEPLOY / "Caddyfile").read_text(),
        ("{\n\tservers {", "{\n\tadmin off\n\tservers {"),
        ("{$DOMAIN:social.example.org} {", f"http://127.0.0.1:{port} {{"),
        ("127.0.0.1:8500", f"127.0.0.1:{upstream}"),
    )
    (folder / "Caddyfile").write_text(site)
    with running([installed, "run", "--config", str(folder / "Caddyfile")], port, folder):
        yield f"http://127.0.0.1:{port}"


def trusting() -> ssl.SSLContext:
    """Return a TLS context that accepts any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


PROXIES: dict[str, Callable[[Path, int], contextlib.AbstractContextManager[str]]] = {"nginx": nginx, "caddy": caddy}
