"""The contract of `LogSource` in `graph/contract.py`, on every store that keeps an event log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal.core.errors import InvalidInput
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import Member, Post
from shoal.graph.contract import Batch, CursorTooOld, LogCursor, LogEntry, Store
from shoal.graph.event_log import EventLog, LogKind
from shoal.graph.schema import BLOCKS, FOLLOWS, LIKES
from tests.async_runner import in_loop
from tests.event_log_replica import Replica, facts_of, settled
from tests.stores import ANN, BACKENDS, BEN, CYD, DURABLE, POST_OF_BEN, Backend, add, begin, end, id_on, moment

MEMBERS = [ANN, BEN, CYD]
FUTURE = 2**62


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


async def post(graph: Store, n: int, source: int = 0) -> None:
    await add(graph, Post(id=id_on(source, n), author_id=id_on(source)))


async def told(graph: Store, after: LogCursor | None = None, limit: int = 100) -> list[tuple[int, int]]:
    await settled(graph)
    return [(entry.kind, entry.object) for entry in (await EventLog(graph).read(after, limit)).entries]


@in_loop
async def test_event_log_entries_of_a_member_are_in_commit_order_with_stable_ids(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        log = EventLog(graph)
        started = now_ms()
        await add(graph, Member(id=ANN, name="ann"))
        for n in range(1, 6):
            await post(graph, n)
        await begin(graph, ANN, LIKES, POST_OF_BEN, moment(1))
        await settled(graph)
        page = await log.read(None, 100)
        assert [(entry.kind, entry.subject, entry.object) for entry in page.entries] == [
            (LogKind.MEMBER_CREATED, ANN, ANN),
            *[(LogKind.POST_CREATED, ANN, id_on(0, n)) for n in range(1, 6)],
            (LogKind.LIKE_CREATED, ANN, POST_OF_BEN),
        ]
        assert all(started <= entry.at <= now_ms() for entry in page.entries)
        assert len({entry.id for entry in page.entries}) == 7
        again = Replica()
        assert [entry.id for entry in await again.read(log, 2)] == [entry.id for entry in page.entries]
        assert await again.read(log) == []


@in_loop
async def test_event_log_read_resumes_after_every_cursor(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        log = EventLog(graph)
        for n in range(1, 10):
            for source in (0, 40, 63):
                await post(graph, n, source)
        await settled(graph)
        whole = (await log.read(None, 100)).entries
        cursor: LogCursor | None = None
        read: list[LogEntry] = []
        for limit in (1, 2, 3, 1, 5, 20):
            page = await log.read(cursor, limit)
            cursor = page.cursor
            read += page.entries
        assert sorted(entry.id for entry in read) == sorted(entry.id for entry in whole)
        assert len(whole) == 27
        for source in (0, 40, 63):
            mine = [entry.object for entry in read if entry.subject == id_on(source)]
            assert mine == [id_on(source, n) for n in range(1, 10)]


@in_loop
async def test_event_log_end_is_followed_by_later_entries_only(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        log = EventLog(graph)
        empty = await log.end()
        await post(graph, 1)
        await settled(graph)
        after_first = await log.end()
        await post(graph, 2)
        await post(graph, 1, 63)
        assert [object_ for _, object_ in await told(graph, after_first)] == [id_on(0, 2), id_on(63, 1)]
        assert len(await told(graph, empty)) == 3
        assert await told(graph, await log.end()) == []


@in_loop
async def test_event_log_inverse_in_another_store_is_logged_once(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        await end(graph, ANN, FOLLOWS, BEN, moment(3))
        assert await told(graph) == [(LogKind.FOLLOW_CREATED, BEN), (LogKind.FOLLOW_DELETED, BEN)]


@in_loop
async def test_event_log_trimmed_entries_make_older_cursors_too_old(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        log = EventLog(graph)
        for n in range(1, 4):
            await post(graph, n)
        await settled(graph)
        early = (await log.read(None, 1)).cursor
        late = (await log.read(None, 3)).cursor
        assert await log.trim(0) == 0
        assert await told(graph, early) == [(LogKind.POST_CREATED, id_on(0, n)) for n in (2, 3)]
        # The newest entry may be kept.
        assert await log.trim(FUTURE) in (2, 3)
        assert await log.trim(FUTURE) == 0
        await post(graph, 4)
        with pytest.raises(CursorTooOld, match="too old: entries after it were deleted"):
            await log.read(early, 10)
        # A cursor without a place in this log is one before the first entry that it ever had.
        with pytest.raises(CursorTooOld, match="too old: entries after it were deleted"):
            await log.read(LogCursor({}), 10)
        assert await told(graph, late) == [(LogKind.POST_CREATED, id_on(0, 4))]
        assert (await told(graph))[-1] == (LogKind.POST_CREATED, id_on(0, 4))


@in_loop
async def test_event_log_cursor_of_an_empty_first_page_is_valid_after_later_entries(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        log = EventLog(graph)
        empty = (await log.read(None, 10)).cursor
        assert await told(graph, LogCursor({})) == []
        for n in range(1, 3):
            await post(graph, n)
        for cursor in (empty, LogCursor({})):
            assert await told(graph, cursor) == [(LogKind.POST_CREATED, id_on(0, n)) for n in (1, 2)]
        await log.trim(FUTURE)
        await settled(graph)
        trimmed = (await log.read(None, 10)).cursor
        await post(graph, 3)
        assert await told(graph, trimmed) == [(LogKind.POST_CREATED, id_on(0, 3))]
        with pytest.raises(CursorTooOld, match="too old"):
            await told(graph, empty)


@in_loop
async def test_event_log_cursor_is_unchanged_while_nothing_is_written(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        await post(graph, 1)
        log = EventLog(graph)
        await settled(graph)
        page = await log.read(None, 10)
        await begin(graph, ANN, BLOCKS, BEN, moment(1))
        again = await log.read(page.cursor, 10)
        assert (again.entries, again.cursor, again.more) == ([], page.cursor, False)


@in_loop
async def test_event_log_that_is_off_refuses_readers_and_stores_nothing(backend: Backend) -> None:
    async with backend.open() as graph:
        await post(graph, 1)
        with pytest.raises(InvalidInput, match="keeps no event log: set event_log = on"):
            await EventLog(graph).read(None, 10)
        with pytest.raises(InvalidInput, match="keeps no event log"):
            await EventLog(graph).end()
        assert await EventLog(graph).trim(FUTURE) == 0


@in_loop
async def test_event_log_cursor_of_another_network_is_refused(backend: Backend, tmp_path: Path) -> None:
    async with Backend("memory", tmp_path).open(logs=True) as other:
        await post(other, 1)
        foreign = await EventLog(other).end()
    async with backend.open(logs=True) as graph:
        with pytest.raises(CursorTooOld, match="belongs to another event log"):
            await EventLog(graph).read(foreign, 10)


@in_loop
async def test_event_log_stays_on_and_cursors_valid_after_reopening(durable: Backend) -> None:
    async with durable.open(logs=True) as graph:
        await post(graph, 1)
        await settled(graph)
        cursor = await EventLog(graph).end()
    async with durable.open() as graph:
        await post(graph, 2)
        assert await told(graph, cursor) == [(LogKind.POST_CREATED, id_on(0, 2))]
    async with durable.open(logs=True) as graph:
        assert await told(graph, cursor) == [(LogKind.POST_CREATED, id_on(0, 2))]


@in_loop
async def test_event_log_turned_off_and_on_refuses_earlier_cursors(durable: Backend) -> None:
    async with durable.open(logs=True) as graph:
        await post(graph, 1)
        await settled(graph)
        cursor = await EventLog(graph).end()
    async with durable.open(logs=False) as graph:
        await post(graph, 2)
    async with durable.open(logs=True) as graph:
        await post(graph, 3)
        assert await told(graph) == [(LogKind.POST_CREATED, id_on(0, 3))]
        with pytest.raises(CursorTooOld, match="another event log"):
            await EventLog(graph).read(cursor, 10)


@in_loop
async def test_event_log_misses_no_commit_of_concurrent_writers(backend: Backend) -> None:
    async with backend.open(logs=True) as graph:
        log, replica = EventLog(graph), Replica()
        for member in MEMBERS:
            await add(graph, Member(id=member, name="m"))
        writing = True

        async def write(source: int, writer: int) -> None:
            for n in range(1, 16):
                one = id_on(source, 100 * writer + n)
                node = Post(id=one, author_id=id_on(source))
                await add(graph, node)
                batch = Batch(shard_of(one))
                batch.assoc_add(id_on(source), LIKES, id_on(0, 100 * writer + n), moment(n))
                if n % 3 == 0:
                    batch.obj_del(node, 1)
                await graph.commit(batch)

        async def read() -> None:
            while writing:
                await replica.read(log, 7)
                await asyncio.sleep(0)

        reader = asyncio.create_task(read())
        await asyncio.gather(*[write(source, writer) for source in (0, 40, 63) for writer in (1, 2, 3, 4)])
        writing = False
        await reader
        await settled(graph)
        await replica.read(log)
        assert replica.facts == await facts_of(graph)
        assert len({entry.id for entry in replica.entries}) == len(replica.entries) == 3 + 12 * (15 + 15 + 5)
        for source in (0, 40, 63):
            for writer in (1, 2, 3, 4):
                ids = [id_on(source, 100 * writer + n) for n in range(1, 16)]
                mine = [e.object for e in replica.entries if e.kind == LogKind.POST_CREATED and e.object in ids]
                assert mine == ids
