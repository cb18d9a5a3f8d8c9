"""Admin API: accounts, account actions and the review of trends."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from shoal.commands import credentials, members, moderation
from shoal.core.model import Role
from shoal.queries import moderation as moderation_queries
from shoal.queries.context import Trending
from tests.api.in_memory_network import SCOPES, NetworkFixture, Someone, network_fixture, picture

ACCOUNTS = "/api/v1/admin/accounts"


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def mod(w: NetworkFixture) -> Someone:
    return w.staff("mo", Role.MODERATOR)


@pytest.fixture
def boss(w: NetworkFixture) -> Someone:
    return w.staff("boss", Role.ADMIN)


def act(w: NetworkFixture, who: Someone, on: Someone, kind: str) -> int:
    status = w.ask("POST", f"{ACCOUNTS}/{on.id}/action", who, json={"type": kind, "text": "why"}).status_code
    w.settle()
    return status


def names(found: Sequence[Any]) -> list[str]:
    return [one["username"] for one in found]


def test_admin_account_entity_has_exactly_expected_fields(w: NetworkFixture, mod: Someone) -> None:
    ann = w.run(members.register(w.network.writes, "ann", password="a long password", email="ann@example.org"))
    seen = w.json("GET", f"{ACCOUNTS}/{ann.id}", mod)
    account = seen.pop("account")
    assert account == w.json("GET", f"/api/v1/accounts/{ann.id}")
    assert seen == {
        "id": str(ann.id),
        "username": "ann",
        "domain": None,
        "created_at": account["created_at"],
        "email": "ann@example.org",
        "ip": None,
        "ips": [],
        "role": {"id": "-99", "name": "", "permissions": "0", "color": "", "highlighted": False},
        "confirmed": True,
        "suspended": False,
        "silenced": False,
        "disabled": False,
        "sensitized": False,
        "approved": True,
        "locale": None,
        "invite_request": None,
        "invited_by_account_id": None,
    }
    assert w.ask("GET", f"{ACCOUNTS}/1", mod).status_code == 404
    assert w.json("GET", "/api/v1/accounts/verify_credentials", mod)["role"]["name"] == "Moderator"


def test_account_suspension_can_be_lifted(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    assert act(w, mod, ann, "suspend") == 200
    assert w.ask("GET", f"/api/v1/accounts/{ann.id}").status_code == 410
    assert w.ask("GET", "/api/v1/timelines/home", ann).json() == {"error": "Your login is currently disabled"}
    assert w.json("GET", f"{ACCOUNTS}/{ann.id}", mod)["suspended"] is True
    assert w.json("POST", f"{ACCOUNTS}/{ann.id}/unsuspend", mod)["suspended"] is False
    assert w.ask("GET", "/api/v1/timelines/home", ann).status_code == 200


def test_disabled_account_cannot_log_in_and_its_posts_stay_public(w: NetworkFixture, mod: Someone) -> None:
    w.run(members.register(w.network.writes, "ben", password="a long password"))
    ann = w.join("ann")
    app = w.json("POST", "/api/v1/apps", data={"client_name": "x", "redirect_uris": "urn:x", "scopes": "read"})
    form = {**{key: app[key] for key in ("client_id", "client_secret")}, "grant_type": "password", "scope": "read"}
    login = {**form, "username": "ann", "password": "another password"}
    w.run(credentials.set_password(w.network.writes, ann.member.id, "another password"))
    ann = ann._replace(token=w.token(ann.app_id, ann.member.id))
    post = w.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})["id"]
    assert w.ask("POST", "/oauth/token", data=login).status_code == 200
    assert act(w, mod, ann, "disable") == 200
    assert w.ask("POST", "/api/v1/statuses", ann, json={"status": "x"}).status_code == 403
    assert w.ask("POST", "/oauth/token", data=login).status_code == 400
    assert w.ask("GET", f"/api/v1/statuses/{post}").status_code == 200
    assert w.json("POST", f"{ACCOUNTS}/{ann.id}/enable", mod)["disabled"] is False
    assert w.ask("POST", "/oauth/token", data=login).status_code == 200
    assert w.ask("POST", "/api/v1/statuses", ann, json={"status": "x"}).status_code == 200


def test_account_silence_can_be_lifted(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    assert act(w, mod, ann, "silence") == 200
    assert names(w.json("GET", f"{ACCOUNTS}?silenced=true", mod)) == ["ann"]
    assert w.json("POST", f"{ACCOUNTS}/{ann.id}/unsilence", mod)["silenced"] is False
    assert w.json("GET", f"{ACCOUNTS}?silenced=true", mod) == []


def test_media_of_sensitized_account_is_sensitive_until_undone(w: NetworkFixture, mod: Someone) -> None:
    ann, ben = w.join("ann"), w.join("ben")

    def post(text: str, **more: Any) -> str:
        return str(w.json("POST", "/api/v1/statuses", ann, json={"status": text, **more})["id"])

    def pictured(text: str) -> str:
        media = w.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture(), "image/png")})["id"]
        return post(text, media_ids=[media])

    before, words = pictured("before"), post("words alone")
    w.json("PUT", f"/api/v1/statuses/{before}", ann, json={"status": "before, edited"})
    shared = w.json("POST", f"/api/v1/statuses/{before}/reblog", ben)["id"]
    assert act(w, mod, ann, "sensitive") == 200
    after = pictured("after")
    w.settle()

    def seen(by: Someone | str, *ids: str) -> list[bool]:
        return [w.json("GET", f"/api/v1/statuses/{id_}", by)["sensitive"] for id_ in ids]

    assert seen(ben, before, after, words) == seen("", before, after, words) == [True, True, False]
    assert seen(ann, before, after, words) == [False, False, False]
    assert w.json("GET", f"/api/v1/statuses/{shared}", mod)["reblog"]["sensitive"] is True
    public = {status["id"]: status["sensitive"] for status in w.json("GET", "/api/v1/timelines/public", ben)}
    assert (public[before], public[after], public[words]) == (True, True, False)
    history = f"/api/v1/statuses/{before}/history"
    assert [edit["sensitive"] for edit in w.json("GET", history, ben)] == [True, True]
    assert [edit["sensitive"] for edit in w.json("GET", history, ann)] == [False, False]
    assert w.json("GET", f"{ACCOUNTS}/{ann.id}", mod)["sensitized"] is True
    assert names(w.json("GET", f"{ACCOUNTS}?sensitized=true", mod)) == ["ann"]
    assert w.json("POST", f"{ACCOUNTS}/{ann.id}/unsensitive", mod)["sensitized"] is False
    w.settle()
    assert seen(ben, before, after, words) == [False, False, False]
    assert names(w.json("GET", f"{ACCOUNTS}?sensitized=true", mod)) == []


def test_status_page_with_sensitive_media_hides_it_behind_cover(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    urls = []
    for text, sensitive in (("plain", False), ("marked", True)):
        media = w.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture(), "image/png")})["id"]
        form = {"status": text, "media_ids": [media], "sensitive": sensitive}
        urls.append(w.json("POST", "/api/v1/statuses", ann, json=form)["url"])
    words = w.json("POST", "/api/v1/statuses", ann, json={"status": "words alone", "sensitive": True})["url"]

    def hidden() -> list[bool]:
        return ['<details class="cover">' in w.ask("GET", url).text for url in urls]

    assert hidden() == [False, True]
    act(w, mod, ann, "sensitive")
    assert hidden() == [True, True]
    assert '<details class="cover">' not in w.ask("GET", words).text
    w.json("POST", f"{ACCOUNTS}/{ann.id}/unsensitive", mod)
    w.settle()
    assert hidden() == [False, True]


def test_status_of_sensitized_account_with_media_does_not_trend(w: NetworkFixture, mod: Someone) -> None:
    ann, ben = w.join("ann"), w.join("ben")
    media = w.json("POST", "/api/v2/media", ann, files={"file": ("a.png", picture(), "image/png")})["id"]
    for form in ({"status": "seen", "media_ids": [media]}, {"status": "words alone"}):
        id_ = w.json("POST", "/api/v1/statuses", ann, json=form)["id"]
        w.json("POST", f"/api/v1/statuses/{id_}/favourite", ben)
    act(w, mod, ann, "sensitive")
    assert [status["content"] for status in w.json("GET", "/api/v1/trends/statuses")] == ["<p>words alone</p>"]


def test_account_action_on_oneself_or_equal_or_higher_role_is_refused(
    w: NetworkFixture, mod: Someone, boss: Someone
) -> None:
    other, ann = w.staff("other", Role.MODERATOR), w.join("ann")
    assert act(w, boss, mod, "silence") == 200
    before = w.state()
    for who, on in ((mod, boss), (mod, mod), (mod, other), (boss, boss)):
        assert act(w, who, on, "suspend") == 403
        assert w.ask("POST", f"{ACCOUNTS}/{on.id}/enable", who).status_code == 403
    assert w.ask("POST", f"{ACCOUNTS}/{ann.id}/approve", mod).status_code == 403
    assert w.ask("POST", f"{ACCOUNTS}/{ann.id}/reject", mod).status_code == 403
    assert w.ask("DELETE", f"{ACCOUNTS}/{ann.id}", boss).json()["error"].startswith("Accounts cannot be deleted")
    assert w.ask("POST", f"{ACCOUNTS}/{ann.id}/action", mod, json={"type": "banish"}).status_code == 422
    assert w.state() == before


def test_moderator_role_removal_takes_effect_immediately(w: NetworkFixture, mod: Someone) -> None:
    assert w.ask("GET", ACCOUNTS, mod).status_code == 200
    w.run(moderation.set_role(w.network.writes, mod.member.id, Role.NONE))
    assert w.ask("GET", ACCOUNTS, mod).json() == {"error": "This action is not allowed"}
    plain = Someone(mod.member, w.token(mod.app_id, mod.member.id, SCOPES), mod.app_id)
    assert w.ask("GET", ACCOUNTS, plain).json() == {"error": "This action is outside the authorized scopes"}


def test_admin_scopes_without_role_give_no_access(w: NetworkFixture) -> None:
    scopes = "read admin:read admin:write:reports"
    form = {"client_name": "x", "redirect_uris": "urn:x", "scopes": scopes}
    assert w.json("POST", "/api/v1/apps", data=form)["scopes"] == scopes.split()
    ann = w.join("ann", scopes.split())
    assert w.ask("GET", ACCOUNTS, ann).json() == {"error": "This action is not allowed"}


def test_moderation_log_records_moderator_action_and_reason(
    w: NetworkFixture, mod: Someone, caplog: pytest.LogCaptureFixture
) -> None:
    ann = w.join("ann")
    with caplog.at_level(logging.INFO, "shoal.moderation"):
        act(w, mod, ann, "suspend")
        w.json("POST", f"{ACCOUNTS}/{ann.id}/unsuspend", mod)
    told = [record.getMessage() for record in caplog.records if record.name == "shoal.moderation"]
    assert told == [
        f"moderator {mod.id}: suspend account ann (id {ann.id}); reason: 'why'",
        f"moderator {mod.id}: restore account ann (id {ann.id})",
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO, "shoal.moderation"):
        act(w, mod, ann, "sensitive")
        w.json("POST", f"{ACCOUNTS}/{ann.id}/unsensitive", mod)
    told = [record.getMessage() for record in caplog.records if record.name == "shoal.moderation"]
    assert told == [
        f"moderator {mod.id}: sensitize account ann (id {ann.id}); reason: 'why'",
        f"moderator {mod.id}: unsensitize account ann (id {ann.id})",
    ]


def test_tag_trend_can_be_rejected_and_approved(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    w.json("POST", "/api/v1/statuses", ann, json={"status": "#tide #dawn"})
    w.settle()
    path = "/api/v1/admin/trends/tags"

    def listed() -> dict[str, bool]:
        return {tag["name"]: tag["trendable"] for tag in w.json("GET", path, mod)}

    def trending() -> set[str]:
        return {tag["name"] for tag in w.json("GET", "/api/v1/trends/tags")}

    assert listed() == {"tide": True, "dawn": True}
    id_ = next(tag["id"] for tag in w.json("GET", path, mod) if tag["name"] == "tide")
    assert w.json("POST", f"{path}/{id_}/reject", mod)["trendable"] is False
    assert (trending(), listed()) == ({"dawn"}, {"dawn": True, "tide": False})
    assert w.json("POST", f"{path}/{id_}/approve", mod)["trendable"] is True
    assert trending() == {"tide", "dawn"}
    assert w.json("POST", f"{path}/DAWN/reject", mod)["name"] == "dawn"
    assert trending() == {"tide"}
    for unknown in ("1", "no-tag"):
        assert w.ask("POST", f"{path}/{unknown}/reject", mod).status_code == 404


def test_status_trend_can_be_rejected_and_approved(
    w: NetworkFixture, mod: Someone, caplog: pytest.LogCaptureFixture
) -> None:
    ann, ben = w.join("ann"), w.join("ben")
    ids = []
    for text, who in (("loud", (ben, mod)), ("less", (ben,))):
        ids.append(w.json("POST", "/api/v1/statuses", ann, json={"status": text})["id"])
        for each in who:
            w.json("POST", f"/api/v1/statuses/{ids[-1]}/favourite", each)
    w.settle()
    loud, less = ids
    path = "/api/v1/admin/trends/statuses"

    def listed() -> list[tuple[str, bool]]:
        return [(status["id"], status["trendable"]) for status in w.json("GET", path, mod)]

    def trending() -> list[str]:
        return [status["id"] for status in w.json("GET", "/api/v1/trends/statuses")]

    def forget() -> None:
        """Clear the cache of trends."""
        w.app_parts.reads.trending.keep(Trending([], {}), -1_000_000)

    assert (trending(), listed()) == ([loud, less], [(loud, True), (less, True)])
    with caplog.at_level(logging.INFO, "shoal.moderation"):
        rejected = w.json("POST", f"{path}/{loud}/reject", mod)
    assert (rejected["id"], rejected["trendable"], rejected["requires_review"]) == (loud, False, False)
    assert caplog.messages == [f"moderator {mod.id}: deny the status {loud} in trends"]
    assert trending() == [less]
    forget()
    assert (trending(), listed()) == ([less], [(loud, False), (less, True)])
    assert w.json("GET", f"{path}?limit=1&offset=1", mod)[0]["id"] == less
    w.json("PUT", f"/api/v1/statuses/{loud}", ann, json={"status": "edited"})
    assert trending() == [less]
    assert w.json("POST", f"{path}/{loud}/approve", mod)["trendable"] is True
    forget()
    assert trending() == [loud, less]
    assert w.json("GET", "/api/v1/admin/trends/links", mod) == []


def test_status_trend_rejection_of_private_status_returns_404(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    private = w.json("POST", "/api/v1/statuses", ann, json={"status": "x", "visibility": "private"})["id"]
    before = w.state()
    for id_ in (private, "1"):
        assert w.ask("POST", f"/api/v1/admin/trends/statuses/{id_}/reject", mod).status_code == 404
    assert w.state() == before


def test_admin_account_list_is_newest_first_and_paginated(w: NetworkFixture, mod: Someone) -> None:
    everyone = [mod, *(w.join(f"member{n}") for n in range(6))]
    joined = [one.member.name for one in sorted(everyone, key=lambda one: one.member.id)]
    assert names(w.json("GET", ACCOUNTS, mod)) == joined[::-1]
    first = w.ask("GET", f"{ACCOUNTS}?limit=3", mod)
    second = w.ask("GET", first.links["next"]["url"], mod)
    third = w.ask("GET", second.links["next"]["url"], mod)
    assert [names(page.json()) for page in (first, second, third)] == [joined[:3:-1], joined[3:0:-1], joined[:1]]
    assert "next" not in third.links
    assert names(w.ask("GET", third.links["prev"]["url"], mod).json()) == joined[3:0:-1]


def test_admin_account_list_filters_return_only_matching_accounts(
    w: NetworkFixture, mod: Someone, boss: Someone
) -> None:
    w.run(members.register(w.network.writes, "ann", email="ann@example.org", display_name="Ann of the Sea"))
    for n, verb in enumerate((moderation.suspend, moderation.silence, moderation.disable)):
        w.run(verb(w.network.writes, w.join(f"member{n}").member.id))

    def found(query: str, version: int = 1) -> set[str]:
        return set(names(w.json("GET", f"/api/v{version}/admin/accounts?{query}", mod)))

    every = {"mo", "boss", "ann", "member0", "member1", "member2"}
    for query, expected in (
        ("local=true", every),
        ("remote=true", set()),
        ("active=true", every - {"member0", "member2"}),
        ("pending=true", set()),
        ("suspended=true", {"member0"}),
        ("silenced=true", {"member1"}),
        ("disabled=true", {"member2"}),
        ("staff=true", {"mo", "boss"}),
        ("username=@MEM", {"member0", "member1", "member2"}),
        ("display_name=sea", {"ann"}),
        ("email=ann@example.org", {"ann"}),
        ("email=nobody@example.org", set()),
        ("ip=127.0.0.1", set()),
        ("by_domain=elsewhere.org", set()),
    ):
        assert found(query) == expected, query
    for query, expected in (
        ("origin=local", every),
        ("origin=remote", set()),
        ("status=active", every - {"member0", "member2"}),
        ("status=suspended&origin=local", {"member0"}),
        ("permissions=staff", {"mo", "boss"}),
        ("permissions=staff&username=b", {"boss"}),
        ("role_ids[]=2", {"boss"}),
    ):
        assert found(query, 2) == expected, query


def test_admin_account_list_of_staff_is_paginated(w: NetworkFixture, mod: Someone, boss: Someone) -> None:
    first = w.ask("GET", f"{ACCOUNTS}?staff=true&limit=1", mod)
    second = w.ask("GET", first.links["next"]["url"], mod)
    older, newer = sorted((mod, boss), key=lambda one: one.member.id)
    assert (names(first.json()), names(second.json())) == ([newer.member.name], [older.member.name])
    assert names(w.ask("GET", second.links["prev"]["url"], mod).json()) == [newer.member.name]


def test_admin_account_list_scans_bounded_range_per_page_and_links_next(
    w: NetworkFixture, mod: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = w.join("ann")
    for n in range(60):
        w.json("POST", "/api/v1/statuses", ann, json={"status": str(n)})
    w.join("ben")
    monkeypatch.setattr(moderation_queries, "SCANS", 4)
    monkeypatch.setattr(moderation_queries, "SCANNED", 5)
    found: list[str] = []
    url, pages = ACCOUNTS, 0
    while url and pages < 200:
        page = w.ask("GET", url, mod)
        found += names(page.json())
        url, pages = page.links.get("next", {}).get("url", ""), pages + 1
    assert sorted(found) == ["ann", "ben", "mo"]
    assert found[0] == "ben"
    assert 2 < pages < 200


def test_admin_account_list_with_min_id_continues_past_ranges_without_members(
    w: NetworkFixture, mod: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = w.join("ann")
    for n in range(60):
        w.json("POST", "/api/v1/statuses", ann, json={"status": str(n)})
    w.join("ben")
    monkeypatch.setattr(moderation_queries, "SCANS", 2)
    monkeypatch.setattr(moderation_queries, "SCANNED", 5)
    found: list[str] = []
    url, pages = f"{ACCOUNTS}?min_id=1", 0
    while url and pages < 200:
        page = w.ask("GET", url, mod)
        found += names(page.json())
        # The page after the last one is empty and has no prev link.
        url, pages = page.links.get("prev", {}).get("url", ""), pages + 1
    assert sorted(found) == ["ann", "ben", "mo"]
    assert 3 < pages < 200


def test_admin_account_email_is_shown_only_for_lower_roles(w: NetworkFixture, mod: Someone, boss: Someone) -> None:
    for name, role in (("ann", Role.NONE), ("mia", Role.MODERATOR), ("ada", Role.ADMIN)):
        made = w.run(members.register(w.network.writes, name, email=f"{name}@example.org"))
        w.run(moderation.set_role(w.network.writes, made.id, role))
    w.settle()

    def seen(who: Someone) -> dict[str, str]:
        listed = w.json("GET", "/api/v2/admin/accounts", who)
        for one in listed:
            assert w.json("GET", f"{ACCOUNTS}/{one['id']}", who)["email"] == one["email"]
        found = {one["username"]: one["email"] for one in listed if one["username"] in {"ann", "mia", "ada"}}
        by_address = {
            name: names(w.json("GET", f"{ACCOUNTS}?email={name}@example.org", who)) == [name] for name in found
        }
        # A filter by e-mail must not reveal an address that the caller may not see.
        assert by_address == {name: bool(email) for name, email in found.items()}
        return found

    assert seen(mod) == {"ann": "ann@example.org", "mia": "", "ada": ""}
    assert seen(boss) == {"ann": "ann@example.org", "mia": "mia@example.org", "ada": ""}


def test_admin_report_hides_email_of_higher_role(w: NetworkFixture, mod: Someone) -> None:
    ann = w.join("ann")
    ada = w.run(members.register(w.network.writes, "ada", email="ada@example.org"))
    w.run(moderation.set_role(w.network.writes, ada.id, Role.ADMIN))
    w.json("POST", "/api/v1/reports", ann, json={"account_id": str(ada.id)})
    (report,) = w.json("GET", "/api/v1/admin/reports", mod)
    assert (report["target_account"]["username"], report["target_account"]["email"]) == ("ada", "")
