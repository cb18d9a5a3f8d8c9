"""Record which posts currently receive reactions (`graph/payloads/posts.py`), and remove posts without recent reactions.

A post with a recent reaction has one entry in a list of active posts. Concurrent reactions are written together, with one commit
per list. A process writes the entry of a post at most once per minute, however many members react.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shoal.core.errors import Unavailable
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import Post
from shoal.graph.cache.lru import Recent
from shoal.graph.contract import Assoc, AssocOp, Batch, Cursor, Graph, Missing
from shoal.graph.payloads.posts import active_at, may_be_active, oldest_active
from shoal.graph.schema import ACTIVE, PUBLIC_LISTS, public_list

_AT_ONCE = 20
"""Posts per commit: a DynamoDB transaction is limited to 100 items, and renewing an entry takes four."""
_FORGOTTEN_AT_ONCE = 100
_REMEMBERED = 50_000


@dataclass(slots=True)
class _PendingEntry:
    time: int
    done: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Activity:
    """Writes the lists of posts with recent reactions, for one process.

    `written` counts the entries; `clock` returns Unix milliseconds.
    """

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self.written = 0
        self._clock = clock
        self._known: Recent[int, int] = Recent(_REMEMBERED)
        self._pending: dict[int, _PendingEntry] = {}
        self._in_hand: dict[int, _PendingEntry] = {}
        self._task: asyncio.Task[None] | None = None

    def reacted(self, graph: Graph, post_id: int, at: int) -> asyncio.Future[None] | None:
        """Record a reaction to a post. `at` is an id with the time of the reaction; the future completes when the entry is durable.

        Returns None if nothing has to be written, because this process has written an entry for the minute of the reaction or a
        later one, or because the reaction is too old to count.
        """
        moment = active_at(post_id, at)
        if moment <= (self._known.get(post_id) or 0) or moment <= oldest_active(self._clock()):
            return None
        waiting = self._in_hand.get(post_id)
        if waiting is not None and moment <= waiting.time and not waiting.done.done():
            return waiting.done
        pending = self._pending.get(post_id)
        if pending is None:
            pending = self._pending[post_id] = _PendingEntry(moment)
        pending.time = max(pending.time, moment)
        if self._task is None:
            self._task = asyncio.ensure_future(self._work(graph))
        return pending.done

    async def _work(self, graph: Graph) -> None:
        """Write all pending entries, and then those that arrived while writing, until there are none."""
        try:
            while self._pending:
                self._in_hand, self._pending = self._pending, {}
                await self._write(graph, self._in_hand)
        finally:
            self._task, self._in_hand = None, {}

    async def _write(self, graph: Graph, pending: Mapping[int, _PendingEntry]) -> None:
        try:
            posts = await graph.obj_get(list(pending))
        except BaseException as error:  # noqa: BLE001  # any error must reach the waiters
            _fail(pending.values(), error)
            return
        lists: dict[int, list[int]] = {}
        narrowed: list[int] = []
        for id_ in pending:
            post = posts.get(id_)
            if isinstance(post, Post) and may_be_active(post):
                lists.setdefault(public_list(shard_of(id_)), []).append(id_)
            elif isinstance(post, Post) and not post.parent_id:
                narrowed.append(id_)
            else:
                self._finish(id_, pending[id_])
        parts = (
            (public, ids[at : at + _AT_ONCE]) for public, ids in lists.items() for at in range(0, len(ids), _AT_ONCE)
        )
        puts = (self._put(graph, public, {id_: pending[id_] for id_ in ids}) for public, ids in parts)
        await asyncio.gather(*puts, self._end(graph, {id_: pending[id_] for id_ in narrowed}))

    async def _put(self, graph: Graph, public: int, pending: Mapping[int, _PendingEntry]) -> None:
        """Add posts of one shard to the list of active posts `public`, skipping posts that were deleted concurrently."""
        batch = Batch(shard_of(public))
        for id_, post in pending.items():
            batch.put(AssocOp(public, ACTIVE.number, id_, post.time, alive=True, plain=True))
            batch.expect(id_)
        try:
            await graph.commit(batch)
            self.written += len(pending)
            # Check the posts again after the commit. A post may have been narrowed and removed from the list before its entry was
            # written here, or deleted, which the commit does not notice if the post is in another store. Delete such entries
            # again.
            again = await graph.obj_get(list(pending))
            active = {post.id for post in again.values() if isinstance(post, Post) and may_be_active(post)}
            await _end_entries(graph, [id_ for id_ in pending if id_ not in active])
        except Missing:
            if len(pending) > 1:
                await asyncio.gather(*(self._put(graph, public, {id_: pending[id_]}) for id_ in pending))
                return
        except BaseException as error:  # noqa: BLE001  # as above
            _fail(pending.values(), error)
            return
        for id_, post in pending.items():
            self._finish(id_, post)

    async def _end(self, graph: Graph, pending: Mapping[int, _PendingEntry]) -> None:
        """Remove posts that are not public from the lists of active posts: an earlier call that failed may have added them."""
        try:
            await _end_entries(graph, list(pending))
        except BaseException as error:  # noqa: BLE001  # as above
            _fail(pending.values(), error)
            return
        for id_, post in pending.items():
            self._finish(id_, post)

    def _finish(self, post_id: int, pending: _PendingEntry) -> None:
        self._known.put(post_id, pending.time)
        if not pending.done.done():
            pending.done.set_result(None)


async def _end_entries(graph: Graph, post_ids: Sequence[int]) -> None:
    """Remove posts from the lists of active posts. Callers remove few, so the list entry of each is read separately."""
    ended = []
    for id_ in post_ids:
        public = public_list(shard_of(id_))
        found = (await graph.assoc_get(public, (ACTIVE,), (id_,)))[ACTIVE]
        ended += [_ended(public, entry) for entry in found.values()]
    await asyncio.gather(*(_commit(graph, part) for part in _parts(sorted(ended, key=lambda op: op.id1))))


def _ended(public: int, entry: Assoc) -> AssocOp:
    return AssocOp(public, ACTIVE.number, entry.id2, entry.time + 1, alive=False, plain=True)


def _fail(pending: Iterable[_PendingEntry], error: BaseException) -> None:
    failure = error if isinstance(error, Exception) else Unavailable("the write was canceled")
    for post in pending:
        if not post.done.done():
            post.done.set_exception(failure)
            # Mark the exception as retrieved, because the future may have no waiter left.
            post.done.exception()


async def forget_inactive(graph: Graph, now: int) -> None:
    """Remove posts without a recent reaction from the lists of active posts; `now` is in Unix milliseconds.

    A post that gets a reaction concurrently stays in its list.
    """
    old = Cursor(before=oldest_active(now), limit=_FORGOTTEN_AT_ONCE, oldest_first=True)
    while pages := await graph.assoc_ranges(PUBLIC_LISTS, ACTIVE, old):
        ended = [_ended(public, entry) for public, page in pages.items() for entry in page]
        await asyncio.gather(*(_commit(graph, part) for part in _parts(ended)))


def _parts(ops: Sequence[AssocOp]) -> Iterable[Sequence[AssocOp]]:
    """Split operations, sorted by list, into chunks that fit into one commit each."""
    begin = 0
    for at in range(1, len(ops) + 1):
        if at == len(ops) or ops[at].id1 != ops[begin].id1 or at - begin == _AT_ONCE:
            yield ops[begin:at]
            begin = at


async def _commit(graph: Graph, ops: Sequence[AssocOp]) -> None:
    batch = Batch(shard_of(ops[0].id1))
    for op in ops:
        batch.put(op)
    await graph.commit(batch)
