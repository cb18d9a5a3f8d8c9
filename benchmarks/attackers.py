"""Hostile clients for `benchmarks.attack` and the fault tests; they only attack servers on this machine.

Each function takes a server on the loopback interface, a number of connections and a duration, and returns the number of
connections by outcome: "open" if the server kept the connection, "closed", or the status of its response.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import msgspec

Outcomes = Counter[str]

_MP4 = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"
_BOUNDARY = "attack"
_MIB = 1 << 20
_LATE_SECONDS = 1.0


class Target(msgspec.Struct, frozen=True):
    """A server on this machine, tokens of its members, and an app that may request tokens."""

    port: int
    tokens: list[str] = []
    client_id: str = ""
    client_secret: str = ""


class _Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, target: Target, source: str) -> _Wire:
        # `open_connection` leaks the socket if it cannot connect.
        made = socket.socket()
        try:
            made.setblocking(False)
            made.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", target.port))
            return cls(*await asyncio.open_connection(sock=made))
        except BaseException:
            made.close()
            raise

    async def send(self, pieces: Iterator[bytes], pause: float) -> None:
        """Send pieces until there are no more, or the peer stops reading."""
        with suppress(OSError):
            for piece in pieces:
                self._writer.write(piece)
                await self._writer.drain()
                await asyncio.sleep(pause)

    async def status(self) -> str:
        """Return the status of the response; "closed" without one."""
        with suppress(OSError):
            line = await self._reader.readline()
            if line.startswith(b"HTTP/"):
                return line.split()[1].decode()
        return "closed"

    async def end(self, status: asyncio.Task[str]) -> str:
        """Close the connection. Return the status of the response, or "open" if there is no response yet."""
        told = status.result() if status.done() else "open"
        status.cancel()
        await asyncio.gather(status, return_exceptions=True)
        self._hang_up()
        return told

    async def talk(self, pieces: Iterator[bytes], pause: float, seconds: float) -> str:
        """Send pieces and return the status of the response. It is "open" if there is no response before the deadline."""
        sending = asyncio.create_task(self.send(pieces, pause))
        try:
            async with asyncio.timeout(seconds):
                return await self.status()
        except TimeoutError:
            return "open"
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            self._hang_up()

    def _hang_up(self) -> None:
        self._writer.transport.abort()


async def _together(count: int, one: Callable[[int], Awaitable[str]]) -> Outcomes:
    async def guarded(number: int) -> str:
        try:
            return await one(number)
        except OSError:
            return "closed"

    return Counter(await asyncio.gather(*[guarded(number) for number in range(count)]))


async def silent(target: Target, count: int, seconds: float, *, sources: int = 1) -> Outcomes:
    """Open connections that send nothing.

    They end together, so that a late connection does not get the slot of an earlier one: `seconds` after the last refusal, since
    a busy server takes a while to refuse all of them. A connection that the kernel accepted less than a second before the end,
    because the accept queue was full, counts as "late".
    """
    loop = asyncio.get_running_loop()
    began = last = loop.time()

    async def one(number: int) -> str:
        nonlocal last
        wire = await _Wire.open(target, f"127.0.1.{1 + number % sources}")
        opened = loop.time()
        status = asyncio.create_task(wire.status())
        while not status.done() and (left := min(last, began + seconds) + seconds - loop.time()) > 0:
            await asyncio.wait({status}, timeout=left)
        if status.done():
            last = loop.time()
        late = not status.done() and loop.time() - opened < _LATE_SECONDS
        told = await wire.end(status)
        return "late" if late else told

    return await _together(count, one)


async def scattered(target: Target, count: int, seconds: float) -> Outcomes:
    return await silent(target, count, seconds, sources=1 + count // 200)


async def heads(target: Target, count: int, seconds: float) -> Outcomes:
    """Send endless request heads as fast as the server reads them, repeatedly."""
    until = asyncio.get_running_loop().time() + seconds
    found: Outcomes = Counter()

    async def one(number: int) -> str:
        while (left := until - asyncio.get_running_loop().time()) > 0:
            with suppress(OSError):
                wire = await _Wire.open(target, f"127.0.2.{1 + number % 8}")
                head = itertools.chain([b"GET / HTTP/1.1\r\nX: "], itertools.repeat(b"a" * 65_536))
                found[await wire.talk(head, 0.0, left)] += 1
            await asyncio.sleep(0.01)
        return "closed"

    await _together(count, one)
    return found


async def drips(target: Target, count: int, seconds: float) -> Outcomes:
    """Upload 31 MB: 1 MB at once, then 4 KB a second, which is slow but above the minimum rate of the server."""

    async def one(number: int) -> str:
        wire = await _Wire.open(target, f"127.0.3.{1 + number % 8}")
        slowly = itertools.chain([_upload_head(target, number, 31 * _MIB), bytes(_MIB)], itertools.repeat(bytes(4_096)))
        return await wire.talk(slowly, 1.0, seconds)

    return await _together(count, one)


async def uploads(target: Target, count: int, seconds: float) -> Outcomes:
    async def one(number: int) -> str:
        wire = await _Wire.open(target, f"127.0.4.{1 + number % 8}")
        pieces = itertools.chain(
            [_upload_head(target, number, 31 * _MIB)], itertools.repeat(bytes(_MIB), 31), [_upload_end()]
        )
        return await wire.talk(pieces, 0.0, seconds)

    return await _together(count, one)


async def passwords(target: Target, count: int, seconds: float) -> Outcomes:
    async def one(number: int) -> str:
        form = {
            "grant_type": "password",
            "client_id": target.client_id,
            "client_secret": target.client_secret,
            "username": f"member_{number % 20}",
            "password": f"wrong {number}",
        }
        body = urlencode(form).encode()
        head = _head("POST", "/oauth/token", "", "application/x-www-form-urlencoded", len(body))
        wire = await _Wire.open(target, f"127.0.{10 + number % 100}.1")
        return await wire.talk(iter([head + body]), 0.0, seconds)

    return await _together(count, one)


ATTACKS: Mapping[str, Callable[[Target, int, float], Coroutine[Any, Any, Outcomes]]] = {
    "silent": silent,
    "scattered": scattered,
    "heads": heads,
    "drips": drips,
    "uploads": uploads,
    "passwords": passwords,
}


def _head(method: str, path: str, token: str, kind: str, length: int) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}", f"Content-Length: {length}"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode()


def _upload_head(target: Target, number: int, size: int) -> bytes:
    part = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'.encode() + _MP4
    token = target.tokens[number % len(target.tokens)]
    length = len(part) + size + len(_upload_end())
    return _head("POST", "/api/v2/media", token, f"multipart/form-data; boundary={_BOUNDARY}", length) + part


def _upload_end() -> bytes:
    return f"\r\n--{_BOUNDARY}--\r\n".encode()


def main() -> None:
    """Run the attack given by the arguments (name, count, seconds, and the target as JSON), and print the outcomes as JSON."""
    name, count, seconds, target = sys.argv[1:]
    attack = ATTACKS[name](msgspec.json.decode(target, type=Target), int(count), float(seconds))
    # A real attacker would run on another machine.
    os.nice(10)
    print(json.dumps(asyncio.run(attack)))
