"""Photos of sky and water: the sea, northern lights and the stars. Each painter takes a canvas and the colours of a mood."""

from __future__ import annotations

import numpy as np
from PIL import ImageDraw

from shoal.demo.canvas import Array, Canvas, colour, mix, resized, smooth
from shoal.demo.landscapes import pines
from shoal.demo.palettes import Mood


def sea(canvas: Canvas, mood: Mood) -> None:
    """Open water to the horizon under a sun or a moon, with its glitter."""
    far, near, light = colour(mood.far), colour(mood.near), colour(mood.light)
    night, horizon = mood.sky < "1", canvas.between(0.5, 0.6)
    x, y = canvas.between(0.25, 0.75), horizon - canvas.between(0.06, 0.16)
    if night:
        y -= 0.15
    canvas.sky(mood.sky, down_to=horizon)
    if night:
        canvas.stars(500, down_to=horizon)
    canvas.clouds(mix(colour(mood.sky.split()[-1]), light, 0.4), amount=canvas.between(0.3, 0.9), low=0.1, high=horizon)
    canvas.clouds(
        mix(far, colour(mood.sky.split()[1]), 0.5), amount=0.45, low=0.1, high=horizon - 0.06, thick=0.65, stretch=6
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
    """Positions in a field that goes on for ever as its own mirror image, so that it has no seams."""
    inside: Array = np.minimum(np.abs(at % (2 * size) - size), size - 1).astype(np.intp)
    return inside


def _sail(canvas: Canvas, x: float, horizon: float, near: Array) -> None:
    size, left, foot = canvas.height * canvas.between(0.06, 0.1), x * canvas.width, (horizon + 0.03) * canvas.height

    def draw(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        for shape in (
            ((-0.42, -0.1), (0.42, -0.1), (0.3, 0.06), (-0.3, 0.06)),
            ((0.02, -0.14), (0.02, -1.1), (0.36, -0.14)),
            ((-0.04, -0.14), (-0.04, -0.95), (-0.3, -0.14)),
        ):
            pen.polygon([((left + a * size) * zoom, (foot + b * size) * zoom) for a, b in shape], fill=255)

    canvas.cover(canvas.stencil(draw), near * 0.8)


def aurora(canvas: Canvas, mood: Mood) -> None:
    """Curtains of light over firs, doubled in a lake now and then."""
    near, light = colour(mood.near), colour(mood.light)
    top_light = colour("8a5cff") if mood.sky < "06" else colour("e05cff")
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
    canvas.land(hills, mix(near, colour(mood.far), 0.5), mix(near, colour(mood.far), 0.75), deep=0.15)
    if lake:
        canvas.mirror(0.7, near, calm=1.1, dim=0.15)
    line = canvas.ridge(0.95 if lake else 0.84, 0.08, knots=3, octaves=4, soft=True)
    canvas.land(line, near, near * 0.6)
    pines(canvas, line, count=45, tall=(0.06, 0.22), paint=near)


def _curtain(canvas: Canvas, base: float, light: Array, top_light: Array, strength: float) -> Array:
    """One curtain, at half the size of the picture."""
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
    """The Milky Way over a dark hill, with a tent or a tree."""
    far, near, light = colour(mood.far), colour(mood.near), colour(mood.light)
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

    def draw(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        shape = [(-0.75, 0), (-0.08, -0.72), (0.1, -0.72), (0.75, 0)]
        pen.polygon([((left + a * size) * zoom, (foot + b * size) * zoom) for a, b in shape], fill=255)

    glow = np.clip(1.25 - np.abs(canvas.columns - left) / (size * 0.9), 0.45, 1.2)[..., None]
    canvas.glow(x, foot / canvas.height, 0.1, colour("ff9a3c"), 0.3)
    canvas.cover(canvas.stencil(draw), colour("ffa84a") * glow)
