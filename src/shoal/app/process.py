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
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

_THRESHOLDS = (4_000, 0)
"""Objects more than at the last collection of the youngest; such collections between two of the middle ones, which put aside what
they leave.

Objects that are freed count against new ones, old ones too: once caches are full and let go of as much as they take in, the
youngest are four times as many as this says. The longest collection is one of twice as many. Requests that come and go together
count fully: 32 connections that post left 2.6 % of the main thread's time to collections at 5,000, 3.4 % at this, 5.7 % at 2,000.
"""
_MIDDLE = 1
_QUIET = 0.02
"""A process has nothing to do if it runs for no more than this share of the time."""


class _Aside:
    """Puts aside what was looked at. `times`: how often, since all was."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "stop" and info["generation"] >= _MIDDLE:
            gc.freeze()
            self.times += 1


_aside = _Aside()


def collect_seldom() -> None:
    """Collect garbage seldom from now on, among new objects alone. Present ones are put aside as they are."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    if _aside not in gc.callbacks:
        gc.callbacks.append(_aside)


def collect_all() -> None:
    """Collect all garbage, of what was put aside too. It takes 50 ms and more."""
    gc.unfreeze()
    gc.collect()
    _aside.times = 0


async def collecting_all(every: float, rest: float, latest: float) -> None:
    """Collect all garbage now and then, as long as this runs: when there is nothing to do, and after `latest` seconds in any case.

    Whether there is something to do is looked at `every` so many seconds. Collections are `rest` seconds apart, and there is none
    while nothing has been put aside.
    """
    last = begun = time.monotonic()
    ran = time.process_time()
    while True:
        await asyncio.sleep(every)
        now, running = time.monotonic(), time.process_time()
        quiet = running - ran <= _QUIET * (now - begun)
        begun, ran = now, running
        if _aside.times and now - last >= (rest if quiet else latest):
            collect_all()
            last, begun, ran = now, time.monotonic(), time.process_time()


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
    """Collect garbage seldom, and among new objects alone (`collect_seldom`). Call it once the network is open."""
    collect_seldom()


@asynccontextmanager
async def giving_back(
    every: float = _LOOK_SECONDS, *, rest: float = _REST_SECONDS, latest: float = _LATEST_SECONDS
) -> AsyncIterator[None]:
    """Return free memory to the system during the block, and find garbage among what `settle` has put aside.

    Memory is returned whenever the process has grown by 16 MB: glibc keeps small blocks that were freed between others that live
    on. Garbage is looked for when there is nothing to do, at most once in `rest` seconds, and at the latest after `latest` seconds
    (`collecting_all`). A process that does not grow, and puts nothing aside, is left alone.
    """
    work = [collecting_all(every, rest, latest)]
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
