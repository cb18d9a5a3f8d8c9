"""Stored results of benchmarks, with the machine, the day, the commit, and how busy the machine was."""

from __future__ import annotations

import datetime as dt
import os
import platform
import sqlite3
import subprocess
import time
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.measure import REPOSITORY, Check, Figure

BUSY = 0.1
"""Figures are worthless if other processes use more than this fraction of the machine."""
_LOOK_SECONDS = 2.0


class Result(msgspec.Struct, frozen=True):
    """One benchmark: the command, its size, and the fraction of the machine that other processes used at its start."""

    benchmark: str
    command: str
    size: str
    busy: float
    seconds: float
    figures: list[Figure]
    checks: list[Check]


class Machine(msgspec.Struct, frozen=True):
    processor: str
    cores: int
    memory_gib: int
    kernel: str
    python: str
    numpy: str
    sqlite: str

    def shown(self) -> str:
        """Describe it in a sentence."""
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gib} GiB, Linux {self.kernel}, Python {self.python},"
            f" NumPy {self.numpy}, SQLite {self.sqlite}"
        )


class Results(msgspec.Struct):
    """Results from one machine, day and commit."""

    machine: Machine
    day: str
    commit: str
    results: list[Result]


def machine() -> Machine:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    versions = (platform.python_version(), np.__version__, sqlite3.sqlite_version)
    return Machine(model, os.cpu_count() or 1, round(memory), kernel, *versions)


def today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def commit() -> str:
    """Return the current commit, and whether files other than the figures and their page have changed since."""
    mark = _git("rev-parse", "--short=10", "HEAD")
    changed = _git(
        "status",
        "--porcelain",
        "--",
        ".",
        ":!docs/figures.json",
        ":!docs/figures.md",
        ":!docs/performance.md",
        ":!README.md",
    )
    return f"{mark} with changes" if changed else mark


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def busy_share() -> float:
    """Return the fraction of all cores that other processes use, over two seconds in which this process sleeps."""
    before = _clocks()
    time.sleep(_LOOK_SECONDS)
    worked, whole = (now - then for now, then in zip(_clocks(), before, strict=True))
    return worked / whole if whole else 0.0


def _clocks() -> tuple[int, int]:
    ticks = list(map(int, Path("/proc/stat").read_text("utf-8").splitlines()[0].split()[1:9]))
    # The fourth and fifth columns are idle time and waiting for disks.
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def load(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def keep(path: Path, new: Results, *, whole: bool) -> None:
    """Store these results.

    Results of other benchmarks remain if they have the same machine, day and commit, and the run was not `whole`.
    """
    results = {result.benchmark: result for result in new.results}
    if path.exists() and not whole:
        old = load(path)
        if (old.machine, old.day, old.commit) != (new.machine, new.day, new.commit):
            raise SystemExit(
                f"{path.name} has results of another machine, day or commit: measure all benchmarks, or use another file"
            )
        results = {**{result.benchmark: result for result in old.results}, **results}
    kept = Results(new.machine, new.day, new.commit, [results[name] for name in sorted(results)])
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
