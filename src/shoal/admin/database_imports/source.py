"""Sources of a mapped import: SQL databases through SQLAlchemy, and folders of CSV and JSONL files.

A source is only read. The rows of a section are streamed in the order of its key, in one read-only transaction, so memory does not
grow with the table. A folder is loaded into a temporary SQLite database, so that queries and watermarks work as on a database.
"""

from __future__ import annotations

import csv
import difflib
import re
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy import Connection, Engine, Select

from shoal.admin.database_imports.maps import ImportMap, Section
from shoal.admin.database_imports.pg8000_source import is_unavailable, open_postgres, words_of
from shoal.admin.imports.records import Summary, opened, read_lines, written_as_csv
from shoal.core.errors import InvalidInput, Unavailable

Row = dict[str, Any]

_SCHEMES = "postgresql://, mysql:// or sqlite:/// followed by the path of a file, or a folder of CSV and JSONL files"
_CONNECT_SECONDS = 10
_STATEMENT_SECONDS = 600
_MYSQL_OPTIONS = ("SET SESSION TRANSACTION READ ONLY", "SET SESSION net_write_timeout = 3600")
"""MySQL ends a connection from which nothing is read for a minute, and the import of a batch with photos may take longer."""
_MAX_INTEGER = 2**63
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
            # As it has parameters, PostgreSQL refuses several statements, which could end the read-only transaction.
            selected = self._of(section, sa.text("*")).where(sa.literal(1) == sa.literal(0))
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

    def without_order(self, section: Section) -> dict[str, int]:
        """Return the number of rows that have no place in the order of rows, by the first of its columns that is null."""
        order: list[sa.ColumnClause[Any]] = [sa.column(name) for name in section.order]
        found: dict[str, int] = {}
        with self._reading(section.title) as connection:
            for at, column in enumerate(order):
                lacking = self._of(section, sa.func.count()).where(column.is_(None))
                lacking = lacking.where(*(before.is_not(None) for before in order[:at]))
                if count := int(connection.execute(lacking).scalar_one()):
                    found[column.name] = count
        return found

    def batches(
        self, section: Section, after: Sequence[Any] | None, size: int, *, inclusive: bool = False
    ) -> Generator[list[Row]]:
        """Iterate over the rows of a section in its order, in batches.

        Args:
            section: The section.
            after: The values of the columns `order` after which to begin.
            size: The number of rows in a batch.
            inclusive: Whether `after` is only the value of the first column, and rows that have this value are included.
        """
        order: list[sa.ColumnClause[Any]] = [sa.column(name) for name in section.order]
        selected = self._of(section, *map(sa.column, section.columns)).order_by(*order)
        selected = selected.where(*(column.is_not(None) for column in order))
        if after and inclusive:
            selected = selected.where(order[0] >= _bound(after[0]))
        elif after:
            selected = selected.where(sa.tuple_(*order) > sa.tuple_(*map(_bound, after)))
        with self._reading(section.title) as connection:
            options = {"stream_results": True, "yield_per": size}
            with connection.execute(selected, execution_options=options) as result:
                names = list(result.keys())
                for rows in result.partitions(size):
                    yield [dict(zip(names, row, strict=True)) for row in rows]

    def related(self, section: Section, column: str, values: Sequence[Any]) -> list[Row]:
        """Return the rows of a section in which a column has one of these values, in the order of the section."""
        found: list[Row] = []
        order: list[sa.ColumnClause[Any]] = [sa.column(name) for name in section.order]
        if self._engine.dialect.name == "sqlite":
            # Columns without a type, as those of a folder, may have a number in one table as a text in another.
            values = [*values, *(str(value) for value in values if isinstance(value, int))]
        with self._reading(section.title) as connection:
            for start in range(0, len(values), _IDS_AT_ONCE):
                part = [_bound(value) for value in values[start : start + _IDS_AT_ONCE]]
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
        # The errors of SQLAlchemy repeat the query with its values, so they are not given as causes.
        try:
            with self._connected() as connection:
                yield connection
        except sa.exc.DBAPIError as error:
            cause = error.orig or error
            words = words_of(cause)[:300]
            lost = error.connection_invalidated or is_unavailable(cause)
            if lost or (isinstance(error, sa.exc.OperationalError) and not _is_refusal(error)):
                raise Unavailable(f"{where}: the source cannot be read: {words}") from None
            raise InvalidInput(f"{where}: the source refused the query: {words}") from None
        except sa.exc.SQLAlchemyError as error:
            raise InvalidInput(f"{where}: {' '.join(str(error).split())[:300]}") from None

    def _connected(self) -> Connection:
        try:
            return self._engine.connect()
        except (TypeError, ValueError) as error:
            # PyMySQL passes the options of a URL to a function.
            raise InvalidInput(f"from: the URL has an invalid option: {error}") from None


