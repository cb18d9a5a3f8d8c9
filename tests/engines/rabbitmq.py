"""RabbitMQ for tests: one shared node, with separate queues for each test."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from shoal_devcluster import rabbitmq
from shoal_devcluster.program import NotInstalled, Program
from tests.engines.engine_requirement import wanted
from tests.engines.shared_engines import shared
from tests.engines.shutdown import at_the_end

_numbers = itertools.count(1)


def node() -> Program:
    """Return the shared node, running. Without RabbitMQ, skip the test, or fail in CI."""
    try:
        return _started()
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@functools.cache
def _started() -> Program:
    wanted()
    return shared(_start_shared)


def _start_shared() -> Program:
    program = start_another()
    at_the_end.callback(stop, program)
    return program


def start_another(*settings: str) -> Program:
    """Start a private node for a test that damages it. The caller must `stop` it."""
    wanted()
    folder = Path(tempfile.mkdtemp(prefix="shoal-rabbitmq-"))
    folder.chmod(0o755)
    try:
        return rabbitmq.start(folder, *settings)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def stop(program: Program) -> None:
    """Kill a node and delete its data."""
    program.kill()
    shutil.rmtree(program.folder, ignore_errors=True)


def virtual_host() -> str:
    """Return the URL of a new virtual host on the shared node, for processes with the queue names of production."""
    name = namespace()
    add_virtual_host(node(), name)
    permit(node(), "guest", name, (".*", ".*", ".*"))
    return f"{node().url}{name}"


def add_virtual_host(program: Program, name: str) -> None:
    evaluate(program, f'rabbit_vhost:add({_binary(name)}, <<"tests">>)')


def add_user(program: Program, name: str, password: str) -> None:
    """Create a user without permissions."""
    evaluate(program, f'rabbit_auth_backend_internal:add_user({_binary(name)}, {_binary(password)}, <<"tests">>)')


def permit(program: Program, user: str, host: str, permissions: tuple[str, str, str]) -> None:
    """Let a user configure, write and read what matches these expressions in a virtual host."""
    words = ", ".join(_binary(word) for word in (user, host, *permissions))
    evaluate(program, f'rabbit_auth_backend_internal:set_permissions({words}, <<"tests">>)')


def evaluate(program: Program, code: str) -> None:
    """Run Erlang expressions on the node and wait until they have finished."""
    # `rabbitmqctl eval` starts an Erlang machine, which takes half a second of processor time.
    address = f"127.0.0.1:{program._environ['RABBITMQ_DIST_PORT']}"
    command = ["/usr/bin/erl_call", "-address", address, "-timeout", "300", "-e"]
    ran = subprocess.run(
        command,
        input=f"{code}.\n",
        env=program._environ,
        user=program._user,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.stdout.startswith("{ok,"), ran.stdout + ran.stderr


def _binary(text: str) -> str:
    return '<<"' + text.replace("\\", "\\\\").replace('"', '\\"') + '">>'


def namespace() -> str:
    """Return a namespace for queue names that no other test uses."""
    wanted()
    return f"test-{os.getpid()}-{next(_numbers)}"
