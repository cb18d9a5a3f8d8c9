"""Simulation of a process on SQLite, one iteration of the event loop at a time.

An iteration handles all ready work: replies of the finished group commit, then arriving posts, pages and changes. Jobs then
run for their time slice (`outbox.Runner`). A writer thread commits waiting writes as one group and checkpoints its
log when it is full; a search thread writes rows in batches. When nothing is ready, time advances to the next event.

Every post, page and change is simulated individually, so the run time grows with their number.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shoal.commands.context import refused_part
from shoal.outbox.runner import ExpectedWait
from shoal_planner.calibration import OneProcess
from shoal_planner.one_process import NAME, delivery, pause, resident
from shoal_planner.simulation.observer import Observer, SimulatedOutcome
from shoal_planner.simulation.scenario import (
    AnyFault,
    Celebrity,
    ColdTimelines,
    Scenario,
    StoreAway,
    crowding,
    of_kind,
    slowness,
)

POST, PAGE, CHANGE, CELEBRITY = range(4)
"""Kinds of arrivals. A post of a celebrity has the kind `CELEBRITY` plus the index of the fault in the scenario."""
_PIECE_SECONDS = 0.25
"""Seconds of a piece of time, in which rates are constant: they are the rates at its start."""
_SAMPLES = 4_096


class Coming:
    """Generates the arrivals of posts, pages and changes, in order of time."""

    def __init__(self, scenario: Scenario, random: np.random.Generator) -> None:
        self._scenario = scenario
        # Authors are drawn from a separate random generator, so that drawing them does not change the times of later arrivals.
        self._random, self._drawing = random.spawn(2)
        self._pieces = self._made()
        self._future: list[tuple[float, int]] = []
        self._written = np.zeros(len(scenario.author_classes.posts))
        self._samples: Iterator[int] = iter(())
        self._fill()

    @property
    def next(self) -> float:
        return self._future[-1][0] if self._future else math.inf

    def until(self, moment: float) -> Iterator[tuple[int, float]]:
        while self._future and self._future[-1][0] <= moment:
            at, kind = self._future.pop()
            if not self._future:
                self._fill()
            yield kind, at

    def author(self) -> tuple[float, bool]:
        """Return the number of followers of a random author, and whether this is the author's first post in a long time."""
        at = next(self._samples, -1)
        if at < 0:
            author_classes = self._scenario.author_classes
            shares = author_classes.posts / author_classes.posts.sum()
            self._samples = iter(self._drawing.choice(len(shares), _SAMPLES, p=shares).tolist())
            at = next(self._samples)
        authors = self._scenario.author_classes.authors[at]
        # The probability that none of the earlier posts by authors of this class was by this author.
        first = self._drawing.random() < (1 - 1 / authors) ** self._written[at]
        self._written[at] += 1
        return float(self._scenario.author_classes.followers[at]), bool(first)

    def _fill(self) -> None:
        while not self._future and (piece := next(self._pieces, None)) is not None:
            self._future = piece

    def _made(self) -> Iterator[list[tuple[float, int]]]:
        """Yield the arrivals in one list per time interval. The intervals are in order, and each list is in reverse order."""
        scenario = self._scenario
        count = math.ceil(scenario.seconds / _PIECE_SECONDS)
        for number in range(count):
            begin = number * _PIECE_SECONDS
            length = min(_PIECE_SECONDS, scenario.seconds - begin)
            factor = crowding(scenario.faults, begin)
            found: list[tuple[float, int]] = []
            for kind, rate in ((POST, scenario.posts), (PAGE, scenario.pages), (CHANGE, scenario.changes)):
                many = self._random.poisson(rate * factor * length)
                found += [(at, kind) for at in (begin + length * self._random.random(many)).tolist()]
            found += self._celebrities(begin, length)
            yield sorted(found, reverse=True)

    def _celebrities(self, begin: float, length: float) -> Iterator[tuple[float, int]]:
        for number, fault in enumerate(self._scenario.faults):
            if isinstance(fault, Celebrity):
                first = math.ceil(max(0.0, begin - fault.at) - 1e-9)
                moments = (fault.at + second for second in range(first, first + 2))
                yield from ((at, CELEBRITY + number) for at in moments if begin <= at < min(begin + length, fault.end))


