"""Records of an import (members, follows and posts), the ids and texts of posts made from them, and the import's summary.

Rows are CSV or JSON lines (`.gz` too), with named columns. A column is found by its usual names, or is named
(`posts.title=name`). A row that cannot be read is counted as refused and is not an error: one bad line of a million stops
nothing. The text of a post is its title, its description and its tags as `#tags`, within the limit.

Ids depend only on the record, so a second run makes the same ids. Ids begin in 2024, so the id of an older post cannot
carry its time. Times before 2024 are mapped, in order, into the ten days after the epoch: all times before 2004 into the
first day, and the twenty years since into the other nine, where a second becomes 1.2 milliseconds. So times a second apart
keep their order across authors. A post of 2024 or later has the id of its millisecond. The exact time is stored in the post
(`created_at`).
"""

from __future__ import annotations

import csv
import gzip
import re
import time
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.ids import BACKDATED_UNTIL_MS, EPOCH_MS, SEQUENCE_BITS, compose
from shoal.core.text import as_text, check_tag, text_length, with_line_ends

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
        tags=_parsed_tags(fields.value(row, "tags")),
        sensitive=fields.text(row, "sensitive").lower() in ("true", "1", "yes"),
        language=fields.text(row, "language"),
    )


def _parsed_tags(value: Any) -> tuple[str, ...]:
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


EXAMPLES = 5


class Reason(msgspec.Struct):
    """How many were refused for one reason, and the first few."""

    count: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class RecordCounts(msgspec.Struct):
    """The records of one kind."""

    taken: int = 0
    there: int = 0
    refused: dict[str, Reason] = msgspec.field(default_factory=dict)

    @property
    def refusals(self) -> int:
        """How many were refused in all."""
        return sum(reason.count for reason in self.refused.values())


class ImportReport(msgspec.Struct):
    """The result of a finished import."""

    tallies: dict[str, RecordCounts]
    """By kind of record."""
    notes: list[tuple[int, str, str]]
    """How often something was changed on the way in, and what it was, in words for one and for many."""
    seconds: float
    way: str = ""
    """How it went, and why: in bulk, or one by one."""
    phases: dict[str, float] = {}
    """How many seconds each phase took."""


