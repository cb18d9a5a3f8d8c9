"""The pages Home and For you."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shoal.commands import filters, lists, moderation, posts, ranking, reactions, relationships, reports
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.commands.posts import Draft
from shoal.commands.reports import Complaint
from shoal.core.filters import FilterContext
from shoal.core.model import Member, Post, Visibility
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import member, visitor
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def test_home_page_shows_newest_posts_of_followees_and_links_to_older_posts(here: NetworkFixture) -> None:
    ann, ben = member(here, "ann"), member(here, "ben")
    here.run(relationships.follow(here.writes, ann.id, ben.id))
    for n in range(25):
        here.run(posts.create(here.writes, ben.id, Draft(text=f"number {n} of the tide")))
    here.settle()
    page = visitor(here, "ann").open("/")
    assert page.texts("prose")[:2] == ["number 24 of the tide", "number 23 of the tide"]
    assert len(page.posts) == 20
    older = page.follow("Older posts")
    assert [f"number {n} of the tide" in older.text for n in (4, 0, 5)] == [True, True, False]
    assert not older.links("Older posts")


def test_like_button_adds_and_removes_like(here: NetworkFixture) -> None:
    cyd = member(here, "cyd")
    post = here.run(posts.create(here.writes, cyd.id, Draft(text="Low tide")))
    page = visitor(here, "cyd").open(f"/@cyd/{post.id}")
    liked = page.press("Like", page.post("Low tide"))
    assert "Like, 1 like" in liked.text
    assert "Like, 0 likes" in liked.press("Like", liked.post("Low tide")).text


def test_front_page_is_public_and_for_you_redirects_to_login(here: NetworkFixture) -> None:
    stranger = visitor(here)
    assert "Sign up" in stranger.open("/").text
    page = stranger.open("/for-you")
    assert page.path == "/login?to=%2Ffor-you"
    assert page.press("Log in", username="ann", password="low tide at dawn").path == "/for-you"


def test_post_action_with_forged_form_token_is_refused(here: NetworkFixture) -> None:
    browser = visitor(here, "ann")
    answer = browser.post("/posts/1/act", [("do", "like"), ("form_token", "guessed")])
    assert answer.status == 403
    assert "has expired" in answer.text


def test_demo_login_outside_demo_returns_404(here: NetworkFixture) -> None:
    browser = visitor(here)
    token = browser.open("/login").form_token
    assert visitor(here).post("/login/demo", [("form_token", token)]).status == 403
    assert browser.post("/login/demo", [("form_token", token)]).status == 404


def test_home_and_list_pages_exclude_direct_messages_and_have_full_pages(here: NetworkFixture) -> None:
    dan, eve = member(here, "dan"), member(here, "eve")
    here.run(relationships.follow(here.writes, eve.id, dan.id))
    shown = here.run(lists.create(here.writes, eve.id, "Close friends"))
    here.run(lists.put_on(here.writes, eve.id, shown.id, (dan.id, eve.id)))
    for n in range(25):
        here.run(posts.create(here.writes, dan.id, Draft(text=f"number {n} of the tide")))
        for author, name in ((dan, "eve"), (eve, "dan")):
            secret = Draft(text=f"@{name} secret {n}", visibility=Visibility.DIRECT)
            here.run(posts.create(here.writes, author.id, secret))
    here.settle()
    browser = visitor(here, "eve")
    for path in ("/", f"/lists/{shown.id}"):
        page = browser.open(path)
        older = page.follow("Older posts")
        assert (len(page.posts), len(older.posts)) == (20, 5), path
        numbers = [f"number {n} of the tide" for n in reversed(range(25))]
        assert [*page.texts("prose"), *older.texts("prose")] == numbers, path


def test_ranked_feed_page_without_ranking_excludes_direct_messages(here: NetworkFixture) -> None:
    fay = member(here, "fay")
    here.run(posts.create(here.writes, fay.id, Draft(text="@ann secret", visibility=Visibility.DIRECT)))
    here.run(posts.create(here.writes, fay.id, Draft(text="No secret")))
    here.run(ranking.switch(here.writes, fay.id, off=True))
    here.settle()
    page = visitor(here, "fay").open("/for-you")
    assert page.texts("prose") == ["No secret"]


@pytest.mark.parametrize(
    ("language", "likes", "words"),
    [
        ("en", 1, "Because you liked a #sea1en photo"),
        ("en", 6, "Because you liked 6 #sea6en photos"),
        ("de", 1, "Weil dir ein Foto mit #sea1de gefällt"),  # codespell:ignore foto
        ("de", 6, "Weil dir 6 Fotos mit #sea6de gefallen"),
        ("es", 6, "Porque te gustaron 6 fotos con #sea6es"),
        ("fr", 6, "Parce que vous avez aimé 6 photos avec #sea6fr"),
        ("ar", 2, "لأنك أُعجبت بصورتين بالوسم #sea2ar"),
        ("ar", 6, "لأنك أُعجبت بـ6 صور بالوسم #sea6ar"),
    ],
)
def test_ranked_feed_page_opens_with_photos_and_states_one_reason_of_each_post(
    here: NetworkFixture, language: str, likes: int, words: str
) -> None:
    viewer, author, friend = (member(here, f"{role}{likes}{language}") for role in ("viewer", "author", "friend"))
    for n in range(likes):
        liked = posted(here, author, f"{n} #sea{likes}{language}", 1)
        here.run(reactions.like(here.writes, viewer.id, liked.id))
    posted(here, friend, f"new #sea{likes}{language}", 1)
    here.run(relationships.follow(here.writes, viewer.id, friend.id))
    posted(here, friend, "only text")
    here.settle()
    page = visitor(here, viewer.name).open(f"/for-you?lang={language}")
    assert page.posts[0].select_one(".photos") is not None
    assert [len(post.select(".why-this > summary")) for post in page.posts] == [1] * len(page.posts)
    new = next(post for post in page.posts if "new #" in post.get_text())
    assert new.select(".why-this > summary > span")[0].get_text() == words
    assert len(new.select(".why-this .reasons tr")) > 2


def test_feed_loads_the_first_photo_of_its_first_four_posts_before_others(here: NetworkFixture) -> None:
    ines, jude = member(here, "ines"), member(here, "jude")
    here.run(relationships.follow(here.writes, ines.id, jude.id))
    for photos, expected in (
        (2, ["high", None]),
        (0, ["high", None]),
        (0, ["high", None]),
        (0, ["high", None]),
        (0, [None, None]),
    ):
        posted(here, jude, "sea", photos)
        here.settle()
        found = visitor(here, "ines").open("/").html.select(".photos img")
        assert [photo.get("fetchpriority") for photo in found] == expected


def test_home_page_with_photos_only_excludes_text_posts_and_has_full_pages(here: NetworkFixture) -> None:
    gus, hal = member(here, "gus"), member(here, "hal")
    here.run(relationships.follow(here.writes, gus.id, hal.id))
    for n in range(25):
        posted(here, hal, f"picture {n}", 1)
        posted(here, hal, f"text {n}")
    here.settle()
    page = visitor(here, "gus").open("/").follow("Photos")
    older = page.follow("Older posts")
    assert [*page.texts("prose"), *older.texts("prose")] == [f"picture {n}" for n in reversed(range(25))]
    assert page.follow("All").texts("prose")[:2] == ["text 24", "picture 24"]


def test_home_page_with_photos_only_and_no_photos_offers_to_show_all_posts(here: NetworkFixture) -> None:
    ida = member(here, "ida")
    posted(here, ida, "Only text")
    page = visitor(here, "ida").open("/").follow("Photos")
    assert page.follow("All").texts("prose") == ["Only text"]


def test_home_page_omits_replies_to_other_people_unless_setting_includes_them(here: NetworkFixture) -> None:
    liv, mia, noa = member(here, "liv"), member(here, "mia"), member(here, "noa")
    for one, other in ((liv, mia), (liv, noa)):
        here.run(relationships.follow(here.writes, one.id, other.id))
    mine, theirs = posted(here, liv, "Mine"), posted(here, mia, "Theirs")
    for text, parent in (("to the viewer", mine), ("to another", theirs)):
        posted(here, noa, text, parent_id=parent.id)
    posted(here, mia, "to herself", parent_id=theirs.id)
    posted(here, liv, "by the viewer", parent_id=theirs.id)
    here.settle()
    browser = visitor(here, "liv")
    assert browser.open("/").texts("prose") == ["by the viewer", "to herself", "to the viewer", "Theirs", "Mine"]
    browser.open("/settings/filters").press("Save", shows_replies="true")
    assert "to another" in browser.open("/").texts("prose")


def test_reply_on_home_page_shows_the_beginning_of_the_answered_post(here: NetworkFixture) -> None:
    jan, kim = member(here, "jan"), member(here, "kim")
    parent = posted(here, kim, "Where is the harbor")
    posted(here, jan, "Behind the dunes", parent_id=parent.id)
    here.run(relationships.follow(here.writes, jan.id, kim.id))
    here.settle()
    page = visitor(here, "jan").open("/")
    assert page.post("Behind the dunes").select_one(".answered").text == "Where is the harbor"  # type: ignore[union-attr]


Hide = Callable[[NetworkFixture, Member, Member, Post], object]


def _muted(here: NetworkFixture, viewer: Member, author: Member, _post: Post) -> object:
    return here.run(relationships.mute(here.writes, viewer.id, author.id))


def _blocked(here: NetworkFixture, viewer: Member, author: Member, _post: Post) -> object:
    return here.run(relationships.block(here.writes, author.id, viewer.id))


def _reported(here: NetworkFixture, viewer: Member, author: Member, post: Post) -> object:
    return here.run(reports.file(here.writes, viewer.id, author.id, Complaint(post_ids=(post.id,))))


def _filtered(here: NetworkFixture, viewer: Member, _author: Member, _post: Post) -> object:
    words = (KeywordChange(keyword="harbor"),)
    change = FilterChange(title="Sea", contexts=(FilterContext.HOME,), words=words)
    return here.run(filters.create(here.writes, viewer.id, change))


def _silenced(here: NetworkFixture, _viewer: Member, author: Member, _post: Post) -> object:
    return here.run(moderation.silence(here.writes, author.id))


@pytest.mark.parametrize("hide", [_muted, _blocked, _reported, _filtered, _silenced])
def test_reply_to_a_post_hidden_from_the_viewer_shows_only_the_author_of_the_hidden_post(
    here: NetworkFixture, hide: Hide
) -> None:
    name = hide.__name__.strip("_")
    viewer, author, other = (member(here, f"{role}_{name}") for role in ("viewer", "author", "other"))
    post = posted(here, author, "Behind the harbor")
    posted(here, other, "I agree", parent_id=post.id)
    here.settle()
    assert "Behind the harbor" in visitor(here, viewer.name).open(f"/@{other.name}?show=replies").answer.text
    hide(here, viewer, author, post)
    here.settle()
    page = visitor(here, viewer.name).open(f"/@{other.name}?show=replies")
    assert f"Replying to @{author.name}" in page.post("I agree").text
    assert "Behind the harbor" not in page.answer.text


def test_home_page_with_photos_only_links_to_photos_older_than_many_text_posts(here: NetworkFixture) -> None:
    pia, quin = member(here, "pia"), member(here, "quin")
    here.run(relationships.follow(here.writes, pia.id, quin.id))
    picture = posted(here, quin, "the picture", 1)
    for n in range(120):
        posted(here, quin, f"text {n}")
    here.settle()
    page = visitor(here, "pia").open("/?show=photos")
    assert not page.posts
    assert page.follow("Older posts").posts[0]["data-post"] == str(picture.id)
