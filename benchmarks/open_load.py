"""An open-loop load: requests are due at fixed times, independent of earlier responses.

The times are those of a Poisson process. A due request takes a free connection or opens one. Its latency is measured from its due
time to the end of its response, so a pause of the server counts for every request that was due during it.
"""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.http_client import AnswerReader, Check, Server

_MOST_CONNECTIONS = 1_000
"""Above this number of connections, a request is an error, because a real client would have given up."""
_PATIENCE_SECONDS = 30.0


class Request(NamedTuple):
    kind: str
    wire: bytes
    check: Check


@dataclass
class Kind:
    """Results of the requests of a kind. `latencies` are seconds, one per right response; `failures`, one per other response."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    failures: array[float] = field(default_factory=lambda: array("d"))
    wrong: Counter[str] = field(default_factory=Counter)


@dataclass
class OpenOutcome:
    """Results of a load, by kind. `late` are the seconds by which the client sent each request late."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    late: array[float] = field(default_factory=lambda: array("d"))
    connections: int = 0
    seconds: float = 0.0

    @property
    def answers(self) -> int:
        return sum(len(kind.latencies) + len(kind.failures) for kind in self.kinds.values())

    @property
    def wrong(self) -> Counter[str]:
        return sum((kind.wrong for kind in self.kinds.values()), Counter[str]())

    def latencies(self) -> array[float]:
        return array("d", [latency for kind in self.kinds.values() for latency in kind.latencies])


class _OpenConnection(AnswerReader):
    """A connection that is idle or waits for one response."""

    def __init__(self, load: _OpenLoad) -> None:
        super().__init__()
        self._load = load
        self._due = 0.0
        self._request: Request | None = None

    def ask(self, request: Request, due: float) -> None:
        """Send a request with this due time."""
        self._request, self._due = request, due
        self.send(request.wire)

    def answered(self, status: int, body: bytes, size: int) -> None:  # noqa: ARG002  # an argument of the base class
        request, self._request = self._request, None
        assert request is not None
        kind = self._load.kind(request.kind)
        problem = request.check(status, body)
        (kind.failures if problem else kind.latencies).append(time.perf_counter() - self._due)
        if problem:
            kind.wrong[problem] += 1
        self._load.free.append(self)

    def lost(self, reason: str) -> None:
        if self._request is None:
            self._load.free.remove(self)
        else:
            self._load.kind(self._request.kind).wrong[reason] += 1
            self._request = None

    def give_up(self, reason: str) -> None:
        """Close the connection at the end of the load. A missing response is an error."""
        if self._request is not None:
            self.lost(reason)
        self.finish()

    @property
    def waits(self) -> bool:
        return self._request is not None


class _OpenLoad:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.outcome = OpenOutcome()
        self.free: list[_OpenConnection] = []
        self._all: list[_OpenConnection] = []
        self._opening: set[asyncio.Task[None]] = set()

    def kind(self, name: str) -> Kind:
        return self.outcome.kinds.setdefault(name, Kind())

    def begin(self, request: Request, due: float) -> None:
        """Send a request over the most recently used idle connection, or over a new one."""
        self.outcome.late.append(time.perf_counter() - due)
        if self.free:
            self.free.pop().ask(request, due)
        elif len(self._all) + len(self._opening) < _MOST_CONNECTIONS:
            task = asyncio.create_task(self._open(request, due))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        else:
            self.kind(request.kind).wrong[f"not sent: {_MOST_CONNECTIONS} requests without an answer"] += 1

    async def _open(self, request: Request, due: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            made = await loop.create_connection(lambda: _OpenConnection(self), self._server.host, self._server.port)
        except OSError as error:
            self.kind(request.kind).wrong[f"no connection: {error}"] += 1
            return
        self._all.append(made[1])
        made[1].ask(request, due)

    async def end(self) -> None:
        deadline = time.perf_counter() + _PATIENCE_SECONDS
        while (self._opening or any(one.waits for one in self._all)) and time.perf_counter() < deadline:  # noqa: ASYNC110  # many may end
            await asyncio.sleep(0.01)
        self.outcome.connections = len(self._all)
        for connection in self._all:
            if not connection.over.done():
                connection.give_up(f"no answer in {_PATIENCE_SECONDS:.0f} s")


async def open_load(server: Server, requests: Iterator[Request], rate: float, seconds: float, seed: int) -> OpenOutcome:
    """Send `rate` requests per second, on average, for `seconds`; then wait for missing responses."""
    load, random_ = _OpenLoad(server), random.Random(seed)
    started = due = time.perf_counter()
    while (due := due + random_.expovariate(rate)) < started + seconds:
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        load.begin(next(requests), due)
    await load.end()
    load.outcome.seconds = time.perf_counter() - started
    return load.outcome
