"""A record of committed follows, kept outside the graph, to check the follow history that both members are shown."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from shoal.core.events import InverseOp
from shoal.graph.contract import AssocOp, AssocRow, Batch, Job, Store
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS

Pair = tuple[int, int]
_ENDS = (FOLLOWS.number, FOLLOWED_BY.number)
MOST = 20


class Told(NamedTuple):
    """A period of a follow. `until` is 0 if it has not ended."""

    since: int
    until: int


class FollowStory:
    """The times at which follows began and ended, by follower and followee. The time of an end is negative."""

    def __init__(self) -> None:
        self._moments: dict[Pair, set[int]] = defaultdict(set)
        self._unknown: set[Pair] = set()
        self._locks: dict[Pair, asyncio.Lock] = defaultdict(asyncio.Lock)

    def noting(self, store: Store) -> Noting:
        """Return a wrapper of a store that records its commits."""
        return Noting(store, self)

    def pairs(self) -> Iterable[Pair]:
        """Return the pairs of follower and followee whose history is fully known."""
        return self._moments.keys() - self._unknown

    def told(self, pair: Pair) -> list[Told]:
        """Return up to `MOST` periods, newest first, computed from the recorded times."""
        found: list[Told] = []
        since = 0
        for moment in sorted(self._moments[pair], key=lambda one: (abs(one), one < 0)):
            if moment > 0:
                since = since or moment
            elif since:
                found.append(Told(since, -moment))
                since = 0
            else:
                # Both members ended the follow. The last end counts.
                found[-1] = found[-1]._replace(until=-moment)
        if since:
            found.append(Told(since, 0))
        return found[::-1][:MOST]

    async def commit(self, store: Store, batch: Batch, act: Callable[[], Any]) -> Any:
        """Commit, and record the changes of follows.

        Commits that write the same follow, at either end, are serialized: otherwise one could change a row that was read here.
        """
        ops = [op for op in batch.assocs if op.atype in _ENDS and not op.plain]
        locks = [self._locks[pair] for pair in sorted({_pair(op) for op in ops})]
        for lock in locks:
            await lock.acquire()
        try:
            before = [await _row(store, op) for op in ops]
            answer = await act()
            for op, was in zip(ops, before, strict=True):
                self._note(op, was, await _row(store, op))
        finally:
            for lock in locks:
                lock.release()
        return answer

    def _note(self, op: AssocOp, was: AssocRow | None, now: AssocRow | None) -> None:
        pair = _pair(op)
        if now is None or now.alive is not op.alive:
            # A change at the other end won, or there was no follow to end.
            if op.alive:
                self._unknown.add(pair)
        elif op.alive:
            self._moments[pair].add(_beginning(now))
        elif was is not None and was.alive:
            self._moments[pair].add(-now.time)


class Noting:
    """A store whose commits are recorded."""

    def __init__(self, store: Store, story: FollowStory) -> None:
        self._store = store
        self._story = story

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch) -> None:
        await self._story.commit(self._store, batch, lambda: self._store.commit(batch))

    async def commit_owing(self, batch: Batch) -> Sequence[tuple[Job, InverseOp]]:
        answer: list[tuple[Job, InverseOp]] = await self._story.commit(
            self._store, batch, lambda: self._store.commit_owing(batch)
        )
        return answer


def _pair(op: AssocOp) -> Pair:
    """Return the follower and the followee of a change at either end."""
    return (op.id1, op.id2) if op.atype == FOLLOWS.number else (op.id2, op.id1)


def _beginning(row: AssocRow) -> int:
    """Return the time at which a follow began, which its data contains if its options were changed."""
    terms = msgspec.msgpack.decode(row.data) if row.data else []
    return (terms[3] if len(terms) > 3 else 0) or row.time


async def _row(store: Store, op: AssocOp) -> AssocRow | None:
    rows = await store.assoc_scan((op.id1, op.atype, op.id2 - 1), 1)
    return rows[0] if rows and rows[0][:3] == op[:3] else None
