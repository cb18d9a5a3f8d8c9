"""Distribution of a network over its stores and its 64 data sources, and moves of data sources while the network runs.

Rows are copied while they change; changes are logged and copied again until few remain. Then counts and hashes of all rows
are compared. The data sources are frozen while the last changes are copied and compared, and are handed over together with
the new shard map. No process may write to the new location until every process uses that map, and no process writes to the
old location again. So no write is lost, and no stale value is read after a newer one was acknowledged.

The old rows remain, and changes in the new location are logged, until the move is finished: until then it can be rolled
back. The mover may stop at any moment: the network keeps running, and repeating the command resumes the move.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import reduce
from statistics import fmean, pstdev
from typing import NamedTuple, TypeVar

from shoal.admin.consistency.scan import OBJECTS_AT_ONCE, ROWS_AT_ONCE
from shoal.admin.report import Progress
from shoal.core.errors import Conflict, InvalidInput, Unavailable
from shoal.core.ids import shard_of
from shoal.core.placement import DATA_SOURCES, source_of
from shoal.graph.bulk import ASSOC_BYTES, FIRST, Spread, Spreading, weigh
from shoal.graph.contract import Store
from shoal.graph.shard_map import DEAD_SECONDS, Digest, RowKind, RowNames, ShardMap, Side, ranges_of, shown_url


class Evenness(NamedTuple):
    mean: float
    deviation: float
    least: int
    most: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Evenness:
        """Return the statistics of at least one number."""
        return cls(fmean(numbers), pstdev(numbers), min(numbers), max(numbers))


async def spread_of(store: Store, tell: Progress) -> list[Spread]:
    """Return the numbers of members, posts and bytes in each of the 64 data sources. A store that cannot report them is scanned."""
    spreads = await store.spread() if isinstance(store, Spreading) else await _counted(store, tell)
    return [spreads.get(source, Spread()) for source in range(DATA_SOURCES)]


def by_store(known: ShardMap, spreads: Sequence[Spread]) -> list[Spread]:
    """Return the members, posts and bytes in each store of a shard map: the sums over its data sources."""
    empty = Spread()
    return [
        reduce(Spread.plus, (spreads[source] for source in known.of(store)), empty)
        for store in range(len(known.stores))
    ]


def evenness(spreads: Sequence[Spread]) -> Mapping[str, Evenness]:
    """Return how evenly members, posts and bytes are distributed."""
    columns = zip(*spreads, strict=True)
    return {name: Evenness.of(numbers) for name, numbers in zip(Spread._fields, columns, strict=True)}


async def _counted(store: Store, tell: Progress) -> dict[int, Spread]:
    spreads: dict[int, Spread] = {}
    read = 0

    def add(id_: int, weight: Spread) -> None:
        source = source_of(shard_of(id_))
        spreads[source] = spreads.get(source, Spread()).plus(weight)

    after = FIRST
    while objects := await store.obj_scan(after, OBJECTS_AT_ONCE):
        for node in objects:
            add(node.id, weigh(node))
        after = objects[-1].id
        tell("objects", read := read + len(objects), 0)
    read = 0
    triple = (FIRST, FIRST, FIRST)
    while assocs := await store.assoc_scan(triple, ROWS_AT_ONCE):
        for row in assocs:
            add(row.id1, Spread(bytes=ASSOC_BYTES + len(row.data)))
        triple = assocs[-1][:3]
        tell("associations", read := read + len(assocs), 0)
    return spreads


K = TypeVar("K")

OpenSide = Callable[..., Awaitable[Side]]
"""Opens a store for a move by its URL. If `joins` is true, it may be an empty database, which joins the network."""

_FREEZE_SECONDS = 1.5
"""A freeze expires after this time if the mover died or is too slow, in which case it retries."""
_FREEZES = 40
_ENTRIES_AT_ONCE = 5_000
_FEW_ENTRIES = 300
"""Changes that are copied within the freeze: some tens of milliseconds."""
_MANY_NAMES = 50_000
"""Maximum number of changed rows that are compared during the freeze; for more, all rows are compared again before it."""
_POLL_SECONDS = 0.01


class MoveResult(NamedTuple):
    sources: list[int]
    rows: int
    """Rows that were compared on both sides."""
    frozen: float
    """Seconds from the freeze until the new location accepted writes."""


class Move(NamedTuple):
    """Data sources that move from store `a` to store `b`."""

    sources: list[int]
    a: Side
    b: Side
    mover: int


@dataclass
class Mover:
    """Moves data sources between stores; created by `open_mover`. `map` is always the newest shard map."""

    map: ShardMap
    sides: dict[str, Side]
    open_side: OpenSide
    tell: Progress

    async def move(self, sources: Sequence[int], url: str) -> list[MoveResult]:
        """Move data sources to the store at a URL.

        Raises `InvalidInput` if these data sources or the store cannot take part in a move, `Unavailable` if a store cannot be
        reached or has too many writes, and `Conflict` if the copy is not equal.
        """
        sources = sorted(set(sources))
        here = [source for source in sources if self.map.stores[self.map.owners[source]] == url]
        if pending := sorted({*self.map.moved, *self.map.left} & set(sources) - set(here)):
            raise InvalidInput(
                f"the last move of {ranges_of(pending)} is not finished: finish it or roll it back first"
            )
        await self._settle_all([source for source in here if source in self.map.moved])
        done = []
        for store, part in self._by_owner(set(sources) - set(here)):
            b = await self._side(url, joins=url not in self.map.stores)
            work = Move(part, await self._side(self.map.stores[store]), b, secrets.randbits(62))
            done.append(await self._transfer(work, copies=True))
        return done

    async def rollback(self, sources: Sequence[int]) -> list[MoveResult]:
        """Move data sources back to their previous stores, with all writes since the move.

        A move that has not switched to the new store yet is abandoned.
        """
        sources = sorted(set(sources))
        await self._give_up([source for source in sources if source not in {*self.map.moved, *self.map.left}])
        back = [source for source in sources if source in self.map.moved]
        await self._settle_all(back)
        done = []
        for (store, before), part in _grouped(back, lambda source: (self.map.owners[source], self.map.moved[source])):
            a, b = await self._side(self.map.stores[store]), await self._side(self.map.stores[before])
            done.append(await self._transfer(Move(part, a, b, secrets.randbits(62)), copies=False))
        await self._clear([source for source in sources if source in self.map.left])
        return done

    async def finish(self, sources: Sequence[int]) -> int:
        """Delete the rows in the previous stores and return their number. After that, no rollback is possible."""
        sources = sorted(set(sources))
        known = self.map
        if others := [source for source in sources if source not in {*known.moved, *known.left}]:
            raise InvalidInput(f"{ranges_of(others)} has no move to finish: list moves with `shoal shards`")
        moved = {source: store for source, store in known.moved.items() if source not in sources}
        left = {**known.left, **{source: known.moved[source] for source in sources if source in known.moved}}
        await self._settle_all(sources)
        # The map is published first: it makes a rollback impossible, so deleting the rows loses nothing.
        await self._publish(known._replace(version=known.version + 1, moved=moved, left=left))
        return await self._clear(sources)

    async def _clear(self, sources: Sequence[int]) -> int:
        await self._settle_all(sources)
        wiped = 0
        for (store, before), part in _grouped(sources, lambda source: (self.map.owners[source], self.map.left[source])):
            owner, old = await self._side(self.map.stores[store]), await self._side(self.map.stores[before])
            await owner.end(part)
            self.tell("delete", 0, 0)
            wiped += await old.wipe(part)
            await old.forget_recorded(part)
        left = {source: store for source, store in self.map.left.items() if source not in sources}
        if sources:
            await self._publish(self.map._replace(version=self.map.version + 1, left=left))
        return wiped

    async def _transfer(self, work: Move, *, copies: bool) -> MoveResult:
        await self._begin(work, copies=copies)
        try:
            if copies:
                await self._copy(work)
            await self._drain(work)
            rows = await self._compare_all(work)
            frozen = await self._switch(work, returns=not copies)
        except Conflict:
            if copies:
                await work.a.end(work.sources)
            raise
        return MoveResult(work.sources, rows, frozen)

    async def _begin(self, work: Move, *, copies: bool) -> None:
        self.tell("mark", 0, 0)
        await work.a.mark(work.sources, "copying", work.mover, work.b.url)
        if copies and work.b.url not in self.map.stores and await work.b.holds_others(work.sources):
            await work.a.end(work.sources)
            raise InvalidInput(
                f"{shown_url(work.b.url)} is not empty and not part of this network: name an empty store"
            )
        await work.b.mark(work.sources, "away", work.mover, work.a.url)

    async def _copy(self, work: Move) -> None:
        self.tell("clean", 0, 0)
        await work.b.wipe(work.sources)
        # The copy begins after this, so it contains the changes that have been logged so far.
        await work.a.forget_recorded(work.sources)
        for kind in RowKind:
            copied = 0

            def tell(size: int, kind: RowKind = kind) -> None:
                nonlocal copied
                copied += size
                self.tell(f"{kind.value} KB", copied // 1024, 0)

            tell(0)
            await work.a.copy_to(work.b, kind, work.sources, tell)

    async def _drain(self, work: Move, *, few: int = _FEW_ENTRIES) -> RowNames:
        """Copy journaled changes until at most `few` are left; return the keys of the changed rows."""
        touched = RowNames()
        while True:
            entries, names = await work.a.noted(work.sources, _ENTRIES_AT_ONCE)
            if entries:
                # The rows are read after the entries, so they are at least as new as the entries.
                await work.b.make_equal(names, await work.a.rows_of(names))
                await work.a.done(entries)
                touched = touched.plus(names)
                self.tell("changes", touched.size, 0)
            if len(entries) <= few:
                return touched

    async def _compare_all(self, work: Move) -> int:
        """Compare the rows in both stores, except those with pending changes; return the number of rows compared."""
        self.tell("compare", 0, 0)
        here, changing = await work.a.digest(work.sources)
        there = await work.b.digest_but(work.sources, changing)
        _check_equal(here, there)
        return here.rows

    async def _switch(self, work: Move, *, returns: bool) -> float:
        """Freeze the data sources, copy and compare the last changes, and switch to the new store.

        Returns for how many seconds writes were blocked.
        """
        loop = asyncio.get_running_loop()
        touched = RowNames()
        for _ in range(_FREEZES):
            touched = touched.plus(await self._drain(work))
            if touched.size > _MANY_NAMES:
                await self._compare_all(work)
                touched = await self._drain(work)
            self.tell("freeze", 0, 0)
            began = loop.time()
            await work.a.mark(work.sources, "frozen", work.mover, work.b.url, _FREEZE_SECONDS)
            # After any failure from here on, the freeze expires; only the store knows whether the switch was made.
            touched = touched.plus(await self._drain(work, few=0))
            _check_equal(*await asyncio.gather(work.a.digest_of(touched), work.b.digest_of(touched)))
            given = await self._give(work, returns=returns)
            if given:
                await self._settle(work)
                return loop.time() - began
        raise Unavailable("the write load is too high to copy the last changes: try again under less load")

    async def _give(self, work: Move, *, returns: bool) -> bool:
        known = self.map.with_store(work.b.url)
        a, b = known.stores.index(work.a.url), known.stores.index(work.b.url)
        new = known.moving(work.sources, a, b, returns=returns)
        self.tell("switch", 0, 0)
        if not await work.a.switch(work.sources, work.mover, work.b.url, new):
            return False
        self.map = new
        return True

    async def _settle(self, work: Move) -> None:
        """Publish the map, wait until no process uses the previous one, and allow writes in the new store."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEAD_SECONDS
        self.tell("settle", 0, 0)
        await work.b.publish(self.map)
        # If the mover dies now, the location opens by itself once no process can use the old map any more.
        await work.b.admit(work.sources, self.map.version, DEAD_SECONDS)
        await self._publish(self.map)
        # A process that has not acknowledged by then has lost its two-second map lease.
        while loop.time() < deadline:
            if not await work.a.laggards(self.map.version, DEAD_SECONDS):
                break
            await asyncio.sleep(_POLL_SECONDS)
        self.tell("open", 0, 0)
        await work.b.mark(work.sources, "copying", work.mover, work.a.url)

    async def _settle_all(self, sources: Iterable[int]) -> None:
        """Complete switches to a new store whose mover may have died."""
        olds = {**self.map.moved, **self.map.left}
        for (store, before), part in _grouped(sources, lambda source: (self.map.owners[source], olds[source])):
            old, owner = await self._side(self.map.stores[before]), await self._side(self.map.stores[store])
            await self._settle(Move(part, old, owner, secrets.randbits(62)))

    async def _publish(self, new: ShardMap) -> None:
        self.map = new
        sides = [await self._side(url) for url in new.stores]
        await asyncio.gather(*[side.publish(new) for side in sides])

    async def _give_up(self, sources: Sequence[int]) -> None:
        for store, part in self._by_owner(sources):
            owner = await self._side(self.map.stores[store])
            marks = await owner.marks()
            if unmarked := [source for source in part if source not in marks]:
                raise InvalidInput(f"{ranges_of(unmarked)} has no move to roll back: list moves with `shoal shards`")
            for peer, theirs in _grouped(part, {source: mark.peer or "" for source, mark in marks.items()}.__getitem__):
                await (await self._side(peer)).wipe(theirs)
            await owner.end(part)

    def _by_owner(self, sources: Iterable[int]) -> list[tuple[int, list[int]]]:
        return _grouped(sources, lambda source: self.map.owners[source])

    async def _side(self, url: str, *, joins: bool = False) -> Side:
        if url not in self.sides:
            self.sides[url] = await self.open_side(url, joins=joins)
        return self.sides[url]


@asynccontextmanager
async def open_mover(known: ShardMap, open_side: OpenSide, tell: Progress) -> AsyncIterator[Mover]:
    """Open the only mover of a network. Raises `Unavailable` if another one is active, or a store cannot be reached."""
    sides: dict[str, Side] = {}
    async with AsyncExitStack() as stack:

        async def close() -> None:
            for side in sides.values():
                await side.close()

        stack.push_async_callback(close)
        seen = None
        while seen != known.version:
            seen = known.version
            for url in known.stores:
                if url not in sides:
                    sides[url] = await open_side(url, joins=False)
            maps = [found for side in sides.values() if (found := await side.map())]
            known = max([known, *maps], key=lambda each: each.version)
        yield Mover(known, sides, open_side, tell)


def _check_equal(here: Digest, there: Digest) -> None:
    if here != there:
        raise Conflict(f"the copy differs in {', '.join(here.differences(there))}: the move was not made")


def _grouped(sources: Iterable[int], by: Callable[[int], K]) -> list[tuple[K, list[int]]]:
    groups: dict[K, list[int]] = {}
    for source in sorted(sources):
        groups.setdefault(by(source), []).append(source)
    return list(groups.items())
