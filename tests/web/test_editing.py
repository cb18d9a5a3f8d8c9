"""Editing, edit history, deletion and redrafting of posts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest
from bs4 import Tag
from hypothesis import given
from hypothesis import strategies as st

from shoal.commands import media, polls, posts
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.licenses import License
from shoal.core.model import Media, Post, Visibility
from shoal.web.revisions import MOST_WORDINGS, difference
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import Page, member, visitor


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkFixture]:
    # SQLite rejects numbers of custom types, unlike the memory store.
    with network_fixture(store=f"sqlite:///{tmp_path_factory.mktemp('here')}/shoal.db") as made:
        yield made


def stored(here: NetworkFixture, post_id: int) -> Post:
    node = here.run(here.network.store.obj_get((post_id,)))[post_id]
    assert isinstance(node, Post)
    return node


def with_pictures(here: NetworkFixture, name: str, *texts: str) -> Post:
    """Create a post of a new member with a picture for each description."""
    author = member(here, name)
    files = [here.run(media.upload(here.writes, author.id, picture(), description=text)) for text in texts]
    return here.run(posts.create(here.writes, author.id, Draft(text="Low tide", media=[one.id for one in files])))


def card(page: Page, n: int) -> Tag:
    found = page.html.find_all("li", class_="picture")[n]
    assert isinstance(found, Tag)
    return found


def test_post_edit_form_removes_adds_describes_and_reorders_pictures(here: NetworkFixture) -> None:
    post = with_pictures(here, "ann", "first", "second", "third")
    page = visitor(here, "ann").open(f"/posts/{post.id}/edit")
    assert page.field("Text").text == "Low tide"
    page = page.press("Remove", card(page, 0))
    page = page.press("Move earlier", card(page, 1))
    page = page.press("Upload", files=[("files[]", ("new.png", picture()))])
    fields = page.html.find_all("textarea", attrs={"name": "pictures[][description]"})
    assert [field.text for field in fields] == ["third", "second", ""]
    fields[2].string = "fourth"
    done = page.press("Save", text="High tide", sensitive="true")
    assert done.path == f"/@ann/{post.id}"
    now = stored(here, post.id)
    nodes = here.run(here.network.store.obj_get(now.media))
    described = [node.description for id_ in now.media if isinstance(node := nodes[id_], Media)]
    assert (now.text, now.sensitive, described) == ("High tide", True, ["third", "second", "fourth"])
    history = done.follow("edited")
    assert history.texts("thumbs") == ["added removed"]
    assert "Media marked as sensitive." in history.text
    assert [one.name for one in history.html.find_all(["ins", "del"])] == ["del", "ins"]


def test_post_edit_form_asks_for_descriptions_of_new_pictures_only(here: NetworkFixture) -> None:
    post = with_pictures(here, "ora", "", "second")
    browser = visitor(here, "ora")
    assert browser.open(f"/posts/{post.id}/edit").press("Save", text="High tide").path == f"/@ora/{post.id}"
    asked = browser.open(f"/posts/{post.id}/edit").press("Save", files=[("files[]", ("new.png", picture()))])
    assert "One picture has no description" in asked.text
    assert ["lacks" in one["class"] for one in asked.html.select(".picture")] == [False, False, True]


def test_post_edit_form_saves_only_what_its_user_changed(here: NetworkFixture) -> None:
    post = with_pictures(here, "una", "first", "second")
    stale = visitor(here, "una").open(f"/posts/{post.id}/edit")
    other = visitor(here, "una").open(f"/posts/{post.id}/edit")
    other = other.press("Remove", card(other, 0))
    other.press("Save", text="High tide\nin the harbor", sensitive="true", license="CC0-1.0", place="52.5,13.4")
    stale.press("Save", spoiler="water", license="CC-BY-4.0")
    now = stored(here, post.id)
    assert (now.text, now.spoiler, now.sensitive) == ("High tide\nin the harbor", "water", True)
    assert (now.license, now.media) == (License.CC_BY, post.media[1:])
    assert now.place is not None


def test_post_edit_form_keeps_its_values_when_it_is_refused(here: NetworkFixture) -> None:
    post = with_pictures(here, "vic", "first")
    form = visitor(here, "vic").open(f"/posts/{post.id}/edit")
    visitor(here, "vic").open(f"/posts/{post.id}/edit").press("Save", text="High tide")
    refused = form.press("Save", spoiler="x" * 600)
    assert refused.status == 422
    assert refused.field("Text").text == "Low tide"
    refused.press("Save", spoiler="water")
    assert (stored(here, post.id).text, stored(here, post.id).spoiler) == ("High tide", "water")


def test_post_edit_form_allows_only_narrower_visibility(here: NetworkFixture) -> None:
    post = with_pictures(here, "ben")
    browser = visitor(here, "ben")
    page = browser.open(f"/posts/{post.id}/edit")
    page.press("Save", visibility="followers")
    now = stored(here, post.id)
    assert (now.visibility, now.edited_at) == (Visibility.FOLLOWERS, 0)
    assert visitor(here).open(f"/@ben/{post.id}").status == 404
    again = browser.open(f"/posts/{post.id}/edit")
    offered = [str(one["value"]) for one in again.html.find_all("input", attrs={"type": "radio"})]
    assert offered == ["followers", "direct"]
    fields = [("form_token", again.form_token), ("text", "Low tide"), ("visibility", "public"), ("do", "post")]
    refused = browser.post(f"/posts/{post.id}/edit", fields)
    assert refused.status == 422
    assert "An edit can only reduce the visibility" in refused.text


def test_post_edit_keeps_unchanged_poll_and_replaces_changed_poll(here: NetworkFixture) -> None:
    cyd = member(here, "cyd")
    asked = PollDraft(options=("Yes", "No"), seconds=3_600)
    post = here.run(posts.create(here.writes, cyd.id, Draft(text="Well?", poll=asked)))
    before = here.run(polls.poll_of(here.network.store, post))
    browser = visitor(here, "cyd")
    browser.open(f"/posts/{post.id}/edit").press("Save", text="Well, then?")
    assert here.run(polls.poll_of(here.network.store, stored(here, post.id))) == before
    browser.open(f"/posts/{post.id}/edit").press("Save", options=["Yes", "No", "Perhaps", ""])
    after = here.run(polls.poll_of(here.network.store, stored(here, post.id)))
    assert before is not None
    assert after is not None
    assert [one.title for one in after.options] == ["Yes", "No", "Perhaps"]
    assert abs(after.expires_at - before.expires_at) < 2_000
    assert "Poll options: Yes, No, Perhaps" in browser.open(f"/posts/{post.id}/history").text


def test_post_edit_form_when_refused_keeps_typed_values(here: NetworkFixture) -> None:
    post = with_pictures(here, "dan")
    page = visitor(here, "dan").open(f"/posts/{post.id}/edit").press("Save", text="  ", spoiler="Wet")
    assert page.status == 422
    assert "Write something or add a picture." in page.text
    assert page.field("Content warning")["value"] == "Wet"
    assert stored(here, post.id).text == "Low tide"


def test_post_history_of_unedited_post_is_empty(here: NetworkFixture) -> None:
    post = with_pictures(here, "eve")
    assert "Never edited" in visitor(here).open(f"/@eve/{post.id}/history").text
    assert visitor(here).open(f"/@ann/{post.id}/history").status == 404


def test_post_deletion_page_asks_for_confirmation_and_deletes_post(here: NetworkFixture) -> None:
    post = with_pictures(here, "fay")
    page = visitor(here, "fay").open(f"/posts/{post.id}/delete?to=/@fay/{post.id}")
    assert "Low tide" in page.text
    done = page.press("Delete")
    assert done.path == "/@fay"
    assert visitor(here, "fay").open(f"/@fay/{post.id}").status == 404


def test_delete_and_redraft_replaces_post_when_new_one_is_posted(here: NetworkFixture) -> None:
    post = with_pictures(here, "gus", "A boat")
    browser = visitor(here, "gus")
    page = browser.open(f"/posts/{post.id}/delete").follow("Delete and redraft")
    assert (page.field("Text").text, len(page.texts("picture"))) == ("Low tide", 1)
    # The old post still exists.
    assert browser.open(f"/@gus/{post.id}").status == 200
    done = page.press("Post", text="Lower tide")
    assert "Lower tide" in done.text
    assert browser.open(f"/@gus/{post.id}").status == 404
    here.settle()
    image = done.html.find("main").find("img", alt="A boat")  # type: ignore[union-attr]
    assert isinstance(image, Tag)
    assert browser.open(str(image["src"])).status == 200


@pytest.mark.parametrize("page", ["edit", "delete"])
def test_post_edit_and_delete_pages_of_other_members_return_404(here: NetworkFixture, page: str) -> None:
    post = with_pictures(here, f"hal_{page}")
    member(here, f"ivy_{page}")
    browser = visitor(here, f"ivy_{page}")
    assert browser.open(f"/posts/{post.id}/{page}").status == 404
    token = browser.open("/compose").form_token
    answer = browser.post(f"/posts/{post.id}/{page}", [("form_token", token), ("text", "Mine now")])
    assert answer.status == 404
    assert stored(here, post.id).text == "Low tide"
    assert visitor(here).open(f"/posts/{post.id}/{page}").path.startswith("/login")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("low tide", "high tide", [("low", "del"), ("high", "ins"), (" tide", "")]),
        ("same", "same", [("same", "")]),
        ("", "new words", [("new words", "ins")]),
        ("one two", "one", [("one", ""), (" two", "del")]),
        ("a b c d", "a c e d", [("a ", ""), ("b ", "del"), ("c", ""), (" e", "ins"), (" d", "")]),
    ],
)
def test_post_history_diff_compares_word_by_word(before: str, after: str, shown: list[tuple[str, str]]) -> None:
    assert [(piece.text, piece.kind) for piece in difference(before, after)] == shown


def test_post_history_diff_of_very_long_texts_replaces_whole_text() -> None:
    before, after = "a " * 3_000 + "a", "b " * 3_000 + "b"
    assert [piece.kind for piece in difference(before, after)] == ["del", "ins"]
    assert [piece.kind for piece in difference(before, before)] == [""]


@given(st.text("ab ", max_size=60), st.text("ab ", max_size=60), st.sampled_from([0, 100, 10_000]))
def test_post_history_diff_pieces_reconstruct_both_texts(before: str, after: str, pairs: int) -> None:
    pieces = difference(before, after, pairs)
    assert "".join(piece.text for piece in pieces if piece.kind != "ins") == before
    assert "".join(piece.text for piece in pieces if piece.kind != "del") == after


def test_post_history_with_many_long_revisions_renders_limited_revisions_quickly(here: NetworkFixture) -> None:
    ivo, dice = member(here, "ivo"), Random(1)
    post = here.run(posts.create(here.writes, ivo.id, Draft(text="first")))
    for _ in range(MOST_WORDINGS + 10):
        text = " ".join(dice.choice("ab") for _ in range(2_000))
        here.run(posts.update(here.writes, ivo.id, post.id, Draft(text=text)))
    began = time.process_time()
    page = visitor(here).open(f"/@ivo/{post.id}/history")
    assert time.process_time() - began < 5
    assert len(page.html.select(".wording")) == MOST_WORDINGS
    assert "Current version" in page.text
    assert "Original version" not in page.text
    assert "Older versions are not shown" in page.text
