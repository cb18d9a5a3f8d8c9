"""`shoal shards`: show how the network is distributed over its stores, and move data sources while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import TypeVar

import click

from shoal.admin.report import Progress
from shoal.admin.resharding import Mover, MoveResult, by_source, evenness, open_mover, spread_of, total
from shoal.app.stores import Mapped, map_of, open_mapped, open_side
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.stores import existing
from shoal.core.errors import InvalidInput
from shoal.core.placement import SHARDS_PER_SOURCE
from shoal.graph.bulk import Spread, grouped
from shoal.graph.shard_map import ShardMap, parse_shards, ranges_of, shown_url
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

    A network has 64 data sources of 128 shards. SOURCES names data sources, such as 12-15,20, or parts of them: 17:0-63
    is half of data source 17. Without a command, runs `show`.
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
    for lines in (
        _map_lines(mapped),
        _move_lines(mapped),
        _store_lines(mapped, spreads),
        _source_lines(mapped.map, spreads, by),
    ):
        for line in lines:
            click.echo(line)


@shards.command()
@click.argument("sources")
@click.option("--to", "target", metavar="URL", required=True, help="Target store.")
@pass_settings
def move(settings: Settings, sources: str, target: str) -> None:
    """Move SOURCES to another store while the network runs. The old rows remain until `finish`."""
    for moved in _moving(settings, lambda mover: mover.move(_parsed(sources), target)):
        _tell(moved)
    click.echo(f"run `shoal shards finish {sources}` to finish, or `shoal shards rollback {sources}` to undo the move")


@shards.command()
@click.argument("sources")
@pass_settings
def rollback(settings: Settings, sources: str) -> None:
    """Move SOURCES back to their previous store, including everything written since."""
    for moved in _moving(settings, lambda mover: mover.rollback(_parsed(sources))):
        _tell(moved)
    click.echo(f"{ranges_of(_parsed(sources))}: rolled back; the copies in the other store were deleted")


@shards.command()
@click.argument("sources")
@pass_settings
def finish(settings: Settings, sources: str) -> None:
    """Delete the rows of the moved data sources SOURCES from their former store. The move cannot be rolled back afterwards."""
    wiped = _moving(settings, lambda mover: mover.finish(_parsed(sources)))
    click.echo(f"{ranges_of(_parsed(sources))} finished: {wiped:,} rows deleted from the old store")


def _parsed(sources: str) -> list[int]:
    try:
        return parse_shards(sources)
    except ValueError as error:
        raise InvalidInput(str(error), field="sources") from error


def _tell(moved: MoveResult) -> None:
    click.echo(
        f"{ranges_of(moved.shards)} moved: {moved.rows:,} rows, counts and hashes equal on both sides; "
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
    for url, shards in zip(mapped.map.stores, mapped.map.by_store(), strict=True):
        yield f"  {shown_url(url)}  {ranges_of(shards) or 'none'}"


def _move_lines(mapped: Mapped) -> Iterator[str]:
    known = mapped.map
    groups: dict[str, set[int]] = {}
    for shard, store in enumerate(known.owners):
        mark = mapped.marks.get(known.stores[store], {}).get(shard)
        if shard in known.moved:
            words = f"moved from {shown_url(known.stores[known.moved[shard]])}: finish the move or roll it back"
        elif shard in known.left:
            words = f"old rows are being deleted from {shown_url(known.stores[known.left[shard]])}: finish the move"
        elif mark is not None and mark.peer:
            words = f"moving to {shown_url(mark.peer)} ({mark.state})"
        else:
            continue
        groups.setdefault(words, set()).add(shard)
    if groups:
        yield ""
        yield "moves"
    for words, shards in groups.items():
        changes = sum(
            mark.changes for marks in mapped.marks.values() for shard, mark in marks.items() if shard in shards
        )
        yield f"  {ranges_of(shards)}  {words}; {changes:,} changes recorded"


def _store_lines(mapped: Mapped, spreads: Sequence[Spread]) -> Iterator[str]:
    totals = [total(spreads[shard] for shard in shards) for shards in mapped.map.by_store()]
    names = [shown_url(url) for url in mapped.map.stores]
    width = max(map(len, names))
    yield ""
    yield f"{'store':{width}}  {'members':>12} {'posts':>12} {'bytes':>16}"
    for name, each in zip(names, totals, strict=True):
        yield f"{name:{width}}  {each.members:>12,} {each.posts:>12,} {each.bytes:>16,}"
    if len(totals) > 1:
        yield from _evenness_lines("over the stores", totals)


def _source_lines(known: ShardMap, spreads: Sequence[Spread], by: str) -> Iterator[str]:
    sources = by_source(spreads)
    most = max(*(getattr(each, by) for each in sources), 1)
    yield ""
    yield f"data source  {by}"
    for source, each in enumerate(sources):
        yield _bar(str(source), int(getattr(each, by)), most)
        shards = range(source * SHARDS_PER_SOURCE, (source + 1) * SHARDS_PER_SOURCE)
        parts = grouped(shards, known.owners.__getitem__).values()
        for part in parts if len(parts) > 1 else ():
            yield _bar(ranges_of(part), int(getattr(total(spreads[shard] for shard in part), by)), most)
    yield from _evenness_lines("over the data sources", sources)


def _bar(name: str, number: int, most: int) -> str:
    return f"{name:>11}  {number:>12,} {'█' * round(number * _BAR / most)}".rstrip()


def _evenness_lines(title: str, spreads: Sequence[Spread]) -> Iterator[str]:
    yield ""
    yield f"{title:24} {'mean':>14} {'deviation':>14} {'least':>14} {'most':>14}"
    for name, found in evenness(spreads).items():
        yield f"  {name:22} {found.mean:>14,.1f} {found.deviation:>14,.1f} {found.least:>14,} {found.most:>14,}"
