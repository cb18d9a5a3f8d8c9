"""The welcome pages of new members: interests, people, profile and first post; each step can be skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import media, members, posts, relationships
from shoal.commands.posts import Draft
from shoal.core.model import Member
from shoal.graph.contract import Cursor
from shoal.graph.payloads.members import personalization_of
from shoal.graph.schema import FOLLOWS_TAG
from shoal.i18n import words_in
from shoal.queries.suggestions import SuggestionReason, portfolios
from shoal.web.view_models import suggestion_reason
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    """A network with photos of three members."""
    with network_fixture() as made:
        for name, tag, color in (("ann", "dawn", "red"), ("ben", "tide", "navy"), ("cyd", "dawn", "green")):
            author = member(made, name)
            for n in range(4):
                photo = made.run(media.upload(made.writes, author.id, picture(48, 32, color)))
                made.run(posts.create(made.writes, author.id, Draft(text=f"{name} {n} #{tag}", media=(photo.id,))))
        made.settle()
        yield made


def followed(here: NetworkFixture, of: Member) -> set[str]:
    """Return the tags that a member follows."""
    return {row.data.decode() for row in here.run(here.graph.assoc_range(of.id, FOLLOWS_TAG, Cursor(limit=100)))}


def test_welcome_steps_pick_tags_follow_members_and_fill_home(here: NetworkFixture) -> None:
    new = member(here, "dee")
    page = visitor(here, "dee").open("/welcome")
    assert (page.path, [step.get_text(" ", strip=True) for step in page.html.select("nav.steps li")]) == (
        "/welcome/interests",
        ["1 Interests", "2 People", "3 You", "4 Post"],
    )
    assert [str(image["alt"]) for image in page.html.select(".tag-tile img")] == ["", ""]
    page = page.press("Continue", tags=["dawn"])
    assert here.run(personalization_of(here.graph, new.id)).feedback.picked == ("dawn",)
    assert followed(here, new) == {"dawn"}
    assert page.path == "/welcome/people"
    assert {f"@{name}" in page.text for name in ("ann", "ben", "cyd")} == {True}
    assert "#dawn" in page.text
    assert len(page.html.select(".three")[0].find_all("img")) == 3
    page = page.press("Follow all")
    assert page.path == "/welcome/profile"
    page = page.press("Continue", display_name="Dee", note="Walks at #dawn", files={"avatar": ("a.png", picture())})
    assert page.path == "/welcome/first"
    found = here.run(members.find(here.writes, "dee"))
    assert found is not None
    assert (found.display_name, found.note, bool(found.avatar)) == ("Dee", "Walks at #dawn", True)
    assert page.links("New post")[0]["href"] == "/compose"
    here.settle()
    ranked = page.follow("See your feed")
    assert (ranked.path, len(ranked.posts)) == ("/for-you", 12)
    assert len(visitor(here, "dee").open("/").posts) == 12


def test_welcome_interests_typed_tags_are_followed_and_removed_ones_unfollowed(here: NetworkFixture) -> None:
    new = member(here, "jil")
    browser = visitor(here, "jil")
    browser.open("/welcome/interests").press("Continue", tags=["dawn"], more="#Film, fog dawn")
    assert followed(here, new) == {"dawn", "film", "fog"}
    page = browser.open("/welcome/interests")
    ticked = {str(box["value"]) for box in page.html.select("input[type=checkbox][checked]")}
    assert ticked == {"dawn", "film", "fog"}
    page = page.press("Continue", tags=["fog", "tide"], more="two!words")
    assert (page.status, page.field("Other tags")["value"]) == (422, "two!words")
    assert "a tag is 1 to" in page.one("#more-wrong").text.lower()
    assert {str(box["value"]) for box in page.html.select("input[type=checkbox][checked]")} == {"fog", "tide"}
    assert followed(here, new) == {"dawn", "film", "fog"}
    page.press("Continue", more="")
    assert followed(here, new) == {"fog", "tide"}
    assert here.run(personalization_of(here.graph, new.id)).feedback.picked == ("tide", "fog")


def test_welcome_steps_when_skipped_leave_popular_photos_on_home(here: NetworkFixture) -> None:
    new = member(here, "eve")
    page = visitor(here, "eve").open("/welcome/interests").follow("Not now")
    assert page.path == "/welcome/people"
    page = page.follow("Continue").follow("Not now")
    assert len(page.photos) == 12
    assert page.follow("See your feed").posts
    home = visitor(here, "eve").open("/")
    assert len(home.html.select(".photo-rows .photo")) == 12
    assert home.links("Find people")[0]["href"] == "/welcome/people"
    assert here.run(personalization_of(here.graph, new.id)).feedback.picked == ()


def test_home_of_new_member_who_skipped_the_welcome_steps_ends_with_them(here: NetworkFixture) -> None:
    member(here, "pam")
    browser = visitor(here, "pam")
    browser.open("/@ann").press("Follow")
    here.settle()
    home = browser.open("/")
    assert home.posts != []
    assert home.follow("Set up your profile").path == "/welcome/profile"
    browser.open("/welcome/profile").press("Continue", display_name="Pam")
    assert "Set up your profile" not in browser.open("/").text


def test_home_with_interests_and_without_followees_shows_posts_with_followed_tags(here: NetworkFixture) -> None:
    member(here, "nia")
    visitor(here, "nia").open("/welcome/interests").press("Continue", tags=["dawn"])
    here.settle()
    home = visitor(here, "nia").open("/")
    assert {str(post.select(".byline a")[0]["href"]) for post in home.posts} == {"/@ann", "/@cyd"}


def test_home_without_followees_and_tags_shows_photos_and_suggestions(here: NetworkFixture) -> None:
    member(here, "kim")
    home = visitor(here, "kim").open("/")
    assert [section.h2.get_text() for section in home.html.select("section:has(> .photo-rows)") if section.h2] == [
        "Popular now"
    ]
    assert {"@ann", "@ben", "@cyd"} <= set(home.text.split())
    home.press("Follow", home.one("#feed .suggested-person"))
    assert visitor(here, "kim").open("/").posts != []


@pytest.mark.parametrize("path", ["/", "/for-you"])
def test_home_and_for_you_of_empty_network_invite_to_post(path: str) -> None:
    with network_fixture() as alone:
        member(alone, "ann")
        page = visitor(alone, "ann").open(path)
        assert "Post the first photo" in page.text
        assert page.one("main").find("a", string="New post")["href"] == "/compose"  # type: ignore[index]


@pytest.mark.parametrize("path", ["/", "/for-you"])
def test_home_and_for_you_of_new_member_without_posts_lead_to_the_welcome_steps(path: str) -> None:
    with network_fixture() as quiet:
        member(quiet, "ann")
        member(quiet, "cyd")
        visitor(quiet, "cyd").open("/compose").press("Post", text="hi", visibility="private")
        page = visitor(quiet, "ann").open(path)
        assert page.status == 200
        assert "@cyd" in page.text
        assert page.follow("Set up your profile").path == "/welcome/profile"


def test_welcome_people_dismissed_suggestion_is_not_shown_again(here: NetworkFixture) -> None:
    member(here, "fay")
    page = visitor(here, "fay").open("/welcome/people")
    assert "@ben" in page.text
    page = page.press("Dismiss suggestion of ben")
    assert ("@ben" in page.text, "@ann" in page.text) == (False, True)


def test_welcome_profile_with_invalid_name_or_picture_shows_field_error(here: NetworkFixture) -> None:
    member(here, "gus")
    page = visitor(here, "gus").open("/welcome/profile").press("Continue", display_name="g" * 101, note="Still here")
    assert (page.status, "the maximum is 100" in page.text, "Still here" in page.text) == (422, True, True)
    assert page.field("Name")["aria-invalid"] == "true"
    page = page.press("Continue", display_name="Gus", files={"avatar": ("a.png", b"no picture")})
    assert page.status == 422
    assert page.html.find(id="avatar-wrong") is not None


def test_welcome_steps_in_empty_network_offer_tags_to_type_and_invitations() -> None:
    with network_fixture(invitations="members") as empty:
        ann = member(empty, "ann")
        page = visitor(empty, "ann").open("/welcome").press("Continue", more="film")
        assert followed(empty, ann) == {"film"}
        assert "You are among the first members" in page.text
        assert page.links("Invite friends")[0]["href"] == "/settings/invitations"
        last = page.follow("Continue").press("Continue")
        assert (last.path, last.follow("See your feed").status) == ("/welcome/first", 200)


@pytest.mark.parametrize("path", ["/welcome", "/welcome/people", "/welcome/profile", "/welcome/first"])
def test_welcome_pages_redirect_anonymous_visitors_to_login(here: NetworkFixture, path: str) -> None:
    assert visitor(here).open(path).path.startswith("/login?to=")


def test_portfolio_contains_only_public_photos_newest_first(here: NetworkFixture) -> None:
    ann, viewer = member(here, "hal"), member(here, "ivy")
    made = []
    for n, text in enumerate(("old", "", "new")):
        photo = here.run(media.upload(here.writes, ann.id, picture(20 + n, 20)))
        made.append(here.run(posts.create(here.writes, ann.id, Draft(text=text, media=(photo.id,)))))
    here.run(posts.create(here.writes, ann.id, Draft(text="without a photo")))
    photo = here.run(media.upload(here.writes, ann.id, picture(9, 9)))
    here.run(posts.create(here.writes, ann.id, Draft(text="covered", media=(photo.id,), sensitive=True)))
    here.settle()
    found = here.run(portfolios(here.network.reads, viewer.id, [ann.id, viewer.id], each=2))
    assert {id_: [entry.id for entry in entries] for id_, entries in found.items()} == {
        ann.id: [made[2].id, made[1].id]
    }
    here.run(relationships.block(here.writes, ann.id, viewer.id))
    assert here.run(portfolios(here.network.reads, viewer.id, [ann.id])) == {}


def test_suggested_member_has_reason_in_language_of_page(here: NetworkFixture) -> None:
    ann, ben = member(here, "ann_r"), member(here, "ben_r")
    here.run(relationships.follow(here.writes, ben.id, ann.id))
    here.settle()
    assert "Folgt dir" in visitor(here, "ann_r", language="de").open("/welcome/people").text
    assert "Follows you" in visitor(here, "ann_r").open("/welcome/people").text


@pytest.mark.parametrize(
    ("source", "number", "named", "words"),
    [
        ("friends", 1, ("cyd",), "Suivi par @cyd, que vous connaissez"),
        ("friends", 3, ("cyd",), "Suivi par @cyd et 2 autres personnes que vous connaissez"),
        ("friends", 1, (), "Suivi par 1 personne que vous connaissez"),
        ("followers", 12, (), "Suivi par 12 membres"),
        ("liked", 2, (), "Vous avez aimé 2 de ses publications"),
        ("liked", 0, (), "Vous avez partagé ou enregistré ses publications, ou y avez répondu"),
        ("tags", 2, ("sea", "ice"), "Publications avec #sea, #ice"),
        ("nearby", 12, ("Nice",), "Publications à environ 12 km"),
        ("nearby", 0, ("Nice",), "Près de Nice"),
    ],
)
def test_reason_of_suggestion_is_translated(source: str, number: float, named: tuple[str, ...], words: str) -> None:
    reason = SuggestionReason(source, number, 1.0, 1.0, 1.0, "", named=named)
    text = suggestion_reason(words_in("fr"), reason)
    assert text.translate(dict.fromkeys(map(ord, "\u2066\u2067\u2068\u2069"))).replace("\xa0", " ") == words
