"""Moments of a history by themselves: how they are encoded, and which periods they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.graph.payloads.follows import (
    MOST_PERIODS,
    FollowSpan,
    FollowTerms,
    beginning,
    begun_anew,
    encode,
    encode_moments,
    moments_of,
    moments_until,
    periods,
)

MOMENTS = st.sets(st.integers(1, 200), max_size=60).flatmap(
    lambda times: st.tuples(*(st.sampled_from((one, -one)) for one in sorted(times)))
)


@given(MOMENTS)
def test_the_newest_moments_come_back_as_they_were_encoded(told: tuple[int, ...]) -> None:
    assert moments_of(encode_moments(told)) == frozenset(told[-2 * MOST_PERIODS :])


@given(MOMENTS, st.integers(0, 60))
def test_what_is_dropped_is_the_same_however_often_it_is_put_together(told: tuple[int, ...], cut: int) -> None:
    parts = moments_of(encode_moments(told[:cut])) | moments_of(encode_moments(told[cut:]))
    assert encode_moments(parts) == encode_moments(told)


@given(st.binary(max_size=70))
def test_bytes_that_are_no_moments_are_left_out(data: bytes) -> None:
    assert len(moments_of(data)) <= len(data) // 8


@given(MOMENTS)
def test_periods_do_not_overlap_and_are_newest_first(told: tuple[int, ...]) -> None:
    found = periods(told)
    assert len(found) <= MOST_PERIODS
    edges = [edge for period in found for edge in (period.until, period.since)]
    # An end that is 0 goes on, and only the newest does; a beginning that is 0 is not known, and only the oldest's is not.
    assert all(edges[1:-1])
    known = [edge for edge in edges if edge]
    assert known == sorted(set(known), reverse=True)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=MOST_PERIODS * 2))
def test_acts_that_take_turns_make_a_period_each(steps: list[int]) -> None:
    times = [sum(steps[: at + 1]) for at in range(len(steps))]
    told = [time if at % 2 == 0 else -time for at, time in enumerate(times)]
    ends = [*times[1::2], *([0] if len(times) % 2 else [])]
    assert periods(told) == [FollowSpan(*pair) for pair in zip(times[::2], ends, strict=True)][::-1]


@pytest.mark.parametrize(
    ("told", "alive_since", "expected"),
    [
        ((), 0, []),
        ((), 5, [(5, 0)]),
        ((3, -4), 5, [(5, 0), (3, 4)]),
        # Two beginnings, or two ends, one from either side.
        ((3, 4, -5, -6), 0, [(3, 6)]),
        ((3,), 4, [(3, 0)]),
        # An end without a beginning: from before histories, or from before the newest twenty.
        ((-2, 3, -4), 0, [(3, 4), (0, 2)]),
    ],
)
def test_moments_make_periods(told: tuple[int, ...], alive_since: int, expected: list[tuple[int, int]]) -> None:
    assert periods(told, alive_since) == expected


def test_a_follow_began_before_it_was_changed() -> None:
    changed = encode(FollowTerms(languages=("nl",), since=7))
    assert (beginning(9, changed), beginning(9, b"")) == (7, 9)
    assert begun_anew(changed) == encode(FollowTerms(languages=("nl",)))
    assert begun_anew(b"") == b""


def test_data_of_a_newer_version_stop_nothing() -> None:
    assert (beginning(9, b"\xc1"), begun_anew(b"\xc1")) == (9, b"\xc1")


def test_a_tombstone_without_data_is_an_end() -> None:
    assert moments_until(9, b"") == {-9}
    assert moments_until(9, encode_moments((3, -9))) == {3, -9}
