"""A study: turns batches of names into figures. It keeps counts and a sample of names that is discarded at the end.

If the source has no activity, activity follows a Zipf law over the position in the list.
"""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from shoal.core.errors import InvalidInput, missing_package
from shoal.core.placement import place
from shoal_study import counting, hash_schemes
from shoal_study.constraints import Evidence, Growth, constraints, errata
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
from shoal_study.map_schemes import SignUps, dealt, even_map, moved_members, owners_of, taken_in, with_stores
from shoal_study.names import Amounts, NameBatch, Numbers, batch_of, mixed
from shoal_study.statistics import BareLoop, Cooling, MappingFigures, ServerFigures, StudyResult

_BITS = 53


def zipf_activity(ordinals: Numbers, exponent: float, seed: int) -> Amounts:
    """Return an activity for each position: u ** -exponent, with u uniform in 0..1.

    The k-th smallest of n such u is about k / n, so the k-th busiest of n members is about (n / k) ** exponent times as
    active as the least active one: Zipf's law, without knowing n beforehand.
    """
    # Use another random stream than the one that generates names.
    drawn = mixed(mixed(ordinals.astype(np.uint64), seed), 1)
    u = ((drawn >> np.uint64(64 - _BITS)).astype(np.float64) + 0.5) / (1 << _BITS)
    found: Amounts = u**-exponent
    return found


_NEWEST = 0.01
_ROUNDS = 5


@dataclass
class StudyCounts:
    levels: Mapping[str, LevelCount]
    hashed: Mapping[str, HashedCount]
    ring: RingCount | None
    signups: SignUps | None
    hashing: StopWatch = field(default_factory=StopWatch)
    sample: list[bytes] = field(default_factory=list)
    """The first names, for checks that need some."""
    names: int = 0
    checked: int = 0
    weighted: bool = False
    unavailable: list[str] = field(default_factory=list)
    """Titles of the schemes that cannot be computed here."""


def conclude(counts: StudyCounts, options: StudyOptions, source: str, seconds: float) -> StudyResult:
    """Return all figures. At least one name must have been counted."""
    figures = {key: count.figures() for key, count in counts.levels.items()}
    cooled = list(_cooled(counts, options))
    mapping = _mapping(counts, options, cooled)
    evidence = Evidence(
        {key: count.scheme for key, count in counts.levels.items()},
        figures,
        mapping,
        _growth(counts, options),
        {each.key: each for each in cooled},
        batch_of([name.decode() for name in counts.sample]),
    )
    md5 = counts.levels.get("md5")
    return StudyResult(
        names=counts.names,
        source=source,
        activity=_activity_words(counts, options),
        seconds=seconds,
        processor_seconds=process_time(),
        peak_bytes=_peak_bytes(),
        version=version("shoal"),
        schemes=list(figures.values()),
        servers=list(_servers(counts, options)),
        mapping=mapping,
        cooling=cooled,
        constraints=constraints(evidence),
        errata=errata(md5.alone[2] if md5 else None),
        bare_loop=_bare_loop(counts.sample),
        checked=counts.checked,
        unavailable=counts.unavailable,
        needs=hash_schemes.PACKAGE if counts.unavailable else "",
    )


