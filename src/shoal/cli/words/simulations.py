"""A simulation in the terminal."""

from __future__ import annotations

from rich.console import Console

from shoal.cli.words.plans import print_tables, tell_costs
from shoal.ops.planner.calibration import Calibration
from shoal.ops.planner.simulation.outcome import SimulatedOutcome
from shoal.ops.planner.simulation.simulate import Course
from shoal.ops.planner.simulation.tables import summary, tables


def tell(found: SimulatedOutcome, course: Course, calibration: Calibration, *, ours: bool) -> None:
    """Print a simulation. `ours` says whether its costs are the user's own."""
    console = Console(highlight=False)
    first, *others = summary(found, course.faults)
    console.print(first, style="bold", markup=False)
    for sentence in others:
        console.print(sentence, markup=False)
    tell_costs(console, calibration.shown(), ours=ours)
    print_tables(console, tables(found))
