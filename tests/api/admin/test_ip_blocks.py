"""Admin API: IP blocks with no access or without sign-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from shoal.admin.blocklists import Blocklists
from shoal.app.network import Network
from shoal.commands import members, moderation, oauth
from shoal.core.blocklists import IpSeverity
from shoal.core.errors import Unavailable
from shoal.core.model import Role
from shoal.http.event_streams import USUAL
from shoal.http.middleware import IpGuard
from shoal.scheduler import Agenda
from tests.api.in_memory_network import BASE, STAFF_SCOPES, NetworkFixture, Someone, network_fixture, served
from tests.api.oauth_browser import Client

BLOCKS = "/api/v1/admin/ip_blocks"
OUTSIDE = "203.0.113.9"
GOOD = {"email": "dora@example.org", "password": "a long password", "agreement": True}


@pytest.fixture
def w() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


@pytest.fixture
def boss(w: NetworkFixture) -> Someone:
    return w.staff("boss", Role.ADMIN)


def block(
    w: NetworkFixture, boss: Someone, ip: str = "203.0.113.0/24", severity: str = "no_access", **more: object
) -> Any:
    return w.json("POST", BLOCKS, boss, json={"ip": ip, "severity": severity, **more})


def ask(w: NetworkFixture, address: str, method: str, path: str, token: str = "", **more: Any) -> httpx.Response:
    """Send one request from this address."""

    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(w.app, client=(address, 4711))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(method, path, headers=headers, **more)

    return w.run(once())


def sign_up(w: NetworkFixture, name: str, address: str) -> httpx.Response:
    form = {**GOOD, "username": name, "email": f"{name}@example.org"}
    return ask(w, address, "POST", "/api/v1/accounts", w.token(Client(w).app.id), json=form)


def test_ip_block_can_be_created_listed_and_deleted(w: NetworkFixture, boss: Someone) -> None:
    made = block(w, boss, "203.0.113.77/24", comment="scrapers")
    assert made == {
        "id": made["id"],
        "ip": "203.0.113.0/24",
        "severity": "no_access",
        "comment": "scrapers",
        "created_at": made["created_at"],
        "expires_at": None,
    }
    assert w.json("GET", f"{BLOCKS}/{made['id']}", boss) == made
    other = block(w, boss, "2001:db8::1", "sign_up_block")
    assert (other["ip"], other["comment"]) == ("2001:db8::1/128", "")
    assert w.json("GET", BLOCKS, boss) == [other, made]
    assert w.json("GET", f"{BLOCKS}?limit=1", boss) == [other]
    assert w.json("DELETE", f"{BLOCKS}/{made['id']}", boss) == {}
    assert w.json("GET", BLOCKS, boss) == [other]
    for method in ("GET", "PUT", "DELETE"):
        assert w.ask(method, f"{BLOCKS}/{made['id']}", boss).status_code == 404


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"severity": "no_access"}, "ip"),
        ({"ip": "no network", "severity": "no_access"}, "ip"),
        ({"ip": "203.0.113.0/24"}, "severity"),
        ({"ip": "203.0.113.0/24", "severity": "banish"}, "severity"),
        ({"ip": "203.0.113.0/24", "severity": "no_access", "expires_in": -1}, "expires_in"),
        ({"ip": "203.0.113.0/24", "severity": "no_access", "expires_in": 10**12}, "expires_in"),
        ({"ip": "203.0.113.0/24", "severity": "no_access", "comment": "x" * 1_500}, "comment"),
    ],
)
def test_ip_block_with_invalid_parameters_is_refused(
    w: NetworkFixture, boss: Someone, given: dict[str, object], field: str
) -> None:
    before = w.state()
    answer = w.ask("POST", BLOCKS, boss, json=given)
    assert answer.status_code == 422
    assert field in answer.json()["details"]
    assert w.state() == before


def test_ip_block_of_already_blocked_address_range_is_refused(w: NetworkFixture, boss: Someone) -> None:
    block(w, boss)
    other = block(w, boss, "198.51.100.0/24")
    said = "Validation failed: Ip has already been taken"
    again = w.ask("POST", BLOCKS, boss, json={"ip": "203.0.113.1/24", "severity": "sign_up_block"})
    assert (again.status_code, again.json()["error"]) == (422, said)
    moved = w.ask("PUT", f"{BLOCKS}/{other['id']}", boss, json={"ip": "203.0.113.0/24"})
    assert (moved.status_code, moved.json()["error"]) == (422, said)


def test_ip_block_with_severity_no_access_refuses_all_paths_except_health_checks(
    w: NetworkFixture, boss: Someone
) -> None:
    made = block(w, boss)
    ann = w.join("ann")
    for method, path, token in (
        ("GET", "/api/v1/instance", ""),
        ("GET", "/api/v1/timelines/home", ann.token),
        ("POST", "/api/v1/statuses", ann.token),
        ("GET", "/@ann", ""),
        ("GET", "/media/x.jpg", ""),
        ("GET", "/oauth/authorize", ""),
        ("GET", "/nothing", ""),
    ):
        answer = ask(w, OUTSIDE, method, path, token)
        assert (answer.status_code, answer.json()) == (
            403,
            {"error": "Your IP address has no access to this server"},
        ), path
        assert answer.headers["x-request-id"]
        assert ask(w, "203.0.114.9", method, path, token).status_code != 403
    for path in ("/health", "/ready"):
        assert ask(w, OUTSIDE, "GET", path).status_code == 200
    w.json("DELETE", f"{BLOCKS}/{made['id']}", boss)
    assert ask(w, OUTSIDE, "GET", "/api/v1/instance").status_code == 200


def test_ip_block_with_severity_sign_up_block_refuses_only_sign_ups(w: NetworkFixture, boss: Someone) -> None:
    made = block(w, boss, severity="sign_up_block")
    assert ask(w, OUTSIDE, "GET", "/api/v1/instance").status_code == 200
    before = w.state().objects
    answer = sign_up(w, "dora", OUTSIDE)
    assert (answer.status_code, answer.json()["error"]) == (
        403,
        "This server does not accept new members from your IP address",
    )
    assert len(w.state().objects) == len(before) + 2, "an app and its token"
    assert sign_up(w, "eva", "198.51.100.1").status_code == 200
    w.json("DELETE", f"{BLOCKS}/{made['id']}", boss)
    assert sign_up(w, "dora", OUTSIDE).status_code == 200


def test_ip_block_that_includes_own_address_is_refused(w: NetworkFixture, boss: Someone) -> None:
    said = "Validation failed: Ip includes your own address: you would lock yourself out"
    for own in ("127.0.0.1", "127.0.0.0/8", "0.0.0.0/0", "::ffff:127.0.0.1"):
        answer = w.ask("POST", BLOCKS, boss, json={"ip": own, "severity": "no_access"})
        assert (answer.status_code, answer.json()["error"]) == (422, said)
    made = block(w, boss, "127.0.0.0/8", "sign_up_block")
    assert w.ask("PUT", f"{BLOCKS}/{made['id']}", boss, json={"severity": "no_access"}).json()["error"] == said
    other = block(w, boss)
    assert w.ask("PUT", f"{BLOCKS}/{other['id']}", boss, json={"ip": "127.0.0.1"}).json()["error"] == said
    assert w.ask("GET", BLOCKS, boss).status_code == 200
    # A block of a network that does not include the client address is accepted.
    made = ask(w, "198.51.100.1", "POST", BLOCKS, boss.token, json={"ip": "192.0.2.0/24", "severity": "no_access"})
    assert made.status_code == 200


def test_ip_block_update_keeps_omitted_fields(w: NetworkFixture, boss: Someone) -> None:
    made = block(w, boss, comment="scrapers", expires_in=3_600)
    path = f"{BLOCKS}/{made['id']}"
    assert made["expires_at"] > made["created_at"]
    assert w.json("PUT", path, boss, json={"comment": "robots"}) == {**made, "comment": "robots"}
    assert w.json("PUT", path, boss, json={"comment": ""})["comment"] == ""
    milder = w.json("PUT", path, boss, json={"severity": "sign_up_block", "ip": "203.0.113.9"})
    assert (milder["ip"], milder["severity"]) == ("203.0.113.9/32", "sign_up_block")
    assert ask(w, OUTSIDE, "GET", "/api/v1/instance").status_code == 200
    assert w.json("PUT", path, boss, json={"expires_in": 0})["expires_at"] is None
    assert w.json("PUT", path, boss, json={"severity": "no_access"})["severity"] == "no_access"
    assert ask(w, OUTSIDE, "GET", "/api/v1/instance").status_code == 403
    assert ask(w, "203.0.113.10", "GET", "/api/v1/instance").status_code == 200
    block(w, boss)


def test_ip_block_expired_is_deleted(w: NetworkFixture, boss: Someone) -> None:
    kept = block(w, boss, "198.51.100.0/24", expires_in=3_600)
    w.json("PUT", f"{BLOCKS}/{kept['id']}", boss, json={"expires_in": 7_200})
    made = block(w, boss, expires_in=3_600)
    assert ask(w, OUTSIDE, "GET", "/api/v1/instance").status_code == 403
    later = time.time_ns() // 1_000_000 + 3_700_000
    # The update to the later expiry removed the first expiry job.
    assert w.run(Agenda(w.network.writes, clock=lambda: later).once()) == 1
    assert [one["id"] for one in w.json("GET", BLOCKS, boss)] == [kept["id"]]
    guard = IpGuard(w.network.writes.graph)
    w.run(guard.look())
    assert guard.severity({"client": (OUTSIDE, 1)}) is None
    assert made["id"] != block(w, boss)["id"]


def test_ip_block_change_in_other_process_applies_after_refresh_interval(w: NetworkFixture, boss: Someone) -> None:
    now = [100.0]
    guard = IpGuard(w.network.writes.graph, clock=lambda: now[0])
    scope = {"client": (OUTSIDE, 1)}
    assert guard.is_due()
    w.run(guard.catch_up())
    block(w, boss)
    assert not guard.is_due()
    assert guard.severity(scope) is None
    now[0] += 2.1
    assert guard.is_due()
    w.run(guard.catch_up())
    assert guard.severity(scope) is IpSeverity.NO_ACCESS


class Broken:
    """A graph that can become unavailable."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.broken = False
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        self.reads += 1
        if self.broken:
            raise Unavailable("the store is away")
        return getattr(self._graph, name)


