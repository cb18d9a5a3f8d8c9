"""Run every benchmark, each in a process of its own, and end with one table: `python -m benchmarks [--quick] [NAME ...]`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import msgspec

from benchmarks.measure import FULL, REPOSITORY, Figure, benchmarks, host_line, keep_option, parser, print_table

_KEEPING = {"end_to_end", "home_page", "http_network"}


class Line(msgspec.Struct):
    """The last line that a benchmark prints."""

    benchmark: str
    figures: list[Figure]


def run(command: list[str]) -> Iterator[Line]:
    """What a benchmark reports, while it prints. Raises `CalledProcessError` when it failed, or a check of its own did."""
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith('{"benchmark"'):
                yield msgspec.json.decode(line, type=Line)
            else:
                print(line, end="", flush=True)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)


def main() -> None:
    """Run, then sum up; the exit status is 1 when one of them failed."""
    options = parser(__doc__, quick={}, smallest={})
    keep_option(options)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(benchmarks())}")
    chosen = options.parse_args()
    if unknown := set(chosen.names) - set(benchmarks()):
        options.error(f"no benchmark is named {', '.join(sorted(unknown))}")
    rows: list[tuple[str, ...]] = []
    failed: list[str] = []
    for name in chosen.names or benchmarks():
        command = [sys.executable, "-m", f"benchmarks.{name}", *([] if chosen.size == FULL else [f"--{chosen.size}"])]
        if chosen.keep is not None and name in _KEEPING:
            command += ["--keep", str(chosen.keep.absolute())]
        try:
            for line in run(command):
                told = [figure for figure in line.figures if figure.verdict or figure.raw]
                rows += [(line.benchmark, *figure.cells()) for figure in told]
        except subprocess.CalledProcessError:
            failed.append(name)
    print(f"\nAll of it\n{host_line()}")
    print_table(("benchmark", "figure", "value", "unit", "raw engine", "ratio", "target"), rows)
    for name in failed:
        print(f"  {name} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
