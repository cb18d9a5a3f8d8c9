"""Lists include the application data of other members' statuses only on request, because it can be very large."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.in_memory_network import NetworkFixture, Someone
from tests.api.streaming.stream_clients import stream_server
from tests.async_runner import in_loop

SMALL = {"n": "ä" * 40}
EDGE = {"p": "x" * (4 * 1024 - 8)}
BEYOND = {"p": "x" * (4 * 1024 - 7)}
LARGE = {"pad": "x" * 60_000}


def size_of(data: object) -> int:
    """Return the size of the data as JSON, in bytes."""
    return len(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode())


class Scene:
    """Ann's posts have small data, data at the list limit, one byte above it, and large data; Ben follows her."""

    def __init__(self, shoal: NetworkFixture, *, answers: bool = True) -> None:
        self.answers = answers
        self.ann, self.ben = shoal.join("ann"), shoal.join("ben")
        shoal.json("POST", f"/api/v1/accounts/{self.ann.id}/follow", self.ben)
        self.root = self.write(shoal, "root", None)
        self.data = [SMALL, EDGE, BEYOND, LARGE]
        self.posts = [self.write(shoal, f"@ben {n} #tide seaweed", one) for n, one in enumerate(self.data)]
        for post in self.posts:
            for verb in ("favourite", "bookmark"):
                shoal.json("POST", f"/api/v1/statuses/{post}/{verb}", self.ben)
        made = shoal.json("POST", "/api/v1/lists", self.ben, json={"title": "some"})
        self.list = made["id"]
        shoal.json("POST", f"/api/v1/lists/{self.list}/accounts", self.ben, json={"account_ids": [self.ann.id]})
        shoal.settle()

    def write(self, shoal: NetworkFixture, text: str, data: Any) -> str:
        extra = {"shoal": {"data": data, "place": {"latitude": 0, "longitude": 2}}} if data else {}
        answers = {"in_reply_to_id": self.root} if data and self.answers else {}
        body = {"status": text, **extra, **answers}
        made = shoal.json("POST", "/api/v1/statuses", self.ann, json=body)
        # The response to the author always contains the full data.
        assert made.get("shoal", {}).get("data") == data
        return str(made["id"])

    def asked(self) -> str:
        return "&".join(f"id[]={post}" for post in self.posts)


LISTS: dict[str, Callable[[Scene], str]] = {
    "home": lambda scene: "/api/v1/timelines/home?",
    "a tag": lambda scene: "/api/v1/timelines/tag/tide?",
    "everybody": lambda scene: "/api/v1/timelines/public?",
    "a list": lambda scene: f"/api/v1/timelines/list/{scene.list}?",
    "an account": lambda scene: f"/api/v1/accounts/{scene.ann.id}/statuses?",
    "favourites": lambda scene: "/api/v1/favourites?",
    "bookmarks": lambda scene: "/api/v1/bookmarks?",
    "several by id": lambda scene: f"/api/v1/statuses?{scene.asked()}&",
    "a thread": lambda scene: f"/api/v1/statuses/{scene.root}/context?",
    "replies": lambda scene: f"/api/shoal/v1/statuses/{scene.root}/replies?",
    "search": lambda scene: "/api/v2/search?q=seaweed&type=statuses&",
    "trends": lambda scene: "/api/v1/trends/statuses?",
    "notifications": lambda scene: "/api/v1/notifications?",
    "groups": lambda scene: "/api/v2/notifications?",
}
NO_ONES_OWN = {"trends", "everybody", "an account", "a tag", "several by id", "a thread", "replies"}
"""Lists that are readable without a token."""


def found(answer: Any) -> dict[str, Any]:
    """Return the `shoal` object of each status in a response, by status id."""
    if isinstance(answer, list):
        return {key: value for one in answer for key, value in found(one).items()}
    if not isinstance(answer, dict):
        return {}
    inner = found(list(answer.values()))
    return {answer["id"]: answer["shoal"], **inner} if isinstance(answer.get("shoal"), dict) else inner


