"""Processes share a store: when its owner is killed at any moment, each acknowledged post is stored exactly once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.core.model import Post
from tests.stores import all_objects

PROCESSES = 4
KILLS = 6
BETWEEN_SECONDS = 1.0

_WRITER = """
import asyncio
import sys
from itertools import count
from pathlib import Path

from shoal import Shoal, errors

name, folder = sys.argv[1], Path(sys.argv[2])

async def write(ann, number, journal):
    for turn in count():
        text = f"{name}-{number}-{turn}"
        # Every fourth has no request: it may be lost when the owner is killed, but never be there twice.
        request = text if turn % 4 else ""
        try:
            post = await ann.create(text, request=request)
        except errors.OutcomeUnknown:
            assert not request, "a call with a request is repeated"
            continue
        except errors.Unavailable:
            # Too much waits for its consequences; nothing was stored.
            await asyncio.sleep(0.1)
            continue
        print(post.id, post.text, file=journal, flush=True)
        if (folder / "stop").exists():
            return

async def main():
    with (folder / f"{name}.journal").open("w") as journal:
        async with Shoal.open(f"sqlite:///{folder / 'shoal.db'}", shared=True) as shoal:
            ann = await shoal.member("ann")
            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(write(ann, number, journal))

asyncio.run(main())
"""


def test_shared_store_owner_kills_lose_or_duplicate_no_acknowledged_post(tmp_path: Path) -> None:
    asyncio.run(_begin(tmp_path))
    killed = 0
    with _writers(tmp_path) as writers:
        for _ in range(KILLS):
            _until_written(tmp_path, len(writers))
            time.sleep(BETWEEN_SECONDS)
            owner = _owner(tmp_path, writers)
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            killed += 1
            writers.append(_writer(tmp_path, f"w{PROCESSES + killed}"))
        _until_written(tmp_path, len(writers))
        (tmp_path / "stop").touch()
        for writer in writers:
            assert writer.wait(120) in (0, -signal.SIGKILL)
    asyncio.run(_each_once(tmp_path))


def _until_written(folder: Path, writers: int) -> None:
    """Wait until more posts are acknowledged, and every process has written."""
    before = len(_acknowledged(folder))
    deadline = time.monotonic() + 60
    while len(_acknowledged(folder)) < before + 20 or _have_written(folder) < writers:
        assert time.monotonic() < deadline, "no further post is acknowledged"
        time.sleep(0.05)


def _have_written(folder: Path) -> int:
    return sum(path.stat().st_size > 0 for path in folder.glob("*.journal"))


def _acknowledged(folder: Path) -> dict[int, str]:
    lines = [
        line.split() for path in folder.glob("*.journal") for line in path.read_text().rpartition("\n")[0].splitlines()
    ]
    return {int(line[0]): line[1] for line in lines}


async def _begin(folder: Path) -> None:
    async with Shoal.open(f"sqlite:///{folder / 'shoal.db'}") as shoal:
        await shoal.register("ann")


def _writer(folder: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _WRITER, name, str(folder)])


@contextmanager
def _writers(folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    writers = [_writer(folder, f"w{number}") for number in range(PROCESSES)]
    try:
        yield writers
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def _owner(folder: Path, writers: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Return the process that owns the store; the lock file contains its id."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pid = int((folder / "shoal.db-lock").read_text() or 0)
        for writer in writers:
            if writer.pid == pid and writer.poll() is None:
                return writer
        time.sleep(0.02)
    raise AssertionError("no process owns the store")


async def _each_once(folder: Path) -> None:
    acknowledged = _acknowledged(folder)
    assert len(acknowledged) > 100
    async with Shoal.open(f"sqlite:///{folder / 'shoal.db'}") as shoal:
        await shoal.settle()
        stored = {node.id: node.text for node in await all_objects(shoal.network.store) if isinstance(node, Post)}
        twice = {text: times for text, times in Counter(stored.values()).items() if times > 1}
        assert twice == {}
        assert {id_: text for id_, text in acknowledged.items() if stored.get(id_) != text} == {}
        assert (await check(shoal.network)).clean
