"""`Shoal.events`: positions, filters, the end of a network, and use from other processes and without `await`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import shoal.sync
from shoal import Shoal
from shoal.core.errors import Gone, InvalidInput, NotAllowed
from shoal.core.model import Visibility
from shoal.graph.contract import MAX_TIME
from shoal.graph.event_log import EventLog
from shoal.queries.events import Event
from tests.async_runner import in_loop


async def take(shoal: Shoal, count: int, **options: Any) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(60), aclosing(shoal.events(**options)) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


@in_loop
async def test_library_events_continue_at_position_of_every_event() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        ann = await shoal.register("ann")
        for n in range(6):
            await ann.create(f"post {n}")
        whole = await take(shoal, 7, after="start")
        assert [event.type for event in whole] == ["member.created", *["post.created"] * 6]
        for at, event in enumerate(whole[:-1]):
            following = await take(shoal, 1, after=event.position)
            assert int(following[0] in whole[: at + 2])
        await ann.create("last")
        (event,) = await take(shoal, 1, after=whole[-1].position)
        assert event.subject.startswith("post/")


@in_loop
async def test_library_events_filter_types_and_leave_out_private_data() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        ann = await shoal.register("ann", email="ann@example.org")
        await ann.create("private", visibility=Visibility.FOLLOWERS)
        await ann.create("public")
        assert len(await take(shoal, 2, after="start", types=["post"])) == 2
        (event,) = await take(shoal, 1, after="start", types=["post"], public=True)
        assert getattr(event.data, "text", "") == "public"
        with pytest.raises(NotAllowed, match="admin:read:reports"):
            await take(shoal, 1, types=["report.created"], public=True)
        with pytest.raises(InvalidInput, match="is not one of"):
            await take(shoal, 1, types=["nothing"])


@in_loop
async def test_library_events_after_their_end_are_those_committed_since() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        ann = await shoal.register("ann")
        end = await shoal.events_end()
        await ann.create("later")
        (event,) = await take(shoal, 1, after=end)
        assert getattr(event.data, "text", "") == "later"


@in_loop
async def test_library_events_from_the_start_have_positions_in_the_log() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        for name in ("ann", "ben", "cyd"):
            await shoal.register(name)
        first, _, _ = await take(shoal, 3, after="start")
        await EventLog(shoal.network.store).trim(MAX_TIME)
        with pytest.raises(Gone):
            await take(shoal, 1, after=first.position)


@in_loop
async def test_library_events_end_when_network_closes() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        await shoal.register("ann")
        events = shoal.events("start")
        assert (await anext(events)).type == "member.created"
    with pytest.raises(StopAsyncIteration):
        await anext(events)


@in_loop
async def test_library_state_is_that_of_the_events_so_far() -> None:
    async with Shoal.open("memory://", event_log="on") as shoal:
        ann, bob = await shoal.register("ann"), await shoal.register("bob")
        await bob.like(await ann.create("public"))
        await ann.create("private", visibility=Visibility.DIRECT)
        async with aclosing(shoal.events_state(public=True)) as state:
            public = [event.subject.partition("/")[0] async for event in state]
        async with aclosing(shoal.events_state()) as state:
            everything = [event.subject.partition("/")[0] async for event in state]
        assert sorted(public) == ["like", "member", "member", "post"]
        assert sorted(everything) == [*sorted(public), "post"]


def test_sync_library_events_yields_events(tmp_path: Path) -> None:
    with shoal.sync.Shoal.open(f"sqlite:///{tmp_path}/shoal.db", event_log="on") as network:
        network.register("ann").create("hello")
        found = list(islice(network.events("start"), 2))
        assert [event.type for event in found] == ["member.created", "post.created"]


@in_loop
async def test_shared_network_events_reach_process_that_does_not_own_the_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    async with (
        Shoal.open(url, shared=True, event_log="on") as owner,
        Shoal.open(url, shared=True, event_log="on") as other,
    ):
        await (await owner.register("ann")).create("hello", data={"sku": [7]})
        assert await take(other, 2, after="start") == await take(owner, 2, after="start")
