"""Servers limited to a small fraction of a core, so that they are the bottleneck on a machine with few cores."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event

from benchmarks.measure import tree

_SHARE = 0.02
"""The fraction of a core for each slowed server."""
_LOOK_SECONDS = 0.001
_FIND_EVERY = 500
_MOST_SAVED_SECONDS = 0.1
"""Maximum of unused seconds that a server may save up. Other processes may occupy the cores when it is due."""


class Ration:
    def __init__(self, pid: int, share: float) -> None:
        self._pid = pid
        self._share = share
        self._files: dict[int, int] = {}
        self._worked: dict[int, float] = {}
        self._looked = time.monotonic()
        self._credit = 0.0
        self._running = True

    def find(self) -> None:
        """Find processes that have started or ended."""
        alive = set(tree(self._pid))
        for pid in self._files.keys() - alive:
            os.close(self._files.pop(pid))
        for pid in alive - self._files.keys():
            with contextlib.suppress(OSError):
                # `schedstat` counts processor time in nanoseconds. `stat` counts ticks of 10 ms, which would be too coarse.
                self._files[pid] = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)
                self._worked[pid] = self._seconds(pid)
                if not self._running:
                    os.kill(pid, signal.SIGSTOP)

    def _seconds(self, pid: int) -> float:
        """Return the CPU seconds of a process so far; 0 if it has ended."""
        try:
            return int(os.pread(self._files[pid], 64, 0).split()[0]) / 1e9
        except (OSError, IndexError):
            return self._worked.get(pid, 0.0)

    def look(self) -> None:
        now = time.monotonic()
        self._credit = min(_MOST_SAVED_SECONDS, self._credit + (now - self._looked) * self._share)
        self._looked = now
        for pid in self._files:
            worked = self._seconds(pid)
            self._credit -= worked - self._worked[pid]
            self._worked[pid] = worked
        if self._running != (self._credit > 0):
            self._running = not self._running
            for pid in self._files:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT if self._running else signal.SIGSTOP)


def _ration(pids: Sequence[int], share: float, begun: Event) -> None:
    """Limit the servers until killed; runs in a separate process."""
    rations = [Ration(pid, share) for pid in pids]
    for look in range(1 << 40):
        if look == 1:
            begun.set()
        for ration in rations:
            if look % _FIND_EVERY == 0:
                ration.find()
            ration.look()
        time.sleep(_LOOK_SECONDS)


@contextmanager
def slowed(pids: Sequence[int]) -> Iterator[None]:
    """Limit each of these servers to its fraction of a core until the block ends."""
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    watch = context.Process(target=_ration, args=(list(pids), _SHARE, begun), daemon=True)
    watch.start()
    try:
        begun.wait(60)
        yield
    finally:
        watch.kill()
        watch.join()
        for pid in [pid for server in pids for pid in tree(server)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
