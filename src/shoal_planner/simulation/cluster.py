"""Simulation of several processes on PostgreSQL, Redis and RabbitMQ, in time steps.

Members are not simulated individually. The load of a step is drawn for each class of followers and divided among the
stores, so the run time depends on the simulated time, not on the number of members.

A post passes a web process, its store, the broker and a worker, which pushes it to followers. Each part has a queue:
seconds of work for web processes, stores, the broker and Redis, jobs for workers. A worker pushes one page of followers of each
job per round, so jobs progress together (processor sharing): a virtual clock runs at the pace of a job, and a heap yields the
next job to finish.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shoal_planner.calibration import Shared
from shoal_planner.plan import (
    BROKER_CORES,
    BROKER_FROM,
    LINK_SECONDS,
    PAGE_FOLLOWERS,
    POLL_STORE,
    POLL_WEB,
    SLOTS,
    TRIPS_OF_A_PAGE,
    TRIPS_OF_A_POST,
    Size,
    between,
)
from shoal_planner.simulation.observer import Observer, SimulatedOutcome
from shoal_planner.simulation.scenario import (
    AnyFault,
    Celebrity,
    ColdTimelines,
    Floats,
    LostWorkers,
    Scenario,
    SlowStore,
    StoreAway,
    crowding,
    of_kind,
)


class StoreWait(NamedTuple):
    """The delay of a fraction `share` of a step's arrivals. They wait `seconds`, and their commits take `by` times as long."""

    share: float
    seconds: float
    by: float


class SimulatedStores:
    """Simulates the stores.

    A fault slows a fraction of the stores, starting with the first. Neighbors that the same faults slow form a group.
    """

    def __init__(self, number: int, cores: float, faults: Sequence[AnyFault], random: np.random.Generator) -> None:
        self._cores = cores
        self._random = random
        self._slow = [
            (fault, math.ceil(fault.part * number - 1e-9)) for fault in faults if isinstance(fault, SlowStore)
        ]
        ends = sorted({0, number, *(count for _, count in self._slow)})
        self._groups = list(itertools.pairwise(ends))
        self._edges = sorted({at for fault, _ in self._slow for at in (fault.at, fault.end)})
        self._waiting = np.zeros(number)
        """Queued work of each store, in core seconds."""
        self.worked = 0.0

    def step(self, now: float, length: float, work: float, things: float) -> list[StoreWait]:
        """Simulate the stores for `length` seconds, with the additional work of `things` arrivals.

        Return how long arrivals halfway through the step wait.
        """
        number = len(self._waiting)
        many = max(1, round(things))
        shares = self._random.multinomial(many, np.full(number, 1 / number)) / many
        before = self._waiting
        slower = [self._slower(first, now) for first, _ in self._groups]
        pace = np.concatenate(
            [np.full(last - first, self._cores / by) for (first, last), by in zip(self._groups, slower, strict=True)]
        )
        after = np.maximum(0.0, before + work * shares - length * pace)
        # Count busy time instead of finished work, because a slow store finishes less work in the same time.
        self.worked += float(((before + work * shares - after) / pace).sum()) * self._cores
        self._waiting = after
        found = []
        for (first, last), by in zip(self._groups, slower, strict=True):
            mean = float((before[first:last] + after[first:last]).mean()) / 2
            found.append(StoreWait((last - first) / number, self._worked_off(first, mean, now + length / 2), by))
        return found

    def _slower(self, store: int, moment: float) -> float:
        return math.prod(fault.by for fault, count in self._slow if store < count and fault.now(moment))

    def _worked_off(self, store: int, work: float, moment: float) -> float:
        """Return how long a store needs for the `work` that is queued at a moment, in seconds."""
        at = moment
        for edge in self._edges:
            pace = self._cores / self._slower(store, at)
            if edge <= at:
                continue
            if work <= pace * (edge - at):
                break
            work -= pace * (edge - at)
            at = edge
        return at - moment + work * self._slower(store, at) / self._cores


