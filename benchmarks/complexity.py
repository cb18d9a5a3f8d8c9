"""Costs of calls as content, followers and followees grow: the eight calls of the planet-scale UGC document, and the questions of
the photo feed document, which are the newest 10, the newest k of many lists, and totals of likes and shares.

Each size has two networks on SQLite: in one, an author and the followees of a reader have more and more posts, and in the other a
star has more and more followers, and a member more and more followees. Work that a call does before it returns (online) is apart
from its consequences (offline). Followers have timelines of 40 entries in memory, so that a million fit.
docs/explanation/complexity.md shows the results as tables and curves.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import uvloop

from benchmarks import growth, top_k
from benchmarks.growth import AUTHOR, CROWD, CURIOUS, FANS, FOLLOWEES, READER, STAR, STRANGER, Act, Cost, Phases
from benchmarks.measure import Report, keep_option, parser, spread, workplace
from benchmarks.page import BUSY_FIGURE, SECONDS_FIGURE
from benchmarks.results import busy_share
from benchmarks.stores import ids_of, numbered, post_id, url_of
from shoal.app import process
from shoal.app.network import Network, open_network
from shoal.core.model import Post
from shoal.graph.schema import FOLLOWS, LIKED_BY, POSTED, SHARED_BY
from shoal.graph.sqlite import sql
from shoal.library import Handle, Shoal
from shoal.queries import home
from shoal.settings import Settings

_PAGE = 20
_TEN = 10
_TIMELINE = 40
_SECONDS = 5.0
"""Seconds after which a call is no longer repeated."""
_TEXT = "Low tide: the boats lie on the sand and wait, and the light goes gray at six."

_FEED_QUERY = f"""
    SELECT id2 FROM association WHERE atype = {POSTED.number} AND alive = {sql.IN_PLACE} AND id1 IN (
        SELECT id2 FROM association WHERE id1 = ? AND atype = {FOLLOWS.number} AND alive = 1)
    ORDER BY id2 DESC LIMIT {_TEN}"""  # noqa: S608  # numbers only
"""The query of the photo feed document. Ids take the place of times."""
_LIKES_QUERY = f"SELECT count(*) FROM association WHERE id1 = ? AND atype = {LIKED_BY.number} AND alive = 1"  # noqa: S608
_TOTAL_QUERY = f"""
    SELECT sum(counts.time) FROM association AS posts JOIN association AS counts
    ON counts.id1 = posts.id2 AND counts.atype = {LIKED_BY.number} AND counts.id2 = {sql.LAST}
    WHERE posts.id1 = ? AND posts.atype = {POSTED.number} AND posts.alive = {sql.IN_PLACE}"""  # noqa: S608


class Actor:
    """The calls of one member, each of which can be repeated."""

    def __init__(self, me: Handle) -> None:
        self._me = me
        self._post: Post | None = None

    @property
    def post(self) -> Post:
        assert self._post is not None
        return self._post

    async def create(self) -> None:
        self._post = await self._me.create(_TEXT)

    async def update(self) -> None:
        await self._me.update(self.post, f"{_TEXT} {time.monotonic_ns()}")

    async def delete(self) -> None:
        await self._me.delete(self.post)


@asynccontextmanager
async def opened(path: Path, members: int) -> AsyncIterator[Shoal]:
    memory = "memory://"
    settings = Settings(
        store=url_of(path),
        media=memory,
        search=memory,
        tags=memory,
        timeline_length=_TIMELINE,
        timeline_members=members + 16,
        max_follows=10 * members + 1_000,
        most_behind_seconds=0,
    )
    async with open_network(settings, background=False) as network:
        yield Shoal(network)


def tell(report: Report, call: str, phase: str, cost: Cost, size: int) -> None:
    for what, value, unit in (
        ("statements", cost.statements, ""),
        ("steps", cost.steps, ""),
        ("rows changed", cost.rows, ""),
        ("processor time", cost.cpu, "us"),
    ):
        report.add(f"{call}, {phase}: {what}, {size:,}", value, unit)


def tell_phases(report: Report, costs: Mapping[str, Phases], grows: str, size: int, *, online: Sequence[str]) -> None:
    """Add the figures of several calls; those in `online` have no consequences."""
    for call, cost in costs.items():
        tell(report, f"{call} by {grows}", "online", cost.online, size)
        if call not in online:
            tell(report, f"{call} by {grows}", "offline", cost.offline, size)


async def by_content(path: Path, posts: int, times: int, report: Report) -> None:
    """Measure calls of an author with this number of posts, and of a reader whose followees have as many together."""
    ids = ids_of(numbered(READER + 1 + FANS)).tolist()
    mine = growth.newest_first(path, [ids[AUTHOR]])
    feed = growth.newest_first(path, ids[1 : FOLLOWEES + 1])
    at = posts // 2
    async with opened(path, READER + 1 + FANS) as shoal:
        network = shoal.network
        author, reader = await shoal.member(ids[AUTHOR]), await shoal.member(ids[READER])
        for fan in range(FANS + 1):
            await (await shoal.member(ids[READER + fan])).home()
        async with first_read(network, report, "list_recent(n/2, n/2 + 19)", posts):
            entries = await author.list_recent(at, at + _PAGE - 1)
        report.check(f"list_recent, {posts:,}: wrong entries", _wrong(entries, mine[at : at + _PAGE]), 0)
        async with first_read(network, report, "list_public_feed(n/2, n/2 + 19)", posts):
            entries = await reader.list_public_feed(at, at + _PAGE - 1)
        report.check(f"list_public_feed, {posts:,}: wrong entries", _wrong(entries, feed[at : at + _PAGE]), 0)
        newest = await reader.home(limit=_TEN)
        report.check(f"newest 10, {posts:,}: wrong entries", _wrong(newest.entries, feed[:_TEN]), 0)

        actor = Actor(author)
        some = iter(np.random.default_rng(8).permutation(mine).tolist())
        reads: dict[str, Act] = {
            "read": lambda: reader.read(next(some)),
            "list_recent(n/2, n/2 + 19)": partial(author.list_recent, at, at + _PAGE - 1),
            "list_public_feed(0, 19)": partial(reader.list_public_feed, 0, _PAGE - 1),
            "list_public_feed(n/2, n/2 + 19)": partial(reader.list_public_feed, at, at + _PAGE - 1),
            "newest 10": partial(reader.home, limit=_TEN),
            "newest 10 by merge": partial(home.pulled, network.reads, reader.id, _TEN),
            "totals, stored": partial(network.memory.uncached().assoc_count, (author.id,), (LIKED_BY, SHARED_BY)),
        }
        calls: dict[str, Act] = {
            "create": actor.create,
            "update": actor.update,
            **reads,
            "delete": actor.delete,
            "follow": partial(reader.follow, author),
            "unfollow": partial(reader.unfollow, author),
        }
        costs = await growth.costs_of(network, calls, times, _SECONDS)
        tell_phases(report, costs, "content", posts, online=tuple(reads))
    cost, rows = growth.cost_of_query(path, _FEED_QUERY, (reader.id,), times, _SECONDS)
    report.check(f"newest 10 by query, {posts:,}: wrong entries", [id_ for (id_,) in rows] != feed[:_TEN], 0)
    tell(report, "newest 10 by query by content", "online", cost, posts)
    cost, _ = growth.cost_of_query(path, _TOTAL_QUERY, (author.id,), times, _SECONDS)
    tell(report, "totals, summed by content", "online", cost, posts)


@asynccontextmanager
async def first_read(network: Network, report: Report, call: str, size: int) -> AsyncIterator[None]:
    """Count the work of the first read of a list by position, which counts the entries of the list."""
    async with growth.counting(network) as meter:
        yield
        cost = meter.cost()
    report.add(f"{call} by content, first: steps, {size:,}", cost.steps)
    report.add(f"{call} by content, first: rows changed, {size:,}", cost.rows)


def _wrong(found: Sequence[object], wanted: Sequence[int]) -> bool:
    return [getattr(entry, "id", None) for entry in found] != list(wanted)


async def by_members(path: Path, size: int, times: int, report: Report) -> None:
    """Measure calls of a star with this number of followers, and of a member with as many followees."""
    names = numbered(CROWD + size)
    ids = ids_of(names).tolist()
    feed = growth.newest_first(path, ids[CROWD:]) if size <= 100 else []
    at = size // 2
    async with opened(path, size) as shoal:
        network = shoal.network
        star, curious, fan = [await shoal.member(ids[position]) for position in (STAR, CURIOUS, CROWD)]
        for id_ in ids[CROWD:]:
            await network.timelines.create(id_)
        await network.timelines.drop((fan.id,))
        await curious.home()
        await fan.home()
        actor = Actor(star)
        await star.create(_TEXT)
        await growth.drain(network)
        pushed = network.reads.push_counter.pushed
        await star.create(_TEXT)
        await growth.drain(network)
        pushed = network.reads.push_counter.pushed - pushed
        report.check(f"pushes of a post, {size:,}", pushed, size if size <= network.settings.high_fan_out_from else 0)
        report.add(f"create by followers, offline: pushes, {size:,}", pushed)
        costs = await growth.costs_of(network, {"create": actor.create, "delete": actor.delete}, times, _SECONDS)
        tell_phases(report, costs, "followers", size, online=())
        liked = post_id(size, ids[STAR])
        stranger = await shoal.member(ids[STRANGER])
        calls: dict[str, Act] = {
            "follow": partial(stranger.follow, star),
            "unfollow": partial(stranger.unfollow, star),
            "like": partial(stranger.like, liked),
            "unlike": partial(stranger.unlike, liked),
        }
        costs = await growth.costs_of(network, calls, times, _SECONDS)
        tell_phases(report, costs, "followers", size, online=())
        total = await network.memory.uncached().assoc_count((star.id, liked), (LIKED_BY,))
        report.check(f"likes of the star, {size:,}", total[LIKED_BY][star.id], size)
        reads: dict[str, Act] = {
            "newest 10": partial(curious.home, limit=_TEN),
            "newest 10 by merge": partial(home.pulled, network.reads, curious.id, _TEN),
            "list_public_feed(0, 19)": partial(curious.list_public_feed, 0, _PAGE - 1),
            "list_public_feed(n/2, n/2 + 19)": partial(curious.list_public_feed, at, at + _PAGE - 1),
        }
        if feed:
            entries = await curious.list_public_feed(at, at + _PAGE - 1)
            report.check(
                f"list_public_feed, {size:,} followees: wrong entries", _wrong(entries, feed[at : at + _PAGE]), 0
            )
        calls = {"follow": partial(curious.follow, star), "unfollow": partial(curious.unfollow, star)}
        # Measure these apart from the reads: a turn with reads of a million lists takes so long that there would be only one.
        costs = await growth.costs_of(network, calls, times, _SECONDS)
        costs |= await growth.costs_of(network, reads, times, _SECONDS)
        tell_phases(report, costs, "followees", size, online=tuple(reads))
    cost, _ = growth.cost_of_query(path, _FEED_QUERY, (curious.id,), times, _SECONDS)
    tell(report, "newest 10 by query by followees", "online", cost, size)
    cost, rows = growth.cost_of_query(path, _LIKES_QUERY, (liked,), times, _SECONDS)
    report.check(f"likes counted, {size:,}", rows[0][0], size)
    tell(report, "likes, counted by likes", "online", cost, size)


async def of_lists(lists: int, times: int, report: Report) -> None:
    """Measure the newest k of this number of lists, of k entries each, in three ways."""
    made = top_k.Lists(lists, _TEN)
    wanted: list[int] | None = None
    ways = {"bounded reads": top_k.ours, "bucket sort": top_k.by_bucket_sort, "heap": top_k.by_heap}
    for way, act in ways.items():
        taken: list[float] = []
        began = time.monotonic()
        while len(taken) < times and (not taken or time.monotonic() - began < _SECONDS):
            made.read = 0
            before = time.process_time()
            found = await act(made, _TEN)
            taken.append(time.process_time() - before)
            wanted = wanted or found
            report.check(f"top 10 by {way}, {lists:,}: wrong", found != wanted, 0)
        report.add(f"top 10 by {way}: entries read, {lists:,}", made.read)
        report.add(f"top 10 by {way}: processor time, {lists:,}", spread(taken).median * 1e6, "us")


async def measure(place: Path, chosen: argparse.Namespace, report: Report) -> None:
    process.prepare()
    for size in chosen.sizes:
        content, crowd = place / f"content-{size}.db", place / f"crowd-{size}.db"
        growth.build_content(content, size)
        await by_content(content, size, chosen.times, report)
        growth.build_crowd(crowd, size)
        await by_members(crowd, size, chosen.times, report)
        await of_lists(size, chosen.times, report)


def main() -> None:
    options = parser(
        __doc__,
        quick={"sizes": [100, 1_000, 10_000], "times": 5},
        smallest={"sizes": [60, 100], "times": 1},
    )
    keep_option(options)
    options.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[10**power for power in range(2, 7)],
        help="numbers of posts, followers or followees to measure",
    )
    options.add_argument(
        "--times", type=int, default=15, help="number of calls per measurement; the median is reported"
    )
    chosen = options.parse_args()
    report = Report("complexity", chosen.size)
    report.add(BUSY_FIGURE, busy_share())
    began = time.perf_counter()
    with workplace(chosen.keep) as place:
        uvloop.run(measure(place, chosen, report))
    report.add(SECONDS_FIGURE, time.perf_counter() - began, "s")
    report.show()


if __name__ == "__main__":
    main()
