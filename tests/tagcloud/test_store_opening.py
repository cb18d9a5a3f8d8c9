"""Opening the stores of the tag cloud: concurrently, read-only, and with foreign files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from shoal.core.errors import ShoalError, Unavailable
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.postgres import PostgresGraph
from shoal.tagcloud.contract import CloudStore, Head
from shoal.tagcloud.dynamodb import DynamoCloud
from shoal.tagcloud.postgres import PostgresCloud
from shoal.tagcloud.sqlite import SqliteCloud
from tests.async_runner import in_loop
from tests.engines import dynamodb
from tests.tagcloud.stores import DURABLE_CLOUDS, FIRST, CloudBackend, increment_id, merge, opened, row


@pytest.mark.parametrize("name", DURABLE_CLOUDS)
@in_loop
async def test_tag_store_created_by_two_processes_concurrently_is_usable(name: str, tmp_path: Path) -> None:
    backend = CloudBackend(name, tmp_path)
    url = await backend.url()
    if name == "postgres":
        connection = await asyncpg.connect(url)
        await connection.execute("DROP SCHEMA IF EXISTS shoal CASCADE")
        await connection.close()
    stores = await asyncio.gather(*[opened(name, url) for _ in range(6)])
    await stores[0].write(merge(1, rows=[row("dawn", 1)]))
    assert [await store.version() for store in stores] == [1] * 6
    await asyncio.gather(*[store.close() for store in stores])


@in_loop
async def test_tag_store_and_graph_store_share_one_database(tmp_path: Path) -> None:
    database, table = CloudBackend("postgres", tmp_path), dynamodb.new_table()
    url = await database.url()
    connection = await asyncpg.connect(url)
    await connection.execute("DROP SCHEMA IF EXISTS shoal CASCADE")
    await connection.close()
    cloud, graph, items, objects = await asyncio.gather(
        PostgresCloud.open(url), PostgresGraph.open(url), DynamoCloud.open(table), DynamoGraph.open(table)
    )
    await asyncio.gather(cloud.close(), graph.close(), items.close(), objects.close())


@in_loop
async def test_tag_store_opened_read_only_refuses_writes(tmp_path: Path) -> None:
    path, database = tmp_path / "shoal.db.tags", CloudBackend("postgres", tmp_path)
    url = await database.url()
    stores: list[CloudStore] = [await SqliteCloud.open(path), await PostgresCloud.open(url)]
    readers: list[CloudStore] = [
        await SqliteCloud.open(path, read_only=True),
        await PostgresCloud.open(url, read_only=True),
    ]
    for store, reader in zip(stores, readers, strict=True):
        await store.write(merge(1, rows=[row("dawn", 1)]))
        assert await reader.head() == merge(1).head
        for refused in (reader.write(merge(2)), reader.lock(b"ann"), reader.put(increment_id(1), b"")):
            with pytest.raises(ShoalError, match="read-only"):
                await refused
        await reader.close()
        await store.close()


@in_loop
async def test_tag_store_missing_file_opened_read_only_is_empty_and_not_created(tmp_path: Path) -> None:
    for _ in range(2):
        reader = await SqliteCloud.open(tmp_path / "shoal.db.tags", read_only=True)
        assert await reader.head() == Head()
        assert await reader.scan(FIRST, 5) == []
        await reader.close()
    assert os.listdir(tmp_path) == []  # noqa: PTH208  # a short block is acceptable here


@in_loop
async def test_sqlite_tag_store_counts_inbox_without_reads_on_event_loop(tmp_path: Path) -> None:
    store = await SqliteCloud.open(tmp_path / "shoal.db.tags")
    for n in range(50):
        await store.put(increment_id(n), b"")
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    store._quick.set_progress_handler(step, 1)
    assert await store.waiting() == 50
    assert steps == 0
    await store.close()


@in_loop
async def test_sqlite_tag_store_file_of_another_kind_or_version_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db.tags"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (a)")
    with pytest.raises(Unavailable, match="that Shoal did not create"):
        await SqliteCloud.open(path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    for read_only in (False, True):
        with pytest.raises(Unavailable, match="schema version 99"):
            await SqliteCloud.open(path, read_only=read_only)
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("PRAGMA user_version").fetchone() == (99,)


@in_loop
async def test_tag_store_with_unreachable_server_raises_unavailable() -> None:
    with pytest.raises(Unavailable):
        await PostgresCloud.open("postgresql://shoal@127.0.0.1:1/postgres", patience=0.2)
    with pytest.raises(Unavailable):
        await DynamoCloud.open(dynamodb.new_table(at="http://127.0.0.1:1"), patience=0.2)


_HOLDING = """
import asyncio, sys
from pathlib import Path
from shoal.tagcloud.sqlite import SqliteCloud

async def main():
    store = await SqliteCloud.open(Path(sys.argv[1]))
    print(await store.lock(b"ann", 3_600.0), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@in_loop
async def test_sqlite_tag_store_lock_of_killed_process_is_released(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db.tags"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLDING, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"True\n"
    # While the process lives, other processes respect its lock.
    other = await SqliteCloud.open(path)
    assert not await other.lock(b"ben")
    await other.close()
    child.kill()
    await child.wait()
    store = await SqliteCloud.open(path)
    assert await store.lock(b"ben")
    await store.close()
