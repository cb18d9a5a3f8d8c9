"""Messages of the archive reader process are untrusted, like the archive itself."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from shoal.admin.archives import reader_process
from shoal.admin.archives.reader import PostsRead, Refusal
from shoal.admin.archives.reader_process import ArchiveLimitsExceeded, ArchiveProcess
from shoal.multiprocess import child_process
from shoal.multiprocess.child_process import ChildProcess
from shoal.multiprocess.frames import PREFIX, frame
from tests.async_runner import in_loop


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(PREFIX, "big") + data


MESSAGES = {
    "no UTF-8": bytes(frame(Refusal("os", "abc"))).replace(b"abc", b"a\xffc"),
    "deep": _framed(b"\x82\xa4type\xa9PostsRead\xa1x" + b"\x91" * 20_000 + b"\xc0"),
    "cut": _framed(b"\x82"),
    "too large": (1 << 31).to_bytes(PREFIX, "big"),
    "none": b"",
    "a number of posts twice": bytes(frame(PostsRead(500))) * 2,
    "too many posts": bytes(frame(PostsRead(1 << 40))),
}


def _answering(monkeypatch: pytest.MonkeyPatch, code: str, answer: bytes = b"") -> None:
    """Replace the reader process with one that sends an answer and then runs code."""

    async def spawned() -> ChildProcess:
        pipe = asyncio.subprocess.PIPE
        whole = f"import os, sys, time\nsys.stdin.buffer.read(4)\nos.write(1, bytes.fromhex(sys.argv[1]))\n{code}"
        return ChildProcess(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", whole, answer.hex()), stdin=pipe, stdout=pipe, start_new_session=True
            )
        )

    monkeypatch.setattr(reader_process, "_spawned", spawned)


@pytest.mark.parametrize("name", MESSAGES)
@in_loop
async def test_archive_reader_process_with_malformed_message_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _answering(monkeypatch, "", MESSAGES[name])
    async with ArchiveProcess.started(tmp_path, tmp_path, 1 << 20) as started:
        with pytest.raises(ArchiveLimitsExceeded):
            await started.plan(lambda _: None)


@in_loop
async def test_archive_reader_process_is_closed_although_its_child_holds_the_pipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_END_SECONDS", 0.1)
    # The child ends when the test closes the pipe that it waits for.
    _answering(monkeypatch, "os.fork() or (os.setsid(), sys.stdin.buffer.read())", b"\0\0\0\0")
    async with ArchiveProcess.started(tmp_path, tmp_path, 1 << 20) as started:
        with pytest.raises(ArchiveLimitsExceeded):
            await started.plan(lambda _: None)
