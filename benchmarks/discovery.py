"""For you: the matrix of a thousand candidates, ranked pages of many members on SQLite, and the following pages.

The network is the real graph with a post by each of its real authors and more by others. Each reader likes some posts of their
followees, so that there are friends who like, affinities and people in common. A cold page is for a member without cached
interests; a warm page is for a member who returns within ten minutes: their recent actions are read again, but the follows of
their followees are cached. The process has served other readers before and is tuned like `shoal serve`. The raw engine fetches
the posts of the ranking and their authors, one by one, from bare SQLite.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from benchmarks.measure import REAL_DATA, Report, held_bytes, parser, spread, workplace
from benchmarks.stores import Ints, build, ids_of, numbered, post_id, power_law, real_graph, url_of
from shoal import Shoal
from shoal.app import process
from shoal.commands import reactions
from shoal.core.feeds.expressions import TERMS, contributions, parse
from shoal.core.feeds.expressions import scores as expression_scores
from shoal.core.ranking import terms
from shoal.core.ranking.recipes import BALANCED
from shoal.core.ranking.terms import CandidateFacts
from shoal.queries.context import ExpiringCache, Reads
from shoal.queries.foryou import feed
from shoal.queries.foryou.ranking import ReadingCursor, decode_cursor, decode_reading

_CANDIDATES = 1_000
_LIKES = 10
"""Number of likes of each friend."""
_DEADLINE = 60.0
_EXPRESSION_CANDIDATES = 1_500
_EXPRESSION = (
    "5 * exp(-age_hours / $half_life) + log(1 + likes + 2 * shares) + if(follows_author, 2, 0) - if(has(tags, 'ads'), 10, 0)"
    " + min(media_count, 4) / 2 + 3 * clamp(author_interest + tag_interest, -1, 1) + if(language == 'de' and not reply, 1, 0)"
)


def matrix(report: Report, calls: int) -> None:
    rng = np.random.default_rng(1)
    facts = CandidateFacts(*rng.random((len(CandidateFacts._fields), _CANDIDATES)) * 10)
    scored, plain = [], []
    values = rng.random((_CANDIDATES, len(terms.TERMS)))
    for _ in range(calls):
        began = time.perf_counter()
        found = terms.values(facts, half_life_hours=BALANCED.half_life_hours, near_km=BALANCED.near_km)
        scores = terms.scores(terms.contributions(found, BALANCED))
        terms.best_first(scores, np.arange(_CANDIDATES))
        between = time.perf_counter()
        values @ np.array(BALANCED.row())
        plain.append(time.perf_counter() - between)
        scored.append(between - began)
    report.add(
        f"{_CANDIDATES:,} candidates scored, median",
        spread(scored).median * 1e3,
        "ms",
        raw=spread(plain).median * 1e3,
    )


def expression(report: Report, calls: int) -> None:
    """Score candidates by an expression of a named feed, and explain them. Measures processor time."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {}
    for name, type_ in TERMS.items():
        if type_ == "tags":
            columns[name] = [("bread", "cake")] * _EXPRESSION_CANDIDATES
        elif type_ == "text":
            columns[name] = np.array(["de"] * _EXPRESSION_CANDIDATES)
        else:
            values = rng.random(_EXPRESSION_CANDIDATES) * 10
            columns[name] = values if type_ == "number" else values > 5
    parsed = parse(_EXPRESSION, {"half_life": "number"})
    ids = np.arange(_EXPRESSION_CANDIDATES)
    times = []
    for _ in range(calls):
        began = time.process_time()
        contributed = contributions(parsed, columns, {"half_life": 24.0}, _EXPRESSION_CANDIDATES)
        order = terms.best_first(expression_scores(contributed), ids)
        explained = contributed[order].tolist()
        times.append(time.process_time() - began)
        assert len(explained[0]) == len(parsed.summands)
    report.add(
        f"{_EXPRESSION_CANDIDATES:,} candidates scored by an expression and explained, CPU, median",
        spread(times).median * 1e3,
        "ms",
    )


def network(path: Path, members: int, posts: int) -> tuple[Ints, Ints, Ints]:
    """Create the store; return the ids of the members, the follows as positions, and the author of each post."""
    names, follows = (numbered(members), power_law(members, 10 * members)) if members else real_graph(REAL_DATA)
    authors = np.random.default_rng(2).permutation(np.resize(np.arange(len(names)), posts)).astype(np.int64)
    build(path, names, follows, authors)
    return ids_of(names), follows, authors


def _readers(follows: Ints, most: int) -> Ints:
    """Return the positions of members with 50 to 600 followees, or with the most."""
    who, numbers = np.unique(follows[:, 0], return_counts=True)
    usual = who[(numbers >= 50) & (numbers <= 600)]
    return np.random.default_rng(3).permutation(usual if len(usual) >= most else who[np.argsort(-numbers)[:most]])[
        :most
    ]


