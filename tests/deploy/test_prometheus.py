"""The Prometheus and Grafana files of `deploy/`: they name existing metrics, and a real Prometheus loads and evaluates them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shoal.observability.metrics import METRICS
from shoal_devcluster.program import free_port
from tests.deploy.programs import DEPLOY, PATIENCE, changed, program, running
from tests.server_process import Server, served

ALERTS = DEPLOY / "prometheus" / "alerts.yml"
CONFIGURATION = DEPLOY / "prometheus" / "prometheus.yml"
DASHBOARD = DEPLOY / "grafana" / "shoal.json"
VARIABLES = {"$job": "shoal", "$instance": ".*", "$route": ".*", "$__rate_interval": "1m"}


def queries() -> list[str]:
    """Return the queries of all dashboard panels, with the variables set to match everything."""
    found = [
        target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel.get("targets", ())
    ]
    assert len(found) > 50
    return [re.sub(r"\$\w+", lambda variable: VARIABLES[variable.group()], query) for query in found]


def named(text: str) -> set[str]:
    """Return the Shoal metrics that a file names, histograms by their base names."""
    names = set(re.findall(r"\bshoal_[a-z_]+", text))
    series = {
        f"{name}_{end}": name
        for name, one in METRICS.items()
        if one.kind == "histogram"
        for end in ("bucket", "sum", "count")
    }
    return {series.get(name, name) for name in names}


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=lambda file: file.name)
def test_prometheus_files_name_only_existing_metrics(file: Path) -> None:
    assert len(names := named(file.read_text())) > 10
    assert names - METRICS.keys() == set()


def test_grafana_dashboard_shows_every_metric_except_listed_ones() -> None:
    silent = {
        "shoal_engine_info",
        "shoal_process_virtual_memory_bytes",
        "shoal_process_start_time_seconds",
        "shoal_process_open_fds",
        "shoal_process_max_fds",
        "shoal_part_up",
        "shoal_high_fan_out_sources",
        "shoal_warm_timelines_most",
        "shoal_pictures_decoding",
        "shoal_clips_at_work",
        "shoal_engine_items",
        "shoal_engine_memory_most_bytes",
        "shoal_engine_connections_most",
    }
    assert METRICS.keys() - named(DASHBOARD.read_text()) == silent


def test_grafana_dashboard_panels_have_unique_ids_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24


@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", ALERTS),
        ("check", "config", CONFIGURATION),
        ("test", "rules", Path(__file__).with_name("alerts_test.yml")),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_promtool_accepts_rules_and_configuration(command: tuple[str | Path, ...]) -> None:
    done = subprocess.run(
        [program("promtool"), *command], check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A running Prometheus, and the server that it scrapes."""

    def __init__(self, port: int, server: Server) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"
        self.server = server

    def ask(self, what: str, **parameters: str) -> Any:
        """Return the data of an API response."""
        answer = httpx.get(self._url + what, params=parameters, timeout=PATIENCE).json()
        assert answer["status"] == "success", (parameters, answer)
        return answer["data"]

    def values(self, query: str) -> dict[str, float]:
        """Return the values of a query by instance."""
        found = self.ask("query", query=query)["result"]
        return {one["metric"].get("instance", ""): float(one["value"][1]) for one in found}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    installed, port, metrics = program("prometheus"), free_port(), free_port()
    folder = tmp_path_factory.mktemp("prometheus")
    text = changed(
        CONFIGURATION.read_text(),
        ("scrape_interval: 15s", "scrape_interval: 500ms"),
        ("evaluation_interval: 15s", "evaluation_interval: 500ms"),
        ("127.0.0.1:9500", f"127.0.0.1:{metrics}"),
        # A port without a listener.
        ("127.0.0.1:9601", f"127.0.0.1:{free_port()}"),
    )
    (folder / "prometheus.yml").write_text(text)
    (folder / "alerts.yml").write_text(ALERTS.read_text())
    command = [
        installed,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with served(folder / "shoal.db", SHOAL_METRICS_PORT=str(metrics)) as server, running(command, port, folder):
        # It listens before it has loaded its storage.
        until(lambda: httpx.get(f"http://127.0.0.1:{port}/-/ready", timeout=PATIENCE).status_code == 200)
        yield Prometheus(port, server)


def until(holds: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_prometheus_scrapes_metrics_of_server(prometheus: Prometheus) -> None:
    for _ in range(3):
        assert httpx.get(f"{prometheus.server.url}/api/v1/timelines/home", timeout=PATIENCE).status_code == 401
    until(lambda: sorted(prometheus.values('up{job="shoal"}').values()) == [0, 1])
    counted = 'shoal_requests_total{route="GET /api/v1/timelines/home", status="401"}'
    until(lambda: [*prometheus.values(counted).values()] == [3])
    until(lambda: [*prometheus.values("shoal_engine_up{engine='SQLite', place='shoal.db'}").values()] == [1])


def test_prometheus_evaluates_every_alert_rule(prometheus: Prometheus) -> None:
    def health() -> set[str]:
        groups = prometheus.ask("rules")["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}

    until(lambda: health() == {"ok"})
    rules = sum(len(group["rules"]) for group in prometheus.ask("rules")["groups"])
    assert rules == ALERTS.read_text().count("- alert:")


def test_prometheus_executes_every_dashboard_query(prometheus: Prometheus) -> None:
    for query in queries():
        prometheus.ask("query", query=query)
