"""Notification policy: which notifications it filters or drops, and notification requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from shoal.commands import notifications
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import Role
from shoal.graph.contract import Batch
from shoal.graph.schema import HELD
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture

V1, POLICY = "/api/v1/notifications", "/api/v2/notifications/policy"
RULES = ("not_following", "not_followers", "new_accounts", "private_mentions", "limited_accounts")


@pytest.fixture(scope="module")
def shoal() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def ann(shoal: NetworkFixture, request: pytest.FixtureRequest) -> Someone:
    return shoal.join(f"ann{abs(hash(request.node.name)) % 10**8}")


@pytest.fixture
def ben(shoal: NetworkFixture, request: pytest.FixtureRequest) -> Someone:
    return shoal.join(f"ben{abs(hash(request.node.name)) % 10**8}")


def rule(shoal: NetworkFixture, who: Someone, **treatments: str) -> Any:
    return shoal.json("PATCH", POLICY, who, json={f"for_{name}": value for name, value in treatments.items()})


def heard(shoal: NetworkFixture, who: Someone, query: str = "") -> list[str]:
    """Return the types of the member's notifications after pending work is processed."""
    shoal.settle()
    return [item["type"] for item in shoal.json("GET", V1 + query, who)]


def requests(shoal: NetworkFixture, who: Someone) -> list[Any]:
    shoal.settle()
    found: list[Any] = shoal.json("GET", f"{V1}/requests", who)
    return found


def mention(shoal: NetworkFixture, by: Someone, of: Someone, **more: Any) -> Any:
    return shoal.json("POST", "/api/v1/statuses", by, json={"status": f"@{of.member.name} hello", **more})


def change(shoal: NetworkFixture, who: Someone, **fields: Any) -> None:
    """Change fields of a member directly in the store."""

    async def changed() -> None:
        node = (await shoal.network.store.obj_get((int(who.id),)))[int(who.id)]
        batch = Batch(shard_of(node.id))
        batch.obj_set(msgspec.structs.replace(node, version=node.version + 1, **fields))
        await shoal.network.store.commit(batch)

    shoal.run(changed())


def test_notifications_policy_default_accepts_everything(shoal: NetworkFixture, ann: Someone, ben: Someone) -> None:
    found = shoal.json("GET", POLICY, ann)
    assert found == {
        **{f"for_{name}": "accept" for name in RULES},
        "summary": {"pending_requests_count": 0, "pending_notifications_count": 0},
    }
    mention(shoal, ben, ann)
    assert heard(shoal, ann) == ["mention"]
    assert requests(shoal, ann) == []


def test_notifications_policy_is_saved_and_returned_by_v1_and_v2(shoal: NetworkFixture, ann: Someone) -> None:
    assert rule(shoal, ann, not_following="filter", limited_accounts="drop")["for_not_following"] == "filter"
    rule(shoal, ann, private_mentions="drop")
    found = shoal.json("GET", POLICY, ann)
    assert [found[f"for_{name}"] for name in RULES] == ["filter", "accept", "accept", "drop", "drop"]
    old = shoal.json("PATCH", f"{V1}/policy", ann, json={"filter_not_following": False, "filter_new_accounts": True})
    assert [old[f"filter_{name}"] for name in RULES[:4]] == [False, False, True, True]
    assert shoal.json("GET", POLICY, ann)["for_new_accounts"] == "filter"
    wrong = shoal.ask("PATCH", POLICY, ann, json={"for_not_following": "burn"})
    assert wrong.status_code == 422


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_notifications_policy_is_updated_by_put_and_patch(shoal: NetworkFixture, ann: Someone, method: str) -> None:
    new = shoal.json(method, POLICY, ann, json={"for_new_accounts": "drop"})
    assert new["for_new_accounts"] == "drop"
    old = shoal.json(method, f"{V1}/policy", ann, json={"filter_private_mentions": True})
    assert old["filter_private_mentions"] is True


