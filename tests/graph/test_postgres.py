"""Particulars of the store in PostgreSQL: many writers, a server that may go away, claims, moving."""

from __future__ import annotations

import asyncio
import contextlib
import gc
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
from shoal.graph.contract import MAX_TIME, Assoc, Batch, Cursor, Frozen, Job, KeyTaken, Missing, Standing
from shoal.graph.postgres import PostgresGraph, moves_sql, ranks, sql
from shoal.graph.postgres import schema as postgres_schema
from shoal.graph.postgres.migrations import GRAPH, migrate
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, LIKES, PINS, POSTED, TAGGED, Key
from tests.engines import postgres
from tests.faults.proxy import Link, moved, port_of
from tests.graph.committing import batch_of
from tests.running import eventually, in_loop, run
from tests.stores import ANN, BEN, CYD, POST_OF_BEN, add, all_links, begin, broken_promises, end, id_on, moment

LONG = 3600.0
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


class Database:
    """An empty database; it goes to another test when this one is over."""

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
    """A connection of somebody else's."""
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


async def succeeded(commits: list[Awaitable[None]]) -> int:
    """How many were stored; a refusal must be a conflict."""
    answers = await asyncio.gather(*commits, return_exceptions=True)
    assert [answer for answer in answers if answer is not None and not isinstance(answer, Conflict)] == []
    return answers.count(None)


# Many writers


