"""One PostgreSQL server for all tests, and empty databases on it.

Databases are reused after a test, because creating one takes longer than most tests.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from shoal.graph.postgres import event_log
from shoal_devcluster import postgres
from shoal_devcluster.program import NotInstalled, Program
from tests.engines.engine_requirement import wanted
from tests.engines.shared_engines import shared
from tests.engines.shutdown import at_the_end

PATIENT_SECONDS = 60.0
"""Timeout of a store in tests. On a loaded machine, a commit may take longer than the default timeout."""

CONNECTIONS = 400
"""Connections that the shared server allows, for all workers."""

_TABLES = (
    "object",
    "association",
    "block",
    "count",
    "key",
    "outbox",
    "buried",
    "moving",
    "journal",
    "shard_map",
    "process",
)
_DERIVED = r"""
    SELECT tablename FROM pg_tables WHERE schemaname = 'shoal' AND tablename NOT LIKE '%\_version'
        AND (tablename LIKE 'tag\_%' OR tablename LIKE 'search\_%')"""
_numbers = itertools.count()
_free: list[str] = []


def folder() -> Path:
    """Create a directory that the user of the engine can access. It is deleted after the test run."""
    path = Path(tempfile.mkdtemp(prefix="shoal-postgres-"))
    path.chmod(0o755)
    at_the_end.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def start_own(*options: str) -> Program:
    """Return a new server, which the test may stop. Skips the test where PostgreSQL is not installed, except in CI."""
    return _unless_missing(lambda: _start(*options))


@functools.cache
def server() -> Program:
    """Return the server that all tests share. Skips the test where PostgreSQL is not installed, except in CI."""
    return _unless_missing(lambda: shared(_start_shared))


def _unless_missing(start: Callable[[], Program]) -> Program:
    wanted()
    try:
        return start()
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def _start(*options: str) -> Program:
    program = postgres.start(folder(), *options)
    at_the_end.callback(program.kill)
    return program


def _start_shared() -> Program:
    # No test restarts this server, so its data need not survive a crash.
    return _start("fsync=off", "synchronous_commit=off", "full_page_writes=off", f"max_connections={CONNECTIONS}")


async def database(owner: object) -> str:
    """Return the URL of an empty database, which is reused once `owner` has been garbage-collected."""
    url = _free.pop() if _free else await _new()
    await _empty(url)
    weakref.finalize(owner, _free.append, url)
    return url


async def _new() -> str:
    connection = await asyncpg.connect(server().url)
    try:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return server().url.removesuffix("/postgres") + f"/{name}"


async def _empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        if await connection.fetchval("SELECT to_regnamespace('shoal') IS NOT NULL"):
            derived = [table for (table,) in await connection.fetch(_DERIVED)]
            for table in (*_TABLES, *derived):
                await connection.execute(f"DELETE FROM shoal.{table}")  # noqa: S608  # our own names
            await connection.execute("ALTER SEQUENCE shoal.outbox_seq_seq RESTART")
            if await connection.fetchval("SELECT to_regclass('shoal.event_log') IS NOT NULL"):
                await event_log.switch(connection, on=False)
    finally:
        await connection.close()
