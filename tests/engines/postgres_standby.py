"""A standby of a PostgreSQL server. A test can cut its replication link and promote it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from shoal_devcluster import postgres
from shoal_devcluster.program import Program, hand_over
from tests.async_runner import run
from tests.faults.proxy import Link, port_of

NAME = "standby"
_PATIENCE_SECONDS = 60.0


class Standby:
    """A standby of the server at `url`, with its files in `folder`. The caller must stop it."""

    def __init__(self, folder: Path, url: str) -> None:
        self._primary = url
        self.link = Link(port_of(url))
        """The replication link. Once it is cut, the standby falls behind."""
        try:
            _copy(folder, self.link.at)
            self.program: Program = postgres.start(folder)
        except BaseException:
            self.link.close()
            raise

    @property
    def url(self) -> str:
        """Return the URL for clients."""
        return self.program.url

    def beside(self, url: str) -> str:
        """Return the URL with this server added after the one it already names."""
        parts = urlsplit(url)
        return parts._replace(netloc=f"{parts.netloc},127.0.0.1:{port_of(self.url)}").geturl()

    def is_waited_for(self) -> None:
        """Make the primary acknowledge only commits that this server has on its disk."""
        run(_set(self._primary, "synchronous_standby_names", NAME))
        _until(self._primary, "SELECT sync_state = 'sync' FROM pg_stat_replication")

    def falls_behind(self) -> None:
        """Cut the replication link and wait until the standby has lost its connection."""
        self.link.cut()
        _until(self.url, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    def promote(self) -> None:
        """Promote the standby and wait until it is the primary."""
        run(_value(self.url, "SELECT pg_promote(true, 60)"))

    def stop(self) -> None:
        """Kill the server, close its link and delete its files."""
        self.program.kill()
        self.link.close()
        shutil.rmtree(self.program.folder, ignore_errors=True)


def _copy(folder: Path, port: int) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    hand_over(folder, "postgres")
    source = f"host=127.0.0.1 port={port} user=shoal application_name={NAME}"
    command = [
        str(postgres._programs() / "pg_basebackup"),
        "-D",
        str(folder / "data"),
        "-d",
        source,
        "-R",
        "-c",
        "fast",
    ]
    user = "postgres" if os.geteuid() == 0 else None
    made = subprocess.run(command, cwd=folder, capture_output=True, check=False, user=user, timeout=120)
    assert made.returncode == 0, made.stderr


async def _set(url: str, name: str, value: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()


def set_of(url: str, name: str, value: str) -> None:
    """Change a setting of a running server."""
    run(_set(url, name, value))


async def _value(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


def _until(url: str, statement: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not run(_value(url, statement)):
        assert time.monotonic() < deadline, statement
        time.sleep(0.02)
