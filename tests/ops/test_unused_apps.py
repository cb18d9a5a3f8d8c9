"""Apps of older networks without an agenda entry: unused apps expire one day after a repair, used apps are kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.report import CheckReport
from shoal.commands import oauth
from shoal.core.ids import shard_of
from shoal.core.model import App
from shoal.graph.access import get_object
from shoal.graph.changes import take_off
from shoal.graph.contract import Batch
from tests.async_runner import in_loop
from tests.flows.test_scheduler import an_app, stays


async def from_before(shoal: Shoal) -> App:
    """Create an app in the format of older networks."""
    app = await an_app(shoal)
    await forget_plan(shoal, app, ticket_id=0)
    return app


async def forget_plan(shoal: Shoal, app: App, **changes: Any) -> None:
    """Remove the app from the agenda directly, without the service layer."""
    batch = Batch(shard_of(app.id))
    take_off(batch, app.ticket_id, shoal.network.writes.new_id(batch.shard))
    batch.obj_set(replace(app, version=app.version + 1, **changes))
    await shoal.network.store.commit(batch)


async def looked_at(shoal: Shoal, *, repair: bool = False) -> CheckReport:
    """Run a check, assert that only apps have findings, and return its report."""
    report = await check(shoal.network, repair=repair)
    assert not any(line.found for line in report.invariants if line.name != "apps")
    return report


@in_loop
async def test_oauth_app_of_old_version_without_use_expires_one_day_after_repair() -> None:
    async with Shoal.open("memory://") as shoal:
        app = await from_before(shoal)
        assert (await looked_at(shoal))["apps"].examples == [
            f"app {app.id} is unused and has no ticket for its deletion"
        ]
        assert (await looked_at(shoal, repair=True)).repaired == 1
        assert (await looked_at(shoal)).clean
        assert app.id in await shoal.network.store.obj_get((app.id,))
        assert not await stays(shoal, app)


@in_loop
async def test_unused_app_with_lost_scheduler_ticket_is_rescheduled_by_repair_and_expires() -> None:
    async with Shoal.open("memory://") as shoal:
        app = await an_app(shoal)
        assert (await looked_at(shoal)).clean
        await forget_plan(shoal, app)
        assert (await looked_at(shoal, repair=True)).repaired == 1
        assert not await stays(shoal, app)


@pytest.mark.parametrize("how", ["a token of a member", "a token of its own", "a code"])
@in_loop
async def test_oauth_app_of_old_version_with_token_or_code_is_kept_after_repair(how: str) -> None:
    async with Shoal.open("memory://") as shoal:
        app, writes = await an_app(shoal), shoal.network.writes
        ann = await shoal.register("ann")
        if how == "a code":
            await oauth.issue_code(writes, (await ann.profile()).member, app.id, ("read",), "urn:x")
        else:
            await oauth.issue_token(writes, app.id, ann.id if "member" in how else 0, ("read",))
        used = await get_object(writes.graph, App, app.id)
        await forget_plan(shoal, used, kept=False)
        assert (await looked_at(shoal, repair=True)).clean
        assert await stays(shoal, app)


@in_loop
async def test_oauth_app_with_revoked_token_is_kept_after_repair() -> None:
    async with Shoal.open("memory://") as shoal:
        app, writes = await an_app(shoal), shoal.network.writes
        await oauth.revoke_token(writes, (await oauth.issue_token(writes, app.id, 0, ("read",))).token)
        assert (await looked_at(shoal, repair=True)).clean
        assert await stays(shoal, app)


@in_loop
async def test_oauth_app_of_old_version_with_token_issued_before_deletion_is_scheduled_is_kept() -> None:
    async with Shoal.open("memory://") as shoal:
        app, writes = await from_before(shoal), shoal.network.writes
        await oauth.issue_token(writes, app.id, 0, ("read",))
        await oauth.plan_end(writes, app.id)
        assert await stays(shoal, app)


@in_loop
async def test_oauth_apps_of_old_version_with_token_issued_while_deletion_is_scheduled_are_kept() -> None:
    async with Shoal.open("memory://") as shoal:
        made = [await from_before(shoal) for _ in range(12)]
        writes = changed(shoal.network.writes, graph=shoal.network.store)
        uses = [oauth.issue_token(writes, app.id, 0, ("read",)) for app in made]
        plans = [oauth.plan_end(writes, app.id) for app in made]
        await asyncio.gather(*(task for pair in zip(uses, plans, strict=True) for task in pair))
        for app in made:
            assert await stays(shoal, app)
