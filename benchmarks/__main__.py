"""Run the benchmarks, each in its own process, and print a summary: `python -m benchmarks [--quick] [NAME ...]`.

`--json FILE` saves the figures with the machine, the day and the commit. `--page` saves them in docs/figures.json and
writes the pages of figures. A busy machine is refused unless `--busy` is given.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import (
    FULL,
    REPOSITORY,
    Line,
    benchmarks,
    decode_line,
    host_line,
    keep_option,
    parser,
    print_table,
)
from benchmarks.page import FIGURES, write_page
from benchmarks.results import BUSY, Result, Results, busy_share, commit, keep, machine, today

_KEEPING = {"end_to_end", "home_page", "kind_filters", "http_network", "mixed_load", "post_costs", "processes"}
_ALONE = {"complexity", "kind_filters"}
"""Benchmarks that take more than twenty minutes. They run only by name, and docs/figures-long.json keeps their figures."""


def run(command: list[str]) -> Iterator[Line]:
    """Yield a benchmark's results and print its other output.

    Raises `CalledProcessError` if the benchmark or one of its checks fails.
    """
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith('{"benchmark"'):
                yield decode_line(line)
            else:
                print(line, end="", flush=True)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)


def measured(name: str, size: str, place: Path | None, *, busy: bool) -> list[Result]:
    """Return the results of a benchmark. Raises `SystemExit` on a busy machine unless `busy` is set."""
    share = busy_share()
    if share > BUSY and not busy:
        raise SystemExit(
            f"other processes use {share:.0%} of this machine, so figures would mean little; use --busy to measure anyway"
        )
    sized = [] if size == FULL else [f"--{size}"]
    command = [sys.executable, "-m", f"benchmarks.{name}", *sized]
    if place is not None and name in _KEEPING:
        command += ["--keep", str(place.absolute())]
    began = time.perf_counter()
    lines = list(run(command))
    shown = " ".join(("shoal bench", name.replace("_", "-"), *sized))
    seconds = round(time.perf_counter() - began, 1)
    return [
        Result(line.benchmark, shown, line.size, round(share, 2), seconds, line.figures, line.checks) for line in lines
    ]


def main() -> None:
    options = parser(__doc__, quick={}, smallest={})
    keep_option(options)
    options.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the figures to FILE, and keep those of other benchmarks in it",
    )
    options.add_argument(
        "--page", action="store_true", help="save the figures in docs/figures.json, and write the pages that show them"
    )
    options.add_argument(
        "--busy", action="store_true", help="measure even if other processes use the machine; the results mention it"
    )
    options.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"benchmarks to run: {', '.join(benchmarks())}; by default all except {' and '.join(sorted(_ALONE))}",
    )
    chosen = options.parse_args()
    if unknown := set(chosen.names) - set(benchmarks()):
        options.error(f"no benchmark is named {', '.join(sorted(unknown))}")
    results: list[Result] = []
    failed: list[str] = []
    path = FIGURES if chosen.page else chosen.json
    found = Results(machine(), today(), commit(), results)
    for name in chosen.names or [name for name in benchmarks() if name not in _ALONE]:
        try:
            results += measured(name, chosen.size, chosen.keep, busy=chosen.busy)
            if path:
                # Save after each benchmark, so that a failure does not lose the results of the others.
                keep(path, found, whole=not chosen.names)
        except subprocess.CalledProcessError:
            failed.append(name)
    told = [(result.benchmark, figure) for result in results for figure in result.figures]
    rows = [(name, *figure.cells()) for name, figure in told if figure.verdict or figure.raw]
    print(f"\nAll of it\n{host_line()}")
    print_table(("benchmark", "figure", "value", "unit", "raw engine", "ratio", "target"), rows)
    if chosen.page:
        write_page()
    for name in failed:
        print(f"  {name} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
