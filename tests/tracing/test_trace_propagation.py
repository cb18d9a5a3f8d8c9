"""Trace propagation across processes: a web process, RabbitMQ and a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from shoal.cli import main
from tests.async_runner import at_a_desk, run
from tests.engines import postgres, rabbitmq, redis
from tests.server_process import first_url
from tests.tracing.logs import SPAN, TRACE, TRACEPARENT, lines, logged, signed_up
from tests.tracing.logs import request as line_of


@contextmanager
def started(log: Path, environ: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of Shoal, stopped at the end."""
    command = [sys.executable, "-m", "shoal.cli", *arguments]
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env={**os.environ, **environ},
            preexec_fn=at_a_desk,  # noqa: PLW1509
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)


def test_trace_context_is_propagated_through_rabbitmq_to_worker(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    environ = {
        "SHOAL_STORE": run(postgres.database(request)),
        "SHOAL_TIMELINES": redis.single(),
        "SHOAL_BROKER": rabbitmq.virtual_host(),
        "SHOAL_MEDIA": (tmp_path / "media").as_uri(),
        "SHOAL_RUN_CONSEQUENCES": "false",
        "SHOAL_RATE_LIMITS": "false",
        "SHOAL_LOG_FORMAT": "json",
        "SHOAL_REQUEST_LOG": "all",
        "SHOAL_SLOW_MS": "1",
    }
    web, worker = tmp_path / "web.log", tmp_path / "worker.log"
    with ExitStack() as stack:
        server = stack.enter_context(started(web, environ, "serve", "--port", "0"))
        url = first_url(server)
        stack.enter_context(started(worker, environ, "worker", "--processes", "1"))
        token = signed_up(url, "ann")
        headers = {"Authorization": f"Bearer {token}", "X-Request-Id": "posted", **TRACEPARENT}
        body = {"status": "to #all of the cluster"}
        assert httpx.post(f"{url}/api/v1/statuses", data=body, headers=headers, timeout=60).status_code == 200
        line = line_of(web, "posted")
        jobs = logged(
            worker, lambda line: line.get("trace") == TRACE and line["event"] in {"PostCreated", "TagsUsed"}, 2
        )
        assert httpx.get(f"{url}/api/v1/timelines/home", headers=headers, timeout=60).status_code == 200
        home = logged(web, lambda line: line.get("id") == "posted" and line.get("method") == "GET")[0]
    assert (line["trace"], line["parent"]) == (TRACE, SPAN)
    assert {job["parent"] for job in jobs} == {line["span"]}
    assert not lines(web, "job")
    # A grouped commit is one statement; pages read version tokens from Redis, and stages include the time of each read.
    assert [span[1] for span in line["spans"] if span[0] == "postgres"].count("commit") == 1
    assert "transaction" not in {span[1] for span in line["spans"]}
    assert line["statements"]["redis"][0] >= 1
    assert home["statements"].keys() == {"postgres", "redis"}
    assert all(job["statements"] for job in jobs if job["event"] == "PostCreated")

    told = CliRunner().invoke(main, ["why-slow", "posted", "--log", str(web), "--log", str(worker)])
    assert told.exit_code == 0, told.output
    # The newest request with this id.
    assert told.output.startswith("GET /api/v1/timelines/home 200")
    assert "Jobs that followed" in told.output
    assert "PostCreated 0:" in told.output
