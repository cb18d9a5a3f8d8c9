"""Sources of a mapped import: SQL databases through SQLAlchemy, and folders of CSV and JSONL files.

A source is only read. The rows of a section are streamed in the order of its key, in one read-only transaction, so memory does not
grow with the table. A folder is loaded into a temporary SQLite database, so that queries and watermarks work as on a database.
"""

from __future__ import annotations

import difflib
import re
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, Engine, Select

from shoal.admin.database_imports.maps import ImportMap, Section
from shoal.admin.database_imports.pg8000_source import is_unavailable, open_postgres, words_of
from shoal.admin.imports.records import Summary, read_lines
from shoal.core.errors import InvalidInput, Unavailable

Row = dict[str, Any]

_SCHEMES = "postgresql://, mysql:// or sqlite:/// followed by the path of a file, or a folder of CSV and JSONL files"
_CONNECT_SECONDS = 10
_STATEMENT_SECONDS = 600
_IDS_AT_ONCE = 500
_MAX_COLUMNS = 500
_LOADED_AT_ONCE = 5_000


class Source:
    """An open database, which is only read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def check(self, section: Section) -> None:
        """Raise `InvalidInput` if the table, the query or a column of a section does not exist."""
        with self._reading(section.title) as connection:
            # The condition is false for every row, so only the names of the columns are read.
            selected = self._of(section, sa.text("*")).where(sa.text("1 = 0"))
            known = list(connection.execute(selected).keys())
        for column in section.columns:
            if column not in known:
                near = difflib.get_close_matches(column, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"columns are {', '.join(known)}"
                raise InvalidInput(f"{section.title}: no column {column!r}; {hint}")

    def count(self, section: Section) -> int:
        """Return the number of rows of a section."""
        with self._reading(section.title) as connection:
            return int(connection.execute(self._of(section, sa.func.count())).scalar_one())

    def without_watermark(self, section: Section) -> int:
        """Return the number of rows without a watermark, which cannot be ordered."""
        first: sa.ColumnClause[Any] = sa.column(section.order[0])
        with self._reading(section.title) as connection:
            return int(connection.execute(self._of(section, sa.func.count()).where(first.is_(None))).scalar_one())

    def batches(self, section: Section, after: Sequence[Any] | None, size: int) -> Generator[list[Row]]:
        """Iterate over the rows of a section in its order, in batches.

        Args:
            section: The section.
            after: The values of the columns `order` after which to begin. If there is only the first of them, which is the
                watermark, rows that have this value are included.
            size: The number of rows in a batch.
        """
        order: list[sa.ColumnClause[Any]] = [sa.column(name) for name in section.order]
        selected = self._of(section, *map(sa.column, section.columns)).order_by(*order)
        selected = selected.where(*(column.is_not(None) for column in order))
        if after is not None and len(after) == len(order):
            selected = selected.where(sa.tuple_(*order) > sa.tuple_(*map(sa.literal, after)))
        elif after is not None:
            selected = selected.where(order[0] >= sa.literal(after[0]))
        with self._reading(section.title) as connection:
            options = {"stream_results": True, "yield_per": size}
            for rows in connection.execute(selected, execution_options=options).mappings().partitions(size):
                yield [dict(row) for row in rows]

    def related(self, section: Section, column: str, values: Sequence[Any]) -> list[Row]:
        """Return the rows of a section in which a column has one of these values, in the order of the section."""
        found: list[Row] = []
        order: list[sa.ColumnClause[Any]] = [sa.column(name) for name in section.order]
        with self._reading(section.title) as connection:
            for start in range(0, len(values), _IDS_AT_ONCE):
                part = list(values[start : start + _IDS_AT_ONCE])
                selected = self._of(section, *map(sa.column, section.columns)).where(sa.column(column).in_(part))
                found += [dict(row) for row in connection.execute(selected.order_by(*order)).mappings()]
        return found

    @staticmethod
    def _of(section: Section, *columns: Any) -> Select[Any]:
        if section.query:
            # A colon marks a parameter for SQLAlchemy, and the queries of maps have none.
            escaped = re.sub(":", r"\\:", section.query)
            return sa.select(*columns).select_from(sa.text(f"({escaped}) AS source_rows"))
        schema, _, table = section.table.rpartition(".")
        return sa.select(*columns).select_from(sa.table(table, schema=schema or None))

    @contextmanager
    def _reading(self, where: str) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
            cause = error.orig or error
            words = words_of(cause)[:300]
            lost = error.connection_invalidated or is_unavailable(cause)
            if lost or (isinstance(error, sa.exc.OperationalError) and not _is_refusal(error)):
                raise Unavailable(f"{where}: the source cannot be read: {words}") from error
            raise InvalidInput(f"{where}: the source refused the query: {words}") from error
        except sa.exc.SQLAlchemyError as error:
            raise InvalidInput(f"{where}: {' '.join(str(error).split())[:300]}") from error


def _is_refusal(error: Any) -> bool:
    """Return whether an operational error is about the query. SQLite has no other class for a missing table."""
    return isinstance(error.orig, sqlite3.OperationalError) and "no such" in str(error.orig)


@contextmanager
def open_source(url: str, mapped: ImportMap, folder: Path, summary: Summary) -> Iterator[Source]:
    """Open a source. `folder` is for temporary files. Raises `InvalidInput` and `Unavailable`."""
    if "://" not in url:
        loaded = folder / "source.db"
        load_folder(Path(url), loaded, mapped, summary)
        url = f"sqlite:///{loaded}"
    engine = _open(url)
    try:
        yield Source(engine)
    finally:
        engine.dispose()


def _open(url: str) -> Engine:
    scheme, _, rest = url.partition("://")
    try:
        if scheme == "sqlite":
            return _sqlite(rest.removeprefix("/"))
        if scheme in ("postgresql", "postgres"):
            return open_postgres(url)
        if scheme in ("mysql", "mariadb"):
            return _mysql(rest)
    except ImportError as error:
        raise InvalidInput(f"from: {error.name} is not installed: pip install 'shoal[import]'") from error
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidInput(f"from: this is no URL of a database; expected {_SCHEMES}") from None
    raise InvalidInput(f"from: unknown scheme {scheme!r}; expected {_SCHEMES}")


def _mysql(rest: str) -> Engine:
    limits = {"connect_timeout": _CONNECT_SECONDS, "read_timeout": _STATEMENT_SECONDS, "charset": "utf8mb4"}
    engine = sa.create_engine(f"mysql+pymysql://{rest}", connect_args=limits)
    return engine.execution_options(isolation_level="REPEATABLE READ")


def _sqlite(name: str) -> Engine:
    path = Path(name)
    if not path.is_file():
        raise InvalidInput(f"from: no file {path}")
    location = f"file:{quote(str(path.absolute()))}?mode=ro"
    # Batches are read in several threads, one after the other.
    return sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(location, uri=True, check_same_thread=False))


def load_folder(folder: Path, path: Path, mapped: ImportMap, summary: Summary) -> None:
    """Load the files of a folder into a new SQLite database: `users.csv` becomes the table `users`.

    Rows that cannot be read are rejected. Raises `InvalidInput` if there is no file, or if a table of the map is missing.
    """
    if not folder.is_dir():
        raise InvalidInput(f"from: {folder} is not a folder; expected {_SCHEMES}")
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        plain = file.with_suffix("") if file.suffix == ".gz" else file
        if plain.suffix in (".csv", ".jsonl", ".ndjson") and files.setdefault(plain.stem, file) != file:
            raise InvalidInput(f"from: {files[plain.stem].name} and {file.name} are one table: remove one of them")
    if not files:
        raise InvalidInput(f"from: {folder} has no .csv, .jsonl or .ndjson file")
    tables = {section.table for section in mapped.sections if section.table}
    for table in sorted(tables - files.keys()):
        raise InvalidInput(f"from: {folder} has no file {table}.csv or {table}.jsonl")
    if not any(section.query for section in mapped.sections):
        files = {name: file for name, file in files.items() if name in tables}
    # A number in a CSV file is a text, which would be ordered by its digits.
    ordered = {section.order[0] for section in mapped.sections if section.order != section.key}
    with sqlite3.connect(path) as loaded:
        loaded.execute("PRAGMA journal_mode = OFF")
        loaded.execute("PRAGMA synchronous = OFF")
        for name, file in files.items():
            _load_file(loaded, name, file, ordered, summary)
    loaded.close()


def _load_file(loaded: sqlite3.Connection, name: str, file: Path, ordered: set[str], summary: Summary) -> None:
    columns: list[str] = []
    waiting: list[Row] = []

    def store() -> None:
        if waiting:
            marks = ", ".join("?" * len(columns))
            rows = ([_stored(row.get(column)) for column in columns] for row in waiting)
            loaded.executemany(f"INSERT INTO {_quoted(name)} VALUES ({marks})", rows)  # noqa: S608  # quoted names
            waiting.clear()

    for line in read_lines(file):
        if line.error:
            summary.refuse(name, f"line {line.number}", line.error if file.suffix == ".csv" else "not a JSON object")
            continue
        for column in [column for column in line.row if column not in columns]:
            store()
            if len(columns) >= _MAX_COLUMNS:
                raise InvalidInput(f"from: {file.name} has more than {_MAX_COLUMNS} columns")
            type_ = "NUMERIC" if column in ordered else "BLOB"
            if columns:
                loaded.execute(f"ALTER TABLE {_quoted(name)} ADD COLUMN {_quoted(column)} {type_}")
            else:
                loaded.execute(f"CREATE TABLE {_quoted(name)} ({_quoted(column)} {type_})")
            columns.append(column)
        waiting.append(dict(line.row))
        if len(waiting) >= _LOADED_AT_ONCE:
            store()
    store()
    if not columns:
        raise InvalidInput(f"from: {file.name} has no rows")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _stored(value: Any) -> Any:
    return msgspec.json.encode(value).decode() if isinstance(value, list | dict) else value
