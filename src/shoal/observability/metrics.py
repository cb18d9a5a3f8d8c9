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


def _counter(name: str, meaning: str, *labels: str) -> DescribedMetric:
    return DescribedMetric(name, "counter", labels, meaning)


def _gauge(name: str, meaning: str, *labels: str) -> DescribedMetric:
    return DescribedMetric(name, "gauge", labels, meaning)


def _histogram(name: str, meaning: str, *labels: str) -> DescribedMetric:
    return DescribedMetric(name, "histogram", labels, meaning)


PROCESS = (
    _gauge(
        "shoal_info",
        "Always 1; the labels have the version of Shoal and the role: `web` or `worker`",
        "version",
        "role",
    ),
    _histogram(
        "shoal_loop_delay_seconds",
        "Delay of an event loop timer that fires forty times a second: all requests are delayed by as much",
    ),
    _gauge("shoal_loop_delay_longest_seconds", "Longest event loop delay in the last minute"),
    _histogram(
        "shoal_garbage_pause_seconds", "Duration of a garbage collection, which stops all threads of the process"
    ),
    _gauge("shoal_garbage_pause_longest_seconds", "Longest garbage collection in the last minute"),
    _gauge("shoal_part_up", "1 if a store, the timelines or the broker can be reached, else 0", "part"),
    _counter("shoal_process_cpu_seconds_total", "Total user and system CPU time spent in seconds."),
    _gauge("shoal_process_resident_memory_bytes", "Resident memory size in bytes."),
    _gauge("shoal_process_virtual_memory_bytes", "Virtual memory size in bytes."),
    _gauge("shoal_process_start_time_seconds", "Start time of the process since unix epoch in seconds."),
    _gauge("shoal_process_open_fds", "Number of open file descriptors."),
    _gauge("shoal_process_max_fds", "Maximum number of open file descriptors."),
)
"""Metrics of every process. The client library provides the metrics with the prefix `shoal_process_`."""

REQUESTS = (
    _counter("shoal_requests_total", "Completed requests, by route and status", "route", "status"),
    _histogram(
        "shoal_request_seconds",
        "Time from the head of a request to the end of its response; for streams and files, to the start of the response",
        "route",
    ),
    _counter(
        "shoal_requests_refused_total",
        "Requests refused before routing (`busy`, `behind`, `blocked`), and connections beyond a limit (`connections`)",
        "reason",
    ),
    _counter("shoal_rate_limited_total", "Requests beyond a rate limit, by rate limit class", "class"),
    _gauge("shoal_requests_at_work", "Requests being processed: at most `requests_at_work`"),
    _gauge("shoal_requests_waiting", "Requests that wait for a slot"),
    _gauge("shoal_connections", "Open client connections"),
    _gauge("shoal_listeners", "Open streams of live updates"),
)

DELIVERIES = (
    _gauge("shoal_events_waiting", "Unprocessed events in the outboxes of the stores"),
    _gauge("shoal_oldest_event_seconds", "Age of the oldest unprocessed event"),
    _gauge("shoal_jobs_set_aside", "Jobs that failed repeatedly and are parked"),
    _gauge(
        "shoal_deliveries_behind_seconds",
        "Expected time until this process starts a new event, or the age of the oldest event that it has not started",
    ),
    _histogram(
        "shoal_delivery_lag_seconds",
        "Time from the commit of an event to the end of its processing, for events completed by this process",
    ),
    _counter("shoal_jobs_done_total", "Jobs completed by this process"),
    _counter("shoal_jobs_failed_total", "Job attempts that failed in this process because of an error in the job"),
    _counter("shoal_jobs_buried_total", "Jobs parked by this process"),
    _counter("shoal_moderation_rule_matches_total", "Matches of moderation rules, by the state of the rule", "state"),
    _counter("shoal_pushed_entries_total", "Entries pushed into materialized home timelines"),
    _counter("shoal_pulled_lists_total", "Lists of high fan-out members and tags read for home pages"),
    _gauge("shoal_high_fan_out_sources", "High fan-out members and tags"),
    _gauge("shoal_search_behind_seconds", "Age of the oldest change that the search index does not contain"),
    _counter("shoal_search_written_total", "Objects processed for the search index"),
    _counter("shoal_tag_merges_total", "Versions of the tag cloud written by this process"),
    _counter("shoal_tag_increments_sent_total", "Increments of tag counts sent by this process"),
    _gauge("shoal_tag_increments_waiting", "Increments received by this process and not yet merged"),
)

WEBHOOKS = (
    _gauge("shoal_webhooks", "Webhooks"),
    _gauge(
        "shoal_webhooks_paused",
        "Paused webhooks: `manual`, by an operator; `key`, by their server key; `failing`, `gone`, `full`, `expired`, `no_key`",
        "reason",
    ),
    _gauge("shoal_webhook_parked_events", "Events that webhooks did not accept for three days"),
    _gauge(
        "shoal_webhook_lag_events",
        "Events that a webhook has not accepted yet, at most 200; for webhooks that are not paused",
        "webhook",
    ),
    _gauge("shoal_webhook_lag_seconds", "Age of the oldest of these events", "webhook"),
    _counter(
        "shoal_webhook_deliveries_total",
        "Requests to webhooks: `accepted`, status 2xx; `refused`, another status; `failed`, no response",
        "result",
    ),
)

