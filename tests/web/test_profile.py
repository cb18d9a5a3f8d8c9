"""The tabs of a profile, its pinned posts, its menu, and the portfolio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import members, posts, reactions, relationships
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Visibility
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, member, visitor
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def tabs(page: Page) -> list[tuple[str, bool]]:
    return [(link.get_text(strip=True), link.has_attr("aria-current")) for link in page.html.select(".profile .tabs a")]


def test_profile_has_five_tabs_and_one_heading_next_to_the_picture(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    posted(here, ann, "tide", 1)
    browser, names = visitor(here, "ann"), ["Photos", "Posts", "Replies", "Albums", "About"]
    page = browser.open("/@ann")
    for name in names:
        page = page.follow(name) if name != "Photos" else page
        assert tabs(page) == [(other, other == name) for other in names]
        assert [one.get_text(strip=True) for one in page.html.select("h1")] == ["ann"]
        assert page.one(".profile .top > .face + .naming > h1").text == "ann"


def test_profile_replies_tab_has_only_comments_on_posts_of_others(here: NetworkFixture) -> None:
    ben, cyd = member(here, "ben"), member(here, "cyd")
    root = posted(here, cyd, "a root")
    own = posted(here, ben, "own root")
    for text, parent in (("an answer", root.id), ("a continuation", own.id)):
        here.run(posts.create(here.writes, ben.id, Draft(text=text, parent_id=parent)))
    here.run(reactions.share(here.writes, ben.id, root.id))
    here.settle()
    replies = visitor(here).open("/@ben?show=replies")
    assert [post.select_one(".prose").get_text(strip=True) for post in replies.posts] == ["an answer"]  # type: ignore[union-attr]
    assert len(visitor(here).open("/@ben?show=posts").posts) == 3


def test_profile_replies_tab_shows_replies_older_than_a_page_of_direct_messages(here: NetworkFixture) -> None:
    ola, pam = member(here, "ola"), member(here, "pam")
    public = posted(here, pam, "open question")
    here.run(posts.create(here.writes, ola.id, Draft(text="open answer", parent_id=public.id)))
    asked = posted(here, pam, "@ola psst", visibility=Visibility.DIRECT)
    for n in range(25):
        draft = Draft(text=f"@pam secret {n}", parent_id=asked.id, visibility=Visibility.DIRECT)
        here.run(posts.create(here.writes, ola.id, draft))
    here.settle()
    for name in ("ola", "pam", ""):
        page = visitor(here, name).open("/@ola?show=replies")
        assert "open answer" in page.text
        assert "secret" not in page.text


def test_profile_tab_without_content_shows_message_and_link(here: NetworkFixture) -> None:
    dee = member(here, "dee")
    own, other = visitor(here, "dee"), visitor(here)
    assert "Your photos appear here." in own.open("/@dee").text
    assert own.open("/@dee").links("New post")
    assert "No replies yet" in other.open("/@dee?show=replies").text
    assert "No photos yet" in other.open("/@dee").text
    posted(here, dee, "only words")
    assert "only words" in other.open("/@dee").follow("Posts").text
    about = other.open("/@dee?show=about").text
    assert "dee hasn't written anything about themselves." in about
    assert "Joined" in about
    mine = own.open("/@dee?show=about")
    assert "You haven't written anything about yourself." in mine.text
    assert mine.links("Edit profile")


def test_profile_about_tab_shows_whole_text_and_fields(here: NetworkFixture) -> None:
    eve = member(here, "eve", note="Walks before breakfast.\n\nNets and #boats.")
    change = ProfileChange(fields=[("Camera", "X100V"), ("Site", "https://eve.example")])
    here.run(members.update_profile(here.writes, eve.id, change))
    page = visitor(here).open("/@eve?show=about")
    assert "Nets and" in page.text
    assert [one.text for one in page.html.select(".facts dt")] == ["Camera", "Site", "Joined"]
    assert "X100V" in page.text
    assert page.follow("Map").path == "/@eve/places"


@pytest.mark.parametrize("tab", ["", "?show=posts"])
def test_profile_pinned_posts_come_first_and_are_marked(here: NetworkFixture, tab: str) -> None:
    name = f"pia{len(tab)}"
    pia = member(here, name)
    old = posted(here, pia, "an old one", 1)
    for n in range(3):
        posted(here, pia, f"new {n}", 1)
    here.run(reactions.pin(here.writes, pia.id, old.id))
    here.settle()
    page = visitor(here).open(f"/@{name}{tab}")
    if tab:
        assert "an old one" in page.posts[0].get_text()
        assert ["Pinned" in post.get_text() for post in page.posts] == [True, False, False, False]
        assert not any("Pinned" in post.get_text() for post in visitor(here, name).open("/").posts)
    else:
        assert next(link["id"] for link in page.photos) == f"p{old.id}"
        assert ["Pinned" in link.get_text() for link in page.photos] == [True, False, False, False]
        assert len({str(link["id"]) for link in page.photos}) == 4


def test_portfolio_page_has_only_title_name_and_public_photos(here: NetworkFixture) -> None:
    gus, hal = member(here, "gus", display_name="Gus Weir"), member(here, "hal")
    here.run(relationships.follow(here.writes, hal.id, gus.id))
    open_, unlisted = posted(here, gus, "open", 2), posted(here, gus, "unlisted", 1, visibility=Visibility.UNLISTED)
    posted(here, gus, "for followers", 1, visibility=Visibility.FOLLOWERS)
    posted(here, gus, "covered", 1, sensitive=True)
    posted(here, gus, "warned", 1, spoiler="nets")
    posted(here, gus, "words")
    here.settle()
    for name in ("", "hal", "gus"):
        page = visitor(here, name).open("/@gus/portfolio")
        assert [str(link["href"]).partition("?")[0] for link in page.photos] == [
            f"/@gus/{unlisted.id}",
            f"/@gus/{open_.id}",
            f"/@gus/{open_.id}",
        ]
        assert page.one("h1").text == "Gus Weir"
        assert "Photos by Gus Weir" in page.title
        assert [link.get_text(strip=True) for link in page.html.select("header a")] == ["@gus"]
        assert not page.html.select("nav, aside, form, button, script:not([type='application/ld+json'])")
        assert str(page.one("link[rel=canonical]")["href"]).endswith("/@gus/portfolio")
        post = visitor(here, name).open(str(page.photos[1]["href"]))
        assert str(post.one(".masthead a[rel=prev]")["href"]).startswith(f"/@gus/{unlisted.id}?")
    assert visitor(here).open("/@nobody/portfolio").status == 404


def test_portfolio_page_hides_photos_from_blocked_visitor_and_says_when_it_is_empty(here: NetworkFixture) -> None:
    ida, jon = member(here, "ida"), member(here, "jon")
    posted(here, ida, "a quay", 1)
    here.run(relationships.block(here.writes, ida.id, jon.id))
    here.settle()
    assert not visitor(here, "jon").open("/@ida/portfolio").photos
    assert visitor(here).open("/@ida/portfolio").photos
    assert "No public photos yet." in visitor(here).open("/@jon/portfolio").text


def test_portfolio_is_paginated_without_scripts(here: NetworkFixture) -> None:
    kim = member(here, "kim")
    for n in range(26):
        posted(here, kim, f"photo {n}", 1)
    first = visitor(here).open("/@kim/portfolio")
    second = first.follow("More photos")
    assert (len(first.photos), len(second.photos)) == (24, 2)
    assert second.path.startswith("/@kim/portfolio?before=")
    assert not second.links("More photos")


def test_profile_menu_leads_to_portfolio_and_feed_for_everyone(here: NetworkFixture) -> None:
    member(here, "lea")
    member(here, "max")
    for name in ("", "lea", "max"):
        page = visitor(here, name).open("/@lea").follow("More options")
        assert page.status == 200
        assert page.follow("Portfolio").path == "/@lea/portfolio"
        assert page.links("RSS feed")[0]["href"] == "/@lea.atom"
    own = visitor(here, "lea").open("/@lea/more")
    assert not [word for word in ("Message", "Mute", "Block", "Report") if word in own.text]
    assert "Message lea" in visitor(here, "max").open("/@lea/more").text
