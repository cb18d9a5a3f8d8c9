"""Request routing between processes: the process that answers, and the passing of connections and messages."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal import settings as configuration
from shoal.commands.oauth import TokenUses
from shoal.core.errors import Unavailable
from shoal.core.model import Token
from shoal.core.tokens import Origin, opened
from shoal.http import connection_passing
from shoal.http.connection_passing import Balance, OwnerPassing, ReadableRoutes, ReaderPassing
from shoal.mastodon_api.routes import table
from shoal.multiprocess.rpc import Passed, Service, connect, serving
from shoal.multiprocess.shared_memory import OWNER, SharedMemory
from tests.api.in_memory_network import network_fixture
from tests.async_runner import eventually, in_loop

READABLE = ReadableRoutes(table(configuration.load({})))


def said(line: str, more: str = "") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: a\r\n{more}\r\n".encode()


@pytest.mark.parametrize(
    ("data", "readable"),
    [
        (said("GET /api/v1/timelines/home"), True),
        (said("GET /api/v1/timelines/home?limit=40"), True),
        (said("GET /api/v1/statuses/123/context"), True),
        (said("GET /api/v1/statuses/123/"), True),
        (said("GET /api/v1/timelines/tag/tide"), True),
        # Cached too, but computed from data that readers do not have.
        (said("GET /api/v1/tags/tide"), False),
        (said("GET /api/v1/trends/tags"), False),
        (said("GET /api/v1/trends/statuses"), False),
        (said("HEAD /api/v1/timelines/home"), False),
        (said("POST /api/v1/statuses"), False),
        (said("GET /api/v1/statuses/%31"), False),
        (said("GET /api/v1/streaming/user"), False),
        (said("GET /no/such/path"), False),
        (said("GET http://elsewhere/api/v1/timelines/home"), False),
        (said("GET /api/v1/timelines/home")[:-2], False),
        (said("GET /api/v1/timelines/home") * 2, False),
        (said("GET /api/v1/timelines/home") + b"x", False),
        (b"GET /", False),
        (b"GET \xff\xfe\r\n\r\n", False),
        (b"", False),
    ],
)
def test_reader_process_serves_only_requests_that_write_nothing(data: bytes, readable: bool) -> None:
    assert READABLE.has(data) is readable


def test_connection_balancing_moves_connections_to_less_busy_process() -> None:
    busy = SharedMemory.create(4, 1, 1).busy

    def sends(*_: object) -> None:
        """Send nothing."""

    def owner() -> OwnerPassing:
        return OwnerPassing(READABLE, Balance(busy, OWNER), lambda: (1, 2), sends)

    def reader() -> ReaderPassing:
        return ReaderPassing(READABLE, Balance(busy, 1), OWNER, sends)

    busy[0], busy[1], busy[2], busy[3] = 900, 800, 500, 0
    assert owner().target(reads=True, streak=5) == 2, "the least busy reader available"
    assert owner().target(reads=True, streak=1) is None, "the connection may send a write next"
    assert owner().target(reads=False, streak=5) is None
    assert reader().target(reads=True, streak=0) is None
    assert reader().target(reads=False, streak=0) == OWNER
    busy[0], busy[1], busy[2] = 300, 800, 200
    assert owner().target(reads=True, streak=5) is None, "both processes are about equally busy"
    assert reader().target(reads=True, streak=0) == OWNER
    both = reader()
    assert [both.target(reads=True, streak=0) for _ in range(2)] == [OWNER, None], (
        "only one of two connections is passed"
    )


@in_loop
async def test_connection_balancing_load_of_process_is_published_while_it_is_busy() -> None:
    busy = SharedMemory.create(2, 1, 1).busy
    async with Balance(busy, 1).publishing():
        deadline = time.monotonic() + 60
        while busy[1] <= 200 and time.monotonic() < deadline:
            sum(range(200_000))
            await asyncio.sleep(0)
        assert busy[1] > 200
        await eventually(lambda: _value(busy[1] < 50), answer=True)


async def _value(true: bool) -> bool:
    return true


@in_loop
async def test_reader_process_without_owner_answers_503_after_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_passing, "_WAIT_SECONDS", 0.1)

    def nobody(*_: object) -> None:
        raise Unavailable("nobody")

    reader = ReaderPassing(READABLE, Balance(SharedMemory.create(2, 1, 1).busy, 1), OWNER, nobody)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader.give(OWNER, os.dup(ours.fileno()), said("POST /api/v1/statuses"))
        ours.close()
        theirs.setblocking(False)
        heard = await asyncio.get_running_loop().sock_recv(theirs, 4_096)
        head, _, body = heard.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert f"content-length: {len(body)}".encode() in head
        assert await asyncio.get_running_loop().sock_recv(theirs, 4_096) == b""


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def counted() -> Iterator[None]:
    """Assert that no descriptor is left open."""
    before = descriptors()
    yield
    assert descriptors() == before


@pytest.mark.usefixtures("counted")
def test_connections_passed_to_other_process_arrive_complete_and_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        dice = random.Random(3)
        sent = [dice.randbytes(dice.choice((10, 5_000, 32_768, 65_536, 200_000))) for _ in range(60)]
        got: list[bytes] = []

        def taken(sock: socket.socket, data: bytes) -> None:
            sock.close()
            got.append(data)

        async with serving(tmp_path / "s.sock", Service(_no_answer, take=taken)):
            sender = await connect(tmp_path / "s.sock")
            for data in sent:
                one, other = socket.socketpair()
                with one, other:
                    sender.link.send(Passed(data), one.fileno())
            await eventually(lambda: _length(got), len(sent))
            assert got == sent
            await sender.close()

    in_loop(main)()


async def _no_answer(_body: object, _call: object) -> bytes:
    raise AssertionError("no request is sent here")


async def _length(of: list[bytes]) -> int:
    return len(of)


def test_access_token_use_recorded_by_reader_process_is_reported_to_owner() -> None:
    told: list[tuple[int, str]] = []
    with network_fixture() as here:
        ann = here.join("ann")
        (token,) = here.run(here.network.store.obj_get((opened(ann.token).id,))).values()
        assert isinstance(token, Token)
        uses = TokenUses(here.writes, lambda id_, origin: told.append((id_, origin.program)))
        uses.note(token, lambda: Origin("192.0.2.1", "Tide"))
        assert told == [], "the token was used today already"
        days = 40 * 86_400_000
        here.writes.new_id.now, now = lambda: now() + days, here.writes.new_id.now  # type: ignore[method-assign]
        uses.note(token, lambda: Origin("192.0.2.1", "Tide"))
        assert told == [(token.id, "Tide")]
