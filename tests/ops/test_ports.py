"""Port allocation: processes that start engines concurrently get different ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from shoal_devcluster import program

CHILD = """
import sys
from shoal_devcluster import program
program._PORTS = range(int(sys.argv[1]), int(sys.argv[1]) + 1)
print(program.free_port(), flush=True)
sys.stdin.read()
"""


def test_port_reserved_by_another_process_is_not_allocated_until_that_process_exits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    monkeypatch.setattr(program, "_PORTS", range(port, port + 1))
    command = [sys.executable, "-c", CHILD, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == port
        with pytest.raises(OSError, match="no free port found"):
            program.free_port()
    assert program.free_port() == port
    os.close(program._given.pop(port))
