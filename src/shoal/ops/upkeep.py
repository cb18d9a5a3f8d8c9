"""Upkeep of a running network: idle timelines become cold, loud sources with few followers fade, posts that nobody
reacts to any more are no longer active, old entries of the audit log are dropped, old tombstones, histories of follows and
expired keys are forgotten.

Glossary (`docs/glossary.md`): loud.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from shoal.core.ids import floor_at, milliseconds_of, shard_of
from shoal.graph.contract import AssocOp, Batch, Store
from shoal.graph.schema import EVERYBODY, HISTORY_KEPT, TOKEN_USES_KEPT, tags_folded_key
from shoal.timelines.contract import Timelines

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 600.0
_DAY_SECONDS = 86_400.0
_BELOW_ALL = -(2**63)


async def begin_histories(store: Store, tombstone_days: float) -> None:
    """Note since when the ends of follows are remembered, in a store that does not say so yet: from now on, or all along.

    An older network remembers those whose tombstones it still has.
    """
    if (await store.assoc_get(EVERYBODY, (HISTORY_KEPT,), (EVERYBODY,)))[HISTORY_KEPT]:
        return
    if await store.obj_scan(_BELOW_ALL, 1):
        await _note_histories(store, _days_before(_now_ms(), tombstone_days))
        return
    batch = _histories_since(1)
    # A new network has no tags that were not case-folded.
    batch.key_add(tags_folded_key(), EVERYBODY)
    await store.commit(batch)


async def begin_token_uses(store: Store, *, read_only: bool) -> int:
    """Return since when the uses of tokens are kept, in Unix milliseconds; a store that does not say so yet does from now on."""
    marks = (await store.assoc_get(EVERYBODY, (TOKEN_USES_KEPT,), (EVERYBODY,)))[TOKEN_USES_KEPT]
    if marks:
        return milliseconds_of(marks[EVERYBODY].time)
    now = _now_ms()
    if not read_only:
        batch = Batch(shard_of(EVERYBODY))
        batch.put(AssocOp(EVERYBODY, TOKEN_USES_KEPT.number, EVERYBODY, floor_at(now), alive=True, plain=True))
        await store.commit(batch)
    return now


async def _note_histories(store: Store, since: int) -> None:
    """Note that histories are complete since a snowflake, unless it is known to be later."""
    await store.commit(_histories_since(since))


def _histories_since(since: int) -> Batch:
    batch = Batch(shard_of(EVERYBODY))
    batch.put(AssocOp(EVERYBODY, HISTORY_KEPT.number, EVERYBODY, since, alive=True, plain=True))
    return batch


class Upkeep:
    """Works in the background between `start` and `stop`; `once` does it now.

    `review` makes loud sources fade; `forget` ends what is inactive at a moment (Unix milliseconds). `drop_audited` drops entries
    of the audit log from before a snowflake; `audit_days` are those for which they are kept, 0 for good.
    """

    def __init__(
        self,
        store: Store,
        timelines: Timelines,
        review: Callable[[], Awaitable[None]],
        forget: Callable[[int], Awaitable[None]],
        idle_days: float,
        tombstone_days: float,
        history_days: float,
        drop_audited: Callable[[int], Awaitable[None]],
        audit_days: float,
    ) -> None:
        self._store = store
        self._timelines = timelines
        self._review = review
        self._forget = forget
        self._idle_days = idle_days
        self._tombstone_days = tombstone_days
        # As tombstones, histories also keep a late repeat from reviving what has ended.
        self._history_days = max(tombstone_days, history_days)
        self._drop_audited = drop_audited
        self._audit_days = audit_days
        self._histories_swept = -_DAY_SECONDS
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="shoal-upkeep")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def once(self) -> None:
        """Drop what is idle, have the loud fade that are loud no more, end what is inactive, sweep what is old."""
        await self._timelines.drop_idle(self._idle_days * _DAY_SECONDS)
        await self._review()
        now = _now_ms()
        await self._forget(now)
        if self._audit_days:
            await self._drop_audited(_days_before(now, self._audit_days))
        await self._store.sweep(_days_before(now, self._tombstone_days), now)
        if time.monotonic() - self._histories_swept >= _DAY_SECONDS:
            before = _days_before(now, self._history_days)
            if await self._store.sweep_history(before):
                await _note_histories(self._store, before)
            self._histories_swept = time.monotonic()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            try:
                await self.once()
            except Exception:  # noqa: BLE001  # the next time may go better
                _log.exception("upkeep failed")


def _days_before(now: int, days: float) -> int:
    """Return a snowflake that says the moment so many days before."""
    return floor_at(now - int(days * _DAY_SECONDS * 1000))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
