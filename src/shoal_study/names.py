"""Names to study, packed into arrays in batches: from files, from a live network, or generated from a seed.

Column `i` of `words` holds name `i` as UTF-8, four bytes per row, least significant byte first, padded with zeros. The
names `ann` and `frunk` are the columns `(0x006e6e61, 0)` and `(0x6e757266, 0x6b)`.

Files have one name per line or are CSV, plain or gzip, and are read in pieces. Generation is deterministic for a seed,
without duplicates.

Random numbers use the final steps of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
(2014), with the constants of Stafford's variant 13.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import isfinite
from pathlib import Path
from random import Random
from typing import IO, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import InvalidInput
from shoal.core.model import Member
from shoal.graph.contract import Store
from shoal.graph.schema import POSTED

Hashes = NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mixed(numbers: Hashes, seed: int) -> Hashes:
    """Map numbers to pseudo-random numbers; distinct numbers give distinct results for a seed."""
    found = numbers + np.uint64((seed + 1) * _GOLDEN & 0xFFFF_FFFF_FFFF_FFFF)
    found ^= found >> _30
    found *= _FIRST
    found ^= found >> _27
    found *= _SECOND
    found ^= found >> _31
    return found


MOST_BYTES = 1_024
"""Maximum length of a name in bytes; a longer line is an error."""
SHORT_BYTES = 55
"""Bytes that fit into one block of MD5 with padding and length. Longer names are in separate batches."""

Words = NDArray[np.uint32]
Numbers = NDArray[np.int64]
Amounts = NDArray[np.float64]

_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.uint32)
_LINE_END = 10


class NameBatch(NamedTuple):
    """Names in lower case. All arrays have one column per name."""

    words: Words
    """Shape (rows, names), with the rows that the longest name needs."""
    lengths: Numbers
    """Length of each name in bytes: at least 1, or 0 in a batch made of given names."""
    ordinals: Numbers
    """Position of each name in the list, from 0, which is the order of sign-up."""
    activity: Amounts | None = None
    """Activity of each member in any unit; None if the source has none."""

    @property
    def size(self) -> int:
        return len(self.lengths)

    def encoded(self) -> list[bytes]:
        rows = np.ascontiguousarray(self.words.T)
        # NumPy strips trailing zeros, and names contain none.
        found: list[bytes] = rows.view(f"S{rows.shape[1] * 4}").ravel().tolist()
        return found


def batch_of(names: Sequence[str], first: int = 0) -> NameBatch:
    """Return a batch of these names in lower case. A name may be empty. Raises `InvalidInput` for an invalid name."""
    lines = [name.lower().encode() for name in names]
    if any(b"\n" in line or b"\0" in line for line in lines):
        raise InvalidInput("a name must not contain a line break or a zero byte")
    raw = b"".join(line + b"\n" for line in lines)
    starts, lengths = _lines_of(raw)
    return _packed(raw, starts, lengths, np.arange(first, first + len(lengths), dtype=np.int64), None)


def batches_of(raw: bytes, first: int, activity: Amounts | None = None) -> Iterator[NameBatch]:
    """Yield batches of the names in the lines of `raw`, in lower case. Names of at most `SHORT_BYTES` are first.

    Empty lines are skipped. `first` is the position of the first name, and `activity` has a number for each name. Raises
    `InvalidInput` for a line that is not a name.
    """
    if b"\0" in raw:
        raise InvalidInput(f"near name number {first + 1:,}: zero bytes found; expected a text file of names")
    if any(space in raw for space in (b"\r", b"\t", b" ")):
        raw = b"".join(line.strip() + b"\n" for line in raw.split(b"\n"))
    starts, lengths = _lines_of(raw)
    chosen = np.flatnonzero(lengths)
    starts, lengths = starts[chosen], lengths[chosen]
    if len(lengths) and lengths.max() > MOST_BYTES:
        at = first + int(lengths.argmax()) + 1
        raise InvalidInput(f"name number {at:,} has {lengths.max():,} bytes: a name has at most {MOST_BYTES:,}")
    ordinals = np.arange(first, first + len(lengths), dtype=np.int64)
    short = lengths <= SHORT_BYTES
    for some in (short, ~short):
        if some.any():
            yield _packed(
                raw, starts[some], lengths[some], ordinals[some], None if activity is None else activity[some]
            )


def _lines_of(raw: bytes) -> tuple[Numbers, Numbers]:
    ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == _LINE_END)
    starts = np.concatenate((np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1))
    return starts, ends - starts


def _packed(raw: bytes, starts: Numbers, lengths: Numbers, ordinals: Numbers, activity: Amounts | None) -> NameBatch:
    rows = max(1, (int(lengths.max(initial=0)) + 3) // 4)
    text = np.zeros(len(raw) + 4 * rows + 4, np.uint8)
    text[: len(raw)] = np.frombuffer(raw, np.uint8)
    # The four bytes at each position, as a number.
    fours = np.ascontiguousarray(np.ndarray((len(text) - 3,), "<u4", text.data, strides=(1,)))
    words = np.empty((rows, len(lengths)), np.uint32)
    for row in range(rows):
        left = np.clip(lengths - 4 * row, 0, 4)
        # The mask sets all bytes after the end of a name to 0.
        np.bitwise_and(fours.take(starts + 4 * row, mode="clip"), _MASKS.take(left), out=words[row])
    return NameBatch(words, lengths, ordinals, activity)


_PIECE = 1 << 20
_ROWS = 50_000
_GZIP = b"\x1f\x8b"
_NAME_COLUMNS = ("name", "username", "user_name", "login", "acct")
"""Columns of a CSV used for names by default; the first that exists."""

ProgressCallback = Callable[[int, int], None]
"""Called with the bytes read and the size of the file (0 if unknown)."""


class FileOptions(NamedTuple):
    column: str = ""
    """The column of the names; by default one with a usual name, or the only one."""
    weight: str = ""
    """The column of the activity; empty for none."""


def file_batches(path: Path, options: FileOptions, first: int, report: ProgressCallback) -> Iterator[NameBatch]:
    """Yield batches of the names in a file; `-` is standard input. The file is CSV if it ends in .csv or a column is given.

    Raises `OSError`, and `InvalidInput` for a malformed file.
    """
    named = path.name.removesuffix(".gz").lower().endswith(".csv") or bool(options.column or options.weight)
    with _opened(path) as (file, place):
        found = _csv_batches(file, options, first) if named else _line_batches(file, first)
        size = path.stat().st_size if path.is_file() else 0
        try:
            for batch in found:
                yield batch
                report(min(place(), size) if size else place(), size)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path} is not UTF-8: {error.reason}") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidInput(f"{path} is a damaged gzip file: {error}") from error
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    raw = cast("IO[bytes]", sys.stdin.buffer) if str(path) == "-" else path.open("rb")
    with raw:
        counting = _Counting(raw)
        buffered = io.BufferedReader(counting, _PIECE)
        zipped = buffered.peek(2)[:2] == _GZIP
        yield (cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if zipped else buffered), lambda: counting.read_bytes


class _Counting(io.RawIOBase):
    """A stream that counts the bytes read, since a pipe has no position."""

    def __init__(self, inner: IO[bytes]) -> None:
        self._inner = inner
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed's buffers have no length
        got = self._inner.read(len(buffer))
        buffer[: len(got)] = got
        self.read_bytes += len(got)
        return len(got)


def _line_batches(file: BinaryIO, first: int) -> Iterator[NameBatch]:
    count = first
    for lines in _pieces(file):
        try:
            lower = lines.lower() if lines.isascii() else lines.decode().lower().encode()
        except UnicodeDecodeError as error:
            at = count + lines.count(b"\n", 0, error.start) + 1
            raise InvalidInput(f"near line {at:,}: not UTF-8: {error.reason}") from error
        for batch in batches_of(lower, count):
            yield batch
            count += batch.size


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    rest = b""
    while piece := file.read(_PIECE):
        lines, found, after = (rest + piece).rpartition(b"\n")
        if not found and len(after) > _PIECE + MOST_BYTES:
            raise InvalidInput("no line breaks found; expected one name per line")
        rest = after
        if found:
            yield lines + found
    if rest:
        yield rest + b"\n"


def _csv_batches(file: BinaryIO, options: FileOptions, first: int) -> Iterator[NameBatch]:
    rows = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""))
    count = first
    try:
        head = next(rows, [])
        name = _column_of(head, options.column)
        if options.weight and options.weight not in head:
            raise InvalidInput(f"no column {options.weight!r}; columns are {', '.join(head)}")
        found = _read_rows(rows, name, head.index(options.weight) if options.weight else -1)
        while part := list(itertools.islice(found, _ROWS)):
            lines = "".join(name + "\n" for name, _ in part).encode()
            activity = np.array([weight for _, weight in part]) if options.weight else None
            for batch in batches_of(lines, count, activity):
                yield batch
                count += batch.size
    except csv.Error as error:
        raise InvalidInput(f"line {rows.line_num:,}: {error}") from error


def _column_of(head: list[str], requested: str) -> int:
    usual = [name for name in _NAME_COLUMNS if name in head]
    found = requested or (head[0] if len(head) == 1 else usual[0] if usual else "")
    if found and found in head:
        return head.index(found)
    report = f"no column {requested!r}" if requested else "no obvious column of names"
    raise InvalidInput(f"{report}: choose one of the columns with --column: {', '.join(head) or 'none'}")


def _read_rows(rows: Iterable[list[str]], name: int, weight: int) -> Iterator[tuple[str, float]]:
    """Yield names in lower case with their weights. Rows without a name are skipped."""
    for number, row in enumerate(rows, start=2):
        found = " ".join(row[name].split()).lower() if len(row) > name else ""
        if found:
            given = "" if weight < 0 else row[weight] if len(row) > weight else ""
            yield found, _weight(given, number) if weight >= 0 else 0.0


def _weight(text: str, row: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise InvalidInput(f"row {row:,}: {text!r} is not a weight: expected a number of at least 0")
    return value


MOST_NAMES = 10_000_000_000
_NAMES_PER_BATCH = 131_072
_STEMS = 4_096
_STEM_BYTES = 8
_STARTS = ("ma", "an", "jo", "al", "ca", "da", "lu", "sa", "pa", "ro", "mi", "el", "ch", "be", "je", "ka", "li", "di")
_MIDDLES = ("ri", "na", "li", "an", "ro", "ni", "ca", "la", "to", "el", "mi", "do", "sa", "be", "ti", "gu", "xa", "ze")
_ENDS = ("a", "o", "ta", "na", "s", "el", "ito", "y", "in", "ra", "do", "x", "", "n", "e", "lo")


def generated_batches(count: int, seed: int, report: Callable[[int, int], None]) -> Iterator[NameBatch]:
    """Yield batches of `count` unique names in total. `report` is called with the number of names so far and `count`."""
    made = 0
    while made < count:
        # All names of a batch contain numbers with equally many digits, so a batch ends before a power of ten.
        width = len(str(made))
        end = min(count, made + _NAMES_PER_BATCH, 10**width)
        yield _names(made, end, width, seed)
        made = end
        report(made, count)


@lru_cache(maxsize=4)
def _stems(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the word stems from which names are generated, most frequent first: their bytes and lengths."""
    random = Random(seed)  # noqa: S311  # names to be spread, no secret
    parts = (_STARTS, _MIDDLES, _ENDS)
    weights = [[1 / (place + 2) for place in range(len(part))] for part in parts]
    stems = ["".join(random.choices(*pair)[0] for pair in zip(parts, weights, strict=True)) for _ in range(_STEMS)]
    text = np.array([stem.encode() for stem in stems], f"S{_STEM_BYTES}").view(np.uint8).reshape(_STEMS, _STEM_BYTES)
    return text, np.array([len(stem) for stem in stems])


