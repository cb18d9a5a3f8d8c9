"""A sign-up with an external id makes one member: concurrent requests, refused ones, and requests that died."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from shoal.commands import external_ids
from shoal.core.errors import Conflict, Taken
from shoal.core.external_ids import ExternalId
from shoal.core.ids import IdMaker, now_ms
from shoal.core.model import Member
from shoal.graph.contract import Batch, Graph
from shoal.graph.schema import user_name_key
from tests.async_runner import in_loop
from tests.flows.login.test_external_ids import PROFILE, WHO, Stopping, members_on, processes
from tests.stores import BACKENDS, Backend


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


@in_loop
async def test_external_id_concurrent_registrations_create_one_member(backend: Backend) -> None:
    async with processes(backend) as (graph, writes):
        names = [f"ann{n}" for n in range(len(writes))]
        made = await asyncio.gather(
            *(external_ids.register(each, WHO, name) for each, name in zip(writes, names, strict=True)),
            return_exceptions=True,
        )
        (member,) = [each for each in made if isinstance(each, Member)]
        assert all(isinstance(each, Member | Taken) for each in made), made
        assert await members_on(graph) == [member]
        assert await external_ids.find(graph, WHO) == member


@pytest.mark.parametrize("commits", [0, 1, 2])
@in_loop
async def test_external_id_registration_after_crashed_one_creates_one_member(commits: int, tmp_path: Path) -> None:
    async with processes(Backend("sharded-memory", tmp_path)) as (graph, (dead, other, *_)):
        stopping = cast("Graph", Stopping(graph, commits))
        with pytest.raises(asyncio.CancelledError):
            await external_ids.register(replace(dead, graph=stopping), WHO, "ann", email="ann@example.org")
        assert await external_ids.find(graph, WHO) is None
        later = replace(other, new_id=IdMaker(lambda: now_ms() + 11_000))
        member = await external_ids.register(later, WHO, "ann")
        assert await members_on(graph) == [member]
        assert await external_ids.of_member(graph, member.id) == [WHO]


@in_loop
async def test_external_id_refused_registration_frees_the_id(tmp_path: Path) -> None:
    async with processes(Backend("sharded-memory", tmp_path)) as (graph, (one, *_)):
        ann = (await external_ids.upsert(one, ExternalId("shop", "1"), PROFILE)).member
        with pytest.raises(Taken, match="Username"):
            await external_ids.register(one, WHO, "ann")
        with pytest.raises(Taken, match="external id"):
            await external_ids.register(one, ExternalId("shop", "1"), "ben")
        ben = await external_ids.register(one, WHO, "ben")
        assert {member.id for member in await members_on(graph)} == {ann.id, ben.id}


@in_loop
async def test_external_id_registration_that_was_taken_over_cannot_create_its_member(backend: Backend) -> None:
    async with processes(backend) as (graph, (slow, other, *_)):
        reached, resumed = asyncio.Event(), asyncio.Event()

        class Pausing(Stopping):
            async def commit(self, batch: Batch) -> None:
                if any(op.key.space == user_name_key("ann").space for op in batch.keys) and not resumed.is_set():
                    reached.set()
                    await resumed.wait()
                await self._graph.commit(batch)

        writes = replace(slow, graph=cast("Graph", Pausing(graph, 99)))
        first = asyncio.create_task(external_ids.register(writes, WHO, "ann"))
        await reached.wait()
        later = replace(other, new_id=IdMaker(lambda: now_ms() + 11_000, first=512))
        second = await external_ids.register(later, WHO, "ben")
        resumed.set()
        with pytest.raises(Conflict):
            await first
        assert await members_on(graph) == [second]
        assert await external_ids.find(graph, WHO) == second
