"""The eight graphs of the paper from our counts: a bar for each bucket, and below it how unequally the directories are filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.study.constraints import EVEN
from shoal.study.levels import CURVE_STEPS, LevelFigures
from shoal.study.report.svg import WIDTH, Colour, bar, compact, curve, drawing, rule, words

_LEFT, _RIGHT = 44.0, 6.0
_BARS_TOP, _BARS_FLOOR = 14.0, 172.0
_SQUARE_TOP, _SQUARE_FLOOR = 232.0, 352.0
_HEIGHT = 388
_INNER = WIDTH - _LEFT - _RIGHT
_LETTERS = 40
"""Buckets that are few enough for each to have its label."""


def level_plot(level: LevelFigures, path: LevelFigures) -> str:
    """Return the plot of one level. `path` is this level within those above it."""
    told = (
        f"{level.graph}: members in each of {level.buckets} buckets. The fullest has {level.fullest:,}, the emptiest "
        f"{level.emptiest:,}, the mean is {level.mean:,.0f}. Below: members in the fullest directories of {path.buckets:,}."
    )
    return drawing(_HEIGHT, told, [*_bars(level), *_inequality(path)])


def _bars(level: LevelFigures) -> Iterator[str]:
    top = max(level.fullest, level.mean * (1 + 2 * EVEN), 1)
    scale = (_BARS_FLOOR - _BARS_TOP) / top
    mean = _BARS_FLOOR - level.mean * scale
    half = EVEN * level.mean * scale
    yield bar(_LEFT, mean - half, _INNER, 2 * half, "band")
    step = _INNER / level.buckets
    gap = min(2.2, 0.22 * step) if step > 4 else 0.0
    for at, (count, label) in enumerate(zip(level.counts, level.labels, strict=True)):
        tall = count * scale
        told = f"{label}: {count:,} members"
        yield bar(_LEFT + at * step + gap / 2, _BARS_FLOOR - tall, step - gap, tall, _colour(count, level), told)
    yield rule(_LEFT, mean, WIDTH - _RIGHT, mean, "ink", dashed=True)
    yield rule(_LEFT, _BARS_FLOOR, WIDTH - _RIGHT, _BARS_FLOOR)
    yield words(_LEFT - 5, _BARS_FLOOR, "0", anchor="end")
    yield words(_LEFT - 5, mean + 4, compact(level.mean), "ink", "end")
    if mean - _BARS_TOP > 24:
        yield words(_LEFT - 5, _BARS_TOP + 4, compact(top), anchor="end")
        yield rule(_LEFT, _BARS_TOP, WIDTH - _RIGHT, _BARS_TOP)
    yield from _labels(level.labels, step)


def _colour(count: int, level: LevelFigures) -> Colour:
    return "warm" if abs(count - level.mean) > EVEN * level.mean else "accent"


def _labels(labels: Sequence[str], step: float) -> Iterator[str]:
    every = 1 if len(labels) <= _LETTERS and max(map(len, labels)) == 1 else max(1, len(labels) // 8)
    for at in range(0, len(labels), every):
        yield words(_LEFT + (at + 0.5) * step, _BARS_FLOOR + 14, labels[at], anchor="middle", small=True)


def _inequality(path: LevelFigures) -> Iterator[str]:
    """Draw how many of the members are in the fullest directories, beside the line of equal shares and that of chance."""
    high, right = _SQUARE_FLOOR - _SQUARE_TOP, WIDTH - _RIGHT

    def points(shares: Sequence[float]) -> list[tuple[float, float]]:
        return [(_LEFT + _INNER * at / CURVE_STEPS, _SQUARE_FLOOR - high * share) for at, share in enumerate(shares)]

    yield words(_LEFT, _SQUARE_TOP - 16, f"Members in the fullest of {path.buckets:,} directories", "ink")
    yield rule(_LEFT, _SQUARE_FLOOR, right, _SQUARE_FLOOR)
    yield rule(_LEFT, _SQUARE_TOP, right, _SQUARE_TOP)
    yield rule(_LEFT, _SQUARE_FLOOR, right, _SQUARE_TOP)
    yield curve(points(path.chance_curve), "cool", dashed=True)
    yield curve(points(path.curve), "warm" if _uneven(path) else "accent")
    yield words(_LEFT - 5, _SQUARE_FLOOR, "0", anchor="end")
    yield words(_LEFT - 5, _SQUARE_TOP + 4, "100%", anchor="end")
    yield words(_LEFT, _SQUARE_FLOOR + 15, "fullest 0%", small=True)
    yield words((_LEFT + right) / 2, _SQUARE_FLOOR + 15, "50%", anchor="middle", small=True)
    yield words(right, _SQUARE_FLOOR + 15, "100% of the directories", anchor="end", small=True)
    yield words(_LEFT, _SQUARE_FLOOR + 33, f"in the fullest tenth: {_within(path, 10):.0%}", "ink")
    yield words(right, _SQUARE_FLOOR + 33, f"by chance: {_within_chance(path, 10):.0%}", "cool", "end")


def _within(path: LevelFigures, percent: int) -> float:
    return path.curve[percent * CURVE_STEPS // 100] if path.curve else 0.0


def _within_chance(path: LevelFigures, percent: int) -> float:
    return path.chance_curve[percent * CURVE_STEPS // 100] if path.chance_curve else 0.0


def _uneven(path: LevelFigures) -> bool:
    return _within(path, 10) > 1.25 * _within_chance(path, 10)
