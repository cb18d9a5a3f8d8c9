"""Tools to inspect `shoal serve --workers` on one SQLite file: its processes by number (slot), and the one of each connection."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from shoal import Shoal
from shoal.commands import oauth
from shoal.multiprocess.supervisor import VARIABLE
from tests.server_process import Server, children

OWNER, READER = 0, 1
_SCOPES = ("read", "write", "follow")
_PATIENCE_SECONDS = 60.0


class Person(NamedTuple):
    """A member with a token that has all scopes."""

    id: str
    name: str
    token: str


async def people(store: Path, names: Sequence[str]) -> list[Person]:
    """Register members in a new store. Each member follows all others."""
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        handles = [await shoal.register(name) for name in names]
        writes = shoal.network.writes
        app = (await oauth.register(writes, "test", scopes=_SCOPES)).app
        for one in handles:
            for other in handles:
                if one is not other:
                    await one.follow(other)
        tokens = [(await oauth.issue_token(writes, app.id, one.id, _SCOPES)).text for one in handles]
        return [Person(str(one.id), one.name, token) for one, token in zip(handles, tokens, strict=True)]


def begun(store: Path, *names: str) -> list[Person]:
    """Call `people` outside an event loop."""
    return asyncio.run(people(store, names))


def process(server: Server, place: int) -> int:
    """Return the process ID of the process with this number, waiting until it has started."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for child in children(server.process.pid):
            try:
                environ = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if any(
                line.startswith(f"{VARIABLE}=".encode()) and line.endswith(f":{place}".encode()) for line in environ
            ):
                return child
        time.sleep(0.02)
    raise AssertionError(f"process {place} did not start")


class Connection:
    """A persistent connection to a server."""

    def __init__(self, server: Server, token: str = "") -> None:
        self._server = server
        self._address = urlsplit(server.url)
        self._token = token
        self.sock = socket.create_connection((self._address.hostname, self._address.port), timeout=_PATIENCE_SECONDS)
        self._left = b""

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        """Send a request."""
        self.sock.sendall(self.request(method, path, body, **headers))

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
        """Return the bytes of a request."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address.netloc}"]
        lines += [f"Authorization: Bearer {self._token}"] if self._token else []
        lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    def receive(self) -> tuple[int, bytes]:
        """Return the status and the body of the next response. Raises `ConnectionError` if the server closes the connection."""
        while b"\r\n\r\n" not in self._left:
            self._more()
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        sizes = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        size = sizes[0] if sizes else 0
        while len(self._left) < size:
            self._more()
        body, self._left = self._left[:size], self._left[size:]
        return status, body

    def _more(self) -> None:
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._left += data

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of its response."""
        self.send(method, path, body, **headers)
        return self.receive()

    def place(self) -> int | None:
        """Return the number of the process that has accepted the connection, or None."""
        inode = self._inode()
        for place in (OWNER, READER):
            folder = Path(f"/proc/{process(self._server, place)}/fd")
            for number in folder.iterdir():
                try:
                    if str(number.readlink()) == f"socket:[{inode}]":
                        return place
                except FileNotFoundError:
                    continue
        return None

    def _inode(self) -> str:
        mine, theirs = (self.sock.getsockname()[1], self._address.port)
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            local, remote, inode = (line.split()[at] for at in (1, 2, 9))
            if (int(local.split(":")[1], 16), int(remote.split(":")[1], 16)) == (theirs, mine):
                return inode
        raise AssertionError("the server has no such connection")

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()


class Connections:
    """A context manager for connections to a server, which closes them at the end of the block."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._made: list[Connection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._made:
            one.close()

    def new(self, token: str = "") -> Connection:
        """Return a new connection to any process."""
        self._made.append(made := Connection(self._server, token))
        return made

    def at(self, place: int, token: str = "") -> Connection:
        """Return a new connection to the process with this number. Opens connections until that process accepts one."""
        process(self._server, place)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with Connections(self._server) as tried:
            while time.monotonic() < deadline:
                made = tried.new(token)
                assert made.ask("GET", "/api/v1/timelines/public")[0] == 200
                if made.place() == place:
                    tried._made.remove(made)
                    self._made.append(made)
                    return made
        raise AssertionError(f"process {place} accepted no connection")
