"""Commits to a PostgreSQL store from 1, 16 and 256 concurrent callers, compared with bare inserts into the same server.

A commit is a post: an object, an entry of a list with its count, a follow with its inverse and their counts, and an event; eight
rows in total. The bare rows are the store's associations, inserted by one client of the driver without Shoal, 256 and 4,096 at a
time, with the indexes and durability of the store.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from benchmarks.measure import Report, parser, spread
from shoal.core.events import PostCreated
from shoal.core.ids import EPOCH_MS, compose
from shoal.core.model import Post
from shoal.graph.contract import Batch
from shoal.graph.postgres import PostgresGraph
from shoal.graph.schema import FOLLOWS, POSTED
from shoal_devcluster import postgres
from shoal_devcluster.program import Program

ROWS_OF_A_COMMIT = 8
_CALLERS = (1, 16, 256)
_BARE = """
    INSERT INTO shoal.association (id1, atype, id2, time, revision, alive, data)
    SELECT id1, 13, id2, id2, 1, true, '' FROM unnest($1::bigint[], $2::bigint[]) AS w (id1, id2)"""


@contextmanager
def server() -> Iterator[Program]:
    folder = Path(tempfile.mkdtemp(prefix="shoal-bench-"))
    folder.chmod(0o755)
    program = postgres.start(folder)
    try:
        yield program
    finally:
        program.stop()
        shutil.rmtree(folder, ignore_errors=True)


def post(n: int) -> Batch:
    """Return the n-th commit; its author is one of 4,096."""
    shard = n * 37 % 4_096
    author, id_ = compose(EPOCH_MS, shard), compose(EPOCH_MS + 1_000_000 + n, shard)
    batch = Batch(shard)
    batch.obj_add(Post(id=id_, author_id=author, text="Low tide: the boats lie on the sand and wait for the evening."))
    batch.assoc_add(author, POSTED, id_, id_)
    batch.assoc_add(author, FOLLOWS, compose(EPOCH_MS + n, n % 8_192), id_)
    batch.emit(PostCreated(post_id=id_, author_id=author))
    return batch


async def commits(
    graph: PostgresGraph, numbers: Iterator[int], callers: int, seconds: float
) -> tuple[list[float], float]:
    """Return the seconds of each commit, where each caller commits as soon as its last commit is durable, and the total time."""
    took: list[float] = []
    started = time.perf_counter()

    async def write() -> None:
        while (began := time.perf_counter()) - started < seconds or not took:
            await graph.commit(post(next(numbers)))
            took.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(write())
    return took, time.perf_counter() - started


async def bare(url: str, numbers: Iterator[int], group: int, seconds: float) -> float:
    connection = await asyncpg.connect(url)
    try:
        statement = await connection.prepare(_BARE)
        rows, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            ends = [next(numbers) for _ in range(group)]
            await statement.fetch([compose(EPOCH_MS, end * 37 % 4_096) for end in ends], ends)
            rows += group
        return rows / (time.perf_counter() - started)
    finally:
        await connection.close()


async def objects(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM shoal.object"))
    finally:
        await connection.close()


async def measure(url: str, report: Report, seconds: float) -> None:
    numbers, ends = itertools.count(), itertools.count(1 << 50)
    graph = await PostgresGraph.open(url)
    try:
        await commits(graph, numbers, 16, seconds / 4)
        by_group = {group: await bare(url, ends, group, seconds) for group in (256, 4_096)}
        for callers in _CALLERS:
            trips, cpu = graph.round_trips, time.process_time()
            took, whole = await commits(graph, numbers, callers, seconds)
            trips, cpu = graph.round_trips - trips, time.process_time() - cpu
            rate, times = len(took) / whole, spread(took)
            name = f"{callers} callers" if callers > 1 else "1 caller"
            report.add(f"commits per second, {name}", rate, "/s")
            report.add("rows of these", rate * ROWS_OF_A_COMMIT, "/s", raw=by_group[256])
            report.add(f"answer, {name}, median", times.median * 1000, "ms")
            report.add(f"answer, {name}, p99", times.p99 * 1000, "ms")
            report.add(f"round trips per commit, {name}", trips / len(took))
            report.add(f"CPU of this process per commit, {name}", cpu / len(took) * 1e6, "us")
        for group, rate in by_group.items():
            report.add(f"bare rows, {group} at a time", rate, "/s")
        report.add("groups evaluated again", graph.overtaken)
        report.check("objects of these commits that are there", await objects(url), next(numbers))
    finally:
        await graph.close()


def main() -> None:
    options = parser(__doc__, quick={"seconds": 1.0}, smallest={"seconds": 0.15})
    options.add_argument(
        "--seconds", type=float, default=8.0, help="seconds of the measurement for each number of concurrent callers"
    )
    chosen = options.parse_args()
    report = Report("postgres_commits", chosen.size)
    with server() as program:
        asyncio.run(measure(program.url, report, chosen.seconds))
    report.show()


if __name__ == "__main__":
    main()
