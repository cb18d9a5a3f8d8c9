"""The settings pages without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from shoal.commands import members, oauth, ranking, relationships
from shoal.core.model import Member, NoticePolicy, Treatment, Visibility
from shoal.core.places import PlacePrecision
from shoal.graph.payloads.members import personalization_of
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import PASSWORD, Visitor, member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        member(made, "ann")
        yield made


@pytest.fixture(scope="module")
def ann(here: NetworkFixture) -> Visitor:
    """The browser of Ann."""
    return visitor(here, "ann")


def now(here: NetworkFixture, name: str = "ann") -> Member:
    """Return the current state of a member."""
    found = here.run(members.find(here.writes, name))
    assert found is not None
    return found


def test_settings_overview_and_navigation_link_to_all_pages(here: NetworkFixture, ann: Visitor) -> None:
    overview = ann.open("/").follow("Settings")
    paths = [str(link["href"]) for link in overview.html.select("main .menu-link")]
    assert len(paths) == 18
    for path in paths:
        page = ann.open(path)
        assert page.status == 200, path
        assert [str(link["href"]) for link in page.html.select("nav.settings-menu li a")] == paths
        assert [str(link["href"]) for link in page.html.select("nav.settings-menu [aria-current]")] == [path]
        assert page.html.find("h1") is not None
        assert len(page.html.find_all("h1")) == 1
        for field in page.html.select("main input:not([type=hidden]), main select, main textarea"):
            named = (
                field.find_parent("label")
                or field.get("aria-label")
                or page.html.find("label", attrs={"for": str(field.get("id"))})
            )
            assert named or field.get("aria-hidden"), f"{path}: {field} has no name"


@pytest.mark.parametrize(
    ("query", "language", "found"),
    [
        ("password", "en", {"/settings/password": "Change your password"}),
        ("E-MAIL find", "en", {"/settings/privacy": "Let people find me by my e-mail address"}),
        ("half-life", "en", {"/settings/ranking": "Recency half-life"}),
        ("passwort ändern", "de", {"/settings/password": "Passwort ändern"}),
        ("xylophone", "en", {}),
    ],
)
def test_settings_search_finds_titles_hints_and_labels(
    here: NetworkFixture, query: str, language: str, found: dict[str, str]
) -> None:
    browser = visitor(here, "ann", language)
    form = browser.open("/settings/filters").one("form.settings-search")
    page = browser.open(f"{form['action']}?{urlencode({'q': query})}")
    rows = {str(row["href"]): row.select(".hint")[0].get_text() for row in page.html.select("main .menu-link")}
    assert found.items() <= rows.items()
    assert bool(rows) == bool(found)
    assert page.one("main input[type=search]")["value"] == query
    assert page.one("nav.settings-menu [aria-current]")["href"] == "/settings"


def test_settings_search_finds_each_field_of_each_page_by_its_label(here: NetworkFixture, ann: Visitor) -> None:
    missed = []
    for link in ann.open("/settings").html.select("main .menu-link"):
        path = str(link["href"])
        for label in ann.open(path).html.select("main .field > label, main .check-field > .check > span, main h2"):
            words = " ".join(label.get_text(" ").split())
            if words.endswith(".") or len(words) > 60 or label.find_parent(class_="settings-menu"):
                continue
            rows = {
                str(row["href"])
                for row in ann.open(f"/settings?{urlencode({'q': words})}").html.select("main .menu-link")
            }
            if path not in rows:
                missed.append(f"{path}: {words}")
    assert missed == []


def test_profile_settings_save_pictures_and_fields(here: NetworkFixture, ann: Visitor) -> None:
    files = {"avatar": ("a.png", picture(40, 40)), "header": ("h.png", picture(90, 30))}
    fields: dict[str, Any] = {
        "fields[0][name]": "Camera",
        "fields[0][value]": "A box",
        "fields[2][name]": "Place",
        "fields[2][value]": "The sea",
    }
    page = ann.open("/settings/profile").press("Save", display_name="Ann", note="By the sea", files=files, **fields)
    assert (page.status, "Saved." in page.text) == (200, True)
    member = now(here)
    assert (member.display_name, member.note, bool(member.avatar), bool(member.header)) == (
        "Ann",
        "By the sea",
        True,
        True,
    )
    assert [(one.name, one.value) for one in member.fields] == [("Camera", "A box"), ("Place", "The sea")]
    assert page.field("Name")["value"] == "Ann"
    page = page.press("Remove header image")
    assert (bool(now(here).avatar), bool(now(here).header)) == (True, False)
    assert "Remove header image" not in page.text


def test_profile_settings_with_invalid_values_show_field_errors_and_keep_input(
    here: NetworkFixture, ann: Visitor
) -> None:
    page = ann.open("/settings/profile").press(
        "Save", display_name="Annie", note="n" * 501, files={"header": ("h.png", b"nothing")}
    )
    assert page.status == 422
    assert "the maximum is 500" in str(page.html.find(id="note-wrong"))
    assert "type of this file is not supported" in str(page.html.find(id="header-wrong"))
    assert page.field("Name")["value"] == "Annie"
    assert page.field("Bio").text.strip() == "n" * 501


def test_privacy_settings_save_checked_options(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/privacy").press(
        "Save",
        locked="true",
        discoverable=[],
        indexable=[],
        rankable=[],
        findable_by_email="true",
        place_precision="10km",
    )
    assert "Saved." in page.text
    member = now(here)
    assert (member.locked, member.discoverable, member.indexable, member.rankable) == (True, False, False, False)
    assert (member.findable_by_email, member.place_precision) == (True, PlacePrecision.KM10)
    page.press("Save", locked=[], discoverable="true", indexable="true", rankable="true", findable_by_email=[])
    member = now(here)
    assert (member.locked, member.discoverable, member.findable_by_email) == (False, True, False)


def test_privacy_settings_find_by_email_without_address_is_refused(here: NetworkFixture) -> None:
    here.run(members.register(here.writes, "noemail", password=PASSWORD))
    page = visitor(here, "noemail").open("/settings/privacy").press("Save", findable_by_email="true")
    assert (page.status, "has no e-mail address" in page.text) == (422, True)
    assert page.field("Let people find me by my e-mail address").has_attr("checked")


def test_posting_settings_save_default_visibility_sensitivity_and_language(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/posting")
    page = page.press("Save", default_visibility="followers", default_sensitive="true", default_language="de")
    member = now(here)
    assert (member.default_visibility, member.default_sensitive, member.default_language) == (
        Visibility.FOLLOWERS,
        True,
        "de",
    )
    page.press("Save", default_visibility="public", default_sensitive=[], default_language="")
    assert now(here).default_visibility is Visibility.PUBLIC


def test_notification_settings_save_policy_for_five_kinds(here: NetworkFixture, ann: Visitor) -> None:
    page = ann.open("/settings/notifications")
    page = page.press("Save", not_following="filter", private_mentions="drop")
    chosen = {str(one["name"]): str(one["value"]) for one in page.html.select("main input[type=radio][checked]")}
    assert now(here).notices == NoticePolicy(not_following=Treatment.FILTER, private_mentions=Treatment.DROP)
    assert [chosen[name] for name in NoticePolicy.__struct_fields__] == ["filter", "accept", "accept", "drop", "accept"]


def test_appearance_settings_apply_to_anonymous_browser(here: NetworkFixture) -> None:
    stranger = visitor(here)
    page = stranger.open("/settings/appearance")
    assert len(page.html.select("nav.settings-menu li")) == 1
    page = page.press("Save", scheme="dark", contrast="true", still="true", language="de")
    assert page.html.html is not None
    assert (page.html.html["class"], page.html.html["lang"]) == (["look-dark", "look-contrast", "look-still"], "de")
    assert (stranger.cookie("shoal_look"), stranger.cookie("shoal_language")) == ("dark-contrast-still", "de")
    page = stranger.open("/settings/appearance")
    page = page.press("Speichern", scheme="system", contrast=[], still=[], language="browser")
    assert page.html.html is not None
    assert (page.html.html["class"], page.html.html["lang"]) == ([], "en")
    assert (stranger.cookie("shoal_look"), stranger.cookie("shoal_language")) == ("", "")


def test_feedback_settings_list_and_remove_feedback(here: NetworkFixture, ann: Visitor) -> None:
    me, ben = now(here), member(here, "ben")
    for _ in range(2):
        here.run(ranking.tap_author(here.writes, me.id, ben.id, 1))
    here.run(ranking.tap_tag(here.writes, me.id, "dawn", -1))
    here.run(ranking.pick_tags(here.writes, me.id, ("tide",)))
    page = ann.open("/settings/feedback")
    assert "ben You asked for more (2 times)" in page.text
    assert "#dawn You asked for less" in page.text
    assert "#tide" in page.text
    page = page.press("Remove ben")
    assert "more" not in page.text
    page = page.press("Remove all")
    assert "No feedback yet" in page.text
    feedback = here.run(personalization_of(here.graph, me.id)).feedback
    assert (feedback.authors, feedback.tags, feedback.picked) == ({}, {}, ("tide",))


def test_settings_page_of_muted_and_blocked_members_unmutes_and_unblocks(here: NetworkFixture, ann: Visitor) -> None:
    me, cyd, dee = now(here), member(here, "cyd"), member(here, "dee")
    assert "No muted people" in ann.open("/settings/people").text
    here.run(relationships.mute(here.writes, me.id, cyd.id))
    here.run(relationships.block(here.writes, me.id, dee.id))
    page = ann.open("/settings/people")
    assert ("@cyd" in page.text, "@dee" in page.text) == (True, False)
    page = page.press("Unmute cyd")
    assert (page.path, "No muted people" in page.text) == ("/settings/people", True)
    page = page.follow("Blocked")
    assert "@dee" in page.text
    assert "No blocked people" in page.press("Unblock dee").text


def test_password_change_ends_other_sessions_and_keeps_current_session(here: NetworkFixture) -> None:
    member(here, "eve")
    one, other = visitor(here, "eve"), visitor(here, "eve")
    page = one.open("/settings/password")
    wrong = page.press("Change password", current_password="not it", new_password="another long one")
    assert (wrong.status, "Incorrect password" in wrong.text) == (422, True)
    short = page.press("Change password", current_password=PASSWORD, new_password="short")
    assert "8 to 1,024 characters" in str(short.html.find(id="new_password-wrong"))
    done = page.press("Change password", current_password=PASSWORD, new_password="another long one")
    assert (done.path, "Saved." in done.text) == ("/settings/password?saved=1", True)
    assert other.open("/settings").path == "/login?to=%2Fsettings"
    assert visitor(here).log_in("eve", "another long one").open("/settings").status == 200


def test_password_change_with_wrong_passwords_is_rate_limited() -> None:
    with network_fixture(rate_limits=True, limits={"account_guesses": "1/10m"}) as busy:
        member(busy, "ann")
        page = visitor(busy, "ann").open("/settings/password")
        for status in (422, 429):
            page = page.press("Change password", current_password="not it", new_password="another long one")
            assert page.status == status
        assert "Try again in" in page.text
        assert int(page.answer.headers["retry-after"]) > 0


def test_session_settings_end_single_or_all_other_sessions(here: NetworkFixture) -> None:
    fay = member(here, "fay")
    app = here.run(
        oauth.register(here.writes, "Tide", scopes=("read", "write:statuses"), website="https://tide.example")
    ).app
    here.run(oauth.issue_token(here.writes, app.id, fay.id, app.scopes))
    mine, second, third = (visitor(here, "fay") for _ in range(3))
    page = mine.open("/settings/sessions")
    assert "don't use them for 365 days" in page.text
    assert "python-httpx" not in page.text
    assert [item.b.text for item in page.html.select("li.session") if item.b] == [
        "A browser",
        "A browser",
        "This browser",
        "Tide",
    ]
    assert "post, edit, share and delete for you" in page.text
    assert page.text.count("This session") == 1
    page = page.press("Log out Tide")
    assert "Tide" not in page.text
    page = page.press("Log out other sessions")
    assert [item.b.text for item in page.html.select("li.session") if item.b] == ["This browser"]
    assert [one.open("/settings").path for one in (second, third)] == ["/login?to=%2Fsettings"] * 2


def test_session_of_other_member_returns_404(here: NetworkFixture, ann: Visitor) -> None:
    gus = member(here, "gus")
    token = here.run(
        oauth.issue_token(here.writes, here.run(oauth.register(here.writes, "Ebb")).app.id, gus.id, ("read",))
    ).token
    form_token = str(ann.open("/settings/sessions").html.find("input", attrs={"name": "form_token"})["value"])  # type: ignore[index]
    assert ann.post(f"/settings/sessions/{token.id}/end", [("form_token", form_token)]).status == 404


@pytest.mark.parametrize("path", ["", "/profile", "/ranking", "/filters/new", "/sessions", "/archive"])
def test_settings_pages_redirect_anonymous_visitors_to_login(here: NetworkFixture, path: str) -> None:
    assert visitor(here).open(f"/settings{path}").path.startswith("/login?to=%2Fsettings")


def test_settings_form_without_token_is_refused(here: NetworkFixture, ann: Visitor) -> None:
    assert ann.post("/settings/privacy", [("locked", "true")]).status == 403
    assert not now(here).locked


def test_profile_picture_too_large_is_refused() -> None:
    with network_fixture(max_upload_bytes=200_000) as small:
        member(small, "ann")
        page = visitor(small, "ann").open("/settings/profile")
        page = page.press("Save", files={"avatar": ("a.png", b"\x89PNG" + bytes(300_000))})
        assert page.status in {413, 422}
        assert not now(small).avatar
