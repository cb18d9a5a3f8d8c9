"""A RabbitMQ cluster of three nodes on this machine, each of which can be killed and restarted."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shoal_devcluster import rabbitmq as engine
from shoal_devcluster.program import NotInstalled, Program, find, free_port, hand_over
from tests.engines.engine_requirement import wanted

NODES = 3
_FIRST = "cluster_formation.peer_discovery_backend = classic_config\ncluster_formation.classic_config.nodes.1 = {}\n"


class RabbitCluster:
    """A running cluster of RabbitMQ nodes that share an epmd name server. The caller must stop it."""

    def __init__(self) -> None:
        wanted()
        self._folder = Path(tempfile.mkdtemp(prefix="shoal-rabbitmq-cluster-"))
        self._folder.chmod(0o755)
        self._port, self._cookie = free_port(), secrets.token_hex(16)
        self.nodes: list[Program] = []
        self._names = self._name_server()
        try:
            # The other nodes join the first.
            self.nodes.append(self._node(1))
            with ThreadPoolExecutor(max_workers=NODES) as together:
                self.nodes += together.map(self._node, range(2, NODES + 1))
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """Return a URL that names all nodes."""
        hosts = [urlsplit(node.url).netloc.rpartition("@")[2] for node in self.nodes]
        return f"amqp://guest:guest@{','.join(hosts)}/"

    def leader_of(self, queue: str) -> Program:
        """Return the node that leads a quorum queue."""
        node = next(node for node in self.nodes if node.running)
        lines = dict(line.split("\t") for line in self._control(node, "list_queues", "name", "leader").splitlines()[1:])
        return self.nodes[[_name(n + 1) for n in range(NODES)].index(lines[queue])]

    def members_of(self, queue: str) -> int:
        """Count the nodes that have a copy of a quorum queue and are up."""
        node = next(node for node in self.nodes if node.running)
        lines = dict(line.split("\t") for line in self._control(node, "list_queues", "name", "online").splitlines()[1:])
        return lines[queue].count("shoal")

    def told(self) -> str:
        """Return the queues and consumers that a node reports, for the message of a failed test."""
        node = next(node for node in self.nodes if node.running)
        columns = ("name", "messages_ready", "messages_unacknowledged", "consumers", "leader", "online")
        return self._control(node, "list_queues", *columns) + self._control(node, "list_consumers")

    def stop(self) -> None:
        """Kill all nodes and delete their data."""
        for node in self.nodes:
            node.kill()
        self._names.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _control(self, node: Program, *words: str) -> str:
        command = [f"{engine._FOLDER}/rabbitmqctl", "--quiet", *words]
        ran = subprocess.run(
            command, env=node._environ, user=node._user, check=False, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def _name_server(self) -> Program:
        folder = self._folder / "names"
        folder.mkdir()
        hand_over(folder, "rabbitmq")
        environ = {"ERL_EPMD_PORT": str(self._port), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        program = Program("epmd", [find("epmd", "erlang-base")], folder, user="rabbitmq", environ=environ)
        program.start()
        return program

    def _node(self, number: int) -> Program:
        folder, port = self._folder / f"node-{number}", free_port()
        folder.mkdir()
        (folder / "rabbitmq.conf").write_text(engine._CONFIG.format(port=port) + _FIRST.format(_name(1)))
        (folder / "enabled_plugins").write_text("[].")
        (folder / ".erlang.cookie").write_text(self._cookie)
        (folder / ".erlang.cookie").chmod(0o400)
        hand_over(folder, "rabbitmq")
        environ = engine._environ(folder) | {"ERL_EPMD_PORT": str(self._port), "RABBITMQ_NODENAME": _name(number)}
        program = Program(
            "rabbitmq",
            [f"{engine._FOLDER}/rabbitmq-server"],
            folder,
            url=f"amqp://guest:guest@127.0.0.1:{port}/",
            user="rabbitmq",
            environ=environ,
            answers=lambda: engine._greets(port),
            patience=120.0,
        )
        program.start()
        return program


def _name(number: int) -> str:
    return f"shoal{number}@localhost"


def start() -> RabbitCluster:
    """Start a cluster. Skips the test where RabbitMQ is not installed, except in CI."""
    try:
        find("rabbitmq-server", "rabbitmq-server", engine._FOLDER, "/usr/sbin")
        return RabbitCluster()
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
