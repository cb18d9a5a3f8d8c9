"""A plan in the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Column
from rich.table import Table as RichTable

from shoal.ops.planner.plan import Plan
from shoal.ops.planner.tables import WordTable, summary, tables

_LEFT = {"full first", "fault"}
"""Columns of words: all others but the first are numbers."""


def tell(plan: Plan, *, ours: bool) -> None:
    """Print a plan. `ours` says whether its costs are the user's own."""
    console = Console(highlight=False)
    first, *others = summary(plan)
    console.print(first, style="bold", markup=False)
    for sentence in others:
        console.print(sentence, markup=False)
    tell_costs(console, plan.calibration, ours=ours)
    print_tables(console, tables(plan))


def tell_costs(console: Console, calibration: str, *, ours: bool) -> None:
    """Print where costs were measured, and how to measure the user's own if these are not."""
    console.print(f"Costs: {calibration}.", style="dim", markup=False)
    if not ours:
        console.print(
            "They were measured on another machine: `shoal plan --calibrate` measures this one.", style="yellow"
        )


def print_tables(console: Console, all_tables: Iterable[WordTable]) -> None:
    """Print tables with their titles; one without rows is left out."""
    for table in all_tables:
        if table.rows:
            console.print()
            console.print(table.title, style="bold", markup=False)
            console.print(_rich(table))


def _rich(table: WordTable) -> RichTable:
    first, *numbers = table.columns
    columns = [Column(first), *(Column(name, justify="left" if name in _LEFT else "right") for name in numbers)]
    shown = RichTable(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(table.columns))
    for row in table.rows:
        shown.add_row(*row)
    return shown
