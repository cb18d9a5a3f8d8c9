"""The event log of a PostgreSQL store: running transactions, other processes, older code, failover and killed processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import now_ms
from shoal.core.model import Post
from shoal.graph.contract import CursorTooOld, LogCursor
from shoal.graph.event_log import EventLog, LogKind
from shoal.graph.postgres import PostgresGraph, event_log, event_log_sql
from shoal.graph.postgres.migrations import GRAPH, check_version
from shoal.graph.postgres.moves import PostgresPost
from tests.async_runner import eventually, in_loop
from tests.engines import postgres
from tests.event_log_replica import Replica, facts_of, settled
from tests.graph import test_postgres_standby as standby
from tests.graph.test_postgres import Database, aside, opened
from tests.stores import ANN, add, id_on
from tests.tiers import deep

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def database() -> Database:
    return Database()


async def post(graph: PostgresGraph, n: int) -> None:
    await add(graph, Post(id=id_on(0, n), author_id=ANN))


async def told(graph: PostgresGraph, after: LogCursor | None = None) -> list[int]:
    await settled(graph)
    return [entry.object for entry in (await EventLog(graph).read(after, 100)).entries]


@in_loop
async def test_postgres_event_log_page_ends_before_the_oldest_running_transaction(database: Database) -> None:
    async with opened(database, logs=True) as graph, aside(database.url) as other:
        await post(graph, 1)
        await settled(graph)
        running = other.transaction()
        await running.start()
        await other.execute("SELECT pg_current_xact_id()")
        await post(graph, 2)
        log = EventLog(graph)
        page = await log.read(None, 100)
        assert [entry.object for entry in page.entries] == [id_on(0, 1)]
        assert (await log.read(page.cursor, 100)).entries == []
        await running.rollback()
        assert await told(graph, page.cursor) == [id_on(0, 2)]


@in_loop
async def test_postgres_event_log_switched_by_another_process_is_adopted(database: Database) -> None:
    async with opened(database) as graph:
        await post(graph, 1)
        async with opened(database, logs=True) as other:
            await post(graph, 2)
            await post(other, 3)
            assert await told(graph) == [id_on(0, 2), id_on(0, 3)]
        async with opened(database, logs=False):
            await post(graph, 4)
            with pytest.raises(InvalidInput, match="keeps no event log"):
                await told(graph)
        async with opened(database, logs=True):
            await asyncio.gather(*[post(graph, n) for n in range(5, 9)])
            assert sorted(await told(graph)) == [id_on(0, n) for n in range(5, 9)]


@in_loop
async def test_postgres_store_with_event_log_is_refused_by_code_that_does_not_know_it(database: Database) -> None:
    empty = "SELECT shoal.commit(0" + ", '{}'" * 36 + ")"
    older = GRAPH._replace(migrations=GRAPH.migrations[:8])
    async with opened(database), aside(database.url) as old:
        await old.execute(empty)
        await check_version(old, older)
        async with opened(database, logs=True):
            with pytest.raises(asyncpg.PostgresError, match="others have the store"):
                await old.execute(empty)
            with pytest.raises(Unavailable, match="has schema version 10, but this Shoal supports 8"):
                await check_version(old, older)
        async with opened(database, logs=False):
            await old.execute(empty)
            await check_version(old, older)


@in_loop
async def test_postgres_event_log_is_not_turned_on_while_older_code_uses_the_store(database: Database) -> None:
    async with opened(database) as graph:
        old = await asyncpg.connect(database.url, server_settings={"application_name": "shoal schema 8"})
        with pytest.raises(
            Unavailable, match=r"event_log: processes of an older Shoal use the store \(schema version 8"
        ):
            async with opened(database, logs=True):
                pass
        await post(graph, 1)
        await old.close()

    async def turned_on() -> bool:
        try:
            async with opened(database, logs=True) as graph:
                return await told(graph) == []
        except Unavailable:
            return False

    # The server may show the closed session for a moment.
    await eventually(turned_on, True)


@in_loop
async def test_postgres_event_log_number_depends_on_the_server(database: Database) -> None:
    async with opened(database, logs=True) as graph, aside(database.url) as other:
        (number,) = (await EventLog(graph).end()).places
        assert number != await other.fetchval("SELECT log FROM shoal.owner")


@in_loop
async def test_postgres_event_log_number_of_a_copy_in_the_same_server_is_different() -> None:
    # The copy is a long transaction, which would delay the readers of other tests on a shared server.
    server = postgres.start_own()
    try:
        async with standby.opened(server.url, logs=True) as graph:
            await post(graph, 1)
            cursor = await EventLog(graph).end()
        async with aside(server.url.replace("/postgres", "/template1")) as other:

            async def is_copied() -> bool:
                try:
                    await other.execute("CREATE DATABASE copy TEMPLATE postgres")
                except asyncpg.ObjectInUseError:
                    return False
                return True

            # The server may have sessions of the closed graph for a moment.
            await eventually(is_copied, True)
        async with standby.opened(server.url.replace("/postgres", "/copy")) as graph:
            assert await told(graph) == [id_on(0, 1)]
            with pytest.raises(CursorTooOld, match="another event log"):
                await told(graph, cursor)
    finally:
        server.stop()


@in_loop
async def test_postgres_event_log_cursor_from_the_future_of_a_restored_disk_snapshot_is_refused(
    database: Database,
) -> None:
    async with opened(database, logs=True) as graph:
        await post(graph, 1)
        await settled(graph)
        page = await EventLog(graph).read(None, 10)
        assert await told(graph, page.cursor) == []
        ((log, place),) = page.cursor.places.items()
        timeline, wal_end, at = place.proof
        later = LogCursor({log: place._replace(proof=(timeline, wal_end + 2**30, at))})
        with pytest.raises(CursorTooOld, match="the store lost entries that it covers"):
            await told(graph, later)


@in_loop
async def test_postgres_event_log_cursor_at_a_position_that_another_entry_has_is_refused(database: Database) -> None:
    async with opened(database, logs=True) as graph, aside(database.url) as other:
        await post(graph, 1)
        await settled(graph)
        cursors = [(await EventLog(graph).read(None, 10)).cursor, await EventLog(graph).end()]
        # As after a restored snapshot, once the server has written as much WAL as before.
        await other.execute("UPDATE shoal.event_log SET at = at + 1")
        for cursor in cursors:
            with pytest.raises(CursorTooOld, match="the store lost entries that it covers"):
                await told(graph, cursor)


@in_loop
async def test_postgres_event_log_page_reads_only_the_deliverable_range_of_the_index(database: Database) -> None:
    async with opened(database, logs=True) as graph:
        await post(graph, 1)

        async def plan(connection: asyncpg.Connection) -> str:
            explain = f"EXPLAIN (FORMAT JSON) {event_log_sql.PAGE}"
            return str(await connection.fetchval(explain, [1], [1], [1], [1], [1], 10))

        found = json.loads(await graph._reading.use(plan))
        conditions = [node["Index Cond"] for node in _nodes(found[0]["Plan"]) if node.get("Alias") == "l"]
        assert len(conditions) == 1
        assert "ROW(history, xid, n) >" in conditions[0]
        assert "ROW(history, xid) <" in conditions[0]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


@in_loop
async def test_postgres_event_log_trim_works_in_pages(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_TRIMMED_AT_ONCE", 2)
    async with opened(database, logs=True) as graph:
        for n in range(1, 6):
            await post(graph, n)
        assert await EventLog(graph).trim(now_ms() + 60_000) == 5
        assert await told(graph) == []


@in_loop
async def test_postgres_event_log_trim_is_left_to_another_process_that_trims(database: Database) -> None:
    future = now_ms() + 60_000
    async with opened(database, logs=True) as graph, aside(database.url) as other:
        await post(graph, 1)
        async with other.transaction():
            await other.execute("SELECT FROM shoal.owner FOR UPDATE")
            assert await EventLog(graph).trim(future) == 0
        assert await EventLog(graph).trim(future) == 1


@in_loop
async def test_postgres_event_log_trimmed_position_never_falls(database: Database) -> None:
    higher = [1, 2**40, 1]
    async with opened(database, logs=True) as graph, aside(database.url) as other:
        await post(graph, 1)
        await other.execute("UPDATE shoal.owner SET log_trimmed = $1", higher)
        assert await EventLog(graph).trim(now_ms() + 60_000) == 1
        assert await other.fetchval("SELECT log_trimmed FROM shoal.owner") == higher


@pytest.mark.parametrize("loses", [True, *deep(False)])
@in_loop
async def test_postgres_event_log_cursor_after_failover_is_valid_only_if_nothing_is_lost(loses: bool) -> None:
    pair = standby.Pair()
    try:
        async with standby.opened(pair.url, logs=True) as graph:
            await post(graph, 1)
            log = EventLog(graph)
            before = await log.read(None, 100)
            if loses:
                await asyncio.to_thread(pair.standby.falls_behind)
            await post(graph, 2)
            page = await log.read(before.cursor, 100)
            assert [entry.object for entry in page.entries] == [id_on(0, 2)]
            if not loses:
                (place,) = page.cursor.places.values()
                behind = "SELECT pg_last_wal_replay_lsn() - '0/0'::pg_lsn >= $1"
                async with aside(pair.standby.url) as watching:
                    await eventually(lambda: watching.fetchval(behind, place.proof[1]), True)
            await asyncio.to_thread(pair.primary.kill)
            await asyncio.to_thread(pair.standby.promote)
            await eventually(lambda: standby.stored(graph, 4), True, standby.BOUND_SECONDS)
            async with aside(pair.standby.url) as promoted:
                begun = "SELECT begun > '0/0' FROM shoal.event_log_history WHERE history = 2"
                assert await promoted.fetchval(begun)
            await post(graph, 3)
            if loses:
                with pytest.raises(CursorTooOld, match="the store lost entries that it covers"):
                    await log.read(page.cursor, 100)
            else:
                assert (await told(graph, page.cursor))[-1] == id_on(0, 3)
                assert id_on(0, 2) in await told(graph, before.cursor)
            # The entries of the former timeline, and then those of this one, each with the cursor of the previous.
            replica = Replica()
            await replica.read(log, 1)
            assert replica.facts == await facts_of(graph)
            resumed = await log.end()
            await post(graph, 5)
            assert await told(graph, resumed) == [id_on(0, 5)]
    finally:
        pair.end()


@in_loop
async def test_postgres_event_log_cursor_that_saw_lost_commits_is_refused_after_failover_and_crash() -> None:
    pair = standby.Pair()
    try:
        async with standby.opened(pair.primary.url, logs=True) as graph:
            await post(graph, 1)
            await asyncio.to_thread(pair.standby.falls_behind)
            await post(graph, 2)
            page = await EventLog(graph).read(None, 100)
            assert len(page.entries) == 2
        await asyncio.to_thread(pair.primary.kill)
        await asyncio.to_thread(pair.standby.promote)
        # No process of Shoal uses the new primary before it crashes.
        async with aside(pair.standby.url) as promoted:
            await promoted.execute("CREATE TABLE filler AS SELECT n FROM generate_series(1, 50000) AS n")
            ((_, proof, _),) = [place.proof for place in page.cursor.places.values()]
            assert await promoted.fetchval("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn") > proof
        await asyncio.to_thread(pair.standby.program.kill)
        await asyncio.to_thread(pair.standby.program.start)
        async with standby.opened(pair.standby.url) as graph:
            with pytest.raises(CursorTooOld, match="the store lost entries that it covers"):
                await told(graph, page.cursor)
    finally:
        pair.end()


# The server writes the WAL of asynchronous commits to the disk after three times this delay.
NEVER_FLUSHED = "wal_writer_delay=10s"


@in_loop
async def test_postgres_event_log_cursor_misses_no_commit_after_a_crash_that_uses_transaction_ids_again() -> None:
    server = postgres.start_own(NEVER_FLUSHED)
    next_id = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    try:
        async with standby.opened(server.url, logs=True) as graph, aside(server.url) as lazy:
            await post(graph, 1)
            await lazy.execute("SET synchronous_commit = off")
            for _ in range(50):
                await lazy.execute("UPDATE shoal.outbox SET mark = 0 WHERE pg_current_xact_id() IS NULL")
            lost = await lazy.fetchval(next_id)
            log = EventLog(graph)
            cursors = [(await log.read(None, 10)).cursor, await log.end()]
            cursors.append((await log.read(cursors[0], 10)).cursor)
            server.kill()
        server.start()
        async with aside(server.url) as other:
            assert await other.fetchval(next_id) < lost
        async with standby.opened(server.url) as graph:
            await post(graph, 2)
            for cursor in cursors:
                assert await told(graph, cursor) == [id_on(0, 2)]
    finally:
        server.stop()


@in_loop
async def test_postgres_event_log_marker_of_a_move_is_durable_before_it_is_visible() -> None:
    server = postgres.start_own(NEVER_FLUSHED)
    try:
        async with standby.opened(server.url, logs=True), aside(server.url) as other:
            await other.execute("INSERT INTO shoal.moving (shard, state) VALUES (7, 'away')")
            keeper = PostgresPost(server.url)
            await keeper.admit([7], 1, 0.0, {7: (1, 2, 3)})
            server.kill()
            await keeper.close(1)
        server.start()
        async with aside(server.url) as other:
            assert await other.fetch("SELECT kind, subject FROM shoal.event_log") == [(LogKind.MOVED, 1)]
    finally:
        server.stop()


@in_loop
async def test_postgres_event_log_survives_kill_9_of_client_and_server_while_a_reader_follows_it() -> None:
    server = postgres.start_own()
    replica = Replica()
    try:
        for round_ in range(2):
            async with standby.opened(server.url, logs=True) as graph:
                command = [sys.executable, "-m", "tests.graph.commit_process_postgres", server.url, str(round_)]
                with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as child:  # noqa: ASYNC220  # fork server
                    assert child.stdout is not None
                    for _ in range(150):
                        await asyncio.to_thread(child.stdout.readline)
                        await replica.read(EventLog(graph), 20)
                    if round_:
                        server.kill()
                    child.kill()
        server.start()
        async with standby.opened(server.url) as graph:
            # The server may not have noticed yet that a client is gone, whose transaction then still runs.
            await eventually(lambda: _is_equal(replica, graph), True)
        assert len({entry.id for entry in replica.entries}) == len(replica.entries) > 300
    finally:
        server.stop()


async def _is_equal(replica: Replica, graph: PostgresGraph) -> bool:
    await replica.read(EventLog(graph))
    return replica.facts == await facts_of(graph)
