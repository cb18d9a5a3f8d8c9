"""Jobs of a network: pending jobs in its outboxes, parked jobs with their errors, and retries of parked jobs.

A network has an outbox in the store. With a broker, it has a second outbox in the broker, from which the jobs run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from shoal.commands.audit import commit_entry
from shoal.core.audit import SYSTEM_ACTOR, Actor, AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput
from shoal.core.ids import IdMaker
from shoal.graph.contract import Graph, Outbox
from shoal.outbox.runner import WorkerFigures

_NAME = re.compile(r"(?:(\d+):)?(\d+)")


class ParkedJob(msgspec.Struct):
    job: str
    outbox: str
    event: str
    step: int
    attempts: int
    error: str


class Work(msgspec.Struct, omit_defaults=True):
    """State of the job queues. Without a broker, the numbers of workers are absent."""

    waiting: int
    """Number of pending jobs. It is a lower bound while workers do not respond, because each of these counts as one job."""
    oldest_seconds: float | None
    """Age of the oldest job in seconds.

    It is a lower bound while workers do not respond, and None if only these workers may have jobs.
    """
    most_seconds: float
    """The delay of deliveries in seconds beyond which new posts are refused; 0 for no limit."""
    parked: list[ParkedJob] = msgspec.field(name="buried")
    workers: int | None = None
    silent_workers: int | None = None
    in_hand: int | msgspec.UnsetType | None = msgspec.UNSET
    """Number of jobs that workers are running; None while workers do not respond."""
    done_per_second: float | None = None


@runtime_checkable
class CountedOutbox(Protocol):
    async def figures(self) -> WorkerFigures: ...


async def survey(outboxes: Mapping[str, Outbox], most_seconds: float = 0.0) -> Work:
    """Return the state of all outboxes; `most_seconds` is the delay beyond which new posts are refused."""
    work, oldest = Work(0, 0.0, most_seconds, []), 0.0
    for name, outbox in outboxes.items():
        work.waiting += await outbox.backlog()
        oldest = max(oldest, await outbox.lag())
        work.parked += [
            ParkedJob(f"{job.store}:{job.seq}", name, type(job.event).__name__, job.step, job.attempt, error)
            for job, error in await outbox.parked()
        ]
        if isinstance(outbox, CountedOutbox):
            figures = await outbox.figures()
            work.workers, work.silent_workers = figures.workers + figures.silent, figures.silent
            work.in_hand = None if figures.silent else figures.in_hand
            work.done_per_second = round(figures.rate, 1)
    work.oldest_seconds = None if work.silent_workers and not oldest else oldest
    return work


def check_names(names: Sequence[str]) -> list[str]:
    """Return the names of jobs, in the form `store:sequence` or `sequence`. Raises `InvalidInput` for another form."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                f"{name!r} is not a job id: use an id from `shoal jobs list`, such as 0:57 or 57", field="job"
            )
    return list(names)


async def replay(
    outboxes: Mapping[str, Outbox],
    names: Sequence[str] | None,
    graph: Graph,
    new_id: IdMaker,
    actor: Actor = SYSTEM_ACTOR,
) -> int:
    """Retry the parked jobs with these `names`; None retries all parked jobs. Return how many are retried.

    A name may lack the store (`57` instead of `0:57`); it then matches jobs of every store.
    The audit log entry is written first, because outboxes may be outside the graph.
    """
    given = 0
    for name, outbox in outboxes.items():
        chosen = [
            job
            for job, _ in await outbox.parked()
            if names is None or f"{job.store}:{job.seq}" in names or str(job.seq) in names
        ]
        if chosen:
            target = AuditTarget(TargetKind.JOBS, name=name)
            await commit_entry(graph, new_id, actor, AuditVerb.JOBS_REPLAYED, target, jobs=len(chosen))
            given += await outbox.unpark(chosen)
    return given
