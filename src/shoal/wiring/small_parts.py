"""Parts of a network that are small: limits, probes, and what works off events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from shoal.commands.context import Limits, Pressure
from shoal.consumers.context import Effects
from shoal.consumers.table import TABLE
from shoal.graph.contract import Outbox, Store
from shoal.observability.request_log import Recorder
from shoal.outbox.runner import Runner
from shoal.search.indexing import Filler
from shoal.settings import Settings
from shoal.timelines.contract import Timelines
from shoal.wiring.recording import JobWatch

_STEP_SECONDS = 60.0
"""Limit for one page of a fan-out, which takes well under a second: one that takes so long never ends."""
_CONCURRENCY = 64
"""Jobs in flight in one process whose stores are elsewhere: their concurrent requests travel together."""
_SEARCH = 3.0
"""Factor by which search may be later than timelines before posts are refused: hardly anybody notices."""
_POLL_SECONDS = 0.05
"""Interval of looking for events that another process committed."""


def refusal_limit(settings: Settings) -> float:
    """Return the delay of deliveries in seconds at which new posts are refused; 0 for no limit.

    There is none where other processes deliver, whose delay a server does not know: behind a broker, and without
    `run_consequences`.
    """
    return settings.most_behind_seconds if settings.run_consequences and not settings.broker else 0.0


def pressure_of(runner: Runner[Effects], search: Filler, settings: Settings) -> Pressure:
    """Return what refuses posts while timelines or the search index are late."""
    return Pressure(lambda: max(runner.behind(), search.behind() / _SEARCH), refusal_limit(settings))


def probes_of(store: Store, timelines: Timelines, outbox: Outbox) -> Mapping[str, Callable[[], Awaitable[object]]]:
    """Return a small request to each part that may be in another process or machine."""
    # Every store is asked for its oldest event.
    probes: dict[str, Callable[[], Awaitable[object]]] = {"stores": store.lag, "timelines": partial(timelines.floor, 0)}
    return probes if outbox is store else {**probes, "broker": outbox.backlog}


def runner_of(outbox: Outbox, effects: Effects, recorder: Recorder, *, afar: bool) -> Runner[Effects]:
    """Return what works off events, `afar` where stores and timelines are elsewhere."""
    watch = JobWatch(recorder)
    if not afar:
        return Runner(outbox, TABLE, effects, watch=watch)
    return Runner(
        outbox,
        TABLE,
        effects,
        concurrency=_CONCURRENCY,
        step_seconds=_STEP_SECONDS,
        poll_seconds=_POLL_SECONDS,
        watch=watch,
    )


def limits_of(settings: Settings) -> Limits:
    """Return the limits on what members write."""
    return Limits(
        text=settings.max_post_characters,
        media=settings.max_media_per_post,
        member_bytes=settings.max_member_bytes,
        follows=settings.max_follows,
        leaving_days=settings.leaving_days,
    )
