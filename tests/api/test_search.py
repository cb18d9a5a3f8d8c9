"""Search, suggestions, the directory and trends, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.in_memory_network import BASE, NetworkFixture, Someone, network_fixture


@pytest.fixture(scope="module")
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def post(w: NetworkFixture, who: Someone, text: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = w.json("POST", "/api/v1/statuses", who, json={"status": text, **more})
    return made


def search(w: NetworkFixture, q: str, who: Someone | str = "", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = w.json("GET", "/api/v2/search", who, params={"q": q, **more})
    assert set(found) == {"accounts", "statuses", "hashtags"}
    return found


def names(found: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Return the account names, status ids and hashtag names."""
    return (
        [one["username"] for one in found["accounts"]],
        [one["id"] for one in found["statuses"]],
        [one["name"] for one in found["hashtags"]],
    )


@pytest.mark.parametrize(
    ("name", "form"),
    [("fresh_a", "{}"), ("fresh_b", "@{}"), ("fresh_c", "{}@shoal.test"), ("fresh_d", "@{}@SHOAL.test")],
)
def test_search_finds_new_account_by_name_immediately(w: NetworkFixture, name: str, form: str) -> None:
    who = w.join(name)
    for written in (name, name.upper()):
        assert names(search(w, form.format(written), who)) == ([name], [], [])


def test_search_for_account_of_other_domain_returns_nothing(w: NetworkFixture) -> None:
    w.join("homely")
    assert names(search(w, "@homely@elsewhere.test")) == ([], [], [])


def test_search_with_exact_account_name_returns_only_accounts(w: NetworkFixture) -> None:
    ann = w.join("sole")
    w.join("solely")
    status = post(w, ann, "sole is my name #sole")
    w.settle()
    assert names(search(w, "sole", ann)) == (["sole", "solely"], [], [])
    assert names(search(w, "@sole", ann)) == (["sole", "solely"], [], [])
    assert names(search(w, "sole", ann, type="statuses")) == ([], [status["id"]], [])
    assert names(search(w, "sole", ann, type="hashtags")) == ([], [], ["sole"])
    assert names(search(w, "sole", ann, type="accounts", limit=1, offset=1)) == (["solely"], [], [])


def test_search_with_hash_prefix_returns_only_hashtags_most_used_first(w: NetworkFixture) -> None:
    ann = w.join("hasher")
    for tag in ("hashtag_z", "hashtag_x", "hashtag_y"):
        post(w, ann, f"hello #{tag}")
    found = search(w, "#hashtag", ann)
    assert names(found) == ([], [], ["hashtag_x", "hashtag_y", "hashtag_z"])
    assert found["hashtags"][0]["url"] == f"{BASE}/tags/hashtag_x"
    assert len(found["hashtags"][0]["history"]) == 7
    assert found["hashtags"][0]["following"] is False
    post(w, ann, "again #hashtag_y")
    w.settle()
    assert names(search(w, "#HashTag_", ann, limit=2)) == ([], [], ["hashtag_y", "hashtag_x"])
    assert "following" not in search(w, "#hashtag")["hashtags"][0]
    assert names(search(w, "#hashtag", ann, type="statuses")) == ([], [], [])
    assert names(search(w, "#hashtag", ann, type="accounts")) == ([], [], [])


def test_search_hashtag_includes_featuring_flag_for_caller(w: NetworkFixture) -> None:
    ann, ben = w.join("featurer"), w.join("passerby")
    post(w, ann, "#lantern")
    w.settle()
    w.json("POST", "/api/v1/tags/lantern/feature", ann)
    assert search(w, "#lantern", ann)["hashtags"][0]["featuring"] is True
    assert search(w, "#lantern", ben)["hashtags"][0]["featuring"] is False
    assert "featuring" not in search(w, "#lantern")["hashtags"][0]


def test_search_for_statuses_requires_member_token(w: NetworkFixture) -> None:
    ann, ben = w.join("writer"), w.join("reader")
    status = post(w, ann, "a quixotic evening")
    w.settle()
    assert names(search(w, "quixotic evening", ben)) == ([], [status["id"]], [])
    assert names(search(w, "quixotic evening")) == ([], [], [])
    assert names(search(w, "quixotic", ben, type="statuses", limit=1, offset=1)) == ([], [], [])
    assert names(search(w, "quixotic", ben, account_id=ben.id)) == ([], [], [])
    assert names(search(w, "quixotic", ben, account_id=ann.id)) == ([], [status["id"]], [])
    assert names(search(w, "quixotic", ben, max_id=status["id"])) == ([], [], [])
    assert names(search(w, "quixotic", ben, min_id=status["id"])) == ([], [], [])
    assert names(search(w, "from:me", ann)) == ([], [status["id"]], [])


