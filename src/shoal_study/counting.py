"""Options of a study, counts of the placed batches with the time that placing takes, and rebalancing of a hot server.

Heat is the activity of a server divided by the mean. A scheme succeeds if no server is hotter than `HOT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import thread_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import InvalidInput
from shoal_study.hash_schemes import (
    HashedScheme,
    Jump,
    Modulo,
    Rendezvous,
    Ring,
    ServerLoads,
    bounded_activity,
    bounded_loads,
    bounded_moved,
)
from shoal_study.map_schemes import (
    Cooled,
    Ranges,
    Units,
    cooled,
    even_map,
    evenly_assigned,
    moved_members,
    owners_of,
    with_stores,
)
from shoal_study.name_schemes import AsciiSum, Letters, LevelScheme, Loads, Md5Levels, joined
from shoal_study.names import Amounts, Hashes, NameBatch, Numbers
from shoal_study.statistics import Change, Cooling, SchemeFigures, ServerFigures, level_figures

LEVEL_SCHEMES: Mapping[str, Callable[[], LevelScheme]] = {"letters": Letters, "ascii-sum": AsciiSum, "md5": Md5Levels}
HASHED_SCHEMES: Mapping[str, Callable[[], HashedScheme]] = {"modulo": Modulo, "jump": Jump, "rendezvous": Rendezvous}
RING_TITLES: Mapping[str, str] = {"ring": "Ring", "bounded": "Bounded loads"}
SCHEMES = ("letters", "ascii-sum", "mapping", "md5", "shoal", *HASHED_SCHEMES, *RING_TITLES)
"""Keys of the schemes, in the order in which they are shown."""
MOST_SERVERS = 64
"""A network has 64 data sources, so a 65th store would be empty."""
MOST_RANGE = 1_000_000_000
MOST_ZIPF = 2.0
MOST_SEED = 2**31 - 1


class StudyOptions(NamedTuple):
    schemes: Sequence[str] = SCHEMES
    servers: int = 20
    grown: int = 24
    """Servers after several were added at once."""
    range_size: int = 10_000
    """Members per range of the mapping scheme. The default is one of the paper's examples."""
    zipf: float = 0.9
    """Zipf exponent of activity if the source has none; 0: all members are equally active and no server is hot."""
    seed: int = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((self.servers, self.servers + 1, self.servers - 1, self.grown)))

    def check(self) -> None:
        """Raise `InvalidInput` for options that contradict each other. The value of a single option is checked where it is read."""
        if self.grown <= self.servers:
            raise InvalidInput(
                f"--grown: must be more than --servers ({self.servers}) and at most {MOST_SERVERS}",
                field="grown",
            )


class Named(NamedTuple):
    key: str
    title: str
    unit: str = ""


class StopWatch:
    """Accumulates the CPU time of some work. Wall-clock time would include other processes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.names = 0

    @contextmanager
    def over(self, names: int) -> Iterator[None]:
        began = thread_time()
        yield
        self.seconds += thread_time() - began
        self.names += names

    @property
    def nanoseconds(self) -> float:
        return self.seconds / self.names * 1e9 if self.names else 0.0


class LevelCount:
    def __init__(self, scheme: LevelScheme) -> None:
        self.scheme = scheme
        self.watch = StopWatch()
        self.alone = [Loads(level.buckets) for level in scheme.levels]
        sizes = np.cumprod([level.buckets for level in scheme.levels])
        self.paths = [Loads(int(size)) for size in sizes]

    def add(self, batch: NameBatch, activity: Amounts | None) -> None:
        with self.watch.over(batch.size):
            placed = self.scheme.place(batch)
        path = placed[0]
        for at, (buckets, level) in enumerate(zip(placed, self.scheme.levels, strict=True)):
            path = joined(path, buckets, level.buckets) if at else path
            self.alone[at].add(buckets, activity)
            self.paths[at].add(path, None)

    def figures(self) -> SchemeFigures:
        levels = [
            level_figures(level.name, loads, level.labels.__getitem__, "" if at else level.graph)
            for at, (level, loads) in enumerate(zip(self.scheme.levels, self.alone, strict=True))
        ]
        paths = [
            level_figures(level.path, loads, partial(self._path, at), level.graph)
            for at, (level, loads) in enumerate(zip(self.scheme.levels, self.paths, strict=True))
        ]
        return SchemeFigures(
            key=self.scheme.key,
            title=self.scheme.title,
            nanoseconds=self.watch.nanoseconds,
            levels=levels,
            paths=paths,
        )

    def _path(self, depth: int, bucket: int) -> str:
        parts: list[str] = []
        for level in reversed(self.scheme.levels[: depth + 1]):
            bucket, own = divmod(bucket, level.buckets)
            parts.append(level.labels[own])
        return "/".join(reversed(parts))


class HashedCount:
    """Counts the members per server for a scheme that assigns a name by its hash and the number of servers."""

    def __init__(self, scheme: HashedScheme, sizes: Sequence[int]) -> None:
        self.scheme = scheme
        self.watch = StopWatch()
        self.loads = ServerLoads(scheme, sizes)

    def add(self, hashes: Hashes, activity: Amounts | None) -> None:
        home, *others = self.loads.sizes
        with self.watch.over(len(hashes)):
            placed = self.scheme.place(hashes, [home])
        self.loads.add([*placed, *self.scheme.place(hashes, others)], activity)

    def figures(self, hashing: float) -> ServerFigures:
        """Return the figures of the names added so far. `hashing` is the time for hashing a name, in nanoseconds."""
        moved = dict(zip(self.loads.sizes, self.loads.moved, strict=True))
        time = self.watch.nanoseconds + hashing
        return _figures(
            Named(self.scheme.key, self.scheme.title), self.loads.loads[0], self.loads.sizes, moved.__getitem__, time
        )


class RingCount:
    """Counts the members per arc of a hash ring. The members per server are computed from these counts at the end."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.ring = Ring(max(sizes))
        self.watch = StopWatch()

    def add(self, hashes: Hashes, activity: Amounts | None) -> None:
        with self.watch.over(len(hashes)):
            arcs = self.ring.place(hashes)
        self.ring.arcs.add(arcs, activity)

    def figures(self, hashing: float) -> ServerFigures:
        home, time = self.sizes[0], self.watch.nanoseconds + hashing
        ring = Named("ring", RING_TITLES["ring"])
        return _figures(ring, self.ring.loads(home), self.sizes, lambda size: self.ring.moved(home, size), time)

    def bounded_figures(self, hashing: float) -> ServerFigures:
        home, time = self.sizes[0], self.watch.nanoseconds + hashing
        shares = self.ring.bounded(home)
        loads = Loads(home)
        loads.members += bounded_loads(shares, home)
        loads.activity += bounded_activity(shares, self.ring.arcs, home)
        bounded = Named("bounded", RING_TITLES["bounded"])
        return _figures(bounded, loads, self.sizes, lambda size: bounded_moved(shares, self.ring.bounded(size)), time)


