"""Collectors of metrics: process and pauses, requests, caches, deliveries, webhooks, engines and backups.

A pause is a period in which the whole process was blocked: its event loop was late, or garbage was collected. The age of the
newest backup is read from the store, where `shoal backup` writes it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.metadata import version
from typing import Any, NamedTuple, get_args

from prometheus_client.metrics_core import Metric

from shoal.app.network import Network
from shoal.core.errors import ShoalError
from shoal.core.events import PostCreated
from shoal.core.ids import milliseconds_of
from shoal.core.webhooks import DeliveryResult, Pause
from shoal.graph.contract import Job
from shoal.graph.schema import EVERYBODY, HIGH_FAN_OUT, PARKED_EVENTS, backup_key
from shoal.health.probes import EngineWatch, MeasurementName
from shoal.health.readiness import Readiness
from shoal.moderation_hook import Outcome
from shoal.observability.metrics import Families
from shoal.observability.requests import EDGES_MS, RequestCounts
from shoal.push.sender import Sent
from shoal.server import RunningApp
from shoal.timelines.memory import MemoryTimelines
from shoal.webhooks import endpoints

_EVERY_SECONDS = 0.025
_PAUSE_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_WINDOW_SECONDS = 60
"""Seconds for which the longest pause is reported, so that a scrape does not miss it."""


class _Histogram:
    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = edges
        self._steps = [0] * (len(edges) + 1)
        self._seconds = 0.0

    def count(self, seconds: float) -> None:
        self._steps[bisect_left(self._edges, seconds)] += 1
        self._seconds += seconds

    def add_to(self, families: Families, name: str) -> None:
        families.add_histogram(name, self._edges, self._steps, self._seconds)


class PauseTimes:
    """A histogram, in seconds, of the pauses of the whole process since its start, and the longest pause of the last minute."""

    def __init__(self) -> None:
        self._all = _Histogram(_PAUSE_EDGES)
        # The end and length of recent pauses. A pause is dropped when a longer one follows, so the first is the
        # longest.
        self._longest: deque[tuple[float, float]] = deque()

    def note(self, seconds: float, now: float) -> None:
        """Count a pause of this many `seconds` that ended at `now`, a time of the monotonic clock."""
        self._all.count(seconds)
        while self._longest and self._longest[-1][1] <= seconds:
            self._longest.pop()
        self._longest.append((now, seconds))
        self._expire(now)

    def longest(self, now: float) -> float:
        self._expire(now)
        return self._longest[0][1] if self._longest else 0.0

    def add_to(self, families: Families, name: str, longest: str) -> None:
        self._all.add_to(families, name)
        families.add(longest, self.longest(time.perf_counter()))

    def _expire(self, now: float) -> None:
        while self._longest and self._longest[0][0] <= now - _WINDOW_SECONDS:
            self._longest.popleft()


class ProcessPauses(NamedTuple):
    loop: PauseTimes
    garbage: PauseTimes


@asynccontextmanager
async def pauses_watched() -> AsyncIterator[ProcessPauses]:
    pauses = ProcessPauses(PauseTimes(), PauseTimes())
    async with loop_watched(pauses.loop):
        with garbage_watched(pauses.garbage):
            yield pauses


@asynccontextmanager
async def loop_watched(delays: PauseTimes) -> AsyncIterator[None]:
    """Count delays of the event loop during the block, by a timer that fires every 25 ms.

    A delay of more than 25 ms is always detected, and measured at most 25 ms too short. A shorter delay is detected
    with a probability proportional to its length.
    """
    loop = asyncio.get_running_loop()
    handle: asyncio.TimerHandle

    def ring(begun: float) -> None:
        # Do not use the event loop's own clock, which has whole milliseconds and does not advance within an iteration.
        now = time.perf_counter()
        delays.note(max(0.0, now - begun - _EVERY_SECONDS), now)
        wait()

    def wait() -> None:
        nonlocal handle
        handle = loop.call_later(_EVERY_SECONDS, ring, time.perf_counter())

    wait()
    try:
        yield
    finally:
        handle.cancel()


@contextmanager
def garbage_watched(pauses: PauseTimes) -> Iterator[None]:
    """Measure garbage collections during the block. They are measured in all threads, because every thread waits for them."""
    began = 0.0

    def called(phase: str, _info: Mapping[str, Any]) -> None:
        nonlocal began
        now = time.perf_counter()
        if phase == "start":
            began = now
        elif began:
            pauses.note(now - began, now)

    gc.callbacks.append(called)
    try:
        yield
    finally:
        gc.callbacks.remove(called)


async def backup_metrics(network: Network) -> Iterable[Metric]:
    """Return the time of the newest backup as a metric. The result is empty if the store does not answer."""
    families = Families()
    try:
        # Bypass the cache, because another process writes the key.
        found = (await network.memory.uncached().key_get((backup_key(),))).get(backup_key())
    except ShoalError:
        return ()
    families.add("shoal_last_backup_timestamp_seconds", milliseconds_of(found) / 1_000 if found else 0)
    return families.made()


_LAG_EDGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
_LONGEST_SECONDS = 86_400.0
"""Delays beyond this are not counted, because the post was imported with its original date."""


class DeliveryLag:
    """A histogram of the delays from the commit of an event until its job is done."""

    def __init__(self) -> None:
        self._all = _Histogram(_LAG_EDGES)

    def note(self, job: Job) -> None:
        """Count the delay of a finished job.

        A retried job lacks the time of the commit. For a new post, the time in its id is used. Other retried jobs are
        not counted.
        """
        at = job.at or (milliseconds_of(job.event.post_id) if isinstance(job.event, PostCreated) else 0)
        seconds = time.time() - at / 1_000
        if seconds < _LONGEST_SECONDS:
            self._all.count(max(0.0, seconds))

    def add_to(self, families: Families) -> None:
        self._all.add_to(families, "shoal_delivery_lag_seconds")


async def delivery_metrics(network: Network, lag: DeliveryLag) -> Iterable[Metric]:
    """Return the metrics of fan-out and other jobs. If a store does not answer, its metrics are left out."""
    families = Families()
    lag.add_to(families)
    runner, counting, store = network.runner, network.counting, network.store
    families.add("shoal_deliveries_behind_seconds", runner.behind())
    families.add("shoal_jobs_done_total", runner.finished)
    families.add("shoal_jobs_failed_total", runner.failed)
    families.add("shoal_jobs_buried_total", runner.parked)
    families.add("shoal_pushed_entries_total", network.reads.push_counter.pushed)
    families.add("shoal_pulled_lists_total", network.reads.push_counter.pulled)
    families.add("shoal_search_behind_seconds", network.search.behind())
    families.add("shoal_search_written_total", network.search.written)
    families.add("shoal_tag_merges_total", counting.collector.merges)
    families.add("shoal_tag_increments_sent_total", counting.emitter.sent)
    families.add("shoal_tag_increments_waiting", counting.collector.pending)
    # Ignore that the store does not answer, because `shoal_part_up` reports this.
    with suppress(ShoalError):
        families.add("shoal_events_waiting", await store.backlog())
        families.add("shoal_oldest_event_seconds", await store.lag())
        families.add("shoal_jobs_set_aside", len(await store.parked()))
        high_fan_out = await store.assoc_count((EVERYBODY,), (HIGH_FAN_OUT,))
        families.add("shoal_high_fan_out_sources", high_fan_out[HIGH_FAN_OUT].get(EVERYBODY, 0))
    return families.made()


async def webhook_metrics(network: Network) -> Iterable[Metric]:
    """Return the metrics of webhooks; none in a process that does not deliver to them. A store that does not answer omits them."""
    families, worker = Families(), network.webhooks
    if worker is None or worker.has_log is False:
        return ()
    for result in get_args(DeliveryResult):
        families.add("shoal_webhook_deliveries_total", worker.results[result], result)
    with suppress(ShoalError):
        found = await endpoints.all_of(worker.graph)
        parked = await worker.graph.assoc_count([webhook.id for webhook in found], (PARKED_EVENTS,))
        families.add("shoal_webhooks", len(found))
        families.add("shoal_webhook_parked_events", sum(parked[PARKED_EVENTS].values()))
        paused = Counter(webhook.paused for webhook in found)
        for reason in filter(None, Pause):
            families.add("shoal_webhooks_paused", paused[reason], reason.value)
        for webhook in found:
            if webhook.paused:
                continue
            with suppress(ShoalError):
                lag = await worker.lag(webhook)
                families.add("shoal_webhook_lag_events", lag.events, str(webhook.id))
                families.add("shoal_webhook_lag_seconds", lag.seconds, str(webhook.id))
    return families.made()


_OTHER_NAMES: Mapping[MeasurementName, str] = {
    "commits": "commits_total",
    "deadlocks": "deadlocks_total",
    "evicted": "evicted_total",
    "cache_hits": "cache_hit_ratio",
}
NAMES: Mapping[MeasurementName, str] = {
    name: f"shoal_engine_{_OTHER_NAMES.get(name, name)}" for name in get_args(MeasurementName)
}


async def engine_metrics(watch: EngineWatch) -> Iterable[Metric]:
    """Return the metrics of all engines of a network. Each engine is queried at most every few seconds."""
    families = Families()
    seen: Counter[tuple[str, str]] = Counter()
    for health in await watch.look():
        # Number engines with the same label, such as SQLite files of one name in different folders: labels must be distinct.
        seen[health.engine, health.place] += 1
        number = seen[health.engine, health.place]
        label = health.place if number == 1 else f"{health.place} ({number})"
        families.add("shoal_engine_up", health.reached, health.engine, label)
        if health.version:
            families.add("shoal_engine_info", 1, health.engine, label, health.version)
        for vital in health.measurements:
            families.add(NAMES[vital.name], vital.value, health.engine, label)
            families.add("shoal_engine_attention", vital.wrong, health.engine, label, vital.name)
    return families.made()


_ENTRY_BYTES = 8


async def holding_metrics(network: Network) -> Iterable[Metric]:
    """Return the metrics of this process's caches and other memory. No engine is queried."""
    families = Families()
    timelines = network.timelines
    if isinstance(timelines, MemoryTimelines):
        families.add("shoal_warm_timelines", len(timelines))
        families.add("shoal_warm_timelines_most", timelines.capacity)
        families.add("shoal_timelines_bytes", len(timelines) * timelines.length * _ENTRY_BYTES)
    for name, memory in network.memory.memories.items():
        families.add("shoal_cache_entries", len(memory), name)
        if memory.asked:
            families.add("shoal_cache_asked_total", memory.asked, name)
            families.add("shoal_cache_missed_total", memory.missed, name)
    for name, sent in network.statements.sent().items():
        families.add("shoal_statements_total", sent, name)
    decoder, workshop = network.media.decoder, network.effects.workshop
    families.add("shoal_pictures_decoding", decoder.busy)
    families.add("shoal_pictures_waiting", decoder.waiting)
    families.add("shoal_clips_at_work", workshop.at_work)
    families.add("shoal_clips_waiting", workshop.waiting)
    for state, number in network.rules.matches.items():
        families.add("shoal_moderation_rule_matches_total", number, state.value)
    if (hook := network.moderation_hook) is not None:
        for outcome in get_args(Outcome):
            families.add("shoal_moderation_checks_total", hook.outcomes[outcome], outcome)
        families.add("shoal_moderation_seconds_total", hook.seconds)
    if (mail_sender := network.effects.mail_sender) is not None:
        families.add("shoal_letters_under_way", mail_sender.in_flight)
        families.add("shoal_letters_sent_total", mail_sender.sent)
        families.add("shoal_letters_refused_total", mail_sender.refused)
        families.add("shoal_letters_put_off_total", mail_sender.put_off)
    if (push_sender := network.effects.push_sender) is not None:
        families.add("shoal_push_messages_under_way", push_sender.in_flight)
        for outcome in Sent:
            families.add("shoal_push_messages_total", push_sender.outcomes[outcome], outcome.value)
        families.add("shoal_push_messages_total", push_sender.put_off, "put_off")
    return families.made()


