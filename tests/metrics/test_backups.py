"""Every process reports the newest backup to Prometheus, independent of its creator."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from shoal.app.network import open_network
from shoal.monitoring.metrics_server import telling
from shoal.settings import build
from shoal_devcluster.program import free_port
from tests.async_runner import in_loop
from tests.backups.backup_helpers import backed_up, repository
from tests.engines import postgres, redis
from tests.metrics.scraping import scrape


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@in_loop
async def test_metrics_endpoint_reports_timestamp_of_newest_backup(engine: str, tmp_path: Path) -> None:
    owner = asyncio.Event()
    settings = build(
        store=f"sqlite:///{tmp_path}/shoal.db" if engine == "sqlite" else await postgres.database(owner),
        timelines="memory://" if engine == "sqlite" else redis.single(),
        media=f"file://{tmp_path}/media",
        metrics_port=(port := free_port()),
    )
    async with open_network(settings) as network, telling(network):
        assert (await asyncio.to_thread(scrape, port))("shoal_last_backup_timestamp_seconds") == 0
        began = time.time()
        made = await backed_up(settings, repository(tmp_path / "backups"))
        told = (await asyncio.to_thread(scrape, port))("shoal_last_backup_timestamp_seconds")
        assert told == made.moment / 1_000 >= began - 0.001
