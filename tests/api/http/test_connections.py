"""Timeouts and limits of connections, on a real server with real sockets."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from shoal import server
from shoal.http import connections
from shoal.http.connections import DescriptorLimits, Doubts, Idleness, OpenConnections, Patience, Proxies
from shoal.http.protocol import HttpConnection
from shoal.settings import load
from tests.api.streaming.stream_clients import SLOW, StreamServer, stream_server
from tests.async_runner import TurnClock, eventually, in_loop, run

QUICK = Patience(interval=0.02, head=0.2, rate=100_000, grace=0.2, advance=0.4, idle=0.3, idle_proxy=0.3, unread=0.2)
GET = b"GET /api/v1/instance HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /api/v1/apps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
APP = b'{"client_name":"x","redirect_uris":"urn:x"}'
NOBODY: tuple[str, ...] = ()
OTHER = "127.0.0.2"


class Wire:
    """A raw TCP connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *pieces: bytes, pause: float = 0.0) -> None:
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(pause)

    async def says(self, pieces: Iterable[bytes], pause: float = 0.0) -> bytes:
        """Send the pieces and return all that comes back until the server closes."""

        async def send() -> None:
            with suppress(ConnectionError):
                for piece in pieces:
                    await self.say(piece, pause=pause)

        sending = asyncio.create_task(send())
        try:
            return await self.rest()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def rest(self) -> bytes:
        """Return all bytes until the server closes the connection."""
        said = b""
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                while piece := await self._reader.read(65536):
                    said += piece
        return said

    async def status(self) -> int:
        """Read the next response and return its status."""
        return int((await self.answer())[9:12])

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def answer(self, *, bodiless: bool = False) -> bytes:
        """Read the next response and return its head and body."""
        async with asyncio.timeout(60):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            return head + (b"" if bodiless else await self._reader.readexactly(int(length or 0)))

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def wire(streams: StreamServer, source: str = "127.0.0.1") -> AsyncIterator[Wire]:
    port = int(streams.url.rpartition(":")[2])
    made = Wire(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)))
    try:
        yield made
    finally:
        made.close()


async def _is_well(streams: StreamServer) -> None:
    assert (await streams.client.get("/health")).text == "OK"


@in_loop
async def test_idle_connection_without_request_is_closed() -> None:
    async with stream_server(patience=QUICK) as streams, wire(streams) as silent:
        assert await silent.rest() == b""


@pytest.mark.parametrize(("head", "pause"), [([GET], 0.0), (itertools.chain([GET], itertools.repeat(b"a")), 0.01)])
def test_slow_request_head_returns_408(head: Iterator[bytes], pause: float) -> None:
    @in_loop
    async def story() -> None:
        async with stream_server(patience=QUICK) as streams, wire(streams) as slow:
            assert (await slow.says(head, pause)).startswith(b"HTTP/1.1 408 ")

    story()


@pytest.mark.parametrize(
    ("begin", "piece", "pause", "answer"),
    [
        (b"", b"", 0.0, b""),
        (GET, b"a", 0.1, b"HTTP/1.1 408 "),
        (POST + b"Content-Length: 60000\r\n\r\n", b"x", 0.1, b"HTTP/1.1 408 "),
    ],
)
def test_request_timeout_by_default_is_ten_seconds(begin: bytes, piece: bytes, pause: float, answer: bytes) -> None:
    async def story() -> float:
        async with stream_server() as streams, wire(streams) as slow:
            loop = asyncio.get_running_loop()
            since = loop.time()
            said = await slow.says(itertools.chain([begin], itertools.repeat(piece)) if piece else [], pause)
            assert said.startswith(answer)
            assert bool(said) == bool(answer)
            return loop.time() - since

    assert 10 <= run(story(), TurnClock) <= 12


def test_request_body_at_1_kb_per_second_is_accepted_by_default() -> None:
    async def story() -> float:
        async with stream_server() as streams, wire(streams) as steady:
            loop = asyncio.get_running_loop()
            since = loop.time()
            text = b'{"client_name":"' + b"x" * 40_000 + b'","redirect_uris":"urn:x"}'
            await steady.say(POST, b"Content-Length: %d\r\n\r\n" % len(text))
            await steady.say(*(text[at : at + 110] for at in range(0, len(text), 110)), pause=0.1)
            assert await steady.status() == 422
            return loop.time() - since

    assert run(story(), TurnClock) > 30


