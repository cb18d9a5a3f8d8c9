"""Catalog of all metrics that processes export (name, kind, labels and meaning), and the samples of one scrape.

Units are in the names: seconds, bytes, operations per second, and ratios from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from prometheus_client.metrics_core import Metric

Kind = Literal["counter", "gauge", "histogram"]


class DescribedMetric(NamedTuple):
    """A metric with its description in `docs/metrics.md`. A counter never decreases during the life of a process."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


PROCESS = (
    DescribedMetric(
        "shoal_info",
        "gauge",
        ("version", "role"),
        "Always 1; the labels have the version of Shoal and the role: `web` or `worker`",
    ),
    DescribedMetric(
        "shoal_loop_delay_seconds",
        "histogram",
        (),
        "Delay of an event loop timer that fires forty times a second: all requests are delayed by as much",
    ),
    DescribedMetric("shoal_loop_delay_longest_seconds", "gauge", (), "Longest event loop delay in the last minute"),
    DescribedMetric(
        "shoal_garbage_pause_seconds",
        "histogram",
        (),
        "Duration of a garbage collection, which stops all threads of the process",
    ),
    DescribedMetric(
        "shoal_garbage_pause_longest_seconds", "gauge", (), "Longest garbage collection in the last minute"
    ),
    DescribedMetric(
        "shoal_part_up", "gauge", ("part",), "1 if a store, the timelines or the broker can be reached, else 0"
    ),
    DescribedMetric(
        "shoal_process_cpu_seconds_total", "counter", (), "Total user and system CPU time spent in seconds."
    ),
    DescribedMetric("shoal_process_resident_memory_bytes", "gauge", (), "Resident memory size in bytes."),
    DescribedMetric("shoal_process_virtual_memory_bytes", "gauge", (), "Virtual memory size in bytes."),
    DescribedMetric(
        "shoal_process_start_time_seconds", "gauge", (), "Start time of the process since unix epoch in seconds."
    ),
    DescribedMetric("shoal_process_open_fds", "gauge", (), "Number of open file descriptors."),
    DescribedMetric("shoal_process_max_fds", "gauge", (), "Maximum number of open file descriptors."),
)
"""Metrics of every process. The client library provides the metrics with the prefix `shoal_process_`."""

REQUESTS = (
    DescribedMetric("shoal_requests_total", "counter", ("route", "status"), "Completed requests, by route and status"),
    DescribedMetric(
        "shoal_request_seconds",
        "histogram",
        ("route",),
        "Time from the head of a request to the end of its response; for streams and files, to the start of the response",
    ),
    DescribedMetric(
        "shoal_requests_refused_total",
        "counter",
        ("reason",),
        "Requests refused before routing (`busy`, `behind`, `blocked`), and connections beyond a limit (`connections`)",
    ),
    DescribedMetric(
        "shoal_rate_limited_total", "counter", ("class",), "Requests beyond a rate limit, by rate limit class"
    ),
    DescribedMetric("shoal_requests_at_work", "gauge", (), "Requests being processed: at most `requests_at_work`"),
    DescribedMetric("shoal_requests_waiting", "gauge", (), "Requests that wait for a slot"),
    DescribedMetric("shoal_connections", "gauge", (), "Open client connections"),
    DescribedMetric("shoal_listeners", "gauge", (), "Open streams of live updates"),
)

DELIVERIES = (
    DescribedMetric("shoal_events_waiting", "gauge", (), "Unprocessed events in the outboxes of the stores"),
    DescribedMetric("shoal_oldest_event_seconds", "gauge", (), "Age of the oldest unprocessed event"),
    DescribedMetric("shoal_jobs_set_aside", "gauge", (), "Jobs that failed repeatedly and are parked"),
    DescribedMetric(
        "shoal_deliveries_behind_seconds",
        "gauge",
        (),
        "Expected time until this process starts a new event, or the age of the oldest event that it has not started",
    ),
    DescribedMetric(
        "shoal_delivery_lag_seconds",
        "histogram",
        (),
        "Time from the commit of an event to the end of its processing, for events completed by this process",
    ),
    DescribedMetric("shoal_jobs_done_total", "counter", (), "Jobs completed by this process"),
    DescribedMetric(
        "shoal_jobs_failed_total",
        "counter",
        (),
        "Job attempts that failed in this process because of an error in the job",
    ),
    DescribedMetric("shoal_jobs_buried_total", "counter", (), "Jobs parked by this process"),
    DescribedMetric("shoal_pushed_entries_total", "counter", (), "Entries pushed into materialized home timelines"),
    DescribedMetric(
        "shoal_pulled_lists_total", "counter", (), "Lists of high fan-out members and tags read for home pages"
    ),
    DescribedMetric("shoal_high_fan_out_sources", "gauge", (), "High fan-out members and tags"),
    DescribedMetric(
        "shoal_search_behind_seconds", "gauge", (), "Age of the oldest change that the search index does not contain"
    ),
    DescribedMetric("shoal_search_written_total", "counter", (), "Objects processed for the search index"),
    DescribedMetric("shoal_tag_merges_total", "counter", (), "Versions of the tag cloud written by this process"),
    DescribedMetric("shoal_tag_increments_sent_total", "counter", (), "Increments of tag counts sent by this process"),
    DescribedMetric(
        "shoal_tag_increments_waiting", "gauge", (), "Increments received by this process and not yet merged"
    ),
)

