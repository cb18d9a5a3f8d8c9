"""The language of pages: from the query parameter, the cookie, or the browser."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from shoal.commands import members, posts
from shoal.commands.posts import Draft
from shoal.i18n import LANGUAGES, language_for, language_tag, words_in
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Visitor, member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        member(made, "ann")
        yield made


def test_language_parameter_is_kept_for_following_pages(here: NetworkFixture) -> None:
    stranger = visitor(here)
    page = stranger.open("/?lang=de")
    assert (page.one("html")["lang"], page.links("Anmelden") != []) == ("de", True)
    assert page.follow("Entdecken").one("html")["lang"] == "de"
    assert stranger.open("/nothing/here").one("html")["lang"] == "de"
    assert stranger.open("/?lang=en").one("html")["lang"] == "en"
    assert stranger.open("/about").one("html")["lang"] == "en"


@pytest.mark.parametrize(("code", "direction"), [("es", "ltr"), ("fr", "ltr"), ("ar", "rtl")])
def test_page_has_language_and_direction_of_language_parameter(here: NetworkFixture, code: str, direction: str) -> None:
    html = visitor(here).open(f"/?lang={code}").one("html")
    assert (html["lang"], html["dir"]) == (code, direction)


def test_right_to_left_page_turns_arrows_and_keeps_signs_before_names(here: NetworkFixture) -> None:
    for code, sign, turned in (("en", "@ann", 0), ("ar", "\N{LEFT-TO-RIGHT MARK}@ann", 1)):
        page = visitor(here).open(f"/about?lang={code}")
        assert len(page.html.select(".masthead .icon.turned")) == turned
        profile = visitor(here).open(f"/@ann?lang={code}")
        assert sign in [found.get_text() for found in profile.html.select("main p, main span")]


def test_appearance_setting_offers_all_languages(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    offered = [str(option["value"]) for option in ann.open("/settings/appearance").html.select("#language option")]
    assert offered == ["browser", *LANGUAGES]
    for code in offered:
        ann.open("/settings/appearance").press(words_in(ann_language(ann)).text("Save"), language=code)
        assert ann_language(ann) == ("en" if code == "browser" else code)


def ann_language(browser: Visitor) -> str:
    return str(browser.open("/settings/appearance").one("html")["lang"])


@pytest.mark.parametrize(
    ("asked", "language"),
    [("de-AT", "de"), ("DE", "de"), ("xx", "en"), ("", "en"), ("../de", "en"), ("de&lang=en", "en")],
)
def test_language_parameter_with_unknown_language_falls_back_to_english(
    here: NetworkFixture, asked: str, language: str
) -> None:
    assert visitor(here).open(f"/about?lang={asked}").one("html")["lang"] == language


def test_language_parameter_is_kept_on_redirect_to_login(here: NetworkFixture) -> None:
    page = visitor(here).open("/saved?lang=de")
    assert (page.path.startswith("/login"), page.one("html")["lang"]) == (True, "de")


@pytest.mark.parametrize("path", ["/", "/about", "/login?to=%2Fsaved", "/signup"])
def test_anonymous_pages_link_to_themselves_in_each_language(here: NetworkFixture, path: str) -> None:
    page = visitor(here).open(path)
    german = page.follow("Deutsch")
    assert german.one("html")["lang"] == "de"
    assert german.path == f"{path}{'&' if '?' in path else '?'}lang=de"
    assert german.follow("English").one("html")["lang"] == "en"


def test_language_parameter_applies_to_logged_in_member(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    assert ann.open("/?lang=de").one("html")["lang"] == "de"
    assert ann.open("/settings").one("html")["lang"] == "de"


@pytest.mark.parametrize("path", ["/@ann.atom", "/embed/@ann/{post}", "/manifest.webmanifest"])
def test_language_parameter_on_publicly_cached_page_sets_no_cookie(here: NetworkFixture, path: str) -> None:
    ann = here.run(members.find(here.writes, "ann"))
    assert ann is not None
    post = here.run(posts.create(here.writes, ann.id, Draft(text="Low tide")))
    answer = visitor(here).open(f"{path.format(post=post.id)}?lang=de").answer
    assert answer.headers["Cache-Control"].startswith("public")
    assert "set-cookie" not in answer.headers


def test_language_lookup_of_long_text_does_not_retain_it_in_memory() -> None:
    tracemalloc.start()
    for number in range(100):
        text = f"{number}" + "x" * 60_000
        assert (language_tag(text), language_for(text), language_for("de", text)) == ("", "en", "de")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
