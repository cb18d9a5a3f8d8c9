"""The nine queries of a network in one DynamoDB table: requests and read capacity of each.

DynamoDB Local executes them for a visitor, and home for a member, in a process with empty caches (cold) and once more (warm). The
network has one member with enough followers, posts, likes and comments to fill every page of 20 posts or 25 members. Capacity is
that of strongly consistent reads, one unit per 4 KB of an item, as reported by the service. `raw engine` is the capacity of one
consistent `Query` whose items contain the whole page, denormalized on every change.

At the end, two processes of one network with version tokens and timelines on Redis each request home: twice, until everything is
cached, and once more (warm).
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import msgspec

from benchmarks.measure import Report, parser, workplace
from benchmarks.shared_engines import engines
from shoal import Handle, Shoal
from shoal.app.network import open_network
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Store
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.redis.client import Nodes
from shoal.settings import build
from shoal_devcluster import dynamodb

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
"""DynamoDB Local accepts any credentials."""
_UNIT = 4_096

Question = Callable[[Shoal, Handle], Awaitable[Any]]


class Asked(NamedTuple):
    """Requests and read units of a query, and its result."""

    requests: int
    units: float
    answer: Any


class CountedScripts:
    """A counter of the scripts that run on Redis."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        run = Nodes._run

        async def script(nodes: Nodes, *values: Any, **more: Any) -> Any:
            self.count += 1
            return await run(nodes, *values, **more)

        with patch.object(Nodes, "_run", script):
            yield


class Filled(NamedTuple):
    """Ids of a member with followers, of one of their posts, and of a reader of that post."""

    star: int
    post: int
    reader: int


async def fill(url: str, people: int) -> Filled:
    """Create the network: every member follows the star, is followed back, and likes and comments."""
    async with Shoal.open(url) as shoal:
        star = await shoal.register("star")
        others = [await shoal.register(f"member_{n}") for n in range(people)]
        for n, other in enumerate(others):
            await other.follow(star)
            await star.follow(other)
            await star.create(f"The boats lie on the sand, number {n}, and the light goes gray over the harbour wall")
        post = await star.create("Low tide at the harbour wall")
        for other in others:
            await other.like(post)
            await other.comment(post, "And the gulls have the quay to themselves")
        await shoal.settle()
        return Filled(star.id, post.id, others[0].id)


def questions(filled: Filled) -> dict[str, Question]:
    """Return the nine queries by name."""
    star, post = filled.star, filled.post
    return {
        "a profile, by its id": lambda shoal, _: shoal.visitor.profile_of(star),
        "a member, by their name": lambda shoal, _: shoal.member("star"),
        "followers": lambda shoal, _: shoal.visitor.followers_of(star),
        "followees": lambda shoal, _: shoal.visitor.following_of(star),
        "posts of a member": lambda shoal, _: shoal.visitor.posts_by(star),
        "a post": lambda shoal, _: shoal.visitor.read(post),
        "who likes a post": lambda shoal, _: shoal.visitor.liked_by(post),
        "comments of a post": lambda shoal, _: shoal.visitor.replies(post),
        "home": lambda _, reader: reader.home(),
    }


async def ask(url: str, question: Question, reader: int, *, times: int) -> list[Asked]:
    """Run a query `times` times in a newly opened network."""
    async with Shoal.open(url, run_consequences=False) as shoal:
        handle = await shoal.member(reader)
        spent, found = _graph(shoal.network.store).capacity, []
        for _ in range(times):
            requests, units = spent.requests.total(), spent.reads
            answer = await question(shoal, handle)
            found.append(Asked(spent.requests.total() - requests, spent.reads - units, answer))
        return found


def _graph(store: Store) -> DynamoGraph:
    """Return the graph below the cache."""
    return cast("DynamoGraph", cast("CachedGraph", store)._store)


def size(answer: Any) -> int:
    """Return the approximate size of a result in bytes."""
    return len(msgspec.json.encode(answer, enc_hook=lambda thing: getattr(thing, "id", str(thing))))


async def run(url: str, cache: str, people: int, report: Report) -> None:
    filled = await fill(url, people)
    # The star has one more post than there are other members, and a home page includes its reader's comment.
    pages = {
        "followers": min(people, 25),
        "followees": min(people, 25),
        "who likes a post": min(people, 25),
        "posts of a member": min(people + 1, 20),
        "comments of a post": min(people, 20),
        "home": min(people + 2, 20),
    }
    for name, question in questions(filled).items():
        cold, warm = await ask(url, question, filled.reader, times=2)
        bare = math.ceil(size(cold.answer) / _UNIT)
        report.add(f"{name}: requests, cold", cold.requests, raw=1)
        report.add(f"{name}: requests, warm", warm.requests)
        report.add(f"{name}: read units, cold", cold.units, raw=bare)
        report.add(f"{name}: read units, warm", warm.units)
        report.check(f"{name}: asked twice, with the same answer", size(warm.answer) == size(cold.answer), 1)
        if name in pages:
            report.check(f"{name}: on the page", _rows(cold.answer), pages[name])
    await among_several(url, cache, filled, report)


async def among_several(url: str, cache: str, filled: Filled, report: Report) -> None:
    """Request a home page in each of two processes that share the table."""
    settings = build(store=url, timelines=cache, media="memory://", rate_limits=False, run_consequences=False)
    async with AsyncExitStack() as stack:
        networks = [await stack.enter_async_context(open_network(settings)) for _ in range(2)]
        sizes: set[int] = set()
        requests, scripts = 0, CountedScripts()
        for network in networks:
            reader = await Shoal(network).member(filled.reader)
            spent = _graph(network.store).capacity.requests
            for _ in range(2):
                await reader.home()
            before = spent.total()
            with scripts.counted():
                sizes.add(_rows(await reader.home()))
            requests += spent.total() - before
        report.add("home, one of two processes: requests, warm", requests / len(networks))
        report.add("home, one of two processes: scripts on Redis, warm", scripts.count / len(networks))
        report.check("home: sizes of pages in two processes", len(sizes), 1)


def _rows(page: Any) -> int:
    """Return the number of posts or members on a page."""
    return len(page.entries if hasattr(page, "entries") else page.profiles)


def main() -> None:
    options = parser(__doc__, quick={"people": 30}, smallest={"people": 5})
    options.add_argument("--people", type=int, default=30, help="who follow, like and comment")
    chosen = options.parse_args()
    report = Report("dynamodb_queries", chosen.size)
    os.environ.update(_CREDENTIALS)
    with workplace(None) as place:
        server = dynamodb.start(place / "dynamodb", durable=False)
        try:
            url = f"dynamodb://shoal?region=local&endpoint={server.url}"
            with engines(0) as of:
                asyncio.run(run(url, of.redis.url, chosen.people, report))
        finally:
            server.stop()
    report.show()


if __name__ == "__main__":
    main()
