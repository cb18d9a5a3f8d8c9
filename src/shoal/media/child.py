"""One decoding process as the server sees it: started, asked one job at a time, ended.

A child never gets the server's environment (it holds secrets) nor its terminal's signals. It keeps nothing between jobs, so
it is always ended by SIGKILL.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress
from typing import Final, Self, TypeVar, cast

import msgspec

from shoal.core.errors import Unavailable
from shoal.media.limits import UploadLimits
from shoal.media.protocol import MAX_ANSWER, PREFIX, Answer, Crop, Failure, Ready, Rendering, RenderJob, frame

START_SECONDS: Final = 30.0
"""Wall-clock seconds within which a child must be up, on however slow a machine."""
_PASSED_ON = frozenset({"PATH", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG"})
_ANSWERS: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)
_Kind = TypeVar("_Kind", Rendering, Crop)
_log = logging.getLogger(__name__)


class ChildDied(Exception):
    """The process ended, or spoke nonsense, before it answered."""


class Child:
    """A running child. `jobs` counts those asked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        # asyncio's types cannot say that both were asked to be pipes.
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self.jobs = 0
        self._killed = False

    @classmethod
    async def start(cls, limits: UploadLimits) -> Self:
        """A child that is up; `Unavailable` when none comes up, which is the machine's fault and no picture's."""
        child = cls(await _spawned(limits))
        try:
            async with asyncio.timeout(START_SECONDS):
                if isinstance(await child._heard(), Ready):
                    return child
        except (ChildDied, TimeoutError):
            _log.exception("a process to decode pictures does not start")
        except BaseException:
            await child.end()
            raise
        await child.end()
        raise Unavailable("pictures cannot be decoded right now")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked, as far as the event loop has heard."""
        return self._process.returncode is None and not self._stdout.at_eof()

    async def ask(self, job: RenderJob, kind: type[_Kind]) -> _Kind | Failure:
        """Its answer, or `ChildDied`. After that, or when cancelled, it must be ended."""
        self.jobs += 1
        try:
            self._stdin.write(frame(job))
            await self._stdin.drain()
        except ConnectionError as error:
            raise ChildDied from error
        answer = await self._heard()
        if isinstance(answer, kind | Failure):
            return answer
        raise ChildDied

    def kill(self) -> None:
        """Stop it now; `end` must follow."""
        if self._killed:
            # A second signal would reap what asyncio waits for, and make it complain.
            return
        self._killed = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        """Stop it, reap it and close its pipes."""
        self.kill()
        self._stdin.close()
        with suppress(ConnectionError):
            await self._stdin.wait_closed()
        # The transport closes itself once the pipe has been read to its end.
        while await self._stdout.read(MAX_ANSWER):
            pass
        await self._process.wait()

    async def _heard(self) -> Answer:
        try:
            size = int.from_bytes(await self._stdout.readexactly(PREFIX), "big")
            if size > MAX_ANSWER:
                raise ChildDied
            return _ANSWERS.decode(await self._stdout.readexactly(size))
        except (
            asyncio.IncompleteReadError,
            ConnectionError,
            msgspec.MsgspecError,
            UnicodeDecodeError,
            RecursionError,
        ) as error:
            raise ChildDied from error


async def _spawned(limits: UploadLimits) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            # -P: nothing is imported from the directory the server was started in.
            *("-P", "-W", "ignore", "-m", "shoal.media.worker"),
            msgspec.json.encode(limits).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name in _PASSED_ON},
            start_new_session=True,
        )
    except OSError as error:
        _log.exception("a process to decode pictures cannot be started")
        raise Unavailable("pictures cannot be decoded right now") from error
