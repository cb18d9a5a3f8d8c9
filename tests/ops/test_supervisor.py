"""The supervisor with real processes: children that crash, hang, shut down, or lose their supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.async_runner import at_a_desk
from tests.server_process import alive

_CHILD = """
import asyncio, os, signal, sys, time
from pathlib import Path
from types import SimpleNamespace
from shoal.multiprocess import supervisor
from shoal.multiprocess.supervisor import Supervisor, beating, wait_for_signal

folder = Path(sys.argv[1])

async def main():
    async with beating():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, time.sleep, 3600)
        told = asyncio.create_task(wait_for_signal())
        # The first heartbeat is sent, and signals are handled, before the marker file appears.
        await asyncio.sleep(0)
        (folder / f"{os.getpid()}.begun").touch()
        await told
        (folder / f"{os.getpid()}.ended").touch()

class Watching(Supervisor):
    # The clock can jump by an hour, or count heartbeats of 0.3 s: then a pause of the machine does not make a child look stuck.
    clock, counts = 0.0, False

    def now(self):
        return self.clock if self.counts else time.monotonic() + self.clock

    def jump(self, *_):
        self.clock += 3600

    def count(self, *_):
        self.clock, self.counts, self._limit = self.now(), True, 1.5

    def _read_heartbeats(self):
        if not self.counts:
            return super()._read_heartbeats()
        # Only a time that is later than the last one shows that a child has sent a heartbeat.
        self.clock += 1e-6
        super()._read_heartbeats()
        if any(child.last_beat == self.clock for child in self._children):
            self.clock += 0.3

if "SHOAL_HEARTBEAT" in os.environ:
    asyncio.run(main())
else:
    watching = Watching([sys.executable, __file__, sys.argv[1]], 2, limit=60.0, start_limit=3e4, first_pause=0.05)
    supervisor.time = SimpleNamespace(monotonic=watching.now)
    signal.signal(signal.SIGCONT, watching.jump)
    signal.signal(signal.SIGUSR2, watching.count)
    watching.run()
    (folder / "supervisor.ended").touch()
"""


@contextmanager
def supervised(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a supervisor and wait until its two children run.

    After SIGUSR2, it kills a child that sends no heartbeat while the other one sends five.
    """
    script = folder / "child.py"
    script.write_text(_CHILD)
    command = [sys.executable, str(script), str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=at_a_desk)  # noqa: PLW1509
    try:
        until(lambda: len(begun(folder)) == 2)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def begun(folder: Path) -> set[int]:
    return {int(path.stem) for path in folder.glob("*.begun")}


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_supervisor_restarts_crashed_child_and_keeps_other_child_running(tmp_path: Path) -> None:
    with supervised(tmp_path):
        first, second = begun(tmp_path)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(begun(tmp_path)) == 3)
        assert not alive(first)
        assert alive(second)


def test_supervisor_kills_and_restarts_child_with_blocked_event_loop(tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor:
        first, second = begun(tmp_path)
        os.kill(first, signal.SIGUSR1)
        supervisor.send_signal(signal.SIGUSR2)
        until(lambda: len(begun(tmp_path)) == 3)
        assert not alive(first)
        assert alive(second)


def test_supervisor_kills_and_restarts_child_suspended_by_sigstop(tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor:
        first = min(begun(tmp_path))
        os.kill(first, signal.SIGSTOP)
        supervisor.send_signal(signal.SIGUSR2)
        until(lambda: len(begun(tmp_path)) == 3)
        assert not alive(first)


def test_supervisor_suspended_together_with_its_children_keeps_them(tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor:
        children = begun(tmp_path)
        processes = [*children, supervisor.pid]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        until(lambda: all(map(is_stopped, processes)))
        # The supervisor continues first, an hour later on its clock, and checks its children before they send a heartbeat.
        for process in reversed(processes):
            os.kill(process, signal.SIGCONT)
            time.sleep(0.3)
        os.kill(min(children), signal.SIGUSR1)
        supervisor.send_signal(signal.SIGUSR2)
        until(lambda: len(begun(tmp_path)) == 3)
        assert not alive(min(children))
        assert alive(max(children))


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_supervisor_on_sigterm_lets_children_finish_and_leaves_none_running(tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor:
        children = begun(tmp_path)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(60) == 0
        assert {int(path.stem) for path in tmp_path.glob("[0-9]*.ended")} == children
        assert (tmp_path / "supervisor.ended").exists()
        assert not any(map(alive, children))


def test_supervisor_killed_leaves_no_orphan_processes(tmp_path: Path) -> None:
    with supervised(tmp_path) as supervisor:
        children = begun(tmp_path)
        os.kill(min(children), signal.SIGUSR1)
        supervisor.kill()
        supervisor.wait(60)
        until(lambda: not any(map(alive, children)))
