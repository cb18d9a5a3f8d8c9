"""The other plots of a report: who moves when servers come, how the mapping scheme fills up, and what cools a hot server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.study.report.svg import WIDTH, Colour, bar, dot, drawing, rule, words
from shoal.study.results import Cooling, MappingFigures, ServerFigures

_ROW = 46.0
_LEFT, _RIGHT = 4.0, 4.0
_MARGIN = 36.0
_HOT = 1.25


def moving_plot(found: Sequence[ServerFigures]) -> str:
    """Return who moves when a server comes: a bar for each scheme, and a mark at the least possible."""
    told = "; ".join(f"{each.title} moves {_share(each):.1%}" for each in found)
    height = 22 + _ROW * len(found)
    return drawing(height, f"Members who move when one server comes: {told}", _moving(found))


def _share(each: ServerFigures) -> float:
    return each.changes[0].moved / max(each.servers.members, 1)


def _moving(found: Sequence[ServerFigures]) -> Iterator[str]:
    inner = WIDTH - _LEFT - _RIGHT
    least = found[0].changes[0].least / max(found[0].servers.members, 1)
    for at, each in enumerate(found):
        y, share = at * _ROW, _share(each)
        fullest = each.servers.fullest / each.servers.mean
        yield words(_LEFT, y + 16, each.title, "ink")
        yield words(WIDTH - _RIGHT, y + 16, f"{share:.1%} move; the fullest has {fullest:.2f} x the mean", anchor="end")
        yield bar(_LEFT, y + 23, inner, 12, "band")
        told = f"{each.changes[0].moved:,} members"
        yield bar(_LEFT, y + 23, max(inner * share, 1), 12, "warm" if share > 2 * least else "accent", told)
        yield rule(_LEFT + inner * least, y + 19, _LEFT + inner * least, y + 39, "ink")
    yield words(_LEFT, len(found) * _ROW + 14, f"The mark is the least that must move: {least:.1%}")


def mapping_plot(mapping: MappingFigures) -> str:
    """Return the servers of the mapping scheme in the order in which they were filled: members above, activity below."""
    told = (
        f"{len(mapping.members)} servers filled one after the other with {mapping.range_size:,} members each; the hottest "
        f"has {max(mapping.heat, default=1):.2f} times the mean activity"
    )
    return drawing(288 if mapping.heat else 140, told, _mapping(mapping))


def _mapping(mapping: MappingFigures) -> Iterator[str]:
    yield words(_MARGIN, 14, f"Members of each server; the first {mapping.start} were there before", "ink")
    for at, members in enumerate(mapping.members):
        share = members / mapping.range_size
        colour: Colour = "accent" if at < mapping.start else "cool"
        yield _server(mapping, at, 122, 96 * share, colour, f"{members:,} members")
    yield from _axis(122)
    yield words(_MARGIN - 5, 30, "full", anchor="end")
    if mapping.heat:
        yield from _heat(mapping)


def _heat(mapping: MappingFigures) -> Iterator[str]:
    floor, high = 262.0, 92.0
    most = max(*mapping.heat, _HOT)
    yield words(_MARGIN, 154, "Activity of each server, over the mean", "ink")
    for at, heat in enumerate(mapping.heat):
        colour: Colour = "warm" if heat > _HOT else "accent"
        yield _server(mapping, at, floor, high * heat / most, colour, f"{heat:.2f} times the mean")
    one = floor - high / most
    yield rule(_MARGIN, one, WIDTH - _RIGHT, one, "ink", dashed=True)
    yield from _axis(floor)
    yield words(_MARGIN - 5, one + 4, "1 x", "ink", "end")
    step = _step(mapping)
    for at in (0, len(mapping.heat) - 1):
        yield words(_MARGIN + step * (at + 0.5), floor + 16, str(at + 1), anchor="middle", small=True)


def _step(mapping: MappingFigures) -> float:
    return (WIDTH - _MARGIN - _RIGHT) / len(mapping.members)


def _server(mapping: MappingFigures, at: int, floor: float, tall: float, colour: Colour, told: str) -> str:
    step = _step(mapping)
    return bar(_MARGIN + (at + 0.1) * step, floor - tall, 0.8 * step, tall, colour, f"server {at + 1}: {told}")


def _axis(floor: float) -> Iterator[str]:
    yield rule(_MARGIN, floor, WIDTH - _RIGHT, floor)
    yield words(_MARGIN - 5, floor, "0", anchor="end")


def cooling_plot(found: Sequence[Cooling]) -> str:
    """Return the heat of the hottest server before and after what each scheme can do about it."""
    told = "; ".join(f"{each.title} {each.before:.2f} to {each.after:.2f}" for each in found)
    height = 26 + _ROW * len(found)
    return drawing(height, f"The hottest server, in times of the mean: {told}", _cooling(found))


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
        return "as it is" if each.reached else "no part is small enough"
    moved = f"{each.members:,} member{'' if each.members == 1 else 's'} moved"
    return moved if each.reached else f"{moved}, in vain"
