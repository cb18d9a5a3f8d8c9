"""The SQLite store: durability, file ownership, schema versions, full disks and killed processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.core.errors import Conflict, OutcomeUnknown, ShoalError, StorageFull, Unavailable
from shoal.core.events import PostCreated
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import Member, Post
from shoal.graph.bulk import KeyRow, Rows
from shoal.graph.contract import MAX_TIME, Assoc, AssocRow, Batch, Cursor, CursorTooOld
from shoal.graph.event_log import EventLog
from shoal.graph.migrations import short
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKED_BY, LIKES, POSTED, TAG_OF, TAGGED, Key
from shoal.graph.sqlite import SqliteGraph, sql
from shoal.graph.sqlite import store as sqlite_store
from shoal.graph.sqlite.migrations import check_version
from shoal.graph.sqlite.store import LOG_BYTES, PAGE_BYTES
from tests import disks
from tests.async_runner import eventually, in_loop, run
from tests.event_log_replica import Replica, facts_of
from tests.example_counts import examples
from tests.stores import (
    ANN,
    BEN,
    CYD,
    add,
    all_counts,
    all_links,
    all_objects,
    begin,
    broken_promises,
    id_on,
    ids_of,
    moment,
)

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shoal.db"


@asynccontextmanager
async def opened(path: Path, *, read_only: bool = False, logs: bool | None = None) -> AsyncIterator[SqliteGraph]:
    graph = await SqliteGraph.open(path, read_only=read_only, logs=logs)
    try:
        yield graph
    finally:
        await graph.close()


def aside(path: Path) -> closing[sqlite3.Connection]:
    """Return a separate SQLite connection."""
    return closing(sqlite3.connect(path, isolation_level=None))


def member(id_: int = ANN) -> Member:
    return Member(id=id_, name="m")


def posting(n: int, size: int = 10) -> Batch:
    """Return a batch with the n-th post of Ann, `size` bytes long, with list entries, a key and an event."""
    batch = Batch(shard_of(ANN))
    post = id_on(0, n)
    batch.obj_add(Post(id=post, author_id=ANN, text="x" * size))
    batch.assoc_add(ANN, POSTED, post, post)
    batch.assoc_add(ANN, LIKES, post, post)
    batch.key_add(Key(batch.shard, "import", str(n)), post)
    batch.emit(PostCreated(post_id=post, author_id=ANN))
    return batch


async def whole_posts(graph: SqliteGraph) -> list[int]:
    """Return the numbers of all posts, and check that each was committed completely."""
    posts = [node.id for node in await all_objects(graph)]
    assert ids_of(await graph.assoc_range(ANN, POSTED, Cursor(limit=10_000, oldest_first=True))) == posts
    numbers = [n for n in range(10_000) if id_on(0, n) in set(posts)]
    keys = {Key(shard_of(ANN), "import", str(n)): id_on(0, n) for n in numbers}
    assert (
        await graph.key_get([Key(shard_of(ANN), "import", str(n)) for n in range(max(numbers, default=0) + 20)]) == keys
    )
    assert await graph.backlog() == len(posts)
    assert await broken_promises(graph) == []
    return numbers


# Durability


@in_loop
async def test_sqlite_acknowledged_commit_is_in_the_file(path: Path) -> None:
    async with opened(path) as graph:
        for n in range(1, 20):
            await graph.commit(posting(n))
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as other:
                assert other.execute("SELECT max(id) FROM object").fetchone() == (id_on(0, n),)
                assert other.execute("SELECT count(*) FROM outbox").fetchone() == (n,)


@in_loop
async def test_sqlite_writer_syncs_each_commit_group_to_disk(path: Path) -> None:
    async with opened(path) as graph:
        assert graph._writing is not None
        assert graph._writing.execute("PRAGMA synchronous").fetchone() == (2,)
        assert graph._writing.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_sqlite_acknowledged_commits_survive_kill_9(path: Path) -> None:
    dice = random.Random(9)
    printed: list[int] = []
    for round_ in range(5):
        command = [sys.executable, "-m", "tests.graph.commit_process", str(path), str(round_)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as child:
            assert child.stdout is not None
            answered = [child.stdout.readline() for _ in range(dice.randint(20, 60))]
            child.kill()
            printed += map(int, [*answered, *child.stdout.read().split()])
        run(_all_there(path, printed))


async def _all_there(path: Path, posts: list[int]) -> None:
    """Check that every post was stored with all other rows of its batch."""
    wanted = set(posts)
    async with opened(path) as graph:
        assert set(await graph.obj_get(posts)) == wanted
        assert set((await graph.assoc_get(ANN, [POSTED], posts))[POSTED]) == wanted
        for some in batched(posts, 1000):
            keys = {Key(shard_of(ANN), "import", str(post)): post for post in some}
            assert await graph.key_get(list(keys)) == keys
        events = [job.event for job in await graph.claim(10**9, 60)]
        assert {event.post_id for event in events if isinstance(event, PostCreated)} >= wanted
        assert await broken_promises(graph) == []


@in_loop
async def test_sqlite_event_log_survives_kill_9_while_a_reader_follows_it(path: Path) -> None:
    async with opened(path, logs=True):
        pass
    dice, replica = random.Random(7), Replica()
    for round_ in range(3):
        command = [sys.executable, "-m", "tests.graph.commit_process", str(path), str(round_)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as child:  # noqa: ASYNC220  # fork server
            assert child.stdout is not None
            for _ in range(dice.randint(20, 60)):
                await asyncio.to_thread(child.stdout.readline)
                async with opened(path, read_only=True) as reader:
                    await replica.read(EventLog(reader), dice.randint(1, 50))
            child.kill()
        async with opened(path) as graph:
            await replica.read(EventLog(graph))
            assert replica.facts == await facts_of(graph)
    assert len({entry.id for entry in replica.entries}) == len(replica.entries) > 60


@in_loop
async def test_sqlite_event_log_refuses_cursor_after_the_file_was_replaced_by_an_older_copy(path: Path) -> None:
    async with opened(path, logs=True) as graph:
        await graph.commit(posting(1))
    copy = await asyncio.to_thread(path.read_bytes)
    async with opened(path) as graph:
        await graph.commit(posting(2))
        cursor = await EventLog(graph).end()
        delivered = (await EventLog(graph).read(None, 10)).entries
    await asyncio.to_thread(path.write_bytes, copy)
    async with opened(path) as graph:
        with pytest.raises(CursorTooOld, match="the store lost entries that it covers"):
            await EventLog(graph).read(cursor, 10)
        (lost,) = cursor.places.values()

        async def later() -> bool:
            return (now_ms(),) > lost.proof

        await eventually(later, True)
        await graph.commit(posting(3))
        with pytest.raises(CursorTooOld, match="the store lost entries that it covers"):
            await EventLog(graph).read(cursor, 10)
        # The new entry is at the position of a lost one, and is not mistaken for it.
        replaced = (await EventLog(graph).read(None, 10)).entries
        assert replaced[-1].position == delivered[-1].position
        assert replaced[-1].id != delivered[-1].id


@in_loop
async def test_sqlite_file_with_event_log_is_refused_by_code_that_does_not_know_it(path: Path) -> None:
    # A file whose log is on stays closed to older code if a migration has written `readable_from` again.
    reopened = "UPDATE version SET readable_from = 8 WHERE applied = 9"
    for logs in (False, True, None, False):
        async with opened(path, logs=logs):
            pass
        with closing(sqlite3.connect(path)) as file:
            if logs is not False:
                with pytest.raises(Unavailable, match="has schema version 9, but this Shoal supports 8"):
                    check_version(file, path, sql.MIGRATIONS[:8])
                file.execute(reopened if logs else "SELECT 1")
                file.commit()
            else:
                check_version(file, path, sql.MIGRATIONS[:8])


def batched(posts: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(posts), size):
        yield posts[start : start + size]


# Owners and readers


@in_loop
async def test_sqlite_open_by_second_process_is_refused_naming_the_owner_process(path: Path) -> None:
    script = """
