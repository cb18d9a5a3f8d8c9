"""Instance metadata endpoints, NodeInfo, host-meta and WebFinger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from shoal.commands import members, moderation
from shoal.settings import SettingsError, load
from tests.api.in_memory_network import BASE, NetworkFixture, network_fixture

WEEK = 7 * 86_400


@pytest.fixture(scope="module")
def w() -> Iterator[NetworkFixture]:
    with network_fixture(rules=("Be kind.", "No spam."), contact_account="ann", description="Fish & friends") as made:
        ann, ben = made.join("ann"), made.join("ben")
        for text in ("one", "two"):
            made.json("POST", "/api/v1/statuses", ann, json={"status": text})
        then = int(time.time() * 1000) - 3 * WEEK * 1000
        made.run(members.register(made.network.writes, "old", created_at=then))
        made.run(moderation.suspend(made.network.writes, ben.member.id))
        made.settle()
        yield made


def test_instance_rules_match_settings(w: NetworkFixture) -> None:
    rules = [{"id": "1", "text": "Be kind.", "hint": ""}, {"id": "2", "text": "No spam.", "hint": ""}]
    assert w.json("GET", "/api/v1/instance/rules") == rules
    assert w.json("GET", "/api/v1/instance")["rules"] == w.json("GET", "/api/v2/instance")["rules"] == rules


def test_instance_v2_lists_urls_and_thumbnail_versions(w: NetworkFixture) -> None:
    said = w.json("GET", "/api/v2/instance")
    assert said["configuration"]["urls"] == {
        "streaming": BASE.replace("https", "wss").replace("http", "ws"),
        "status": None,
        "about": f"{BASE}/about",
        "privacy_policy": None,
        "terms_of_service": None,
    }
    assert w.ask("GET", "/about").status_code == 200
    assert set(said["thumbnail"]["versions"]) == {"@1x", "@2x"}
    for url in said["thumbnail"]["versions"].values():
        assert w.ask("GET", url.removeprefix(BASE)).status_code == 200


def test_nodeinfo_names_mastodon_as_its_upstream(w: NetworkFixture) -> None:
    assert w.json("GET", "/nodeinfo/2.0")["metadata"]["upstream"] == {"name": "mastodon"}


def test_rules_setting_is_read_from_environment_as_json() -> None:
    assert load({"SHOAL_RULES": '["Be kind.", "No spam."]'}).rules == ("Be kind.", "No spam.")
    assert load({"SHOAL_RULES": ""}).rules == ()
    with pytest.raises(SettingsError, match="the list in rules is not valid JSON"):
        load({"SHOAL_RULES": "Be kind."})


def test_instance_contact_shows_configured_account(w: NetworkFixture) -> None:
    ann = w.json("GET", "/api/v1/accounts/lookup?acct=ann")
    assert w.json("GET", "/api/v1/instance/")["contact_account"] == ann
    assert w.json("GET", "/api/v2/instance/")["contact"]["account"] == ann


def test_instance_contact_unset_or_missing_account_is_null() -> None:
    for name in ("", "nobody"):
        with network_fixture(contact_account=name) as made:
            assert made.json("GET", "/api/v2/instance")["contact"]["account"] is None


def test_instance_activity_returns_twelve_weeks_as_string_counts(w: NetworkFixture) -> None:
    weeks = w.json("GET", "/api/v1/instance/activity")
    assert len(weeks) == 12
    assert [{**week, "week": ""} for week in weeks[:4]] == [
        {"week": "", "statuses": "2", "logins": "1", "registrations": "2"},
        {"week": "", "statuses": "0", "logins": "0", "registrations": "0"},
        {"week": "", "statuses": "0", "logins": "0", "registrations": "0"},
        {"week": "", "statuses": "0", "logins": "0", "registrations": "1"},
    ]
    began = [int(week["week"]) for week in weeks]
    assert 0 <= time.time() - began[0] < WEEK + 60
    assert {newer - older for newer, older in pairwise(began)} == {WEEK}
    assert {time.gmtime(second)[3:7] for second in began} == {(0, 0, 0, 0)}


def test_instance_endpoints_return_extended_description_languages_and_empty_lists(w: NetworkFixture) -> None:
    here = "/api/v1/instance"
    assert w.json("GET", f"{here}/extended_description") == {"updated_at": None, "content": "<p>Fish &amp; friends</p>"}
    for empty in ("peers", "domain_blocks"):
        assert w.json("GET", f"{here}/{empty}") == []
    assert w.json("GET", f"{here}/translation_languages") == {}
    languages = {one["code"]: one["name"] for one in w.json("GET", f"{here}/languages")}
    assert (languages["de"], languages["id"], languages["zh"]) == ("Deutsch", "Bahasa Indonesia", "中文")
    assert all(languages.values())
    for text in ("privacy_policy", "terms_of_service"):
        assert w.ask("GET", f"{here}/{text}").status_code == 404


def test_instance_terms_and_privacy_policy_are_returned_as_html_with_their_pages() -> None:
    with network_fixture(terms_of_service="Be <kind>.\n\nOr leave.", privacy_policy="We keep posts.") as w:
        here = "/api/v1/instance"
        assert w.json("GET", f"{here}/terms_of_service")["content"] == "<p>Be &lt;kind&gt;.</p><p>Or leave.</p>"
        assert w.json("GET", f"{here}/privacy_policy")["content"] == "<p>We keep posts.</p>"
        urls = w.json("GET", "/api/v2/instance")["configuration"]["urls"]
        pages = [urls["terms_of_service"], urls["privacy_policy"]]
        assert pages == [f"{BASE}/about/terms", f"{BASE}/about/privacy"]
        assert [w.ask("GET", url.removeprefix(BASE)).status_code for url in pages] == [200, 200]


def test_host_meta_links_to_webfinger(w: NetworkFixture) -> None:
    answer = w.ask("GET", "/.well-known/host-meta")
    assert answer.headers["content-type"].startswith("application/xrd+xml")
    link = ET.fromstring(answer.content)[0].attrib  # noqa: S314 (our own)
    assert link == {"rel": "lrdd", "template": f"{BASE}/.well-known/webfinger?resource={{uri}}"}


@pytest.mark.parametrize("resource", ["acct:ann@{domain}", "acct:ANN@{netloc}", "@ann@{domain}", BASE + "/@ann"])
def test_webfinger_known_account_returns_profile_link(w: NetworkFixture, resource: str) -> None:
    said = resource.format(domain=w.writes.domain, netloc="shoal.test")
    answer = w.ask("GET", "/.well-known/webfinger", params={"resource": said})
    assert answer.headers["content-type"] == "application/jrd+json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.json() == {
        "subject": f"acct:ann@{w.writes.domain}",
        "aliases": [f"{BASE}/@ann"],
        "links": [{"rel": "http://webfinger.net/rel/profile-page", "type": "text/html", "href": f"{BASE}/@ann"}],
    }


@pytest.mark.parametrize(
    ("resource", "status"),
    [
        ("acct:nobody@shoal.test", 404),
        ("acct:ann@elsewhere.org", 404),
        ("acct:ann", 404),
        (BASE + "/ann", 404),
        (BASE + "/@ann/1", 404),
        (BASE + "/@ann@shoal.test", 404),
        ("", 404),
        ("acct:ben@shoal.test", 410),
        ("x" * 1_001, 422),
    ],
)
def test_webfinger_unknown_suspended_or_malformed_resource_returns_error(
    w: NetworkFixture, resource: str, status: int
) -> None:
    assert w.ask("GET", "/.well-known/webfinger", params={"resource": resource}).status_code == status


def test_webfinger_without_resource_returns_400(w: NetworkFixture) -> None:
    assert w.ask("GET", "/.well-known/webfinger").status_code == 400


def test_domain_blocks_endpoints_change_nothing(w: NetworkFixture) -> None:
    eve = w.join("eve")
    before = w.state()
    assert w.json("GET", "/api/v1/domain_blocks", eve) == []
    for method in ("POST", "DELETE"):
        assert w.json(method, "/api/v1/domain_blocks", eve, data={"domain": "elsewhere.org"}) == {}
    assert w.state() == before
