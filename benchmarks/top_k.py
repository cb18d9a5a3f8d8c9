"""The newest k entries of many lists, in three ways: the bucket sort of the photo feed document, a heap, and ours.

Each way reads its entries from the same lists, which return them as a store does and count what is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.schema import POSTED, AssocType
from shoal.queries.pagination import pull

BATCH = 1_000
"""Number of lists in a batch, as in the document."""

if TYPE_CHECKING:
    from collections.abc import Iterator


class Lists:
    def __init__(self, lists: int, entries: int, seed: int = 6) -> None:
        times = np.random.default_rng(seed).integers(1, 1 << 62, (lists, entries))
        self._times: NDArray[np.int64] = -np.sort(-times)
        self.read = 0

    def __len__(self) -> int:
        return len(self._times)

    def newest(self, id1s: Sequence[int], limit: int) -> list[list[int]]:
        found: list[list[int]] = self._times[id1s, :limit].tolist()
        self.read += sum(map(len, found))
        return found

    def iterate(self, id1: int) -> Iterator[Assoc]:
        for time in self._times[id1].tolist():
            self.read += 1
            yield Assoc(time, time, b"")

    async def assoc_ranges(self, id1s: Sequence[int], atype: AssocType, at: Cursor) -> dict[int, list[Assoc]]:  # noqa: ARG002  # one type
        lists = self.newest(id1s, at.limit if at.after == 0 else self._times.shape[1])
        return {
            id1: [Assoc(time, time, b"") for time in times if at.after < time < at.before][: at.limit]
            for id1, times in zip(id1s, lists, strict=True)
        }


async def ours(lists: Lists, k: int) -> list[int]:
    """Use `pull`: a few entries of every list, whose k-th newest bounds a second read of the lists that may have more."""
    return await pull(cast("Reader", lists), {POSTED: range(len(lists))}, Cursor(limit=k))


async def by_heap(lists: Lists, k: int) -> list[int]:
    """Merge all lists in a heap, which holds one entry of each."""
    newest = islice(merge(*map(lists.iterate, range(len(lists))), key=attrgetter("time"), reverse=True), k)
    return [entry.time for entry in newest]


async def by_bucket_sort(lists: Lists, k: int) -> list[int]:
    """Take the newest buckets of each batch until they have k entries, do the same with the results, and sort what is left."""
    found: list[int] = []
    for first in range(0, len(lists), BATCH):
        batch = range(first, min(first + BATCH, len(lists)))
        read = await lists.assoc_ranges(batch, POSTED, Cursor(limit=k))
        found += top_buckets([entry.time for entries in read.values() for entry in entries], k)
    return sorted(top_buckets(found, k), reverse=True)[:k]


def top_buckets(times: Sequence[int], k: int) -> list[int]:
    """Return at least the newest k times, unsorted: those in the newest buckets, of which each has about k."""
    if len(times) <= k:
        return list(times)
    newest, oldest = max(times), min(times)
    buckets: list[list[int]] = [[] for _ in range(len(times) // k)]
    width = (newest - oldest) // len(buckets) + 1
    for time in times:
        buckets[(newest - time) // width].append(time)
    found: list[int] = []
    for bucket in buckets:
        found += bucket
        if len(found) >= k:
            break
    return found
