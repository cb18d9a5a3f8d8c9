"""Line plots and bar charts, on logarithmic or linear scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from shoal.charts import Box, Chart, Color, Shape, Stroke, TextLine

WIDTH = 960
MARGIN = 32
_HEAD = 64
_AXIS = 64
_FOOT = 62
_LEGEND = 24
_ROW = 30
_ABOVE = 16
_SMALL = 12
_DOT = 10.0
_TALL, _WIDE = 30.0, 90.0
"""Minimum distance of two ticks, vertically and horizontally."""
_LONG_NAME = 24
"""Maximum length of a bar's name that is written to the left of the bar; longer names are written above it."""
_NEAREST = 15.0
"""Minimum distance between the baselines of two labels."""

Words = Callable[[float], str]
"""Formats a number for an axis."""


class Scale(NamedTuple):
    """Maps the numbers `low` to `high` to `length` points from `start` on; a negative length goes up the page."""

    low: float
    high: float
    start: float
    length: float
    log: bool = True

    def at(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        if self.log:
            return self.start + self.length * math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + self.length * (value - self.low) / (self.high - self.low)

    def ticks(self, spacing: float = 1.0) -> list[float]:
        """Return the round numbers to mark on the axis, at least `spacing` points apart."""
        every = self._round_numbers()
        if len(every) <= 1:
            return every
        apart = abs(self.at(every[-1]) - self.at(every[0])) / (len(every) - 1)
        return every[:: max(1, math.ceil(spacing / apart))]

    def _round_numbers(self) -> list[float]:
        if self.log:
            least = math.ceil(math.log10(self.low) - 1e-9)
            most = math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(least, most + 1)]
        step = _round_step((self.high - self.low) / 5)
        count = math.floor((self.high - self.low) / step + 1e-9)
        first_tick = math.ceil(self.low / step - 1e-9) * step
        return [first_tick + step * number for number in range(count + 1) if first_tick + step * number <= self.high]


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough - 1e-12)


class PlotLine(NamedTuple):
    name: str
    color: Color
    points: Sequence[tuple[float, float]]
    dashed: bool = False


class Landmark(NamedTuple):
    at: float
    name: str


class PlotBar(NamedTuple):
    """A bar between two numbers, with a name in front and a label behind it. If only the position matters, it is drawn as a dot."""

    name: str
    low: float
    high: float
    words: str
    color: Color = "after"
    dot: bool = False


class Axes(NamedTuple):
    across: str
    up: str
    words_across: Words
    words_up: Words
    log_across: bool = True
    log_up: bool = True


def lines(
    title: str, below: str, series: Sequence[PlotLine], axes: Axes, *, height: int = 420, marks: Sequence[Landmark] = ()
) -> Chart:
    across, up = _scales(series, axes, height)
    shapes = [*_page(title, below, height), *_grid(across, up, axes, height)]
    for at, mark in enumerate(marks):
        x = across.at(mark.at)
        shapes.append(Stroke([(x, up.start), (x, up.start + up.length)], "soft", 1, dashed=True))
        left = x > across.start + across.length * 0.75
        label = up.start + up.length + 12 + at * _NEAREST
        shapes.append(TextLine(x - 6 if left else x + 6, label, mark.name, _SMALL, "soft", "end" if left else "start"))
    for line in series:
        points = [(across.at(x), up.at(y)) for x, y in line.points]
        shapes.append(Stroke(points, line.color, 2.5, line.dashed))
    shapes += _names(series, up, across)
    return Chart(title, below, WIDTH, height, shapes)


def _scales(series: Sequence[PlotLine], axes: Axes, height: int) -> tuple[Scale, Scale]:
    xs = [x for line in series for x, _ in line.points]
    ys = [y for line in series for _, y in line.points]
    names = 8 * max(len(line.name) for line in series) + 16
    left = MARGIN + _AXIS
    across = Scale(min(xs), max(xs), left, WIDTH - MARGIN - names - left, axes.log_across)
    foot = height - _FOOT
    low = 10.0 ** math.floor(math.log10(min(ys))) if axes.log_up else min(0.0, *ys)
    high = 10.0 ** math.ceil(math.log10(max(ys))) if axes.log_up else _above(max(ys))
    return across, Scale(low, high if high > low else low + 1, foot, _HEAD + _LEGEND - foot, axes.log_up)


def _above(value: float) -> float:
    """Round a value up to a multiple of a round step, for the end of an axis."""
    if value <= 0:
        return 1.0
    step = _round_step(value / 5)
    return step * math.ceil(value / step - 1e-9)


