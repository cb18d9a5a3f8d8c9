"""Workers that share their time among the jobs in hand, and queues of which only the length matters.

A worker gives each job a page at a time, so jobs in hand advance side by side: all have had the same service since each was taken
on. A clock of service (virtual time) runs at the pace of one job; a job is done when the clock has gone on by its work, so the
next to be done is the first of a heap, however many advance.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

_NOTHING = 1e-9
_LEAST = 1e-3
"""Slots that are worth filling."""


class JobGroup(NamedTuple):
    """Jobs that are alike: when their posts were made, when they may begin, how many, seconds and followers of each."""

    made: float
    ready: float
    jobs: float
    work: float
    followers: float
    beside: float = 0.0
    """Seconds that each takes of somebody else, as evenly as it goes on."""
    posts: bool = True
    """False for jobs that deliver nothing."""


class SharedWorkers:
    """Takes on as many jobs as there are slots, the oldest first; the rest waits."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._coming: list[tuple[float, int, JobGroup]] = []
        self._waiting: deque[JobGroup] = deque()
        self._hand: list[tuple[float, int, JobGroup]] = []
        self._clock = 0.0
        self._in_hand = 0.0
        self._number = 0
        self.now = 0.0
        self.worked = 0.0
        self.beside = 0.0
        """Seconds of somebody else that were taken so far."""
        self._taking = 0.0
        self.left = 0.0
        """Posts that were given and are not done."""

    def give(self, group: JobGroup) -> None:
        """Add jobs that begin when they are ready, or later."""
        if group.jobs > _NOTHING:
            self._number += 1
            self.left += group.jobs * group.posts
            heapq.heappush(self._coming, (group.ready, self._number, group))

    @property
    def next(self) -> float:
        """When the next jobs are ready; infinite when none come."""
        return self._coming[0][0] if self._coming else math.inf

    @property
    def idle(self) -> bool:
        """Whether nothing is in hand and nothing waits or comes."""
        return not (self._hand or self._waiting or self._coming)

    def advance(self, until: float, cores: float) -> Iterator[tuple[float, JobGroup]]:
        """Work up to a moment with so many cores; yields jobs as they are done, with the moment."""
        while self.now < until:
            self._take_on()
            end = min(until, self.next)
            if not self._hand:
                # Sums of many small numbers end near 0, and not at it.
                self._in_hand = self._taking = 0.0
            if not self._hand or not cores:
                self.now = max(self.now, end)
                continue
            pace = min(1.0, cores / max(self._in_hand, 1.0))
            done_at = self.now + (self._hand[0][0] - self._clock) / pace
            if done_at > end:
                self._pass(end, pace)
                continue
            self._pass(done_at, pace)
            group = heapq.heappop(self._hand)[2]
            self._in_hand -= group.jobs
            self._taking -= _taken(group)
            self.left -= group.jobs * group.posts
            yield self.now, group

    def lose(self, part: float, ready: float) -> None:
        """Give a share of what is in hand back, to begin anew at a moment."""
        kept = []
        for done, number, group in self._hand:
            lost = group._replace(jobs=group.jobs * part, ready=ready)
            kept.append((done, number, group._replace(jobs=group.jobs - lost.jobs)))
            self.left -= lost.jobs * group.posts
            self.give(lost)
        self._hand = [entry for entry in kept if entry[2].jobs > _NOTHING]
        heapq.heapify(self._hand)
        self._in_hand = sum(entry[2].jobs for entry in self._hand)
        self._taking = sum(_taken(entry[2]) for entry in self._hand)

    def _pass(self, until: float, pace: float) -> None:
        passed = max(0.0, until - self.now)
        self._clock += passed * pace
        self.worked += passed * pace * self._in_hand
        self.beside += passed * pace * self._taking
        self.now = max(self.now, until)

    def _take_on(self) -> None:
        while self._coming and self._coming[0][0] <= self.now:
            self._waiting.append(heapq.heappop(self._coming)[2])
        while self._waiting and self._slots - self._in_hand > _LEAST:
            group = self._waiting.popleft()
            # Never less than a job: groups would fall into ever smaller pieces.
            taken = group._replace(jobs=min(group.jobs, max(1.0, self._slots - self._in_hand)))
            if group.jobs - taken.jobs > _NOTHING:
                self._waiting.appendleft(group._replace(jobs=group.jobs - taken.jobs))
            self._number += 1
            heapq.heappush(self._hand, (self._clock + group.work, self._number, taken))
            self._in_hand += taken.jobs
            self._taking += _taken(taken)


def _taken(group: JobGroup) -> float:
    """Return the seconds of somebody else that jobs take in a second of work on each."""
    return group.jobs * group.beside / group.work if group.work else 0.0


class Backlog:
    """Seconds of work that wait for some cores, whatever they are made of."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.worked = 0.0

    def step(self, work: float, length: float, cores: float) -> float:
        """Add work and let the cores work for a time; gives how long work waited that came in the middle of it."""
        before = self.seconds
        self.seconds = max(0.0, before + work - length * cores)
        self.worked += before + work - self.seconds
        return (before + self.seconds) / 2 / cores if cores else math.inf
