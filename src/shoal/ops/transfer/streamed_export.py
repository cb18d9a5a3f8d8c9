"""A member's own data as a zip that is sent while it is made: without a place on a disk, in the same memory however long it is."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import AsyncGenerator
from functools import partial
from typing import IO, cast

from shoal.core.model import Member
from shoal.graph.contract import Store
from shoal.ops.checking.report import nothing
from shoal.ops.transfer.export import write_all
from shoal.ops.transfer.export_target import entry_of
from shoal.ops.transfer.exporting import Export, FileSource
from shoal.queries.context import Reads

_MOST_HELD = 4 * 1024 * 1024
"""Bytes that wait to be sent before more are read. One file is held besides."""


class _Outlet:
    """The file that a zip is written to: what comes is kept until somebody takes it. It cannot be gone back in."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self.ended = False

    def write(self, data: bytes) -> int:
        """Keep a copy of some bytes: whoever writes may use their place again."""
        self._held.append(bytes(data))
        self._size += len(data)
        self._changed.set()
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is kept elsewhere."""

    def end(self) -> None:
        """Say that nothing comes any more."""
        self.ended = True
        self._changed.set()

    async def room(self) -> None:
        """Wait until there is room for more."""
        while self._size > _MOST_HELD:
            self._taken.clear()
            await self._taken.wait()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield what comes, until the end."""
        while self._held or not self.ended:
            if self._held:
                piece = b"".join(self._held)
                self._held, self._size = [], 0
                self._taken.set()
                yield piece
            else:
                self._changed.clear()
                await self._changed.wait()


async def streamed(store: Store, reads: Reads, files: FileSource, member: Member) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a zip with all data of a member. What was begun ends when nobody takes any more."""
    outlet = _Outlet()
    writing = asyncio.create_task(_write(outlet, store, reads, files, member), name="shoal-export")
    writing.add_done_callback(lambda _done: outlet.end())
    try:
        async for piece in outlet.pieces():
            yield piece
        # A zip that is not whole must not look as if it were.
        await writing
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def _write(outlet: _Outlet, store: Store, reads: Reads, files: FileSource, member: Member) -> None:
    with zipfile.ZipFile(cast("IO[bytes]", outlet), "w", zipfile.ZIP_DEFLATED) as archive:
        await write_all(Export(store, reads, files, member, partial(entry_of, archive), nothing, outlet.room))
