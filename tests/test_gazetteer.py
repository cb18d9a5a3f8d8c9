"""Names of towns: the town of a place, names as typed, suggestions, the map cells of a country, and the real data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import gazetteer
from shoal.core.errors import InvalidInput, TooLarge, Unfit
from shoal.core.places import Location, Place, PlacePrecision, cells_of, distance_km
from shoal.gazetteer import Gazetteer, Record, stored_place
from tests.towns import needs_data, real, small

TOWNS = small()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (Place(52.52, 13.40), "Berlin"),
        (Place(52.40, 13.06), "Potsdam"),
        (Place(38.0, 13.3), "Palermo"),
        (Place(45.6, -122.5), "Portland, Oregon"),
        (Place(52.06, 8.36), "Halle (Bielefeld)"),
        (Place(51.48, 11.97), "Halle"),
        (Place(-18.2, -179.9), None),
        (Place(0.0, 0.0), None),
        (Place(90.0, 0.0), None),
    ],
)
def test_gazetteer_finds_town_whose_area_is_nearest_to_place(place: Place, name: str | None) -> None:
    found = TOWNS.town_near(place)
    assert (found and found.name) == name


@given(
    st.lists(
        st.builds(
            Record,
            geonameid=st.just(1),
            name=st.sampled_from(["a", "b"]),
            countrycode=st.just("IT"),
            admin1code=st.just(""),
            latitude=st.floats(-60, 60),
            longitude=st.floats(-180, 180),
            population=st.integers(0, 20_000_000),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_gazetteer_town_found_for_any_coordinates_is_found_again_for_its_own_coordinates(records: list[Record]) -> None:
    towns = Gazetteer(records)
    for record in records:
        town = towns.town_near(Place(record.latitude, record.longitude))
        assert town is not None
        again = towns.town_near(town.place)
        assert again is not None
        assert distance_km(*again.place, *town.place) < 0.01


@given(st.integers(0, len(TOWNS) - 1), st.floats(-1, 1), st.floats(-1, 1))
def test_gazetteer_town_of_any_coordinates_equals_result_of_search_over_all_towns(
    row: int, north: float, east: float
) -> None:
    """The search reads the towns of a few latitudes. The definition compares all of them."""
    latitude, longitude = TOWNS._latitudes[row] + north, TOWNS._longitudes[row] + east
    away = [
        (distance_km(latitude, longitude, lat, lon) - min(25.0, math.sqrt(people / (3_000 * math.pi))), lat)
        for lat, lon, people in zip(TOWNS._latitudes, TOWNS._longitudes, TOWNS._population, strict=True)
    ]
    nearest, of_town = min(away)
    found = TOWNS.town_near(Place(latitude, longitude))
    assert (found and found.place.latitude) == (of_town if nearest <= 50 else None)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Palermo", "Palermo"),
        (" palermo , italy ", "Palermo"),
        ("Palermo, Italien", "Palermo"),
        ("palermo,it", "Palermo"),
        ("wien", "Vienna"),
        ("ZURICH", "Zürich"),
        ("दिल्ली", "Delhi"),
        ("Portland", "Portland, Oregon"),
        ("Portland, Maine", "Portland, Maine"),
        ("Portland, ME, USA", "Portland, Maine"),
        ("Halle", "Halle"),
        ("Frankfurt (Oder), Germany", "Frankfurt (Oder)"),
        ("Halle (Bielefeld), Germany", "Halle (Bielefeld)"),
    ],
)
def test_gazetteer_typed_name_finds_town(typed: str, name: str) -> None:
    assert TOWNS.town(typed, "en", field="place").name == name


@pytest.mark.parametrize("town", [TOWNS._town(row) for row in range(len(TOWNS))], ids=lambda town: town.name)
@pytest.mark.parametrize("language", ["en", "de"])
def test_gazetteer_label_of_town_finds_this_town(town: gazetteer.Town, language: str) -> None:
    assert TOWNS.town(town.label(language), language, field="place") == town


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("Palrmo", "unknown town. Did you mean: Palermo, Italy; Palma, Spain?"),
        ("Palermo, India", "unknown town. Did you mean: Palermo, Italy"),
        ("Xyzzy", "unknown town"),
        ("  , ", "unknown town"),
        ("!", "unknown town"),
    ],
)
def test_gazetteer_unknown_name_is_refused_with_similar_names(typed: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        TOWNS.town(typed, "en", field="place")
    assert str(caught.value).startswith(f"place: {says}")
    assert caught.value.field == "place"
    assert says != "unknown town" or "Did you mean" not in str(caught.value)


def test_gazetteer_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(TooLarge, match="at most 200"):
        TOWNS.location("x" * 201, "en")


@pytest.mark.parametrize(
    ("typed", "country", "town"),
    [
        ("India", "IN", ""),
        ("indien", "IN", ""),
        ("Kochi, India", "IN", "Kochi"),
        ("Leh", "IN", "Leh"),
        ("UK", "GB", ""),
        ("Großbritannien", "GB", ""),
    ],
)
def test_gazetteer_typed_location_is_recognized_as_country_or_town(typed: str, country: str, town: str) -> None:
    found = TOWNS.location(typed, "en")
    assert (found.country, found.town, found.place is not None) == (country, town, bool(town))


@pytest.mark.parametrize(
    ("country", "language", "name"),
    [
        ("IN", "en", "India"),
        ("GB", "en", "the United Kingdom"),
        ("GB", "de", "Vereinigtes Königreich"),
        ("XX", "en", "XX"),
    ],
)
def test_country_name_in_english_sentence_has_article(country: str, language: str, name: str) -> None:
    assert gazetteer.country_in_sentence(country, language) == name


def test_gazetteer_unknown_location_proposes_countries() -> None:
    with pytest.raises(InvalidInput, match="Did you mean: Indien;"):
        TOWNS.location("Indein", "de")


def test_gazetteer_suggestions_are_largest_towns_in_language_of_reader() -> None:
    assert list(TOWNS.suggested("p", "de", 3)) == [
        "Portland, Oregon, Vereinigte Staaten",
        "Palermo, Italien",
        "Palma, Spanien",
    ]
    (vienna,) = TOWNS.suggested("wie", "en", 3).items()
    assert vienna == ("Vienna, Austria", TOWNS.town("Vienna", "en", field="place").place)
    assert list(TOWNS.suggested("halle, ger", "en", 3)) == ["Halle, Germany", "Halle (Bielefeld), Germany"]
    assert TOWNS.suggested("ind", "en", 3, countries=True) == {"India": None, "Indonesia": None}
    assert TOWNS.suggested("", "en", 3, countries=True) == {}
    assert TOWNS.suggested("zz" * 500, "en", 3) == {}


def test_gazetteer_country_has_at_most_forty_cells_that_contain_its_towns() -> None:
    india = TOWNS.cells("IN")
    assert 1 <= len(india) <= 3
    for town in ("Delhi", "Kochi", "Leh"):
        assert set(cells_of(TOWNS.town(town, "en", field="place").place)) & set(india)
    assert TOWNS.cells("FR") == ()
    many = Gazetteer(
        Record(n, str(n), "RU", "", float(n % 20) + 50, float(n // 20) * 3, 1_000 + n) for n in range(1_000)
    )
    assert len(many.cells("RU")) == 40


@pytest.mark.parametrize(
    ("place", "stored"),
    [
        (Place(38.2, 13.4), Place(38.1166, 13.3636)),
        (Place(-45.01, 170.02), Place(-45.0, 170.057561)),
    ],
)
def test_stored_place_with_city_precision_is_rounded_to_town_or_ten_kilometers(
    towns: Gazetteer, place: Place, stored: Place
) -> None:
    assert len(towns) == len(TOWNS)
    once = stored_place(place, PlacePrecision.CITY)
    assert once is not None
    assert distance_km(*once, *stored) < 8
    assert once == stored_place(once, PlacePrecision.CITY)


def test_stored_place_without_gazetteer_is_rounded() -> None:
    assert stored_place(Place(38.11, 13.36), PlacePrecision.CITY) == stored_place(
        Place(38.11, 13.36), PlacePrecision.KM10
    )
    assert stored_place(None, PlacePrecision.CITY) is None
    with pytest.raises(Unfit, match="does not know the names of places"):
        gazetteer.required("location")


@needs_data
def test_gazetteer_installed_data_finds_towns_by_typed_name_in_several_languages() -> None:
    towns = real()
    assert towns is not None, f"{gazetteer.PACKAGE} is missing: CI installs it with the extra dev"
    assert len(towns) > 50_000
    assert towns.location("India", "en") == Location("IN")
    for typed, country, place in (
        ("Palermo", "IT", Place(38.11, 13.36)),
        ("München", "DE", Place(48.137, 11.575)),
        ("Köln, Deutschland", "DE", Place(50.938, 6.957)),
        ("Springfield, Illinois", "US", Place(39.80, -89.64)),
        ("東京", "JP", Place(35.69, 139.69)),
    ):
        found = towns.town(typed, "en", field="place")
        assert found.country == country
        assert distance_km(*found.place, *place) < 10
        assert towns.town_near(place) == found
    assert len(towns.cells("IN")) == len(towns.cells("US")) == 40


@needs_data
def test_gazetteer_installed_data_finds_towns_by_the_names_that_it_displays() -> None:
    towns = real()
    assert towns is not None
    rows = np.random.default_rng(0).integers(0, len(towns), 300).tolist()
    again = [towns.town(town.label("de"), "de", field="place") == town for town in map(towns._town, rows)]
    assert sum(again) >= 0.98 * len(rows)
