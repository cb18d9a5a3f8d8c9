"""The event log of a DynamoDB store: lanes and chunks, several processes, faults of the service, trims, restored tables."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from shoal import Shoal
from shoal.app.stores import open_one
from shoal.core.errors import InvalidInput, TooLarge, Unavailable
from shoal.core.ids import now_ms
from shoal.core.model import Member, Post
from shoal.graph.contract import Batch, CursorTooOld, LogCursor, Store
from shoal.graph.dynamodb import DynamoGraph, event_log, store
from shoal.graph.dynamodb.client import Backoff, Service
from shoal.graph.dynamodb.items import (
    CHUNK_ENTRIES,
    LAYOUT,
    Chunk,
    Item,
    ItemKey,
    address_of,
    attribute,
    chunk_item,
    chunk_of,
)
from shoal.graph.dynamodb.transactions import _bytes
from shoal.graph.event_log import EventLog, Logged, LogKind
from shoal.graph.resolve import every_shard
from shoal.graph.schema import BOOKMARKS, LIKES
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.graph.sqlite import SqliteGraph
from tests.async_runner import eventually, in_loop
from tests.engines.dynamodb import PATIENT_SECONDS, new_table
from tests.engines.dynamodb_faults import Moods, after, loses_its_answer, moody, says
from tests.event_log_replica import Replica, facts_of
from tests.stores import ANN, POST_OF_BEN, add, begin, id_on, moment

REPOSITORY = Path(__file__).parents[2]
FUTURE = 2**62


@asynccontextmanager
async def opened(url: str, logs: bool | None = None, **options: float) -> AsyncIterator[DynamoGraph]:
    given: dict[str, Any] = {"adoption": 0.0, "delay": 0.0, "patience": PATIENT_SECONDS, **options}
    graph = await DynamoGraph.open(url, logs=logs, **given)
    try:
        yield graph
    finally:
        await graph.close()


async def post(graph: Store, n: int, shard: int = 5) -> None:
    await add(graph, Post(id=id_on(0, n, shard), author_id=id_on(0, 0, shard)))


async def told(graph: Store, cursor: LogCursor | None = None, limit: int = 1_000) -> list[int]:
    return [entry.object for entry in (await EventLog(graph).read(cursor, limit)).entries]


def through(url: str, moods: Moods) -> str:
    """Return the URL of a table through a proxy that injects faults."""
    return url.partition("&endpoint=")[0] + f"&endpoint={moods.url}"


def posts(*numbers: int) -> list[int]:
    return [id_on(0, n) for n in numbers]


async def chunks_of(graph: DynamoGraph) -> list[Mapping[str, Any]]:
    items = (await graph._service.call("scan", TableName=graph._service.table))["Items"]
    return [item for item in items if item["ID"]["S"].startswith("log#")]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """The number of keys of each read of a commit, and the number of items of each transaction."""
    read, written = list[int](), list[int]()
    get, transact = Service._get, Service.transact

    async def noted_get(service: Service, addresses: Sequence[Any], attributes: Sequence[str]) -> Any:
        if attributes:
            read.append(len(addresses))
        return await get(service, addresses, attributes)

    async def noted_transact(service: Service, writes: Sequence[Mapping[str, Any]], **options: bool) -> None:
        written.append(len(writes))
        await transact(service, writes, **options)

    monkeypatch.setattr(Service, "_get", noted_get)
    monkeypatch.setattr(Service, "transact", noted_transact)
    return read, written


@in_loop
async def test_dynamodb_event_log_that_is_off_adds_no_item_and_no_read(sent: tuple[list[int], list[int]]) -> None:
    async with opened(new_table(), adoption=event_log.ADOPTION_SECONDS) as graph:
        for n in range(1, 4):
            await post(graph, n)
        assert sent == ([1] * 3, [1] * 3)
        assert await chunks_of(graph) == []


@in_loop
async def test_dynamodb_event_log_adds_one_key_and_one_item_to_a_commit_and_none_to_a_private_one(
    sent: tuple[list[int], list[int]],
) -> None:
    async with opened(new_table(), logs=True) as graph:
        for n in range(CHUNK_ENTRIES + 1):
            await post(graph, n)
        # The last one closes a full chunk, and creates the next one.
        assert sent == ([2] * (CHUNK_ENTRIES + 1), [2] * CHUNK_ENTRIES + [3])
        requests = graph.capacity.requests.copy()
        await post(graph, 90)
        assert graph.capacity.requests - requests == {"batch_get_item": 1, "transact_write_items": 1}
        sent[0].clear()
        await begin(graph, ANN, BOOKMARKS, POST_OF_BEN, moment(1))
        assert sent[0] == [2]
        assert len(await told(graph)) == CHUNK_ENTRIES + 2


def test_dynamodb_event_log_full_chunk_of_comments_takes_one_write_unit() -> None:
    comment = event_log.encode(now_ms(), [Logged(LogKind.POST_CREATED, 2**62, 2**62, 2**62, 1)])
    item = chunk_item(Chunk(2**48, 63, 2**40), *[comment] * CHUNK_ENTRIES)
    assert 700 < sum(_bytes({**item, "closed": attribute(now_ms()), "previous": attribute(99)})) <= 1_024


@in_loop
async def test_dynamodb_event_log_batch_leaves_room_for_two_items_of_the_log() -> None:
    async with opened(new_table(), logs=True) as graph:
        # The second batch finds a full chunk, and creates the next one. The limit is that of the first one nevertheless.
        for source in (7, 8):
            with pytest.raises(TooLarge, match=r"at most 98 \(got 99\)"):
                await add(graph, *[Member(id=id_on(source, n), name="m") for n in range(99)])
            await add(graph, *[Member(id=id_on(source, n), name="m") for n in range(98)])
        assert len(await told(graph)) == 98 + 98


@in_loop
async def test_dynamodb_event_log_misses_no_commit_of_processes_with_different_clocks() -> None:
    url, shards = new_table(), range(9)
    late = count(0, -1_000)
    async with opened(url, logs=True) as one, opened(url) as other, opened(url) as reading:
        log, replica, writing = EventLog(reading), Replica(), True

        async def write(shard: int) -> None:
            # The member's requests reach the two processes alternately.
            for n in range(1, 41):
                node = Post(id=id_on(0, n, shard), author_id=id_on(0, 0, shard))
                await add(other if n % 2 else one, node)
                batch = Batch(shard)
                batch.assoc_add(node.author_id, LIKES, id_on(40, n), moment(n))
                if n % 3 == 0:
                    batch.obj_del(node, 1)
                await one.commit(batch)

        async def read() -> None:
            while writing:
                await replica.read(log, 7)
                await asyncio.sleep(0)

        # Every commit has an earlier time than the one before it.
        with patch.object(store, "now_ms", lambda: now_ms() + next(late)):
            reader = asyncio.create_task(read())
            await asyncio.gather(*map(write, shards))
        writing = False
        await reader
        await replica.read(log)
        assert replica.facts == await facts_of(reading)
        assert len({entry.id for entry in replica.entries}) == len(replica.entries) == len(shards) * (40 + 40 + 13)
        for shard in shards:
            ids = [id_on(0, n, shard) for n in range(1, 41)]
            created = [entry.object for entry in replica.entries if entry.kind == LogKind.POST_CREATED]
            assert [id_ for id_ in created if id_ in set(ids)] == ids
        assert all(int(item["n"]["N"]) <= 2 * CHUNK_ENTRIES for item in await chunks_of(reading))


@in_loop
async def test_dynamodb_event_log_commit_with_outdated_chunk_appends_after_the_newest_entries() -> None:
    url = new_table()
    async with opened(url, logs=True) as stale, opened(url) as other:
        await post(stale, 0)
        for n in range(1, 3 * CHUNK_ENTRIES):
            await post(other, n)
        await post(stale, 90)
        assert stale.capacity.retries.total() == 0
        assert await told(other) == posts(*range(3 * CHUNK_ENTRIES), 90)


@pytest.mark.parametrize("full", [True, False])
@in_loop
async def test_dynamodb_event_log_chunk_closed_between_read_and_write_is_not_written(full: bool) -> None:
    url = new_table()
    async with opened(url, logs=True) as other, moody() as moods:
        for n in range(CHUNK_ENTRIES - (not full)):
            await post(other, n)

        async def close() -> None:
            await post(other, 50)
            if not full:
                await post(other, 51)

        beyond = url.partition("&endpoint=")[0] + f"&endpoint={moods.url}"
        async with opened(beyond) as behind:
            # Both create the next chunk, or this one appends to a chunk that the other one has closed.
            moods.next("TransactWriteItems", after(close))
            await post(behind, 60)
            assert behind.capacity.retries == {"TransactionOvertaken": 1}
        assert (await told(other))[-2:] == posts(50 if full else 51, 60)
        assert len(await told(other)) == CHUNK_ENTRIES + 2


@pytest.mark.parametrize(
    "fault",
    [
        loses_its_answer,
        says("TransactionCanceledException", "None", "TransactionConflict"),
        says("TransactionCanceledException", "None", "ThrottlingError"),
        says("ProvisionedThroughputExceededException"),
    ],
    ids=["lost answer", "conflict", "throttled item", "throttled request"],
)
@in_loop
async def test_dynamodb_event_log_retried_commit_has_one_entry(fault: Any) -> None:
    url = new_table()
    async with moody() as moods:
        beyond = url.partition("&endpoint=")[0] + f"&endpoint={moods.url}"
        async with opened(beyond, logs=True) as graph:
            moods.next("TransactWriteItems", fault)
            await post(graph, 1)
            await post(graph, 2)
            assert await told(graph) == posts(1, 2)
            assert graph.capacity.retries.total() == 1


@in_loop
async def test_dynamodb_event_log_conflicts_without_end_are_reported_within_the_patience() -> None:
    url = new_table()
    async with opened(url, logs=True) as graph, moody() as moods:
        beyond = url.partition("&endpoint=")[0] + f"&endpoint={moods.url}"
        async with opened(beyond, patience=0.3) as behind:
            conflict = says("TransactionCanceledException", "None", "TransactionConflict")
            moods.next("TransactWriteItems", *[conflict] * 1_000)
            with pytest.raises(Unavailable, match="overloaded"):
                await post(behind, 1)
        assert await told(graph) == []


class Clock:
    """The clock of a process, that a test moves."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return now_ms() + self.ahead


