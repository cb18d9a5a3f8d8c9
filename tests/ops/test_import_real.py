"""The real data in full: 37,700 people, 578,006 follows, 26,293 posts, through a `kill -9` in the middle."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.real_data import real_data
from tests.running import run

from shoal import Shoal
from shoal.feeds import home
from shoal.feeds.pull import Cursor
from shoal.ops.check import check
from shoal.wiring import Network

FILES = ("graph/nodes.csv", "graph/edges.csv", "posts/photos_cc0_pdm.jsonl.gz", "photos")
EXPECTED = {"members": 37_700, "follows": 578_006, "posts": 26_293, "photos": 500}

COUNTS = {
    "members": "SELECT count(*) FROM key WHERE space = 'user_name'",
    "follows": "SELECT sum(time) FROM association WHERE alive = -1 AND atype = 1",
    "posts": "SELECT sum(time) FROM association WHERE alive = -1 AND atype = 13",
    "photos": "SELECT sum(time) FROM association WHERE alive = -1 AND atype = 19",
}

BY_DEGREE = """
    SELECT id1 FROM association WHERE alive = -1 AND atype IN (1, 2) GROUP BY id1 ORDER BY sum(time) {order}, id1 LIMIT 5"""


def asked(store: Path, statement: str) -> list[int]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=10)) as connection:
        return [row[0] or 0 for row in connection.execute(statement)]


def begun(store: Path, kind: str) -> int:
    try:
        return asked(store, COUNTS[kind])[0]
    except sqlite3.OperationalError:
        return 0


@pytest.fixture
def data() -> Path:
    return real_data(*FILES)


@pytest.mark.timeout(600)
def test_the_real_network_survives_a_kill_and_holds(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}", "import", str(data)]
    _kill_in_the_middle_of_the_posts(command, store)
    at_the_kill = begun(store, "posts")
    assert 0 < at_the_kill < EXPECTED["posts"]
    refused = tmp_path / "refused.jsonl"
    subprocess.run([*command, "--refused", str(refused)], check=True, stdout=subprocess.DEVNULL, timeout=400)
    assert {kind: asked(store, statement)[0] for kind, statement in COUNTS.items()} == EXPECTED
    assert {json.loads(line)["kind"] for line in refused.read_text().splitlines()} == {"tags"}
    run(_assert_all_holds(store))


async def _assert_all_holds(store: Path) -> None:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        report = await check(shoal.network)
        assert report.clean, report
        assert report["I3"].checked > 1_000_000
        assert report["cloud"].checked > 17_000
        for order in ("DESC", "ASC"):
            for member in asked(store, BY_DEGREE.format(order=order)):
                await _assert_equals_its_definition(shoal.network, member)


def _kill_in_the_middle_of_the_posts(command: list[str], store: Path) -> None:
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while child.poll() is None and time.monotonic() < until and begun(store, "posts") < 2_000:
        time.sleep(0.1)
    child.send_signal(signal.SIGKILL)
    child.wait(10)


async def _assert_equals_its_definition(network: Network, member: int) -> None:
    """Five pages of forty, page by page."""
    before: int | None = Cursor().before
    for _ in range(5):
        if before is None:
            return
        cursor = Cursor(before=before, limit=40)
        page = await home.page(network.reads, member, cursor)
        assert page == await home.definition(network.reads, member, cursor)
        before = page.next
