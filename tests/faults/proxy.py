"""A TCP proxy that can delay, cut or stall the connections to a port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import uvloop

_CHUNK = 65_536
_HOUR_SECONDS = 3_600.0


class Link:
    """A proxy of `port`, which clients reach at port `at`. It runs in a separate thread until `close`, at first without faults."""

    def __init__(self, port: int) -> None:
        self._target = port
        # Delays of requests and of responses.
        self._delays = (0.0, 0.0)
        self._whole = True
        self._word = b""
        self._act: Callable[[], object] = lambda: None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = uvloop.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"link-{port}")
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_CHUNK), self._loop
        ).result()
        self.at: int = self._server.sockets[0].getsockname()[1]

    def slow(self, seconds: float) -> None:
        """Delay every message in both directions by `seconds`."""
        self._do(lambda: setattr(self, "_delays", (seconds, seconds)))

    def hold_back(self, seconds: float) -> None:
        """Delay responses by `seconds`. Requests pass without delay."""
        self._do(lambda: setattr(self, "_delays", (0.0, seconds)))

    def cut(self) -> None:
        """Abort all connections, and each new one when it is made."""

        def cut() -> None:
            self._whole = False
            for writer in self._writers:
                writer.transport.abort()

        self._do(cut)

    def reset(self) -> None:
        """Reset all connections, as if the process had been killed with unread data. New connections are accepted."""

        def reset() -> None:
            for writer in self._writers:
                at_once = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                writer.transport.abort()

        self._do(reset)

    def silence(self) -> None:
        """Stall all connections, including new ones, until `heal`."""
        self._do(self._flowing.clear)

    def silence_at(self, word: bytes) -> None:
        """Stall all connections as soon as a request contains `word`."""
        self._when_asked(word, self._flowing.clear)

    def hold_back_at(self, word: bytes) -> None:
        """Withhold all responses as soon as a request contains `word`, until `heal`. The request is forwarded."""
        self._when_asked(word, lambda: setattr(self, "_delays", (0.0, _HOUR_SECONDS)))

    def watch_for(self, word: bytes) -> threading.Event:
        """Return an event that is set as soon as a request contains `word`."""
        seen = threading.Event()
        self._when_asked(word, seen.set)
        return seen

    def _when_asked(self, word: bytes, act: Callable[[], object]) -> None:
        def begin() -> None:
            self._word, self._act = word, act

        self._do(begin)

    def heal(self) -> None:
        """Remove all faults, and forward stalled data."""

        def heal() -> None:
            self._delays, self._whole, self._word = (0.0, 0.0), True, b""
            self._flowing.set()

        self._do(heal)

    def close(self) -> None:
        """Close all connections and stop the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, act: Callable[[], object]) -> None:
        """Call a function in the thread of the proxy, and wait until it returns."""
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            # If the engine refuses the connection, the connection of the client is aborted, too.
            with contextlib.suppress(OSError):
                if self._whole:
                    there_reader, there = await asyncio.open_connection("127.0.0.1", self._target, limit=_CHUNK)
                    await self._join(reader, writer, there_reader, there)
        finally:
            writer.transport.abort()

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there_reader: asyncio.StreamReader,
        there: asyncio.StreamWriter,
    ) -> None:
        pair = {writer, there}
        self._writers |= pair
        try:
            if self._whole:
                await asyncio.gather(self._carry(0, reader, there), self._carry(1, there_reader, writer))
        finally:
            self._writers -= pair
            there.transport.abort()

    async def _carry(self, way: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if delay := self._delays[way]:
                    await asyncio.sleep(delay)
                if self._word and way == 0 and self._word in data:
                    self._act()
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        # The end of a direction closes the other one, because no client here half-closes a connection.
        writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()


def port_of(url: str) -> int:
    """Return the port of a URL."""
    port = urlsplit(url).port
    assert port is not None
    return port


def moved(url: str, port: int) -> str:
    """Return the URL with another port of this machine."""
    parts = urlsplit(url)
    name = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{name}@127.0.0.1:{port}" if name else f"127.0.0.1:{port}"))
