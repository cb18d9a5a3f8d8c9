"""Held content is in no response of the API, on no page and in no event, except for its author and the staff."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from shoal.core.model import Role
from shoal.http.routes import Route
from shoal.mastodon_api.routes import table
from shoal.queries.events import FULL, EventReader
from shoal.web.routes import pages
from tests.api.in_memory_network import BASE, NetworkFixture, Someone, network_fixture, picture
from tests.moderation.checks import WordCheck
from tests.web.browser import member, visitor

PHRASE = "hold the pelican"
"""Words of every held text."""
TEXT = f"{PHRASE} for @ben #heldtag"
KINDS = ("post", "comment", "edit", "profile", "media")
_PARAMETER = re.compile(r"\{(\w+)\}")
_DOCUMENTS = {"/openapi.json", "/docs", "/towns"}
"""Paths whose responses do not depend on the network."""
_SEARCHES = {"q": "pelican", "acct": "ann", "id": "1", "uri": f"{BASE}/@ann"}


class Scene(NamedTuple):
    here: NetworkFixture
    ids: dict[str, str]
    """Ids of the held content by kind, and of public objects by name."""
    people: dict[str, Someone]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """Hold content of each kind by Ann, whom Ben follows."""
    with network_fixture(moderation=WordCheck(), event_log="on") as here:
        people = {name: _join(here, name) for name in ("ann", "ben")}
        ann, ben = people["ann"], people["ben"]
        here.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
        shown = here.json("POST", "/api/v1/statuses", ann, json={"status": "a public post"})
        asked = here.json("POST", "/api/v1/statuses", ben, json={"status": "what do you see, @ann?"})
        file = here.json("POST", "/api/v1/media", ann, files={"file": ("a.png", picture())})
        here.json("POST", "/api/v1/statuses", ann, json={"status": "with a file", "media_ids": [file["id"]]})
        ids = {
            "post": _hold(here, ann, "POST", "/api/v1/statuses", status=TEXT),
            "comment": _hold(here, ann, "POST", "/api/v1/statuses", status=TEXT, in_reply_to_id=asked["id"]),
            "edit": _hold(here, ann, "PUT", f"/api/v1/statuses/{shown['id']}", status=TEXT),
            "profile": _hold(here, ann, "PATCH", "/api/v1/accounts/update_credentials", note=TEXT),
            "media": _hold(here, ann, "PUT", f"/api/v1/media/{file['id']}", description=TEXT),
        }
        here.settle()
        yield Scene(here, {**ids, "shown": shown["id"], "asked": asked["id"], "ann": ann.id, "ben": ben.id}, people)


def _join(here: NetworkFixture, name: str) -> Someone:
    """Register a member with a password and a token."""
    helper = here.join(f"{name}_app")
    made = member(here, name)
    return Someone(made, here.token(helper.app_id, made.id), helper.app_id)


def _hold(here: NetworkFixture, who: Someone, method: str, path: str, **body: str) -> str:
    answer = here.ask(method, path, who, json=body)
    assert answer.status_code == 422, answer.text
    assert "waiting for approval" in answer.json()["error"]
    return str(answer.json()["held_id"])


def _paths(routes: Sequence[Route], scene: Scene) -> Iterator[str]:
    """Yield the paths of readable routes, for the held content and for public objects."""
    known = {"name": "heldtag", "hashtag": "heldtag", "handle": "ann"}
    for route in routes:
        names = set(_PARAMETER.findall(route.path))
        if route.method != "GET" or not names <= {"id", *known} or "stream" in f"{route.path} {route.answer}":
            continue
        if route.path not in _DOCUMENTS:
            path = _PARAMETER.sub(lambda found: known.get(found[1], "{id}"), route.path)
            yield from (path.replace("{id}", id_) for id_ in (scene.ids.values() if "id" in names else [""]))


@pytest.mark.parametrize("viewer", ["anonymous", "ben"])
def test_held_content_is_in_no_response_of_the_api_to_others(scene: Scene, viewer: str) -> None:
    who: Someone | str = scene.people.get(viewer, "")
    reached = 0
    for path in _paths(table(scene.here.network.settings), scene):
        answer = scene.here.ask("GET", path, who, params=_SEARCHES)
        reached += answer.status_code == 200
        assert PHRASE not in answer.text, path
    assert reached > 60


@pytest.mark.parametrize("viewer", ["", "ben"])
def test_held_content_is_on_no_page_for_others(scene: Scene, viewer: str) -> None:
    browser = visitor(scene.here, viewer)
    reached = 0
    for path in _paths(pages(scene.here.network.settings), scene):
        answer = browser.open(f"{path}?q=pelican" if path == "/search" else path).answer
        reached += answer.status_code == 200
        assert PHRASE not in answer.text, path
    assert reached > 40


def test_held_content_is_in_no_event(scene: Scene) -> None:
    reader = EventReader(scene.here.network.store, BASE)
    page = scene.here.run(reader.read("start", access=FULL, limit=200))
    assert {event.type for event in page.events} >= {"post.created", "member.created"}
    assert not [event for event in page.events if PHRASE in str(event)]


def test_held_upload_is_in_no_event() -> None:
    checks = WordCheck()
    with network_fixture(moderation=checks, event_log="on") as here:
        ann = here.join("ann")
        allowed = here.json("POST", "/api/v1/media", ann, files={"file": ("a.png", picture())})
        checks.holds_uploads = True
        held = here.json("POST", "/api/v1/media", ann, files={"file": ("a.png", picture())})
        page = here.run(EventReader(here.network.store, BASE).read("start", access=FULL, limit=200))
    subjects = {event.subject for event in page.events}
    assert f"media/{allowed['id']}" in subjects
    assert f"media/{held['id']}" not in subjects


def test_held_content_changes_no_count_and_notifies_nobody(scene: Scene) -> None:
    here, ids = scene.here, scene.ids
    assert here.json("GET", f"/api/v1/accounts/{ids['ann']}")["statuses_count"] == 2
    assert here.json("GET", f"/api/v1/statuses/{ids['asked']}")["replies_count"] == 0
    notices = here.json("GET", "/api/v1/notifications", scene.people["ben"])
    assert {notice["type"] for notice in notices} <= {"follow"}
    assert here.json("GET", "/api/v1/tags/heldtag", scene.people["ben"])["history"][0]["uses"] == "0"


def test_author_sees_all_held_content(scene: Scene) -> None:
    own = scene.here.json("GET", "/api/shoal/v1/held", scene.people["ann"])
    assert {item["id"] for item in own} == {scene.ids[kind] for kind in KINDS}
    assert all(PHRASE in item["text"] and "reason" not in item for item in own)
    assert visitor(scene.here, "ann").open("/pending").text.count(PHRASE) == len(KINDS)


def test_staff_sees_all_held_content(scene: Scene) -> None:
    chief = scene.here.staff("chief", Role.MODERATOR)
    listed = scene.here.json("GET", "/api/shoal/v1/admin/held", chief)
    assert {item["id"] for item in listed} == {scene.ids[kind] for kind in KINDS}
    assert {item["reason"] for item in listed} == {"a word"}
