"""`shoal jobs`: on a store without a server, on a served store, and with a broker."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from shoal import amqp
from shoal.admin.control import listening
from shoal.app.network import open_network
from shoal.app.paths import control_path
from shoal.cli import main
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch, Job
from shoal.graph.sqlite import SqliteGraph
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.settings import build
from tests.async_runner import in_loop, run
from tests.broker.relayed_store import claim
from tests.engines import rabbitmq
from tests.stores import ANN

JOBS = [Job(n, PostCreated(post_id=n, author_id=ANN)) for n in (1, 2, 3)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one waiting event and two dead-lettered jobs."""
    path = tmp_path / "shoal.db"

    async def make() -> None:
        graph = await SqliteGraph.open(path)
        batch = Batch(shard_of(ANN))
        for job in JOBS:
            batch.emit(job.event)
        await graph.commit(batch)
        for job in await graph.claim(2, 60.0):
            await graph.park(job._replace(step=1, attempt=8), f"error {job.seq}")
        await graph.close()

    run(make())
    return path


def jobs(store: Path, *arguments: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["--store", f"sqlite:///{store}", "jobs", *arguments], env=environ)


def told(store: Path, environ: dict[str, str] | None = None) -> Any:
    shown = jobs(store, "list", "--json", environ=environ)
    assert shown.exit_code == 0, shown.output
    return msgspec.json.decode(shown.output)


def test_jobs_command_lists_pending_and_parked_jobs(store: Path) -> None:
    shown = jobs(store)
    assert shown.exit_code == 0
    assert "pending: 1, oldest " in shown.output
    assert "parked: 2" in shown.output
    assert "  0:1\tPostCreated\tstep 1\t8 attempts\terror 1\n" in shown.output


def test_jobs_command_json_lists_pending_and_parked_jobs(store: Path) -> None:
    standing = told(store)
    assert standing["waiting"] == 1
    assert standing["oldest_seconds"] > 0
    assert [(job["job"], job["outbox"], job["attempts"], job["error"]) for job in standing["buried"]] == [
        ("0:1", "store", 8, "error 1"),
        ("0:2", "store", 8, "error 2"),
    ]


def test_jobs_replay_replays_named_job_or_all_jobs(store: Path) -> None:
    assert jobs(store, "replay", "0:2").output == "replayed 1 job\n"
    assert [job["job"] for job in told(store)["buried"]] == ["0:1"]
    unknown = jobs(store, "replay", "7", "1:8")
    assert unknown.exit_code == 1
    assert unknown.output == "shoal: 7, 1:8: no such parked job; list parked jobs with `shoal jobs list`\n"
    assert jobs(store, "replay", "--all").output == "replayed 1 job\n"
    assert (told(store)["waiting"], told(store)["buried"]) == (3, [])


@pytest.mark.parametrize("arguments", [("replay",), ("replay", "1", "--all")])
def test_jobs_replay_with_neither_or_both_of_job_names_and_all_option_is_a_usage_error(
    store: Path, arguments: tuple[str, ...]
) -> None:
    assert jobs(store, *arguments).exit_code == 2
    assert len(told(store)["buried"]) == 2


def test_jobs_replay_with_invalid_job_name_is_refused_in_one_line(store: Path) -> None:
    refused = jobs(store, "replay", "the first")
    assert refused.exit_code == 1
    assert (
        refused.output == "shoal: 'the first' is not a job id: use an id from `shoal jobs list`, such as 0:57 or 57\n"
    )


@in_loop
async def test_jobs_replay_on_store_of_running_server_is_executed_by_server(store: Path) -> None:
    settings = build(store=f"sqlite:///{store}")
    path = control_path(settings)
    assert path is not None
    async with open_network(settings, background=False) as network, listening(network, path):
        assert (await asyncio.to_thread(jobs, store, "replay", "1")).output == "replayed 1 job\n"
        assert len(await network.store.parked()) == 1
        assert len(await network.store.claim(10, 60.0)) == 2
        assert len((await asyncio.to_thread(told, store))["buried"]) == 1


