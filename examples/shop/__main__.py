"""Try the shop: run it together with a Shoal server of its own, by `cd examples && python -m shop`.

The first start sets everything up in a folder, as an operator would: the settings of Shoal, a server key, an app and a webhook.
Shoal sends its requests to https URLs only, so the shop also listens on a second port, with a certificate that this server trusts.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI

from shop.app import create_app
from shop.config import Config
from shop.demo import STAFF, add_demo
from shop.shoal_server import AUDIENCE
from shop.users import Database

_HOST = "127.0.0.1"
_SETTINGS = """store = "sqlite:///shoal.db"
event_log = "on"
outgoing_networks = ["127.0.0.0/8"]
webhook_networks = ["127.0.0.0/8"]
"""
_ISSUER = """password_login = false
moderation_hook = "{https_url}/hooks/moderation"
moderation_hook_secret = "{hook_secret}"
moderation_hook_failure = "hold"
moderation_hook_ms = 2000

[issuers."{url}"]
audience = "{audience}"
jwks_url = "{https_url}/.well-known/jwks.json"
apps = ["{client_id}"]
scopes = ["read", "write"]
single_use = true
token_seconds = 900
"""


class _Shoal:
    """Programs of Shoal in the folder, which trust the certificate of the shop."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self._environment = {**os.environ, "SSL_CERT_FILE": str(folder / "cert.pem")}

    def output(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "shoal.cli", *arguments]
        done = subprocess.run(  # noqa: S603
            command, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() or sys.exit(done.stderr)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Run the server until the block ends, and yield its URL."""
        command = [sys.executable, "-m", "shoal.cli", "serve", "--port", str(self._port)]
        with subprocess.Popen(  # noqa: S603
            command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                lines = process.stdout or ()
                found = next((match for line in lines if (match := re.search(r"http://[^\s/]+", line))), None)
                if found is None:
                    sys.exit("the Shoal server did not start")
                yield found[0]
            finally:
                process.terminate()


def _set_up(shoal: _Shoal, folder: Path, url: str, https_url: str) -> dict[str, str]:
    """Return the secrets of the shop. The first call creates them."""
    stored = folder / "secrets.json"
    if stored.exists():
        found: dict[str, str] = json.loads(stored.read_text())
        return found
    _write_certificate(folder)
    settings = folder / "shoal.toml"
    settings.write_text(_SETTINGS)
    with shoal.serving() as shoal_url:
        form = {"client_name": "Driftwood", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob", "scopes": "read write"}
        app = httpx.post(f"{shoal_url}/api/v1/apps", data=form).raise_for_status().json()
        scopes = "server:members server:act server:moderation read write"
        made = {
            "server_key": shoal.output("key", "create", "Driftwood", "--scopes", scopes),
            "client_id": app["client_id"],
            "client_secret": app["client_secret"],
            "webhook_secret": shoal.output(
                "webhooks", "add", f"{https_url}/webhooks/shoal", "--types", "post,like,follow"
            ),
            "hook_secret": f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}",
            "staff_password": secrets.token_urlsafe(9),
        }
    settings.touch(mode=0o600)
    settings.write_text(_SETTINGS + _ISSUER.format(url=url, audience=AUDIENCE, https_url=https_url, **made))
    Database(folder / "shop.db").sign_up(STAFF, "Staff", made["staff_password"], is_staff=True)
    stored.touch(mode=0o600)
    stored.write_text(json.dumps(made))
    return made


def _write_certificate(folder: Path) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=365))
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(_HOST))])
    certificate = builder.add_extension(names, critical=True).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").touch(mode=0o600)
    secret = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*secret))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


async def _serve(
    app: FastAPI, folder: Path, http: socket.socket, https: socket.socket, password: str, *, demo: bool
) -> None:
    """Serve the shop on both ports until a signal arrives."""
    certificate, key = folder / "cert.pem", str(folder / "key.pem")
    for_shoal = _Server(
        uvicorn.Config(app, log_level="warning", lifespan="off", ssl_certfile=certificate, ssl_keyfile=key)
    )
    for_browsers = _Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    tasks = []
    # A signal stops the server that started last, which passes it on when it ends.
    for server, bound in ((for_shoal, https), (for_browsers, http)):
        tasks.append(asyncio.create_task(server.serve([bound])))
        await server.listening.wait()
    if demo:
        await add_demo(_url(http), password)
    print(
        f"The shop is at {_url(http)} (Ctrl-C stops it)", f"The password of {STAFF} is {password}", sep="\n", flush=True
    )
    await asyncio.gather(*tasks)


def _url(bound: socket.socket, scheme: str = "http") -> str:
    return f"{scheme}://{_HOST}:{bound.getsockname()[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="shop", description="Run the shop and its Shoal server, to try them.")
    parser.add_argument("--folder", type=Path, default=Path("shop-data"), help="stores everything [./shop-data]")
    parser.add_argument("--port", type=int, default=8600, help="port of the shop [8600]")
    parser.add_argument("--https-port", type=int, default=8601, help="port to which Shoal sends requests [8601]")
    parser.add_argument("--shoal-port", type=int, default=8500, help="port of Shoal [8500]")
    parser.add_argument("--demo", action="store_true", help="add users, reviews, likes and follows")
    given = parser.parse_args()
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    http, https = (socket.create_server((_HOST, port)) for port in (given.port, given.https_port))
    shoal = _Shoal(folder, given.shoal_port)
    made = _set_up(shoal, folder, _url(http), _url(https, "https"))
    with shoal.serving() as shoal_url:
        password = made.pop("staff_password")
        config = Config(folder=folder, url=_url(http), shoal_url=shoal_url, **made)
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(create_app(config), folder, http, https, password, demo=given.demo))


if __name__ == "__main__":
    main()
