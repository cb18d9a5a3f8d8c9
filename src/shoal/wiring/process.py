"""Process-wide tuning for a process that runs a network: thread switching, memory, and garbage collection.

A library leaves these to the application that it is part of, so only the commands and the benchmarks call this.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from shoal.wiring import garbage

_SWITCH_SECONDS = 0.0001
"""Seconds for which a thread keeps the interpreter: the writer thread waits that long for its turn, some ten times a
commit, while the loop is busy.
"""
_MMAP_THRESHOLD = -3
"""glibc's M_MMAP_THRESHOLD."""
_LARGE_BYTES = 1 << 20
_LOOK_SECONDS = 1.0
_REST_SECONDS = 60.0
_LATEST_SECONDS = 3_600.0
_GROWN_BYTES = 16 << 20


def prepare() -> None:
    """Shorten the turns of threads, and return large blocks of memory to the system.

    Call it before the network is opened.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    _give_back_large_blocks()


def settle() -> None:
    """Collect garbage seldom, and among new objects alone (`garbage`). Call it once the network is open."""
    garbage.collect_seldom()


@asynccontextmanager
async def giving_back(
    every: float = _LOOK_SECONDS, *, rest: float = _REST_SECONDS, latest: float = _LATEST_SECONDS
) -> AsyncIterator[None]:
    """Return free memory to the system during the block, and find garbage among what `settle` has put aside.

    Memory is returned whenever the process has grown by 16 MB: glibc keeps small blocks that were freed between others that live
    on. Garbage is looked for when there is nothing to do, at most once in `rest` seconds, and at the latest after `latest` seconds
    (`garbage`). A process that does not grow, and puts nothing aside, is left alone.
    """
    work = [garbage.collecting_all(every, rest, latest)]
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        work.append(_trimming(trim, every, _resident()))
    tasks = [asyncio.create_task(each, name="shoal-memory") for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _trimming(trim: Callable[[int], int], every: float, least: int) -> None:
    while True:
        await asyncio.sleep(every)
        least = min(least, now := _resident())
        if now >= least + _GROWN_BYTES:
            # Up to 30 ms where much is free: beside the loop, with the interpreter let go.
            await asyncio.to_thread(trim, 0)
            least = _resident()


def _resident() -> int:
    """Return the bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _give_back_large_blocks() -> None:
    """Return blocks of a megabyte and more to the system when they are freed.

    glibc raises its limit for that to 32 MB once one of them was freed, and then keeps the memory of uploads.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