@in_loop
async def test_dynamodb_event_log_entry_of_commit_that_waited_for_its_lane_has_the_time_after_the_wait() -> None:
    async with opened(new_table(), logs=True) as graph:
        await post(graph, 1)
        (chunk,) = graph._log._newest.values()
        with patch.object(store, "now_ms", Clock()) as clock:
            async with graph._locks.of([chunk.address.id]):
                waiting = asyncio.create_task(post(graph, 2))
                lock = graph._locks._locks[chunk.address.id]
                await eventually(lambda: _has_waiters(lock), True)
                clock.ahead = 3_600_000
            await waiting
        entries = (await EventLog(graph).read(None, 10)).entries
        assert [entry.at > now_ms() + 3_000_000 for entry in entries] == [False, True]


async def _has_waiters(lock: asyncio.Lock) -> bool:
    return bool(lock._waiters)


@in_loop
async def test_dynamodb_event_log_entry_of_throttled_commit_has_the_time_of_the_last_attempt() -> None:
    url, clock = new_table(), Clock()
    throttled = says("TransactionCanceledException", "None", "ThrottlingError")

    async def throttled_for_an_hour(*request: Any) -> Any:
        clock.ahead = 3_600_000
        return await throttled(*request)

    async with opened(url, logs=True) as graph, moody() as moods:
        async with opened(through(url, moods)) as throttling:
            with patch.object(store, "now_ms", clock):
                moods.next("TransactWriteItems", throttled_for_an_hour)
                await post(throttling, 1)
            assert throttling.capacity.retries == {"ThrottlingError": 1}
        (entry,) = (await EventLog(graph).read(None, 10)).entries
        assert entry.at > now_ms() + 3_000_000


