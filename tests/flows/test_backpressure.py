"""Backpressure: new posts are refused while deliveries lag too far behind, and reads continue."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from shoal import Shoal
from shoal.commands.context import Pressure
from shoal.commands.posts import Draft, create
from shoal.core.errors import Unavailable
from shoal.core.ids import now_ms
from tests.api.in_memory_network import network_fixture
from tests.async_runner import eventually, in_loop


@pytest.fixture(autouse=True)
def _no_backpressure() -> None:
    """Keep backpressure, which is turned off for the other tests."""


def test_backpressure_refuses_a_growing_part_of_posts_from_a_third_of_the_maximum_lag() -> None:
    steps = (
        (0, 0.0, 0),
        (3, 0.0, 0),
        (6, 0.49, 1),
        (6, 0.51, 0),
        (4.5, 0.24, 1),
        (4.5, 0.26, 0),
        (9, 0.99, 1),
        (60, 0.99, 1),
    )
    behind, draw = iter([seconds for seconds, _, _ in steps]), iter([drawn for _, drawn, _ in steps])
    pressure = Pressure(lambda: next(behind), most=9.0, draw=lambda: next(draw))
    for _, _, refused in steps:
        with pytest.raises(Unavailable, match="behind") if refused else nullcontext():
            pressure.check()
    assert pressure.refused == 4


def test_backpressure_without_maximum_refuses_no_posts() -> None:
    Pressure(lambda: 1e6).check()


@in_loop
async def test_post_creation_is_refused_while_deliveries_lag_and_reads_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go = asyncio.Event()
    async with Shoal.open("memory://", most_behind_seconds=30.0) as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        await ben.follow(ann)
        old = await ann.create("from before")
        await shoal.settle()

        async def held_up(message: Any) -> None:
            await go.wait()

        monkeypatch.setattr(shoal.network.effects.channel, "publish", held_up)
        # The oldest pending event was committed a minute ago.
        with monkeypatch.context() as earlier:
            earlier.setattr("shoal.graph.memory.now_ms", lambda: now_ms() - 60_000)
            await ann.create("delivered late")

        async def is_behind() -> bool:
            return shoal.network.runner.behind() > 50

        await eventually(is_behind, answer=True)
        with pytest.raises(Unavailable, match="behind"):
            await ann.create("too much")
        with pytest.raises(Unavailable, match="behind"):
            await ben.share(old)
        assert [entry.post.text for entry in (await ben.home()).entries][-1] == "from before"
        await ben.like(old)
        imported = await create(shoal.network.writes, ann.id, Draft(text="taken on before"), record="of an import")
        assert imported.text == "taken on before"
        go.set()
        await shoal.settle()
        assert shoal.network.runner.behind() == 0
        await ann.create("goes again")


def test_status_creation_under_backpressure_is_refused_without_reads_or_rate_limit_use() -> None:
    """The check comes before the token, the rate limit and the body, so a refusal is cheap."""
    with network_fixture(rate_limits=True) as shoal:
        ann = shoal.join("ann")
        liked = shoal.json("POST", "/api/v1/statuses", ann, json={"status": "from before"})["id"]
        shoal.network.writes.pressure.behind = lambda: 60.0
        for path in ("/api/v1/statuses", f"/api/v1/statuses/{liked}/reblog"):
            shoal.graph.reads.clear()
            for headers in ({}, {"authorization": "Bearer nobody's"}):
                answer = shoal.ask("POST", path, json={"status": 7}, headers=headers)
                assert answer.status_code == 503, answer.text
                assert "x-ratelimit-remaining" not in answer.headers
            assert shoal.graph.reads == []
        assert shoal.ask("POST", "/api/v1/statuses/").status_code == 503
        # Actions without deliveries are accepted.
        assert shoal.ask("POST", f"/api/v1/statuses/{liked}/favourite", ann).status_code == 200


def test_status_creation_under_backpressure_returns_503_with_retry_after() -> None:
    with network_fixture() as shoal:
        ann = shoal.join("ann")
        shoal.network.writes.pressure.behind = lambda: 60.0
        answer = shoal.ask("POST", "/api/v1/statuses", ann, json={"status": "too much"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "60 seconds behind" in answer.json()["error"]
        assert shoal.ask("GET", "/api/v1/timelines/home", ann).status_code == 200
        shoal.network.writes.pressure.behind = lambda: 0.9
        assert shoal.ask("POST", "/api/v1/statuses", ann, json={"status": "goes again"}).status_code == 200
