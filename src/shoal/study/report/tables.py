"""The tables of a report, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from shoal.study.chance import shown_probability
from shoal.study.levels import LevelFigures
from shoal.study.paper import NOT_LEGIBLE, PRINTED, Printed
from shoal.study.results import Change, Constraint, Cooling, Outcome, ServerFigures, StudyResult

_LEVEL_HEAD = (
    "level",
    "buckets",
    "mean",
    "deviation",
    "of mean",
    "by chance",
    "chi-square",
    "p",
    "fullest",
    "emptiest",
    "empty",
    "furthest",
    "hottest",
    "in it",
)


def percent(share: float) -> str:
    """Return a share in per cent, or in times where that is more than ten."""
    return f"{share:.1%}" if share < 10 else f"{share:,.0f} x"


def level_table(result: StudyResult) -> str:
    """Return every level of every scheme, by itself and within those above it."""
    rows: list[str] = []
    for scheme in result.schemes:
        named = f"{escape(scheme.title)}, {scheme.nanoseconds:,.0f} ns a name"
        rows.append(f'<tr class="group"><td colspan="{len(_LEVEL_HEAD)}">{named}</td></tr>')
        rows += [_row(_level_cells(f"{level.graph} {level.name}", level)) for level in scheme.levels]
        rows += [_row(_level_cells(f"{depth} levels deep", path)) for depth, path in enumerate(scheme.paths[1:], 2)]
    return _wide(_LEVEL_HEAD, rows)


def _level_cells(name: str, level: LevelFigures) -> Iterator[str]:
    yield name
    yield f"{level.buckets:,}"
    yield f"{level.mean:,.1f}"
    yield f"{level.deviation:,.1f}"
    yield percent(level.relative)
    yield f"{level.uniform:,.1f}"
    yield f"{level.chi_square:,.0f}"
    yield shown_probability(level.p, level.log10_p)
    yield f"{level.fullest:,}"
    yield f"{level.emptiest:,}"
    yield f"{level.empty:,}"
    yield percent(level.furthest)
    yield f"{level.hottest_bucket}: {level.hottest:.2f} x" if level.hottest else ""
    yield f"{level.hottest_members:,}" if level.hottest else ""


def graph_table(level: LevelFigures) -> str:
    """Return our figures of one graph above those that the paper prints with it."""
    ours = (f"{level.members:,}", f"{level.mean:,.1f}", f"{level.deviation:,.1f}")
    theirs = PRINTED[level.graph]
    printed = (
        f'<tr><td>in the paper</td><td class="soft" colspan="3">{NOT_LEGIBLE}</td></tr>'
        if theirs == Printed()
        else _row(("in the paper", *("" if figure is None else f"{figure:,}" for figure in theirs)))
    )
    return f"<table>{_head(('', 'members', 'mean', 'deviation'))}{_row(('here', *ours))}{printed}</table>"


def server_table(found: Sequence[ServerFigures], unavailable: Sequence[str], needs: str) -> str:
    """Return how evenly each scheme fills the servers, and who moves when their number changes.

    Schemes that are `unavailable` get a row that names the package that each `needs`.
    """
    changes = [_change_words(each) for each in found[0].changes]
    head = (f"{found[0].servers.buckets} servers", "of mean", "fullest", "hottest", "ns", *changes)
    rows = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in _server_cells(each)) + "</tr>" for each in found]
    words = f"needs the package {escape(needs)}"
    rows += [f'<tr><td>{escape(title)}</td><td colspan="{len(head) - 1}">{words}</td></tr>' for title in unavailable]
    return _wide(head, rows)


def _change_words(change: Change) -> str:
    more = change.after - change.before
    return f"{'one' if abs(more) == 1 else more} {'comes' if more == 1 else 'goes' if more < 0 else 'come'}"


def _server_cells(each: ServerFigures) -> Iterator[str]:
    level = each.servers
    yield escape(each.title)
    yield percent(level.relative)
    yield f"{level.fullest / level.mean:.2f} x"
    yield f"{level.hottest:.2f} x" if level.hottest else ""
    yield f"{each.nanoseconds:,.0f}"
    for change in each.changes:
        yield f'{change.moved:,}<span class="under">{change.moved / change.least:.2f} x</span>'


def cooling_table(found: Sequence[Cooling]) -> str:
    """Return what bringing the hottest server down takes."""
    head = ("scheme", "can move", "servers", "hottest", "after", "parts", "members", "activity")
    return _wide(head, [_row(_cooling_cells(each)) for each in found])


def _cooling_cells(each: Cooling) -> Iterator[str]:
    yield each.title
    yield each.unit
    yield str(each.servers)
    yield f"{each.before:.2f} x"
    yield f"{each.after:.2f} x" + ("" if each.reached else " !")
    yield f"{each.units:,}"
    yield f"{each.members:,}"
    yield f"{each.moved_activity:.1%}"


def constraint_table(found: Sequence[Constraint], titles: dict[str, str]) -> str:
    """Return the constraints, and what the check of each found for every scheme."""
    head = ("constraint", *(titles.get(outcome.scheme, outcome.scheme) for outcome in found[0].outcomes))
    rows = [_constraint_row(number, each, titles) for number, each in enumerate(found, 1)]
    return f'<div class="wide constraints"><table>{_head(head)}{"".join(rows)}</table></div>'


def _constraint_row(number: int, each: Constraint, titles: dict[str, str]) -> str:
    promise = f"{escape(each.promise)}. Checked: {escape(each.check)}."
    cells = "".join(_outcome_cell(outcome, titles) for outcome in each.outcomes)
    return f'<tr><td class="long"><b>{number}. {escape(each.name)}</b><span class="verdict">{promise}</span></td>{cells}</tr>'


def _outcome_cell(outcome: Outcome, titles: dict[str, str]) -> str:
    scheme = escape(titles.get(outcome.scheme, outcome.scheme))
    kind, told = ("yes", "met") if outcome.met else ("no", "not met")
    return (
        f'<td data-scheme="{scheme}"><span class="{kind}">{told}</span>'
        f'<span class="verdict">{escape(outcome.words)}</span></td>'
    )


def _wide(head: Iterable[str], rows: Iterable[str]) -> str:
    return f'<div class="wide"><table>{_head(head)}{"".join(rows)}</table></div>'


def _head(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in cells) + "</tr>"


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
