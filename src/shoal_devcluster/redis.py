"""Redis from the Debian package `redis-server`: one server, or a Redis Cluster with replicas.

Nothing is written to disk unless a client asks for it: the data that Shoal keeps there can be rebuilt.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from shoal.core.errors import Unavailable
from shoal_devcluster.program import Program, find, free_port, hand_over

_USER = "nobody"
_POLL_SECONDS = 0.05
_SLOTS = 16_384


def start(folder: Path, name: str = "redis", *options: str, server: str = "") -> Program:
    """Start a server and return its program, whose `url` is the address. `options` are command-line options of the server.

    `server` is the path of a program to run instead of `redis-server`, such as `valkey-server`.
    """
    program = _server(folder, name, free_port(), *options, server=server)
    program.start()
    return program


def _server(folder: Path, name: str, port: int, *options: str, server: str = "") -> Program:
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    hand_over(home, _USER)
    listen = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(home)]
    command = [server or find("redis-server", "redis-server"), *listen, "--save", "", "--appendonly", "no", *options]
    url = f"redis://127.0.0.1:{port}/0"
    return Program(name, command, home, url=url, user=_USER, answers=partial(_answers, port))


def _answers(port: int) -> bool:
    with contextlib.suppress(RedisError), _client(port) as client:
        return bool(client.ping())
    return False


def _client(port: int) -> Redis:
    return Redis(host="127.0.0.1", port=port, socket_timeout=5.0, socket_connect_timeout=1.0, protocol=2)


@dataclass
class RedisServer:
    program: Program
    port: int
    bus: int
    tls: int = 0
    id: str = ""

    def ask(self, *words: str | int) -> str:
        """Run a command and return the reply as text. Raises `redis.RedisError`."""
        with _client(self.port) as client:
            answer = client.execute_command(*words)
        return answer.decode() if isinstance(answer, bytes) else str(answer)


@dataclass
class RedisCluster:
    masters: list[RedisServer] = field(default_factory=list)
    replicas: list[RedisServer] = field(default_factory=list)

    @property
    def members(self) -> list[RedisServer]:
        return self.masters + self.replicas

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def start(self) -> None:
        """Start the servers that are not running, and wait until the cluster is complete. Raises `Unavailable`."""
        for member in self.members:
            if not member.program.running:
                member.program.start()
        self.settle()

    def settle(self, patience: float = 60.0) -> None:
        """Wait until every running server knows a master for each slot, and is a master or a replica."""
        _until(lambda: all(_whole(member) for member in self.members if member.program.running), patience)

    def stop(self) -> None:
        for member in self.members:
            member.program.resume()
            member.program.stop()


def start_cluster(
    folder: Path, masters: int = 3, replicas: int = 1, *options: str, node_timeout: float = 5.0, server: str = ""
) -> RedisCluster:
    """Start a Redis Cluster with `replicas` replicas for each master. `options` and `server` are as for `start`.

    With TLS options, each server also has a TLS port. A master is replaced after `node_timeout` seconds without an
    answer.
    """
    cluster = RedisCluster()
    try:
        for n in range(masters * (1 + replicas)):
            member = _member(folder, f"redis-{n + 1}", node_timeout, options, server)
            (cluster.masters if n < masters else cluster.replicas).append(member)
            member.program.start()
        _join(cluster)
    except (RedisError, Unavailable) as error:
        cluster.stop()
        raise Unavailable(f"the Redis Cluster did not start: {error}") from error
    return cluster


def _member(folder: Path, name: str, node_timeout: float, more: Sequence[str], server: str) -> RedisServer:
    # The default bus port, which is port + 10,000, may be outside the valid range.
    port, bus = free_port(), free_port()
    options = ["--cluster-enabled", "yes", "--cluster-port", str(bus)]
    options += ["--cluster-node-timeout", str(int(node_timeout * 1000)), "--repl-diskless-sync-delay", "0"]
    tls = 0
    if any(option.startswith("--tls") for option in more):
        tls = free_port()
        options += ["--tls-port", str(tls)]
    return RedisServer(_server(folder, name, port, *options, *more, server=server), port, bus, tls)


def _join(cluster: RedisCluster) -> None:
    first = cluster.masters[0]
    for n, member in enumerate(cluster.members):
        member.id = member.ask("CLUSTER", "MYID")
        member.ask("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        if member is not first:
            member.ask("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)
    share = len(cluster.masters)
    for n, member in enumerate(cluster.masters):
        member.ask("CLUSTER", "ADDSLOTSRANGE", _SLOTS * n // share, _SLOTS * (n + 1) // share - 1)
    for n, replica in enumerate(cluster.replicas):
        _until(partial(_follow, replica, cluster.masters[n % share]), 30.0)
    _until(lambda: all(_knows(member, len(cluster.members)) for member in cluster.members), 30.0)
    cluster.settle()


def _follow(replica: RedisServer, master: RedisServer) -> bool:
    """Make a server a replica of the master. Return False if the server does not know the master yet."""
    with contextlib.suppress(RedisError):
        replica.ask("CLUSTER", "REPLICATE", master.id)
        return True
    return False


def _knows(member: RedisServer, others: int) -> bool:
    return f"cluster_known_nodes:{others}\r" in member.ask("CLUSTER", "INFO")


def _whole(member: RedisServer) -> bool:
    with contextlib.suppress(RedisError):
        if "cluster_state:ok" not in member.ask("CLUSTER", "INFO"):
            return False
        with _client(member.port) as client:
            replication = client.info("replication")
        return bool(replication["role"] == "master" or replication["master_link_status"] == "up")
    return False


def _until(done: Callable[[], bool], patience: float) -> None:
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() > deadline:
            raise Unavailable("the Redis Cluster was not formed in time")
        time.sleep(_POLL_SECONDS)
