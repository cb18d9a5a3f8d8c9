"""Keeps an index as the graph is: whoever knows that an object changed says its id, and the object is looked at as it is then.

What is asked for while rows are being written is written together afterwards. When rows are written their objects are looked
at once more: one that changed meanwhile, and whose row another process may have written in between, is written again. So the
last row of an object is always that of the object as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from shoal.core.model import Member, Post
from shoal.discovery.contract import IndexChange, MemberRow, PostRow, SearchIndex
from shoal.discovery.rows import beside, member_row, whole_row
from shoal.graph.contract import Reader
from shoal.graph.schema import AnyNode

AT_ONCE = 2_000
"""Objects that are written together."""
_FEW = 20
_PAUSE_SECONDS = 0.2
"""After a write of more than a few rows, the next one may wait this long for more: each write is a sync, and touches
pages that the next one touches again."""
_BURST = 50
_WRITES_A_SECOND = 20
"""Small writes are made at once, but after a burst at most this many a second: rows wait and are written together."""


class _Wanted(NamedTuple):
    graph: Reader
    done: asyncio.Future[None]
    ids: set[int]
    since: float
    """When it was first asked for, as the event loop tells the time."""


class Filler:
    """Writes the rows of one process into one index. `written` counts objects that were looked at."""

    def __init__(self, index: SearchIndex) -> None:
        self.index = index
        self.written = 0
        self._wanted: deque[_Wanted] = deque()
        self._in_hand: _Wanted | None = None
        self._enough = asyncio.Event()
        # How many small writes may be made at once, and when that was worked out.
        self._spare, self._at = float(_BURST), 0.0
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def look(self, graph: Reader, ids: Iterable[int]) -> asyncio.Future[None]:
        """Make the rows of these objects what the objects are; done when that is safe, or with the error if it failed.

        The graph must give what is stored now.
        """
        if not self._wanted or len(self._wanted[-1].ids) >= AT_ONCE:
            loop = asyncio.get_running_loop()
            self._wanted.append(_Wanted(graph, loop.create_future(), set(), loop.time()))
        wanted = self._wanted[-1]
        wanted.ids.update(ids)
        if len(wanted.ids) >= AT_ONCE:
            self._enough.set()
        if self._task is None:
            self._task = asyncio.ensure_future(self._work())
        return wanted.done

    async def close(self) -> None:
        """Finish what was asked for, without a pause."""
        self._closing = True
        self._enough.set()
        while self._task is not None:
            await asyncio.wait((self._task,))

    async def _work(self) -> None:
        try:
            while self._wanted:
                wanted = self._wanted.popleft()
                if not (self._wanted and len(self._wanted[0].ids) >= AT_ONCE):
                    self._enough.clear()
                begun = asyncio.get_running_loop().time()
                self._in_hand = wanted
                await self._answer(wanted)
                self._in_hand = None
                if (pause := self._pause_after(len(wanted.ids), begun)) and not self._closing:
                    await self._pause(begun + pause)
        finally:
            self._task = self._in_hand = None

    def hurry(self) -> None:
        """Write what was asked for at once: somebody waits, and no more of it will come."""
        if self._wanted:
            self._enough.set()

    def behind(self) -> float:
        """For how many seconds the oldest of what was asked for has waited."""
        oldest = self._in_hand or (self._wanted[0] if self._wanted else None)
        return asyncio.get_running_loop().time() - oldest.since if oldest else 0.0

    def _pause_after(self, size: int, begun: float) -> float:
        """How many seconds after the beginning of this write the next one may begin."""
        if not self.index.keeps:
            # Nothing was written.
            return 0.0
        self._spare = min(_BURST, self._spare + (begun - self._at) * _WRITES_A_SECOND) - 1
        self._at = begun
        if size > _FEW:
            return _PAUSE_SECONDS
        return 1 / _WRITES_A_SECOND if self._spare < 1 else 0.0

    async def _pause(self, ended: float) -> None:
        """Wait until that moment, or until enough is asked for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(ended):
                await self._enough.wait()

    async def _answer(self, wanted: _Wanted) -> None:
        try:
            ids = sorted(wanted.ids) if self.index.keeps else []
            for start in range(0, len(ids), AT_ONCE):
                await self._write(wanted.graph, ids[start : start + AT_ONCE])
        except BaseException as error:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
            if not wanted.done.done():
                wanted.done.set_exception(error if isinstance(error, Exception) else ConnectionError("it was given up"))
                # Perhaps nobody waits any more.
                wanted.done.exception()
        else:
            if not wanted.done.done():
                wanted.done.set_result(None)

    async def _write(self, graph: Reader, ids: Collection[int]) -> None:
        nodes = await _nodes(graph, ids)
        while ids:
            # Folding the words of many posts takes time, for which requests shall not wait.
            await self.index.write(partial(_change, nodes, ids) if len(ids) > _FEW else _change(nodes, ids))
            self.written += len(ids)
            now = await _nodes(graph, ids)
            ids = [id_ for id_ in ids if _versions(now, id_) != _versions(nodes, id_)]
            nodes = now


async def rows_of(graph: Reader, nodes: Mapping[int, AnyNode]) -> dict[int, PostRow | MemberRow]:
    """The rows that these objects make; one read, if posts among them have polls or media."""
    known = {**nodes, **await _beside(graph, nodes)}
    return {id_: row for id_ in nodes if (row := _row(known, id_)) is not None}


async def _nodes(graph: Reader, ids: Collection[int]) -> dict[int, AnyNode]:
    """These objects, and the polls and media of those that are posts."""
    nodes = await graph.obj_get(list(ids))
    return {**nodes, **await _beside(graph, nodes)}


async def _beside(graph: Reader, nodes: Mapping[int, AnyNode]) -> dict[int, AnyNode]:
    ids = dict.fromkeys(id_ for node in nodes.values() if isinstance(node, Post) for id_ in beside(node))
    return await graph.obj_get(list(ids)) if ids else {}


def _change(nodes: Mapping[int, AnyNode], ids: Collection[int]) -> IndexChange:
    rows = {id_: row for id_ in ids if (row := _row(nodes, id_)) is not None}
    return IndexChange(
        posts=[row for row in rows.values() if isinstance(row, PostRow)],
        members=[row for row in rows.values() if isinstance(row, MemberRow)],
        gone=[id_ for id_ in ids if id_ not in rows],
    )


def _row(nodes: Mapping[int, AnyNode], id_: int) -> PostRow | MemberRow | None:
    node = nodes.get(id_)
    if isinstance(node, Post):
        return whole_row(node, nodes)
    return member_row(node) if isinstance(node, Member) else None


def _versions(nodes: Mapping[int, AnyNode], id_: int) -> tuple[int, ...]:
    node = nodes.get(id_)
    if node is None:
        return ()
    parts = beside(node) if isinstance(node, Post) else ()
    return (node.version, *[part.version for id_ in parts if (part := nodes.get(id_)) is not None])