CACHE_METRICS = (
    _gauge("shoal_warm_timelines", "Home timelines in the memory of this process"),
    _gauge("shoal_warm_timelines_most", "Maximum number of these timelines: `timeline_members`"),
    _gauge("shoal_timelines_bytes", "Memory of these timelines"),
    _gauge("shoal_cache_entries", "Entries in a cache of this process", "cache"),
    _counter("shoal_cache_asked_total", "Look-ups: keys of bulk reads, and whole responses", "cache"),
    _counter("shoal_cache_missed_total", "Look-ups that the cache could not answer", "cache"),
    _counter("shoal_statements_total", "Statements, requests and scripts sent to a store over a connection", "store"),
    _gauge("shoal_pictures_decoding", "Pictures being decoded"),
    _gauge("shoal_pictures_waiting", "Pictures that wait for decoding"),
    _gauge("shoal_clips_at_work", "Videos and sounds being converted"),
    _gauge("shoal_clips_waiting", "Videos and sounds that wait for conversion"),
    _gauge("shoal_letters_under_way", "Mails being written, sent or queued"),
    _counter("shoal_letters_sent_total", "Mails accepted by the mail server"),
    _counter("shoal_letters_refused_total", "Mails permanently rejected by the mail server"),
    _counter("shoal_letters_put_off_total", "Attempts to send a mail that are retried"),
    _counter(
        "shoal_moderation_checks_total",
        "Checks by the moderation hook: `allow`, `hold` and `reject`, its decisions; `failed`, no decision; `busy` and `skipped`, "
        "not called",
        "outcome",
    ),
    _counter("shoal_moderation_seconds_total", "Time that authors waited for the moderation hook"),
    _gauge("shoal_push_messages_under_way", "Web push messages being sent or queued"),
    _counter(
        "shoal_push_messages_total",
        "Web push messages: `done`; `ended`, no such subscription; `refused`, permanently rejected; `put_off`, retried",
        "outcome",
    ),
)

BACKUPS = (
    _gauge(
        "shoal_last_backup_timestamp_seconds",
        "Unix time of the state that the newest backup restores; 0 if `shoal backup` has made none",
    ),
)

_PLACE = ("engine", "place")

ENGINES = (
    _gauge("shoal_engine_up", "1 if the engine returned its statistics, else 0", *_PLACE),
    _gauge("shoal_engine_info", "Always 1; the label has the version of the engine", *_PLACE, "version"),
    _gauge("shoal_engine_attention", "1 if `/ops` shows this statistic in red, else 0", *_PLACE, "figure"),
    _gauge("shoal_engine_stored_bytes", "Size of the database, file or table", *_PLACE),
    _gauge("shoal_engine_log_bytes", "Size of the write-ahead log (SQLite)", *_PLACE),
    _gauge("shoal_engine_disk_free_bytes", "Free space on the disk of the file (SQLite)", *_PLACE),
    _gauge("shoal_engine_memory_bytes", "Memory in use (Redis)", *_PLACE),
    _gauge("shoal_engine_memory_most_bytes", "`maxmemory`, if it is set (Redis)", *_PLACE),
    _gauge("shoal_engine_items", "Keys (Redis), items (DynamoDB)", *_PLACE),
    _gauge("shoal_engine_connections", "Connections of all clients (PostgreSQL, Redis)", *_PLACE),
    _gauge("shoal_engine_connections_most", "`max_connections` (PostgreSQL)", *_PLACE),
    _counter("shoal_engine_commits_total", "Transactions committed (PostgreSQL)", *_PLACE),
    _counter("shoal_engine_deadlocks_total", "Deadlocks (PostgreSQL)", *_PLACE),
    _counter("shoal_engine_evicted_total", "Keys evicted (Redis)", *_PLACE),
    _gauge("shoal_engine_operations_per_second", "Commands per second, at this moment (Redis)", *_PLACE),
    _gauge("shoal_engine_cache_hit_ratio", "Fraction of reads served from memory, 0 to 1 (PostgreSQL, Redis)", *_PLACE),
    _gauge("shoal_engine_longest_transaction_seconds", "Age of the oldest transaction (PostgreSQL)", *_PLACE),
    _gauge("shoal_engine_replica_behind_seconds", "Delay of the slowest replica (PostgreSQL)", *_PLACE),
    _gauge("shoal_engine_jobs_waiting", "Jobs that wait for a worker (RabbitMQ)", *_PLACE),
    _gauge("shoal_engine_jobs_delayed", "Jobs that wait for a retry (RabbitMQ)", *_PLACE),
    _gauge("shoal_engine_jobs_set_aside", "Parked jobs (RabbitMQ)", *_PLACE),
    _gauge("shoal_engine_workers", "Consumers of the job queue (RabbitMQ)", *_PLACE),
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
