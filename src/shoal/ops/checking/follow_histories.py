"""Whether histories of follows end where the follow does, and both ends tell the same; and how that is put right."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.core.ids import floor_at, shard_of
from shoal.graph.access import association
from shoal.graph.contract import Assoc, AssocOp, AssocRow, Batch
from shoal.graph.payloads.follows import MOST_PERIODS, encode_moments, in_order, moments_until
from shoal.graph.schema import ASSOC_TYPES, FOLLOWED_BY, FOLLOWS, AssocType
from shoal.ops.checking.invariants import MOST, Found, match
from shoal.ops.checking.report import Finding
from shoal.ops.checking.scan import Column, Links, Pairs
from shoal.ops.network import AnyNetwork

_AT_ONCE = 64
_DAY_MS = 86_400_000
_SLACK_MS = 2 * _DAY_MS
"""Histories are forgotten once a day, in one store after the other."""
_OF = {atype.history: atype.number for atype in (FOLLOWS, FOLLOWED_BY)} | {
    atype.number: atype.number for atype in (FOLLOWS, FOLLOWED_BY)
}
"""The type of the follow that a tombstone tells of."""

Flags = NDArray[np.bool_]


class FollowHistories:
    """Collects what tombstones tell of follows: 56 bytes for each."""

    def __init__(self, network: AnyNetwork) -> None:
        self._network = network
        self._rows = tuple(array("q") for _ in range(7))

    async def watch(self, page: Sequence[AssocRow]) -> None:
        """Note what these associations tell."""
        for row in page:
            if not row.alive and (atype := _OF.get(row.atype)):
                moments = moments_until(row.time, row.data)
                begun = max(moments, default=0)
                ended = -min(moments, default=0)
                values = (row.id1, atype, row.id2, max(begun, 0), max(ended, 0), len(moments), _digest(moments))
                for column, value in zip(self._rows, values, strict=True):
                    column.append(value)

    def compared(self, links: Links) -> Found:
        """All histories that do not end as their follows do, and those that two ends tell differently."""
        rows = _Told.of(*(np.frombuffer(column, np.int64) if column else _NONE for column in self._rows))
        findings = [*_unended(rows, links, FOLLOWS), *_unended(rows, links, FOLLOWED_BY)]
        kept = time.time_ns() // 1_000_000 - int(self._network.reads.history_days * _DAY_MS) + _SLACK_MS
        findings += _disagreeing(rows, floor_at(kept))
        return Found(len(rows.id1), len(findings), findings[:MOST])


_NONE = np.empty(0, np.int64)


class _Told:
    """Histories at one end each, in columns: the last beginning and end, how many moments, and a sum of their hashes."""

    def __init__(self, id1: Column, atype: Column, id2: Column, begun: Column, ended: Column, n: Column, sums: Column):
        self.id1, self.atype, self.id2 = id1, atype, id2
        self.begun, self.ended, self.n, self.sums = begun, ended, n, sums

    @classmethod
    def of(cls, id1: Column, atype: Column, id2: Column, *told: Column) -> _Told:
        """Lay together the tombstone of a follow and that of what was put aside."""
        order = np.lexsort((id2, atype, id1))
        id1, atype, id2 = id1[order], atype[order], id2[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (id1[1:] != id1[:-1]) | (atype[1:] != atype[:-1]) | (id2[1:] != id2[:-1])
        starts = np.nonzero(first)[0]
        begun, ended, n, sums = (column[order] for column in told)
        if not len(starts):
            return cls(id1, atype, id2, begun, ended, n, sums)
        laid = [np.maximum.reduceat(begun, starts), np.maximum.reduceat(ended, starts)]
        laid += [np.add.reduceat(n, starts), np.add.reduceat(sums, starts)]
        return cls(id1[starts], atype[starts], id2[starts], *laid)

    def only(self, chosen: Flags) -> _Told:
        """Some of them."""
        columns = (self.id1, self.atype, self.id2, self.begun, self.ended, self.n, self.sums)
        return _Told(*(column[chosen] for column in columns))

    @property
    def pairs(self) -> Pairs:
        """Whom they are of, and whom they lead to."""
        return self.id1, self.id2


def _unended(rows: _Told, links: Links, atype: AssocType) -> Iterator[Finding]:
    """Histories that begin last while there is no follow, or end later than a follow that is alive began."""
    told, alive = rows.only(rows.atype == atype.number), links.of(atype.number)
    matched = match(told.pairs, (alive.id1, alive.id2))
    name = atype.name.replace("_", " ")
    for at in matched.first[told.begun[matched.first] > told.ended[matched.first]]:
        yield _finding(f"the history of '{{0}} {name} {{1}}' does not end, but the follow has", told, int(at))
    one, other = matched.both
    for at in one[told.ended[one] >= alive.time[other]]:
        yield _finding(f"the history of '{{0}} {name} {{1}}' ends, but the follow goes on", told, int(at))


def _disagreeing(rows: _Told, kept: int) -> Iterator[Finding]:
    """Ends that tell different moments. What one has forgotten already, or has no more room for, is no difference."""
    here, there = (rows.only(rows.atype == atype.number) for atype in (FOLLOWS, FOLLOWED_BY))
    matched = match(here.pairs, (there.id2, there.id1))
    for words, told, alone in (
        ("{0} remembers when they followed {1}, but {1} does not", here, matched.first),
        ("{0} remembers when {1} followed them, but {1} does not", there, matched.second),
    ):
        for at in alone[np.maximum(told.begun[alone], told.ended[alone]) >= kept]:
            yield _finding(words, told, int(at))
    one, other = matched.both
    whole = np.maximum(here.n[one], there.n[other]) < 2 * MOST_PERIODS
    for at in one[whole & (here.sums[one] != there.sums[other])]:
        yield _finding("{0} and {1} do not remember the same of when {0} followed {1}", here, int(at))


def _finding(words: str, told: _Told, at: int) -> Finding:
    triple = int(told.id1[at]), int(told.atype[at]), int(told.id2[at])
    seen = int(told.begun[at]), int(told.ended[at]), int(told.sums[at])
    return Finding(words, (triple[0], triple[2]), seen, remember=triple)


def _digest(moments: frozenset[int]) -> int:
    """Return a sum of hashes of 56 bits: the sums of two parts make that of the whole."""
    return sum(hash((moment,)) >> 8 for moment in moments)


async def remember(network: AnyNetwork, findings: Sequence[Finding]) -> None:
    """Have both ends tell what either does, and the follow be as the last of it says.

    A history that does not end, though its follow has, ends just after it began.
    """
    wrong = [finding.remember for finding in findings if finding.remember]
    for start in range(0, len(wrong), _AT_ONCE):
        await asyncio.gather(*(_remember(network, *triple) for triple in wrong[start : start + _AT_ONCE]))


async def _remember(network: AnyNetwork, id1: int, atype: int, id2: int) -> None:
    ends = ((id1, ASSOC_TYPES[atype], id2), (id2, ASSOC_TYPES[ASSOC_TYPES[atype].inverse], id1))
    moments: set[int] = set()
    goes_on = False
    for end, kind, other in ends:
        alive = await association(network.store, end, kind, other)
        goes_on = goes_on or alive is not None
        moments |= await _moments(network, end, kind, other)
    last = in_order(moments)[-1] if moments else 0
    if last > 0 and not goes_on:
        last = -last - 1
        moments.add(last)
    # An end loses against a follow that began later. One so early changes nothing, but that it is remembered.
    at, data = max(1, -last), encode_moments(moments)
    for end, kind, other in ends:
        op = AssocOp(end, kind.number, other, at, alive=False, data=data, plain=True, silent=True)
        batch = Batch(shard_of(end))
        batch.put(op)
        await network.store.commit(batch)


async def _moments(network: AnyNetwork, id1: int, atype: AssocType, id2: int) -> set[int]:
    found = await network.store.assoc_ended(id1, (atype, ASSOC_TYPES[atype.history]), (id2,))
    rows: list[Assoc] = [row for by_id in found.values() for row in by_id.values()]
    return set[int]().union(*(moments_until(row.time, row.data) for row in rows))
