"""Letters, sums and MD5: each placed by hand, by the server's own code, and by whole arrays at once."""

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
def test_hashing_many_names_at_once_gives_what_hashing_one_gives(names: list[str]) -> None:
    assert first_words(batch_of(names)).tolist() == [by_hand(name) for name in names]


def test_every_length_around_the_ends_of_a_block_is_right() -> None:
    names = ["x" * length for length in range(131)]
    assert first_words(batch_of(names)).tolist() == [by_hand(name) for name in names]
    # Alone, a short name goes the other way than beside a long one.
    assert [int(first_words(batch_of([name]))[0]) for name in names] == [by_hand(name) for name in names]


def test_more_names_than_are_hashed_at_a_time_are_all_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_AT_ONCE", 16)
    names = [f"name{number}" for number in range(100)]
    assert first_words(batch_of(names)).tolist() == [by_hand(name) for name in names]


@given(st.lists(line_names, min_size=1, max_size=40))
def test_the_levels_of_md5_are_the_servers_own(names: list[str]) -> None:
    a, b, c = Md5Levels().place(batch_of(names))
    assert list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)) == [tuple(place(name)) for name in names]


@given(st.lists(line_names, min_size=1, max_size=40))
def test_sums_are_those_of_the_bytes(names: list[str]) -> None:
    whole, rest = AsciiSum().place(batch_of(names))
    encoded = [name.lower().encode() for name in names]
    assert whole.tolist() == [sum(name) % 31 for name in encoded]
    assert rest.tolist() == [sum(name[1:]) % 33 for name in encoded]


def test_a_letter_that_is_not_there_or_not_allowed_has_no_bucket() -> None:
    names = ["ann", "_0", "z", "", "É", "a-b"]
    places = [
        [CHARACTERS[bucket] if bucket >= 0 else "" for bucket in level] for level in Letters().place(batch_of(names))
    ]
    assert places == [["a", "_", "z", "", "", "a"], ["n", "0", "", "", "", ""], ["n", "", "", "", "", "b"]]


def test_a_directory_without_one_of_its_levels_is_none() -> None:
    outer, inner = np.array([0, 1, NO_BUCKET, 2]), np.array([3, NO_BUCKET, 1, 4])
    assert joined(outer, inner, 10).tolist() == [3, NO_BUCKET, NO_BUCKET, 24]


def test_loads_count_members_and_activity_and_those_without_a_bucket() -> None:
    loads = Loads(4)
    loads.add(np.array([1, 1, NO_BUCKET, 3]), np.array([2.0, 0.5, 9.0, 1.0]))
    loads.add(np.array([0]), None)
    assert loads.members.tolist() == [1, 2, 0, 1]
    assert loads.activity.tolist() == [0, 2.5, 0, 1]
    assert loads.without == 1
