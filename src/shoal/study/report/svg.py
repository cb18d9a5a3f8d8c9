"""Elements of an SVG that takes its colours from the page around it: classes name them, so one drawing is light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal

Colour = Literal["accent", "warm", "cool", "ink", "soft", "line", "band"]
Anchor = Literal["start", "middle", "end"]

WIDTH = 400
"""Points of the screen that a plot is wide: narrow enough for a telephone, so that its words stay readable there."""


def drawing(height: float, told: str, elements: Iterable[str], width: float = WIDTH) -> str:
    """Return a whole drawing; `told` says in words what it shows, for people who do not see it."""
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(told, quote=True)}">{"".join(elements)}</svg>'


def bar(x: float, y: float, width: float, height: float, colour: Colour, told: str = "") -> str:
    """Return a filled rectangle; `told` appears when it is pointed at."""
    title = f"<title>{escape(told)}</title>" if told else ""
    return f'<rect class="{colour}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}">{title}</rect>'


def rule(x1: float, y1: float, x2: float, y2: float, colour: Colour = "line", *, dashed: bool = False) -> str:
    """Return a thin line."""
    kind = f"{colour} dashed" if dashed else colour
    return f'<line class="{kind}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def words(
    x: float, y: float, text: str, colour: Colour = "soft", anchor: Anchor = "start", *, small: bool = False
) -> str:
    """Return a line of text; y is its baseline."""
    kind = f"{colour} small" if small else colour
    return f'<text class="{kind}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>'


def curve(points: Sequence[tuple[float, float]], colour: Colour, *, dashed: bool = False) -> str:
    """Return a line through points."""
    kind = f"{colour} dashed" if dashed else colour
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{path}"/>'


def dot(x: float, y: float, colour: Colour, told: str = "") -> str:
    """Return a small disc; `told` appears when it is pointed at."""
    title = f"<title>{escape(told)}</title>" if told else ""
    return f'<circle class="{colour}" cx="{x:.2f}" cy="{y:.2f}" r="5">{title}</circle>'


def compact(number: float) -> str:
    """Return a number as an axis shows it: 950, 9.9k, 128k, 1.6M."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            shown = number / size
            return f"{shown:.0f}{unit}" if shown >= 100 else f"{shown:.3g}{unit}"
    return f"{number:.3g}"
