"""The pages of moderation rules and bulk actions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import moderation, moderation_rules, posts
from shoal.commands.posts import Draft
from shoal.core.model import Role
from shoal.core.moderation_rules import Conditions, RuleDraft
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import member, visitor

MARKUP = "\"'--><script>alert(1)</script>"


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        for name, role in (("chief", Role.ADMIN), ("moe", Role.MODERATOR)):
            made.run(moderation.set_role(made.writes, member(made, name).id, role))
        yield made


def write(here: NetworkFixture, name: str, *texts: str) -> list[int]:
    author = member(here, name)
    return [here.run(posts.create(here.writes, author.id, Draft(text=text))).id for text in texts]


def test_rule_is_created_tried_and_armed_on_its_page(here: NetworkFixture) -> None:
    write(here, "ann", "Buy my boat, please")
    chief = visitor(here, "chief")
    form = chief.open("/moderation/rules").follow("New rule")
    empty = form.press("Save", title="")
    assert "Not saved" in empty.text
    page = form.press("Save", title="Boats", words="buy my boat\nboats for sale", younger_than_days="7")
    assert "State: Off" in page.text
    refused = page.press("Arm")
    assert "Do a dry run of rule" in refused.text
    tried = page.press("Start a dry run")
    assert "Buy my boat, please" in tried.text
    assert "Last dry run on" in tried.text
    armed = tried.press("Arm")
    assert "State: Armed" in armed.text
    assert "buy my boat, boats for sale" in chief.open("/moderation/rules").text
    changed = armed.press("Save", words="boat")
    assert "State: Dry run" in changed.text
    assert "State: Off" in changed.press("Turn off").text
    assert "Boats" not in changed.press("Delete rule").text


def test_rule_form_shows_errors_at_their_fields_and_keeps_values(here: NetworkFixture) -> None:
    form = visitor(here, "chief").open("/moderation/rules/new")
    page = form.press("Save", title="Links", domains="not_a domain!", more_links_than="many")
    assert page.html.find(id="domains-wrong")
    assert page.html.find("input", id="title")["value"] == "Links"  # type: ignore[index]
    page = form.press("Save", title="Links", more_links_than="many")
    assert "Must be 0 to 100 (got -1)." in page.html.find(id="more_links_than-wrong").text  # type: ignore[union-attr]
    page = form.press("Save", title="Links", more_links_than="3", action="reject")
    assert page.html.find(id="reason-wrong")
    assert not here.run(moderation_rules.stored(here.network.store)).rules


def test_rule_and_bulk_pages_escape_text(here: NetworkFixture) -> None:
    write(here, "ben", f"hostile {MARKUP}")
    draft = RuleDraft(name=f"Rule {MARKUP}", conditions=Conditions(words=("hostile",)), action="reject", reason=MARKUP)
    rule = here.run(moderation_rules.create(here.writes, draft))
    chief = visitor(here, "chief")
    pages = [chief.open("/moderation/rules"), chief.open(f"/moderation/rules/{rule.id}")]
    pages.append(pages[1].press("Start a dry run"))
    pages.append(chief.open("/moderation/bulk").press("Show a preview", words="hostile"))
    pages.append(pages[-1].press("Hide posts", why=MARKUP))
    here.settle()
    pages.append(chief.open(pages[-1].path))
    for page in pages:
        assert "<script>alert" not in page.answer.text
        assert "<script>alert" in page.text
    here.run(moderation_rules.delete(here.writes, rule.id))


def test_bulk_action_is_previewed_applied_and_undone_on_its_page(here: NetworkFixture) -> None:
    first, second = write(here, "cyd", "free crypto 1", "Free CRYPTO 2")
    moe = visitor(here, "moe")
    page = moe.open("/moderation/bulk").press("Show a preview", words="free crypto", member="@cyd")
    assert "Hide posts: 2 posts" in page.text
    assert "free crypto 1" in page.text
    assert visitor(here).open(f"/@cyd/{first}").status == 200
    page.press("Hide posts", why="wave of spam")
    here.settle()
    applied = moe.open(page.path)
    assert "wave of spam" in applied.text
    assert [visitor(here).open(f"/@cyd/{id_}").status for id_ in (first, second)] == [404, 404]
    again = page.press("Hide posts")
    assert again.status == 200
    applied.press("Undo")
    here.settle()
    assert "Undone" in moe.open(page.path).text
    assert visitor(here).open(f"/@cyd/{second}").status == 200
    assert "Undone" in moe.open("/moderation/bulk").text


def test_bulk_action_page_leads_to_older_posts(here: NetworkFixture) -> None:
    write(here, "zoe", *[f"many {number}." for number in range(21)])
    page = visitor(here, "moe").open("/moderation/bulk").press("Show a preview", words="many")
    assert "many 20." in page.text
    assert "many 0." not in page.text
    page = page.follow("Older posts")
    assert "many 0." in page.text
    assert page.links("Older posts") == []


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("member", "nobody_here", "There is no such member"),
        ("since", "31.5.2026", "Enter a day"),
        ("media", "x", "Enter the id"),
        ("tag", "no tag", "A tag is"),
    ],
)
def test_bulk_form_with_invalid_value_shows_error_at_its_field(
    here: NetworkFixture, field: str, value: str, wrong: str
) -> None:
    form = visitor(here, "moe").open("/moderation/bulk")
    page = form.press("Show a preview", None, None, **{"words": "spam", field: value})
    note = page.html.find(id=f"{field}-wrong")
    assert note is not None
    assert wrong in note.text


def test_bulk_form_without_conditions_shows_error(here: NetworkFixture) -> None:
    page = visitor(here, "moe").open("/moderation/bulk").press("Show a preview")
    assert "At least one of words, domains, tag, member and media" in page.text


def test_pages_of_rules_require_admin_and_bulk_pages_a_moderator(here: NetworkFixture) -> None:
    member(here, "dan")
    assert visitor(here, "moe").open("/moderation/rules").status == 403
    assert visitor(here, "dan").open("/moderation/bulk").status == 403
    assert visitor(here).open("/moderation/rules").path.startswith("/login")
    assert "/moderation/rules" not in visitor(here, "moe").open("/moderation/bulk").text
