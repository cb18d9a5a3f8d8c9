"""Names of towns in the web app without scripts: posts, the compose form, nearby posts, and where a member lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import members, posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Member
from shoal.core.places import Place, PlacePrecision
from shoal.i18n import words_in
from shoal.web.place_names import as_typed, coordinates_typed, location_label, place_words
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, member, visitor
from tests.web.test_compose import newest

pytestmark = pytest.mark.usefixtures("towns")
PALERMO, KOCHI = Place(38.1166, 13.3636), Place(9.93988, 76.26022)
EN, DE = words_in("en"), words_in("de")


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def joined(here: NetworkFixture, name: str) -> Member:
    return here.run(members.find(here.writes, name)) or member(here, name)


def compose(here: NetworkFixture, name: str, **fields: Any) -> Page:
    return visitor(here, name).open("/compose").press("Post", text="Here", **fields)


def test_location_text_names_town_or_coordinates() -> None:
    assert place_words(EN, Place(38.2, 13.3)) == "Near Palermo, Italy"
    assert place_words(DE, Place(38.2, 13.3)) == "Bei Palermo, Italien"
    assert place_words(EN, Place(-70.0, 10.0)) == "70.00° S, 10.00° E"


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("47.38, 8.54", (47.38, 8.54)),
        ("47,38; 8,54", (47.38, 8.54)),
        (" -45 170 ", (-45.0, 170.0)),
        ("45.44,12.32", (45.44, 12.32)),
        ("45", None),
        ("45.44, 12.32, 1", None),
        ("Palermo", None),
        ("nan, nan", None),
    ],
)
def test_place_field_with_two_numbers_is_parsed_as_coordinates(typed: str, place: tuple[float, float] | None) -> None:
    assert coordinates_typed(typed) == place


@pytest.mark.parametrize("place", [Place(47.376912, 8.541734), Place(-0.0, 180.0), Place(1e-7, -1.5)])
def test_coordinates_written_to_form_are_parsed_back_exactly(place: Place) -> None:
    assert coordinates_typed(as_typed(place)) == place


def test_compose_form_stores_place_of_named_town(here: NetworkFixture) -> None:
    cat = joined(here, "cat")
    here.run(members.update_profile(here.writes, cat.id, ProfileChange(place_precision=PlacePrecision.EXACT)))
    form = visitor(here, "cat").open("/compose")
    assert not form.html.select("[name=latitude], [name=longitude]")
    assert form.field("Town")["placeholder"] == "Palermo, Italy"
    page = form.press("Post", text="Here", place="palermo, it")
    assert newest(here, cat).place == PALERMO
    assert "Near Palermo, Italy" in page.text
    assert page.follow("Near Palermo").path.startswith("/explore/nearby?at=38.117")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("Palrmo", "Unknown town. Did you mean: Palermo, Italy; Palma, Spain?"),
        ("Xyzzy", "Unknown town."),
        ("x" * 201, "This must have at most 200 characters."),
        ("91, 0", "Latitude is -90 to 90"),
    ],
)
def test_compose_form_with_unknown_place_shows_proposals_and_keeps_input(
    here: NetworkFixture, place: str, says: str
) -> None:
    joined(here, "dov")
    page = compose(here, "dov", place=place)
    assert page.status == 422
    assert says in page.text
    assert page.field("Town")["value"] == place
    assert page.field("Town")["aria-invalid"] == "true"


def test_compose_form_error_is_in_language_of_reader(here: NetworkFixture) -> None:
    joined(here, "dov")
    browser = visitor(here, "dov")
    browser.open("/settings/appearance").press("Save", language="de")
    page = browser.open("/compose").press("Posten", text="Hier", place="Palrmo")
    assert "Meintest du: Palermo, Italien" in page.text


def test_post_edit_form_keeps_exact_place_until_another_town_is_typed(here: NetworkFixture) -> None:
    eli = joined(here, "eli")
    here.run(members.update_profile(here.writes, eli.id, ProfileChange(place_precision=PlacePrecision.EXACT)))
    exact = Place(38.123456, 13.345678)
    post = here.run(posts.create(here.writes, eli.id, Draft(text="Here", place=exact)))
    path = f"/posts/{post.id}/edit"
    form = visitor(here, "eli").open(path)
    assert form.field("Town")["value"] == "Palermo, Italy"
    form.press("Save", text="Still here")
    assert newest(here, eli).place == exact
    visitor(here, "eli").open(path).press("Save", place="Kochi")
    assert newest(here, eli).place == KOCHI
    visitor(here, "eli").open(path).press("Save", place="")
    assert newest(here, eli).place is None


@pytest.mark.parametrize(("precision", "away"), [("city", 0.0), ("1km", 0.02), ("exact", 0.0)])
def test_place_precision_setting_is_applied_before_place_is_stored(
    here: NetworkFixture, precision: str, away: float
) -> None:
    fil = joined(here, "fil")
    visitor(here, "fil").open("/settings/privacy").press("Save", place_precision=precision)
    compose(here, "fil", place="38.123456, 13.345678")
    found = newest(here, fil).place
    wanted = PALERMO if precision == "city" else Place(38.123456, 13.345678)
    assert found is not None
    assert found == wanted if not away else found != wanted
    assert abs(found.latitude - wanted.latitude) <= away
    assert abs(found.longitude - wanted.longitude) <= away


def test_nearby_page_finds_posts_by_name_of_town(here: NetworkFixture) -> None:
    gil = joined(here, "gil")
    here.run(posts.create(here.writes, gil.id, Draft(text="Backwaters", place=KOCHI)))
    form = visitor(here).open("/explore/nearby")
    assert form.field("Town") is not None
    page = form.press("Show posts", at="Kochi, India")
    assert "Backwaters" in page.text
    assert "Near Kochi, India" in page.text
    wrong = form.press("Show posts", at="Kotchi")
    assert (wrong.status, "Did you mean: Kochi, India" in wrong.text) == (422, True)


def test_profile_map_names_towns_of_posts(here: NetworkFixture) -> None:
    hal = joined(here, "hal")
    here.run(posts.create(here.writes, hal.id, Draft(text="One", place=KOCHI)))
    here.run(posts.create(here.writes, hal.id, Draft(text="Two", place=KOCHI)))
    page = visitor(here).open("/@hal/places")
    assert page.one("svg.map a.spot")["aria-label"] == "Near Kochi, India: 2 posts"


def test_profile_settings_save_where_member_lives_and_profile_shows_it_if_chosen(here: NetworkFixture) -> None:
    joined(here, "ida")
    browser, stranger = visitor(here, "ida"), visitor(here)
    page = browser.open("/settings/profile").press("Save", location="palermo")
    assert page.field("Where you live")["value"] == "Palermo, Italy"
    assert "Palermo" not in stranger.open("/@ida").text
    page = page.press("Save", shows_location="true")
    assert "Palermo, Italy" in stranger.open("/@ida").text
    wrong = page.press("Save", location="Indai")
    assert wrong.status == 422
    assert "Unknown town or country. Did you mean: India" in str(wrong.html.find(id="location-wrong"))
    wrong.press("Save", location="")
    found = here.run(members.find(here.writes, "ida"))
    assert found is not None
    assert found.location is None


def test_profile_settings_without_installed_gazetteer_keep_stored_location_and_refuse_new_one(
    here: NetworkFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ian = joined(here, "ian")
    location = here.run(members.location_of("Kochi"))
    here.run(members.update_profile(here.writes, ian.id, ProfileChange(location=location)))
    monkeypatch.setattr("shoal.gazetteer.installed", lambda: None)
    page = visitor(here, "ian").open("/settings/profile").press("Save", display_name="Ian")
    assert page.field("Where you live")["value"] == location_label(EN, location) == "Kochi, India"
    assert "does not know the names of places" in page.press("Save", location="Delhi").text
    page.press("Save", location="")
    assert "Where you live" not in visitor(here, "ian").open("/settings/profile").text


@pytest.mark.parametrize(
    ("query", "offered"),
    [
        ("q=pal", ["Palermo, Italy", "Palma, Spain"]),
        ("q=ind&countries=true", ["India", "Indonesia"]),
        ("q=ind", []),
        ("q=38.1,13.3", ["Palermo, Italy"]),
        ("q=91,0", []),
        ("q=0,0", []),
        ("q=", []),
    ],
)
def test_town_suggestions_appear_while_typing(here: NetworkFixture, query: str, offered: list[str]) -> None:
    page = visitor(here).open(f"/towns?{query}")
    assert [str(one["data-typed"]) for one in page.html.select("[role=option]")][:2] == offered


def test_town_suggestions_for_too_long_text_are_refused(here: NetworkFixture) -> None:
    assert visitor(here).open(f"/towns?q={'x' * 201}").status == 422


def test_about_page_credits_geonames(here: NetworkFixture) -> None:
    page = visitor(here).open("/about")
    assert [link["href"] for link in page.links("GeoNames")] == ["https://www.geonames.org/"]
    assert "CC BY 4.0" in page.text
