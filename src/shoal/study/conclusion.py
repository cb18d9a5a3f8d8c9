"""From counts to figures: every question that is asked once all names have been placed."""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import process_time

import numpy as np

from shoal.study import cooling
from shoal.study.constraints import Evidence, Growth, constraints
from shoal.study.cooling import Named
from shoal.study.counting import HashedCount, LevelCount, RingCount, StopWatch, change, shoal_figures
from shoal.study.names.batch import Numbers, batch_of
from shoal.study.options import StudyOptions
from shoal.study.paper import errata
from shoal.study.results import BareLoop, Cooling, MappingFigures, ServerFigures, StudyResult
from shoal.study.schemes import hashes
from shoal.study.schemes.mapping import SignUps
from shoal.study.schemes.shoal_map import even_map, owners_of, with_stores
from shoal.study.units import dealt, moved_members, taken_in

_NEWEST = 0.01
_ROUNDS = 5


@dataclass
class StudyCounts:
    """Everything that was counted."""

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
    """Return all figures. There must be a name at least."""
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
        needs=hashes.PACKAGE if counts.unavailable else "",
    )


def _peak_bytes() -> int:
    """Return the most memory that this process had. Where Linux does not say, the figure of its parent may be in it."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        lines = []
    found = next((line.split()[1] for line in lines if line.startswith("VmHWM:")), None)
    return 1024 * (int(found) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _bare_loop(names: Sequence[bytes]) -> BareLoop:
    """Measure what nobody can go below who calls a hash for each name."""
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
    """Return who moves when several servers come, and how full the fullest is then, for each scheme of levels."""
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
    for named in (cooling.LETTERS, cooling.SUMS):
        if named.key in counts.levels:
            yield cooling.by_buckets(named, counts.levels[named.key].alone[0], options.servers)
    if counts.signups:
        yield cooling.by_members(counts.signups, _range_size(counts.signups, options))
    if "md5" in counts.levels:
        yield cooling.by_sources(counts.levels["md5"].alone[0], options.servers)
    for key, count in counts.hashed.items():
        yield cooling.by_adding(Named(key, count.scheme.title, "adds a server"), count.loads)
    if counts.ring:
        yield cooling.by_arcs(counts.ring.ring, options.servers)


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
        heat=cooling.heats(members, activity) if _active(counts, options) else [],
        exceptions=done.members if done else 0,
        lookups=1 + (done.moved_activity if done else 0.0),
        heat_after=done.after if done else 0.0,
        reached=done.reached if done else True,
    )


def _on_one_server(count: int, newest: int, size: int) -> float:
    """Return the largest share of the newest members that one range took."""
    of_last = (count - 1) % size + 1
    return max(min(of_last, newest), min(newest - of_last, size)) / newest
