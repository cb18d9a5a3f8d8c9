"""RabbitMQ for the tests: one node for all of them, each with queues of its own."""

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
from tests.engines.ending import at_the_end
from tests.engines.shared import shared
from tests.engines.wanted import wanted

_numbers = itertools.count(1)


def node() -> Program:
    """The node that tests share, running. At a desk without RabbitMQ the test is skipped; in CI it fails."""
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
    """A node of one's own, to be stopped with `stop`: for a test that does it harm."""
    wanted()
    folder = Path(tempfile.mkdtemp(prefix="shoal-rabbitmq-"))
    folder.chmod(0o755)
    try:
        return rabbitmq.start(folder, *settings)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def stop(program: Program) -> None:
    """End a node, and forget what it had."""
    program.kill()
    shutil.rmtree(program.folder, ignore_errors=True)


def virtual_host() -> str:
    """Return the URL of a new virtual host of the shared node, for processes that have the queue names of production."""
    name = namespace()
    evaluate(
        node(),
        f'rabbit_vhost:add(<<"{name}">>, <<"tests">>), rabbit_auth_backend_internal:set_permissions('
        f'<<"guest">>, <<"{name}">>, <<".*">>, <<".*">>, <<".*">>, <<"tests">>).',
    )
    return f"{node().url}{name}"


def evaluate(program: Program, code: str) -> None:
    """Run Erlang in the node, and wait until it has ended."""
    control(program, "eval", code)


def control(program: Program, *words: str) -> None:
    """Run a command of `rabbitmqctl` on the node."""
    command = ["/usr/lib/rabbitmq/bin/rabbitmqctl", "--quiet", *words]
    ran = subprocess.run(
        command, env=program._environ, user=program._user, check=False, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr


def namespace() -> str:
    """Names of queues that no other test has."""
    wanted()
    return f"test-{os.getpid()}-{next(_numbers)}"
