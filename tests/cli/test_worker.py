"""`shoal worker` as a program: it processes the backlog and exits on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from shoal.cli import main
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch
from shoal.graph.postgres import PostgresGraph
from tests.async_runner import at_a_desk, eventually, in_loop
from tests.engines import postgres, redis
from tests.stores import ANN


@in_loop
async def test_worker_command_processes_backlog_and_exits_on_sigterm(request: pytest.FixtureRequest) -> None:
    url = await postgres.database(request)
    graph = await PostgresGraph.open(url)
    batch = Batch(shard_of(ANN))
    for post in range(100):
        batch.emit(PostCreated(post_id=ANN + post, author_id=ANN))
    await graph.commit(batch)
    command = [sys.executable, "-m", "shoal.cli", "--store", url, "worker", "--processes", "1"]
    environ = {**os.environ, "SHOAL_TIMELINES": redis.single(), "SHOAL_REQUEST_LOG": "off"}
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, env=environ, preexec_fn=at_a_desk)  # noqa: ASYNC220, PLW1509
    try:
        await eventually(graph.backlog, 0, 60.0)
        assert await graph.parked() == []
    finally:
        await graph.close()
        worker.send_signal(signal.SIGTERM)
        _, said = await asyncio.to_thread(worker.communicate)
    assert (worker.returncode, said) == (0, b"")


def test_worker_command_with_zero_processes_is_refused() -> None:
    assert CliRunner().invoke(main, ["worker", "--processes", "0"]).exit_code == 2
