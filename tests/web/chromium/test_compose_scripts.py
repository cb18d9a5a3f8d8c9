"""Composing a post with scripts: uploads, their order, drafts that survive a reload, and the character count."""

from __future__ import annotations

import re
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.model import Media, Post
from shoal.core.text import text_length
from shoal.graph.contract import Cursor
from shoal.graph.schema import POSTED
from shoal.web.assets import assets
from tests.example_counts import examples
from tests.web.chromium.accessibility import hindrances
from tests.web.chromium.browser_sessions import LiveServer, click_at, file, held, screen, until


def composing(page: Page, at: LiveServer) -> None:
    page.goto(f"{at.url}/compose")
    expect(page.locator("#compose[data-started]")).to_be_visible()


def test_compose_script_uploads_orders_crops_and_restores_files_with_draft(at: LiveServer, chromium: Browser) -> None:
    ann = at.join("ann")
    at.run(posts.create(at.network.writes, ann.id, Draft(text="The #harbour")))
    at.settle()
    with screen(at, chromium) as ours:
        page = ours.log_in("ann")
        composing(page, at)
        files = page.locator("#files")
        files.set_input_files([file("wide.png"), file("tall.png", 40, 60), file("letter.png", data=b"Dear Ann")])
        expect(page.locator(".picture")).to_have_count(2)
        expect(page.get_by_role("alert")).to_contain_text("letter.png: The type of this file is not supported")
        page.get_by_role("listitem").filter(has=page.get_by_role("alert")).get_by_role("button", name="Remove").click()
        words = page.get_by_label("Picture: description")
        edit(page, 0)
        words.nth(0).fill("A wide one")
        page.get_by_role("button", name="Move later").press("Enter")
        expect(words.nth(1)).to_have_value("A wide one")
        page.get_by_label("Text").press_sequentially("Low tide at the #har")
        page.get_by_role("option", name="#harbour").click()
        expect(page.get_by_label("Text")).to_have_value("Low tide at the #harbour ")
        edit(page, 0)
        page.get_by_role("button", name="Crop and rotate").click()
        expect(page.locator("[data-cropper] .window")).to_have_attribute("style", re.compile("width: 100%"))
        page.get_by_role("button", name="1:1").click()
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".picture img").first).to_have_attribute("width", "40")
        expect(page.locator(".picture img").first).to_have_attribute("sizes", "340px")
        assert hindrances(page) == []
        until(
            page,
            "Object.values(localStorage).some((kept) => "
            "JSON.parse(kept).fields?.some((one) => one[2] === 'Low tide at the #harbour '))",
        )
        page.reload()
        expect(page.get_by_text("Draft restored.")).to_be_visible()
        expect(page.locator(".picture")).to_have_count(2)
        expect(words.nth(1)).to_have_value("A wide one")
        page.get_by_role("button", name="Post", exact=True).click()
        page.get_by_role("button", name="Add descriptions").click()
        page.keyboard.type("A square one")
        page.get_by_role("button", name="Post", exact=True).click()
        page.wait_for_url("**/@ann/*")
        assert page.evaluate("localStorage.length") == 0
        media = at.run(_newest_media(at, ann.id))
    assert [(one.description, one.width, one.height) for one in media] == [
        ("A square one", 40, 40),
        ("A wide one", 60, 40),
    ]


def edit(page: Page, n: int) -> None:
    """Show or hide the fields of the nth picture."""
    page.locator(".picture").nth(n).locator("summary").first.click()


async def _newest_media(at: LiveServer, author: int) -> list[Media]:
    store = at.network.store
    entry = (await store.assoc_range(author, POSTED, Cursor(limit=1)))[0]
    post = (await store.obj_get((entry.id2,)))[entry.id2]
    assert isinstance(post, Post)
    nodes = await store.obj_get(post.media)
    return [node for id_ in post.media if isinstance(node := nodes[id_], Media)]


def test_compose_script_upload_after_connection_error_can_be_retried(at: LiveServer, chromium: Browser) -> None:
    at.join("ben")
    with screen(at, chromium) as ours:
        page = ours.log_in("ben")
        composing(page, at)
        page.route("**/compose/files", lambda route: route.abort())
        page.locator("#files").set_input_files(file("one.png"))
        expect(page.get_by_role("alert")).to_contain_text("The connection was lost.")
        page.unroute("**/compose/files")
        page.get_by_role("button", name="Try again").click()
        expect(page.locator(".picture")).to_have_count(1)
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(f"{at.url}/")
        assert page.evaluate("localStorage.length") == 0


