"""Grouped notifications over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.ids import compose, shard_of
from shoal.graph.contract import Batch
from shoal.graph.payloads.notifications import Kind, Notice, begun
from tests.api.in_memory_network import NetworkFixture, Someone
from tests.api.test_notifications import liked_by, of, walked

V2 = "/api/v2/notifications"
NOON = 1_790_000_000_000 // 43_200_000 * 43_200_000
"""The start of a twelve-hour grouping window."""


def groups(shoal: NetworkFixture, who: Someone, query: str = "") -> Any:
    """Return the body of a page of grouped notifications."""
    shoal.settle()
    return shoal.json("GET", f"{V2}{query}", who)


def noted(shoal: NetworkFixture, who: Someone, notice: Notice, milliseconds: int) -> None:
    """Store a notification with the given timestamp."""
    batch = Batch(shard_of(who.member.id))
    batch.put(begun(who.member.id, notice, compose(milliseconds, 7)))
    shoal.run(shoal.network.store.commit(batch))


def test_grouped_notifications_merge_favourites_of_one_status(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    fans = liked_by(shoal, ann, 10)
    shoal.json("POST", "/api/v1/statuses", ben, json={"status": "@ann hello"})
    found = groups(shoal, ann)
    mention, liked = found["notification_groups"]
    ones = of(shoal, ann)
    assert mention["type"] == "mention"
    assert mention["group_key"] == f"ungrouped-{ones[0]['id']}"
    assert mention["notifications_count"] == 1
    assert liked["group_key"] == ones[1]["group_key"]
    assert liked["notifications_count"] == 10
    assert liked["sample_account_ids"] == [fan.id for fan in fans[:1:-1]]
    assert liked["most_recent_notification_id"] == liked["page_max_id"] == ones[1]["id"]
    assert liked["page_min_id"] == ones[-1]["id"]
    assert liked["latest_page_notification_at"] == ones[1]["created_at"]
    assert {status["id"] for status in found["statuses"]} == {mention["status_id"], liked["status_id"]}
    assert {account["id"] for account in found["accounts"]} == {ben.id, *liked["sample_account_ids"]}
    assert "partial_accounts" not in found


def test_grouped_notifications_with_partial_avatars_contain_only_first_account_completely(
    shoal: NetworkFixture,
) -> None:
    ann = shoal.join("ann")
    fans = liked_by(shoal, ann, 3)
    found = groups(shoal, ann, "?expand_accounts=partial_avatars")
    assert [account["id"] for account in found["accounts"]] == [fans[2].id]
    partial = {account["id"]: account for account in found["partial_accounts"]}
    assert set(partial) == {fans[0].id, fans[1].id}
    whole = found["accounts"][0]
    assert set(partial[fans[0].id]) < set(whole)
    assert shoal.ask("GET", f"{V2}?expand_accounts=some", ann).status_code == 422


def test_grouped_notifications_parameter_grouped_types_selects_kinds_that_are_grouped(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    for fan in liked_by(shoal, ann, 2):
        shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", fan)
    kinds = [(one["type"], one["notifications_count"]) for one in groups(shoal, ann)["notification_groups"]]
    assert kinds == [("follow", 2), ("favourite", 2)]
    found = groups(shoal, ann, "?grouped_types[]=favourite&grouped_types[]=mention")["notification_groups"]
    assert [(one["type"], one["notifications_count"]) for one in found] == [
        ("follow", 1),
        ("follow", 1),
        ("favourite", 2),
    ]
    assert all(one["group_key"].startswith("ungrouped-") for one in found[:2])


def test_notification_group_is_split_at_twelve_hour_boundary(shoal: NetworkFixture) -> None:
    ann, ben, cyd = map(shoal.join, ("ann", "ben", "cyd"))
    for who, moment in ((ben, NOON - 1), (cyd, NOON), (ann, NOON + 43_199_999)):
        noted(shoal, ann, Notice(Kind.FOLLOW, who.member.id), moment)
    found = groups(shoal, ann)["notification_groups"]
    assert [one["sample_account_ids"] for one in found] == [[ann.id, cyd.id], [ben.id]]
    assert len({one["group_key"] for one in found}) == 2


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_grouped_notifications_pages_count_every_notification_once(shoal: NetworkFixture, limit: int) -> None:
    ann = shoal.join("ann")
    posts = [shoal.json("POST", "/api/v1/statuses", ann, json={"status": f"{n}"})["id"] for n in range(3)]
    for n in range(4):
        fan = shoal.join(f"fan{n}")
        for post in posts:
            shoal.json("POST", f"/api/v1/statuses/{post}/favourite", fan)
        shoal.json("POST", "/api/v1/statuses", fan, json={"status": "@ann"})
    ones = of(shoal, ann)
    assert len(ones) == 16
    pages = walked(shoal, ann, f"{V2}?limit={limit}")
    every = [one for page in pages for one in page["notification_groups"]]
    assert all(len(page["notification_groups"]) <= limit for page in pages)
    assert sum(one["notifications_count"] for one in every) == len(ones)
    counted: dict[str, int] = {}
    for one in every:
        counted[one["group_key"]] = counted.get(one["group_key"], 0) + one["notifications_count"]
    keys = [item["group_key"] for item in ones]
    assert counted == {key: keys.count(key) for key in keys}
    ends = {one["page_min_id"] for one in every} | {one["page_max_id"] for one in every}
    assert ends <= {item["id"] for item in ones}


def test_notification_group_is_read_and_dismissed_by_key(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    fans = liked_by(shoal, ann, 10)
    (whole,) = groups(shoal, ann)["notification_groups"]
    path = f"{V2}/{whole['group_key']}"
    assert shoal.json("GET", path, ann)["notification_groups"] == [whole]
    assert [one["id"] for one in shoal.json("GET", f"{path}/accounts", ann)] == [fan.id for fan in reversed(fans)]
    assert shoal.ask("GET", path, fans[0]).status_code == 404
    assert shoal.json("POST", f"{path}/dismiss", fans[0]) == {}
    assert shoal.json("POST", f"{path}/dismiss", ann) == {}
    assert shoal.json("POST", f"{path}/dismiss", ann) == {}
    assert groups(shoal, ann)["notification_groups"] == []
    assert of(shoal, ann) == []
    assert shoal.ask("GET", path, ann).status_code == 404
    assert shoal.ask("GET", f"{path}/accounts", ann).status_code == 404


def test_ungrouped_notification_is_read_and_dismissed_by_group_key(shoal: NetworkFixture) -> None:
    ann, ben = shoal.join("ann"), shoal.join("ben")
    shoal.json("POST", "/api/v1/statuses", ben, json={"status": "@ann"})
    (whole,) = groups(shoal, ann)["notification_groups"]
    assert shoal.json("GET", f"{V2}/{whole['group_key']}", ann)["notification_groups"] == [whole]
    assert shoal.json("POST", f"{V2}/{whole['group_key']}/dismiss", ann) == {}
    assert groups(shoal, ann)["notification_groups"] == []


@pytest.mark.parametrize(
    "key",
    [
        "x",
        "ungrouped-",
        "ungrouped-x",
        "ungrouped-0",
        f"ungrouped-{10**19 - 1}",
        "follow-1",
        "follow-999999999",
        "follow-2-41435",
        "favourite-1",
        f"favourite-{10**19 - 1}-41435",
        "mention-1-41435",
    ],
)
def test_notification_group_with_invalid_key_returns_404(shared: NetworkFixture, key: str) -> None:
    ann = shared.join(f"ann{abs(hash(key)) % 10**9}")
    for method, path in (("GET", key), ("GET", f"{key}/accounts")):
        assert shared.ask(method, f"{V2}/{path}", ann).status_code == 404
    assert shared.ask("POST", f"{V2}/{key}/dismiss", ann).status_code == 404
