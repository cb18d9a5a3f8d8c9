"""The metrics of real processes: correct counts and no secrets."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from shoal.app.network import open_network
from shoal.commands import members, oauth, relationships
from shoal.core.events import PostCreated
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch
from shoal.graph.postgres import PostgresGraph
from shoal.observability.metrics import METRICS
from shoal.settings import Settings
from shoal_devcluster.program import free_port
from tests.api.in_memory_network import picture
from tests.async_runner import at_a_desk, in_loop, run
from tests.engines import postgres, redis
from tests.metrics.scraping import Scrape, scrape, scraped_until, two_ports
from tests.server_process import Server, children, served
from tests.stores import ANN

SCOPES = ("read", "write", "follow")
HOME, POST, LIKE = "GET /api/v1/timelines/home", "POST /api/v1/statuses", "POST /api/v1/statuses/{id}/favourite"
PASSWORD, TEXT = "correct-horse-battery", "the words of a post"


class Told(NamedTuple):
    """A server with metrics, and the tokens of two members; bob follows ann."""

    server: Server
    port: int
    ann: str
    bob: str

    def ask(self, method: str, path: str, token: str = "", status: int = 200, **more: object) -> httpx.Response:
        """Send a request and check the status of the response."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = httpx.request(method, self.server.url + path, headers=headers, timeout=60, **more)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        return answer


async def _people(store: Path) -> tuple[str, str]:
    settings = Settings(store=f"sqlite:///{store}", media="memory://")
    async with open_network(settings, background=False) as network:
        app = (await oauth.register(network.writes, "x", redirect_uris=("urn:x",), scopes=SCOPES)).app
        ann, bob = [await members.register(network.writes, name, password=PASSWORD) for name in ("ann", "bob")]
        await relationships.follow(network.writes, bob.id, ann.id)
        tokens = [(await oauth.issue_token(network.writes, app.id, one.id, SCOPES)).text for one in (ann, bob)]
        return tokens[0], tokens[1]


@contextmanager
def told(folder: Path, **more: str) -> Iterator[Told]:
    ann, bob = run(_people(folder / "shoal.db"))
    port = free_port()
    mail = f"file://{folder / 'mail'}"
    with served(folder / "shoal.db", SHOAL_METRICS_PORT=str(port), SHOAL_MAIL=mail, **more) as server:  # type: ignore[arg-type]
        yield Told(server, port, ann, bob)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    with told(tmp_path_factory.mktemp("metrics")) as one:
        yield one


def test_metrics_counters_increase_with_requests_and_jobs(here: Told) -> None:
    here.ask("GET", "/api/v1/timelines/home", here.bob)
    before = scraped_until(here.port, lambda now: now("shoal_events_waiting") == 0)
    made = here.ask("POST", "/api/v1/statuses", here.ann, json={"status": TEXT}).json()
    here.ask("POST", f"/api/v1/statuses/{made['id']}/favourite", here.bob)
    here.ask("GET", "/api/v1/timelines/home", status=401)
    here.ask("GET", f"/api/v1/statuses/{made['id']}/nothing", status=404)
    here.ask("GET", "/no/such/page", status=404)
    after = scraped_until(
        here.port, lambda now: now("shoal_events_waiting") == 0 and now("shoal_pushed_entries_total") > 0
    )

    def grown(name: str, **labels: str) -> float:
        return after(name, **labels) - before(name, **labels)

    assert grown("shoal_requests_total", route=POST, status="200") == 1
    assert grown("shoal_requests_total", route=LIKE, status="200") == 1
    assert grown("shoal_requests_total", route=HOME, status="401") == 1
    assert grown("shoal_requests_total", route=HOME, status="200") == 0
    assert grown("shoal_requests_total", route="(no such path)", status="404") == 1
    assert grown("shoal_requests_total", route="(no such page)", status="404") == 1
    assert grown("shoal_request_seconds_count", route=POST) == 1
    assert grown("shoal_request_seconds_sum", route=POST) > 0
    assert grown("shoal_request_seconds_bucket", route=POST, le="+Inf") == 1
    assert grown("shoal_pushed_entries_total") == 1
    assert grown("shoal_jobs_done_total") >= 2
    assert grown("shoal_delivery_lag_seconds_count") >= 2
    assert grown("shoal_search_written_total") >= 1
    assert grown("shoal_tag_increments_sent_total") == 0
    assert grown("shoal_cache_asked_total", cache="objects") > 0
    assert grown("shoal_process_cpu_seconds_total") >= 0
    assert after("shoal_warm_timelines") == 1
    assert after("shoal_timelines_bytes") == 800 * 8
    assert after("shoal_info", role="web") == 1
    assert after("shoal_part_up", part="stores") == 1
    assert after("shoal_engine_up", engine="SQLite", place="shoal.db") == 1
    assert after("shoal_engine_stored_bytes", place="shoal.db") > 0


