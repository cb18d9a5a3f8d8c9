"""`shoal placement study`: how evenly the schemes of the 2006 paper, and later ones, spread any list of names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from shoal.admin.report import Progress
from shoal.cli.group import pass_settings
from shoal.cli.placement.words import tell
from shoal.cli.stores import existing
from shoal.cli.words.bars import bars
from shoal.core.errors import InvalidInput
from shoal.graph.sharding.shard_map import shown_url
from shoal.settings import Settings
from shoal.study.names.files import FileOptions, file_batches
from shoal.study.names.generated import MOST_NAMES, generated_batches
from shoal.study.names.network import network_batches
from shoal.study.options import MOST_RANGE, MOST_SEED, MOST_SERVERS, MOST_ZIPF, SCHEMES, StudyOptions
from shoal.study.report.page import report_page
from shoal.study.study import Study
from shoal.wiring import open_network

_DEFAULTS = StudyOptions()
_POSTS = "posts"
_MEBIBYTE = 1 << 20


class _Sources(NamedTuple):
    names: tuple[str, ...]
    generated: int
    columns: FileOptions
    seed: int


def _chosen(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what is studied."""
    options = (
        click.option("--only", multiple=True, type=click.Choice(SCHEMES), help="Only this scheme; may be repeated."),
        _number("--servers", "Servers that members are spread over.", _DEFAULTS.servers, 2, MOST_SERVERS - 1),
        _number("--grown", "Servers after several have come at once.", _DEFAULTS.grown, 3, MOST_SERVERS),
        click.option(
            "--range",
            "range_size",
            type=click.IntRange(1, MOST_RANGE),
            metavar="MEMBERS",
            help="Members of a range of the mapping scheme.  [default: as many as fill the grown servers]",
        ),
        click.option(
            "--zipf",
            type=click.FloatRange(0, MOST_ZIPF),
            default=_DEFAULTS.zipf,
            show_default=True,
            help="Exponent of activity where the source has none; 0: all members are alike.",
        ),
        _number("--seed", "Another number, other activity and other made-up names.", _DEFAULTS.seed, 0, MOST_SEED),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _number(name: str, words: str, default: int, least: int, most: int) -> Callable[[Callable[..., None]], Any]:
    return click.option(name, type=click.IntRange(least, most), default=default, show_default=True, help=words)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--generated", type=click.IntRange(1, MOST_NAMES), metavar="COUNT", help="Study so many made-up names.")
@click.option("--column", default="", metavar="NAME", help="The column of a CSV that has the names.")
@click.option(
    "--weight",
    default="",
    metavar="NAME",
    help="The column of a CSV that says how active a member is; of a network: posts.",
)
@_chosen
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, with every number.")
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
    range_size: int | None,
    as_json: bool,
    report: Path | None,
    **numbers: Any,
) -> None:
    """Study how evenly NAMES are spread over machines: by letters, by sums, by a table, by MD5, and by what came later.

    NAMES are files with a name a line, CSV files, either of them gzip too, - for standard input, or the URLs of networks such as
    sqlite:///shoal.db. Without NAMES, the members of the network that the settings name. Names are read a piece at a time and
    only counted: none is shown.
    """
    options = StudyOptions(schemes=only or SCHEMES, range_size=range_size or 0, **numbers)
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"{report} is not the name of a page: end it in .html")
    found = Study(options)
    sources = _Sources(names, generated or 0, FileOptions(column, weight), options.seed)
    with bars() as progress:
        told = [_read(settings, sources, name, found, progress) for name in _named(sources)]
    result = found.result(", ".join(told))
    if report is not None:
        report.write_text(report_page(result), "utf-8")
        click.echo(f"written into {report}", err=True)
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        tell(result)


def _named(sources: _Sources) -> Sequence[str]:
    """The sources one by one; an empty one is the network of the settings."""
    if sources.generated and sources.names:
        raise click.UsageError("either NAMES or --generated")
    return sources.names or ("",)


def _read(settings: Settings, sources: _Sources, name: str, study: Study, progress: Progress) -> str:
    """Read one source to its end. Returns what it is, in words."""
    if sources.generated:
        for batch in generated_batches(sources.generated, sources.seed, _telling(progress, "names")):
            study.add(batch)
        return f"{sources.generated:,} made-up names"
    if name and "://" not in name:
        for batch in file_batches(Path(name), sources.columns, study.names, _telling(progress, "MiB", _MEBIBYTE)):
            study.add(batch)
        return "standard input" if name == "-" else Path(name).name
    if sources.columns.column or sources.columns.weight not in ("", _POSTS):
        raise click.UsageError("of a network the names are the members', and --weight is posts")
    chosen = msgspec.structs.replace(settings, store=name) if name else settings
    asyncio.run(_read_network(chosen, study, _telling(progress, "objects"), by_posts=bool(sources.columns.weight)))
    return f"the members of {shown_url(name)}" if name else "the members of the network"


async def _read_network(settings: Settings, study: Study, told: Callable[[int, int], None], *, by_posts: bool) -> None:
    async with open_network(existing(settings), read_only=True) as network:
        async for batch in network_batches(network.store, study.names, told, by_posts=by_posts):
            study.add(batch)


def _telling(progress: Progress, phase: str, unit: int = 1) -> Callable[[int, int], None]:
    return lambda done, total: progress(phase, done // unit, total // unit)
