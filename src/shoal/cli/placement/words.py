"""A placement study in the terminal: levels, servers, what is hot, constraints, and the errors of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Column, Table

from shoal.study.chance import shown_probability
from shoal.study.levels import LevelFigures
from shoal.study.results import Change, Constraint, Cooling, MappingFigures, StudyResult

_MIB = 1 << 20


def tell(result: StudyResult) -> None:
    """Print a study. Tables fit a terminal of 80 columns."""
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
        yield _even_table(result)
        yield _ends_table(result)
        yield [_costs((each.title, each.nanoseconds) for each in result.schemes)]
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
        yield list(_failing(result.constraints))
    if result.errata:
        yield ["Errors of the paper", *(f"  {each.claim} {each.proof}" for each in result.errata)]


def _facts(result: StudyResult) -> Iterator[str]:
    yield (
        f"{result.seconds:.2f} s, {result.processor_seconds:.2f} s of processor time with the start, "
        f"{result.peak_bytes / _MIB:.0f} MiB"
    )
    yield f"activity: {result.activity}"
    if result.checked:
        yield f"{result.checked:,} of them were placed by the server's own code too, and are in the same place"
    yield f"a bare loop over hashlib.md5 takes {result.bare_loop.nanoseconds:,.0f} ns of processor time a name"


def _costs(found: Iterable[tuple[str, float]]) -> str:
    return "Placing a name: " + ", ".join(f"{title} {nanoseconds:,.0f} ns" for title, nanoseconds in found)


def _table(first: str, *others: str) -> Table:
    columns = (Column(name, justify="right", no_wrap=True) for name in others)
    return Table(Column(first, no_wrap=True), *columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)


def _rows(result: StudyResult) -> Iterator[tuple[str, LevelFigures]]:
    """Each level, and each level within those above it."""
    for scheme in result.schemes:
        yield from ((f"{level.graph} {level.name}", level) for level in scheme.levels)
        for depth, path in enumerate(scheme.paths[1:], start=2):
            yield f"   {depth} levels deep", path


def _even_table(result: StudyResult) -> Table:
    table = _table("How evenly", "buckets", "mean", "deviation", "of mean", "by chance", "chi2 p")
    for name, level in _rows(result):
        table.add_row(
            name,
            f"{level.buckets:,}",
            f"{level.mean:,.1f}",
            f"{level.deviation:,.1f}",
            share_words(level.relative),
            f"{level.uniform:,.1f}",
            shown_probability(level.p, level.log10_p),
        )
    return table


def _ends_table(result: StudyResult) -> Table:
    table = _table("The ends", "fullest", "emptiest", "empty", "furthest", "hottest", "members")
    table.caption = "Hottest: the most active bucket, in times of the mean, and its members"
    for name, level in _rows(result):
        table.add_row(
            name,
            f"{level.fullest:,}",
            f"{level.emptiest:,}",
            f"{level.empty:,}",
            share_words(level.furthest),
            f"{level.hottest_bucket}: {level.hottest:.2f} x" if level.hottest else "",
            f"{level.hottest_members:,}" if level.hottest else "",
        )
    return table


def share_words(share: float) -> str:
    """Return a share of the mean in per cent, or in times of it where that is more than ten."""
    return f"{share:.1%}" if share < 10 else f"{share:,.0f} x"


def _server_table(result: StudyResult) -> Table:
    found = result.servers
    changes = [f"{each.before} to {each.after}" for each in found[0].changes]
    table = _table(f"{found[0].servers.buckets} servers", "of mean", "fullest", "hottest", *changes)
    table.caption = "Deviation over the mean; who moves when servers come or go, and in times of the least possible"
    for each in found:
        level = each.servers
        table.add_row(
            each.title,
            share_words(level.relative),
            f"{level.fullest / level.mean:.2f} x",
            f"{level.hottest:.2f} x" if level.hottest else "",
            *(moved_words(change, level.members) for change in each.changes),
        )
    for title in result.unavailable:
        table.add_row(title, "needs", result.needs)
    return table


def moved_words(change: Change, members: int) -> str:
    """Return who moves, as a share of all and in times of the least possible."""
    return f"{change.moved / members:.1%} {change.moved / change.least:4.1f}x"


def _cooling_table(found: Sequence[Cooling]) -> Table:
    table = _table("The hottest server", "can move", "before", "after", "moved", "members")
    table.caption = f"What bringing it to {found[0].bound:g} times the mean activity takes"
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
        table.caption += "; !: it cannot be done"
    return table


def _mapping_lines(mapping: MappingFigures) -> Iterator[str]:
    yield (
        f"Mapping: ranges of {mapping.range_size:,} members fill {len(mapping.members)} servers one after the other; "
        f"{mapping.newest:.0%} of the newest hundredth are on one of them."
    )
    if mapping.heat:
        yield (
            f"  The hottest server has {max(mapping.heat):.2f} times the mean activity. {mapping.exceptions:,} members are moved "
            f"out of their range, and a request takes {mapping.lookups:.3f} look-ups."
        )


def _constraint_table(found: Sequence[Constraint]) -> Table:
    table = _table("Constraint", *(outcome.scheme for outcome in found[0].outcomes))
    for each in found:
        table.add_row(each.name, *("yes" if outcome.met else "no" for outcome in each.outcomes))
    return table


def _failing(found: Sequence[Constraint]) -> Iterator[str]:
    for each in found:
        for outcome in each.outcomes:
            if not outcome.met:
                yield f"  {each.name}, {outcome.scheme}: {outcome.words}"
