"""The plots of a report as inline SVG in the colors of the page: the graphs of the paper, moves, mapping and cooling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Literal

from shoal_study.constraints import EVEN
from shoal_study.counting import HOT
from shoal_study.statistics import CURVE_STEPS, Cooling, LevelFigures, MappingFigures, ServerFigures

Color = Literal["accent", "warm", "cool", "ink", "soft", "line", "band"]
Anchor = Literal["start", "middle", "end"]

WIDTH = 400
"""Width of a plot in CSS pixels: narrow enough for a phone, so that its text stays readable."""


def drawing(height: float, text: str, elements: Iterable[str], width: float = WIDTH) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(text, quote=True)}">{"".join(elements)}</svg>'


def bar(x: float, y: float, width: float, height: float, color: Color, text: str = "") -> str:
    title = f"<title>{escape(text)}</title>" if text else ""
    return f'<rect class="{color}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}">{title}</rect>'


def rule(x1: float, y1: float, x2: float, y2: float, color: Color = "line", *, dashed: bool = False) -> str:
    kind = f"{color} dashed" if dashed else color
    return f'<line class="{kind}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def words(
    x: float, y: float, text: str, color: Color = "soft", anchor: Anchor = "start", *, small: bool = False
) -> str:
    kind = f"{color} small" if small else color
    return f'<text class="{kind}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>'


def curve(points: Sequence[tuple[float, float]], color: Color, *, dashed: bool = False) -> str:
    kind = f"{color} dashed" if dashed else color
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{path}"/>'


def dot(x: float, y: float, color: Color, text: str = "") -> str:
    title = f"<title>{escape(text)}</title>" if text else ""
    return f'<circle class="{color}" cx="{x:.2f}" cy="{y:.2f}" r="5">{title}</circle>'


def compact(number: float) -> str:
    """Return a number in the format of an axis: 950, 9.9k, 128k, 1.6M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            shown = number / size
            return f"{shown:.0f}{unit}" if shown >= 100 else f"{shown:.3g}{unit}"
    return f"{number:.3g}"


_GRAPH_LEFT, _GRAPH_RIGHT = 44.0, 6.0
_BARS_TOP, _BARS_FLOOR = 14.0, 172.0
_SQUARE_TOP, _SQUARE_FLOOR = 232.0, 352.0
_HEIGHT = 388
_INNER = WIDTH - _GRAPH_LEFT - _GRAPH_RIGHT
_LETTERS = 40
"""Maximum of buckets that all have a label."""


def level_plot(level: LevelFigures) -> str:
    """Return the plot of a level of directories: its buckets above, and the inequality of its buckets below."""
    text = (
        f"{level.graph or level.name}: members in each of {level.buckets:,} buckets. The fullest has {level.fullest:,}, the "
        f"emptiest {level.emptiest:,}, the mean is {level.mean:,.0f}. Below: members in the fullest buckets."
    )
    return drawing(_HEIGHT, text, [*_bars(level), *_inequality(level)])


def _bars(level: LevelFigures) -> Iterator[str]:
    top = max(level.fullest, level.mean * (1 + 2 * EVEN), 1)
    scale = (_BARS_FLOOR - _BARS_TOP) / top
    mean = _BARS_FLOOR - level.mean * scale
    half = EVEN * level.mean * scale
    yield bar(_GRAPH_LEFT, mean - half, _INNER, 2 * half, "band")
    step = _INNER / len(level.labels)
    gap = min(2.2, 0.22 * step) if step > 4 else 0.0
    for at, (count, label) in enumerate(zip(level.counts, level.labels, strict=not level.extremes)):
        tall = count * scale
        text = f"{label}: {count:,} members"
        color: Color = "warm" if abs(count - level.mean) > EVEN * level.mean else "accent"
        yield bar(_GRAPH_LEFT + at * step + gap / 2, _BARS_FLOOR - tall, step - gap, tall, color, text)
    for at, (low, high) in enumerate(level.extremes):
        text = f"from {level.labels[at]}: {low:,} to {high:,} members"
        yield bar(
            _GRAPH_LEFT + at * step, _BARS_FLOOR - high * scale, step, max(1, (high - low) * scale), "accent", text
        )
    yield rule(_GRAPH_LEFT, mean, WIDTH - _GRAPH_RIGHT, mean, "ink", dashed=True)
    yield rule(_GRAPH_LEFT, _BARS_FLOOR, WIDTH - _GRAPH_RIGHT, _BARS_FLOOR)
    yield words(_GRAPH_LEFT - 5, _BARS_FLOOR, "0", anchor="end")
    yield words(_GRAPH_LEFT - 5, mean + 4, compact(level.mean), "ink", "end")
    if mean - _BARS_TOP > 24:
        yield words(_GRAPH_LEFT - 5, _BARS_TOP + 4, compact(top), anchor="end")
        yield rule(_GRAPH_LEFT, _BARS_TOP, WIDTH - _GRAPH_RIGHT, _BARS_TOP)
    yield from _labels(level.labels, step)


