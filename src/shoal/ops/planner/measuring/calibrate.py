"""A calibration of this machine: one process first, and then the engines, where they are installed."""

from __future__ import annotations

import importlib
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop

from shoal.ops.engines.program import NotInstalled
from shoal.ops.planner.calibration import Calibration, OneProcess, Shared, shipped
from shoal.ops.planner.measuring import one_process, serving
from shoal.ops.planner.measuring.crowd import Opener, gather
from shoal.ops.planner.measuring.meters import machine
from shoal.ops.planner.measuring.one_process import Effort, Step
from shoal.settings import Settings

STEPS = 9
"""Calls of `step` in a full calibration."""
_REQUESTS = 20
"""HTTP requests for each round of the other measurements."""


def calibrate(opener: Opener, folder: Path, effort: Effort, step: Step) -> Calibration:
    """Measure everything, with files in an empty folder. Takes about a minute with the full effort.

    Where the engines or their packages are not installed the costs of those are taken from the calibration that comes with Shoal.
    """
    began = time.perf_counter()
    one = uvloop.run(one_process.measure(opener, folder, effort, step))
    step("HTTP")
    served = uvloop.run(_served(opener, folder, effort))
    one["memory"] = served["memory"]
    one["request"] = max(0.0, served["page_over_http"] - one["page"])
    several, elsewhere = _several(opener, effort, step, one["request"])
    return Calibration(
        machine=machine(folder),
        day=datetime.now(UTC).date().isoformat(),
        seconds=round(time.perf_counter() - began, 1),
        one_process=msgspec.convert(one, OneProcess),
        shared=several,
        shared_elsewhere=elsewhere,
    )


async def _served(opener: Opener, folder: Path, effort: Effort) -> dict[str, float]:
    settings = Settings(store=f"sqlite:///{folder / 'one.db'}", media=f"file://{folder / 'media'}", rate_limits=False)
    async with opener.network(settings, background=False) as network:
        token = await serving.token_of(network, gather(effort.circle, effort.crowd).circle[0])
    return await serving.measure(settings, token, _REQUESTS * effort.rounds)


def _several(opener: Opener, effort: Effort, step: Step, request: float) -> tuple[Shared, str]:
    """Return the costs of several processes and, if they are those of another machine, its name."""
    step("shared: engines")
    try:
        # Its packages come with an extra, and a plan on one process needs none of them.
        shared = importlib.import_module("shoal.ops.planner.measuring.shared")
        with shared.started() as engines:
            costs = uvloop.run(shared.measure(opener, engines, effort, step))
    except (NotInstalled, ModuleNotFoundError):
        known = shipped()
        return known.shared, known.shown()
    # The same server stands in front of both.
    return msgspec.convert({**costs, "web_request": request}, Shared), ""
