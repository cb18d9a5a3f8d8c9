"""Sweeping tombstones from an SQLite file with a million permanent ones: processor time, and waits of commits.

Tombstones of tags are permanent, so a sweep must not read them. A sweep with much to delete must let commits run between its
pages. The first part sweeps a file with nothing to delete; the second one deletes a tenth as many tombstones of likes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Report, parser, spread, workplace
from shoal.core.ids import shard_of
from shoal.graph.bulk import Rows
from shoal.graph.contract import MAX_TIME, AssocRow, Batch
from shoal.graph.schema import LIKES, PINS, TAG_OF, TAGGED, AssocType
from shoal.graph.sqlite import SqliteGraph

_MEMBER = 5 << 10
_PAGE = 20_000
_SWEEPS = 20


def _tombstones(count: int, *atypes: AssocType) -> Iterator[Rows]:
    """Yield tombstones in pages, `count` in all. Each object has a hundred of a type."""
    for first in range(0, count, _PAGE):
        numbers = range(first, min(count, first + _PAGE))
        yield Rows(
            assocs=[
                AssocRow(
                    _MEMBER + (n // 100 << 20), atypes[n % len(atypes)].number, -n - 1, n + 1, alive=False, data=b""
                )
                for n in numbers
            ]
        )


async def _committing(graph: SqliteGraph, until: asyncio.Task[int]) -> list[float]:
    """Commit one association after another while a sweep runs; return how many seconds each commit took."""
    took = []
    moment = 1
    while not until.done():
        batch = Batch(shard_of(_MEMBER))
        batch.assoc_add(_MEMBER, PINS, moment, moment)
        began = time.perf_counter()
        await graph.commit(batch)
        took.append(time.perf_counter() - began)
        moment += 1
    return took


async def measure(path: Path, kept: int, report: Report) -> None:
    graph = await SqliteGraph.open(path)
    try:
        for rows in _tombstones(kept, TAGGED, TAG_OF):
            await graph.put_rows(rows)
        took, swept = [], 0
        for _ in range(_SWEEPS):
            began = time.process_time()
            swept += await graph.sweep(MAX_TIME, 0)
            took.append(time.process_time() - began)
        report.check("tombstones swept that are kept permanently", swept, 0)
        report.add("a sweep with nothing to delete, CPU, median", spread(took).median * 1e3, "ms")
        for rows in _tombstones(kept // 10, LIKES):
            await graph.put_rows(rows)
        began = time.perf_counter()
        sweeping = asyncio.create_task(graph.sweep(MAX_TIME, 0))
        await asyncio.sleep(0)
        waits = await _committing(graph, sweeping)
        seconds = time.perf_counter() - began
        report.check("tombstones swept", await sweeping, kept // 10)
        report.add("tombstones swept per second, alongside commits", kept // 10 / seconds, "1/s")
        report.add("a commit during a sweep, median", spread(waits).median * 1e3, "ms")
        report.add("a commit during a sweep, longest", max(waits) * 1e3, "ms")
    finally:
        await graph.close()


def main() -> None:
    options = parser(__doc__, quick={"kept": 100_000}, smallest={"kept": 20_000})
    options.add_argument("--kept", type=int, default=1_000_000, help="number of tombstones that are kept permanently")
    chosen = options.parse_args()
    report = Report("sweep", chosen.size)
    with workplace(None) as folder:
        asyncio.run(measure(folder / "shoal.db", chosen.kept, report))
    report.show()


if __name__ == "__main__":
    main()
