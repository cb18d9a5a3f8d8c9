"""A way into a running server for its operator: a socket file beside the store, which only the owner may open.

One connection is one request: a line of JSON with a verb, answered by lines of JSON. `check` is answered by progress and then
a report, `status` by what the server holds, `replay` by how many jobs were given again. Whoever hangs up ends what they asked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import msgspec

from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.ops.check import check
from shoal.ops.jobs import replay
from shoal.ops.network import AnyNetwork
from shoal.ops.report import Progress, Report

_log = logging.getLogger(__name__)

_LONGEST_LINE = 1 << 20
_PROGRESS_SECONDS = 0.2
_MOST_WARM = 10_000_000
_INTERNAL = "the server met an error of its own; its log says which"


class Request(msgspec.Struct):
    """What is asked: `check` (with `repair` and `sample` as in `ops.check`), `status`, or `replay` (of `jobs`; None: all)."""

    verb: str
    repair: bool = False
    sample: int | None = None
    jobs: list[str] | None = None


class Status(msgspec.Struct):
    """What a running server holds."""

    pid: int
    warm_timelines: int
    events_waiting: int
    events_set_aside: int


class Answer(msgspec.Struct, omit_defaults=True):
    """One line: one of these."""

    progress: tuple[str, int, int] | None = None
    report: Report | None = None
    status: Status | None = None
    replayed: int | None = None
    error: str = ""


@asynccontextmanager
async def listening(network: AnyNetwork, path: Path) -> AsyncIterator[None]:
    """Answer at `path` until the block ends. Whoever holds the store's lock may call this: an old socket is replaced."""
    checking = asyncio.Lock()
    meetings: set[asyncio.Task[None]] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            meeting = asyncio.create_task(_meet(network, checking, reader, writer))
            meetings.add(meeting)
            meeting.add_done_callback(meetings.discard)
            with suppress(asyncio.CancelledError):
                await meeting

    with _at(path) as address:
        _remove(path)
        server = await asyncio.start_unix_server(meet, sock=_bound(address), limit=_LONGEST_LINE)
    try:
        async with server:
            yield
    finally:
        _remove(path)
        # The store closes next: nobody may still read it.
        for meeting in (under_way := list(meetings)):
            meeting.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def ask_check(path: Path, *, repair: bool, sample: int | None, progress: Progress) -> Report | None:
    """Have the server that holds the store check itself; None when none answers. Raises `Unavailable` when it breaks off."""
    async with aclosing(_ask(path, Request("check", repair, sample))) as answers:
        async for answer in answers:
            if answer.progress is not None:
                progress(*answer.progress)
            elif answer.report is not None:
                return answer.report
    return None


async def ask_status(path: Path) -> Status | None:
    """What the server that holds the store says of itself; None when none answers."""
    async with aclosing(_ask(path, Request("status"))) as answers:
        async for answer in answers:
            return answer.status
    return None


async def ask_replay(path: Path, jobs: list[str] | None) -> int | None:
    """Have the server that holds the store give these buried jobs again; how many, or None when none answers."""
    async with aclosing(_ask(path, Request("replay", jobs=jobs))) as answers:
        async for answer in answers:
            return answer.replayed
    return None


async def _ask(path: Path, request: Request) -> AsyncGenerator[Answer, None]:
    try:
        with _at(path) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=_LONGEST_LINE)
    except (FileNotFoundError, ConnectionRefusedError):
        return
    with closing(writer):
        writer.write(msgspec.json.encode(request) + b"\n")
        while line := await reader.readline():
            answer = msgspec.json.decode(line, type=Answer)
            if answer.error:
                raise Unavailable(f"the server that holds the store: {answer.error}")
            yield answer
            if answer.progress is None:
                return
    raise Unavailable("the server that holds the store ended before it answered")


async def _meet(
    network: AnyNetwork, checking: asyncio.Lock, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        request = msgspec.json.decode(await reader.readline(), type=Request)
        work = asyncio.create_task(_answered(network, checking, request, writer))
        gone = asyncio.create_task(reader.read())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)
        if not work.cancelled():
            _say(writer, work.result())
            await writer.drain()
    except (msgspec.DecodeError, ValueError):
        _say(writer, Answer(error="this is no request"))
    except ConnectionError:
        # They hung up.
        return


async def _answered(
    network: AnyNetwork, checking: asyncio.Lock, request: Request, writer: asyncio.StreamWriter
) -> Answer:
    try:
        if request.verb == "status":
            return Answer(status=await _status(network))
        if request.verb == "replay":
            return Answer(replayed=await replay({"store": network.store}, request.jobs))
        if request.verb != "check":
            raise InvalidInput("the verbs are check, status and replay")  # noqa: TRY301  # answered like any other refusal
        async with checking:
            told = _Telling(writer)
            return Answer(report=await check(network, repair=request.repair, sample=request.sample, progress=told))
    except ShoalError as error:
        return Answer(error=str(error))
    except Exception:  # noqa: BLE001  # the server goes on
        _log.exception("a request of the operator failed")
        return Answer(error=_INTERNAL)


async def _status(network: AnyNetwork) -> Status:
    store = network.store
    warm = await network.timelines.members(_MOST_WARM)
    return Status(os.getpid(), len(warm), await store.backlog(), len(await store.buried()))


class _Telling:
    """Progress over the wire, a few times a second."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._told = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        if time.monotonic() - self._told > _PROGRESS_SECONDS:
            self._told = time.monotonic()
            _say(self._writer, Answer(progress=(phase, done, total)))


def _say(writer: asyncio.StreamWriter, answer: Answer) -> None:
    if not writer.is_closing():
        writer.write(msgspec.json.encode(answer) + b"\n")


@contextmanager
def _at(path: Path) -> Iterator[str]:
    """An address for `path` that is short however long the path is: that of a socket may have 107 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _bound(address: str) -> socket.socket:
    """A listening socket whose file only the owner may open, from its first moment."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        listener.bind(address)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
