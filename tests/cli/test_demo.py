"""`shoal demo`: a folder with a network that is made once, may be interrupted, and is thrown away only when it is free."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shoal import Shoal
from shoal.cli import main

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
    again = program(folder, *_SMALL, "--seed", "2")
    assert (again.returncode, "holds a network already" in again.stderr) == (0, True)
    fresh = program(folder, *_SMALL, "--seed", "2", "--fresh")
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert (folder / "shoal.db-lock").stat().st_ino == lock


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
