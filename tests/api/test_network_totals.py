"""The two numbers that nobody keeps."""

from __future__ import annotations

import asyncio

import pytest

from shoal import Shoal, Visibility
from shoal.graph.memory import MemoryGraph
from shoal.graph.schema import AnyNode
from shoal.mastodon_api.network_totals import NetworkTotals, Totals
from tests.running import run


def test_only_what_everybody_may_find_is_counted() -> None:
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
    """A store that cannot be scanned."""

    scans = 0

    async def obj_scan(self, after: int, limit: int) -> list[AnyNode]:
        """Never comes to an answer."""
        self.scans += 1
        raise OSError("the disk is gone")


def test_a_scan_that_failed_is_not_tried_again_at_once(caplog: pytest.LogCaptureFixture) -> None:
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
