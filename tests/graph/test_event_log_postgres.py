"""The event log of a PostgreSQL store: running transactions, other processes, older code, failover and killed processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import now_ms
from shoal.core.model import Post
from shoal.graph.contract import CursorTooOld, LogCursor
from shoal.graph.event_log import EventLog
from shoal.graph.postgres import PostgresGraph, event_log
from shoal.graph.postgres.migrations import GRAPH, check_version
from tests.async_runner import eventually, in_loop
from tests.engines import postgres
from tests.event_log_replica import Replica, facts_of
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
    return [entry.object for entry in (await EventLog(graph).read(after, 100)).entries]


@in_loop
async def test_postgres_event_log_page_ends_before_the_oldest_running_transaction(database: Database) -> None:
    async with opened(database, logs=True) as graph, aside(database.url) as other:
        await post(graph, 1)
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
            with pytest.raises(Unavailable, match="has schema version 9, but this Shoal supports 8"):
                await check_version(old, older)


@in_loop
async def test_postgres_event_log_number_depends_on_the_server(database: Database) -> None:
    async with opened(database, logs=True) as graph, aside(database.url) as other:
        (number,) = (await EventLog(graph).end()).places
        assert number != await other.fetchval("SELECT log FROM shoal.owner")


@in_loop
async def test_postgres_event_log_trim_works_in_pages(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_TRIMMED_AT_ONCE", 2)
    async with opened(database, logs=True) as graph:
        for n in range(1, 6):
            await post(graph, n)
        assert await EventLog(graph).trim(now_ms() + 60_000) == 5
        assert await told(graph) == []


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
                    await eventually(lambda: watching.fetchval(behind, place.proof), True)
            await asyncio.to_thread(pair.primary.kill)
            await asyncio.to_thread(pair.standby.promote)
            await eventually(lambda: standby.stored(graph, 4), True, standby.BOUND_SECONDS)
            await post(graph, 3)
            if loses:
                with pytest.raises(CursorTooOld, match="entries that this one has lost"):
                    await log.read(page.cursor, 100)
            else:
                assert (await told(graph, page.cursor))[-1] == id_on(0, 3)
                assert id_on(0, 2) in await told(graph, before.cursor)
            resumed = await log.end()
            await post(graph, 5)
            assert await told(graph, resumed) == [id_on(0, 5)]
    finally:
        pair.end()


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
