"""Changes of objects: read one, decide, commit, and begin again when somebody else changed it in between.

A commit names the version that it replaces (`Batch.obj_set`), so of two changes at once one is refused with `Conflict`. That one
reads again and is applied to what the other left: both take effect, and neither undoes the other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from shoal.core.errors import Conflict
from shoal.core.ids import shard_of
from shoal.core.model import Node
from shoal.graph.contract import Batch, Graph

T = TypeVar("T")
N = TypeVar("N", bound=Node)

_TRIES = 24
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.25
"""Seconds."""

Beside = Callable[[Batch, N, N], None]
"""A function that adds to the commit of a change; it is given the object before and after."""


def _any(_conflict: Conflict) -> bool:
    return True


async def retry_on_conflict(attempt: Callable[[], Awaitable[T]], passing: Callable[[Conflict], bool] = _any) -> T:
    """Run `attempt` until it is not overtaken, and return its answer; it must read anew each time.

    Every `Conflict` that is `passing` is one more try, and any other one is raised. By default all of them pass, and an attempt
    that takes a key or relies on another object turns `KeyTaken` and `Missing` into errors of its own. Raises `Conflict` when
    every try was overtaken, after about two seconds.
    """
    pause = 0.0
    for _ in range(_TRIES):
        try:
            return await attempt()
        except Conflict as conflict:
            if not passing(conflict):
                raise
            # Random, so that attempts that collided do not collide again: hundreds may change one object at once.
            await asyncio.sleep(random.uniform(0.0, pause))  # noqa: S311
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
    raise Conflict("it is being changed from elsewhere; repeat")


async def change_object(
    graph: Graph, read: Callable[[], Awaitable[N]], change: Callable[[N], N], beside: Beside[N] | None = None
) -> N:
    """Apply `change` to the object that `read` gives, as it is at that moment, and return the changed object.

    A change that makes no difference commits nothing. `change` leaves the version alone. Raises what `read` and `change`
    raise, and `Conflict` as `retry_on_conflict` does.
    """

    async def attempt() -> N:
        before = await read()
        after = change(before)
        if after == before:
            return before
        after = replace(after, version=before.version + 1)
        batch = Batch(shard_of(after.id))
        batch.obj_set(after)
        if beside is not None:
            beside(batch, before, after)
        await graph.commit(batch)
        return after

    return await retry_on_conflict(attempt)
