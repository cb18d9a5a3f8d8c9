"""Writes docs/performance.md: the prose of `performance.md` beside this file, with the figures of docs/figures.json in it.

A fenced block `figures NAME` becomes the table of a benchmark: each of its lines is a pattern of figures, in this order. A block
`long figures NAME` takes them from docs/figures-long.json: of runs that are too long to be repeated with the others, each with its
machine, day and commit. `python -m benchmarks.page` writes the page anew; `--long FILE` takes in first what a benchmark printed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from benchmarks import peers
from benchmarks.limits import CHART, chart, paths
from benchmarks.measure import FULL, REPOSITORY, Figure, decode_line
from benchmarks.results import BUSY, Result, Results, commit, load, machine, today
from shoal.charts import Chart, drawn

PROSE = REPOSITORY / "benchmarks" / "performance.md"
PAGE = REPOSITORY / "docs" / "performance.md"
FIGURES = REPOSITORY / "docs" / "figures.json"

BUSY_FIGURE, SECONDS_FIGURE = "share of the machine that others had", "the whole run"
"""Figures by which a long run tells what is otherwise told beside it."""
LONG = REPOSITORY / "docs" / "figures-long.json"

_BLOCK = re.compile(r"```figures ([\w ]+)\n(.*?)```\n", re.DOTALL)
_LONG_BLOCK = re.compile(r"```long figures ([\w ]+)\n(.*?)```\n", re.DOTALL)


def rendered(prose: str, results: Results, long: Sequence[Results] = ()) -> str:
    """The page. `long` are runs of their own."""
    by_name = {result.benchmark: result for result in results.results}
    page = _LONG_BLOCK.sub(lambda block: _long_table(block[1], long, block[2].splitlines()), prose)
    page = _BLOCK.sub(lambda block: _table(block[1], by_name.get(block[1]), block[2].splitlines()), page)
    return (
        page.replace("{facts}\n", _facts(results))
        .replace("{targets}\n", _summary(results.results))
        .replace("{peers}\n", peers.table())
    )


def _long_table(name: str, long: Sequence[Results], patterns: Sequence[str]) -> str:
    for run in long:
        for result in run.results:
            if result.benchmark == name:
                made = f"Measured on {run.day}, commit {run.commit}, {run.machine.shown()}.\n\n"
                return made + _table(name, result, patterns)
    return "The long run was not measured.\n"


def _facts(results: Results) -> str:
    seconds = sum(result.seconds for result in results.results)
    return (
        f"All figures: {results.day}, commit {results.commit}, {results.machine.shown()}."
        f" All of it took {seconds / 60:.0f} minutes.\n"
    )


def _summary(results: Sequence[Result]) -> str:
    judged = [(result, figure) for result in results for figure in result.figures if figure.verdict]
    missed = [(result, figure) for result, figure in judged if not figure.verdict.endswith("met")]
    if not judged:
        return "Targets are those of full runs, of which there is none here.\n"
    lines = [f"{len(judged) - len(missed)} of {len(judged)} targets are met; missed are:" if missed else "All are met."]
    lines += [
        f"- {result.benchmark}, {figure.what}: {figure.cells()[1]} {figure.unit}, {figure.verdict}"
        for result, figure in missed
    ]
    return "\n".join((lines[0], "", *lines[1:])) + "\n" if missed else f"All {len(judged)} targets are met.\n"


def _table(name: str, result: Result | None, patterns: Sequence[str]) -> str:
    if result is None:
        return f"`shoal bench {name.replace('_', '-')}` was not measured.\n"
    lines = [f"`{result.command}`{''.join(_reservations(result))}", ""]
    lines += ["| | measured | raw engine | ratio | target |", "|---|---|---|---|---|"]
    for figure in _chosen(result.figures, patterns):
        what, value, unit, raw, ratio, verdict = figure.cells()
        lines.append(f"| {what} | {value} {unit}".rstrip() + f" | {raw} | {ratio} | {verdict} |")
    return "\n".join(lines) + "\n"


def _reservations(result: Result) -> Iterator[str]:
    if result.size != FULL:
        yield f", a {result.size} run: small sizes, no targets"
    if result.busy > BUSY:
        yield f"; others had {result.busy:.0%} of the machine: times say little"


def _chosen(figures: Sequence[Figure], patterns: Sequence[str]) -> Iterator[Figure]:
    for pattern in patterns:
        yield from (figure for figure in figures if fnmatchcase(figure.what, pattern))


def write_page() -> None:
    """Write the page of the figures that are kept, and the chart in it."""
    results = load(FIGURES)
    PAGE.write_text(rendered(PROSE.read_text("utf-8"), results, load_long()), "utf-8")
    CHART.write_bytes(drawn(chart_of(results), CHART.name))


def chart_of(results: Results) -> Chart:
    """The chart of all paths beside their limits."""
    return chart(list(paths(results.results)), f"{results.day}, commit {results.commit}, {results.machine.shown()}")


def load_long() -> list[Results]:
    """Read the long runs that are kept."""
    return msgspec.json.decode(LONG.read_bytes(), type=list[Results]) if LONG.exists() else []


def keep_long(printed: Path, command: str, mark: str, day: str) -> None:
    """Keep what a long run printed, in place of an earlier one of the same benchmark. `mark` and `day` are of the run."""
    told = printed.read_text("utf-8").splitlines()
    line = decode_line(next(line for line in reversed(told) if line.startswith('{"benchmark"')))
    busy = next((figure.value for figure in line.figures if figure.what == BUSY_FIGURE), 0.0)
    seconds = next((figure.value for figure in line.figures if figure.what == SECONDS_FIGURE), 0.0)
    result = Result(line.benchmark, command, line.size, busy, seconds, line.figures, line.checks)
    others = [run for run in load_long() if all(held.benchmark != line.benchmark for held in run.results)]
    kept = [*others, Results(machine(), day, mark, [result])]
    LONG.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def main() -> None:
    """Take in a long run, if there is one, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--long", type=Path, metavar="FILE", help="what a benchmark printed in a long run")
    options.add_argument("--command", default="", help="the command of that run, as the page shows it")
    options.add_argument("--commit", default=commit(), help="the commit that was measured")
    options.add_argument("--day", default=today(), help="the day of that run")
    chosen = options.parse_args()
    if chosen.long:
        keep_long(chosen.long, chosen.command, chosen.commit, chosen.day)
    write_page()


if __name__ == "__main__":
    main()