def test_ip_blocks_read_last_stay_in_effect_while_store_is_unavailable(w: NetworkFixture, boss: Someone) -> None:
    block(w, boss)
    now = [100.0]
    graph: Any = Broken(w.network.writes.graph)
    guard = IpGuard(graph, clock=lambda: now[0])
    w.run(guard.catch_up())
    graph.broken = True
    for _ in range(3):
        now[0] += 60
        w.run(guard.catch_up())
        assert guard.severity({"client": (OUTSIDE, 1)}) is IpSeverity.NO_ACCESS


def test_ip_block_refresh_without_changes_reads_only_version_marker(w: NetworkFixture, boss: Someone) -> None:
    block(w, boss)
    graph: Any = Broken(w.network.writes.graph)
    guard = IpGuard(graph)
    w.run(guard.look())
    graph.reads = 0
    w.run(guard.look())
    assert graph.reads == 1


def test_ip_block_refresh_runs_once_for_concurrent_requests(w: NetworkFixture) -> None:
    graph: Any = Broken(w.network.writes.graph)
    guard = IpGuard(graph)

    async def many() -> None:
        await asyncio.gather(*(guard.catch_up() for _ in range(50)))

    w.run(many())
    assert graph.reads == 1


def test_ip_block_applies_to_forwarded_address_and_operator_can_remove_it() -> None:
    told: dict[str, str] = {}
    there_too: list[tuple[Network, asyncio.AbstractEventLoop]] = []

    async def prepare(network: Network) -> None:
        there_too.append((network, asyncio.get_running_loop()))
        made = await members.register(network.writes, "boss")
        await moderation.set_role(network.writes, made.id, Role.ADMIN)
        app = (await oauth.register(network.writes, "Test", scopes=STAFF_SCOPES)).app
        told["token"] = (await oauth.issue_token(network.writes, app.id, made.id, STAFF_SCOPES)).text
        # This block exists before the server starts.
        await Blocklists(network.writes).block_network("198.51.100.0/24")

    with served(USUAL._replace(check=0.2), prepare) as url, httpx.Client(base_url=url, timeout=60) as client:
        ours = {"Authorization": f"Bearer {told['token']}", "X-Forwarded-For": "192.0.2.1"}
        there = {"X-Forwarded-For": OUTSIDE}
        assert client.get("/api/v1/instance", headers={"X-Forwarded-For": "198.51.100.7"}).status_code == 403
        assert client.get("/api/v1/instance", headers=there).status_code == 200
        own = client.post(BLOCKS, headers=ours, json={"ip": "192.0.2.0/24", "severity": "no_access"})
        assert own.status_code == 422
        token = {"access_token": told["token"]}
        with client.stream("GET", "/api/v1/streaming/user", headers=there, params=token) as stream:
            lines = stream.iter_lines()
            assert next(lines) == ":)"
            made = client.post(BLOCKS, headers=ours, json={"ip": "203.0.113.0/24", "severity": "no_access"})
            assert made.status_code == 200
            # The server closes the open stream.
            assert [line for line in lines if line != ":thump" and not line.startswith("id: ")] == []
        assert client.get("/api/v1/instance", headers=there).status_code == 403
        assert client.get("/health", headers=there).status_code == 200
        # The leftmost address of the list is set by the client and not trusted.
        spoofed = {"X-Forwarded-For": f"192.0.2.1, {OUTSIDE}"}
        assert client.get("/api/v1/instance", headers=spoofed).status_code == 403
        socket = f"ws{url.removeprefix('http')}/api/v1/streaming?access_token={told['token']}"
        with pytest.raises(InvalidStatus) as refused:
            connect(socket, additional_headers=there, open_timeout=60)
        assert refused.value.response.status_code == 403
        with connect(socket, additional_headers={"X-Forwarded-For": "192.0.2.1"}, open_timeout=60):
            pass
        network, loop = there_too[0]
        lifted = asyncio.run_coroutine_threadsafe(Blocklists(network.writes).unblock("203.0.113.0/24"), loop)
        lifted.result(60)
        until = time.monotonic() + 60
        while client.get("/api/v1/instance", headers=there).status_code != 200:
            assert time.monotonic() < until
