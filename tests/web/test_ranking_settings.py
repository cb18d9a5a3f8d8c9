"""The settings of the ranked feed: sliders, presets, the preview and links to recipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import members, posts, ranking, reactions, relationships
from shoal.commands.posts import Draft
from shoal.core.ranking.recipes import BALANCED, PRESETS, TERM_NAMES, Recipe, Weights, recipe_link
from shoal.core.ranking.terms import TERMS
from shoal.graph.payloads.members import personalization_of
from shoal.queries.foryou.preview import preview
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture
from tests.web.browser import Page, Visitor, member, visitor

QUIET = Recipe(weights=Weights(reactions=-10.0, freshness=0.0, author=0.0, friends=0.0, velocity=-10.0, quality=0.0))


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    """Ann follows Ben, who has written posts. All other members like the first one."""
    with network_fixture() as made:
        ann, ben = member(made, "ann"), member(made, "ben")
        made.run(relationships.follow(made.writes, ann.id, ben.id))
        written = [made.run(posts.create(made.writes, ben.id, Draft(text=f"Wave number {n}"))) for n in range(4)]
        for n in range(5):
            fan = made.run(members.register(made.writes, f"fan{n}"))
            made.run(reactions.like(made.writes, fan.id, written[0].id))
        made.settle()
        yield made


@pytest.fixture(scope="module")
def ann(here: NetworkFixture) -> Visitor:
    return visitor(here, "ann")


@pytest.fixture(autouse=True)
def usual(here: NetworkFixture) -> None:
    """Reset the ranking of Ann to the default."""
    found = here.run(members.find(here.writes, "ann"))
    assert found is not None
    here.run(ranking.set_recipe(here.writes, found.id, None))
    here.run(ranking.switch(here.writes, found.id, off=False))


def chosen(here: NetworkFixture) -> Recipe | None:
    """Return the recipe saved by Ann, or None."""
    found = here.run(members.find(here.writes, "ann"))
    assert found is not None
    feed_preferences = here.run(personalization_of(here.graph, found.id)).feed_preferences
    return feed_preferences.recipe if feed_preferences else None


def first(page: Page) -> list[str]:
    """Return the texts of the preview, best first."""
    return [one.get_text() for one in page.html.select(".preview-card .text")]


def weights(page: Page) -> dict[str, float]:
    return {name: float(str(page.html.select_one(f"input[name={name}]")["value"])) for name in TERM_NAMES}  # type: ignore[index]


def test_ranking_settings_show_labeled_slider_for_each_term(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/ranking")
    assert list(weights(page).values()) == list(BALANCED.row())
    for name in TERM_NAMES:
        slider = page.html.find(id=name)
        assert slider is not None
        assert page.html.find("label", attrs={"for": name})
        assert page.html.find(id=str(slider["aria-describedby"])).get_text()  # type: ignore[union-attr]
        assert page.html.find("output", attrs={"for": name})
    assert all(term.formula in page.text for term in TERMS)
    assert first(page)[0] == "Wave number 0"


def test_ranking_settings_preset_is_previewed_before_saving(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/ranking").follow("Fresh")
    assert tuple(weights(page).values()) == PRESETS["fresh"].row()
    assert "Not saved yet" in page.text
    assert chosen(here) is None
    page = page.press("Save")
    assert ("Saved." in page.text, chosen(here)) == (True, PRESETS["fresh"])
    assert "Not saved yet" not in page.text
    page = page.press("Reset to default")
    assert (chosen(here), tuple(weights(page).values())) == (None, BALANCED.row())


def test_ranking_settings_preview_button_works_without_scripts(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/ranking").press("Preview", reactions="-10", velocity="-10", freshness="0", quality="0")
    assert (page.status, first(page)[-1]) == (200, "Wave number 0")
    assert "moved down by 3 ranks" in page.text
    assert weights(page)["reactions"] == -10.0
    assert chosen(here) is None


def test_ranking_preview_fragment_shows_unsaved_weights(here: NetworkFixture, ann: Visitor) -> None:
    query = "reactions=-10&velocity=-10&freshness=0&author=0&friends=0&quality=0"
    page = ann.open(f"/settings/ranking/preview?{query}", **{"HX-Request": "true"})
    assert "<html" not in page.answer.text
    assert first(page)[-1] == "Wave number 0"
    link = page.html.find(id="own-link")
    assert link is not None
    assert "reactions=-10" in str(link["value"])
    assert chosen(here) is None


@pytest.mark.parametrize(("name", "value"), [("reactions", "11"), ("half_life_hours", "0"), ("author_most", "11")])
def test_ranking_settings_number_out_of_range_is_refused(
    here: NetworkFixture, ann: Visitor, name: str, value: str
) -> None:
    typed: dict[str, Any] = {name: value}
    page = ann.open("/settings/ranking").press("Save", **typed)
    assert (page.status, name in page.text) == (422, True)
    assert chosen(here) is None


def test_ranking_settings_turn_ranking_off_and_on(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/ranking").press("Turn off")
    assert "Ranking is off" in page.text
    assert not page.html.select(".preview-card")
    assert "newest first" in ann.open("/for-you").text
    assert "Ranking is on" in page.press("Turn on").text


def test_ranking_settings_open_recipe_link_without_saving(here: NetworkFixture, ann: Visitor) -> None:
    link = recipe_link("https://elsewhere.example", Recipe(weights=Weights(tags=7.25), near_km=80.0))
    page = ann.open("/settings/ranking").press("Open", link=link)
    assert (weights(page)["tags"], chosen(here)) == (7.25, None)
    assert page.html.find(id="tags")["step"] == "any"  # type: ignore[index]
    wrong = ann.open("/settings/ranking").press("Open", link="https://elsewhere.example/nothing")
    assert (wrong.status, "Numbers by their names" in wrong.text) == (422, True)


def test_recipe_page_explains_recipe_and_saves_it(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/recipe?friends=8&seen=-6&half_life_hours=12&exploration=0.25&author_most=1")
    assert "People you follow default: 2 8" in page.text
    assert "\N{MINUS SIGN}6" in page.text
    for words in (
        "Recency counts half as much after 12 hours.",
        "Nearness counts half as much at a distance of 25 km.",
        "25 % of the feed",
        "At most 1 of 10 posts",
    ):
        assert words in page.text
    assert "Use this recipe Preview" in page.text
    taken = page.press("Use this recipe")
    recipe = Recipe(weights=Weights(friends=8.0, seen=-6.0), half_life_hours=12.0, exploration=0.25, author_most=1)
    assert (taken.path, chosen(here)) == ("/for-you", recipe)
    again = ann.open(recipe_link(BASE, recipe).removeprefix(BASE))
    assert "You are using this recipe." in again.text
    assert "Use this recipe Preview" not in again.text


def test_recipe_page_names_preset_and_asks_anonymous_visitors_to_log_in(here: NetworkFixture) -> None:
    page = visitor(here).open(recipe_link(BASE, PRESETS["friends_first"]).removeprefix(BASE))
    assert "the preset “Friends first”" in page.text
    assert page.follow("Log in to use this recipe").path.startswith("/login?to=%2Frecipe%3F")


@pytest.mark.parametrize("query", ["", "nonsense", "reactions=x", "reactions=11", "reactions=1&reactions=2", "who=1"])
def test_recipe_page_with_invalid_recipe_returns_422(here: NetworkFixture, query: str) -> None:
    page = visitor(here).open(f"/recipe?{query}")
    assert page.status == 422
    assert page.html.find("h1") is not None


def test_ranking_preview_equals_feed_after_saving_recipe(here: NetworkFixture) -> None:
    found = here.run(members.find(here.writes, "ann"))
    assert found is not None
    reads = here.network.reads
    shown = here.run(preview(reads, found.id, QUIET))
    here.run(ranking.set_recipe(here.writes, found.id, QUIET))
    kept = here.run(preview(reads, found.id, QUIET))
    assert [one.entry.id for one in shown] == [one.entry.id for one in kept]
    assert [one.before for one in kept] == list(range(1, len(kept) + 1))
    assert all(one.why is not None and one.why.terms for one in shown)
