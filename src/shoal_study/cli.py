"""`shoal placement study`: measure how evenly the schemes of the 2006 paper, and later ones, spread any list of names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.table import Column, Table

from shoal.admin.report import Progress
from shoal.app.network import open_network
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.stores import existing
from shoal.core.errors import InvalidInput
from shoal.graph.shard_map import shown_url
from shoal.settings import Settings
from shoal_study.counting import MOST_RANGE, MOST_SEED, MOST_SERVERS, MOST_ZIPF, SCHEMES, StudyOptions
from shoal_study.names import MOST_NAMES, FileOptions, file_batches, generated_batches, network_batches
from shoal_study.paper import COMPARISON_HEADINGS, NAMES, comparison_cells, fullest_text
from shoal_study.report import LEVEL_COLUMNS, hot_range_text, percent, quantities, report_page
from shoal_study.statistics import Constraint, Cooling, MappingFigures, StudyResult
from shoal_study.study import Study

_MIB = 1 << 20


def tell(result: StudyResult) -> None:
    """Print the result of a study. Tables fit into 80 columns."""
    console = Console(highlight=False)
    console.print(f"{result.names:,} names: {result.source}", style="bold", markup=False)
    for line in _facts(result):
        console.print(line, style="dim", markup=False)
    for part in _parts(result):
        console.print()
        if isinstance(part, Table):
            console.print(part)
        else:
            for line in part:
                console.print(line, markup=False)


def _parts(result: StudyResult) -> Iterator[Table | Sequence[str]]:
    if result.schemes:
        yield _level_table(result, "Evenness", ("buckets", "mean", "deviation", "of mean", "random", "p"))
        extremes = _level_table(
            result, "Extremes", ("fullest", "emptiest", "empty", "furthest", "hottest", "its members")
        )
        extremes.caption = "Hottest: the most active bucket, its activity as a multiple of the mean, and its members"
        yield extremes
        yield [_costs((each.title, each.nanoseconds) for each in result.schemes)]
        yield _paper_table(result)
        yield [f"  {text}" for each in result.paper if (text := fullest_text(each, result.names))]
    if result.servers:
        yield _server_table(result)
        yield [_costs((each.title, each.nanoseconds) for each in result.servers)]
    elif result.unavailable:
        yield [f"{title}: needs the package {result.needs}" for title in result.unavailable]
    if result.cooling:
        yield _cooling_table(result.cooling)
    if result.mapping:
        yield list(_mapping_lines(result.mapping))
    if result.constraints and result.constraints[0].outcomes:
        yield _constraint_table(result.constraints)
        yield [
            f"  {each.number or ''} {each.name}, {outcome.scheme}: {outcome.words}".replace("   ", "  ")
            for each in result.constraints
            for outcome in each.outcomes
            if not outcome.met
        ]
    if result.errata:
        yield ["Errors of the paper", *(f"  {each.claim} {each.proof}" for each in result.errata)]


def _facts(result: StudyResult) -> Iterator[str]:
    yield (
        f"{result.seconds:.2f} s, {result.processor_seconds:.2f} s of processor time including the start, "
        f"{result.peak_bytes / _MIB:.0f} MiB"
    )
    yield f"activity: {result.activity}"
    if result.checked:
        yield f"{result.checked:,} names were also placed by the server's own code, with equal results"
    yield f"a bare loop over hashlib.md5 takes {result.bare_loop.nanoseconds:,.0f} ns of processor time per name"


def _costs(found: Iterable[tuple[str, float]]) -> str:
    return "Placing a name: " + ", ".join(f"{title} {nanoseconds:,.0f} ns" for title, nanoseconds in found)


def _table(first: str, *others: str) -> Table:
    columns = (Column(name, justify="right", no_wrap=True) for name in others)
    return Table(Column(first, no_wrap=True), *columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)


_HEADINGS = {"p": "chi2 p", "its members": "members"}
"""Column headings in the terminal that differ from those of the HTML page."""


def _level_table(result: StudyResult, title: str, columns: Sequence[str]) -> Table:
    table = _table(title, *(_HEADINGS.get(column, column) for column in columns))
    for scheme in result.schemes:
        for level in quantities(scheme):
            table.add_row(f"{level.graph:2} {level.name}", *(LEVEL_COLUMNS[column](level) for column in columns))
    return table


def _paper_table(result: StudyResult) -> Table:
    first, *others = COMPARISON_HEADINGS
    table = _table(first, *others)
    for each in result.paper:
        table.add_row(*comparison_cells(each))
    table.caption = (
        f"Left: the paper ({NAMES:,} names); right: this list. Ratio: deviation divided by mean; random: "
        "the ratio of a random distribution of this number of names"
    )
    return table


def _server_table(result: StudyResult) -> Table:
    found = result.servers
    changes = [f"{each.before} to {each.after}" for each in found[0].changes]
    table = _table(f"{found[0].servers.buckets} servers", "of mean", "fullest", "hottest", *changes)
    table.caption = "Deviation divided by the mean; members that move, and their number as a multiple of the minimum"
    for each in found:
        level = each.servers
        table.add_row(
            each.title,
            percent(level.relative),
            f"{level.fullest / level.mean:.2f} x",
            f"{level.hottest:.2f} x" if level.hottest else "",
            *(f"{change.moved / level.members:.1%} {change.moved / change.least:4.1f}x" for change in each.changes),
        )
    for title in result.unavailable:
        table.add_row(title, "needs", result.needs)
    return table


def _cooling_table(found: Sequence[Cooling]) -> Table:
    table = _table("The hottest server", "unit", "before", "after", "moved", "members")
    table.caption = f"Cost of reducing it to {found[0].bound:g} times the mean activity"
    for each in found:
        table.add_row(
            each.title if each.servers == found[0].servers else f"{each.title}, {each.servers} servers",
            each.unit,
            f"{each.before:.2f} x",
            f"{each.after:.2f} x" + ("" if each.reached else " !"),
            f"{each.units:,}",
            f"{each.members:,}",
        )
    if any(not each.reached for each in found):
        table.caption += "; !: not possible"
    return table


def _mapping_lines(mapping: MappingFigures) -> Iterator[str]:
    yield (
        f"Mapping: {mapping.ranges:,} ranges of {mapping.range_size:,} members; range n on server n mod {mapping.servers}: "
        f"{min(mapping.members):,} to {max(mapping.members):,} members per server, {mapping.idle} servers idle."
    )
    yield (
        f"  At {mapping.next_count:,} members: {min(mapping.next_members):,} to {max(mapping.next_members):,} per server. "
        f"{mapping.newest:.0%} of the newest hundredth of the members are in one range."
    )
    if mapping.heat:
        yield f"  {hot_range_text(mapping)}"


def _constraint_table(found: Sequence[Constraint]) -> Table:
    table = _table("Constraint", *(outcome.scheme for outcome in found[0].outcomes))
    for each in found:
        table.add_row(f"{each.number or ' '} {each.name}", *(_MET[outcome.met] for outcome in each.outcomes))
    return table


_MET = {True: "yes", False: "no", None: "?"}

_DEFAULTS = StudyOptions()
_POSTS = "posts"


class _Sources(NamedTuple):
    generated: int
    columns: FileOptions
    seed: int


def _chosen(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option(
            "--only",
            multiple=True,
            type=click.Choice(SCHEMES),
            help="Measure only this placement scheme; may be repeated.",
        ),
        _number("--servers", "Number of servers.", _DEFAULTS.servers, 2, MOST_SERVERS - 1),
        _number("--grown", "Number of servers after adding several at once.", _DEFAULTS.grown, 3, MOST_SERVERS),
        click.option(
            "--range",
            "range_size",
            type=click.IntRange(1, MOST_RANGE),
            metavar="MEMBERS",
            default=_DEFAULTS.range_size,
            show_default=True,
            help="Member numbers per range of the mapping scheme, which stores range n on server n mod SERVERS.",
        ),
        click.option(
            "--zipf",
            type=click.FloatRange(0, MOST_ZIPF),
            default=_DEFAULTS.zipf,
            show_default=True,
            help="Zipf exponent of the members' activity if NAMES contain no activity; 0 for equal activity.",
        ),
        _number("--seed", "Random seed of activity and generated names.", _DEFAULTS.seed, 0, MOST_SEED),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _number(name: str, words: str, default: int, least: int, most: int) -> Callable[[Callable[..., None]], Any]:
    return click.option(name, type=click.IntRange(least, most), default=default, show_default=True, help=words)


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--generated",
    type=click.IntRange(1, MOST_NAMES),
    metavar="COUNT",
    help="Measure this number of generated names instead of NAMES.",
)
@click.option("--column", default="", metavar="NAME", help="CSV column that contains the names.")
@click.option(
    "--weight",
    default="",
    metavar="NAME",
    help="CSV column with each member's activity; for a network, `posts`, the number of their posts.",
)
@_chosen
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page with plots (.html)."
)
@pass_settings
def study(
    settings: Settings,
    /,
    names: tuple[str, ...],
    generated: int | None,
    column: str,
    weight: str,
    only: tuple[str, ...],
    range_size: int,
    as_json: bool,
    report: Path | None,
    **numbers: Any,
) -> None:
    """Measure how evenly NAMES are spread over servers by letters, sums, a mapping table, MD5, and later schemes.

    NAMES are files with one name per line or CSV files, plain or gzip, - for standard input, or URLs of networks such as
    sqlite:///shoal.db. The default is the members of the network in the settings. Names are read in pieces and only
    counted; none is shown.
    """
    options = StudyOptions(schemes=only or SCHEMES, range_size=range_size, **numbers)
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"{report}: file name must end in .html")
    if generated and names:
        raise click.UsageError("NAMES and --generated are mutually exclusive")
    found = Study(options)
    sources = _Sources(generated or 0, FileOptions(column, weight), options.seed)
    with bars() as progress:
        # An empty name means the network of the settings.
        sources_read = [_read(settings, sources, name, found, progress) for name in names or ("",)]
    result = found.result(", ".join(sources_read))
    if report is not None:
        report.write_text(report_page(result), "utf-8")
        click.echo(f"wrote {report}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        tell(result)


def _read(settings: Settings, sources: _Sources, name: str, study: Study, progress: Progress) -> str:
    if sources.generated:
        for batch in generated_batches(sources.generated, sources.seed, _telling(progress, "names")):
            study.add(batch)
        return f"{sources.generated:,} generated names"
    if name and "://" not in name:
        for batch in file_batches(Path(name), sources.columns, study.names, _telling(progress, "MiB", _MIB)):
            study.add(batch)
        return "standard input" if name == "-" else Path(name).name
    if sources.columns.column or sources.columns.weight not in ("", _POSTS):
        raise click.UsageError("a network has no columns: omit --column, and use --weight posts or omit --weight")
    chosen = msgspec.structs.replace(settings, store=name) if name else settings
    asyncio.run(_read_network(chosen, study, _telling(progress, "objects"), by_posts=bool(sources.columns.weight)))
    return f"the members of {shown_url(name)}" if name else "the members of the network"


async def _read_network(
    settings: Settings, study: Study, report_progress: Callable[[int, int], None], *, by_posts: bool
) -> None:
    async with open_network(existing(settings), read_only=True) as network:
        async for batch in network_batches(network.store, study.names, report_progress, by_posts=by_posts):
            study.add(batch)


def _telling(progress: Progress, phase: str, unit: int = 1) -> Callable[[int, int], None]:
    return lambda done, total: progress(phase, done // unit, total // unit)
