"""Explore, tag pages, the member directory and nearby posts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from shoal.commands import relationships
from shoal.mastodon_api.context import PhotoCredit
from shoal.server import build
from shoal.tagcloud.rules import allowing, denying
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import found_in, member, visitor
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        ann, ben, cyd = member(made, "ann"), member(made, "ben"), member(made, "cyd")
        for other in (ben, cyd):
            made.run(relationships.follow(made.writes, other.id, ann.id))
        for n in range(3):
            posted(made, ann, f"Lagoon {n} #Venice #boats", 1, place=(45.43, 12.33))
        posted(made, ben, "Rome #boats", 1, place=(41.9, 12.5))
        posted(made, ben, "nowhere #boats")
        made.settle()
        yield made


def test_explore_tabs_show_photos_tag_cloud_and_members(here: NetworkFixture) -> None:
    browser = visitor(here)
    assert len(browser.open("/explore").photos) == 4
    assert not browser.open("/explore?order=popular").photos
    assert len(visitor(here, "ben").open("/explore").photos) == 4, "new photos until some are popular"
    page = browser.open("/explore/tags")
    drawn = page.html.select("svg.drawn-cloud a")
    assert {link["href"] for link in drawn} == {"/tags/venice", "/tags/boats"}
    assert {found_in(link, "title").text for link in drawn} == {"#Venice: 3 posts", "#boats: 5 posts"}
    assert page.follow("People").one(".handle").get_text(strip=True) == "@ann"
    assert "style=" not in str(page.one("main"))


def test_photo_grid_loads_one_photo_before_its_layout(here: NetworkFixture) -> None:
    photos = visitor(here).open("/explore").html.select(".photo-rows > .photo > img")
    assert [photo.get("fetchpriority") for photo in photos] == ["high", None, None, None]
    assert [photo.get("loading") for photo in photos] == [None, "lazy", "lazy", "lazy"]


def test_tag_page_shows_weekly_chart_usage_and_posts(here: NetworkFixture) -> None:
    page = visitor(here).open("/tags/VENICE")
    assert page.one("h1").get_text(strip=True) == "#Venice"
    assert "3 posts" in page.text
    assert len(page.html.select(".week rect")) == 7
    assert page.html.select(".week text.n")[-1].get_text(strip=True) == "3"
    assert "Used 3 times since yesterday; 1 person used this tag" in page.text
    assert len(page.photos) == 3
    assert len(page.follow("Posts").posts) == 3
    assert page.one('link[type="application/atom+xml"]')["href"] == "/tags/venice.atom"
    assert page.press("Follow").path == "/login?to=%2Ftags%2FVENICE"


def test_tag_page_buttons_follow_and_unfollow_tag(here: NetworkFixture) -> None:
    browser = visitor(here, "cyd")
    page = browser.open("/tags/boats").press("Follow #boats")
    assert "Following" in page.text
    assert page.one('nav.tabs a[aria-current="page"]').get_text(strip=True) == "#boats"
    assert "nowhere" in browser.open("/").text
    assert page.press("Unfollow #boats").html.select("nav.tabs[aria-label=Feeds]") == []


def test_tag_page_button_features_tag_on_profile(here: NetworkFixture) -> None:
    browser = visitor(here, "cyd")
    page = browser.open("/tags/boats").press("Feature on profile")
    assert "#boats" in browser.open("/@cyd?show=about").text
    page.press("Don't feature on profile")
    assert "#boats" not in browser.open("/@cyd?show=about").text
    assert "Feature on profile" not in visitor(here).open("/tags/boats").text


def test_denied_tag_page_shows_posts_without_tag_statistics(here: NetworkFixture) -> None:
    here.run(here.network.reads.tags.rule(denying("boats")))
    try:
        page = visitor(here).open("/tags/boats")
        assert len(page.photos) == 4
        assert len(page.follow("Posts").posts) == 5
        assert not page.html.select(".week")
        assert not page.html.select(".chips a")
        assert "boats" not in visitor(here).open("/explore/tags").one(".cloud-section").text
        assert "#boats" not in visitor(here).open("/tags/venice").one(".tag-head").text
    finally:
        here.run(here.network.reads.tags.rule(allowing("boats")))


def test_tag_page_returns_404_for_invalid_tag_and_invites_to_unused_tag(here: NetworkFixture) -> None:
    assert visitor(here).open("/tags/%20").status == 404
    page = visitor(here).open("/tags/nobody")
    assert page.status == 200
    assert "Be the first to post" in page.text


def test_nearby_page_shows_posts_within_radius_on_map(here: NetworkFixture) -> None:
    page = visitor(here).open("/explore/nearby?at=45.4,12.3&km=25")
    assert len(page.photos) == 3
    assert len(page.html.select("svg.map a.spot")) == 1
    assert page.one("svg.map a.spot")["aria-label"] == "45.43° N, 12.33° E: 3 posts"
    assert page.one("svg.map a.spot")["href"] == f"#{page.photos[0]['id']}"
    far = page.follow("100 km")
    assert far.path == "/explore/nearby?at=45.4%2C12.3&km=100"
    assert "No posts near here yet" in visitor(here).open("/explore/nearby?at=-45,170").text


def test_nearby_page_without_place_shows_map_of_new_photos(here: NetworkFixture) -> None:
    page = visitor(here).open("/explore/nearby")
    assert page.one("svg.map a.spot")["aria-label"] == "45.43° N, 12.33° E: 3 posts"
    assert page.one("svg.map a.spot")["href"] in {f"#{photo['id']}" for photo in page.photos}
    assert (len(page.html.select("svg.map a.spot")), len(page.photos)) == (2, 4)
    assert not visitor(here).open("/explore/nearby?at=home").html.select("svg.map")


def test_nearby_page_with_invalid_coordinates_shows_error(here: NetworkFixture) -> None:
    browser = visitor(here)
    page = browser.open("/explore/nearby")
    assert "Your location is rounded to a kilometer" in page.text
    assert len(page.press("Show posts", at="45.43; 12.33").photos) == 3
    for typed in ("home", "95,12", "12", "nan,nan"):
        wrong = page.press("Show posts", at=typed)
        assert (wrong.status, wrong.one("#at")["value"]) == (422, typed)
        assert "latitude" in wrong.text.lower()
    assert browser.open("/explore/nearby?at=1,1&km=5000").status == 422


def test_post_place_link_opens_nearby_page(here: NetworkFixture) -> None:
    page = visitor(here).open("/@ben?show=posts")
    assert "Rome" in page.follow("41.90° N, 12.").follow("Posts").text


def test_member_directory_orders_by_followers_and_recent_activity(here: NetworkFixture) -> None:
    browser = visitor(here)
    names = [one.get_text(strip=True) for one in browser.open("/explore/people").html.select(".handle")]
    assert names[0] == "@ann"
    lately = browser.open("/explore/people").follow("Recently active")
    assert lately.one(".handle").get_text(strip=True) == "@ben"
    assert {one.get_text(strip=True) for one in browser.open("/explore/people?order=new").html.select(".handle")} == {
        "@ann",
        "@ben",
        "@cyd",
    }
    assert not visitor(here).open("/explore/people?order=new&offset=500").html.select(".handle")


def test_closed_network_shows_anonymous_visitors_only_front_page() -> None:
    with network_fixture(public_pages=False, registrations=True) as closed:
        ann = member(closed, "ann")
        post = posted(closed, ann, "Low tide #dawn", 1)
        closed.settle()
        stranger = visitor(closed)
        for path in (
            "/explore",
            "/@ann",
            f"/@ann/{post.id}",
            "/@ann.atom",
            "/tags/dawn",
            "/search?q=ann",
            f"/embed/@ann/{post.id}",
        ):
            assert stranger.open(path).path.startswith("/login?to="), path
        app_context = stranger.open("/")
        assert "Sign up" in app_context.text
        assert "Low tide" not in app_context.answer.text
        assert str(post.id) not in stranger.open("/signup").answer.text
        kept = [visitor(closed, "ann").open(path).answer.headers for path in ("/@ann.atom", f"/embed/@ann/{post.id}")]
        assert [one["cache-control"] for one in kept] == ["private, max-age=300"] * 2
        assert "small.jpg" not in app_context.answer.text
        assert "No photos yet" not in app_context.text
        assert stranger.open("/about").status == stranger.open("/login").status == 200
        assert stranger.open(f"/api/oembed?url=http://shoal.test/@ann/{post.id}").status == 401
        assert visitor(closed, "ann").open(f"/@ann/{post.id}").status == 200


def test_about_page_lists_photo_credits_of_a_demo(here: NetworkFixture) -> None:
    shown = (
        PhotoCredit("Sea <sunset>", "Ann", "https://example.org/sea", "CC0 1.0", "https://example.org/cc0"),
        PhotoCredit("Old bridge", "Ben", "https://example.org/bridge", "Public domain", ""),
    )
    assert not visitor(here).open("/about").html.select("#credits")
    with patch.object(here, "app", build(replace(here.app_parts, photo_credits=shown))):
        rows = visitor(here).open("/about").html.select("#credits li")
    assert [row.get_text() for row in rows] == ["Sea <sunset> · Ann · CC0 1.0", "Old bridge · Ben · Public domain"]
    links = [[link["href"] for link in row.select("a")] for row in rows]
    assert links == [["https://example.org/sea", "https://example.org/cc0"], ["https://example.org/bridge"]]
