"""Records of an import (members, follows and posts), the ids and texts of posts made from them, and the import's summary.

Rows are CSV or JSON lines (also `.gz`) with named columns. A column is found by its usual names, or by a given name
(`posts.title=name`). A row that cannot be read counts as rejected and does not end the import. The text of a post is
its title, its description and its tags as `#tags`, within the limit.

An id depends only on its record, so a second run computes identical ids. Ids begin in 2024, so the id of an older post
cannot contain its time. Times before 2024 are mapped, in order, into the ten days after the epoch of ids. All times
before 2004 are in the first day. The following twenty years are in the other nine, where a second becomes 1.2
milliseconds, so times a second apart stay in order. A post of 2024 or later has the id of its millisecond. The exact
time is stored in the post (`created_at`).
"""

from __future__ import annotations

import csv
import gzip
import re
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.ids import BACKDATED_UNTIL_MS, EPOCH_MS, SEQUENCE_BITS, compose
from shoal.core.model import DAY_MS
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
"""Names of the column of each field, by kind of record. They are tried in order."""

UNEVEN = "the row has a different number of columns than the header"
csv.field_size_limit(16 * 1024 * 1024)  # the usual limit, 128 KiB, is shorter than long articles
_NEEDED = {"members": ("name",), "follows": ("follower", "followee"), "posts": ("id", "author", "created_at")}


class NumberedRow(NamedTuple):
    number: int
    row: Row
    error: str = ""


class MemberRecord(NamedTuple):
    id: str
    name: str
    display_name: str
    note: str
    created_at: int


class PostRecord(NamedTuple):
    """A post to create. `created_at` is in Unix milliseconds and may be negative."""

    id: str
    author: str
    created_at: int
    title: str
    text: str
    tags: tuple[str, ...]
    sensitive: bool
    language: str


class Fields:
    def __init__(self, kind: str, row: Row, named: Mapping[str, str]) -> None:
        self._column: dict[str, str] = {}
        for field, usual in COLUMNS[kind].items():
            requested = named.get(f"{kind}.{field}")
            if requested is not None and requested not in row:
                raise InvalidInput(f"{kind}: no column {requested!r}; columns are {', '.join(row)}")
            found = requested or next((name for name in usual if name in row), None)
            if found is not None:
                self._column[field] = found
            elif field in _NEEDED[kind]:
                raise InvalidInput(f"{kind}: no column for {field}: name it with --column {kind}.{field}=COLUMN")

    def text(self, row: Row, field: str) -> str:
        """Return the field as text; "" if the field is missing or null."""
        value = row.get(self._column.get(field, ""))
        return "" if value is None else str(value)

    def has(self, field: str) -> bool:
        return field in self._column

    def column(self, field: str) -> str:
        return self._column[field]

    def value(self, row: Row, field: str) -> Any:
        return row.get(self._column.get(field, ""))


def readable_rows(
    kind: str, lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary
) -> Iterator[tuple[Fields, NumberedRow]]:
    """Yield the readable rows, with the column of each field. Unreadable rows are rejected."""
    fields: Fields | None = None
    for line in lines:
        if line.error:
            summary.refuse(kind, f"line {line.number}", line.error)
        else:
            fields = fields or Fields(kind, line.row, named)
            yield fields, line


def check_columns(named: Mapping[str, str]) -> None:
    """Raise `InvalidInput` if `named` contains an unknown kind of record or an unknown field."""
    known = [f"{kind}.{field}" for kind, fields in COLUMNS.items() for field in fields]
    for name in named:
        if name not in known:
            raise InvalidInput(f"no field {name!r}; choose one of {', '.join(known)}")


def member_record(fields: Fields, line: NumberedRow) -> MemberRecord:
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
    """Return a row as a post. Raises `InvalidInput` for an invalid time."""
    row = line.row
    moment = fields.value(row, "created_at")
    if moment in (None, ""):
        raise InvalidInput("created_at is missing")
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
    if isinstance(value, str):
        return tuple(tag.strip() for tag in value.split("," if "," in value else None) if tag.strip())
    return tuple(map(str, value)) if isinstance(value, list) else ()


def moment_of(value: Any) -> int:
    """Return the Unix milliseconds of an ISO 8601 text (UTC without an offset), or of a number of seconds or milliseconds."""
    try:
        if isinstance(value, str) and not value.lstrip("-").replace(".", "", 1).isdigit():
            moment = datetime.fromisoformat(value.upper())
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        number = float(value)
        # A number below 1e11 is in seconds (before the year 5138), and a greater one in milliseconds. A number that is
        # not finite cannot be rounded.
        return round(number * 1000 if abs(number) < 1e11 else number)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"the time {value!r} is neither ISO 8601 nor a number") from None


