"""A drawing board for portraits: smooth shapes in units of 0..400, drawn three times too large and then reduced."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageChops, ImageColor, ImageDraw, ImageFilter

SIZE = 400
ZOOM = 3
FRAME = (32, 18, 336)
"""Left, top and side of the square that the finished drawing shows."""
SHARPEN = ImageFilter.UnsharpMask(1.2, 40, 0)

Point = tuple[float, float]


def curve(points: Sequence[Point], *, closed: bool = True, steps: int = 7) -> list[Point]:
    """A smooth line through all points (Catmull-Rom)."""
    count = len(points)
    out: list[Point] = []
    for at in range(count if closed else count - 1):
        if closed:
            p0, p1, p2, p3 = (points[(at + k) % count] for k in (-1, 0, 1, 2))
        else:
            p0, p1, p2, p3 = (points[min(max(at + k, 0), count - 1)] for k in (-1, 0, 1, 2))
        for step in range(steps):
            t = step / steps
            out.append((_between(p0[0], p1[0], p2[0], p3[0], t), _between(p0[1], p1[1], p2[1], p3[1], t)))
    if not closed:
        out.append(points[-1])
    return out


def _between(a: float, b: float, c: float, d: float, t: float) -> float:
    return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t + (3 * b - a - 3 * c + d) * t**3)


def mirrored(points: Sequence[Point]) -> list[Point]:
    """A right half, from top to bottom, made whole about the middle line; points on the line are not doubled."""
    return [*points, *((SIZE - x, y) for x, y in reversed(points) if x != SIZE / 2)]


def shade(code: str, share: float) -> str:
    """A colour made darker (`share` below 0) or lighter, in -1..1; shadows lean to violet as they do in daylight."""
    goal = (255, 248, 236) if share > 0 else (38, 14, 42)
    mixed = (round(a + (b - a) * abs(share)) for a, b in zip(ImageColor.getrgb(code), goal, strict=False))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def tan(code: str, share: float) -> str:
    """A skin colour in shadow: warmer, not greyer."""
    mixed = (round(a + (b - a) * share) for a, b in zip(ImageColor.getrgb(code), (112, 38, 34), strict=False))
    return "#" + "".join(f"{value:02x}" for value in mixed)


class Sketch:
    """One drawing. Shapes take `alpha` in 0..255, and `inside`, a mask that clips them."""

    def __init__(self, top: str, bottom: str) -> None:
        ends = Image.new("RGB", (2, 2))
        ends.putdata([ImageColor.getrgb(code) for code in (top, shade(top, 0.08), shade(bottom, 0.06), bottom)])
        side = SIZE * ZOOM
        self.image = ends.resize((side, side), Image.Resampling.BILINEAR, box=(0.5, 0.5, 1.5, 1.5))
        self.pen = ImageDraw.Draw(self.image, "RGBA")

    def shape(self, points: Sequence[Point], paint: str, alpha: int = 255, inside: Image.Image | None = None) -> None:
        """A closed smooth shape."""
        self.polygon(curve(points), paint, alpha, inside)

    def polygon(self, points: Sequence[Point], paint: str, alpha: int = 255, inside: Image.Image | None = None) -> None:
        """A closed shape with corners."""
        big = [(x * ZOOM, y * ZOOM) for x, y in points]
        if inside is None:
            self.pen.polygon(big, fill=(*ImageColor.getrgb(paint)[:3], alpha))
            return
        side = SIZE * ZOOM
        left, top = (max(0, int(min(point[axis] for point in big))) for axis in (0, 1))
        right, foot = (min(side, int(max(point[axis] for point in big)) + 1) for axis in (0, 1))
        sheet = Image.new("L", (right - left, foot - top))
        ImageDraw.Draw(sheet).polygon([(x - left, y - top) for x, y in big], fill=alpha)
        self.image.paste(paint, (left, top), ImageChops.multiply(sheet, inside.crop((left, top, right, foot))))

    def mask(self, points: Sequence[Point]) -> Image.Image:
        """A smooth shape to draw inside of."""
        sheet = Image.new("L", self.image.size)
        ImageDraw.Draw(sheet).polygon([(x * ZOOM, y * ZOOM) for x, y in curve(points)], fill=255)
        return sheet

    def oval(self, x: float, y: float, rx: float, ry: float, paint: str, alpha: int = 255) -> None:
        """An ellipse about a middle."""
        box = [(x - rx) * ZOOM, (y - ry) * ZOOM, (x + rx) * ZOOM, (y + ry) * ZOOM]
        self.pen.ellipse(box, fill=(*ImageColor.getrgb(paint)[:3], alpha))

    def ring(self, x: float, y: float, rx: float, ry: float, paint: str, width: float) -> None:
        """The outline of an ellipse."""
        box = [(x - rx) * ZOOM, (y - ry) * ZOOM, (x + rx) * ZOOM, (y + ry) * ZOOM]
        self.pen.ellipse(box, outline=paint, width=round(width * ZOOM))

    def stroke(self, points: Sequence[Point], paint: str, width: float, *, taper: bool = False) -> None:
        """A smooth line with round ends; a tapered one is thickest in its middle."""
        path = curve(points, closed=False, steps=9)
        last = len(path) - 1
        for at, (x, y) in enumerate(path):
            half = width / 2 * (0.45 + 0.55 * (1 - abs(2 * at / last - 1)) if taper else 1)
            if not taper and at not in {0, last}:
                continue
            self.oval(x, y, half, half, paint)
            if taper and at:
                ends = [(px * ZOOM, py * ZOOM) for px, py in path[at - 1 : at + 1]]
                self.pen.line(ends, fill=paint, width=max(1, round(half * 2 * ZOOM) - 1))
        if not taper:
            self.pen.line([(x * ZOOM, y * ZOOM) for x, y in path], fill=paint, width=round(width * ZOOM), joint="curve")

    def done(self) -> Image.Image:
        """The finished drawing at its true size, framed closer about the head."""
        left, top, side = (value * ZOOM for value in FRAME)
        box = (left, top, left + side, top + side)
        return self.image.resize((SIZE, SIZE), Image.Resampling.BOX, box=box).filter(SHARPEN)