@in_loop
async def test_idle_keep_alive_connection_keeps_no_reference_to_last_request() -> None:
    async with stream_server() as streams, wire(streams) as idle:
        await idle.say(GET, b"\r\n")
        assert await idle.status() == 200

        connections = [one for one in gc.get_objects() if type(one) is HttpConnection]
        timers: list[Any] = [one.timeout_keep_alive_task for one in connections if one.timeout_keep_alive_task]
        # Objects in the context of a timer stay alive until the next request.
        assert [dict(timer._context) for timer in timers] == [{}]


@in_loop
async def test_second_request_on_connection_has_its_own_timeout() -> None:
    # Only the timeout of the head matters here: the connection may be idle between the requests.
    patience = QUICK._replace(idle=60.0, idle_proxy=60.0)
    async with stream_server(patience=patience) as streams, wire(streams) as slow:
        for _ in range(2):
            await slow.say(GET, b"\r\n")
            assert await slow.status() == 200
        assert (await slow.says(itertools.repeat(b"\r\n"), 0.01)).startswith(b"HTTP/1.1 408 ")
    async with stream_server(patience=QUICK) as streams, wire(streams) as idle:
        await idle.say(GET, b"\r\n")
        assert await idle.status() == 200
        assert await idle.rest() == b""


@pytest.mark.parametrize("size", [40_000, 200_000])
def test_request_head_over_size_limit_returns_431(size: int) -> None:
    @in_loop
    async def story() -> None:
        async with stream_server() as streams:
            for head in ([GET, b"X: ", b"a" * size, b"\r\n\r\n"], [GET + b"X: " + b"a" * size + b"\r\n\r\n"]):
                async with wire(streams) as large:
                    assert (await large.says(head)).startswith(b"HTTP/1.1 431 ")
            async with wire(streams) as ordinary:
                await ordinary.say(GET, b"X: " + b"a" * 30_000, b"\r\n\r\n")
                assert await ordinary.status() == 200

    story()


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (GET, b"X: y\r\n"),
        (GET + b"X: ", b"aaaa"),
        (b"", b"\r\n"),
        (CHUNKED + b"0\r\n", b"X: y\r\n"),
        (CHUNKED + b"1;", b"a"),
    ],
    ids=["headers", "one header", "blank lines", "trailers", "extension of a chunk"],
)
def test_connection_sending_endless_request_head_or_trailers_is_closed(begin: bytes, piece: bytes) -> None:
    @in_loop
    async def story() -> None:
        async with stream_server() as streams, wire(streams) as endless:
            # A client that is still sending may lose the response; the test requires only that the server closes.
            assert (await endless.says(itertools.chain([begin], itertools.repeat(piece * 1_000)))).count(
                b"HTTP/1.1"
            ) < 2
            await _is_well(streams)

    story()


@in_loop
async def test_pipelined_requests_do_not_count_as_one_large_head() -> None:
    body = b'{"client_name":"x","redirect_uris":"urn:x","website":"https://e.org/%b"}' % (b"a" * 100)
    one = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with stream_server() as streams, wire(streams) as eager:
        await eager.say(one * 300)
        assert [await eager.status() for _ in range(300)] == [200] * 300


@pytest.mark.parametrize("sent", [b"", b"x" * 300])
def test_stalled_request_body_returns_408(sent: bytes) -> None:
    @in_loop
    async def story() -> None:
        async with stream_server(patience=QUICK) as streams, wire(streams) as slow:
            await slow.say(POST, b"Content-Length: 60000\r\n\r\n", sent)
            assert (await slow.rest()).startswith(b"HTTP/1.1 408 ")

    story()


@in_loop
async def test_request_body_below_minimum_rate_returns_408() -> None:
    async with stream_server(patience=QUICK) as streams, wire(streams) as slow:
        said = await slow.says(itertools.chain([POST, b"Content-Length: 60000\r\n\r\n"], itertools.repeat(b"x")), 0.01)
        assert said.startswith(b"HTTP/1.1 408 ")


