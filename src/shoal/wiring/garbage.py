"""When a process that runs a network collects garbage. Nothing else runs in it meanwhile, at about 0.4 microseconds an object.

What is remembered lives on, so a collection that looks at old objects takes longer the more they are. Here an object is looked at
once or twice, soon after it was made, and then put aside. It is freed as ever once nothing refers to it, but if it becomes part of
a cycle, that is not found. So all is taken back and looked at as soon as the process has nothing to do, and after an hour at the
latest.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping
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