def _peak_bytes() -> int:
    """Return the peak memory of this process. On systems without /proc, the figure may include its parent."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        lines = []
    found = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return 1024 * (int(found) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _bare_loop(names: Sequence[bytes]) -> BareLoop:
    """Measure the lower bound for any code that calls a hash function for each name."""
    watch = StopWatch()
    for _ in range(_ROUNDS):
        with watch.over(len(names)):
            for name in names:
                hashlib.md5(name, usedforsecurity=False).digest()
    return BareLoop(watch.names, watch.nanoseconds)


def _active(counts: StudyCounts, options: StudyOptions) -> bool:
    return counts.weighted or options.zipf > 0


def _activity_words(counts: StudyCounts, options: StudyOptions) -> str:
    if counts.weighted:
        return "as the source says"
    return f"a Zipf law with exponent {options.zipf:g}" if options.zipf else "all members alike"


def _servers(counts: StudyCounts, options: StudyOptions) -> Iterator[ServerFigures]:
    hashing = counts.hashing.nanoseconds
    if "shoal" in options.schemes:
        md5 = counts.levels["md5"]
        yield shoal_figures(md5.alone[0], options.sizes, md5.watch.nanoseconds)
    for count in counts.hashed.values():
        yield count.figures(hashing)
    if counts.ring and "ring" in options.schemes:
        yield counts.ring.figures(hashing)
    if counts.ring and "bounded" in options.schemes:
        yield counts.ring.bounded_figures(hashing)


def _growth(counts: StudyCounts, options: StudyOptions) -> dict[str, Growth]:
    """Return for each scheme of levels who moves when several servers are added, and how full the fullest is then."""
    return {key: _grown(key, count.alone[0].members, options) for key, count in counts.levels.items()}


def _grown(key: str, members: Numbers, options: StudyOptions) -> Growth:
    if key == "md5":
        known = even_map(options.servers)
        before, after = owners_of(known), owners_of(with_stores(known, options.grown))
    else:
        before = dealt(members, options.servers)
        after = taken_in(before, members, options.grown)
    moved = moved_members(before, after, members)
    mean = members.sum() / options.grown
    return Growth(
        change(options.servers, options.grown, moved, int(members.sum())),
        float(np.bincount(before, members).max() / mean),
        float(np.bincount(after, members).max() / mean),
    )


def _cooled(counts: StudyCounts, options: StudyOptions) -> Iterator[Cooling]:
    if not _active(counts, options):
        return
    for named in (counting.LETTERS, counting.SUMS):
        if named.key in counts.levels:
            yield counting.by_buckets(named, counts.levels[named.key].alone[0], options.servers)
    if counts.signups:
        yield counting.by_members(counts.signups, _range_size(counts.signups, options))
    if "md5" in counts.levels:
        yield counting.by_sources(counts.levels["md5"].alone[0], options.servers)
    for key, count in counts.hashed.items():
        yield counting.by_adding(Named(key, count.scheme.title, "adds a server"), count.loads)
    if counts.ring:
        yield counting.by_arcs(counts.ring.ring, options.servers)


def _range_size(signups: SignUps, options: StudyOptions) -> int:
    return signups.rounded(options.range_size) if options.range_size else signups.range_for(options.grown)


def _mapping(counts: StudyCounts, options: StudyOptions, cooled: list[Cooling]) -> MappingFigures | None:
    signups = counts.signups
    if signups is None:
        return None
    size = _range_size(signups, options)
    units, owners = signups.units(size)
    members = signups.members(size)
    activity = np.bincount(owners, units.activity, minlength=len(members)).astype(np.float64)
    done = next((each for each in cooled if each.key == "mapping"), None)
    newest = max(1, round(signups.count * _NEWEST))
    return MappingFigures(
        range_size=size,
        start=options.servers,
        grown=options.grown,
        members=members.tolist(),
        newest=_on_one_server(signups.count, newest, size),
        heat=counting.heats(members, activity) if _active(counts, options) else [],
        exceptions=done.members if done else 0,
        lookups=1 + (done.moved_activity if done else 0.0),
        heat_after=done.after if done else 0.0,
        reached=done.reached if done else True,
    )


def _on_one_server(count: int, newest: int, size: int) -> float:
    """Return the largest fraction of the newest members in one range."""
    of_last = (count - 1) % size + 1
    return max(min(of_last, newest), min(newest - of_last, size)) / newest


_SAMPLE = 10_000
_CHECKED = 32
"""Names of each batch that are also placed by the server's own code."""


class Study:
    """A running study that receives names in batches. `result` can be called at any time and repeatedly."""

    def __init__(self, options: StudyOptions) -> None:
        """Raises `InvalidInput` for invalid options, and if all schemes need a package that is not installed."""
        options.check()
        left_out = _uncomputable(options.schemes)
        options = options._replace(schemes=[key for key in options.schemes if key not in left_out])
        chosen = {*options.schemes, *(("md5",) if "shoal" in options.schemes else ())}
        self._options = options
        self._began = perf_counter()
        self._counts = StudyCounts(
            levels={key: LevelCount(made()) for key, made in LEVEL_SCHEMES.items() if key in chosen},
            hashed={key: HashedCount(made(), options.sizes) for key, made in HASHED_SCHEMES.items() if key in chosen},
            ring=RingCount(options.sizes) if chosen & {"ring", "bounded"} else None,
            signups=SignUps() if "mapping" in chosen else None,
            unavailable=list(left_out.values()),
        )

    @property
    def names(self) -> int:
        return self._counts.names

    def add(self, batch: NameBatch) -> None:
        """Place and count members by every studied scheme. Raises `AssertionError` if MD5 differs from the server's own code."""
        counts = self._counts
        if len(counts.sample) < _SAMPLE:
            counts.sample += first_of(batch, _SAMPLE - len(counts.sample)).encoded()
        counts.weighted = counts.weighted or batch.activity is not None
        activity = self._activity(batch)
        for level in counts.levels.values():
            level.add(batch, activity)
        hashed = list(self._hashed())
        if hashed:
            with counts.hashing.over(batch.size):
                named = hash_schemes.hashes_of(batch)
            for each in hashed:
                each.add(named, activity)
        if counts.signups:
            counts.signups.add(batch.ordinals, activity)
        if "md5" in counts.levels:
            self._compare(batch)
        counts.names += batch.size

    def result(self, source: str) -> StudyResult:
        """Return all figures; `source` describes where the names are from. Raises `InvalidInput` if there were no names."""
        if not self._counts.names:
            raise InvalidInput("there are no names to study")
        return conclude(self._counts, self._options, source, perf_counter() - self._began)

    def _activity(self, batch: NameBatch) -> Amounts | None:
        if batch.activity is not None or not self._options.zipf:
            return batch.activity
        return zipf_activity(batch.ordinals, self._options.zipf, self._options.seed)

    def _hashed(self) -> Iterator[HashedCount | RingCount]:
        yield from self._counts.hashed.values()
        if self._counts.ring:
            yield self._counts.ring

    def _compare(self, batch: NameBatch) -> None:
        """Place some names by the server's own code too. A difference is a bug that invalidates all figures."""
        few = first_of(batch, _CHECKED)
        placed = self._counts.levels["md5"].scheme.place(few)
        for name, *levels in zip(few.encoded(), *placed, strict=True):
            if tuple(map(int, levels)) != place(name.decode()):
                raise AssertionError("the study places a name where the server does not")
        self._counts.checked += few.size


def _uncomputable(schemes: Sequence[str]) -> dict[str, str]:
    """Return, by key, the titles of schemes that need a missing package. The others are studied without them."""
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
