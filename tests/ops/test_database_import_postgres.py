"""PostgreSQL as the source of an import: streaming, isolation, types, TLS, and errors in one line without passwords."""

from __future__ import annotations

import asyncio
import logging
import socket
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import asyncpg
import pytest

from shoal.admin.database_imports import pg8000_source as driver
from shoal.admin.database_imports.maps import ImportMap, Section, parse_map
from shoal.admin.database_imports.positions import pack, unpack
from shoal.admin.database_imports.source import Source, open_source
from shoal.admin.imports.records import Summary
from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal_devcluster.program import hand_over
from tests.async_runner import in_loop
from tests.engines import postgres
from tests.engines.certificates import trusted, unknown
from tests.tls import servers

SIZE = 500
"""Rows in a batch."""


def mapped(source: str, *columns: str, key: str = "id") -> ImportMap:
    """Return a map of posts whose text are these columns. `source` is a query or the name of a table."""
    kind = "query" if " " in source else "table"
    named = ", ".join(f'"{column}"' for column in columns or ("text",))
    return parse_map(f'''
        issuer = "x"
        [posts]
        {kind} = """{source}"""
        key = "{key}"
        fields = {{ id = "{key}", author = "{key}", created_at = "{key}", text = {{ columns = [{named}] }} }}''')


@contextmanager
def opened(url: str, of: ImportMap) -> Iterator[tuple[Source, Section]]:
    with open_source(url, of, Path(), Summary()) as source:
        yield source, of.sections[0]


