"""RabbitMQ from the Debian package: one node with its own name, ports and epmd, and all its files in one folder.

Only this machine can reach it; `guest` may log in.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from shoal_devcluster.program import Program, find, free_port, hand_over

_FOLDER = "/usr/lib/rabbitmq/bin"
# Run epmd as a child of the node's script, and stop it after the node. As a daemon, it would outlive the node.
_BOTH = """
epmd & names=$!
"$0" & node=$!
trap 'kill -TERM $node' TERM
while kill -0 $node 2>/dev/null; do wait $node; done
kill $names; wait
"""
_CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
log.console.level = warning
disk_free_limit.absolute = 50MB
"""


def start(folder: Path, *settings: str, port: int | None = None) -> Program:
    """Start a node with its files in `folder`, and wait until it answers. Raises `NotInstalled`.

    A later start in this folder finds all durable data. `settings` are lines of the node's configuration.
    """
    # The `rabbitmq-server` on the PATH is a wrapper that uses the system's folders and another user, so it is not used.
    server = f"{_FOLDER}/rabbitmq-server"
    find("rabbitmq-server", "rabbitmq-server", _FOLDER, "/usr/sbin")
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rabbitmq.conf").write_text(_CONFIG.format(port=port) + "".join(f"{line}\n" for line in settings))
    (folder / "enabled_plugins").write_text("[].")
    hand_over(folder, "rabbitmq")
    program = Program(
        "rabbitmq",
        ["/bin/sh", "-c", _BOTH, server],
        folder,
        url=f"amqp://guest:guest@127.0.0.1:{port}/",
        user="rabbitmq",
        environ=_environ(folder),
        answers=lambda: _greets(port),
    )
    program.start()
    return program


def _environ(folder: Path) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "ERL_EPMD_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        # The path of the data contains this name. Nodes with separate epmds may have equal names.
        "RABBITMQ_NODENAME": "shoal@localhost",
        "RABBITMQ_DIST_PORT": str(free_port()),
        # Bind the distribution port to this machine, because a client with the cookie can run any code there.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }


def _greets(port: int) -> bool:
    """Return whether the node speaks AMQP. It does so only some time after it begins to accept connections."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as client:
        client.sendall(b"AMQP\x00\x00\x09\x01")
        return client.recv(1) == b"\x01"
    return False