def _grid(across: Scale, up: Scale, axes: Axes, height: int) -> Iterator[Shape]:
    for tick in up.ticks(_TALL):
        y = up.at(tick)
        lowest = tick == up.low
        yield Box(across.start, y - 0.5, across.length, 1 if lowest else 0.5, "line")
        yield TextLine(across.start - 8, y + 4, axes.words_up(tick), _SMALL, "soft", "end")
    for tick in across.ticks(_WIDE):
        x = across.at(tick)
        yield Box(x - 0.5, up.start, 1, 5, "line")
        yield TextLine(x, up.start + 20, axes.words_across(tick), _SMALL, "soft", "middle")
    yield TextLine(across.start + across.length / 2, height - 20, axes.across, _SMALL, "soft", "middle")
    yield TextLine(MARGIN, _HEAD + 8, axes.up, _SMALL, "soft")


def _names(series: Sequence[PlotLine], up: Scale, across: Scale) -> Iterator[Shape]:
    ends = sorted((up.at(line.points[-1][1]), at) for at, line in enumerate(series))
    last = -math.inf
    for y, at in ends:
        last = max(y, last + _NEAREST)
        line = series[at]
        yield TextLine(across.at(line.points[-1][0]) + 8, last + 4, line.name, _SMALL, line.color, bold=True)


def bars(
    title: str,
    below: str,
    series: Sequence[PlotBar],
    words: Words,
    across: str,
    *,
    middle: float | None = None,
    log: bool = True,
) -> Chart:
    """Draw a bar chart. Each bar starts at the low end of the scale or, with a `middle`, at its own low number."""
    above = max(len(bar.name) for bar in series) > _LONG_NAME
    row = _ROW + (_ABOVE if above else 0)
    height = _HEAD + 16 + row * len(series) + _FOOT
    numbers = [number for bar in series for number in (bar.low, bar.high)] + ([] if middle is None else [middle])
    left = MARGIN + (0 if above else 7.2 * max(len(bar.name) for bar in series) + 16)
    behind = 6.8 * max(len(bar.words) for bar in series) + 16
    low = 10.0 ** math.floor(math.log10(min(numbers))) if log else min(0.0, *numbers)
    high = max(numbers) if log else _above(max(numbers))
    scale = Scale(low, max(high, low * 10 if log else low + 1), left, WIDTH - MARGIN - behind - left, log)
    foot = height - _FOOT
    shapes = [*_page(title, below, height), *_verticals(scale, foot, words)]
    for at, bar in enumerate(series):
        y = float(_HEAD + 16 + at * row)
        if above:
            shapes.append(TextLine(left, y + 14, bar.name, 13))
            y += _ABOVE
        else:
            shapes.append(TextLine(left - 10, y + 16, bar.name, 13, anchor="end"))
        shapes += _bar(scale, bar, middle, y)
    shapes.append(Box(left if middle is None else scale.at(middle), _HEAD + 10, 1, foot - _HEAD - 10, "line"))
    shapes.append(TextLine(left + scale.length / 2, height - 16, across, _SMALL, "soft", "middle"))
    return Chart(title, below, WIDTH, height, shapes)


def _bar(scale: Scale, bar: PlotBar, middle: float | None, y: float) -> Iterator[Shape]:
    begin, end = scale.at(bar.low), scale.at(bar.high)
    if bar.dot:
        yield Box(end - _DOT / 2, y + 12 - _DOT / 2, _DOT, _DOT, bar.color, _DOT / 2)
    elif middle is None:
        yield Box(begin, y + 3, max(1.0, end - begin), _ROW - 12, bar.color, 3)
    else:
        center = scale.at(middle)
        sides: tuple[tuple[float, Color], ...] = ((begin, "before"), (end, "after"))
        for side, color in sides:
            yield Box(min(side, center), y + 3, max(1.0, abs(side - center)), _ROW - 12, color, 3)
    beyond = _DOT / 2 if bar.dot else 0.0
    yield TextLine(max(begin, end) + beyond + 8, y + 16, bar.words, _SMALL, "soft")


def _verticals(scale: Scale, foot: float, words: Words) -> Iterator[Shape]:
    for tick in scale.ticks(_WIDE):
        x = scale.at(tick)
        yield Box(x - 0.25, _HEAD + 10, 0.5, foot - _HEAD - 10, "line")
        yield TextLine(x, foot + 18, words(tick), _SMALL, "soft", "middle")


def _page(title: str, below: str, height: int) -> Iterator[Shape]:
    yield Box(0, 0, WIDTH, height, "page", 16)
    yield TextLine(MARGIN, 32, title, 17, bold=True)
    yield TextLine(MARGIN, 52, below, _SMALL, "soft")


def stacked(title: str, charts: Sequence[Chart]) -> Chart:
    shapes: list[Shape] = []
    top = 0
    for chart in charts:
        shapes += [_moved(shape, top) for shape in chart.shapes]
        top += chart.height + 8
    return Chart(
        title, " ".join(chart.description for chart in charts), WIDTH, top, [Box(0, 0, WIDTH, top, "page"), *shapes]
    )


def _moved(shape: Shape, down: float) -> Shape:
    if isinstance(shape, Stroke):
        return shape._replace(points=[(x, y + down) for x, y in shape.points])
    return shape._replace(y=shape.y + down)
