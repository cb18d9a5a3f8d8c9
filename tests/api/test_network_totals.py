"""Network totals, which are counted by a scan."""

from __future__ import annotations

import asyncio

import pytest

from shoal import Shoal, Visibility
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import AnyNode
from shoal.mastodon_api.network_totals import NetworkTotals, Totals
from tests.async_runner import run


def test_network_totals_count_only_public_posts() -> None:
    async def story() -> tuple[int, int]:
        async with Shoal.open("memory://") as shoal:
            ann = await shoal.register("ann")
            for visibility in Visibility:
                await ann.create("hello", visibility=visibility)
            await shoal.hide(await ann.create("hello"))
            totals = await NetworkTotals(shoal.network.store).totals()
            return totals.posts, totals.weeks[0].posts

    assert run(story()) == (2, 2)


class Failing(MemoryGraph):
    """A store whose scans fail."""

    scans = 0

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        """Raise an error."""
        self.scans += 1
        raise OSError("the disk is gone")


def test_network_totals_failed_scan_is_not_retried_immediately(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> tuple[list[Totals], int]:
        store = Failing()
        network_totals = NetworkTotals(store)
        told = []
        for _ in range(3):
            told.append(await network_totals.totals())
            await asyncio.sleep(0)
        return told, store.scans

    assert run(story()) == ([Totals()] * 3, 1)
    assert "counting members and posts failed" in caplog.text
