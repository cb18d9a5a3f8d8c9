"""Generates the command outputs and pictures of `docs/planning.md`: `python -m tests.planner.planning_page`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from click.testing import CliRunner

from shoal.cli import main
from shoal_planner import units
from shoal_planner.calibration import Calibration, OneProcess, Shared, shipped

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"
PICTURES = {
    PAGE.with_name("planning.svg"): "shoal plan --members 10M --plot planning.svg",
    PAGE.with_name("simulation.svg"): (
        "shoal simulate --members 100M --seconds 120 --fault slow:at=30,lasting=30,by=50,part=10% --plot simulation.svg"
    ),
}
"""Pictures of the page, and the commands that draw them."""
_COMMAND = re.compile(r"(<!-- (?P<command>shoal [^>]+) -->\n\n)```text\n.*?```\n", re.DOTALL)
_COSTS = re.compile(r"(?<=<!-- costs -->\n\n).*?(?=\n<!-- end of costs -->\n)", re.DOTALL)
_PLAIN = {"contention"}
_WIDTH = "96"
_MOST_SECONDS = 3_600
"""Maximum of a cost in seconds. A cost with a higher maximum is a number of bytes."""


def with_outputs(text: str) -> str:
    """Return the page with the output of each command in it, and with the costs that Shoal ships."""
    shown = _COMMAND.sub(lambda found: f"{found[1]}```text\n{output(found['command'])}```\n", text)
    return _COSTS.sub(lambda _: costs(shipped()), shown)


def picture(path: Path) -> str:
    """Return the picture that its command draws."""
    with _empty_folder():
        _run(PICTURES[path])
        return Path(path.name).read_text("utf-8")


def output(command: str) -> str:
    """Return the output of a command in a directory without a calibration, for a terminal of a fixed width."""
    with _empty_folder():
        lines = _run(command).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


@contextmanager
def _empty_folder() -> Iterator[None]:
    with TemporaryDirectory() as folder, chdir(folder):
        yield


def _run(command: str) -> str:
    done = CliRunner().invoke(main, shlex.split(command)[1:], env={"COLUMNS": _WIDTH, "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done.stdout


def costs(calibration: Calibration) -> str:
    """Return the table of measured costs."""
    one, several = calibration.one_process, calibration.shared
    rows = ["| one process on SQLite | | several processes | |", "|---|---|---|---|"]
    left, right = [[(name, _shown(kind, name)) for name in kind.__struct_fields__] for kind in (one, several)]
    blank = ("", "")
    for at in range(max(len(left), len(right))):
        (name, cost), (other, its) = (side[at] if at < len(side) else blank for side in (left, right))
        rows.append(f"| {_named(name)} | {cost} | {_named(other)} | {its} |")
    return "\n".join(rows) + "\n"


def _named(name: str) -> str:
    return name.replace("_", " ")


def _shown(kind: OneProcess | Shared, name: str) -> str:
    field = next(field for field in msgspec.structs.fields(kind) if field.name == name)
    cost = float(getattr(kind, name))
    if name in _PLAIN:
        return f"{cost:.2f}"
    largest = field.type.__metadata__[0].le
    return units.seconds(cost) if largest <= _MOST_SECONDS else units.size(cost)


if __name__ == "__main__":
    PAGE.write_text(with_outputs(PAGE.read_text("utf-8")), "utf-8")
    for drawn in PICTURES:
        drawn.write_text(picture(drawn), "utf-8")
