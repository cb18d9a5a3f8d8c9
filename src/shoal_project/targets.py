"""Databases that hold a projection: SQLite, DuckDB, PostgreSQL, and Parquet files next to a DuckDB database.

Statements are written once for all engines, with parameters `$1` and `ids($1)` for a list of ids. A transaction is all or nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

from shoal.core.errors import Conflict, InvalidInput, Unavailable, missing_package
from shoal.graph.shard_map import shown_url
from shoal_project.tables import TABLES, Table, sql_type

T = TypeVar("T")

_IDS = re.compile(r"\bids\(\$(\d)\)")
_TEMPORARY = ("08", "40", "53", "55", "57")
"""Classes of PostgreSQL's errors that may be gone later: connections, conflicts, resources, locks and shutdown."""
_WAIT_SECONDS = 60.0
"""Maximum seconds that a transaction waits for another one."""
_MONTH = re.compile(r"\d{4,5}-\d\d")


class Statement(NamedTuple):
    sql: str
    args: tuple[Any, ...] = ()
    must_change: bool = False
    """Whether the transaction fails unless this returns a row."""


class Rows(NamedTuple):
    """Rows to insert into a table, and what to do if they exist."""

    table: Table
    rows: Sequence[tuple[Any, ...]]
    conflict: str = ""


Step = Statement | Rows


class Target(Protocol):
    """An open database. Only one program may write to it at a time; `must_change` detects another one."""

    engine: str
    partitioned: bool

    async def read(self, sql: str, *args: Any) -> list[tuple[Any, ...]]: ...

    async def write(self, steps: Sequence[Step]) -> None:
        """Run the steps in one transaction. Raises `Conflict` if a step that must change a row changes none."""

    async def has(self, table: str) -> bool:
        """Return whether a table or view of this name exists."""

    async def release(self) -> None:
        """Let other programs open the database until the next call, while this one waits."""

    def leftovers(self) -> list[tuple[str, str]]:
        """Return the tables and months of files that `publish` wrote; none for a database."""

    async def publish(self) -> None:
        """Write the months that changed into files; nothing for a database."""


def _check(step: Step, found: Sequence[object]) -> None:
    if isinstance(step, Statement) and step.must_change and not found:
        raise Conflict("another `shoal project` writes to the same target: stop one of them")


