"""Catalogue of every metric that a process exports (name, kind, labels and meaning), and samples in its metric families.

Units are in the names: seconds, bytes, operations per second, and ratios from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from prometheus_client.metrics_core import Metric

Kind = Literal["counter", "gauge", "histogram"]


class DescribedMetric(NamedTuple):
    """A metric as described in `docs/metrics.md`. A counter never decreases during the life of a process."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


PROCESS = (
    DescribedMetric("shoal_info", "gauge", ("version", "role"), "Always 1: the version of Shoal, and web or worker"),
    DescribedMetric(
        "shoal_loop_delay_seconds",
        "histogram",
        (),
        "Delay of a timer of the event loop, tried forty times a second: every request waits as long",
    ),
    DescribedMetric("shoal_loop_delay_longest_seconds", "gauge", (), "Longest of these delays in the last minute"),
    DescribedMetric(
        "shoal_garbage_pause_seconds",
        "histogram",
        (),
        "Time of a collection of garbage, in which nothing else runs in the process",
    ),
    DescribedMetric("shoal_garbage_pause_longest_seconds", "gauge", (), "Longest of these times in the last minute"),
    DescribedMetric(
        "shoal_part_up", "gauge", ("part",), "1 if the part answers: stores, timelines, broker; 0 if it does not"
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
"""Metrics of every process. The client library provides those with the prefix `shoal_process_`."""

REQUESTS = (
    DescribedMetric(
        "shoal_requests_total", "counter", ("route", "status"), "Requests that were answered, by route and status"
    ),
    DescribedMetric(
        "shoal_request_seconds",
        "histogram",
        ("route",),
        "Time of a request from its head to the end of its answer; of streams and files to the beginning of it",
    ),
    DescribedMetric(
        "shoal_requests_refused_total",
        "counter",
        ("reason",),
        "Refused before the route was looked up: busy, behind, blocked; and connections that were too many",
    ),
    DescribedMetric("shoal_rate_limited_total", "counter", ("class",), "Requests beyond a rate limit, by its class"),
    DescribedMetric("shoal_requests_at_work", "gauge", (), "Requests that hold a place: see `requests_at_work`"),
    DescribedMetric("shoal_requests_waiting", "gauge", (), "Requests that wait for a place"),
    DescribedMetric("shoal_connections", "gauge", (), "Open connections of clients"),
    DescribedMetric("shoal_listeners", "gauge", (), "Streams of live updates that are open"),
)
"""Metrics of web processes."""

DELIVERIES = (
    DescribedMetric("shoal_events_waiting", "gauge", (), "Events in the outboxes of the stores that are not done"),
    DescribedMetric("shoal_oldest_event_seconds", "gauge", (), "Age of the oldest of these events"),
    DescribedMetric("shoal_jobs_set_aside", "gauge", (), "Jobs that failed again and again and wait for a person"),
    DescribedMetric(
        "shoal_deliveries_behind_seconds",
        "gauge",
        (),
        "Time that an event waits here until it is begun, as expected now",
    ),
    DescribedMetric(
        "shoal_delivery_lag_seconds",
        "histogram",
        (),
        "Time from the commit of an event to the end of its consequences, of those that ended here",
    ),
    DescribedMetric("shoal_jobs_done_total", "counter", (), "Jobs that ended here"),
    DescribedMetric("shoal_jobs_failed_total", "counter", (), "Attempts that failed here by an error of their own"),
    DescribedMetric("shoal_jobs_buried_total", "counter", (), "Jobs that were set aside here"),
    DescribedMetric("shoal_pushed_entries_total", "counter", (), "Entries pushed into warm home timelines"),
    DescribedMetric(
        "shoal_pulled_lists_total", "counter", (), "Lists of members and tags too popular to push, read for home pages"
    ),
    DescribedMetric("shoal_high_fan_out_sources", "gauge", (), "High fan-out members and tags"),
    DescribedMetric("shoal_search_behind_seconds", "gauge", (), "Age of the oldest change that search lacks"),
    DescribedMetric("shoal_search_written_total", "counter", (), "Objects looked at for the search index"),
    DescribedMetric("shoal_tag_merges_total", "counter", (), "Versions of the tag cloud written here"),
    DescribedMetric("shoal_tag_increments_sent_total", "counter", (), "Increments of tag counts sent from here"),
    DescribedMetric("shoal_tag_increments_waiting", "gauge", (), "Increments that have come here and are not merged"),
)
"""Metrics of the processing of events."""

CACHE_METRICS = (
    DescribedMetric("shoal_warm_timelines", "gauge", (), "Home timelines in the memory of this process"),
    DescribedMetric("shoal_warm_timelines_most", "gauge", (), "The most that there may be: see `timeline_members`"),
    DescribedMetric("shoal_timelines_bytes", "gauge", (), "Memory of these timelines"),
    DescribedMetric("shoal_cache_entries", "gauge", ("cache",), "Entries in a cache of this process"),
    DescribedMetric(
        "shoal_cache_asked_total", "counter", ("cache",), "Keys that bulk reads asked a cache for, and whole answers"
    ),
    DescribedMetric("shoal_cache_missed_total", "counter", ("cache",), "Those of them that it did not have"),
    DescribedMetric(
        "shoal_statements_total",
        "counter",
        ("store",),
        "Statements, requests or scripts sent to a store over a connection",
    ),
    DescribedMetric("shoal_pictures_decoding", "gauge", (), "Pictures that are being decoded"),
    DescribedMetric("shoal_pictures_waiting", "gauge", (), "Pictures that wait to be decoded"),
    DescribedMetric("shoal_clips_at_work", "gauge", (), "Videos and sounds that are being made"),
    DescribedMetric("shoal_clips_waiting", "gauge", (), "Videos and sounds that wait"),
    DescribedMetric("shoal_letters_under_way", "gauge", (), "Letters that are being sent"),
    DescribedMetric("shoal_letters_sent_total", "counter", (), "Letters that the mail server took"),
    DescribedMetric("shoal_letters_refused_total", "counter", (), "Letters that it refused for good"),
    DescribedMetric("shoal_letters_put_off_total", "counter", (), "Letters that had to wait for another attempt"),
    DescribedMetric("shoal_push_messages_under_way", "gauge", (), "Messages of web push that are being sent"),
    DescribedMetric(
        "shoal_push_messages_total",
        "counter",
        ("outcome",),
        "Messages of web push: done; ended, as the subscription is no more; refused for good; put off to another attempt",
    ),
)
"""Metrics of caches, memory, media and mail."""

BACKUPS = (
    DescribedMetric(
        "shoal_last_backup_timestamp_seconds",
        "gauge",
        (),
        "The moment, in Unix seconds, to which the newest backup brings the network back; 0 where `shoal backup` made none",
    ),
)

_PLACE = ("engine", "place")

ENGINES = (
    DescribedMetric("shoal_engine_up", "gauge", _PLACE, "1 if the engine told its figures, 0 if it did not answer"),
    DescribedMetric("shoal_engine_info", "gauge", (*_PLACE, "version"), "Always 1: the version of the engine"),
    DescribedMetric(
        "shoal_engine_attention", "gauge", (*_PLACE, "figure"), "1 if `/ops` shows this figure in red, else 0"
    ),
    DescribedMetric("shoal_engine_stored_bytes", "gauge", _PLACE, "Size of the database, file or table"),
    DescribedMetric("shoal_engine_log_bytes", "gauge", _PLACE, "Size of the log beside the file (SQLite)"),
    DescribedMetric("shoal_engine_disk_free_bytes", "gauge", _PLACE, "Room on the disk of the file (SQLite)"),
    DescribedMetric("shoal_engine_memory_bytes", "gauge", _PLACE, "Memory in use (Redis)"),
    DescribedMetric("shoal_engine_memory_most_bytes", "gauge", _PLACE, "`maxmemory`, where it is set (Redis)"),
    DescribedMetric("shoal_engine_items", "gauge", _PLACE, "Keys (Redis), items (DynamoDB)"),
    DescribedMetric("shoal_engine_connections", "gauge", _PLACE, "Connections of all clients (PostgreSQL, Redis)"),
    DescribedMetric("shoal_engine_connections_most", "gauge", _PLACE, "`max_connections` (PostgreSQL)"),
    DescribedMetric("shoal_engine_commits_total", "counter", _PLACE, "Transactions committed (PostgreSQL)"),
    DescribedMetric("shoal_engine_deadlocks_total", "counter", _PLACE, "Deadlocks (PostgreSQL)"),
    DescribedMetric("shoal_engine_evicted_total", "counter", _PLACE, "Keys that were pushed out (Redis)"),
    DescribedMetric("shoal_engine_operations_per_second", "gauge", _PLACE, "Commands of this second (Redis)"),
    DescribedMetric(
        "shoal_engine_cache_hit_ratio", "gauge", _PLACE, "Reads that memory answered, from 0 to 1 (PostgreSQL, Redis)"
    ),
    DescribedMetric(
        "shoal_engine_longest_transaction_seconds", "gauge", _PLACE, "Age of the oldest transaction (PostgreSQL)"
    ),
    DescribedMetric(
        "shoal_engine_replica_behind_seconds", "gauge", _PLACE, "Delay of the slowest replica (PostgreSQL)"
    ),
    DescribedMetric("shoal_engine_jobs_waiting", "gauge", _PLACE, "Jobs that wait for a worker (RabbitMQ)"),
    DescribedMetric("shoal_engine_jobs_delayed", "gauge", _PLACE, "Jobs that are tried again later (RabbitMQ)"),
    DescribedMetric("shoal_engine_jobs_set_aside", "gauge", _PLACE, "Jobs that wait for a person (RabbitMQ)"),
    DescribedMetric("shoal_engine_workers", "gauge", _PLACE, "Consumers of the queue of jobs (RabbitMQ)"),
)
"""Metrics reported by engines."""

SECTIONS = {
    "Every process": PROCESS,
    "Requests (web processes)": REQUESTS,
    "Deliveries": DELIVERIES,
    "Caches, memory, media and mail": CACHE_METRICS,
    "Backups": BACKUPS,
    "Engines": ENGINES,
}
"""All metrics by their heading in `docs/metrics.md`."""

METRICS = {metric.name: metric for metrics in SECTIONS.values() for metric in metrics}


class Families:
    """Samples by metric. Raises `KeyError` or `ValueError` for a name or label that is not in the catalogue."""

    def __init__(self) -> None:
        self._made: dict[str, Metric] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """Add a sample of a counter or gauge, with its label values in the order of the catalogue."""
        self._of(name).add_sample(name, _labelled(name, labels), value)

    def add_histogram(
        self, name: str, edges: Sequence[float], steps: Iterable[int], total: float, *labels: str
    ) -> None:
        """Add a histogram.

        `steps` has the number of values up to each of the `edges` and above the previous one, and finally the number of values
        above all edges; `total` is the sum of all values.
        """
        family, labelled = self._of(name), _labelled(name, labels)
        counts = [*accumulate(steps)]
        for edge, count in zip((*map(str, edges), "+Inf"), counts, strict=True):
            family.add_sample(f"{name}_bucket", {**labelled, "le": edge}, count)
        family.add_sample(f"{name}_sum", labelled, total)
        family.add_sample(f"{name}_count", labelled, counts[-1])

    def made(self) -> list[Metric]:
        """Return the metrics that have samples."""
        return [*self._made.values()]

    def _of(self, name: str) -> Metric:
        family = self._made.get(name)
        if family is None:
            described = METRICS[name]
            family = self._made[name] = Metric(name.removesuffix("_total"), described.meaning, described.kind)
        return family


def _labelled(name: str, values: Sequence[str]) -> dict[str, str]:
    return dict(zip(METRICS[name].labels, values, strict=True))
