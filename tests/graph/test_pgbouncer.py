"""A store behind PgBouncer in transaction mode: statements share server sessions, the store lock has its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import asyncpg
import pytest

from shoal.core.errors import InvalidInput
from shoal.graph.postgres import PostgresGraph
from shoal.graph.postgres.connections import ConnectionPool
from shoal.graph.postgres.primary import parse
from shoal.graph.schema import POSTED
from tests.async_runner import eventually, in_loop
from tests.engines import postgres
from tests.engines.pgbouncer import pooled
from tests.graph.test_postgres import ann, in_use
from tests.stores import ANN, add, moment
from tests.stores import begin as begin_link


class _Holder:
    """Owns a database until it is garbage collected."""


@asynccontextmanager
async def database() -> AsyncIterator[str]:
    holder = _Holder()
    yield await postgres.database(holder)
    del holder


async def sessions(url: str) -> list[tuple[str, str]]:
    """The name and state of each session of Shoal on this database."""
    connection = await asyncpg.connect(url)
    try:
        rows: list[tuple[str, str]] = await connection.fetch(
            "SELECT application_name, state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return rows
    finally:
        await connection.close()


@in_loop
async def test_pgbouncer_sessions_are_shared_and_keep_connection_settings() -> None:
    async with database() as url:
        graphs = [await PostgresGraph.open(pooled(url)) for _ in range(3)]
        try:
            await add(graphs[0], ann())
            found = await asyncio.gather(*[graph.obj_get([ANN]) for graph in graphs for _ in range(40)])
            assert all(one == {ANN: ann()} for one in found)
            # Each of three stores holds a lock; forty connections share five sessions behind the pooler.
            assert len(await sessions(url)) <= 3 + 5
        finally:
            for graph in graphs:
                await graph.close()
        pool = ConnectionPool(pooled(url), 8, {"synchronous_commit": "off", "default_transaction_read_only": "on"})
        told = await asyncio.gather(
            *[
                pool.ask(
                    "SELECT current_setting('enable_seqscan'), current_setting('synchronous_commit'), "
                    "current_setting('transaction_read_only'), pg_sleep(0.01)"
                )
                for _ in range(20)
            ]
        )
        assert {tuple(rows[0])[:3] for rows in told} == {("off", "off", "on")}
        other = ConnectionPool(pooled(url), 8, {"synchronous_commit": "on"})
        told = await asyncio.gather(
            *[other.ask("SELECT current_setting('synchronous_commit'), pg_sleep(0.01)") for _ in range(20)]
        )
        assert {rows[0][0] for rows in told} == {"on"}
        await pool.close()
        await other.close()


@in_loop
async def test_pgbouncer_query_error_closes_its_transaction_and_keeps_connection() -> None:
    async with database() as url:
        pool = ConnectionPool(pooled(url), 1, {})
        for _ in range(3):
            with pytest.raises(asyncpg.UndefinedTableError):
                await pool.ask("SELECT * FROM nowhere")
            with pytest.raises(asyncpg.DataError):
                await pool.ask("SELECT $1::int", "no number")
            assert await pool.ask("SELECT 1 AS one") == [(1,)]
        assert not [state for _, state in await sessions(url) if state == "idle in transaction"]
        await pool.close()


@in_loop
async def test_pgbouncer_exclusive_store_lock_excludes_other_processes() -> None:
    async with database() as url:
        alone = await PostgresGraph.open(pooled(url), sole=True)
        try:
            for other in (url, pooled(url)):
                await eventually(partial(in_use, other, sole=False), True)
            await add(alone, ann())
            await begin_link(alone, ANN, POSTED, 1, moment(1))
        finally:
            await alone.close()


def test_postgres_url_pooler_option_replaces_host_and_port() -> None:
    found = parse("postgresql://u:p%40@db:5432/net?pooler=bouncer:6432&sslmode=require")
    assert found.server == "postgresql://u:p%40@db:5432/net?sslmode=require"
    assert found.pooler == "postgresql://u:p%40@bouncer:6432/net?sslmode=require"
    assert parse("postgresql:///net?host=/run/postgresql").pooled is False
    for wrong in ("bouncer", ":6432", "bouncer:many", "", "a:1&pooler=b:2"):
        with pytest.raises(InvalidInput, match="host:port"):
            parse(f"postgresql://db/net?pooler={wrong}")


@pytest.mark.parametrize("password", ["p/w", "p?w", "p#w", "5#w", "5?w", "p[w", "5/w"])
def test_postgres_url_with_unencoded_password_is_refused_without_showing_it(password: str) -> None:
    with pytest.raises(InvalidInput, match="percent-encode") as caught:
        parse(f"postgresql://shoal:{password}@db/net")
    assert password not in str(caught.value)