@in_loop
async def test_dynamodb_event_log_commit_that_waits_for_a_busy_service_does_not_hold_its_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, pause, ended = new_table(), Backoff.pause, False

    async def long_pause(self: Backoff, *args: Any, **options: Any) -> None:
        nonlocal ended
        if not ended:
            ended = True
            # Without its own limit, this commit of the lane would wait for the end of the pause, and the pause for it.
            async with asyncio.timeout(PATIENT_SECONDS / 3):
                await post(throttled, 2)
        await pause(self, *args, **options)

    async with opened(url, logs=True), moody() as moods, opened(through(url, moods)) as throttled:
        monkeypatch.setattr(Backoff, "pause", long_pause)
        moods.next("TransactWriteItems", says("TransactionCanceledException", "None", "ThrottlingError"))
        await post(throttled, 1)
        assert ended
        assert await told(throttled) == posts(2, 1)


@in_loop
async def test_dynamodb_event_log_commit_waits_for_its_lane_only_within_the_patience() -> None:
    url = new_table()
    async with opened(url, logs=True) as graph, opened(url, patience=0.3) as hasty:
        await post(hasty, 1)
        async with hasty._locks.of(chunk.address.id for chunk in hasty._log._newest.values()):
            with pytest.raises(Unavailable, match="overloaded"):
                async with asyncio.timeout(PATIENT_SECONDS / 3):
                    await post(hasty, 2)
        await post(hasty, 3)
        assert await told(graph) == posts(1, 3)


