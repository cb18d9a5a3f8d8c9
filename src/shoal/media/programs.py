"""ffmpeg and ffprobe as the server runs them: confined, without a network, and killed when they take too long.

Each may use the one demuxer of the type that was detected, the decoders of that type, and files. FFmpeg contains hundreds
of other decoders, most of them for formats that no browser or phone writes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from typing import Final, NamedTuple, Self

from shoal.core.errors import InvalidInput, TooLarge, Unavailable, Unsupported
from shoal.media.limits import ClipLimits, mebibytes
from shoal.media.sniff import Clip

_PASSED_ON: Final = frozenset({"PATH", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH"})
"""Environment variables that are passed on; the others may hold secrets."""
_MOST_SAID: Final = 1 << 20
"""Bytes that a program may print."""
_NOT_LISTED: Final = re.compile(rb"Codec \((\w+)\) not on whitelist")
_NO_ROOM: Final = b"File too large"
_NO_MEMORY: Final = re.compile(rb"annot allocate memory|failed to map segment|malloc of size")
_OUT_OF_TIME: Final = (-signal.SIGXCPU, -signal.SIGKILL)
_log = logging.getLogger(__name__)


_filters: dict[str, frozenset[str]] = {}
"""Names of the filters of each ffmpeg, by its path."""


class Programs(NamedTuple):
    """Paths of the two programs."""

    ffmpeg: str
    ffprobe: str

    @classmethod
    def found(cls) -> Self | None:
        """Find the programs on this machine; None where they are not installed."""
        ffmpeg, ffprobe = shutil.which("ffmpeg"), shutil.which("ffprobe")
        return cls(ffmpeg, ffprobe) if ffmpeg and ffprobe else None

    async def has_filters(self, *names: str) -> bool:
        """Return whether this ffmpeg has all of these filters."""
        if self.ffmpeg not in _filters:
            process = await asyncio.create_subprocess_exec(
                *(self.ffmpeg, "-hide_banner", "-filters"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=_environment(),
            )
            said, _ = await process.communicate()
            _filters[self.ffmpeg] = frozenset(
                line.split()[1].decode() for line in said.splitlines() if len(line.split()) > 1
            )
        return _filters[self.ffmpeg].issuperset(names)

    async def probe(self, file: str, clip: Clip, limits: ClipLimits) -> bytes:
        """Return ffprobe's description of a file, as JSON. Raises `InvalidInput` when it cannot be read."""
        asked = ("-v", "error", "-print_format", "json", "-show_format", "-show_streams")
        return await _run((self.ffprobe, *asked, *_reading(clip), f"file:{file}"), limits)

    async def convert(self, file: str, clip: Clip, limits: ClipLimits, *wanted: str) -> None:
        """Convert a file as the arguments say. Raises `InvalidInput` when that fails."""
        quiet = ("-nostdin", "-hide_banner", "-v", "error", "-threads", str(limits.threads))
        reading = (*_reading(clip), "-i", f"file:{file}")
        await _run((self.ffmpeg, *quiet, *reading, "-threads", str(limits.threads), *wanted), limits)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON}


def _reading(clip: Clip) -> tuple[str, ...]:
    return (
        *("-protocol_whitelist", "file", "-format_whitelist", clip.demuxer),
        *("-codec_whitelist", ",".join(clip.decoders), "-f", clip.demuxer),
    )


async def _run(command: Sequence[str], limits: ClipLimits) -> bytes:
    """Run a command within the limits and return its output. Raises `InvalidInput` when it fails."""
    confined = (ceil(limits.seconds * limits.threads), limits.memory, limits.max_made)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "shoal.media.confined", *map(str, confined), *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
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
    # ffmpeg exits with 0 when only the end of its output could not be written.
    if process.returncode or len(said) > _MOST_SAID or _NO_ROOM in complaint:
        _log.info("%s ended with %s: %s", command[0], process.returncode, complaint[-500:].decode("utf-8", "replace"))
        raise _reason(process.returncode or 0, complaint, limits)
    return said


def _reason(status: int, complaint: bytes, limits: ClipLimits) -> InvalidInput:
    """Return the reason of a failed program from its exit status and output."""
    if refused := _NOT_LISTED.search(complaint):
        return Unsupported(f"the codec {refused[1].decode()} is not accepted: use H.264 and AAC")
    if _NO_ROOM in complaint:
        return TooLarge(f"the converted file would have more than {mebibytes(limits.max_made)}")
    if _NO_MEMORY.search(complaint):
        return InvalidInput(f"converting this file takes more than {mebibytes(limits.memory)} of memory")
    if status in _OUT_OF_TIME or b"received signal 24" in complaint:
        return InvalidInput(f"this clip took longer than {limits.seconds:g} seconds of work")
    return InvalidInput("this file is damaged: it cannot be read")