WEBHOOKS = (
    DescribedMetric("shoal_webhooks", "gauge", (), "Webhooks"),
    DescribedMetric(
        "shoal_webhooks_paused",
        "gauge",
        ("reason",),
        "Paused webhooks: `manual`, by an operator; `key`, by their server key; `failing`, `gone`, `full`, `expired`, `no_key`",
    ),
    DescribedMetric("shoal_webhook_parked_events", "gauge", (), "Events that webhooks did not accept for three days"),
    DescribedMetric(
        "shoal_webhook_lag_events",
        "gauge",
        ("webhook",),
        "Events that a webhook has not accepted yet, at most 200; for webhooks that are not paused",
    ),
    DescribedMetric("shoal_webhook_lag_seconds", "gauge", ("webhook",), "Age of the oldest of these events"),
    DescribedMetric(
        "shoal_webhook_deliveries_total",
        "counter",
        ("result",),
        "Requests to webhooks: `accepted`, status 2xx; `refused`, another status; `failed`, no response",
    ),
)

CACHE_METRICS = (
    DescribedMetric("shoal_warm_timelines", "gauge", (), "Home timelines in the memory of this process"),
    DescribedMetric("shoal_warm_timelines_most", "gauge", (), "Maximum number of these timelines: `timeline_members`"),
    DescribedMetric("shoal_timelines_bytes", "gauge", (), "Memory of these timelines"),
    DescribedMetric("shoal_cache_entries", "gauge", ("cache",), "Entries in a cache of this process"),
    DescribedMetric(
        "shoal_cache_asked_total", "counter", ("cache",), "Look-ups: keys of bulk reads, and whole responses"
    ),
    DescribedMetric("shoal_cache_missed_total", "counter", ("cache",), "Look-ups that the cache could not answer"),
    DescribedMetric(
        "shoal_statements_total",
        "counter",
        ("store",),
        "Statements, requests and scripts sent to a store over a connection",
    ),
    DescribedMetric("shoal_pictures_decoding", "gauge", (), "Pictures being decoded"),
    DescribedMetric("shoal_pictures_waiting", "gauge", (), "Pictures that wait for decoding"),
    DescribedMetric("shoal_clips_at_work", "gauge", (), "Videos and sounds being converted"),
    DescribedMetric("shoal_clips_waiting", "gauge", (), "Videos and sounds that wait for conversion"),
    DescribedMetric("shoal_letters_under_way", "gauge", (), "Mails being written, sent or queued"),
    DescribedMetric("shoal_letters_sent_total", "counter", (), "Mails accepted by the mail server"),
    DescribedMetric("shoal_letters_refused_total", "counter", (), "Mails permanently rejected by the mail server"),
    DescribedMetric("shoal_letters_put_off_total", "counter", (), "Attempts to send a mail that are retried"),
    DescribedMetric(
        "shoal_moderation_checks_total",
        "counter",
        ("outcome",),
        "Checks by the moderation hook: `allow`, `hold` and `reject`, its decisions; `failed`, no decision; `busy` and `skipped`, "
        "not called",
    ),
    DescribedMetric(
        "shoal_moderation_seconds_total", "counter", (), "Time that authors waited for the moderation hook"
    ),
    DescribedMetric("shoal_push_messages_under_way", "gauge", (), "Web push messages being sent or queued"),
    DescribedMetric(
        "shoal_push_messages_total",
        "counter",
        ("outcome",),
        "Web push messages: `done`; `ended`, no such subscription; `refused`, permanently rejected; `put_off`, retried",
    ),
)

BACKUPS = (
    DescribedMetric(
        "shoal_last_backup_timestamp_seconds",
        "gauge",
        (),
        "Unix time of the state that the newest backup restores; 0 if `shoal backup` has made none",
    ),
)

_PLACE = ("engine", "place")

