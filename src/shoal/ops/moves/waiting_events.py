"""Events that wait in a store, brought to another one: they begin anew there, which does no harm."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.core.errors import Unavailable
from shoal.core.events import AnyEvent
from shoal.graph.contract import Batch, Job, Store

_AT_ONCE = 500
_LEASE_SECONDS = 60.0
_PATIENCE_SECONDS = 90.0
"""An event that a worker died over is to be had when its lease has ended."""
_POLL_SECONDS = 0.5


async def forget_events(store: Store) -> None:
    """Drop the events that an earlier run brought before it was interrupted."""
    await store.unbury([job for job, _ in await store.buried()])
    await store.ack(await claimed(store))
    while await store.backlog():  # noqa: ASYNC110  # an acknowledgement may be written a moment later
        await asyncio.sleep(_POLL_SECONDS / 10)


async def emit_again(store: Store, found: Sequence[AnyEvent]) -> None:
    """Commit events by themselves, in their order."""
    for start in range(0, len(found), _AT_ONCE):
        batch = Batch(0)
        for event in found[start : start + _AT_ONCE]:
            batch.emit(event)
        await store.commit(batch)


async def bury_events(store: Store, found: Sequence[tuple[AnyEvent, str]]) -> None:
    """Commit events that were set aside, and set them aside with their errors. No other event may wait in the store."""
    await emit_again(store, [event for event, _ in found])
    for job, (_, error) in zip(await claimed(store), found, strict=True):
        await store.bury(job, error)


async def claimed(store: Store) -> list[Job]:
    """Every event of a store, oldest first. They are given to others again when it is closed."""
    jobs: dict[tuple[int, int], Job] = {}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    while len(jobs) < await store.backlog():
        page = await store.claim(_AT_ONCE, _LEASE_SECONDS + _PATIENCE_SECONDS)
        jobs.update({(job.store, job.seq): job for job in page})
        if not page:
            if loop.time() > deadline:
                raise Unavailable("some events are still in the hands of a worker: stop it first")
            await asyncio.sleep(_POLL_SECONDS)
    return [jobs[at] for at in sorted(jobs)]