_GROUP = 512
_ACK_SECONDS = 0.05
"""Seconds that an acknowledgment may wait for the next group commit, to become part of it."""
_TENTH, _HUNDREDTH = 1.2816, 2.3263
"""Standard normal deviates of the 90th and 99th percentile."""
_HELD = 0.5
"""Fraction of the writer's work that needs the interpreter lock, which the main thread holds while it works."""


def sync_time(costs: OneProcess, deviate: float) -> float:
    """Return the duration of a disk sync for a standard normal deviate. A random deviate gives a random duration.

    The deviate 0 gives the measured median. The deviates of the 90th and 99th percentiles give the measured
    percentiles.
    """
    middle, tenth, hundredth = (
        math.log(max(1e-9, seconds)) for seconds in (costs.sync, costs.sync_p90, costs.sync_p99)
    )
    if deviate < _TENTH:
        return math.exp(middle + (tenth - middle) * deviate / _TENTH)
    return math.exp(tenth + (hundredth - tenth) * (deviate - _TENTH) / (_HUNDREDTH - _TENTH))


class Committed(NamedTuple):
    """A group of writes on disk: its time, its posts, the number of other writes, and the posts whose jobs it acknowledged."""

    at: float
    posts: list[int]
    others: int
    done: list[int]


class SimulatedWriter:
    """Simulates the writer thread. `ready` has the committed groups for whose posts responses can be sent."""

    def __init__(self, costs: OneProcess, faults: Sequence[AnyFault], random: np.random.Generator) -> None:
        self._costs = costs
        self._faults = faults
        self._random = random
        # Pairs of submission time and post, oldest first; a post of -1 stands for any other write.
        self._waiting: deque[tuple[float, int]] = deque()
        self._done: list[int] = []
        self._done_since = math.inf
        self._group: Committed | None = None
        self._left = 0.0
        self._log = costs.log_size * random.random()
        self.now = 0.0
        self.busy = 0.0
        self.ready: deque[Committed] = deque()

    @property
    def working(self) -> bool:
        return self._group is not None

    @property
    def next(self) -> float:
        """The time of the writer's next event if the main thread stays idle; infinite if there is none."""
        if self.ready:
            return self.ready[0].at
        if self._group is not None:
            return self.now + self._left
        return self._begins()

    def submit(self, at: float, post: int = -1) -> None:
        self._waiting.append((at, post))

    def forget(self, at: float, posts: list[int]) -> None:
        """Record simulated posts whose jobs are done. A later group contains the acknowledgments of these jobs."""
        self._done += posts
        self._done_since = min(self._done_since, at)

    def advance(self, until: float, *, hindered: bool) -> None:
        """Simulate the writer thread until a moment. `hindered` means that the main thread is busy too."""
        pace = 1 / (1 + _HELD) if hindered else 1.0
        while self.now < until:
            if self._group is None:
                begin = max(self.now, self._begins())
                if begin >= until:
                    self.now = until
                    return
                self.now = begin
                self._begin()
            end = self.now + self._left / pace
            if end > until:
                self._left -= (until - self.now) * pace
                self.busy += until - self.now
                self.now = until
                return
            self.busy += end - self.now
            self.now = end
            if self._group is not None:
                self.ready.append(self._group._replace(at=self.now))
            self._group = None

    def _begins(self) -> float:
        if self._waiting:
            return self._waiting[0][0]
        return self._done_since + _ACK_SECONDS if self._done else math.inf

    def _begin(self) -> None:
        posts: list[int] = []
        others = 0
        while self._waiting and self._waiting[0][0] <= self.now and len(posts) + others < _GROUP:
            post = self._waiting.popleft()[1]
            others += post < 0
            if post >= 0:
                posts.append(post)
        self._group = Committed(0.0, posts, others, self._done)
        self._done, self._done_since = [], math.inf
        self._left = self._seconds(len(posts) + others)

    def _seconds(self, size: int) -> float:
        costs = self._costs
        away = max((fault.end - self.now for fault in of_kind(self._faults, StoreAway, self.now)), default=0.0)
        sync = sync_time(costs, self._random.standard_normal()) * slowness(self._faults, self.now)
        seconds = sync + size * costs.store + away
        self._log += size * costs.log + costs.log_group
        if self._log > costs.log_size:
            self._log = 0.0
            seconds += pause(costs)
        return seconds