def test_search_with_resolve_returns_resource_of_local_url(w: NetworkFixture) -> None:
    ann, ben = w.join("located"), w.join("locator")
    seen, unseen = post(w, ann, "here"), post(w, ann, "not here", visibility="private")
    assert names(search(w, f"{BASE}/@located", ben, resolve="true")) == (["located"], [], [])
    assert names(search(w, seen["url"], ben, resolve="true")) == ([], [seen["id"]], [])
    assert names(search(w, seen["url"], ben, resolve="true", type="accounts")) == ([], [], [])
    assert names(search(w, unseen["url"], ben, resolve="true")) == ([], [], [])
    assert names(search(w, unseen["url"], ann, resolve="true")) == ([], [unseen["id"]], [])
    assert names(search(w, f"{BASE}/@located/{2**64}", ben, resolve="true")) == ([], [], [])
    assert names(search(w, "https://elsewhere.test/@located", ben, resolve="true")) == ([], [], [])
    assert names(search(w, "HTTPS://Shoal.Test/@located", ben, resolve="true")) == (["located"], [], [])
    assert names(search(w, f"{BASE}@located", ben, resolve="true")) == ([], [], [])


def test_search_for_local_url_without_resolve_searches_text(w: NetworkFixture) -> None:
    ann, ben = w.join("pointed"), w.join("pointing")
    seen = post(w, ann, "here it is")
    about = post(w, ben, f"look at {seen['url']}")
    w.settle()
    assert names(search(w, seen["url"], ben)) == ([], [about["id"]], [])
    assert names(search(w, seen["url"], ben, resolve="true")) == ([], [seen["id"]], [])
    named = {"q": f"{BASE}/@pointed"}
    assert w.json("GET", "/api/v1/accounts/search", ben, params=named) == []
    found = w.json("GET", "/api/v1/accounts/search", ben, params={**named, "resolve": "true"})
    assert [one["username"] for one in found] == ["pointed"]


def test_search_with_empty_or_unmatched_query_returns_empty_results(w: NetworkFixture) -> None:
    ann = w.join("vague")
    post(w, ann, "some words")
    for question in (
        "",
        "  ",
        "@",
        "#",
        '"',
        "-",
        "before:yesterday",
        "from:nobody",
        "has:wings",
        "🜚",
        "'; --",
        "a" * 1_999,
    ):
        assert names(search(w, question, ann)) == ([], [], [])
    assert names(search(w, "words", ann, type="wishes")) == ([], [], [])
    assert w.ask("GET", "/api/v2/search", ann).status_code in (400, 422)
    assert w.ask("GET", "/api/v2/search", ann, params={"q": "x" * 2_001}).status_code == 422


def test_v1_search_returns_hashtags_as_strings(w: NetworkFixture) -> None:
    ann = w.join("elder")
    post(w, ann, "so #vintage")
    assert w.json("GET", "/api/v1/search", ann, params={"q": "#vint"}) == {
        "accounts": [],
        "statuses": [],
        "hashtags": ["vintage"],
    }
    assert w.ask("GET", "/api/v1/search", params={"q": "#vint"}).status_code == 401


def test_account_search_is_paginated_by_offset(w: NetworkFixture) -> None:
    ann = w.join("pager")
    people = [w.join(f"crowd_{letter}") for letter in "abc"]
    w.json("POST", f"/api/v1/accounts/{people[2].id}/follow", ann)
    w.settle()
    first = w.ask("GET", "/api/v1/accounts/search", ann, params={"q": "crowd", "limit": 2})
    assert [one["username"] for one in first.json()] == ["crowd_c", "crowd_a"]
    assert first.links["next"]["url"].startswith(f"{BASE}/api/v1/accounts/search?q=crowd&limit=2&offset=2")
    rest = w.json("GET", "/api/v1/accounts/search", ann, params={"q": "crowd", "limit": 2, "offset": 2})
    assert [one["username"] for one in rest] == ["crowd_b"]
    mine = w.json("GET", "/api/v1/accounts/search", ann, params={"q": "crowd", "following": "true"})
    assert [one["username"] for one in mine] == ["crowd_c"]
    assert w.json("GET", "/api/v1/accounts/search", ann, params={"q": "#crowd"}) == []


