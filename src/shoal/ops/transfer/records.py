"""Members, follows and posts as other networks write them: rows of CSV or JSON lines (`.gz` too), by named columns.

A column is found by its usual names, or is named (`posts.title=name`). A row that cannot be read is a refusal, not an error:
one bad line of a million stops nothing.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from shoal.core.errors import InvalidInput

Row = Mapping[str, Any]

COLUMNS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "members": {
        "id": ("id", "user_id", "member_id"),
        "name": ("name", "username", "user_name", "login"),
        "display_name": ("display_name", "full_name"),
        "note": ("note", "bio"),
        "created_at": ("created_at", "joined"),
    },
    "follows": {
        "follower": ("follower", "id_1", "source", "from"),
        "followee": ("followee", "id_2", "target", "to"),
        "since": ("since", "followed_at", "created_at"),
    },
    "posts": {
        "id": ("id", "post_id"),
        "author": ("user_id", "author_id", "author", "username"),
        "created_at": ("created_at", "time", "date"),
        "title": ("title", "name"),
        "text": ("text", "description", "content", "body"),
        "tags": ("tags",),
        "sensitive": ("sensitive", "nsfw"),
        "language": ("language", "lang"),
    },
}
"""Per kind of record and field, the names of columns that are tried in turn."""

UNEVEN = "the row has not as many columns as the first one"
_NEEDED = {"members": ("name",), "follows": ("follower", "followee"), "posts": ("id", "author", "created_at")}


class NumberedRow(NamedTuple):
    """A row with its number in the file, or why there is none."""

    number: int
    row: Row
    error: str = ""


class MemberRecord(NamedTuple):
    """A member to be: `id` is what other files call them by."""

    id: str
    name: str
    display_name: str
    note: str
    created_at: int


class PostRecord(NamedTuple):
    """A post to be; `created_at` in Unix milliseconds, which may be before 1970."""

    id: str
    author: str
    created_at: int
    title: str
    text: str
    tags: tuple[str, ...]
    sensitive: bool
    language: str


class Fields:
    """Where in a file's rows the fields of one kind of record are."""

    def __init__(self, kind: str, row: Row, named: Mapping[str, str]) -> None:
        self._column: dict[str, str] = {}
        for field, usual in COLUMNS[kind].items():
            wanted = named.get(f"{kind}.{field}")
            if wanted is not None and wanted not in row:
                raise InvalidInput(f"{kind}: there is no column {wanted!r}, only {', '.join(row)}")
            found = wanted or next((name for name in usual if name in row), None)
            if found is not None:
                self._column[field] = found
            elif field in _NEEDED[kind]:
                raise InvalidInput(f"{kind}: no column for {field}: name it, --column {kind}.{field}=COLUMN")

    def text(self, row: Row, field: str) -> str:
        """The field as a text; what is not there, or null, is ""."""
        value = row.get(self._column.get(field, ""))
        return "" if value is None else str(value)

    def has(self, field: str) -> bool:
        """Whether there is a column for the field."""
        return field in self._column

    def column(self, field: str) -> str:
        """The name of the field's column."""
        return self._column[field]

    def value(self, row: Row, field: str) -> Any:
        """The field as it is."""
        return row.get(self._column.get(field, ""))


def check_columns(named: Mapping[str, str]) -> None:
    """Raise `InvalidInput` for a named column of no kind or field."""
    known = [f"{kind}.{field}" for kind, fields in COLUMNS.items() for field in fields]
    for name in named:
        if name not in known:
            raise InvalidInput(f"there is no field {name!r}; there are {', '.join(known)}")


def member_record(fields: Fields, line: NumberedRow) -> MemberRecord:
    """A row as a member. Without an id column, the name is the id."""
    row = line.row
    typed = fields.text(row, "name").strip()
    moment = fields.value(row, "created_at")
    return MemberRecord(
        id=fields.text(row, "id") or typed,
        name=typed.lower().replace("-", "_"),
        display_name=fields.text(row, "display_name") or typed,
        note=fields.text(row, "note"),
        created_at=moment_of(moment) if moment not in (None, "") else 0,
    )


def post_record(fields: Fields, line: NumberedRow) -> PostRecord:
    """A row as a post. Raises `InvalidInput` for a time that is none."""
    row = line.row
    moment = fields.value(row, "created_at")
    if moment in (None, ""):
        raise InvalidInput("no created_at")
    return PostRecord(
        id=fields.text(row, "id"),
        author=fields.text(row, "author"),
        created_at=moment_of(moment),
        title=fields.text(row, "title"),
        text=fields.text(row, "text"),
        tags=_tags(fields.value(row, "tags")),
        sensitive=fields.text(row, "sensitive").lower() in ("true", "1", "yes"),
        language=fields.text(row, "language"),
    )


def _tags(value: Any) -> tuple[str, ...]:
    """A list, or a text with commas or spaces."""
    if isinstance(value, str):
        return tuple(tag.strip() for tag in value.split("," if "," in value else None) if tag.strip())
    return tuple(map(str, value)) if isinstance(value, list) else ()


def moment_of(value: Any) -> int:
    """Unix milliseconds of an ISO 8601 text (UTC unless it says a zone), or of a number of seconds or milliseconds."""
    try:
        if isinstance(value, str) and not value.lstrip("-").replace(".", "", 1).isdigit():
            moment = datetime.fromisoformat(value.upper())
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        number = float(value)
        # Seconds until the year 5138; whatever is greater is milliseconds. What is not finite cannot be rounded.
        return round(number * 1000 if abs(number) < 1e11 else number)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"the time {value!r} is neither ISO 8601 nor a number") from None


def read_lines(path: Path) -> Iterator[NumberedRow]:
    """The rows of a `.csv`, `.jsonl` or `.ndjson` file, as they come. Raises `OSError`, and `InvalidInput` for other files."""
    is_csv = written_as_csv(path)
    with opened(path) as file:
        yield from _csv_lines(file) if is_csv else _json_lines(file)


def written_as_csv(path: Path) -> bool:
    """Whether a file has rows of CSV rather than JSON. Raises `InvalidInput` for a file of another kind."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix not in (".csv", ".jsonl", ".ndjson"):
        raise InvalidInput(
            f"{path.name}: members, follows and posts are read from .csv, .jsonl and .ndjson files (.gz too)"
        )
    return plain.suffix == ".csv"


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """Open a file of text. Bytes that are no text are shown as such instead of ending the import."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
                yield file
        else:
            with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
                yield file
    except EOFError as error:
        raise InvalidInput(f"{path.name} is cut short") from error


def _csv_lines(file: IO[str]) -> Iterator[NumberedRow]:
    reader = csv.DictReader(file)
    for row in reader:
        if None in row.values() or None in row:
            yield NumberedRow(reader.line_num, {}, UNEVEN)
        else:
            yield NumberedRow(reader.line_num, row)


def _json_lines(file: IO[str]) -> Iterator[NumberedRow]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            yield NumberedRow(number, decoder.decode(text))
        except msgspec.DecodeError as error:
            yield NumberedRow(number, {}, f"the line is not a JSON object: {error}")
