"""The seven constraints of the 2006 paper (section 1.1) and three requirements of its text, each decided by a check.

Every check runs in the study, on its names or on the conformance file, for each of five schemes: letters, the ASCII sum,
the mapping scheme, MD5, and MD5 with Shoal's map. A check without evidence, such as one that needs interpreters where
there are none, decides nothing.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from math import sqrt
from time import thread_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core import placement
from shoal.core.placement_conformance import NAMES
from shoal_study import scripting
from shoal_study.counting import HOT
from shoal_study.map_schemes import even_map, members_by_server, owners_of, with_stores
from shoal_study.name_schemes import LevelScheme
from shoal_study.names import SHORT_BYTES, NameBatch, batch_of, generated_batches
from shoal_study.statistics import (
    Change,
    Constraint,
    Cooling,
    LevelFigures,
    MappingFigures,
    Outcome,
    SchemeFigures,
    ServerFigures,
)

EVEN = 0.10
"""Maximum deviation of a bucket from the mean in an even level, as a fraction of the mean."""
_RANDOM_DEVIATIONS = 5.0
"""Allowed random deviation in standard deviations, for lists so small that it exceeds `EVEN`."""
DIRECTORY_ENTRIES = 64_000
"""Maximum number of entries of a directory, and of directories below one: the limit of NAS devices in footnote 16."""
BILLION = 1_000_000_000
_UNIFORM = 1e-6
"""Above this chi-square probability, a level is expected to stay as even as a random distribution when the list grows."""
_FULLEST = 2.0
"""Maximum size of the fullest bucket at a billion members, as a multiple of the mean."""
_DAY = 86_400.0
"""Maximum processor time for placing a billion names, in seconds."""
_LANGUAGES = 3
"""Minimum number of scripting languages that decide whether the constraint is met."""
_MOST_MOVED = 1.5
"""Maximum number of members moved when servers are added, as a multiple of the minimum. Units do not divide evenly."""
_RELIEVED = 0.9
"""Maximum load of the fullest server after growing, relative to its load without moves: above it, the new servers are no relief."""
_MOST_HASHES = 2.0
"""Maximum processor time to locate a name, as a multiple of a bare loop over `hashlib.md5` in the same run."""
_GENERATED = 10_000
"""Generated names added to the sample, so that two of them share a path in every scheme."""


class Growth(NamedTuple):
    """A change of the number of servers. The load of the fullest server, before and after, is a multiple of the mean after it."""

    change: Change
    before: float
    after: float


class Evidence(NamedTuple):
    schemes: Mapping[str, LevelScheme]
    figures: Mapping[str, SchemeFigures]
    mapping: MappingFigures | None
    stores: ServerFigures | None
    """The stores of Shoal's map, if it was studied."""
    growth: Mapping[str, Growth]
    cooling: Mapping[str, Cooling]
    sample: NameBatch
    servers: int
    grown: int

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the studied schemes that the paper describes, in the order of the paper."""
        here = {*self.figures, *(("mapping",) if self.mapping else ()), *(("shoal",) if self.stores else ())}
        return [key for key in scripting.COLUMNS if key in here]

    def mapped(self) -> MappingFigures:
        """Return the figures of the paper's mapping scheme, which numbers members and maps ranges of numbers to servers.

        Raises `LookupError` if that scheme was not studied.
        """
        if self.mapping is None:
            raise LookupError("the measured schemes do not include the mapping scheme")
        return self.mapping

    def levels(self, key: str) -> Sequence[LevelFigures]:
        return self.figures["md5" if key == "shoal" else key].paths


Check = Callable[[Evidence, str], Outcome]


def constraints(evidence: Evidence) -> list[Constraint]:
    """Check the studied schemes against the paper's seven numbered constraints, then against its other requirements."""
    evidence = evidence._replace(sample=batch_of(_distinct(evidence.sample)))
    return [
        Constraint(number, name, promise, how, [check(evidence, key) for key in evidence.keys])
        for number, name, promise, how, check in _CHECKS
    ]


