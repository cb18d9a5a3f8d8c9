"""An open load counts every request that was due while the server stalled."""

from __future__ import annotations

import asyncio
import itertools
import time

from benchmarks.http_client import Server
from benchmarks.measure import spread
from benchmarks.open_load import OpenOutcome, Request, open_load
from tests.async_runner import in_loop

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def is_right(status: int, body: bytes) -> str:
    return "" if (status, body) == (200, b"ok") else f"status {status}"


class Stopping:
    """A server that responds immediately but stalls once after a number of responses."""

    def __init__(self, after: int, seconds: float, *, hangs_up: bool = False) -> None:
        self._answers = itertools.count(1)
        self._after = after
        self._seconds = seconds
        self._hangs_up = hangs_up
        self._resume = 0.0
        self._over: list[asyncio.Event] = []

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self._over.append(over := asyncio.Event())
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                if next(self._answers) == self._after:
                    if self._hangs_up:
                        return
                    self._resume = time.perf_counter() + self._seconds
                if (rest := self._resume - time.perf_counter()) > 0:
                    await asyncio.sleep(rest)
                writer.write(_ANSWER)
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()
            over.set()

    async def loaded(self, rate: float, seconds: float) -> OpenOutcome:
        """Run a load against the server and return the outcome."""
        async with await asyncio.start_server(self.meet, "127.0.0.1", 0) as server:
            at = Server(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            asked = itertools.repeat(Request("ok", at.request("GET", "/"), is_right))
            outcome = await open_load(at, asked, rate, seconds, seed=1)
            for over in self._over:
                await over.wait()
        return outcome


@in_loop
async def test_open_loop_load_sends_requests_at_given_rate() -> None:
    outcome = await Stopping(0, 0.0).loaded(500, 1.0)
    assert 400 < outcome.answers < 600
    assert len(outcome.late) == outcome.answers
    assert not outcome.wrong


@in_loop
async def test_open_loop_load_during_server_stall_measures_delay_of_all_due_requests() -> None:
    outcome = await Stopping(100, 0.4).loaded(250, 1.5)
    delayed = [latency for latency in outcome.latencies() if latency > 0.1]
    # The 75 requests that were due in the first 0.3 s of the stop; a client that waits for each response would report one. More if
    # the machine is busy.
    assert len(delayed) > 40
    assert spread(outcome.latencies()).most > 0.3
    assert outcome.connections > 40


@in_loop
async def test_open_loop_load_with_closed_connection_reports_error() -> None:
    outcome = await Stopping(10, 0.0, hangs_up=True).loaded(200, 0.5)
    assert dict(outcome.wrong) == {"connection closed: by the server": 1}
    assert outcome.answers == len(outcome.late) - 1