def _bound(value: Any) -> sa.BindParameter[Any]:
    """Return a parameter for a value of a row. Its type is one that fits all values: PostgreSQL converts parameters to it."""
    if isinstance(value, int):
        return sa.literal(value, sa.BigInteger() if -_MAX_INTEGER <= value < _MAX_INTEGER else sa.Numeric())
    return sa.literal(value)


def _is_refusal(error: Any) -> bool:
    """Return whether an operational error is about the query. SQLite has no other class for a missing table."""
    return isinstance(error.orig, sqlite3.OperationalError) and "no such" in str(error.orig)


@contextmanager
def open_source(url: str, mapped: ImportMap, folder: Path, summary: Summary) -> Iterator[Source]:
    """Open a source. `folder` is for temporary files. Raises `InvalidInput` and `Unavailable`."""
    if "://" not in url:
        if "@" in url and not Path(url).exists():
            raise InvalidInput(f"from: neither a folder nor a URL; expected {_SCHEMES}")
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
    scheme = scheme.lower()
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
    if "@" in (engine.url.host or ""):
        # The host is the end of the password, which a message about the host would show.
        raise InvalidInput("from: write @ as %40 in the user name and password of the URL")
    sa.event.listen(engine, "connect", _set_mysql_options)
    return engine.execution_options(isolation_level="REPEATABLE READ")


def _sqlite(name: str) -> Engine:
    path = Path(name)
    if not path.is_file():
        raise InvalidInput(f"from: no file {path}")
    location = f"file:{quote(str(path.absolute()))}?mode=ro"

    def connect() -> sqlite3.Connection:
        # Batches are read in several threads, one after the other.
        connection = sqlite3.connect(location, uri=True, check_same_thread=False)
        connection.text_factory = lambda data: data.decode(errors="replace")
        return connection

    # The usual pool has a connection for each thread, and closes those of other threads when there are many.
    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)


