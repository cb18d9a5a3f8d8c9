"""`shoal plan`: what a network of a given size needs, from costs that were measured."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from shoal.charts.plots import stacked
from shoal.charts.surfaces import surface_of
from shoal.cli.bars import bars
from shoal.cli.words.numbers import NumberOption
from shoal.cli.words.plans import tell
from shoal.core.errors import InvalidInput, TooLarge
from shoal.ops.planner.assumptions import DAY, Assumptions, Prices
from shoal.ops.planner.calibration import FILE, Calibration, load, save, shipped
from shoal.ops.planner.drawing import charts
from shoal.ops.planner.measuring.calibrate import STEPS, calibrate
from shoal.ops.planner.measuring.one_process import FULL
from shoal.ops.planner.plan import plan as worked_out
from shoal.ops.planner.report import page
from shoal.wiring.measured import Measured

S = TypeVar("S", Assumptions, Prices)

_MOST_BYTES = 65_536
_DEFAULTS = Assumptions()


@click.command()
@click.option(
    "--members", type=NumberOption(), metavar="N", help="Members who have signed up: 250000, 10M.  [default: 1M]"
)
@click.option("--posts", type=NumberOption(), metavar="RATE", help="Posts a second, in the busiest hour.")
@click.option("--reads", type=NumberOption(), metavar="RATE", help="Home pages a second, in the busiest hour.")
@click.option(
    "--follows",
    type=NumberOption(),
    metavar="N",
    help=f"Followees of a member, on average.  [default: {_DEFAULTS.follows:g}]",
)
@click.option(
    "--exponent",
    type=NumberOption(),
    metavar="X",
    help=f"Exponent of the power law of followers.  [default: {_DEFAULTS.exponent:g}]",
)
@click.option(
    "--pictures",
    type=NumberOption(),
    metavar="SHARE",
    help=f"Share of posts with a picture.  [default: {_DEFAULTS.pictures:g}]",
)
@click.option(
    "--years",
    type=NumberOption(),
    metavar="N",
    help=f"Years for which everything is kept.  [default: {_DEFAULTS.years:g}]",
)
@click.option(
    "--budget", type=NumberOption(), metavar="MONEY", help="Money a month: says how many members it pays for."
)
@click.option("--assume", multiple=True, metavar="NAME=VALUE", help="Any other assumption: --assume daily=0.3.")
@click.option("--assumptions", "file", type=click.Path(path_type=Path), metavar="FILE", help="Assumptions in TOML.")
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="Prices in TOML, of a month.")
@click.option(
    "--calibration",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"Measured costs.  [default: {FILE} if it is there, else those that come with Shoal]",
)
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
    paid = _read(prices, Prices) if prices is not None else Prices()
    draw = surface_of(str(plot)) if plot is not None else None
    calibration, ours = calibrated(path, measure=measure)
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


def assumed(file: Path | None, assume: tuple[str, ...], given: dict[str, float | None]) -> Assumptions:
    """Return the assumptions of a file, changed by options. Rates a second become what each member does a day."""
    values: dict[str, Any] = msgspec.structs.asdict(_read(file, Assumptions)) if file is not None else {}
    for word in assume:
        name, separator, text = word.partition("=")
        if not separator or name not in Assumptions.__struct_fields__:
            allowed = ", ".join(Assumptions.__struct_fields__)
            raise click.UsageError(f"--assume {word}: it takes NAME=VALUE, with one of {allowed}")
        values[name] = NumberOption().convert(text, None, None)
    rates = {"posts": given.pop("posts"), "pages": given.pop("reads")}
    values |= {name: number for name, number in given.items() if number is not None}
    of = _converted(values, Assumptions, "assumptions")
    for name, rate in rates.items():
        if rate is not None:
            if not of.daily:
                raise click.UsageError("nobody comes (daily=0), so there can be no posts or reads")
            values[name] = rate * DAY / (of.members * of.daily * of.busiest)
    return _converted(values, Assumptions, "assumptions")


def calibrated(path: Path | None, *, measure: bool) -> tuple[Calibration, bool]:
    """Return the calibration to use, and whether it is a file of the user's: measured now, named, or there."""
    if measure:
        return _measured(path or FILE), True
    if path is not None or FILE.exists():
        return load(path or FILE), True
    return shipped(), False


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


def _read(path: Path, kind: type[S]) -> S:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TooLarge(f"{path} is too large for {kind.__name__.lower()}: more than {_MOST_BYTES:,} bytes")
    try:
        return _converted(tomllib.loads(data.decode()), kind, str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from error


def _converted(values: dict[str, Any], kind: type[S], where: str) -> S:
    if isinstance(members := values.get("members"), float):
        values = {**values, "members": round(members)}
    if isinstance(copies := values.get("copies"), float):
        values = {**values, "copies": round(copies)}
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {error}") from error