def read_lines(path: Path) -> Iterator[NumberedRow]:
    """Iterate over the rows of a `.csv`, `.jsonl` or `.ndjson` file. Raises `OSError`, and `InvalidInput` for another format."""
    is_csv = written_as_csv(path)
    with opened(path) as file:
        yield from _csv_lines(file) if is_csv else _json_lines(file)


def written_as_csv(path: Path) -> bool:
    """Return whether a file contains CSV; if not, it contains JSON. Raises `InvalidInput` for another format."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix not in (".csv", ".jsonl", ".ndjson"):
        raise InvalidInput(f"{path.name}: unsupported file type; use .csv, .jsonl or .ndjson, optionally with .gz")
    return plain.suffix == ".csv"


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """Open a text file. Invalid bytes are replaced, so that they do not end the import."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
                yield file
        else:
            with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
                yield file
    except EOFError as error:
        raise InvalidInput(f"{path.name} is truncated") from error


def _csv_lines(file: IO[str]) -> Iterator[NumberedRow]:
    reader = csv.DictReader(file)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if reader.line_num <= 1:
                raise InvalidInput(f"the header cannot be read: {error}") from error
            yield NumberedRow(reader.line_num, {}, f"the row cannot be read: {error}")
            continue
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
        except (msgspec.DecodeError, RecursionError) as error:
            yield NumberedRow(number, {}, f"the line is not a JSON object: {error}")


EXAMPLES = 5
_MAX_REASONS = 500
"""Maximum number of reasons of a kind that are counted apart."""
_OTHER_REASONS = "other reasons"


class Reason(msgspec.Struct):
    count: int = 0
    examples: list[str] = msgspec.field(default_factory=list)


class RecordCounts(msgspec.Struct):
    taken: int = 0
    there: int = 0
    changed: int = 0
    """Existing objects that were changed, because their records have changed since the last import."""
    deleted: int = 0
    refused: dict[str, Reason] = msgspec.field(default_factory=dict)

    @property
    def refusals(self) -> int:
        return sum(reason.count for reason in self.refused.values())


class ImportReport(msgspec.Struct):
    # This field is named `tallies` for servers of version 0.2.
    counts: dict[str, RecordCounts] = msgspec.field(name="tallies")
    notes: list[tuple[int, str, str]]
    """Kinds of changes made to records: the number of changes, and a description in singular and in plural."""
    seconds: float
    way: str = ""
    """Whether the import ran in bulk or one by one, with the reason."""
    phases: dict[str, float] = {}


