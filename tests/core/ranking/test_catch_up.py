"""The arithmetic of catch-up: selection of posts and the end message."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ranking.reranking import AUTHOR_MOST, chosen, end_words


def test_catch_up_selects_quiet_friends_first_and_at_most_two_posts_per_author() -> None:
    names = ["ann", "ann", "ann", "ben", "cyd", "dan", "eve"]
    assert chosen(names, {"cyd", "dan", "eve"}, 4) == ([4, 5], [0, 1])
    assert chosen(names, {"cyd", "dan", "eve"}, 7) == ([4, 5, 6], [0, 1, 3])
    assert chosen(names, {"ann", "cyd", "dan", "eve"}, 4) == ([0, 1, 4], [3])
    assert chosen(names, (), 3) == ([], [0, 1, 3])


@given(st.lists(st.integers(0, 9), max_size=60), st.frozensets(st.integers(0, 9)), st.integers(1, 40))
def test_catch_up_selection_fills_limit_in_rank_order_within_author_limit(
    authors: list[int], quiet: frozenset[int], limit: int
) -> None:
    first, others = chosen(authors, quiet, limit)
    rows = [*first, *others]
    assert len(set(rows)) == len(rows)
    assert first == sorted(first)
    assert others == sorted(others)
    assert {authors[row] for row in first} <= quiet
    assert not {authors[row] for row in others} & quiet
    counts = Counter(authors[row] for row in rows)
    assert all(count <= AUTHOR_MOST for count in counts.values())
    assert len(rows) == min(limit, sum(min(count, AUTHOR_MOST) for count in Counter(authors).values()))
    usual = sum(min(count, AUTHOR_MOST) for author, count in Counter(authors).items() if author not in quiet)
    assert len(first) <= max(limit // 2, limit - usual)


@pytest.mark.parametrize(
    ("since", "left_out", "words"),
    [
        (datetime(2026, 11, 23, 8, 5, tzinfo=UTC), 0, "You've seen everything since 08:05 UTC."),
        (datetime(2026, 11, 17, 20, tzinfo=UTC), 0, "You've seen everything since Tuesday."),
        (
            datetime(2026, 11, 16, tzinfo=UTC),
            1,
            "That is the best since 16 November; one more is in your home timeline.",
        ),
        (
            datetime(2026, 10, 25, tzinfo=UTC),
            1_200,
            "That is the best since 25 October; 1,200 more are in your home timeline.",
        ),
    ],
)
def test_catch_up_end_message_states_start_of_period_and_number_of_omitted_posts(
    since: datetime, left_out: int, words: str
) -> None:
    until = datetime(2026, 11, 23, 12, tzinfo=UTC)
    moments = [round(moment.timestamp() * 1_000) for moment in (since, until)]
    assert end_words(moments[0], moments[1], left_out) == words
