"""Diversity reranking: all posts are kept, photos come first, rules hold where possible, and lost places are reported."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ranking.reranking import (
    AUTHOR,
    EXPLORATION,
    OPENING,
    PHOTOS,
    SOURCE_MOST,
    TAG_MOST,
    WINDOW,
    Part,
    Ranked,
    diversify,
)

POSTS = st.builds(
    Ranked,
    author=st.integers(1, 6),
    tag=st.none() | st.sampled_from("abc"),
    source=st.none() | st.sampled_from(("followees", "tags")),
    part=st.sampled_from(Part),
    photos=st.booleans(),
)


@given(st.lists(POSTS, max_size=60), st.integers(1, 10), st.floats(0.0, 0.5))
def test_diversity_reranking_keeps_every_post_and_rank_changes_sum_to_zero(
    ranked: list[Ranked], most: int, exploration: float
) -> None:
    placed = diversify(ranked, author_most=most, exploration=exploration)
    assert sorted(one.row for one in placed) == list(range(len(ranked)))
    assert sum(one.lost for one in placed) == 0
    assert all(one.lost == place - one.row for place, one in enumerate(placed))
    assert all(one.rule for one in placed if one.lost > 0)
    texts = [row for row, post in enumerate(ranked) if post.part is Part.RANKED and not post.photos]
    for place, one in enumerate(placed):
        if one.lost < 0 and ranked[one.row].photos:
            opens = place < OPENING and ranked[one.row].part is Part.RANKED
            assert one.rule in ({PHOTOS, ""} if opens and any(row < one.row for row in texts) else {""})
    assert not any(one.rule for one in placed if one.lost <= 0 and not ranked[one.row].photos)


def opens(post: Ranked) -> bool:
    """Return whether a post may take a position in the opening: strangers' posts may not, whatever they show."""
    return post.photos and post.part is Part.RANKED


@given(st.lists(POSTS, max_size=60), st.integers(1, 10), st.floats(0.0, 0.5))
def test_diversity_reranking_opens_with_photos_if_any_break_no_author_or_tag_rule(
    ranked: list[Ranked], most: int, exploration: float
) -> None:
    placed = [ranked[one.row] for one in diversify(ranked, author_most=most, exploration=exploration)]
    for end in range(min(OPENING, len(placed))):
        before, rest = placed[:end], [other for other in placed[end:] if opens(other)]
        assert opens(placed[end]) or all(repeats(other, before, most) for other in rest)


@given(st.lists(POSTS, max_size=60), st.integers(1, 10), st.booleans())
def test_diversity_reranking_of_posts_that_all_have_or_all_lack_photos_keeps_the_order(
    ranked: list[Ranked], most: int, photos: bool
) -> None:
    alike = [one._replace(part=Part.RANKED, photos=photos) for one in ranked]
    without = [one._replace(photos=False) for one in alike]
    assert [one.row for one in diversify(alike, author_most=most, exploration=0.0)] == [
        one.row for one in diversify(without, author_most=most, exploration=0.0)
    ]


def test_diversity_reranking_puts_photos_first_and_names_photo_rule_for_moved_posts() -> None:
    ranked = [Ranked(author, None, None, photos=author in {2, 4}) for author in range(5)]
    placed = diversify(ranked, author_most=3, exploration=0.0)
    assert [(one.row, one.lost, one.rule) for one in placed] == [
        (2, -2, PHOTOS),
        (4, -3, PHOTOS),
        (0, 2, PHOTOS),
        (1, 2, PHOTOS),
        (3, 1, PHOTOS),
    ]


def test_diversity_reranking_opens_with_a_screen_of_photos_only() -> None:
    ranked = [Ranked(author, None, None, photos=author % 2 == 1) for author in range(10)]
    placed = diversify(ranked, author_most=3, exploration=0.0)
    assert [one.row for one in placed] == [1, 3, 5, 0, 2, 4, 6, 7, 8, 9]


@given(st.lists(POSTS, max_size=60), st.integers(1, 10))
def test_diversity_reranking_breaks_a_rule_only_if_every_remaining_post_breaks_one(
    ranked: list[Ranked], most: int
) -> None:
    placed = [ranked[one.row] for one in diversify(ranked, author_most=most, exploration=0.0)]
    for end in range(len(placed)):
        before, one = placed[max(0, end - WINDOW + 1) : end], placed[end]
        if breaks(one, before, most):
            rest = [other for other in placed[end:] if other.part is one.part]
            assert all(breaks(other, before, most) for other in rest)
            if repeats(one, before, most):
                assert all(repeats(other, before, most) for other in rest), (
                    "the source rule is relaxed before the author and tag rules"
                )


def breaks(one: Ranked, before: list[Ranked], most: int) -> bool:
    sources = Counter(other.source for other in before)
    return repeats(one, before, most) or (one.source is not None and sources[one.source] >= SOURCE_MOST)


def repeats(one: Ranked, before: list[Ranked], most: int) -> bool:
    authors, tags = Counter(other.author for other in before), Counter(other.tag for other in before)
    return authors[one.author] >= most or (one.tag is not None and tags[one.tag] >= TAG_MOST)


def test_diversity_reranking_limits_posts_per_author_within_window() -> None:
    ranked = [Ranked("ann", None, None)] * 3 + [Ranked("ben", None, None)]
    placed = diversify(ranked, author_most=2, exploration=0.0)
    assert [(one.row, one.lost) for one in placed] == [(0, 0), (1, 0), (3, -1), (2, 1)]
    assert placed[3].rule == AUTHOR


def test_diversity_reranking_gives_exploration_configured_fraction_of_positions() -> None:
    ranked = [Ranked(author, None, None) for author in range(20)] + [
        Ranked(author, None, None, Part.EXPLORING) for author in range(20, 40)
    ]
    placed = diversify(ranked, author_most=10, exploration=0.2)
    first = [one.row for one in placed[:20]]
    assert [place for place, row in enumerate(first) if row >= 20] == [4, 9, 14, 19]
    assert {one.rule for one in placed if one.lost > 0} == {EXPLORATION}
    assert all(row < 20 for row in [one.row for one in diversify(ranked, author_most=10, exploration=0.0)][:20])


def test_diversity_reranking_puts_opted_out_posts_last_and_never_as_exploration() -> None:
    ranked = [Ranked(author, None, None, Part.REST) for author in range(4)]
    ranked += [Ranked(4, None, None), Ranked(5, None, None), Ranked(6, None, None, Part.EXPLORING)]
    placed = diversify(ranked, author_most=10, exploration=0.5)
    assert [one.row for one in placed] == [4, 6, 5, 0, 1, 2, 3]
