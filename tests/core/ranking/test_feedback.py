"""The arithmetic of ranking wishes: taps are bounded, the oldest are dropped, and affinities stay between -1 and 1."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.core.ranking.people import friends_of_friends
from shoal.core.ranking.preferences import (
    MOST_BYTES,
    MOST_REMEMBERED,
    MOST_TAPS,
    NO_FEEDBACK,
    Feedback,
    FeedPreferences,
    Interests,
    check_picked,
    encode_feedback,
    fitting,
    tapped,
    with_feedback,
)

NOBODY = Interests(
    followees=(),
    followers=frozenset(),
    followed_tags=frozenset(),
    tags={},
    authors={},
    likes={},
    liked_tags={},
    acted=frozenset(),
    place=None,
    location=None,
    picked=(),
    near=friends_of_friends({}, {}),
)

_taps = st.integers(-MOST_TAPS, MOST_TAPS)
_affinities = st.floats(-1, 1)


def test_ranking_feedback_counts_are_bounded_and_zero_counts_are_removed() -> None:
    taps: dict[str, int] = {}
    for _ in range(7):
        taps = tapped(taps, "sea", 1)
    assert taps == {"sea": 5}
    taps = tapped(tapped(taps, "sky", -1), "sea", -1)
    assert list(taps.items()) == [("sky", -1), ("sea", 4)]
    assert tapped(taps, "sky", 1) == {"sea": 4}
    assert tapped(taps, "sea", 0) == {"sky": -1}
    assert tapped({}, "sea", 0) == {}


def test_ranking_feedback_beyond_limit_drops_oldest_and_round_trips_as_json() -> None:
    authors: dict[int, int] = {}
    tags: dict[str, int] = {}
    for n in range(MOST_REMEMBERED + 10):
        authors, tags = tapped(authors, (1 << 60) + n, -1), tapped(tags, f"a_tag_of_usual_length{n}", 1)
    assert len(authors) == len(tags) == MOST_REMEMBERED
    assert min(authors) == (1 << 60) + 10
    feedback = Feedback(picked=tuple(f"a_tag_of_usual_length{n}" for n in range(50)), authors=authors, tags=tags)
    said = msgspec.json.encode(feedback)
    assert FeedPreferences(id=1, member_id=2, said=said).feedback == feedback


def test_ranking_preferences_beyond_eight_kilobytes_drop_oldest_feedback() -> None:
    with pytest.raises(InvalidInput, match="4,096 bytes"):
        check_picked(tuple("\N{OLD ITALIC LETTER A}" * 50 + f"{n}" for n in range(50)))
    authors = {(1 << 60) + n: -1 for n in range(100)}
    tags = {f"{n:02}" + "a" * 100: 1 for n in range(100)}
    kept = fitting(Feedback(picked=("sea",), authors=authors, tags=tags))
    assert 7_000 < len(encode_feedback(kept)) <= MOST_BYTES
    assert kept.picked == ("sea",)
    assert list(kept.authors) == list(authors)[-len(kept.authors) :]
    assert list(kept.tags) == list(tags)[-len(kept.tags) :]
    assert fitting(kept) == kept


@given(
    st.dictionaries(st.sampled_from("abcd"), _affinities),
    st.dictionaries(st.integers(1, 4), _affinities),
    st.builds(
        Feedback,
        picked=st.lists(st.sampled_from("abcdef")).map(tuple),
        authors=st.dictionaries(st.integers(1, 6), _taps),
        tags=st.dictionaries(st.sampled_from("abcdef"), _taps),
    ),
)
def test_ranking_preferences_change_affinities_of_named_tags_and_authors_only_within_bounds(
    tags: dict[str, float], authors: dict[int, float], feedback: Feedback
) -> None:
    interests = NOBODY._replace(tags=tags, authors=authors)
    wished = with_feedback(interests, feedback)
    assert all(-1 <= value <= 1 for value in (*wished.tags.values(), *wished.authors.values()))
    assert {name for name, value in wished.tags.items() if tags.get(name) != value} <= {
        *feedback.picked,
        *feedback.tags,
    }
    assert {id_ for id_, value in wished.authors.items() if authors.get(id_) != value} <= feedback.authors.keys()
    for author, taps in feedback.authors.items():
        moved = wished.authors[author] - authors.get(author, 0.0)
        assert moved * taps >= 0
        assert abs(moved) <= abs(0.4 * taps) + 1e-9
    assert interests.tags == tags


@pytest.mark.parametrize("said", [b"", b"{", b'{"authors": {"ann": 1}}', b'{"tags": 5}'])
def test_ranking_preferences_with_invalid_json_are_ignored(said: bytes) -> None:
    feed_preferences = FeedPreferences(id=1, member_id=2, off=True, said=said)
    assert feed_preferences.feedback == NO_FEEDBACK
    assert feed_preferences.off
