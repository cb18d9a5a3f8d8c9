"""Apps of networks from before, which are on no agenda, go after a day like any other: all that nobody uses, and no more."""

from __future__ import annotations

import asyncio
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace
from tests.flows.test_agenda import an_app, stays
from tests.running import in_loop

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.report import CheckReport
from shoal.commands import oauth
from shoal.core.ids import shard_of
from shoal.core.model import App
from shoal.graph.access import require_object
from shoal.graph.changes import take_off
from shoal.graph.contract import Batch


async def from_before(shoal: Shoal) -> App:
    """An app as networks from before have it."""
    app = await an_app(shoal)
    await forget_plan(shoal, app, ticket_id=0)
    return app


async def forget_plan(shoal: Shoal, app: App, **changes: Any) -> None:
    """Take it off the agenda behind everybody's back."""
    batch = Batch(shard_of(app.id))
    take_off(batch, app.ticket_id, shoal.network.writes.new_id(batch.shard))
    batch.obj_set(replace(app, version=app.version + 1, **changes))
    await shoal.network.store.commit(batch)


async def looked_at(shoal: Shoal, *, repair: bool = False) -> CheckReport:
    """Run a check, assert that nothing but apps is wrong, and return its report."""
    report = await check(shoal.network, repair=repair)
    assert not any(line.found for line in report.invariants if line.name != "apps")
    return report


@in_loop
async def test_an_old_app_that_nobody_uses_goes_a_day_after_a_repair() -> None:
    async with Shoal.open("memory://") as shoal:
        app = await from_before(shoal)
        assert (await looked_at(shoal))["apps"].examples == [
            f"nobody uses app {app.id}, nor will look whether somebody does"
        ]
        assert (await looked_at(shoal, repair=True)).repaired == 1
        assert (await looked_at(shoal)).clean
        assert app.id in await shoal.network.store.obj_get((app.id,))
        assert not await stays(shoal, app)


@in_loop
async def test_an_app_whose_plan_is_lost_is_found_too() -> None:
    async with Shoal.open("memory://") as shoal:
        app = await an_app(shoal)
        assert (await looked_at(shoal)).clean
        await forget_plan(shoal, app)
        assert (await looked_at(shoal, repair=True)).repaired == 1
        assert not await stays(shoal, app)


@pytest.mark.parametrize("how", ["a token of a member", "a token of its own", "a code"])
@in_loop
async def test_an_old_app_that_is_used_stays(how: str) -> None:
    async with Shoal.open("memory://") as shoal:
        app, writes = await an_app(shoal), shoal.network.writes
        ann = await shoal.register("ann")
        if how == "a code":
            await oauth.issue_code(writes, (await ann.profile()).member, app.id, ("read",), "urn:x")
        else:
            await oauth.issue_token(writes, app.id, ann.id if "member" in how else 0, ("read",))
        used = await require_object(writes.graph, app.id, App)
        await forget_plan(shoal, used, kept=False)
        assert (await looked_at(shoal, repair=True)).clean
        assert await stays(shoal, app)


@in_loop
async def test_an_app_that_was_used_once_is_never_asked_about_again() -> None:
    async with Shoal.open("memory://") as shoal:
        app, writes = await an_app(shoal), shoal.network.writes
        await oauth.revoke_token(writes, (await oauth.issue_token(writes, app.id, 0, ("read",))).token)
        assert (await looked_at(shoal, repair=True)).clean
        assert await stays(shoal, app)


@in_loop
async def test_an_old_app_that_is_used_after_the_look_is_left_alone() -> None:
    async with Shoal.open("memory://") as shoal:
        app, writes = await from_before(shoal), shoal.network.writes
        await oauth.issue_token(writes, app.id, 0, ("read",))
        await oauth.plan_end(writes, app.id)
        assert await stays(shoal, app)


@in_loop
async def test_many_old_apps_that_are_used_while_they_are_planned_stay() -> None:
    async with Shoal.open("memory://") as shoal:
        made = [await from_before(shoal) for _ in range(12)]
        writes = changed(shoal.network.writes, graph=shoal.network.store)
        uses = [oauth.issue_token(writes, app.id, 0, ("read",)) for app in made]
        plans = [oauth.plan_end(writes, app.id) for app in made]
        await asyncio.gather(*(task for pair in zip(uses, plans, strict=True) for task in pair))
        for app in made:
            assert await stays(shoal, app)
