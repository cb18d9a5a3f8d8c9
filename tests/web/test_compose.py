"""The compose form without scripts: files, descriptions, order and other fields; refused forms keep all values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bs4 import Tag
from msgspec.structs import replace as changed

from shoal.commands import members, polls, posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.model import Media, Member, Post, ScheduledPost, Visibility
from shoal.core.places import Place
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.schema import OWNS, POSTED
from shoal.queries.posts import waiting
from shoal.scheduler import Agenda
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import Page, Visitor, member, visitor


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkFixture]:
    # SQLite rejects numbers of custom types, unlike the memory store.
    with network_fixture(store=f"sqlite:///{tmp_path_factory.mktemp('here')}/shoal.db") as made:
        yield made


def newest(here: NetworkFixture, author: Member) -> Post:
    """Return the newest post of a member."""
    entry = here.run(here.network.store.assoc_range(author.id, POSTED, Cursor(limit=1)))[0]
    node = here.run(here.network.store.obj_get((entry.id2,)))[entry.id2]
    assert isinstance(node, Post)
    return node


def media_of(here: NetworkFixture, post: Post) -> list[Media]:
    nodes = here.run(here.network.store.obj_get(post.media))
    return [node for id_ in post.media if isinstance(node := nodes[id_], Media)]


def files(*names: str, data: bytes = b"") -> list[tuple[str, object]]:
    return [("files[]", (name, data or picture())) for name in names]


def describe(page: Page, *texts: str) -> None:
    """Fill in the descriptions of the pictures, in order."""
    fields = page.html.find_all("textarea", attrs={"name": "pictures[][description]"})
    for field, text in zip(fields, texts, strict=True):
        field.string = text


def card(page: Page, n: int) -> Tag:
    found = page.html.find_all("li", class_="picture")[n]
    assert isinstance(found, Tag)
    return found


def test_compose_form_without_script_describes_orders_and_posts_pictures(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    form = visitor(here, "ann").open("/compose")
    page = form.press("Upload", files=files("one.jpg", "two.jpg"), text="Low tide", visibility="unlisted")
    assert (page.status, page.field("Text").text) == (200, "Low tide")
    describe(page, "A harbour", "A boat")
    page = page.press("Move later", card(page, 0))
    assert [field.text for field in page.html.find_all("textarea", attrs={"name": "pictures[][description]"})] == [
        "A boat",
        "A harbour",
    ]
    for name, percent in (("across", 0), ("down", 100)):
        slider = card(page, 0).find("input", attrs={"name": f"pictures[][{name}]"})
        assert isinstance(slider, Tag)
        slider["value"] = str(percent)
    done = page.press("Post")
    post = newest(here, ann)
    assert done.path == f"/@ann/{post.id}"
    assert (post.text, post.visibility) == ("Low tide", Visibility.UNLISTED)
    assert [(one.description, one.focus) for one in media_of(here, post)] == [
        ("A boat", (-1.0, -1.0)),
        ("A harbour", (0.0, 0.0)),
    ]


def test_compose_form_asks_once_for_missing_picture_description(here: NetworkFixture) -> None:
    ben = member(here, "ben")
    page = visitor(here, "ben").open("/compose").press("Post", files=files("one.jpg"), text="Nothing said")
    assert page.status == 422
    assert "One picture has no description" in page.text
    assert page.field("Text").text == "Nothing said"
    done = page.press("Post without descriptions")
    assert done.path == f"/@ben/{newest(here, ben).id}"


def test_compose_form_without_script_refuses_eleven_photos_and_keeps_them(here: NetworkFixture) -> None:
    member(here, "abe")
    form = visitor(here, "abe").open("/compose")
    page = form.press("Post", files=files(*(f"{n}.jpg" for n in range(11))), text="Eleven")
    page = page.press("Post without descriptions")
    assert page.status == 422
    assert "A post can have up to 10 photos (got 11)." in page.one(".files").text
    assert (len(page.texts("picture")), page.field("Text").text) == (11, "Eleven")
    done = page.press("Remove", card(page, 0)).press("Post").press("Post without descriptions")
    assert len(done.html.select("article .photos img")) == 10


def test_compose_form_opens_the_first_picture_that_lacks_a_description(here: NetworkFixture) -> None:
    member(here, "bea")
    page = visitor(here, "bea").open("/compose").press("Upload", files=files("1.jpg", "2.jpg", "3.jpg"))
    assert not page.html.select(".picture > details[open]")
    describe(page, "A harbour", "", "")
    page = page.press("Post")
    assert [card(page, n).select_one("details[open]") is not None for n in range(3)] == [False, True, False]
    assert page.text.count("A sentence is enough.") == 2


def test_compose_form_shows_the_value_of_each_option_in_its_chip(here: NetworkFixture) -> None:
    member(here, "cal")
    page = visitor(here, "cal").open("/compose")
    assert page.texts("option-value") == ["Public", "", "", "", "", "", ""]
    typed: dict[str, Any] = {
        "spoiler": "Riddle",
        "options": ["Here", "There", "", ""],
        "at": "2030-05-01T18:30",
        "language": "de",
    }
    page = page.press("Upload", text="Where?", visibility="unlisted", place="47.38, 8.54", **typed)
    assert page.texts("option-value") == [
        "Unlisted",
        "47.38, 8.54",
        "Riddle",
        "Here / There",
        "2030-05-01 18:30",
        "German",
        "",
    ]
    assert not page.html.select(".option[open]")
    refused = page.press("Post", place="91, 0")
    assert [one.select_one("#place") is not None for one in refused.html.select(".option[open]")] == [True]


def test_compose_form_remembers_disabled_description_reminder(here: NetworkFixture) -> None:
    cyd = member(here, "cyd")
    browser = visitor(here, "cyd")
    form = browser.open("/compose")
    box = form.html.find("input", attrs={"name": "asks"})
    assert isinstance(box, Tag)
    assert box.has_attr("checked")
    del box["checked"]
    assert form.press("Post", files=files("one.jpg")).path == f"/@cyd/{newest(here, cyd).id}"
    again = browser.open("/compose").html.find("input", attrs={"name": "asks"})
    assert isinstance(again, Tag)
    assert not again.has_attr("checked")


def test_compose_form_names_rejected_file_with_reason_and_keeps_others(here: NetworkFixture) -> None:
    member(here, "dan")
    sent = [*files("good.jpg"), *files("letter.jpg", data=b"Dear Ann, this is a letter.")]
    page = visitor(here, "dan").open("/compose").press("Post", files=sent, text="Both")
    assert page.status == 422
    assert "letter.jpg : The type of this file is not supported: use JPEG, PNG, GIF, WebP, AVIF" in page.text
    assert (len(page.texts("picture")), page.field("Text").text) == (1, "Both")


def test_compose_form_when_refused_keeps_all_values_and_shows_error(here: NetworkFixture) -> None:
    member(here, "eve")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    page = (
        visitor(here, "eve")
        .open("/compose")
        .press(
            "Post",
            text="Where am I?",
            spoiler="Riddle",
            place="north, 8",
            options=["Here", "There", "", ""],
            seconds=3600,
            language="de",
            visibility="followers",
            at=tomorrow,
            zone="Europe/Berlin",
        )
    )
    assert page.status == 422
    assert "Enter latitude and longitude in degrees, such as 45.44, 12.32." in page.text
    values = {
        str(one.get("name")): one.get("value") for one in page.html.find_all("input") if one.get("type") != "radio"
    }
    assert (values["spoiler"], values["place"], values["at"], values["zone"]) == (
        "Riddle",
        "north, 8",
        tomorrow,
        "Europe/Berlin",
    )
    chosen = [str(one["value"]) for one in page.html.find_all(["option", "input"]) if one.has_attr("selected")]
    assert chosen == ["3600", "de", "all-rights-reserved"]
    radio = page.html.find("input", attrs={"type": "radio", "checked": True})
    assert isinstance(radio, Tag)
    assert radio["value"] == "followers"
    done = page.press("Post", place="47,38; 8.54")
    assert done.path == "/scheduled"
    assert "Where am I?" in done.text


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"text": " "}, "Write something or add a picture."),
        ({"text": "x" * 5_001}, "has 5001 characters; the maximum is 5000"),
        ({"text": "a", "place": "91, 0"}, "Latitude is -90 to 90"),
        ({"text": "a", "options": ["one"], "seconds": 3600}, "Options must have more than one item"),
        ({"text": "a", "at": "soon"}, "A time is written like"),
        ({"text": "a", "at": "2030-01-01T10:00", "zone": "Mars/Olympus"}, "This time zone is not known"),
        ({"text": "a", "at": "2030-01-01T10:00", "zone": "../../etc/passwd"}, "This time zone is not known"),
        ({"text": "a", "at": "2020-01-01T10:00"}, "must be at least 5 minutes in the future"),
        ({"text": "a", "spoiler": "x" * 501}, "This has 501 characters"),
    ],
)
def test_compose_form_with_invalid_field_shows_error_message(
    here: NetworkFixture, typed: dict[str, Any], says: str
) -> None:
    browser = visitor(here, _somebody(here))
    page = browser.open("/compose").press("Post", **typed)
    assert page.status == 422
    assert says in page.text


def _somebody(here: NetworkFixture) -> str:
    if here.run(members.find(here.writes, "fay")) is None:
        member(here, "fay")
    return "fay"


def test_compose_form_saves_poll_content_warning_language_and_place(here: NetworkFixture) -> None:
    gus = member(here, "gus")
    form = visitor(here, "gus").open("/compose?tag=dawn")
    assert form.field("Text").text == "#dawn"
    form.press(
        "Post",
        text="When? #dawn",
        spoiler="Early",
        options=["At five", "At six", "", ""],
        seconds=21_600,
        multiple="true",
        language="en",
        place="47.38, 8.54",
    )
    post = newest(here, gus)
    poll = here.run(polls.poll_of(here.network.store, post))
    assert poll is not None
    assert ([option.title for option in poll.options], poll.multiple) == (["At five", "At six"], True)
    assert 21_600_000 - 1_000 <= poll.expires_at - post.created_at <= 21_600_000 + 1_000
    assert (post.spoiler, post.language, post.sensitive) == ("Early", "en", True)
    assert isinstance(post.place, Place)
    assert round(post.place.latitude, 2) == 47.38


def test_compose_form_sent_twice_creates_one_post(here: NetworkFixture) -> None:
    hal = member(here, "hal")
    form = visitor(here, "hal").open("/compose")
    assert form.press("Post", text="Once").path == form.press("Post", text="Once").path
    assert len(here.run(here.network.store.assoc_range(hal.id, POSTED, Cursor(limit=9)))) == 1


def test_scheduled_post_is_listed_rescheduled_edited_and_cancelled(here: NetworkFixture) -> None:
    ivy = member(here, "ivy")
    browser = visitor(here, "ivy")
    assert "No scheduled posts" in browser.open("/scheduled").text
    page = browser.open("/compose").press("Post", text="Later", at="2030-05-01T18:30", zone="Europe/Berlin")
    assert page.path == "/scheduled"
    assert "May 1, 2030" in page.text
    moved = page.press("Reschedule", at="2030-06-01T10:00", zone="UTC")
    assert "June 1, 2030" in moved.text
    wrong = moved.press("Reschedule", at="2001-06-01T10:00")
    assert wrong.status == 422
    assert "at least 5 minutes in the future" in wrong.text
    again = moved.follow("Edit")
    assert (again.field("Text").text, again.field("Publish at")["value"]) == ("Later", "2030-06-01T10:00")
    done = again.press("Post", text="Later, and better")
    assert "Later, and better" in done.text
    (plan,) = here.run(waiting(here.network.store, ivy.id, Cursor(limit=9))).posts
    assert isinstance(plan, ScheduledPost)
    assert "No scheduled posts" in done.press("Cancel post").text
    # Other members cannot cancel it.
    member(here, "jim")
    other = visitor(here, "jim")
    token = other.open("/compose").form_token
    answer = other.post(f"/scheduled/{plan.id}", [("form_token", token), ("do", "cancel")])
    assert answer.status == 404


def test_scheduled_post_that_failed_to_publish_shows_reason(here: NetworkFixture) -> None:
    member(here, "una")
    browser = visitor(here, "una")
    browser.open("/compose").press("Post", text="x" * 400, at="2030-05-01T18:30", zone="UTC")
    assert "Not published" not in browser.open("/scheduled").text
    small = replace(here.network.writes, limits=changed(here.writes.limits, text=300))
    then = int(datetime(2030, 5, 1, 19, tzinfo=UTC).timestamp() * 1000)
    here.run(Agenda(small, clock=lambda: then).once())
    here.run(here.network.settle())
    page = browser.open("/scheduled")
    assert "Not published: This has 400 characters; the maximum is 300." in page.text
    notices = browser.open("/notifications")
    assert "Your scheduled post could not be published" in notices.text
    assert "This has 400 characters; the maximum is 300." in notices.text
    moved = page.press("Reschedule", at="2030-06-01T10:00", zone="UTC")
    assert "Not published" not in moved.text
    assert "could not be published" not in browser.open("/notifications").text
    moved.press("Cancel post")


def test_compose_form_uses_default_visibility_and_language_of_member(here: NetworkFixture) -> None:
    kim = member(here, "kim")
    here.run(
        members.update_profile(
            here.writes, kim.id, ProfileChange(default_visibility=Visibility.FOLLOWERS, default_language="fr")
        )
    )
    page = visitor(here, "kim").open("/compose?text=Hello")
    chosen = [
        str(one["value"]) for one in page.html.find_all("input", attrs={"type": "radio"}) if one.has_attr("checked")
    ]
    assert (chosen, page.field("Text").text) == (["followers"], "Hello")
    assert "French" in page.text


def test_compose_form_requires_login_and_form_token(here: NetworkFixture) -> None:
    assert visitor(here).open("/compose").path == "/login?to=%2Fcompose"
    member(here, "leo")
    answer = visitor(here, "leo").post("/compose", [("text", "No token")])
    assert answer.status == 403
    assert "has expired" in answer.text


def test_file_upload_forms_refuse_anonymous_uploads(here: NetworkFixture) -> None:
    stranger = visitor(here)
    before = here.files()
    for path in ("/compose", "/compose/files", "/settings/profile", "/settings/contacts"):
        answer = stranger.post(path, [("form_token", "x")], {"file": ("large.jpg", bytes(300_000))})
        assert answer.status == 401, path
        assert "Please log in" in answer.text
        small = stranger.post(path, [("form_token", "x")], {"file": ("small.jpg", bytes(300))})
        assert small.path.startswith("/login"), path
    assert here.files() == before


def test_compose_form_uploads_count_against_media_rate_limit() -> None:
    with network_fixture(rate_limits=True, limits={"media": "3/1h"}) as slow:
        quy = member(slow, "quy")
        browser = visitor(slow, "quy")
        page = browser.open("/compose").press("Post", files=files(*(f"{n}.jpg" for n in range(5))), text="Five")
        assert page.status == 422
        assert page.text.count("You uploaded many files. Please wait a few minutes.") == 2
        assert len(media_of_member(slow, quy)) == 3


def media_of_member(here: NetworkFixture, owner: Member) -> list[Assoc]:
    return here.run(here.network.store.assoc_range(owner.id, OWNS, Cursor(limit=10)))


def test_compose_form_with_media_of_other_member_is_refused(here: NetworkFixture) -> None:
    mia, ned = member(here, "mia"), member(here, "ned")
    browser = visitor(here, "mia")
    browser.open("/compose").press("Post", files=files("one.jpg"), text="Mine").press("Post without descriptions")
    (theirs,) = media_of(here, newest(here, mia))
    other = visitor(here, "ned")
    assert other.open(f"/compose/files/{theirs.id}").status == 404
    token = other.open("/compose").form_token
    fields = [("form_token", token), ("text", "Not mine"), ("pictures[][id]", str(theirs.id)), ("do", "anyway")]
    answer = other.post("/compose", fields)
    assert answer.status == 422
    assert "A picture, or the post you are replying to, no longer exists" in answer.text
    assert here.run(here.network.store.assoc_range(ned.id, POSTED, Cursor(limit=1))) == []


def test_compose_form_draft_with_deleted_file_shows_message(here: NetworkFixture) -> None:
    member(here, "ole")
    browser = visitor(here, "ole")
    token = browser.open("/compose").form_token
    fields = [("form_token", token), ("text", "Old"), ("pictures[][id]", "123456789"), ("do", "add")]
    assert "files that are not in a post are kept for one day only" in browser.post("/compose", fields).text


def test_compose_form_file_upload_by_script_returns_card_or_error(here: NetworkFixture) -> None:
    member(here, "pam")
    browser = visitor(here, "pam")
    token = browser.open("/compose").form_token
    good = browser.post("/compose/files", [("form_token", token)], {"file": ("one.jpg", picture())})
    assert (good.status, len(good.html.find_all("li", class_="picture"))) == (200, 1)
    number = str(good.html.find("input", attrs={"name": "pictures[][id]"})["value"])  # type: ignore[index]
    assert "description" in browser.open(f"/compose/files/{number}").answer.text
    state = browser.open(f"/compose/files/{number}?only=state").html
    assert state.find("img") is not None
    assert state.find("textarea") is None
    bad = browser.post("/compose/files", [("form_token", token)], {"file": ("bad.jpg", b"nothing")})
    assert bad.status == 422
    assert "type of this file is not supported" in bad.answer.text


def test_compose_autocomplete_offers_tags_and_members(here: NetworkFixture) -> None:
    quin = member(here, "quin", display_name="Quin Quayside")
    here.run(posts.create(here.writes, quin.id, Draft(text="Out #harbour #harvest")))
    here.run(posts.create(here.writes, quin.id, Draft(text="In #harbour")))
    here.settle()
    browser: Visitor = visitor(here, "quin")
    tags = browser.open("/compose/words?q=%23harb").html
    assert [str(one["data-word"]) for one in tags.find_all("li")] == ["#harbour"]
    people = browser.open("/compose/words?q=%40qui").html
    assert [str(one["data-word"]) for one in people.find_all("li")] == ["@quin"]
    assert "Quin Quayside" in people.text
    assert browser.open("/compose/words?q=%40").html.find_all("li") == []
    assert browser.open("/compose/words?q=%23").html.find_all("li") == []
    assert visitor(here).open("/compose/words?q=%40qui").path.startswith("/login")


@pytest.mark.parametrize(
    ("path", "field"),
    [("/compose", "#files"), ("/settings/profile", "#avatar"), ("/welcome/profile", "#header, #avatar")],
)
def test_file_picker_accept_types_match_server_media_types(here: NetworkFixture, path: str, field: str) -> None:
    member(here, f"picks{len(path)}")
    instance = here.ask("GET", "/api/v2/instance").json()
    accepted = instance["configuration"]["media_attachments"]["supported_mime_types"]
    offered = str(visitor(here, f"picks{len(path)}").open(path).one(field)["accept"]).split(",")
    pictures = [kind for kind in accepted if kind.startswith("image/")]
    assert offered == (accepted if path == "/compose" else pictures)
