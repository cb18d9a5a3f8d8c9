"""Content-addressed archives (CAR v1): the blocks of a repository of the AT Protocol, and the tree that orders its records.

A file is a header and then blocks, each with its length, its identifier (CID) and its bytes. Where each block is, is noted in one
pass; blocks are read again as the tree asks for them, so memory grows by some hundred bytes a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from libipld import decode_dag_cbor

from shoal.core.errors import InvalidInput, TooLarge

MAX_BLOCK = 4 << 20
"""Bytes of one block; a record has at most one MiB, a node of the tree far less."""
MAX_BLOCKS = 2_000_000
_MOST_READ = 2
"""Bytes of blocks that are read for each byte of the file; records with the same content share a block."""
_SPARE = 16 << 20
"""Further bytes that are read of any file."""
_MAX_KEY = 1_024
"""Bytes of the key of a record, as the AT Protocol limits them."""
_CID_BYTES = 36
"""Bytes of a CID of version 1 with a SHA-256, whose codec is DAG-CBOR or raw: `0x01 codec 0x12 0x20 digest`."""
_DAMAGED = "file: this repository is damaged: its blocks cannot be read"


class RepoRecord(NamedTuple):
    """A record by its key, `<collection>/<name>`. The value is None for a record that is missing or damaged."""

    key: str
    value: dict[str, Any] | None


class Repository:
    """The newest state of a repository in a CAR file, which stays open as long as it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        """Raises `InvalidInput` for what is no such file."""
        self._file = file
        header = _decoded(self._block())
        roots = header.get("roots")
        if header.get("version") != 1 or not isinstance(roots, list) or not roots:
            raise InvalidInput(_DAMAGED, field="file")
        self._at: dict[bytes, tuple[int, int]] = {}
        self._index()
        self._left = _MOST_READ * file.tell() + _SPARE
        commit = self._read(roots[0])
        did, data = commit.get("did"), commit.get("data")
        if not isinstance(did, str) or not isinstance(data, bytes):
            raise InvalidInput(_DAMAGED, field="file")
        self.did = did
        self._data = data

    def records(self) -> Iterator[RepoRecord]:
        """Yield all records in the order of their keys."""
        seen: set[bytes] = set()
        # Subtrees and records that are still to come, the next one last: a record is its key and where it is.
        ahead: list[tuple[str, bytes]] = [("", self._data)]
        while ahead:
            key, cid = ahead.pop()
            if key:
                yield RepoRecord(key, self._record(cid))
                continue
            node = _bare(cid)
            if node in seen:
                raise InvalidInput(_DAMAGED, field="file")
            seen.add(node)
            ahead.extend(reversed(list(_node(self._read(cid)))))

    def _index(self) -> None:
        while (size := self._size()) >= 0:
            if not _CID_BYTES <= size <= MAX_BLOCK:
                raise InvalidInput(_DAMAGED, field="file")
            at = self._file.tell()
            cid = self._file.read(_CID_BYTES)
            if len(self._at) >= MAX_BLOCKS:
                raise TooLarge(f"file: at most {MAX_BLOCKS} blocks in a repository", field="file")
            self._at[cid] = (at + _CID_BYTES, size - _CID_BYTES)
            self._file.seek(at + size)

    def _record(self, cid: Any) -> dict[str, Any] | None:
        try:
            return self._read(cid)
        except TooLarge:
            raise
        except InvalidInput:
            return None

    def _read(self, cid: Any) -> dict[str, Any]:
        at, size = self._at.get(_bare(cid), (0, 0))
        if not size:
            raise InvalidInput(_DAMAGED, field="file")
        self._left -= size
        if self._left < 0:
            raise TooLarge("file: the records of this repository are much larger than the file", field="file")
        self._file.seek(at)
        return _decoded(self._file.read(size))

    def _block(self) -> bytes:
        size = self._size()
        if not 0 < size <= MAX_BLOCK:
            raise InvalidInput(_DAMAGED, field="file")
        return self._file.read(size)

    def _size(self) -> int:
        """Return the next number, of seven bits a byte; -1 at the end."""
        number = 0
        for shift in range(0, 35, 7):
            byte = self._file.read(1)
            if not byte:
                if shift:
                    raise InvalidInput(_DAMAGED, field="file")
                return -1
            number |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return number
        raise InvalidInput(_DAMAGED, field="file")


def is_car(head: bytes) -> bool:
    """Return whether a file begins as a CAR does: with a short map that has roots and a version."""
    return b"eroots" in head[:100] and b"gversion" in head[:100]


def _node(node: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the records of a node of the tree, and the subtrees (without a key) between them, in order.

    A key shares its first bytes with the one before it: `p` says how many, and `k` has the rest.
    """
    try:
        if node["l"] is not None:
            yield "", node["l"]
        key = b""
        for entry in node["e"]:
            key = key[: entry["p"]] + entry["k"]
            if len(key) > _MAX_KEY:
                raise InvalidInput(_DAMAGED, field="file")
            yield key.decode(), entry["v"]
            if entry["t"] is not None:
                yield "", entry["t"]
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise InvalidInput(_DAMAGED, field="file") from error


def _bare(cid: Any) -> bytes:
    """Return a CID without the zero that stands before it in a link."""
    if not isinstance(cid, bytes):
        raise InvalidInput(_DAMAGED, field="file")
    return cid.removeprefix(b"\0")


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        found = decode_dag_cbor(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_DAMAGED, field="file") from error
    if not isinstance(found, dict):
        raise InvalidInput(_DAMAGED, field="file")
    return found
