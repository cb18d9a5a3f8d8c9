"""`shoal simulate`: what happens in a network of a given size, also while something goes wrong."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from shoal.charts.plots import stacked
from shoal.charts.surfaces import surface_of
from shoal.cli.assuming import assumed, assuming, calibrated
from shoal.cli.words.faults import FaultOption
from shoal.cli.words.numbers import NumberOption
from shoal.cli.words.simulations import tell
from shoal.core.errors import InvalidInput
from shoal.core.placement import DATA_SOURCES
from shoal.ops.planner.simulation.drawing import charts
from shoal.ops.planner.simulation.faults import AnyFault
from shoal.ops.planner.simulation.simulate import ONE, SEVERAL, Course, GivenSize
from shoal.ops.planner.simulation.simulate import simulate as simulated

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
    help="Seconds of the busiest hour that are simulated.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=_DEFAULTS.seed, show_default=True, help="Of what is random."
)
@click.option(
    "--fault",
    "faults",
    type=FaultOption(),
    multiple=True,
    metavar="KIND:NAME=VALUE,...",
    help="What goes wrong, as below; can be given often.",
)
@click.option("--shape", type=click.Choice([ONE, SEVERAL]), help="One process or several.  [default: as planned]")
@click.option("--web", type=_MANY, metavar="N", help="Web processes.  [default: as planned, and so for the others]")
@click.option("--workers", type=_MANY, metavar="N", help="Workers.")
@click.option("--databases", type=click.IntRange(1, DATA_SOURCES), metavar="N", help="PostgreSQL servers.")
@click.option("--redis", type=_MANY, metavar="N", help="Redis servers.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, with every number.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw an .svg or .png.")
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
    """Say what happens in a network of a given size: lags, queues and refusals, also while something goes wrong.

    It has as many parts as `shoal plan` gives it, unless you say how many. The same seed has the same outcome.

    \b
    Faults, and what can be said of each beside the second it begins `at` and
    for how long it goes on (`lasting`, 60 by default):
      slow       commits take longer: by=10, in a part of the stores: part=1
      away       nothing is committed in a part of the stores: part=0.5
      workers    a part of the workers is gone: part=0.5, and others have their
                 jobs after lease=60, with a broker at once
      timelines  a part of the timelines is lost at a moment: part=0.33
      celebrity  whom a part of all follow posts once a second: part=0.3
      rush       everything comes more often: by=5, a part of the readers for
                 the first time in long: cold=0.02

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
        title = f"{of.members:,} members, simulated for {course.seconds:g} seconds"
        plot.write_bytes(draw(stacked(title, charts(found, course.faults))))
        click.echo(f"drawn into {plot}", err=True)
    if as_json:
        said = {"assumptions": of, "course": course, "calibration": calibration.shown(), "outcome": found}
        click.echo(msgspec.json.encode(said))
    else:
        tell(found, course, calibration, ours=ours)


def _course(seconds: float, seed: int, faults: tuple[AnyFault, ...]) -> Course:
    values = {"seconds": seconds, "seed": seed, "faults": [msgspec.to_builtins(fault) for fault in faults]}
    try:
        return msgspec.convert(values, Course)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"what is to be simulated: {error}") from error
