"""I4, with real processes: whoever of the emitters and collectors is killed, and whenever, every use is counted once.

All tag uses of the real posts go through 20 emitter processes, RabbitMQ and 3 collector processes into one store. Some jobs are
given to two emitters, and some posts are taken back.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import pytest
from tests.engines import rabbitmq
from tests.faults.tag_processes import NOW, Job, Place, collect, emit
from tests.real_data import real_data
from tests.running import eventually, run
from tests.tagcloud.recount import differences, horizon_at, recounted, stored_rows

from shoal.core.text import canonical_tag
from shoal.tagcloud.increment import DAY_MS, TagChange, Use
from shoal.tagcloud.rabbitmq import RabbitTransport
from shoal.tagcloud.sqlite import SqliteCloud

FILE = "posts/photos_cc0_pdm.jsonl.gz"
POSTS, USES = 26_293, 237_351
EMITTERS, COLLECTORS = 20, 3
KILLS = 60
DAYS = 12
"""The posts are told as if they had been written in so many days: some of them are too old to be counted by day."""
_POSTS_A_JOB = 40

_processes = multiprocessing.get_context("forkserver")
# They are forked from one that has imported everything: each costs some milliseconds.
_processes.set_forkserver_preload(["tests.faults.tag_processes"])


class Crew:
    """All processes. Every so many jobs one of them is killed, and another takes its place."""

    def __init__(self, place: Place, jobs: int, random: Random) -> None:
        self._place = place
        self._random = random
        self._every = jobs / (KILLS + 1)
        self.kills = 0
        self._emitters = {number: self._emitter(number) for number in range(EMITTERS)}
        self._collectors = [self._collector() for _ in range(COLLECTORS)]

    def _emitter(self, number: int) -> BaseProcess:
        return self._started(_processes.Process(target=emit, args=(self._place, number)))

    def _collector(self) -> BaseProcess:
        return self._started(_processes.Process(target=collect, args=(self._place,)))

    @staticmethod
    def _started(process: BaseProcess) -> BaseProcess:
        process.start()
        return process

    async def emitted(self) -> None:
        """Until every emitter has sent its share."""
        while any(process.is_alive() for process in self._emitters.values()):
            safe = sum(len(self._place.safe(number)) for number in range(EMITTERS))
            if safe > self._every * (self.kills + 1):
                self.kill_one()
            await asyncio.sleep(0.005)
        assert [process.exitcode for process in self._emitters.values()] == [0] * EMITTERS

    def kill_one(self) -> None:
        """Every third time a collector, and otherwise an emitter that has something left."""
        self.kills += 1
        busy = [number for number, process in self._emitters.items() if process.is_alive()]
        if self.kills % 3 == 0 or not busy:
            self.kill_a_collector()
            return
        number = self._random.choice(busy)
        _kill(self._emitters[number])
        self._emitters[number] = self._emitter(number)

    def kill_a_collector(self) -> None:
        """And start another."""
        at = self._random.randrange(COLLECTORS)
        _kill(self._collectors[at])
        self._collectors[at] = self._collector()

    def end(self) -> None:
        """Kill all that are left."""
        for process in [*self._emitters.values(), *self._collectors]:
            _kill(process)


def _kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


@pytest.fixture
def uses() -> list[Use]:
    """What happened to the tags of all posts, in order; every 25th post is taken back some time later."""
    with gzip.open(real_data(FILE) / FILE, "rt") as file:
        posts = sorted((json.loads(line) for line in file), key=lambda post: datetime.fromisoformat(post["created_at"]))
    found = [use for at, post in enumerate(posts) for use in _uses(at, post)]
    assert sum(change.by > 0 for use in found for change in use.changes) == USES
    return sorted(found, key=lambda use: use.at)


def _uses(at: int, post: dict[str, object]) -> Iterator[Use]:
    age = POSTS - at
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


def test_every_use_is_counted_once_whoever_is_killed(uses: list[Use], tmp_path: Path) -> None:
    place = Place(rabbitmq.node().url, rabbitmq.namespace(), tmp_path)
    random = Random(20)
    jobs = [Job(at, uses[at : at + _POSTS_A_JOB]) for at in range(0, len(uses), _POSTS_A_JOB)]
    shares: list[list[Job]] = [[] for _ in range(EMITTERS)]
    for at, job in enumerate(jobs):
        for other in range(1 + (random.random() < 0.1)):
            shares[(at + other * 7) % EMITTERS].append(job)
    for number, share in enumerate(shares):
        place.hand_out(number, share)
    run(_counted(place, uses, sum(map(len, shares)), random))


async def _counted(place: Place, uses: list[Use], jobs: int, random: Random) -> None:
    # Made before they start: it is declared by whoever comes first, and read at the end.
    store = await SqliteCloud.open(place.cloud)
    watcher = await RabbitTransport.open(place.url, place.namespace, collecting=False)
    with _at_work(place, jobs, random) as crew:
        await crew.emitted()
        assert crew.kills >= KILLS // 2
        crew.kill_a_collector()
        await eventually(watcher.waiting, 0, 120.0)
    stored = await stored_rows(store)
    assert not differences(stored, recounted(uses, horizon_at(NOW)), NOW)
    assert sum(row.n for row in stored.values()) == sum(change.by for use in uses for change in use.changes)
    await watcher.close()
    await store.close()


@contextmanager
def _at_work(place: Place, jobs: int, random: Random) -> Iterator[Crew]:
    crew = Crew(place, jobs, random)
    try:
        yield crew
    finally:
        crew.end()
