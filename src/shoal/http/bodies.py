"""Request bodies: reading them up to a maximum, and the memory and disk that they take.

While a file arrives, it is kept in memory if it is small and there is room, otherwise in an unnamed temporary file. Once the whole
request has arrived, its files are loaded as soon as there is room for all of them: many slow senders cost disk, and only requests
that are being processed cost memory. Two budgets bound the memory: one for bodies that are arriving, one for bodies that are being
processed, so that slow senders do not block other requests.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from typing import IO, Self

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Scope

from shoal.core.errors import StorageFull, TooLarge, TooMany, Unavailable
from shoal.http.errors import Malformed
from shoal.http.middleware import outside

READ_SECONDS = 300.0
"""Timeout of a body, long enough for 40 MB over a slow mobile connection."""
SLOWEST = 256 << 10
"""Minimum rate in bytes per second. A body of the maximum size may take `READ_SECONDS`, or longer if it needs longer at this rate.
"""


async def read_body(request: Request, intake: Intake, maximum: int) -> bytes:
    """Return the whole body, counted against the memory budget. Raises `TooLarge`, `Malformed` or `Unavailable`."""
    chunks: list[bytes] = []
    async for chunk in pieces(request, maximum):
        await intake.hold(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


async def pieces(request: Request, maximum: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Raises `TooLarge` above `maximum` bytes, immediately if the Content-Length is larger."""
    declared = request.headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit():
        raise Malformed("Content-Length is not a number")
    if int(declared[:19]) > maximum:
        raise _too_large(maximum)
    seconds = max(READ_SECONDS, maximum / SLOWEST)
    until = asyncio.get_running_loop().time() + seconds
    size, more = 0, True
    while more:
        message = await _next(request, until, seconds)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > maximum:
            raise _too_large(maximum)
        if chunk:
            yield chunk


async def _next(request: Request, until: float, seconds: float) -> Message:
    try:
        async with asyncio.timeout_at(until):
            return await request.receive()
    except TimeoutError:
        raise Malformed(f"the body did not arrive within {seconds:.0f} seconds") from None


def _too_large(maximum: int) -> TooLarge:
    return TooLarge(f"the request body may have at most {maximum} bytes")


SPOOL_BYTES = 1 << 20
"""Bytes of a file that may be in memory while it arrives."""
COMING_BYTES = 16 << 20
LOADED_BYTES = 48 << 20
_WAIT_SECONDS = 30.0
_UPLOADS = 3
_WAITING = 32
"""Waiting uploads per member; further ones are refused at once."""
_AGAIN_SECONDS = 5.0


