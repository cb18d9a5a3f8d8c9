"""`/health` reports that the process is up, `/ready` that its dependencies answer; both bypass all limits."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import httpx
import pytest

from shoal.app.network import open_network
from shoal.health import readiness as readiness_module
from shoal.health.readiness import Readiness
from shoal.http.application import build_app
from shoal.http.middleware import Gate
from shoal.http.rate_limits import UNLIMITED, MemoryLimiter, RateRule
from shoal.http.routes import Body, Route
from shoal.mastodon_api.instance import health, ready
from shoal.settings import build
from tests.api.harness import authenticate
from tests.api.streaming.stream_clients import stream_server
from tests.async_runner import eventually, in_loop
from tests.engines import rabbitmq, redis
from tests.faults.proxy import Link, moved, port_of
from tests.flows.shared_network import SharedDatabases


class Asked:
    """A probe that counts its calls."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> None:
        self.times += 1
        await asyncio.sleep(0)


async def hangs() -> None:
    await asyncio.Event().wait()


async def broken() -> None:
    raise OSError("postgresql://shoal:secret@db1/shoal")


@in_loop
async def test_readiness_reports_failed_or_hanging_components_as_unavailable() -> None:
    parts = await Readiness({"stores": Asked(), "timelines": hangs, "broker": broken}, patience=0.05).parts()
    assert parts == {"stores": True, "timelines": False, "broker": False}


@in_loop
async def test_readiness_checks_are_cached_for_one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(readiness_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    asked = Asked()
    readiness = Readiness({"stores": asked})
    await asyncio.gather(*[readiness.parts() for _ in range(100)])
    await readiness.parts()
    assert asked.times == 1
    now[0] += 1.0
    await readiness.parts()
    assert asked.times == 2
    readiness = Readiness({"stores": asked}, keep=0.0)
    await readiness.parts()
    await readiness.parts()
    assert asked.times == 4


@in_loop
async def test_readiness_check_survives_cancellation_of_one_caller() -> None:
    may_answer = asyncio.Event()
    readiness = Readiness({"stores": may_answer.wait}, patience=20.0)
    impatient = asyncio.create_task(readiness.parts())
    await asyncio.sleep(0)
    impatient.cancel()
    other = asyncio.create_task(readiness.parts())
    may_answer.set()
    assert await other == {"stores": True}


class _Deps:
    readiness = Readiness({"stores": Asked(), "broker": broken})


@in_loop
async def test_health_and_ready_endpoints_bypass_limits_and_reveal_no_internals() -> None:
    gate = Gate(1, 0, 0.01)
    await gate.enter()
    routes = [
        Route("GET", "/health", health, auth="public", limit_class=UNLIMITED, answer=Body("text/plain")),
        Route("GET", "/ready", ready, auth="public", limit_class=UNLIMITED, answer=dict),
    ]
    limiter = MemoryLimiter({"api": RateRule(1, 3600)})
    app = build_app(routes, _Deps(), authenticate=authenticate, limiter=limiter, gate=gate)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shoal.test") as client:
        for _ in range(3):
            assert (await client.get("/health")).text == "OK"
            answer = await client.get("/ready")
            assert (answer.status_code, answer.json()) == (503, {"stores": "ok", "broker": "does not answer"})
        assert (await client.get("/else")).status_code == 503


def test_route_without_rate_limit_that_is_not_public_is_refused() -> None:
    for auth in ("app", "user"):
        route = Route("GET", "/x", health, limit_class=UNLIMITED, answer=dict, auth=auth, scope="read")
        with pytest.raises(TypeError, match="only a public route"):
            build_app([route], None, authenticate=authenticate, limiter=MemoryLimiter({}))


@in_loop
async def test_ready_endpoint_without_redis_returns_503_while_health_is_ok(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    engine = redis.own()
    try:
        async with stream_server(timelines=engine.url) as server:

            async def says() -> tuple[int, dict[str, str]]:
                answer = await server.client.get("/ready")
                return answer.status_code, answer.json()

            await eventually(says, (200, {"stores": "ok", "timelines": "ok"}))
            engine.kill()
            await eventually(says, (503, {"stores": "ok", "timelines": "does not answer"}))
            assert (await server.client.get("/health")).status_code == 200
    finally:
        engine.kill()


@in_loop
async def test_readiness_reflects_stores_timelines_and_broker() -> None:
    urls = {"broker": rabbitmq.node().url, "timelines": redis.single()}
    server = SharedDatabases()
    chosen = await server.settings(**urls)
    assert isinstance(chosen.store, dict)
    urls["stores"] = chosen.store["32-63"]
    links = {part: Link(port_of(url)) for part, url in urls.items()}
    through = {part: moved(url, links[part].at) for part, url in urls.items()}
    stores = {**chosen.store, "32-63": through.pop("stores")}
    try:
        async with open_network(build(store=stores, media="memory://", **through), background=False) as network:
            readiness = Readiness(network.probes, patience=3.0, keep=0.0)
            well = dict.fromkeys(("stores", "timelines", "broker"), True)
            await eventually(readiness.parts, well)
            for part, link in links.items():
                link.silence()
                await eventually(readiness.parts, {**well, part: False})
                link.heal()
                await eventually(readiness.parts, well)
    finally:
        for link in links.values():
            link.close()