def _names(begin: int, end: int, width: int, seed: int) -> NameBatch:
    ordinals = np.arange(begin, end, dtype=np.int64)
    stems, lengths = _stems(seed)
    chosen = (mixed(ordinals.astype(np.uint64), seed) >> np.uint64(52)).astype(np.int64)
    held = lengths[chosen]
    row = (_STEM_BYTES + width + 3) // 4 * 4
    text = np.zeros((len(ordinals), row), np.uint8)
    text[:, :_STEM_BYTES] = stems[chosen]
    flat = text.reshape(-1)
    at = np.arange(0, len(flat), row) + held + width
    left = ordinals.astype(np.uint64)
    for _ in range(width):
        at -= 1
        left, digit = left // np.uint64(10), left % np.uint64(10)
        flat[at] = digit + ord("0")
    return NameBatch(np.ascontiguousarray(text.view("<u4").T), held + width, ordinals)


_LOWEST_ID = -(2**63)
_PAGE = 2_000
_MEMBERS_PER_BATCH = 20_000


async def network_batches(
    store: Store, first: int, report: Callable[[int, int], None], *, by_posts: bool
) -> AsyncIterator[NameBatch]:
    """Yield batches of the names of all stored members, including suspended and pending ones.

    With `by_posts`, the activity of a member is their number of posts and shares; members without posts and shares are inactive.
    """
    held: list[Member] = []
    read, after = 0, _LOWEST_ID
    while page := await store.obj_scan(after, _PAGE):
        held += (node for node in page if isinstance(node, Member))
        after, read = page[-1].id, read + len(page)
        report(read, 0)
        if len(held) >= _MEMBERS_PER_BATCH:
            yield await _batch(store, held, first, by_posts=by_posts)
            first += len(held)
            held = []
    if held:
        yield await _batch(store, held, first, by_posts=by_posts)


async def _batch(store: Store, members: list[Member], first: int, *, by_posts: bool) -> NameBatch:
    batch = batch_of([member.name for member in members], first)
    if not by_posts:
        return batch
    counts = (await store.assoc_count([member.id for member in members], (POSTED,))).get(POSTED, {})
    return batch._replace(activity=np.array([counts.get(member.id, 0) for member in members], np.float64))