_NOTHING = 1e-9
_LEAST = 1e-3
"""Minimum of free slots worth filling."""


class JobGroup(NamedTuple):
    """Similar jobs: when their posts were created, when they may start, their number, and the seconds and followers of each job."""

    made: float
    ready: float
    jobs: float
    work: float
    followers: float
    foreground: float = 0.0
    """Seconds of another part (Redis) that each job uses, spread evenly over its run."""
    posts: bool = True
    """Whether the jobs deliver posts."""


class SharedWorkers:
    """Simulates workers with a number of slots in total. They run the oldest jobs first; others wait."""

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
        self.foreground = 0.0
        """Seconds of the other part (Redis) that jobs have used so far."""
        self._taking = 0.0
        self.left = 0.0
        """Posts that are not done yet."""

    def give(self, group: JobGroup) -> None:
        if group.jobs > _NOTHING:
            self._number += 1
            self.left += group.jobs * group.posts
            heapq.heappush(self._coming, (group.ready, self._number, group))

    @property
    def next(self) -> float:
        return self._coming[0][0] if self._coming else math.inf

    @property
    def idle(self) -> bool:
        return not (self._hand or self._waiting or self._coming)

    def advance(self, until: float, cores: float) -> Iterator[tuple[float, JobGroup]]:
        """Simulate the workers on this many cores until a moment, and yield each finished job with the time."""
        while self.now < until:
            self._take_on()
            end = min(until, self.next)
            if not self._hand:
                # No job is running, so the sums contain only rounding errors.
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
        """Move a fraction of the running jobs back to the queue, from which they can start again at `ready`."""
        remaining = []
        for done, number, group in self._hand:
            lost = group._replace(jobs=group.jobs * part, ready=ready)
            remaining.append((done, number, group._replace(jobs=group.jobs - lost.jobs)))
            self.left -= lost.jobs * group.posts
            self.give(lost)
        self._hand = [entry for entry in remaining if entry[2].jobs > _NOTHING]
        heapq.heapify(self._hand)
        self._in_hand = sum(entry[2].jobs for entry in self._hand)
        self._taking = sum(_taken(entry[2]) for entry in self._hand)

    def _pass(self, until: float, pace: float) -> None:
        passed = max(0.0, until - self.now)
        self._clock += passed * pace
        self.worked += passed * pace * self._in_hand
        self.foreground += passed * pace * self._taking
        self.now = max(self.now, until)

    def _take_on(self) -> None:
        while self._coming and self._coming[0][0] <= self.now:
            self._waiting.append(heapq.heappop(self._coming)[2])
        while self._waiting and self._slots - self._in_hand > _LEAST:
            group = self._waiting.popleft()
            # Start at least one job, because otherwise groups would be split into ever smaller ones.
            taken = group._replace(jobs=min(group.jobs, max(1.0, self._slots - self._in_hand)))
            if group.jobs - taken.jobs > _NOTHING:
                self._waiting.appendleft(group._replace(jobs=group.jobs - taken.jobs))
            self._number += 1
            heapq.heappush(self._hand, (self._clock + group.work, self._number, taken))
            self._in_hand += taken.jobs
            self._taking += _taken(taken)


def _taken(group: JobGroup) -> float:
    return group.jobs * group.foreground / group.work if group.work else 0.0