# Cursors


def interrupt_queries(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[object]]) -> None:
    """Call `act` once, while a query that has found its first entries goes on with the items after them."""
    stretch, interrupted = Service.stretch, False

    async def interrupted_stretch(
        service: Service, first: ItemKey, last: ItemKey, limit: int, **way: bool
    ) -> list[Item]:
        nonlocal interrupted
        found = await stretch(service, first, last, 1, **way)
        if not interrupted and found and chunk_of(found[0]).n:
            interrupted = True
            await act()
        if found and limit > 1:
            found += await stretch(service, chunk_of(found[0]).following.address, last, limit - 1, **way)
        return found

    monkeypatch.setattr(Service, "stretch", interrupted_stretch)


@pytest.mark.parametrize("full", [0, 1], ids=["first chunk", "later chunk"])
@in_loop
async def test_dynamodb_event_log_query_during_commits_misses_no_entry(
    full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(new_table(), logs=True) as graph:
        cursor = await EventLog(graph).end() if full else None
        before, number = (full + 1) * CHUNK_ENTRIES - 1, 5 * CHUNK_ENTRIES
        for n in range(before):
            await post(graph, n)

        async def commit() -> None:
            for n in range(before, number):
                await post(graph, n)

        # The query finds an open chunk without its last entry, and then the chunks after it.
        interrupt_queries(monkeypatch, commit)
        page = await EventLog(graph).read(cursor, 1_000)
        read = [entry.object for entry in page.entries]
        assert read + await told(graph, page.cursor) == posts(*range(number))


@in_loop
async def test_dynamodb_event_log_poll_of_all_lanes_takes_two_requests_and_writes_nothing() -> None:
    async with opened(new_table(8), logs=True) as graph:
        for shard in range(40):
            await post(graph, 1, shard)
        page = await EventLog(graph).read(None, 100)
        assert len(page.entries) == 40
        before, writes = graph.capacity.requests.copy(), graph.capacity.writes
        assert (await EventLog(graph).read(page.cursor, 100)).entries == []
        assert graph.capacity.requests - before == {"batch_get_item": 2}
        assert graph.capacity.writes == writes
        assert len(page.cursor.encode()) < 2_000


@in_loop
async def test_dynamodb_event_log_entry_is_read_only_after_its_transaction_is_applied() -> None:
    url = new_table()
    async with opened(url, logs=True) as graph, opened(url, delay=3_600.0) as reading:
        with patch.object(store, "now_ms", lambda: now_ms() - 7_200_000):
            await post(graph, 1)
        await post(graph, 2)
        page = await EventLog(reading).read(None, 10)
        assert [entry.object for entry in page.entries] == posts(1)
        assert not page.more
        assert (await EventLog(reading).read(page.cursor, 10)).entries == []
        # The end is before the entries whose objects may not be there yet.
        assert await told(graph, page.cursor) == await told(graph, await EventLog(reading).end()) == posts(2)


@in_loop
async def test_dynamodb_event_log_entry_with_the_time_of_a_fast_clock_is_read_after_that_time() -> None:
    url = new_table()
    async with opened(url, logs=True) as graph, opened(url, delay=60.0) as reading:
        with patch.object(store, "now_ms", lambda: now_ms() + 120_000):
            await post(graph, 1)
        end = await EventLog(reading).end()
        with patch.object(event_log, "now_ms", Clock()) as clock:
            for clock.ahead, expected in ((0, []), (120_000, []), (181_000, posts(1))):
                assert await told(reading) == await told(reading, end) == expected


@in_loop
async def test_dynamodb_event_log_entry_with_a_wrong_time_does_not_stop_readers() -> None:
    url = new_table()
    async with opened(url, logs=True) as graph, opened(url, delay=1.0) as reading:
        with patch.object(store, "now_ms", lambda: now_ms() + 86_400_000):
            await post(graph, 1)
        assert await told(reading) == posts(1)


@in_loop
async def test_dynamodb_event_log_trim_keeps_cursors_at_its_end_and_refuses_earlier_ones() -> None:
    async with opened(new_table(), logs=True) as graph:
        log = EventLog(graph)
        cursors = {0: await log.end()}
        with patch.object(store, "now_ms", lambda: now_ms() - 3_600_000):
            for n in range(1, 2 * CHUNK_ENTRIES + 3):
                await post(graph, n)
                cursors[n] = await log.end()
        await post(graph, 90)
        # Two full chunks are old, and the third has a new entry.
        assert await log.trim(now_ms() - 60_000) == 2 * CHUNK_ENTRIES
        for n, cursor in cursors.items():
            if n < 2 * CHUNK_ENTRIES:
                with pytest.raises(CursorTooOld, match="entries after it were deleted"):
                    await log.read(cursor, 10)
            else:
                assert await told(graph, cursor) == posts(*range(n + 1, 2 * CHUNK_ENTRIES + 3), 90)
        assert await told(graph) == posts(*range(2 * CHUNK_ENTRIES + 1, 2 * CHUNK_ENTRIES + 3), 90)
        # A cursor that has no part for this lane is from before its beginning.
        partial = LogCursor({next(iter(cursors[0].places)) ^ 1: next(iter(cursors[0].places.values()))})
        with pytest.raises(CursorTooOld, match="entries after it were deleted"):
            await log.read(partial, 10)


@in_loop
async def test_dynamodb_event_log_trims_by_two_processes_in_pages_delete_each_entry_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_log, "_TRIMMED_AT_ONCE", 2)
    url, number = new_table(), 7 * CHUNK_ENTRIES + 1
    async with opened(url, logs=True) as graph, opened(url) as other:
        for n in range(number):
            await post(graph, n)
        end = await EventLog(graph).end()
        await asyncio.gather(*[EventLog(one).trim(FUTURE) for one in (graph, other, graph)])
        assert await told(other) == []
        await asyncio.gather(*[post(one, 200 + n) for n, one in enumerate((graph, other))])
        assert sorted(await told(other, end)) == sorted(await told(graph)) == posts(200, 201)