import asyncio, sys
from pathlib import Path
from shoal.core.errors import Unavailable
from shoal.graph.sqlite import SqliteGraph
try:
    asyncio.run(SqliteGraph.open(Path(sys.argv[1])))
except Unavailable as refusal:
    print(refusal)
"""
    async with opened(path) as graph:
        await add(graph, member())
        answer = subprocess.run(  # noqa: ASYNC221  # nothing else runs in this loop
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
        )
    assert answer.stdout.startswith(f"the store shoal.db is in use by another process, {os.getpid()} (")
    assert answer.stdout.endswith("): stop that process first\n")
    # With parallel test runs, the command line of a worker does not contain pytest.
    assert " ".join(sys.orig_argv[1:3]) in answer.stdout
    async with opened(path) as graph:
        assert await graph.obj_get([ANN]) == {ANN: member()}


@in_loop
async def test_sqlite_read_only_store_sees_commits_and_refuses_writes(path: Path) -> None:
    async with opened(path) as owner, opened(path, read_only=True) as reader:
        await owner.commit(posting(1))
        assert await whole_posts(reader) == [1]
        await owner.commit(posting(2))
        assert await whole_posts(reader) == [1, 2]
        with pytest.raises(ShoalError, match="read-only"):
            await reader.commit(posting(3))
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._reading.execute("DELETE FROM object")


@in_loop
async def test_sqlite_read_only_open_creates_no_file(path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot open the store shoal\.db"):
        await SqliteGraph.open(path, read_only=True)
    assert list(path.parent.iterdir()) == []


@in_loop
async def test_sqlite_reads_do_not_wait_for_open_write_transaction(path: Path) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
        with aside(path) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("DELETE FROM object")
            waiting = asyncio.create_task(graph.commit(posting(2)))
            await asyncio.sleep(0.05)
            assert await whole_posts(graph) == [1]
            assert not waiting.done()
            other.execute("ROLLBACK")
        await waiting
        assert await whole_posts(graph) == [1, 2]


# Opening


@in_loop
async def test_sqlite_empty_file_is_initialized_as_store(path: Path) -> None:
    path.touch()  # noqa: ASYNC240
    async with opened(path) as graph:
        await graph.commit(posting(1))
    with aside(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (len(sql.MIGRATIONS),)


@in_loop
async def test_sqlite_page_size_is_small_in_new_files_and_kept_in_old_ones(path: Path) -> None:
    async with opened(path):
        pass
    with aside(path) as file:
        assert file.execute("PRAGMA page_size").fetchone() == (PAGE_BYTES,)
    old = path.with_name("old.db")
    with aside(old) as file:
        file.execute("PRAGMA page_size = 4096")
        for version, migration in enumerate(sql.MIGRATIONS[:-1], 1):
            file.executescript(f"{migration.script}; PRAGMA user_version = {version}")
    async with opened(old) as graph:
        await add(graph, member())
    with aside(old) as file:
        assert file.execute("PRAGMA page_size").fetchone() == (4_096,)
        assert file.execute("SELECT count(*) FROM object").fetchone() == (1,)


@in_loop
async def test_sqlite_wal_is_checkpointed_at_its_size_limit(path: Path) -> None:
    async with opened(path) as graph:
        log = path.with_name(f"{path.name}-wal")
        written, peak = 0, 0
        while written < 3 * LOG_BYTES:
            await graph.commit(posting(written, 1 << 20))
            written += 1 << 20
            peak = max(peak, log.stat().st_size)
            assert written > LOG_BYTES // 2 or path.stat().st_size < LOG_BYTES // 4  # noqa: ASYNC240  # one look
        assert LOG_BYTES <= peak < 2 * LOG_BYTES


@in_loop
async def test_sqlite_file_of_newer_schema_version_is_refused_and_unchanged(path: Path) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
    with aside(path) as other:
        other.execute("PRAGMA user_version = 99")
    for read_only in (False, True):
        with pytest.raises(Unavailable, match=rf"schema version 99, but this Shoal supports {len(sql.MIGRATIONS)}"):
            await SqliteGraph.open(path, read_only=read_only)
    with aside(path) as other:
        assert other.execute("PRAGMA user_version").fetchone() == (99,)
        other.execute(f"PRAGMA user_version = {len(sql.MIGRATIONS)}")
    async with opened(path) as graph:
        assert await whole_posts(graph) == [1]


@in_loop
async def test_sqlite_older_file_is_migrated_with_its_data(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
    news = (
        short("CREATE TABLE one (n); INSERT INTO one VALUES (1);"),
        short("CREATE TABLE two (n); INSERT INTO two SELECT n FROM one;"),
    )
    monkeypatch.setattr(sql, "MIGRATIONS", sql.MIGRATIONS + news)
    with pytest.raises(Unavailable, match="schema version"):
        await SqliteGraph.open(path, read_only=True)
    for _ in range(2):
        async with opened(path) as graph:
            assert await whole_posts(graph) == [1]
        with aside(path) as other:
            assert other.execute("SELECT * FROM two").fetchall() == [(1,)]


@in_loop
async def test_sqlite_failed_migration_is_rolled_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
    with monkeypatch.context() as patch:
        patch.setattr(
            sql, "MIGRATIONS", (*sql.MIGRATIONS, short("CREATE TABLE half (n); INSERT INTO absent VALUES (1);"))
        )
        with pytest.raises(Unavailable, match=r"shoal\.db: no such table: absent"):
            await SqliteGraph.open(path)
    async with opened(path) as graph:
        assert await whole_posts(graph) == [1]
    with aside(path) as other:
        assert other.execute("SELECT name FROM sqlite_schema WHERE name = 'half'").fetchall() == []


@pytest.mark.parametrize("read_only", [False, True])
def test_sqlite_file_of_another_format_is_refused_and_unchanged(path: Path, read_only: bool) -> None:
    something_else = b"not a database at all, but long enough to be looked at\n" * 100
    path.write_bytes(something_else)
    with pytest.raises(Unavailable, match=r"cannot open the store .*: file is not a database"):
        run(SqliteGraph.open(path, read_only=read_only))
    assert path.read_bytes() == something_else


@in_loop
async def test_sqlite_missing_folder_is_named_in_the_error(path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot open .*: .*No such file or directory"):
        await SqliteGraph.open(path.parent / "nowhere" / path.name)


@in_loop
async def test_sqlite_path_accepts_special_characters(tmp_path: Path) -> None:
    path = tmp_path / "100% ?#ünï.db"
    async with opened(path) as graph:
        await graph.commit(posting(1))
    assert path.exists()


@in_loop
async def test_sqlite_closed_store_refuses_commits(path: Path) -> None:
    async with opened(path) as graph:
        pass
    with pytest.raises(Unavailable, match="closing"):
        await graph.commit(posting(1))
    await graph.close()


# Groups


@in_loop
async def test_sqlite_commit_groups_over_the_limit_are_split_without_loss(path: Path) -> None:
    async with opened(path) as graph:
        large = Batch(shard_of(BEN))
        for n in range(25_000):
            large.assoc_add(BEN, POSTED, n, moment(n))
        await asyncio.gather(graph.commit(large), *[graph.commit(posting(n)) for n in range(1, 1501)])
        assert await whole_posts(graph) == list(range(1, 1501))
        assert await graph.assoc_count([BEN], [POSTED]) == {POSTED: {BEN: 25_000}}


@in_loop
async def test_sqlite_cancelled_commits_do_not_prevent_other_commits(path: Path) -> None:
    async with opened(path) as graph:
        commits = [asyncio.create_task(graph.commit(posting(n))) for n in range(1, 601)]
        await asyncio.sleep(0)
        for wave in range(3):
            for commit in commits[wave::9]:
                commit.cancel()
            await asyncio.sleep(0.002)
        answers = await asyncio.gather(*commits, return_exceptions=True)
        answered = {n for n, answer in enumerate(answers, 1) if answer is None}
        assert answered >= {n for n in range(1, 601) if (n - 1) % 9 not in (0, 1, 2)}
        assert {type(answer) for answer in answers} <= {type(None), asyncio.CancelledError}
        assert set(await whole_posts(graph)) >= answered
        await graph.commit(posting(1000))


@in_loop
async def test_sqlite_cancelled_commits_do_not_hide_refusals_of_others(path: Path) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
        commits = [asyncio.create_task(graph.commit(posting(n % 2 + 1))) for n in range(50)]
        await asyncio.sleep(0)
        for commit in commits[::5]:
            commit.cancel()
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert [n for n, answer in enumerate(answers) if answer is None] in ([1], [3])
        assert await whole_posts(graph) == [1, 2]


@in_loop
async def test_sqlite_invalid_batch_does_not_fail_its_commit_group(path: Path) -> None:
    async with opened(path) as graph:
        impossible = posting(500)
        impossible.assoc_add(ANN, POSTED, 2**64, moment(1))
        batches = [*[posting(n) for n in range(1, 50)], impossible, *[posting(n) for n in range(50, 100)]]
        answers = await asyncio.gather(*map(graph.commit, batches), return_exceptions=True)
        assert [n for n, answer in enumerate(answers) if answer is not None] == [49]
        assert isinstance(answers[49], OverflowError)
        assert await whole_posts(graph) == list(range(1, 100))


class Failing:
    """A connection whose commits succeed and then raise an error, as after a failed disk sync."""

    def __init__(self, connection: sqlite3.Connection, code: int) -> None:
        self._connection = connection
        self._code = code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        cursor = self._connection.execute(statement, *values)
        if statement == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self._code
            raise error
        return cursor


@in_loop
async def test_sqlite_commit_with_failed_disk_sync_raises_outcome_unknown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
        assert graph._writer is not None
        connection: Any = Failing(graph._writer._connection, sqlite3.SQLITE_IOERR_FSYNC)
        with monkeypatch.context() as patched:
            patched.setattr(graph._writer, "_connection", connection)
            answers = await asyncio.gather(*[graph.commit(posting(n)) for n in (2, 3)], return_exceptions=True)
        assert [type(answer) for answer in answers] == [OutcomeUnknown] * 2
        await graph.commit(posting(4))
        assert await whole_posts(graph) == [1, 2, 3, 4]


@in_loop
async def test_sqlite_commit_after_integrity_error_at_commit_is_stored(path: Path) -> None:
    async with opened(path) as graph:
        assert graph._writing is not None
        # A deferred constraint is checked by COMMIT, which then fails and leaves the transaction open.
        graph._writing.execute("PRAGMA foreign_keys = ON")
        graph._writing.execute(
            "CREATE TABLE probe (id INTEGER PRIMARY KEY, other INTEGER REFERENCES probe DEFERRABLE INITIALLY DEFERRED)"
        )
        with pytest.raises(OutcomeUnknown):
            await graph._write(lambda write: write.execute("INSERT INTO probe VALUES (1, 2)").rowcount)
        await graph.commit(posting(1))
        assert await whole_posts(graph) == [1]
        assert graph._writing.execute("SELECT count(*) FROM probe").fetchone() == (0,)


@in_loop
async def test_sqlite_commit_to_damaged_file_is_unavailable_and_names_the_damage(path: Path) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
    with aside(path) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'object'").fetchone()
        (size,) = file.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * size)
    async with opened(path) as graph:
        for n in (2, 3):
            with pytest.raises(Unavailable, match="damaged: nothing was stored; restore"):
                await graph.commit(posting(n))
        assert graph._writing is not None
        assert not graph._writing.in_transaction


@in_loop
async def test_sqlite_outbox_counts_read_nothing_on_the_event_loop(path: Path) -> None:
    async with opened(path) as graph:
        await asyncio.gather(*[graph.commit(posting(n)) for n in range(1, 100)])
        for job in await graph.claim(9, 60):
            await graph.park(job, "failed")
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        graph._reading.set_progress_handler(step, 1)
        assert await graph.backlog() == 90
        assert await graph.lag() > 0
        assert len(await graph.parked()) == 9
        graph._reading.set_progress_handler(None, 1)
        assert steps == 0


# Claims


@in_loop
async def test_sqlite_claim_of_new_event_reads_nothing_from_the_file(path: Path) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
        await graph.ack(await graph.claim(10, 60))
        async with counted(graph._reading) as statements:
            for n in range(2, 5):
                await graph.commit(posting(n))
                (job,) = await graph.claim(10, 60)
                assert isinstance(job.event, PostCreated)
                assert job.event.post_id == id_on(0, n)
                await graph.ack([job])
                assert await graph.claim(10, 60) == []
        assert statements == []
        await graph.commit(posting(5))
    async with opened(path) as graph:
        (job,) = await graph.claim(10, 60)
        assert (job.seq, job.event) == (5, PostCreated(post_id=id_on(0, 5), author_id=ANN))


@settings(max_examples=examples(25, full=200))
@given(
    st.lists(
        st.one_of(st.integers(1, 5), st.sampled_from(["claim", "park", "refused", "unknown", "open"])), max_size=20
    )
)
@example([1, "unknown", 1])
@example([5, 5, 1, "claim", 1])
@example([1, "claim", "open", 1])
@in_loop
async def test_sqlite_claims_return_each_event_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]
) -> None:
    path = tmp_path_factory.mktemp("claims") / "shoal.db"
    claimed: list[int] = []
    n = 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite_store, "_RECENT_EVENTS", 4)
        graph = await SqliteGraph.open(path)
        for step in [*steps, "claim", "claim"]:
            if isinstance(step, int):
                await asyncio.gather(*[graph.commit(posting(number)) for number in range(n + 1, n + step + 1)])
                n += step
            elif step in {"claim", "park"}:
                jobs = await graph.claim(3 if step == "park" else 1_000, 60)
                claimed += [job.event.post_id for job in jobs if isinstance(job.event, PostCreated)]
                if step == "park" and jobs:
                    await graph.park(jobs.pop(), "failed")
                await graph.ack(jobs)
            elif step == "open":
                await graph.close()
                graph = await SqliteGraph.open(path)
            elif step == "refused":
                with pytest.raises(Conflict):
                    await asyncio.gather(graph.commit(posting(n + 1)), graph.commit(posting(n + 1)))
                n += 1
            else:
                n += 1
                assert graph._writer is not None
                with pytest.MonkeyPatch.context() as failing:
                    connection: Any = Failing(graph._writer._connection, sqlite3.SQLITE_IOERR_FSYNC)
                    failing.setattr(graph._writer, "_connection", connection)
                    with pytest.raises(OutcomeUnknown):
                        await graph.commit(posting(n))
        await graph.close()
    assert claimed == sorted(set(claimed))
    assert len(claimed) == n


# Statement counts


@asynccontextmanager
async def counted(connection: sqlite3.Connection | None) -> AsyncIterator[list[str]]:
    """Record the statements of a connection. SQLite traces a statement again for each trigger; it is recorded once."""
    assert connection is not None
    statements: list[str] = []

    def tell(statement: str) -> None:
        if statements[-1:] != [statement]:
            statements.append(statement)

    connection.set_trace_callback(tell)
    try:
        yield statements
    finally:
        connection.set_trace_callback(None)


@in_loop
async def test_sqlite_commit_group_waits_briefly_for_expected_batches(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    going_on = threading.Event()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        assert going_on.wait(60)

    async def waited() -> int:
        return len(waits)

    monkeypatch.setattr("shoal.graph.sqlite.writer.time.sleep", wait)
    async with opened(path) as graph:
        going_on.set()
        await asyncio.gather(*[graph.commit(posting(n)) for n in range(8)])
        going_on.clear()
        waits.clear()
        few = [asyncio.create_task(graph.commit(posting(n))) for n in range(8, 11)]
        await eventually(waited, 1)
        assert not any(task.done() for task in few), "the writer waits for a group of the previous size"
        more = [asyncio.create_task(graph.commit(posting(n))) for n in range(11, 18)]
        await asyncio.sleep(0.01)
        going_on.set()
        await asyncio.gather(*few, *more)
        waits.clear()
        await graph.commit(posting(18))
        assert len(waits) == 4, "no other commit arrived"
        await graph.commit(posting(19))
        assert len(waits) == 4, "a single commit does not wait again"
        assert await whole_posts(graph) == list(range(20))


@in_loop
async def test_sqlite_commit_group_statement_count_is_independent_of_number_of_batches(path: Path) -> None:
    async with opened(path) as graph:
        await graph.commit(posting(1))
        async with counted(graph._writing) as statements:
            with aside(path) as other:
                # All other commits are queued while this transaction holds the file.
                other.execute("BEGIN IMMEDIATE")
                commits = [asyncio.create_task(graph.commit(posting(n))) for n in range(2, 402)]
                await asyncio.sleep(0.02)
                other.execute("ROLLBACK")
            await asyncio.gather(*commits)
        groups = statements.count("COMMIT")
        assert groups <= 3
        # Reads of 3 kinds and writes of 5, each in pieces of 256, 128 ... 1 rows.
        assert len(statements) <= 90 * groups
        assert len(statements) < 200


@in_loop
async def test_sqlite_single_commit_runs_one_statement_per_change_kind(path: Path) -> None:
    async with opened(path) as graph, counted(graph._writing) as statements:
        await graph.commit(posting(1))
        kinds = [statement.split()[0] for statement in statements]
        # Versions, keys and links; then the object, links (two types and an inverse: 2 + 1), counts, key, event.
        assert kinds.count("BEGIN") == kinds.count("COMMIT") == 1
        assert len(kinds) <= 14


@pytest.mark.parametrize("size", [1, 40])
@in_loop
async def test_sqlite_reads_of_1_or_40_ids_run_one_statement(path: Path, size: int) -> None:
    async with opened(path) as graph:
        await asyncio.gather(*[graph.commit(posting(n)) for n in range(1, 50)])
        posts = [id_on(0, n) for n in range(1, size + 1)]
        async with counted(graph._reading) as statements:
            for reading in (
                graph.obj_get(posts),
                graph.key_get([Key(shard_of(ANN), "import", str(n)) for n in range(1, size + 1)]),
                graph.assoc_get(ANN, [POSTED, LIKES], posts),
                graph.assoc_range(ANN, POSTED, Cursor(limit=size)),
                graph.assoc_ranges([*posts, ANN], POSTED, Cursor(limit=size)),
                graph.assoc_count([*posts, ANN], [POSTED, LIKES]),
            ):
                before = len(statements)
                assert await reading
                assert len(statements) == before + 1


LOOKUPS = [
    (sql.OBJ_GET, 1),
    (sql.OBJ_VERSIONS, 1),
    (sql.OBJ_SCAN, 2),
    (sql.OBJ_DELETE, 1),
    (sql.ASSOC_GET, 3),
    *((statement, 5) for statement in sql.ASSOC_RANGE.values()),
    *((statement, 5) for statement in sql.ASSOC_RANGES.values()),
    (sql.ASSOC_SCAN, 4),
    (sql.COUNT_GET, 2),
    (sql.COUNT_SCAN, 3),
    (sql.for_rows(sql.KEY_GET, 3, 2), 6),
    (sql.for_rows(sql.LINKS_GET, 3, 3), 9),
    (sql.KEY_DELETE, 2),
    *((statement, 2) for statement in (*sql.ASSOC_SWEEPS, sql.HISTORY_SWEEP, sql.KEY_SWEEP)),
    (sql.OUTBOX_NEXT, 2),
    (sql.OUTBOX_DELETE, 1),
    (sql.OUTBOX_KEEP, 4),
]


@in_loop
async def test_sqlite_association_with_time_equal_to_id_is_not_indexed(path: Path) -> None:
    async with opened(path) as graph:
        for n in range(1, 10):
            await graph.commit(posting(n))
    with aside(path) as other:
        indexed = "SELECT atype, count(*) FROM association INDEXED BY association_listed WHERE alive = 1 GROUP BY atype"
        assert dict(other.execute(indexed)) == {LIKES.number: 9, LIKED_BY.number: 9}
        assert other.execute("SELECT count(*) FROM displaced").fetchone() == (0,)


@in_loop
async def test_sqlite_list_read_skips_deleted_associations_without_scanning(path: Path) -> None:
    async with opened(path) as graph:
        await asyncio.gather(*[graph.commit(posting(n)) for n in range(1, 2_000)])
        kept = [id_on(0, n) for n in range(1, 11)]
        few = await steps_of(graph, limit=5)
        for some in batched([id_on(0, n) for n in range(11, 2_000)], 500):
            batch = Batch(shard_of(ANN))
            for n, post in enumerate(some):
                batch.assoc_del(ANN, POSTED, post, moment(n))
            await graph.commit(batch)
        assert await steps_of(graph, limit=5) < 2 * few
        assert ids_of(await graph.assoc_range(ANN, POSTED, Cursor(limit=20))) == kept[::-1]


async def steps_of(graph: SqliteGraph, *, limit: int) -> int:
    """Return the SQLite steps to read the newest and oldest posts of Ann, alone and with other lists."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    graph._reading.set_progress_handler(step, 1)
    for oldest_first in (False, True):
        assert len(await graph.assoc_range(ANN, POSTED, Cursor(limit=limit, oldest_first=oldest_first))) == limit
        found = await graph.assoc_ranges([ANN, BEN], POSTED, Cursor(limit=limit, oldest_first=oldest_first))
        assert {id1: len(page) for id1, page in found.items()} == {ANN: limit}
    graph._reading.set_progress_handler(None, 1)
    return steps


