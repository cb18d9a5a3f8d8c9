"""Real worker processes on a real broker: one hangs, one is killed, and all jobs complete."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from shoal.core.events import PostCreated
from shoal.graph.contract import Job
from shoal.outbox.rabbitmq import RabbitOutbox
from tests.async_runner import at_a_desk, eventually, in_loop
from tests.broker.workers import HANGS, KILLS
from tests.engines import rabbitmq
from tests.stores import ANN

ROOT = Path(__file__).resolve().parent.parent.parent
POSTS = [*range(200), HANGS, *range(200, 300), KILLS, *range(300, 400)]


@in_loop
async def test_rabbitmq_workers_that_hang_or_are_killed_leave_no_job_undone(tmp_path: Path) -> None:
    url, namespace = rabbitmq.node().url, rabbitmq.namespace()
    watcher = await RabbitOutbox.open(url, namespace=namespace, taking=False)
    await watcher.send([Job(n, PostCreated(post_id=n, author_id=ANN)) for n in POSTS])
    command = [sys.executable, "-m", "tests.broker.workers", url, namespace, str(tmp_path)]
    workers = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, preexec_fn=at_a_desk)  # noqa: ASYNC220, PLW1509

    async def done() -> set[int]:
        path = tmp_path / "done"
        return {int(line) for line in path.read_text().split()} if path.exists() else set()

    try:
        await eventually(done, set(POSTS))
        await eventually(watcher.backlog, 0)
        assert await watcher.parked() == []
        assert (tmp_path / str(HANGS)).exists()
        assert (tmp_path / str(KILLS)).exists()
    finally:
        workers.send_signal(signal.SIGTERM)
        assert workers.wait(60) == 0
        await watcher.close()