def _distinct(sample: NameBatch) -> list[str]:
    """Return the names of the sample, generated names, and those of the conformance file, each once."""
    batches = (sample, *generated_batches(_GENERATED, 1, lambda _done, _total: None))
    names = [name.decode() for batch in batches for name in batch.encoded()]
    return list(dict.fromkeys([*names, *(name.lower() for name in NAMES)]))


def _placed(evidence: Evidence, key: str, batch: NameBatch, servers: int) -> list[NDArray[np.intp]]:
    """Return where a scheme places these names on this number of servers: an array for each part of a location.

    The names are in the order of sign-up.
    """
    if key == "mapping":
        ranges = np.arange(batch.size) // evidence.mapped().range_size
        return [ranges % servers, ranges, np.arange(batch.size)]
    if key == "shoal":
        placed = evidence.schemes["md5"].place(batch)
        return [owners_of(with_stores(even_map(evidence.servers), servers))[placed[0]], *placed]
    return list(evidence.schemes[key].place(batch))


def _external(evidence: Evidence, key: str) -> Outcome:
    """Check that a location depends only on the name.

    The sample is located again, with signups in reverse order and on another number of servers.
    """
    sample = evidence.sample
    back = NameBatch(np.ascontiguousarray(sample.words[:, ::-1]), sample.lengths[::-1], sample.ordinals)
    here = np.array(_placed(evidence, key, sample, evidence.servers))
    there = np.array(_placed(evidence, key, back, evidence.grown))[:, ::-1]
    other = int((here != there).any(axis=0).sum())
    return Outcome(
        key,
        other == 0,
        f"{other:,} of {sample.size:,} names have another location after signing up in reverse order, on {evidence.grown} servers",
    )


def _lightweight(evidence: Evidence, key: str) -> Outcome:
    took, bare = _nanoseconds(evidence, key), _hash_nanoseconds(evidence.sample.encoded())
    return Outcome(key, took <= _MOST_HASHES * bare, f"{took / bare:.1f} times a bare loop over hashlib.md5")


def _nanoseconds(evidence: Evidence, key: str) -> float:
    """Measure the nanoseconds for locating a name. In the mapping scheme, this includes looking up the name's number."""
    # A name longer than one MD5 block would slow down the whole batch. The study puts such names into separate batches.
    batch = batch_of([name.decode() for name in evidence.sample.encoded() if len(name) <= SHORT_BYTES])
    began = thread_time()
    _placed(evidence, key, batch, evidence.servers)
    took = (thread_time() - began) / batch.size * 1e9
    return took + (lookup_nanoseconds(evidence.sample.encoded()) if key == "mapping" else 0)


def _hash_nanoseconds(names: Sequence[bytes]) -> float:
    began = thread_time()
    for name in names:
        md5(name, usedforsecurity=False).digest()
    return (thread_time() - began) / len(names) * 1e9


def lookup_nanoseconds(names: Sequence[bytes]) -> float:
    """Measure the nanoseconds for finding a name's number in an SQLite table in memory, a lower bound for stored tables."""
    table = sqlite3.connect(":memory:")
    try:
        table.execute("CREATE TABLE members (name BLOB PRIMARY KEY, number INTEGER) WITHOUT ROWID")
        table.executemany("INSERT INTO members VALUES (?, ?)", ((name, number) for number, name in enumerate(names)))
        began = thread_time()
        for name in names:
            table.execute("SELECT number FROM members WHERE name = ?", (name,)).fetchone()
        return (thread_time() - began) / len(names) * 1e9
    finally:
        table.close()


def _platforms(_evidence: Evidence, key: str) -> Outcome:
    """Check that plain Python, other hash seeds and other locales compute the locations of the conformance file."""
    found = {name: right[key] for name, right in scripting.agreeing(scripting.PLATFORMS).items()}
    return Outcome(key, bool(found) and all(right == len(NAMES) for right in found.values()), _agreement(found))


