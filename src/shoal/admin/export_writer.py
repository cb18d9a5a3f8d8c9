"""The target of a member's export: a directory or a ZIP file. After an error, no part of it remains."""

from __future__ import annotations

import csv
import io
import os
import shutil
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence, Sized
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import msgspec

from shoal import private_files
from shoal.admin.report import Progress
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import milliseconds_of
from shoal.core.model import Media, Member
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Store
from shoal.graph.schema import AnyNode, AssocType
from shoal.queries.context import Reads

Open = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Opens a file of the export by its name. The file must be closed before the next is opened."""

_STORED = (".jpg", ".png", ".webp", ".gif", ".avif")


@contextmanager
def export_target(to: Path) -> Iterator[Open]:
    """Open the target: a ZIP if `to` ends in `.zip`, otherwise a directory that is empty or does not exist.

    Raises `InvalidInput` if the target exists already. After a failure, no part of it remains.
    """
    zipped = to.suffix == ".zip"
    if to.exists() and (zipped or not to.is_dir() or any(to.iterdir())):
        raise InvalidInput(f"{to} already exists: name another path, or delete it first")
    begun = to.with_name(f"{to.name}.part")
    with _zip(begun) if zipped else _folder(begun) as opened:
        yield opened
    begun.replace(to)


@contextmanager
def _folder(root: Path) -> Iterator[Open]:
    @contextmanager
    def opened(name: str) -> Iterator[IO[bytes]]:
        path = root / name
        private_files.make_folder(path.parent)
        with os.fdopen(private_files.open_file(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            yield file

    # Remove the files of an earlier export, which was killed.
    shutil.rmtree(root, ignore_errors=True)
    private_files.make_folder(root)
    try:
        yield opened
    except BaseException:
        shutil.rmtree(root)
        raise


@contextmanager
def _zip(path: Path) -> Iterator[Open]:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            os.fdopen(private_files.open_file(path, os.O_RDWR | os.O_TRUNC), "w+b") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            yield partial(entry_of, archive)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def entry_of(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_STORED if name.endswith(_STORED) else zipfile.ZIP_DEFLATED
    with archive.open(entry, "w", force_zip64=True) as file:
        yield file


PAGE = 500

PageT = TypeVar("PageT", bound=Sized)
NodeT = TypeVar("NodeT", bound=AnyNode)
Rows = Callable[[Sequence[Assoc]], Awaitable[Iterable[Sequence[str]]]]
Pace = Callable[[], Awaitable[None]]
"""Waits until the rate limit of exports allows the next part of an export."""


class FileSource(Protocol):
    async def read(self, key: str) -> tuple[bytes, str]:
        """Return a stored file and its content type. Raises `NotFound`."""
        ...


async def at_once() -> None:
    """Return immediately. An export without a rate limit uses this as its `Pace`."""


@dataclass
class Export:
    """Writes the data of a member. Lists are read page by page, in constant memory."""

    graph: Store
    reads: Reads
    files: FileSource
    member: Member
    open: Open
    progress: Progress
    pace: Pace = at_once
    lost: int = 0

    async def pages(self, atype: AssocType, of: int = 0) -> AsyncGenerator[list[Assoc], None]:
        """Yield pages of the associations of a type, newest first, that start at the object `of`; 0 means the member."""
        before = MAX_TIME
        while page := await self.graph.assoc_range(of or self.member.id, atype, Cursor(before=before, limit=PAGE)):
            yield page
            before = page[-1].time

    async def nodes(self, atype: AssocType, kind: type[NodeT]) -> AsyncGenerator[NodeT, None]:
        """Iterate over the objects of the class `kind` in a list of the member, newest first."""
        async with aclosing(self.pages(atype)) as pages:
            async for page in pages:
                found = await self.graph.obj_get([entry.id2 for entry in page])
                for entry in page:
                    if isinstance(node := found.get(entry.id2), kind):
                        yield node

    async def table(self, noun: str, atype: AssocType, header: Sequence[str], rows: Rows) -> None:
        """Write a list of the member to `<noun>.csv`. `rows` returns the lines of a page."""
        await self.paged_table(noun, header, self.pages(atype), rows)

    async def paged_table(
        self,
        noun: str,
        header: Sequence[str],
        pages: AsyncGenerator[PageT, None],
        rows: Callable[[PageT], Awaitable[Iterable[Sequence[str]]]],
    ) -> None:
        """Write pages to `<noun>.csv`. `rows` returns the lines of a page."""
        with self.open(f"{noun}.csv") as file, io.TextIOWrapper(file, "utf-8", newline="") as text:
            table = csv.writer(text)
            table.writerow(header)
            read = 0
            async with aclosing(pages):
                async for page in pages:
                    table.writerows(await rows(page))
                    await self.pace()
                    read += len(page)
                    self.progress(noun, read, 0)

    async def objects(
        self,
        noun: str,
        atype: AssocType,
        kind: type[NodeT],
        describe: Callable[[Export, NodeT], Awaitable[dict[str, Any]]],
    ) -> None:
        """Write a description of each object in a list of the member to `<noun>.json`."""

        async def values() -> AsyncGenerator[dict[str, Any], None]:
            async with aclosing(self.nodes(atype, kind)) as nodes:
                async for node in nodes:
                    yield await describe(self, node)

        await self.array(noun, values())

    async def array(self, noun: str, values: AsyncGenerator[dict[str, Any], None]) -> None:
        """Write values as a JSON array to `<noun>.json`. Only one value is in memory at a time."""
        written = 0
        with self.open(f"{noun}.json") as file:
            file.write(b"[")
            async with aclosing(values):
                async for value in values:
                    file.write(b",\n" if written else b"\n")
                    file.write(msgspec.json.encode(value))
                    await self.pace()
                    written += 1
                    self.progress(noun, written, 0)
            file.write(b"\n]\n")

    def document(self, noun: str, value: object) -> None:
        with self.open(f"{noun}.json") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value)))

    async def file(self, key: str) -> str:
        """Copy a stored file into the export, and return its name there; empty if the file does not exist."""
        name = f"media/{Path(key).name}"
        await self.pace()
        try:
            data, _ = await self.files.read(key)
        except NotFound:
            # The file is lost or was just replaced. Export the rest.
            self.lost += 1
            return ""
        with self.open(name) as file:
            file.write(data)
        return name


def file_name(media: Media) -> str:
    """Return the path of a media file in the export; empty if the media has no file, because it was not processed."""
    return f"media/{Path(media.key).name}" if media.key else ""


def when(time: int) -> str:
    """Return the time of an id or association as ISO 8601 text."""
    return iso(milliseconds_of(time))


def iso(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds") if moment else ""
