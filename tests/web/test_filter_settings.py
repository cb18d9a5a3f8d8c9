"""The settings pages of filters: muting a word, and filters with all options."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import filters, members, posts, relationships
from shoal.commands.filters import FilterChange
from shoal.commands.posts import Draft
from shoal.core.filters import Filter, FilterAction, FilterContext
from shoal.graph.access import filters_of
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Visitor, member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        member(made, "ann")
        yield made


@pytest.fixture(scope="module")
def ann(here: NetworkFixture) -> Visitor:
    return visitor(here, "ann")


@pytest.fixture(autouse=True)
def no_filters(here: NetworkFixture) -> None:
    for one in held(here):
        here.run(filters.delete(here.writes, one.owner_id, one.id))


def held(here: NetworkFixture, name: str = "ann") -> list[Filter]:
    """Return the filters of a member."""
    found = here.run(members.find(here.writes, name))
    assert found is not None
    return here.run(filters_of(here.graph, found.id))


def test_filter_settings_mute_word_folds_matching_posts(here: NetworkFixture, ann: Visitor) -> None:
    ben, me = member(here, "ben"), here.run(members.find(here.writes, "ann"))
    assert me is not None
    here.run(relationships.follow(here.writes, me.id, ben.id))
    here.run(posts.create(here.writes, ben.id, Draft(text="Football all day")))
    here.settle()
    page = ann.open("/settings/filters")
    assert "No filters yet" in page.text
    page = page.press("Mute", words="football", lasts="604800")
    assert "Saved." in page.text
    (one,) = held(here)
    assert (one.title, one.contexts, one.action) == ("football", tuple(FilterContext), FilterAction.WARN)
    assert one.expires_at > 0
    assert "Filtered: football" in ann.open("/").text


def test_filter_settings_create_change_and_delete_filter(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/filters").follow("New filter")
    page = page.press(
        "Save",
        title="Spoilers",
        words="ending\r\nseason finale\n\nending",
        parts="spoil",
        contexts=["home", "public"],
        action="hide",
    )
    (one,) = held(here)
    assert [(word.keyword, word.whole_word) for word in one.keywords] == [
        ("ending", True),
        ("season finale", True),
        ("spoil", False),
    ]
    assert (one.contexts, one.action, one.expires_at) == (
        (FilterContext.HOME, FilterContext.PUBLIC),
        FilterAction.HIDE,
        0,
    )
    page = page.follow("Spoilers")
    assert page.field("Words and phrases").text.strip() == "ending\nseason finale"
    assert [one["value"] for one in page.html.select("[name='contexts[]'][checked]")] == ["home", "public"]
    page = page.press("Save", words="ending", parts="spoil\nfinale", contexts=["thread"], action="blur", lasts="3600")
    (after,) = held(here)
    ids = {word.keyword: word.id for word in one.keywords}
    assert [(word.keyword, word.whole_word) for word in after.keywords] == [
        ("ending", True),
        ("spoil", False),
        ("finale", False),
    ]
    assert {word.keyword: word.id for word in after.keywords if word.keyword in ids} == {
        word: ids[word] for word in ("ending", "spoil")
    }
    assert (after.contexts, after.action) == ((FilterContext.THREAD,), FilterAction.BLUR)
    page = page.follow("Spoilers")
    page = page.press("Save")
    assert held(here)[0].expires_at == after.expires_at
    page.follow("Spoilers").press("Delete filter")
    assert held(here) == []


def test_filter_settings_with_invalid_values_show_field_errors(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/filters/new").press("Save", title=" ", words="cats", contexts=["home"])
    assert page.status == 422
    assert "Enter a name." in str(page.html.find(id="title-wrong"))
    assert page.field("Words and phrases").text.strip() == "cats"
    page = page.press("Save", title="Cats", contexts=[])
    assert "where the filter applies" in str(page.html.find(id="contexts-wrong"))
    page = page.press("Save", title="Cats", contexts=["home"], words="c" * 201)
    assert "the maximum is 200" in str(page.html.find(id="words-wrong"))
    page = page.press("Save", words="\n".join(f"word {n}" for n in range(101)))
    assert "at most 100 keywords" in str(page.html.find(id="words-wrong"))
    assert held(here) == []
    page = ann.open("/settings/filters").press("Mute", words="m" * 201)
    assert (page.status, page.field("A word or a tag")["aria-invalid"]) == (422, "true")


def test_filter_settings_list_and_remove_filtered_posts(here: NetworkFixture, ann: Visitor) -> None:
    me, cyd = here.run(members.find(here.writes, "ann")), member(here, "cyd")
    assert me is not None
    shown = here.run(posts.create(here.writes, cyd.id, Draft(text="This again")))
    gone = here.run(posts.create(here.writes, cyd.id, Draft(text="And this")))
    made = here.run(filters.create(here.writes, me.id, FilterChange(title="Again", contexts=(FilterContext.HOME,))))
    for post in (shown, gone):
        here.run(filters.add_post(here.writes, me.id, made.id, post.id))
    here.run(posts.delete(here.writes, cyd.id, gone.id))
    page = ann.open(f"/settings/filters/{made.id}")
    assert page.links("cyd: This again")[0]["href"] == f"/@cyd/{shown.id}"
    assert "Deleted post" in page.text
    page = page.press("Remove")
    assert [one.post_id for one in held(here)[0].posts] == [gone.id]
    assert page.path == f"/settings/filters/{made.id}"


def test_filter_of_other_member_returns_404(here: NetworkFixture, ann: Visitor) -> None:
    dee = member(here, "dee")
    theirs = here.run(filters.create(here.writes, dee.id, FilterChange(title="Mine", contexts=(FilterContext.HOME,))))
    assert ann.open(f"/settings/filters/{theirs.id}").status == 404
    token = str(ann.open("/settings/filters").html.select_one("main [name=form_token]")["value"])  # type: ignore[index]
    for path, more in ((f"{theirs.id}", [("title", "x")]), (f"{theirs.id}/delete", [])):
        answer = ann.post(f"/settings/filters/{path}", [("form_token", token), *more])
        assert answer.status == 404, path
    assert [one.title for one in held(here, "dee")] == ["Mine"]


def test_filter_settings_save_grouping_of_repeated_shares(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/filters").press("Save", folds_shares=[])
    found = here.run(members.find(here.writes, "ann"))
    assert found is not None
    assert not found.folds_shares
    assert not page.field("Group repeated shares").has_attr("checked")
    page.press("Save", folds_shares="true")
