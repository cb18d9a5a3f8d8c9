"""PgBouncer in transaction mode, as packaged by Debian, in front of the shared PostgreSQL server or another one."""

from __future__ import annotations

import functools
import os
import shutil
from urllib.parse import urlsplit

import pytest

from shoal_devcluster.program import NotInstalled, Program, find, free_port, hand_over, listens
from tests.engines import postgres
from tests.engines.shutdown import at_the_end

_CONFIG = """\
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = 5
max_client_conn = 1000
"""
"""The configuration. The pool has fewer sessions than a store has connections, so that each session serves all of them in turn."""


@functools.cache
def _started(server: int) -> Program:
    """Start a pooler in front of the server at this port."""
    folder = postgres.folder()
    port = free_port()
    config = _CONFIG.format(server=server, port=port, folder=folder)
    (folder / "pgbouncer.ini").write_text(config)
    (folder / "users.txt").write_text('"shoal" ""\n')
    hand_over(folder, "postgres")
    program = Program(
        "pgbouncer",
        [find("pgbouncer", "pgbouncer", "/usr/sbin"), str(folder / "pgbouncer.ini")],
        folder,
        url=f"127.0.0.1:{port}",
        user="postgres",
        answers=lambda: listens(port),
    )
    program.start()
    at_the_end.callback(shutil.rmtree, folder, ignore_errors=True)
    at_the_end.callback(program.kill)
    return program


def pooled(url: str) -> str:
    """Return the URL of a database through the pooler. Without PgBouncer, skip the test, or fail in CI."""
    return f"{url}?pooler={in_front_of(postgres.server().url)}"


def in_front_of(url: str) -> str:
    """Return the host and port of a pooler of this server. Without PgBouncer, skip the test, or fail in CI."""
    try:
        return _started(urlsplit(url).port or 5432).url
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