def read(url: str, of: ImportMap, after: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    with opened(url, of) as (source, section):
        source.check(section)
        return [row for batch in source.batches(section, after, SIZE) for row in batch]


@asynccontextmanager
async def database(
    request: pytest.FixtureRequest, *statements: str, **settings: str
) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """Yield the URL of a database with these settings after these statements, and a connection to it.

    The statements write to the schema `old`. At the end, it is dropped and the settings are reset.
    """
    url = await postgres.database(request.node)
    name = url.rpartition("/")[2]
    connection = await asyncpg.connect(url)
    try:
        for statement in ("DROP SCHEMA IF EXISTS old CASCADE", "CREATE SCHEMA old", *statements):
            await connection.execute(statement)
        for setting, value in settings.items():
            await connection.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
        yield url, connection
        await connection.execute("DROP SCHEMA old CASCADE")
    finally:
        await connection.execute(f"ALTER DATABASE {name} RESET ALL")
        await connection.close()


def large(rows: int) -> str:
    return f"CREATE TABLE old.posts AS SELECT id, repeat('x', 1000) AS text FROM generate_series(1, {rows}) AS id"  # noqa: S608


@in_loop
async def test_postgres_source_streams_a_large_table_in_constant_memory(request: pytest.FixtureRequest) -> None:
    async with database(request, large(20 * SIZE)) as (url, _):

        def peak() -> tuple[int, int]:
            with opened(url, mapped("old.posts")) as (source, section):
                assert source.count(section) == 20 * SIZE
                batches = source.batches(section, None, SIZE)
                tracemalloc.start()
                try:
                    return sum(map(len, batches)), tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()

        count, used = await asyncio.to_thread(peak)
    assert count == 20 * SIZE
    # A batch has half a megabyte of texts, all rows have ten.
    assert used < 5_000_000


@in_loop
async def test_postgres_source_refuses_a_query_that_writes(request: pytest.FixtureRequest) -> None:
    writing = """
        CREATE FUNCTION old.hide() RETURNS bigint LANGUAGE sql AS 'DELETE FROM old.posts RETURNING id'"""
    async with database(request, large(3), writing, "CREATE SEQUENCE old.numbers") as (url, connection):
        for query, words in (
            ("SELECT nextval('old.numbers') AS id, 'x' AS text", "cannot execute nextval() in a read-only transaction"),
            ("SELECT old.hide() AS id, 'x' AS text", "cannot execute DELETE in a read-only transaction"),
        ):
            with pytest.raises(InvalidInput) as raised:
                await asyncio.to_thread(read, url, mapped(query))
            assert str(raised.value).startswith(f"posts (query): the source refused the query: {words}")
        assert await connection.fetchval("SELECT count(*) FROM old.posts") == 3
        assert await connection.fetchval("SELECT is_called FROM old.numbers") is False


@in_loop
async def test_postgres_source_reads_one_snapshot_with_a_statement_timeout(request: pytest.FixtureRequest) -> None:
    async with database(request, large(3 * SIZE)) as (url, connection):
        with opened(url, mapped("old.posts")) as (source, section):
            batches = source.batches(section, None, SIZE)
            count = len(await asyncio.to_thread(next, batches))
            await connection.execute("DELETE FROM old.posts")
            assert count + sum(map(len, await asyncio.to_thread(list, batches))) == 3 * SIZE
        names = ("statement_timeout", "transaction_isolation", "transaction_read_only")
        query = "SELECT 1 AS id, " + ", ".join(f"current_setting('{name}') AS {name}" for name in names)
        (row,) = await asyncio.to_thread(read, url, mapped(query, *names))
    assert [row[name] for name in names] == ["10min", "repeatable read", "on"]


@in_loop
async def test_postgres_source_returns_each_type_as_python_values(request: pytest.FixtureRequest) -> None:
    uuid = "6f3c1a52-0000-4000-8000-000000000001"
    types = {
        "uuid": (f"'{uuid}'::uuid", UUID(uuid)),
        "json": ("""'{"a": [1, "b"]}'::json""", {"a": [1, "b"]}),
        "jsonb": ("""'["a", null]'::jsonb""", ["a", None]),
        "numeric": ("12.50::numeric", Decimal("12.50")),
        "bigint": ("9007199254740993::bigint", 9_007_199_254_740_993),
        "float": ("1.5::float8", 1.5),
        "flag": ("true", True),
        "none": ("NULL::text", None),
        "bytes": (r"'\x00ff'::bytea", b"\x00\xff"),
        "texts": ("ARRAY['a,b', 'c\"', NULL]", ["a,b", 'c"', None]),
        "numbers": ("ARRAY[1, 2]", [1, 2]),
        "text": ("'Zoë 🐟'::text", "Zoë 🐟"),
        "day": ("'2020-01-02'::date", date(2020, 1, 2)),
        "naive": ("'2020-01-02 03:04:05.5'::timestamp", datetime(2020, 1, 2, 3, 4, 5, 500_000)),  # noqa: DTZ001
        "aware": ("'2020-01-02 03:04:05+00'::timestamptz", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)),
        "never": ("'infinity'::timestamptz", "infinity"),
    }
    query = "SELECT 1 AS id, " + ", ".join(f'{value} AS "{name}"' for name, (value, _) in types.items())
    escaped = query.replace("\\", "\\\\")
    async with database(request, TimeZone="Asia/Kolkata", DateStyle="German", bytea_output="escape") as (url, _):
        (row,) = await asyncio.to_thread(read, url, mapped(escaped, *types))
    assert {name: row[name] for name in types} == {name: value for name, (_, value) in types.items()}


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("bigint", "9007199254740990 + n"),
        ("int", "n"),
        ("text", """'é''\\%s$1"' || n"""),
        ("uuid", "('6f3c1a52-0000-4000-8000-00000000000' || n)::uuid"),
        ("numeric", "n + 0.5"),
        ("float8", "n + 0.25"),
        ("timestamptz", "'2020-01-02 03:04:05.5+05:30'::timestamptz + n * interval '1 hour'"),
        ("timestamp", "'2020-01-02'::timestamp + n * interval '1 hour'"),
        ("date", "'2020-01-02'::date + n"),
        ("bytea", "decode('ff0' || n, 'hex')"),
    ],
)
@in_loop
async def test_postgres_source_continues_after_a_stored_position_of_each_type(
    type_: str, value: str, request: pytest.FixtureRequest
) -> None:
    # All of these have a meaning in the formats of parameters that drivers know.
    query = """
        SELECT id, text /* it's %s, %% and $1 */ FROM old.rows -- 100 %s
        WHERE 5 % 3 = 2 AND text LIKE 'a%' AND (ARRAY[1, 2])[1:2] = ARRAY[1, 2] AND '{"?": 1}'::jsonb ? '?'"""
    selected = f"SELECT ({value})::{type_} AS id, 'a%s' AS text FROM generate_series(1, 3) AS n"  # noqa: S608
    table = f"CREATE TABLE old.rows AS {selected}"
    async with database(request, table, TimeZone="America/New_York") as (url, _):
        rows = await asyncio.to_thread(read, url, mapped(query))
        assert len(rows) == 3
        assert {row["text"] for row in rows} == {"a%s"}
        position = unpack(pack([rows[0]["id"]]))
        assert await asyncio.to_thread(read, url, mapped(query), position) == rows[1:]
        with opened(url, mapped(query)) as (source, section):
            found = await asyncio.to_thread(source.related, section, "id", [rows[2]["id"], rows[1]["id"]])
        assert found == rows[1:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, ""),
        ({"sslmode": "prefer"}, ""),
        ({"sslmode": "require"}, ""),
        ({"sslmode": "disable"}, "no encryption"),
        ({"sslmode": "require", "sslrootcert": "trusted"}, ""),
        ({"sslmode": "require", "sslrootcert": "unknown"}, "the server's certificate is not trusted"),
        ({"sslmode": "verify-ca", "sslrootcert": "trusted", "address": "127.0.0.2"}, ""),
        ({"sslmode": "verify-ca", "sslrootcert": "unknown"}, "the server's certificate is not trusted"),
        ({"sslmode": "verify-full", "sslrootcert": "trusted"}, ""),
        (
            {"sslmode": "verify-full", "sslrootcert": "trusted", "address": "127.0.0.2"},
            "the server's certificate is for another name",
        ),
        ({"sslmode": "verify-full", "sslrootcert": "/nowhere/ca.pem"}, "from: /nowhere/ca.pem does not exist"),
        ({"sslmode": "verify-full"}, "/.postgresql/root.crt does not exist"),
    ],
)
@in_loop
async def test_postgres_source_over_tls_verifies_what_sslmode_says(
    options: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = await servers.postgres_server()
    files = {"trusted": str(trusted().certificate), "unknown": str(unknown().certificate)}
    given = {name: files.get(value, value) for name, value in options.items() if name != "address"}
    address = f"{options.get('address', 'localhost')}:{servers.port_of(program)}"
    url = f"postgresql://shoal:{servers.QUOTED}@{address}/{servers.DATABASE}?{urlencode(given)}"
    query = mapped("SELECT ssl::int AS id, 'x' AS text FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    if not message:
        assert [row["id"] for row in await asyncio.to_thread(read, url, query)] == [1]
        return
    with pytest.raises(ShoalError) as raised:
        await asyncio.to_thread(read, url, query)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert servers.PASSWORD not in str(raised.value)


@in_loop
async def test_postgres_source_presents_a_client_certificate() -> None:
    program = await servers.postgres_server()
    ours = trusted().signed("certified", user="certified")
    place = f"localhost:{servers.port_of(program)}/{servers.DATABASE}"
    files = {"sslmode": "verify-full", "sslrootcert": str(trusted().certificate)}
    query = mapped("SELECT 1 AS id, current_user AS text")
    with pytest.raises(Unavailable, match="requires a valid client certificate"):
        await asyncio.to_thread(read, f"postgresql://certified@{place}?{urlencode(files)}", query)
    files |= {"sslcert": str(ours.certificate), "sslkey": str(ours.key)}
    (row,) = await asyncio.to_thread(read, f"postgresql://certified@{place}?{urlencode(files)}", query)
    assert row["text"] == "certified"
    with pytest.raises(InvalidInput, match="contains no PEM certificate with its key"):
        await asyncio.to_thread(read, f"postgresql://u@{place}?{urlencode(files | {'sslkey': __file__})}", query)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "postgresql://u:secret@h/db?sslmode=allow",
            "from: sslmode must be one of disable, prefer, require, verify-ca",
        ),
        (
            "postgresql://u:secret@h/db?options=-c",
            "from: unknown option 'options' in the URL; expected one of host, sslmode",
        ),
        ("postgresql://h/db", "from: name a user, as in postgresql://user:password@host/database"),
        ("postgresql://u:secret@a,b/db", "from: expected one host in the URL"),
        ("postgresql://u:secret@h:x/db", "from: invalid URL: percent-encode"),
        ("postgresql://u:secret@h:99999/db", "from: this is no URL of a database"),
        ("postgresql://u:sec/ret@h/db", "from: invalid URL: percent-encode"),
        ("postgresql://u:secret@h/db?host=/run", "from: the option host is the folder of a Unix socket"),
        ("postgresql://u:secret@127.0.0.1:1/db", "from: the source cannot be read: 127.0.0.1:1: Connection refused"),
        ("postgresql://u:secret@/db?host=/nowhere", "from: the source cannot be read: /nowhere: No such file"),
    ],
)
def test_postgres_source_with_invalid_url_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(ShoalError) as raised:
        read(url, mapped("posts"))
    assert str(raised.value).startswith(message)
    assert "sec" not in str(raised.value).removeprefix(message)


