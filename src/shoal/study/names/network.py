"""Names of a live network: its members in the order in which they joined, read a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

import numpy as np

from shoal.core.model import Member
from shoal.graph.contract import Graph, Scanner
from shoal.graph.schema import POSTED
from shoal.study.names.batch import NameBatch, batch_of

_FIRST = -(2**63)
_PAGE = 2_000
_AT_ONCE = 20_000


class ReadableStore(Graph, Scanner, Protocol):
    """A graph that can be read through."""


async def network_batches(
    store: ReadableStore, first: int, told: Callable[[int, int], None], *, by_posts: bool
) -> AsyncIterator[NameBatch]:
    """Yield the names of all members who are stored, those who are suspended or wait for approval too.

    With `by_posts` a member is as active as they have posted and shared, and somebody who never did is not active.
    """
    held: list[Member] = []
    read, after = 0, _FIRST
    while page := await store.obj_scan(after, _PAGE):
        held += (node for node in page if isinstance(node, Member))
        after, read = page[-1].id, read + len(page)
        told(read, 0)
        if len(held) >= _AT_ONCE:
            yield await _batch(store, held, first, by_posts=by_posts)
            first += len(held)
            held = []
    if held:
        yield await _batch(store, held, first, by_posts=by_posts)


async def _batch(store: ReadableStore, members: list[Member], first: int, *, by_posts: bool) -> NameBatch:
    batch = batch_of([member.name for member in members], first)
    if not by_posts:
        return batch
    counts = (await store.assoc_count([member.id for member in members], (POSTED,))).get(POSTED, {})
    return batch._replace(activity=np.array([counts.get(member.id, 0) for member in members], np.float64))