async def process_metrics(role: str, pauses: ProcessPauses, readiness: Readiness) -> Iterable[Metric]:
    """Return the metrics of this process. `role` is `web` or `worker`."""
    families = Families()
    families.add("shoal_info", 1, version("shoal"), role)
    pauses.loop.add_to(families, "shoal_loop_delay_seconds", "shoal_loop_delay_longest_seconds")
    pauses.garbage.add_to(families, "shoal_garbage_pause_seconds", "shoal_garbage_pause_longest_seconds")
    for part, answers in (await readiness.parts()).items():
        families.add("shoal_part_up", answers, part)
    return families.made()


_REQUEST_EDGES = tuple(edge / 1_000 for edge in EDGES_MS)


async def request_metrics(running: RunningApp) -> Iterable[Metric]:
    """Return the metrics of the HTTP server.

    The metrics by route are computed while the caller iterates over the result, which may happen in another thread.
    """
    app_context, gate, connections = running.app, running.gate, running.connections
    families = Families()
    refused = {
        "behind": app_context.writes.pressure.refused,
        "blocked": app_context.ip_guard.refused,
        "busy": connections.pace.refused + (gate.refused if gate else 0),
        "connections": connections.refused,
    }
    for reason, number in refused.items():
        families.add("shoal_requests_refused_total", number, reason)
    for limit_class in sorted(app_context.limiter.classes):
        families.add("shoal_rate_limited_total", app_context.limiter.refused.get(limit_class, 0), limit_class)
    if gate is not None:
        families.add("shoal_requests_at_work", gate.at_work)
        families.add("shoal_requests_waiting", gate.waiting)
    families.add("shoal_connections", connections.open)
    families.add("shoal_listeners", app_context.streams.number)
    for name, memory in app_context.present.memories.items():
        families.add("shoal_cache_entries", len(memory), name)
    if (answers := app_context.response_cache) is not None:
        families.add("shoal_cache_entries", len(answers), "answers")
        families.add("shoal_cache_asked_total", answers.asked, "answers")
        families.add("shoal_cache_missed_total", answers.missed, "answers")
    return _with_routes(families, app_context.meter.totals())


def _with_routes(families: Families, totals: Mapping[str, RequestCounts]) -> Iterator[Metric]:
    for route, sums in totals.items():
        for status, number in sums.statuses.items():
            families.add("shoal_requests_total", number, route, str(status))
        families.add_histogram("shoal_request_seconds", _REQUEST_EDGES, sums.steps, sums.milliseconds / 1_000, route)
    yield from families.made()
