"""One process on SQLite, turn by turn of its event loop.

A turn takes whatever is ready: answers of the group commit that is done, posts, pages and changes that came. Then jobs run for
their share of the loop (`outbox.Runner`). Beside it a writer thread commits whatever waits as one group, and copies its log when
that is full; a search thread writes rows in pieces. Where nothing is ready, time moves on to the next thing that will be.

Every post, page and change is followed by itself, so a simulation takes as long as there are many of them.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from shoal.core.queueing import ExpectedWait, refused_part
from shoal.ops.planner.calibration import OneProcess
from shoal.ops.planner.one_process import NAME, delivery, resident
from shoal.ops.planner.simulation.cold import ColdTimelines
from shoal.ops.planner.simulation.coming import CELEBRITY, PAGE, POST, Coming
from shoal.ops.planner.simulation.faults import Celebrity
from shoal.ops.planner.simulation.observer import Observer
from shoal.ops.planner.simulation.outcome import SimulatedOutcome
from shoal.ops.planner.simulation.scenario import Scenario
from shoal.ops.planner.simulation.writer import SimulatedWriter

_CLAIM = 256
"""Jobs of a claim at most."""
_SHARE, _LONGEST_SHARE, _SLOW, _MOST_SHARES = 0.002, 0.02, 0.25, 12.0
"""How long jobs have the loop: see `outbox`."""
_AT_ONCE = 2_000
"""Rows of the search index that are written together at most."""
_PAUSE, _FEW, _BURST, _SMALL_WRITES = 0.2, 20, 50.0, 20.0
"""When rows of the search index are written: see `discovery.filler`."""
_PAGE = 20_000
"""Followers who are pushed to before other jobs have their turn."""
_REFUSAL = 20e-6
"""Seconds for refusing a post before anything is done about it."""
_NEVER = math.inf
_FIRST_PART = 1 / 3
"""Where refusing begins, as a part of where it is complete."""


class Loop:
    """A run of one process. `arrival` is what the main thread works for each thing that comes, before anything else: HTTP."""

    def __init__(self, costs: OneProcess, scenario: Scenario, arrival: float) -> None:
        self._costs = costs
        self._scenario = scenario
        self._arrival = arrival
        # What comes is the same whatever else happens.
        coming, self._random = np.random.default_rng(scenario.seed).spawn(2)
        self._delivery = delivery(costs, scenario.warm)
        self._coming = Coming(scenario, coming)
        self._door: deque[tuple[int, float]] = deque()
        self.observer = Observer(scenario.seconds, scenario.faults)
        self._expected = ExpectedWait()
        self.now = 0.0
        # Posts by number: when they came, how many get them, and whether their audience must be read.
        self._came: list[float] = []
        self._followers: list[float] = []
        self._unread: list[bool] = []
        # Those that are being pushed, and to how many they have been.
        self._pushed: dict[int, float] = {}
        self._writer = SimulatedWriter(costs, scenario.faults, self._random)
        self._outbox: deque[int] = deque()
        self._claimed: deque[int] = deque()
        self._begun: float | None = None
        self._committed: dict[int, float] = {}
        self._rows: list[int] = []
        self._writing: list[int] = []
        self._written_at = _NEVER
        self._next_write = 0.0
        self._spare, self._spared_at = _BURST, 0.0
        self._given, self._given_at = 0, 0.0
        self._busy = 0.0
        self._searching = 0.0
        self._cold = ColdTimelines(scenario)

    def run(self) -> SimulatedOutcome:
        """Simulate to the end, and until nothing is left to do."""
        scenario, busy = self._scenario, self._worked()
        while self._turn():
            if self.now <= scenario.seconds:
                busy = self._worked()
        return self.observer.outcome(
            shape=NAME,
            members=scenario.members,
            memory=resident(self._costs, scenario.members, scenario.warm, scenario.length, scenario.follows),
            busy=busy,
            left=len(self._came) - self._given,
            drained=max(0.0, self._given_at - scenario.seconds),
        )

    def _worked(self) -> dict[str, float]:
        """Return the share of the time that each thread has worked."""
        worked = {"main thread": self._busy, "writer thread": self._writer.busy, "search thread": self._searching}
        return {name: seconds / self._scenario.seconds for name, seconds in worked.items()}

    # A turn of the loop

    def _turn(self) -> bool:
        began = self.now
        others = self._answers(began)
        self._rows_written(began)
        self._advance(others + self._arrivals(began))
        self._jobs(self.now - began)
        self._begin_writing()
        self._busy += self.now - began
        return self.now > began or bool(self._door) or self._sleep()

    def _advance(self, worked: float) -> None:
        """The main thread works. The writer and search go on meanwhile, and each hinders the other."""
        beside = self._writer.working or bool(self._writing)
        self.now += worked * (self._costs.contention if beside else 1.0)
        self._writer.advance(self.now, hindered=True)

    def _sleep(self) -> bool:
        """Go on at the next thing that happens; whether there is any."""
        writes = self._next_write if self._rows and not self._writing else _NEVER
        soonest = min(self._coming.next, self._writer.next, self._written_at, writes)
        if soonest == _NEVER:
            return False
        self.now = max(soonest, math.nextafter(self.now, _NEVER))
        self._writer.advance(self.now, hindered=False)
        return True

    # Members

    def _arrivals(self, until: float) -> float:
        """Do what members ask for, as many at a time as are let in."""
        worked, scenario = 0.0, self._scenario
        for kind, at in self._coming.until(until):
            if scenario.at_work and len(self._door) >= scenario.at_work + scenario.at_the_door:
                worked += self._turned_away(kind, at)
            else:
                self._door.append((kind, at))
        for _ in range(min(len(self._door), scenario.at_work or len(self._door))):
            kind, at = self._door.popleft()
            late = scenario.at_work and until + worked - at > scenario.patience
            worked += self._turned_away(kind, at) if late else self._done(kind, at, until + worked)
        return worked

    def _turned_away(self, kind: int, at: float) -> float:
        """Refuse what came at a moment; gives the work."""
        posts = kind == POST or kind >= CELEBRITY
        if posts:
            self.observer.came_in()
        self.observer.refused(at, float(posts), float(kind == PAGE))
        return _REFUSAL

    def _done(self, kind: int, at: float, now: float) -> float:
        """Do what came at a moment; gives the work."""
        if kind == POST:
            return self._post(at, now)
        if kind >= CELEBRITY:
            return self._post(at, now, self._celebrated(kind - CELEBRITY))
        if kind == PAGE:
            worked = self._arrival + self._page() + self._rebuilding(at)
            self.observer.page(at, now + worked - at)
            return worked
        worked = self._arrival + self._costs.change
        # The like, and the notice that follows from it.
        for _ in range(2):
            self._writer.submit(now + worked)
        return worked

    def _page(self) -> float:
        known = self._random.random() < self._scenario.known
        costs = self._costs
        return (costs.page if known else costs.page_fresh) + self._scenario.loud_followees * costs.pull

    def _celebrated(self, number: int) -> float:
        """Return the warm followers of a celebrity."""
        fault = self._scenario.faults[number]
        return fault.part * self._scenario.warm if isinstance(fault, Celebrity) else 0.0

    def _post(self, at: float, made: float, followers: float = -1.0) -> float:
        """Take on a post that came at a moment and gets its id at another: lags run from there."""
        self.observer.came_in()
        if self._random.random() < self._refused(made):
            self.observer.refused(at)
            return self._arrival + _REFUSAL
        drawn, unread = self._coming.author()
        self._came.append(made)
        self._followers.append(drawn if followers < 0 else followers)
        self._unread.append(unread)
        self._writer.submit(made, len(self._came) - 1)
        self.observer.taken_on(made)
        return self._arrival + self._costs.post

    def _refused(self, at: float) -> float:
        most = self._scenario.most_behind
        behind = self._behind(at)
        return refused_part(behind, most * _FIRST_PART, most) if most and behind else 0.0

    def _behind(self, at: float) -> float:
        age = 0.0 if self._begun is None else at - self._begun
        return max(age, self._expected.seconds)

    def _rebuilding(self, at: float) -> float:
        """Return the seconds of work that a page takes for a timeline that is cold."""
        costs, cold = self._costs, self._cold.share(at)
        self._cold.read(1)
        if not cold or self._random.random() >= cold:
            return 0.0
        return costs.rebuild + self._scenario.follows * costs.rebuild_source

    def _answers(self, until: float) -> float:
        """Answer those whose group is on disk."""
        worked = 0.0
        while self._writer.ready and self._writer.ready[0].at <= until:
            group = self._writer.ready.popleft()
            for post in group.posts:
                self._committed[post] = group.at
            self.observer.committed(group.at, len(group.posts))
            self._outbox.extend(group.posts)
            self.observer.acknowledged(group.at, len(group.done))
            for post in group.done:
                del self._committed[post]
            worked += self._costs.group if group.posts or group.others else 0.0
        return worked

    # Jobs

    def _jobs(self, others: float) -> None:
        """Run jobs for their share of the loop."""
        if not (self._outbox or self._claimed):
            return
        share = max(self._shares() * min(others, _LONGEST_SHARE), _SHARE)
        end = self.now + share
        while (self._outbox or self._claimed) and self.now < end:
            if not self._claimed:
                self._claim()
            self._job(self._claimed.popleft())
        if not (self._outbox or self._claimed):
            self._begun = None
            self._expected.begin(0, self.now, more=False)

    def _shares(self) -> float:
        return min(1.0 + self._behind(self.now) / _SLOW, _MOST_SHARES)

    def _claim(self) -> None:
        size = min(_CLAIM, len(self._outbox))
        self._claimed.extend(self._outbox.popleft() for _ in range(size))
        if self._expected.begin(size, self.now, more=size == _CLAIM):
            # What is done and not forgotten yet counts too, and what search has yet to write does not.
            waiting = len(self._committed) - len(self._rows) - len(self._writing)
            self._expected.counted(waiting, self.now, self.now)
        self._advance(self._costs.claim)

    def _job(self, post: int) -> None:
        costs = self._costs
        self._begun = self._committed[post]
        self._cold.lose(self.now)
        page = min(self._followers[post] - self._pushed.get(post, 0.0), _PAGE)
        each = self._delivery + (costs.audience if self._unread[post] else 0.0)
        self._advance(costs.job + page * (1 - self._cold.lost) * each)
        self._pushed[post] = self._pushed.get(post, 0.0) + page
        if self._pushed[post] < self._followers[post]:
            self._outbox.append(post)
            return
        followers = self._pushed.pop(post) * (1 - self._cold.lost)
        self.observer.delivered(self.now, self.now - self._came[post], followers)
        self._given, self._given_at = self._given + 1, self.now
        self._rows.append(post)

    # Search

    def _begin_writing(self) -> None:
        if not self._rows or self._writing or (self.now < self._next_write and len(self._rows) < _AT_ONCE):
            return
        self._writing, self._rows = self._rows[:_AT_ONCE], self._rows[_AT_ONCE:]
        size = len(self._writing)
        self._advance(size * self._costs.index)
        seconds = self._costs.index_write + size * self._costs.index_row
        self._written_at = self.now + seconds
        self._searching += seconds
        self._spare = min(_BURST, self._spare + (self.now - self._spared_at) * _SMALL_WRITES) - 1
        self._spared_at = self.now
        few = 1 / _SMALL_WRITES if self._spare < 1 else 0.0
        self._next_write = self.now + (_PAUSE if size > _FEW else few)

    def _rows_written(self, until: float) -> None:
        if self._written_at <= until:
            self._writer.forget(self._written_at, self._writing)
            self._writing, self._written_at = [], _NEVER