@in_loop
async def test_postgres_source_names_wrong_passwords_and_databases_in_one_line() -> None:
    program = await servers.postgres_server()
    address = f"localhost:{servers.port_of(program)}"
    for login, name, words in (
        ("shoal:wr0ng", servers.DATABASE, 'password authentication failed for user "shoal"'),
        ("shoal", servers.DATABASE, 'password authentication failed for user "shoal"'),
        (f"shoal:{servers.QUOTED}", "missing", 'database "missing" does not exist'),
    ):
        with pytest.raises(Unavailable) as raised:
            await asyncio.to_thread(read, f"postgresql://{login}@{address}/{name}", mapped("posts"))
        assert str(raised.value) == f"from: the source cannot be read: {address}: {words}"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"J\0\0\0\n8.4.0\0", b"\xff" * 64])
@in_loop
async def test_postgres_source_that_is_another_server_is_unavailable(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_CONNECT_SECONDS", 0.5)

    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for mode in ("disable", "prefer", "require"):
            with pytest.raises(Unavailable, match="the source cannot be read"):
                await asyncio.to_thread(read, f"postgresql://u@127.0.0.1:{port}/db?sslmode={mode}", mapped("posts"))


def test_postgres_source_that_does_not_respond_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for mode in ("disable", "require"):
            with pytest.raises(Unavailable, match="timed out"):
                read(f"postgresql://u@127.0.0.1:{port}/db?sslmode={mode}", mapped("posts"))


@in_loop
async def test_postgres_source_whose_statement_takes_too_long_is_unavailable(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(driver._SETTINGS, "statement_timeout", "100ms")
    async with database(request, large(3 * SIZE)) as (url, _):
        # The first batch is returned at once.
        slow = f"SELECT id, CASE WHEN id > {SIZE} THEN pg_sleep(60)::text END AS text FROM old.posts"  # noqa: S608
        with opened(url, mapped(slow)) as (source, section):
            batches = source.batches(section, None, SIZE)
            with pytest.raises(Unavailable) as raised:
                await asyncio.to_thread(list, batches)
    words = "canceling statement due to statement timeout"
    assert str(raised.value) == f"posts (query): the source cannot be read: {words}"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_loop
async def test_postgres_source_that_ends_the_connection_is_unavailable(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    async with database(request, large(3 * SIZE)) as (url, connection):
        with opened(url, mapped("old.posts")) as (source, section):
            batches = source.batches(section, None, SIZE)
            await asyncio.to_thread(next, batches)
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            await connection.execute(f"{ended} AND pid <> pg_backend_pid()")
            with pytest.raises(Unavailable, match="the source cannot be read"):
                await asyncio.to_thread(list, batches)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@in_loop
async def test_postgres_source_connects_to_a_unix_socket() -> None:
    folder = postgres.folder()
    hand_over(folder, "postgres")
    program = await asyncio.to_thread(postgres.start_own, f"unix_socket_directories={folder}")
    port = servers.port_of(program)
    query = mapped("SELECT 1 AS id, coalesce(host(inet_client_addr()), 'socket') AS text")
    (row,) = await asyncio.to_thread(read, f"postgresql://shoal@:{port}/postgres?host={folder}&sslmode=require", query)
    assert row["text"] == "socket"