def test_profile_directory_lists_only_discoverable_accounts() -> None:
    with network_fixture() as w:
        ann, ben, cyd = w.join("ann"), w.join("ben"), w.join("cyd")
        w.json("PATCH", "/api/v1/accounts/update_credentials", cyd, json={"discoverable": False})
        post(w, ann, "hello")
        w.settle()
        assert [one["username"] for one in w.json("GET", "/api/v1/directory")] == ["ann", "ben"]
        assert [one["username"] for one in w.json("GET", "/api/v1/directory", params={"order": "new"})] == [
            "ben",
            "ann",
        ]
        for local in ("true", "false"):
            page = w.ask("GET", "/api/v1/directory", params={"limit": 1, "offset": 1, "local": local})
            assert [one["username"] for one in page.json()] == ["ben"]
        w.json("POST", f"/api/v1/accounts/{ben.id}/block", ann)
        assert [one["username"] for one in w.json("GET", "/api/v1/directory", ann)] == ["ann"]


def test_profile_directory_with_partly_cached_accounts_keeps_order() -> None:
    with network_fixture() as w:
        names = [w.join(name).member.name for name in ("ann", "ben", "cyd", "dot")]
        w.settle()
        w.network.memory.forget_all()
        w.json("GET", "/api/v1/accounts/lookup", params={"acct": "ben"})
        found = w.json("GET", "/api/v1/directory", params={"order": "new"})
        assert [one["username"] for one in found] == names[::-1]


def test_suggestions_list_friends_of_friends_until_dismissed() -> None:
    with network_fixture() as w:
        ann, ben, cyd, dot = (w.join(name) for name in ("ann", "ben", "cyd", "dot"))
        w.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
        w.json("POST", f"/api/v1/accounts/{cyd.id}/follow", ben)
        w.settle()
        found = w.json("GET", "/api/v2/suggestions", ann)
        assert [(one["source"], one["sources"], one["account"]["username"]) for one in found] == [
            ("past_interactions", ["friends_of_friends", "most_followed"], "cyd"),
            ("global", ["most_followed"], "dot"),
        ]
        why = found[0]["shoal"]
        assert [
            (reason["source"], reason["number"], reason["words"], reason["friends"]) for reason in why["reasons"]
        ] == [
            ("friends", 1, "@ben, whom you follow, follows them", ["ben"]),
            ("followers", 1, "followed by one member", []),
        ]
        assert sum(reason["contribution"] for reason in why["reasons"]) == pytest.approx(why["score"], abs=1e-6)
        assert all(
            reason["value"] * reason["weight"] == pytest.approx(reason["contribution"]) for reason in why["reasons"]
        )
        assert found[1]["shoal"] == {"score": 0, "reasons": []}
        assert w.json("DELETE", f"/api/v1/suggestions/{cyd.id}", ann) == {}
        assert w.json("DELETE", f"/api/v1/suggestions/{cyd.id}", ann) == {}
        assert [one["username"] for one in w.json("GET", "/api/v1/suggestions", ann)] == ["dot"]
        w.json("POST", f"/api/v1/accounts/{dot.id}/follow", ann)
        assert w.json("GET", "/api/v1/suggestions", ann) == []
        assert w.ask("DELETE", "/api/v1/suggestions/12345", ann).status_code == 404


def test_trending_statuses_are_ordered_by_favourites() -> None:
    with network_fixture() as w:
        ann, ben = w.join("ann"), w.join("ben")
        quiet, loud, louder = (post(w, ann, text) for text in ("quiet", "loud", "louder"))
        hidden = post(w, ann, "hidden", visibility="unlisted")
        for who, status in ((ben, loud), (ben, louder), (ann, louder), (ben, hidden)):
            w.json("POST", f"/api/v1/statuses/{status['id']}/favourite", who)
        w.settle()
        assert quiet["id"] not in [one["id"] for one in w.json("GET", "/api/v1/trends/statuses")]
        first = w.ask("GET", "/api/v1/trends/statuses", ben, params={"limit": 1})
        assert [(one["id"], one["favourited"]) for one in first.json()] == [(louder["id"], True)]
        assert "offset=1" in first.links["next"]["url"]
        assert [one["id"] for one in w.json("GET", "/api/v1/trends/statuses", params={"offset": 1})] == [loud["id"]]
        assert w.json("GET", "/api/v1/trends/links") == []