@in_loop
async def test_request_body_at_minimum_rate_has_no_total_timeout() -> None:
    async with stream_server(patience=QUICK._replace(rate=10)) as streams, wire(streams) as steady:
        await steady.say(POST, b"Content-Length: %d\r\n\r\n" % len(APP))
        await steady.say(*(bytes([byte]) for byte in APP), pause=0.02)
        assert await steady.status() == 200


@in_loop
async def test_expect_continue_request_has_no_body_timeout_before_100() -> None:
    async with stream_server(patience=QUICK) as streams, wire(streams) as polite:
        await polite.say(POST, b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(APP))
        assert await polite.status() == 100
        await polite.say(APP)
        assert await polite.status() == 200


@in_loop
async def test_client_that_does_not_read_responses_is_disconnected() -> None:
    async with stream_server(patience=QUICK) as streams, wire(streams) as deaf:
        with suppress(ConnectionError):
            async with asyncio.timeout(60):
                while True:
                    await deaf.say(GET + b"\r\n", pause=0.0)
        await _is_well(streams)


@in_loop
async def test_connection_limit_per_address_returns_429_and_other_addresses_connect() -> None:
    few = stream_server(trusted_proxies=NOBODY, connections_per_address=3)
    async with few as streams, wire(streams) as one, wire(streams), wire(streams):
        async with wire(streams) as more:
            answer = await more.rest()
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"\r\nretry-after: " in answer
        async with wire(streams, OTHER) as other:
            await other.say(GET, b"\r\n")
            assert await other.status() == 200
        one.close()
        await eventually(lambda: _answers(streams), True)


async def _answers(streams: StreamServer) -> bool:
    async with wire(streams) as again:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await again.say(GET, b"\r\n")
            return await again.status() == 200
    return False


@in_loop
async def test_connection_limit_counts_websockets_and_event_streams_until_closed() -> None:
    async with stream_server(trusted_proxies=NOBODY, connections_per_address=3) as streams:
        ann = await streams.join("ann")
        async with streams.socket(who=ann), streams.socket(who=ann), streams.ear(ann, "user"):
            assert not await _answers(streams)
        await streams.client.aclose()
        await eventually(lambda: _answers(streams), True)


@in_loop
async def test_connection_limit_behind_proxy_counts_forwarded_client_address() -> None:
    async with stream_server(connections_per_address=2) as streams:
        ann = await streams.join("ann")
        ann_behind = {"Authorization": f"Bearer {ann.token}", "X-Forwarded-For": "203.0.113.1"}
        stream = streams.client.stream("GET", "/api/v1/streaming/user", headers=ann_behind)
        async with stream, streams.socket(headers=ann_behind):
            refused = await streams.client.get("/api/v1/instance", headers=ann_behind)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
            with pytest.raises(InvalidStatus, match="429"):
                async with streams.socket(headers=ann_behind):
                    pass
            assert (await streams.client.get("/health", headers=ann_behind)).status_code == 200
            others = {"X-Forwarded-For": "203.0.113.1, 203.0.113.2"}
            assert (await streams.client.get("/api/v1/instance", headers=others)).status_code == 200

        async def answers() -> int:
            return (await streams.client.get("/api/v1/instance", headers=ann_behind)).status_code

        await eventually(answers, 200)


