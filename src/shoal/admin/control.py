"""Control socket of a running server: a socket file next to the store, which only its owner may open.

Each connection carries one operation (`admin/contract.py`): one line of JSON, answered by lines of JSON. Progress lines follow
while it runs, with an empty line at least every two seconds, so a client can detect a server that hangs. The last line is the
result or an error. Closing the connection cancels the operation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.operations import AnyOperation
from shoal.admin.report import Progress, nothing
from shoal.core.errors import ShoalError, Unavailable, in_words
from shoal.multiprocess.messages import at, bound, remove
from shoal.tasks import cancel

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LONGEST_LINE = 1 << 20
_MOST_AT_ONCE = 16
_REQUEST_SECONDS = 10.0
_PROGRESS_SECONDS = 0.2
_BEAT_SECONDS = 2.0
_SILENCE_SECONDS = 60.0
"""A server that has sent nothing for this long is considered hung."""
_INTERNAL = "the server met an error of its own; its log says which"
_UNKNOWN = "the server does not know this operation: it is of another version, so restart it"
_BUSY = "another check, import or replay is under way: wait for it"


class NoServer(ShoalError):
    """No server listens at the socket."""


class _Line(msgspec.Struct, omit_defaults=True):
    """One line: one of these fields, or none for a heartbeat."""

    progress: tuple[str, int, int] | None = None
    answer: msgspec.Raw = msgspec.Raw()
    error: str = ""


@asynccontextmanager
async def listening(network: AnyNetwork, path: Path) -> AsyncIterator[None]:
    """Serve the control socket until the block ends. Call only while holding the store's lock: an old socket is replaced."""
    desk = _Desk(network)
    with at(path) as address:
        remove(path)
        server = await asyncio.start_unix_server(desk.meet, sock=bound(address), limit=_LONGEST_LINE)
    try:
        async with server:
            yield
    finally:
        remove(path)
        # The store closes next, so running operations must end.
        await desk.close()


async def ask(
    path: Path, operation: Operation[T], progress: Progress = nothing, *, silence: float = _SILENCE_SECONDS
) -> T:
    """Run an operation on the server at `path`.

    Raises `NoServer` if none listens, `Unavailable` if the connection breaks off, or the server's error.
    """
    try:
        with at(path) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=_LONGEST_LINE)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
        raise NoServer(f"no server listens at {path}") from error
    except PermissionError as error:
        raise Unavailable(f"the store belongs to another user: {path} may not be opened") from error
    with closing(writer):
        writer.write(msgspec.json.encode(operation, enc_hook=_path_out) + b"\n")
        while line := await _next_line(reader, silence):
            told = msgspec.json.decode(line, type=_Line)
            if told.error:
                raise ShoalError(told.error)
            if told.progress is not None:
                progress(*told.progress)
            elif bytes(told.answer):
                return cast("T", msgspec.json.decode(told.answer, type=operation.answer))
    raise Unavailable("the server that holds the store ended before it answered")


async def _next_line(reader: asyncio.StreamReader, silence: float) -> bytes:
    try:
        async with asyncio.timeout(silence):
            return await reader.readline()
    except TimeoutError as error:
        raise Unavailable(
            f"the server that holds the store has been silent for {silence:.0f} s: look at its log, or restart it"
        ) from error
    except ConnectionError:
        return b""


class _Desk:
    """The server side: at most 16 concurrent operations, and one long one."""

    def __init__(self, network: AnyNetwork) -> None:
        self._network = network
        self._long = asyncio.Lock()
        self._meetings: set[asyncio.Task[None]] = set()

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            if len(self._meetings) >= _MOST_AT_ONCE:
                _say(writer, _Line(error=f"{_MOST_AT_ONCE} commands are under way already: try again"))
                return
            meeting = asyncio.create_task(self._meet(reader, writer))
            self._meetings.add(meeting)
            meeting.add_done_callback(self._meetings.discard)
            with suppress(asyncio.CancelledError):
                await meeting

    async def close(self) -> None:
        """Cancel running operations."""
        await cancel(*self._meetings)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readline()
            operation: Operation[object] = msgspec.json.decode(line, type=AnyOperation, dec_hook=_path_in)
        except (msgspec.DecodeError, ValueError, TimeoutError):
            _say(writer, _Line(error=_UNKNOWN))
            return
        except ConnectionError:
            return
        work = asyncio.create_task(self._answered(operation, writer))
        beat = asyncio.create_task(_beat(writer))
        gone = asyncio.create_task(reader.read())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(work, beat, gone)
        if not work.cancelled():
            with suppress(ConnectionError):
                _say(writer, work.result())
                await writer.drain()

    async def _answered(self, operation: Operation[object], writer: asyncio.StreamWriter) -> _Line:
        try:
            if not operation.alone:
                answer = await operation.carry_out(self._network, _Telling(writer))
            elif self._long.locked():
                return _Line(error=_BUSY)
            else:
                async with self._long:
                    answer = await operation.carry_out(self._network, _Telling(writer))
            return _Line(answer=msgspec.Raw(msgspec.json.encode(answer)))
        except (ShoalError, OSError) as error:
            return _Line(error=in_words(error))
        except Exception:  # noqa: BLE001  # must not stop the server
            _log.exception("a request of the operator failed")
            return _Line(error=_INTERNAL)


class _Telling:
    """Progress reports over the connection, rate-limited."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._told = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        if time.monotonic() - self._told > _PROGRESS_SECONDS or done == total:
            self._told = time.monotonic()
            _say(self._writer, _Line(progress=(phase, done, total)))


async def _beat(writer: asyncio.StreamWriter) -> None:
    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        _say(writer, _Line())


def _say(writer: asyncio.StreamWriter, line: _Line) -> None:
    """Send a line. Drop it if the client does not read and the buffer is full."""
    if not writer.is_closing() and writer.transport.get_write_buffer_size() < _LONGEST_LINE:
        writer.write(msgspec.json.encode(line) + b"\n")


def _path_out(value: object) -> str:
    """Encode a path, the only field type that JSON does not have."""
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _path_in(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"{kind.__name__} cannot be received")
