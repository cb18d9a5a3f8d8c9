"""Metrics of this machine and its processes from Linux's /proc, and the cost of a server process: memory and HTTP."""

from __future__ import annotations

import asyncio
import http.client
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.admin.contract import AnyNetwork
from shoal.commands import oauth
from shoal.core.errors import Unavailable
from shoal.settings import Settings, environment
from shoal_devcluster.program import free_port
from shoal_planner.calibration import Machine

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def machine(folder: Path) -> Machine:
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    return Machine(
        processor=model or platform.machine(),
        cores=os.cpu_count() or 1,
        memory=os.sysconf("SC_PHYS_PAGES") * _PAGE,
        disk=shutil.disk_usage(folder).total,
        python=platform.python_version(),
        kernel=".".join(platform.release().split("-")[0].split(".")[:2]),
    )


def tree(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants so far."""
    return sum(sum(map(int, fields[11:13])) for member in tree(pid) if (fields := _stat(member))) / _TICKS


def memory_of(pid: int, *, children: bool = True) -> int:
    """Return the resident bytes of a process and its descendants. Shared pages count once, for the process itself."""
    return sum(_own_memory(member, first=member == pid) for member in (tree(pid) if children else [pid]))


def _own_memory(pid: int, *, first: bool) -> int:
    found = _lines(f"/proc/{pid}/statm")
    if not found:
        return 0
    resident, shared = map(int, found[0].split()[1:3])
    return (resident if first else resident - shared) * _PAGE


def written_to(path: Path) -> int:
    """Return the bytes written so far to the disk of a path, by all processes: Linux has no exact figure per process."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    device = path.stat().st_dev
    for fields in map(str.split, _lines("/proc/diskstats")):
        if (int(fields[0]), int(fields[1])) == (os.major(device), os.minor(device)):
            return int(fields[9]) * 512
    return 0


def _stat(pid: int) -> list[str]:
    found = _lines(f"/proc/{pid}/stat")
    return found[0].rpartition(")")[2].split() if found else []


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


class Elapsed(NamedTuple):
    """Wall-clock time and CPU time of this thread, in seconds."""

    wall: float
    worked: float


class Stopwatch:
    def __init__(self) -> None:
        self._wall, self._worked = time.perf_counter(), time.thread_time()

    def stop(self) -> Elapsed:
        return Elapsed(time.perf_counter() - self._wall, time.thread_time() - self._worked)


def line_through(sizes: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Fit a line to measurements of several sizes; return its fixed cost and its cost per unit, neither negative.

    The median of each size is used, so that outliers have no effect.
    """
    by_size: dict[float, list[float]] = {}
    for size, cost in zip(sizes, costs, strict=True):
        by_size.setdefault(size, []).append(cost)
    across = np.array(sorted(by_size), np.float64)
    middle = np.array([statistics.median(by_size[size]) for size in across.tolist()])
    # Minimize relative errors, so that large sizes do not hide the fixed cost. The measured cost of a size may be 0.
    weights = 1 / np.maximum(middle, max(middle.max(), 1e-12) * 1e-3)
    rows = np.column_stack((weights, across * weights))
    fixed, each = np.linalg.lstsq(rows, middle * weights, rcond=None)[0]
    if fixed >= 0 and each >= 0:
        return float(fixed), float(each)
    if fixed < 0:
        return 0.0, float((across * middle * weights**2).sum() / ((across * weights) ** 2).sum())
    return float((middle * weights**2).sum() / (weights**2).sum()), 0.0


_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_SCOPES = ("read", "write")
_PATH = "/api/v1/timelines/home"


async def token_of(network: AnyNetwork, member: int) -> str:
    app = (await oauth.register(network.writes, "calibration", scopes=_SCOPES)).app
    return (await oauth.issue_token(network.writes, app.id, member, _SCOPES)).text


@asynccontextmanager
async def running(settings: Settings, *words: str) -> AsyncIterator[int]:
    """Run a command of Shoal until the block ends, and yield its process id. Does not wait until it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shoal.cli",
        *words,
        env={**os.environ, **environment(settings)},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()


async def measure(settings: Settings, token: str, requests: int) -> dict[str, float]:
    """Return the memory of a freshly started server, and the CPU seconds of a page over HTTP."""
    port = free_port()
    async with running(settings, "serve", "--port", str(port)) as pid:
        await asyncio.to_thread(_awaited, port, token)
        memory = memory_of(pid)
        await asyncio.to_thread(_asked, port, token, requests)
        before = cpu_of(pid)
        await asyncio.to_thread(_asked, port, token, requests)
        page = (cpu_of(pid) - before) / requests
    return {"memory": float(memory), "page_over_http": page}


def _awaited(port: int, token: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        with suppress(OSError):
            _asked(port, token, 1)
            return
        time.sleep(_LOOK_SECONDS)
    raise Unavailable("the measured server does not respond")


def _asked(port: int, token: str, requests: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        for _ in range(requests):
            connection.request("GET", _PATH, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.client.OK:
                raise Unavailable(f"the measured server returned status {answer.status}")
    finally:
        connection.close()
