"""Engines that all workers of a test run share.

The pytest controller starts an engine when a worker first asks for it, and stops it after the last test. Without workers, the
process that runs the tests starts it.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from tempfile import mkdtemp

from shoal_devcluster.program import Program
from tests.engines.shutdown import at_the_end

Start = Callable[[], Program]
"""A module-level function, which can be sent to another process by name."""

_ADDRESS = "SHOAL_TEST_ENGINES"


def shared(start: Start) -> Program:
    """Return the shared engine that a function starts. Raises the errors of the function.

    The engine is a child of the controller, so a test cannot stop it.
    """
    if not (address := os.environ.get(_ADDRESS)):
        return start()
    with Client(address) as connection:
        connection.send(start)
        answer = connection.recv()
    if isinstance(answer, Exception):
        raise answer
    name, folder, url, user, environ, pid = answer
    return _Elsewhere(name, folder, url, user, environ, pid)


def offer() -> None:
    """Offer engines to the workers that this process starts later."""
    folder = Path(mkdtemp(prefix="shoal-engines-"))
    at_the_end.callback(shutil.rmtree, folder, ignore_errors=True)
    address = str(folder / "socket")
    listener = Listener(address, backlog=64)
    at_the_end.callback(listener.close)
    threading.Thread(target=_Offer(listener).accept, name="engines", daemon=True).start()
    os.environ[_ADDRESS] = address


class _Elsewhere(Program):
    """An engine that another process started."""

    def __init__(
        self, name: str, folder: Path, url: str, user: str | None, environ: Mapping[str, str], pid: int | None
    ) -> None:
        super().__init__(name, (), folder, url=url, user=user, environ=environ)
        self._pid = pid

    @property
    def pid(self) -> int | None:
        return self._pid


class _Offer:
    """The engines that the controller has started."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._starting: dict[Start, threading.Lock] = {}
        self._started: dict[Start, Program | Exception] = {}

    def accept(self) -> None:
        # Closing the listener raises OSError here.
        with suppress(OSError):
            while True:
                connection = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            start: Start = connection.recv()
            with self._lock:
                lock = self._starting.setdefault(start, threading.Lock())
            with lock:
                if start not in self._started:
                    self._started[start] = _outcome(start)
            connection.send(_described(self._started[start]))


def _outcome(start: Start) -> Program | Exception:
    try:
        return start()
    except Exception as error:  # noqa: BLE001  # raised again by the worker
        return error


def _described(
    started: Program | Exception,
) -> Exception | tuple[str, Path, str, str | None, Mapping[str, str], int | None]:
    if isinstance(started, Exception):
        return started
    return started.name, started.folder, started.url, started._user, started._environ, started.pid
