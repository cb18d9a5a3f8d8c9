"""Audiences, the seats that an entry is pushed to, kept between posts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.timelines.contract import Seats
from shoal.timelines.follower_sets import Audience, Audiences
from tests.examples import examples

MEMBER = 77


def packed(*seats: int) -> Seats:
    return np.array(seats, np.int32)


def listed(audience: Audience | None) -> list[int]:
    assert audience is not None
    return sorted(audience.seats(0, len(audience)).tolist())


def filled(audiences: Audiences, source: int, *seats: int) -> Audience:
    audience = audiences.begin(source)
    audience.extend(packed(*seats))
    audiences.finish(source, audience)
    return audience


@settings(deadline=None, max_examples=examples(50, full=100))
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_an_audience_is_a_set_of_seats(acts: list[tuple[bool, int]]) -> None:
    audience, model = Audience(0), set[int]()
    for add, seat in acts:
        (audience.add if add else audience.discard)(seat)
        (model.add if add else model.discard)(seat)
    assert listed(audience) == sorted(model)


@settings(deadline=None, max_examples=examples(100, full=200))
@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 14)), max_size=40))
def test_pages_from_the_end_reach_everybody_who_stays_whoever_comes_and_goes(
    page: int, acts: list[tuple[bool, int]]
) -> None:
    audience = Audience(0)
    audience.extend(packed(*range(10)))
    stayed, reached = set(range(10)), set[int]()
    left, waiting = len(audience), iter(acts)
    while left:
        left = min(left, len(audience))
        first = max(0, left - page)
        reached |= set(audience.seats(first, left).tolist())
        left = first
        for add, seat in [act for act, _ in zip(waiting, range(2), strict=False)]:
            (audience.add if add else audience.discard)(seat)
            if not add:
                stayed.discard(seat)
    assert stayed <= reached


def test_an_audience_is_known_once_it_was_read_whole() -> None:
    audiences = Audiences()
    assert audiences.get(1) is None
    audience = audiences.begin(1)
    assert audiences.get(1) is None
    audiences.finish(1, audience)
    assert audiences.get(1) is audience


def test_changes_reach_a_whole_audience_at_once() -> None:
    audiences = Audiences()
    audience = filled(audiences, 1, 4, 5)
    audiences.add(1, MEMBER, packed(6))
    audiences.add(1, MEMBER, packed(6))
    audiences.discard(1, MEMBER, packed(4))
    audiences.add(1, MEMBER, packed())
    audiences.add(2, MEMBER, packed(9))
    assert listed(audience) == [5, 6]


def test_changes_during_a_reading_are_told_to_whoever_reads() -> None:
    audiences = Audiences()
    audience = audiences.begin(1)
    audiences.add(1, 10, packed(3))
    audiences.discard(1, 11, packed())
    assert audience.touched == {10, 11}
    assert len(audience) == 0


def test_an_audience_that_was_forgotten_while_being_read_is_not_kept() -> None:
    audiences = Audiences()
    audience = audiences.begin(1)
    audiences.clear()
    audiences.finish(1, audience)
    assert audiences.get(1) is None


def test_of_two_readings_the_later_is_kept_and_told_of_changes() -> None:
    audiences = Audiences()
    one, two = audiences.begin(1), audiences.begin(1)
    audiences.add(1, MEMBER, packed(3))
    assert (one.touched, two.touched) == (set(), {MEMBER})
    audiences.finish(1, one)
    assert audiences.get(1) is None
    audiences.finish(1, two)
    assert audiences.get(1) is two


def test_every_reading_has_another_serial() -> None:
    audiences = Audiences()
    assert len({audiences.begin(1).serial for _ in range(100)}) == 100


def test_the_longest_unused_make_room() -> None:
    audiences = Audiences(budget=4)
    filled(audiences, 1, 1, 2)
    filled(audiences, 2, 3, 4)
    audiences.get(1)
    filled(audiences, 3, 5, 6)
    assert [source for source in (1, 2, 3) if audiences.get(source)] == [1, 3]


def test_one_audience_may_be_larger_than_the_budget() -> None:
    audiences = Audiences(budget=1)
    filled(audiences, 1, 1)
    audience = filled(audiences, 2, 2, 3, 4)
    assert audiences.get(2) is audience
    assert audiences.get(1) is None


def test_growth_counts_against_the_budget() -> None:
    audiences = Audiences(budget=3)
    filled(audiences, 1, 1)
    filled(audiences, 2, 1)
    audiences.add(2, MEMBER, packed(2))
    audiences.discard(2, MEMBER, packed(1))
    audiences.add(2, MEMBER, packed(3))
    filled(audiences, 3, 1)
    assert [source for source in (1, 2, 3) if audiences.get(source)] == [2, 3]


def test_when_seats_change_hands_all_is_forgotten() -> None:
    audiences = Audiences()
    filled(audiences, 1, 1)
    audiences.clear()
    assert audiences.get(1) is None


def test_an_audience_that_is_forgotten_leaves_its_room_to_others() -> None:
    audiences = Audiences(budget=2)
    filled(audiences, 1, 1)
    filled(audiences, 2, 1)
    audiences.forget(2)
    assert audiences.get(2) is None
    audiences.forget(2)
    filled(audiences, 3, 1)
    assert [source for source in (1, 2, 3) if audiences.get(source)] == [1, 3]


def test_an_audience_that_is_forgotten_while_it_is_read_never_passes_for_whole() -> None:
    audiences = Audiences()
    audience = audiences.begin(1)
    audiences.forget(1)
    audiences.finish(1, audience)
    assert audiences.get(1) is None


def test_sources_without_an_audience_are_forgotten_too() -> None:
    audiences = Audiences(sources=2)
    for source in (1, 2, 3):
        audiences.finish(source, audiences.begin(source))
    assert audiences.get(1) is None
    assert audiences.get(2) is not None
    assert audiences.get(3) is not None
