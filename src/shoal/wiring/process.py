"""Process-wide tuning for a process that runs a network: thread switching, memory, and garbage collection.

A library leaves these to the application that it is part of, so only the commands and the benchmarks call this.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

_SWITCH_SECONDS = 0.0001
"""Seconds for which a thread keeps the interpreter: the writer thread waits that long for its turn, some ten times a
commit, while the loop is busy.
"""
_GC_THRESHOLDS = (4_000, 3, 14)
"""Objects more than at the last collection of the youngest; such collections between two of the middle ones; those between two
of all.

Nothing else runs during a collection, at about 0.4 microseconds an object. Objects that are freed count against new ones, old
ones too: once caches are full and let go of as much as they take in, the youngest are four times as many as this says. The longest
collection then takes 12 to 13 ms (at 5,000, 4 and 10 it took 14 to 15). Requests that come and go together count fully: 32
connections that post left 2.6 % of the main thread's time to collections at 5,000, 3.4 % at this, 5.7 % at 2,000. All are looked
at when as many as a quarter of the rest have become old.
"""

_MMAP_THRESHOLD = -3
"""glibc's M_MMAP_THRESHOLD."""
_LARGE_BYTES = 1 << 20
_LOOK_SECONDS = 1.0
_GROWN_BYTES = 16 << 20


def prepare() -> None:
    """Shorten the turns of threads, and return large blocks of memory to the system.

    Call it before the network is opened.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    _give_back_large_blocks()


def settle() -> None:
    """Collect garbage seldom, and never look at present objects again. Call it once the network is open."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


@asynccontextmanager
async def giving_back(every: float = _LOOK_SECONDS) -> AsyncIterator[None]:
    """Return free memory to the system during the block, whenever the process has grown by 16 MB.

    glibc keeps small blocks that were freed between others that live on. A process that does not grow is left alone.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    task = None if trim is None else asyncio.create_task(_trimming(trim, every, _resident()), name="shoal-memory")
    try:
        yield
    finally:
        if task is not None:
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
