"""A small cluster on this machine, from the installed programs: for trials and for tests.

Two PostgreSQL servers that share the shards, Redis Cluster with three primaries and a replica each, RabbitMQ, and web and
worker processes. Everything is in one folder, on free ports, reachable from this machine only. A restart in this folder keeps
members and posts; Redis starts empty, since its content can be rebuilt.

One process at a time locks a folder. If it is killed, its engines survive, and the next process that locks the folder stops them
first. It recognizes them by their working directory and missing terminal, so it needs no list of processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal import private_files
from shoal.core.errors import InvalidInput, Unavailable
from shoal.settings import Settings, build, environment
from shoal.settings_file import toml_value
from shoal_devcluster import postgres, rabbitmq, redis
from shoal_devcluster.program import Program, free_port

_LOCK = "cluster.lock"
_PORTS = "cluster.json"
_ENTERED = 0o711
"""File mode that lets other operating-system users enter the folder without listing it."""
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 90.0


@contextmanager
def held(folder: Path) -> Iterator[Path]:
    """Lock a folder for a cluster, stop processes of an earlier cluster, and yield the full path. A missing folder is created.

    Raises `Unavailable` while another process has the lock, and `InvalidInput` for a folder that the engines cannot
    enter.
    """
    made = not folder.exists()
    folder.mkdir(private_files.FOLDER, parents=True, exist_ok=True)
    folder = folder.resolve()
    if made and os.geteuid() == 0:
        # If this process runs as root, each engine runs as another operating-system user, who must be able to enter its
        # subfolder.
        folder.chmod(_ENTERED)
    _check_reachable(folder)
    lock = private_files.open_file(folder / _LOCK, os.O_RDWR)
    try:
        if not _take(lock):
            raise Unavailable(f"a cluster is already running in {folder.name}: stop it with `shoal cluster down`")
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        clear(folder)
        yield folder
    finally:
        os.close(lock)


def end(folder: Path) -> bool:
    """Stop the cluster in a folder, or processes of an earlier one. Return whether anything was running.

    Raises `Unavailable` if the cluster is still running 90 seconds after SIGTERM.
    """
    folder = folder.resolve()
    if not (folder / _LOCK).exists():
        return False
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        if _take(lock):
            return clear(folder) > 0
        pid = int(os.pread(lock, 20, 0))
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _take(lock):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the cluster (process {pid}) did not stop within {_PATIENCE_SECONDS:g} s of SIGTERM: "
                    "kill this process, then run `shoal cluster down` again"
                )
            time.sleep(_POLL_SECONDS)
        return True
    finally:
        os.close(lock)


def clear(folder: Path) -> int:
    """Kill all processes that run in the folder without a terminal, and return their number. Data on disk is not lost."""
    killed: set[int] = set()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while left := _running_in(folder) | set(filter(_not_buried, killed)):
        if time.monotonic() > deadline:
            raise Unavailable(
                f"processes of an earlier cluster did not exit within {_PATIENCE_SECONDS:g} s of SIGKILL: {sorted(left)}"
            )
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= left
        time.sleep(_POLL_SECONDS)
    return len(killed)


class Ports:
    def __init__(self, folder: Path) -> None:
        self._path = folder / _PORTS
        self.known: dict[str, int] = {}
        """Assigned ports by name. They include the ports of an earlier cluster in the folder."""
        if self._path.exists():
            try:
                self.known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
            except msgspec.DecodeError as error:
                raise InvalidInput(f"cannot read {self._path}: delete it, and the cluster gets new ports") from error

    def get(self, name: str) -> int:
        others = {port for other, port in self.known.items() if other != name}
        port = self.known.get(name, 0)
        while not port or port in others or not _free(port):
            port = free_port()
        if self.known.get(name) != port:
            self.known[name] = port
            private_files.write(self._path, msgspec.json.encode(self.known))
        return port


def _take(lock: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _check_reachable(folder: Path) -> None:
    """Raise `InvalidInput` if the operating-system users of the engines cannot enter the folder."""
    if os.geteuid() != 0:
        return
    for path in (folder, *folder.parents):
        if not path.stat().st_mode & 0o001:
            raise InvalidInput(f"the users who run the database servers cannot access {path}: name another --folder")


def _running_in(folder: Path) -> set[int]:
    """Return the processes that run in the folder, except processes with a terminal and those of this process's session."""
    found = set()
    for entry in Path("/proc").iterdir():
        # The process may end at any moment, or belong to another operating-system user.
        with contextlib.suppress(OSError, ValueError):
            where = (entry / "cwd").readlink()
            if entry.name.isdigit() and folder in where.parents and not _of_people(entry):
                found.add(int(entry.name))
    return found


def _not_buried(pid: int) -> bool:
    """Return whether a killed process still exists. PostgreSQL cannot start again until it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        # Ignore children of this process, which remain zombies until `poll` reaps them.
        return int(fields[1]) != os.getpid()
    return False


def _of_people(process: Path) -> bool:
    fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    session, terminal = int(fields[3]), int(fields[4])
    return terminal != 0 or session == os.getsid(0)


def _free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


_log = logging.getLogger(__name__)

SETTINGS_FILE = "shoal.toml"
_SHARES = ("0-31", "32-63")
_MASTERS = 3
_LONGEST_PAUSE_SECONDS = 30.0
_HEALTHY_SECONDS = 60.0
"""Seconds after which a running program counts as healthy. If it exits later, it is restarted without a pause."""

Through = Callable[[str], str]
"""Maps the address of an engine to the address that Shoal's processes use. With it, tests put a proxy in between."""


