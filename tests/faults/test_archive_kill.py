"""An archive import that is killed at any moment and run again equals an uninterrupted import."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from httpx import Client

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.export import export
from shoal.commands import members
from shoal.graph.schema import POSTED
from tests.archives import factories
from tests.archives.test_import import said
from tests.server_process import served

PASSWORD = "low tide at dawn"
POSTS = 800


def archive(folder: Path) -> Path:
    """Create an archive with threads, photos, and albums that continue in comments."""
    uris = [f"media/posts/202211/{n}_n.jpg" for n in range(120)]
    albums = [
        {
            "media": [factories.instagram_file(uri, 1_667_640_000 + at) for uri in uris[at * 12 : at * 12 + 12]],
            "title": f"Album {at}",
            "creation_timestamp": 1_667_640_000 + at,
        }
        for at in range(10)
    ]
    words = [
        {"media": [factories.instagram_file(f"media/posts/{n}.mp4", 1_600_000_000 + 7 * n, f"Number {n} #tag{n % 9}")]}
        for n in range(POSTS)
    ]
    files: dict[str, Any] = {uri: factories.picture(f"#{at:03}884") for at, uri in enumerate(uris)}
    files["your_instagram_activity/media/posts_1.json"] = json.dumps([*albums, *words])
    return factories.zipped(folder / "archive.zip", files)


async def _begun(store: Path) -> int:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        return (await shoal.register("ann", PASSWORD)).id


async def _told(store: Path, folder: Path) -> list[Any]:
    """Run the consistency check, and return the exported data of the member."""
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        await shoal.settle()
        assert (await check(shoal.network)).clean
        await export(shoal.network, "ann", folder / f"{store.stem}.zip")
    with zipfile.ZipFile(folder / f"{store.stem}.zip") as packed:
        out: dict[str, Any] = {n: json.loads(packed.read(f"{n}.json")) for n in ("posts", "comments", "media")}
        out["files"] = {name: packed.read(name) for name in packed.namelist() if name.startswith("media/")}
    return said(out)


async def _posts(store: Path) -> int:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        found = await members.find(shoal.network.writes, "ann")
        assert found is not None
        return (await shoal.network.store.assoc_count((found.id,), (POSTED,)))[POSTED].get(found.id, 0)


def _keys(store: Path) -> int:
    """Return the number of keys in a store; each imported post and photo has a key."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        count: int = connection.execute("SELECT count(*) FROM key").fetchone()[0]
        return count


def command(store: Path, path: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "shoal.cli",
        "--store",
        f"sqlite:///{store}",
        "member",
        "import-archive",
        "ann",
        str(path),
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    asyncio.run(_begun(folder / "calm.db"))
    subprocess.run(command(folder / "calm.db", archive(folder)), check=True, capture_output=True)
    told = asyncio.run(_told(folder / "calm.db", folder))
    assert len(told) == POSTS + 20
    return told


def test_archive_import_command_killed_and_rerun_equals_uninterrupted_import(
    tmp_path: Path, undisturbed: list[Any]
) -> None:
    store, path, chance = tmp_path / "killed.db", archive(tmp_path), random.Random(1)
    asyncio.run(_begun(store))
    midway = 0
    for _ in range(8):
        enough = _keys(store) + chance.randrange(80)
        process = subprocess.Popen(command(store, path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while _keys(store) <= enough and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.wait(60)
        midway += 0 < asyncio.run(_posts(store)) < POSTS + 20
    assert midway, "no kill interrupted the import"
    subprocess.run(command(store, path), check=True, capture_output=True)
    assert asyncio.run(_told(store, tmp_path)) == undisturbed


def test_archive_import_resumes_after_server_is_killed_and_restarted(tmp_path: Path, undisturbed: list[Any]) -> None:
    store, path = tmp_path / "served.db", archive(tmp_path)
    owner = asyncio.run(_begun(store))
    state = store.with_name(f"{store.name}.archives") / str(owner) / "state.json"
    with served(store) as server, Client(base_url=server.url, follow_redirects=True, timeout=60) as browser:
        _submit(browser, "/login", username="ann", password=PASSWORD)
        _submit(browser, "/settings/import", files={"file": ("archive.zip", path.read_bytes())})
        _wait(state, "looked")
        _submit(browser, "/settings/import", action="/settings/import/take", widest="public")
        _wait(state, "taking", done=100)
        server.kill()
    before = asyncio.run(_posts(store))
    assert 0 < before < POSTS + 20
    with served(store) as server:
        _wait(state, "done")
        assert server.stop() == 0
    report = json.loads(state.read_bytes())["report"]
    assert report["taken"]["posts"] + report["there"]["posts"] == POSTS + 10
    assert asyncio.run(_told(store, tmp_path)) == undisturbed


def _submit(browser: Client, page: str, action: str = "", files: Any = None, **fields: str) -> None:
    html = BeautifulSoup(browser.get(page).text, "lxml")
    form = next(one for one in html.select("main form") if str(one.get("action")) == (action or page))
    given = {
        str(one["name"]): str(one.get("value", "")) for one in form.select("input[name]") if one.get("type") == "hidden"
    }
    answer = browser.post(action or page, data={**given, **fields}, files=files)
    assert answer.status_code == 200, answer.text[:500]


def _wait(state: Path, phase: str, done: int = 0) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if state.exists():
            told = json.loads(state.read_bytes())
            assert told["phase"] != "failed", told
            if told["phase"] == phase and told["done"] >= done:
                return
        time.sleep(0.01)
    raise AssertionError(f"import did not reach {phase} in time: {state.read_text()[:500]}")