def test_compose_script_uploads_files_chosen_before_it_loaded(at: LiveServer, chromium: Browser) -> None:
    at.join("zoe")
    with screen(at, chromium) as ours:
        page = ours.log_in("zoe")
        with held(page, "compose"):
            page.goto(f"{at.url}/compose")
            page.locator("#files").set_input_files(file("early.png"))
        expect(page.locator(".picture")).to_have_count(1)


def test_compose_script_map_click_sets_coordinates(at: LiveServer, chromium: Browser) -> None:
    at.join("cyd")
    with screen(at, chromium) as ours:
        page = ours.log_in("cyd")
        composing(page, at)
        page.get_by_text("Place", exact=True).click()
        # A quarter from the left and a sixth from the top is 90 degrees west, 60 degrees north.
        click_at(page.get_by_role("img", name="World map"), 1 / 4, 1 / 6)
        latitude, longitude = map(float, page.get_by_label("Latitude and longitude").input_value().split(","))
        assert abs(latitude - 60) < 1
        assert abs(longitude + 90) < 1
        page.get_by_role("button", name="Remove place").click()
        expect(page.get_by_label("Latitude and longitude")).to_have_value("")


@pytest.mark.usefixtures("towns")
def test_compose_script_suggests_towns_and_map_click_names_the_town(at: LiveServer, chromium: Browser) -> None:
    dot = at.join("dot")
    with screen(at, chromium) as ours:
        page = ours.log_in("dot")
        composing(page, at)
        page.get_by_text("Place", exact=True).click()
        town, coordinates = page.get_by_label("Town"), page.locator("#coordinates")
        town.press_sequentially("pal")
        expect(page.locator(".offers [role=option]")).to_have_text(["Palermo, Italy", "Palma, Spain"])
        town.press("ArrowDown")
        town.press("Enter")
        expect(town).to_have_value("Palermo, Italy")
        # The map shows the region of the town.
        latitude, longitude = map(float, coordinates.input_value().split(","))
        assert (round(latitude), round(longitude)) == (38, 13)
        expect(page.locator("[data-world] .here")).to_be_visible()
        assert page.locator("[data-world] > svg").evaluate("(map) => map.viewBox.baseVal.width") == 1_200
        town.fill("Vienna")
        expect(coordinates).to_have_value("")
        for _ in range(5):
            page.get_by_role("button", name="Zoom out").click()
        # 16 degrees east and 48 degrees north, on a map of 360 by 180 degrees.
        click_at(page.get_by_role("img", name="World map"), (180 + 16.4) / 360, (90 - 48.2) / 180)
        expect(town).to_have_value("Vienna, Austria")
        until(page, "Object.values(localStorage).some((kept) => kept.includes('Vienna, Austria'))")
        page.get_by_label("Text").fill("Coffee")
        page.get_by_role("button", name="Post", exact=True).click()
        expect(page.get_by_text("Near Vienna, Austria")).to_be_visible()
        (entry,) = at.run(at.network.store.assoc_range(dot.id, POSTED, Cursor(limit=1)))
        post = at.run(at.network.store.obj_get((entry.id2,)))[entry.id2]
        assert isinstance(post, Post)
        assert post.place is not None
        # The place is that of the click and not the center of the town.
        assert abs(post.place.latitude - 48.2) < 0.6


PIECES = st.sampled_from(
    [
        "@ann",
        "@ann@reef.example",
        "https://reef.example/a",
        "http://x.y:80/?q=(1)",
        "#tag",
        "#1",
        "#\N{HIRAGANA LETTER A}",
        " ",
        "\n",
        "ä",
        "a\u0308",
        "👍🏽",
        "👩‍👩‍👧",
        "🇩🇪",
        "#う〜ん",
        ".",
        "/",
    ]
)


def test_compose_script_character_count_equals_server_count(at: LiveServer, chromium: Browser) -> None:
    with screen(at, chromium) as ours:
        page = ours.open("/")
        page.evaluate(
            f"import('/static/{assets().version}/scripts/count.js').then((one) => (window.count = one.length))"
        )

        @settings(deadline=None, max_examples=examples(30, full=60))
        @given(st.lists(st.one_of(PIECES, st.text(max_size=3).filter(lambda text: "\r" not in text)), max_size=8))
        def alike(pieces: list[str]) -> None:
            text = "".join(pieces)
            assert page.evaluate("(text) => window.count(text)", text) == text_length(normalize("NFC", text))

        alike()


def test_web_scripts_have_at_most_one_hundred_lines() -> None:
    folder = Path(__file__).parents[3] / "src/shoal/web/static/scripts"
    assert {path.name: n for path in folder.glob("*.js") if (n := len(path.read_text().splitlines())) > 100} == {}
