"""Schemes at work: each places the batches that come, and keeps counts and the time that placing took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import thread_time

import numpy as np

from shoal.study.levels import level_figures
from shoal.study.mixing import Hashes
from shoal.study.names.batch import Amounts, NameBatch
from shoal.study.options import RING_TITLES
from shoal.study.results import Change, SchemeFigures, ServerFigures
from shoal.study.schemes.contract import LevelScheme, Loads, joined
from shoal.study.schemes.ring import Ring, bounded_activity, bounded_loads, bounded_moved
from shoal.study.schemes.servers import HashedScheme, ServerLoads
from shoal.study.schemes.shoal_map import even_map, owners_of, with_stores


class StopWatch:
    """The processor time that a piece of work took in all its rounds. Time on the clock would count what others do meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.names = 0

    @contextmanager
    def over(self, names: int) -> Iterator[None]:
        """Measure the block, which handles so many names."""
        began = thread_time()
        yield
        self.seconds += thread_time() - began
        self.names += names

    @property
    def nanoseconds(self) -> float:
        """For one name; 0 where there was none."""
        return self.seconds / self.names * 1e9 if self.names else 0.0


class LevelCount:
    """A scheme of levels at work."""

    def __init__(self, scheme: LevelScheme) -> None:
        self.scheme = scheme
        self.watch = StopWatch()
        self.alone = [Loads(level.buckets) for level in scheme.levels]
        sizes = np.cumprod([level.buckets for level in scheme.levels])
        self.paths = [Loads(int(size)) for size in sizes]

    def add(self, batch: NameBatch, activity: Amounts | None) -> None:
        """Place and count some members."""
        with self.watch.over(batch.size):
            placed = self.scheme.place(batch)
        path = placed[0]
        for at, (buckets, level) in enumerate(zip(placed, self.scheme.levels, strict=True)):
            path = joined(path, buckets, level.buckets) if at else path
            self.alone[at].add(buckets, activity)
            self.paths[at].add(path, None)

    def figures(self) -> SchemeFigures:
        """The scheme so far."""
        levels = [
            level_figures(level.name, loads, level.labels.__getitem__, level.graph)
            for level, loads in zip(self.scheme.levels, self.alone, strict=True)
        ]
        paths = [
            level_figures(
                " / ".join(each.name for each in self.scheme.levels[: at + 1]), loads, partial(self._path, at)
            )
            for at, loads in enumerate(self.paths)
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
    """A scheme that needs a hash and the number of servers, at work."""

    def __init__(self, scheme: HashedScheme, sizes: Sequence[int]) -> None:
        self.scheme = scheme
        self.watch = StopWatch()
        self.loads = ServerLoads(scheme, sizes)

    def add(self, hashes: Hashes, activity: Amounts | None) -> None:
        """Place and count some members."""
        home, *others = self.loads.sizes
        with self.watch.over(len(hashes)):
            placed = self.scheme.place(hashes, [home])
        self.loads.add([*placed, *self.scheme.place(hashes, others)], activity)

    def figures(self, hashing: float) -> ServerFigures:
        """The scheme so far; `hashing` are the nanoseconds of the hash that it needs."""
        loads = self.loads
        total = int(loads.loads[0].members.sum())
        return ServerFigures(
            key=self.scheme.key,
            title=self.scheme.title,
            nanoseconds=self.watch.nanoseconds + hashing,
            servers=level_figures("servers", loads.loads[0]),
            changes=[
                change(loads.sizes[0], size, moved, total)
                for size, moved in zip(loads.sizes[1:], loads.moved[1:], strict=True)
            ],
        )


class RingCount:
    """A ring at work. Who is on which server is worked out from the arcs at the end."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.ring = Ring(max(sizes))
        self.watch = StopWatch()

    def add(self, hashes: Hashes, activity: Amounts | None) -> None:
        """Place and count some members."""
        with self.watch.over(len(hashes)):
            arcs = self.ring.place(hashes)
        self.ring.arcs.add(arcs, activity)

    def figures(self, hashing: float) -> ServerFigures:
        """The ring without a bound."""
        home, *others = self.sizes
        total = int(self.ring.arcs.members.sum())
        return ServerFigures(
            key="ring",
            title=RING_TITLES["ring"],
            nanoseconds=self.watch.nanoseconds + hashing,
            servers=level_figures("servers", self.ring.loads(home)),
            changes=[change(home, size, self.ring.moved(home, size), total) for size in others],
        )

    def bounded_figures(self, hashing: float) -> ServerFigures:
        """The ring with bounded loads."""
        home, *others = self.sizes
        arcs = self.ring.arcs
        shares = self.ring.bounded(home)
        loads = Loads(home)
        loads.members += bounded_loads(shares, home)
        loads.activity += bounded_activity(shares, arcs, home)
        total = int(arcs.members.sum())
        return ServerFigures(
            key="bounded",
            title=RING_TITLES["bounded"],
            nanoseconds=self.watch.nanoseconds + hashing,
            servers=level_figures("servers", loads),
            changes=[change(home, size, bounded_moved(shares, self.ring.bounded(size)), total) for size in others],
        )


def shoal_figures(sources: Loads, sizes: Sequence[int], nanoseconds: float) -> ServerFigures:
    """Return Shoal's map from the members of its 64 data sources."""
    home, *others = sizes
    known = even_map(home)
    owners = owners_of(known)
    loads = Loads(home)
    loads.members += np.bincount(owners, sources.members, minlength=home).astype(np.int64)
    loads.activity += np.bincount(owners, sources.activity, minlength=home)
    total = int(sources.members.sum())
    changes = [
        change(home, size, int(sources.members[owners != owners_of(with_stores(known, size))].sum()), total)
        for size in others
    ]
    return ServerFigures(
        key="shoal",
        title="Shoal's map",
        nanoseconds=nanoseconds,
        servers=level_figures("stores", loads),
        changes=changes,
    )


def change(before: int, after: int, moved: int, total: int) -> Change:
    """Return a change of the number of servers, with the least that it must move where all are equally full."""
    return Change(before, after, moved, total * abs(after - before) / max(after, before))
