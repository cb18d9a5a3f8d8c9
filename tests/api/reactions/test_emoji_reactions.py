"""Emoji reactions over HTTP, with the endpoints of Pleroma and of Mastodon forks."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.in_memory_network import NetworkFixture, Someone
from tests.api.test_notifications import of, walked

HEART, UP = "❤️", "👍"


@pytest.fixture
def pair(shoal: NetworkFixture) -> tuple[Someone, Someone]:
    """Return the author and a reacting member."""
    return shoal.join("ann"), shoal.join("ben")


def posted(shoal: NetworkFixture, who: Someone, **more: Any) -> str:
    return str(shoal.json("POST", "/api/v1/statuses", who, json={"status": "hello", **more})["id"])


def react(shoal: NetworkFixture, who: Someone, post: str, emoji: str = UP) -> Any:
    return shoal.json("PUT", f"/api/v1/statuses/{post}/react/{emoji}", who)


@pytest.mark.parametrize(
    ("method", "path", "back", "back_path"),
    [
        ("PUT", "/api/v1/statuses/{}/react/{}", "POST", "/api/v1/statuses/{}/unreact/{}"),
        ("POST", "/api/v1/statuses/{}/react/{}", "POST", "/api/v1/statuses/{}/unreact/{}"),
        (
            "PUT",
            "/api/v1/pleroma/statuses/{}/reactions/{}",
            "DELETE",
            "/api/v1/pleroma/statuses/{}/reactions/{}",
        ),
    ],
)
@pytest.mark.parametrize("emoji", [UP, HEART, "1️⃣", "🏳️‍🌈", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"])
def test_emoji_reaction_can_be_added_and_removed(
    shoal: NetworkFixture, pair: tuple[Someone, Someone], method: str, path: str, back: str, back_path: str, emoji: str
) -> None:
    ann, ben = pair
    post = posted(shoal, ann)
    for _ in range(2):
        shown = shoal.json(method, path.format(post, quote(emoji)), ben)
        assert shown["id"] == post
        assert shown["reactions"] == [{"name": emoji, "count": 1, "me": True}]
        assert shown["pleroma"] == {"emoji_reactions": shown["reactions"]}
    for who in (ann, ""):
        assert shoal.json("GET", f"/api/v1/statuses/{post}", who)["reactions"] == [
            {"name": emoji, "count": 1, "me": False}
        ]
    for _ in range(2):
        shown = shoal.json(back, back_path.format(post, quote(emoji)), ben)
        assert shown["content"]
        assert "reactions" not in shown
        assert "pleroma" not in shown


def test_emoji_reactions_are_included_in_timelines_and_reblogs(
    shoal: NetworkFixture, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    post = posted(shoal, ann, poll={"options": ["a", "b"], "expires_in": 600})
    react(shoal, ben, post, UP)
    react(shoal, ann, post, HEART)
    react(shoal, ann, post, UP)
    expected = [{"name": UP, "count": 2, "me": True}, {"name": HEART, "count": 1, "me": False}]
    shoal.settle()
    for path in ("timelines/home", "timelines/public", f"accounts/{ann.id}/statuses"):
        assert shoal.json("GET", f"/api/v1/{path}", ben)[0]["reactions"] == expected
    share = shoal.json("POST", f"/api/v1/statuses/{post}/reblog", ben)
    assert share["reblog"]["reactions"] == expected
    assert share["reblog"]["pleroma"]["emoji_reactions"] == expected
    assert "reactions" not in share
    assert share["account"]["id"] == ben.id


def test_emoji_reaction_list_shows_accounts_and_is_paginated(
    shoal: NetworkFixture, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    post = posted(shoal, ann)
    path = f"/api/v1/pleroma/statuses/{post}/reactions"
    assert shoal.json("GET", path) == []
    assert shoal.json("GET", f"{path}/{UP}") == []
    fans = [shoal.join(f"fan{n}") for n in range(4)]
    for who in (*fans, ben):
        react(shoal, who, post, UP)
    react(shoal, ben, post, HEART)
    up, heart = shoal.json("GET", path, ben)
    assert (up["name"], up["count"], up["me"]) == (UP, 5, True)
    assert [one["username"] for one in up["accounts"]] == ["ben", "fan3", "fan2", "fan1", "fan0"]
    assert [one["username"] for one in heart["accounts"]] == ["ben"]
    assert [one["me"] for one in shoal.json("GET", path)] == [False, False]
    assert shoal.json("GET", f"{path}/{quote(HEART)}", ben) == [heart]
    pages = walked(shoal, ann, f"{path}/{quote(UP)}?limit=2")
    assert [(one["name"], one["count"]) for (one,) in pages] == [(UP, 5)] * 3
    assert [account["username"] for (one,) in pages for account in one["accounts"]] == [
        one["username"] for one in up["accounts"]
    ]


@pytest.mark.parametrize("emoji", ["a", "1", ":blobcat:", "%F0%9F%91%8D%F0%9F%91%8D", "%20", "a" * 200, "%F0%9F%8F%BD"])
def test_emoji_reaction_with_invalid_emoji_is_refused(shared: NetworkFixture, emoji: str) -> None:
    ann = shared.join(f"no_emoji_{len(emoji)}_{emoji[:1].strip(':%')}{emoji[-1:].strip(':')}")
    post = posted(shared, ann)
    for method, path in (
        ("PUT", f"/api/v1/statuses/{post}/react/{emoji}"),
        ("POST", f"/api/v1/statuses/{post}/unreact/{emoji}"),
        ("DELETE", f"/api/v1/pleroma/statuses/{post}/reactions/{emoji}"),
        ("GET", f"/api/v1/pleroma/statuses/{post}/reactions/{emoji}"),
    ):
        answer = shared.ask(method, path, ann)
        assert answer.status_code == 422
        assert "emoji" in answer.json()["error"].lower()


def test_emoji_reaction_limit_per_member_is_enforced_and_published(
    shoal: NetworkFixture, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    post = posted(shoal, ann)
    most = shoal.json("GET", "/api/v2/instance")["configuration"]["reactions"]["max_reactions"]
    assert most == shoal.json("GET", "/api/v1/instance")["configuration"]["reactions"]["max_reactions"] == 8
    emoji = ("👍", "👎", "🎉", "😀", "😁", "😂", "🤣", "😃", "😄")
    for one in emoji[:most]:
        react(shoal, ben, post, one)
    answer = shoal.ask("PUT", f"/api/v1/statuses/{post}/react/{emoji[most]}", ben)
    assert (answer.status_code, answer.json()["error"]) == (
        422,
        "Validation failed: You can react to a post with at most 8 emoji",
    )
    assert len(react(shoal, ben, post, emoji[0])["reactions"]) == most


def test_nodeinfo_lists_pleroma_emoji_reactions_feature(shared: NetworkFixture) -> None:
    (link,) = shared.json("GET", "/.well-known/nodeinfo")["links"]
    found = shared.json("GET", link["href"].removeprefix("http://shoal.test"))
    assert "pleroma_emoji_reactions" in found["metadata"]["features"]


def test_emoji_reaction_notifies_author_per_emoji(shoal: NetworkFixture, pair: tuple[Someone, Someone]) -> None:
    ann, ben = pair
    post = posted(shoal, ann)
    react(shoal, ben, post, UP)
    react(shoal, ben, post, HEART)
    found = of(shoal, ann)
    assert [(one["type"], one["emoji"], one["account"]["id"], one["status"]["id"]) for one in found] == [
        ("pleroma:emoji_reaction", HEART, ben.id, post),
        ("pleroma:emoji_reaction", UP, ben.id, post),
    ]
    assert of(shoal, ann, "?types[]=pleroma:emoji_reaction") == found
    assert of(shoal, ann, "?exclude_types[]=pleroma:emoji_reaction") == []
    groups = shoal.json("GET", "/api/v2/notifications", ann)["notification_groups"]
    assert [(one["type"], one["emoji"], one["notifications_count"]) for one in groups] == [
        ("pleroma:emoji_reaction", HEART, 1),
        ("pleroma:emoji_reaction", UP, 1),
    ]
    shoal.json("POST", f"/api/v1/statuses/{post}/unreact/{UP}", ben)
    assert [one["emoji"] for one in of(shoal, ann)] == [HEART]


def test_emoji_reaction_notification_is_filtered_by_notification_policy(
    shoal: NetworkFixture, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    shoal.json("PATCH", "/api/v2/notifications/policy", ann, json={"for_not_following": "filter"})
    react(shoal, ben, posted(shoal, ann))
    assert of(shoal, ann) == []
    (request,) = shoal.json("GET", "/api/v1/notifications/requests", ann)
    assert request["account"]["id"] == ben.id
    shoal.json("POST", f"/api/v1/notifications/requests/{request['id']}/accept", ann)
    assert [one["emoji"] for one in of(shoal, ann)] == [UP]


def test_emoji_reaction_removal_from_hidden_status_omits_content(
    shoal: NetworkFixture, pair: tuple[Someone, Someone]
) -> None:
    ann, ben = pair
    post = posted(shoal, ann)
    react(shoal, ann, post, HEART)
    react(shoal, ben, post, UP)
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/block", ann)
    assert shoal.ask("PUT", f"/api/v1/statuses/{post}/react/{UP}", ben).status_code == 404
    assert shoal.ask("GET", f"/api/v1/pleroma/statuses/{post}/reactions", ben).status_code == 404
    assert shoal.ask("GET", f"/api/v1/pleroma/statuses/{post}/reactions/{UP}", ben).status_code == 404
    assert shoal.ask("POST", f"/api/v1/statuses/{post}/unreact/{quote(HEART)}", ben).status_code == 404
    answer = shoal.json("POST", f"/api/v1/statuses/{post}/unreact/{UP}", ben)
    assert (answer["id"], answer["content"]) == (post, "")
    assert "reactions" not in answer
    assert shoal.ask("POST", f"/api/v1/statuses/{post}/unreact/{UP}", ben).status_code == 404
    assert [one["name"] for one in shoal.json("GET", f"/api/v1/statuses/{post}", ann)["reactions"]] == [HEART]


def test_emoji_reaction_requires_write_favourites_scope(shoal: NetworkFixture, pair: tuple[Someone, Someone]) -> None:
    ann, _ = pair
    post = posted(shoal, ann)
    path = f"/api/v1/statuses/{post}/react/{UP}"
    assert shoal.ask("PUT", path).status_code == 401
    narrow = shoal.token(ann.app_id, ann.member.id, ("write:statuses", "read"))
    assert shoal.ask("PUT", path, narrow).status_code == 403
    enough = shoal.token(ann.app_id, ann.member.id, ("write:favourites",))
    assert shoal.json("PUT", path, enough)["id"] == post
