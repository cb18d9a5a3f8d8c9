"""Constraints of the association types and post marks."""

from __future__ import annotations

import pytest

from shoal.graph.contract import MAX_TIME
from shoal.graph.payloads.follows import MAX_LANGUAGES, FollowTerms, encode
from shoal.graph.schema import ASSOC_TYPES, POST_MARKS, AssocType, by_number


def test_association_types_with_duplicate_number_are_refused() -> None:
    with pytest.raises(ValueError, match="PINS and DEFERS both have the number 32"):
        by_number((ASSOC_TYPES[32], AssocType(32, "defers")))


def test_association_type_inverse_of_inverse_is_the_type() -> None:
    for atype in ASSOC_TYPES.values():
        assert not atype.inverse or ASSOC_TYPES[atype.inverse].inverse == atype.number


def test_association_types_with_ranks_have_covering_index() -> None:
    assert [atype for atype in ASSOC_TYPES.values() if atype.ranked and not atype.covered] == []


def test_longest_follow_options_fit_into_a_covering_index() -> None:
    # A language tag is at most a language, a script and a region.
    longest = tuple(f"yue-Hant-{region:03}" for region in range(MAX_LANGUAGES))
    assert len(encode(FollowTerms(shares=False, languages=longest, notify=True, since=MAX_TIME))) <= 2_000


def test_bookmark_association_types_have_inverse_and_unique_names() -> None:
    assert all(mark.atype.inverse == mark.inverse.number for mark in POST_MARKS)
    names = [name for mark in POST_MARKS for name in (mark.verb, mark.state, mark.noun)]
    assert len(set(names)) == len(names)
