"""Writes docs/performance.md: the prose of `performance.md` beside this file, with the figures of docs/figures.json in it.

A fenced block `figures NAME` becomes the table of a benchmark: each of its lines is a pattern of figures, in this order.
`python -m benchmarks.page` writes the page anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from benchmarks.measure import FULL, REPOSITORY, Figure
from benchmarks.results import BUSY, Result, Results, load

PROSE = REPOSITORY / "benchmarks" / "performance.md"
PAGE = REPOSITORY / "docs" / "performance.md"
FIGURES = REPOSITORY / "docs" / "figures.json"

_BLOCK = re.compile(r"```figures ([\w ]+)\n(.*?)```\n", re.DOTALL)


def rendered(prose: str, results: Results) -> str:
    """The page."""
    by_name = {result.benchmark: result for result in results.results}
    page = _BLOCK.sub(lambda block: _table(block[1], by_name.get(block[1]), block[2].splitlines()), prose)
    return page.replace("{facts}\n", _facts(results)).replace("{targets}\n", _summary(results.results))


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
    """Write the page of the figures that are kept."""
    PAGE.write_text(rendered(PROSE.read_text("utf-8"), load(FIGURES)), "utf-8")


if __name__ == "__main__":
    write_page()
