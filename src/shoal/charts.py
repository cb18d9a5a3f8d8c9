"""Charts without a plotting library: shapes on a page, rendered as SVG (light and dark) or PNG.

Lengths are in screen points. An SVG loads no script and no font; a PNG uses the font that Pillow ships.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import PurePath
from typing import Literal, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from shoal.core.errors import InvalidInput

Color = Literal["page", "panel", "ink", "soft", "line", "before", "after", "gain", "loss", "violet", "amber", "rose"]
Anchor = Literal["start", "middle", "end"]


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    color: Color
    radius: float = 0.0


class TextLine(NamedTuple):
    x: float
    y: float
    text: str
    size: int = 13
    color: Color = "ink"
    anchor: Anchor = "start"
    bold: bool = False


class Stroke(NamedTuple):
    points: list[tuple[float, float]]
    color: Color
    width: float = 2.0
    dashed: bool = False


Shape = Box | TextLine | Stroke


class Chart(NamedTuple):
    title: str
    description: str
    width: int
    height: int
    shapes: list[Shape]


_LIGHT: Mapping[Color, str] = {
    "page": "#fbfdfd",
    "panel": "#f0f5f5",
    "ink": "#12292d",
    "soft": "#556b6f",
    "line": "#b4c4c6",
    "before": "#9fb3b6",
    "after": "#0a6a74",
    "gain": "#2f7a5b",
    "loss": "#b8452c",
    "violet": "#6a4fb3",
    "amber": "#9a6a00",
    "rose": "#b03a78",
}
_DARK: Mapping[Color, str] = {
    "page": "#0f191b",
    "panel": "#182528",
    "ink": "#e6eff0",
    "soft": "#93a9ad",
    "line": "#3b5054",
    "before": "#5c7276",
    "after": "#5fcad6",
    "gain": "#82d3ad",
    "loss": "#f79d80",
    "violet": "#b9a5f5",
    "amber": "#e8bd5c",
    "rose": "#f29ac6",
}
_FONT = "'Avenir Next','Segoe UI',Roboto,'Noto Sans',system-ui,sans-serif"
_SCALE = 2
"""Pixels of a PNG per point. Two suit screens of high density."""
_DASH, _DASH_GAP = 6.0, 5.0
_OVERSAMPLING = 2
"""Number of pixels that are drawn for each pixel of the PNG, in each direction, to smooth edges."""


def render(chart: Chart, name: str) -> bytes:
    """Return a chart in the format of the file name. Raises `InvalidInput` unless the name ends in .svg or .png."""
    return surface_of(name)(chart)


def surface_of(name: str) -> Callable[[Chart], bytes]:
    """Return the renderer for the format of a file name. Raises `InvalidInput` unless the name ends in .svg or .png."""
    surface = {".svg": as_svg, ".png": as_png}.get(PurePath(name).suffix.lower())
    if surface is None:
        raise InvalidInput(f"{name} cannot be drawn: the file name must end in .svg or .png")
    return surface


def as_svg(chart: Chart) -> bytes:
    body = "".join(map(_element, chart.shapes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart.width} {chart.height}" width="{chart.width}"'
        f' height="{chart.height}" role="img" aria-labelledby="title desc"><title id="title">{escape(chart.title)}</title>'
        f'<desc id="desc">{escape(chart.description)}</desc><style>text{{font-family:{_FONT}}}.bold{{font-weight:600}}'
        "polyline{fill:none}"
        f"{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}</style>{body}</svg>\n"
    ).encode()


def _rules(palette: Mapping[Color, str]) -> str:
    return "".join(f".{name}{{fill:{color}}}.{name}-line{{stroke:{color}}}" for name, color in palette.items())


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        return (
            f'<rect class="{shape.color}" x="{shape.x:.5g}" y="{shape.y:.5g}" width="{shape.width:.5g}"'
            f' height="{shape.height:.5g}" rx="{shape.radius:g}"/>'
        )
    if isinstance(shape, Stroke):
        points = " ".join(f"{x:.5g},{y:.5g}" for x, y in shape.points)
        dashes = ' stroke-dasharray="6 5"' if shape.dashed else ""
        return (
            f'<polyline class="{shape.color}-line" points="{points}" stroke-width="{shape.width:g}"'
            f' stroke-linejoin="round" stroke-linecap="round"{dashes}/>'
        )
    style = f"{shape.color} bold" if shape.bold else shape.color
    return (
        f'<text class="{style}" x="{shape.x:.5g}" y="{shape.y:.5g}" font-size="{shape.size}"'
        f' text-anchor="{shape.anchor}">{escape(shape.text)}</text>'
    )


def as_png(chart: Chart) -> bytes:
    """Return a chart as a PNG in light colors, with two pixels per point."""
    size = chart.width * _SCALE, chart.height * _SCALE
    image = Image.new("RGB", (size[0] * _OVERSAMPLING, size[1] * _OVERSAMPLING), _LIGHT["page"])
    brush = ImageDraw.Draw(image)
    for shape in chart.shapes:
        _paint(brush, shape, _SCALE * _OVERSAMPLING)
    made = BytesIO()
    image.resize(size, Image.Resampling.LANCZOS).save(made, "PNG", optimize=True)
    return made.getvalue()


def _paint(brush: ImageDraw.ImageDraw, shape: Shape, scale: int) -> None:
    fill = _LIGHT[shape.color]
    if isinstance(shape, TextLine):
        anchors = {"start": "ls", "middle": "ms", "end": "rs"}
        brush.text(
            (shape.x * scale, shape.y * scale),
            shape.text,
            fill=fill,
            font=ImageFont.load_default(shape.size * scale),
            anchor=anchors[shape.anchor],
            stroke_width=1 if shape.bold else 0,
            stroke_fill=fill,
        )
        return
    if isinstance(shape, Stroke):
        for piece in _dashes(shape.points) if shape.dashed else [shape.points]:
            scaled = [(x * scale, y * scale) for x, y in piece]
            brush.line(scaled, fill, round(shape.width * scale), "curve")
        return
    right, bottom = shape.x + shape.width, shape.y + shape.height
    brush.rounded_rectangle(
        # In Pillow, a rectangle includes its last pixel.
        (shape.x * scale, shape.y * scale, right * scale - 1, bottom * scale - 1),
        shape.radius * scale,
        fill=fill,
    )


def _dashes(points: Sequence[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        count = max(1, round(math.hypot(to_x - x, to_y - y) / (_DASH + _DASH_GAP)))
        for step in range(count):
            begin, end = step / count, (step + _DASH / (_DASH + _DASH_GAP)) / count
            yield [(x + (to_x - x) * part, y + (to_y - y) * part) for part in (begin, end)]