class Engines(NamedTuple):
    postgres: list[Program]
    redis: redis.RedisCluster
    rabbitmq: Program

    def stop(self) -> None:
        self.rabbitmq.stop()
        self.redis.stop()
        for program in self.postgres:
            program.resume()
            program.stop()


class Cluster:
    """A running cluster. Its programs can be stopped, killed and started. `tend` restarts programs that died."""

    def __init__(
        self, engines: Engines, settings: Settings, web: Sequence[Program], workers: Sequence[Program]
    ) -> None:
        self.postgres = engines.postgres
        self.redis = engines.redis
        self.rabbitmq = engines.rabbitmq
        self.web = list(web)
        self.workers = list(workers)
        self.settings = settings
        """The settings of the web and worker processes. Commands can use the network with them."""
        self._engines = engines
        # Maps each program to the time of its last restart and the minimum seconds until the next restart.
        self._tried: dict[Program, tuple[float, float]] = {}

    @property
    def programs(self) -> list[Program]:
        members = [member.program for member in self.redis.members]
        return [*self.postgres, *members, self.rabbitmq, *self.workers, *self.web]

    def tend(self) -> list[str]:
        return [program.folder.name for program in self.programs if not program.running and self._again(program)]

    def _again(self, program: Program) -> bool:
        now = time.monotonic()
        last, pause = self._tried.get(program, (-_HEALTHY_SECONDS, 0.0))
        if now < last + pause:
            return False
        pause = min(max(2 * pause, 1.0), _LONGEST_PAUSE_SECONDS) if now < last + _HEALTHY_SECONDS else 1.0
        self._tried[program] = (now, pause)
        try:
            program.start()
        except Unavailable as error:
            _log.warning("%s", error)
            return False
        return True

    def stop(self) -> None:
        for program in (*self.web, *self.workers):
            program.resume()
        # Stop the processes in parallel, because each finishes its current work before it exits.
        with ThreadPoolExecutor(max_workers=len(self.web) + len(self.workers) or 1) as together:
            list(together.map(Program.stop, (*self.web, *self.workers)))
        self._engines.stop()


def start(folder: Path, *, web: int = 2, workers: int = 2, through: Through = str, **values: Any) -> Cluster:
    """Start a cluster in a folder locked by `held`, and wait until it answers. `values` are settings of its processes.

    `through` converts the URL of an engine for the processes, for example to the URL of a proxy. Raises `NotInstalled`
    if a program is missing, and `Unavailable` if a program does not start. In both cases, all programs are stopped.
    """
    ports = Ports(folder)
    engines = _start_engines(folder, ports)
    cluster = Cluster(engines, _settings(folder, engines, through, values), [], [])
    try:
        _write(folder / SETTINGS_FILE, cluster.settings)
        cluster.workers += [_ours(folder, f"worker-{n + 1}", cluster.settings) for n in range(workers)]
        cluster.web += [_web(folder, f"web-{n + 1}", cluster.settings, ports) for n in range(web)]
        with ThreadPoolExecutor(max_workers=2) as together:
            list(together.map(Program.start, (*cluster.workers, *cluster.web)))
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _start_engines(folder: Path, ports: Ports) -> Engines:
    """Start all engines in parallel, because each takes seconds."""
    for old in folder.glob("redis-*"):
        shutil.rmtree(old)
    at = [ports.get(name) for name in ("postgres-1", "postgres-2", "rabbitmq")]
    with ThreadPoolExecutor(max_workers=4) as together:
        databases = [
            together.submit(postgres.start, folder / f"postgres-{n}", port=port) for n, port in ((1, at[0]), (2, at[1]))
        ]
        broker = together.submit(rabbitmq.start, folder / "rabbitmq", port=at[2])
        cache = together.submit(redis.start_cluster, folder, _MASTERS, 1)
        try:
            return Engines([database.result() for database in databases], cache.result(), broker.result())
        except BaseException:
            starting: list[Future[Any]] = [*databases, broker, cache]
            for started in starting:
                if started.exception() is None:
                    started.result().stop()
            raise


def _settings(folder: Path, engines: Engines, through: Through, values: dict[str, Any]) -> Settings:
    stores = {share: through(program.url) for share, program in zip(_SHARES, engines.postgres, strict=True)}
    return build(
        store=stores,
        timelines=engines.redis.url,
        broker=through(engines.rabbitmq.url),
        media=(folder / "media").as_uri(),
        run_consequences=False,
        **values,
    )


def _chosen(settings: Settings) -> dict[str, Any]:
    usual = Settings()
    return {
        name: value for name in settings.__struct_fields__ if (value := getattr(settings, name)) != getattr(usual, name)
    }


def _write(path: Path, settings: Settings) -> None:
    lines = [f"{name} = {toml_value(value)}\n" for name, value in _chosen(settings).items()]
    private_files.write(path, "".join(["# Generated by `shoal cluster up` at each start.\n", *lines]).encode())


def _web(folder: Path, name: str, settings: Settings, ports: Ports) -> Program:
    port = ports.get(name)
    options = ("serve", "--host", "127.0.0.1", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    return _ours(folder, name, settings, *options, url=url, answers=lambda: _serves(port))


def _ours(folder: Path, name: str, settings: Settings, *options: str, **given: Any) -> Program:
    """Return a Shoal process with these settings. It ignores the environment variables of the current process."""
    home = folder / name
    private_files.make_folder(home)
    environ = {**environment(settings), "SHOAL_CONFIG": str(folder / SETTINGS_FILE)}
    command = [sys.executable, "-m", "shoal.cli", *(options or ("worker",))]
    return Program(name, command, home, environ=environ, **given)


def _serves(port: int) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
    return False