class _Pages:
    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self.cold: list[float] = []
        self.warm: list[float] = []
        self.later: list[float] = []
        self.lengths: list[int] = []
        self.order: list[int] = []
        self.sizes: list[int] = []
        """Cached bytes of each reader's interests, without the follows of their followees."""
        self.near: list[int] = []
        """Cached bytes of the follows of each reader's followees."""
        self.wrong = self.repeated = 0

    async def arrive(self, member: int) -> None:
        """Read the first two pages of a member whose interests are not cached."""
        page = await self._timed(self.cold, self._reads, member)
        self.wrong += sum(
            abs(sum(term.contribution for term in why.terms) - why.score) > 1e-6 for _, why in page.entries if why
        )
        cursor = decode_cursor(page.next)
        kept = await self._reads.readings.get(cursor.reading_id)
        assert kept is not None
        reading = decode_reading(kept)
        assert reading is not None
        self.order = reading.part(0, 500)
        self.lengths.append(len(self.order))
        now = self._reads.tags.clock()
        packed, near = self._reads.interests.get(member, now), self._reads.near.get(member, now)
        assert packed is not None
        self.sizes.append(held_bytes(packed.data))
        self.near.append(held_bytes(near))
        more = await self._timed(self.later, self._reads, member, cursor)
        self.repeated += len({one.entry.id for one in page.entries} & {one.entry.id for one in more.entries})

    async def come_back(self, member: int) -> None:
        """Read a page more than a minute later, when the member's recent actions are no longer cached."""
        await self._timed(self.warm, replace(self._reads, interests=ExpiringCache()), member)

    async def _timed(
        self, times: list[float], reads: Reads, member: int, cursor: ReadingCursor | None = None
    ) -> feed.ForYou:
        began = time.perf_counter()
        page = await feed.page(reads, member, cursor=cursor, explain=True, deadline=_DEADLINE)
        times.append(time.perf_counter() - began)
        return page


async def measure(path: Path, members: int, posts: int, readers: int, report: Report) -> None:
    """Read cold pages, the pages after them, and warm ones."""
    ids, follows, authors = network(path, members, posts)
    # The first half of the readers is a warm-up and does not count.
    reading = _readers(follows, 2 * readers)
    written = np.array([post_id(n, int(ids[author])) for n, author in enumerate(authors)], np.int64)
    by_author = {int(author): written[authors == author] for author in np.unique(authors)[:2_000]}
    liked = np.concatenate(list(by_author.values()))
    rng = np.random.default_rng(4)
    friends = np.unique(follows[np.isin(follows[:, 0], reading)][:, 1])[: 5 * readers]
    process.prepare()
    async with Shoal.open(url_of(path), media="memory://") as shoal:
        for friend in (*friends.tolist(), *reading.tolist()):
            for post in rng.choice(liked, _LIKES, replace=False).tolist():
                await reactions.like(shoal.network.writes, int(ids[friend]), post)
        await shoal.settle()
        process.settle()
        earlier, counted = ids[reading[:readers]].tolist(), ids[reading[readers:]].tolist()
        reads = shoal.network.reads
        for member in earlier:
            await _Pages(reads).arrive(member)
        pages = _Pages(reads)
        for member in counted:
            await pages.arrive(member)
        for member in counted:
            await pages.come_back(member)
    _show(report, pages, _bare(path, pages.order) * 1e3)


def _show(report: Report, pages: _Pages, bare: float) -> None:
    """Add the figures. `bare` are the milliseconds of the raw engine."""
    report.add("posts in a ranking, median", float(np.median(pages.lengths)), "posts")
    for name, times in (("warm", pages.warm), ("cold", pages.cold)):
        found = spread(times)
        report.add(f"a {name} page, median", found.median * 1e3, "ms", raw=bare)
        report.add(f"a {name} page, p99", found.p99 * 1e3, "ms")
    report.add("interests of a reader, cached for a minute, median", float(np.median(pages.sizes)) / 1e3, "KB")
    report.add("follows of followees, cached for ten minutes, median", float(np.median(pages.near)) / 1e3, "KB")
    report.add("a page after it, median", spread(pages.later).median * 1e3, "ms")
    report.check("explanations that do not add up", pages.wrong, 0)
    report.check("posts that came twice", pages.repeated, 0)


def _bare(path: Path, posts: list[int]) -> float:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as read:
        began = time.perf_counter()
        for id_ in posts:
            read.execute("SELECT data FROM object WHERE id = ?", (id_,)).fetchone()
        return time.perf_counter() - began


def main() -> None:
    options = parser(
        __doc__,
        quick={"readers": 100, "posts": 50_000},
        smallest={"readers": 10, "members": 500, "posts": 2_000, "calls": 20},
    )
    options.add_argument(
        "--members", type=int, default=0, help="number of members of a generated network; 0: use the real follow graph"
    )
    options.add_argument("--posts", type=int, default=200_000, help="number of posts")
    options.add_argument("--readers", type=int, default=400, help="number of members who read the feed")
    options.add_argument(
        "--calls", type=int, default=500, help="number of times that posts are scored from their feature matrix"
    )
    chosen = options.parse_args()
    report = Report("discovery", chosen.size)
    matrix(report, chosen.calls)
    expression(report, chosen.calls)
    with workplace(None) as folder:
        uvloop.run(measure(folder / "shoal.db", chosen.members, chosen.posts, chosen.readers, report))
    report.show()


if __name__ == "__main__":
    main()
