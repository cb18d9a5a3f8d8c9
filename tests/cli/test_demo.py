"""`shoal demo`: a folder with a network that is made once, may be interrupted, and is thrown away only when it is free."""

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
from tests.serving import alive, children
from tests.stores import all_objects

from shoal import Shoal
from shoal.cli import main
from shoal.core.model import Media, Member, Post
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWS, LIKED_BY
from shoal_demo.cli import recall

_SMALL = ("--members", "10", "--days", "1", "--no-serve")


def demo(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["demo", "--folder", str(folder), *options])


def program(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a process of its own."""
    command = [sys.executable, "-m", "shoal.cli", "demo", "--folder", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def laid_out(folder: Path, memory: str = "{}") -> Path:
    folder.mkdir()
    (folder / "demo.json").write_text(memory)
    return folder


def test_fresh_leaves_a_network_alone_that_is_being_served(tmp_path: Path) -> None:
    folder = laid_out(tmp_path / "demo")

    async def clear() -> Result:
        async with Shoal.open(f"sqlite:///{folder / 'shoal.db'}"):
            return await asyncio.to_thread(demo, folder, "--fresh", "--no-serve")

    done = asyncio.run(clear())
    assert (done.exit_code, done.stderr.count("\n"), "is being served" in done.stderr) == (1, 1, True)
    assert {"shoal.db", "demo.json"} <= {path.name for path in folder.iterdir()}


def test_a_memory_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    done = demo(laid_out(tmp_path / "demo", '{"seed": 1, "mem'), "--no-serve")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "demo.json cannot be read: --fresh makes a new network" in done.stderr


def test_a_store_that_is_no_demo_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "shoal.db").write_text("mine")
    done = demo(tmp_path, *_SMALL, "--fresh")
    assert (done.exit_code, "is no demo" in done.stderr) == (1, True)
    assert (tmp_path / "shoal.db").read_text() == "mine"


def test_a_folder_keeps_its_network_until_a_fresh_one_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    made = program(folder, *_SMALL)
    assert (made.returncode, "and not served" in made.stdout, "http://" in made.stdout) == (0, True, False)
    lock = (folder / "shoal.db-lock").stat().st_ino
    again = demo(folder, *_SMALL, "--seed", "2")
    assert (again.exit_code, "holds a network already" in again.stderr) == (0, True)
    fresh = program(folder, *_SMALL, "--seed", "2", "--fresh")
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert (folder / "shoal.db-lock").stat().st_ino == lock


def test_it_says_what_it_does_from_the_first_second_also_to_a_pipe(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "shoal.cli", "demo", "--folder", str(folder), "--members", "40", "--no-serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as making:
        assert making.stdout is not None
        said = [making.stdout.readline() for _ in range(3)]
        drawing = children(making.pid)
        making.kill()
    assert said == [
        "Making a network of 40 people who posted for 28 days: about a minute.\n",
        " members 40\n",
        f" follows {said[2].split()[-1]}\n",
    ]
    # Most of the work was still to come: it does not say this at the end.
    held = recall(folder)
    assert held is not None
    assert not held.done
    assert drawing
    until = time.monotonic() + 30
    while any(alive(pid) for pid in drawing):
        assert time.monotonic() < until, "processes that draw outlived the demo that was killed"
        time.sleep(0.01)


def test_the_same_seed_makes_the_same_network_and_another_another(tmp_path: Path) -> None:
    made = []
    for number, seed in enumerate(("3", "3", "4")):
        folder = tmp_path / str(number)
        assert program(folder, "--members", "10", "--days", "2", "--no-serve", "--seed", seed).returncode == 0
        made.append(asyncio.run(_all_of(folder)))
    assert made[0] == made[1] != made[2]
    assert sum(made[0].values()) > 50


async def _all_of(folder: Path) -> Counter[tuple[object, ...]]:
    """Everything in a network, without ids and moments."""
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
def test_the_making_may_be_stopped_in_one_line(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "shoal.cli", "demo", "--folder", str(folder), "--no-serve"]
    # In a group of its own: Ctrl-C goes to the processes that draw, too.
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until = time.monotonic() + 30
    while not list(folder.glob("shoal.db.media/*")) and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(child.pid, number) if number == signal.SIGINT else child.send_signal(number)
    _, complaint = child.communicate(timeout=30)
    assert (child.returncode, complaint) == (130, "stopped; the same command again goes on from here\n")
