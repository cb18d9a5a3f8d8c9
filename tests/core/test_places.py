"""Places: rounding, distances, and the grid cells that cover a search disk."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.core.places import (
    MOST,
    Disk,
    Place,
    PlacePrecision,
    cells_of,
    checked_place,
    cover,
    disk,
    distance_km,
    rounded,
)
from tests.example_counts import examples

ZURICH, BERN = Place(47.3769, 8.5417), Place(46.948, 7.4474)
WIDEST_KM = {PlacePrecision.M100: 0.1, PlacePrecision.KM: 1.0, PlacePrecision.KM10: 10.0}

latitudes = st.floats(-90, 90) | st.sampled_from((-90.0, 90.0, -89.99, 89.99, 0.0))
longitudes = st.floats(-180, 180) | st.sampled_from((-180.0, 180.0, -179.999, 179.999))
anywhere = st.builds(Place, latitudes, longitudes)
disks = st.builds(
    Disk, latitudes, longitudes, st.floats(0.1, 500) | st.sampled_from((0.1, 11.0, 11.01, 77.0, 77.01, 500.0))
)


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        ("exact", ZURICH),
        ("100m", Place(47.377, 8.5422)),
        ("1km", Place(47.38, 8.536265)),
        ("10km", Place(47.4, 8.571429)),
        ("none", None),
    ],
)
def test_post_location_is_rounded_to_chosen_precision(precision: str, expected: Place | None) -> None:
    found = rounded(ZURICH, PlacePrecision(precision))
    assert found == (expected and pytest.approx(expected, abs=1e-3 if precision == "100m" else 1e-9))
    assert rounded(None, PlacePrecision(precision)) is None


@given(anywhere, st.sampled_from(list(WIDEST_KM)))
@example(Place(-69.781, -180.0), PlacePrecision.M100)
@settings(max_examples=examples(150, full=300), deadline=None)
def test_post_location_rounding_is_idempotent_and_stays_within_precision(
    place: Place, precision: PlacePrecision
) -> None:
    found = rounded(place, precision)
    assert found is not None
    assert checked_place(found) == found
    assert rounded(found, precision) == found
    # The center of a grid cell is less than 0.8 widths from its corners: a width is 0.01 degrees, 1.11 km.
    assert distance_km(*place, *found) < 0.8 * WIDEST_KM[precision]


@pytest.mark.parametrize("latitude", [0.0, 47.3, 60.0, 78.2, 89.0, 89.9])
def test_post_location_grid_cell_width_is_constant_across_latitudes(latitude: float) -> None:
    around = {rounded(Place(latitude, n / 100), PlacePrecision.KM) for n in range(-18_000, 18_000)}
    circle_km = 40_030 * math.cos(math.radians(round(latitude, 2)))
    assert len(around) <= circle_km / 1.1


def test_place_distance_is_great_circle_distance() -> None:
    assert distance_km(*ZURICH, *BERN) == pytest.approx(95.5, abs=0.5)
    assert distance_km(0, 179.95, 0, -179.95) == pytest.approx(11.12, abs=0.01)
    assert distance_km(90, 0, 90, 123) == pytest.approx(0, abs=1e-6)
    assert distance_km(90, 0, -90, 0) == pytest.approx(20_015, abs=1)
    assert distance_km(*ZURICH, *ZURICH) == 0


@pytest.mark.parametrize("radius", [0.09, 500.1, 0.0, -1.0, math.nan, math.inf])
def test_search_radius_outside_allowed_range_is_rejected(radius: float) -> None:
    with pytest.raises(InvalidInput) as refusal:
        disk(*ZURICH, radius)
    assert refusal.value.field == "radius_km"


@pytest.mark.parametrize("place", [(90.1, 0), (0, -180.1), (math.nan, 0), (0, math.inf)])
def test_search_circle_with_invalid_coordinates_is_rejected(place: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput):
        disk(*place)


@given(disks, st.lists(st.tuples(st.floats(0, 2 * math.pi), st.floats(0, 1)), min_size=1, max_size=20))
@example(Disk(90.0, 0.0, 500.0), [(n / 2, 1.0) for n in range(12)])
@example(Disk(-90.0, 0.0, 3.0), [(n / 2, 1.0) for n in range(12)])
@example(Disk(0.0, 180.0, 70.0), [(n / 2, 1.0) for n in range(12)])
@settings(max_examples=examples(75, full=150), deadline=None)
def test_search_circle_covered_by_few_cells_contains_every_place(
    around: Disk, spots: list[tuple[float, float]]
) -> None:
    covering = cover(around)
    assert len(set(covering)) == len(covering) <= MOST
    for bearing, share in spots:
        place = _away(around, bearing, share * around.radius_km * 0.999_999)
        assert around.has(place)
        assert set(cells_of(place)) & set(covering)


def test_search_circle_of_small_radius_is_covered_by_few_cells() -> None:
    assert len(cover(disk(*ZURICH, 1))) <= 7
    assert not set(cells_of(BERN)) & set(cover(disk(*ZURICH, 10)))


def _away(start: Disk, bearing: float, distance: float) -> Place:
    """Return the place at a distance (km) and a bearing (radians) from the center of a disk."""
    angle, latitude = distance / 6371.0088, math.radians(start.latitude)
    sine = math.sin(latitude) * math.cos(angle) + math.cos(latitude) * math.sin(angle) * math.cos(bearing)
    east = math.atan2(
        math.sin(bearing) * math.sin(angle) * math.cos(latitude), math.cos(angle) - math.sin(latitude) * sine
    )
    longitude = (start.longitude + math.degrees(east) + 540) % 360 - 180
    return Place(math.degrees(math.asin(max(-1.0, min(1.0, sine)))), longitude)