def _labels(labels: Sequence[str], step: float) -> Iterator[str]:
    every = 1 if len(labels) <= _LETTERS and max(map(len, labels)) == 1 else max(1, len(labels) // 8)
    for at in range(0, len(labels), every):
        yield words(_GRAPH_LEFT + (at + 0.5) * step, _BARS_FLOOR + 14, labels[at], anchor="middle", small=True)


def _inequality(path: LevelFigures) -> Iterator[str]:
    """Draw the fraction of all members in the fullest buckets against the number of these buckets.

    Curves of an equal and of a random distribution are drawn for comparison.
    """
    high, right = _SQUARE_FLOOR - _SQUARE_TOP, WIDTH - _GRAPH_RIGHT

    def points(shares: Sequence[float]) -> list[tuple[float, float]]:
        return [
            (_GRAPH_LEFT + _INNER * at / CURVE_STEPS, _SQUARE_FLOOR - high * share) for at, share in enumerate(shares)
        ]

    yield words(_GRAPH_LEFT, _SQUARE_TOP - 16, f"Members in the fullest of {path.buckets:,} buckets", "ink")
    yield rule(_GRAPH_LEFT, _SQUARE_FLOOR, right, _SQUARE_FLOOR)
    yield rule(_GRAPH_LEFT, _SQUARE_TOP, right, _SQUARE_TOP)
    yield rule(_GRAPH_LEFT, _SQUARE_FLOOR, right, _SQUARE_TOP)
    yield curve(points(path.random_curve), "cool", dashed=True)
    here, at_random = _fullest_tenth(path.curve), _fullest_tenth(path.random_curve)
    yield curve(points(path.curve), "warm" if here > 1.25 * at_random else "accent")
    yield words(_GRAPH_LEFT - 5, _SQUARE_FLOOR, "0", anchor="end")
    yield words(_GRAPH_LEFT - 5, _SQUARE_TOP + 4, "100%", anchor="end")
    yield words(_GRAPH_LEFT, _SQUARE_FLOOR + 15, "fullest 0%", small=True)
    yield words((_GRAPH_LEFT + right) / 2, _SQUARE_FLOOR + 15, "50%", anchor="middle", small=True)
    yield words(right, _SQUARE_FLOOR + 15, "100% of the buckets", anchor="end", small=True)
    yield words(_GRAPH_LEFT, _SQUARE_FLOOR + 33, f"fullest tenth: {here:.0%}", "ink")
    yield words(right, _SQUARE_FLOOR + 33, f"random: {at_random:.0%}", "cool", "end")


def _fullest_tenth(curve: Sequence[float]) -> float:
    return curve[CURVE_STEPS // 10] if curve else 0.0


_ROW = 46.0
_LEFT, _RIGHT = 4.0, 4.0
_MARGIN = 36.0


def moving_plot(found: Sequence[ServerFigures]) -> str:
    """Return a plot of the members that move when a server is added: a bar for each scheme, with a mark at the minimum."""
    text = "; ".join(f"{each.title} moves {_share(each):.1%}" for each in found)
    height = 22 + _ROW * len(found)
    return drawing(height, f"Members that move when a server is added: {text}", _moving(found))


def _share(each: ServerFigures) -> float:
    return each.changes[0].moved / max(each.servers.members, 1)


def _moving(found: Sequence[ServerFigures]) -> Iterator[str]:
    inner = WIDTH - _LEFT - _RIGHT
    least = found[0].changes[0].least / max(found[0].servers.members, 1)
    for at, each in enumerate(found):
        y, share = at * _ROW, _share(each)
        fullest = each.servers.fullest / each.servers.mean
        yield words(_LEFT, y + 16, each.title, "ink")
        yield words(WIDTH - _RIGHT, y + 16, f"{share:.1%} move; fullest: {fullest:.2f} x the mean", anchor="end")
        yield bar(_LEFT, y + 23, inner, 12, "band")
        text = f"{each.changes[0].moved:,} members"
        yield bar(_LEFT, y + 23, max(inner * share, 1), 12, "warm" if share > 2 * least else "accent", text)
        yield rule(_LEFT + inner * least, y + 19, _LEFT + inner * least, y + 39, "ink")
    yield words(_LEFT, len(found) * _ROW + 14, f"Mark: the minimum, {least:.1%}")


def mapping_plot(mapping: MappingFigures) -> str:
    """Return a plot of the servers of the mapping scheme: members above, activity below."""
    text = (
        f"{mapping.ranges:,} ranges of {mapping.range_size:,} members on {mapping.servers} servers; the hottest has "
        f"{max(mapping.heat, default=1):.2f} times the mean activity"
    )
    return drawing(288 if mapping.heat else 140, text, _mapping(mapping))


def _mapping(mapping: MappingFigures) -> Iterator[str]:
    yield words(_MARGIN, 14, f"Members of each server, now and at {mapping.next_count:,} members", "ink")
    most = max(*mapping.members, *mapping.next_members, 1)
    for at, (members, following) in enumerate(zip(mapping.members, mapping.next_members, strict=True)):
        if following > members:
            yield _server(mapping, at, 122, 96 * following / most, "cool", f"{following:,} members later")
        yield _server(mapping, at, 122, 96 * members / most, "accent", f"{members:,} members")
    yield from _axis(122)
    yield words(_MARGIN - 5, 30, compact(most), anchor="end")
    if mapping.heat:
        yield from _heat(mapping)


def _heat(mapping: MappingFigures) -> Iterator[str]:
    floor, high = 262.0, 92.0
    most = max(*mapping.heat, HOT)
    yield words(_MARGIN, 154, "Activity of each server, divided by the mean", "ink")
    for at, heat in enumerate(mapping.heat):
        color: Color = "warm" if heat > HOT else "accent"
        yield _server(mapping, at, floor, high * heat / most, color, f"{heat:.2f} times the mean")
    mean_line = floor - high / most
    yield rule(_MARGIN, mean_line, WIDTH - _RIGHT, mean_line, "ink", dashed=True)
    yield from _axis(floor)
    yield words(_MARGIN - 5, mean_line + 4, "1 x", "ink", "end")
    step = _step(mapping)
    for at in (0, len(mapping.heat) - 1):
        yield words(_MARGIN + step * (at + 0.5), floor + 16, str(at + 1), anchor="middle", small=True)


def _step(mapping: MappingFigures) -> float:
    return (WIDTH - _MARGIN - _RIGHT) / len(mapping.members)


def _server(mapping: MappingFigures, at: int, floor: float, tall: float, color: Color, text: str) -> str:
    step = _step(mapping)
    return bar(_MARGIN + (at + 0.1) * step, floor - tall, 0.8 * step, tall, color, f"server {at + 1}: {text}")


def _axis(floor: float) -> Iterator[str]:
    yield rule(_MARGIN, floor, WIDTH - _RIGHT, floor)
    yield words(_MARGIN - 5, floor, "0", anchor="end")


def cooling_plot(found: Sequence[Cooling]) -> str:
    """Return a plot of the most active server's activity before and after rebalancing, for each placement scheme."""
    text = "; ".join(f"{each.title} {each.before:.2f} to {each.after:.2f}" for each in found)
    height = 26 + _ROW * len(found)
    return drawing(height, f"Activity of the hottest server, as a multiple of the mean: {text}", _cooling(found))


def _cooling(found: Sequence[Cooling]) -> Iterator[str]:
    most = max(*(each.before for each in found), *(each.after for each in found), found[0].bound) * 1.02
    begin, inner = _LEFT + 8, WIDTH - _LEFT - _RIGHT - 16

    def at_heat(heat: float) -> float:
        return begin + inner * (heat - 1) / (most - 1)

    goal = at_heat(found[0].bound)
    for at, each in enumerate(found):
        y = at * _ROW + 30
        yield words(_LEFT, y - 14, each.title, "ink")
        yield words(WIDTH - _RIGHT, y - 14, _cost(each), anchor="end")
        yield rule(begin, y, begin + inner, y)
        yield rule(goal, y - 7, goal, y + 7, "ink")
        yield rule(at_heat(each.after), y, at_heat(each.before), y, "soft")
        yield dot(at_heat(each.before), y, "cool", f"before: {each.before:.2f} times the mean")
        yield dot(
            at_heat(each.after), y, "accent" if each.reached else "warm", f"after: {each.after:.2f} times the mean"
        )
    floor = len(found) * _ROW + 16
    yield words(begin, floor, "1 x")
    yield words(goal, floor, f"goal {found[0].bound:g} x", "ink", "middle")
    yield words(begin + inner, floor, f"{most:.2f} x", anchor="end")


def _cost(each: Cooling) -> str:
    if each.units == 0:
        return "no move needed" if each.reached else "no unit is small enough"
    moved = f"{each.members:,} member{'' if each.members == 1 else 's'} moved"
    return moved if each.reached else f"{moved}, goal not reached"
