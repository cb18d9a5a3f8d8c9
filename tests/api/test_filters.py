"""Filters: create, update and delete through v1 and v2, and apply them to all responses with statuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shoal.commands import filters
from shoal.core.events import FiltersChanged
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture, picture

Json = Any


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def ann(w: NetworkFixture) -> Someone:
    return w.join("ann")


@pytest.fixture
def ben(w: NetworkFixture, ann: Someone) -> Someone:
    """A member that Ann follows."""
    made = w.join("ben")
    w.json("POST", f"/api/v1/accounts/{made.id}/follow", ann)
    return made


def write(w: NetworkFixture, who: Someone, text: str, **more: object) -> str:
    made = w.json("POST", "/api/v1/statuses", who, json={"status": text, **more})
    w.settle()
    return str(made["id"])


def make(w: NetworkFixture, who: Someone, *keywords: str, **more: object) -> Json:
    body = {"title": "Tea", "context": ["home", "public", "thread", "account"], **more}
    body["keywords_attributes"] = [{"keyword": keyword, "whole_word": True} for keyword in keywords]
    return w.json("POST", "/api/v2/filters", who, json=body)


def home(w: NetworkFixture, who: Someone) -> list[Json]:
    return list(w.json("GET", "/api/v1/timelines/home", who))


def refused(w: NetworkFixture, who: Someone, method: str, path: str, **more: Any) -> tuple[int, str]:
    before = w.state()
    answer = w.ask(method, path, who, **more)
    assert w.state() == before
    return answer.status_code, answer.json()["error"]


def test_filter_with_keywords_is_created_read_and_deleted(w: NetworkFixture, ann: Someone) -> None:
    made = make(w, ann, "tea", "Milk", filter_action="hide", expires_in=3600)
    assert {key: made[key] for key in ("title", "context", "filter_action", "statuses")} == {
        "title": "Tea",
        "context": ["home", "public", "thread", "account"],
        "filter_action": "hide",
        "statuses": [],
    }
    assert [(word["keyword"], word["whole_word"]) for word in made["keywords"]] == [("tea", True), ("Milk", True)]
    assert made["expires_at"].endswith("Z")
    assert w.json("GET", f"/api/v2/filters/{made['id']}", ann) == made
    assert w.json("GET", "/api/v2/filters", ann) == [made]
    assert w.json("DELETE", f"/api/v2/filters/{made['id']}", ann) == {}
    assert w.json("GET", "/api/v2/filters/", ann) == []
    assert w.ask("GET", f"/api/v2/filters/{made['id']}", ann).status_code == 404


@pytest.mark.parametrize("form", ["json", "rails", "numbered"])
def test_filter_update_adds_changes_and_removes_keywords_in_one_request(
    w: NetworkFixture, ann: Someone, form: str
) -> None:
    made = make(w, ann, "tea", "milk", expires_in=60)
    tea, milk = (word["id"] for word in made["keywords"])
    path = f"/api/v2/filters/{made['id']}"
    if form == "json":
        words = [{"id": tea, "keyword": "green tea"}, {"id": milk, "_destroy": True}, {"keyword": "oats"}]
        body: Json = {"title": "Drinks", "expires_in": "", "keywords_attributes": words}
        changed = w.json("PUT", path, ann, json=body)
    else:
        rails = form == "rails"
        first, second, third = ("[]",) * 3 if rails else ("[0]", "[1]", "[2]")
        pairs = [
            (f"keywords_attributes{first}[id]", tea),
            (f"keywords_attributes{first}[keyword]", "green tea"),
            (f"keywords_attributes{second}[id]", milk),
            (f"keywords_attributes{second}[_destroy]", "1"),
            (f"keywords_attributes{third}[keyword]", "oats"),
        ]
        if rails:
            # A repeated field name begins the next keyword, so the last keyword has an empty id.
            pairs.insert(4, (f"keywords_attributes{third}[id]", ""))
        said = "&".join(f"{key}={value}" for key, value in [("title", "Drinks"), ("expires_in", ""), *pairs])
        headers = {"content-type": "application/x-www-form-urlencoded"}
        changed = w.json("PUT", path, ann, content=said, headers=headers)
    assert [word["keyword"] for word in changed["keywords"]] == ["green tea", "oats"]
    assert changed["keywords"][0]["id"] == tea
    assert (changed["title"], changed["expires_at"]) == ("Drinks", None)
    assert changed["context"] == made["context"]


def test_filter_keyword_endpoints_create_read_update_and_delete(w: NetworkFixture, ann: Someone) -> None:
    made = make(w, ann, "tea")
    path = f"/api/v2/filters/{made['id']}/keywords"
    word = w.json("POST", path, ann, data={"keyword": "milk", "whole_word": "false"})
    assert (word["keyword"], word["whole_word"]) == ("milk", False)
    own = f"/api/v2/filters/keywords/{word['id']}"
    assert w.json("GET", own, ann) == word
    assert w.json("PUT", own, ann, json={"keyword": "oats"}) == {**word, "keyword": "oats"}
    assert [one["keyword"] for one in w.json("GET", path, ann)] == ["tea", "oats"]
    assert w.json("DELETE", own, ann) == {}
    assert w.ask("GET", own, ann).status_code == 404
    assert [one["keyword"] for one in w.json("GET", path, ann)] == ["tea"]


def test_filter_status_endpoints_create_read_and_delete(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    post, made = write(w, ben, "hello"), make(w, ann)
    path = f"/api/v2/filters/{made['id']}/statuses"
    held = w.json("POST", path, ann, json={"status_id": post})
    assert held["status_id"] == post
    assert w.json("POST", path, ann, json={"status_id": post}) == held
    (entry,) = home(w, ann)
    assert entry["filtered"][0]["status_matches"] == [post]
    assert entry["filtered"][0]["keyword_matches"] is None
    assert set(entry["filtered"][0]["filter"]) == {"id", "title", "context", "expires_at", "filter_action"}
    assert w.json("GET", path, ann) == [held]
    assert w.json("GET", f"/api/v2/filters/statuses/{held['id']}", ann) == held
    assert w.json("DELETE", f"/api/v2/filters/statuses/{held['id']}", ann) == {}
    assert home(w, ann)[0]["filtered"] == []
    hidden = write(w, ben, "for nobody", visibility="direct")
    assert refused(w, ann, "POST", path, json={"status_id": hidden}) == (404, "Record not found")


def test_v1_filter_maps_to_keyword_of_v2_filter(w: NetworkFixture, ann: Someone) -> None:
    old = w.json("POST", "/api/v1/filters", ann, data={"phrase": "tea", "context[]": ["home"], "irreversible": "true"})
    assert old == {
        "id": old["id"],
        "phrase": "tea",
        "context": ["home"],
        "expires_at": None,
        "irreversible": True,
        "whole_word": True,
    }
    (new,) = w.json("GET", "/api/v2/filters", ann)
    assert (new["title"], new["filter_action"], new["keywords"][0]["id"]) == ("tea", "hide", old["id"])
    path = f"/api/v1/filters/{old['id']}"
    changed = w.json("PUT", path, ann, json={"phrase": "milk", "context": ["home", "public"], "whole_word": False})
    assert changed == {**old, "phrase": "milk", "context": ["home", "public"], "whole_word": False}
    assert w.json("GET", path, ann) == changed
    assert w.json("GET", "/api/v1/filters", ann) == [changed]
    warned = w.json("PUT", f"/api/v2/filters/{new['id']}", ann, json={"filter_action": "warn"})
    assert warned["filter_action"] == "warn"
    assert w.json("GET", path, ann)["irreversible"] is False
    assert w.json("DELETE", path, ann) == {}
    assert w.json("GET", "/api/v2/filters", ann) == []


def test_v1_filter_update_of_multi_keyword_filter_context_is_refused(w: NetworkFixture, ann: Someone) -> None:
    made = make(w, ann, "tea", "milk")
    tea = made["keywords"][0]["id"]
    status, error = refused(w, ann, "PUT", f"/api/v1/filters/{tea}", json={"context": ["public"]})
    assert status == 422
    assert "more than one filter keyword" in error
    same = {"phrase": "coffee", "context": made["context"]}
    assert w.json("PUT", f"/api/v1/filters/{tea}", ann, json=same)["phrase"] == "coffee"
    assert w.json("DELETE", f"/api/v1/filters/{tea}", ann) == {}
    assert [word["keyword"] for word in w.json("GET", "/api/v2/filters", ann)[0]["keywords"]] == ["milk"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"context": ["home"]}, "Validation failed: Title can't be blank"),
        ({"title": "  ", "context": ["home"]}, "Validation failed: Title can't be blank"),
        (
            {"title": "t"},
            "Validation failed: Context must be at least one of home, notifications, public, thread and account",
        ),
        (
            {"title": "t", "context": []},
            "Validation failed: Context must be at least one of home, notifications, public, thread and account",
        ),
        (
            {"title": "t", "context": ["attic"]},
            "Validation failed: context[0] must be one of home, notifications, public, thread, account",
        ),
        (
            {"title": "t", "context": ["home"], "keywords_attributes": [{"keyword": " "}]},
            "Validation failed: Keyword can't be blank",
        ),
        (
            {"title": "t", "context": ["home"], "filter_action": "shout"},
            "Validation failed: filter_action must be one of warn, hide, blur",
        ),
        ({"title": "t", "context": ["home"], "expires_in": -1}, "Validation failed: expires_in must be at least 0"),
    ],
)
def test_filter_creation_with_invalid_fields_returns_validation_error(
    w: NetworkFixture, ann: Someone, body: Json, error: str
) -> None:
    assert refused(w, ann, "POST", "/api/v2/filters", json=body) == (422, error)


def test_filter_limits_on_title_keywords_filters_and_statuses_are_enforced(
    w: NetworkFixture, ann: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(w, ann, "POST", "/api/v2/filters", json={"title": "t" * 201, "context": ["home"]})[0] == 422
    words = [{"keyword": str(n)} for n in range(101)]
    body = {"title": "t", "context": ["home"], "keywords_attributes": words}
    assert "at most 100 keywords" in refused(w, ann, "POST", "/api/v2/filters", json=body)[1]
    monkeypatch.setattr(filters, "MAX_FILTERS", 2)
    monkeypatch.setattr(filters, "MAX_KEYWORDS_IN_ALL", 3)
    monkeypatch.setattr(filters, "MAX_POSTS", 0)
    one = make(w, ann, "a", "b")
    make(w, ann, "c")
    path = f"/api/v2/filters/{one['id']}"
    assert "at most 2 filters" in refused(w, ann, "POST", "/api/v2/filters", json=body)[1]
    assert "3 keywords together" in refused(w, ann, "POST", f"{path}/keywords", json={"keyword": "d"})[1]
    mine = write(w, ann, "mine")
    assert "at most 0 posts" in refused(w, ann, "POST", f"{path}/statuses", json={"status_id": mine})[1]


def test_filter_of_other_member_returns_404(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    made, post = make(w, ann, "tea"), write(w, ann, "hello")
    held = w.json("POST", f"/api/v2/filters/{made['id']}/statuses", ann, json={"status_id": post})
    word = made["keywords"][0]["id"]
    own = f"/api/v2/filters/{made['id']}"
    for method, path in (
        ("GET", own),
        ("PUT", own),
        ("DELETE", own),
        ("GET", f"{own}/keywords"),
        ("POST", f"{own}/keywords"),
        ("GET", f"{own}/statuses"),
        ("POST", f"{own}/statuses"),
        *((verb, f"/api/v2/filters/keywords/{word}") for verb in ("GET", "PUT", "DELETE")),
        *((verb, f"/api/v2/filters/statuses/{held['id']}") for verb in ("GET", "DELETE")),
        *((verb, f"/api/v1/filters/{word}") for verb in ("GET", "PUT", "DELETE")),
    ):
        body = {"title": "x", "keyword": "x", "status_id": post, "phrase": "x"}
        assert refused(w, ben, method, path, json=body) == (404, "Record not found"), (method, path)


@pytest.mark.parametrize("context", ["home", "notifications", "public", "thread", "account"])
def test_status_filtered_attribute_lists_matching_filters_of_each_context(
    w: NetworkFixture, ann: Someone, ben: Someone, context: str
) -> None:
    post = write(w, ben, f"A cup of TEA #tea @{ann.member.name}")
    comment = write(w, ben, "more tea", in_reply_to_id=post)
    direct = write(w, ben, f"tea? @{ann.member.name}", visibility="direct")
    (held,) = (w.json("POST", "/api/v1/lists", ann, json={"title": "Tea"}),)
    w.json("POST", f"/api/v1/lists/{held['id']}/accounts", ann, json={"account_ids": [ben.id]})
    w.settle()
    status = f"/api/v1/statuses/{post}"
    places: dict[str, Callable[[], Json]] = {
        "home": lambda: next(entry for entry in home(w, ann) if entry["id"] == post),
        "public": lambda: w.json("GET", "/api/v1/timelines/tag/tea", ann)[0],
        "account": lambda: w.json("GET", f"/api/v1/accounts/{ben.id}/statuses", ann)[1],
        "status": lambda: w.json("GET", status, ann),
        "statuses": lambda: w.json("GET", "/api/v1/statuses", ann, params={"id[]": [post]})[0],
        "descendant": lambda: w.json("GET", f"{status}/context", ann)["descendants"][0],
        "ancestor": lambda: w.json("GET", f"/api/v1/statuses/{comment}/context", ann)["ancestors"][0],
        "list": lambda: w.json("GET", f"/api/v1/timelines/list/{held['id']}", ann)[0],
        "favourite": lambda: w.json("POST", f"{status}/favourite", ann),
        "bookmark": lambda: w.json("POST", f"{status}/bookmark", ann),
        "reblog": lambda: w.json("POST", f"{status}/reblog", ann)["reblog"],
        "unfavourite": lambda: w.json("POST", f"{status}/unfavourite", ann),
        "bookmarks": lambda: w.json("GET", "/api/v1/bookmarks", ann)[0],
        "conversation": lambda: w.json("GET", "/api/v1/conversations", ann)[0]["last_status"],
        "notification": lambda: w.json("GET", "/api/v1/notifications?types[]=mention", ann)[0]["status"],
        "grouped": lambda: w.json("GET", "/api/v2/notifications?types[]=mention", ann)["statuses"][0],
    }
    make(w, ann, "tea", context=[context])
    for place, look in places.items():
        (match,) = look()["filtered"]
        assert (match["keyword_matches"], match["filter"]["context"]) == (["tea"], [context]), place
    assert direct
    assert all("filtered" not in entry for entry in w.json("GET", "/api/v1/timelines/tag/tea"))


def test_filter_does_not_match_own_posts(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    make(w, ann, "tea", filter_action="hide")
    mine, his = write(w, ann, "tea"), write(w, ben, "tea")
    w.json("POST", f"/api/v1/statuses/{mine}/reblog", ben)
    w.settle()
    seen = {entry["reblog"]["id"] if entry["reblog"] else entry["id"]: entry["filtered"] for entry in home(w, ann)}
    assert seen[mine] == []
    assert len(seen[his]) == 1


def test_filter_on_boost_matches_boosted_post(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    eve = w.join("eve")
    make(w, ann, "tea")
    w.json("POST", f"/api/v1/statuses/{write(w, eve, 'tea')}/reblog", ben)
    w.settle()
    (entry,) = home(w, ann)
    assert entry["filtered"] == entry["reblog"]["filtered"]
    assert entry["filtered"][0]["keyword_matches"] == ["tea"]


def test_filter_matches_spoiler_text_and_media_descriptions(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    make(w, ann, "tea", "milk")
    write(w, ben, "look", spoiler_text="It is tea!")
    files = {"file": ("p.png", picture(), "image/png")}
    shown = w.json("POST", "/api/v2/media", ben, files=files, data={"description": "A cup of milk"})
    write(w, ben, "", media_ids=[shown["id"]])
    write(w, ben, "water")
    assert [[match["keyword_matches"] for match in entry["filtered"]] for entry in home(w, ann)] == [
        [],
        [["milk"]],
        [["tea"]],
    ]


def test_irreversible_filter_drops_matches_and_still_fills_page(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    ids = [write(w, ben, f"{'tea' if n % 2 else 'milk'} {n}") for n in range(24)]
    w.json("POST", "/api/v1/filters", ann, json={"phrase": "tea", "context": ["home"], "irreversible": True})
    page = w.json("GET", "/api/v1/timelines/home?limit=10", ann)
    assert [entry["id"] for entry in page] == ids[::-1][1::2][:10]
    rest = w.json("GET", f"/api/v1/timelines/home?limit=10&max_id={page[-1]['id']}", ann)
    assert [entry["id"] for entry in rest] == ids[::-1][1::2][10:]
    assert len(w.json("GET", f"/api/v1/accounts/{ben.id}/statuses", ann)) == 20


def test_expired_filter_is_listed_but_not_applied(w: NetworkFixture, ann: Someone, ben: Someone) -> None:
    write(w, ben, "tea")
    made = make(w, ann, "tea", expires_in=0)
    assert home(w, ann)[0]["filtered"] == []
    assert w.json("GET", "/api/v2/filters", ann) == [made]
    w.json("PUT", f"/api/v2/filters/{made['id']}", ann, json={"expires_in": 3600})
    assert len(home(w, ann)[0]["filtered"]) == 1


def test_filter_change_emits_filters_changed_event(w: NetworkFixture, ann: Someone) -> None:
    w.settle()
    network = w.network

    async def told() -> int:
        jobs = await network.store.claim(100, 1.0)
        await network.store.ack(jobs)
        return sum(isinstance(job.event, FiltersChanged) for job in jobs)

    async def stop() -> None:
        await network.runner.stop()

    w.run(stop())
    made = make(w, ann, "tea")
    assert w.run(told()) == 1
    w.json("PUT", f"/api/v2/filters/{made['id']}", ann, json={"title": "Tea"})
    assert w.run(told()) == 0
    w.json("PUT", f"/api/v2/filters/{made['id']}", ann, json={"title": "Milk"})
    assert w.run(told()) == 1
    w.json("DELETE", f"/api/v2/filters/{made['id']}", ann)
    assert w.run(told()) == 1
