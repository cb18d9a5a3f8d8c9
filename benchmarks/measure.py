"""Shared parts of all benchmarks: percentiles, memory and CPU time of processes, and a report with targets.

A report contains the measurements, their ratio to the raw engine of the same run, and whether each target is met or by how much
it is missed. A missed target is not a failure. Each benchmark verifies that it did the work that it claims to measure, and exits
with 1 otherwise.

A benchmark is a module with a `main` that takes its options from `parser`. It has three sizes: the full one, whose figures are
published, `--quick`, and `--smallest`, a second or two, in which `make test` runs all of them.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from benchmarks.targets import target_of

REPOSITORY = Path(__file__).resolve().parent.parent
REAL_DATA = REPOSITORY.parent / "shared" / "data"
FULL, QUICK, SMALLEST = "full", "quick", "smallest"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured number. `least` or `most` is its target; `raw` is the figure of the raw engine in this run."""

    what: str
    value: float
    unit: str = ""
    least: float | None = None
    most: float | None = None
    raw: float | None = None

    @property
    def target(self) -> float | None:
        """The target, if there is one."""
        return self.most if self.least is None else self.least

    @property
    def missed_by(self) -> float:
        """The distance from the target as a fraction of it; 0 if the target is met or there is none."""
        if not self.target:
            return 0.0
        return max(0.0, (self.value - self.target if self.least is None else self.target - self.value) / self.target)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        met = self.value <= self.target if self.least is None else self.value >= self.target
        sign = "<=" if self.least is None else ">="
        missed_by = f"{self.missed_by:.0%}" if self.missed_by >= 0.005 else "less than 1%"
        return f"{sign} {_shown(self.target)}: " + ("met" if met else f"missed by {missed_by}")

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table row: figure, value, unit, raw engine, ratio to it, target."""
        raw = "" if self.raw is None else _shown(self.raw)
        ratio = f"{self.value / self.raw:.2f}" if self.raw else ""
        return self.what, _shown(self.value), self.unit, raw, ratio, self.verdict


class Check(msgspec.Struct, frozen=True):
    """A verification of the benchmark's work: `found` must equal `wanted`."""

    what: str
    found: float
    wanted: float

    @property
    def right(self) -> bool:
        return self.found == self.wanted


class Line(msgspec.Struct):
    benchmark: str
    size: str
    host: str
    figures: list[Figure]
    checks: list[Check]


def decode_line(line: str) -> Line:
    return msgspec.json.decode(line, type=Line)


@dataclass
class Report:
    """The figures of a benchmark, printed as a table and as a line of JSON."""

    benchmark: str
    size: str = FULL
    figures: list[Figure] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def quick(self) -> bool:
        """Whether this is a quick or smallest run."""
        return self.size != FULL

    def add(
        self,
        what: str,
        value: float,
        unit: str = "",
        *,
        raw: float | None = None,
    ) -> None:
        target = None if self.quick else target_of(self.benchmark, what)
        least = most = None
        if target is not None:
            wanted = target.value * (raw or 0.0) if target.of_raw else target.value
            least, most = (wanted, None) if target.side == "least" else (None, wanted)
        self.figures.append(Figure(what, float(value), unit, least, most, raw))

    def check(self, what: str, found: float, wanted: float) -> None:
        """Compare the work done with the work that the figures assume."""
        self.checks.append(Check(what, float(found), float(wanted)))

    def show(self) -> NoReturn:
        """Print everything and exit; the status is 1 if a check failed or there was none.

        A process that waited long for a core was measured on a busy machine, and its rates mean little.
        """
        clock = thread_clocks()[threading.main_thread().name]
        self.figures.append(Figure("main thread ran", clock.ran, "s"))
        self.figures.append(Figure("main thread waited for a core", clock.waited, "s"))
        print(f"\n{self.benchmark}{f' ({self.size}: small sizes, no targets)' if self.quick else ''}")
        print(host_line())
        print_table(
            ("figure", "value", "unit", "raw engine", "ratio", "target"),
            [figure.cells() for figure in self.figures],
        )
        for check in self.checks:
            told = "right" if check.right else f"WRONG, not {_shown(check.wanted)}"
            print(f"  checked: {check.what}: {_shown(check.found)}: {told}")
        line = Line(self.benchmark, self.size, host_line(), self.figures, self.checks)
        print(msgspec.json.encode(line).decode(), flush=True)
        sys.exit(0 if self.checks and all(check.right for check in self.checks) else 1)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    right = {at for at, name in enumerate(head) if name in {"value", "raw engine", "ratio"}}
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())


def _shown(value: float) -> str:
    if value == int(value) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.3f}"


class Spread(msgspec.Struct, frozen=True):
    """Percentiles of measurements, in their unit; all 0 if there are none."""

    median: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    most: float = 0.0


def spread(values: Sequence[float]) -> Spread:
    """Return the percentiles of some measurements."""
    if not len(values):
        return Spread()
    return Spread(*(float(value) for value in np.percentile(np.asarray(values), (50, 90, 99, 100))))


def host_line() -> str:
    """Describe the machine, the versions and the current load. If other processes use the machine, figures are worthless."""
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "?")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()},"
        f" NumPy {np.__version__}, SQLite {sqlite3.sqlite_version}; load {load}"
    )


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError:
        return []


def rss(pid: int | None = None) -> int:
    """Return the resident bytes of a process (default: this one); 0 if it has ended."""
    return _statm(pid or os.getpid())[1]


