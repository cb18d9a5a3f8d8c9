"""`shoal shards`: show how the network is distributed over its stores, and move data sources while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TypeVar

import click

from shoal.admin.report import Progress
from shoal.admin.resharding import Mover, MoveResult, by_store, evenness, open_mover, spread_of
from shoal.app.stores import Mapped, map_of, open_mapped, open_side
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.stores import existing
from shoal.core.errors import InvalidInput
from shoal.graph.bulk import Spread
from shoal.graph.shard_map import parse_sources, ranges_of, shown_url
from shoal.settings import Settings

T = TypeVar("T")

_BAR = 40

_by = click.option(
    "--by",
    type=click.Choice(["members", "posts", "bytes"]),
    default="members",
    show_default=True,
    help="Quantity shown by the bars.",
)


@click.group(invoke_without_command=True)
@click.pass_context
def shards(context: click.Context) -> None:
    """Show the distribution of the network over its stores, and move data sources while it runs.

    A network has 64 data sources; SOURCES names some of them, such as 12-15,20. Without a command, runs `show`.
    """
    if context.invoked_subcommand is None:
        context.invoke(show)


@shards.command()
@_by
@pass_settings
def show(settings: Settings, by: str = "members") -> None:
    """Show the shard map, unfinished moves, and the distribution of data."""
    with bars() as progress:
        mapped, spreads = asyncio.run(_looked(existing(settings), progress))
    for lines in (_map_lines(mapped), _move_lines(mapped), _store_lines(mapped, spreads), _source_lines(spreads, by)):
        for line in lines:
            click.echo(line)


@shards.command()
@click.argument("sources")
@click.option("--to", "target", metavar="URL", required=True, help="Target store.")
@pass_settings
def move(settings: Settings, sources: str, target: str) -> None:
    """Move SOURCES to another store while the network runs. The old rows stay until `finish`."""
    for moved in _moving(settings, lambda mover: mover.move(_parsed(sources), target)):
        _tell(moved)
    click.echo(f"run `shoal shards finish {sources}` to finish, or `shoal shards rollback {sources}` to undo the move")


@shards.command()
@click.argument("sources")
@pass_settings
def rollback(settings: Settings, sources: str) -> None:
    """Move SOURCES back to their old store, including everything written since."""
    for moved in _moving(settings, lambda mover: mover.rollback(_parsed(sources))):
        _tell(moved)
    click.echo(f"{ranges_of(_parsed(sources))}: rolled back; the copies in the other store were deleted")


@shards.command()
@click.argument("sources")
@pass_settings
def finish(settings: Settings, sources: str) -> None:
    """Delete the old rows of SOURCES. A rollback is not possible afterwards."""
    wiped = _moving(settings, lambda mover: mover.finish(_parsed(sources)))
    click.echo(f"{ranges_of(_parsed(sources))} finished: {wiped:,} rows deleted from the old store")


def _parsed(sources: str) -> list[int]:
    try:
        return parse_sources(sources)
    except ValueError as error:
        raise InvalidInput(str(error), field="sources") from error


def _tell(moved: MoveResult) -> None:
    click.echo(
        f"{ranges_of(moved.sources)} moved: {moved.rows:,} rows, counts and hashes equal on both sides; "
        f"writes were blocked for {moved.frozen * 1000:.0f} ms"
    )


def _moving(settings: Settings, work: Callable[[Mover], Awaitable[T]]) -> T:
    with bars() as progress:
        return asyncio.run(_moved(settings, progress, work))


async def _moved(settings: Settings, progress: Progress, work: Callable[[Mover], Awaitable[T]]) -> T:
    async with open_mover(map_of(settings), open_side, progress) as mover:
        return await work(mover)


async def _looked(settings: Settings, progress: Progress) -> tuple[Mapped, list[Spread]]:
    async with AsyncExitStack() as stack:
        mapped = await open_mapped(settings, stack)
        return mapped, await spread_of(mapped.store, progress)


def _map_lines(mapped: Mapped) -> Iterator[str]:
    yield f"map {mapped.map.version}, kept in the stores" if mapped.map.version else "map from the settings"
    for store, url in enumerate(mapped.map.stores):
        yield f"  {shown_url(url)}  {ranges_of(mapped.map.of(store)) or 'none'}"


def _move_lines(mapped: Mapped) -> Iterator[str]:
    """Yield lines about unfinished moves: switched to the new store, running, or abandoned because the mover process died."""
    known = mapped.map
    groups: dict[str, list[int]] = {}
    for source in range(len(known.owners)):
        owner = known.stores[known.owners[source]]
        mark = mapped.marks.get(owner, {}).get(source)
        if source in known.moved:
            words = f"moved from {shown_url(known.stores[known.moved[source]])}: finish the move or roll it back"
        elif source in known.left:
            words = f"old rows are being deleted from {shown_url(known.stores[known.left[source]])}: finish the move"
        elif mark is not None and mark.peer:
            words = f"moving to {shown_url(mark.peer)} ({mark.state})"
        else:
            continue
        groups.setdefault(words, []).append(source)
    if groups:
        yield ""
        yield "moves"
    for words, sources in groups.items():
        noted = sum(
            mark.noted for marks in mapped.marks.values() for source, mark in marks.items() if source in sources
        )
        yield f"  {ranges_of(sources)}  {words}; {noted:,} changes noted"


def _store_lines(mapped: Mapped, spreads: Sequence[Spread]) -> Iterator[str]:
    totals = by_store(mapped.map, spreads)
    names = [shown_url(url) for url in mapped.map.stores]
    width = max(map(len, names))
    yield ""
    yield f"{'store':{width}}  {'members':>12} {'posts':>12} {'bytes':>16}"
    for name, total in zip(names, totals, strict=True):
        yield f"{name:{width}}  {total.members:>12,} {total.posts:>12,} {total.bytes:>16,}"
    if len(totals) > 1:
        yield from _evenness_lines("over the stores", totals)


def _source_lines(spreads: Sequence[Spread], by: str) -> Iterator[str]:
    numbers = [int(getattr(each, by)) for each in spreads]
    most = max(*numbers, 1)
    yield ""
    yield f"data source  {by}"
    for source, number in enumerate(numbers):
        yield f"{source:>11}  {number:>12,} {'█' * round(number * _BAR / most)}".rstrip()
    yield from _evenness_lines("over the data sources", spreads)


def _evenness_lines(title: str, spreads: Sequence[Spread]) -> Iterator[str]:
    yield ""
    yield f"{title:24} {'mean':>14} {'deviation':>14} {'least':>14} {'most':>14}"
    for name, found in evenness(spreads).items():
        yield f"  {name:22} {found.mean:>14,.1f} {found.deviation:>14,.1f} {found.least:>14,} {found.most:>14,}"
