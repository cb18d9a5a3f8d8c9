"""Notifications over HTTP: content, pagination, filters, counts and dismissal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shoal.core.ids import shard_of
from shoal.core.model import Member, Role
from shoal.graph.contract import Batch
from shoal.graph.schema import EVERYBODY, SERVES
from tests.api.http.test_server import reads_of
from tests.api.in_memory_network import NetworkFixture, Someone

V1 = "/api/v1/notifications"


def of(shoal: NetworkFixture, who: Someone, query: str = "") -> list[Any]:
    """Return the member's notifications after pending work is processed."""
    shoal.settle()
    answer = shoal.json("GET", f"{V1}{query}", who)
    assert isinstance(answer, list)
    return answer


def walked(shoal: NetworkFixture, who: Someone, path: str, rel: str = "next") -> list[Any]:
    """Follow the Link headers from a page and return the bodies."""
    bodies = []
    while path:
        answer = shoal.ask("GET", path, who)
        bodies.append(answer.json())
        found = re.search(rf'<http://shoal.test([^>]+)>; rel="{rel}"', answer.headers.get("link", ""))
        path = found[1] if found and answer.json() else ""
    return bodies


@pytest.fixture
def cast(shoal: NetworkFixture) -> tuple[Someone, Someone]:
    """Members Ann and Ben."""
    return shoal.join("ann"), shoal.join("ben")


def liked_by(shoal: NetworkFixture, author: Someone, n: int) -> list[Someone]:
    """Create a post and let n new members favourite it in sequence."""
    post = shoal.json("POST", "/api/v1/statuses", author, json={"status": "like this"})
    fans = [shoal.join(f"fan{at}") for at in range(n)]
    for fan in fans:
        shoal.json("POST", f"/api/v1/statuses/{post['id']}/favourite", fan)
    return fans