class Backlog:
    """A simulated queue of work for a number of cores, measured in seconds of one core."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.worked = 0.0

    def step(self, work: float, length: float, cores: float) -> float:
        """Add work, simulate the cores for `length` seconds, and return how long work arriving halfway through waits."""
        before = self.seconds
        self.seconds = max(0.0, before + work - length * cores)
        self.worked += before + work - self.seconds
        return (before + self.seconds) / 2 / cores if cores else math.inf


_STEP, _MOST_STEPS = 0.02, 60_000
_PIECES = 6
"""Maximum number of moments in a step at which posts of a class arrive."""
_QUANTILES = (np.arange(40) + 0.5) / 40
"""Quantiles of the waits of pages that a step distinguishes."""
_TAIL = 0.995
_BUSIEST = 0.99
_SMOOTH_SECONDS = 1.0
"""Time over which the utilization of web processes is averaged."""
_LEASE_SECONDS = 60.0
"""A job claimed from a store is redelivered after this time: see `outbox.Runner`."""
_LAST_STEP = 1.0
"""Minimum length of the steps after the last arrival, in seconds."""
_ENOUGH = 3_600.0
"""Maximum of seconds to finish the remaining work at the end."""


class Built(NamedTuple):
    """A simulated deployment: its parts, cores per store, bytes of memory in total, and number of queues of the broker."""

    size: Size
    store_cores: float
    memory: float
    queues: int = 1


class Steps:
    def __init__(self, costs: Shared, scenario: Scenario, built: Built) -> None:
        self._costs = costs
        self._scenario = scenario
        self._built = built
        size = built.size
        # Arrivals have a separate random generator, so that they do not depend on other random numbers.
        self._coming, self._random = np.random.default_rng(scenario.seed).spawn(2)
        self.observer = Observer(scenario.seconds, scenario.faults)
        self.workers = SharedWorkers(size.workers * SLOTS)
        self._web, self._redis, self._broker = Backlog(), Backlog(), Backlog()
        self._stores = SimulatedStores(size.stores, built.store_cores, scenario.faults, self._random)
        fresh = 1 - scenario.known
        self._page = costs.web_request + between(fresh, costs.web_page, costs.web_page_fresh)
        self._page += scenario.high_fan_out_followees * costs.web_pull
        self._rebuild_cost = costs.web_rebuild + scenario.follows * costs.web_rebuild_source
        self._polls = size.web * size.stores * size.poll_rate * POLL_WEB
        self._brokered = size.workers > BROKER_FROM
        self._length = max(_STEP, scenario.seconds / _MOST_STEPS)
        self._delivered_at = 0.0
        self._busy = 0.0
        self._cold = ColdTimelines(scenario)
        self._slowed = 1.0
        self._redis_wait = self._redis_work = 0.0
        gone = [fault for fault in scenario.faults if isinstance(fault, LostWorkers)]
        self._gone = sorted(gone, key=lambda fault: -fault.at)

    def run(self) -> SimulatedOutcome:
        scenario, size = self._scenario, self._built.size
        steps = math.ceil(scenario.seconds / self._length - 1e-9)
        for step in range(steps):
            self._step(step * self._length)
        busy = self._shares(steps * self._length)
        self._finish(steps * self._length)
        web = f"{size.web:,} web process{'es' if size.web != 1 else ''}"
        return self.observer.outcome(
            shape=f"{size.stores} PostgreSQL, {size.redis} Redis, {web}, {size.workers:,} worker{'s' if size.workers != 1 else ''}",
            members=scenario.members,
            memory=self._built.memory,
            busy=busy,
            left=0.0 if self.workers.idle else self.workers.left,
            drained=max(0.0, self._delivered_at - scenario.seconds) if self.workers.idle else None,
        )

    def _finish(self, end: float) -> None:
        self._length, now = max(_LAST_STEP, self._length), end
        while not self.workers.idle and now < end + _ENOUGH:
            self._work(now)
            now += self._length

    def _shares(self, seconds: float) -> dict[str, float]:
        size = self._built.size
        worked = {
            "web processes": self._web.worked / size.web,
            "databases": self._stores.worked / size.stores / self._built.store_cores,
            "workers": self.workers.worked / size.workers,
            "Redis": self._redis.worked / size.redis,
        }
        return {name: spent / seconds for name, spent in worked.items()}

    def _step(self, now: float) -> None:
        scenario = self._scenario
        length = min(self._length, scenario.seconds - now)
        factor = crowding(scenario.faults, now) * length
        posts = self._coming.poisson(scenario.posts * factor * scenario.author_classes.posts).astype(np.float64)
        changes = float(self._coming.poisson(scenario.changes * factor))
        pages = float(self._coming.poisson(scenario.pages * factor))
        cold = self._cold.share(now)
        self._cold.read(scenario.pages * crowding(scenario.faults, now) * self._length)
        number = float(posts.sum())
        taken = self._admitted(self._web_work(number, pages, changes, cold), number + pages + changes)
        taken *= 1 - self._away(now)
        self.observer.came += number
        self.observer.refused(now, (1 - taken) * number, (1 - taken) * pages)
        posts, changes, pages = posts * taken, changes * taken, pages * taken
        waited = self._pages(now, pages, cold, float(posts.sum()), changes)
        self._commits(now, now + waited, posts, changes, pages * cold, pages)
        self._work(now)

    def _admitted(self, work: float, requests: float) -> float:
        """Return the fraction of requests that web processes admit under their limits of waiting time and concurrency."""
        scenario, web = self._scenario, self._built.size.web
        if not requests or not scenario.at_work:
            return 1.0
        waiting = min(scenario.patience, (scenario.at_work + scenario.at_the_door) * work / requests)
        capacity = (waiting + self._length) * web - self._web.seconds
        return min(1.0, max(0.0, capacity / work))

    def _web_work(self, posts: float, pages: float, changes: float, cold: float) -> float:
        costs = self._costs
        work = pages * (self._page + cold * self._rebuild_cost) + self._polls * self._length
        work += posts * (costs.web_request + costs.web_post + self._built.size.apart * costs.web_change)
        return work + changes * (costs.web_request + costs.web_change)

    def _away(self, now: float) -> float:
        """Return the fraction of stores that are unavailable. Writes by their members are refused."""
        return min(1.0, sum(fault.part for fault in of_kind(self._scenario.faults, StoreAway, now)))

    def _pages(self, now: float, pages: float, cold: float, posts: float, changes: float) -> float:
        """Simulate one step of the web processes. Record the latency of pages, and return the wait for a process."""
        costs, web = self._costs, self._built.size.web
        work = self._web_work(posts, pages, changes, cold)
        waited = self._web.step(work, self._length, web)
        share = min(1.0, self._length / _SMOOTH_SECONDS)
        self._busy += (work / (self._length * web) - self._busy) * share
        self._redis_work = pages * between(1 - self._scenario.known, costs.redis_page, costs.redis_page_fresh)
        if pages:
            waits = waited + _tails(min(self._busy, _BUSIEST), self._page) + self._page
            waits += TRIPS_OF_A_PAGE * LINK_SECONDS + self._redis_wait
            times = np.full(len(waits), pages / len(waits))
            self.observer.pages(now, waits, times * (1 - cold))
            self.observer.pages(now, waits + self._rebuild_cost, times * cold)
        return waited

    def _commits(self, now: float, made: float, posts: Floats, changes: float, rebuilt: float, pages: float) -> None:
        """Simulate the commits of a time step. Their jobs start when the broker has delivered these jobs to a worker."""
        costs, scenario, size = self._costs, self._scenario, self._built.size
        number = float(posts.sum())
        fresh = pages * (1 - scenario.known)
        index = size.apart * costs.store_change + (0.0 if size.searches else costs.store_index)
        followers = scenario.author_classes.followers
        read = float((posts * followers)[followers > PAGE_FOLLOWERS].sum())
        work = number * (costs.store_post + index) + changes * costs.store_change + fresh * costs.store_page_fresh
        work += (
            size.polls * POLL_STORE * self._length
            + rebuilt * scenario.follows * costs.store_rebuild_source
            + read * costs.store_read
        )
        jobs = (number + changes) * costs.broker_job
        relayed = self._broker.step(jobs, self._length, self._built.queues * BROKER_CORES) if self._brokered else 0.0
        for wait in self._stores.step(now, self._length, work, number + changes + fresh):
            commit = wait.seconds + costs.commit * wait.by + TRIPS_OF_A_POST * LINK_SECONDS
            self._jobs(made, commit, relayed + costs.arrival, posts * wait.share, changes * wait.share)
        self._celebrities(now)

    def _celebrities(self, now: float) -> None:
        """Simulate the posts of celebrities, who each post once a second from the start of the fault."""
        costs, scenario = self._costs, self._scenario
        for fault in of_kind(scenario.faults, Celebrity, now):
            many = math.floor(now - fault.at) - math.floor(now - self._length - fault.at)
            reach = fault.part * scenario.members
            self.observer.came += many
            self.observer.accepted(now, many)
            self.observer.committed(now, many)
            self.workers.give(self._group(now, now + costs.commit + costs.arrival, many, reach))

    def _jobs(self, made: float, commit: float, arrival: float, posts: Floats, changes: float) -> None:
        """Simulate the commits of the time step that begins at `made`, each `commit` seconds after its write arrived.

        Their jobs start `arrival` seconds after the commit.
        """
        costs, followers = self._costs, self._scenario.author_classes.followers
        for at in np.flatnonzero(posts):
            for moment, many in self._spread(made, float(posts[at])):
                self.observer.accepted(moment, many)
                self.observer.committed(moment + commit, many)
                self.workers.give(self._group(moment, moment + commit + arrival, many, float(followers[at])))
        for moment, many in self._spread(made, changes):
            ready = moment + commit + arrival
            self.workers.give(JobGroup(moment, ready, many, costs.worker_job, 0.0, costs.redis_post, posts=False))

    def _spread(self, begin: float, number: float) -> Iterator[tuple[float, float]]:
        """Yield random moments in a time step, each with an equal part of `number` arrivals.

        If all of them arrived at the same moment, they would wait longer.
        """
        pieces = max(1, min(_PIECES, round(number)))
        for part in self._random.random(pieces).tolist():
            yield begin + part * self._length, number / pieces

    def _group(self, made: float, ready: float, posts: float, followers: float) -> JobGroup:
        costs = self._costs
        foreground = costs.redis_post + followers * costs.redis_delivery
        return JobGroup(made, ready, posts, self._job(followers), followers, foreground)

    def _job(self, followers: float) -> float:
        costs = self._costs
        read = costs.worker_read if followers > PAGE_FOLLOWERS else 0.0
        return costs.worker_job + followers * (costs.worker_delivery + read)

    def _work(self, now: float) -> None:
        scenario, size = self._scenario, self._built.size
        self._lose(now)
        lost = min(1.0, sum(fault.part for fault in of_kind(scenario.faults, LostWorkers, now)))
        warm = scenario.warm / max(1.0, scenario.members) * (1 - self._cold.lost)
        pushed = self.workers.foreground
        for done, group in self.workers.advance(now + self._length, size.workers * (1 - lost) * self._slowed):
            if group.posts:
                at = done + self._redis_wait
                self._delivered_at = at
                self.observer.delivered(at, at - group.made, group.followers * warm, group.jobs)
                self.observer.acknowledged(at, group.jobs)
        self._redis_wait = self._redis.step(
            self.workers.foreground - pushed + self._redis_work, self._length, size.redis
        )
        self._redis_work = 0.0
        # Running jobs wait for Redis, so a full queue of Redis slows the workers down.
        self._slowed = 1.0 if self._redis.seconds <= size.redis * self._length else 0.5 * self._slowed + 0.05

    def _lose(self, now: float) -> None:
        while self._gone and self._gone[-1].at <= now:
            fault = self._gone.pop()
            lease = fault.lease if fault.lease is not None else 0.0 if self._brokered else _LEASE_SECONDS
            self.workers.lose(fault.part, now + lease)


def _tails(busy: float, service_time: float) -> Floats:
    """Return quantiles of the wait at utilization `busy`: 0 for some requests, exponentially distributed for the others."""
    mean = service_time / (2 * (1 - busy))
    beyond = np.clip((1 - _QUANTILES) / max(busy, 1e-9), 1 - _TAIL, 1.0)
    return -np.log(beyond) * mean
