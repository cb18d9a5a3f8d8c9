"""What a member did is theirs to take back, also from a status that is hidden from them by now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.world import Someone, World


@pytest.fixture
def pair(shoal: World) -> tuple[Someone, Someone]:
    """The author, and who reacts."""
    return shoal.join("ann"), shoal.join("ben")


def reacted_then_blocked(shoal: World, ann: Someone, ben: Someone, *verbs: str) -> tuple[str, dict[str, Any]]:
    """The id of a post that Ben did this to before Ann blocked him, and the last answer he got."""
    post = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})
    answer = {}
    for verb in verbs:
        answer = shoal.json("POST", f"/api/v1/statuses/{post['id']}/{verb}", ben)
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/block", ann)
    return post["id"], answer


@pytest.mark.parametrize(
    ("verb", "back", "flag"),
    [
        ("favourite", "unfavourite", "favourited"),
        ("bookmark", "unbookmark", "bookmarked"),
        ("reblog", "unreblog", "reblogged"),
    ],
)
def test_what_ends_on_a_hidden_status_is_answered_once_and_then_not_found(
    shoal: World, pair: tuple[Someone, Someone], verb: str, back: str, flag: str
) -> None:
    ann, ben = pair
    post_id, _ = reacted_then_blocked(shoal, ann, ben, verb)
    assert shoal.ask("GET", f"/api/v1/statuses/{post_id}", ben).status_code == 404
    assert shoal.json("POST", f"/api/v1/statuses/{post_id}/{back}", ben)[flag] is False
    assert shoal.ask("POST", f"/api/v1/statuses/{post_id}/{back}", ben).status_code == 404


def test_nothing_is_told_of_a_hidden_status_that_one_did_nothing_to(
    shoal: World, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    post_id, _ = reacted_then_blocked(shoal, ann, ben, "favourite")
    for back in ("unbookmark", "unreblog"):
        assert shoal.ask("POST", f"/api/v1/statuses/{post_id}/{back}", ben).status_code == 404


def test_an_own_share_can_be_deleted_by_its_id_after_a_block(shoal: World, pair: tuple[Someone, Someone]) -> None:
    ann, ben = pair
    _, share = reacted_then_blocked(shoal, ann, ben, "reblog")
    assert shoal.json("DELETE", f"/api/v1/statuses/{share['id']}", ben)["id"] == share["id"]
    assert shoal.ask("DELETE", f"/api/v1/statuses/{share['id']}", ben).status_code == 404
    shoal.settle()
    assert shoal.json("GET", f"/api/v1/accounts/{ben.id}/statuses", ben) == []


def test_nobody_elses_share_or_status_can_be_deleted(shoal: World, pair: tuple[Someone, Someone]) -> None:
    ann, ben = pair
    post = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})
    share = shoal.json("POST", f"/api/v1/statuses/{post['id']}/reblog", ben)
    assert shoal.ask("DELETE", f"/api/v1/statuses/{share['id']}", ann).status_code == 404
    assert shoal.ask("DELETE", f"/api/v1/statuses/{post['id']}", ben).status_code == 404
    assert shoal.json("GET", f"/api/v1/statuses/{share['id']}", ben)["reblog"]["id"] == post["id"]
