"""Seven constraints on a placement, each with a check that runs on the studied names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from shoal.core.placement import place
from shoal.core.placement_conformance import NAMES
from shoal_study.name_schemes import LevelScheme, Md5Levels
from shoal_study.names import NameBatch, batch_of
from shoal_study.statistics import (
    Change,
    Constraint,
    Cooling,
    LevelFigures,
    MappingFigures,
    Outcome,
    SchemeFigures,
)

EVEN = 0.10
"""In an even level, no bucket deviates more from the mean, as a fraction of it."""
_BY_CHANCE = 5.0
"""Allowed random deviation in standard deviations, for lists so small that it exceeds `EVEN`."""
DIRECTORY_ENTRIES = 32_000
"""Maximum number of entries of a directory: about the 31,998 subdirectories that ext3, the file system of 2006, allowed."""
FORESEEN = 100_000_000
"""Members that the directories must be able to hold."""
_MOST_MOVED = 1.5
"""Maximum of moves when servers are added, as a multiple of the minimum: units do not divide evenly."""
_RELIEVED = 0.9
"""Load of the fullest server after growing, relative to its load without any moves; above this, the new servers were no relief.
"""
MOST_NANOSECONDS = 1_000.0


class Growth(NamedTuple):
    """The moves when servers are added, and the load of the fullest server before and after, relative to the mean afterwards."""

    change: Change
    before: float
    after: float


class Evidence(NamedTuple):
    schemes: Mapping[str, LevelScheme]
    figures: Mapping[str, SchemeFigures]
    mapping: MappingFigures | None
    growth: Mapping[str, Growth]
    cooling: Mapping[str, Cooling]
    sample: NameBatch


Check = Callable[[Evidence, str], Outcome]


def constraints(evidence: Evidence) -> list[Constraint]:
    keys = [*evidence.figures, *(("mapping",) if evidence.mapping else ())]
    return [
        Constraint(name, promise, how, [check(evidence, key) for key in keys]) for name, promise, how, check in _CHECKS
    ]


def _even(evidence: Evidence, key: str) -> Outcome:
    if key == "mapping":
        return _even_mapping(evidence)
    found = evidence.figures[key].levels
    worst = max(found, key=lambda level: level.furthest - allowed(level))
    return Outcome(
        key,
        all(level.furthest <= allowed(level) for level in found),
        f"{worst.name}: a bucket is {worst.furthest:.1%} from the mean, {worst.empty} of {worst.buckets} are empty",
    )


def allowed(level: LevelFigures) -> float:
    return max(EVEN, _BY_CHANCE / sqrt(level.mean)) if level.mean else EVEN


def _even_mapping(evidence: Evidence) -> Outcome:
    """Decide for the list and for the members just before the range being filled is full, the least even moment of the two."""
    mapping = _mapped(evidence)
    furthest = max(mapping.furthest, mapping.next_furthest)
    return Outcome(
        "mapping",
        furthest <= EVEN,
        f"a server is {mapping.furthest:.1%} from the mean, and {mapping.next_furthest:.1%} at {mapping.next_count:,} members; "
        f"{mapping.idle} of {mapping.servers} are idle",
    )


def _by_name(evidence: Evidence, key: str) -> Outcome:
    """Place the sample in another order and compare: the placement must depend on the name only."""
    sample = evidence.sample
    if key == "mapping":
        size = max(1, -(-sample.size // _mapped(evidence).servers))
        here, there = np.arange(sample.size) // size, np.arange(sample.size)[::-1] // size
        other = int((here != there).sum())
        return Outcome(
            key, other == 0, f"{other:,} of {sample.size:,} are elsewhere had they signed up the other way round"
        )
    scheme = evidence.schemes[key]
    back = NameBatch(np.ascontiguousarray(sample.words[:, ::-1]), sample.lengths[::-1], sample.ordinals)
    same = [
        np.array_equal(here, there[::-1]) for here, there in zip(scheme.place(sample), scheme.place(back), strict=True)
    ]
    return Outcome(key, all(same), f"{sample.size:,} names are where they were when they come in another order")


def _everywhere(evidence: Evidence, key: str) -> Outcome:
    """Place the names of the conformance file: each must have a bucket, and MD5 must agree with the server's own code."""
    if key == "mapping":
        return Outcome(key, False, "a number is drawn, not computed: no program can find it out")
    scheme = evidence.schemes[key]
    placed = scheme.place(batch_of(NAMES))
    without = int(np.any([level < 0 for level in placed], axis=0).sum())
    if isinstance(scheme, Md5Levels):
        agree = sum(tuple(map(int, found)) == place(name) for name, *found in zip(NAMES, *placed, strict=True))
        return Outcome(key, agree == len(NAMES), f"{agree} of {len(NAMES)} names of the conformance file agree")
    return Outcome(key, without == 0, f"{without} of {len(NAMES)} names of the conformance file have no bucket")