def test_filtered_notifications_are_collected_in_notification_request_of_sender(
    shoal: NetworkFixture, ann: Someone, ben: Someone
) -> None:
    rule(shoal, ann, not_following="filter")
    post = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "mine"})
    shoal.json("POST", f"/api/v1/statuses/{post['id']}/favourite", ben)
    said = mention(shoal, ben, ann)
    assert heard(shoal, ann) == []
    (asked,) = requests(shoal, ann)
    assert (asked["id"], asked["account"]["id"], asked["notifications_count"]) == (ben.id, ben.id, "2")
    assert asked["last_status"]["id"] == said["id"]
    assert asked["created_at"] <= asked["updated_at"]
    assert shoal.json("GET", f"{V1}/requests/{ben.id}", ann) == asked
    assert shoal.json("GET", POLICY, ann)["summary"] == {
        "pending_requests_count": 1,
        "pending_notifications_count": 2,
    }
    assert heard(shoal, ann, "?include_filtered=true") == ["mention", "favourite"]
    assert heard(shoal, ann, f"?account_id={ben.id}&limit=1") == ["mention"]
    # The sender cannot read the request, and an unfavourite removes its notification.
    assert shoal.ask("GET", f"{V1}/requests/{ben.id}", ben).status_code == 404
    shoal.json("POST", f"/api/v1/statuses/{post['id']}/unfavourite", ben)
    assert requests(shoal, ann)[0]["notifications_count"] == "1"


def test_notification_request_accept_merges_and_stops_filtering_sender(
    shoal: NetworkFixture, ann: Someone, ben: Someone
) -> None:
    rule(shoal, ann, not_following="filter", not_followers="drop")
    rule(shoal, ann, not_followers="accept")
    first = mention(shoal, ben, ann)
    assert heard(shoal, ann) == []
    assert shoal.json("POST", f"{V1}/requests/{ben.id}/accept", ann) == {}
    assert shoal.json("GET", f"{V1}/requests/merged", ann) == {"merged": True}
    (found,) = shoal.json("GET", V1, ann)
    assert (found["id"], found["status"]["id"]) == (first["id"], first["id"])
    assert requests(shoal, ann) == []
    mention(shoal, ben, ann)
    assert heard(shoal, ann) == ["mention", "mention"]
    assert shoal.ask("POST", f"{V1}/requests/{ben.id}/accept", ann).status_code == 404


def test_notification_request_dismiss_deletes_only_existing_notifications(
    shoal: NetworkFixture, ann: Someone, ben: Someone
) -> None:
    rule(shoal, ann, not_following="filter")
    mention(shoal, ben, ann)
    assert len(requests(shoal, ann)) == 1
    assert shoal.json("POST", f"{V1}/requests/{ben.id}/dismiss", ann) == {}
    assert requests(shoal, ann) == []
    assert heard(shoal, ann, "?include_filtered=true") == []
    mention(shoal, ben, ann)
    assert requests(shoal, ann)[0]["notifications_count"] == "1"


def test_notification_requests_are_paginated_and_accepted_in_bulk(shoal: NetworkFixture, ann: Someone) -> None:
    rule(shoal, ann, not_following="filter")
    senders = [shoal.join(f"sender{at}") for at in range(5)]
    for sender in senders:
        mention(shoal, sender, ann)
    assert [item["id"] for item in requests(shoal, ann)] == [sender.id for sender in reversed(senders)]
    page = shoal.ask("GET", f"{V1}/requests?limit=2", ann)
    assert [item["id"] for item in page.json()] == [senders[4].id, senders[3].id]
    following = page.links["next"]["url"].partition("http://shoal.test")[2]
    assert [item["id"] for item in shoal.json("GET", following, ann)] == [senders[2].id, senders[1].id]
    both = {"id": [senders[0].id, senders[1].id]}
    assert shoal.ask("POST", f"{V1}/requests/accept", ann, json={"id": [ann.id, senders[0].id]}).status_code == 404
    assert shoal.json("POST", f"{V1}/requests/accept", ann, json=both) == {}
    assert shoal.json("POST", f"{V1}/requests/dismiss", ann, json={"id": [senders[2].id]}) == {}
    assert [item["id"] for item in requests(shoal, ann)] == [senders[4].id, senders[3].id]
    assert heard(shoal, ann) == ["mention", "mention"]


