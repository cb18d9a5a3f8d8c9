"""ffmpeg and ffprobe as the server runs them: confined, without a network, and killed when they take too long.

Each is told the one format that the file was sniffed as, so no playlist in disguise makes it open something else, and
may read nothing but files.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from typing import Final, NamedTuple, Self

from shoal.core.errors import InvalidInput, Unavailable
from shoal.media.limits import ClipLimits

_PASSED_ON: Final = frozenset({"PATH", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH"})
"""Environment variables that are passed on; the others may hold secrets."""
_MOST_SAID: Final = 1 << 20
"""Bytes that a program may print."""
_log = logging.getLogger(__name__)


class Programs(NamedTuple):
    """Paths of the two programs."""

    ffmpeg: str
    ffprobe: str

    @classmethod
    def found(cls) -> Self | None:
        """Find the programs on this machine; None where they are not installed."""
        ffmpeg, ffprobe = shutil.which("ffmpeg"), shutil.which("ffprobe")
        return cls(ffmpeg, ffprobe) if ffmpeg and ffprobe else None

    async def probe(self, file: str, demuxer: str, limits: ClipLimits) -> bytes:
        """Return ffprobe's description of a file, as JSON. Raises `InvalidInput` when it cannot be read."""
        asked = ("-v", "error", "-print_format", "json", "-show_format", "-show_streams")
        return await _run((self.ffprobe, *asked, *_reading(demuxer), f"file:{file}"), limits)

    async def convert(self, file: str, demuxer: str, limits: ClipLimits, *wanted: str) -> None:
        """Convert a file as the arguments say. Raises `InvalidInput` when that fails."""
        quiet = ("-nostdin", "-hide_banner", "-v", "error", "-threads", str(limits.threads))
        reading = (*_reading(demuxer), "-i", f"file:{file}")
        await _run((self.ffmpeg, *quiet, *reading, "-threads", str(limits.threads), *wanted), limits)


def _reading(demuxer: str) -> tuple[str, ...]:
    return ("-protocol_whitelist", "file", "-f", demuxer)


async def _run(command: Sequence[str], limits: ClipLimits) -> bytes:
    """Run a command within the limits and return its output. Raises `InvalidInput` when it fails."""
    confined = (ceil(limits.seconds * limits.threads), limits.memory, limits.max_made)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "shoal.media.confined", *map(str, confined), *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name in _PASSED_ON},
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable("clips cannot be worked on right now") from error
    try:
        said, complaint = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise
    if process.returncode or len(said) > _MOST_SAID:
        _log.info("%s ended with %s: %s", command[0], process.returncode, complaint[-500:].decode("utf-8", "replace"))
        raise InvalidInput("this file is damaged, or plays longer or larger than can be taken")
    return said