@in_loop
async def test_sqlite_list_append_writes_one_page_including_count(path: Path) -> None:
    async with opened(path) as graph:
        await asyncio.gather(*[graph.commit(posting(n)) for n in range(1, 200)])
        write = graph._writing
        assert write is not None
        written = []
        for n in range(200, 216):
            assert write.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
            await begin(graph, ANN, POSTED, id_on(0, n), id_on(0, n))
            written.append(write.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])
        # A full page is split, which writes more pages, but not on every insert.
        assert min(written) == 1
        assert await graph.assoc_count([ANN], [POSTED]) == {POSTED: {ANN: 215}}


@in_loop
async def test_sqlite_association_ids_do_not_collide_with_count_rows(path: Path) -> None:
    async with opened(path) as graph:
        for id2 in (2**63 - 1, -(2**63)):
            await begin(graph, ANN, POSTED, id2, moment(1))
            await begin(graph, ANN, LIKES, id2, moment(1))
        assert await graph.assoc_count([ANN], [POSTED, LIKES]) == {POSTED: {ANN: 2}, LIKES: {ANN: 2}}
        assert set((await graph.assoc_get(ANN, [LIKES], [2**63 - 1]))[LIKES]) == {2**63 - 1}
        assert await broken_promises(graph) == []


@in_loop
async def test_sqlite_lists_of_schema_version_2_are_migrated_in_id_order(path: Path) -> None:
    """Schema version 2 has active, deleted and restored rows, and rows with a time slightly later than their id."""
    rows = [(1, 1, 1, b"a"), (2, 2, 0, b""), (3, 9, 1, b"b"), (4, 4, 1, b""), (5, 8, 0, b"")]
    with aside(path) as file:
        for version, migration in enumerate(sql.MIGRATIONS[:2], 1):
            file.executescript(f"{migration.script}; PRAGMA user_version = {version}")
        for atype in (POSTED, FOLLOWED_BY):
            file.executemany(
                f"INSERT INTO association VALUES ({ANN}, {atype.number}, ?, ?, ?, ?)",  # noqa: S608  # numbers
                rows,
            )
            file.execute("INSERT INTO count VALUES (?, ?, 3)", (ANN, atype.number))
    async with opened(path) as graph:
        assert await all_counts(graph) == [(ANN, FOLLOWED_BY.number, 3), (ANN, POSTED.number, 3)]
        for atype in (POSTED, FOLLOWED_BY):
            listed = [Assoc(3, 9, b"b"), Assoc(4, 4, b""), Assoc(1, 1, b"a")]
            assert await graph.assoc_range(ANN, atype, Cursor(limit=9)) == listed
            assert await graph.assoc_ranges([ANN], atype, Cursor(limit=2, oldest_first=True)) == {ANN: listed[:0:-1]}
            assert set((await graph.assoc_get(ANN, [atype], [*range(9)]))[atype]) == {1, 3, 4}
            stored = [
                (row.id2, row.time, row.alive, row.data) for row in await all_links(graph) if row.atype == atype.number
            ]
            assert stored == [(id2, moment_, bool(alive), data) for id2, moment_, alive, data in rows]
        assert (await graph.sweep(9, 0), await graph.sweep_history(9)) == (2, 2)


