"""Lists by position: `list_recent(a, b)` and `list_public_feed(a, b)` near the newest entry and far from it, in SQLite.

The raw engine reads these 20 rows and posts from bare SQLite by a given cursor, without searching for the position. Reaching the
position by pages of cursors is also measured. The posts are first committed to a list without blocks, and some more after it has
been read by position, for the cost of a post; then some in the middle are deleted, and positions are verified again.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.measure import Report, parser, spread, workplace
from shoal import Handle, Shoal
from shoal.core.ids import floor_at, shard_of
from shoal.core.model import Post
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import POSTED
from shoal.graph.sqlite import sql
from shoal.queries import posts as post_queries

_PAGE = 20
_GROUP = 100
_BEGAN_MS = 1_750_000_000_000
_MINUTE_MS = 60_000


async def _commit(ann: Handle, ids: Sequence[int]) -> float:
    """Commit posts in groups of a hundred; return the processor seconds per post, of all threads."""
    store = ann._network.store
    began = time.process_time()
    for at in range(0, len(ids), _GROUP):
        batch = Batch(shard_of(ann.id))
        for id_ in ids[at : at + _GROUP]:
            batch.obj_add(Post(id=id_, author_id=ann.id, text=f"Post {id_}"))
            batch.assoc_add(ann.id, POSTED, id_, id_)
        await store.commit(batch)
    return (time.process_time() - began) / len(ids)


async def _timed(times: int, call: Callable[[], Awaitable[object]]) -> float:
    """Return the median seconds of a call."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await call()
        took.append(time.perf_counter() - began)
    return spread(took).median


def _bare(path: Path, member: int, before: int, times: int) -> float:
    """Return the median seconds in which bare SQLite reads 20 entries from a known position, and their posts."""
    took = []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as read:
        for _ in range(times):
            began = time.perf_counter()
            rows = read.execute(sql.ASSOC_RANGE[True, False], (member, POSTED.number, before + 1, 0, _PAGE)).fetchall()
            for row in rows:
                read.execute("SELECT data FROM object WHERE id = ?", row[:1]).fetchone()
            took.append(time.perf_counter() - began)
    return spread(took).median


async def _walk(ann: Handle, position: int) -> None:
    """Advance to a position by cursors."""
    cursor, left = Cursor(), position + _PAGE
    while left > 0:
        page = await post_queries.authored_page(ann._reads, ann.id, ann.id, cursor.of(min(200, left)))
        left -= len(page.entries)
        if page.next is None:
            return
        cursor = cursor.past(page.next)


async def measure(path: Path, posts: int, calls: int, report: Report) -> None:
    async with Shoal.open(f"sqlite:///{path}") as shoal:
        ann = await shoal.register("ann")
        first = floor_at(_BEGAN_MS) | ann.id & (8191 << 10)
        ids = [first + (number * _MINUTE_MS << 23) for number in range(posts + posts // 10)]
        ids, more = ids[:posts], ids[posts:]
        before = await _commit(ann, ids)
        listed = ids[::-1]

        async def page(at: int) -> list[int]:
            return [entry.id for entry in await ann.list_recent(at, at + _PAGE - 1)]

        began = time.perf_counter()
        await page(posts * 9 // 10)
        report.add("first read, which counts the list", (time.perf_counter() - began) * 1e3, "ms")
        for share in (0.0, 0.02, 0.5, 0.9):
            at = int(posts * share)
            report.check(f"entries from {share:.0%}", await page(at) == listed[at : at + _PAGE], True)
            bare = _bare(path, ann.id, listed[at], calls)
            took = await _timed(calls, partial(page, at))
            report.add(f"20 entries from {share:.0%} of the list, median", took * 1e6, "us", raw=bare * 1e6)
        ben = await shoal.register("ben")
        await ben.follow(ann)
        await shoal.settle()

        async def page_of_home(at: int) -> list[int]:
            return [entry.id for entry in await ben.list_public_feed(at, at + _PAGE - 1)]

        at = posts // 2
        report.check("entries of a home from 50%", await page_of_home(at) == listed[at : at + _PAGE], True)
        report.add("20 entries from 50% of a home, median", await _timed(calls, partial(page_of_home, at)) * 1e6, "us")
        report.add("reaching 2% by cursors, median", await _timed(5, partial(_walk, ann, posts // 50)) * 1e6, "us")
        after = await _commit(ann, more)
        report.add("a post once the list is read by position, CPU", after * 1e6, "us", raw=before * 1e6)
        listed = more[::-1] + listed
        batch = Batch(shard_of(ann.id))
        for id_ in listed[len(listed) // 2 :: 7][:_GROUP]:
            batch.obj_del(id_)
            batch.assoc_del(ann.id, POSTED, id_, id_ + 1)
            listed.remove(id_)
        await shoal.network.store.commit(batch)
        at = len(listed) * 9 // 10
        report.check("entries after deletions", await page(at) == listed[at : at + _PAGE], True)


def main() -> None:
    options = parser(__doc__, quick={"posts": 10_000, "calls": 100}, smallest={"posts": 2_000, "calls": 5})
    options.add_argument("--posts", type=int, default=100_000, help="number of posts in the list that is read")
    options.add_argument("--calls", type=int, default=300, help="number of times that each page is read")
    chosen = options.parse_args()
    report = Report("positions", chosen.size)
    with workplace(None) as folder:
        asyncio.run(measure(folder / "shoal.db", chosen.posts, chosen.calls, report))
    report.show()


if __name__ == "__main__":
    main()
