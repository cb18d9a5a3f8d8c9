"""An index is filled from the graph: when it is empty or of another form, or when somebody wants it anew.

It goes through everything in order of its id and remembers how far it came. What is written meanwhile comes by its events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from shoal.core.model import Member, Post
from shoal.discovery.contract import FORM, FillState, SearchIndex
from shoal.discovery.filler import AT_ONCE, Filler
from shoal.graph.contract import MAX_TIME, Reader, Scanner

_PAGE = 1_000

Tell = Callable[[str, int, int], None]
"""Told of a phase, how much of it is done, and how much there is in all (0: not known)."""

_log = logging.getLogger(__name__)


def _untold(_phase: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""


async def fill(store: Scanner, graph: Reader, filler: Filler, tell: Tell = _untold) -> int:
    """Fill the index from where it is; how many members and posts were looked at. Nothing, when it is complete.

    The store is gone through; each object is looked at in the graph, which must give what is stored now.
    """
    index = filler.index
    state = await index.state()
    if state.complete:
        return 0
    if state.form != FORM:
        await index.clear()
        state = FillState(FORM)
    done, after = 0, state.filled_to
    ids: list[int] = []
    while page := await store.obj_scan(after, _PAGE):
        after = page[-1].id
        ids += [node.id for node in page if isinstance(node, Member | Post)]
        # So many are written at once: the filler waits for more where there are fewer.
        if len(ids) >= AT_ONCE or len(page) < _PAGE:
            # Jobs wait for the same future, and go on when this ends.
            await asyncio.shield(filler.look(graph, ids))
            await index.keep_state(FillState(FORM, after))
            done += len(ids)
            ids = []
            tell("members and posts", done, 0)
    if ids:
        await asyncio.shield(filler.look(graph, ids))
        done += len(ids)
    await index.keep_state(FillState(FORM, MAX_TIME))
    return done


async def refill(store: Scanner, graph: Reader, filler: Filler, tell: Tell = _untold) -> int:
    """Look at everything again, and forget what is there no more; how much there was. Searches go on meanwhile."""
    index: SearchIndex = filler.index
    if (await index.state()).form == FORM:
        await index.keep_state(FillState(FORM))
    done = await fill(store, graph, filler, tell)
    after = -1
    while ids := await index.ids(after, _PAGE):
        after = ids[-1]
        there = await graph.obj_get(ids)
        if gone := [id_ for id_ in ids if id_ not in there]:
            await asyncio.shield(filler.look(graph, gone))
    return done


async def fill_quietly(store: Scanner, graph: Reader, filler: Filler) -> None:
    """As `fill`, in the background of a server: a failure is logged, and the next start goes on from there."""
    try:
        if done := await fill(store, graph, filler):
            _log.info("the search index was filled: %d members and posts", done)
    except Exception:  # noqa: BLE001  # searches find less until then; nothing else depends on it
        _log.exception("the search index could not be filled")