def _scripting(_evidence: Evidence, key: str) -> Outcome:
    found = {name: right[key] for name, right in scripting.agreeing(scripting.LANGUAGES).items()}
    if len(found) < _LANGUAGES:
        return Outcome(key, None, f"{len(found)} interpreters are installed, and at least {_LANGUAGES} are needed")
    return Outcome(key, all(right == len(NAMES) for right in found.values()), _agreement(found))


def _agreement(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {right} of {len(NAMES)}" for name, right in found.items()) + " names located correctly"


def _trees(evidence: Evidence, key: str) -> Outcome:
    if key == "mapping":
        size = evidence.mapped().range_size
        below, entries = -(-BILLION // size // evidence.mapped().servers), float(size)
    else:
        levels = evidence.levels(key)
        below, entries = sum(level.buckets for level in levels[1:]) // levels[0].buckets, at_a_billion(levels[-1])
    return Outcome(
        key,
        max(below, entries) <= DIRECTORY_ENTRIES,
        f"{below:,} directories below the first level, and {entries:,.0f} entries in the fullest at a billion members",
    )


def at_a_billion(level: LevelFigures) -> float:
    """Return the expected number of members in the fullest bucket of a level, with a billion members in total.

    A level that is uniform by the chi-square test is assumed to stay so; in others, the fullest bucket keeps its fraction.
    """
    mean = BILLION / level.buckets
    if level.p >= _UNIFORM or not level.members:
        return mean + _RANDOM_DEVIATIONS * sqrt(mean)
    return BILLION * level.fullest / level.members


def _billion(evidence: Evidence, key: str) -> Outcome:
    """Extrapolate a scheme to a billion members: the time for placing all of them, and the members of the fullest bucket."""
    seconds = _nanoseconds(evidence, key) * BILLION / 1e9
    if key == "mapping":
        mapping = evidence.mapped()
        servers = members_by_server(BILLION, mapping.range_size, mapping.servers)
        ratio, where = float(servers.max() / servers.mean()), "server"
    elif key == "shoal" and evidence.stores:
        level = evidence.stores.servers
        ratio, where = at_a_billion(level) * level.buckets / BILLION, "store"
    else:
        ratio, where = max(
            (at_a_billion(level) * level.buckets / BILLION, f"bucket of {level.graph}")
            for level in evidence.levels(key)
        )
    return Outcome(
        key,
        ratio <= _FULLEST and seconds <= _DAY,
        f"a billion names take {seconds:,.0f} s on one processor, and the fullest {where} has {ratio:,.2f} times the mean",
    )


def _one_to_one(evidence: Evidence, key: str) -> Outcome:
    """Count the names of the sample with equal file paths: paths without, and with, the name at the end.

    For MD5, the server's own code makes the complete paths.
    """
    names = [name.decode() for name in evidence.sample.encoded()]
    placed = _placed(evidence, key, evidence.sample, evidence.servers)
    parts = np.array(placed[:2] if key == "mapping" else placed).T.tolist()
    folders = ["/".join(map(str, part)) for part in parts]
    complete = [f"{folder}/{name}" for folder, name in zip(folders, names, strict=True)]
    if key in ("md5", "shoal"):
        complete = [placement.media_path(name) for name in names]
    shared, same = _sharing(folders), _sharing(complete)
    return Outcome(
        key,
        same == 0 < shared,
        f"{shared:,} of {len(names):,} names share a path that omits the name, and {same:,} a complete path",
    )


def _sharing(paths: Sequence[str]) -> int:
    return sum(count for count in Counter(paths).values() if count > 1)


def _even(evidence: Evidence, key: str) -> Outcome:
    if key == "mapping":
        return _even_mapping(evidence)
    found = [evidence.stores.servers] if key == "shoal" and evidence.stores else evidence.figures[key].levels
    worst = max(found, key=lambda level: level.furthest - allowed(level))
    return Outcome(
        key,
        all(level.furthest <= allowed(level) for level in found),
        f"{worst.name}: a bucket deviates by {worst.furthest:.1%} from the mean; {worst.empty} of {worst.buckets} are empty",
    )


def allowed(level: LevelFigures) -> float:
    return max(EVEN, _RANDOM_DEVIATIONS / sqrt(level.mean)) if level.mean else EVEN


def _even_mapping(evidence: Evidence) -> Outcome:
    """Check how evenly the mapping scheme fills its servers.

    It is checked with the present number of members, and with the number at which the range that is being filled lacks
    one member, because the servers are then filled least evenly.
    """
    mapping = evidence.mapped()
    furthest = max(mapping.furthest, mapping.next_furthest)
    return Outcome(
        "mapping",
        furthest <= EVEN,
        f"a server deviates by {mapping.furthest:.1%}, and by {mapping.next_furthest:.1%} at {mapping.next_count:,} members; "
        f"{mapping.idle} of {mapping.servers} are idle",
    )


def _grows(evidence: Evidence, key: str) -> Outcome:
    change, before, after = evidence.growth[key]
    total = max(change.total, 1)
    return Outcome(
        key,
        after <= _RELIEVED * before and change.moved <= _MOST_MOVED * change.least,
        f"from {change.before} to {change.after} servers, {change.moved / total:.1%} of the members move (minimum: "
        f"{change.least / total:.1%}); the fullest server then has {after:.2f} times the mean, and {before:.2f} without moves",
    )


def _cools(evidence: Evidence, key: str) -> Outcome:
    found = evidence.cooling.get("md5" if key == "shoal" else key)
    if found is None:
        return Outcome(key, None, "all members are equally active")
    return Outcome(
        key,
        found.reached,
        f"from {found.before:.2f} to {found.after:.2f} times the mean activity after moving {found.members:,} members",
    )


_CHECKS: Sequence[tuple[int, str, str, str, Check]] = (
    (
        1,
        "No external data",
        "The user name alone determines the location",
        "a sample is located again after signing up in reverse order, on another number of servers",
        _external,
    ),
    (
        2,
        "Lightweight",
        "Locating a name needs no expensive calculation",
        f"at most {_MOST_HASHES:g} times the CPU time of a bare loop over hashlib.md5, including the table of the mapping scheme",
        _lightweight,
    ),
    (
        3,
        "Platform independent",
        "Every platform computes the same location",
        "plain Python with other hash seeds and locales returns the expected locations of the conformance file",
        _platforms,
    ),
    (
        4,
        "Scripting languages",
        "The scheme is easy to implement in scripting languages",
        f"a program in each installed language, at least {_LANGUAGES}, returns the expected locations of the conformance file",
        _scripting,
    ),
    (
        5,
        "Small directory trees",
        "The scheme needs no large directory trees",
        f"at a billion members, no directory has more than {DIRECTORY_ENTRIES:,} directories or entries below it",
        _trees,
    ),
    (
        6,
        "A billion members",
        "The scheme scales to at least a billion members",
        f"by measured throughput, one processor places a billion names in a day; by measured evenness, no bucket then has more "
        f"than {_FULLEST:g} times the mean",
        _billion,
    ),
    (
        7,
        "One-to-one",
        "No two names have the same location",
        "names of a sample share paths that omit the name, and none share a complete path",
        _one_to_one,
    ),
    (
        0,
        "Even",
        "Every bucket has nearly the same number of members",
        f"no bucket deviates by more than {EVEN:.0%} from the mean (in small lists: {_RANDOM_DEVIATIONS:.0f} random deviations)",
        _even,
    ),
    (
        0,
        "Growth",
        "New servers relieve the fullest server, and few members move",
        f"the fullest server loses at least a tenth, and at most {_MOST_MOVED} times the minimum of members move",
        _grows,
    ),
    (
        0,
        "Hot spots",
        "A unit that is too busy can be moved individually",
        f"units move from the hottest server until it has at most {HOT:g} times the mean activity",
        _cools,
    ),
)