@in_loop
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"])
async def test_overloaded_server_refuses_waiting_requests_with_503_and_keeps_connections(
    monkeypatch: pytest.MonkeyPatch, method: bytes
) -> None:
    async with stream_server() as streams, AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(wire(streams)) for _ in range(60)]
        request = GET.replace(b"GET", method) + b"Content-Length: 0\r\n\r\n"
        health = GET.replace(b"/api/v1/instance", b"/health?x=1") + b"\r\n"
        with monkeypatch.context() as overloaded:
            # Every request that is not started in the turn of the event loop in which it arrives has waited for too long.
            overloaded.setattr(connections, "_BURST_SECONDS", 0.0)
            overloaded.setattr(connections, "_WAITING_SECONDS", 0.0)
            refused: list[bytes] = []
            started = 0
            while not (refused and started):
                for one in wires[1:]:
                    one.write(request)
                wires[0].write(health)
                answers = [await one.answer(bodiless=method == b"HEAD") for one in wires[1:]]
                refused += [answer for answer in answers if answer.startswith(b"HTTP/1.1 503")]
                started += len(answers) - len(refused)
                assert (await wires[0].answer()).startswith(b"HTTP/1.1 200")
        for answer in refused:
            assert b"\r\nretry-after: 1\r\n" in answer
            assert b"\r\naccess-control-allow-origin: *\r\n" in answer
            if method != b"HEAD":
                assert answer.endswith(b'{"error":"The server is busy; try again in a moment"}')
        for one in wires:
            one.write(health)
            assert (await one.answer()).endswith(b"OK")


