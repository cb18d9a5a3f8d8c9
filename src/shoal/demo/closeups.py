"""Photos taken from very near: blossoms, and colours that are nothing but colours. Painters as in `landscapes`."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from shoal.demo.canvas import Array, Canvas, colour, mix, ramp, resized
from shoal.demo.palettes import Mood


def flowers(canvas: Canvas, mood: Mood) -> None:
    """Blossoms close up before a garden out of focus."""
    petal, deep, light = colour(mood.far), colour(mood.near), colour(mood.light)
    canvas.sky(mood.sky)
    canvas.px *= 0.8 + canvas.noise(4, octaves=3)[..., None] * np.float32(0.5)
    greens = (colour(mood.sky.split()[0]), light, petal, mix(petal, deep, 0.4))
    for _ in range(34):
        paint = greens[int(canvas.between(0, 4))]
        canvas.disc(
            canvas.between(0, 1),
            canvas.between(0, 1),
            canvas.between(0.03, 0.1),
            paint,
            soft=16,
            alpha=canvas.between(0.08, 0.26),
        )
    spots = [(canvas.between(0.4, 0.6), canvas.between(0.42, 0.56), canvas.between(0.36, 0.44))]
    for x in (canvas.between(0.08, 0.2), canvas.between(0.8, 0.94)):
        spots.insert(0, (x, canvas.between(0.2, 0.8), canvas.between(0.14, 0.22)))
    for at, (x, y, r) in enumerate(spots):
        _blossom(canvas, (x, y, r), (petal, deep, light), sharp=at == len(spots) - 1)
    canvas.glow(0.15, 0.05, 0.6, light, 0.14, squash=1.4)


def _blossom(
    canvas: Canvas, spot: tuple[float, float, float], paints: tuple[Array, Array, Array], *, sharp: bool
) -> None:
    x, y, radius = spot
    petal, deep, light = paints
    side = max(8, round(radius * canvas.height * 2.4))
    sheet = Image.new("RGBA", (side * 2, side * 2), (*_rgb(mix(petal, deep, 0.4)), 0))
    pen = ImageDraw.Draw(sheet)
    layers = 7 if sharp else 5
    for layer in range(layers):
        share = layer / layers
        reach, count = side * 0.8 * (1 - share * 0.85), 15 - layer
        phase = canvas.between(0, 6.28)
        for at in range(count):
            paint = mix(mix(petal, deep, 0.05 + share * 0.75), light, 0.3 * (1 - share) * canvas.between(0.3, 1))
            _petal(
                pen,
                side,
                reach * canvas.between(0.92, 1.05),
                phase + at * 6.283 / count,
                (paint, mix(paint, deep, 0.75)),
            )
    heart = side * 0.1
    pen.ellipse(
        [side - heart, side - heart, side + heart, side + heart], fill=(*_rgb(mix(deep, colour("f2c14e"), 0.55)), 255)
    )
    for _ in range(40):
        a, d = canvas.between(0, 6.28), heart * canvas.between(0.2, 1.2)
        dot = (side + math.cos(a) * d, side + math.sin(a) * d)
        pen.ellipse([dot[0] - 3, dot[1] - 3, dot[0] + 3, dot[1] + 3], fill=(*_rgb(colour("ffdf8a")), 255))
    picture = sheet.reduce(2)
    if not sharp:
        picture = picture.filter(ImageFilter.BoxBlur(9))
    pixels = np.asarray(picture, np.float32) / 255
    left, top = round(x * canvas.width - side / 2), round(y * canvas.height - side / 2)
    if sharp:
        shadow = pixels[..., 3] * np.float32(0.25)
        _lay(canvas, (top + 14, left + 10), shadow, np.zeros(3, np.float32))
    _lay(canvas, (top, left), pixels[..., 3], pixels[..., :3])


def _lay(canvas: Canvas, corner: tuple[int, int], mask: Array, paint: Array) -> None:
    """Cover with a small picture whose corner (row, column) may be outside."""
    top, left = corner
    rows = slice(max(0, -top), max(0, min(mask.shape[0], canvas.height - top)))
    columns = slice(max(0, -left), max(0, min(mask.shape[1], canvas.width - left)))
    part = canvas.px[rows.start + top : rows.stop + top, columns.start + left : columns.stop + left]
    part += ((paint[rows, columns] if paint.ndim == 3 else paint) - part) * mask[rows, columns, None]


def _petal(pen: ImageDraw.ImageDraw, middle: int, reach: float, angle: float, paints: tuple[Array, Array]) -> None:
    """One petal, in slices that go from its dark root to its bright tip."""
    bright, dark = paints
    along = np.linspace(0.05, 1, 10)
    half = np.sin(along**1.25 * np.pi * 0.94) * 0.2 + 0.01
    ca, sa = math.cos(angle), math.sin(angle)

    def point(u: float, v: float) -> tuple[float, float]:
        return middle + (u * ca - v * sa) * reach, middle + (u * sa + v * ca) * reach

    rim = [point(float(u), float(h) + 0.012) for u, h in zip(along, half, strict=True)]
    rim += [point(float(u), -float(h) - 0.012) for u, h in zip(along[::-1], half[::-1], strict=True)]
    pen.polygon(rim, fill=(*_rgb(mix(dark, bright, 0.25)), 255))
    share = np.linspace(0, 1, 9, dtype=np.float32)[:, None] ** 0.8
    tones = (np.clip(dark + (bright - dark) * share, 0, 1) * 255).astype(int).tolist()
    for at, paint in enumerate(tones):
        u0, u1, h0, h1 = (float(v) for v in (along[at], along[at + 1], half[at], half[at + 1]))
        pen.polygon([point(u0, h0), point(u1, h1), point(u1, -h1), point(u0, -h0)], fill=(*paint, 255))
    pen.line([point(0.2, 0), point(0.85, 0)], fill=(*_rgb(mix(dark, bright, 0.45)), 255), width=2)


def _rgb(paint: Array) -> tuple[int, int, int]:
    red, green, blue = (int(value) for value in np.clip(paint * 255, 0, 255))
    return red, green, blue


def abstract(canvas: Canvas, mood: Mood) -> None:
    """Folds of colour, lit from one side, as if seen through a lens that is far too close."""
    high, wide = canvas.height // 3, canvas.width // 3
    one, other, third = (canvas.noise(cells, octaves=3, keep=0.3)[::3, ::3][:high, :wide] for cells in (1, 2, 2))
    y, x = np.mgrid[0:high, 0:wide]
    down = _folded(y + (other - 0.5) * high * 0.6, high)
    across = _folded(x + (third - 0.5) * wide * 0.6, wide)
    turn = canvas.between(0.3, 1.3) * (1 if canvas.chance(0.5) else -1)
    lean = (x / wide * math.cos(turn) + y / high * math.sin(turn)).astype(np.float32)
    bent = one[down, across] * 0.6 + other * 0.25 + lean * 0.5
    folds = np.sin(bent * np.pi * canvas.between(3.2, 5.2) + third * 3) * 0.5 + 0.5
    cloth = resized(resized(folds * 0.65 + bent * 0.35, high // 3, wide // 3), canvas.height, canvas.width)
    canvas.px[:] = ramp(mood.sky, 256)[(np.clip(cloth, 0, 1) * 255).astype(np.uint8)]
    slope = (cloth - np.roll(cloth, (6, 5), (0, 1))) * np.float32(9)
    slope[:6], slope[:, :5] = slope[6], slope[:, 5:6]
    canvas.px *= (1 + np.clip(slope, -0.6, 0.6) * np.float32(0.5))[..., None]
    canvas.shine(np.clip(slope - 0.2, 0, 1) ** 2 * np.float32(0.45), colour(mood.light))
    canvas.shine(np.exp(-(((cloth - 0.62) / 0.03) ** 2)) * np.float32(0.12), colour(mood.light))


def _folded(at: Array, size: int) -> Array:
    """Positions that ran past an edge, reflected back from it."""
    inside: Array = (size - 1 - np.abs(size - 1 - np.abs(at))).astype(np.intp)
    return inside
