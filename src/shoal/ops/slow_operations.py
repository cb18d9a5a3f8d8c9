"""Slow requests: found in the memory of a server, or in a log that was written as JSON."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.operation import Operation
from shoal.tracing.entries import AnyEntry, LoggedJob, LoggedRequest
from shoal.tracing.formats import read_entry

_MOST_JOBS = 20
_MARK = b'"kind"'
"""Every line of a log that tells of a request or a job has this in it."""


class SlowShown(msgspec.Struct):
    """Requests that were asked for, and the jobs that followed from them."""

    requests: list[LoggedRequest]
    jobs: list[LoggedJob] = []
    """Runs of jobs in the trace of the request, the oldest first; 20 at most."""
    recorded: str = ""
    """Which requests the server records: its `request_log`; empty where a log was read."""
    slow_ms: float = 0.0


class ShowSlow(Operation[SlowShown]):
    """Read the slow requests that a server remembers: the one of this id, or the slowest."""

    answer = SlowShown
    id: str = ""
    limit: int = 20

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> SlowShown:
        recorder = network.recorder
        shown = followed(self.id, recorder.slow, recorder.jobs) if self.id else slowest(recorder.slow, self.limit)
        shown.recorded, shown.slow_ms = recorder.log, recorder.slow_ms
        return shown


def slowest(requests: Iterable[LoggedRequest], limit: int) -> SlowShown:
    """Return so many of the slowest requests, the slowest first, without their statements one by one."""
    found = heapq.nlargest(limit, requests, key=lambda one: one.ms)
    return SlowShown([structs.replace(one, spans=[]) for one in found])


def followed(id_: str, requests: Iterable[LoggedRequest], jobs: Iterable[LoggedJob]) -> SlowShown:
    """Return the newest request of this id, if there is one, and the jobs in its trace."""
    found = None
    for one in requests:
        if one.id == id_:
            found = one
    if found is None:
        return SlowShown([])
    of_trace = [job for job in jobs if found.trace and job.trace == found.trace][:_MOST_JOBS]
    return SlowShown([found], [structs.replace(job, spans=[]) for job in of_trace])


def in_logs(paths: Sequence[Path], id_: str, limit: int) -> SlowShown:
    """Read logs instead of a server's memory. Lines that are no JSON are passed over. Raises `OSError`.

    The logs are read twice where an id is given, and never held in memory.
    """
    if not id_:
        return slowest((one for one in _entries(paths) if isinstance(one, LoggedRequest)), limit)
    shown = followed(id_, (one for one in _entries(paths) if isinstance(one, LoggedRequest)), ())
    if not shown.requests or not shown.requests[0].trace:
        return shown
    return followed(id_, shown.requests, (one for one in _entries(paths) if isinstance(one, LoggedJob)))


def _entries(paths: Sequence[Path]) -> Iterator[AnyEntry]:
    for path in paths:
        with path.open("rb") as lines:
            for line in lines:
                if _MARK in line and (entry := read_entry(line)) is not None:
                    yield entry
