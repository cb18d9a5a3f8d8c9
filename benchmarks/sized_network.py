"""A network of one size in a separate process: `python -m benchmarks.sized_network SETTINGS SHAPE FOLDER`.

Each line of the input names an operation and a number of calls; each line of the output has the costs of every call. Several
sizes are measured in turn, a few calls each, so that other load on the machine affects all of them. On request, the files below
the folder are first evicted from the system's memory, as if the network were much larger than it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import uvloop

from benchmarks.made_network import FAMILY, GIVEN, TOPICS, Shape, followees_of, person
from benchmarks.measure import rss
from shoal import Shoal
from shoal.admin.consistency.check import check_sampled
from shoal.app import process
from shoal.core.model import Post
from shoal.graph.contract import Cursor
from shoal.library import Handle
from shoal.queries import home

_WARM = 50
_CROWD_WARM = 500
_PATIENCE = 600.0

CROWD = "post to the crowd"
ACTS: Mapping[str, float] = {
    "sign-up": 1,
    "name look-up": 5,
    "profile": 5,
    "follow": 1,
    "post to 400": 0.5,
    CROWD: 0.1,
    "home, warm": 5,
    "home, cold": 1,
    "For you": 0.5,
    "suggestions": 0.5,
    "search for members": 1,
    "search for posts": 1,
    "tag cloud": 5,
    "check of 10 members": 0.1,
}
"""The operations in order, each with its calls as a multiple of the usual number."""

Act = Callable[[], Awaitable["Cost"]]


class Cost(NamedTuple):
    """The milliseconds of a call, wall-clock and processor time, and the bytes that the process read from files and from the disk.

    `entries` is the length of the timeline that the call has rebuilt, `shown` the number of entries on the page.
    """

    clock: float
    processor: float
    read: int
    disk: int
    entries: int = 0
    shown: int = 0


class Told(msgspec.Struct):
    """One line of input: an operation, the number of calls, and whether the files are evicted first."""

    act: str
    times: int
    evict: bool = False


class Answer(msgspec.Struct):
    """The cost of each call, the memory of the process in bytes, and the number of wrong results."""

    costs: list[Cost]
    memory: int
    wrong: int


class SizedNetwork:
    """An open network and operations on it. Members are drawn at random, identically in each run."""

    def __init__(self, shoal: Shoal, shape: Shape) -> None:
        self._shoal = shoal
        self._shape = shape
        self._rng = np.random.default_rng(11)
        self._made = 0
        self._run = secrets.token_hex(3)
        """A name that distinguishes new members from members of an earlier run on these files."""
        self._warm: list[Handle] = []
        self._circle: list[int] = []
        self._crowd: list[Handle] = []
        self.wrong = 0
        self.acts: dict[str, Act] = dict(
            zip(
                ACTS,
                (
                    self._sign_up,
                    self._look_up,
                    self._profile,
                    self._follow,
                    self._post_to_circle,
                    self._post_to_crowd,
                    self._home_warm,
                    self._home_cold,
                    self._for_you,
                    self._suggestions,
                    self._search_members,
                    self._search_posts,
                    self._cloud,
                    self._check,
                ),
                strict=True,
            )
        )

    async def prepare(self) -> None:
        """Warm the timelines of some readers, of all followers of member 1, and of some followers of member 0."""
        blocks = followees_of(self._shape)
        # The followers of the crowd come in blocks, the first of which suffices; the circle is in one block.
        followers = {0: np.empty(0, np.int64), 1: np.empty(0, np.int64)}
        for block, followees in blocks:
            if followees[0] > 1:
                break
            followers[int(followees[0])] = block
        crowd, circle = followers.values()
        self._warm = [await self._handle() for _ in range(_WARM)]
        self._circle = [(await self._named(at)).id for at in circle.tolist()]
        self._crowd = [await self._named(at) for at in crowd[:_CROWD_WARM].tolist()]
        for member in [*self._circle, *(handle.id for handle in (*self._warm, *self._crowd))]:
            await home.warm_up(self._shoal.network.reads, member)

    async def drain(self) -> None:
        await self._shoal.network.runner.drain(_PATIENCE, busy=True)

    async def _named(self, at: int) -> Handle:
        return await self._shoal.member(person(at)[0])

    def _drawn(self) -> int:
        return int(self._rng.integers(2, self._shape.members))

    async def _handle(self) -> Handle:
        return await self._named(self._drawn())

    async def _timed(self, work: Awaitable[Any]) -> tuple[Cost, Any]:
        before, began, worked = _bytes_read(), time.perf_counter(), time.process_time()
        found = await work
        taken = (time.perf_counter() - began) * 1e3, (time.process_time() - worked) * 1e3
        read, disk = (now - then for now, then in zip(_bytes_read(), before, strict=True))
        return Cost(*taken, read, disk), found

    async def _sign_up(self) -> Cost:
        self._made += 1
        return (await self._timed(self._shoal.register(f"new_{self._run}_{self._made}")))[0]

    async def _look_up(self) -> Cost:
        at = self._drawn()
        taken, found = await self._timed(self._named(at))
        self.wrong += found.name != person(at)[0]
        return taken

    async def _profile(self) -> Cost:
        member = (await self._handle()).id
        taken, found = await self._timed(self._shoal.visitor.profile_of(member))
        self.wrong += found.member.id != member
        return taken

    async def _follow(self) -> Cost:
        one, other = await self._handle(), await self._handle()
        if one.id == other.id:
            return await self._follow()
        return (await self._timed(one.follow(other.id)))[0]

    async def _post_to_circle(self) -> Cost:
        return await self._posted(await self._named(1), self._circle)

    async def _post_to_crowd(self) -> Cost:
        return await self._posted(await self._named(0), [handle.id for handle in self._crowd])

    async def _posted(self, author: Handle, readers: list[int]) -> Cost:
        """Return the cost of a post with all its consequences."""

        async def post_and_wait() -> Post:
            post = await author.create("The ferry is late again, and the gulls have the quay to themselves.")
            await self.drain()
            return post

        taken, post = await self._timed(post_and_wait())
        for reader in readers[:5]:
            page = await (await self._shoal.member(reader)).home()
            self.wrong += post.id not in {entry.post.id for entry in page.entries}
        return taken

    async def _home_warm(self) -> Cost:
        handle = self._warm[int(self._rng.integers(len(self._warm)))]
        return (await self._timed(handle.home()))[0]

    async def _home_cold(self) -> Cost:
        handle = await self._handle()
        await self._shoal.network.timelines.drop((handle.id,))
        cost, page = await self._timed(handle.home())
        window = await self._shoal.network.timelines.read(handle.id, Cursor(limit=self._shoal.network.reads.length))
        return cost._replace(entries=0 if window is None else len(window.ids), shown=len(page.entries))

    async def _for_you(self) -> Cost:
        handle = await self._handle()
        cost, page = await self._timed(handle.for_you())
        return cost._replace(shown=len(page.entries))

    async def _suggestions(self) -> Cost:
        handle = await self._handle()
        return (await self._timed(handle.suggestions()))[0]

    async def _search_members(self) -> Cost:
        given, family = GIVEN[int(self._rng.integers(len(GIVEN)))], FAMILY[int(self._rng.integers(len(FAMILY)))]
        text = (given, family, f"{given} {family}")[int(self._rng.integers(3))]
        taken, found = await self._timed(self._warm[0].search_members(text))
        self.wrong += not found and self._shape.members > len(GIVEN) * len(FAMILY)
        return taken

    async def _search_posts(self) -> Cost:
        topic = TOPICS[int(self._rng.integers(len(TOPICS)))]
        taken, found = await self._timed(self._warm[0].search_posts(topic))
        self.wrong += not found and self._shape.posts > 10 * len(TOPICS)
        return taken

    async def _cloud(self) -> Cost:
        taken, found = await self._timed(self._shoal.tags.cloud())
        self.wrong += not found.words and self._shape.posts > 40 * len(TOPICS)
        return taken

    async def _check(self) -> Cost:
        taken, report = await self._timed(check_sampled(self._shoal.network, 10))
        self.wrong += not report.clean or report["I2"].checked != 10
        return taken


def _bytes_read() -> tuple[int, int]:
    """Return the bytes that this process has read from files, and those of them that the system had to read from a disk."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text("utf-8").splitlines())
    return int(counts["rchar"]), int(counts["read_bytes"])


def _evict(folder: Path) -> None:
    """Remove the files below a folder from the system's memory."""
    for path in folder.rglob("*"):
        # The server may delete its files at any time.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                file = os.open(path, os.O_RDONLY)
                # Only pages that are on the disk can be evicted.
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)


async def _serve(settings: dict[str, Any], shape: Shape, folder: Path) -> None:
    process.prepare()
    async with _opened(settings, shape) as network:
        process.settle()
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            told = msgspec.json.decode(line, type=Told)
            if told.evict:
                _evict(folder)
            act = network.acts[told.act]
            costs = [await act() for _ in range(told.times)]
            # Consequences of these calls must not overlap with the next ones.
            await network.drain()
            answer = Answer(costs, rss(), network.wrong)
            print(msgspec.json.encode(answer).decode(), flush=True)


@asynccontextmanager
async def _opened(settings: dict[str, Any], shape: Shape) -> AsyncIterator[SizedNetwork]:
    store = settings.pop("store")
    async with Shoal.open(store, media="memory://", **settings) as shoal:
        network = SizedNetwork(shoal, shape)
        await network.prepare()
        yield network


if __name__ == "__main__":
    uvloop.run(
        _serve(msgspec.json.decode(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=Shape), Path(sys.argv[3]))
    )
