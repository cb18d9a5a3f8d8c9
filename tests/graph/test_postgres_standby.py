"""Failover to a PostgreSQL standby: which server is used, and which data of the old primary is discarded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from shoal import Shoal
from shoal.core.errors import InvalidInput, OutcomeUnknown, Unavailable
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.graph.connection_errors import chain
from shoal.graph.contract import Batch
from shoal.graph.failover import Histories
from shoal.graph.postgres import PostgresGraph, owner
from shoal.graph.postgres.connections import PATIENCE, ConnectionPool
from shoal.graph.postgres.primary import each_host, parse
from shoal.graph.schema import LIKES
from shoal_devcluster.program import Program
from tests.async_runner import eventually, in_loop
from tests.engines import postgres
from tests.engines.pgbouncer import in_front_of
from tests.engines.postgres_standby import Standby, set_of
from tests.faults.proxy import Link, moved, port_of
from tests.graph.test_postgres import Database, ann
from tests.stores import ANN, POST_OF_BEN, add, begin, moment

BOUND_SECONDS = 90.0
"""Maximum time for a process to find the promoted server: 5 seconds, and time for a busy machine."""


class Pair:
    """A primary, which clients reach over a link, and its standby."""

    def __init__(self) -> None:
        self.primary: Program = postgres.start_own()
        self.link = Link(port_of(self.primary.url))
        self.standby = Standby(postgres.folder() / "standby", self.primary.url)
        self.url = self.standby.beside(moved(self.primary.url, self.link.at))

    def end(self) -> None:
        self.link.close()
        self.standby.stop()
        self.primary.kill()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.end()


@asynccontextmanager
async def opened(url: str, **how: Any) -> AsyncIterator[PostgresGraph]:
    graph = await PostgresGraph.open(url, **how)
    try:
        yield graph
    finally:
        await graph.close()


async def stored(graph: PostgresGraph, time_: int) -> bool:
    try:
        await begin(graph, ANN, LIKES, POST_OF_BEN, moment(time_))
    except (Unavailable, OutcomeUnknown):
        return False
    return True


async def emitted(graph: PostgresGraph, post: int) -> None:
    batch = Batch(shard_of(ANN))
    batch.emit(PostCreated(post_id=post, author_id=ANN))
    await graph.commit(batch)


@pytest.mark.parametrize("how", ["killed", "silent", "killed behind poolers"])
def test_postgres_failover_reads_and_writes_reach_promoted_standby(pair: Pair, how: str) -> None:
    url = pair.url
    if "poolers" in how:
        url += f"?pooler={in_front_of(pair.primary.url)},{in_front_of(pair.standby.url)}"

    async def lives() -> None:
        async with opened(url, patience=PATIENCE) as graph:
            await add(graph, ann())
            await asyncio.to_thread(pair.standby.is_waited_for)
            assert await stored(graph, 1)
            # A standby serves neither writes nor reads.
            assert await stored(graph, 2)
            if how == "silent":
                pair.link.silence()
            else:
                await asyncio.to_thread(pair.primary.kill)
            began = time.monotonic()
            with pytest.raises(Unavailable):
                await begin(graph, ANN, LIKES, POST_OF_BEN, moment(3))
            assert time.monotonic() - began < BOUND_SECONDS
            await asyncio.to_thread(pair.standby.promote)
            await eventually(lambda: stored(graph, 4), True, BOUND_SECONDS)
            assert await graph.obj_get([ANN]) == {ANN: ann()}
            assert graph._reading.history == 2

    in_loop(lives)()


@in_loop
async def test_postgres_primary_that_became_read_only_is_abandoned_without_partial_writes() -> None:
    pair = Pair()
    try:
        async with opened(pair.url) as graph:
            await add(graph, ann())
            session = await asyncpg.connect(pair.primary.url)
            await asyncio.to_thread(set_of, pair.primary.url, "default_transaction_read_only", "on")
            # The sessions of the graph get the setting at the same time.
            await eventually(lambda: session.fetchval("SHOW default_transaction_read_only"), "on")
            await session.close()
            refused = await asyncio.gather(
                *[begin(graph, ANN, LIKES, n, moment(1)) for n in (1, 2)], return_exceptions=True
            )
            assert [type(error) for error in refused] == [Unavailable, Unavailable]
            assert (await graph.assoc_count([ANN], [LIKES]))[LIKES] == {}
            await asyncio.to_thread(pair.standby.promote)
            await eventually(lambda: stored(graph, 2), True, BOUND_SECONDS)
            assert graph._writing.history == 2
            with pytest.raises(Unavailable) as only:
                await PostgresGraph.open(pair.primary.url)
            assert "default_transaction_read_only" in str(only.value.__cause__)
    finally:
        pair.end()


async def locked_in(graph: PostgresGraph) -> int:
    """Return the history of the server that holds the lock, or 0 without a lock."""
    held = graph._owner._connection
    return 0 if held is None else held.history


@in_loop
async def test_postgres_failover_old_primary_is_ignored_and_sequence_numbers_are_not_reused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owner, "_BEAT_SECONDS", 1.0)
    pair = Pair()
    try:
        async with opened(pair.url, histories=(histories := Histories())) as graph:
            await add(graph, ann())
            await asyncio.to_thread(pair.standby.falls_behind)
            # These writes are acknowledged and lost.
            for number in (1, 2, 3):
                await emitted(graph, number)
            lost = {job.seq for job in await graph.claim(10, 60.0)}
            assert len(lost) == 3
            await begin(graph, ANN, LIKES, POST_OF_BEN, moment(1))
            await asyncio.to_thread(pair.standby.promote)
            # The old primary still runs and this process knows no other; another pool of the process finds the new one first.
            await begin(graph, ANN, LIKES, 2, moment(1))
            other = ConnectionPool(pair.url, 1, {"application_name": "other"}, histories=histories)
            await other.ask("SELECT 1")
            await other.close()
            assert other.history == 2
            # A lock on the old primary is not valid either.
            await eventually(lambda: locked_in(graph), 2, BOUND_SECONDS)
            assert (await graph.assoc_count([ANN], [LIKES]))[LIKES] == {}
            for number in (4, 5, 6):
                await emitted(graph, number)
            given = {job.seq for job in await graph.claim(10, 60.0)}
            assert len(given) == 3
            assert not given & lost
            await asyncio.to_thread(pair.standby.program.kill)
            await eventually(lambda: stored(graph, 5), False, BOUND_SECONDS)
            for _ in range(3):
                assert not await stored(graph, 6), "the old primary was written to"
                await asyncio.sleep(0.6)
            said = [record for record in caplog.records if "is a former primary" in record.message]
            assert [record.levelname for record in said] == ["WARNING"]
            assert f"127.0.0.1:{pair.link.at}" in said[0].message
    finally:
        pair.end()


@in_loop
async def test_postgres_failover_discards_cached_writes_missing_on_standby() -> None:
    pair = Pair()
    try:
        async with Shoal.open(pair.url) as shoal:
            one, two = await shoal.register("one"), await shoal.register("two")
            kept = await one.create("kept")
            await two.follow("one")
            await shoal.settle()
            assert [entry.post.text for entry in (await two.home()).entries] == ["kept"]
            await asyncio.to_thread(pair.standby.falls_behind)
            lost = await one.create("lost")
            await one.like(kept.id)
            await shoal.settle()
            assert [entry.post.text for entry in (await two.home()).entries] == ["lost", "kept"]
            await asyncio.to_thread(pair.primary.kill)
            await asyncio.to_thread(pair.standby.promote)

            async def answers() -> bool:
                try:
                    await two.like(kept.id)
                except Unavailable:
                    return False
                return True

            await eventually(answers, True)
            assert [(entry.post.text, entry.likes) for entry in (await two.home()).entries] == [("kept", 1)]
            assert lost.id not in await shoal.network.store.obj_get([lost.id])
            made: list[int] = []

            async def creates() -> bool:
                try:
                    made.append((await one.create("again", request="again")).id)
                except Unavailable:
                    # Another connection may have failed just before.
                    return False
                return True

            await eventually(creates, True)
            assert made[0] > lost.id

            async def settled() -> bool:
                try:
                    await shoal.settle(10.0)
                except Unavailable:
                    # The tag cloud has its own connections, and one may have failed just before.
                    return False
                return True

            # Jobs that run again do not wait for a lease to expire.
            await eventually(settled, True, BOUND_SECONDS)
            assert [entry.post.text for entry in (await two.home()).entries] == ["again", "kept"]
    finally:
        pair.end()


@in_loop
async def test_postgres_connection_attempt_failing_after_later_success_causes_no_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = ConnectionPool(await Database().made(), 3, {"application_name": "pool"}, postgres.PATIENT_SECONDS)
    began, promoted = asyncio.Event(), asyncio.Event()

    async def fail(*_: object) -> None:
        began.set()
        await promoted.wait()
        raise Unavailable("no server accepts writes")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(pool._finder, "connect", fail)
            early = asyncio.create_task(pool.ask("SELECT 1"))
            await began.wait()
        await pool.ask("SELECT 1")
        promoted.set()
        with pytest.raises(Unavailable, match="accepts writes"):
            await early
        # One of them needs a second connection.
        await asyncio.gather(pool.ask("SELECT 1"), pool.ask("SELECT 1"))
    finally:
        await pool.close()


@pytest.mark.parametrize("word", [b"pg_is_in_recovery", b"pg_try_advisory_lock"])
@in_loop
async def test_postgres_open_times_out_when_server_stops_responding(
    word: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "_TAKE_SECONDS", 2.0)
    url = await (database := Database()).made()
    await (await PostgresGraph.open(url)).close()
    link = Link(port_of(url))
    try:
        link.silence_at(word)
        async with asyncio.timeout(2 * BOUND_SECONDS):
            with pytest.raises(Unavailable) as refused:
                await PostgresGraph.open(moved(url, link.at), patience=PATIENCE)
        assert any(isinstance(error, TimeoutError) for error in chain(refused.value))
    finally:
        link.close()
        del database


def test_postgres_url_accepts_several_servers_and_one_pooler_per_server() -> None:
    found = parse("postgresql://u:p@a:1,b:2/net?pooler=c:3,d:4&sslmode=require")
    assert each_host(found.server) == [f"postgresql://u:p@{host}/net?sslmode=require" for host in ("a:1", "b:2")]
    assert each_host(found.pooler) == [f"postgresql://u:p@{host}/net?sslmode=require" for host in ("c:3", "d:4")]
    assert each_host("postgresql:///net?host=/run/postgresql") == ["postgresql:///net?host=/run/postgresql"]
    for wrong in ("postgresql://a,/net", "postgresql://,a/net", "postgresql://a,b/net?pooler=c:3,d"):
        with pytest.raises(InvalidInput, match="host:port"):
            parse(wrong)
