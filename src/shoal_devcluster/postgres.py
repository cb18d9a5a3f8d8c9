"""PostgreSQL from the Debian package: one database cluster in a folder, for this machine only, with trust authentication.

All durability settings stay on.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from shoal.core.errors import Unavailable
from shoal_devcluster.program import Program, find, free_port, hand_over

_USER = "postgres"
_SETTINGS = (
    "listen_addresses=127.0.0.1",
    # Do not open a Unix socket: its path in a test folder may be too long.
    "unix_socket_directories=",
    "max_connections=200",
    "fsync=on",
    "timezone=UTC",
)


def start(folder: Path, *options: str, port: int | None = None) -> Program:
    """Start a server with its data in `folder` and wait until it answers. Raises `NotInstalled`.

    A later start in this folder finds the data. `options` are server settings such as `ssl=on`.
    """
    programs = _programs()
    data = folder / "data"
    folder.mkdir(parents=True, exist_ok=True)
    hand_over(folder, _USER)
    if not (data / "PG_VERSION").exists():
        _make(programs, data)
    port = port or free_port()
    settings = [part for setting in (*_SETTINGS, *options) for part in ("-c", setting)]
    program = Program(
        "postgres",
        [str(programs / "postgres"), "-D", str(data), "-p", str(port), *settings],
        folder,
        url=f"postgresql://shoal@127.0.0.1:{port}/postgres",
        user=_USER,
        answers=lambda: _answers(programs, port),
        # SIGTERM is unsuitable, because the server would then wait until all clients have disconnected.
        stop_signal=signal.SIGINT,
    )
    program.start()
    return program


def _programs() -> Path:
    """Return the folder with the programs of the newest PostgreSQL.

    The PATH may contain only wrappers, or some of the programs.
    """
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = find("initdb", "postgresql", *map(str, folders))
    return folders[-1] if folders else Path(found).resolve().parent


def _make(programs: Path, data: Path) -> None:
    command = [str(programs / "initdb"), "-D", str(data), "-U", "shoal", "-A", "trust", "-E", "UTF8", "--locale=C"]
    user = _USER if os.geteuid() == 0 else None
    made = subprocess.run(  # noqa: S603  # a program that we named
        command, cwd=data.parent, capture_output=True, check=False, user=user
    )
    if made.returncode:
        raise Unavailable(f"initdb failed: {made.stderr.decode('utf-8', 'replace')[-2_000:]}")


def _answers(programs: Path, port: int) -> bool:
    command = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    return subprocess.run(command, check=False).returncode == 0  # noqa: S603  # a program that we named
