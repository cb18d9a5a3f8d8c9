"""Calibration of this machine: first one process, then the engines if they are installed.

Networks and stores are configured as `shoal serve` does.
"""

from __future__ import annotations

import importlib
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvloop

from shoal.settings import Settings
from shoal_devcluster.program import NotInstalled
from shoal_planner.calibration import Calibration, OneProcess, Shared, shipped
from shoal_planner.measuring import meters, one_process
from shoal_planner.measuring.meters import machine
from shoal_planner.measuring.network import Effort, Step, gather, opened_network

STEPS = 9
_REQUESTS = 20
"""Number of HTTP requests for each round of the other measurements."""


def calibrate(folder: Path, effort: Effort, step: Step) -> Calibration:
    """Measure all costs, with files in an empty folder. Takes about a minute with the full effort.

    `step` is called with the name of each measurement when it begins. If engines or their packages are not installed, their costs
    are taken from the calibration shipped with Shoal.
    """
    began = time.perf_counter()
    one = uvloop.run(one_process.measure(folder, effort, step))
    step("HTTP")
    served = uvloop.run(_served(folder, effort))
    one["memory"] = served["memory"]
    one["request"] = max(0.0, served["page_over_http"] - one["page"])
    several, elsewhere = _several(effort, step, one["request"])
    return Calibration(
        machine=machine(folder),
        day=datetime.now(UTC).date().isoformat(),
        seconds=round(time.perf_counter() - began, 1),
        one_process=msgspec.convert(one, OneProcess),
        shared=several,
        shared_elsewhere=elsewhere,
    )


async def _served(folder: Path, effort: Effort) -> dict[str, float]:
    settings = Settings(store=f"sqlite:///{folder / 'one.db'}", media=f"file://{folder / 'media'}", rate_limits=False)
    async with opened_network(settings, background=False) as network:
        token = await meters.token_of(network, gather(effort.circle, effort.crowd).circle[0])
    return await meters.measure(settings, token, _REQUESTS * effort.rounds)


def _several(effort: Effort, step: Step, request: float) -> tuple[Shared, str]:
    """Return the costs of a network of several processes and, if they were measured on another machine, its name."""
    step("shared: engines")
    try:
        # Import the module here, because its dependencies are in an extra that a plan on one process does not need.
        shared = importlib.import_module("shoal_planner.measuring.cluster")
        with shared.started() as engines:
            costs = uvloop.run(shared.measure(engines, effort, step))
    except (NotInstalled, ModuleNotFoundError):
        known = shipped()
        return known.shared, known.shown()
    # The overhead of an HTTP request is the same for one process and for several.
    return msgspec.convert({**costs, "web_request": request}, Shared), ""