def test_favourite_notification_includes_account_and_own_status(
    shoal: NetworkFixture, cast: tuple[Someone, Someone]
) -> None:
    ann, ben = cast
    post = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "low tide"})
    shoal.json("POST", f"/api/v1/statuses/{post['id']}/favourite", ben)
    (found,) = of(shoal, ann)
    assert found["type"] == "favourite"
    assert found["account"]["username"] == "ben"
    assert found["status"]["id"] == post["id"]
    assert found["status"]["account"]["username"] == "ann"
    assert found["status"]["favourites_count"] == 1
    assert re.fullmatch(rf"favourite-{post['id']}-\d+", found["group_key"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["created_at"])
    assert "report" not in found
    assert shoal.json("GET", f"{V1}/{found['id']}", ann) == found
    assert of(shoal, ben) == []


def test_follow_notification_has_no_status_and_mention_has_one(
    shoal: NetworkFixture, cast: tuple[Someone, Someone]
) -> None:
    ann, ben = cast
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    shoal.json("POST", "/api/v1/statuses", ben, json={"status": "hello @ann"})
    mention, follow = of(shoal, ann)
    assert (mention["type"], follow["type"]) == ("mention", "follow")
    assert mention["status"]["account"]["username"] == "ben"
    assert mention["group_key"] == f"ungrouped-{mention['id']}"
    assert "status" not in follow
    assert follow["account"]["id"] == ben.id


def test_notifications_list_with_types_and_exclude_types_parameters_applies_both(
    shoal: NetworkFixture, cast: tuple[Someone, Someone]
) -> None:
    ann, ben = cast
    cyd = shoal.join("cyd")
    shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    for who in (ben, cyd):
        shoal.json("POST", "/api/v1/statuses", who, json={"status": "hello @ann"})

    def kinds(query: str) -> list[tuple[str, str]]:
        return [(item["type"], item["account"]["username"]) for item in of(shoal, ann, query)]

    assert kinds("?types[]=follow") == [("follow", "ben")]
    assert kinds("?types=mention") == [("mention", "cyd"), ("mention", "ben")]
    assert kinds("?exclude_types[]=mention") == [("follow", "ben")]
    assert kinds("?types[]=mention&types[]=follow&exclude_types[]=follow") == [("mention", "cyd"), ("mention", "ben")]
    assert kinds(f"?account_id={ben.id}&types[]=mention") == [("mention", "ben")]
    assert kinds("?types[]=moderation_warning") == []
    assert shoal.ask("GET", f"{V1}?account_id=nobody", ann).status_code == 404


def test_notifications_pagination_returns_each_notification_once_in_both_directions(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    liked_by(shoal, ann, 7)
    every = [item["id"] for item in of(shoal, ann)]
    assert len(every) == 7
    assert every == sorted(every, key=int, reverse=True)
    for limit in (1, 2, 3, 7):
        pages = walked(shoal, ann, f"{V1}?limit={limit}")
        assert [item["id"] for page in pages for item in page] == every
        upwards = walked(shoal, ann, f"{V1}?limit={limit}&min_id=1", "prev")
        assert [item["id"] for page in upwards for item in reversed(page)] == every[::-1]
    assert [item["id"] for item in of(shoal, ann, f"?since_id={every[3]}&limit=2")] == every[:2]
    assert [item["id"] for item in of(shoal, ann, f"?min_id={every[3]}&limit=2")] == every[1:3]
    assert [item["id"] for item in of(shoal, ann, f"?max_id={every[1]}&min_id={every[4]}")] == every[2:4]


def test_notifications_link_header_keeps_filters(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    liked_by(shoal, ann, 3)
    shoal.settle()
    link = shoal.ask("GET", f"{V1}?limit=2&types[]=favourite", ann).headers["link"]
    assert "types%5B%5D=favourite" in link
    assert link.index('rel="next"') < link.index('rel="prev"')


def test_notifications_are_dismissed_by_id_and_cleared(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    liked_by(shoal, ann, 4)
    first, second, *rest = (item["id"] for item in of(shoal, ann))
    assert shoal.json("POST", f"{V1}/{first}/dismiss", ann) == {}
    assert shoal.json("POST", f"{V1}/dismiss", ann, json={"id": second}) == {}
    assert [item["id"] for item in of(shoal, ann)] == rest
    for path in (f"{V1}/{first}", f"{V1}/1", f"{V1}/{2**63 - 1}", f"{V1}/-5", f"{V1}/x"):
        assert shoal.ask("GET", path, ann).status_code == 404
    assert shoal.ask("POST", f"{V1}/{first}/dismiss", ann).status_code == 404
    assert shoal.ask("POST", f"{V1}/{2**63 - 1}/dismiss", ann).status_code == 404
    assert shoal.json("POST", f"{V1}/clear", ann) == {}
    assert of(shoal, ann) == []
    shoal.json("POST", "/api/v1/statuses", shoal.join("ben"), json={"status": "@ann, again"})
    assert [item["type"] for item in of(shoal, ann)] == ["mention"]


def test_notification_of_other_member_returns_404(shoal: NetworkFixture, cast: tuple[Someone, Someone]) -> None:
    ann, ben = cast
    liked_by(shoal, ann, 1)
    (found,) = of(shoal, ann)
    assert shoal.ask("GET", f"{V1}/{found['id']}", ben).status_code == 404
    assert shoal.ask("POST", f"{V1}/{found['id']}/dismiss", ben).status_code == 404
    assert of(shoal, ann) == [found]


def test_notifications_unread_count_starts_at_marker(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    assert shoal.json("GET", f"{V1}/unread_count", ann) == {"count": 0}
    liked_by(shoal, ann, 5)
    ids = [item["id"] for item in of(shoal, ann)]
    assert shoal.json("GET", f"{V1}/unread_count", ann) == {"count": 5}
    assert shoal.json("GET", f"{V1}/unread_count?limit=3", ann) == {"count": 3}
    assert shoal.json("GET", "/api/v2/notifications/unread_count", ann) == {"count": 1}
    shoal.json("POST", "/api/v1/markers", ann, json={"notifications": {"last_read_id": ids[2]}})
    assert shoal.json("GET", f"{V1}/unread_count", ann) == {"count": 2}
    assert shoal.json("GET", f"{V1}/unread_count?types[]=mention", ann) == {"count": 0}


def test_admin_sign_up_notification_is_created_for_staff(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    promote(shoal, ann)
    app = shoal.token(ann.app_id)
    form = {
        "username": "eve",
        "email": "eve@shoal.test",
        "password": "correct horse",
        "agreement": True,
        "locale": "en",
    }
    shoal.json("POST", "/api/v1/accounts", app, json=form)
    (found,) = of(shoal, ann)
    assert (found["type"], found["account"]["username"]) == ("admin.sign_up", "eve")


def promote(shoal: NetworkFixture, who: Someone) -> None:
    """Make the member an admin."""

    async def do() -> None:
        node = (await shoal.network.store.obj_get((who.member.id,)))[who.member.id]
        assert isinstance(node, Member)
        batch = Batch(shard_of(node.id))
        changed = {"role": Role.ADMIN, "version": node.version + 1}
        batch.obj_set(Member(**{**{f: getattr(node, f) for f in node.__struct_fields__}, **changed}))
        batch.assoc_add(node.id, SERVES, EVERYBODY, shoal.network.writes.new_id(batch.shard))
        await shoal.network.store.commit(batch)

    shoal.run(do())


@pytest.mark.parametrize("path", [V1, "/api/v2/notifications", "/api/v1/conversations"])
def test_notifications_page_read_count_is_independent_of_list_length(forgetful: NetworkFixture, path: str) -> None:
    shoal = forgetful
    ann = shoal.join("ann")

    def act(n: int) -> None:
        liked_by_more = shoal.json("POST", "/api/v1/statuses", ann, json={"status": f"number {n}"})
        fan = shoal.join(f"one{n}")
        shoal.json("POST", f"/api/v1/statuses/{liked_by_more['id']}/favourite", fan)
        shoal.json("POST", f"/api/v1/statuses/{liked_by_more['id']}/reblog", fan)
        shoal.json("POST", f"/api/v1/accounts/{ann.id}/follow", fan)
        shoal.json("POST", "/api/v1/statuses", fan, json={"status": "@ann psst", "visibility": "direct"})
        shoal.settle()

    act(0)
    costs = [reads_of(shoal, ann, path)]
    for n in range(1, 9):
        act(n)
    costs.append(reads_of(shoal, ann, path))
    assert costs[0] == costs[1]
