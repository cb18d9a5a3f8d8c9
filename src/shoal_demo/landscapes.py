"""Generated photos of landscapes, sky and water. Each function draws on a canvas in the colors of a mood."""

from __future__ import annotations

import numpy as np
from PIL import ImageDraw

from shoal_demo.canvas import Array, Canvas, color, mix, resized, smooth
from shoal_demo.model import Mood


def pines(canvas: Canvas, line: Array, *, count: int, tall: tuple[float, float], paint: Array) -> None:
    """Draw conifers on a skyline; `tall` is a range of fractions of the height."""
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
    """Return the shading of rough ground lit from one side."""
    field = canvas.noise(7, octaves=5, keep=0.6)
    step = max(2, canvas.height // 90)
    slope = field - np.roll(field, (step, -step), (0, 1))
    return slope * np.float32(strength)


def mountains(canvas: Canvas, mood: Mood) -> None:
    """Draw mountain ranges in haze, sometimes with a lake."""
    far, near, light = color(mood.far), color(mood.near), color(mood.light)
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
    far, near, light = color(mood.far), color(mood.near), color(mood.light)
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
    """Return a skyline of dunes, each with a gentle slope, a sharp crest and a steeper side."""
    at = np.linspace(0, 1, canvas.width)
    height = canvas.curve(knots=2, octaves=2, keep=0.3, soft=True) * 0.35
    for x, tall in peaks:
        slope = np.where(at < x, canvas.between(0.18, 0.34), canvas.between(0.14, 0.26))
        height = np.maximum(height, tall * np.exp(-((np.abs(at - x) / slope) ** 1.25)))
    line: Array = ((base - rise * height) * canvas.height).astype(np.float32)
    return line


def _dune_shade(canvas: Canvas, line: Array, x: int, paint: Array) -> None:
    """Shade the far side of a winding edge that runs down from a crest."""
    top = max(0, int(line.min()) - 1)
    below = canvas.rows[top:] - line[None, :]
    down = np.maximum(canvas.rows[top:] - line[x], 0) / np.float32(canvas.height)
    lean, wind = canvas.between(-0.5, 0.5), canvas.between(0.02, 0.06)
    edge = x + (down * np.float32(lean) + np.sin(down * 11) * np.float32(wind)) * canvas.height
    past = canvas.columns - edge
    fade = np.exp(-np.maximum(past, 0) / np.float32(canvas.width * 0.2)) * np.exp(-down / np.float32(0.3))
    canvas.cover(np.clip(past * 0.5 + 0.5, 0, 1) * fade * np.clip(below + 0.5, 0, 1) * np.float32(0.8), paint, top)


def snow(canvas: Canvas, mood: Mood) -> None:
    """Draw a white field with firs and falling snow, sometimes with a cabin."""
    far, near, light = color(mood.far), color(mood.near), color(mood.light)
    canvas.sky(mood.sky, down_to=0.6)
    sun = canvas.between(0.15, 0.85)
    canvas.clouds(light, amount=0.5, low=0.05, high=0.4, thick=0.5)
    canvas.glow(sun, 0.45, 0.25, light, 0.3, squash=1.5)
    back = canvas.ridge(0.56, 0.2, knots=3, soft=True)
    canvas.land(back, mix(far, near, 0.25), far, deep=0.2)
    pines(canvas, canvas.ridge(0.6, 0.03, knots=3, soft=True), count=110, tall=(0.05, 0.12), paint=mix(far, near, 0.45))
    field = canvas.ridge(0.62, 0.06, knots=2, octaves=2, soft=True)
    white = mix(mix(far, light, 0.75), color("ffffff"), 0.25)
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

    body = [(left, foot), (left, wall), (left + wide / 2, roof), (left + wide, wall), (left + wide, foot)]
    cap = [(left - 7, wall + 3), (left + wide / 2, roof - 9), (left + wide + 7, wall + 3), (left + wide / 2, roof + 1)]

    def panes(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        for at in (0.2, 0.6):
            box = [left + wide * at, wall + wide * 0.1, left + wide * (at + 0.2), wall + wide * 0.3]
            pen.rectangle([value * zoom for value in box], fill=255)

    canvas.cover(canvas.polygons(body), mix(near, color("5a3626"), 0.6))
    canvas.cover(canvas.polygons(cap), color("f6f8fb"))
    canvas.cover(canvas.stencil(panes), color("ffd27a"))
    canvas.glow(x + wide / canvas.width / 2, (wall + wide * 0.2) / canvas.height, 0.07, color("ffb45a"), 0.35)


def forest(canvas: Canvas, mood: Mood) -> None:
    """Draw trunks in bright haze, with leaves above and rays in between."""
    far, near, light = color(mood.far), color(mood.near), color(mood.light)
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
    trunks = []
    for _ in range(count):
        x, lean = canvas.between(0, 1) * (canvas.width - 1), canvas.between(-0.04, 0.04) * canvas.height
        half = canvas.height * canvas.between(0.004, 0.009) * (0.5 + depth * depth * 3)
        foot = float(floor[int(x)]) + half
        trunk = [(x - half * 1.5, foot), (x - half, foot - half * 3), (x + lean - half * 0.7, 0)]
        trunk += [(x + lean + half * 0.7, 0), (x + half, foot - half * 3), (x + half * 1.5, foot)]
        trunks.append(trunk)
    return canvas.polygons(*trunks)


def _rays(canvas: Canvas, sun: float, light: Array) -> None:
    high, wide = canvas.height // 8, canvas.width // 8
    y, x = np.mgrid[0:high, 0:wide].astype(np.float32)
    angle = np.arctan2(x - sun * wide, y + high * 0.25)
    bars = np.interp(angle, np.linspace(-1.6, 1.6, 60), canvas.rng.random(60)).astype(np.float32)
    mask = smooth(0.45, 0.95, bars) * np.exp(-y / high * 1.6) * 0.34
    canvas.shine(resized(mask, canvas.height, canvas.width), light)


def sea(canvas: Canvas, mood: Mood) -> None:
    far, near, light = color(mood.far), color(mood.near), color(mood.light)
    night, horizon = mood.sky < "1", canvas.between(0.5, 0.6)
    x, y = canvas.between(0.25, 0.75), horizon - canvas.between(0.06, 0.16)
    if night:
        y -= 0.15
    canvas.sky(mood.sky, down_to=horizon)
    if night:
        canvas.stars(500, down_to=horizon)
    canvas.clouds(mix(color(mood.sky.split()[-1]), light, 0.4), amount=canvas.between(0.3, 0.9), low=0.1, high=horizon)
    canvas.clouds(
        mix(far, color(mood.sky.split()[1]), 0.5), amount=0.45, low=0.1, high=horizon - 0.06, thick=0.65, stretch=6
    )
    canvas.glow(x, y, 0.3, light, 0.32, squash=1.3)
    canvas.glow(x, y, 0.09, light, 0.35)
    canvas.disc(x, y, 0.035 if night else 0.042, light)
    if canvas.chance(0.5):
        coast = canvas.ridge(horizon + 0.01, 0.12, knots=3, octaves=6)
        slope = np.linspace(-1, 1, canvas.width) * (1 if canvas.chance(0.5) else -1)
        canvas.land(
            coast + np.clip(slope + 0.3, 0, 1) * canvas.height * 0.16, mix(far, near, 0.45), mix(far, near, 0.3)
        )
    _water(canvas, horizon, x, (far, near, light))
    if canvas.chance(0.45):
        _sail(canvas, canvas.between(0.15, 0.85), horizon, near)


def _water(canvas: Canvas, horizon: float, sun: float, paints: tuple[Array, Array, Array]) -> None:
    far, near, light = paints
    top = round(horizon * canvas.height)
    count = canvas.height - top
    t = np.linspace(0, 1, count, dtype=np.float32)[:, None]
    swell = canvas.noise(40, octaves=4, stretch=3, keep=0.6, height=canvas.height)
    down = np.log(t * 14 + 0.35) * canvas.height * 0.42
    across = (canvas.columns - canvas.width / 2) / (t * 1.5 + 0.12) * 0.35 + canvas.width * 0.3
    high, wide = canvas.height, canvas.width
    wave = swell[_to_and_fro(down, high), _to_and_fro(across, wide)] - np.float32(0.5)
    wave += (
        swell[_to_and_fro(down * 2 + 90, high), _to_and_fro(across * 2 + 170, wide)] - np.float32(0.5)
    ) * np.float32(0.6)
    body = mix(far, near, 0.15) + (near - far) * (t * np.float32(0.75))[..., None]
    body = body + (mix(far, light, 0.35) - body) * np.clip(wave * (0.5 + t * 0.8), -0.35, 0.6)[..., None]
    canvas.px[top:] = body
    column = np.exp(-(((canvas.columns / canvas.width - sun) / (0.035 + t * 0.12)) ** 2))
    glint = smooth(0.02, 0.3, wave + column * np.float32(0.16) - np.float32(0.1)) * column
    canvas.shine(glint * np.float32(0.95) + column * np.float32(0.12), light, top)
    canvas.shine(np.exp(-t * 45) * np.ones_like(column) * np.float32(0.14), light, top)


def _to_and_fro(at: Array, size: int) -> Array:
    """Return positions in a field continued by its mirror images, so that it has no seams."""
    inside: Array = np.minimum(np.abs(at % (2 * size) - size), size - 1).astype(np.intp)
    return inside


def _sail(canvas: Canvas, x: float, horizon: float, near: Array) -> None:
    size, left, foot = canvas.height * canvas.between(0.06, 0.1), x * canvas.width, (horizon + 0.03) * canvas.height
    hull = ((-0.42, -0.1), (0.42, -0.1), (0.3, 0.06), (-0.3, 0.06))
    sails = ((0.02, -0.14), (0.02, -1.1), (0.36, -0.14)), ((-0.04, -0.14), (-0.04, -0.95), (-0.3, -0.14))
    shapes = [[(left + a * size, foot + b * size) for a, b in shape] for shape in (hull, *sails)]
    canvas.cover(canvas.polygons(*shapes), near * 0.8)


def aurora(canvas: Canvas, mood: Mood) -> None:
    """Draw curtains of light over firs, sometimes reflected in a lake."""
    near, light = color(mood.near), color(mood.light)
    top_light = color("8a5cff") if mood.sky < "06" else color("e05cff")
    canvas.sky(mood.sky, down_to=0.8)
    canvas.stars(900, down_to=0.75, strength=0.8)
    curtains = [
        _curtain(canvas, canvas.between(0.5, 0.62) - at * 0.07, light, top_light, 0.95 - at * 0.22) for at in range(3)
    ]
    glow = curtains[0] + curtains[1] + curtains[2]
    for k in range(3):
        canvas.px[..., k] += resized(glow[..., k], canvas.height, canvas.width)
    lake = canvas.chance(0.5)
    hills = canvas.ridge(0.68, 0.14, knots=3, octaves=5)
    canvas.land(hills, mix(near, color(mood.far), 0.5), mix(near, color(mood.far), 0.75), deep=0.15)
    if lake:
        canvas.mirror(0.7, near, calm=1.1, dim=0.15)
    line = canvas.ridge(0.95 if lake else 0.84, 0.08, knots=3, octaves=4, soft=True)
    canvas.land(line, near, near * 0.6)
    pines(canvas, line, count=45, tall=(0.06, 0.22), paint=near)


def _curtain(canvas: Canvas, base: float, light: Array, top_light: Array, strength: float) -> Array:
    """Return one curtain of an aurora, at half the size of the picture."""
    high, wide = canvas.height // 2, canvas.width // 2
    foot = canvas.ridge(base, 0.34, knots=3, octaves=2, keep=0.35, soft=True)[::2][:wide] / canvas.height
    tall = canvas.curve(knots=26, octaves=3, keep=0.6)[::2][:wide]
    rays = 0.35 + 0.65 * canvas.curve(knots=60, octaves=3, keep=0.7)[::2][:wide]
    fade = 0.08 + 0.92 * canvas.curve(knots=4, octaves=2, soft=True)[::2][:wide]
    up = foot[None, :] - np.linspace(0, 1, high, dtype=np.float32)[:, None]
    veil = np.where(up > 0, np.exp(-np.maximum(up, 0) / (0.06 + 0.2 * tall)), np.exp(np.minimum(up, 0) * 38))
    veil *= (rays * fade * np.float32(strength))[None, :]
    climb = np.clip(up * 3.2, 0, 1)[..., None]
    lit: Array = veil[..., None] * (light + (top_light - light) * climb)
    return lit


def stars(canvas: Canvas, mood: Mood) -> None:
    far, near, light = color(mood.far), color(mood.near), color(mood.light)
    canvas.sky(mood.sky, down_to=0.95)
    lean, middle = canvas.between(-0.9, 0.9), canvas.between(0.35, 0.65)
    u = (canvas.columns / canvas.width - middle) + (canvas.rows / canvas.height - 0.45) * np.float32(lean)
    dust = canvas.noise(5, octaves=7, keep=0.62)
    band = np.exp(-((u / 0.2) ** 2)) * (dust * 0.75 + 0.15)
    lane = np.exp(-(((u + (dust - 0.5) * 0.3) / 0.05) ** 2)) * smooth(0.3, 0.75, dust[:, ::-1])
    canvas.shine(band * np.float32(0.62), far)
    canvas.shine(band * band * np.float32(0.5), light)
    canvas.px *= 1 - (lane * np.float32(0.6))[..., None]
    canvas.stars(2600, down_to=1.0, strength=0.8)
    canvas.stars(120, down_to=0.8, strength=1.8)
    canvas.glow(canvas.between(0.2, 0.8), 0.92, 0.2, light, 0.22, squash=3)
    line = canvas.ridge(0.86, 0.16, knots=2, octaves=5, keep=0.4, soft=True)
    canvas.land(line, near, near * 0.6)
    spot = canvas.between(0.2, 0.8)
    if canvas.chance(0.5):
        _tent(canvas, spot, line)
    pines(canvas, line, count=18, tall=(0.06, 0.26), paint=near)


def _tent(canvas: Canvas, x: float, line: Array) -> None:
    left, size = x * canvas.width, canvas.height * 0.11
    foot = float(line[int(left)]) + size * 0.12
    shape = [(left + a * size, foot + b * size) for a, b in ((-0.75, 0), (-0.08, -0.72), (0.1, -0.72), (0.75, 0))]
    glow = np.clip(1.25 - np.abs(canvas.columns - left) / (size * 0.9), 0.45, 1.2)[..., None]
    canvas.glow(x, foot / canvas.height, 0.1, color("ff9a3c"), 0.3)
    canvas.cover(canvas.polygons(shape), color("ffa84a") * glow)
