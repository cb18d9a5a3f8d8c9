"""A backup of several stores is a crash-consistent snapshot of a single moment."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from shoal.admin.backups import backup as moments
from shoal.admin.move import claimed
from shoal.app.backups import open_backed
from shoal.core.errors import Unavailable
from shoal.core.events import InversePending
from shoal.core.ids import IdMaker, shard_of
from shoal.core.model import Member
from shoal.core.placement import DATA_SOURCES
from shoal.graph.bulk import FIRST_KEYS, SnapshotSource, SnapshotTable
from shoal.graph.contract import AssocOp, Batch, Store
from shoal.graph.postgres import bulk as postgres_bulk
from shoal.graph.postgres.bulk import PostgresSnapshot
from shoal.graph.schema import FOLLOWS, LIKES
from shoal.graph.sqlite.bulk import SqliteSnapshot
from shoal.settings import build
from tests.async_runner import in_loop
from tests.backups.backup_helpers import backed_up, brought_back, opened, repository
from tests.engines import postgres
from tests.example_counts import DEEP
from tests.stores import ANN, BEN, add, begin, broken_promises, id_on, moment

RANGES = {"sqlite": ("0-9", "10-40", "41-63"), "postgres": ("0-31", "32-63")}
WRITERS = 12
ROUNDS = 6 if DEEP else 3


class Owner:
    """The owner of test databases, which are released with it."""


async def stores_of(engine: str, folder: Path, owner: Owner) -> dict[str, str]:
    """Return a shard map of empty stores."""
    urls = [
        f"sqlite:///{folder}/{at}.db" if engine == "sqlite" else await postgres.database(owner)
        for at, _ in enumerate(RANGES[engine])
    ]
    return dict(zip(RANGES[engine], urls, strict=True))


Acknowledged = dict[tuple[int, int], tuple[float, bool]]
"""The last change of each pair: when it was acknowledged (Unix ms), and whether the first follows the second."""


@asynccontextmanager
async def followers_at_work(graph: Store) -> AsyncIterator[Acknowledged]:
    """Members on all data sources follow and unfollow each other across stores until the block ends."""
    done: Acknowledged = {}
    new_id = IdMaker()
    over = asyncio.Event()

    async def work(number: int) -> None:
        chance = random.Random(number)
        while not over.is_set():
            # Each task writes to separate data sources, so it knows the last state of its pairs.
            a = chance.choice(range(number, DATA_SOURCES, WRITERS))
            pair = id_on(a), id_on((a + chance.randrange(1, DATA_SOURCES)) % DATA_SOURCES)
            wanted = not done.get(pair, (0.0, False))[1]
            batch = Batch(shard_of(pair[0]))
            verb = batch.assoc_add if wanted else batch.assoc_del
            verb(pair[0], FOLLOWS, pair[1], new_id(batch.shard))
            done.pop(pair, None)
            await graph.commit(batch)
            done[pair] = time.time() * 1_000, wanted

    tasks = [asyncio.create_task(work(number)) for number in range(WRITERS)]
    try:
        yield done
    finally:
        over.set()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("engine", RANGES)
@in_loop
async def test_backup_of_several_stores_under_writes_is_consistent(engine: str, tmp_path: Path) -> None:
    owner = Owner()
    media = f"file://{tmp_path}/media"
    settings = build(store=await stores_of(engine, tmp_path, owner), media=media, tags="memory://")
    place = repository(tmp_path / "backups")
    known: dict[str, Acknowledged] = {}
    async with opened(settings.store if isinstance(settings.store, dict) else {}) as graph:
        for source in range(DATA_SOURCES):
            await add(graph, Member(id=id_on(source), name=f"m{source}"))
        async with followers_at_work(graph) as done:
            for _ in range(ROUNDS):
                await asyncio.sleep(random.uniform(0.02, 0.1))
                before = dict(done)
                made = await backed_up(settings, place, late=0.02)
                assert made.held_ms > 0
                # Changes that were acknowledged before the backup began and not repeated until it finished.
                known[made.generation] = {pair: before[pair] for pair in before if done.get(pair) == before[pair]}
    assert sum(map(len, known.values())) > ROUNDS
    for generation, acknowledged in known.items():
        target = f"sqlite:///{tmp_path}/{generation}.db"
        await brought_back(place, build(store=target), generation)
        async with opened(target) as graph:
            await _settle(graph)
            assert await broken_promises(graph) == []
            for (a, b), (_, follows) in acknowledged.items():
                assert bool((await graph.assoc_get(a, (FOLLOWS,), (b,)))[FOLLOWS]) is follows


async def _settle(graph: Store) -> None:
    """Apply the inverses that were pending in the snapshot, as a worker would."""
    for job in await claimed(graph):
        if isinstance(job.event, InversePending):
            batch = Batch(shard_of(job.event.op.id1))
            batch.put(AssocOp(*job.event.op, plain=True))
            await graph.commit(batch)
        await graph.ack([job])


async def connected(engine: str, url: str) -> SnapshotSource:
    return await PostgresSnapshot.connect(url) if engine == "postgres" else await SqliteSnapshot.connect(Path(url[10:]))


@asynccontextmanager
async def one_store(engine: str, folder: Path) -> AsyncIterator[tuple[Store, Callable[[], Awaitable[SnapshotSource]]]]:
    owner = Owner()
    url = next(iter((await stores_of(engine, folder, owner)).values()))
    async with AsyncExitStack() as stack:
        graph = await stack.enter_async_context(opened(url))

        async def connect() -> SnapshotSource:
            source = await connected(engine, url)
            stack.push_async_callback(source.close)
            return source

        yield graph, connect
    del owner


@pytest.fixture
def long_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PostgreSQL block commits for a minute, because a busy machine may not release a block within three seconds."""
    monkeypatch.setitem(postgres_bulk._HOLDING, "idle_in_transaction_session_timeout", "60s")


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize("engine", RANGES)
@in_loop
async def test_backup_commit_block_blocks_commits_until_its_release(engine: str, tmp_path: Path) -> None:
    async with one_store(engine, tmp_path) as (graph, connect):
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        source = await connect()
        await source.hold()
        commit = asyncio.create_task(begin(graph, ANN, LIKES, BEN, moment(2)))
        assert not (await asyncio.wait((commit,), timeout=0.3))[0]
        await source.open()
        await source.release()
        await commit
        rows = await source.page(SnapshotTable.ASSOCIATIONS, FIRST_KEYS[SnapshotTable.ASSOCIATIONS], 10)
        assert [row[1] for row in rows] == [FOLLOWS.number, FOLLOWS.inverse]
        assert (await graph.assoc_get(ANN, (LIKES,), (BEN,)))[LIKES]
        # Opening again takes a new snapshot.
        await source.open()
        assert len(await source.page(SnapshotTable.ASSOCIATIONS, FIRST_KEYS[SnapshotTable.ASSOCIATIONS], 10)) == 4


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize("engine", RANGES)
@in_loop
async def test_backup_commit_block_during_block_of_other_backup_times_out(engine: str, tmp_path: Path) -> None:
    async with one_store(engine, tmp_path) as (graph, connect):
        first, second = await connect(), await connect()
        await second.hold()
        with pytest.raises(Unavailable):
            await first.hold()
        with suppress(Unavailable):
            await first.release()
        await second.release()
        await first.hold()
        await first.release()
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))