def test_jobs_replay_on_locked_store_without_control_socket_is_refused(store: Path) -> None:
    async def refused() -> Result:
        graph = await SqliteGraph.open(store)
        try:
            return await asyncio.to_thread(jobs, store, "replay", "--all")
        finally:
            await graph.close()

    answer = run(refused())
    assert answer.exit_code == 1
    assert answer.output.startswith("shoal: no parked job was retried: the store shoal.db is in use by another process")


@in_loop
async def test_jobs_command_with_broker_lists_and_replays_broker_jobs(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker on a busy machine may take longer than a second to reply.
    monkeypatch.setattr(amqp, "_REPLY_SECONDS", 60.0)
    environ = {"SHOAL_BROKER": rabbitmq.node().url}
    work = await RabbitOutbox.open(rabbitmq.node().url)
    try:
        await work.send([JOBS[2]])
        (job,) = await claim(work)
        await work.park(job._replace(attempt=8), "at the broker")
        standing = await asyncio.to_thread(told, store, environ)
        assert standing["workers"] == 1
        assert standing["in_hand"] == 0
        assert [(job["job"], job["outbox"]) for job in standing["buried"]][-1] == ("0:3", "broker")
        replayed = await asyncio.to_thread(jobs, store, "replay", "0:3", environ=environ)
        assert replayed.output == "replayed 1 job\n"
        again = await claim(work)
        assert again == [JOBS[2]]
        await work.ack(again)
    finally:
        await work.close()


_TAKING = """
import asyncio, sys
from shoal.outbox.rabbitmq import RabbitOutbox

async def main():
    work, taken = await RabbitOutbox.open(sys.argv[1]), []
    while len(taken) < 30:
        taken += await work.claim(30, 600.0)
        await asyncio.sleep(0.01)
    print("taken", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@contextmanager
def stopped_worker() -> Iterator[None]:
    """A worker process that took 30 jobs and was stopped, as by `kill -STOP`."""
    with subprocess.Popen([sys.executable, "-c", _TAKING, rabbitmq.node().url], stdout=subprocess.PIPE) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"taken\n"
            worker.send_signal(signal.SIGSTOP)
            yield
        finally:
            worker.kill()


async def taken_back(work: RabbitOutbox, count: int) -> None:
    """Finish the jobs of a killed worker."""
    while count:
        jobs = await claim(work)
        count -= len(jobs)
        await work.ack(jobs)


@in_loop
async def test_jobs_command_with_stopped_worker_reports_unknown_in_flight_count(store: Path) -> None:
    environ = {"SHOAL_BROKER": rabbitmq.node().url}
    sending = await RabbitOutbox.open(rabbitmq.node().url, taking=False)
    await sending.send([Job(n, PostCreated(post_id=n, author_id=ANN)) for n in range(100, 130)])
    empty = store.with_name("empty.db")
    await (await SqliteGraph.open(empty)).close()
    try:
        with stopped_worker():
            standing = await asyncio.to_thread(told, empty, environ)
            assert (standing["workers"], standing["silent_workers"], standing["in_hand"]) == (1, 1, None)
            assert (standing["oldest_seconds"], standing["most_seconds"]) == (None, 0.0)
            # The event in this store is known to wait; the number of other waiting jobs is unknown.
            assert (await asyncio.to_thread(told, store, environ))["oldest_seconds"] > 0
            shown = (await asyncio.to_thread(jobs, empty, environ=environ)).output
            assert shown.startswith("pending: at least 1\nworkers: 1, 1 not responding: the number of running jobs")
    finally:
        work = await RabbitOutbox.open(rabbitmq.node().url)
        await taken_back(work, 30)
        await work.close()
        await sending.close()


@pytest.mark.parametrize(("environ", "most"), [({}, 3.0), ({"SHOAL_RUN_CONSEQUENCES": "false"}, 0.0)])
def test_jobs_command_states_when_new_posts_are_refused_only_if_delay_limit_applies(
    environ: dict[str, str], most: float, store: Path
) -> None:
    assert told(store, environ)["most_seconds"] == most
    assert ("new posts are refused" in jobs(store, environ=environ).output) == bool(most)
