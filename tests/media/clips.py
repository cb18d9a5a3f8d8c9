"""Tiny clips of ffmpeg's test pictures and tones. Without ffmpeg, their tests fail in CI and are skipped elsewhere."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from shoal.media.clips import Programs

PICTURE = ("-f", "lavfi", "-i", "testsrc=size=160x90:rate=30:duration=1")
TONE = ("-f", "lavfi", "-i", "sine=440:duration=1")
SECRET = ("-metadata", "title=secret", "-metadata", "location=+40.7-74.0/")


def needed() -> None:
    """Skip the test without ffmpeg, or fail it in CI."""
    if Programs.found() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "ffmpeg is not installed: install it with `apt-get install ffmpeg`"
        )


@cache
def clip(suffix: str, *arguments: str) -> bytes:
    """Return a file in the format of this suffix that ffmpeg creates from these arguments."""
    needed()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"clip{suffix}"
        subprocess.run(["ffmpeg", "-v", "error", *arguments, str(made)], check=True, stdin=subprocess.DEVNULL)
        return made.read_bytes()


def film(suffix: str = ".mp4") -> bytes:
    """Return a one-second video of a test picture with a tone and secret metadata."""
    return clip(suffix, *PICTURE, *TONE, *SECRET)


def silent(suffix: str = ".mov") -> bytes:
    """Return a one-second video without sound."""
    return clip(suffix, *PICTURE)


def tone(suffix: str = ".mp3") -> bytes:
    """Return one second of a tone whose metadata contains secrets."""
    return clip(suffix, *TONE, *SECRET)


def moving_gif() -> bytes:
    """Return an animated GIF of five frames."""
    return clip(".gif", "-f", "lavfi", "-i", "testsrc=size=48x32:rate=5:duration=1")
