"""File storage in a directory, any S3-compatible store, or memory, through obstore.

A put is atomic in all of them: a reader gets the whole file or none. In a directory, the file is also durable when
`put` returns.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, S3Store

from shoal import private_files
from shoal.core.errors import InvalidInput, NotFound, StorageFull, Unavailable
from shoal.graph.connection_errors import UnreachableEngine, read_authorities

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

_log = logging.getLogger(__name__)

RAW: Final = "application/octet-stream"
"""Content type of a clip before its conversion."""
SUFFIXES: Final = {
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/avif": ".avif",
    "video/mp4": ".mp4",
    "audio/mpeg": ".mp3",
    RAW: ".raw",
}
"""Suffix of a key by content type. A directory does not store content types, so there the suffix determines the type."""
_TYPES: Final = {suffix: content_type for content_type, suffix in SUFFIXES.items()}
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*", re.ASCII)
_FULL = re.compile(r"(os error |\[Errno )(28|122)\b|507 Insufficient|StorageFull|QuotaExceeded")
"""Messages of a full store: ENOSPC, EDQUOT, and the corresponding errors of S3-compatible servers."""
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(?:Other\(\s*)?(\w+)")
_REFUSED = re.compile(r"\b40[13] |\b400 Bad Request|InvalidContentType|UnsupportedCertificate")
"""Messages of a permanent error: an S3 server's response to a wrong key or to plain HTTP on an HTTPS port, and TLS errors."""
_last_logged: dict[str, str] = {}
"""The last logged reason of a failure, by store."""
_PIECE: Final = 256 * 1024
_PARTS_AT_ONCE: Final = 2
"""Number of parts of a large file, of 5 MB each, that are in memory during an upload."""
_AT_ONCE: Final = 16
_S3_OPTIONS = frozenset({"endpoint", "region", "access_key_id", "secret_access_key", "cafile"})
# By default, obstore would retry for three minutes, and a request would wait for it.
_RETRIES: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=10)}
_TIMEOUTS: ClientConfig = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=15)}


_LAST_SECONDS: Final = 0.1
"""Seconds that the process waits for obstore's threads at exit.

A thread delivers its result before it releases its Python objects. If it does so while the interpreter shuts down, it
aborts the process (PyO3/pyo3-async-runtimes, issue 40).
"""


class FilePart(NamedTuple):
    """A stored file or a range of it: the content type, the total size, the first and last byte of the range, and its contents."""

    content_type: str
    size: int
    first: int
    last: int
    pieces: AsyncIterator[bytes]


class StoredFile(NamedTuple):
    key: str
    size: int
    modified: float


class MediaStore:
    """Files by key. A key is a relative path such as `12/3/99/ann/7-0a1b2c3d.jpg`; any other key raises `InvalidInput`.

    All methods raise `Unavailable` if the store does not answer. The call may then be repeated safely.
    """

    def __init__(self, store: ObjectStore, *, root: Path | None = None) -> None:
        self._store = store
        self._root = root
        """The directory of a `file:` store; None for other stores."""

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the store at `file:///directory`, `s3://bucket/prefix?endpoint=...&region=...` or `memory://`.

        A missing directory is created. S3 credentials are in the usual AWS_... variables, or in `access_key_id` and
        `secret_access_key` of the query. `cafile` names a PEM file of certificates that are trusted in addition to the
        system's.
        """
        parts = urlsplit(url)
        if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
            root = Path(unquote(parts.path))
            private_files.make_folder(root)
            private_files.narrow(root)
            return cls(LocalStore(root, mkdir=True, automatic_cleanup=True), root=root)
        if parts.scheme == "s3" and parts.netloc:
            return cls(_s3(parts))
        if parts.scheme == "memory":
            return cls(MemoryStore())
        raise InvalidInput(
            "the media store must be file:///directory, s3://bucket/prefix or memory://", field="media_url"
        )

    async def put(self, key: str, data: bytes | Path, content_type: str) -> None:
        """Store or replace a file. `data` is its contents, or a file to copy, which is read in parts.

        Raises `StorageFull` if there is no room. Nothing has changed then.
        """
        check_key(key)
        in_parts = None if isinstance(data, Path) else False
        attributes = {"Content-Type": content_type} if self._root is None else None
        with _in_our_words():
            try:
                await obstore.put_async(
                    self._store,
                    key,
                    data,
                    attributes=attributes,
                    use_multipart=in_parts,
                    max_concurrency=_PARTS_AT_ONCE,
                )
                if self._root is not None:
                    await asyncio.to_thread(_settle, self._root / key, self._root)
            except FileNotFoundError as error:
                raise Unavailable("the media store does not exist") from error

    async def get(self, key: str) -> tuple[bytes, str]:
        """Return a file and its content type. Raises `NotFound`."""
        check_key(key)
        with _in_our_words():
            result = await obstore.get_async(self._store, key)
            data = bytes(await result.bytes_async())
        return data, result.attributes.get("Content-Type") or type_of(key)

    async def fetch(self, key: str, to: Path) -> None:
        """Copy a file to a local path, in pieces. Raises `NotFound`."""
        found = await self.part(key, 0)
        copy = await asyncio.to_thread(to.open, "wb")
        with copy:
            async for piece in found.pieces:
                await asyncio.to_thread(copy.write, piece)

    async def part(self, key: str, first: int | None = None, last: int | None = None) -> FilePart:
        """Return the bytes `first` to `last` (inclusive) of a file in pieces, with the semantics of HTTP ranges.

        Without `first`, the range is the last `last` bytes. Without `last`, it is all bytes from `first` on. A range
        beyond the end is empty: `first` is then greater than `last`. Raises `NotFound`.
        """
        check_key(key)
        with _in_our_words():
            size = (await obstore.head_async(self._store, key))["size"]
            begin, end = _part(size, first, last)
            content_type = type_of(key)
            if begin > end:
                return FilePart(content_type, size, begin, end, _nothing())
            result = await self._from(key, begin, end)
        return FilePart(content_type, size, begin, end, _pieces(result, begin - result.range[0], end + 1 - begin))

    async def _from(self, key: str, begin: int, end: int) -> GetResult:
        """Request a range of a file. The result is the whole file if the server does not answer with a range.

        Some servers do not support ranges, and some return a range of all bytes as the whole file.
        """
        try:
            return await obstore.get_async(self._store, key, options={"range": (begin, end + 1)})
        except BaseError as error:
            if "NotPartial" not in str(error):
                raise
            return await obstore.get_async(self._store, key)

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete files. Missing files are ignored. There is one request per key, because not every S3 server has bulk deletion."""
        limit = asyncio.Semaphore(_AT_ONCE)
        for key in (keys := list(keys)):
            check_key(key)

        async def delete_one(key: str) -> None:
            async with limit:
                with _in_our_words(), suppress(FileNotFoundError):
                    await obstore.delete_async(self._store, key)

        await asyncio.gather(*map(delete_one, keys))

    async def folders(self) -> list[str]:
        with _in_our_words():
            found = await obstore.list_with_delimiter_async(self._store)
        return [prefix.rstrip("/") for prefix in found["common_prefixes"]]

    async def files(self, prefix: str = "") -> AsyncIterator[Sequence[StoredFile]]:
        """Yield files in pages, in no order: all files, or those below a prefix."""
        if prefix:
            check_key(prefix)
        with _in_our_words():
            async for page in obstore.list(self._store, prefix or None):
                yield [StoredFile(item["path"], item["size"], item["last_modified"].timestamp()) for item in page]

    async def size(self, key: str) -> int | None:
        check_key(key)
        with _in_our_words():
            try:
                return (await obstore.head_async(self._store, key))["size"]
            except FileNotFoundError:
                return None