_CLAIM = 256
_SHARE, _LONGEST_SHARE, _SLOW, _MOST_SHARES = 0.002, 0.02, 0.25, 12.0
"""Parameters of the fraction of the event loop's time that jobs get: see `outbox`."""
_AT_ONCE = 2_000
_PAUSE, _FEW, _BURST, _SMALL_WRITES = 0.2, 20, 50.0, 20.0
"""When rows of the search index are written: see `search.indexing`."""
_PAGE = 20_000
"""Maximum number of followers to whom a job pushes before other jobs run."""
_REFUSAL = 20e-6
"""Seconds of the main thread to refuse a post, for which it does no other work."""
_FIRST_PART = 1 / 3
"""The delay from which some posts are refused, as a fraction of the delay from which all are refused."""


class Loop:
    """Simulates one process. `arrival` is the work of the main thread for receiving a request, in seconds."""

    def __init__(self, costs: OneProcess, scenario: Scenario, arrival: float) -> None:
        self._costs = costs
        self._scenario = scenario
        self._arrival = arrival
        # Arrivals have a separate random generator, so that they do not depend on other random numbers.
        coming, self._random = np.random.default_rng(scenario.seed).spawn(2)
        self._delivery = delivery(costs, scenario.warm)
        self._coming = Coming(scenario, coming)
        self._door: deque[tuple[int, float]] = deque()
        self.observer = Observer(scenario.seconds, scenario.faults)
        self._expected = ExpectedWait()
        self.now = 0.0
        # For each post by number: arrival time, followers, and whether the follower set must be read.
        self._came: list[float] = []
        self._followers: list[float] = []
        self._unread: list[bool] = []
        # By post: the number of followers to whom an unfinished job has pushed it.
        self._pushed: dict[int, float] = {}
        self._writer = SimulatedWriter(costs, scenario.faults, self._random)
        self._outbox: deque[int] = deque()
        self._claimed: deque[int] = deque()
        self._begun: float | None = None
        self._committed: dict[int, float] = {}
        self._rows: list[int] = []
        self._writing: list[int] = []
        self._written_at = math.inf
        self._next_write = 0.0
        self._spare, self._spared_at = _BURST, 0.0
        self._given, self._given_at = 0, 0.0
        self._busy = 0.0
        self._searching = 0.0
        self._cold = ColdTimelines(scenario)

    def run(self) -> SimulatedOutcome:
        scenario, busy = self._scenario, self._worked()
        while self._iterate():
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
        worked = {"main thread": self._busy, "writer thread": self._writer.busy, "search thread": self._searching}
        return {name: seconds / self._scenario.seconds for name, seconds in worked.items()}

    def _iterate(self) -> bool:
        began = self.now
        others = self._answers(began)
        self._rows_written(began)
        self._advance(others + self._arrivals(began))
        self._jobs(self.now - began)
        self._begin_writing()
        self._busy += self.now - began
        return self.now > began or bool(self._door) or self._sleep()

    def _advance(self, worked: float) -> None:
        """Simulate `worked` seconds of work of the main thread.

        The writer and search threads run concurrently, and the threads slow each other down.
        """
        contended = self._writer.working or bool(self._writing)
        self.now += worked * (self._costs.contention if contended else 1.0)
        self._writer.advance(self.now, hindered=True)

    def _sleep(self) -> bool:
        writes = self._next_write if self._rows and not self._writing else math.inf
        soonest = min(self._coming.next, self._writer.next, self._written_at, writes)
        if soonest == math.inf:
            return False
        self.now = max(soonest, math.nextafter(self.now, math.inf))
        self._writer.advance(self.now, hindered=False)
        return True

    # Members

    def _arrivals(self, until: float) -> float:
        """Simulate the requests that arrive until a moment, as many concurrently as are admitted."""
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
        posts = kind == POST or kind >= CELEBRITY
        if posts:
            self.observer.came += 1
        self.observer.refused(at, float(posts), float(kind == PAGE))
        return _REFUSAL

    def _done(self, kind: int, at: float, now: float) -> float:
        if kind == POST:
            return self._post(at, now)
        if kind >= CELEBRITY:
            return self._post(at, now, self._celebrated(kind - CELEBRITY))
        if kind == PAGE:
            worked = self._arrival + self._page() + self._rebuilding(at)
            self.observer.page(at, now + worked - at)
            return worked
        worked = self._arrival + self._costs.change
        # There are two writes: the like and its notification.
        for _ in range(2):
            self._writer.submit(now + worked)
        return worked

    def _page(self) -> float:
        known = self._random.random() < self._scenario.known
        costs = self._costs
        return (costs.page if known else costs.page_fresh) + self._scenario.high_fan_out_followees * costs.pull

    def _celebrated(self, number: int) -> float:
        fault = self._scenario.faults[number]
        return fault.part * self._scenario.warm if isinstance(fault, Celebrity) else 0.0

    def _post(self, at: float, made: float, followers: float = -1.0) -> float:
        """Simulate a post that arrived at `at`; it may be refused.

        The post gets its id at `made`, and its delivery lag is measured from then on.
        """
        self.observer.came += 1
        if self._random.random() < self._refused(made):
            self.observer.refused(at)
            return self._arrival + _REFUSAL
        sample, unread = self._coming.author()
        self._came.append(made)
        self._followers.append(sample if followers < 0 else followers)
        self._unread.append(unread)
        self._writer.submit(made, len(self._came) - 1)
        self.observer.accepted(made)
        return self._arrival + self._costs.post

    def _refused(self, at: float) -> float:
        most = self._scenario.most_behind
        behind = self._behind(at)
        return refused_part(behind, most * _FIRST_PART, most) if most and behind else 0.0

    def _behind(self, at: float) -> float:
        age = 0.0 if self._begun is None else at - self._begun
        return max(age, self._expected.seconds)

    def _rebuilding(self, at: float) -> float:
        costs, cold = self._costs, self._cold.share(at)
        self._cold.read(1)
        if not cold or self._random.random() >= cold:
            return 0.0
        return costs.rebuild + self._scenario.follows * costs.rebuild_source

    def _answers(self, until: float) -> float:
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
        if not (self._outbox or self._claimed):
            return
        shares = min(1.0 + self._behind(self.now) / _SLOW, _MOST_SHARES)
        share = max(shares * min(others, _LONGEST_SHARE), _SHARE)
        end = self.now + share
        while (self._outbox or self._claimed) and self.now < end:
            if not self._claimed:
                self._claim()
            self._job(self._claimed.popleft())
        if not (self._outbox or self._claimed):
            self._begun = None
            self._expected.begin(0, self.now, more=False)

    def _claim(self) -> None:
        size = min(_CLAIM, len(self._outbox))
        self._claimed.extend(self._outbox.popleft() for _ in range(size))
        if self._expected.begin(size, self.now, more=size == _CLAIM):
            # Count also jobs that are done but not acknowledged. Do not count jobs that only wait for the search index.
            waiting = len(self._committed) - len(self._rows) - len(self._writing)
            self._expected.counted(waiting, self.now, self.now)
        self._advance(self._costs.claim)

    def _job(self, post: int) -> None:
        costs = self._costs
        self._begun = self._committed[post]
        self._cold.lose(self.now)
        page = min(self._followers[post] - self._pushed.get(post, 0.0), _PAGE)
        each = self._delivery + (costs.follower_set if self._unread[post] else 0.0)
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
            self._writing, self._written_at = [], math.inf
