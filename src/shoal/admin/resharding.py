"""Distribution of a network over its stores and its 8,192 logical shards, and moves of shards while the network runs.

A move takes whole data sources or parts of them (`shard_map.parse_shards`).

Rows are copied while they change; changes are logged and copied again until few remain. Then counts and hashes of all rows
are compared. The shards are frozen while the last changes are copied and compared, and are handed over together with
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
from typing import NamedTuple

from shoal.admin.consistency.scan import OBJECTS_AT_ONCE, ROWS_AT_ONCE
from shoal.admin.report import Progress
from shoal.core.errors import Conflict, InvalidInput, Unavailable
from shoal.core.ids import shard_of
from shoal.core.placement import SHARDS, SHARDS_PER_SOURCE
from shoal.graph.bulk import ASSOC_BYTES, FIRST, Spread, Spreading, grouped, weigh
from shoal.graph.contract import Store
from shoal.graph.shard_map import DEAD_SECONDS, Digest, RowKind, RowNames, ShardMap, Side, ranges_of, shown_url


class Evenness(NamedTuple):
    mean: float
    deviation: float
    least: int
    most: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Evenness:
        return cls(fmean(numbers), pstdev(numbers), min(numbers), max(numbers))


async def spread_of(store: Store, tell: Progress) -> list[Spread]:
    """Return the numbers of members, posts and bytes in each of the 8,192 shards. A store that cannot report them is scanned."""
    spreads = await store.spread() if isinstance(store, Spreading) else await _counted(store, tell)
    return [spreads.get(shard, Spread()) for shard in range(SHARDS)]


def by_source(spreads: Sequence[Spread]) -> list[Spread]:
    return [total(spreads[at : at + SHARDS_PER_SOURCE]) for at in range(0, SHARDS, SHARDS_PER_SOURCE)]


def total(spreads: Iterable[Spread]) -> Spread:
    return reduce(Spread.plus, spreads, Spread())


def evenness(spreads: Sequence[Spread]) -> Mapping[str, Evenness]:
    columns = zip(*spreads, strict=True)
    return {name: Evenness.of(numbers) for name, numbers in zip(Spread._fields, columns, strict=True)}


async def _counted(store: Store, tell: Progress) -> dict[int, Spread]:
    spreads: dict[int, Spread] = {}
    read = 0

    def add(id_: int, weight: Spread) -> None:
        shard = shard_of(id_)
        spreads[shard] = spreads.get(shard, Spread()).plus(weight)

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


OpenSide = Callable[..., Awaitable[Side]]
"""Opens a store by its URL for a move. With `joins`, the store may be an empty database, which joins the network."""

_FREEZE_SECONDS = 1.5
"""Seconds until a freeze expires, if the mover died or is too slow. A slow mover then tries again."""
_FREEZES = 40
_ENTRIES_AT_ONCE = 5_000
_FEW_ENTRIES = 300
"""Maximum number of changes that are copied during the freeze, which takes some tens of milliseconds."""
_MANY_NAMES = 50_000
"""Maximum number of changed rows that are compared during the freeze.

