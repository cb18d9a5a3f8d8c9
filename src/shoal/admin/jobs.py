"""Work of a network: jobs that wait in its outboxes, jobs that were set aside and why, and how to retry those.

A network has one outbox, the store's; with a broker it has the broker's too, where the work is done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from shoal.commands.audit import commit_entry
from shoal.core.audit import NOBODY, Actor, AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import InvalidInput
from shoal.core.ids import IdMaker
from shoal.graph.contract import Graph, Job, Outbox
from shoal.outbox.runner import WorkerFigures

_NAME = re.compile(r"(?:(\d+):)?(\d+)")


class Buried(msgspec.Struct):
    """A job that was set aside. `job` names it: the number of its store, a colon, and its number there."""

    job: str
    outbox: str
    event: str
    step: int
    attempts: int
    error: str


class Work(msgspec.Struct, omit_defaults=True):
    """How the work stands. Counts of workers are those of a broker, and are left out without one."""

    waiting: int
    """A lower bound while workers are silent: each of them counts as one job."""
    oldest_seconds: float | None
    """How long the oldest job has waited; a lower bound while workers are silent, and None if only they may have any."""
    most_seconds: float
    """The delay of deliveries beyond which new posts are refused; 0: no limit."""
    buried: list[Buried]
    workers: int | None = None
    silent_workers: int | None = None
    in_hand: int | msgspec.UnsetType | None = msgspec.UNSET
    """None while workers are silent."""
    done_per_second: float | None = None


@runtime_checkable
class CountedOutbox(Protocol):
    """An outbox that knows its workers."""

    async def tally(self) -> WorkerFigures:
        """Ask the workers what they have in hand, and add it up."""
        ...


async def survey(outboxes: Mapping[str, Outbox], most_seconds: float = 0.0) -> Work:
    """How the work stands in all outboxes together; `most_seconds` is the setting `most_behind_seconds`."""
    work, oldest = Work(0, 0.0, most_seconds, []), 0.0
    for name, outbox in outboxes.items():
        work.waiting += await outbox.backlog()
        oldest = max(oldest, await outbox.lag())
        work.buried += [_told(name, job, error) for job, error in await outbox.buried()]
        if isinstance(outbox, CountedOutbox):
            tally = await outbox.tally()
            work.workers, work.silent_workers = tally.workers + tally.silent, tally.silent
            work.in_hand = None if tally.silent else tally.in_hand
            work.done_per_second = round(tally.rate, 1)
    work.oldest_seconds = None if work.silent_workers and not oldest else oldest
    return work


def _told(outbox: str, job: Job, error: str) -> Buried:
    return Buried(f"{job.store}:{job.seq}", outbox, type(job.event).__name__, job.step, job.attempt, error)


def check_names(names: Sequence[str]) -> list[str]:
    """The names of jobs, as `survey` gives them or without the store. Raises `InvalidInput` for what is none."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} is no job: they are named as 0:57, or 57", field="job")
    return list(names)


async def replay(
    outboxes: Mapping[str, Outbox], names: Sequence[str] | None, graph: Graph, new_id: IdMaker, actor: Actor = NOBODY
) -> int:
    """Give these buried jobs again (None: all of them); how many. A name without a store means any store's.

    The entry of the audit log comes first, as outboxes may be elsewhere than the graph.
    """
    given = 0
    for name, outbox in outboxes.items():
        chosen = [job for job, _ in await outbox.buried() if names is None or _is_named(job, names)]
        if chosen:
            target = AuditTarget(TargetKind.JOBS, name=name)
            await commit_entry(graph, new_id, actor, AuditVerb.JOBS_REPLAYED, target, jobs=len(chosen))
            given += await outbox.unbury(chosen)
    return given


def _is_named(job: Job, names: Sequence[str]) -> bool:
    return f"{job.store}:{job.seq}" in names or str(job.seq) in names
