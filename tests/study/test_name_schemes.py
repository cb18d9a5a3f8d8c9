"""Placement by letters, sums and MD5: computed by hand, by the server's own code, and vectorized."""

from __future__ import annotations

from hashlib import md5

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.placement import place
from shoal_study import name_schemes as hashing
from shoal_study.name_schemes import CHARACTERS, NO_BUCKET, AsciiSum, Letters, Loads, Md5Levels, first_words, joined
from shoal_study.names import batch_of
from tests.study.test_names import line_names


def by_hand(name: str) -> int:
    return int.from_bytes(md5(name.lower().encode(), usedforsecurity=False).digest()[:4], "little")


@given(st.lists(line_names, min_size=1, max_size=40))
def test_md5_batch_hash_equals_hash_of_each_name(names: list[str]) -> None:
    assert first_words(batch_of(names)).tolist() == [by_hand(name) for name in names]


def test_md5_batch_hash_is_correct_at_block_boundaries() -> None:
    names = ["x" * length for length in range(131)]
    assert first_words(batch_of(names)).tolist() == [by_hand(name) for name in names]
    # A short name alone takes another code path than in a batch with a long one.
    assert [int(first_words(batch_of([name]))[0]) for name in names] == [by_hand(name) for name in names]


def test_md5_batch_hash_of_more_names_than_batch_size_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_AT_ONCE", 16)
    names = [f"name{number}" for number in range(100)]
    assert first_words(batch_of(names)).tolist() == [by_hand(name) for name in names]


@given(st.lists(line_names, min_size=1, max_size=40))
def test_md5_placement_levels_equal_those_of_server(names: list[str]) -> None:
    a, b, c = Md5Levels().place(batch_of(names))
    assert list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)) == [tuple(place(name)) for name in names]


@given(st.lists(line_names, min_size=1, max_size=40))
def test_ascii_sum_placement_equals_sum_of_bytes(names: list[str]) -> None:
    whole, rest = AsciiSum().place(batch_of(names))
    encoded = [name.lower().encode() for name in names]
    assert whole.tolist() == [sum(name) % 31 for name in encoded]
    assert rest.tolist() == [sum(name[1:]) % 33 for name in encoded]


def test_placement_by_letters_of_name_with_missing_or_disallowed_letter_has_no_bucket() -> None:
    names = ["ann", "_0", "z", "", "É", "a-b", "éan", "a用b"]
    places = [
        [CHARACTERS[bucket] if bucket >= 0 else "" for bucket in level] for level in Letters().place(batch_of(names))
    ]
    assert places == [
        ["a", "_", "z", "", "", "a", "", "a"],
        ["n", "0", "", "", "", "", "a", ""],
        ["n", "", "", "", "", "b", "n", "b"],
    ]


def test_placement_directory_name_lacking_one_level_has_no_bucket() -> None:
    outer, inner = np.array([0, 1, NO_BUCKET, 2]), np.array([3, NO_BUCKET, 1, 4])
    assert joined(outer, inner, 10).tolist() == [3, NO_BUCKET, NO_BUCKET, 24]


def test_placement_loads_sum_members_and_activity_by_bucket_and_count_names_without_bucket() -> None:
    loads = Loads(4)
    loads.add(np.array([1, 1, NO_BUCKET, 3]), np.array([2.0, 0.5, 9.0, 1.0]))
    loads.add(np.array([0]), None)
    assert loads.members.tolist() == [1, 2, 0, 1]
    assert loads.activity.tolist() == [0, 2.5, 0, 1]
    assert loads.without == 1