@in_loop
async def test_sqlite_lists_from_schema_without_position_blocks_are_read_by_position(path: Path) -> None:
    with aside(path) as file:
        for version, migration in enumerate(sql.MIGRATIONS[:4], 1):
            file.executescript(f"{migration.script}; PRAGMA user_version = {version}")
        rows: list[sql.Row] = [(ANN, POSTED.number, number, number, sql.IN_PLACE, b"") for number in range(1, 3_001)]
        rows.append((ANN, POSTED.number, float("inf"), 3_000, sql.COUNTS, b""))
        file.executemany("INSERT INTO association VALUES (?, ?, ?, ?, ?, ?)", rows)
    for _ in range(2):
        async with opened(path) as graph:
            assert await graph.assoc_ranks([ANN], POSTED, [0, 500, 2_999]) == {ANN: [3_000, 2_500, 1]}
            assert await broken_promises(graph) == []
    with aside(path) as file:
        assert file.execute("SELECT level, count(*) FROM block GROUP BY 1").fetchall() == [(0, 46)]


@pytest.mark.parametrize(("statement", "values"), LOOKUPS)
@in_loop
async def test_sqlite_lookups_do_not_scan_whole_tables(path: Path, statement: str, values: int) -> None:
    async with opened(path):
        pass
    with aside(path) as other:
        plan = [row[3] for row in other.execute("EXPLAIN QUERY PLAN " + statement, ["[1]"] * values)]
        whole = re.compile(r"SCAN (object|association|displaced|key|outbox|a|b|k)\b")
        assert [step for step in plan if whole.match(step)] == []
        assert [step for step in plan if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("statement", [sql.ASSOC_RANGE[False, False], sql.ASSOC_RANGES[False, False]])
@in_loop
async def test_sqlite_list_in_order_of_time_is_read_from_its_index_alone(path: Path, statement: str) -> None:
    async with opened(path):
        pass
    with aside(path) as other:
        plan = [row[3] for row in other.execute("EXPLAIN QUERY PLAN " + statement, ["[1]"] * 5)]
    lookups = [step for step in plan if step.startswith("SEARCH")]
    assert lookups
    assert all("COVERING INDEX association_listed" in step for step in lookups), plan


# Sweeping


@in_loop
async def test_sqlite_sweep_cost_does_not_grow_with_permanent_tombstones(path: Path) -> None:
    async with opened(path) as graph:
        costs = []
        for upto in (1_000, 20_000):
            for atype in (TAGGED, TAG_OF):
                tombstones = [
                    AssocRow(id_on(0, n), atype.number, -n, moment(1), alive=False, data=b"") for n in range(1, upto)
                ]
                await graph.put_rows(Rows(assocs=tombstones))
            assert graph._writing is not None
            steps = 0

            def step() -> int:
                nonlocal steps
                steps += 1
                return 0

            graph._writing.set_progress_handler(step, 1)
            assert await graph.sweep(MAX_TIME, 0) == 0
            graph._writing.set_progress_handler(None, 1)
            costs.append(steps)
        assert costs[1] == costs[0], costs
        assert len(await all_links(graph, 5_000)) == 2 * 19_999


@pytest.mark.parametrize("sweep", ["tombstones", "histories", "keys"])
@in_loop
async def test_sqlite_commit_during_long_sweep_is_stored_before_the_sweep_ends(
    path: Path, sweep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "_SWEEP_ROWS", 1)
    async with opened(path) as graph:
        atype = FOLLOWS if sweep == "histories" else LIKES
        rows = [AssocRow(ANN, atype.number, n, moment(1), alive=False, data=b"") for n in range(1, 101)]
        keys = [KeyRow("user_name", str(n), ANN, 1) for n in range(1, 101)]
        await graph.put_rows(Rows(keys=keys) if sweep == "keys" else Rows(assocs=rows))
        swept = graph.sweep_history(MAX_TIME) if sweep == "histories" else graph.sweep(MAX_TIME, 1)
        sweeping = asyncio.create_task(swept)
        await asyncio.sleep(0)
        await graph.commit(posting(1))
        assert not sweeping.done()
        assert await sweeping == 100


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    with disks.small_disk(tmp_path / "disk", "2m") as disk:
        yield disk


def fill(disk: Path, *, leave: int = 0) -> None:
    """Fill the disk except for `leave` bytes."""
    with (disk / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, shutil.disk_usage(disk).free - leave)


def empty(disk: Path) -> None:
    """Free the disk space."""
    (disk / "ballast").unlink()


async def commit_until_full(graph: SqliteGraph) -> int:
    """Commit posts of 20 kB until the disk is full; return the number of stored posts."""
    stored = 0
    while stored < 1000:
        try:
            await graph.commit(posting(stored + 1, 20_000))
        except StorageFull as refusal:
            assert str(refusal) == "the store's disk is full: nothing was stored; free disk space and try again"  # noqa: PT017
            return stored
        stored += 1
    pytest.fail("the disk is never full")


@in_loop
async def test_sqlite_full_disk_refuses_whole_batches_and_allows_reads(small_disk: Path) -> None:
    fill(small_disk, leave=1_400_000)
    async with opened(small_disk / "shoal.db") as graph:
        stored = await commit_until_full(graph)
        assert stored > 5
        assert await whole_posts(graph) == list(range(1, stored + 1))

        together = range(stored + 1, stored + 31)
        refused = await asyncio.gather(*[graph.commit(posting(n, 20_000)) for n in together], return_exceptions=True)
        assert {type(answer) for answer in refused} == {StorageFull}
        assert await whole_posts(graph) == list(range(1, stored + 1))

        empty(small_disk)
        await graph.commit(posting(stored + 1, 20_000))
        assert await whole_posts(graph) == list(range(1, stored + 2))
    async with opened(small_disk / "shoal.db") as graph:
        assert await whole_posts(graph) == list(range(1, stored + 2))


@in_loop
async def test_sqlite_full_disk_refuses_only_batches_that_do_not_fit(small_disk: Path) -> None:
    async with opened(small_disk / "shoal.db") as graph:
        batches = [posting(n, 3_000_000 if n == 7 else 10) for n in range(1, 21)]
        answers = await asyncio.gather(*map(graph.commit, batches), return_exceptions=True)
        assert [n for n, answer in enumerate(answers, 1) if answer is not None] == [7]
        assert isinstance(answers[6], StorageFull)
        assert await whole_posts(graph) == [n for n in range(1, 21) if n != 7]


@in_loop
async def test_sqlite_store_on_full_disk_closes_and_returns_unacknowledged_events(small_disk: Path) -> None:
    async with opened(small_disk / "shoal.db") as graph:
        # Acknowledging this number of events needs more space than the last block of the log has left.
        await asyncio.gather(*[graph.commit(posting(n)) for n in range(400)])
        jobs = await graph.claim(1_000, 60)
        fill(small_disk)
        with pytest.raises(StorageFull):
            await graph.commit(posting(1_000, 20_000))
        await graph.ack(jobs)
        await graph.put_back(jobs[0]._replace(mark=3))
        await asyncio.wait_for(graph.close(), 60)
    empty(small_disk)
    async with opened(small_disk / "shoal.db") as graph:
        assert [job.event for job in await graph.claim(1_000, 60)] == [job.event for job in jobs]
        assert len(jobs) == 400


@in_loop
async def test_sqlite_job_acknowledgments_on_full_disk_are_written_after_space_is_freed(small_disk: Path) -> None:
    async with opened(small_disk / "shoal.db") as graph:
        await asyncio.gather(*[graph.commit(posting(n)) for n in range(1, 100)])
        jobs = await graph.claim(200, 60)
        fill(small_disk)
        await graph.ack(jobs)
        await asyncio.sleep(0.1)
        empty(small_disk)
    async with opened(small_disk / "shoal.db") as graph:
        assert await graph.backlog() == 0


@in_loop
async def test_sqlite_long_reads_during_writes_see_a_consistent_snapshot(path: Path) -> None:
    async with opened(path) as graph:
        followers = [id_on(n % 64, n) for n in range(300)]
        await asyncio.gather(*[begin(graph, id_, FOLLOWS, CYD, moment(n)) for n, id_ in enumerate(followers)])
        writing = asyncio.gather(*[begin(graph, id_, FOLLOWS, BEN, moment(n)) for n, id_ in enumerate(followers)])
        while not writing.done():
            pages = await graph.assoc_ranges([BEN, CYD, *followers], FOLLOWED_BY, Cursor(limit=1000))
            assert len(pages[CYD]) == 300
        await writing
        assert len(await all_links(graph)) == 1200


@in_loop
async def test_sqlite_foreign_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (a)")
    with pytest.raises(Unavailable, match="that Shoal did not create"):
        await SqliteGraph.open(path)
    with contextlib.closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)]
