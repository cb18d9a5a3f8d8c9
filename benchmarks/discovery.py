"""For you: the matrix of a thousand candidates, first pages of many members on SQLite, and the pages after them.

The network is the real graph with a post by each of its real authors and more by others; every reader likes what some of their
followees posted, so that there are friends who like, affinities and people in common. Each first page is by another member, whose
interests nobody remembers; then each is back, after a minute in which interests are forgotten. The raw engine fetches the posts of
the same reading and their authors, one by one, from bare SQLite.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.measure import REAL_DATA, Report, parser, spread, workplace
from benchmarks.stores import Ints, build, ids_of, numbered, post_id, power_law, real_graph, url_of
from shoal import Shoal
from shoal.core.ranking import terms
from shoal.core.ranking.recipes import BALANCED
from shoal.core.ranking.terms import CandidateFacts
from shoal.feeds.foryou import feed
from shoal.feeds.foryou.reading import decode_cursor, decode_reading
from shoal.feeds.shared_answers import Remembered
from shoal.services import reactions

_CANDIDATES = 1_000
_LIKES = 10
"""Likes of each friend."""
_DEADLINE = 60.0


def matrix(report: Report, calls: int) -> None:
    """Score a thousand candidates; the raw engine multiplies a matrix of that size."""
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


def network(path: Path, members: int, posts: int) -> tuple[Ints, Ints, Ints]:
    """Write the store: ids of the members, the follows as positions, and the author of each post."""
    names, follows = (numbered(members), power_law(members, 10 * members)) if members else real_graph(REAL_DATA)
    authors = np.random.default_rng(2).permutation(np.resize(np.arange(len(names)), posts)).astype(np.int64)
    build(path, names, follows, authors)
    return ids_of(names), follows, authors


def _readers(follows: Ints, most: int) -> Ints:
    """Positions of members with 50 to 600 followees, or with the most."""
    who, numbers = np.unique(follows[:, 0], return_counts=True)
    usual = who[(numbers >= 50) & (numbers <= 600)]
    return np.random.default_rng(3).permutation(usual if len(usual) >= most else who[np.argsort(-numbers)[:most]])[
        :most
    ]


async def measure(path: Path, members: int, posts: int, readers: int, report: Report) -> None:
    """Read first pages and later ones."""
    ids, follows, authors = network(path, members, posts)
    reading = _readers(follows, readers)
    written = np.array([post_id(n, int(ids[author])) for n, author in enumerate(authors)], np.int64)
    by_author = {int(author): written[authors == author] for author in np.unique(authors)[:2_000]}
    liked = np.concatenate(list(by_author.values()))
    rng = np.random.default_rng(4)
    friends = np.unique(follows[np.isin(follows[:, 0], reading)][:, 1])[: 5 * readers]
    first: list[float] = []
    again: list[float] = []
    later: list[float] = []
    candidates: list[int] = []
    async with Shoal.open(url_of(path), media="memory://") as shoal:
        for friend in (*friends.tolist(), *reading.tolist()):
            for post in rng.choice(liked, _LIKES, replace=False).tolist():
                await reactions.like(shoal.network.writes, int(ids[friend]), post)
        await shoal.settle()
        reads = shoal.network.reads
        wrong = repeated = 0
        shown: list[int] = []
        for member in ids[reading].tolist():
            began = time.perf_counter()
            page = await feed.page(reads, member, explain=True, deadline=_DEADLINE)
            first.append(time.perf_counter() - began)
            wrong += sum(
                abs(sum(term.contribution for term in why.terms) - why.score) > 1e-6 for _, why in page.entries if why
            )
            cursor = decode_cursor(page.next)
            kept = await reads.readings.get(cursor.reading_id)
            assert kept is not None
            order = decode_reading(kept)
            assert order is not None
            shown = order.part(0, 500)
            candidates.append(len(shown))
            began = time.perf_counter()
            more = await feed.page(reads, member, 20, cursor)
            later.append(time.perf_counter() - began)
            repeated += len({e.entry.id for e in page.entries} & {e.entry.id for e in more.entries})
        forgotten = replace(reads, interests=Remembered())
        for member in ids[reading].tolist():
            began = time.perf_counter()
            await feed.page(forgotten, member, explain=True, deadline=_DEADLINE)
            again.append(time.perf_counter() - began)
    bare = _bare(path, shown)
    pages = spread(first)
    report.add("posts in a reading, median", float(np.median(candidates)), "posts")
    report.add("a first page, median", pages.median * 1e3, "ms", raw=bare * 1e3)
    report.add("a first page, p99", pages.p99 * 1e3, "ms")
    back = spread(again)
    report.add(
        "a first page of a member who is back within ten minutes, median", back.median * 1e3, "ms", raw=bare * 1e3
    )
    report.add("a first page of a member who is back within ten minutes, p99", back.p99 * 1e3, "ms")
    report.add("a page after it, median", spread(later).median * 1e3, "ms")
    report.check("explanations that do not add up", wrong, 0)
    report.check("posts that came twice", repeated, 0)


def _bare(path: Path, posts: list[int]) -> float:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as read:
        began = time.perf_counter()
        for id_ in posts:
            read.execute("SELECT data FROM object WHERE id = ?", (id_,)).fetchone()
        return time.perf_counter() - began


def main() -> None:
    """Measure, print, check."""
    options = parser(
        __doc__,
        quick={"readers": 100, "posts": 50_000},
        smallest={"readers": 10, "members": 500, "posts": 2_000, "calls": 20},
    )
    options.add_argument("--members", type=int, default=0, help="members of a made-up network; 0: the real graph")
    options.add_argument("--posts", type=int, default=200_000, help="posts")
    options.add_argument("--readers", type=int, default=400, help="members who read")
    options.add_argument("--calls", type=int, default=500, help="times that the matrix is scored")
    chosen = options.parse_args()
    report = Report("discovery", chosen.size)
    matrix(report, chosen.calls)
    with workplace(None) as folder:
        uvloop.run(measure(folder / "shoal.db", chosen.members, chosen.posts, chosen.readers, report))
    report.show()


if __name__ == "__main__":
    main()
