"""One MariaDB server for all tests, and empty databases on it. Shoal only reads from MariaDB, in imports."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pymysql
import pytest

from shoal_devcluster.program import NotInstalled, Program, find, free_port, hand_over
from tests.engines.engine_requirement import wanted
from tests.engines.shared_engines import shared
from tests.engines.shutdown import at_the_end

_USER = "mysql"
_numbers = itertools.count()


@functools.cache
def server() -> Program:
    """Return the server that all tests share. Skips the test where MariaDB is not installed, except in CI."""
    wanted()
    try:
        return shared(_start)
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def _start() -> Program:
    program, installer = find("mariadbd", "mariadb-server", "/usr/sbin"), find("mariadb-install-db", "mariadb-server")
    folder = Path(tempfile.mkdtemp(prefix="shoal-mariadb-"))
    at_the_end.callback(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    hand_over(folder, _USER)
    data, port, user = folder / "data", free_port(), _USER if os.geteuid() == 0 else None
    options = ["--no-defaults", f"--datadir={data}"]
    subprocess.run(
        [installer, *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
        check=True,
        capture_output=True,
        user=user,
        cwd=folder,
        # The usual folder for temporary files may belong to the user who runs the tests.
        env={**os.environ, "TMPDIR": str(folder)},
    )
    settings = [
        f"--port={port}",
        "--bind-address=127.0.0.1",
        f"--socket={folder / 's'}",
        f"--pid-file={folder / 'pid'}",
    ]
    # No test restarts this server, so its data need not survive a crash.
    settings += [
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-buffer-pool-size=16M",
        "--character-set-server=utf8mb4",
        f"--tmpdir={folder}",
    ]
    started = Program(
        "mariadb",
        [program, *options, *settings],
        folder,
        url=f"mysql://root@127.0.0.1:{port}/mysql",
        user=_USER,
        answers=lambda: _answers(port),
    )
    started.start()
    at_the_end.callback(started.kill)
    return started


def _answers(port: int) -> bool:
    try:
        pymysql.connect(host="127.0.0.1", port=port, user="root", connect_timeout=5).close()
    except pymysql.Error:
        return False
    return True


def database() -> str:
    """Return the URL of a new database."""
    url = server().url
    name = f"test_{os.getpid()}_{next(_numbers)}"
    host, port = url.removeprefix("mysql://root@").removesuffix("/mysql").split(":")
    connection = pymysql.connect(host=host, port=int(port), user="root")
    try:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    finally:
        connection.close()
    return url.removesuffix("/mysql") + f"/{name}"
