"""Worker processes under a supervisor, for tests: `python -m tests.broker.workers URL NAMESPACE FOLDER`.

A job appends the id of its post to `FOLDER/done`. The first attempt at the job of post `HANGS` blocks the event loop, and the
first attempt at `KILLS` kills the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from shoal.core.events import PostCreated
from shoal.multiprocess.supervisor import Supervisor, beating, is_child, wait_for_signal
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.outbox.runner import Runner

HANGS, KILLS = 1_000_001, 1_000_002


async def note(folder: Path, event: PostCreated, mark: int) -> None:
    """Append the id of the post to the file, which makes the job done."""
    tried = folder / str(event.post_id)
    if event.post_id in (HANGS, KILLS) and not tried.exists():
        tried.touch()
        if event.post_id == KILLS:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)  # noqa: ASYNC251  # blocks the event loop on purpose
    await asyncio.to_thread(append, folder / "done", f"{event.post_id}\n")


def append(path: Path, line: str) -> None:
    """Append a line in a single write, so that lines of several processes do not mix."""
    with path.open("a") as file:
        file.write(line)


async def work(url: str, namespace: str, folder: Path) -> None:
    """Run one worker until it receives SIGTERM or SIGINT."""
    async with beating():
        outbox = await RabbitOutbox.open(url, namespace=namespace, prefetch=8)
        runner = Runner(outbox, {PostCreated: (note,)}, folder, concurrency=2)
        runner.start()
        await wait_for_signal()
        await runner.stop()
        await outbox.close()


def main() -> None:
    """Run the supervisor or, in a child process, a worker."""
    url, namespace, folder = sys.argv[1:]
    if is_child():
        asyncio.run(work(url, namespace, Path(folder)))
    else:
        command = [sys.executable, "-m", "tests.broker.workers", *sys.argv[1:]]
        Supervisor(command, 2, limit=2.0, first_pause=0.05).run()


if __name__ == "__main__":
    main()