@in_loop
async def test_rate_limit_behind_proxy_applies_to_forwarded_client_address() -> None:
    async with stream_server(rate_limits=True, limits={"pages": "2/1h"}) as streams:
        asked = {"X-Forwarded-For": "10.1.1.1, 203.0.113.1"}
        statuses = [(await streams.client.get("/", headers=asked)).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        # Addresses further left are set by the client and ignored.
        asked = {"X-Forwarded-For": "10.2.2.2, 203.0.113.1", "Forwarded": "for=10.3.3.3"}
        assert (await streams.client.get("/", headers=asked)).status_code == 429
        assert (await streams.client.get("/", headers={"X-Forwarded-For": "203.0.113.2"})).status_code == 200


@in_loop
async def test_untrusted_proxy_is_logged_and_its_forwarded_address_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    limits = {"pages": "2/1h"}
    secure = stream_server(rate_limits=True, limits=limits, base_url="https://example.org", trusted_proxies=NOBODY)
    async with secure as streams:
        with caplog.at_level(logging.WARNING):
            statuses = [
                (await streams.client.get("/", headers={"X-Forwarded-For": f"203.0.113.{number}"})).status_code
                for number in range(3)
            ]
    assert statuses == [200, 200, 429]
    assert [record.message.split()[0] for record in caplog.records if "trusted_proxies" in record.message] == [
        "127.0.0.1"
    ]


def test_full_server_keeps_spare_slots_for_trusted_proxies() -> None:
    settings = load({})
    proxies = Proxies(["127.0.0.1"])
    counted = OpenConnections(proxies, Doubts(settings, proxies.trusts), most=2, per_address=0)
    assert [counted.enter(f"203.0.113.{number}") for number in range(3)] == [0, 0, 503]
    # Refused connections that are still open do not use up the spare slots.
    assert {counted.enter(f"203.0.113.{number}") for number in range(3, 100)} == {503}
    assert counted.enter("127.0.0.1") == 0
    for number in range(2, 100):
        counted.leave(f"203.0.113.{number}", refused=True)
    for peer in ("203.0.113.0", "203.0.113.1", "127.0.0.1"):
        counted.leave(peer)
    assert (counted.open, counted.enter("203.0.113.9")) == (0, 0)


@pytest.mark.parametrize(
    ("limits", "files", "descriptor_limits"),
    [
        ("256:4096", 4_096, DescriptorLimits(2_048, 1_024)),
        ("400:400", 400, DescriptorLimits(200, 100)),
    ],
)
def test_file_descriptor_limit_is_raised_to_hard_limit(
    limits: str, files: int, descriptor_limits: DescriptorLimits
) -> None:
    """1,100 silent connections would exhaust the usual soft limit."""
    command = ["prlimit", f"--nofile={limits}", sys.executable, "-c", _LIMITS]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.split() == [str(files), str(descriptor_limits.most), str(descriptor_limits.backlog)]


_LIMITS = """
import resource
from shoal.http.connections import descriptor_limits
most, backlog = descriptor_limits()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], most, backlog)
"""


def counting(most: int, per_address: int = 0) -> OpenConnections:
    proxies = Proxies(["127.0.0.1"])
    return OpenConnections(proxies, Doubts(load({}), proxies.trusts), most=most, per_address=per_address)


def test_connection_limit_counts_ipv6_64_prefix_as_one_address() -> None:
    counted = counting(10, per_address=1)
    assert counted.enter("2001:db8::1") == 0
    assert counted.enter("2001:db8::ffff:2") == 429
    assert counted.enter("2001:db8:0:1::1") == 0


def test_connection_limit_of_ipv6_48_prefix_is_four_times_limit_per_address() -> None:
    counted = counting(100, per_address=2)
    assert [counted.enter(f"2001:db8:0:{subnet:x}::1") for subnet in range(9)] == [0] * 8 + [429]
    assert counted.enter("2001:db8:1::1") == 0
    for subnet in range(9):
        counted.leave(f"2001:db8:0:{subnet:x}::1", refused=subnet == 8)
    assert counted.enter("2001:db8:0:ffff::1") == 0


class Held:
    """A connection with a fixed state that records its eviction."""

    def __init__(self, counted: OpenConnections, peer: str, idleness: Idleness | None) -> None:
        self.peer = peer
        self._idleness = idleness
        self.evicted = False
        assert counted.enter(peer) == 0
        counted.watched.add(self)

    def tick(self) -> None:
        """Do nothing."""

    def idleness(self) -> Idleness | None:
        """Return the state."""
        return self._idleness

    def evict(self) -> None:
        """Record the eviction."""
        self.evicted = True


def test_full_server_evicts_the_most_idle_connection_of_the_address_range_with_most_connections() -> None:
    counted = counting(6)
    busy, reading, begun, idle = (
        Held(counted, "203.0.113.1", idleness)
        for idleness in (None, Idleness(0, 50.0), Idleness(1, 9.0), Idleness(2, 0.0))
    )
    others = [Held(counted, f"198.51.100.{number}", Idleness(2, 0.0)) for number in range(2)]
    evicted = []
    for number in range(3):
        assert counted.enter(f"192.0.2.{number}") == 0
        evicted.append([held.evicted for held in (idle, begun, reading)])
        counted.leave("203.0.113.1", evicted=True)
    assert evicted == [[True, False, False], [True, True, False], [True, True, True]]
    assert not busy.evicted
    assert not any(other.evicted for other in others)
    assert (counted.open, counted.evicted) == (6, 3)


def test_full_server_refuses_address_range_with_more_connections_than_any_idle_address_range() -> None:
    counted = counting(4)
    small = Held(counted, "198.51.100.1", Idleness(2, 0.0))
    for _ in range(3):
        Held(counted, "203.0.113.1", None)
    assert counted.enter("203.0.113.1") == 503
    assert not small.evicted
    counted.leave("203.0.113.1", refused=True)


def test_full_server_with_only_busy_connections_refuses_next_connection() -> None:
    counted = counting(2)
    for number in range(2):
        Held(counted, f"203.0.113.{number}", None)
    assert [counted.enter(f"192.0.2.{number}") for number in range(3)] == [503] * 3


def test_full_server_that_refused_range_with_most_connections_accepts_connection_from_another_range() -> None:
    counted = counting(4)
    small = Held(counted, "198.51.100.1", Idleness(2, 0.0))
    for _ in range(3):
        Held(counted, "203.0.113.1", None)
    assert counted.enter("203.0.113.1") == 503
    counted.leave("203.0.113.1", refused=True)
    assert counted.enter("192.0.2.1") == 0
    assert small.evicted


def test_full_server_with_only_trusted_proxy_connections_answers_new_client_with_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "descriptor_limits", lambda: DescriptorLimits(2, 64))

    async def main() -> bytes:
        async with (
            stream_server(trusted_proxies=("127.0.0.1",), rate_limits=False) as streams,
            wire(streams),
            wire(streams),
            wire(streams, OTHER) as newcomer,
        ):
            return await newcomer.rest()

    assert run(main()).startswith(b"HTTP/1.1 503 ")


def test_connection_limit_does_not_count_evicted_connections_that_are_still_closing() -> None:
    counted = counting(64)
    for number in range(64):
        Held(counted, f"203.0.113.{number}", Idleness(1, 1.0))
    assert {counted.enter(f"192.0.2.{number}") for number in range(64)} == {0}
    assert counted.evicted == 64


