"""Worker processes under a supervisor, for tests: `python -m tests.broker.workers URL NAMESPACE FOLDER`.

A job writes its post's number to `FOLDER/done`. The posts of `HANGS` and `KILLS` block the event loop or kill the process
the first time that they are worked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from shoal.core.events import PostCreated
from shoal.multiprocess.supervisor import Supervisor, beating, is_child, until_told
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.outbox.runner import Runner

HANGS, KILLS = 1_000_001, 1_000_002


async def note(folder: Path, event: PostCreated, mark: int) -> None:
    """The consequence: done is what is on the disk."""
    tried = folder / str(event.post_id)
    if event.post_id in (HANGS, KILLS) and not tried.exists():
        tried.touch()
        if event.post_id == KILLS:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)  # noqa: ASYNC251  # as a consequence does that never gives the loop back
    await asyncio.to_thread(append, folder / "done", f"{event.post_id}\n")


def append(path: Path, line: str) -> None:
    """In one write, so that processes do not mix theirs."""
    with path.open("a") as file:
        file.write(line)


async def work(url: str, namespace: str, folder: Path) -> None:
    """One worker, until it is told to end."""
    async with beating():
        outbox = await RabbitOutbox.open(url, namespace=namespace, prefetch=8)
        runner = Runner(outbox, {PostCreated: (note,)}, folder, concurrency=2)
        runner.start()
        await until_told()
        await runner.stop()
        await outbox.close()


def main() -> None:
    """The supervisor, or one of its children."""
    url, namespace, folder = sys.argv[1:]
    if is_child():
        asyncio.run(work(url, namespace, Path(folder)))
    else:
        command = [sys.executable, "-m", "tests.broker.workers", *sys.argv[1:]]
        Supervisor(command, 2, limit=2.0, first_pause=0.05).run()


if __name__ == "__main__":
    main()
