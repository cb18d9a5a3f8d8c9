"""The admission gate limits running and waiting requests, refuses the rest, and releases every slot."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.responses import StreamingResponse
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from shoal.core.errors import Unavailable
from shoal.http.application import build_app
from shoal.http.middleware import Gate, Refusal, outside
from shoal.http.rate_limits import OFF, MemoryLimiter
from shoal.http.routes import Context, Route
from tests.api.harness import ROUTES, authenticate, serving
from tests.async_runner import eventually, in_loop


class Works:
    """Handlers that finish when the test allows it."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.done_elsewhere = asyncio.Event()
        self.waiting = 0
        self.busy = 0
        self.most = 0

    async def at_work(self) -> int:
        """Return the number of running handlers."""
        return self.busy

    async def work(self, _context: Context[object], _params: None) -> object:
        """Wait for `go`."""
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await self.go.wait()
        finally:
            self.busy -= 1
        return {}

    async def wait(self, context: Context[object], _params: None) -> object:
        """Wait outside the gate, then work."""
        self.waiting += 1
        async with outside(context.request.scope):
            await self.done_elsewhere.wait()
        return await self.work(context, None)

    async def stream(self, _context: Context[object], _params: None) -> object:
        """Send a first line at once and the last line after `go`."""

        async def lines() -> AsyncIterator[bytes]:
            yield b"begun\n"
            await self.go.wait()
            yield b"done\n"

        return StreamingResponse(lines())

    async def crash(self, _context: Context[object], _params: None) -> object:
        """Raise an error."""
        raise RuntimeError


@contextlib.asynccontextmanager
async def behind(gate: Gate, refusal: Refusal | None = None) -> AsyncIterator[tuple[Works, httpx.AsyncClient]]:
    """Run a real server behind the gate and yield a client."""
    works = Works()
    more = [
        Route("GET", "/api/v1/work", works.work, auth="public", limit_class="api", answer=dict),
        Route("POST", "/api/v1/work", works.work, auth="public", limit_class="api", max_body=1 << 20, answer=dict),
        Route("POST", "/api/v1/told", works.work, auth="public", limit_class="api", answer=dict, delivers=True),
        Route("GET", "/api/v1/wait", works.wait, auth="public", limit_class="api", answer=dict),
        Route("GET", "/api/v1/stream", works.stream, auth="public", limit_class="api", answer=dict),
        Route("GET", "/api/v1/crashes", works.crash, auth="public", limit_class="api", answer=dict),
        Route("GET", "/health", works.work, auth="public", limit_class="api", answer=dict),
    ]
    app = build_app(
        (*ROUTES, *more), None, authenticate=authenticate, limiter=MemoryLimiter(OFF), gate=gate, refusal=refusal
    )
    limits = httpx.Limits(max_connections=500)
    async with (
        serving(app) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=120) as client,
    ):
        yield works, client
        works.go.set()


@in_loop
async def test_admission_gate_refuses_excess_requests_with_503_and_serves_the_rest() -> None:
    async with behind(Gate(4, 6, 600)) as (works, client):
        asked = [asyncio.create_task(client.get("/api/v1/work")) for _ in range(60)]
        began = time.monotonic()
        waiting = set(asked)
        while len(waiting) > 10:
            _, waiting = await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            # Requests that are not refused wait for up to 600 s.
            assert time.monotonic() - began < 60
        refused = [task.result() for task in asked if task.done()]
        assert {answer.status_code for answer in refused} == {503}
        assert refused[0].json() == {"error": "The server is busy; try again in a moment"}
        assert int(refused[0].headers["retry-after"]) >= 1
        assert refused[0].headers["access-control-allow-origin"] == "*"
        assert works.busy == 4
        works.go.set()
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [200] * 10 + [503] * 50
        assert works.most == 4
        assert (await client.get("/api/v1/work")).status_code == 200


@in_loop
async def test_admission_gate_refuses_request_after_wait_timeout() -> None:
    async with behind(Gate(1, 5, 0.1)) as (works, client):
        first = asyncio.create_task(client.get("/api/v1/work"))
        await eventually(works.at_work, 1)
        waiting = await asyncio.gather(*(client.get("/api/v1/work") for _ in range(4)))
        assert {answer.status_code for answer in waiting} == {503}
        works.go.set()
        assert (await first).status_code == 200
        assert (await client.get("/api/v1/work")).status_code == 200


