"""Follows of an import, as packed arrays: a million of them are 24 MB.

A follow has the date of its row, as posts have theirs (`backdated`). Without one its time is its place in the file: row n has
the n-th millisecond after the epoch of ids. So lists are in the order of the dates or of the file, and a second run says the same.

No `FollowChanged` is emitted. Its consequence merges the followee's posts into a *warm* timeline of the follower; an import
owns the store, so none is warm but what this very process has read, and those are dropped at the end and rebuilt when read. Half
a million events that do nothing would cost as much as the follows.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.graph.contract import Batch
from shoal.graph.schema import BLOCKED_BY, BLOCKS, FOLLOWS
from shoal.ops.bounded_tasks import run_bounded
from shoal.ops.checking.report import Progress
from shoal.ops.checking.scan import Column
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer.backdated import TICKS
from shoal.ops.transfer.follow_blocks import row_moment
from shoal.ops.transfer.imported_members import ImportedMembers
from shoal.ops.transfer.records import Fields, NumberedRow
from shoal.ops.transfer.summary import Summary

OPERATIONS = 1_000
"""Follows in one batch, at most."""
_AT_ONCE = 1_024
"""Batches under way: what waits together is committed together, and a commit costs by the pages that it touches."""


class Edges(NamedTuple):
    """Follows by positions in `ImportedMembers`, in the order of the file; `moment` is in ticks (`backdated.ticks_of`)."""

    follower: Column
    followee: Column
    moment: Column

    def degrees(self, people: int) -> Column:
        """How many follow each, and whom each follows, together."""
        return np.bincount(self.follower, minlength=people) + np.bincount(self.followee, minlength=people)


class _Job(NamedTuple):
    """Follows of one member: ids of the followees, and the moment of each, which no two share."""

    follower: int
    followees: list[int]
    moments: list[int]


def references(lines: Iterable[NumberedRow], named: Mapping[str, str]) -> Iterator[str]:
    """Everybody whom a file of follows names."""
    fields: Fields | None = None
    for line in lines:
        if not line.error:
            fields = fields or Fields("follows", line.row, named)
            yield from (fields.text(line.row, "follower"), fields.text(line.row, "followee"))


def read_follows(
    lines: Iterable[NumberedRow], named: Mapping[str, str], people: ImportedMembers, summary: Summary, *, mutual: bool
) -> Edges:
    """The follows of a file; each row is two where they are mutual."""
    columns = (array("q"), array("q"), array("q"))
    fields: Fields | None = None
    latest = time.time_ns() // 1_000_000
    for number, line in enumerate(lines):
        if line.error:
            summary.refuse("follows", f"line {line.number}", line.error)
            continue
        fields = fields or Fields("follows", line.row, named)
        ends = fields.text(line.row, "follower"), fields.text(line.row, "followee")
        one, other = people.find(ends[0]), people.find(ends[1])
        try:
            moment = row_moment(fields.text(line.row, "since"), number, latest)
        except InvalidInput as error:
            summary.refuse("follows", " -> ".join(ends), str(error))
            continue
        if one is None or other is None:
            summary.refuse("follows", " -> ".join(ends), f"{_which(one, other)} not among the members")
        elif one == other:
            summary.refuse("follows", " -> ".join(ends), "nobody follows themselves")
        else:
            for follow in ((one, other), (other, one)) if mutual else ((one, other),):
                for column, value in zip(columns, (*follow, moment), strict=True):
                    column.append(value)
    return Edges(*(np.array(column, np.int64) for column in columns))


async def take_follows(
    network: AnyNetwork, people: ImportedMembers, edges: Edges, summary: Summary, progress: Progress, patience: float
) -> None:
    """Make the follows that are not there. `patience` is that of `run_bounded`."""
    total = len(edges.follower)
    once = _each_once(edges, len(people))
    summary["follows"].there += total - len(once.follower)
    seen = total - len(once.follower)

    async def follow(job: _Job) -> None:
        nonlocal seen
        await _follow(network, job, summary)
        seen += len(job.followees)
        progress("follows", seen, total)

    await run_bounded(_jobs(once, people, summary), follow, _AT_ONCE, lambda _: None, patience=patience)


def _each_once(edges: Edges, people: int) -> Edges:
    """The first of equal follows, those of one follower together and in the order of the file."""
    _, first = np.unique(edges.follower * people + edges.followee, return_index=True)
    first = first[np.lexsort((first, edges.follower[first]))]
    return Edges(*(column[first] for column in edges))


def _which(follower: int | None, followee: int | None) -> str:
    if follower is None and followee is None:
        return "the follower and the followee are"
    return f"{_end(follower is not None)} is"


def _end(follower: object) -> str:
    """Which end is to blame, given whether the follower is there."""
    return "the followee" if follower else "the follower"


def _jobs(edges: Edges, people: ImportedMembers, summary: Summary) -> Iterator[_Job]:
    ids = people.ids
    cuts = np.nonzero(np.diff(edges.follower))[0] + 1
    for followers, followees, moments in zip(*(np.split(column, cuts) for column in edges), strict=True):
        if not len(followers):
            continue
        follower = ids[followers[0]]
        apart = told_apart(moments).tolist()
        pairs = [(ids[at], moment) for at, moment in zip(followees.tolist(), apart, strict=True)]
        known = [pair for pair in pairs if pair[0] and follower]
        for at in followees.tolist():
            if not (follower and ids[at]):
                names = people.records[followers[0]].name, people.records[at].name
                summary.refuse("follows", " -> ".join(names), f"{_end(follower)} was refused")
        for start in range(0, len(known), OPERATIONS):
            part = known[start : start + OPERATIONS]
            yield _Job(follower, [pair[0] for pair in part], [pair[1] for pair in part])


def told_apart(moments: Column) -> Column:
    """Move the moments of one follower's follows apart, a tick each. They are given in the order of the file.

    Those of one millisecond stay in that order: by their ticks, which begin anew at every 1,024th row, they would not.
    """
    order = np.argsort(moments // TICKS, kind="stable")
    steps = np.arange(len(moments))
    apart = np.empty_like(moments)
    apart[order] = np.maximum.accumulate(moments[order] - steps) + steps
    return apart


async def _follow(network: AnyNetwork, job: _Job, summary: Summary) -> None:
    """One read tells what is there already, and what a block forbids."""
    stands = await network.store.assoc_get(job.follower, (FOLLOWS, BLOCKS, BLOCKED_BY), job.followees)
    shard = shard_of(job.follower)
    batch = Batch(shard)
    there = [followee for followee in job.followees if followee in stands[FOLLOWS]]
    barred = (stands[BLOCKS].keys() | stands[BLOCKED_BY].keys()) - stands[FOLLOWS].keys()
    blocked = [followee for followee in job.followees if followee in barred]
    passed = {*there, *blocked}
    for followee, moment in zip(job.followees, job.moments, strict=True):
        if followee not in passed:
            at = compose(EPOCH_MS + moment // TICKS, shard, moment % TICKS)
            batch.assoc_add(job.follower, FOLLOWS, followee, at)
    if batch.assocs:
        await _commit(network, batch)
    # Counted when it is done: where the store was busy, all of this is begun anew.
    summary["follows"].there += len(there)
    summary["follows"].taken += len(batch.assocs)
    for followee in blocked:
        summary.refuse("follows", f"{job.follower} -> {followee}", "one of them has blocked the other")


async def _commit(network: AnyNetwork, batch: Batch) -> None:
    """In as many parts as the store wants: some take only a few changes at once."""
    try:
        await network.store.commit(batch)
    except TooLarge:
        if len(batch.assocs) == 1:
            raise
        half = len(batch.assocs) // 2
        for follows in (batch.assocs[:half], batch.assocs[half:]):
            part = Batch(batch.shard)
            part.assocs = follows
            await _commit(network, part)
