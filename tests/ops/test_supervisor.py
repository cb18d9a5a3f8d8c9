"""The supervisor, with real processes: what dies, hangs, is told to end, or loses its supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.running import at_a_desk
from tests.serving import alive

_CHILD = """
import asyncio, os, signal, sys, time
from pathlib import Path
from shoal.multiprocess.supervisor import beating, until_told
from shoal.multiprocess.supervisor import Supervisor

folder = Path(sys.argv[1])

async def main():
    async with beating():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, time.sleep, 3600)
        told = asyncio.create_task(until_told())
        # It has sent its first heartbeat, and takes signals, before anybody hears of it.
        await asyncio.sleep(0)
        (folder / f"{os.getpid()}.begun").touch()
        await told
        (folder / f"{os.getpid()}.ended").touch()

if "SHOAL_HEARTBEAT" in os.environ:
    asyncio.run(main())
else:
    Supervisor([sys.executable, __file__, sys.argv[1]], 2, limit=1.5, first_pause=0.05).run()
    (folder / "supervisor.ended").touch()
"""


@contextmanager
def supervised(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor of two children, which has started them."""
    script = folder / "child.py"
    script.write_text(_CHILD)
    command = [sys.executable, str(script), str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=at_a_desk)  # noqa: PLW1509
    try:
        until(lambda: len(begun(folder)) == 2)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def begun(folder: Path) -> set[int]:
    return {int(path.stem) for path in folder.glob("*.begun")}


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_child_that_dies_is_started_again_and_the_other_goes_on(tmp_path: Path) -> None:
    with supervised(tmp_path):
        first, second = begun(tmp_path)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(begun(tmp_path)) == 3)
        assert not alive(first)
        assert alive(second)


def test_a_child_whose_event_loop_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    with supervised(tmp_path):
        first, second = begun(tmp_path)
        os.kill(first, signal.SIGUSR1)
        until(lambda: len(begun(tmp_path)) == 3)
        assert not alive(first)
        assert alive(second)


def test_a_child_that_was_stopped_where_it_stood_is_killed_too(tmp_path: Path) -> None:
    with supervised(tmp_path):
        first = min(begun(tmp_path))
        os.kill(first, signal.SIGSTOP)
        until(lambda: len(begun(tmp_path)) == 3)
        assert not alive(first)


def test_when_it_is_told_to_end_its_children_finish_and_none_is_left(tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor:
        children = begun(tmp_path)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(30) == 0
        assert {int(path.stem) for path in tmp_path.glob("[0-9]*.ended")} == children
        assert (tmp_path / "supervisor.ended").exists()
        assert not any(map(alive, children))


def test_a_supervisor_that_is_killed_leaves_no_orphan(tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor:
        children = begun(tmp_path)
        os.kill(min(children), signal.SIGUSR1)
        supervisor.kill()
        supervisor.wait(30)
        until(lambda: not any(map(alive, children)))
