"""A study: turns batches of names into figures. It keeps counts and a sample of names that is discarded at the end.

If the source has no activity, activity follows a Zipf law over the position in the list.
"""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from shoal.core.errors import InvalidInput, missing_package
from shoal.core.placement import place
from shoal_study import counting, hash_schemes, paper
from shoal_study.constraints import Evidence, Growth, constraints
from shoal_study.counting import (
    HASHED_SCHEMES,
    LEVEL_SCHEMES,
    RING_TITLES,
    HashedCount,
    LevelCount,
    Named,
    RingCount,
    StopWatch,
    StudyOptions,
    change,
    shoal_figures,
)
from shoal_study.map_schemes import (
    Owners,
    Ranges,
    even_map,
    evenly_assigned,
    expanded,
    members_by_server,
    moved_members,
    owners_of,
    with_stores,
)
from shoal_study.names import Amounts, NameBatch, Numbers, batch_of, mixed
from shoal_study.statistics import BareLoop, Cooling, MappingFigures, ServerFigures, StudyResult

_BITS = 53


def zipf_activity(ordinals: Numbers, exponent: float, seed: int) -> Amounts:
    """Return a random activity for each position: u ** -exponent, with u uniform in 0..1.

    The k-th smallest of n such u is about k / n, so the k-th busiest of n members is about (n / k) ** exponent times as active
    as the least active one: Zipf's law, without knowing n beforehand.
    """
    # Use another random stream than the one that generates names.
    bits = mixed(mixed(ordinals.astype(np.uint64), seed), 1)
    u = ((bits >> np.uint64(64 - _BITS)).astype(np.float64) + 0.5) / (1 << _BITS)
    found: Amounts = u**-exponent
    return found


_NEWEST = 0.01
_ROUNDS = 5


_SAMPLE = 10_000
_CHECKED = 32
"""Names of each batch that are also placed by the server's own code."""


