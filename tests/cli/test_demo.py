"""`shoal demo`: the folder's network is created once, creation may be interrupted, and --fresh deletes only an unused network."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shoal import Shoal
from shoal.cli import main
from shoal.core.model import Media, Member, Post
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWS, LIKED_BY
from shoal_demo.cli import recall
from shoal_demo.photos import photos
from tests.server_process import alive, children
from tests.stores import all_objects

_SMALL = ("--members", "10", "--days", "1", "--no-serve")


def demo(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["demo", "--folder", str(folder), *options])


def program(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a subprocess."""
    command = [sys.executable, "-m", "shoal.cli", "demo", "--folder", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def laid_out(folder: Path, memory: str = "{}") -> Path:
    folder.mkdir()
    (folder / "demo.json").write_text(memory)
    return folder


def test_demo_with_fresh_option_on_network_of_running_server_is_refused_and_deletes_nothing(tmp_path: Path) -> None:
    folder = laid_out(tmp_path / "demo")

    async def clear() -> Result:
        async with Shoal.open(f"sqlite:///{folder / 'shoal.db'}"):
            return await asyncio.to_thread(demo, folder, "--fresh", "--no-serve")

    done = asyncio.run(clear())
    assert (done.exit_code, done.stderr.count("\n"), "a server is using the network" in done.stderr) == (1, 1, True)
    assert {"shoal.db", "demo.json"} <= {path.name for path in folder.iterdir()}


def test_demo_folder_with_corrupt_demo_json_is_reported_in_one_line(tmp_path: Path) -> None:
    done = demo(laid_out(tmp_path / "demo", '{"seed": 1, "mem'), "--no-serve")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "demo.json: create a new network with --fresh" in done.stderr


def test_demo_folder_made_by_another_shoal_version_is_refused(tmp_path: Path) -> None:
    memory = '{"seed": 1, "members": 10, "days": 1, "now_ms": 1790000000000, "done": true}'
    done = demo(laid_out(tmp_path / "demo", memory), "--no-serve")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "has the demo of another version of Shoal: create a new network with --fresh" in done.stderr


def test_demo_with_fresh_option_in_folder_with_foreign_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shoal.db").write_text("mine")
    done = demo(tmp_path, *_SMALL, "--fresh")
    assert (done.exit_code, "is not a demo" in done.stderr) == (1, True)
    assert (tmp_path / "shoal.db").read_text() == "mine"


def test_demo_folder_keeps_its_network_without_fresh_option(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    made = program(folder, *_SMALL)
    assert (made.returncode, "and not served" in made.stdout, "http://" in made.stdout) == (0, True, False)
    lock = (folder / "shoal.db-lock").stat().st_ino
    again = demo(folder, *_SMALL, "--seed", "2")
    assert (again.exit_code, "already has a network" in again.stderr) == (0, True)
    fresh = program(folder, *_SMALL, "--seed", "2", "--fresh")
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert (folder / "shoal.db-lock").stat().st_ino == lock


def test_demo_progress_is_printed_immediately_also_to_pipe(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "shoal.cli", "demo", "--folder", str(folder), "--members", "40", "--no-serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as making:
        assert making.stdout is not None
        said = [making.stdout.readline() for _ in range(2)]
        drawing = children(making.pid)
        making.kill()
    assert said == [
        "Creating a network of 40 members with 28 days of activity (less than a minute).\n",
        " members 40\n",
    ]
    # Most of the work was not done yet: the output is not delayed until the demo exits.
    held = recall(folder)
    assert held is not None
    assert not held.done
    assert drawing
    until = time.monotonic() + 60
    while any(alive(pid) for pid in drawing):
        assert time.monotonic() < until, "drawing processes are still alive after the demo was killed"
        time.sleep(0.01)


def test_demo_same_seed_creates_same_network_and_other_seed_a_different_one(tmp_path: Path) -> None:
    made = []
    for number, seed in enumerate(("3", "3", "4")):
        folder = tmp_path / str(number)
        assert program(folder, "--members", "10", "--days", "2", "--no-serve", "--seed", seed).returncode == 0
        made.append(asyncio.run(_all_of(folder)))
    assert made[0] == made[1] != made[2]
    assert sum(made[0].values()) > 50
    descriptions = {row[1] for row in made[0] if len(row) == 4}
    assert descriptions
    assert descriptions <= {photo.description for photo in photos().values()}


async def _all_of(folder: Path) -> Counter[tuple[object, ...]]:
    """All data of a network, without ids and times."""
    async with Shoal.open(f"sqlite:///{folder / 'shoal.db'}", run_consequences=False) as shoal:
        graph = shoal.network.store
        nodes = {node.id: node for node in await all_objects(graph)}
        people = {id_: node.name for id_, node in nodes.items() if isinstance(node, Member)}
        found = Counter[tuple[object, ...]]((name,) for name in people.values())
        for node in nodes.values():
            if isinstance(node, Media):
                found[people[node.owner_id], node.description, node.width, node.height] += 1
            elif isinstance(node, Post):
                found[people[node.author_id], node.text, node.visibility] += 1
                for link in await graph.assoc_range(node.id, LIKED_BY, Cursor(limit=500)):
                    found[people[node.author_id], node.text, people[link.id2]] += 1
        for id_, name in people.items():
            for link in await graph.assoc_range(id_, FOLLOWS, Cursor(limit=500)):
                found[name, people[link.id2]] += 1
        return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_creation_interrupted_by_signal_exits_130_with_one_line(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "shoal.cli", "demo", "--folder", str(folder), "--no-serve"]
    # A separate process group: Ctrl-C also reaches the drawing processes.
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until = time.monotonic() + 60
    while not list(folder.glob("shoal.db.media/*")) and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(child.pid, number) if number == signal.SIGINT else child.send_signal(number)
    _, complaint = child.communicate(timeout=300)
    assert (child.returncode, complaint) == (130, "interrupted; run the command again to resume\n")