async def _pieces(result: GetResult, skip: int, take: int) -> AsyncIterator[bytes]:
    with _in_our_words():
        async for piece in result.stream(min_chunk_size=_PIECE):
            chunk = bytes(piece)[skip : skip + take]
            skip = max(0, skip - len(piece))
            take -= len(chunk)
            if chunk:
                yield chunk
            if not take:
                return


async def _nothing() -> AsyncIterator[bytes]:
    no_pieces: tuple[bytes, ...] = ()
    for piece in no_pieces:
        yield piece


def _part(size: int, first: int | None, last: int | None) -> tuple[int, int]:
    if first is None:
        return (0 if last is None else max(0, size - last)), size - 1
    return first, size - 1 if last is None else min(last, size - 1)


def type_of(key: str) -> str:
    return _TYPES.get(Path(key).suffix, RAW)


def check_key(key: str) -> None:
    """Raise `InvalidInput` unless a key is a relative path of plain ASCII names that do not begin with a dot."""
    if len(key) > 512 or _KEY.fullmatch(key) is None:
        raise InvalidInput("invalid name of a stored file")


@contextmanager
def _in_our_words() -> Iterator[None]:
    _end_in_order()
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("there is no such file") from error
    except (BaseError, OSError) as error:
        if _FULL.search(str(error)):
            raise StorageFull("the media store is full") from error
        reason, lasting = _reason(error)
        if lasting and _last_logged.get("last") != reason:
            _log.error("the media store rejected our credentials or its certificate is invalid: %s", reason)
            _last_logged["last"] = reason
        raise Unavailable("the media store does not answer") from UnreachableEngine(reason)


def _reason(error: Exception) -> tuple[str, bool]:
    """Return a description of an error without internals of the client library, and whether the error is permanent."""
    if found := _CERTIFICATE.search(str(error)):
        name = found[1]
        if name.startswith("Expired"):
            return "the server's certificate has expired", True
        if name.startswith("NotValidForName"):
            return "the server's certificate is for another name", True
        return f"the server's certificate is not trusted: {name}", True
    message = " ".join(str(error).partition("Debug source")[0].split())
    return message, _REFUSED.search(message) is not None


@cache
def _end_in_order() -> None:
    """Make this process wait `_LAST_SECONDS` at its exit, so that the threads of obstore end before the interpreter."""
    atexit.register(time.sleep, _LAST_SECONDS)


def _s3(parts: SplitResult) -> S3Store:
    options = dict(parse_qsl(parts.query))
    if unknown := options.keys() - _S3_OPTIONS:
        raise InvalidInput(f"unknown options of an s3:// media store: {', '.join(sorted(unknown))}", field="media_url")
    authorities = options.pop("cafile", "")
    config: S3Config = {**options}  # type: ignore[typeddict-item]
    client: ClientConfig = {**_TIMEOUTS, "allow_http": options.get("endpoint", "").startswith("http://")}
    if authorities:
        client["root_certificate"] = read_authorities(authorities, "media")
    prefix = parts.path.strip("/") or None
    return S3Store(parts.netloc, prefix=prefix, config=config, client_options=client, retry_config=_RETRIES)


def _settle(file: Path, root: Path) -> None:
    """Flush a file, its name and its parent directories to disk, and make them private. obstore does neither."""
    for path in (file, *(parent for parent in file.parents if parent.is_relative_to(root))):
        handle = os.open(path, os.O_RDONLY)
        try:
            private_files.narrow(handle)
            os.fsync(handle)
        finally:
            os.close(handle)
