"""`shoal plan` and `shoal simulate`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Column
from rich.table import Table as RichTable

from shoal.charts import surface_of
from shoal.cli.progress import bars
from shoal.core.errors import InvalidInput
from shoal.core.placement import SHARDS
from shoal_planner import report as plan_report
from shoal_planner.calibration import FILE, Calibration, save
from shoal_planner.cli_options import DEFAULTS, FaultOption, NumberOption, assumed, assuming, calibrated, read
from shoal_planner.measuring.calibrate import STEPS, calibrate
from shoal_planner.measuring.network import FULL
from shoal_planner.plan import plan as worked_out
from shoal_planner.plots import stacked
from shoal_planner.report import WordTable
from shoal_planner.simulation import report as simulation_report
from shoal_planner.simulation.scenario import AnyFault
from shoal_planner.simulation.simulate import ONE, SEVERAL, Course, GivenSize
from shoal_planner.simulation.simulate import simulate as simulated
from shoal_planner.workload import USUAL_PRICES, Prices

_LEFT = {"bottlenecks", "fault"}
"""Titles of text columns; all others but the first contain numbers."""


def _print(sentences: Sequence[str], all_tables: Iterable[WordTable], calibration: Calibration, *, ours: bool) -> None:
    """Print a plan: sentences, where the costs were measured (`ours`: by the user), and all tables that have rows."""
    console = Console(highlight=False)
    first, *others = sentences
    console.print(first, style="bold", markup=False)
    for sentence in others:
        console.print(sentence, markup=False)
    console.print(f"Costs: {calibration.shown()}.", style="dim", markup=False)
    if not ours:
        console.print(
            "They were measured on another machine; `shoal plan --calibrate` measures this one.", style="yellow"
        )
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


@click.command()
@assuming
@click.option(
    "--pictures",
    type=NumberOption(),
    metavar="SHARE",
    help=f"Fraction of posts with a picture.  [default: {DEFAULTS.pictures:g}]",
)
@click.option(
    "--years",
    type=NumberOption(),
    metavar="N",
    help=f"Years of data to keep.  [default: {DEFAULTS.years:g}]",
)
@click.option(
    "--budget",
    type=NumberOption(),
    metavar="MONEY",
    help="Monthly budget; shows the number of members that it pays for.",
)
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="Prices per month, in TOML.")
@click.option(
    "--calibrate",
    "measure",
    is_flag=True,
    help="Measure this machine first, which takes a minute, and save the result.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a chart to this .svg or .png file.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a report to this HTML file.",
)
def plan(
    *,
    file: Path | None,
    prices: Path | None,
    path: Path | None,
    assume: tuple[str, ...],
    measure: bool,
    as_json: bool,
    plot: Path | None,
    report: Path | None,
    **given: float | None,
) -> None:
    """Estimate what a network of a given size needs: processes, memory, disks, money, and how long members wait.

    Also shows the first bottleneck and the size at which it is reached, and the most sensitive assumption. The costs of
    single operations come from a calibration; the one shipped with Shoal was measured on another machine.
    """
    of = assumed(file, assume, given)
    paid = read(prices, Prices) if prices is not None else USUAL_PRICES
    draw = surface_of(str(plot)) if plot is not None else None
    calibration, ours = (_measured(path or FILE), True) if measure else calibrated(path)
    found = worked_out(of, paid, calibration)
    if plot is not None and draw is not None:
        plot.write_bytes(draw(stacked(f"Plan for {of.members:,} members", plan_report.charts(found, calibration))))
        click.echo(f"wrote {plot}", err=True)
    if report is not None:
        report.write_text(plan_report.page(found, calibration, ours=ours), "utf-8")
        click.echo(f"wrote {report}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(found))
    else:
        _print(plan_report.summary(found), plan_report.tables(found), calibration, ours=ours)


def _measured(path: Path) -> Calibration:
    done = 0
    with bars() as progress, tempfile.TemporaryDirectory(prefix="shoal-plan-", dir=path.absolute().parent) as folder:

        def step(what: str) -> None:
            nonlocal done
            progress(f"measuring: {what}", 0, 1)
            progress("total", done, STEPS)
            done += 1

        calibration = calibrate(Path(folder), FULL, step)
    save(calibration, path)
    click.echo(f"saved the calibration to {path} (it took {calibration.seconds:.0f} s)", err=True)
    return calibration


_MANY = click.IntRange(1, 100_000)
_DEFAULTS = Course()


@click.command()
@assuming
@click.option(
    "--seconds",
    type=NumberOption(),
    default=_DEFAULTS.seconds,
    show_default=True,
    metavar="N",
    help="Number of seconds to simulate, at the load of the busiest hour.",
)
@click.option("--seed", type=click.IntRange(min=0), default=_DEFAULTS.seed, show_default=True, help="Random seed.")
@click.option(
    "--fault",
    "faults",
    type=FaultOption(),
    multiple=True,
    metavar="KIND:NAME=VALUE,...",
    help="Simulate a fault, as listed above; may be repeated.",
)
@click.option(
    "--shape",
    type=click.Choice([ONE, SEVERAL]),
    help="Simulate one process or several.  [default: as `shoal plan` estimates]",
)
@click.option("--web", type=_MANY, metavar="N", help="Number of web processes.  [default: as `shoal plan` estimates]")
@click.option("--workers", type=_MANY, metavar="N", help="Number of workers.  [default: as `shoal plan` estimates]")
@click.option(
    "--databases",
    type=click.IntRange(1, SHARDS),
    metavar="N",
    help="Number of PostgreSQL servers.  [default: as `shoal plan` estimates]",
)
@click.option("--redis", type=_MANY, metavar="N", help="Number of Redis servers.  [default: as `shoal plan` estimates]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a chart to this .svg or .png file.",
)
def simulate(
    *,
    file: Path | None,
    path: Path | None,
    assume: tuple[str, ...],
    seconds: float,
    seed: int,
    faults: tuple[AnyFault, ...],
    shape: str | None,
    web: int | None,
    workers: int | None,
    databases: int | None,
    redis: int | None,
    as_json: bool,
    plot: Path | None,
    **given: float | None,
) -> None:
    """Simulate a network of a given size: lags, queues and refusals, also during faults.

    The network has the parts that `shoal plan` estimates, unless you set their numbers. Equal seeds give equal
    outcomes.

    Faults and their parameters, in addition to the second `at` which they begin and
    the seconds that they last (`lasting`, 60 by default):

    \b
        slow       commits take `by` times as long (10) in a fraction of the
                   stores (part=1)
        away       nothing is committed in a fraction of the stores (part=0.5)
        workers    a fraction of the workers is gone (part=0.5); their jobs are
                   redelivered after `lease` seconds (60; 0 with a broker)
        timelines  a fraction of the timelines is lost at once (part=0.33)
        celebrity  a member whom a fraction of all members follow (part=0.3)
                   posts once a second
        rush       everything arrives `by` times as often (5), and a fraction of
                   the readers returns after a long absence (cold=0.02)

    \b
        shoal simulate --members 10M --fault rush:at=60,by=3
        shoal simulate --members 100M --fault slow:at=30,lasting=30,by=50,part=10%
    """
    of = assumed(file, assume, given)
    draw = surface_of(str(plot)) if plot is not None else None
    course = _course(seconds, seed, faults)
    calibration, ours = calibrated(path)
    found = simulated(of, calibration, course, shape or "", GivenSize(web, workers, databases, redis))
    if plot is not None and draw is not None:
        title = f"Simulation of {of.members:,} members for {course.seconds:g} seconds"
        plot.write_bytes(draw(stacked(title, simulation_report.charts(found, course.faults))))
        click.echo(f"wrote {plot}", err=True)
    if as_json:
        document = {"assumptions": of, "course": course, "calibration": calibration.shown(), "outcome": found}
        click.echo(msgspec.json.encode(document))
    else:
        sentences = simulation_report.summary(found, course.faults)
        _print(sentences, simulation_report.tables(found), calibration, ours=ours)


def _course(seconds: float, seed: int, faults: tuple[AnyFault, ...]) -> Course:
    values = {"seconds": seconds, "seed": seed, "faults": [msgspec.to_builtins(fault) for fault in faults]}
    try:
        return msgspec.convert(values, Course)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"invalid simulation: {error}") from error
