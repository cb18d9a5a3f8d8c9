"""Names in files: a line each, or a column of a CSV, plain or gzip, read a piece at a time however long the file is."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, cast

import numpy as np

from shoal.core.errors import InvalidInput
from shoal.study.names.batch import MOST_BYTES, NameBatch, batches_of

_PIECE = 1 << 20
_ROWS = 50_000
_GZIP = b"\x1f\x8b"
_NAME_COLUMNS = ("name", "username", "user_name", "login", "acct")
"""Columns of a CSV that are taken for the names where none is named, the first that is there."""

Told = Callable[[int, int], None]
"""Called with the bytes of the file that were read, and how many it has (0: not known)."""


class FileOptions(NamedTuple):
    """Which columns of a CSV are read."""

    column: str = ""
    """The column of the names; empty: one with a usual name, or the only one."""
    weight: str = ""
    """The column that says how active a member is; empty: none does."""


def file_batches(path: Path, options: FileOptions, first: int, told: Told) -> Iterator[NameBatch]:
    """Yield the names in a file; `-` is standard input. A file whose name ends in .csv, or of which a column is named, is a CSV.

    Raises `OSError`, and `InvalidInput` where the file is not what it should be.
    """
    named = path.name.removesuffix(".gz").lower().endswith(".csv") or bool(options.column or options.weight)
    with _opened(path) as (file, place):
        found = _csv_batches(file, options, first) if named else _line_batches(file, first)
        size = path.stat().st_size if path.is_file() else 0
        try:
            for batch in found:
                yield batch
                told(min(place(), size) if size else place(), size)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path} is not UTF-8: {error.reason}") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidInput(f"{path} is a damaged gzip file: {error}") from error
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """A file, unpacked if it is gzip, and how far it was read."""
    raw = cast("IO[bytes]", sys.stdin.buffer) if str(path) == "-" else path.open("rb")
    with raw:
        counting = _Counting(raw)
        buffered = io.BufferedReader(counting, _PIECE)
        zipped = buffered.peek(2)[:2] == _GZIP
        yield (cast("BinaryIO", gzip.GzipFile(fileobj=buffered)) if zipped else buffered), lambda: counting.read_bytes


class _Counting(io.RawIOBase):
    """A stream that knows how much of it was read: a pipe has no position."""

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
            raise InvalidInput(f"about line {at:,} is not UTF-8: {error.reason}") from error
        for batch in batches_of(lower, count):
            yield batch
            count += batch.size


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines, about a mebibyte at a time, each piece with a line break at its end."""
    rest = b""
    while piece := file.read(_PIECE):
        lines, found, after = (rest + piece).rpartition(b"\n")
        if not found and len(after) > _PIECE + MOST_BYTES:
            raise InvalidInput("there are no lines: is it a list of names?")
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
        found = _read_rows(rows, _column_of(head, options.column), _weight_column(head, options.weight))
        while part := list(itertools.islice(found, _ROWS)):
            lines = "".join(name + "\n" for name, _ in part).encode()
            activity = np.array([weight for _, weight in part]) if options.weight else None
            for batch in batches_of(lines, count, activity):
                yield batch
                count += batch.size
    except csv.Error as error:
        raise InvalidInput(f"line {rows.line_num:,}: {error}") from error


def _column_of(head: list[str], wanted: str) -> int:
    """Return the place of the column of names. Raises `InvalidInput` when it cannot be told."""
    usual = [name for name in _NAME_COLUMNS if name in head]
    found = wanted or (head[0] if len(head) == 1 else usual[0] if usual else "")
    if found and found in head:
        return head.index(found)
    told = f"no column {wanted!r}" if wanted else "no column that is surely the names"
    raise InvalidInput(f"there is {told}: --column names one of {', '.join(head) or 'no columns'}")


def _weight_column(head: list[str], wanted: str) -> int:
    """Return the place of the column of weights, or -1 where none is wanted."""
    if wanted and wanted not in head:
        raise InvalidInput(f"there is no column {wanted!r}, only {', '.join(head)}")
    return head.index(wanted) if wanted else -1


def _read_rows(rows: Iterable[list[str]], name: int, weight: int) -> Iterator[tuple[str, float]]:
    """Yield names in lower case, each with its weight. A row without a name is left out."""
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
        raise InvalidInput(f"row {row:,}: {text!r} is no weight: a number from 0 on is wanted")
    return value
