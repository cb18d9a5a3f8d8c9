"""Conversations over HTTP: create, mark read or unread, delete, paginate."""

from __future__ import annotations

from typing import Any

from tests.api.in_memory_network import NetworkFixture, Someone
from tests.api.test_notifications import walked

HERE = "/api/v1/conversations"


def write(shoal: NetworkFixture, who: Someone, text: str, answers: str = "", visibility: str = "direct") -> str:
    """Post a status and return its id."""
    said = {"status": text, "visibility": visibility, **({"in_reply_to_id": answers} if answers else {})}
    post = shoal.json("POST", "/api/v1/statuses", who, json=said)["id"]
    assert isinstance(post, str)
    return post


def of(shoal: NetworkFixture, who: Someone, query: str = "") -> list[Any]:
    """Return the member's conversations after pending work is processed."""
    shoal.settle()
    found = shoal.json("GET", f"{HERE}{query}", who)
    assert isinstance(found, list)
    return found


def short(shoal: NetworkFixture, who: Someone) -> list[tuple[str, bool, list[str], str]]:
    """Return the id, unread flag, participants and last status of each conversation."""
    return [
        (one["id"], one["unread"], [a["username"] for a in one["accounts"]], one["last_status"]["id"])
        for one in of(shoal, who)
    ]


def test_conversation_direct_status_is_read_for_author_and_unread_for_mentioned(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    root = write(shoal, ann, "@ben @cyd psst")
    assert short(shoal, ann) == [(root, False, ["ben", "cyd"], root)]
    assert short(shoal, ben) == [(root, True, ["ann", "cyd"], root)]
    answer = write(shoal, ben, "@ann @cyd yes?", root)
    assert short(shoal, ann) == [(root, True, ["ben", "cyd"], answer)]
    assert short(shoal, ben) == [(root, False, ["ann", "cyd"], answer)]
    assert short(shoal, cyd) == [(root, True, ["ben", "ann"], answer)]
    assert of(shoal, shoal.join("dan")) == []


def test_conversation_without_mentions_lists_author_as_participant(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    root = write(shoal, ann, "milk, bread")
    assert short(shoal, ann) == [(root, False, ["ann"], root)]


def test_conversations_exclude_non_direct_statuses(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    root = write(shoal, ann, "@ben hello", visibility="private")
    assert of(shoal, ann) == of(shoal, ben) == []
    aside = write(shoal, ben, "@ann between us", root)
    assert short(shoal, ann) == [(root, True, ["ben"], aside)]
    shoal.json("DELETE", f"/api/v1/statuses/{aside}", ben)
    assert of(shoal, ann) == []


def test_conversation_marked_read_becomes_unread_on_next_status(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    root = write(shoal, ben, "@ann psst")
    shoal.settle()
    found = shoal.json("POST", f"{HERE}/{root}/read", ann)
    assert (found["id"], found["unread"]) == (root, False)
    assert shoal.json("POST", f"{HERE}/{root}/read", ann) == found
    assert of(shoal, ann) == [found]
    assert shoal.json("POST", f"{HERE}/{root}/unread", ann)["unread"] is True
    shoal.json("POST", f"{HERE}/{root}/read", ann)
    more = write(shoal, ben, "@ann there?", root)
    assert short(shoal, ann) == [(root, True, ["ben"], more)]


def test_conversation_deleted_reappears_on_next_status(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    root = write(shoal, ben, "@ann psst")
    shoal.settle()
    assert shoal.json("DELETE", f"{HERE}/{root}", ann) == {}
    assert of(shoal, ann) == []
    assert len(of(shoal, ben)) == 1
    for method, path in (("DELETE", root), ("POST", f"{root}/read"), ("POST", f"{root}/unread"), ("DELETE", "x")):
        assert shoal.ask(method, f"{HERE}/{path}", ann).status_code == 404
    more = write(shoal, ben, "@ann there?", root)
    assert short(shoal, ann) == [(root, True, ["ben"], more)]


def test_conversation_with_deleted_last_status_shows_previous_status(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    root = write(shoal, ben, "@ann psst")
    said = [root]
    for n in range(3):
        said.append(write(shoal, ben, f"@ann {n}", said[-1]))
        shoal.settle()
    for gone in (said[3], said[1]):
        shoal.json("DELETE", f"/api/v1/statuses/{gone}", ben)
    assert short(shoal, ann) == [(root, True, ["ben"], said[2])]
    shoal.json("DELETE", f"/api/v1/statuses/{root}", ben)
    assert short(shoal, ann) == [(root, True, ["ben"], said[2])]
    shoal.json("DELETE", f"/api/v1/statuses/{said[2]}", ben)
    assert of(shoal, ann) == []


def test_conversation_status_edit_adds_newly_mentioned_member(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    root = write(shoal, ann, "@ben psst")
    shoal.json("POST", f"{HERE}/{of(shoal, ben)[0]['id']}/read", ben)
    shoal.json("PUT", f"/api/v1/statuses/{root}", ann, json={"status": "@ben @cyd psst"})
    assert short(shoal, cyd) == [(root, True, ["ann", "ben"], root)]
    assert short(shoal, ben) == [(root, False, ["ann", "cyd"], root)]


def test_conversation_from_blocked_or_muted_member_is_not_created(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/mute", ann)
    write(shoal, ben, "@ann psst")
    assert of(shoal, ann) == []
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/unmute", ann)
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/block", ann)
    write(shoal, ben, "@ann psst")
    shoal.settle()
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/unblock", ann)
    assert of(shoal, ann) == []


def test_conversations_pages_are_ordered_by_latest_status(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    roots = [write(shoal, shoal.join(f"one{n}"), "@ann psst") for n in range(5)]
    shoal.settle()
    latest = write(shoal, ann, "@one1 yes?", roots[1])
    expected = [roots[1], roots[4], roots[3], roots[2], roots[0]]
    assert [one["id"] for one in of(shoal, ann)] == expected
    assert of(shoal, ann)[0]["last_status"]["id"] == latest
    for limit in (1, 2, 5):
        pages = walked(shoal, ann, f"{HERE}/?limit={limit}")
        assert [one["id"] for page in pages for one in page] == expected
        upwards = walked(shoal, ann, f"{HERE}?limit={limit}&min_id=1", "prev")
        assert [one["id"] for page in upwards for one in reversed(page)] == expected[::-1]
