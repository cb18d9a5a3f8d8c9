"""Members can remove their reactions and reblogs, even from a status that they can no longer see."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from shoal.commands import moderation
from tests.api.in_memory_network import NetworkFixture, Someone


@pytest.fixture
def pair(shoal: NetworkFixture) -> tuple[Someone, Someone]:
    """Return the author and a reacting member."""
    return shoal.join("ann"), shoal.join("ben")


def reacted_then_blocked(shoal: NetworkFixture, ann: Someone, ben: Someone, *verbs: str) -> tuple[str, dict[str, Any]]:
    """Let Ben act on a post of Ann, then let Ann block Ben; return the post id and the last response to Ben."""
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
def test_reaction_removal_on_hidden_status_succeeds_once_then_returns_404(
    shoal: NetworkFixture, pair: tuple[Someone, Someone], verb: str, back: str, flag: str
) -> None:
    ann, ben = pair
    post_id, _ = reacted_then_blocked(shoal, ann, ben, verb)
    assert shoal.ask("GET", f"/api/v1/statuses/{post_id}", ben).status_code == 404
    assert shoal.json("POST", f"/api/v1/statuses/{post_id}/{back}", ben)[flag] is False
    assert shoal.ask("POST", f"/api/v1/statuses/{post_id}/{back}", ben).status_code == 404


def test_reaction_removal_on_hidden_status_without_reaction_returns_404(
    shoal: NetworkFixture, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    post_id, _ = reacted_then_blocked(shoal, ann, ben, "favourite")
    for back in ("unbookmark", "unreblog"):
        assert shoal.ask("POST", f"/api/v1/statuses/{post_id}/{back}", ben).status_code == 404


def test_reblog_deletion_by_id_after_block_deletes_reblog(shoal: NetworkFixture, pair: tuple[Someone, Someone]) -> None:
    ann, ben = pair
    _, share = reacted_then_blocked(shoal, ann, ben, "reblog")
    assert shoal.json("DELETE", f"/api/v1/statuses/{share['id']}", ben)["id"] == share["id"]
    assert shoal.ask("DELETE", f"/api/v1/statuses/{share['id']}", ben).status_code == 404
    shoal.settle()
    assert shoal.json("GET", f"/api/v1/accounts/{ben.id}/statuses", ben) == []


def test_status_deletion_of_other_member_returns_404(shoal: NetworkFixture, pair: tuple[Someone, Someone]) -> None:
    ann, ben = pair
    post = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "hello"})
    share = shoal.json("POST", f"/api/v1/statuses/{post['id']}/reblog", ben)
    assert shoal.ask("DELETE", f"/api/v1/statuses/{share['id']}", ann).status_code == 404
    assert shoal.ask("DELETE", f"/api/v1/statuses/{post['id']}", ben).status_code == 404
    assert shoal.json("GET", f"/api/v1/statuses/{share['id']}", ben)["reblog"]["id"] == post["id"]


BARE = {
    "content": "",
    "spoiler_text": "",
    "sensitive": False,
    "language": None,
    "media_attachments": [],
    "mentions": [],
    "tags": [],
    "poll": None,
    "edited_at": None,
    "in_reply_to_id": None,
    "in_reply_to_account_id": None,
    "replies_count": 0,
    "reblogs_count": 0,
    "favourites_count": 0,
}
"""Expected fields of a status that the viewer may not see."""


def _block(shoal: NetworkFixture, ann: Someone, ben: Someone, post_id: str) -> None:
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/block", ann)


def _unfollow(shoal: NetworkFixture, ann: Someone, ben: Someone, post_id: str) -> None:
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/unfollow", ben)


def _hide(shoal: NetworkFixture, ann: Someone, ben: Someone, post_id: str) -> None:
    shoal.run(moderation.hide(shoal.network.writes, int(post_id)))


def _suspend(shoal: NetworkFixture, ann: Someone, ben: Someone, post_id: str) -> None:
    shoal.run(moderation.suspend(shoal.network.writes, int(ann.id)))
    shoal.settle()


WAYS = {
    "blocked": ("public", _block),
    "blocked, unlisted": ("unlisted", _block),
    "no follower any more": ("private", _unfollow),
    "hidden": ("public", _hide),
    "suspended": ("public", _suspend),
}
VERBS = {"favourite": "unfavourite", "bookmark": "unbookmark", "reblog": "unreblog"}


@pytest.mark.parametrize(
    ("way", "verb"),
    # A followers-only status can be reblogged only by its author.
    [(way, verb) for way, verb in product(WAYS, VERBS) if (WAYS[way][0], verb) != ("private", "reblog")],
)
def test_reaction_removal_response_omits_content_of_hidden_status(
    shoal: NetworkFixture, pair: tuple[Someone, Someone], way: str, verb: str
) -> None:
    ann, ben = pair
    visibility, shut_out = WAYS[way]
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    said = {
        "status": "a secret for @ben #tide",
        "spoiler_text": "hush",
        "language": "en",
        "visibility": visibility,
        "poll": {"options": ["yes", "no"], "expires_in": 3600},
        "shoal": {"data": {"a": 1}, "place": {"latitude": 0, "longitude": 2}},
    }
    if visibility == "private":
        # A mentioned member would see the status in any case.
        said["status"] = "a secret #tide"
    post = shoal.json("POST", "/api/v1/statuses", ann, json=said)
    shoal.json("POST", "/api/v1/statuses", ann, json={"status": "so", "in_reply_to_id": post["id"]})
    shoal.json("POST", f"/api/v1/statuses/{post['id']}/{verb}", ben)
    before = shoal.json("GET", f"/api/v1/statuses/{post['id']}", ben)
    shut_out(shoal, ann, ben, post["id"])
    assert shoal.ask("GET", f"/api/v1/statuses/{post['id']}", ben).status_code == 404
    answer = shoal.json("POST", f"/api/v1/statuses/{post['id']}/{VERBS[verb]}", ben)
    assert set(answer) == set(before) - {"shoal"}
    assert {key: answer[key] for key in BARE} == BARE
    assert (answer["id"], answer["url"], answer["created_at"]) == (post["id"], post["url"], post["created_at"])
    account = answer["account"]
    assert (account["id"], account["acct"]) == (ann.id, "ann")
    assert set(account) == set(post["account"])
    text = str(answer)
    assert not any(word in text for word in ("secret", "hush", "tide", "yes"))


def test_reblog_deletion_response_omits_content_of_hidden_status(
    shoal: NetworkFixture, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    _, share = reacted_then_blocked(shoal, ann, ben, "reblog")
    gone = shoal.json("DELETE", f"/api/v1/statuses/{share['id']}", ben)
    assert gone["id"] == share["id"]
    assert {key: gone["reblog"][key] for key in BARE} == BARE
