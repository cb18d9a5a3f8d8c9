"""The one moment of a backup: all stores opened while no commit ends in any of them.

Why that is enough, and why less is not: docs/decisions/operations.md, "Backups".
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from shoal.core.errors import ShoalError, Unavailable
from shoal.graph.bulk import SnapshotSource

_ATTEMPTS = 12
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


class OneMoment(NamedTuple):
    """When the snapshots are of (Unix ms), and for how many seconds commits waited for that."""

    at: int
    held: float


async def open_all(sources: Sequence[SnapshotSource]) -> OneMoment:
    """Open every store at one moment. Raises `Unavailable` when a store cannot be held within a minute.

    A single store is opened without being held: its own transaction is the moment.
    """
    if len(sources) == 1:
        at = _now_ms()
        await sources[0].open()
        return OneMoment(at, 0.0)
    for attempt in range(_ATTEMPTS):
        try:
            return await _held(sources)
        except Unavailable:
            if attempt == _ATTEMPTS - 1:
                raise
        # At random: two backups that hold each other up do not meet again.
        pause = min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2**attempt)
        await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311  # it guards nothing
    raise AssertionError


async def _held(sources: Sequence[SnapshotSource]) -> OneMoment:
    began = time.monotonic()
    try:
        await _each(source.hold() for source in sources)
        at = _now_ms()
        await _each(source.open() for source in sources)
    except BaseException:
        for source in sources:
            with suppress(ShoalError):
                await source.release()
        raise
    # Each says whether it was held until now.
    await _each(source.release() for source in sources)
    return OneMoment(at, time.monotonic() - began)


async def _each(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all, also when one fails: nothing is still under way when the others are released."""
    for error in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