If more changed, all rows are compared again before the freeze.
"""
_POLL_SECONDS = 0.01


class MoveResult(NamedTuple):
    shards: list[int]
    rows: int
    frozen: float
    """Seconds from the freeze until the new store accepted writes."""


class Move(NamedTuple):
    """Shards that move from the store `a` to the store `b`."""

    shards: list[int]
    a: Side
    b: Side
    mover: int


@dataclass
class Mover:
    """Moves shards; created by `open_mover`. `map` is always the newest shard map."""

    map: ShardMap
    sides: dict[str, Side]
    open_side: OpenSide
    tell: Progress

    async def move(self, shards: Sequence[int], url: str) -> list[MoveResult]:
        """Move shards to the store at a URL.

        Raises `InvalidInput` if the shards or the store cannot take part in a move, `Unavailable` if a store cannot be
        reached or has too many writes, and `Conflict` if the copy differs.
        """
        shards = sorted(set(shards))
        here = [shard for shard in shards if self.map.stores[self.map.owners[shard]] == url]
        if pending := sorted({*self.map.moved, *self.map.left} & set(shards) - set(here)):
            raise InvalidInput(
                f"the last move of {ranges_of(pending)} is not finished: finish it or roll it back first"
            )
        await self._settle_all([shard for shard in here if shard in self.map.moved])
        done = []
        for store, part in self._by_owner(set(shards) - set(here)):
            b = await self._side(url, joins=url not in self.map.stores)
            work = Move(part, await self._side(self.map.stores[store]), b, secrets.randbits(62))
            done.append(await self._transfer(work, copies=True))
        return done

    async def rollback(self, shards: Sequence[int]) -> list[MoveResult]:
        """Move shards back to their previous stores, with all writes since the move.

        A move that has not switched to the new store yet is abandoned.
        """
        shards = sorted(set(shards))
        known = self.map.moved.keys() | self.map.left.keys()
        await self._give_up([shard for shard in shards if shard not in known])
        back = [shard for shard in shards if shard in self.map.moved]
        await self._settle_all(back)
        done = []
        for (store, before), part in grouped(
            back, lambda shard: (self.map.owners[shard], self.map.moved[shard])
        ).items():
            a, b = await self._side(self.map.stores[store]), await self._side(self.map.stores[before])
            done.append(await self._transfer(Move(part, a, b, secrets.randbits(62)), copies=False))
        await self._clear([shard for shard in shards if shard in self.map.left])
        return done

    async def finish(self, shards: Sequence[int]) -> int:
        """Delete the rows in the old stores, and return their number. A rollback is impossible afterwards."""
        shards = sorted(set(shards))
        known = self.map
        if others := set(shards) - known.moved.keys() - known.left.keys():
            raise InvalidInput(f"{ranges_of(others)} has no move to finish: list moves with `shoal shards`")
        moved = dict(known.moved)
        left = {**known.left, **{shard: moved.pop(shard) for shard in shards if shard in moved}}
        await self._settle_all(shards)
        # Publish the map first: it rules out a rollback, so the rows in the old stores are no longer needed.
        await self._publish(known._replace(version=known.version + 1, moved=moved, left=left))
        return await self._clear(shards)

    async def _clear(self, shards: Sequence[int]) -> int:
        await self._settle_all(shards)
        cleared, wiped = set(shards), 0
        for (store, before), part in grouped(
            sorted(shards), lambda shard: (self.map.owners[shard], self.map.left[shard])
        ).items():
            owner, old = await self._side(self.map.stores[store]), await self._side(self.map.stores[before])
            await owner.end(part)
            self.tell("delete", 0, 0)
            wiped += await old.wipe(part)
            await old.forget_recorded(part)
        if shards:
            left = {shard: store for shard, store in self.map.left.items() if shard not in cleared}
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
                await work.a.end(work.shards)
            raise
        return MoveResult(work.shards, rows, frozen)

    async def _begin(self, work: Move, *, copies: bool) -> None:
        self.tell("mark", 0, 0)
        await work.a.mark(work.shards, "copying", work.mover, work.b.url)
        if copies and work.b.url not in self.map.stores and await work.b.holds_others(work.shards):
            await work.a.end(work.shards)
            raise InvalidInput(
                f"{shown_url(work.b.url)} is not empty and not part of this network: name an empty store"
            )
        await work.b.mark(work.shards, "away", work.mover, work.a.url)
        if await work.a.log_end():
            await work.b.turn_log_on()

    async def _copy(self, work: Move) -> None:
        self.tell("clean", 0, 0)
        await work.b.wipe(work.shards)
        # Empty the journal before the copy begins. The copy contains all changes that the journal contained.
        await work.a.forget_recorded(work.shards)
        for kind in RowKind:
            copied = 0

            def tell(size: int, kind: RowKind = kind) -> None:
                nonlocal copied
                copied += size
                self.tell(f"{kind.value} KB", copied // 1024, 0)

            tell(0)
            await work.a.copy_to(work.b, kind, work.shards, tell)

    async def _drain(self, work: Move, *, few: int = _FEW_ENTRIES) -> RowNames:
        """Copy the changes in the journal until at most `few` remain. Return the keys of the changed rows."""
        touched = RowNames()
        while True:
            entries, names = await work.a.recorded_changes(work.shards, _ENTRIES_AT_ONCE)
            if entries:
                # The rows are read after the journal, so they are at least as new as its entries.
                await work.b.make_equal(names, await work.a.rows_of(names))
                await work.a.done(entries)
                touched = touched.plus(names)
                self.tell("changes", touched.size, 0)
            if len(entries) <= few:
                return touched

    async def _compare_all(self, work: Move) -> int:
        """Compare the rows of both stores, except those with changes in the journal. Return how many were compared."""
        self.tell("compare", 0, 0)
        here, changing = await work.a.digest(work.shards)
        there = await work.b.digest_but(work.shards, changing)
        _check_equal(here, there)
        return here.rows

    async def _switch(self, work: Move, *, returns: bool) -> float:
        """Freeze the shards, copy and compare the last changes, and switch to the new store.

        `returns` means that this is a rollback. Returns the seconds for which writes were blocked.
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
            await work.a.mark(work.shards, "frozen", work.mover, work.b.url, _FREEZE_SECONDS)
            # If a call below fails, writes are allowed again when the freeze expires. Only the store knows then whether
            # the switch was made.
            touched = touched.plus(await self._drain(work, few=0))
            here, there = await asyncio.gather(work.a.digest_of(touched), work.b.digest_of(touched))
            if loop.time() - began >= _FREEZE_SECONDS:
                # The freeze has expired, so rows may have changed since the journal was copied.
                continue
            _check_equal(here, there)
            if await self._give(work, returns=returns):
                await self._settle(work)
                return loop.time() - began
        raise Unavailable("the write load is too high to copy the last changes: try again under less load")

    async def _give(self, work: Move, *, returns: bool) -> bool:
        known = self.map.with_store(work.b.url)
        a, b = known.stores.index(work.a.url), known.stores.index(work.b.url)
        # The shards are frozen, so this log has no later commit of them.
        new = known.moving(work.shards, a, b, returns=returns, end=await work.a.log_end())
        self.tell("switch", 0, 0)
        if not await work.a.switch(work.shards, work.mover, work.b.url, new):
            return False
        self.map = new
        return True

    async def _settle(self, work: Move) -> None:
        """Publish the map, wait until no process uses the previous map, and allow writes in the new store."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEAD_SECONDS
        self.tell("settle", 0, 0)
        await work.b.publish(self.map)
        # If the mover dies now, the new store allows writes by itself once no process can use the old map.
        await work.b.admit(work.shards, self.map.version, DEAD_SECONDS, self.map.ends)
        # Do not wait until all stores have the map: a process adopts it from any store, so the new store may accept
        # writes before the others have it.
        publishing = asyncio.create_task(self._publish(self.map))
        try:
            # A process that has not acknowledged the map at the deadline has lost its map lease, which lasts two
            # seconds.
            while loop.time() < deadline:
                if not await work.a.laggards(self.map.version, DEAD_SECONDS):
                    break
                await asyncio.sleep(_POLL_SECONDS)
            self.tell("open", 0, 0)
            await work.b.mark(work.shards, "copying", work.mover, work.a.url)
        finally:
            await publishing

    async def _settle_all(self, shards: Iterable[int]) -> None:
        """Complete the switches of these shards to new stores, in case the mover died during a switch."""
        olds = {**self.map.moved, **self.map.left}
        for (store, before), part in grouped(
            sorted(shards), lambda shard: (self.map.owners[shard], olds[shard])
        ).items():
            old, owner = await self._side(self.map.stores[before]), await self._side(self.map.stores[store])
            await self._settle(Move(part, old, owner, secrets.randbits(62)))

    async def _publish(self, new: ShardMap) -> None:
        self.map = new
        sides = [await self._side(url) for url in new.stores]
        await asyncio.gather(*[side.publish(new) for side in sides])

    async def _give_up(self, shards: Sequence[int]) -> None:
        for store, part in self._by_owner(shards):
            owner = await self._side(self.map.stores[store])
            marks = await owner.marks()
            if unmarked := [shard for shard in part if shard not in marks]:
                raise InvalidInput(f"{ranges_of(unmarked)} has no move to roll back: list moves with `shoal shards`")
            for peer, theirs in grouped(
                part, {shard: mark.peer or "" for shard, mark in marks.items()}.__getitem__
            ).items():
                await (await self._side(peer)).wipe(theirs)
            await owner.end(part)

    def _by_owner(self, shards: Iterable[int]) -> Iterable[tuple[int, list[int]]]:
        return grouped(sorted(shards), self.map.owners.__getitem__).items()

    async def _side(self, url: str, *, joins: bool = False) -> Side:
        if url not in self.sides:
            self.sides[url] = await self.open_side(url, joins=joins)
        return self.sides[url]


@asynccontextmanager
async def open_mover(known: ShardMap, open_side: OpenSide, tell: Progress) -> AsyncIterator[Mover]:
    """Open the only mover of a network. Raises `Unavailable` if another one is active or a store cannot be reached."""
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
