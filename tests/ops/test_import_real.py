"""Import of the real data with a `kill -9` midway: a slice by default, the whole data set in `make test-all`.

The whole is 37,700 people, 578,006 follows and 26,293 posts. The slice has the best connected people and some of the others, all
follows between them, and every twelfth author with all of their posts.
"""

from __future__ import annotations

import csv
import gzip
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.app.network import Network
from shoal.graph.contract import Cursor
from shoal.queries import home
from tests.async_runner import run
from tests.real_data import real_data

MEMBERS, FOLLOWS, POSTS = "graph/nodes.csv", "graph/edges.csv", "posts/photos_cc0_pdm.jsonl.gz"
BEST_CONNECTED, EVERY_OTHER = 600, 75
"""The slice has the first BEST_CONNECTED people and every EVERY_OTHER-th of the rest."""
EVERY_AUTHOR = 12
PICTURES = 8


class Import(NamedTuple):
    """An import and its expected result."""

    folder: Path
    options: tuple[str, ...]
    expected: dict[str, int]
    inverses: int
    """Minimum number of associations with an inverse that the check covers."""
    tags: int
    """Minimum number of tags that the check covers."""
    sample: int | None
    """Number of home timelines compared with their definition, in addition to the most and least connected members."""


def whole(_folder: Path) -> Import:
    """The whole data set."""
    expected = {"members": 37_700, "follows": 578_006, "posts": 26_293, "photos": 500}
    return Import(real_data(MEMBERS, FOLLOWS, POSTS, "photos"), (), expected, 1_000_000, 17_000, None)


def a_slice(folder: Path) -> Import:
    """The slice, in the layout of the whole."""
    data = real_data(MEMBERS, FOLLOWS, POSTS, "photos")
    for name in ("graph", "posts", "photos"):
        (folder / name).mkdir(parents=True)
    with (data / FOLLOWS).open() as lines:
        edges = list(csv.reader(lines))[1:]
    degrees = Counter(chain.from_iterable(edges))
    with (data / MEMBERS).open() as lines:
        people = sorted(csv.DictReader(lines), key=lambda row: -degrees[row["id"]])
    kept = {row["id"]: row["name"] for row in (*people[:BEST_CONNECTED], *people[BEST_CONNECTED::EVERY_OTHER])}
    between = [edge for edge in edges if edge[0] in kept and edge[1] in kept]
    with (folder / MEMBERS).open("w") as file:
        csv.writer(file).writerows([("id", "name"), *kept.items()])
    with (folder / FOLLOWS).open("w") as file:
        csv.writer(file).writerows([("id_1", "id_2"), *between])
    with gzip.open(data / POSTS, "rt") as lines:
        posts = [(json.loads(line)["user_id"], line) for line in lines]
    authors = {author for author, _ in Counter(author for author, _ in posts).most_common()[::EVERY_AUTHOR]}
    posts = [(author, line) for author, line in posts if author in authors]
    with gzip.open(folder / POSTS, "wt") as file:
        file.writelines(line for _, line in posts)
    for picture in sorted((data / "photos").glob("*.jpg"))[:PICTURES]:
        (folder / "photos" / picture.name).symlink_to(picture)
    expected = {"members": len(kept), "follows": 2 * len(between), "posts": len(posts), "photos": 40}
    return Import(folder, ("--photos-newest", "40"), expected, 50_000, 2_000, 50)


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


@pytest.mark.parametrize(
    "data", [a_slice, pytest.param(whole, marks=[pytest.mark.deep, pytest.mark.timeout(900)])], ids=["slice", "whole"]
)
def test_import_of_real_data_killed_midway_completes_and_passes_check(
    data: Callable[[Path], Import], tmp_path: Path
) -> None:
    asked_for, store = data(tmp_path / "data"), tmp_path / "shoal.db"
    command = [sys.executable, "-m", "shoal.cli", "--store", f"sqlite:///{store}", "import", str(asked_for.folder)]
    command += asked_for.options
    expected = asked_for.expected
    _kill_in_the_middle_of_the_posts(command, store, expected["posts"] // 13)
    assert 0 < begun(store, "posts") < expected["posts"]
    refused = tmp_path / "refused.jsonl"
    subprocess.run([*command, "--refused", str(refused)], check=True, stdout=subprocess.DEVNULL, timeout=800)
    assert {kind: asked(store, statement)[0] for kind, statement in COUNTS.items()} == expected
    assert {json.loads(line)["kind"] for line in refused.read_text().splitlines()} == {"tags"}
    run(_assert_all_holds(store, asked_for))


async def _assert_all_holds(store: Path, done: Import) -> None:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        report = await check(shoal.network, sample=done.sample)
        assert report.clean, report
        assert report["I3"].checked > done.inverses
        assert report["cloud"].checked > done.tags
        for order in ("DESC", "ASC"):
            for member in asked(store, BY_DEGREE.format(order=order)):
                await _assert_equals_its_definition(shoal.network, member)


def _kill_in_the_middle_of_the_posts(command: list[str], store: Path, posts: int) -> None:
    """Kill the import once the store holds this number of posts."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while child.poll() is None and time.monotonic() < until and begun(store, "posts") < posts:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait(60)


async def _assert_equals_its_definition(network: Network, member: int) -> None:
    """Compare five pages of forty entries."""
    before: int | None = Cursor().before
    for _ in range(5):
        if before is None:
            return
        cursor = Cursor(before=before, limit=40)
        page = await home.page(network.reads, member, cursor)
        assert page == await home.definition(network.reads, member, cursor)
        before = page.next
