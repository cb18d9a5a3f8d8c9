"""Process-wide tuning for a process that runs a network: thread switching, memory and garbage collection.

Only commands and benchmarks call this; a library leaves these settings to its application.

Nothing else runs during a collection, which costs about 0.4 microseconds per object. Objects that survive one or two
young collections are frozen, so that a full collection stays short. A frozen object is still freed when its last reference goes;
a cycle of frozen objects is found only by the full collection that runs when the process is idle, or after an hour at the latest.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from shoal.tasks import running

_THRESHOLDS = (4_000, 0)
"""Net allocations between two young collections, and young collections between two middle ones.

Survivors of a middle collection are frozen. Net allocations are new objects minus freed ones, including old ones: once caches
are full and evict as much as they add, a young collection covers four times as many objects as this number. The longest
collection covers twice as many objects. With 32 connections that post, the main thread spent 2.6 % of its time in collections
at a value of 5,000, 3.4 % at this value, and 5.7 % at 2,000.
"""
_MIDDLE = 1
_QUIET = 0.02
"""A process is idle if it uses at most this fraction of the CPU."""


class _Freezer:
    """A callback of the garbage collector that freezes surviving objects. `times` counts freezes since the last full collection."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "stop" and info["generation"] >= _MIDDLE:
            gc.freeze()
            self.times += 1


_freezer = _Freezer()


def collect_seldom() -> None:
    """Exclude current objects from garbage collection (freeze them), and collect new ones rarely from now on."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    if _freezer not in gc.callbacks:
        gc.callbacks.append(_freezer)


def collect_all() -> None:
    """Collect all garbage, including frozen objects. Takes 50 ms or more."""
    gc.unfreeze()
    gc.collect()
    _freezer.times = 0


async def collecting_all(every: float, idle: float, latest: float) -> None:
    """Run full collections when the process is idle, and after `latest` seconds in any case.

    Idleness is checked every `every` seconds. Collections are at least `idle` seconds apart, and skipped if nothing was frozen.
    """
    last = begun = time.monotonic()
    ran = time.process_time()
    while True:
        await asyncio.sleep(every)
        now, ran_now = time.monotonic(), time.process_time()
        quiet = ran_now - ran <= _QUIET * (now - begun)
        begun, ran = now, ran_now
        if _freezer.times and now - last >= (idle if quiet else latest):
            collect_all()
            last, begun, ran = now, time.monotonic(), time.process_time()


_SWITCH_SECONDS = 0.0001
"""Switch interval of threads. While the event loop is busy, the writer thread waits this long for the interpreter lock, about
ten times per commit.
"""
_MMAP_THRESHOLD = -3
_LARGE_BYTES = 1 << 20
_CHECK_SECONDS = 1.0
_COLLECT_SECONDS = 60.0
_LATEST_SECONDS = 3_600.0
_GROWN_BYTES = 16 << 20


def prepare() -> None:
    """Shorten the switch interval of threads, and return large freed blocks of memory to the system.

    Call it before the network is opened.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    _return_large_blocks()


def settle() -> None:
    collect_seldom()


@asynccontextmanager
async def giving_back(
    every: float = _CHECK_SECONDS, *, idle: float = _COLLECT_SECONDS, latest: float = _LATEST_SECONDS
) -> AsyncIterator[None]:
    """During the block, return free memory to the system and run full garbage collections, both at suitable times.

    Memory is returned whenever the process has grown by 16 MB: glibc keeps small freed blocks between live ones. Full
    collections run when the process is idle, at most every `idle` seconds, and at the latest after `latest` seconds. Nothing is
    done for a process that neither grows nor freezes objects.
    """
    work = [collecting_all(every, idle, latest)]
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        work.append(_trimming(trim, every, _resident()))
    async with AsyncExitStack() as stack:
        for each in work:
            await stack.enter_async_context(running(each, "shoal-memory"))
        yield


async def _trimming(trim: Callable[[int], int], every: float, least: int) -> None:
    while True:
        await asyncio.sleep(every)
        least = min(least, now := _resident())
        if now >= least + _GROWN_BYTES:
            # Trimming takes up to 30 ms if much memory is free: run it in a thread, where it holds no interpreter lock.
            await asyncio.to_thread(trim, 0)
            least = _resident()


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _return_large_blocks() -> None:
    """Return freed blocks of a megabyte or more to the system.

    glibc raises this threshold to 32 MB once such a block was freed, and then keeps the memory of uploads.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
