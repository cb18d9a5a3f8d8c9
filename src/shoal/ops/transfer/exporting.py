"""One export under way: what every part of it is written with."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence, Sized
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from shoal.core.errors import NotFound
from shoal.core.ids import milliseconds_of
from shoal.core.model import Media, Member
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Store
from shoal.graph.schema import AssocType
from shoal.ops.checking.report import Progress
from shoal.ops.transfer.export_target import Open
from shoal.queries.context import Reads

PAGE = 500

PageT = TypeVar("PageT", bound=Sized)
Rows = Callable[[Sequence[Assoc]], Awaitable[Iterable[Sequence[str]]]]
Pace = Callable[[], Awaitable[None]]
"""Waits until there is room for more of an export."""


class FileSource(Protocol):
    """Where pictures, videos and sounds are."""

    async def read(self, key: str) -> tuple[bytes, str]:
        """Return a stored file and its content type. Raises `NotFound`."""
        ...


async def at_once() -> None:
    """Wait for nothing: there is room for all of an export."""


class Export:
    """The data of one member on their way into files. Lists are read page by page, so they take the same memory however long."""

    def __init__(
        self,
        store: Store,
        reads: Reads,
        files: FileSource,
        member: Member,
        opened: Open,
        progress: Progress,
        pace: Pace = at_once,
    ) -> None:
        self.graph = store
        self.reads = reads
        self.member = member
        self.progress = progress
        self._files = files
        self._open = opened
        self._pace = pace
        self.lost = 0
        """Pictures, videos and sounds whose file is not there."""

    async def pages(self, atype: AssocType, of: int = 0) -> AsyncGenerator[list[Assoc], None]:
        """A list of the member's, or of another object, newest first."""
        before = MAX_TIME
        while page := await self.graph.assoc_range(of or self.member.id, atype, Cursor(before=before, limit=PAGE)):
            yield page
            before = page[-1].time

    async def table(self, noun: str, atype: AssocType, header: Sequence[str], rows: Rows) -> None:
        """A CSV file of a list, with a line for each of its entries that `rows` has one for."""
        await self.paged_table(noun, header, self.pages(atype), rows)

    async def paged_table(
        self,
        noun: str,
        header: Sequence[str],
        pages: AsyncGenerator[PageT, None],
        rows: Callable[[PageT], Awaitable[Iterable[Sequence[str]]]],
    ) -> None:
        """A CSV file with the lines that `rows` makes of each page."""
        with self._open(f"{noun}.csv") as file, io.TextIOWrapper(file, "utf-8", newline="") as text:
            table = csv.writer(text)
            table.writerow(header)
            read = 0
            async with aclosing(pages):
                async for page in pages:
                    table.writerows(await rows(page))
                    await self._pace()
                    read += len(page)
                    self.progress(noun, read, 0)

    async def array(self, noun: str, values: AsyncGenerator[dict[str, Any], None]) -> None:
        """A JSON file of a list, which is written as it comes."""
        written = 0
        with self._open(f"{noun}.json") as file:
            file.write(b"[")
            async with aclosing(values):
                async for value in values:
                    file.write(b",\n" if written else b"\n")
                    file.write(msgspec.json.encode(value))
                    await self._pace()
                    written += 1
                    self.progress(noun, written, 0)
            file.write(b"\n]\n")

    def document(self, noun: str, value: object) -> None:
        """A JSON file of something short."""
        with self._open(f"{noun}.json") as file:
            file.write(msgspec.json.format(msgspec.json.encode(value)))

    async def file(self, key: str) -> str:
        """A stored file goes along; under which name. Empty where it is not there."""
        name = f"media/{Path(key).name}"
        await self._pace()
        try:
            data, _ = await self._files.read(key)
        except NotFound:
            # The file is lost, or was replaced a moment ago: the rest is worth having.
            self.lost += 1
            return ""
        with self._open(name) as file:
            file.write(data)
        return name


def file_name(media: Media) -> str:
    """Where in the export a picture, video or sound is; empty for one that could not be made, or is not yet."""
    return f"media/{Path(media.key).name}" if media.key else ""


def when(time: int) -> str:
    """The moment of an id, or of the time of an association, as text."""
    return iso(milliseconds_of(time))


def iso(moment: int) -> str:
    """Unix milliseconds as text; empty for 0, which stands for no moment."""
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds") if moment else ""
