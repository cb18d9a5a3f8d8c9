"""`settle` flushes batched writes immediately instead of waiting for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import Shoal
from tests.async_runner import in_loop

HOUR = 3_600.0


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@in_loop
async def test_network_settle_writes_pending_tag_uses_and_search_rows(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.app.indexes._EMIT_SECONDS", HOUR)
    monkeypatch.setattr("shoal.search.indexing._PAUSE_SECONDS", HOUR)
    async with Shoal.open("memory://" if backend == "memory" else f"sqlite:///{tmp_path}/shoal.db") as shoal:
        ann = await shoal.register("ann")
        for _ in range(2):
            # Enough posts for the search indexer to pause between writes.
            for number in range(30):
                await ann.create(f"{number} #sea")
            await shoal.settle()
        assert (await shoal.network.tags.counted(["sea"]))["sea"].uses == 60
        assert len((await ann.search("sea", 40)).posts) == 40
