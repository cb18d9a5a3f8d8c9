"""I4, with real processes: every use is counted once, although emitters and collectors are killed at random times.

Tag uses of real posts go through 20 emitter processes, RabbitMQ and 3 collector processes into one store: those of every fourth
post, and in `make test-all` all of them. Some jobs are given to two emitters, and some posts are deleted.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest

from shoal.core.text import canonical_tag
from shoal.tagcloud.contract import DAY_MS, TagChange, Use
from shoal.tagcloud.rabbitmq import RabbitTransport
from shoal.tagcloud.sqlite import SqliteCloud
from tests.async_runner import eventually, run
from tests.engines import rabbitmq
from tests.faults.tag_processes import NOW, Job, SharedBroker, collect, emit
from tests.real_data import real_data
from tests.tagcloud.recount import differences, horizon_at, recounted, stored_rows

FILE = "posts/photos_cc0_pdm.jsonl.gz"
POSTS, USES = 26_293, 237_351
EVERY = 4
EMITTERS, COLLECTORS = 20, 3
EMITTER_KILLS, VERSIONS_A_KILL = 40, 4
ALONE_AFTER = 8
DAYS = 12
"""The posts are spread over this number of days: some are too old for the daily counts."""
_POSTS_A_JOB = 40

_processes = multiprocessing.get_context("forkserver")
# Workers are forked from a process with all imports done, which takes a few milliseconds each.
_processes.set_forkserver_preload(["tests.faults.tag_processes"])


class Crew:
    """All processes. At random times, a process is killed and replaced."""

    def __init__(self, shared: SharedBroker, jobs: int, random: Random) -> None:
        self._place = shared
        self._random = random
        self._every = jobs / (EMITTER_KILLS + 1)
        self.emitters_killed = self.collectors_killed = 0
        self._emitters = {number: self._emitter(number) for number in range(EMITTERS)}
        self._collectors = [self._collector() for _ in range(COLLECTORS)]

    def _emitter(self, number: int) -> BaseProcess:
        return _started(_processes.Process(target=emit, args=(self._place, number)))

    def _collector(self) -> BaseProcess:
        return _started(_processes.Process(target=collect, args=(self._place,)))

    async def emitted(self) -> None:
        """Wait until every emitter has sent its jobs; kill an emitter at regular intervals of jobs."""
        deadline = time.monotonic() + 600
        while busy := [number for number, process in self._emitters.items() if process.is_alive()]:
            assert time.monotonic() < deadline, f"the emitters {busy} have not sent their jobs"
            safe = sum(len(self._place.safe(number)) for number in range(EMITTERS))
            if safe > self._every * (self.emitters_killed + 1):
                self.emitters_killed += 1
                number = self._random.choice(busy)
                _kill(self._emitters[number])
                self._emitters[number] = self._emitter(number)
            await asyncio.sleep(0.005)
        assert [process.exitcode for process in self._emitters.values()] == [0] * EMITTERS

    async def kill_collectors(self, store: SqliteCloud) -> None:
        """Kill a collector after every few versions, at a random moment.

        Three collectors could hide a message that one of them acknowledged too early; so a single collector runs at the end.
        """
        while True:
            if await store.version() > VERSIONS_A_KILL * (self.collectors_killed + 1):
                await asyncio.sleep(self._random.random() * 0.3)
                self.collectors_killed += 1
                if self.collectors_killed == ALONE_AFTER:
                    while len(self._collectors) > 1:
                        _kill(self._collectors.pop())
                at = self._random.randrange(len(self._collectors))
                _kill(self._collectors[at])
                self._collectors[at] = self._collector()
            await asyncio.sleep(0.01)

    def end(self) -> None:
        """Kill all remaining processes."""
        for process in [*self._emitters.values(), *self._collectors]:
            _kill(process)


def _started(process: BaseProcess) -> BaseProcess:
    process.start()
    return process


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


@pytest.fixture(params=[pytest.param(EVERY, id="slice"), pytest.param(1, id="whole", marks=pytest.mark.deep)])
def every(request: pytest.FixtureRequest) -> int:
    """Return n, where the tags of every nth post are used."""
    return int(request.param)


@pytest.fixture
def uses(every: int) -> list[Use]:
    """Return the uses of tags in posts, in order; every 25th post is deleted some time later."""
    with gzip.open(real_data(FILE) / FILE, "rt") as file:
        posts = sorted((json.loads(line) for line in file), key=lambda post: datetime.fromisoformat(post["created_at"]))
    found = [use for at, post in enumerate(posts[::every]) for use in _uses(at, post, every)]
    used = sum(change.by > 0 for use in found for change in use.changes)
    assert used == USES if every == 1 else used > USES // (2 * every)
    return sorted(found, key=lambda use: use.at)


def _uses(at: int, post: dict[str, object], every: int) -> Iterator[Use]:
    age = POSTS - at * every
    written = NOW - age * (DAYS * DAY_MS // POSTS)
    tags, author = post["tags"], post["user_id"]
    assert isinstance(tags, list)
    assert isinstance(author, int)
    # Some are too long to be tags; here they are counted like the others.
    changes = [TagChange(canonical_tag(tag) or tag.lower(), tag, 1) for tag in tags]
    yield Use(at + 1, 1, author, written, NOW - age * 200, tuple(changes))
    if at % 25 == 0:
        gone = tuple(change._replace(by=-1) for change in changes)
        yield Use(at + 1, 2, author, written, NOW - max(0, age - 500) * 200, gone)


def test_tag_cloud_counts_every_use_once_despite_process_kills(uses: list[Use], every: int, tmp_path: Path) -> None:
    shared = SharedBroker(rabbitmq.node().url, rabbitmq.namespace(), tmp_path, every)
    random = Random(20)
    jobs = [Job(at, uses[at : at + _POSTS_A_JOB]) for at in range(0, len(uses), _POSTS_A_JOB)]
    shares: list[list[Job]] = [[] for _ in range(EMITTERS)]
    for at, job in enumerate(jobs):
        for other in range(1 + (random.random() < 0.1)):
            shares[(at + other * 7) % EMITTERS].append(job)
    for number, share in enumerate(shares):
        shared.hand_out(number, share)
    run(_counted(shared, uses, sum(map(len, shares)), random))


async def _counted(shared: SharedBroker, uses: list[Use], jobs: int, random: Random) -> None:
    # Opened before the processes start, which declare these objects too; read at the end.
    store = await SqliteCloud.open(shared.cloud)
    watcher = await RabbitTransport.open(shared.url, shared.namespace, collecting=False)
    with _at_work(shared, jobs, random) as crew:
        killing = asyncio.create_task(crew.kill_collectors(store))
        await crew.emitted()
        await eventually(watcher.waiting, 0, 120.0)
        killing.cancel()
        assert crew.emitters_killed >= EMITTER_KILLS // 2
        assert crew.collectors_killed >= ALONE_AFTER + 5
    stored = await stored_rows(store)
    assert not differences(stored, recounted(uses, horizon_at(NOW)), NOW)
    assert sum(row.n for row in stored.values()) == sum(change.by for use in uses for change in use.changes)
    await watcher.close()
    await store.close()


@contextmanager
def _at_work(shared: SharedBroker, jobs: int, random: Random) -> Iterator[Crew]:
    crew = Crew(shared, jobs, random)
    try:
        yield crew
    finally:
        crew.end()