class Summary:
    """Counts, and a file that takes every refusal in full: JSON lines of kind, record and reason."""

    def __init__(self, refusals: IO[bytes] | None = None) -> None:
        self.tallies: dict[str, RecordCounts] = {}
        self.way = ""
        """How it goes, and why: in bulk, or one by one."""
        self.seconds: dict[str, float] = {}
        """How long each phase took."""
        self.notes: dict[tuple[str, str], int] = {}
        """Changes made to records on the way in, in words for one and for many, and how often."""
        self._refusals = refusals

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Note how long the block takes."""
        began = time.monotonic()
        yield
        self.seconds[phase] = time.monotonic() - began

    def __getitem__(self, kind: str) -> RecordCounts:
        return self.tallies.setdefault(kind, RecordCounts())

    def report(self) -> ImportReport:
        """The counts, as they are told."""
        notes = [(count, one, many) for (one, many), count in self.notes.items()]
        return ImportReport(self.tallies, notes, sum(self.seconds.values()), self.way, self.seconds)

    def refuse(self, kind: str, record: str, reason: str) -> None:
        """One record is not taken."""
        found = self[kind].refused.setdefault(reason, Reason())
        found.count += 1
        if len(found.examples) < EXAMPLES:
            found.examples.append(record)
        if self._refusals is not None:
            line = {"kind": kind, "record": record, "reason": reason}
            self._refusals.write(msgspec.json.encode(line) + b"\n")

    def note(self, one: str, many: str) -> None:
        """Something was changed: `one` and `many` go on after the number, as in "text was cut" and "texts were cut"."""
        self.notes[one, many] = self.notes.get((one, many), 0) + 1


DAY_MS = 86_400_000
DAYS = (BACKDATED_UNTIL_MS - EPOCH_MS) // DAY_MS

TICKS = 1 << SEQUENCE_BITS
"""Ticks of a millisecond: as many as an id tells apart."""
_FIRST_MS = 0
_MIDDLE_MS = 1_072_915_200_000
"""2004-01-01T00:00:00Z."""


def ticks_of(moment: int) -> int:
    """A moment (Unix milliseconds) as milliseconds since the epoch times 1,024; it grows with the moment."""
    if moment >= EPOCH_MS:
        # The ten days are also the first days of 2024, and may be shared: ids are told apart below.
        return (moment - EPOCH_MS) * TICKS
    if moment < _MIDDLE_MS:
        share = max(moment, _FIRST_MS) - _FIRST_MS
        return share * DAY_MS * TICKS // (_MIDDLE_MS - _FIRST_MS)
    return DAY_MS * TICKS + (moment - _MIDDLE_MS) * (DAYS - 1) * DAY_MS * TICKS // (EPOCH_MS - _MIDDLE_MS)


class OrderedIds:
    """Gives out the ids of `BackdatedIds` to moments that come in order, on one shard, in a step for each."""

    def __init__(self, shard: int) -> None:
        self._shard = shard
        self._last = -1
        self._newer = False
        # Ticks given to moments before the epoch, which those of the first days after it may meet, and how many are behind.
        self._older = array("q")
        self._behind = 0

    def take(self, moment: int) -> int:
        """Return an id for a moment that is not before those given already."""
        if moment >= EPOCH_MS and not self._newer:
            self._newer, self._last = True, -1
        return self._next(max(ticks_of(moment), self._last + 1))

    def after(self) -> int:
        """Return the next id: of a photo, or of a further part."""
        return self._next(self._last + 1)

    def _next(self, ticks: int) -> int:
        if not self._newer:
            self._older.append(ticks)
        else:
            while self._behind < len(self._older) and self._older[self._behind] <= ticks:
                ticks += self._older[self._behind] == ticks
                self._behind += 1
        self._last = ticks
        return compose(EPOCH_MS + ticks // TICKS, self._shard, ticks % TICKS)


class BackdatedIds:
    """Gives out ids, each once; of two records at the same moment on the same shard the second takes the next."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def take(self, moment: int, shard: int) -> int:
        """An id for a moment on a shard."""
        return self._next(ticks_of(moment), shard)

    def after(self, id_: int, shard: int) -> int:
        """The next free id on the shard: of a picture, or when an id turns out to be taken."""
        ticks = ((id_ >> (SEQUENCE_BITS + 13)) << SEQUENCE_BITS) + id_ % TICKS
        return self._next(ticks + 1, shard)

    def _next(self, ticks: int, shard: int) -> int:
        while (id_ := compose(EPOCH_MS + ticks // TICKS, shard, ticks % TICKS)) in self._given:
            ticks += 1
        self._given.add(id_)
        return id_


_PIECES = re.compile(r"\s+|\S+")


class Wording(NamedTuple):
    """A text, the tags that it could not take with the reason, and what was done to it."""

    text: str
    refused_tags: list[tuple[str, str]]
    tags: int
    cut: bool
    cleaned: bool


def worded(record: PostRecord, limit: int) -> Wording:
    """The text of a record, at most `limit` characters as posts count them. Tags stay whole; the words before them are cut."""
    typed = "\n\n".join(part for part in (record.title.strip(), record.text.strip()) if part)
    ended = with_line_ends(typed)
    body = as_text(ended)
    tags, refused = _tags_within(record.tags, limit // 2)
    room = limit - len(tags) - 2 if tags else limit
    kept = cut(body, room)
    text = "\n\n".join(part for part in (kept, tags) if part)
    return Wording(text, refused, len(record.tags) - len(refused), kept != body, body != ended)


def _tags_within(names: tuple[str, ...], room: int) -> tuple[str, list[tuple[str, str]]]:
    taken: dict[str, str] = {}
    refused: list[tuple[str, str]] = []
    for name in names:
        try:
            canonical = check_tag(name)
        except InvalidInput as error:
            refused.append((name, str(error)))
            continue
        if sum(map(len, taken.values())) + 2 * len(taken) + len(name) + 2 > room:
            refused.append((name, "half of the post is tags already"))
        else:
            taken.setdefault(canonical, name.removeprefix("#"))
    return " ".join(f"#{name}" for name in taken.values()), refused


def cut(text: str, limit: int) -> str:
    """The text if it fits, else as many whole words of it as do, and an ellipsis."""
    if text_length(text) <= limit:
        return text
    # No link, mention or tag contains a space, so the length of a text is the sum over its words and spaces.
    room, end = limit - 1, 0
    for piece in _PIECES.finditer(text):
        room -= text_length(piece[0])
        if room < 0:
            break
        end = piece.end()
    if head := text[:end].rstrip():
        return head + "…"
    head = text.lstrip()[: limit - 1]
    # A link may count for more than it is long.
    while head and (over := text_length(head) + 1 - limit) > 0:
        head = head[:-over]
    return head + "…"
