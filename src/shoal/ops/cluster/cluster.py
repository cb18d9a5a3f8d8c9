"""A whole small cluster on this machine, from the programs that are installed: for trying out, and for tests.

Two PostgreSQL servers that share the shards, Redis as a Cluster of three masters with a replica each, RabbitMQ, and our own
web processes and workers between them. All of it is in one folder and on free ports; nobody but this machine can reach it.
Started again in the same folder it finds its members and posts. Redis begins empty: what is there can be rebuilt.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from shoal import private_files
from shoal.core.errors import Unavailable
from shoal.ops.cluster.folder import Ports
from shoal.ops.engines import postgres, rabbitmq, redis
from shoal.ops.engines.program import Program
from shoal.settings import Settings, build, environment
from shoal.settings_file import toml_value

_log = logging.getLogger(__name__)

SETTINGS_FILE = "shoal.toml"
_SHARES = ("0-31", "32-63")
_MASTERS = 3
_LONGEST_PAUSE_SECONDS = 30.0
_HEALTHY_SECONDS = 60.0
"""Seconds of running after which a program that ends is started again without a pause."""

Through = Callable[[str], str]
"""Gives the address under which our own processes are to find an engine: a test may stand in between."""


class Engines(NamedTuple):
    """The servers that are not Shoal's own programs."""

    postgres: list[Program]
    redis: redis.RedisCluster
    rabbitmq: Program

    def stop(self) -> None:
        """Stop the servers, the ones that keep the data last."""
        self.rabbitmq.stop()
        self.redis.stop()
        for program in self.postgres:
            program.resume()
            program.stop()


class Cluster:
    """Everything that runs. Programs may be stopped, killed and started one by one; `tend` starts those that died."""

    def __init__(
        self, engines: Engines, settings: Settings, web: Sequence[Program], workers: Sequence[Program]
    ) -> None:
        self.postgres = engines.postgres
        self.redis = engines.redis
        self.rabbitmq = engines.rabbitmq
        self.web = list(web)
        self.workers = list(workers)
        self.settings = settings
        """For commands on this network, and what our processes have too."""
        self._engines = engines
        # When each was last started again, and how long it must have run before that is done once more.
        self._tried: dict[Program, tuple[float, float]] = {}

    @property
    def programs(self) -> list[Program]:
        """All of them, those first that others need."""
        members = [member.program for member in self.redis.members]
        return [*self.postgres, *members, self.rabbitmq, *self.workers, *self.web]

    def tend(self) -> list[str]:
        """Start again whatever has ended of its own accord; the names. What ends again and again is tried less often."""
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
        """Stop everything: first who asks, then who answers."""
        for program in (*self.web, *self.workers):
            program.resume()
        # Side by side: each finishes what it has in hand.
        with ThreadPoolExecutor(max_workers=len(self.web) + len(self.workers) or 1) as together:
            list(together.map(Program.stop, (*self.web, *self.workers)))
        self._engines.stop()


def start(folder: Path, *, web: int = 2, workers: int = 2, through: Through = str, **values: Any) -> Cluster:
    """A cluster in a folder that is held (`ops/cluster/folder.py`), answering; `values` are settings of its processes.

    Raises `NotInstalled` where a program is missing, `Unavailable` where one does not start: then none is left running.
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
    """All engines side by side: each is slow in its own way."""
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
            _stop_started([*databases, broker, cache])
            raise


def _stop_started(starting: Sequence[Future[Any]]) -> None:
    for started in starting:
        if started.exception() is None:
            started.result().stop()


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
    """The settings that differ from what they are by default."""
    usual = Settings()
    return {
        name: value for name in settings.__struct_fields__ if (value := getattr(settings, name)) != getattr(usual, name)
    }


def _write(path: Path, settings: Settings) -> None:
    lines = [f"{name} = {toml_value(value)}\n" for name, value in _chosen(settings).items()]
    private_files.write(path, "".join(["# Written by `shoal cluster up`, anew each time.\n", *lines]).encode())


def _web(folder: Path, name: str, settings: Settings, ports: Ports) -> Program:
    port = ports.get(name)
    options = ("serve", "--host", "127.0.0.1", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    return _ours(folder, name, settings, *options, url=url, answers=lambda: _serves(port))


def _ours(folder: Path, name: str, settings: Settings, *options: str, **given: Any) -> Program:
    """A process of our own program, with these settings whatever the environment says."""
    home = folder / name
    private_files.make_folder(home)
    environ = {**environment(settings), "SHOAL_CONFIG": str(folder / SETTINGS_FILE)}
    command = [sys.executable, "-m", "shoal.cli", *(options or ("worker",))]
    return Program(name, command, home, environ=environ, **given)


def _serves(port: int) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(asking):
            asking.request("GET", "/health")
            return asking.getresponse().status == 200
    return False
