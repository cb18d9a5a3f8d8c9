"""A server process collects garbage rarely; the library leaves garbage collection to its application."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SHOWN = "print(gc.get_threshold()[0] == 4_000, gc.get_freeze_count() > 0, sys.getswitchinterval() < 0.001)"


def shown(before: str) -> str:
    """Return the settings of a new process after it ran these lines."""
    lines = f"import gc, sys\n{before}\n{_SHOWN}"
    return subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True).stdout.strip()


def test_server_process_collects_garbage_rarely_and_switches_threads_often() -> None:
    assert shown("from shoal.app import process\nprocess.prepare()\nprocess.settle()") == "True True True"


def test_library_use_leaves_interpreter_settings_unchanged() -> None:
    opened = "async with Shoal.open('memory://'): pass"
    assert shown(f"import asyncio\nfrom shoal import Shoal\nasync def f():\n  {opened}\nasyncio.run(f())") == (
        "False False False"
    )


_FREED = """
import asyncio
from shoal.app import process

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

async def story():
    async with process.giving_back(0.05):
        pieces = [bytes(20_000) for _ in range(5_000)]
        most = resident()
        # A live block remains between freed blocks.
        del pieces[:-1]
        while resident() > most - 60:
            await asyncio.sleep(0.05)

process.prepare()
asyncio.run(asyncio.wait_for(story(), 60))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can return memory to the system")
def test_server_process_returns_fragmented_free_memory_to_system() -> None:
    subprocess.run([sys.executable, "-c", _FREED], capture_output=True, text=True, check=True)


_LEFT = """
import asyncio, gc, sys, time, types, weakref
from shoal.app import process

class Node:
    pass

async def story(busy, latest):
    process.settle()
    lasting, clock = busy and latest > 60, time.monotonic
    if lasting:
        # The process would seem idle if a loaded machine withheld the processor.
        clock = time.process_time
        process.time = types.SimpleNamespace(monotonic=clock, process_time=clock)
    found = asyncio.Event()
    async with process.giving_back(0.05, idle=0.1, latest=latest):
        node = Node()
        node.itself = node
        seen = weakref.ref(node, lambda _: found.set())
        gc.collect(1)
        del node
        gc.collect()
        assert seen() is not None, "the object was not frozen"
        end = clock() + (1.0 if lasting else 60)
        while busy and seen() is not None and clock() < end:
            await asyncio.sleep(0)
        if not busy:
            # Polling could keep a slow processor too busy for the process to count as idle.
            await asyncio.wait_for(found.wait(), 60)
    print("found" if seen() is None else "left")

asyncio.run(story(sys.argv[1] == "busy", float(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("work", "latest", "what"), [("quiet", "3600", "found"), ("busy", "3600", "left"), ("busy", "0.3", "found")]
)
def test_reference_cycle_of_frozen_objects_is_collected_when_idle_or_after_deadline(
    work: str, latest: str, what: str
) -> None:
    done = subprocess.run([sys.executable, "-c", _LEFT, work, latest], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == what