def shoal_figures(sources: Loads, sizes: Sequence[int], nanoseconds: float) -> ServerFigures:
    """Return the figures of Shoal's shard map, computed from the members in each of its 64 data sources."""
    known = even_map(sizes[0])
    owners = owners_of(known)

    def moved(size: int) -> int:
        return moved_members(owners, owners_of(with_stores(known, size)), sources.members)

    shoal = Named("shoal", "Shoal's map")
    return _figures(shoal, sources.grouped(owners, sizes[0]), sizes, moved, nanoseconds, "stores")


def _figures(
    named: Named,
    loads: Loads,
    sizes: Sequence[int],
    moved: Callable[[int], int],
    nanoseconds: float,
    servers: str = "servers",
) -> ServerFigures:
    """Return the figures of a scheme on `sizes[0]` servers.

    `moved(n)` is the number of members who move if there are n servers instead.
    """
    home, *others = sizes
    total = int(loads.members.sum())
    return ServerFigures(
        key=named.key,
        title=named.title,
        nanoseconds=nanoseconds,
        servers=level_figures(servers, loads),
        changes=[change(home, size, moved(size), total) for size in others],
    )


def change(before: int, after: int, moved: int, total: int) -> Change:
    """Return how many members a change of the number of servers moves, and how many must move for an even load."""
    return Change(before, after, moved, total * abs(after - before) / max(after, before), total)


HOT = 1.25
"""Maximum heat of a server."""
LETTERS = Named("letters", "Letters", "letter")
SUMS = Named("ascii-sum", "ASCII sum", "sum")
_RANGES = Named("mapping", "Mapping", "range")
_SOURCES = Named("md5", "MD5 and Shoal's map", "data source")
_ARCS = Named("ring", "Ring, bounded or not", "ring arc")


def by_buckets(named: Named, loads: Loads, servers: int) -> Cooling:
    owners = evenly_assigned(loads.members, servers)
    return _cooling(named, servers, cooled(owners, Units(loads.members, loads.activity), servers, HOT))


def by_sources(loads: Loads, stores: int) -> Cooling:
    """Rebalance Shoal's scheme: move data sources from the most active store to the least active one."""
    return _cooling(
        _SOURCES, stores, cooled(owners_of(even_map(stores)), Units(loads.members, loads.activity), stores, HOT)
    )


def by_arcs(ring: Ring, servers: int) -> Cooling:
    """Rebalance a hash ring: move arcs (of one virtual node each) from the most active server to the least active one."""
    return _cooling(
        _ARCS, servers, cooled(ring.owners(servers), Units(ring.arcs.members, ring.arcs.activity), servers, HOT)
    )


def by_ranges(ranges: Ranges, servers: int) -> Cooling:
    """Rebalance the mapping scheme by moving ranges. Each request must then look up the server of its member's range."""
    return _cooling(_RANGES, servers, cooled(ranges.owners(servers), ranges.units, servers, HOT))


def by_adding(named: Named, loads: ServerLoads) -> Cooling:
    """Rebalance a hash scheme by adding a server, because the scheme cannot choose which members move."""
    home, grown = _heat(loads.loads[0]), _heat(loads.loads[1])
    if home <= HOT:
        return _cooling(named, loads.sizes[0], Cooled(home, home, 0, 0, 0.0))
    moved = loads.moved[1]
    share = moved / max(int(loads.loads[0].members.sum()), 1)
    return _cooling(named, loads.sizes[0], Cooled(home, grown, 1, moved, share))


def _cooling(named: Named, servers: int, done: Cooled) -> Cooling:
    return Cooling(
        key=named.key,
        title=named.title,
        unit=named.unit,
        servers=servers,
        before=done.before,
        after=done.after,
        units=done.units,
        members=done.members,
        moved_activity=done.activity,
        bound=HOT,
        reached=done.after <= HOT,
    )


def _heat(loads: Loads) -> float:
    total = float(loads.activity.sum())
    return float(loads.activity.max()) * len(loads.activity) / total if total else 0.0


def heats(members: Numbers, activity: NDArray[np.float64]) -> list[float]:
    total = float(activity.sum())
    return [round(float(each) * len(members) / total, 4) for each in activity] if total else []