ENGINES = (
    DescribedMetric("shoal_engine_up", "gauge", _PLACE, "1 if the engine returned its statistics, else 0"),
    DescribedMetric(
        "shoal_engine_info", "gauge", (*_PLACE, "version"), "Always 1; the label has the version of the engine"
    ),
    DescribedMetric(
        "shoal_engine_attention", "gauge", (*_PLACE, "figure"), "1 if `/ops` shows this statistic in red, else 0"
    ),
    DescribedMetric("shoal_engine_stored_bytes", "gauge", _PLACE, "Size of the database, file or table"),
    DescribedMetric("shoal_engine_log_bytes", "gauge", _PLACE, "Size of the write-ahead log (SQLite)"),
    DescribedMetric("shoal_engine_disk_free_bytes", "gauge", _PLACE, "Free space on the disk of the file (SQLite)"),
    DescribedMetric("shoal_engine_memory_bytes", "gauge", _PLACE, "Memory in use (Redis)"),
    DescribedMetric("shoal_engine_memory_most_bytes", "gauge", _PLACE, "`maxmemory`, if it is set (Redis)"),
    DescribedMetric("shoal_engine_items", "gauge", _PLACE, "Keys (Redis), items (DynamoDB)"),
    DescribedMetric("shoal_engine_connections", "gauge", _PLACE, "Connections of all clients (PostgreSQL, Redis)"),
    DescribedMetric("shoal_engine_connections_most", "gauge", _PLACE, "`max_connections` (PostgreSQL)"),
    DescribedMetric("shoal_engine_commits_total", "counter", _PLACE, "Transactions committed (PostgreSQL)"),
    DescribedMetric("shoal_engine_deadlocks_total", "counter", _PLACE, "Deadlocks (PostgreSQL)"),
    DescribedMetric("shoal_engine_evicted_total", "counter", _PLACE, "Keys evicted (Redis)"),
    DescribedMetric(
        "shoal_engine_operations_per_second", "gauge", _PLACE, "Commands per second, at this moment (Redis)"
    ),
    DescribedMetric(
        "shoal_engine_cache_hit_ratio",
        "gauge",
        _PLACE,
        "Fraction of reads served from memory, 0 to 1 (PostgreSQL, Redis)",
    ),
    DescribedMetric(
        "shoal_engine_longest_transaction_seconds", "gauge", _PLACE, "Age of the oldest transaction (PostgreSQL)"
    ),
    DescribedMetric(
        "shoal_engine_replica_behind_seconds", "gauge", _PLACE, "Delay of the slowest replica (PostgreSQL)"
    ),
    DescribedMetric("shoal_engine_jobs_waiting", "gauge", _PLACE, "Jobs that wait for a worker (RabbitMQ)"),
    DescribedMetric("shoal_engine_jobs_delayed", "gauge", _PLACE, "Jobs that wait for a retry (RabbitMQ)"),
    DescribedMetric("shoal_engine_jobs_set_aside", "gauge", _PLACE, "Parked jobs (RabbitMQ)"),
    DescribedMetric("shoal_engine_workers", "gauge", _PLACE, "Consumers of the job queue (RabbitMQ)"),
)

SECTIONS = {
    "Every process": PROCESS,
    "Requests (web processes)": REQUESTS,
    "Deliveries": DELIVERIES,
    "Webhooks (processes that process jobs)": WEBHOOKS,
    "Caches, memory, media and mail": CACHE_METRICS,
    "Backups": BACKUPS,
    "Engines": ENGINES,
}
"""All metrics by their heading in `docs/metrics.md`."""

METRICS = {metric.name: metric for metrics in SECTIONS.values() for metric in metrics}


class Families:
    """The samples of one scrape, by metric. Methods raise `KeyError` or `ValueError` for names or labels not in `METRICS`."""

    def __init__(self) -> None:
        self._made: dict[str, Metric] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """Add a sample of a counter or gauge. The label values are in the order of the labels in `METRICS`."""
        self._of(name).add_sample(name, _labeled(name, labels), value)

    def add_histogram(
        self, name: str, edges: Sequence[float], steps: Iterable[int], total: float, *labels: str
    ) -> None:
        """Add a histogram that has a bucket for each of the `edges`, and one bucket above the last edge.

        `steps` has the number of values in each bucket; it is not cumulative. A value equal to an edge belongs to the
        bucket of that edge. `total` is the sum of all values.
        """
        family, labeled = self._of(name), _labeled(name, labels)
        counts = [*accumulate(steps)]
        for edge, count in zip((*map(str, edges), "+Inf"), counts, strict=True):
            family.add_sample(f"{name}_bucket", {**labeled, "le": edge}, count)
        family.add_sample(f"{name}_sum", labeled, total)
        family.add_sample(f"{name}_count", labeled, counts[-1])

    def made(self) -> list[Metric]:
        return [*self._made.values()]

    def _of(self, name: str) -> Metric:
        family = self._made.get(name)
        if family is None:
            described = METRICS[name]
            family = self._made[name] = Metric(name.removesuffix("_total"), described.meaning, described.kind)
        return family


def _labeled(name: str, values: Sequence[str]) -> dict[str, str]:
    return dict(zip(METRICS[name].labels, values, strict=True))
