"""The DynamoDB of the tests: one server for all of them, and a new table for each."""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from pathlib import Path
from tempfile import mkdtemp

import pytest

from shoal_devcluster.dynamodb import start
from shoal_devcluster.program import NotInstalled, Program
from tests.engines.ending import at_the_end
from tests.engines.shared import shared
from tests.engines.wanted import wanted

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
"""It takes any."""

PATIENT_SECONDS = 60.0
"""How long a store waits in tests where nothing is away: a busy machine is no broken one."""

_SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a server of some minutes: the second compiler of Java takes a third of its processor time, and earns nothing by then."""


@functools.cache
def _started() -> Program | None:
    os.environ.update(CREDENTIALS)
    try:
        return shared(_start_shared)
    except NotInstalled:
        if os.environ.get("CI"):
            raise
        return None


def _start_shared() -> Program:
    folder = Path(mkdtemp(prefix="shoal-dynamodb-"))
    at_the_end.callback(shutil.rmtree, folder, ignore_errors=True)
    program = start(folder, *_SHORT_LIFE, durable=False)
    at_the_end.callback(program.stop)
    return program


def endpoint() -> str:
    """Where that server is."""
    return server().url


def server() -> Program:
    """The server that tests share. A desk without one skips the test."""
    wanted()
    program = _started()
    if program is None:
        pytest.skip("DynamoDB Local is not installed: sh scripts/dynamodb")
    return program


def new_table(spread: int = 2, *, at: str = "") -> str:
    """The URL of a table that is not there yet. It is cut into few parts, for a scan asks each of them."""
    return f"dynamodb://shoal-{uuid.uuid4().hex}?region=local&endpoint={at or endpoint()}&spread={spread}"
