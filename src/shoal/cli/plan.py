"""`shoal plan`: what a network of a given size needs, from costs that were measured."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import msgspec

from shoal.charts.plots import stacked
from shoal.charts.surfaces import surface_of
from shoal.cli.assuming import DEFAULTS, assumed, assuming, calibrated, read
from shoal.cli.words.bars import bars
from shoal.cli.words.numbers import NumberOption
from shoal.cli.words.plans import tell
from shoal.ops.planner.assumptions import USUAL_PRICES, Prices
from shoal.ops.planner.calibration import FILE, Calibration, save
from shoal.ops.planner.drawing import charts
from shoal.ops.planner.measuring.calibrate import STEPS, calibrate
from shoal.ops.planner.measuring.one_process import FULL
from shoal.ops.planner.plan import plan as worked_out
from shoal.ops.planner.report import page
from shoal.wiring.measured import Measured


@click.command()
@assuming
@click.option(
    "--pictures",
    type=NumberOption(),
    metavar="SHARE",
    help=f"Share of posts with a picture.  [default: {DEFAULTS.pictures:g}]",
)
@click.option(
    "--years",
    type=NumberOption(),
    metavar="N",
    help=f"Years for which everything is kept.  [default: {DEFAULTS.years:g}]",
)
@click.option(
    "--budget", type=NumberOption(), metavar="MONEY", help="Money a month: says how many members it pays for."
)
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="Prices in TOML, of a month.")
@click.option("--calibrate", "measure", is_flag=True, help="Measure this machine first, in a minute, and keep that.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, with every number.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw an .svg or .png.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write all of it as one HTML file.",
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
    """Say what a network of a given size needs: processes, memory, disks, money, and how long members wait.

    Also what is full first and at which size, and which assumption matters most. Costs of single things come from a
    calibration; the one that comes with Shoal was measured on another machine.
    """
    of = assumed(file, assume, given)
    paid = read(prices, Prices) if prices is not None else USUAL_PRICES
    draw = surface_of(str(plot)) if plot is not None else None
    calibration, ours = (_measured(path or FILE), True) if measure else calibrated(path)
    found = worked_out(of, paid, calibration)
    if plot is not None and draw is not None:
        plot.write_bytes(draw(stacked(f"A plan for {of.members:,} members", charts(found, calibration))))
        click.echo(f"drawn into {plot}", err=True)
    if report is not None:
        report.write_text(page(found, calibration, ours=ours), "utf-8")
        click.echo(f"written to {report}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(found))
    else:
        tell(found, ours=ours)


def _measured(path: Path) -> Calibration:
    done = 0
    with bars() as progress, tempfile.TemporaryDirectory(prefix="shoal-plan-", dir=path.absolute().parent) as folder:

        def step(what: str) -> None:
            nonlocal done
            progress(f"measuring: {what}", 0, 1)
            progress("all of it", done, STEPS)
            done += 1

        calibration = calibrate(Measured(), Path(folder), FULL, step)
    save(calibration, path)
    click.echo(f"measured in {calibration.seconds:.0f} s and kept in {path}", err=True)
    return calibration