def _statm(pid: int) -> tuple[int, int]:
    """Return the bytes of a process's address space and of its resident part; zeros if it has ended."""
    found = _lines(f"/proc/{pid}/statm") or ["0 0"]
    size, resident = map(int, found[0].split()[:2])
    return size * _PAGE, resident * _PAGE


def held_bytes(value: object) -> int:
    seen: set[int] = set()
    waiting, size = [value], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, tuple | list | set | frozenset):
            waiting += one
    return size


def huge_pages() -> int:
    lines = _lines("/proc/self/smaps_rollup")
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("AnonHugePages"))


def tree(pid: int) -> list[int]:
    return [pid, *_descendants(pid)]


def _descendants(pid: int) -> dict[int, int]:
    """Return the parent of each descendant of a process."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _lines(entry / "stat")):
            children.setdefault(int(stat[0].rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: dict[int, int] = {}
    waiting = [pid]
    for parent in waiting:
        found |= dict.fromkeys(children.get(parent, []), parent)
        waiting += children.get(parent, [])
    return found


def tree_rss(pid: int) -> int:
    """Return the resident bytes of a process and its descendants; shared pages count once for each.

    A child that has not executed its own program yet shares the memory of its parent (vfork) and does not count. It is recognized
    by the size of its address space.
    """
    parents = _descendants(pid)
    sizes = {member: _statm(member) for member in (pid, *parents)}
    lent = (child for child, parent in parents.items() if sizes[child][0] == sizes[parent][0])
    return sum(resident for _, resident in sizes.values()) - sum(sizes[child][1] for child in lent)


def tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants so far."""
    return sum(_cpu(Path(f"/proc/{member}/stat")) for member in tree(pid))


def main_thread_clock(pid: int) -> Clock:
    """Return the processor time and waiting time of the main thread of a process so far; zeros if it has ended."""
    return next((_clock(line) for line in _lines(f"/proc/{pid}/task/{pid}/schedstat")), Clock())


def process_cpu(pid: int) -> float:
    """Return the CPU seconds of the current threads of a process, to the nanosecond: `tree_cpu` has ticks of 10 ms."""
    found = [_lines(task / "schedstat") for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(lines[0].split()[0]) for lines in found if lines) / 1e9


class Clock(msgspec.Struct, frozen=True):
    """Seconds that a thread ran, and seconds that it was ready to run but waited for a core."""

    ran: float = 0.0
    waited: float = 0.0


def thread_clocks() -> dict[str, Clock]:
    """Return the processor time and waiting time of each thread of this process so far, by its name in Python."""
    found: dict[str, Clock] = {}
    for thread in threading.enumerate():
        # After a fork, Python 3.11.2 still has the `native_id` of the parent's thread. The main thread has the id of the process.
        id_ = os.getpid() if thread is threading.main_thread() else thread.native_id
        for line in _lines(f"/proc/self/task/{id_}/schedstat"):
            found[thread.name] = _clock(line)
    return found


def _clock(line: str) -> Clock:
    ran, waited, _ = map(int, line.split())
    return Clock(ran / 1e9, waited / 1e9)


def _cpu(stat: Path) -> float:
    found = _lines(stat)
    # Time of children that have ended is included, or a sum over a process tree would decrease whenever one ends.
    return sum(map(int, found[0].rpartition(")")[2].split()[11:15])) / _TICKS if found else 0.0


def device_bytes(path: Path) -> int:
    """Return the bytes written so far to the disk of a path by all processes: Linux has no exact figure per process."""
    device = path.stat().st_dev
    for line in _lines("/proc/diskstats"):
        fields = line.split()
        if (int(fields[0]), int(fields[1])) == (os.major(device), os.minor(device)):
            return int(fields[9]) * 512
    return 0


class Options(argparse.ArgumentParser):
    """Options whose defaults depend on the chosen size; explicit values override these."""

    def __init__(self, about: str | None, sizes: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._sizes = sizes
        chosen = self.add_mutually_exclusive_group()
        for size, about_it in (
            (QUICK, "a short run on small sizes"),
            (SMALLEST, "a second or two, to see that it runs"),
        ):
            chosen.add_argument(f"--{size}", dest="size", action="store_const", const=size, default=FULL, help=about_it)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse like `argparse`, with the defaults of the size."""
        size = super().parse_known_args(args, argparse.Namespace())[0].size
        self.set_defaults(**self._sizes.get(size, {}))
        return super().parse_known_args(args, namespace)


def parser(about: str | None, *, quick: Mapping[str, Any], smallest: Mapping[str, Any]) -> Options:
    """Return the options of every benchmark; `quick` and `smallest` are the values of its own options in these sizes."""
    return Options(about, {QUICK: quick, SMALLEST: {**quick, **smallest}})


def keep_option(options: argparse.ArgumentParser) -> None:
    options.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the generated stores in DIR, and reuse stores of earlier runs"
    )


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """Yield a directory for stores: the given one, or a temporary one."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        yield Path(name)


def benchmarks() -> list[str]:
    """Return the names of all benchmarks: the modules in this folder that take their options from `parser`."""
    here = Path(__file__)
    modules = sorted(path for path in here.parent.glob("[a-z]*.py") if path != here)
    return [path.stem for path in modules if re.search(r"= parser\(\s*__doc__", path.read_text("utf-8"))]