@in_loop
async def test_writers_that_race_for_the_same_association_count_it_once(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:

        async def waver(graph: PostgresGraph, n: int) -> None:
            for step in range(15):
                await (begin if (n + step) % 2 else end)(graph, ANN, LIKES, POST_OF_BEN, moment(step), aggregate_id=BEN)

        await asyncio.gather(*[waver(graph, n) for n in range(4) for graph in (one, two)])
        assert one.overtaken + two.overtaken > 0, "the writers never met"
        await begin(one, ANN, LIKES, POST_OF_BEN, moment(99), aggregate_id=BEN)
        assert await two.assoc_count([ANN, POST_OF_BEN, BEN], [LIKES, LIKED_BY]) == {
            LIKES: {ANN: 1},
            LIKED_BY: {POST_OF_BEN: 1, BEN: 1},
        }
        assert await broken_promises(two) == []


@in_loop
async def test_writers_that_race_for_the_same_version_do_not_overwrite_each_other(database: Database) -> None:
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
async def test_of_writers_that_race_for_the_same_name_one_has_it(database: Database) -> None:
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
async def test_of_writers_that_race_for_the_same_new_object_one_makes_it(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        for n in range(20):
            posts = [Post(id=id_on(0, n), author_id=ANN, text=str(text)) for text in range(4)]
            assert await succeeded([add((one, two)[at % 2], post) for at, post in enumerate(posts)]) == 1


@in_loop
async def test_nothing_can_be_hung_on_an_object_that_is_being_deleted(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other:
        await add(graph, ann())
        batch = Batch(shard_of(ANN))
        batch.expect(ANN)
        batch.assoc_add(ANN, POSTED, 1, moment(1))
        deleting = other.transaction()
        await deleting.start()
        await other.execute("DELETE FROM shoal.object WHERE id = $1", ANN)
        commit = asyncio.create_task(graph.commit(batch))
        await asyncio.sleep(0.05)
        assert not commit.done()
        await deleting.commit()
        with pytest.raises(Missing):
            await commit
        assert graph.overtaken > 0
        assert await graph.assoc_count([ANN], [POSTED]) == {POSTED: {}}


@in_loop
async def test_an_object_that_is_deleted_by_another_does_not_come_back_by_being_set(database: Database) -> None:
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
async def test_what_another_did_while_a_commit_was_under_way_is_not_done_twice(database: Database) -> None:
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
async def test_an_expired_key_that_another_takes_meanwhile_is_theirs(database: Database) -> None:
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
async def test_what_was_only_looked_at_is_locked_too(database: Database) -> None:
    """Ending what has ended changes nothing, but the rest of the batch relies on it."""
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
        await asyncio.sleep(0.05)
        await reviving.commit()
        await commit
        assert [row[2] for row in await all_links(graph) if row.alive] == [1]
        assert await broken_promises(graph) == []


@in_loop
async def test_batches_of_one_process_see_each_other_in_order_though_groups_go_side_by_side(database: Database) -> None:
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
async def test_callers_that_go_away_stop_neither_their_batch_nor_their_neighbours(database: Database) -> None:
    async with opened(database) as graph:
        commits = [asyncio.create_task(begin(graph, ANN, POSTED, n, moment(n))) for n in range(1, 101)]
        await asyncio.sleep(0)
        for commit in commits[::2]:
            commit.cancel()
        await asyncio.gather(*commits, return_exceptions=True)
        assert [commit.cancelled() for commit in commits[:4]] == [True, False, True, False]
        assert await graph.assoc_count([ANN], [POSTED]) == {POSTED: {ANN: 100}}


@in_loop
async def test_a_reader_that_goes_away_leaves_its_connection_in_order(database: Database) -> None:
    async with opened(database) as graph:
        await add(graph, ann())
        for _ in range(40):
            reading = asyncio.create_task(graph.obj_get([ANN]))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        assert await graph.obj_get([ANN]) == {ANN: ann()}


@in_loop
async def test_a_commit_costs_two_round_trips_however_much_goes_with_it(database: Database) -> None:
    async with opened(database) as graph:
        before = graph.round_trips
        await graph.commit(batch_of(id_on(0, 7), 7))
        assert graph.round_trips - before == 2
        before = graph.round_trips
        await asyncio.gather(*[graph.commit(batch_of(id_on(0, n), n)) for n in range(8, 200)])
        assert graph.round_trips - before == 2


def like(by: int = ANN, *, presumed_new: bool = True) -> Batch:
    batch = Batch(shard_of(by))
    batch.assoc_add(by, LIKES, POST_OF_BEN, moment(7), aggregate_id=BEN, anew=True)
    batch.expect(POST_OF_BEN)
    batch.presumed_new = presumed_new
    return batch


@in_loop
async def test_what_is_new_as_presumed_costs_one_round_trip_and_what_is_not_is_looked_at(database: Database) -> None:
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
        assert await cost(gone) == 2, "the post that is expected is not there"
        assert await cost(made) == 1
        assert await cost(again) == 2, "refused, then looked at: there is nothing to store"
        assert await cost(like(presumed_new=False)) == 2
        with pytest.raises(Standing):
            await graph.commit(like())
        assert await cost(like(BEN)) == 1
        await end(graph, ANN, LIKES, POST_OF_BEN, moment(8), aggregate_id=BEN)
        assert await cost(like()) == 3, "a tombstone is there, which lifts the time"
        assert (await graph.assoc_get(ANN, [LIKES], [POST_OF_BEN]))[LIKES][POST_OF_BEN].time == moment(8) + 1
        assert await graph.assoc_count([POST_OF_BEN, BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 2, BEN: 2}}
        assert graph.overtaken == 0
        assert await broken_promises(graph) == []


@in_loop
async def test_batches_that_go_together_are_right_whichever_of_them_are_new(database: Database) -> None:
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
async def test_of_writers_that_presume_the_same_to_be_new_one_makes_it(database: Database) -> None:
    async with opened(database) as one, opened(database) as two:
        await add(one, Post(id=POST_OF_BEN, author_id=BEN))
        for n in range(20):
            by = id_on(n, 50)
            answers = await asyncio.gather(
                *[graph.commit(like(by)) for graph in (one, two, one, two)], return_exceptions=True
            )
            assert answers.count(None) == 1
            assert sum(isinstance(answer, Standing) for answer in answers) == 3
        assert await one.assoc_count([POST_OF_BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 20}}
        assert await broken_promises(two) == []


@pytest.mark.parametrize("size", [1, 40])
@in_loop
async def test_every_reading_costs_one_round_trip_for_1_or_40(database: Database, size: int) -> None:
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
async def test_a_name_that_the_database_cannot_hold_is_refused_and_known_to_nobody(database: Database) -> None:
    async with opened(database) as graph:
        key = Key(shard_of(ANN), "import", "a\0b")
        batch = Batch(key.shard)
        batch.key_add(key, 1)
        with pytest.raises(InvalidInput):
            await graph.commit(batch)
        assert await graph.key_get([key]) == {}


@in_loop
async def test_a_batch_that_the_database_cannot_store_is_refused_alone(database: Database) -> None:
    async with opened(database) as graph:
        bad = Batch(shard_of(ANN))
        bad.obj_add(Member(id=ANN, name="ann", version=2**40))
        commits = [begin(graph, ANN, POSTED, 1, moment(1)), graph.commit(bad), begin(graph, ANN, POSTED, 2, moment(2))]
        first, second, third = await asyncio.gather(*commits, return_exceptions=True)
        assert (first, third) == (None, None)
        assert isinstance(second, Exception)
        assert await graph.assoc_count([ANN], [POSTED]) == {POSTED: {ANN: 2}}


# A server that goes away


@in_loop
async def test_a_server_that_stops_is_unavailable_and_found_again_when_it_is_back() -> None:
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
async def test_a_server_that_keeps_silent_is_unavailable_and_used_again_when_it_speaks() -> None:
    server = postgres.start_own()
    graph = await PostgresGraph.open(server.url, patience=0.3)
    try:
        await add(graph, ann())
        server.pause()
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
async def test_a_connection_that_ends_between_preparing_and_sending_is_lost_and_replaced(database: Database) -> None:
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
        # The lock's own connection, too, is found lost, and the lock taken again.
        owner: Any = graph._owner
        with patch.object(asyncpg.Connection, "_get_statement", and_end):
            await owner._beat(owner._connection)
        await eventually(lambda: _committed(graph), True, 60)


async def _committed(graph: PostgresGraph) -> bool:
    with contextlib.suppress(Unavailable):
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        return True
    return False


@in_loop
async def test_a_commit_that_was_stored_and_whose_answer_is_lost_is_no_refusal(database: Database) -> None:
    link = Link(port_of(await database.made()))
    graph = await PostgresGraph.open(moved(database.url, link.at))
    try:
        async with opened(database) as other:
            await add(graph, ann())
            committing = asyncio.create_task(set_note(graph, "stored"))
            # The question goes through, and the answers are held back.
            link.hold_back(1.0)
            await eventually(lambda: note_of(other), "stored")
            link.cut()
            with pytest.raises(OutcomeUnknown, match="may have been stored"):
                await committing
            # Nothing is sent where nobody listens.
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
async def test_a_commit_whose_connection_is_lost_half_way_is_not_reported_as_done(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other, aside(database.url) as watch:
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        holding = other.transaction()
        await holding.start()
        await other.execute("SELECT FROM shoal.association FOR UPDATE")
        commit = asyncio.create_task(end(graph, ANN, FOLLOWS, BEN, moment(2)))
        await eventually(lambda: watch.fetchval(_WAITING), 1)
        await watch.execute(_WAITING.replace("count(*)", "pg_terminate_backend(pid)"))
        # The server says why, but not whether it had committed before.
        with pytest.raises(OutcomeUnknown):
            await commit
        await holding.rollback()
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        assert await graph.assoc_count([ANN], [FOLLOWS]) == {FOLLOWS: {}}


def test_every_commit_that_was_answered_survives_kill_9_of_server_and_client() -> None:
    server = postgres.start_own()
    done: list[int] = []
    for round_ in range(2):
        command = [sys.executable, "-m", "tests.graph.committing_postgres", server.url, str(round_)]
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
async def test_claims_of_two_openers_never_overlap_and_leave_nothing(database: Database) -> None:
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
async def test_a_lease_that_ended_counts_as_an_attempt_and_putting_back_does_not(database: Database) -> None:
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
async def test_whoever_took_a_job_over_is_not_disturbed_by_the_one_before(database: Database) -> None:
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
async def test_what_an_opener_holds_is_given_to_others_when_it_closes(database: Database) -> None:
    async with opened(database) as other:
        async with opened(database) as one:
            await emit(one, 1, 2, 3)
            jobs = await one.claim(3, LONG)
            await one.ack(jobs[:1])
            await one.put_back(jobs[1]._replace(step=2), LONG)
            assert await other.claim(3, LONG) == []
        assert [(job.step, job.attempt) for job in await other.claim(3, LONG)] == [(2, 0), (0, 0)]


@in_loop
async def test_a_claim_whose_answer_is_lost_is_made_again_at_once_and_leaves_the_others_alone(
    database: Database,
) -> None:
    link = Link(port_of(await database.made()))
    graph = await PostgresGraph.open(moved(database.url, link.at))
    try:
        async with opened(database) as other, aside(database.url) as watch:
            await emit(other, 1, 2, 3, 4)
            working, back, theirs = [await by.claim(1, LONG) for by in (graph, graph, other)]
            claiming = asyncio.create_task(graph.claim(9, LONG))
            # The question goes through, and the answer is held back.
            link.hold_back(1.0)
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
        # The connection is opened anew after a moment.
        return []


@in_loop
async def test_an_inverse_that_is_owed_waits_for_whoever_committed_to_settle_it(database: Database) -> None:
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
        # Nobody settles what was not handed out.
        await begin(graph, ANN, FOLLOWS, CYD, moment(2))
        assert [type(job.event) for job in await graph.claim(9, LONG)] == [InversePending]
    finally:
        await graph.close()


# Who has it open


async def in_use(url: str, *, sole: bool) -> bool:
    """Whether the store is refused because others have it; on a busy machine it may not even be reached in so short a time."""
    with pytest.raises(Unavailable) as refused:
        await PostgresGraph.open(url, sole=sole, patience=0.3)
    return "in use by another process" in str(refused.value)


@in_loop
async def test_a_store_that_somebody_wants_alone_is_opened_by_nobody_else(database: Database) -> None:
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
async def test_a_lock_that_is_lost_is_taken_again(database: Database) -> None:
    async with opened(database, sole=True) as graph, aside(database.url) as other:
        await other.execute(_DROP)
        await eventually(lambda: _answers(graph), answer=True)
        with pytest.raises(Unavailable, match="in use by another process"):
            await PostgresGraph.open(database.url, patience=0.3)


@in_loop
async def test_whoever_was_alone_stays_out_when_others_have_been_there_meanwhile(database: Database) -> None:
    async with opened(database, sole=True) as graph, aside(database.url) as other:
        # The lock goes to another before its loss is noticed.
        await other.execute("UPDATE shoal.owner SET id = 0")
        with pytest.raises(Unavailable, match="start this one again"):
            await begin(graph, ANN, POSTED, 1, moment(1))
        await other.execute(_DROP)
        await asyncio.sleep(0.5)
        assert await _answers(graph) is False
        async with opened(database) as next_one:
            assert await next_one.assoc_count([ANN], [POSTED]) == {POSTED: {}}


# Schema


@in_loop
async def test_openers_that_come_together_make_the_tables_once() -> None:
    server = postgres.start_own()
    graphs = await asyncio.gather(*[PostgresGraph.open(server.url) for _ in range(4)])
    await add(graphs[0], ann())
    assert await graphs[3].obj_get([ANN]) == {ANN: ann()}
    await asyncio.gather(*[graph.close() for graph in graphs])
    server.stop()


@in_loop
async def test_a_schema_of_somebody_else_is_left_alone(database: Database) -> None:
    async with aside(await database.made()) as other:
        await other.execute("DROP SCHEMA IF EXISTS shoal CASCADE; CREATE SCHEMA shoal; CREATE TABLE shoal.fish ()")
        with pytest.raises(Unavailable, match="not Shoal's"):
            await PostgresGraph.open(database.url)
        with pytest.raises(Unavailable, match="schema version 0"):
            await PostgresGraph.open(database.url, read_only=True)
        assert await other.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'shoal'") == 1
        await other.execute("DROP SCHEMA shoal CASCADE")


@in_loop
async def test_a_store_that_a_newer_shoal_wrote_is_refused(database: Database) -> None:
    newer = len(postgres_schema.MIGRATIONS) + 1
    async with opened(database), aside(database.url) as other:
        await other.execute("INSERT INTO shoal.version VALUES ($1)", newer)
        try:
            with pytest.raises(Unavailable, match=f"schema version {newer}"):
                await PostgresGraph.open(database.url)
        finally:
            await other.execute("DELETE FROM shoal.version WHERE applied = $1", newer)


@in_loop
async def test_a_reader_cannot_write(database: Database) -> None:
    async with opened(database) as graph:
        await add(graph, ann())
        async with opened(database, read_only=True) as reader:
            assert await reader.obj_get([ANN]) == {ANN: ann()}
            for write in (begin(reader, ANN, POSTED, 1, moment(1)), reader.claim(1, LONG), reader.sweep(1, 1)):
                with pytest.raises(ShoalError, match="reading only"):
                    await write


@in_loop
async def test_a_database_that_is_not_there_is_unavailable(database: Database) -> None:
    url = await database.made()
    for wrong in (f"{url}_not", "postgresql://127.0.0.1:1/postgres"):
        with pytest.raises(Unavailable):
            await PostgresGraph.open(wrong)


@in_loop
async def test_a_closed_store_takes_no_more(database: Database) -> None:
    async with opened(database) as graph:
        pass
    for question in (graph.obj_get([ANN]), begin(graph, ANN, POSTED, 1, moment(1)), graph.claim(1, LONG)):
        with pytest.raises(Unavailable):
            await question
    gc.collect()


@in_loop
async def test_no_question_reads_a_whole_table(database: Database) -> None:
    """Planned when the tables were empty, kept when they are not."""
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
async def test_lists_of_a_database_from_before_positions_are_read_by_position(database: Database) -> None:
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
async def test_blocks_are_made_when_no_commit_of_the_list_is_under_way(database: Database) -> None:
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


async def mark(other: asyncpg.Connection, source: int, state: str | None) -> None:
    """Mark a data source as a mover does, or as not moving."""
    async with other.transaction():
        await other.execute(moves_sql.MOVING_LOCK)
        await other.execute(moves_sql.UNMARK, [source])
        if state is not None:
            await other.execute(moves_sql.MARK, [source], state, None, 1, "another store")


@in_loop
async def test_what_is_written_of_a_source_that_is_being_copied_is_noted(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other:
        await mark(other, 40, "copying")
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
        await mark(other, 40, None)
        await end(graph, ANN, FOLLOWS, BEN, moment(2))
        assert await other.fetchval("SELECT count(*) FROM shoal.journal") == 5


@in_loop
async def test_a_frozen_source_refuses_writes_and_only_it_does(database: Database) -> None:
    async with opened(database) as graph, aside(database.url) as other:
        await begin(graph, BEN, POSTED, 1, moment(1))
        await mark(other, 40, "frozen")
        commits = [begin(graph, id_on(source), POSTED, 2, moment(2)) for source in range(38, 43)]
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None), type(None), Frozen, type(None), type(None)]
        with pytest.raises(Frozen):
            await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        with pytest.raises(Unavailable):
            await graph.count_set(BEN, POSTED.number, 5)
        assert await graph.assoc_range(BEN, POSTED, Cursor(limit=5)) == [Assoc(1, moment(1), b"")]
        await mark(other, 40, None)
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        assert await broken_promises(graph) == []


@in_loop
async def test_a_source_is_frozen_when_no_commit_that_did_not_know_is_under_way(database: Database) -> None:
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
        freezing = asyncio.create_task(mark(mover, 40, "frozen"))
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
async def test_sweep_passes_no_tombstone_that_is_kept_permanently(database: Database) -> None:
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
