"""One DynamoDB Local server for all tests, and new tables on it."""

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
from tests.engines.engine_requirement import wanted
from tests.engines.shared_engines import shared
from tests.engines.shutdown import at_the_end

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
"""DynamoDB Local accepts any credentials."""

PATIENT_SECONDS = 60.0
"""Timeout of a store in tests without faults, long enough for a busy machine."""

_SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java options for a server that runs for minutes: the C2 compiler would take a third of its processor time without paying off."""


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
    """Return the URL of the shared server."""
    return server().url


def server() -> Program:
    """Return the server that all tests share. Skips the test where DynamoDB Local is not installed, except in CI."""
    wanted()
    program = _started()
    if program is None:
        pytest.skip("DynamoDB Local is not installed: install it with `sh scripts/dynamodb`")
    return program


def new_table(spread: int = 2, *, at: str = "") -> str:
    """Return the URL of a new table. A low `spread` keeps scans fast, because they query every part."""
    return f"dynamodb://shoal-{uuid.uuid4().hex}?region=local&endpoint={at or endpoint()}&spread={spread}"