@in_loop
async def test_admission_gate_slots_are_not_held_by_streams_health_or_slow_uploads() -> None:
    async with behind(Gate(1, 0, 0.1)) as (works, client), client.stream("GET", "/api/v1/stream") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "begun"
        sending, more = asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b'{"status":'
            sending.set()
            await more.wait()
            yield b'"x"}'

        slow = asyncio.create_task(client.post("/api/v1/statuses", content=slowly(), headers=_MEMBER))
        await sending.wait()
        await asyncio.sleep(0.1)
        assert (await client.get("/api/v1/instance")).status_code == 200
        work = asyncio.create_task(client.get("/api/v1/work"))
        await eventually(works.at_work, 1)
        assert (await client.get("/api/v1/instance")).status_code == 503
        health = asyncio.create_task(client.get("/health"))
        await eventually(works.at_work, 2)
        more.set()
        await asyncio.sleep(0.1)
        # The gate admitted this request earlier, so it waits for a slot instead of being refused.
        assert not slow.done()
        works.go.set()
        assert [(await task).status_code for task in (work, health, slow)] == [200, 200, 200]
        assert await anext(lines) == "done"


_MEMBER = {"Authorization": "Bearer member", "Content-Type": "application/json"}


@in_loop
async def test_admission_gate_slot_is_released_while_handler_waits_for_background_work() -> None:
    async with behind(Gate(slots=2, waiting=4, seconds=60)) as (works, client):
        waiting = [asyncio.create_task(client.get("/api/v1/wait")) for _ in range(6)]

        async def how_many() -> int:
            return works.waiting

        await eventually(how_many, 6)
        others = [asyncio.create_task(client.get("/api/v1/work")) for _ in range(2)]
        await eventually(works.at_work, 2)
        works.done_elsewhere.set()
        works.go.set()
        answers = await asyncio.gather(*waiting, *others)
        assert {answer.status_code for answer in answers} == {200}
        assert works.most <= 2


@in_loop
async def test_admission_gate_slots_are_released_after_disconnects_and_errors() -> None:
    gate = Gate(3, 100, 60)
    async with behind(gate) as (works, client):
        tasks = [asyncio.create_task(client.get("/api/v1/work")) for _ in range(30)]
        tasks += [
            asyncio.create_task(client.post("/api/v1/work", content=b"x" * 50_000, headers=_MEMBER)) for _ in range(30)
        ]
        await eventually(works.at_work, 3)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        works.go.set()
        crashed = await asyncio.gather(*(client.get("/api/v1/crashes") for _ in range(20)))
        assert {answer.status_code for answer in crashed} == {500}
        await eventually(works.at_work, 0)
        works.go.clear()
        works.most = 0
        again = [asyncio.create_task(client.get("/api/v1/work")) for _ in range(5)]
        await eventually(works.at_work, 3)
        works.go.set()
        assert {(await task).status_code for task in again} == {200}
        assert works.most == 3


@pytest.mark.parametrize("seconds", [0.001, 0.002, 0.005])
@in_loop
async def test_admission_gate_slot_count_is_exact_when_timeout_and_release_coincide(seconds: float) -> None:
    gate = Gate(2, 50, seconds)
    inside = most = 0

    async def visit(number: int) -> None:
        nonlocal inside, most
        if not await gate.enter():
            return
        inside += 1
        most = max(most, inside)
        try:
            await asyncio.sleep(seconds * (number % 3) / 2)
        finally:
            inside -= 1
            gate.leave()

    visits = [asyncio.create_task(visit(number)) for number in range(300)]
    await asyncio.sleep(seconds)
    for task in visits[::3]:
        task.cancel()
    await asyncio.gather(*visits, return_exceptions=True)
    assert most == 2
    assert await gate.enter()
    assert await gate.enter()
    assert not await gate.enter()


@in_loop
async def test_admission_gate_refuses_post_during_backpressure_without_waiting_for_slot() -> None:
    refusals = [Unavailable("deliveries are behind"), None]
    async with behind(Gate(1, 0, 5.0), lambda: refusals.pop(0)) as (works, client):
        first = asyncio.create_task(client.get("/api/v1/work"))
        await eventually(works.at_work, answer=1)
        # A request that creates no deliveries is not refused for backpressure, only for lack of a slot.
        assert (await client.post("/api/v1/work")).json()["error"].startswith("The server is busy")
        refused = await client.post("/api/v1/told", content=b"never read")
        assert (refused.status_code, refused.json()) == (503, {"error": "deliveries are behind"})
        assert (await client.post("/api/v1/told")).json()["error"].startswith("The server is busy")
        works.go.set()
        assert (await first).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/work"), ("POST", "/work"), ("GET", "/none"), ("GET", "/stream")]
)
@in_loop
async def test_request_objects_are_freed_without_garbage_collection(method: str, path: str) -> None:
    async with behind(Gate(4, 6, 20)) as (works, client):
        works.go.set()
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                await client.request(method, f"/api/v1{path}")
            requests = sum(isinstance(one, RequestResponseCycle) for one in gc.get_objects())
        finally:
            gc.enable()
        # A connection keeps a reference to its last request.
        assert requests <= 1
