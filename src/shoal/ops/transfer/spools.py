"""Records put aside on disk between two passes of an import, so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

R = TypeVar("R")

_AT_ONCE = 1_000


class RecordSpool(Generic[R]):
    """Records of one type in a file, in blocks of a thousand; `count` is how many there are."""

    def __init__(self, path: Path, record: type[R]) -> None:
        self.count = 0
        self._path = path
        self._encode = msgspec.msgpack.encode
        self._decoder: msgspec.msgpack.Decoder[list[R]] = msgspec.msgpack.Decoder(list[record])  # type: ignore[valid-type]

    def fill(self, records: Iterable[R]) -> None:
        """Put these aside; only once."""
        waiting = iter(records)
        with self._path.open("wb") as file:
            while block := list(islice(waiting, _AT_ONCE)):
                packed = self._encode(block)
                file.write(len(packed).to_bytes(4) + packed)
                self.count += len(block)

    def blocks(self, size: int) -> Iterator[list[R]]:
        """The records in their order, at least `size` at a time but for the last ones."""
        if not self.count:
            return
        block: list[R] = []
        with self._path.open("rb") as file:
            while head := file.read(4):
                block += self._decoder.decode(file.read(int.from_bytes(head)))
                if len(block) >= size:
                    yield block
                    block = []
        if block:
            yield block
