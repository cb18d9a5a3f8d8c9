"""Posts through the library, with measurements of each: its commit, its fan-out, its bytes and its CPU time."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.measure import Clock, device_bytes, thread_clocks
from benchmarks.stores import Ints, url_of
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.app.outboxes import pressure_of
from shoal.consumers.context import Effects
from shoal.consumers.follower_sets import PackedFollowers
from shoal.consumers.table import TABLE
from shoal.core.errors import Unavailable
from shoal.core.events import PostCreated
from shoal.core.ids import floor_at, milliseconds_of
from shoal.graph.contract import Job
from shoal.library import Handle
from shoal.outbox.runner import Runner
from shoal.settings import Settings
from shoal.timelines.contract import Slots, Timelines

_TEXTS = [
    f"Low tide at harbour wall {number}: the boats lie on the sand and wait, and the light goes gray at six."
    for number in range(1_000)
]


def _age(id_: int) -> float:
    """Return the milliseconds since the id was created."""
    return time.time() * 1000 - milliseconds_of(id_)


class Counted:
    """Timelines that count written entries and record the age of each entry when written (ms)."""

    def __init__(self, timelines: Timelines) -> None:
        self._timelines = timelines
        self.written = 0
        self.lags: list[float] = []
        self.slots = timelines.slots
        self.length = timelines.length
        self.drop_idle = timelines.drop_idle
        self.clear = timelines.clear
        self.members = timelines.members
        self.create = timelines.create
        self.fill = timelines.fill
        self.remove = timelines.remove
        self.union = timelines.union
        self.subtract = timelines.subtract
        self.read = timelines.read
        self.floor = timelines.floor
        self.drop = timelines.drop

    async def push(self, entry: int, slots: Slots) -> int:
        written = await self._timelines.push(entry, slots)
        self.written += written
        self.lags.append(_age(entry))
        return written


@dataclass
class Phase:
    """Measurements between two times. Lags are in milliseconds, response times and everything else in seconds."""

    started: float
    delivered: int
    bytes: int
    clocks: dict[str, Clock]
    durable: int = 0
    groups: list[int] = field(default_factory=list)
    """Number of posts of each group commit."""
    missed: int = 0
    refused: int = 0
    seconds: float = 0.0
    """Seconds until the last post was durable."""
    processor: float = 0.0
    """Processor time of all threads until the last fan-out was done."""
    drained: float = 0.0
    """Seconds until the last fan-out was done."""
    lags: list[float] = field(default_factory=list)
    """Milliseconds until the post was in the home timelines of its followers."""
    whole_lags: list[float] = field(default_factory=list)
    """Milliseconds until the last consumer, the search index, was done."""
    answers: list[float] = field(default_factory=list)


class Bench:
    """An open network, its members, and the authors of the next posts."""

    def __init__(self, network: Network, path: Path, members: Ints, degrees: Ints, authors: Ints) -> None:
        self._path = path
        self.members = members.tolist()
        self._degrees = dict(zip(self.members, degrees.tolist(), strict=True))
        self._order = [self.members[at] for at in authors]
        self._authors = itertools.cycle(self._order)
        self._texts = itertools.cycle(_TEXTS)
        self._handles: dict[int, Handle] = {}
        self._whole_lags: list[float] = []
        self._answering = False
        self._groups: list[int] = []
        self.durable = self.fanned_out = self.expected = 0
        self.counted = Counted(network.timelines)
        assert network.reads.follower_set_cache is not None
        self._follower_set_cache = network.reads.follower_set_cache
        followers = PackedFollowers(
            network.store, self.counted, self._follower_set_cache, network.effects.high_fan_out_sources
        )
        effects = dataclasses.replace(network.effects, timelines=self.counted, followers=followers)
        self.runner: Runner[Effects] = Runner(network.store, TABLE, effects, done=self._done)
        self.pressure = pressure_of(self.runner, network.search, network.settings)
        self.network = dataclasses.replace(network, writes=dataclasses.replace(network.writes, pressure=self.pressure))

    def _done(self, job: Job) -> None:
        if isinstance(job.event, PostCreated):
            self.fanned_out += 1
            self._whole_lags.append(_age(job.event.post_id))

    async def open_handles(self) -> None:
        nodes = await self.network.store.obj_get(list(set(self._order)))
        self._handles = {id_: Handle(self.network, node) for id_, node in nodes.items()}  # type: ignore[arg-type]

    async def warm_all(self) -> None:
        """Make every timeline warm and full, with old placeholder entries."""
        timelines = self.network.timelines
        old = [floor_at(1_710_000_000_000) + entry for entry in range(timelines.length)]
        for member in self.members:
            await timelines.create(member)
            await timelines.fill(member, old, 0)

    def next_authors(self, count: int) -> Sequence[int]:
        return list(itertools.islice(self._authors, count))

    async def follower_set(self, author: int) -> Slots:
        """Return a copy of the slots that a post of this author is pushed to."""
        known = self._follower_set_cache.get(author)
        return known.slots(0, len(known)).copy() if known is not None else np.empty(0, np.int32)

    async def post(self, phase: Phase, due: float) -> None:
        """Create a post by the next author; the response time is measured from `due`."""
        author = self._handles[next(self._authors)]
        try:
            await author.create(next(self._texts))
        except Unavailable as refusal:
            phase.refused += 1
            await asyncio.sleep(refusal.retry_after)
            return
        phase.answers.append(time.perf_counter() - due)
        phase.durable += 1
        self.durable += 1
        self.expected += self._degrees[author.id]
        if not self._answering:
            # All posts of a group commit complete in one iteration of the event loop.
            self._answering = True
            self._groups.append(0)
            asyncio.get_running_loop().call_soon(self._answered)
        self._groups[-1] += 1

    def _answered(self) -> None:
        self._answering = False

    def begin(self) -> Phase:
        self.counted.lags, self._whole_lags, self._groups = [], [], []
        began = time.perf_counter()
        return Phase(
            began, self.counted.written, device_bytes(self._path), thread_clocks(), processor=time.process_time()
        )

    async def end(self, phase: Phase) -> None:
        """Finish a phase after its last post is durable: wait for the fan-out and collect the figures."""
        phase.seconds = time.perf_counter() - phase.started
        await self.runner.drain(600)
        phase.drained = time.perf_counter() - phase.started
        phase.processor = time.process_time() - phase.processor
        phase.delivered = self.counted.written - phase.delivered
        phase.bytes = device_bytes(self._path) - phase.bytes
        before = phase.clocks
        phase.clocks = {
            name: Clock(now.ran - before.get(name, Clock()).ran, now.waited - before.get(name, Clock()).waited)
            for name, now in thread_clocks().items()
        }
        phase.lags, phase.whole_lags, phase.groups = self.counted.lags, self._whole_lags, self._groups


@asynccontextmanager
async def open_bench(path: Path, members: Ints, degrees: Ints, authors: Ints) -> AsyncIterator[Bench]:
    """Open a network in a process configured like that of `shoal serve`, but with a runner that reports its progress.

    `degrees` are numbers of followers.
    """
    settings = Settings(store=url_of(path), media="memory://", timeline_members=len(members))
    process.prepare()
    async with open_network(settings, background=False) as network:
        bench = Bench(network, path, members, degrees, authors)
        await bench.open_handles()
        process.settle()
        bench.runner.start()
        try:
            yield bench
        finally:
            await bench.runner.stop()


async def offered(bench: Bench, rate: float, seconds: float, at_once: int = 4_096) -> Phase:
    """Post on a schedule. At most `at_once` posts await their commit. The others wait in a queue, for at most `seconds` more."""
    phase = bench.begin()
    total, launched = int(rate * seconds), 0
    running: set[asyncio.Task[None]] = set()
    while launched < total:
        now = time.perf_counter() - phase.started
        if now > 2 * seconds:
            break
        due = min(total, int(now * rate) + 1)
        while launched < due and len(running) < at_once:
            task = asyncio.create_task(bench.post(phase, phase.started + launched / rate))
            running.add(task)
            task.add_done_callback(running.discard)
            launched += 1
        await asyncio.sleep(0.001)
    phase.missed = total - launched
    if running:
        await asyncio.wait(running)
    await bench.end(phase)
    return phase


async def full_speed(bench: Bench, writers: int, seconds: float) -> Phase:
    """Let several writers post. Each begins its next post when its last post is durable."""
    phase = bench.begin()

    async def write() -> None:
        while time.perf_counter() - phase.started < seconds:
            await bench.post(phase, time.perf_counter())

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(write())
    await bench.end(phase)
    return phase