@in_loop
async def test_dynamodb_event_log_gap_between_chunks_is_skipped_only_by_new_readers_and_trimmed() -> None:
    async with opened(new_table(), logs=True) as graph:
        start = await EventLog(graph).end()
        for n in range(4 * CHUNK_ENTRIES):
            await post(graph, n)
        chunks = sorted(
            (item for item in await chunks_of(graph) if "closed" in item), key=lambda item: item["sort"]["S"]
        )
        await graph._service.forget([address_of(chunks[1])])
        assert await told(graph) == posts(*range(2 * CHUNK_ENTRIES, 4 * CHUNK_ENTRIES))
        with pytest.raises(CursorTooOld, match="entries after it were deleted"):
            await told(graph, start)
        assert await EventLog(graph).trim(FUTURE) == 3 * CHUNK_ENTRIES
        await post(graph, 90)
        assert await told(graph) == posts(90)


@in_loop
async def test_dynamodb_event_log_trim_that_fails_deletes_nothing() -> None:
    url = new_table()
    async with opened(url, logs=True) as graph, moody() as moods:
        cursor = await EventLog(graph).end()
        for n in range(3 * CHUNK_ENTRIES + 1):
            await post(graph, n)
        async with opened(through(url, moods), patience=0.3) as failing:
            # The first transaction deletes the first chunk, and the second one closes the last chunk.
            throttled = says("TransactionCanceledException", "ThrottlingError")
            moods.next("TransactWriteItems", Moods.pass_on, Moods.pass_on, *[throttled] * 1_000)
            with pytest.raises(Unavailable, match="overloaded"):
                await EventLog(failing).trim(FUTURE)
            assert "BatchWriteItem" not in moods.operations
        assert await told(graph) == posts(*range(CHUNK_ENTRIES, 3 * CHUNK_ENTRIES + 1))
        with pytest.raises(CursorTooOld, match="entries after it were deleted"):
            await told(graph, cursor)
        assert await EventLog(graph).trim(FUTURE) == 2 * CHUNK_ENTRIES + 1
        assert await told(graph) == []


