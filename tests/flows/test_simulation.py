"""The first test of the project: whatever happens, in the end every timeline is what its definition says (I1), every count the
number of what it counts (I2), every association has its inverse (I3), and tags have the posts that carry them (I4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flows.simulator import NAMES, run, run_on_engines

VERBS = {
    "publish": 8,
    "create": 4,
    "comment": 2,
    "update": 4,
    "delete": 3,
    "edit_twice": 1,
    "edit_and_delete": 2,
    "follow": 7,
    "unfollow": 4,
    "waver": 4,
    "follow_tag": 4,
    "unfollow_tag": 3,
    "waver_about_a_tag": 2,
    "block": 2,
    "follow_and_be_blocked": 2,
    "unblock": 2,
    "hide": 1,
    "reveal": 1,
    "suspend": 1,
    "restore": 1,
    "mute": 1,
    "unmute": 1,
    "like": 3,
    "unlike": 1,
    "share": 6,
    "turn_folding": 1,
    "unshare": 2,
    "bookmark": 1,
    "unbookmark": 1,
    "ask": 3,
    "ask_otherwise": 1,
    "vote": 5,
    "vote_twice": 1,
    "vote_and_delete": 1,
    "pin": 2,
    "pin_and_delete": 1,
    "unpin": 1,
    "mute_thread": 1,
    "unmute_thread": 1,
    "look": 8,
    "watch": 6,
    "cool": 1,
    "restart": 1,
    "again": 2,
}
PEOPLE = st.integers(0, len(NAMES) - 1)
OPS = st.tuples(
    st.sampled_from([verb for verb, weight in VERBS.items() for _ in range(weight)]),
    PEOPLE,
    PEOPLE,
    st.integers(0, 127),
)

FICKLE = {
    "create": 1,
    "share": 1,
    "delete": 1,
    "follow": 12,
    "unfollow": 10,
    "waver": 2,
    "follow_tag": 3,
    "unfollow_tag": 3,
    "block": 1,
    "unblock": 1,
    "cool": 1,
}
FAMOUS = st.integers(0, 1)
_NUMBERS = st.sampled_from([0x00, 0x03, 0x10, 0x13])
"""Of tags, the first alone."""
FICKLE_OPS = st.one_of(
    st.tuples(
        st.sampled_from([verb for verb, weight in FICKLE.items() for _ in range(weight)]), PEOPLE, FAMOUS, _NUMBERS
    ),
    st.tuples(st.just("publish"), FAMOUS, FAMOUS, _NUMBERS),
)
"""Everybody comes to two members and one tag, and leaves again."""


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("stores", [1, 2])
@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32), ops=st.lists(OPS, min_size=30, max_size=90))
def test_in_the_end_everything_is_as_defined(
    stores: int, shared: bool, seed: int, ops: list[tuple[str, int, int, int]]
) -> None:
    run(seed, stores, ops, shared=shared)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("stores", [1, 2])
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), ops=st.lists(FICKLE_OPS, min_size=60, max_size=120))
def test_so_it_is_where_members_are_loud_and_quiet_all_the_time(
    stores: int, shared: bool, seed: int, ops: list[tuple[str, int, int, int]]
) -> None:
    run(seed, stores, ops, shared=shared, fickle=True)


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 2**32), ops=st.lists(FICKLE_OPS, min_size=40, max_size=60))
def test_so_are_these_on_several_engines(seed: int, ops: list[tuple[str, int, int, int]]) -> None:
    run_on_engines(seed, ops, fickle=True)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32), ops=st.lists(OPS, min_size=20, max_size=50))
def test_so_it_is_on_several_engines_that_processes_share(seed: int, ops: list[tuple[str, int, int, int]]) -> None:
    run_on_engines(seed, ops)