class Budget:
    """A memory budget in bytes. A request for more bytes than the total gets the total."""

    def __init__(self, total: int, seconds: float = _WAIT_SECONDS) -> None:
        self._total = self.free = total
        self._seconds = seconds
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take_now(self, size: int, *, modest: bool = False) -> int:
        """Take `size` bytes, or none if other callers wait or too few bytes are free; return the number taken.

        A `modest` caller leaves half of the total free for other callers.
        """
        size = min(size, self._total)
        if self._waiting or size > self.free - (self._total // 2 if modest else 0):
            return 0
        self.free -= size
        return size

    async def take(self, size: int, scope: Scope) -> int:
        """Take `size` bytes from the budget when it is the caller's turn (first come, first served); return the number taken.

        Raises `Unavailable` after a timeout.
        """
        if not size:
            return 0
        if taken := self.take_now(size):
            return taken
        size = min(size, self._total)
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((size, waiter))
        try:
            async with outside(scope), asyncio.timeout(self._seconds):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                self.give(size)
            else:
                with suppress(ValueError):
                    self._waiting.remove((size, waiter))
                self._pass_on()
            if isinstance(error, TimeoutError):
                raise Unavailable("The server is processing too many uploads", retry_after=_AGAIN_SECONDS) from None
            raise
        return size

    def give(self, size: int) -> None:
        self.free += size
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free:
            size, waiter = self._waiting.popleft()
            if not waiter.done():
                self.free -= size
                waiter.set_result(None)


class Memory:
    def __init__(self, coming: int = COMING_BYTES, loaded: int = LOADED_BYTES, seconds: float = _WAIT_SECONDS) -> None:
        self.coming = Budget(coming, seconds)
        self.loaded = Budget(loaded, seconds)


class UploadSlots:
    def __init__(self, each: int = _UPLOADS, waiting: int = _WAITING, seconds: float = _WAIT_SECONDS) -> None:
        self._each = each
        self._most = each + waiting
        self._seconds = seconds
        self._upload_slots: dict[Hashable, asyncio.Semaphore] = {}
        self._there: Counter[Hashable] = Counter()

    @asynccontextmanager
    async def of(self, who: Hashable, scope: Scope) -> AsyncIterator[None]:
        """Hold an upload slot of a member in the block. Raises `TooMany` if none becomes free in time, or too many uploads wait."""
        if self._there[who] >= self._most:
            raise self._too_many()
        self._there[who] += 1
        upload_slots = self._upload_slots.setdefault(who, asyncio.Semaphore(self._each))
        try:
            await self._wait(upload_slots, scope)
            try:
                yield
            finally:
                upload_slots.release()
        finally:
            self._there[who] -= 1
            if not self._there[who]:
                del self._there[who], self._upload_slots[who]

    async def _wait(self, upload_slots: asyncio.Semaphore, scope: Scope) -> None:
        if not upload_slots.locked():
            await upload_slots.acquire()
            return
        try:
            async with outside(scope), asyncio.timeout(self._seconds):
                await upload_slots.acquire()
        except TimeoutError:
            raise self._too_many() from None

    def _too_many(self) -> TooMany:
        return TooMany(f"At most {self._each} uploads can run at the same time", retry_after=_AGAIN_SECONDS)


class Upload:
    def __init__(self, filename: str, data: bytes = b"") -> None:
        self.filename = filename
        self.size = len(data)
        self._chunks = [data] if data else []

    @property
    def data(self) -> bytes:
        if len(self._chunks) != 1:
            self._chunks = [b"".join(self._chunks)]
        return self._chunks[0]

    def copy_to(self, target: IO[bytes]) -> None:
        """Write the bytes to a file, from memory or disk. This blocks on the disk."""
        target.write(self.data)

    def close(self) -> None:
        """Free the memory of this upload early, when the handler has read it and still has slow work to do. Idempotent."""
        self._chunks = []


class Spool(Upload):
    """An upload in memory or on disk: it is written as it arrives, then loaded into memory and read, then closed."""

    def __init__(self, memory: Memory, filename: str = "") -> None:
        super().__init__(filename)
        self._memory = memory
        self._lender = memory.coming
        self._reserved = 0
        self._file: IO[bytes] | None = None
        self._overflows = False

    def write(self, data: bytes) -> None:
        """Append bytes. The caller must soon call `settle`, which enforces the memory budget."""
        self.size += len(data)
        self._chunks.append(data)
        if self._file is None and self.size <= SPOOL_BYTES:
            taken = self._memory.coming.take_now(len(data), modest=True)
            self._reserved += taken
            self._overflows = self._overflows or taken < len(data)
        else:
            self._overflows = True

    async def settle(self) -> None:
        """Move the data that exceed the memory budget to disk. Raises `StorageFull`."""
        if self._overflows:
            data = b"".join(self._chunks)
            self._let_go()
            # A slow disk must not block the event loop.
            await asyncio.to_thread(self._put, data)

    def _put(self, data: bytes) -> None:
        try:
            if self._file is None:
                # Unbuffered, because closing a buffered file after a failed write would raise the error a second time.
                self._file = tempfile.TemporaryFile(prefix="shoal-upload-", buffering=0)  # noqa: SIM115  # `close` closes it
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise StorageFull("the disk is too full for the upload") from error

    @property
    def on_disk(self) -> bool:
        return self._file is not None

    def owe(self, size: int) -> None:
        """Record that `size` bytes were taken from the budget for loaded uploads; `close` returns them."""
        self._lender, self._reserved = self._memory.loaded, size

    async def load(self) -> None:
        if (file := self._file) is not None:
            self._chunks = [await asyncio.to_thread(_all_of, file, self.size)]
            self._close_file()

    def copy_to(self, target: IO[bytes]) -> None:
        if (file := self._file) is None:
            super().copy_to(target)
        else:
            file.seek(0)
            shutil.copyfileobj(file, target, SPOOL_BYTES)

    def close(self) -> None:
        self._close_file()
        self._let_go()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _let_go(self) -> None:
        size, self._reserved, self._chunks = self._reserved, 0, []
        if size:
            self._lender.give(size)


def _all_of(file: IO[bytes], size: int) -> bytes:
    file.seek(0)
    return file.read(size)


class Intake:
    """The body of a request. Its memory and files are released when the block ends."""

    def __init__(self, memory: Memory, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope
        self._reserved = 0
        self._files: list[Spool] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for file in self._files:
            file.close()
        if self._reserved:
            self._memory.coming.give(self._reserved)

    async def hold(self, size: int) -> None:
        """Take `size` bytes from the memory budget for this request. Raises `Unavailable` after a timeout."""
        self._reserved += await self._memory.coming.take(size, self._scope)

    def file(self, filename: str) -> Spool:
        made = Spool(self._memory, filename)
        self._files.append(made)
        return made

    async def settle(self) -> None:
        """Move the data of files that exceed the memory budget to disk. Raises `StorageFull`."""
        for file in self._files:
            await file.settle()

    async def load(self) -> None:
        """Load the files that are on disk into memory, where handlers read them. Raises `Unavailable` after a timeout."""
        if not self._files:
            return
        files = [file for file in self._files if file.on_disk]
        # Take the memory of all files at once: two requests that each hold some of it and wait for more would deadlock.
        taken = await self._memory.loaded.take(sum(file.size for file in files), self._scope)
        for file in files:
            part = min(taken, file.size)
            taken -= part
            file.owe(part)
        for file in files:
            await file.load()
