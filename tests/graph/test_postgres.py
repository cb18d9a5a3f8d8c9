"""The PostgreSQL store: concurrent writers, server failures, outbox claims and data source moves."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import asyncpg
import pytest

from shoal.core.errors import Conflict, InvalidInput, OutcomeUnknown, ShoalError, Unavailable
from shoal.core.events import InversePending, PostCreated
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post
from shoal.graph.bulk import NAMED_BY_PLACE, KeyRow
from shoal.graph.contract import MAX_TIME, Assoc, AssocExists, Batch, Cursor, Frozen, Job, KeyTaken, Missing
from shoal.graph.postgres import PostgresGraph, moves_sql, ranks, sql
from shoal.graph.postgres import schema as postgres_schema
from shoal.graph.postgres.connections import SESSION_SETTINGS
from shoal.graph.postgres.migrations import GRAPH, migrate
from shoal.graph.schema import (
    FOLLOWED_BY,
    FOLLOWS,
    LIKED_BY,
    LIKES,
    PINS,
    POSTED,
    TAGGED,
    AssocType,
    Key,
    user_name_key,
)
from shoal.graph.shard_map import ShardMap, ranges_of
from tests.async_runner import eventually, in_loop, run
from tests.engines import postgres
from tests.faults.proxy import Link, moved, port_of
from tests.graph.commit_process import batch_of
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, all_links, begin, broken_promises, end, id_on, moment

LONG = 3600.0
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


class Database:
    """An empty database. Another test reuses it after this one."""

    def __init__(self) -> None:
        self.url = ""

    async def made(self) -> str:
        self.url = self.url or await postgres.database(self)
        return self.url


@pytest.fixture
def database() -> Database:
    return Database()


@asynccontextmanager
async def opened(database: Database, **how: Any) -> AsyncIterator[PostgresGraph]:
    graph = await PostgresGraph.open(await database.made(), **{"patience": postgres.PATIENT_SECONDS, **how})
    try:
        yield graph
    finally:
        await graph.close()


@asynccontextmanager
async def aside(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A separate client connection."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def ann(version: int = 1, note: str = "") -> Member:
    return Member(id=ANN, version=version, name="ann", note=note)


async def emit(graph: PostgresGraph, *posts: int) -> None:
    for post in posts:
        batch = Batch(shard_of(ANN))
        batch.emit(PostCreated(post_id=post, author_id=ANN))
        await graph.commit(batch)


def posts_of(jobs: list[Job]) -> list[int]:
    return [job.event.post_id for job in jobs if isinstance(job.event, PostCreated)]


async def conflicted(graph: PostgresGraph) -> bool:
    """Return whether a commit of this process was refused because of concurrent changes, and is retried."""
    return graph.overtaken > 0


async def succeeded(commits: list[Awaitable[None]]) -> int:
    """Return the number of stored batches. Every refusal must be a conflict."""
    answers = await asyncio.gather(*commits, return_exceptions=True)
    assert [answer for answer in answers if answer is not None and not isinstance(answer, Conflict)] == []
    return answers.count(None)


# Many writers


@in_loop
async def test_postgres_concurrent_association_writes_are_counted_once(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:

        async def waver(graph: PostgresGraph, n: int) -> None:
            for step in range(15):
                await (begin if (n + step) % 2 else end)(graph, ANN, LIKES, POST_OF_BEN, moment(step), aggregate_id=BEN)

        await begin(one, ANN, LIKES, POST_OF_BEN, moment(0), aggregate_id=BEN)
        async with aside(database.url) as other, aside(database.url) as watch:
            locking = other.transaction()
            await locking.start()
            await other.execute("SELECT FROM shoal.association FOR UPDATE")
            writers = asyncio.gather(*[waver(graph, n) for n in range(4) for graph in (one, two)])
            await eventually(lambda: watch.fetchval(_WAITING), 2)
            await locking.commit()
            await writers
        assert one.overtaken + two.overtaken > 0
        await begin(one, ANN, LIKES, POST_OF_BEN, moment(99), aggregate_id=BEN)
        assert await two.assoc_count([ANN, POST_OF_BEN, BEN], [LIKES, LIKED_BY]) == {
            LIKES: {ANN: 1},
            LIKED_BY: {POST_OF_BEN: 1, BEN: 1},
        }
        assert await broken_promises(two) == []


@in_loop
async def test_postgres_concurrent_object_updates_do_not_overwrite_each_other(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        await add(one, ann())
        stored = 0

        async def edit(graph: PostgresGraph) -> None:
            nonlocal stored
            for _ in range(20):
                member = (await graph.obj_get([ANN]))[ANN]
                batch = Batch(shard_of(ANN))
                batch.obj_set(ann(member.version + 1))
                won = await succeeded([graph.commit(batch)])
                stored += won

        await asyncio.gather(*[edit(graph) for graph in (one, two, one, two)])
        assert (await two.obj_get([ANN]))[ANN].version == 1 + stored
        assert stored >= 20


@in_loop
async def test_postgres_concurrent_key_claims_have_one_winner(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        for name in "abcdefgh":
            key = Key(shard_of(ANN), "user_name", name)
            batches = [Batch(key.shard) for _ in range(6)]
            for owner, batch in enumerate(batches, 1):
                batch.key_add(key, owner)
            commits = [(one, two)[n % 2].commit(batch) for n, batch in enumerate(batches)]
            answers = await asyncio.gather(*commits, return_exceptions=True)
            winner = answers.index(None) + 1
            assert answers.count(None) == 1
            assert {answer.id for answer in answers if isinstance(answer, KeyTaken)} == {winner}
            assert await one.key_get([key]) == {key: winner}


@in_loop
async def test_postgres_concurrent_object_inserts_have_one_winner(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        for n in range(20):
            posts = [Post(id=id_on(0, n), author_id=ANN, text=str(text)) for text in range(4)]
            assert await succeeded([add((one, two)[at % 2], post) for at, post in enumerate(posts)]) == 1


@in_loop
async def test_postgres_association_to_object_being_deleted_is_refused(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other:
        await add(graph, ann())
        batch = Batch(shard_of(ANN))
        batch.expect(ANN)
        batch.assoc_add(ANN, POSTED, 1, moment(1))
        deleting = other.transaction()
        await deleting.start()
        await other.execute("DELETE FROM shoal.object WHERE id = $1", ANN)
        commit = asyncio.create_task(graph.commit(batch))
        await eventually(lambda: conflicted(graph), True)
        assert not commit.done()
        await deleting.commit()
        with pytest.raises(Missing):
            await commit
        assert await graph.assoc_count([ANN], [POSTED]) == {POSTED: {}}


@in_loop
async def test_postgres_update_of_concurrently_deleted_object_conflicts(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other, aside(database.url) as watch:
        await add(graph, ann())
        deleting = other.transaction()
        await deleting.start()
        await other.execute("DELETE FROM shoal.object WHERE id = $1", ANN)
        batch = Batch(shard_of(ANN))
        batch.obj_set(ann(2))
        commit = asyncio.create_task(graph.commit(batch))
        await eventually(lambda: watch.fetchval(_WAITING), 1)
        await deleting.commit()
        with pytest.raises(Conflict):
            await commit
        assert await graph.obj_get([ANN]) == {}


@in_loop
async def test_postgres_association_deleted_by_two_concurrent_commits_lowers_count_once(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other, aside(database.url) as watch:
        await begin(graph, ANN, POSTED, 1, moment(1))
        ending = other.transaction()
        await ending.start()
        await other.execute("UPDATE shoal.association SET alive = false, time = time + 1, revision = revision + 1")
        await other.execute("UPDATE shoal.count SET n = n - 1")
        commit = asyncio.create_task(end(graph, ANN, POSTED, 1, moment(9)))
        await eventually(lambda: watch.fetchval(_WAITING), 1)
        await ending.commit()
        await commit
        assert graph.overtaken > 0
        assert [n for _, _, n in await graph.count_scan((-(2**63), 0), 9)] == [0]


@in_loop
async def test_postgres_expired_key_claimed_concurrently_keeps_its_new_owner(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other, aside(database.url) as watch:
        key = Key(shard_of(ANN), "user_name", "ann")
        held, wanted = Batch(key.shard), Batch(key.shard)
        held.key_add(key, CYD, until=1)
        wanted.key_add(key, ANN)
        await graph.commit(held)
        taking = other.transaction()
        await taking.start()
        await other.execute("UPDATE shoal.key SET id = $1, until = 0, revision = revision + 1", BEN)
        commit = asyncio.create_task(graph.commit(wanted))
        await eventually(lambda: watch.fetchval(_WAITING), 1)
        await taking.commit()
        with pytest.raises(KeyTaken):
            await commit
        assert await graph.key_get([key]) == {key: BEN}


@in_loop
async def test_postgres_deletion_of_already_deleted_association_locks_its_row(database: Database) -> None:
    """Deleting a deleted association changes no row, but the rest of the batch depends on its state."""
    async with opened(database) as graph, aside(database.url) as other:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        batch = Batch(shard_of(ANN))
        batch.assoc_del(ANN, FOLLOWS, BEN, moment(5))
        batch.assoc_add(ANN, POSTED, 1, moment(5))
        reviving = other.transaction()
        await reviving.start()
        await other.execute(
            "UPDATE shoal.association SET alive = true, time = time + 1, revision = revision + 1 WHERE atype = ANY ($1)",
            [FOLLOWS.number, FOLLOWED_BY.number],
        )
        await other.execute("UPDATE shoal.count SET n = 1")
        commit = asyncio.create_task(graph.commit(batch))
        await eventually(lambda: conflicted(graph), True)
        await reviving.commit()
        await commit
        assert [row[2] for row in await all_links(graph) if row.alive] == [1]
        assert await broken_promises(graph) == []


@in_loop
async def test_postgres_batches_of_one_process_commit_in_order(database: Database) -> None:
    async with opened(database) as graph:
        await add(graph, ann())
        commits: list[Awaitable[None]] = []
        for version in range(2, 1500):
            batch = Batch(shard_of(ANN))
            batch.obj_set(ann(version))
            commits.append(asyncio.ensure_future(graph.commit(batch)))
            if version % 100 == 0:
                await asyncio.sleep(0.001)
        assert await succeeded(commits) == 1498
        assert graph.overtaken == 0


@in_loop
async def test_postgres_cancelled_commits_are_stored_and_do_not_affect_others(database: Database) -> None:
    async with opened(database) as graph:
        commits = [asyncio.create_task(begin(graph, ANN, POSTED, n, moment(n))) for n in range(1, 101)]
        await asyncio.sleep(0)
        for commit in commits[::2]:
            commit.cancel()
        await asyncio.gather(*commits, return_exceptions=True)
        assert [commit.cancelled() for commit in commits[:4]] == [True, False, True, False]
        assert await graph.assoc_count([ANN], [POSTED]) == {POSTED: {ANN: 100}}


@in_loop
async def test_postgres_cancelled_reads_leave_connections_usable(database: Database) -> None:
    async with opened(database) as graph:
        await add(graph, ann())
        for _ in range(40):
            reading = asyncio.create_task(graph.obj_get([ANN]))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        assert await graph.obj_get([ANN]) == {ANN: ann()}


@in_loop
async def test_postgres_commit_group_of_any_size_takes_two_round_trips(database: Database) -> None:
    async with opened(database) as graph:
        before = graph.round_trips
        await graph.commit(batch_of(id_on(0, 7), 7))
        assert graph.round_trips - before == 2
        before = graph.round_trips
        await asyncio.gather(*[graph.commit(batch_of(id_on(0, n), n)) for n in range(8, 200)])
        assert graph.round_trips - before == 2


def like(by: int = ANN, *, presumed_new: bool = True) -> Batch:
    batch = Batch(shard_of(by))
    batch.assoc_add(by, LIKES, POST_OF_BEN, moment(7), aggregate_id=BEN, must_be_new=True)
    batch.expect(POST_OF_BEN)
    batch.presumed_new = presumed_new
    return batch


@in_loop
async def test_postgres_batch_of_rows_presumed_new_takes_one_round_trip(database: Database) -> None:
    async with opened(database) as graph:

        async def cost(batch: Batch) -> int:
            before = graph.round_trips
            with contextlib.suppress(Conflict):
                await graph.commit(batch)
            return graph.round_trips - before

        post = Post(id=POST_OF_BEN, author_id=BEN)
        gone, made, again = like(), Batch(shard_of(BEN)), Batch(shard_of(BEN))
        for batch in (made, again):
            batch.obj_add(post)
            batch.assoc_add(BEN, POSTED, POST_OF_BEN, POST_OF_BEN)
            batch.key_add(Key(batch.shard, "request", "1"), POST_OF_BEN)
            batch.presumed_new = True
        assert await cost(gone) == 2, "the expected post does not exist"
        assert await cost(made) == 1
        assert await cost(again) == 2, "the insert is refused, then the read finds no change to store"
        assert await cost(like(presumed_new=False)) == 2
        with pytest.raises(AssocExists):
            await graph.commit(like())
        assert await cost(like(BEN)) == 1
        await end(graph, ANN, LIKES, POST_OF_BEN, moment(8), aggregate_id=BEN)
        assert await cost(like()) == 3, "a tombstone exists and raises the time"
        assert (await graph.assoc_get(ANN, [LIKES], [POST_OF_BEN]))[LIKES][POST_OF_BEN].time == moment(8) + 1
        assert await graph.assoc_count([POST_OF_BEN, BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 2, BEN: 2}}
        assert graph.overtaken == 0
        assert await broken_promises(graph) == []


@in_loop
async def test_postgres_commit_group_of_presumed_new_and_other_batches_keeps_counts_consistent(
    database: Database,
) -> None:
    async with opened(database) as graph:
        await add(graph, Post(id=POST_OF_BEN, author_id=BEN))
        deleted, kept = Batch(shard_of(BEN)), Batch(shard_of(CYD))
        deleted.obj_del(POST_OF_BEN)
        kept.assoc_add(CYD, FOLLOWS, ANN, moment(1))
        kept.presumed_new = True
        answers = await asyncio.gather(
            *[graph.commit(batch) for batch in (like(), deleted, like(BEN), kept)], return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [type(None), type(None), Missing, type(None)]
        assert await graph.assoc_count([POST_OF_BEN, ANN], [LIKED_BY, FOLLOWED_BY]) == {
            LIKED_BY: {POST_OF_BEN: 1},
            FOLLOWED_BY: {ANN: 1},
        }
        again = Batch(shard_of(BEN))
        again.obj_del(POST_OF_BEN)
        hung_and_gone = await asyncio.gather(graph.commit(like(CYD)), graph.commit(again), return_exceptions=True)
        assert [type(answer) for answer in hung_and_gone] == [Missing, type(None)]
        made, hung = Batch(shard_of(BEN)), Batch(shard_of(BEN))
        made.obj_add(Post(id=id_on(40, 9), author_id=BEN))
        hung.assoc_add(BEN, PINS, id_on(40, 9), moment(1))
        hung.expect(id_on(40, 9))
        made.presumed_new = hung.presumed_new = True
        await asyncio.gather(graph.commit(made), graph.commit(hung))
        assert await graph.assoc_count([BEN], [PINS]) == {PINS: {BEN: 1}}


@in_loop
async def test_postgres_concurrent_likes_presumed_new_are_stored_once(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        await add(one, Post(id=POST_OF_BEN, author_id=BEN))
        for n in range(20):
            by = id_on(n, 50)
            answers = await asyncio.gather(
                *[graph.commit(like(by)) for graph in (one, two, one, two)], return_exceptions=True
            )
            assert answers.count(None) == 1
            assert sum(isinstance(answer, AssocExists) for answer in answers) == 3
        assert await one.assoc_count([POST_OF_BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 20}}
        assert await broken_promises(two) == []


@pytest.mark.parametrize("size", [1, 40])
@in_loop
async def test_postgres_reads_of_1_or_40_ids_take_one_round_trip(database: Database, size: int) -> None:
    async with opened(database) as graph:
        ids = [id_on(0, n) for n in range(size)]
        readings: list[Callable[[], Awaitable[object]]] = [
            lambda: graph.obj_get(ids),
            lambda: graph.key_get([Key(shard_of(ANN), "user_name", str(n)) for n in ids]),
            lambda: graph.assoc_get(ANN, [FOLLOWS, LIKES], ids),
            lambda: graph.assoc_range(ANN, FOLLOWS, Cursor(limit=size)),
            lambda: graph.assoc_ranges(ids, FOLLOWS, Cursor(limit=40)),
            lambda: graph.assoc_count(ids, [FOLLOWS, LIKES]),
        ]
        for reading in readings:
            before = graph.round_trips
            await reading()
            assert graph.round_trips - before == 1


@in_loop
async def test_postgres_key_with_nul_character_is_refused_and_not_found(database: Database) -> None:
    async with opened(database) as graph:
        key = Key(shard_of(ANN), "import", "a\0b")
        batch = Batch(key.shard)
        batch.key_add(key, 1)
        with pytest.raises(InvalidInput):
            await graph.commit(batch)
        assert await graph.key_get([key]) == {}


@in_loop
async def test_postgres_invalid_batch_does_not_fail_its_commit_group(database: Database) -> None:
    async with opened(database) as graph:
        bad = Batch(shard_of(ANN))
        bad.obj_add(Member(id=ANN, name="ann", version=2**40))
        commits = [begin(graph, ANN, POSTED, 1, moment(1)), graph.commit(bad), begin(graph, ANN, POSTED, 2, moment(2))]
        first, second, third = await asyncio.gather(*commits, return_exceptions=True)
        assert (first, third) == (None, None)
        assert isinstance(second, Exception)
        assert await graph.assoc_count([ANN], [POSTED]) == {POSTED: {ANN: 2}}


# Server failures


@in_loop
async def test_postgres_stopped_server_is_unavailable_until_restart() -> None:
    server = postgres.start_own()
    graph = await PostgresGraph.open(server.url)
    try:
        await add(graph, ann())
        server.stop()
        await _refuses_everything(graph)
        server.start()
        await eventually(lambda: _answers(graph), answer=True)
        assert await graph.obj_get([ANN]) == {ANN: ann()}
        await begin(graph, ANN, POSTED, 1, moment(1))
    finally:
        await graph.close()
        server.stop()


@in_loop
async def test_postgres_unresponsive_server_is_unavailable_until_it_resumes() -> None:
    server = postgres.start_own()
    graph = await PostgresGraph.open(server.url)
    try:
        await add(graph, ann())
        server.pause()
        # Only while the server is paused, because on a busy machine it may take longer.
        with patch.object(graph._reading, "_patience", 0.3), patch.object(graph._writing, "_patience", 0.3):
            await _refuses_everything(graph)
        server.resume()
        await eventually(lambda: _answers(graph), answer=True)
        assert await graph.obj_get([ANN]) == {ANN: ann()}
    finally:
        await graph.close()
        server.kill()


async def _refuses_everything(graph: PostgresGraph) -> None:
    for _ in range(3):
        with pytest.raises(Unavailable):
            await begin(graph, ANN, POSTED, 5, moment(5))
        with pytest.raises(Unavailable):
            await graph.obj_get([ANN])
        with pytest.raises(Unavailable):
            await graph.claim(1, LONG)


async def _answers(graph: PostgresGraph) -> bool:
    try:
        await begin(graph, ANN, POSTED, 9, moment(9))
        await graph.claim(1, 0.0)
    except Unavailable:
        return False
    return True


@in_loop
async def test_postgres_connection_terminated_before_query_is_replaced(database: Database) -> None:
    prepare = asyncpg.Connection._get_statement

    async def and_end(connection: asyncpg.Connection, *args: Any, **more: Any) -> Any:
        statement = await prepare(connection, *args, **more)
        connection.terminate()
        return statement

    async with opened(database) as graph:
        await add(graph, ann())
        with patch.object(asyncpg.Connection, "_get_statement", and_end), pytest.raises(Unavailable):
            await graph.obj_get([ANN])
        assert await graph.obj_get([ANN]) == {ANN: ann()}
        # The loss of the lock connection is detected too, and the lock is acquired again.
        owner: Any = graph._owner
        with patch.object(asyncpg.Connection, "_get_statement", and_end):
            await owner._beat(owner._connection)
        await eventually(lambda: _committed(graph), True)


async def _committed(graph: PostgresGraph) -> bool:
    with contextlib.suppress(Unavailable):
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        return True
    return False


@in_loop
async def test_postgres_commit_with_lost_response_raises_outcome_unknown(database: Database) -> None:
    link = Link(port_of(await database.made()))
    graph = await PostgresGraph.open(moved(database.url, link.at))
    try:
        async with opened(database) as other:
            await add(graph, ann())
            # The commit reaches the server, and its response is withheld.
            link.hold_back_at(b"stored")
            committing = asyncio.create_task(set_note(graph, "stored"))
            await eventually(lambda: note_of(other), "stored")
            link.cut()
            with pytest.raises(OutcomeUnknown, match="may or may not have been stored"):
                await committing
            # No query is sent while the server is unreachable.
            with pytest.raises(Unavailable) as refused:
                await set_note(graph, "never")
            assert not isinstance(refused.value, OutcomeUnknown)
            assert await note_of(other) == "stored"
    finally:
        await graph.close()
        link.close()


async def set_note(graph: PostgresGraph, note: str) -> None:
    batch = Batch(shard_of(ANN))
    batch.obj_set(ann(2, note))
    await graph.commit(batch)


async def note_of(graph: PostgresGraph) -> str:
    node = (await graph.obj_get([ANN]))[ANN]
    assert isinstance(node, Member)
    return node.note


@in_loop
async def test_postgres_commit_on_terminated_connection_raises_outcome_unknown(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other, aside(database.url) as watch:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        holding = other.transaction()
        await holding.start()
        await other.execute("SELECT FROM shoal.association FOR UPDATE")
        commit = asyncio.create_task(end(graph, ANN, FOLLOWS, BEN, moment(2)))
        await eventually(lambda: watch.fetchval(_WAITING), 1)
        await watch.execute(_WAITING.replace("count(*)", "pg_terminate_backend(pid)"))
        # The server reports a reason, but not whether the transaction was committed.
        with pytest.raises(OutcomeUnknown):
            await commit
        await holding.rollback()
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        assert await graph.assoc_count([ANN], [FOLLOWS]) == {FOLLOWS: {}}


def test_postgres_acknowledged_commits_survive_kill_9_of_server_and_client() -> None:
    server = postgres.start_own()
    done: list[int] = []
    for round_ in range(2):
        command = [sys.executable, "-m", "tests.graph.commit_process_postgres", server.url, str(round_)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                done.append(int(line))
                if len(done) == 300 * (round_ + 1):
                    if round_:
                        server.kill()
                    child.kill()
    server.start()
    run(_all_there(server.url, done))
    server.stop()


async def _all_there(url: str, posts: list[int]) -> None:
    assert len(posts) >= 600
    graph = await PostgresGraph.open(url)
    try:
        listed = {entry.id2 for entry in await graph.assoc_range(ANN, POSTED, Cursor(limit=100_000))}
        keys = [Key(shard_of(ANN), "import", str(post)) for post in posts]
        assert set(posts) <= listed
        assert set(posts) <= set(await graph.obj_get(posts))
        assert set(await graph.key_get(keys)) == set(keys)
        assert await broken_promises(graph) == []
        assert await graph.backlog() == len(listed)
    finally:
        await graph.close()


# Claims


@in_loop
async def test_outbox_claims_of_two_processes_do_not_overlap(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        await asyncio.gather(*[emit(one, n) for n in range(400)])

        async def work(graph: PostgresGraph) -> list[int]:
            given: list[int] = []
            while jobs := await graph.claim(7, LONG):
                given += posts_of(jobs)
            return given

        shares = await asyncio.gather(work(one), work(two), work(one), work(two))
        assert sorted(post for share in shares for post in share) == list(range(400))


@in_loop
async def test_outbox_expired_lease_counts_as_attempt_and_put_back_does_not(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        await emit(one, 1)
        for attempt in range(3):
            (job,) = await (one, two)[attempt % 2].claim(1, 0.01)
            assert job.attempt == attempt
            await asyncio.sleep(0.02)
        (job,) = await one.claim(1, LONG)
        await one.put_back(job._replace(mark=4))
        (again,) = await one.claim(1, LONG)
        assert again == job._replace(mark=4)


@in_loop
async def test_outbox_job_put_back_by_previous_lease_holder_stays_with_current_holder(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        await emit(one, 1)
        (late,) = await one.claim(1, 0.01)
        await asyncio.sleep(0.02)
        (job,) = await two.claim(1, LONG)
        await one.put_back(late._replace(mark=3))
        assert await one.claim(1, LONG) == []
        await two.put_back(job._replace(mark=7))
        await two.backlog()
        (again,) = await one.claim(1, LONG)
        assert (again.mark, again.attempt) == (7, 1)


@in_loop
async def test_outbox_jobs_of_closed_store_are_released_to_others(database: Database) -> None:
    async with opened(database) as other:
        async with opened(database) as one:
            await emit(one, 1, 2, 3)
            jobs = await one.claim(3, LONG)
            await one.ack(jobs[:1])
            await one.put_back(jobs[1]._replace(step=2), LONG)
            assert await other.claim(3, LONG) == []
        assert [(job.step, job.attempt) for job in await other.claim(3, LONG)] == [(2, 0), (0, 0)]


@in_loop
async def test_outbox_claim_with_lost_response_is_released_for_retry(
    database: Database,
) -> None:
    link = Link(port_of(await database.made()))
    graph = await PostgresGraph.open(moved(database.url, link.at))
    try:
        async with opened(database) as other, aside(database.url) as watch:
            await emit(other, 1, 2, 3, 4)
            working, back, theirs = [await by.claim(1, LONG) for by in (graph, graph, other)]
            claiming = asyncio.create_task(graph.claim(9, LONG))
            # The query reaches the server, and the response is delayed.
            link.hold_back(LONG)
            await eventually(lambda: watch.fetchval("SELECT count(*) FROM shoal.outbox WHERE leased"), 4)
            link.cut()
            with pytest.raises(Unavailable):
                await claiming
            await graph.put_back(back[0]._replace(mark=5), LONG)
            link.heal()
            await eventually(partial(_claimed, graph), [4])
            assert await graph.claim(9, LONG) == []
            await graph.ack(working)
            await eventually(graph.backlog, 3)
            assert posts_of(theirs) == [3]
            assert await watch.fetchval("SELECT mark FROM shoal.outbox WHERE seq = $1", back[0].seq) == 5
    finally:
        await graph.close()
        link.close()


async def _claimed(graph: PostgresGraph) -> list[int]:
    try:
        return posts_of(await graph.claim(9, LONG))
    except Unavailable:
        # The connection is reopened after a short delay.
        return []


@in_loop
async def test_outbox_pending_inverse_returned_by_commit_is_not_claimed_by_others(database: Database) -> None:
    def owns(shard: int) -> bool:
        return shard == shard_of(ANN)

    graph = await PostgresGraph.open(await database.made(), owns=owns)
    try:
        batch = Batch(shard_of(ANN))
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(1))
        batch.emit(PostCreated(post_id=1, author_id=ANN))
        ((job, op),) = await graph.commit_owing(batch)
        assert job.event == InversePending(op=op)
        assert posts_of(await graph.claim(9, LONG)) == [1]
        assert await graph.backlog() == 2
        await graph.ack([job])
        await eventually(graph.backlog, 1)
        # A pending inverse that `commit_owing` did not return is available to claim.
        await begin(graph, ANN, FOLLOWS, CYD, moment(2))
        assert [type(job.event) for job in await graph.claim(9, LONG)] == [InversePending]
    finally:
        await graph.close()


# Store lock


async def in_use(url: str, *, sole: bool) -> bool:
    """Return whether opening is refused because another process holds the store; on a busy machine it may time out instead."""
    with pytest.raises(Unavailable) as refused:
        await PostgresGraph.open(url, sole=sole, patience=0.3)
    return "in use by another process" in str(refused.value)


@in_loop
async def test_postgres_store_opened_exclusively_refuses_other_writers(database: Database) -> None:
    async with opened(database, sole=True) as graph:
        for sole in (True, False):
            await eventually(partial(in_use, database.url, sole=sole), True)
        async with opened(database, read_only=True) as reader:
            await add(graph, ann())
            assert await reader.obj_get([ANN]) == {ANN: ann()}
    async with opened(database), opened(database):
        await eventually(partial(in_use, database.url, sole=True), True)
    async with opened(database, sole=True) as graph:
        await begin(graph, ANN, POSTED, 1, moment(1))


_DROP = """
    SELECT pg_terminate_backend(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


@in_loop
async def test_postgres_lost_store_lock_is_reacquired(database: Database) -> None:
    async with opened(database, sole=True) as graph, aside(database.url) as other:
        await other.execute(_DROP)
        await eventually(lambda: _answers(graph), answer=True)
        await eventually(partial(in_use, database.url, sole=False), True)


@in_loop
async def test_postgres_exclusive_store_stays_unavailable_after_another_process_owned_it(database: Database) -> None:
    async with opened(database, sole=True) as graph, aside(database.url) as other:
        # Another process acquires the lock before this one notices the loss.
        await other.execute("UPDATE shoal.owner SET id = 0")
        with pytest.raises(Unavailable, match="restart this process"):
            await begin(graph, ANN, POSTED, 1, moment(1))
        await other.execute(_DROP)
        await asyncio.sleep(0.5)
        assert await _answers(graph) is False
        async with opened(database) as next_one:
            assert await next_one.assoc_count([ANN], [POSTED]) == {POSTED: {}}


# Schema


@in_loop
async def test_postgres_concurrent_migrations_create_tables_once() -> None:
    server = postgres.start_own()
    graphs = await asyncio.gather(*[PostgresGraph.open(server.url) for _ in range(4)])
    await add(graphs[0], ann())
    assert await graphs[3].obj_get([ANN]) == {ANN: ann()}
    await asyncio.gather(*[graph.close() for graph in graphs])
    server.stop()


@in_loop
async def test_postgres_foreign_shoal_schema_is_refused_and_unchanged(database: Database) -> None:
    async with aside(await database.made()) as other:
        await other.execute("DROP SCHEMA IF EXISTS shoal CASCADE; CREATE SCHEMA shoal; CREATE TABLE shoal.fish ()")
        with pytest.raises(Unavailable, match="not Shoal's"):
            await PostgresGraph.open(database.url)
        with pytest.raises(Unavailable, match="schema version 0"):
            await PostgresGraph.open(database.url, read_only=True)
        assert await other.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'shoal'") == 1
        await other.execute("DROP SCHEMA shoal CASCADE")


@in_loop
async def test_postgres_schema_of_newer_version_is_refused(database: Database) -> None:
    newer = len(postgres_schema.MIGRATIONS) + 1
    async with opened(database), aside(database.url) as other:
        await other.execute("INSERT INTO shoal.version VALUES ($1)", newer)
        try:
            with pytest.raises(Unavailable, match=f"schema version {newer}"):
                await PostgresGraph.open(database.url)
        finally:
            await other.execute("DELETE FROM shoal.version WHERE applied = $1", newer)


@in_loop
async def test_postgres_read_only_store_refuses_writes(database: Database) -> None:
    async with opened(database) as graph:
        await add(graph, ann())
        async with opened(database, read_only=True) as reader:
            assert await reader.obj_get([ANN]) == {ANN: ann()}
            for write in (begin(reader, ANN, POSTED, 1, moment(1)), reader.claim(1, LONG), reader.sweep(1, 1)):
                with pytest.raises(ShoalError, match="read-only"):
                    await write


@in_loop
async def test_postgres_missing_database_or_server_is_unavailable(database: Database) -> None:
    url = await database.made()
    for wrong in (f"{url}_not", "postgresql://127.0.0.1:1/postgres"):
        with pytest.raises(Unavailable):
            await PostgresGraph.open(wrong)


@in_loop
async def test_postgres_closed_store_is_unavailable(database: Database) -> None:
    async with opened(database) as graph:
        pass
    for question in (graph.obj_get([ANN]), begin(graph, ANN, POSTED, 1, moment(1)), graph.claim(1, LONG)):
        with pytest.raises(Unavailable):
            await question
    gc.collect()


@in_loop
async def test_postgres_queries_do_not_scan_whole_tables(database: Database) -> None:
    """Plans made for empty tables are still used when the tables have rows."""
    async with opened(database) as graph, aside(database.url) as other:
        await asyncio.gather(*[graph.commit(batch_of(id_on(0, n), n)) for n in range(5, 300)])
        before = await other.fetch("SELECT relname, seq_scan FROM pg_stat_user_tables ORDER BY relname")
        await asyncio.gather(*[graph.commit(batch_of(id_on(0, n), n)) for n in range(300, 600)])
        await graph.assoc_ranges([ANN, BEN], FOLLOWS, Cursor(limit=5))
        await graph.assoc_get(ANN, [FOLLOWS], [BEN])
        await graph.ack(await graph.claim(100, LONG))
        await other.execute("SELECT pg_stat_force_next_flush()")
        await graph.lag()
        after = await other.fetch("SELECT relname, seq_scan FROM pg_stat_user_tables ORDER BY relname")
        small = {"moving", "owner", "version"}
        assert [row for row in after if row["relname"] not in small] == [
            row for row in before if row["relname"] not in small
        ]


@in_loop
async def test_postgres_lists_from_schema_without_position_blocks_are_read_by_position(database: Database) -> None:
    async with aside(await database.made()) as other:
        await other.execute("DROP SCHEMA IF EXISTS shoal CASCADE")
        await migrate(other, GRAPH._replace(migrations=GRAPH.migrations[:2]))
        await other.execute(
            "INSERT INTO shoal.association SELECT $1::bigint, n, n, 1, $2::smallint, true, '' FROM generate_series(1, 3000) AS n",
            ANN,
            POSTED.number,
        )
        await other.execute("INSERT INTO shoal.count VALUES ($1, 3000, $2)", ANN, POSTED.number)
        async with opened(database) as graph:
            assert await graph.assoc_ranks([ANN], POSTED, [0, 500, 2_999]) == {ANN: [3_000, 2_500, 1]}
            assert await broken_promises(graph) == []
        assert await other.fetchval("SELECT count(*) FROM shoal.block") == 46


@in_loop
async def test_postgres_data_source_moves_stored_by_older_schema_are_read_as_shard_moves(
    database: Database,
) -> None:
    async with aside(await database.made()) as other:
        await other.execute("DROP SCHEMA IF EXISTS shoal CASCADE")
        await migrate(other, GRAPH._replace(migrations=GRAPH.migrations[:6]))
        key = user_name_key("ann")
        old = {"stores": ["a", "b"], "owners": [*[1] * 63, 0], "moved": {"1": 0}, "left": {}}
        await other.execute("INSERT INTO shoal.shard_map VALUES (4, $1)", json.dumps(old))
        await other.execute(
            "INSERT INTO shoal.key (space, name, id, until, revision, source) VALUES ('user_name', 'ann', 7, 0, 1, 3)"
        )
        await other.executemany(
            "INSERT INTO shoal.moving (source, state, mover, peer) VALUES ($1, $2, 1, $3)",
            [(0, "away", "a"), (1, "copying", "b")],
        )
        await other.executemany(
            "INSERT INTO shoal.journal (source, kind, a, space, name) VALUES ($1, $2, $3, $4, $5)",
            [(1, "object", id_on(1), None, None), (3, "key", None, *key[1:]), (5, "key", None, "import", "deleted")],
        )
        async with opened(database):
            rows = await other.fetch(
                "SELECT state, array_agg(shard ORDER BY shard) FROM shoal.moving GROUP BY 1 ORDER BY 1"
            )
            assert [tuple(row) for row in rows] == [("away", list(range(128))), ("copying", list(range(128, 256)))]
            journal = await other.fetch("SELECT shard FROM shoal.journal ORDER BY seq")
            assert [shard for (shard,) in journal] == [shard_of(id_on(1)), key.shard, 5 * 128]
            ((version, stored),) = await other.fetch(moves_sql.LAST_MAP)
            known = ShardMap.from_plain(version, json.loads(stored))
            assert (list(map(ranges_of, known.by_store())), ranges_of(known.moved)) == (["63", "0-62"], "1")
        await other.execute("DROP SCHEMA shoal CASCADE")


@in_loop
async def test_postgres_list_position_blocks_are_built_after_concurrent_commits_end(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other, aside(database.url) as watch:
        batch = Batch(shard_of(ANN))
        for number in range(1_000, 1_090):
            batch.assoc_add(ANN, POSTED, number, number)
        await graph.commit(batch)
        holding = other.transaction()
        await holding.start()
        await other.execute("INSERT INTO shoal.association VALUES ($1, 500, 500, 1, $2, true, '')", ANN, POSTED.number)
        with patch.multiple(ranks, BLOCK=3, FAN=2, OPEN=6, AT_ONCE=12):
            reading = asyncio.create_task(graph.assoc_ranks([ANN], POSTED, [0, 1_049]))
            await eventually(lambda: watch.fetchval(_WAITING), 1)
            await other.execute("UPDATE shoal.count SET n = n + 1 WHERE id1 = $1", ANN)
            await holding.commit()
            assert await reading == {ANN: [91, 40]}
        assert await broken_promises(graph) == []


# Moving


async def mark(other: asyncpg.Connection, shard: int, state: str | None) -> None:
    """Mark a shard as a mover does, or as not moving."""
    async with other.transaction():
        await other.execute(moves_sql.MOVING_LOCK)
        await other.execute(moves_sql.UNMARK, [shard])
        if state is not None:
            await other.execute(moves_sql.MARK, [shard], state, None, 1, "another store")


@in_loop
async def test_shard_move_journals_writes_while_copying(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other:
        await mark(other, shard_of(BEN), "copying")
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await graph.count_set(BEN, LIKED_BY.number, 2)
        batch = Batch(shard_of(BEN))
        batch.obj_add(Member(id=BEN, name="ben"))
        batch.key_add(Key(shard_of(BEN), "user_name", "ben"), BEN)
        batch.key_add(Key(shard_of(ANN), "user_name", "ann"), ANN)
        await graph.commit(batch)
        names = await other.fetch("SELECT kind, a, b, c, space, name FROM shoal.journal ORDER BY seq")
        assert sorted(map(tuple, names), key=repr) == [
            ("association", BEN, FOLLOWED_BY.number, ANN, None, None),
            ("count", BEN, FOLLOWED_BY.number, None, None, None),
            ("count", BEN, LIKED_BY.number, None, None, None),
            ("key", None, None, None, "user_name", "ben"),
            ("object", BEN, None, None, None, None),
        ]
        await mark(other, shard_of(BEN), None)
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        assert await other.fetchval("SELECT count(*) FROM shoal.journal") == 5


@in_loop
async def test_postgres_shard_of_key_computed_in_sql_equals_shard_computed_in_python(database: Database) -> None:
    spaces = [*NAMED_BY_PLACE, "idempotency", "import", "user_name "]
    names = ["ann", "ann@example.com", "straße@例え.jp", "", *(f"m{n}" for n in range(300))]
    rows = [KeyRow(space, name, id_on(n % 64, n, n % 128), 0) for n, name in enumerate(names) for space in spaces]
    async with opened(database), aside(database.url) as other:
        found = await other.fetch(
            "SELECT shoal.key_shard(space, name, id) FROM unnest($1::text[], $2::text[], $3::bigint[]) AS w (space, name, id)",
            *map(list, zip(*(row[:3] for row in rows), strict=True)),
        )
    assert [shard for (shard,) in found] == [row.shard for row in rows]


@in_loop
async def test_shard_move_frozen_shard_refuses_writes_to_that_shard_only(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other:
        await begin(graph, BEN, POSTED, 1, moment(1))
        await mark(other, shard_of(BEN), "frozen")
        commits = [begin(graph, id_on(source), POSTED, 2, moment(2)) for source in range(38, 43)]
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None), type(None), Frozen, type(None), type(None)]
        with pytest.raises(Frozen):
            await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        with pytest.raises(Unavailable):
            await graph.count_set(BEN, POSTED.number, 5)
        assert await graph.assoc_range(BEN, POSTED, Cursor(limit=5)) == [Assoc(1, moment(1), b"")]
        await mark(other, shard_of(BEN), None)
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        assert await broken_promises(graph) == []


@in_loop
async def test_shard_move_freeze_waits_for_commits_in_progress(database: Database) -> None:
    async with (
        opened(database) as graph,
        aside(database.url) as other,
        aside(database.url) as mover,
        aside(database.url) as watch,
    ):
        await begin(graph, BEN, POSTED, 1, moment(1))
        holding = other.transaction()
        await holding.start()
        await other.execute("SELECT FROM shoal.count FOR UPDATE")
        commit = asyncio.create_task(begin(graph, BEN, POSTED, 2, moment(2)))
        await eventually(lambda: watch.fetchval(_WAITING), 1)
        freezing = asyncio.create_task(mark(mover, shard_of(BEN), "frozen"))
        await eventually(lambda: watch.fetchval(_WAITING), 2)
        late = asyncio.create_task(begin(graph, BEN, POSTED, 3, moment(3)))
        await eventually(lambda: watch.fetchval(_WAITING), 3)
        await holding.rollback()
        await commit
        await freezing
        with pytest.raises(Frozen):
            await late
        assert await graph.assoc_count([BEN], [POSTED]) == {POSTED: {BEN: 2}}


@in_loop
async def test_postgres_sweep_skips_permanent_tombstones(database: Database) -> None:
    async with opened(database) as graph:
        for n in range(1, 9):
            await begin(graph, ANN, TAGGED, -n, moment(1))
            await end(graph, ANN, TAGGED, -n, moment(2))
        assert await graph.sweep(MAX_TIME, 0) == 0
    async with aside(database.url) as other:
        await other.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in await other.fetch(f"EXPLAIN ANALYZE {sql.ASSOC_SWEEP}", 0, MAX_TIME, 10))
    assert "association_sweepable" in plan
    assert "Rows Removed" not in plan


_PLAN = """
    PREPARE list (bigint, smallint, bigint, bigint, bigint) AS {};
    PREPARE lists (bigint[], smallint, bigint, bigint, bigint) AS {}"""


@pytest.mark.parametrize("atype", [FOLLOWS, PINS])
@in_loop
async def test_postgres_list_with_covering_index_is_read_from_its_index_alone(
    database: Database, atype: AssocType
) -> None:
    async with opened(database) as graph:
        for n in range(1, 30):
            await begin(graph, ANN, atype, n, moment(n))
    async with aside(database.url) as other:
        await other.execute("VACUUM ANALYZE shoal.association")
        await other.execute("".join(f"SET {name} = '{value}';" for name, value in SESSION_SETTINGS.items()))
        one, many = (statements[atype.covered, False] for statements in (sql.ASSOC_RANGE, sql.ASSOC_RANGES))
        await other.execute(_PLAN.format(one, many))
        for asked in (f"list({ANN}", f"lists('{{{ANN}}}'"):
            rows = await other.fetch(f"EXPLAIN ANALYZE EXECUTE {asked}, {atype.number}, {MAX_TIME}, 0, 20)")
            plan = "\n".join(row[0] for row in rows)
            assert ("Index Only Scan Backward using association_listed" in plan) == atype.covered, plan
            assert ("Heap Fetches: 0" in plan) == atype.covered, plan
            assert "Sort" not in plan


@in_loop
async def test_postgres_covering_index_stores_longest_association_data(database: Database) -> None:
    data = random.Random(3).randbytes(2_000)
    async with opened(database) as graph:
        batch = Batch(shard_of(ANN))
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(1), data)
        await graph.commit(batch)
        assert await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=2)) == [Assoc(BEN, moment(1), data)]
