"""Data sources moved from store to store while the network runs.

The rows are copied while they change; what changes is noted, and copied again until little is left. The first comparison of
counts and hashes is made then, of everything. Now the data sources are frozen for the moment in which the last changes are
copied and compared, and are given away together with the map that says so. Nobody may write them in their new place until
every process goes by that map; nobody ever writes them in the old one again. So no write is lost, and nothing old is read
after something newer was acknowledged.

The old rows stay, and changes are noted in the new place, until the move is finished: till then it can be rolled back. The
mover may die at any moment: the network goes on, and the same command takes the move up again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, TypeVar

from shoal.core.errors import Conflict, InvalidInput, Unavailable
from shoal.graph.sharding.shard_map import DEAD_SECONDS, Digest, RowKind, RowNames, ShardMap, Side, ranges_of, shown_url
from shoal.ops.checking.report import Progress

K = TypeVar("K")

OpenSide = Callable[..., Awaitable[Side]]
"""Opens a store for moving, by its URL; with `joins` it may be an empty database still."""

_FREEZE_SECONDS = 1.5
"""A frozen data source thaws by itself after so long: its mover is dead, or too slow and tries again."""
_FREEZES = 40
_ENTRIES_AT_ONCE = 5_000
_FEW_ENTRIES = 300
"""So many changes are copied within the freeze: some tens of milliseconds."""
_MANY_NAMES = 50_000
"""More changed rows than these are not compared within a freeze, but all rows once more before it."""
_POLL_SECONDS = 0.01


class MoveResult(NamedTuple):
    """The result of a move of data sources."""

    sources: list[int]
    rows: int
    """Compared on both sides, and equal."""
    frozen: float
    """Seconds from the freeze until the new place could be written."""


class Move(NamedTuple):
    """One store gives data sources to another."""

    sources: list[int]
    a: Side
    b: Side
    mover: int


class Mover:
    """Makes one with `open_mover`. `map` is the newest there is, whatever it does."""

    def __init__(self, known: ShardMap, sides: dict[str, Side], open_side: OpenSide, tell: Progress) -> None:
        self.map = known
        self._sides = sides
        self._open_side = open_side
        self._tell = tell

    async def move(self, sources: Sequence[int], url: str) -> list[MoveResult]:
        """Give these to the store of a URL. Raises `InvalidInput`, `Unavailable` and `Conflict` (the copy is not equal)."""
        sources = sorted(set(sources))
        here = [source for source in sources if self.map.stores[self.map.owners[source]] == url]
        if pending := sorted({*self.map.moved, *self.map.left} & set(sources) - set(here)):
            raise InvalidInput(
                f"the last move of {ranges_of(pending)} is not finished: finish it or roll it back first"
            )
        await self._settle_all([source for source in here if source in self.map.moved])
        done = []
        for place, part in self._by_owner(set(sources) - set(here)):
            b = await self._side(url, joins=url not in self.map.stores)
            work = Move(part, await self._side(self.map.stores[place]), b, secrets.randbits(62))
            done.append(await self._transfer(work, copies=True))
        return done

    async def rollback(self, sources: Sequence[int]) -> list[MoveResult]:
        """Bring these back to where they were, with all that was written since; a move that was not switched is given up."""
        sources = sorted(set(sources))
        await self._give_up([source for source in sources if source not in {*self.map.moved, *self.map.left}])
        back = [source for source in sources if source in self.map.moved]
        await self._settle_all(back)
        done = []
        for (place, before), part in _grouped(back, lambda source: (self.map.owners[source], self.map.moved[source])):
            a, b = await self._side(self.map.stores[place]), await self._side(self.map.stores[before])
            done.append(await self._transfer(Move(part, a, b, secrets.randbits(62)), copies=False))
        await self._clear([source for source in sources if source in self.map.left])
        return done

    async def finish(self, sources: Sequence[int]) -> int:
        """Delete what the old places still have; there is no way back then. How many rows those were."""
        sources = sorted(set(sources))
        known = self.map
        if others := [source for source in sources if source not in {*known.moved, *known.left}]:
            raise InvalidInput(f"{ranges_of(others)} has no move to finish: `shoal shards` shows those there are")
        moved = {source: place for source, place in known.moved.items() if source not in sources}
        left = {**known.left, **{source: known.moved[source] for source in sources if source in known.moved}}
        await self._settle_all(sources)
        # Once this is known there is no way back, so nothing is missed of what is deleted next.
        await self._publish(known._replace(version=known.version + 1, moved=moved, left=left))
        return await self._clear(sources)

    async def _clear(self, sources: Sequence[int]) -> int:
        """Delete what was left behind; how many rows."""
        await self._settle_all(sources)
        wiped = 0
        for (place, before), part in _grouped(sources, lambda source: (self.map.owners[source], self.map.left[source])):
            owner, old = await self._side(self.map.stores[place]), await self._side(self.map.stores[before])
            await owner.end(part)
            self._tell("delete", 0, 0)
            wiped += await old.wipe(part)
            await old.forget_noted(part)
        left = {source: place for source, place in self.map.left.items() if source not in sources}
        if sources:
            await self._publish(self.map._replace(version=self.map.version + 1, left=left))
        return wiped

    # One move

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
        self._tell("mark", 0, 0)
        await work.a.mark(work.sources, "copying", work.mover, work.b.url)
        if copies and work.b.url not in self.map.stores and await work.b.holds_others(work.sources):
            await work.a.end(work.sources)
            raise InvalidInput(f"{shown_url(work.b.url)} holds something already, and is not part of this network")
        await work.b.mark(work.sources, "away", work.mover, work.a.url)

    async def _copy(self, work: Move) -> None:
        self._tell("clean", 0, 0)
        await work.b.wipe(work.sources)
        # What was noted until now is in the copy, which begins later.
        await work.a.forget_noted(work.sources)
        for kind in RowKind:
            copied = 0

            def tell(size: int, kind: RowKind = kind) -> None:
                nonlocal copied
                copied += size
                self._tell(f"{kind.value} KB", copied // 1024, 0)

            tell(0)
            await work.a.copy_to(work.b, kind, work.sources, tell)

    async def _drain(self, work: Move, *, few: int = _FEW_ENTRIES) -> RowNames:
        """Copy what has changed, until no more than `few` changes are left; which rows those were."""
        touched = RowNames()
        while True:
            entries, names = await work.a.noted(work.sources, _ENTRIES_AT_ONCE)
            if entries:
                # Read after the entries: so they are at least as new as what the entries tell of.
                await work.b.make_equal(names, await work.a.rows_of(names))
                await work.a.done(entries)
                touched = touched.plus(names)
                self._tell("changes", touched.size, 0)
            if len(entries) <= few:
                return touched

    async def _compare_all(self, work: Move) -> int:
        """All rows as they are at one moment in the old place, but for those whose changes are not copied yet."""
        self._tell("compare", 0, 0)
        here, changing = await work.a.digest(work.sources)
        there = await work.b.digest_but(work.sources, changing)
        _check_equal(here, there)
        return here.rows

    async def _switch(self, work: Move, *, returns: bool) -> float:
        """Freeze, copy and compare the rest, and give away; how many seconds nobody could write."""
        loop = asyncio.get_running_loop()
        touched = RowNames()
        for _ in range(_FREEZES):
            touched = touched.plus(await self._drain(work))
            if touched.size > _MANY_NAMES:
                await self._compare_all(work)
                touched = await self._drain(work)
            self._tell("freeze", 0, 0)
            began = loop.time()
            await work.a.mark(work.sources, "frozen", work.mover, work.b.url, _FREEZE_SECONDS)
            # Whatever fails from here on, the freeze ends by itself; whether the switch was made only the store knows.
            touched = touched.plus(await self._drain(work, few=0))
            _check_equal(*await asyncio.gather(work.a.digest_of(touched), work.b.digest_of(touched)))
            given = await self._give(work, returns=returns)
            if given:
                await self._settle(work)
                return loop.time() - began
        raise Unavailable("the last changes could not be copied fast enough: try again when less is written")

    async def _give(self, work: Move, *, returns: bool) -> bool:
        known = self.map.with_store(work.b.url)
        a, b = known.stores.index(work.a.url), known.stores.index(work.b.url)
        new = known.moving(work.sources, a, b, returns=returns)
        self._tell("switch", 0, 0)
        if not await work.a.switch(work.sources, work.mover, work.b.url, new):
            return False
        self.map = new
        return True

    # After the switch

    async def _settle(self, work: Move) -> None:
        """Tell everybody, wait until nobody goes by the old map, and let the new place be written."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEAD_SECONDS
        self._tell("settle", 0, 0)
        await work.b.publish(self.map)
        # Should we die now, it opens by itself when nobody can go by the old map any more.
        await work.b.admit(work.sources, self.map.version, DEAD_SECONDS)
        await self._publish(self.map)
        # Whoever has not said so by then believes nothing either: its two seconds are over.
        while loop.time() < deadline:
            if not await work.a.laggards(self.map.version, DEAD_SECONDS):
                break
            await asyncio.sleep(_POLL_SECONDS)
        self._tell("open", 0, 0)
        await work.b.mark(work.sources, "copying", work.mover, work.a.url)

    async def _settle_all(self, sources: Iterable[int]) -> None:
        """The end of switches whose mover may have died over them."""
        olds = {**self.map.moved, **self.map.left}
        for (place, before), part in _grouped(sources, lambda source: (self.map.owners[source], olds[source])):
            old, owner = await self._side(self.map.stores[before]), await self._side(self.map.stores[place])
            await self._settle(Move(part, old, owner, secrets.randbits(62)))

    async def _publish(self, new: ShardMap) -> None:
        self.map = new
        sides = [await self._side(url) for url in new.stores]
        await asyncio.gather(*[side.publish(new) for side in sides])

    async def _give_up(self, sources: Sequence[int]) -> None:
        for place, part in self._by_owner(sources):
            owner = await self._side(self.map.stores[place])
            marks = await owner.marks()
            if unmarked := [source for source in part if source not in marks]:
                raise InvalidInput(
                    f"{ranges_of(unmarked)} has no move to roll back: `shoal shards` shows those there are"
                )
            for peer, theirs in _grouped(part, {source: mark.peer or "" for source, mark in marks.items()}.__getitem__):
                await (await self._side(peer)).wipe(theirs)
            await owner.end(part)

    def _by_owner(self, sources: Iterable[int]) -> list[tuple[int, list[int]]]:
        return _grouped(sources, lambda source: self.map.owners[source])

    async def _side(self, url: str, *, joins: bool = False) -> Side:
        if url not in self._sides:
            self._sides[url] = await self._open_side(url, joins=joins)
        return self._sides[url]


@asynccontextmanager
async def open_mover(known: ShardMap, open_side: OpenSide, tell: Progress) -> AsyncIterator[Mover]:
    """The only mover of the network of this map. Raises `Unavailable` when there is another, or a store cannot be reached."""
    sides: dict[str, Side] = {}
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_close, sides)
        seen = None
        while seen != known.version:
            seen = known.version
            for url in known.stores:
                if url not in sides:
                    sides[url] = await open_side(url, joins=False)
            maps = [found for side in sides.values() if (found := await side.map())]
            known = max([known, *maps], key=lambda each: each.version)
        yield Mover(known, sides, open_side, tell)


async def _close(sides: dict[str, Side]) -> None:
    for side in sides.values():
        await side.close()


def _check_equal(here: Digest, there: Digest) -> None:
    if here != there:
        raise Conflict(f"the copy is not equal in {', '.join(here.differences(there))}: nothing was switched")


def _grouped(sources: Iterable[int], by: Callable[[int], K]) -> list[tuple[K, list[int]]]:
    groups: dict[K, list[int]] = {}
    for source in sorted(sources):
        groups.setdefault(by(source), []).append(source)
    return list(groups.items())