def left_out(data: object) -> dict[str, Any]:
    return {"data_bytes": size_of(data), "place": {"latitude": 0.0, "longitude": 2.0}}


def given(data: object) -> dict[str, Any]:
    return {"data": data, "place": {"latitude": 0.0, "longitude": 2.0}}


@pytest.mark.parametrize("name", LISTS)
def test_status_list_includes_small_app_data_only_with_data_parameter(shoal: NetworkFixture, name: str) -> None:
    # Replies do not trend.
    scene = Scene(shoal, answers=name != "trends")
    path = LISTS[name](scene)
    readers: list[Someone | str] = [scene.ben, *([""] if name in NO_ONES_OWN else [])]
    for reader in readers:
        for _ in range(2):
            seen = found(shoal.json("GET", path, reader))
            assert seen
            assert seen.items() <= dict(zip(scene.posts, map(left_out, scene.data), strict=True)).items()
            assert len(seen) == 4
            shown = [given(SMALL), given(EDGE), left_out(BEYOND), left_out(LARGE)]
            seen = found(shoal.json("GET", f"{path}with_data=true", reader))
            assert seen
            assert seen.items() <= dict(zip(scene.posts, shown, strict=True)).items()
        for post, data in zip(scene.posts, scene.data, strict=True):
            assert shoal.json("GET", f"/api/v1/statuses/{post}", reader)["shoal"] == given(data)


def test_status_list_includes_full_app_data_of_own_statuses(shoal: NetworkFixture) -> None:
    scene = Scene(shoal)
    whole = dict(zip(scene.posts, map(given, scene.data), strict=True))
    for name in ("home", "an account", "several by id", "a thread"):
        assert found(shoal.json("GET", LISTS[name](scene), scene.ann)) == whole


def test_public_timeline_page_with_large_app_data_stays_small(shoal: NetworkFixture) -> None:
    ann = shoal.join("ann")
    for n in range(40):
        shoal.json("POST", "/api/v1/statuses", ann, json={"status": str(n), "shoal": {"data": LARGE}})
    assert len(shoal.ask("GET", "/api/v1/timelines/public?limit=40").content) < 100_000
    assert len(shoal.ask("GET", "/api/v1/timelines/public?limit=40&with_data=true").content) < 100_000


def test_home_timeline_next_link_keeps_with_data_parameter(shoal: NetworkFixture) -> None:
    scene = Scene(shoal)
    first = shoal.ask("GET", "/api/v1/timelines/home?limit=1&with_data=true", scene.ben)
    assert "with_data=true" in first.links["next"]["url"]


@in_loop
async def test_streamed_status_includes_app_data_only_if_stream_has_with_data_parameter() -> None:
    async with stream_server() as server:
        ann, ben = await server.join("ann"), await server.join("ben")
        async with (
            server.ear(ben, "public") as plain,
            server.ear(ben, "public", with_data="true") as asked,
            server.socket("?stream=public&with_data=true", ben) as socket,
            server.socket("", ben) as other,
        ):
            await other.ask(type="subscribe", stream="public")
            await server.post(ann, "little", shoal={"data": SMALL})
            await plain.saw("update", 1)
            await asked.saw("update", 1)
            assert plain.events[0].json["shoal"] == {"data_bytes": size_of(SMALL)}
            assert asked.events[0].json["shoal"] == {"data": SMALL}
            assert found_in(await socket.next()) == {"data": SMALL}
            assert found_in(await other.next()) == {"data_bytes": size_of(SMALL)}
            await server.post(ann, "much", shoal={"data": LARGE})
            await asked.saw("update", 2)
            assert asked.events[1].json["shoal"] == {"data_bytes": size_of(LARGE)}


def found_in(message: dict[str, Any]) -> Any:
    return json.loads(message["payload"])["shoal"]
