"""The nearby timeline over the API, and the place_precision setting."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.in_memory_network import NetworkFixture, Someone

PATH = "/api/shoal/v1/timelines/nearby"
HERE = "?latitude=54.1&longitude=-0.2"
CREDENTIALS = "/api/v1/accounts/update_credentials"


def write(shoal: NetworkFixture, who: Someone, text: str, latitude: float, longitude: float = -0.2) -> str:
    place = {"latitude": latitude, "longitude": longitude}
    body = {"status": text, "shoal": {"place": place}}
    return str(shoal.json("POST", "/api/v1/statuses", who, json=body)["id"])


def ids(found: Any) -> list[str]:
    return [one["id"] for one in found]


def test_nearby_timeline_is_filtered_by_radius_and_paginated(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    made = [write(shoal, (ann, ben)[n % 2], str(n), 54.1 + n % 3 / 100) for n in range(7)]
    far = write(shoal, ann, "far", 55.1)
    newest = made[::-1]
    for who in (None, ann):
        assert ids(shoal.json("GET", PATH + HERE, *filter(None, (who,)))) == newest
    assert ids(shoal.json("GET", f"{PATH}{HERE}&radius_km=200")) == [far, *newest]
    assert ids(shoal.json("GET", f"{PATH}{HERE}&radius_km=0.5")) == newest[::3]
    page = shoal.ask("GET", f"{PATH}{HERE}&radius_km=10&limit=3")
    assert ids(page.json()) == newest[:3]
    assert ids(shoal.json("GET", page.links["next"]["url"].removeprefix("http://shoal.test"))) == newest[3:6]
    assert ids(shoal.json("GET", f"{PATH}{HERE}&limit=3&max_id={newest[2]}")) == newest[3:6]
    assert ids(shoal.json("GET", f"{PATH}{HERE}&limit=2&min_id={newest[5]}")) == newest[3:5]
    assert ids(shoal.json("GET", f"{PATH}{HERE}&limit=2&since_id={newest[5]}")) == newest[:2]
    assert shoal.json("GET", f"{PATH}{HERE}&only_media=true") == []
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/mute", ben)
    assert set(ids(shoal.json("GET", PATH + HERE, ben))) == set(made[1::2])


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?latitude=54.1",
        "?longitude=-0.2",
        "?latitude=90.1&longitude=0",
        "?latitude=0&longitude=-180.1",
        "?latitude=north&longitude=0",
        "?latitude=nan&longitude=0",
        f"{HERE}&radius_km=0.09",
        f"{HERE}&radius_km=500.1",
        f"{HERE}&radius_km=inf",
        f"{HERE}&radius_km=wide",
    ],
)
def test_nearby_timeline_with_invalid_coordinates_or_radius_is_refused(shoal: NetworkFixture, query: str) -> None:
    assert shoal.ask("GET", PATH + query).status_code in (400, 422)


def test_place_precision_setting_rounds_or_drops_coordinates(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    assert shoal.json("GET", "/api/v1/accounts/verify_credentials", ann)["shoal"]["place_precision"] == "1km"
    for precision, kept in (("exact", [54.1234, -0.1987]), ("10km", [54.1, -0.170616]), ("none", None)):
        changed = shoal.json("PATCH", CREDENTIALS, ann, data={"shoal[place_precision]": precision})
        assert changed["shoal"]["place_precision"] == precision
        id_ = write(shoal, ann, "here", 54.1234, -0.1987)
        shown = shoal.json("GET", f"/api/v1/statuses/{id_}").get("shoal", {}).get("place")
        assert (shown and list(shown.values())) == kept
    refusal = shoal.ask("PATCH", CREDENTIALS, ann, json={"shoal": {"place_precision": "1mm"}})
    assert refusal.status_code == 422
    again = shoal.json("PATCH", CREDENTIALS, ann, json={"display_name": "Ann"})
    assert again["shoal"]["place_precision"] == "none"


@pytest.mark.usefixtures("towns")
def test_place_of_status_has_town_and_country(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    for latitude, named in ((54.1, {"town": "Bridlington", "country": "GB"}), (10.0, {})):
        id_ = write(shoal, ann, "here", latitude)
        place = shoal.json("GET", f"/api/v1/statuses/{id_}")["shoal"]["place"]
        assert {name: place[name] for name in ("town", "country") if name in place} == named


@pytest.mark.usefixtures("towns")
def test_place_precision_city_stores_coordinates_of_town(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    shoal.json("PATCH", CREDENTIALS, ann, data={"shoal[place_precision]": "city"})
    id_ = write(shoal, ann, "near home", 54.1234, -0.1987)
    place = shoal.json("GET", f"/api/v1/statuses/{id_}")["shoal"]["place"]
    assert (place["latitude"], place["longitude"]) == (54.08306, -0.19192)


@pytest.mark.usefixtures("towns")
def test_profile_location_is_private_until_member_shows_it(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    own = shoal.json("PATCH", CREDENTIALS, ann, data={"shoal[location]": "Palermo, Italy"})
    assert (own["shoal"]["location"], own["shoal"]["shows_location"]) == ({"country": "IT", "town": "Palermo"}, False)
    path = f"/api/v1/accounts/{own['id']}"
    for who in (None, ann, ben):
        assert "shoal" not in shoal.json("GET", path, *filter(None, (who,)))
    shoal.json("PATCH", CREDENTIALS, ann, data={"shoal[shows_location]": "true"})
    for who in (None, ben):
        shown = shoal.json("GET", path, *filter(None, (who,)))
        assert shown["shoal"] == {"location": {"country": "IT", "town": "Palermo"}}
    shoal.json("PATCH", CREDENTIALS, ann, json={"shoal": {"location": "India"}})
    assert shoal.json("GET", path)["shoal"] == {"location": {"country": "IN", "town": None}}
    shoal.json("PATCH", CREDENTIALS, ann, json={"shoal": {"location": ""}})
    assert "shoal" not in shoal.json("GET", path)


@pytest.mark.usefixtures("towns")
@pytest.mark.parametrize(
    ("typed", "says"), [("Palrmo", "Did you mean: Palermo, Italy"), ("x" * 201, "at most 200"), ("x" * 20_000, "")]
)
def test_profile_location_that_is_unknown_or_too_long_is_refused(shoal: NetworkFixture, typed: str, says: str) -> None:
    ann = shoal.join("ann")
    refusal = shoal.ask("PATCH", CREDENTIALS, ann, json={"display_name": "Annie", "shoal": {"location": typed}})
    assert refusal.status_code == 422
    assert says in refusal.json()["error"]
    assert shoal.json("GET", "/api/v1/accounts/verify_credentials", ann)["display_name"] != "Annie"


def test_profile_location_on_server_without_place_name_data_is_refused(shoal: NetworkFixture) -> None:
    refusal = shoal.ask("PATCH", CREDENTIALS, shoal.join("ann"), json={"shoal": {"location": "India"}})
    assert refusal.status_code == 422
    assert "does not know the names of places" in refusal.json()["error"]
