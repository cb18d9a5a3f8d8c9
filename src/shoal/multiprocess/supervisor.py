"""Supervisor of several processes: restart a process that exits, kill and restart one whose event loop hangs.

A child runs this program with a variable in its environment, so it needs no separate arguments. It sends a heartbeat
while its event loop runs, and exits when its supervisor does. Jobs of a child that died go to other workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import selectors
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

from shoal.multiprocess import service_manager
from shoal.tasks import running

VARIABLE = "SHOAL_HEARTBEAT"
"""In a child's environment: the descriptor for its heartbeat, the id of its supervisor, and its slot, from 0."""

_BEAT_SECONDS = 0.25
_SET_PARENT_DEATH_SIGNAL = 1


def is_child(environ: Mapping[str, str] = os.environ) -> bool:
    return VARIABLE in environ


def process_slot(environ: Mapping[str, str] = os.environ) -> int:
    """Return the slot of this process among the children of its supervisor, from 0; 0 without a supervisor.

    A restarted child has the slot of the child that it replaces.
    """
    return int(environ[VARIABLE].split(":")[2]) if is_child(environ) else 0


@asynccontextmanager
async def beating(environ: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """Send heartbeats during the block, if this process has a supervisor."""
    if not is_child(environ):
        yield
        return
    heartbeat, parent = map(int, environ[VARIABLE].split(":")[:2])
    os.set_inheritable(heartbeat, False)
    _die_with(parent)
    try:
        async with running(_beat(heartbeat), "shoal-heartbeat"):
            yield
    finally:
        os.close(heartbeat)


async def wait_for_signal() -> None:
    """Wait for SIGTERM or SIGINT."""
    signaled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signaled.set)
    try:
        await signaled.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _beat(heartbeat: int) -> None:
    while True:
        # Skip this heartbeat if the pipe is full, because the supervisor has not read for a while.
        with contextlib.suppress(BlockingIOError):
            os.write(heartbeat, b".")
        await asyncio.sleep(_BEAT_SECONDS)


def _die_with(parent: int) -> None:
    """Make the kernel kill this process when its supervisor exits for any reason."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        # The supervisor had exited before the call of `prctl`.
        os.kill(os.getpid(), signal.SIGKILL)


_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
_SUSPENDED_SECONDS = 1.0
"""A turn of the loop of the supervisor that takes longer was interrupted: the machine or this process was suspended."""
_MOST_BACKOFF_SECONDS = 30.0
_HEALTHY_SECONDS = 60.0
"""A child that ran this long is restarted without delay when it exits."""


class _Child:
    """A slot for a child process. `process` is None while the slot is empty. Slots are numbered from 0."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.process: subprocess.Popen[bytes] | None = None
        self.heartbeat = -1
        self.started = 0.0
        self.last_beat = 0.0
        self.failures = 0
        self.not_before = 0.0


class Supervisor:
    """Runs `count` processes of `command` until it receives a signal.

    A child without a heartbeat for `limit` seconds (`start_limit` before its first heartbeat) is killed. On shutdown,
    children have `grace` seconds to finish. `pass_fds` are descriptors that they inherit, such as a listening socket.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        *,
        limit: float = 30.0,
        start_limit: float = 120.0,
        grace: float = 60.0,
        first_pause: float = 0.5,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._command = list(command)
        self._limit = limit
        self._start_limit = start_limit
        self._grace = grace
        self._first_backoff = first_pause
        self._pass_fds = tuple(pass_fds)
        self._children = [_Child(slot) for slot in range(count)]
        self._selector = selectors.DefaultSelector()
        self._ending = False
        self._turn_at = 0.0
        self._notified_at = -float("inf")

    def run(self) -> None:
        """Start and watch the children; return after SIGTERM or SIGINT, when all of them have exited.

        Call in the main thread: it receives signals, and children are killed when the thread that started them exits.
        """
        with self._handling_signals():
            service_manager.ready()
            try:
                self._turn_at = time.monotonic()
                while not self._ending:
                    for child in self._children:
                        self._check(child)
                    self._read_heartbeats()
                    self._skip_suspension()
                    self._notify_service_manager()
                self._stop_children()
            finally:
                for child in self._children:
                    self._kill(child)
                self._selector.close()

    def _check(self, child: _Child) -> None:
        now = time.monotonic()
        if child.process is None:
            if now >= child.not_before:
                self._start(child)
        elif child.process.poll() is not None:
            self._reap(child)
        elif now - child.last_beat > (self._limit if child.last_beat > child.started else self._start_limit):
            _log.error("process %d is stuck: killing and restarting it", child.process.pid)
            self._kill(child)

    def _start(self, child: _Child) -> None:
        child.heartbeat, theirs = os.pipe()
        try:
            for end in (child.heartbeat, theirs):
                os.set_blocking(end, False)
            child.process = subprocess.Popen(  # noqa: S603  # this program
                self._command,
                env={**os.environ, VARIABLE: f"{theirs}:{os.getpid()}:{child.slot}"},
                pass_fds=(theirs, *self._pass_fds),
            )
        finally:
            os.close(theirs)
        child.started = child.last_beat = time.monotonic()
        self._selector.register(child.heartbeat, selectors.EVENT_READ, child)

    def _read_heartbeats(self) -> None:
        for key, _ in self._selector.select(_POLL_SECONDS):
            child: _Child = key.data
            with contextlib.suppress(BlockingIOError):
                if os.read(child.heartbeat, 4096):
                    child.last_beat = time.monotonic()
                else:
                    # The child has closed its end of the pipe, or died: `_check` handles both.
                    self._selector.unregister(child.heartbeat)

    def _skip_suspension(self) -> None:
        """Do not count time during which this process was suspended, because its children probably were suspended too."""
        now = time.monotonic()
        suspended = now - self._turn_at - _SUSPENDED_SECONDS
        self._turn_at = now
        if suspended > 0:
            for child in self._children:
                child.started += suspended
                child.last_beat = min(now, child.last_beat + suspended)

    def _notify_service_manager(self) -> None:
        pause = service_manager.pause()
        if pause is not None and time.monotonic() - self._notified_at > pause:
            self._notified_at = time.monotonic()
            service_manager.lives()

    def _kill(self, child: _Child) -> None:
        if child.process is not None:
            child.process.kill()
            child.process.wait()
            self._reap(child)

    def _reap(self, child: _Child) -> None:
        """Clean up after a process that has exited, and schedule its restart."""
        if child.process is None:
            return
        if not self._ending:
            _log.error("process %d exited with status %s", child.process.pid, child.process.returncode)
        now = time.monotonic()
        child.failures = 0 if now - child.started > _HEALTHY_SECONDS else child.failures + 1
        pause = self._first_backoff * 2.0 ** (child.failures - 1) if child.failures else 0.0
        child.not_before = now + min(pause, _MOST_BACKOFF_SECONDS)
        child.process = None
        with contextlib.suppress(KeyError):
            self._selector.unregister(child.heartbeat)
        os.close(child.heartbeat)

    def _stop_children(self) -> None:
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._grace
        while time.monotonic() < deadline:
            for child in self._children:
                if child.process is not None and child.process.poll() is not None:
                    self._reap(child)
            if not any(child.process for child in self._children):
                return
            self._read_heartbeats()
            self._notify_service_manager()
        _log.error("killing processes that did not exit in time")

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)

        def stop(_number: int, _frame: object) -> None:
            self._ending = True
            os.write(theirs, b".")

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        wakeup = _Child(-1)
        wakeup.heartbeat = ours
        self._selector.register(ours, selectors.EVENT_READ, wakeup)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(ours)
            os.close(theirs)
