"""Maps of places: all points lie within the window, and the window is as small as possible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.model import Member, Post
from shoal.core.places import Place
from shoal.core.visibility import STRANGER
from shoal.queries.hydration import Entry, Profile
from shoal.web.maps import map_of
from shoal.web.request_context import PageContext
from tests.api.in_memory_network import network_fixture
from tests.example_counts import examples
from tests.web.browser import plain_ctx

ANN = Profile(Member(id=1, name="ann"))


@pytest.fixture(scope="module")
def ctx() -> Iterator[PageContext]:
    with network_fixture() as made:
        yield plain_ctx(made)


def entry(number: int, place: Place | None) -> Entry:
    post = Post(id=1 + (number << 23), author_id=1, text=f"{number}", place=place)
    return Entry(post.id, post, ANN, STRANGER)


places = st.lists(st.builds(Place, st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=30)


@settings(max_examples=examples(75, full=150))
@given(places)
def test_post_map_contains_point_of_each_post_within_window(ctx: PageContext, found: list[Place]) -> None:
    shown = map_of(ctx, [entry(n, place) for n, place in enumerate(found)])
    assert shown is not None
    assert sum(len(spot.posts) + spot.more for spot in shown.spots) == len(found)
    for spot in shown.spots:
        assert shown.window.left - 0.2 <= spot.x <= shown.window.left + shown.window.width + 0.2
        assert shown.window.top - 0.2 <= spot.y <= shown.window.top + shown.window.height + 0.2
    assert shown.window.top >= -9_000.1
    assert shown.window.top + shown.window.height <= 9_000.1
    assert 1 <= len(shown.lands) <= 3
    assert len(shown.meridians) <= 16
    assert len(shown.parallels) <= 16


def test_post_map_of_places_around_pacific_is_centered_on_date_line(ctx: PageContext) -> None:
    shown = map_of(ctx, [entry(n, place) for n, place in enumerate([Place(-17.7, 178.0), Place(-13.8, -171.8)])])
    assert shown is not None
    assert shown.window.width < 3_000
    assert len(shown.lands) == 2
    assert {line.label for line in shown.meridians} >= {"180°"}


def test_post_map_of_single_place_shows_surrounding_region(ctx: PageContext) -> None:
    shown = map_of(ctx, [entry(1, Place(45.43, 12.33))])
    assert shown is not None
    assert (shown.window.height, shown.window.width) == (600.0, 960.0)
    assert [spot.name for spot in shown.spots] == ["45.43° N, 12.33° E"]


def test_post_map_of_posts_without_location_is_absent(ctx: PageContext) -> None:
    assert map_of(ctx, [entry(1, None)]) is None