@in_loop
async def test_backup_commit_block_ended_by_postgres_timeout_is_detected(tmp_path: Path) -> None:
    """PostgreSQL releases the hold after three seconds, so a stopped backup blocks commits for at most that long."""
    async with one_store("postgres", tmp_path) as (graph, connect):
        source = await connect()
        await source.hold()
        began = time.monotonic()
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        assert time.monotonic() - began < 60
        await source.open()
        with pytest.raises(Unavailable):
            await source.release()
        # The next attempt has a connection of its own.
        await source.hold()
        await source.open()
        await source.release()


@in_loop
async def test_backup_snapshot_opening_retries_after_failure_and_releases_commit_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "_PAUSE_SECONDS", 0.01)
    failed, held = asyncio.Event(), moments._blocked_at_once

    async def noted(sources: Sequence[SnapshotSource]) -> moments.OneMoment:
        try:
            return await held(sources)
        except Unavailable:
            failed.set()
            raise

    monkeypatch.setattr(moments, "_blocked_at_once", noted)
    settings = build(store=await stores_of("sqlite", tmp_path, Owner()), media=f"file://{tmp_path}/media")
    stores = settings.store if isinstance(settings.store, dict) else {}
    async with opened(stores) as graph, open_backed(settings) as network:
        others = await SqliteSnapshot.connect(tmp_path / "1.db")
        await others.hold()
        opening = asyncio.create_task(moments.open_all(network.snapshots))
        await failed.wait()
        assert not opening.done()
        await others.release()
        await opening
        await others.close()
        for source in (0, 20, 63):
            await begin(graph, id_on(source), FOLLOWS, BEN, moment(1))
