"""The buttons of declared reactions in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from shoal.commands import declared_reactions, posts, reactions
from shoal.commands.posts import Draft
from shoal.core.reactions import Reaction
from tests.web.chromium.accessibility import hindrances, pale
from tests.web.chromium.browser_sessions import UNREADY_BUTTONS, live_server, screen
from tests.web.chromium.test_profile import overflowing

DECLARED = (
    Reaction(name="cooked", title="Cooked it"),
    *(Reaction(name=name, title=title, group="attendance") for name, title in (("going", "Going"), ("maybe", "Maybe"))),
)
MORE = tuple(Reaction(name=f"more{n}", title=f"Reaction number {n}") for n in range(8))


@pytest.mark.parametrize("width", [390, 1_280])
def test_declared_reaction_buttons_work_and_replace_each_other(chromium: Browser, width: int) -> None:
    with live_server() as at, screen(at, chromium, width) as ours:
        writes = at.network.writes
        ann, ben = at.join("ann"), at.join("ben")
        post = at.run(posts.create(writes, ann.id, Draft(text="A supper on the beach, with soup.")))
        ours.log_in("ann")
        page = ours.open(f"/@ann/{post.id}")
        assert page.locator(".reactions").count() == 0
        for each in DECLARED:
            at.run(declared_reactions.declare(writes, each))
        at.run(reactions.react(writes, ben.id, post.id, "going"))
        page = ours.open(f"/@ann/{post.id}")
        group = page.get_by_role("group", name="Reactions").first
        # A response replaces all buttons of the post.
        unready = page.locator(UNREADY_BUTTONS)
        cooked, going, maybe = (group.get_by_role("button", name=name) for name in ("Cooked it", "Going", "Maybe"))
        going.click()
        expect(going).to_have_attribute("aria-pressed", "true")
        expect(going.locator(".count")).to_have_text("2")
        expect(unready).to_have_count(0)
        cooked.click()
        expect(cooked.locator(".count")).to_have_text("1")
        expect(unready).to_have_count(0)
        maybe.click()
        expect(maybe).to_have_attribute("aria-pressed", "true")
        expect(going).to_have_attribute("aria-pressed", "false")
        expect(going.locator(".count")).to_have_text("1")
        expect(unready).to_have_count(0)
        maybe.click()
        expect(maybe).to_have_attribute("aria-pressed", "false")
        expect(unready).to_have_count(0)
        for each in MORE:
            at.run(declared_reactions.declare(writes, each))
        page = ours.open(f"/@ann/{post.id}")
        group = page.get_by_role("group", name="Reactions").first
        expect(group.get_by_role("button", name="Reaction number 3")).to_be_hidden()
        group.get_by_text("React", exact=True).click()
        assert hindrances(page) == []
        assert pale(page, dark=True) == []
        page.emulate_media(color_scheme="light")
        assert overflowing(page) == []
        group.get_by_role("button", name="Reaction number 3").click()
        expect(group.get_by_role("button", name="Reaction number 3")).to_have_attribute("aria-pressed", "true")
        expect(group.get_by_role("button", name="Reaction number 4")).to_be_hidden()
