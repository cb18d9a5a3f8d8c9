"""An external id never has two members: concurrent requests, several processes, and requests that died, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.admin.consistency.check import check
from shoal.app.network import Network, open_network
from shoal.commands import external_ids
from shoal.commands.context import Writes
from shoal.commands.external_ids import ExternalProfile, Upserted
from shoal.core.errors import OutcomeUnknown, Unavailable
from shoal.core.external_ids import ExternalId
from shoal.core.ids import IdMaker, now_ms
from shoal.core.model import Member
from shoal.graph.contract import Batch, Graph, Store
from shoal.graph.schema import user_name_key
from shoal.locks import KeyedLocks
from shoal.settings import Settings
from tests.async_runner import in_loop
from tests.stores import BACKENDS, Backend, all_objects

WHO = ExternalId("https://shop.example", "42")
PROFILE = ExternalProfile(user_name="ann")
PROCESSES = 8


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


@asynccontextmanager
async def network() -> AsyncIterator[Network]:
    async with open_network(Settings(store="memory://", media="memory://")) as opened:
        yield opened


@asynccontextmanager
async def processes(backend: Backend) -> AsyncIterator[tuple[Store, list[Writes]]]:
    """Yield a graph, and commands of several processes on it, each with its own locks and ids."""
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(network())
        graph = await stack.enter_async_context(backend.open())
        yield (
            graph,
            [
                replace(opened.writes, graph=graph, new_id=IdMaker(first=16 * n), locks=KeyedLocks())
                for n in range(PROCESSES)
            ],
        )


async def members_on(graph: Store) -> list[Member]:
    return [node for node in await all_objects(graph) if isinstance(node, Member)]


class Stopping:
    """A graph whose process dies before or after the given commit of those that its test lets through."""

    def __init__(self, graph: Graph, commits: int, *, unknown: bool = False) -> None:
        self._graph = graph
        self.left = commits
        self._unknown = unknown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        if self.left == 0:
            if self._unknown:
                await self._graph.commit(batch)
                raise OutcomeUnknown("the answer is lost")
            raise asyncio.CancelledError
        self.left -= 1
        await self._graph.commit(batch)


@in_loop
async def test_external_id_concurrent_upserts_of_processes_create_one_member(backend: Backend) -> None:
    async with processes(backend) as (graph, writes):
        made = await asyncio.gather(
            *(external_ids.upsert(each, WHO, PROFILE) for each in writes for _ in range(3)), return_exceptions=True
        )
        done = [each for each in made if isinstance(each, Upserted)]
        # A request that waited too long asks its caller to try again.
        assert all(isinstance(each, Upserted | Unavailable) for each in made), made
        assert len({each.member.id for each in done}) == 1
        assert sum(each.created for each in done) == 1
        (member,) = await members_on(graph)
        assert await external_ids.of_member(graph, member.id) == [WHO]


@in_loop
async def test_external_id_upserts_of_different_ids_with_one_name_create_one_member_each(backend: Backend) -> None:
    async with processes(backend) as (graph, writes):
        ids = [ExternalId("shop", str(n)) for n in range(PROCESSES)]
        made = await asyncio.gather(
            *(external_ids.upsert(each, id_, PROFILE) for each, id_ in zip(writes, ids, strict=True))
        )
        assert len({each.member.id for each in made}) == len({each.member.name for each in made}) == PROCESSES
        assert len(await members_on(graph)) == PROCESSES
        for each, id_ in zip(made, ids, strict=True):
            assert await external_ids.find(graph, id_) == each.member


@in_loop
async def test_external_id_links_of_one_id_to_two_members_give_it_to_one(backend: Backend) -> None:
    async with processes(backend) as (graph, (one, other, *_)):
        people = [
            (await external_ids.upsert(one, ExternalId("shop", name), ExternalProfile(user_name=name))).member
            for name in ("ann", "ben")
        ]
        done = await asyncio.gather(
            external_ids.link(one, people[0].id, WHO),
            external_ids.link(other, people[1].id, WHO),
            return_exceptions=True,
        )
        assert sorted(isinstance(each, Member) for each in done) == [False, True], done
        owned = [WHO in await external_ids.of_member(graph, member.id) for member in people]
        assert owned == [isinstance(each, Member) for each in done]


@pytest.mark.parametrize("commits", [0, 1])
@in_loop
async def test_external_id_upsert_after_crashed_one_creates_one_member(commits: int, tmp_path: Path) -> None:
    async with processes(Backend("sharded-memory", tmp_path)) as (graph, (dead, other, *_)):
        stopping = cast("Graph", Stopping(graph, commits))
        with pytest.raises(asyncio.CancelledError):
            await external_ids.upsert(replace(dead, graph=stopping), WHO, PROFILE)
        later = replace(other, new_id=IdMaker(lambda: now_ms() + 11_000))
        made = await external_ids.upsert(later, WHO, PROFILE)
        assert (made.created, made.member.name) == (True, "ann")
        assert await members_on(graph) == [made.member]


@in_loop
async def test_external_id_reservation_of_running_request_is_not_taken_over(tmp_path: Path) -> None:
    async with processes(Backend("memory", tmp_path)) as (graph, (dead, other, *_)):
        stopping = cast("Graph", Stopping(graph, 1))
        with pytest.raises(asyncio.CancelledError):
            await external_ids.upsert(replace(dead, graph=stopping), WHO, PROFILE)
        with pytest.raises(Unavailable, match="another request is creating this member"):
            await external_ids.upsert(other, WHO, PROFILE)
        assert await members_on(graph) == []


@in_loop
async def test_external_id_upsert_that_was_taken_over_cannot_create_its_member(backend: Backend) -> None:
    async with processes(backend) as (graph, (slow, other, *_)):
        reached, resumed = asyncio.Event(), asyncio.Event()

        class Pausing(Stopping):
            async def commit(self, batch: Batch) -> None:
                if any(op.key.space == user_name_key("ann").space for op in batch.keys) and not resumed.is_set():
                    reached.set()
                    await resumed.wait()
                await self._graph.commit(batch)

        first = asyncio.create_task(
            external_ids.upsert(replace(slow, graph=cast("Graph", Pausing(graph, 9))), WHO, PROFILE)
        )
        await reached.wait()
        later = replace(other, new_id=IdMaker(lambda: now_ms() + 11_000, first=512))
        # Another name, so that only the fence can refuse the first request.
        second = await external_ids.upsert(later, WHO, ExternalProfile(user_name="ben"))
        resumed.set()
        assert second.created
        assert await first == Upserted(second.member, created=False)
        assert await members_on(graph) == [second.member]


@in_loop
async def test_external_id_upsert_with_unknown_outcome_is_completed_by_retry(tmp_path: Path) -> None:
    async with processes(Backend("sharded-memory", tmp_path)) as (graph, (one, *_)):
        stopping = cast("Graph", Stopping(graph, 1, unknown=True))
        with pytest.raises(OutcomeUnknown):
            await external_ids.upsert(replace(one, graph=stopping), WHO, PROFILE)
        made = await external_ids.upsert(one, WHO, PROFILE)
        assert not made.created
        assert await members_on(graph) == [made.member]


@in_loop
async def test_external_id_taken_over_reservation_leaves_store_consistent() -> None:
    async with network() as opened:
        stopping = cast("Graph", Stopping(opened.writes.graph, 1))
        with pytest.raises(asyncio.CancelledError):
            await external_ids.upsert(replace(opened.writes, graph=stopping), WHO, PROFILE)
        later = replace(opened.writes, new_id=IdMaker(lambda: now_ms() + 11_000))
        await external_ids.upsert(later, WHO, PROFILE)
        await opened.settle(60.0)
        report = await check(opened)
        assert report.clean, report