_SLOW = {
    "a head": [GET + b"X: "],
    "a body": [POST + b"Content-Length: 9000\r\n\r\n{"],
    "an idle connection": [GET + b"\r\n"],
}


@pytest.mark.parametrize("slow", _SLOW)
def test_slow_clients_from_few_addresses_do_not_lock_out_other_clients(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "descriptor_limits", lambda: DescriptorLimits(30, 64))
    held: Counter[str] = Counter()

    async def is_full() -> bool:
        return held.total() >= 60

    async def attack(streams: StreamServer, source: str) -> None:
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                async with wire(streams, source) as one:
                    await one.say(*_SLOW[slow])
                    held.update((source,))
                    await one.rest()
            await asyncio.sleep(0.05)

    async def main() -> None:
        patience = Patience(head=600, grace=4.0, idle=600, interval=0.05)
        async with stream_server(trusted_proxies=NOBODY, patience=patience, rate_limits=False) as streams:
            sources = (f"127.0.0.{number % 3 + 2}" for number in range(60))
            attackers = [asyncio.create_task(attack(streams, source)) for source in sources]
            try:
                await eventually(is_full, True)
                for number in range(40):
                    async with wire(streams, f"127.0.1.{number + 1}") as innocent:
                        await innocent.say(GET, b"\r\n")
                        assert await innocent.status() == 200
            finally:
                for attacker in attackers:
                    attacker.cancel()
                await asyncio.gather(*attackers, return_exceptions=True)

    run(main())


@in_loop
async def test_server_shutdown_completes_with_open_client_connections() -> None:
    async with stream_server(SLOW) as streams, wire(streams), wire(streams) as begun:
        await begun.say(GET)
        await _is_well(streams)


@pytest.mark.parametrize(
    ("hosts", "version", "status"),
    [
        (b"", b"1.1", 400),
        (b"Host: x\r\nHost: x\r\n", b"1.1", 400),
        (b"Host: x\r\nhost: y\r\n", b"1.1", 400),
        (b"Host: x\r\nHost: y\r\n", b"1.0", 400),
        (b"Host: x\r\n", b"1.1", 200),
        (b"Host: [::1]:8500\r\n", b"1.1", 200),
        (b"", b"1.0", 200),
        (b"", b"2.0", 400),
        (b"Host: x:\r\n", b"1.1", 200),
        (b"Host: x:65535\r\n", b"1.1", 200),
        (b"Host: x y\r\n", b"1.1", 400),
        (b"Host: x:80:80\r\n", b"1.1", 400),
        (b"Host: [::1\r\n", b"1.1", 400),
        (b"Host: ::1\r\n", b"1.1", 400),
        (b"Host: [::1]8500\r\n", b"1.1", 400),
        (b"Host: x:port\r\n", b"1.1", 400),
        (b"Host: x:99999\r\n", b"1.1", 400),
        (b"Host: x:100000\r\n", b"1.0", 400),
        (b"Host: x/y\r\n", b"1.1", 400),
        (b"Host: y@x\r\n", b"1.0", 400),
        (b"Host: x?\r\n", b"1.1", 400),
    ],
)
def test_request_without_exactly_one_valid_host_header_returns_400(hosts: bytes, version: bytes, status: int) -> None:
    @in_loop
    async def story() -> None:
        async with stream_server() as streams, wire(streams) as one:
            head = b"GET /api/v1/instance HTTP/" + version + b"\r\nConnection: close\r\n" + hosts + b"\r\n"
            answer = await one.says([head])
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert (b"one Host header" in answer) is (status == 400)
            assert answer.count(b"HTTP/1.1 ") == 1

    story()


def test_websocket_without_host_header_returns_400() -> None:
    @in_loop
    async def story() -> None:
        async with stream_server() as streams, wire(streams) as one:
            head = (
                b"GET /api/v1/streaming HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
            )
            assert (await one.says([head])).startswith(b"HTTP/1.1 400 ")

    story()
