"""The metrics page documents exactly the metrics that processes export."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import httpx

from shoal import settings as configuration
from shoal.app.network import open_network
from shoal.health.probes import EngineHealth, EngineProbe, Measurement, MeasurementName
from shoal.monitoring.collectors import NAMES
from shoal.monitoring.metrics_server import telling
from shoal.observability.metrics import METRICS
from shoal.queries.events import EventReader
from shoal.webhooks import endpoints
from shoal_devcluster.program import free_port
from tests.async_runner import in_loop
from tests.engines import postgres, redis
from tests.metrics import metrics_page
from tests.metrics.scraping import scrape
from tests.moderation.checks import WordCheck
from tests.server_process import served

ROOT = Path(__file__).parents[2]


def test_metrics_documentation_tables_match_the_catalog() -> None:
    page = metrics_page.PAGE.read_text()
    assert metrics_page.with_tables(page) == page, "python -m tests.metrics.metrics_page writes them"
    assert set(re.findall(r"^\| `(shoal_\w+)` \|", page, re.MULTILINE)) == METRICS.keys()


def test_metrics_documentation_lists_all_prometheus_alerts() -> None:
    rules = re.findall(r"- alert: (\w+)", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    assert sorted(re.findall(r"^\| `(Shoal\w+)` \|", metrics_page.PAGE.read_text(), re.MULTILINE)) == sorted(rules)


def test_engine_measurements_each_have_a_metric() -> None:
    assert NAMES.keys() == set(get_args(MeasurementName))


async def everything() -> list[EngineHealth]:
    """Return two engines with an equal name and all vitals, and an unreachable engine."""
    one = EngineHealth("Engine", "place", "1.0", tuple(Measurement(name, 1.0, wrong=True) for name in NAMES))
    return [one, one, EngineHealth("Engine", "other", reached=False)]


@in_loop
async def test_metrics_of_server_and_worker_match_the_catalog(tmp_path: Path) -> None:
    port = free_port()
    with served(tmp_path / "shoal.db", SHOAL_METRICS_PORT=str(port)) as server:
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{server.url}/health")).status_code == 200
        by_server = await asyncio.to_thread(scrape, port)
    owner = asyncio.Event()
    settings = configuration.build(
        store=await postgres.database(owner),
        timelines=redis.single(),
        mail=f"file://{tmp_path}",
        metrics_port=(other := free_port()),
        event_log="on",
    )
    async with open_network(settings, moderation=WordCheck()) as network:
        await endpoints.create(network.writes, EventReader(network.store, ""), "https://127.0.0.1:1/hook")
        whole = replace(network, engines=[EngineProbe("Engine", "place", everything)])
        async with telling(whole):
            by_worker = await asyncio.to_thread(scrape, other)
    assert by_worker("shoal_engine_items", place="place (2)") == 1
    assert by_worker("shoal_engine_attention", place="place") == len(NAMES)
    assert by_worker.has("shoal_engine_up", place="other")
    told = {family.name for now in (by_server, by_worker) for family in now.families}
    assert told == {name.removesuffix("_total") for name in METRICS}