def stranger(shoal: NetworkFixture, ann: Someone, ben: Someone) -> None:
    """Change nothing."""


def silenced(shoal: NetworkFixture, ann: Someone, ben: Someone) -> None:
    change(shoal, ben, silenced=True)


def followed(shoal: NetworkFixture, ann: Someone, ben: Someone) -> None:
    shoal.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)


def moderator(shoal: NetworkFixture, ann: Someone, ben: Someone) -> None:
    change(shoal, ben, role=Role.MODERATOR)


@pytest.mark.parametrize(
    ("name", "made", "more", "held"),
    [
        ("not_following", stranger, {}, True),
        ("not_following", followed, {}, False),
        ("not_following", moderator, {}, False),
        ("not_followers", stranger, {}, True),
        ("not_followers", followed, {}, True),
        ("new_accounts", stranger, {}, True),
        ("new_accounts", followed, {}, False),
        ("private_mentions", stranger, {"visibility": "direct"}, True),
        ("private_mentions", stranger, {}, False),
        ("private_mentions", followed, {"visibility": "direct"}, False),
        ("limited_accounts", silenced, {}, True),
        ("limited_accounts", stranger, {}, False),
    ],
)
@pytest.mark.parametrize("treatment", ["filter", "drop"])
def test_notifications_policy_rule_applies_to_matching_senders(
    shoal: NetworkFixture,
    ann: Someone,
    ben: Someone,
    name: str,
    made: Callable[[NetworkFixture, Someone, Someone], None],
    more: dict[str, str],
    held: bool,
    treatment: str,
) -> None:
    made(shoal, ann, ben)
    rule(shoal, ann, **{name: treatment})
    mention(shoal, ben, ann, **more)
    assert heard(shoal, ann) == ([] if held else ["mention"])
    assert len(requests(shoal, ann)) == (held and treatment == "filter")


def test_notifications_policy_allows_reply_to_own_direct_post(
    shoal: NetworkFixture, ann: Someone, ben: Someone
) -> None:
    rule(shoal, ann, private_mentions="drop")
    began = mention(shoal, ann, ben, visibility="direct")
    answer = mention(shoal, ben, ann, visibility="direct", in_reply_to_id=began["id"])
    mention(shoal, ben, ann, visibility="direct", in_reply_to_id=answer["id"])
    assert heard(shoal, ann) == ["mention", "mention"]


@pytest.mark.parametrize(
    ("name", "follows", "days"),
    [("not_followers", True, 3), ("new_accounts", False, 30)],
)
def test_notifications_policy_follower_and_account_age_rules_expire(
    shoal: NetworkFixture,
    ann: Someone,
    ben: Someone,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    follows: bool,
    days: int,
) -> None:
    rule(shoal, ann, **{name: "drop"})
    if follows:
        shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    shoal.settle()
    now = now_ms()
    for passed in (0, days * 86_400_000 - 60_000):
        monkeypatch.setattr("shoal.consumers.notifications.now_ms", lambda at=now + passed: at)
        mention(shoal, ben, ann)
        assert heard(shoal, ann) == []
    monkeypatch.setattr("shoal.consumers.notifications.now_ms", lambda: now + days * 86_400_000 + 60_000)
    mention(shoal, ben, ann)
    assert heard(shoal, ann) == ["mention"]


def test_notification_request_accepted_while_notification_is_filtered_delivers_notification(
    shoal: NetworkFixture, ann: Someone, ben: Someone
) -> None:
    rule(shoal, ann, not_following="filter")
    mention(shoal, ben, ann)
    assert len(requests(shoal, ann)) == 1
    commit = shoal.network.effects.graph.commit
    accepted: list[int] = []

    async def accept_first(batch: Batch) -> Any:
        if any(op.atype == HELD.number and op.alive for op in batch.assocs) and not accepted:
            accepted.append(1)
            await notifications.accept_requests(shoal.writes, int(ann.id), [int(ben.id)])
        return await commit(batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shoal.network.effects.graph, "commit", accept_first)
        mention(shoal, ben, ann)
        assert heard(shoal, ann) == ["mention", "mention"]
    assert accepted
    assert requests(shoal, ann) == []
