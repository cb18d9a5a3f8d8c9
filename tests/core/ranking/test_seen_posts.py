"""Memory of seen posts: matches a plain dictionary, is bounded, and keeps the newest posts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ids import MAX_ID
from shoal.core.ranking.preferences import MOST, MOST_TIMES, add_seen, times_seen

IDS = st.integers(1, MAX_ID)


@given(st.lists(st.lists(IDS, max_size=20), max_size=20))
def test_seen_posts_count_a_post_once_per_visit(visits: list[list[int]]) -> None:
    data = b""
    times: dict[int, int] = {}
    for visit in visits:
        data = add_seen(data, visit)
        for id_ in set(visit):
            times[id_] = min(times.get(id_, 0) + 1, MOST_TIMES)
    assert times_seen(data, list(times)).tolist() == list(times.values())
    assert len(data) == 4 * len(times)


def test_seen_posts_record_contains_newest_thousand() -> None:
    data = b""
    for first in range(1, 1_501, 50):
        data = add_seen(data, range(first, first + 50))
    assert len(data) == 4 * MOST
    assert times_seen(data, range(501, 1_501)).all()
    assert not times_seen(data, range(1, 501)).any()


def test_seen_posts_record_retains_post_seen_again_longer() -> None:
    data = add_seen(add_seen(b"", range(1, MOST + 1)), [1])
    data = add_seen(data, range(2_000, 2_000 + MOST - 1))
    assert times_seen(data, [1, MOST]).tolist() == [2, 0]


def test_seen_posts_record_that_is_empty_counts_zero_views() -> None:
    assert times_seen(b"", [1, 2]).tolist() == [0, 0]
    assert times_seen(add_seen(b"", [1]), []).tolist() == []
