"""Python child processes that exchange messages with the server over their pipes, for work on untrusted files.

A child gets neither the server's environment, which holds secrets, nor its terminal's signals. The child sets its own
resource limits.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress
from typing import Final, Self, TypeVar, cast

import msgspec

from shoal.multiprocess.frames import PREFIX, frame

_PASSED_ON: Final = frozenset({"PATH", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG"})
"""Environment variables that are passed on."""
_END_SECONDS: Final = 5.0
"""Timeout for the pipes of a killed process to close."""
_log = logging.getLogger(__name__)

T = TypeVar("T")


class ChildDied(Exception):
    """The process ended, or sent a malformed message."""


class ChildProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        # `stdin` and `stdout` of the process are pipes, which asyncio's types cannot express.
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._killed = False

    @classmethod
    async def start(cls, module: str, *arguments: str, stderr: int | None = None) -> Self:
        """Start `python -m module`. Raises `OSError`."""
        process = await asyncio.create_subprocess_exec(
            # -P: nothing is imported from the directory the server was started in.
            *(sys.executable, "-P", "-W", "ignore", "-m", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={name: value for name, value in os.environ.items() if name in _PASSED_ON},
            start_new_session=True,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._stdout.at_eof()

    async def send(self, message: object) -> None:
        """Send a message. Raises `ChildDied`."""
        try:
            self._stdin.write(frame(message))
            await self._stdin.drain()
        except ConnectionError as error:
            raise ChildDied(repr(error)) from error

    async def receive(self, decoder: msgspec.msgpack.Decoder[T], most: int) -> T:
        """Return the next message.

        Raises `ChildDied` if the process ended, or sent a malformed message or a message of more than `most` bytes.
        """
        try:
            size = int.from_bytes(await self._stdout.readexactly(PREFIX), "big")
            if size > most:
                raise ChildDied(f"a message has at most {most} bytes (got {size})")
            return decoder.decode(await self._stdout.readexactly(size))
        except (
            asyncio.IncompleteReadError,
            ConnectionError,
            msgspec.MsgspecError,
            UnicodeDecodeError,
            RecursionError,
        ) as error:
            raise ChildDied(repr(error)) from error

    def kill(self) -> None:
        """Kill the process. The caller must call `end` afterwards, which reaps it."""
        if not self._killed:
            # After the process has exited, a second `kill` would reap it before asyncio does, and asyncio would log a warning.
            self._killed = True
            with suppress(ProcessLookupError):
                self._process.kill()

    async def end(self) -> None:
        """Kill the process, reap it and close its pipes."""
        self.kill()
        self._stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                with suppress(ConnectionError):
                    await self._stdin.wait_closed()
                while await self._stdout.read(1 << 20):
                    pass
                await self._process.wait()
        except TimeoutError:
            # A process that the child started still holds the pipes.
            _log.warning("a child process did not close its pipes")
        finally:
            # Usually the transport has closed itself, but not if the loop ends before it learns that the process has exited.
            self._process._transport.close()  # type: ignore[attr-defined]  # asyncio has no other way
