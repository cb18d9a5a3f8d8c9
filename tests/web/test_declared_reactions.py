"""Declared reactions on pages: their buttons, the lists of members, and notifications."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import declared_reactions, kinds, reactions
from shoal.core.kinds import KindDraft
from shoal.core.reactions import Reaction
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, member, visitor
from tests.web.pictures import posted


@pytest.fixture
def here() -> Iterator[NetworkFixture]:
    with network_fixture(title="Shoal") as made:
        yield made


def declare(here: NetworkFixture, *several: Reaction) -> None:
    for each in several:
        here.run(declared_reactions.declare(here.writes, each))


def buttons(page: Page) -> list[str]:
    return [" ".join(one.get_text(" ", strip=True).split()) for one in page.html.select(".reactions button")]


def test_post_has_buttons_of_reactions_that_apply_to_it(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    member(here, "ben")
    post = posted(here, ann, "Soup")
    browser = visitor(here, "ben")
    assert browser.open(f"/@ann/{post.id}").html.select(".reactions") == []
    here.run(kinds.declare(here.writes, KindDraft(name="recipe", schema={"type": "object"})))
    group = [Reaction(name=name, title=name.title(), group="attendance") for name in ("going", "maybe")]
    hostile = Reaction(name="bold", title="<b>&")
    declare(here, *group, hostile, Reaction(name="cooked", title="Cooked it", kinds=("recipe",)))
    page = browser.open(f"/@ann/{post.id}")
    assert buttons(page) == ["Going", "Maybe", "<b>&"]
    page = page.press("Going")
    assert buttons(page) == ["Going 1", "Maybe", "<b>&"]
    page = page.press("Maybe")
    assert buttons(page) == ["Going", "Maybe 1", "<b>&"]
    assert page.one('.reactions [aria-pressed="true"]')["value"] == "maybe"
    here.run(declared_reactions.retire(here.writes, "maybe"))
    assert page.one('.reactions [value="maybe"]').get("disabled") is None
    stranger = visitor(here).open(f"/@ann/{post.id}")
    assert stranger.one('.reactions [value="maybe"]').get("disabled") == ""
    page = browser.open(f"/@ann/{post.id}").press("Maybe 1")
    assert buttons(page) == ["Going", "<b>&"]


def test_reactions_menu_has_unused_ones_if_there_are_many(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    post = posted(here, ann, "Soup")
    declare(here, *[Reaction(name=f"r{n}", title=f"R {n}") for n in range(8)])
    here.run(reactions.react(here.writes, ann.id, post.id, "r5"))
    page = visitor(here, "ann").open(f"/@ann/{post.id}")
    inside = [one.get_text(strip=True) for one in page.html.select(".reactions details button")]
    assert inside == ["R 0", "R 1", "R 2", "R 3", "R 4", "R 6", "R 7"]
    assert buttons(page)[0] == "R 5 1"


def test_members_and_notifications_of_a_reaction_have_its_title(here: NetworkFixture) -> None:
    ann, ben, cyd = (member(here, name) for name in ("ann", "ben", "cyd"))
    post = posted(here, ann, "Soup")
    declare(
        here,
        Reaction(name="cooked", title="Cooked it"),
    )
    for who in (ben, cyd):
        here.run(reactions.react(here.writes, who.id, post.id, "cooked"))
    here.settle()
    browser = visitor(here, "ann")
    listed = browser.open(f"/posts/{post.id}/likes?by=cooked")
    assert [one.get_text(strip=True).removeprefix("@") for one in listed.html.select(".people .handle")] == [
        "cyd",
        "ben",
    ]
    page = browser.open("/notifications")
    assert "cyd and ben reacted with Cooked it to your post" in page.text
    assert page.text.count("reacted with") == 2  # with the label of the button that dismisses it
    assert "reacted with" not in page.press("Dismiss: cyd and ben").text
