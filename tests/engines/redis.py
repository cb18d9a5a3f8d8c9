"""Redis for tests: one server and one Cluster, started when first asked for and kept for the session.

Who breaks an engine on purpose starts one of their own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from redis import Redis

from shoal.ops.engines import redis as engine
from shoal.ops.engines.program import NotInstalled, Program, find
from tests.engines.ending import at_the_end
from tests.engines.wanted import wanted

PATIENT = {"connect_seconds": 30.0, "answer_seconds": 30.0}
"""For tests in which no server is away: what is promised holds however busy the machine is."""

NODE_TIMEOUT = 1.5


def folder() -> Path:
    """A folder that another user may enter; it goes with the session."""
    made = Path(tempfile.mkdtemp(prefix="shoal-redis-"))
    made.chmod(0o755)
    at_the_end.callback(shutil.rmtree, made, ignore_errors=True)
    return made


def installed() -> None:
    """Skip the test where the program is missing; in CI it must not be."""
    wanted()
    try:
        find("redis-server", "redis-server")
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def own(*options: str) -> Program:
    """A server that a test may kill, and stops."""
    installed()
    return engine.start(folder(), "redis", *options)


def own_cluster(masters: int = 3, replicas: int = 1) -> engine.RedisCluster:
    """A Cluster that a test may kill, and stops."""
    installed()
    return engine.start_cluster(folder(), masters, replicas, node_timeout=NODE_TIMEOUT)


@cache
def server() -> Program:
    """The server that tests share."""
    program = own()
    at_the_end.callback(program.kill)
    return program


@cache
def _cluster() -> engine.RedisCluster:
    cluster = own_cluster()
    at_the_end.callback(_kill, cluster)
    return cluster


def _kill(cluster: engine.RedisCluster) -> None:
    for member in cluster.members:
        member.program.kill()


def single() -> str:
    """The address of a server with nothing on it."""
    program = server()
    with Redis.from_url(program.url) as client:
        client.flushall()
    return program.url


def cluster() -> str:
    """The address of a Cluster with nothing on it."""
    running = _cluster()
    for member in running.masters:
        member.ask("FLUSHALL")
    return running.url