def test_metrics_latency_buckets_count_each_request_once(here: Told) -> None:
    for _ in range(3):
        here.ask("GET", "/api/v1/timelines/home", here.ann)
    now = scrape(here.port)
    buckets = [one for one in now.samples if one.name == "shoal_request_seconds_bucket" and one.labels["route"] == HOME]
    counts = [one.value for one in buckets]
    assert counts == sorted(counts)
    assert counts[-1] == now("shoal_request_seconds_count", route=HOME) == now("shoal_requests_total", route=HOME)


def test_metrics_of_files_and_uploads_contain_no_file_names(here: Told) -> None:
    made = here.ask("POST", "/api/v2/media", here.ann, files={"file": picture()}).json()
    path = "/media/" + made["url"].partition("/media/")[2]
    before = scrape(here.port)("shoal_requests_total", route="(file)", status="200")
    here.ask("GET", path, here.ann)
    now = scrape(here.port)
    assert now("shoal_requests_total", route="(file)", status="200") == before + 1
    assert path not in now.text
    assert now.has("shoal_pictures_waiting")


def test_metrics_listeners_gauge_follows_open_streams(here: Told) -> None:
    url, headers = f"{here.server.url}/api/v1/streaming/user", {"Authorization": f"Bearer {here.bob}"}
    with httpx.stream("GET", url, headers=headers, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ":)"
        assert scrape(here.port)("shoal_listeners") == 1
        assert scrape(here.port)("shoal_connections") >= 1
    scraped_until(here.port, lambda now: now("shoal_listeners") == 0)


def test_metrics_contain_no_secrets_or_member_data(here: Told) -> None:
    here.ask(
        "POST", "/oauth/token", status=401, data={"grant_type": "password", "username": "ann", "password": PASSWORD}
    )
    made = here.ask("POST", "/api/v1/statuses", here.ann, json={"status": TEXT}).json()
    here.ask("GET", f"/api/v1/statuses/{made['id']}", here.bob)
    here.ask("GET", "/@ann")
    text = scrape(here.port).text
    for secret in (here.ann, here.bob, PASSWORD, TEXT, made["id"], made["account"]["id"], "@ann", "127.0.0.1"):
        assert secret not in text, secret


def test_metrics_match_catalog_kinds_and_labels(here: Told) -> None:
    checked(scrape(here.port))


def test_metrics_are_served_only_on_the_metrics_port(here: Told) -> None:
    here.ask("GET", "/metrics", status=404)
    assert httpx.get(f"http://127.0.0.1:{here.port}/api/v1/timelines/public").status_code == 404
    assert httpx.post(f"http://127.0.0.1:{here.port}/metrics").status_code == 405


def test_metrics_refused_requests_are_counted_by_reason(tmp_path: Path) -> None:
    limits = {"SHOAL_RATE_LIMITS": "true", "SHOAL_LIMITS": '{"api": "2/1h"}', "SHOAL_CONNECTIONS_PER_ADDRESS": "1"}
    with told(tmp_path, **limits, SHOAL_TRUSTED_PROXIES="[]") as here:
        for status in (200, 200, 429):
            here.ask("GET", "/api/v1/timelines/home", here.ann, status=status)
        where = (server := httpx.URL(here.server.url)).host, server.port or 0
        with socket.create_connection(where, 60) as first, socket.create_connection(where, 60) as second:
            first.sendall(b"GET /health HTTP/1.1\r\n")
            assert second.recv(4_096).startswith(b"HTTP/1.1 429")
        now = scrape(here.port)
        assert now("shoal_rate_limited_total", **{"class": "api"}) == 1
        assert now("shoal_requests_total", route=HOME, status="429") == 1
        assert now("shoal_requests_refused_total", reason="connections") == 1


def test_metrics_port_is_freed_when_server_stops(tmp_path: Path) -> None:
    with told(tmp_path) as here:
        scrape(here.port)
        assert here.server.stop() == 0
        socket.create_server(("127.0.0.1", here.port)).close()


def test_server_with_metrics_port_in_use_does_not_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "shoal.cli",
            "--store",
            f"sqlite:///{tmp_path / 'x.db'}",
            "serve",
            "--port",
            "0",
        ]
        environ = {**os.environ, "SHOAL_METRICS_PORT": str(port)}
        done = subprocess.run(command, check=False, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert f"port {port} is already in use: choose another with the setting metrics_port" in done.stderr
    assert not (tmp_path / "x.db").exists()


@in_loop
async def test_worker_processes_serve_metrics_on_separate_ports(request: pytest.FixtureRequest) -> None:
    url = await postgres.database(request)
    graph = await PostgresGraph.open(url)
    batch = Batch(shard_of(ANN))
    for post in range(100):
        batch.emit(PostCreated(post_id=ANN + post, author_id=ANN))
    await graph.commit(batch)
    await graph.close()
    first = two_ports()
    command = [sys.executable, "-m", "shoal.cli", "--store", url, "worker", "--processes", "2"]
    environ = {**os.environ, "SHOAL_TIMELINES": redis.single(), "SHOAL_METRICS_PORT": str(first)}
    worker = subprocess.Popen(command, env=environ, preexec_fn=at_a_desk)  # noqa: ASYNC220, PLW1509
    try:
        # Unclaimed events remain in the store, so all are processed once none is waiting.
        scraped_until(first, lambda now: now.has("shoal_events_waiting") and now("shoal_events_waiting") == 0)
        each = [scraped_until(port, lambda now: now("shoal_part_up") == 2) for port in (first, first + 1)]
        assert [now("shoal_info", role="worker") for now in each] == [1, 1]
        assert sum(now("shoal_jobs_done_total") for now in each) == 100
        for now in each:
            checked(now)
            assert not now.has("shoal_requests_total")
            assert now("shoal_statements_total", store="graph-0") > 0
            assert now("shoal_statements_total", store="shared") > 0
            assert {one.labels["engine"] for one in now.samples if one.name == "shoal_engine_up"} == {
                "PostgreSQL",
                "Redis",
            }
        for pid in children(worker.pid):
            os.kill(pid, signal.SIGKILL)
        # The restarted processes use the ports of the killed ones.
        latest = max(now("shoal_process_start_time_seconds") for now in each)
        for port in (first, first + 1):
            scraped_until(port, lambda now: now("shoal_process_start_time_seconds") > latest)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
    assert worker.returncode == 0
    for port in (first, first + 1):
        socket.create_server(("127.0.0.1", port)).close()


def checked(now: Scrape) -> None:
    """Check that each family matches the catalog: name, kind, help text and labels."""
    assert len(now.families) > 20
    for family in now.families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        described = METRICS[name]
        assert (family.type, family.documentation) == (described.kind, described.meaning)
        assert re.fullmatch(r"shoal_[a-z_]+", name)
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(described.labels)
    seen = [(one.name, tuple(sorted(one.labels.items()))) for one in now.samples]
    assert len(seen) == len(set(seen))
