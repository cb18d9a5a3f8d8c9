"""A chart is a list of shapes on a page. Lengths are in points of a screen."""

from __future__ import annotations

from typing import Literal, NamedTuple

Colour = Literal["page", "panel", "ink", "soft", "line", "before", "after", "gain", "loss", "violet", "amber", "rose"]
Anchor = Literal["start", "middle", "end"]


class Box(NamedTuple):
    """A filled rectangle, with round corners where the radius is above 0."""

    x: float
    y: float
    width: float
    height: float
    colour: Colour
    radius: float = 0.0


class TextLine(NamedTuple):
    """A line of text; y is its baseline."""

    x: float
    y: float
    text: str
    size: int = 13
    colour: Colour = "ink"
    anchor: Anchor = "start"
    bold: bool = False


class Stroke(NamedTuple):
    """A line through points."""

    points: list[tuple[float, float]]
    colour: Colour
    width: float = 2.0
    dashed: bool = False


Shape = Box | TextLine | Stroke


class Chart(NamedTuple):
    """Shapes in the order in which they are drawn, and the size of the page they fill."""

    title: str
    description: str
    width: int
    height: int
    shapes: list[Shape]