@in_loop
async def test_dynamodb_event_log_commit_during_a_trim_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(new_table(), logs=True) as graph:
        with patch.object(store, "now_ms", lambda: now_ms() - 3_600_000):
            for n in range(3):
                await post(graph, n)
        cursor = await EventLog(graph).end()
        # The trim has read the open chunk, all of whose entries are old.
        interrupt_queries(monkeypatch, lambda: post(graph, 90))
        assert await EventLog(graph).trim(now_ms() - 60_000) == 0
        assert await told(graph, cursor) == posts(90)
        assert await told(graph) == posts(0, 1, 2, 90)


@in_loop
async def test_dynamodb_event_log_of_restored_table_refuses_cursors_of_the_original() -> None:
    url, copy = new_table(), new_table()
    async with opened(url, logs=True) as graph, opened(copy) as restored:
        await post(graph, 1)
        cursor = await EventLog(graph).end()
        await post(graph, 2)
        items = (await graph._service.call("scan", TableName=graph._service.table))["Items"]
        for item in items:
            await restored._service.write("put_item", Item=item)
    async with opened(copy) as restored:
        await post(restored, 3)
        assert await told(restored) == posts(1, 2, 3)
        with pytest.raises(CursorTooOld, match="belongs to another event log"):
            await told(restored, cursor)


@in_loop
async def test_event_log_of_network_on_dynamodb_and_sqlite_has_one_cursor(tmp_path: Path) -> None:
    owners = [0] * (32 * 128) + [1] * (32 * 128)
    tables, path = new_table(), tmp_path / "b.db"

    async def stores() -> list[Store]:
        first = await DynamoGraph.open(
            tables, owns=lambda shard: owners[shard] == 0, logs=True, adoption=0.0, delay=0.0
        )
        return [first, await SqliteGraph.open(path, owns=lambda shard: owners[shard] == 1, logs=True)]

    replica = Replica()
    for round_ in range(2):
        graph = ShardedGraph(await stores(), owners)
        try:
            for n in range(1, 20):
                for source in (0, 40):
                    await add(graph, Post(id=id_on(source, n + 100 * round_), author_id=id_on(source)))
                await begin(graph, ANN, LIKES, POST_OF_BEN, moment(n))
                await replica.read(EventLog(graph), 3)
            assert replica.facts == await facts_of(graph)
        finally:
            await graph.close()
    assert len({entry.id for entry in replica.entries}) == len(replica.entries)


# The setting


@in_loop
async def test_dynamodb_event_log_switched_by_another_process_is_adopted() -> None:
    url = new_table()
    async with opened(url) as graph:
        await post(graph, 1)
        async with opened(url, logs=True) as other:
            await post(graph, 2)
            await post(other, 3)
            assert await told(graph) == posts(2, 3)
        async with opened(url, logs=False):
            await post(graph, 4)
            with pytest.raises(InvalidInput, match="keeps no event log"):
                await told(graph)
        # This process has not noticed that the log was off.
        async with opened(url) as third, opened(url, logs=True):
            await asyncio.gather(*[post(one, n) for n, one in enumerate((graph, third), 5)])
            assert sorted(await told(graph)) == posts(5, 6)


