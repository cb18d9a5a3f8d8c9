"""A study: batches of names in, figures out. It keeps counts, never names, but for a sample that ends with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np

from shoal.core.errors import InvalidInput, missing_package
from shoal.core.placement import place
from shoal.study.activity import zipf_activity
from shoal.study.conclusion import StudyCounts, conclude
from shoal.study.counting import HashedCount, LevelCount, RingCount
from shoal.study.names.batch import Amounts, NameBatch
from shoal.study.options import HASHED_SCHEMES, LEVEL_SCHEMES, RING_TITLES, StudyOptions
from shoal.study.results import StudyResult
from shoal.study.schemes import hashes
from shoal.study.schemes.mapping import SignUps

_SAMPLE = 10_000
_CHECKED = 32
"""Names of each batch that the server's own code places too."""


class Study:
    """A study that is under way: names come batch by batch. `result` may be asked for at any time, and again."""

    def __init__(self, options: StudyOptions) -> None:
        """Raises `InvalidInput` for options that make no sense, and for schemes that all need a package that is not installed."""
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
        """How many were added."""
        return self._counts.names

    def add(self, batch: NameBatch) -> None:
        """Place some members by every scheme that is studied. Raises `AssertionError` if MD5 differs from the server's own code."""
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
                named = hashes.hashes_of(batch)
            for each in hashed:
                each.add(named, activity)
        if counts.signups:
            counts.signups.add(batch.ordinals, activity)
        if "md5" in counts.levels:
            self._compare(batch)
        counts.names += batch.size

    def result(self, source: str) -> StudyResult:
        """Return all figures; `source` says in words where the names are from. Raises `InvalidInput` when there was no name."""
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
        """Place some names by the server's own code too. A difference is a bug, and no figure is worth anything then."""
        few = first_of(batch, _CHECKED)
        placed = self._counts.levels["md5"].scheme.place(few)
        for name, *levels in zip(few.encoded(), *placed, strict=True):
            if tuple(map(int, levels)) != place(name.decode()):
                raise AssertionError("the study places a name where the server does not")
        self._counts.checked += few.size


def _uncomputable(schemes: Sequence[str]) -> dict[str, str]:
    """Return the titles of these schemes that need a package that is not installed, by key. Others are studied without it."""
    if hashes.is_installed():
        return {}
    titles = {**{key: made().title for key, made in HASHED_SCHEMES.items()}, **RING_TITLES}
    found = {key: titles[key] for key in schemes if key in titles}
    if len(found) == len(schemes):
        raise InvalidInput(f"{', '.join(found.values())} {missing_package(hashes.PACKAGE, 'study')}")
    return found


def first_of(batch: NameBatch, most: int) -> NameBatch:
    """Return the first names of a batch."""
    words = np.ascontiguousarray(batch.words[:, :most])
    return NameBatch(words, batch.lengths[:most], batch.ordinals[:most])
