"""A check of randomly drawn members detects faults in their data and can draw every member."""

from __future__ import annotations

import random

import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check_sampled, random_member
from shoal.core.ids import shard_of
from shoal.graph.contract import AssocOp, Batch
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, POSTED, user_name_key
from shoal.search.contract import IndexChange
from tests.async_runner import in_loop

NAMES = ("ann", "ben", "cyd", "dee")


async def filled(shoal: Shoal) -> dict[str, int]:
    handles = {name: await shoal.register(name) for name in NAMES}
    for name in NAMES[1:]:
        await handles[name].follow(handles["ann"].id)
        await handles["ann"].follow(handles[name].id)
        await handles[name].create(f"Hello from {name}")
    await shoal.settle()
    return {name: handle.id for name, handle in handles.items()}


@pytest.mark.parametrize("fault", ["", "I2", "I3", "keys", "lists", "search"])
@in_loop
async def test_sampled_consistency_check_detects_each_kind_of_inconsistency(fault: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ids = await filled(shoal)
        ann, ben, store = ids["ann"], ids["ben"], shoal.network.store
        batch = Batch(shard_of(ben))
        later = 1 << 62
        if fault == "I2":
            await store.count_set(ann, FOLLOWED_BY.number, 7)
        elif fault == "I3":
            batch.put(AssocOp(ben, FOLLOWS.number, ann, later, alive=True, plain=True))
        elif fault == "keys":
            batch.key_del(user_name_key("ben"), ben)
        elif fault == "lists":
            batch.put(AssocOp(ben, POSTED.number, ben + 1, later, alive=True, plain=True))
        elif fault == "search":
            await shoal.network.search.index.write(IndexChange(gone=[ben]))
        if batch.assocs or batch.keys:
            await store.commit(batch)
        report = await check_sampled(shoal.network, 40)
        assert {line.checked for line in report.invariants} == {40}
        # The probability of a member depends on the join times of the others.
        for _ in range(50 if fault else 0):
            if not report.clean:
                break
            report = await check_sampled(shoal.network, 40)
        assert {line.name for line in report.invariants if line.found} == ({fault} if fault else set())


@in_loop
async def test_sampled_consistency_check_selects_every_member_in_time_and_none_of_empty_network() -> None:
    async with Shoal.open("memory://") as shoal:
        chance = random.Random(3)
        assert await random_member(shoal.network.store, chance) is None
        ids = await filled(shoal)
        found: set[int] = set()
        for _ in range(2_000):
            member = await random_member(shoal.network.store, chance)
            assert member is not None
            found.add(member.id)
            if found == set(ids.values()):
                break
        assert found == set(ids.values())


@in_loop
async def test_sampled_consistency_check_materializes_no_timelines() -> None:
    async with Shoal.open("memory://") as shoal:
        await filled(shoal)
        assert (await check_sampled(shoal.network, 20)).clean
        assert await shoal.network.timelines.members(10) == []