@in_loop
async def test_dynamodb_event_log_turned_off_and_on_meanwhile_gets_the_commits_of_a_running_process() -> None:
    url, begun, writing = new_table(), count(1), True
    committed: dict[int, int] = {}
    async with opened(url, logs=True) as graph:

        async def write(shard: int) -> None:
            while writing:
                n = next(begun)
                await post(graph, n, shard)
                committed[n] = id_on(0, n, shard)

        async def later() -> set[int]:
            return {id_ for n, id_ in committed.items() if n > first}

        writers = [asyncio.create_task(write(n // 2)) for n in range(8)]
        async with opened(url, logs=False), opened(url, logs=True):
            first = next(begun)
        await eventually(lambda: _is_large(later()), True)
        writing = False
        await asyncio.gather(*writers)
        assert await later() <= set(await told(graph))


async def _is_large(ids: Awaitable[set[int]]) -> bool:
    return len(await ids) >= 60


@in_loop
async def test_dynamodb_event_log_of_table_in_use_begins_when_all_processes_have_adopted_it() -> None:
    url = new_table()
    async with opened(url, adoption=60.0) as running:
        async with opened(url, logs=True, adoption=60.0) as graph:
            for ask in (EventLog(graph).end(), EventLog(graph).read(None, 10)):
                with pytest.raises(Unavailable, match=r"was turned on, and begins in \d\d s") as refused:
                    await ask
                assert 60 < refused.value.retry_after <= 90
            await post(graph, 1)
        # The process reads the state again after a minute.
        await post(running, 2)
        running._log._next_read = 0.0
        await post(running, 3)
        with patch.object(event_log, "now_ms", lambda: now_ms() + 91_000):
            assert await told(running) == posts(1, 3)


@in_loop
async def test_dynamodb_event_log_turned_off_is_deleted_by_upkeep_and_opens_table_to_older_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = new_table()
    async with opened(url, logs=True) as graph:
        for n in range(2 * CHUNK_ENTRIES):
            await post(graph, n)
    monkeypatch.setattr("shoal.graph.dynamodb.table.LOGGED_VERSION", 3)
    with pytest.raises(Unavailable, match="this Shoal reads layout versions up to 3"):
        await DynamoGraph.open(url)
    monkeypatch.undo()
    async with opened(url, logs=False) as graph:
        assert await chunks_of(graph)
        assert await EventLog(graph).trim(0) == 2 * CHUNK_ENTRIES
        assert await chunks_of(graph) == []
        (layout,) = await graph._service.get([LAYOUT])
        assert layout == {**LAYOUT.item(), "version": {"N": "3"}, "spread": {"N": "2"}}


@in_loop
async def test_dynamodb_event_log_turned_on_by_several_processes_has_one_number() -> None:
    url = new_table()
    async with opened(url):
        graphs = await asyncio.gather(*[DynamoGraph.open(url, logs=True, adoption=0.0, delay=0.0) for _ in range(3)])
        try:
            assert len({graph._log.state.number for graph in graphs}) == 1
            await asyncio.gather(*[post(graph, n) for n, graph in enumerate(graphs)])
            assert sorted(await told(graphs[0])) == posts(0, 1, 2)
            assert len({item["ID"]["S"].split("#")[1] for item in await chunks_of(graphs[0])}) == 1
        finally:
            await asyncio.gather(*[graph.close() for graph in graphs])


@in_loop
async def test_dynamodb_event_log_is_not_turned_on_by_a_process_that_only_reads() -> None:
    url = new_table()
    async with AsyncExitStack() as stack:
        reading = await open_one(url, stack, every_shard, read_only=True, sole=False, logs=True)
        with pytest.raises(InvalidInput, match="keeps no event log"):
            await EventLog(reading).end()


@in_loop
async def test_dynamodb_event_log_of_network_has_the_state_that_commands_and_consumers_left() -> None:
    async with Shoal.open(
        new_table(), event_log="on", media="memory://", tags="memory://", search="memory://"
    ) as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        post_of_ann = await ann.create("hello #tide")
        await ben.follow(ann)
        await ben.like(post_of_ann)
        reply = await ben.comment(post_of_ann, "hello")
        await ann.share(reply)
        await ben.unlike(post_of_ann)
        await ann.delete(post_of_ann)
        await shoal.settle()
        store_, replica = shoal.network.store, Replica()
        await eventually(lambda: _is_equal(replica, store_), True)
        assert {LogKind.POST_CREATED, LogKind.LIKE_DELETED} <= {entry.kind for entry in replica.entries}


async def _is_equal(replica: Replica, graph: Store) -> bool:
    await replica.read(EventLog(graph))
    return replica.facts == await facts_of(graph)


# Faults


@in_loop
async def test_dynamodb_event_log_survives_kill_9_of_writers_while_a_reader_follows_it() -> None:
    url, replica = new_table(), Replica()
    async with opened(url, logs=True) as graph:
        acknowledged: set[int] = set()
        for round_ in range(2):
            with _writer(url, 2 * round_) as one, _writer(url, 2 * round_ + 1) as other:
                for _ in range(40):
                    for child in (one, other):
                        acknowledged.add(int(await asyncio.to_thread(child.stdout.readline)))  # type: ignore[union-attr]
                    await replica.read(EventLog(graph), 20)
                one.kill()
                other.kill()
        # The service may still execute a request of a killed process.
        await eventually(lambda: _is_equal(replica, graph), True)
        assert acknowledged <= {entry.object for entry in replica.entries}
        assert len({entry.id for entry in replica.entries}) == len(replica.entries)


def _writer(url: str, round_: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.graph.commit_process_dynamodb", url, str(round_)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY)
