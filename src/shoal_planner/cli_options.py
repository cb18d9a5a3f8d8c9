"""Click options of the planner: assumptions, calibration, faults such as `slow:at=60,by=20,part=10%`, and numbers.

Numbers may have a suffix or separators: 10M, 500k, 1_000_000, 0.25, 30%.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from shoal.core.errors import InvalidInput, TooLarge
from shoal_planner.calibration import FILE, Calibration, load, shipped
from shoal_planner.simulation.scenario import KINDS, AnyFault
from shoal_planner.workload import DAY, Assumptions, Prices

_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "%": 0.01}


class NumberOption(click.ParamType[float]):
    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return parsed(value)
        except ValueError:
            self.fail(f"{value!r} is not a number such as 250000, 10M, 500k, 0.25 or 30%", param, ctx)


def parsed(text: str) -> float:
    """Return the number in a text. Raises `ValueError`."""
    trimmed = text.strip().lower()
    unit = _UNITS.get(trimmed[-1:], 1.0)
    number = float(trimmed[:-1] if trimmed[-1:] in _UNITS else trimmed) * unit
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_KINDS = {str(kind.__struct_config__.tag): kind for kind in KINDS}


class FaultOption(click.ParamType[AnyFault]):
    name = "fault"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AnyFault:
        kind, _, rest = str(value).partition(":")
        if kind not in _KINDS:
            self.fail(f"{value!r} must begin with a kind of fault: {', '.join(_KINDS)}", param, ctx)
        numbers: dict[str, float] = {}
        for word in filter(None, rest.split(",")):
            name, _, text = word.partition("=")
            if name not in _KINDS[kind].__struct_fields__:
                self.fail(f"{word!r}: the parameters of `{kind}` are {_allowed(kind)}, as in at=60", param, ctx)
            try:
                numbers[name] = parsed(text)
            except ValueError:
                self.fail(f"{word!r} needs a number such as 60, 0.5 or 30%", param, ctx)
        try:
            return msgspec.convert({"kind": kind, **numbers}, _KINDS[kind])
        except msgspec.ValidationError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def _allowed(kind: str) -> str:
    return ", ".join(_KINDS[kind].__struct_fields__)


S = TypeVar("S", Assumptions, Prices)
F = TypeVar("F", bound=Callable[..., Any])

DEFAULTS = Assumptions()
_MOST_BYTES = 65_536
_OPTIONS = (
    click.option("--members", type=NumberOption(), metavar="N", help="Registered members: 250000, 10M.  [default: 1M]"),
    click.option("--posts", type=NumberOption(), metavar="RATE", help="Posts per second in the busiest hour."),
    click.option("--reads", type=NumberOption(), metavar="RATE", help="Home pages per second in the busiest hour."),
    click.option(
        "--follows",
        type=NumberOption(),
        metavar="N",
        help=f"Mean number of followees.  [default: {DEFAULTS.follows:g}]",
    ),
    click.option(
        "--exponent",
        type=NumberOption(),
        metavar="X",
        help=f"Exponent of the power law of followers.  [default: {DEFAULTS.exponent:g}]",
    ),
    click.option("--assume", multiple=True, metavar="NAME=VALUE", help="Set any other assumption, such as daily=0.3."),
    click.option("--assumptions", "file", type=click.Path(path_type=Path), metavar="FILE", help="Assumptions in TOML."),
    click.option(
        "--calibration",
        "path",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"File with measured costs.  [default: {FILE} if it exists, else those shipped with Shoal]",
    ),
)


def assuming(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def assumed(file: Path | None, assume: tuple[str, ...], given: dict[str, float | None]) -> Assumptions:
    """Return the assumptions of a file, overridden by options. Rates per second are converted to rates per member and day."""
    values: dict[str, Any] = msgspec.structs.asdict(read(file, Assumptions)) if file is not None else {}
    for word in assume:
        name, separator, text = word.partition("=")
        if not separator or name not in Assumptions.__struct_fields__:
            allowed = ", ".join(Assumptions.__struct_fields__)
            raise click.UsageError(f"--assume {word}: expected NAME=VALUE with one of {allowed}")
        values[name] = NumberOption().convert(text, None, None)
    rates = {"posts": given.pop("posts"), "pages": given.pop("reads")}
    values |= {name: number for name, number in given.items() if number is not None}
    of = _converted(values, Assumptions, "assumptions")
    for name, rate in rates.items():
        if rate is not None:
            if not of.daily:
                raise click.UsageError(
                    "--posts and --reads require active members: set daily above 0, as in --assume daily=0.3"
                )
            values[name] = rate * DAY / (of.members * of.daily * of.busiest)
    return _converted(values, Assumptions, "assumptions")


def calibrated(path: Path | None) -> tuple[Calibration, bool]:
    """Return the calibration to use, and whether it is the user's: the given file, or the default path if that exists."""
    if path is not None or FILE.exists():
        return load(path or FILE), True
    return shipped(), False


def read(path: Path, kind: type[S]) -> S:
    """Read assumptions or prices from a file. Raises `InvalidInput` (or `TooLarge`) for an invalid file."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TooLarge(f"{path} is too large for {kind.__name__.lower()}: at most {_MOST_BYTES:,} bytes")
    try:
        return _converted(tomllib.loads(data.decode()), kind, str(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}") from error


def _converted(values: dict[str, Any], kind: type[S], where: str) -> S:
    if isinstance(members := values.get("members"), float):
        values = {**values, "members": round(members)}
    if isinstance(copies := values.get("copies"), float):
        values = {**values, "copies": round(copies)}
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {error}") from error
