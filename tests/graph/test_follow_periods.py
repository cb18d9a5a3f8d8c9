"""Follow histories: the encoding of moments, and the periods derived from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.graph.payloads.follows import (
    MOST_PERIODS,
    FollowSpan,
    FollowTerms,
    beginning,
    encode,
    encode_moments,
    moments_of,
    moments_until,
    periods,
    restarted,
)

MOMENTS = st.sets(st.integers(1, 200), max_size=60).flatmap(
    lambda times: st.tuples(*(st.sampled_from((one, -one)) for one in sorted(times)))
)


@given(MOMENTS)
def test_follow_history_encoding_keeps_the_newest_times(told: tuple[int, ...]) -> None:
    assert moments_of(encode_moments(told)) == frozenset(told[-2 * MOST_PERIODS :])


@given(MOMENTS, st.integers(0, 60))
def test_follow_history_merged_from_two_parts_equals_history_encoded_at_once(told: tuple[int, ...], cut: int) -> None:
    parts = moments_of(encode_moments(told[:cut])) | moments_of(encode_moments(told[cut:]))
    assert encode_moments(parts) == encode_moments(told)


@given(st.binary(max_size=70))
def test_follow_history_decoder_ignores_invalid_bytes(data: bytes) -> None:
    assert len(moments_of(data)) <= len(data) // 8


@given(MOMENTS)
def test_follow_periods_do_not_overlap_and_are_newest_first(told: tuple[int, ...]) -> None:
    found = periods(told)
    assert len(found) <= MOST_PERIODS
    edges = [edge for period in found for edge in (period.until, period.since)]
    # An `until` of 0 is an open period, allowed for the newest only; a `since` of 0 is unknown, allowed for the oldest only.
    assert all(edges[1:-1])
    known = [edge for edge in edges if edge]
    assert known == sorted(set(known), reverse=True)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=MOST_PERIODS * 2))
def test_follow_periods_pair_each_follow_with_the_next_unfollow(steps: list[int]) -> None:
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
        # Two follows or two unfollows, one from each side.
        ((3, 4, -5, -6), 0, [(3, 6)]),
        ((3,), 4, [(3, 0)]),
        # An unfollow without a follow: from before histories were kept, or older than the newest twenty.
        ((-2, 3, -4), 0, [(3, 4), (0, 2)]),
    ],
)
def test_follow_periods_computed_from_history_times_match_examples(
    told: tuple[int, ...], alive_since: int, expected: list[tuple[int, int]]
) -> None:
    assert periods(told, alive_since) == expected


def test_follow_start_time_is_kept_when_options_change() -> None:
    changed = encode(FollowTerms(languages=("nl",), since=7))
    assert (beginning(9, changed), beginning(9, b"")) == (7, 9)
    assert restarted(changed) == encode(FollowTerms(languages=("nl",)))
    assert restarted(b"") == b""


def test_follow_history_encoded_by_newer_version_is_ignored() -> None:
    assert (beginning(9, b"\xc1"), restarted(b"\xc1")) == (9, b"\xc1")


def test_follow_tombstone_without_stored_history_counts_as_unfollow() -> None:
    assert moments_until(9, b"") == {-9}
    assert moments_until(9, encode_moments((3, -9))) == {3, -9}
