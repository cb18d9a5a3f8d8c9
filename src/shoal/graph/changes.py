"""Build changes to objects: optimistic read-modify-commit, and tickets in the schedule of due objects (the agenda).

A commit names the version that it replaces (`Batch.obj_set`). Of two concurrent changes one gets `Conflict`, reads again and is
applied to the result of the other, so both take effect. A ticket is an id on the shard of its object; the commit that changes the
object also adds or removes the ticket. The first ticket has the object's own id, later ones have a new id; no ticket is used twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from shoal.core.errors import Conflict
from shoal.core.ids import SEQUENCE_BITS, SHARD_BITS, floor_at, shard_of
from shoal.core.model import Node
from shoal.graph.contract import Batch, Graph
from shoal.graph.schema import AGENDA, DUE_ON

T = TypeVar("T")
N = TypeVar("N", bound=Node)

_TRIES = 24
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.25
"""Maximum pause between two attempts, in seconds."""

Extra = Callable[[Batch, N, N], None]
"""A function that adds writes to the commit of a change. Its arguments are the batch, and the object before and after."""


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], passing: Callable[[Conflict], bool] = lambda _: True
) -> T:
    """Call `attempt` until it succeeds without a conflict, and return its result. Each call must read its data again.

    Args:
        passing: Returns whether to retry a conflict; any other is raised. All conflicts are retried by default, so an attempt
            that takes a key or relies on another object must turn `KeyTaken` and `Missing` into its own errors.

    Raises:
        Conflict: Every attempt failed, after about two seconds.
    """
    pause = 0.0
    for _ in range(_TRIES):
        try:
            return await attempt()
        except Conflict as conflict:
            if not passing(conflict):
                raise
            # Wait for a random time, so that attempts that collided do not collide again: hundreds may change one object at once.
            await asyncio.sleep(random.uniform(0.0, pause))  # noqa: S311
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
    raise Conflict("the object is being changed by another request; try again")


async def change_object(
    graph: Graph, read: Callable[[], Awaitable[N]], change: Callable[[N], N], extra: Extra[N] | None = None
) -> N:
    """Apply `change` to the object that `read` returns, commit the result, and return it. An unchanged object is not committed.

    `change` must not change the version. It is repeated after a conflict, with the object read again. Raises the errors of `read`
    and `change`, and `Conflict` if every attempt failed, after about two seconds.
    """

    async def attempt() -> N:
        before = await read()
        after = change(before)
        if after == before:
            return before
        after = replace(after, version=before.version + 1)
        batch = Batch(shard_of(after.id))
        batch.obj_set(after)
        if extra is not None:
            extra(batch, before, after)
        await graph.commit(batch)
        return after

    return await retry_on_conflict(attempt)


_LOW = (1 << SHARD_BITS + SEQUENCE_BITS) - 1


def put_on(batch: Batch, ticket: int, at: int, id_: int) -> None:
    """Add an object to the schedule for a time (Unix ms). The commit fails with `IdTaken` if the ticket id is in use.

    Tickets for one millisecond are ordered by the low bits of their ids.
    """
    batch.fresh.add(ticket)
    batch.assoc_add(ticket, DUE_ON, AGENDA, floor_at(at) | ticket & _LOW, id_.to_bytes(8))


def take_off(batch: Batch, ticket: int, now: int) -> None:
    if ticket:
        batch.assoc_del(ticket, DUE_ON, AGENDA, now)
