"""Tiny clips, made by ffmpeg's own test pictures and tones. Without ffmpeg: skipped at a desk, failed in CI."""

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
    """Go on only where ffmpeg is."""
    if Programs.found() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no ffmpeg: apt-get install ffmpeg")


@cache
def clip(suffix: str, *arguments: str) -> bytes:
    """A file of this suffix, as ffmpeg makes it with these arguments."""
    needed()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / f"clip{suffix}"
        subprocess.run(["ffmpeg", "-v", "error", *arguments, str(made)], check=True, stdin=subprocess.DEVNULL)
        return made.read_bytes()


def film(suffix: str = ".mp4") -> bytes:
    """A second of a test picture with a tone, and secrets in its metadata."""
    return clip(suffix, *PICTURE, *TONE, *SECRET)


def silent(suffix: str = ".mov") -> bytes:
    """Return a clip without sound."""
    return clip(suffix, *PICTURE)


def tone(suffix: str = ".mp3") -> bytes:
    """A second of a tone."""
    return clip(suffix, *TONE, *SECRET)


def moving_gif() -> bytes:
    """A GIF of five frames."""
    return clip(".gif", "-f", "lavfi", "-i", "testsrc=size=48x32:rate=5:duration=1")
