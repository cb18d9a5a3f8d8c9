"""Photos of land: mountains, dunes, snow fields and forests. Each painter takes a canvas and the colours of a mood."""

from __future__ import annotations

import numpy as np
from PIL import ImageDraw

from shoal.demo.canvas import Array, Canvas, colour, mix, resized, smooth
from shoal.demo.palettes import Mood


def pines(canvas: Canvas, line: Array, *, count: int, tall: tuple[float, float], paint: Array) -> None:
    """Conifers standing on a skyline; `tall` is a range of fractions of the height."""
    spots = np.sort(canvas.rng.random(count)) * canvas.width
    clump = canvas.curve(knots=5, octaves=3, soft=True)

    def draw(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        for x in spots:
            foot = line[int(x)]
            size = canvas.between(*tall) * canvas.height * (0.6 + 0.8 * float(clump[int(x)]))
            _pine(pen, canvas, x * zoom, (foot + size * 0.08) * zoom, size * zoom)

    canvas.cover(canvas.stencil(draw), paint)


def _pine(pen: ImageDraw.ImageDraw, canvas: Canvas, x: float, foot: float, size: float) -> None:
    tiers, half = 9, size * canvas.between(0.15, 0.2)
    left, right = [(x, foot - size)], [(x, foot - size)]
    for tier in range(1, tiers + 1):
        y = foot - size + size * 0.94 * tier / tiers
        reach = half * (tier / tiers) ** 0.9
        for side, sign in ((left, -1), (right, 1)):
            wide = reach * canvas.between(0.75, 1.15)
            side.extend([(x + sign * wide, y), (x + sign * wide * 0.5, y - size * 0.025)])
    pen.polygon([*left, *reversed(right)], fill=255)
    pen.rectangle([x - size * 0.012, foot - size * 0.08, x + size * 0.012, foot + size * 0.1], fill=255)


def _relief(canvas: Canvas, strength: float) -> Array:
    """Light from one side on rough ground."""
    field = canvas.noise(7, octaves=5, keep=0.6)
    step = max(2, canvas.height // 90)
    slope = field - np.roll(field, (step, -step), (0, 1))
    return slope * np.float32(strength)


def mountains(canvas: Canvas, mood: Mood) -> None:
    """Ranges behind ranges in haze, with a lake now and then."""
    far, near, light = colour(mood.far), colour(mood.near), colour(mood.light)
    lake = canvas.chance(0.4)
    shore = canvas.between(0.62, 0.68)
    canvas.sky(mood.sky, down_to=0.66)
    sun = canvas.between(0.2, 0.8)
    canvas.clouds(mix(light, far, 0.35), amount=canvas.between(0.3, 0.8), low=0.08, high=0.42, thick=0.6)
    canvas.glow(sun, 0.46, 0.34, light, 0.4, squash=1.6)
    ranges = 4 if lake else 5
    relief = _relief(canvas, 2.4)
    for at in range(ranges):
        depth = at / 4
        base = (0.5 + 0.045 * at) if lake else (0.5 + 0.1 * at)
        line = canvas.ridge(base, 0.42 - 0.07 * at, knots=2 + at, keep=0.47)
        body = mix(far, near, depth**0.85)
        foot = mix(body, mix(far, light, 0.35), 0.75 * (1 - depth))
        canvas.land(line, body, foot, deep=0.26, relief=relief * np.float32(0.5 + depth * 0.7))
        if at < 2:
            _snowcaps(canvas, line, relief, mix(light, far, 0.12 + 0.2 * at))
    canvas.glow(sun, 0.6, 0.3, light, 0.13, squash=2.4)
    if lake:
        canvas.mirror(shore, mix(near, far, 0.3), calm=canvas.between(0.7, 1.1), dim=0.12)
    line = canvas.ridge(0.97 if lake else 0.93, 0.1, knots=3, octaves=5, soft=True)
    canvas.land(line, near * 0.7, near * 0.45)
    pines(canvas, line, count=26 if lake else 60, tall=(0.07, 0.24), paint=near * 0.62)


def _snowcaps(canvas: Canvas, line: Array, relief: Array, paint: Array) -> None:
    top = max(0, int(line.min()) - 1)
    below = (canvas.rows[top:] - line[None, :]) / canvas.height
    snow = (1 - smooth(0.02, 0.16, below - relief[top:] * 0.4)) * np.clip(below * canvas.height + 0.5, 0, 1)
    canvas.cover(snow * (0.35 + np.clip(relief[top:] * 5, -0.3, 0.5)), paint, top)


def desert(canvas: Canvas, mood: Mood) -> None:
    """Dunes with a bright and a shaded side."""
    far, near, light = colour(mood.far), colour(mood.near), colour(mood.light)
    canvas.sky(mood.sky, down_to=0.52)
    sun = canvas.between(0.2, 0.8)
    if mood.sky < "1":
        canvas.stars(700, down_to=0.5)
        canvas.disc(sun, 0.17, 0.035, light)
    canvas.glow(sun, 0.4, 0.3, light, 0.35, squash=1.8)
    grain = canvas.noise(90, octaves=3, stretch=5)
    for at in range(4):
        depth = at / 3
        peaks = [(canvas.between(0, 1), canvas.between(0.45, 1)) for _ in range(3 - (at > 1))]
        line = _crests(canvas, 0.54 + 0.13 * at, 0.13 + 0.05 * at, peaks)
        bright = mix(mix(far, light, 0.35), mix(far, near, 0.22), depth)
        canvas.land(line, bright, mix(bright, near, 0.3 + 0.2 * depth), deep=0.34)
        for x, _ in peaks:
            _dune_shade(canvas, line, round(x * (canvas.width - 1)), mix(mix(far, near, 0.5), near, depth * 0.85))
    ripple = np.sin(canvas.rows * 0.4 + grain * 22 + canvas.columns * 0.05) * smooth(
        0.6, 1.0, canvas.rows / canvas.height
    )
    canvas.px *= 1 + ripple[..., None] * np.float32(0.03)


def _crests(canvas: Canvas, base: float, rise: float, peaks: list[tuple[float, float]]) -> Array:
    """A skyline of dunes: each climbs slowly to a sharp crest and falls away on the other side."""
    at = np.linspace(0, 1, canvas.width)
    height = canvas.curve(knots=2, octaves=2, keep=0.3, soft=True) * 0.35
    for x, tall in peaks:
        slope = np.where(at < x, canvas.between(0.18, 0.34), canvas.between(0.14, 0.26))
        height = np.maximum(height, tall * np.exp(-((np.abs(at - x) / slope) ** 1.25)))
    line: Array = ((base - rise * height) * canvas.height).astype(np.float32)
    return line


def _dune_shade(canvas: Canvas, line: Array, x: int, paint: Array) -> None:
    """From a crest a winding edge runs down, dark on its far side."""
    top = max(0, int(line.min()) - 1)
    below = canvas.rows[top:] - line[None, :]
    down = np.maximum(canvas.rows[top:] - line[x], 0) / np.float32(canvas.height)
    lean, wind = canvas.between(-0.5, 0.5), canvas.between(0.02, 0.06)
    edge = x + (down * np.float32(lean) + np.sin(down * 11) * np.float32(wind)) * canvas.height
    past = canvas.columns - edge
    fade = np.exp(-np.maximum(past, 0) / np.float32(canvas.width * 0.2)) * np.exp(-down / np.float32(0.3))
    canvas.cover(np.clip(past * 0.5 + 0.5, 0, 1) * fade * np.clip(below + 0.5, 0, 1) * np.float32(0.8), paint, top)


def snow(canvas: Canvas, mood: Mood) -> None:
    """A white field with firs, a cabin now and then, and flakes in the air."""
    far, near, light = colour(mood.far), colour(mood.near), colour(mood.light)
    canvas.sky(mood.sky, down_to=0.6)
    sun = canvas.between(0.15, 0.85)
    canvas.clouds(light, amount=0.5, low=0.05, high=0.4, thick=0.5)
    canvas.glow(sun, 0.45, 0.25, light, 0.3, squash=1.5)
    back = canvas.ridge(0.56, 0.2, knots=3, soft=True)
    canvas.land(back, mix(far, near, 0.25), far, deep=0.2)
    pines(canvas, canvas.ridge(0.6, 0.03, knots=3, soft=True), count=110, tall=(0.05, 0.12), paint=mix(far, near, 0.45))
    field = canvas.ridge(0.62, 0.06, knots=2, octaves=2, soft=True)
    white = mix(mix(far, light, 0.75), colour("ffffff"), 0.25)
    drift = (canvas.noise(10, octaves=5, stretch=5) - 0.5) * np.float32(0.2)
    canvas.land(field, white, mix(white, far, 0.7), deep=0.4, relief=drift)
    if canvas.chance(0.55):
        _cabin(canvas, canvas.between(0.2, 0.75), field, near)
    front = canvas.ridge(0.86, 0.12, knots=2, octaves=2, soft=True)
    pines(canvas, front + canvas.height * 0.02, count=9, tall=(0.22, 0.5), paint=mix(near, far, 0.12))
    canvas.land(front, white, mix(white, far, 0.85), deep=0.25, relief=drift)
    for _ in range(110):
        size = canvas.between(0.0012, 0.004) * (3 if canvas.chance(0.06) else 1)
        canvas.disc(canvas.between(0, 1), canvas.between(0, 1), size, light, soft=2 + size * 700, alpha=0.75)


def _cabin(canvas: Canvas, x: float, field: Array, near: Array) -> None:
    left, wide = x * canvas.width, canvas.height * 0.13
    foot = float(field[int(left) : int(left + wide)].max()) + 4
    wall, roof = foot - wide * 0.42, foot - wide * 0.8

    def body(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        shape = [(left, foot), (left, wall), (left + wide / 2, roof), (left + wide, wall), (left + wide, foot)]
        pen.polygon([(a * zoom, b * zoom) for a, b in shape], fill=255)

    def cap(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        shape = [
            (left - 7, wall + 3),
            (left + wide / 2, roof - 9),
            (left + wide + 7, wall + 3),
            (left + wide / 2, roof + 1),
        ]
        pen.polygon([(a * zoom, b * zoom) for a, b in shape], fill=255)

    def panes(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        for at in (0.2, 0.6):
            box = [left + wide * at, wall + wide * 0.1, left + wide * (at + 0.2), wall + wide * 0.3]
            pen.rectangle([value * zoom for value in box], fill=255)

    canvas.cover(canvas.stencil(body), mix(near, colour("5a3626"), 0.6))
    canvas.cover(canvas.stencil(cap), colour("f6f8fb"))
    canvas.cover(canvas.stencil(panes), colour("ffd27a"))
    canvas.glow(x + wide / canvas.width / 2, (wall + wide * 0.2) / canvas.height, 0.07, colour("ffb45a"), 0.35)


def forest(canvas: Canvas, mood: Mood) -> None:
    """Trunks fading into bright air, leaves above and rays between."""
    far, near, light = colour(mood.far), colour(mood.near), colour(mood.light)
    canvas.sky(mood.sky)
    sun = canvas.between(0.25, 0.75)
    canvas.glow(sun, 0.3, 0.4, light, 0.4)
    fields = [canvas.noise(cells, octaves=7, keep=0.72) for cells in (9, 6)]
    height = canvas.rows / canvas.height
    for at in range(4):
        depth = (at + 1) / 4
        paint = mix(far, near, depth**1.5)
        floor = canvas.ridge(0.66 + 0.07 * at, 0.06, knots=3, octaves=4, soft=True)
        canvas.cover(_trunks(canvas, floor, depth, 26 - at * 6), paint)
        leaves = fields[at // 2][:, :: -1 if at % 2 else 1]
        crown = smooth(0.5, 0.62, leaves - height * np.float32(0.75) + np.float32(0.16)) * np.float32(0.85)
        canvas.cover(crown, mix(paint, light, 0.16 * (1 - depth) + 0.05))
        canvas.land(
            floor, mix(paint, far, 0.25), mix(paint, near, 0.4), deep=0.22, relief=(leaves - 0.5) * np.float32(0.5)
        )
    _rays(canvas, sun, light)


def _trunks(canvas: Canvas, floor: Array, depth: float, count: int) -> Array:
    def draw(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        for _ in range(count):
            x, lean = canvas.between(0, 1) * (canvas.width - 1), canvas.between(-0.04, 0.04) * canvas.height
            half = canvas.height * canvas.between(0.004, 0.009) * (0.5 + depth * depth * 3)
            foot = float(floor[int(x)]) + half
            shape = [(x - half * 1.5, foot), (x - half, foot - half * 3), (x + lean - half * 0.7, 0)]
            shape += [(x + lean + half * 0.7, 0), (x + half, foot - half * 3), (x + half * 1.5, foot)]
            pen.polygon([(a * zoom, b * zoom) for a, b in shape], fill=255)

    return canvas.stencil(draw)


def _rays(canvas: Canvas, sun: float, light: Array) -> None:
    high, wide = canvas.height // 8, canvas.width // 8
    y, x = np.mgrid[0:high, 0:wide].astype(np.float32)
    angle = np.arctan2(x - sun * wide, y + high * 0.25)
    bars = np.interp(angle, np.linspace(-1.6, 1.6, 60), canvas.rng.random(60)).astype(np.float32)
    mask = smooth(0.45, 0.95, bars) * np.exp(-y / high * 1.6) * 0.34
    canvas.shine(resized(mask, canvas.height, canvas.width), light)