class Study:
    """A running study that receives names in batches. `result` can be called at any time and repeatedly."""

    def __init__(self, options: StudyOptions) -> None:
        """Raise `InvalidInput` for contradicting options, and if all schemes need a package that is not installed."""
        options.check()
        unavailable = _uncomputable(options.schemes)
        options = options._replace(schemes=[key for key in options.schemes if key not in unavailable])
        chosen = {*options.schemes, *(("md5",) if "shoal" in options.schemes else ())}
        self._options = options
        self._began = perf_counter()
        self._levels = {key: LevelCount(made()) for key, made in LEVEL_SCHEMES.items() if key in chosen}
        self._hashed = {
            key: HashedCount(made(), options.sizes) for key, made in HASHED_SCHEMES.items() if key in chosen
        }
        self._ring = RingCount(options.sizes) if chosen & {"ring", "bounded"} else None
        self._ranges = Ranges(options.range_size) if "mapping" in chosen else None
        # Titles of the schemes that cannot be computed here.
        self._unavailable = list(unavailable.values())
        self._hashing = StopWatch()
        # The first names that are added, a sample for the checks of the constraints.
        self._sample: list[bytes] = []
        self._checked = 0
        self._weighted = False
        self.names = 0

    def add(self, batch: NameBatch) -> None:
        """Place members under every studied scheme, and count them by bucket and server.

        Raises `AssertionError` if MD5 differs from the server's own code.
        """
        if len(self._sample) < _SAMPLE:
            self._sample += first_of(batch, _SAMPLE - len(self._sample)).encoded()
        self._weighted = self._weighted or batch.activity is not None
        activity = batch.activity
        if activity is None and self._options.zipf:
            activity = zipf_activity(batch.ordinals, self._options.zipf, self._options.seed)
        for level in self._levels.values():
            level.add(batch, activity)
        hashed: list[HashedCount | RingCount] = list(self._hashed.values())
        if self._ring:
            hashed.append(self._ring)
        if hashed:
            with self._hashing.over(batch.size):
                hashes = hash_schemes.hashes_of(batch)
            for each in hashed:
                each.add(hashes, activity)
        if self._ranges:
            self._ranges.add(batch.ordinals, activity)
        if "md5" in self._levels:
            self._compare(batch)
        self.names += batch.size

    def _compare(self, batch: NameBatch) -> None:
        few = first_of(batch, _CHECKED)
        placed = self._levels["md5"].scheme.place(few)
        for name, *levels in zip(few.encoded(), *placed, strict=True):
            if tuple(map(int, levels)) != place(name.decode()):
                raise AssertionError("`shoal placement study` and the server compute different MD5 buckets for a name")
        self._checked += few.size

    def result(self, source: str) -> StudyResult:
        """Return all figures; `source` describes where the names are from. Raises `InvalidInput` if there were no names."""
        if not self.names:
            raise InvalidInput("no names found")
        figures = {key: count.figures() for key, count in self._levels.items()}
        cooled = list(self._cooled())
        mapping = self._mapping(cooled)
        servers = list(self._servers())
        evidence = Evidence(
            {key: count.scheme for key, count in self._levels.items()},
            figures,
            mapping,
            next((each for each in servers if each.key == "shoal"), None),
            dict(self._growths()),
            {each.key: each for each in cooled},
            batch_of([name.decode() for name in self._sample]),
            self._options.servers,
            self._options.grown,
        )
        return StudyResult(
            names=self.names,
            source=source,
            activity=self._activity_words(),
            seconds=perf_counter() - self._began,
            processor_seconds=process_time(),
            peak_bytes=_peak_bytes(),
            version=version("shoal"),
            schemes=list(figures.values()),
            servers=servers,
            mapping=mapping,
            cooling=cooled,
            paper=list(paper.comparison(figures)),
            constraints=constraints(evidence),
            errata=paper.errata(self._levels, self.names),
            bare_loop=_bare_loop(self._sample),
            checked=self._checked,
            unavailable=self._unavailable,
            needs=hash_schemes.PACKAGE if self._unavailable else "",
        )

    def _activity_words(self) -> str:
        if self._weighted:
            return "taken from the source"
        zipf = self._options.zipf
        return f"a Zipf law with exponent {zipf:g}" if zipf else "all members equally active"

    @property
    def _active(self) -> bool:
        return self._weighted or self._options.zipf > 0

    def _servers(self) -> Iterator[ServerFigures]:
        hashing, chosen = self._hashing.nanoseconds, self._options.schemes
        if "shoal" in chosen:
            md5 = self._levels["md5"]
            yield shoal_figures(md5.alone[0], self._options.sizes, md5.watch.nanoseconds)
        for count in self._hashed.values():
            yield count.figures(hashing)
        if self._ring and "ring" in chosen:
            yield self._ring.figures(hashing)
        if self._ring and "bounded" in chosen:
            yield self._ring.bounded_figures(hashing)

    def _growths(self) -> Iterator[tuple[str, Growth]]:
        """Yield for each scheme how many members move when servers are added, and the load of the fullest server."""
        servers, grown = self._options.servers, self._options.grown
        for key, count in self._levels.items():
            members = count.alone[0].members
            before = evenly_assigned(members, servers)
            yield key, self._growth(before, expanded(before, members, grown), members)
        if "md5" in self._levels:
            known, members = even_map(servers), self._levels["md5"].alone[0].members
            yield "shoal", self._growth(owners_of(known), owners_of(with_stores(known, grown)), members)
        if self._ranges:
            members = self._ranges.units.members
            yield "mapping", self._growth(self._ranges.owners(servers), self._ranges.owners(grown), members)

    def _growth(self, before: Owners, after: Owners, members: Numbers) -> Growth:
        servers, grown, total = self._options.servers, self._options.grown, int(members.sum())
        mean = max(total, 1) / grown
        return Growth(
            change(servers, grown, moved_members(before, after, members), total),
            float(np.bincount(before, members).max() / mean),
            float(np.bincount(after, members).max() / mean),
        )

    def _cooled(self) -> Iterator[Cooling]:
        if not self._active:
            return
        servers, levels = self._options.servers, self._levels
        for named in (counting.LETTERS, counting.SUMS):
            if named.key in levels:
                yield counting.by_buckets(named, levels[named.key].alone[0], servers)
        if self._ranges:
            yield counting.by_ranges(self._ranges, servers)
        if "md5" in levels:
            yield counting.by_sources(levels["md5"].alone[0], servers)
        for key, count in self._hashed.items():
            yield counting.by_adding(Named(key, count.scheme.title, "none, adds a server"), count.loads)
        if self._ring:
            yield counting.by_arcs(self._ring.ring, servers)

    def _mapping(self, cooled: list[Cooling]) -> MappingFigures | None:
        ranges, servers = self._ranges, self._options.servers
        if ranges is None:
            return None
        units, owners = ranges.units, ranges.owners(servers)
        members = np.bincount(owners, units.members, minlength=servers).astype(np.int64)
        activity = np.bincount(owners, units.activity, minlength=servers).astype(np.float64)
        filled = members_by_server(ranges.full_next(), ranges.size, servers)
        done = next((each for each in cooled if each.key == "mapping"), None)
        newest = max(1, round(ranges.count * _NEWEST))
        return MappingFigures(
            range_size=ranges.size,
            ranges=len(units.members),
            servers=servers,
            members=members.tolist(),
            idle=int((members == 0).sum()),
            furthest=_furthest(members),
            next_count=ranges.full_next(),
            next_members=filled.tolist(),
            next_furthest=_furthest(filled),
            newest=_in_one_range(ranges.count, newest, ranges.size),
            heat=counting.heats(members, activity) if self._active else [],
            moved_ranges=done.units if done else 0,
            moved_members=done.members if done else 0,
            lookups=2 if done and done.units else 1,
            heat_after=done.after if done else 0.0,
            reached=done.reached if done else True,
        )


def _furthest(members: Numbers) -> float:
    mean = members.mean()
    return float(np.abs(members - mean).max() / mean) if mean else 0.0


def _peak_bytes() -> int:
    """Return the peak memory of this process. On systems without /proc, the figure may include its parent."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        lines = []
    found = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return 1024 * (int(found) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _bare_loop(names: Sequence[bytes]) -> BareLoop:
    """Measure the least time for any code that calls a hash function for each name."""
    watch = StopWatch()
    for _ in range(_ROUNDS):
        with watch.over(len(names)):
            for name in names:
                hashlib.md5(name, usedforsecurity=False).digest()
    return BareLoop(watch.names, watch.nanoseconds)


def _in_one_range(count: int, newest: int, size: int) -> float:
    """Return the largest fraction of the last `newest` members to sign up that is in a single range."""
    of_last = (count - 1) % size + 1
    return max(min(of_last, newest), min(newest - of_last, size)) / newest


def _uncomputable(schemes: Sequence[str]) -> dict[str, str]:
    """Return, by key, the titles of placement schemes that need a missing package. The others are studied without them."""
    if hash_schemes.is_installed():
        return {}
    titles = {**{key: made().title for key, made in HASHED_SCHEMES.items()}, **RING_TITLES}
    found = {key: titles[key] for key in schemes if key in titles}
    if len(found) == len(schemes):
        raise InvalidInput(f"{', '.join(found.values())} {missing_package(hash_schemes.PACKAGE, 'study')}")
    return found


def first_of(batch: NameBatch, most: int) -> NameBatch:
    words = np.ascontiguousarray(batch.words[:, :most])
    return NameBatch(words, batch.lengths[:most], batch.ordinals[:most])