def _set_mysql_options(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        for statement in _MYSQL_OPTIONS:
            cursor.execute(statement)


def load_folder(folder: Path, path: Path, mapped: ImportMap, summary: Summary) -> None:
    """Load the files of a folder into a new SQLite database: `users.csv` becomes the table `users`.

    Rows that cannot be read are rejected. Raises `InvalidInput` if there is no file, or if a table of the map is missing.
    """
    if not folder.is_dir():
        raise InvalidInput(f"from: {folder} is not a folder; expected {_SCHEMES}")
    files: dict[str, Path] = {}
    folded: dict[bytes, Path] = {}
    for file in sorted(folder.iterdir()):
        plain = file.with_suffix("") if file.suffix == ".gz" else file
        if plain.suffix not in (".csv", ".jsonl", ".ndjson"):
            continue
        files[plain.stem] = file
        if (first := folded.setdefault(_folded(plain.stem), file)) != file:
            raise InvalidInput(f"from: {first.name} and {file.name} are one table: remove one of them")
    if not files:
        raise InvalidInput(f"from: {folder} has no .csv, .jsonl or .ndjson file")
    tables = {section.table for section in mapped.sections if section.table}
    for table in sorted(tables - files.keys()):
        raise InvalidInput(f"from: {folder} has no file {table}.csv or {table}.jsonl")
    if not any(section.query for section in mapped.sections):
        files = {name: file for name, file in files.items() if name in tables}
    # A number in a CSV file is a text, which would be ordered by its digits.
    ordered = {section.order[0] for section in mapped.sections if section.watermark or section.order != section.key}
    with closing(sqlite3.connect(path)) as loaded, loaded:
        loaded.execute("PRAGMA journal_mode = OFF")
        loaded.execute("PRAGMA synchronous = OFF")
        for name, file in files.items():
            expected = (column for section in mapped.sections if section.table == name for column in section.columns)
            try:
                _load_file(_Table(loaded, file, name, ordered), name, file, expected, summary)
            except sqlite3.Error as error:
                raise InvalidInput(f"from: {file.name} cannot be loaded: {error}") from error


class _Table:
    """A table that is loaded from a file. Columns are added when a row has them."""

    def __init__(self, loaded: sqlite3.Connection, file: Path, name: str, ordered: set[str]) -> None:
        self._loaded, self._file, self._name, self._ordered = loaded, file, name, ordered
        self.columns: list[str] = []
        self._seen: set[str] = set()
        self._folded: set[bytes] = set()
        self._waiting: list[Row] = []

    def add(self, row: Row) -> None:
        self.add_columns(row)
        self._waiting.append(row)
        if len(self._waiting) >= _LOADED_AT_ONCE:
            self.store()

    def add_columns(self, names: Iterable[str]) -> None:
        for column in [name for name in names if name not in self._seen]:
            self._seen.add(column)
            # Of columns whose names differ in case only, the first is loaded, because SQLite does not distinguish them.
            if "\0" not in column and _folded(column) not in self._folded:
                self._folded.add(_folded(column))
                self._add_column(column)

    def _add_column(self, column: str) -> None:
        self.store()
        if len(self.columns) >= _MAX_COLUMNS:
            raise InvalidInput(f"from: {self._file.name} has more than {_MAX_COLUMNS} columns")
        type_ = "NUMERIC" if column in self._ordered else "BLOB"
        if self.columns:
            self._loaded.execute(f"ALTER TABLE {_quoted(self._name)} ADD COLUMN {_quoted(column)} {type_}")
        else:
            self._loaded.execute(f"CREATE TABLE {_quoted(self._name)} ({_quoted(column)} {type_})")
        self.columns.append(column)

    def store(self) -> None:
        if self._waiting:
            marks = ", ".join("?" * len(self.columns))
            rows = ([_stored(row.get(column)) for column in self.columns] for row in self._waiting)
            self._loaded.executemany(f"INSERT INTO {_quoted(self._name)} VALUES ({marks})", rows)  # noqa: S608  # quoted names
            self._waiting.clear()


def _load_file(table: _Table, name: str, file: Path, expected: Iterable[str], summary: Summary) -> None:
    for line in read_lines(file):
        if line.error:
            summary.refuse(name, f"line {line.number}", line.error if written_as_csv(file) else "not a JSON object")
        else:
            table.add(dict(line.row))
    table.store()
    if not table.columns:
        table.add_columns((*_header(file), *expected))
    if not table.columns:
        raise InvalidInput(f"from: {file.name} is empty")


def _header(file: Path) -> list[str]:
    """Return the columns of a file without rows."""
    if not written_as_csv(file):
        return []
    with opened(file) as lines:
        return next(csv.reader(lines), [])


def _folded(name: str) -> bytes:
    """Return a name as SQLite compares it: without the difference of upper and lower case of ASCII letters."""
    return name.encode(errors="surrogatepass").lower()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _stored(value: Any) -> Any:
    if isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        return str(value)
    return msgspec.json.encode(value).decode() if isinstance(value, list | dict) else value