class _Embedded(ABC):
    """A database in a file, used by one thread at a time, and open from the first call until `release`."""

    engine: str
    partitioned = False
    _begin: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = asyncio.Lock()
        self._database: Any = None

    async def read(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return await self._call(lambda database: self._run(database, Statement(sql, args)))

    async def write(self, steps: Sequence[Step]) -> None:
        await self._call(lambda database: self._write(database, steps))

    async def release(self) -> None:
        async with self._lock:
            if self._database is not None:
                await asyncio.to_thread(self._database.close)
                self._database = None

    def leftovers(self) -> list[tuple[str, str]]:
        return []

    async def publish(self) -> None:  # noqa: B027  # nothing to write
        pass

    @abstractmethod
    async def has(self, table: str) -> bool: ...

    @abstractmethod
    def _open(self) -> Any: ...

    @abstractmethod
    def _run(self, database: Any, step: Step) -> list[tuple[Any, ...]]: ...

    async def _call(self, work: Callable[[Any], T]) -> T:
        async with self._lock:
            called = asyncio.ensure_future(asyncio.to_thread(self._use, work))
            try:
                return await asyncio.shield(called)
            except asyncio.CancelledError:
                # The thread cannot be interrupted, and uses the database until it has finished.
                await asyncio.wait({called})
                raise

    def _use(self, work: Callable[[Any], T]) -> T:
        if self._database is None:
            self._database = self._open()
        return work(self._database)

    def _write(self, database: Any, steps: Sequence[Step]) -> None:
        database.execute(self._begin)
        try:
            for step in steps:
                _check(step, self._run(database, step))
            database.execute("COMMIT")
        except BaseException:
            with suppress(Exception):
                database.execute("ROLLBACK")
            raise


class SqliteTarget(_Embedded):
    engine = "sqlite"
    _begin = "BEGIN IMMEDIATE"

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, _WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        # Overwrite deleted rows: members expect that their deleted posts are gone.
        database.execute("PRAGMA secure_delete = ON")
        return database

    def _use(self, work: Callable[[Any], T]) -> T:
        try:
            return super()._use(work)
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise InvalidInput(f"{self._path}: {error}") from error

    def _run(self, database: Any, step: Step) -> list[tuple[Any, ...]]:
        if isinstance(step, Rows):
            marks = ", ".join("?" * len(step.table.columns))
            rows = [tuple(map(_plain, row)) for row in step.rows]
            database.executemany(f"INSERT INTO {step.table.name} VALUES ({marks}) {step.conflict}", rows)
            return []
        sql = _IDS.sub(r"(SELECT value FROM json_each($\1))", step.sql)
        args = [json.dumps(arg) if isinstance(arg, list) else _plain(arg) for arg in step.args]
        found: list[tuple[Any, ...]] = database.execute(re.sub(r"\$(\d)", r"?\1", sql), args).fetchall()
        return found

    async def has(self, table: str) -> bool:
        return bool(await self.read("SELECT 1 FROM sqlite_master WHERE name = $1", table))


def _plain(value: Any) -> Any:
    """Return a time or date as text."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1_000:03}Z"
    return value.isoformat() if isinstance(value, date) else value


def _module(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise InvalidInput(f"--to: this target {missing_package(name, extra)}") from None


class DuckdbTarget(_Embedded):
    engine = "duckdb"
    _begin = "BEGIN TRANSACTION"

    def _open(self) -> Any:
        # DuckDB would download an extension to open a file of another database.
        return _module("duckdb", "project").connect(self._path, config={"autoinstall_known_extensions": False})

    def _use(self, work: Callable[[Any], T]) -> T:
        duckdb = _module("duckdb", "project")
        try:
            return super()._use(work)
        except (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException, OSError) as error:
            raise Unavailable(f"{self._path}: {str(error).splitlines()[0]}") from error
        except duckdb.Error as error:
            raise InvalidInput(f"{self._path}: {str(error).splitlines()[0]}") from error

    def _run(self, database: Any, step: Step) -> list[tuple[Any, ...]]:
        if isinstance(step, Rows):
            if step.rows:
                types = [f"{sql_type(column.type, 'duckdb')}[]" for column in step.table.columns]
                lists = ", ".join(f"unnest(${number}::{kind})" for number, kind in enumerate(types, 1))
                columns = [[_naive(value) for value in column] for column in zip(*step.rows, strict=True)]
                database.execute(f"INSERT INTO {step.table.name} SELECT {lists} {step.conflict}", columns)
            return []
        sql = _IDS.sub(r"(SELECT unnest($\1::BIGINT[]))", step.sql)
        found: list[tuple[Any, ...]] = database.execute(sql, [_naive(arg) for arg in step.args]).fetchall()
        return found

    async def has(self, table: str) -> bool:
        return bool(await self.read("SELECT 1 FROM information_schema.tables WHERE table_name = $1", table))


def _naive(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value


class ParquetTarget(DuckdbTarget):
    """A folder of Parquet files, one for each table and month, written from a DuckDB database in the same folder.

    A transaction notes the months that it changes. `publish` replaces their files, each of them at once.
    """

    partitioned = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "state.duckdb")
        self._folder = folder

    def leftovers(self) -> list[tuple[str, str]]:
        files = [path for table in TABLES for path in self._folder.glob(f"{table.name}/month=*/rows.parquet")]
        found = [(path.parts[-3], path.parts[-2].removeprefix("month=")) for path in files]
        return [(name, month) for name, month in found if _MONTH.fullmatch(month)]

    async def publish(self) -> None:
        for name, month in await self.read("SELECT table_name, month FROM shoal_stale ORDER BY 1, 2"):
            await self._call(partial(self._publish, name=name, month=month))
            await self.write([Statement("DELETE FROM shoal_stale WHERE table_name = $1 AND month = $2", (name, month))])

    def _publish(self, database: Any, name: str, month: str) -> None:
        table = next(table for table in TABLES if table.name == name)
        path = self._folder / name / f"month={month}" / "rows.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        day = table.columns[0].name if name == "daily" else "created_on"
        chosen = f"FROM {name} WHERE strftime({day}, '%Y-%m') = '{month}'"
        if not database.execute(f"SELECT 1 {chosen} LIMIT 1").fetchone():
            path.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()
            return
        quoted = str(draft).replace("'", "''")
        database.execute(f"COPY (SELECT * {chosen} ORDER BY {', '.join(table.key)}) TO '{quoted}' (FORMAT parquet)")
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)


class PostgresTarget:
    engine = "postgresql"
    partitioned = False

    def __init__(self, asyncpg: Any, connection: Any) -> None:
        self._asyncpg = asyncpg
        self._connection = connection

    async def read(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        with self._translated():
            return await self._run(Statement(sql, args))

    async def write(self, steps: Sequence[Step]) -> None:
        with self._translated():
            async with self._connection.transaction():
                for step in steps:
                    _check(step, await self._run(step))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, TimeoutError, self._asyncpg.InterfaceError) as error:
            raise Unavailable("the target does not answer") from error
        except self._asyncpg.PostgresError as error:
            is_temporary = str(error.sqlstate)[:2] in _TEMPORARY
            raise (Unavailable if is_temporary else InvalidInput)(f"the target refuses a statement: {error}") from error

    async def _run(self, step: Step) -> list[tuple[Any, ...]]:
        if isinstance(step, Rows):
            marks = ", ".join(f"${number}" for number in range(1, len(step.table.columns) + 1))
            sql = f"INSERT INTO {step.table.name} VALUES ({marks}) {step.conflict}"
            # PostgreSQL cannot store the character U+0000.
            rows = [tuple(v.replace("\0", "") if isinstance(v, str) else v for v in row) for row in step.rows]
            await self._connection.executemany(sql, rows)
            return []
        sql = _IDS.sub(r"(SELECT unnest($\1::bigint[]))", step.sql)
        return [tuple(row) for row in await self._connection.fetch(sql, *step.args)]

    async def has(self, table: str) -> bool:
        return bool(await self.read("SELECT 1 WHERE to_regclass($1) IS NOT NULL", table))

    def leftovers(self) -> list[tuple[str, str]]:
        return []

    async def release(self) -> None:
        pass

    async def publish(self) -> None:
        pass


KINDS: Final = "postgresql://…, sqlite:///FILE, duckdb:FILE or parquet:DIR"


@asynccontextmanager
async def opened(to: str, option: str = "--to") -> AsyncIterator[Target]:
    """Open a target, given as this option or argument.

    Raises `InvalidInput` for one that names no engine, and `Unavailable`.
    """
    scheme, _, rest = to.partition(":")
    path = Path(rest.removeprefix("///") if scheme == "sqlite" else rest)
    if scheme in ("postgresql", "postgres"):
        asyncpg = _module("asyncpg", "postgres")
        try:
            connection = await asyncpg.connect(to, timeout=_WAIT_SECONDS, command_timeout=3_600)
        except (OSError, TimeoutError, asyncpg.PostgresError) as error:
            raise Unavailable(f"cannot open {shown_url(to)}") from error
        except (ValueError, asyncpg.InterfaceError) as error:
            raise InvalidInput(f"{option}: {shown_url(to)}: {error}") from error
        try:
            yield PostgresTarget(asyncpg, connection)
        finally:
            with suppress(OSError, TimeoutError, asyncpg.InterfaceError):
                await connection.close(timeout=_WAIT_SECONDS)
        return
    kinds: dict[str, type[_Embedded]] = {"sqlite": SqliteTarget, "duckdb": DuckdbTarget, "parquet": ParquetTarget}
    if scheme not in kinds or not rest.strip("/") or (scheme == "sqlite" and not rest.startswith("///")):
        raise InvalidInput(f"{option}: {shown_url(to)!r} is not one of {KINDS}")
    target = kinds[scheme](path)
    try:
        yield target
    finally:
        await target.release()
