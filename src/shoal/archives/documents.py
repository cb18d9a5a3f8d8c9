"""JSON documents of an archive, read one item at a time: a list of a hundred thousand posts takes the memory of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import ijson
import msgspec

from shoal.archives.entries import Readable
from shoal.core.errors import InvalidInput, TooLarge

T = TypeVar("T")

MAX_ITEM = 4 << 20
"""Bytes of one item, and of what stands between two."""
MAX_DEPTH = 64
"""Levels of a document."""
_MAX_PREFIX = 200
_PIECE = 1 << 16
_OPENS = frozenset({"start_map", "start_array"})
_CLOSES = frozenset({"end_map", "end_array"})


def items(file: Readable, name: str, type: type[T]) -> Iterator[T | None]:  # noqa: A002 (msgspec.convert's own word)
    """Yield the items of the list of this `name` in a document, or of the document itself (""); None for those of another type.

    Raises `InvalidInput` for what is no JSON, `TooLarge` for an item of more than 4 MiB or 64 levels.
    """
    for value in _values(file, name):
        try:
            yield msgspec.convert(value, type, strict=False)
        except msgspec.ValidationError:
            yield None


def count(file: Readable, name: str) -> int:
    """Return how many items such a list has. Raises as `items`."""
    return sum(1 for _ in _values(file, name))


def behind_name(file: Readable) -> Readable:
    """Return the JSON of one of X's scripts, `window.YTD.tweets.part0 = [...]`."""
    head = file.read(_MAX_PREFIX)
    _, equals, rest = head.partition(b"=")
    return _Rest(rest if equals and head.lstrip().startswith(b"window.") else head, file)


def _values(file: Readable, name: str) -> Iterator[Any]:
    metered = _Metered(file)
    # The list is at this depth, once it has begun; `key` is the last one of the outermost map.
    level = 2 if name else 1
    depth, inside, key = 0, False, ""
    builder: ijson.ObjectBuilder | None = None
    try:
        for event, value in ijson.basic_parse(metered, use_float=True, buf_size=_PIECE):
            if event in _CLOSES:
                depth -= 1
                inside = inside and depth >= level
            if builder is not None:
                builder.event(event, value)
            elif inside:
                builder = ijson.ObjectBuilder()
                builder.event(event, value)
            elif event == "map_key" and depth == 1:
                key = value
            elif event == "start_array" and depth == level - 1 and key == name:
                inside = True
            if event in _OPENS:
                depth += 1
                if depth > MAX_DEPTH:
                    raise TooLarge(f"file: at most {MAX_DEPTH} levels in a document", field="file")
            if builder is not None and depth == level:
                metered.since = 0
                yield builder.value
                builder = None
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise InvalidInput("file: a document in this archive is damaged: it is not JSON", field="file") from error


class _Metered:
    """A file from which no more than an item is read between two of them."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.since = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read so many bytes."""
        data = self._file.read(size)
        self.since += len(data)
        if self.since > MAX_ITEM + _PIECE:
            raise TooLarge(f"file: at most {MAX_ITEM} bytes of one item in a document", field="file")
        return data


class _Rest:
    """The rest of a file, behind first bytes that were read already."""

    def __init__(self, head: bytes, file: Readable) -> None:
        self._head = head
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Read the first bytes that were kept, then the others."""
        # `ijson` first reads nothing, to see whether bytes come.
        if not size:
            return b""
        head, self._head = self._head, b""
        return head or self._file.read(size)
