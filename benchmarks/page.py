"""Write the pages of figures from docs/figures.json: docs/performance.md (a summary), docs/figures.md and a table in the README.

docs/explanation/complexity.md and its charts are made of a long run (see below).

The text of a page is the template of the same name in this folder. A fenced block `figures NAME` becomes the table of a benchmark:
each line is a pattern of figures, in this order. A block `long figures NAME` takes them from docs/figures-long.json, which has runs
that are too long to be repeated with the others, each with its machine, day and commit. It also has runs of
benchmarks that are newer than docs/figures.json. `python -m benchmarks.page` writes the pages; `--long FILE` first adds the output
of such a run.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import complexity_page, peers
from benchmarks.limits import CHART, chart, paths, rate
from benchmarks.measure import FULL, REPOSITORY, Figure, decode_line
from benchmarks.results import BUSY, Result, Results, commit, load, machine, today
from shoal.charts import Chart, render

TEMPLATES = REPOSITORY / "benchmarks"
PAGES = ("performance.md", "figures.md")
"""Pages below `docs`, each with a template."""
README = REPOSITORY / "README.md"
FIGURES = REPOSITORY / "docs" / "figures.json"

BUSY_FIGURE, SECONDS_FIGURE = "fraction of the machine used by others", "the whole run"
"""Figures of a long run that other runs store next to their results."""
LONG = REPOSITORY / "docs" / "figures-long.json"


class Headline(NamedTuple):
    """A row of the summary: the figure that it shows (the first match of a pattern) and the bare engine of the same run."""

    label: str
    benchmark: str
    figure: str
    engine: str = ""


HEADLINES = (
    Headline(
        "Readers and writers at once, 800 requests per second: processor time of a request",
        "mixed_load",
        "1: at 800/s: processor time per request",
        "ready body",
    ),
    Headline(
        "Readers and writers at once, 2,000 requests per second offered to one process",
        "mixed_load",
        "1: at 2,000/s: answers",
        "offered",
    ),
    Headline(
        "Home pages over HTTP, unchanged since the last request",
        "http_network",
        "home: compared with a bare ASGI server",
        "ready body",
    ),
    Headline(
        "Home pages over HTTP, rendered again",
        "http_network",
        "home, rendered again: compared with a bare ASGI server",
        "ready body",
    ),
    Headline(
        "A home page of 20 posts through the library",
        "home_page",
        "1,000,000 members, 1,000,000 posts: warm page, median",
        "20 rows by key",
    ),
    Headline(
        "Posts over HTTP, on disk before the answer",
        "http_network",
        "post: compared with a bare ASGI server",
        "ready body",
    ),
    Headline(
        "Durable posts, each delivered to 404 followers", "end_to_end", "offered: durable posts", "rows in bare SQLite"
    ),
    Headline(
        "Time until a post is in the home timelines of its followers, p99",
        "end_to_end",
        "offered: lag to delivery, p99",
    ),
    Headline("Timeline deliveries in memory", "fanout_memory", "written deliveries", "bare ring buffer"),
    Headline(
        "A page of the ranked feed, from 500 candidates, median", "discovery", "a warm page, median", "500 rows by key"
    ),
    Headline(
        "Home pages on PostgreSQL, Redis and RabbitMQ, all on 2 cores",
        "cluster",
        "home: compared with a bare ASGI server",
        "ready body",
    ),
    Headline("Memory of a server with 1,001 members under load", "http_network", "memory after posting"),
)
IN_README = (0, 1, 2, 5, 6, 7, 9)
"""Rows of `HEADLINES` in the README."""

_README_BLOCK = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- /figures -->)", re.DOTALL)
_MARKED_BLOCK = re.compile(r"(<!-- figures (\w+) -->\n).*?(?=<!-- /figures -->)", re.DOTALL)
MARKED = ("howto/moderate.md",)
"""Pages below `docs` that are written by hand, except for marked tables of what a post costs in a benchmark."""
_BLOCK = re.compile(r"```figures ([\w ]+)\n(.*?)```\n", re.DOTALL)
_LONG_BLOCK = re.compile(r"```long figures ([\w ]+)\n(.*?)```\n", re.DOTALL)


def rendered(prose: str, results: Results, long: Sequence[Results] = ()) -> str:
    """Return the page. `long` contains separate long runs."""
    by_name = {result.benchmark: result for result in results.results}
    page = _LONG_BLOCK.sub(lambda block: _long_table(block[1], long, block[2].splitlines()), prose)
    page = _BLOCK.sub(lambda block: _any_table(block[1], by_name.get(block[1]), long, block[2].splitlines()), page)
    return (
        page.replace("{facts}\n", _facts(results))
        .replace("{headlines}\n", headlines(results.results, HEADLINES, long))
        .replace("{missed}\n", _missed(results.results))
        .replace("{targets}\n", _summary(results.results))
        .replace("{peers}\n", peers.table())
    )


def _any_table(name: str, result: Result | None, long: Sequence[Results], patterns: Sequence[str]) -> str:
    """Return the table of a benchmark, of a separate run if the run of all benchmarks does not include it."""
    if result is None and any(held.benchmark == name for run in long for held in run.results):
        return _long_table(name, long, patterns)
    return _table(name, result, patterns)


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


def headlines(results: Sequence[Result], rows: Sequence[Headline], long: Sequence[Results] = ()) -> str:
    """Return a table of these rows, of the results or else of a long run. A ratio is Shoal's rate divided by that of the bare
    engine.
    """
    separate = [result for run in long for result in run.results]
    lines = ["| | measured | bare engine | ratio | command |", "|---|---|---|---|---|"]
    for row in rows:
        named = [result for result in (*results, *separate) if result.benchmark == row.benchmark]
        found = ((result, figure) for result in named for figure in _chosen(result.figures, [row.figure]))
        result, figure = next(found, (None, None))
        if result is None or figure is None:
            lines.append(f"| {row.label} | not measured | | | `shoal bench {row.benchmark.replace('_', '-')}` |")
            continue
        _, value, unit, raw, _, _ = figure.cells()
        unit = "/s" if unit.startswith("1/s") else f" {unit}"
        ratio = f"{rate(figure.value, figure.unit) / rate(figure.raw, figure.unit):.2f}" if figure.raw else ""
        engine = f"{raw}{unit} ({row.engine})" if figure.raw else ""
        lines.append(f"| {row.label} | {value}{unit} | {engine} | {ratio} | `{result.command}` |")
    return "\n".join(lines) + "\n"


def _judged(results: Sequence[Result]) -> tuple[int, list[tuple[Result, Figure]]]:
    """Return the number of targets, and the figures that miss their target."""
    with_verdict = [(result, figure) for result in results for figure in result.figures if figure.verdict]
    return len(with_verdict), [
        (result, figure) for result, figure in with_verdict if not figure.verdict.endswith("met")
    ]


def _missed(results: Sequence[Result]) -> str:
    count, missed = _judged(results)
    if not missed:
        return f"All {count} targets are met.\n"
    lines = [
        f"{count - len(missed)} of {count} [targets](figures.md#targets) are met. Benchmarks with missed targets:",
        "",
    ]
    lines += ["| benchmark | missed | furthest from its target |", "|---|---|---|"]
    for name, number in Counter(result.benchmark for result, _ in missed).most_common():
        worst = max((figure for result, figure in missed if result.benchmark == name), key=lambda each: each.missed_by)
        what, value, unit, *_, verdict = worst.cells()
        lines.append(f"| `{name}` | {number} | {what}: {f'{value} {unit}'.rstrip()} ({verdict}) |")
    return "\n".join(lines) + "\n"


def _summary(results: Sequence[Result]) -> str:
    count, missed = _judged(results)
    if not count:
        return "Only full runs have targets, and none was recorded.\n"
    lines = [f"{count - len(missed)} of {count} targets are met; missed are:", ""]
    lines += [
        f"- {result.benchmark}, {figure.what}: {f'{figure.cells()[1]} {figure.unit}'.rstrip()}, {figure.verdict}"
        for result, figure in missed
    ]
    return "\n".join(lines) + "\n" if missed else f"All {count} targets are met.\n"


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


def pages() -> dict[Path, str]:
    results, long = load(FIGURES), load_long()
    written = {
        REPOSITORY / "docs" / name: rendered((TEMPLATES / name).read_text("utf-8"), results, long) for name in PAGES
    }
    by_name = {result.benchmark: result for result in results.results}
    for path in (REPOSITORY / "docs" / name for name in MARKED):
        written[path] = _MARKED_BLOCK.sub(
            lambda block: block[1] + _any_table(block[2], by_name.get(block[2]), long, ["a post, *"]),
            path.read_text("utf-8"),
        )
    complexity = (TEMPLATES / complexity_page.PAGE.name).read_text("utf-8")
    written[complexity_page.PAGE] = complexity_page.rendered(complexity, long)
    table = headlines(results.results, [HEADLINES[row] for row in IN_README], long)
    return written | {README: _README_BLOCK.sub(lambda _: table, README.read_text("utf-8"))}


def write_page() -> None:
    for path, text in pages().items():
        path.write_text(text, "utf-8")
    for path, drawn in charts().items():
        path.write_bytes(render(drawn, path.name))


def charts() -> dict[Path, Chart]:
    return {CHART: chart_of(load(FIGURES)), **complexity_page.charts(load_long())}


def chart_of(results: Results) -> Chart:
    return chart(list(paths(results.results)), f"{results.day}, commit {results.commit}, {results.machine.shown()}")


def load_long() -> list[Results]:
    return msgspec.json.decode(LONG.read_bytes(), type=list[Results]) if LONG.exists() else []


def keep_long(printed: Path, command: str, mark: str, day: str) -> None:
    """Store the printed result of a long run.

    It replaces an earlier result of the benchmark. `mark` and `day` are those of the run.
    """
    told = printed.read_text("utf-8").splitlines()
    line = decode_line(next(line for line in reversed(told) if line.startswith('{"benchmark"')))
    busy = next((figure.value for figure in line.figures if figure.what == BUSY_FIGURE), 0.0)
    seconds = next((figure.value for figure in line.figures if figure.what == SECONDS_FIGURE), 0.0)
    result = Result(line.benchmark, command, line.size, busy, seconds, line.figures, line.checks)
    others = [run for run in load_long() if all(held.benchmark != line.benchmark for held in run.results)]
    kept = [*others, Results(machine(), day, mark, [result])]
    LONG.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--long", type=Path, metavar="FILE", help="file with the output of a long benchmark run")
    options.add_argument("--command", default="", help="command of the long benchmark run, shown with its figures")
    options.add_argument("--commit", default=commit(), help="the commit that was measured")
    options.add_argument("--day", default=today(), help="the day of the measured run")
    chosen = options.parse_args()
    if chosen.long:
        keep_long(chosen.long, chosen.command, chosen.commit, chosen.day)
    write_page()


if __name__ == "__main__":
    main()
