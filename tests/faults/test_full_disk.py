"""A full disk: writes are refused with a clear error and no partial state, reads work, and writes resume with free space."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.commands import oauth
from tests import disks
from tests.server_process import served

_BALLAST = 1_500_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of four megabytes with a removable ballast file."""
    with disks.small_disk(tmp_path / "disk", "4m") as disk:
        (disk / "ballast").write_bytes(bytes(_BALLAST))
        yield disk


def test_full_disk_refuses_posts_with_507_and_still_serves_reads(small_disk: Path, tmp_path: Path) -> None:
    store = small_disk / "shoal.db"
    token = asyncio.run(_ann(store))
    with served(store, SHOAL_MEDIA=f"file://{tmp_path / 'media'}") as server:
        with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            accepted, refused = _post_until_refused(client)
            assert refused.status_code == 507
            assert "full" in refused.json()["error"]
            assert int(refused.headers["retry-after"]) > 0
            home = client.get("/api/v1/timelines/home", params={"limit": 40})
            assert home.status_code == 200
            assert {status["id"] for status in home.json()} == set(accepted[-40:])
            (small_disk / "ballast").unlink()
            again = client.post("/api/v1/statuses", json={"status": "there is room again"})
            assert again.status_code == 200
        assert server.stop() == 0
    asyncio.run(_sound(store, [*accepted, again.json()["id"]]))


def _post_until_refused(client: httpx.Client) -> tuple[list[str], httpx.Response]:
    accepted: list[str] = []
    for _ in range(2_000):
        answer = client.post("/api/v1/statuses", json={"status": "all work and no play " * 200})
        if answer.status_code != 200:
            return accepted, answer
        accepted.append(answer.json()["id"])
    raise AssertionError("the disk did not become full")


async def _ann(store: Path) -> str:
    async with Shoal.open(f"sqlite:///{store}", media="memory://") as shoal:
        ann = await shoal.register("ann")
        app = await oauth.register(shoal.network.writes, "full", scopes=("read", "write"))
        return (await oauth.issue_token(shoal.network.writes, app.app.id, ann.id, ("read", "write"))).text


async def _sound(store: Path, accepted: list[str]) -> None:
    async with Shoal.open(f"sqlite:///{store}", media="memory://") as shoal:
        await shoal.settle()
        found = await shoal.network.store.obj_get([int(id_) for id_ in accepted])
        assert len(found) == len(accepted)
        assert (await (await shoal.member("ann")).profile()).posts == len(accepted)
        assert (await check(shoal.network)).clean
