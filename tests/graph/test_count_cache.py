"""Caches of counts: a change of an object never modifies the counts shared by new objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shoal.graph.cache.entries import KnownCounts

IDS = st.integers(1, 4)
TYPES = range(1, 6)
LENGTHS = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 2), max_size=2)


class CountsMachine(RuleBasedStateMachine):
    """Known counts compared with a plain dictionary per object; a missing key is an unknown count."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = KnownCounts(100)
        self.model: dict[int, dict[int, int]] = {}

    @rule(id1=IDS, lengths=LENGTHS, unknown=st.sets(st.sampled_from(TYPES), max_size=2))
    def begin(self, id1: int, lengths: Mapping[int, int], unknown: set[int]) -> None:
        unknown -= lengths.keys()
        self.counts.begin(id1, lengths, unknown)
        self.model[id1] = {atype: lengths.get(atype, 0) for atype in TYPES if atype not in unknown}

    @rule(id1=IDS, lengths=LENGTHS)
    def keep(self, id1: int, lengths: Mapping[int, int]) -> None:
        self.counts.keep(id1, lengths.items())
        self.model.setdefault(id1, {}).update(lengths)

    @rule(id1=IDS, atype=st.sampled_from(TYPES), length=st.integers(0, 2))
    def change(self, id1: int, atype: int, length: int) -> None:
        self.counts.change(id1, atype, length)
        self.model.setdefault(id1, {})[atype] = length

    @rule(id1=IDS, atype=st.sampled_from(TYPES))
    def forget_one(self, id1: int, atype: int) -> None:
        self.counts.forget_one(id1, atype)
        self.model.get(id1, {}).pop(atype, None)

    @rule(id1=IDS)
    def forget(self, id1: int) -> None:
        self.counts.forget(id1)
        self.model.pop(id1, None)

    @rule(id1=IDS, atype=st.sampled_from(TYPES))
    def look(self, id1: int, atype: int) -> None:
        assert self.counts.of(id1, atype) == self.model.get(id1, {}).get(atype)

    @invariant()
    def all_as_they_are(self) -> None:
        # Use a copy, because lookups store zeros.
        copy = KnownCounts(100)
        for id1, held in self.counts.many([1, 2, 3, 4]).items():
            copy.put(id1, dict(held))
        for id1 in range(1, 5):
            assert [copy.of(id1, atype) for atype in TYPES] == [self.model.get(id1, {}).get(atype) for atype in TYPES]


TestCounts: Any = CountsMachine.TestCase


@pytest.mark.parametrize("lengths", [{}, {1: 2}])
def test_count_cache_new_objects_with_equal_counts_share_one_mapping_until_counts_change(
    lengths: dict[int, int],
) -> None:
    counts = KnownCounts(100)
    for id1 in range(1, 4):
        counts.begin(id1, lengths, (2,))
        assert counts.of(id1, 3) == 0
    held = counts.many([1, 2, 3])
    assert held[1] is held[2] is held[3]
    counts.change(1, 3, 0)
    assert counts.many([1])[1] is held[2], "a change to an equal count keeps the shared mapping"
    counts.change(1, 3, 1)
    assert counts.many([1])[1] is not held[2]
    assert [counts.of(id1, 3) for id1 in range(1, 4)] == [1, 0, 0]
