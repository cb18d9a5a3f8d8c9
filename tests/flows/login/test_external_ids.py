"""An external id never has two members: concurrent requests, several processes, and requests that died, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
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
from shoal.core.errors import NotAllowed, OutcomeUnknown, Taken, Unavailable, Unfit
from shoal.core.external_ids import MAX_PER_MEMBER, ExternalId, ExternalLink
from shoal.core.ids import IdMaker, now_ms, shard_of
from shoal.core.model import Member
from shoal.graph.contract import Batch, Graph, Store
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


def stopping(writes: Writes, commits: int) -> Writes:
    return replace(writes, graph=cast("Graph", Stopping(writes.graph, commits)))


def later(writes: Writes) -> Writes:
    """Return commands of a process whose clock is so late that reservations count as abandoned."""
    return replace(writes, new_id=IdMaker(lambda: now_ms() + 11_000, first=512))


class Pausing(Stopping):
    """A graph that pauses before the first commit for which `waits` returns true, until the test resumes it."""

    def __init__(self, graph: Graph, waits: Callable[[Batch], bool]) -> None:
        super().__init__(graph, 99)
        self._waits = waits
        self.reached, self.resumed = asyncio.Event(), asyncio.Event()

    async def commit(self, batch: Batch) -> None:
        if self._waits(batch) and not self.resumed.is_set():
            self.reached.set()
            await self.resumed.wait()
        await super().commit(batch)


def stores_link(batch: Batch) -> bool:
    return any(isinstance(op.node, ExternalLink) and op.node.member_id for op in batch.objects)


def frees_key(batch: Batch) -> bool:
    return any(op.key.space == "external_id" and not op.alive for op in batch.keys)


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
        with pytest.raises(asyncio.CancelledError):
            await external_ids.upsert(stopping(dead, commits), WHO, PROFILE)
        made = await external_ids.upsert(later(other), WHO, PROFILE)
        assert (made.created, made.member.name) == (True, "ann")
        assert await members_on(graph) == [made.member]


@in_loop
async def test_external_id_reservation_of_running_request_is_not_taken_over(tmp_path: Path) -> None:
    async with processes(Backend("memory", tmp_path)) as (graph, (dead, other, *_)):
        with pytest.raises(asyncio.CancelledError):
            await external_ids.upsert(stopping(dead, 1), WHO, PROFILE)
        # A frozen clock, because a reservation counts as abandoned after ten seconds.
        now = now_ms()
        frozen = replace(other, new_id=IdMaker(lambda: now, first=512))
        with pytest.raises(Unavailable, match="another request is creating or linking this member"):
            await external_ids.upsert(frozen, WHO, PROFILE)
        assert await members_on(graph) == []


@in_loop
async def test_external_id_upsert_that_was_taken_over_cannot_create_its_member(backend: Backend) -> None:
    async with processes(backend) as (graph, (slow, other, *_)):
        pausing = Pausing(graph, stores_link)
        first = asyncio.create_task(external_ids.upsert(replace(slow, graph=cast("Graph", pausing)), WHO, PROFILE))
        await pausing.reached.wait()
        # Another name, so that only the fence can refuse the first request.
        second = await external_ids.upsert(later(other), WHO, ExternalProfile(user_name="ben"))
        pausing.resumed.set()
        assert second.created
        assert await first == Upserted(second.member, created=False, link_id=second.link_id)
        assert await members_on(graph) == [second.member]


@in_loop
async def test_external_id_upsert_with_unknown_outcome_is_completed_by_retry(tmp_path: Path) -> None:
    async with processes(Backend("sharded-memory", tmp_path)) as (graph, (one, *_)):
        unknown = cast("Graph", Stopping(graph, 1, unknown=True))
        with pytest.raises(OutcomeUnknown):
            await external_ids.upsert(replace(one, graph=unknown), WHO, PROFILE)
        made = await external_ids.upsert(one, WHO, PROFILE)
        assert not made.created
        assert await members_on(graph) == [made.member]


@pytest.mark.parametrize("commits", [0, 1])
@in_loop
async def test_external_id_interrupted_link_gives_no_access_and_is_taken_over(commits: int, backend: Backend) -> None:
    async with processes(backend) as (graph, (dead, other, *_)):
        ann = (await external_ids.upsert(dead, ExternalId("shop", "ann"), PROFILE)).member
        with pytest.raises(asyncio.CancelledError):
            await external_ids.link(stopping(dead, commits), ann.id, WHO)
        assert await external_ids.find(graph, WHO) is None
        assert WHO not in await external_ids.of_member(graph, ann.id)
        made = await external_ids.upsert(later(other), WHO, ExternalProfile(user_name="ben"))
        assert (made.created, made.member.name) == (True, "ben")


@in_loop
async def test_external_id_interrupted_link_can_be_repeated(tmp_path: Path) -> None:
    async with processes(Backend("sharded-memory", tmp_path)) as (graph, (dead, other, *_)):
        ann = (await external_ids.upsert(dead, ExternalId("shop", "ann"), PROFILE)).member
        with pytest.raises(asyncio.CancelledError):
            await external_ids.link(stopping(dead, 1), ann.id, WHO)
        await external_ids.link(later(other), ann.id, WHO)
        assert await external_ids.find(graph, WHO) == ann
        assert (await external_ids.of_member(graph, ann.id)).count(WHO) == 1


@in_loop
async def test_external_id_link_that_was_taken_over_is_not_stored(backend: Backend) -> None:
    async with processes(backend) as (graph, (slow, other, *_)):
        ann = (await external_ids.upsert(other, ExternalId("shop", "ann"), PROFILE)).member
        pausing = Pausing(graph, stores_link)
        first = asyncio.create_task(external_ids.link(replace(slow, graph=cast("Graph", pausing)), ann.id, WHO))
        await pausing.reached.wait()
        ben = (await external_ids.upsert(later(other), WHO, ExternalProfile(user_name="ben"))).member
        pausing.resumed.set()
        with pytest.raises(Taken):
            await first
        assert await external_ids.find(graph, WHO) == ben
        assert WHO not in await external_ids.of_member(graph, ann.id)


@in_loop
async def test_external_id_link_refused_by_concurrent_one_gives_no_access(tmp_path: Path) -> None:
    async with processes(Backend("sharded-memory", tmp_path)) as (graph, (one, other, *_)):
        ids = [ExternalId("shop", str(number)) for number in range(MAX_PER_MEMBER + 1)]
        ann = (await external_ids.upsert(one, ids[0], PROFILE)).member
        for id_ in ids[1:-2]:
            await external_ids.link(one, ann.id, id_)
        pausing = Pausing(graph, stores_link)
        refused = asyncio.create_task(external_ids.link(replace(one, graph=cast("Graph", pausing)), ann.id, ids[-2]))
        await pausing.reached.wait()
        await external_ids.link(other, ann.id, ids[-1])
        pausing.resumed.set()
        with pytest.raises(Unfit, match="at most 5 external ids"):
            await refused
        assert await external_ids.find(graph, ids[-2]) is None
        assert (await external_ids.upsert(one, ids[-2], ExternalProfile(user_name="ben"))).created


@pytest.mark.parametrize("commits", [0, 1])
@in_loop
async def test_external_id_interrupted_unlink_leaves_it_linked_or_free(commits: int, backend: Backend) -> None:
    async with processes(backend) as (graph, (dead, other, *_)):
        ann = (await external_ids.upsert(dead, WHO, PROFILE)).member
        with pytest.raises(asyncio.CancelledError):
            await external_ids.unlink(stopping(dead, commits), ann.id, WHO)
        linked = commits == 0
        assert (await external_ids.find(graph, WHO) is not None) is linked
        assert (WHO in await external_ids.of_member(graph, ann.id)) is linked
        made = await external_ids.upsert(later(other), WHO, ExternalProfile(user_name="ben"))
        assert made.created is not linked


@in_loop
async def test_external_id_linked_again_during_unlink_stays_linked(backend: Backend) -> None:
    async with processes(backend) as (graph, (slow, other, *_)):
        ann = (await external_ids.upsert(other, WHO, PROFILE)).member
        pausing = Pausing(graph, frees_key)
        unlinking = asyncio.create_task(external_ids.unlink(replace(slow, graph=cast("Graph", pausing)), ann.id, WHO))
        await pausing.reached.wait()
        await external_ids.link(later(other), ann.id, WHO)
        pausing.resumed.set()
        await unlinking
        assert await external_ids.of_member(graph, ann.id) == [WHO]
        found = await external_ids.find(graph, WHO)
        assert found is not None
        assert found.id == ann.id


@in_loop
async def test_external_ids_unlinked_concurrently_leave_one_login_provider(backend: Backend) -> None:
    async with processes(backend) as (graph, (slow, other, *_)):
        first, second = ExternalId("https://a.example", "1"), ExternalId("https://b.example", "1")
        issuers = {first.issuer, second.issuer}
        ann = (await external_ids.upsert(other, first, PROFILE)).member
        await external_ids.link(other, ann.id, second)
        # An external id of a product is no way to log in.
        await external_ids.link(other, ann.id, WHO)
        pausing = Pausing(graph, lambda _: True)
        late = replace(slow, graph=cast("Graph", pausing))
        unlinking = asyncio.create_task(external_ids.unlink_provider(late, ann.id, first.issuer, "A", issuers))
        await pausing.reached.wait()
        await external_ids.unlink_provider(other, ann.id, second.issuer, "B", issuers)
        pausing.resumed.set()
        with pytest.raises(NotAllowed, match="only way to log in"):
            await unlinking
        assert await external_ids.of_member(graph, ann.id) == [WHO, first]
        assert (await external_ids.upsert(other, second, ExternalProfile(user_name="ben"))).created


@in_loop
async def test_external_id_of_missing_member_is_linked_to_new_one(tmp_path: Path) -> None:
    async with processes(Backend("memory", tmp_path)) as (graph, (one, *_)):
        ann = (await external_ids.upsert(one, WHO, PROFILE)).member
        batch = Batch(shard_of(ann.id))
        batch.obj_del(ann)
        await graph.commit(batch)
        assert await external_ids.find(graph, WHO) is None
        assert (await external_ids.upsert(later(one), WHO, ExternalProfile(user_name="ben"))).created


@in_loop
async def test_external_id_taken_over_reservation_leaves_store_consistent() -> None:
    async with network() as opened:
        with pytest.raises(asyncio.CancelledError):
            await external_ids.upsert(stopping(opened.writes, 1), WHO, PROFILE)
        ann = (await external_ids.upsert(later(opened.writes), WHO, PROFILE)).member
        other = ExternalId("shop", "other")
        with pytest.raises(asyncio.CancelledError):
            await external_ids.link(stopping(opened.writes, 1), ann.id, other)
        await external_ids.link(later(opened.writes), ann.id, other)
        await external_ids.unlink(opened.writes, ann.id, WHO)
        await opened.settle(60.0)
        report = await check(opened)
        assert report.clean, report