def printable(text: str) -> str:
    """Return a text for a terminal, which would obey control characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


class Summary:
    """The counts of an import. Every rejection may also be written to a file, as a JSON line with kind, record and reason."""

    def __init__(self, refusals: IO[bytes] | None = None) -> None:
        self.counts: dict[str, RecordCounts] = {}
        self.way = ""
        """Whether the import runs in bulk or one by one, with the reason."""
        self.seconds: dict[str, float] = {}
        self.notes: dict[tuple[str, str], int] = {}
        """Number of changes made to records, by the description in singular and in plural."""
        self._refusals = refusals

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[phase] = time.monotonic() - began

    def __getitem__(self, kind: str) -> RecordCounts:
        return self.counts.setdefault(kind, RecordCounts())

    def report(self) -> ImportReport:
        notes = [(count, one, many) for (one, many), count in self.notes.items()]
        return ImportReport(self.counts, notes, sum(self.seconds.values()), self.way, self.seconds)

    def refuse(self, kind: str, record: str, reason: str) -> None:
        refused, counted = self[kind].refused, printable(reason)
        if counted not in refused and len(refused) >= _MAX_REASONS:
            counted = _OTHER_REASONS
        found = refused.setdefault(counted, Reason())
        found.count += 1
        if len(found.examples) < EXAMPLES:
            found.examples.append(printable(record))
        if self._refusals is not None:
            line = {"kind": kind, "record": record, "reason": reason}
            self._refusals.write(msgspec.json.encode(line) + b"\n")

    def note(self, one: str, many: str) -> None:
        """Count a change. The report shows `one` or `many` after the number, as in "1 text was cut" and "2 texts were cut"."""
        self.notes[one, many] = self.notes.get((one, many), 0) + 1


DAYS = (BACKDATED_UNTIL_MS - EPOCH_MS) // DAY_MS

TICKS = 1 << SEQUENCE_BITS
"""Ticks per millisecond: the number of ids that a shard has in a millisecond."""
_MIDDLE_MS = 1_072_915_200_000
"""2004-01-01T00:00:00Z in Unix milliseconds."""


def ticks_of(moment: int) -> int:
    """Return a time (Unix ms) in ticks (1,024 per ms) since the id epoch.

    A time before the epoch is mapped into the ten days after it.
    """
    if moment >= EPOCH_MS:
        # A time before the epoch is mapped into the first ten days of 2024, so ticks may collide. `OrderedIds` and
        # `BackdatedIds` make the ids distinct.
        return (moment - EPOCH_MS) * TICKS
    if moment < _MIDDLE_MS:
        return max(0, moment) * DAY_MS * TICKS // _MIDDLE_MS
    return DAY_MS * TICKS + (moment - _MIDDLE_MS) * (DAYS - 1) * DAY_MS * TICKS // (EPOCH_MS - _MIDDLE_MS)


class OrderedIds:
    """Distinct ids on one shard, for times in ascending order, in constant time each."""

    def __init__(self, shard: int) -> None:
        self._shard = shard
        self._last = -1
        self._newer = False
        # `_older`: the ids that were given to times before the epoch, in ticks and ascending. `ticks_of` maps these
        # times into the ten days after the epoch, so ids for times in these days must differ from the ids in `_older`.
        # `_behind`: the number of ids in `_older` up to `_last`.
        self._older = array("q")
        self._behind = 0

    def take(self, moment: int) -> int:
        """Return an id for `moment`, which must not be earlier than in the previous call."""
        if moment >= EPOCH_MS and not self._newer:
            self._newer, self._last = True, -1
        return self._next(max(ticks_of(moment), self._last + 1))

    def after(self) -> int:
        """Return an id directly after the id returned last, for a photo of the same post, or a comment with more photos."""
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
    """Distinct ids for times in any order. If the id of a time and shard is used, the next unused id is taken."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def take(self, moment: int, shard: int) -> int:
        return self._next(ticks_of(moment), shard)

    def after(self, id_: int, shard: int) -> int:
        """Return the next unused id after `id_` on a shard. It is for a post's picture, or for a post whose own id is used."""
        ticks = ((id_ >> (SEQUENCE_BITS + 13)) << SEQUENCE_BITS) + id_ % TICKS
        return self._next(ticks + 1, shard)

    def _next(self, ticks: int, shard: int) -> int:
        while (id_ := compose(EPOCH_MS + ticks // TICKS, shard, ticks % TICKS)) in self._given:
            ticks += 1
        self._given.add(id_)
        return id_


_PIECES = re.compile(r"\s+|\S+")


class Wording(NamedTuple):
    """The text of an imported post, its rejected tags, and the number of accepted ones.

    `cut` is true if the text was too long, and `cleaned` if `as_text` removed characters.
    """

    text: str
    refused_tags: list[tuple[str, str]]
    tags: int
    cut: bool
    cleaned: bool


def worded(record: PostRecord, limit: int) -> Wording:
    """Return the text of a record followed by its tags. If they exceed `limit` (a post's length), shorten the text."""
    typed = "\n\n".join(part for part in (record.title.strip(), record.text.strip()) if part)
    ended = with_line_ends(typed)
    body = as_text(ended)
    tags, refused = _tags_within(record.tags, limit // 2)
    space_left = limit - len(tags) - 2 if tags else limit
    shortened = cut(body, space_left)
    text = "\n\n".join(part for part in (shortened, tags) if part)
    return Wording(text, refused, len(record.tags) - len(refused), shortened != body, body != ended)


def _tags_within(names: tuple[str, ...], space_left: int) -> tuple[str, list[tuple[str, str]]]:
    taken: dict[str, str] = {}
    refused: list[tuple[str, str]] = []
    for name in names:
        try:
            canonical = check_tag(name)
        except InvalidInput as error:
            refused.append((name, str(error)))
            continue
        if sum(map(len, taken.values())) + 2 * len(taken) + len(name) + 2 > space_left:
            refused.append((name, "half of the post is tags already"))
        else:
            taken.setdefault(canonical, name.removeprefix("#"))
    return " ".join(f"#{name}" for name in taken.values()), refused


def cut(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters. A longer text is cut after a whole word and ends with an ellipsis."""
    if text_length(text) <= limit:
        return text
    # No link, mention or tag contains a space, so the length of a text is the sum of its words and spaces.
    space_left, end = limit - 1, 0
    for piece in _PIECES.finditer(text):
        space_left -= text_length(piece[0])
        if space_left < 0:
            break
        end = piece.end()
    if head := text[:end].rstrip():
        return head + "…"
    head = text.lstrip()[: limit - 1]
    # A link may count as more characters than it has.
    while head and (over := text_length(head) + 1 - limit) > 0:
        head = head[:-over]
    return head + "…"