def _directories(evidence: Evidence, key: str) -> Outcome:
    if key == "mapping":
        size = _mapped(evidence).range_size
        return Outcome(key, size <= DIRECTORY_ENTRIES, f"the directory of a range has {size:,} members")
    deepest = evidence.figures[key].paths[-1]
    share = deepest.fullest / deepest.members if deepest.members else 0.0
    expected = share * FORESEEN
    return Outcome(
        key,
        expected <= DIRECTORY_ENTRIES,
        f"the fullest of {deepest.buckets:,} directories would have {expected:,.0f} of {FORESEEN:,} members",
    )


def _grows(evidence: Evidence, key: str) -> Outcome:
    change, before, after = evidence.growth[key]
    total = max(change.total, 1)
    return Outcome(
        key,
        after <= _RELIEVED * before and change.moved <= _MOST_MOVED * change.least,
        f"from {change.before} to {change.after} servers {change.moved / total:.1%} move ({change.least / total:.1%} must for "
        f"equal shares); the fullest server then has {after:.2f} times the mean, {before:.2f} if nobody moves",
    )


def _cools(evidence: Evidence, key: str) -> Outcome:
    found = evidence.cooling.get(key)
    if found is None:
        return Outcome(key, True, "all members are equally active: nothing is hot")
    return Outcome(
        key,
        found.reached,
        f"from {found.before:.2f} to {found.after:.2f} times the mean with {found.members:,} members moved",
    )


def _quick(evidence: Evidence, key: str) -> Outcome:
    if key == "mapping":
        return Outcome(key, False, f"{_mapped(evidence).lookups} look-ups in a table for each request")
    took = evidence.figures[key].nanoseconds
    return Outcome(key, took <= MOST_NANOSECONDS, f"{took:,.0f} ns per name, without a lookup")


def _mapped(evidence: Evidence) -> MappingFigures:
    if evidence.mapping is None:
        raise LookupError("the mapping scheme was not studied")
    return evidence.mapping


_CHECKS: Sequence[tuple[str, str, str, Check]] = (
    (
        "Even",
        "Every bucket of every level has the same share of the members",
        f"no bucket is more than {EVEN:.0%} from the mean (or {_BY_CHANCE:.0f} deviations of chance, in a small list)",
        _even,
    ),
    (
        "By the name alone",
        "Who knows the name knows the place",
        "a sample is placed again in the reverse order, and compared",
        _by_name,
    ),
    (
        "Everywhere alike",
        "Any program in any language finds the same place, for any name",
        "the names of the conformance file are placed, and compared with the server's own code",
        _everywhere,
    ),
    (
        "Small directories",
        "No directory of files becomes too large",
        f"the share of the fullest one, at {FORESEEN:,} members, is at most {DIRECTORY_ENTRIES:,} entries",
        _directories,
    ),
    (
        "Growth",
        "New servers relieve the fullest, and few members move for it",
        f"buckets go to new servers: the fullest one loses a tenth at least, and at most {_MOST_MOVED} times as many move as must",
        _grows,
    ),
    (
        "Hot spots",
        "A part that is too busy can be moved away by itself",
        "units are moved from the hottest server until it is near the mean",
        _cools,
    ),
    (
        "Quick",
        "Placing a name costs next to nothing, whatever the size of the network",
        f"at most {MOST_NANOSECONDS:,.0f} ns a name, without a request to another machine",
        _quick,
    ),
)
