"""Photos of towns: skylines over water, sunlit house fronts and wet windows. Painters as in `landscapes`."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from shoal.demo.canvas import Array, Canvas, colour, mix, ramp, smooth
from shoal.demo.palettes import Mood

LAMPS = ("ffd58a", "ffc065", "ffe6b8", "bfe0ff", "ff9f5a")


def city(canvas: Canvas, mood: Mood) -> None:
    """A skyline with lit windows, and the river that shows it again."""
    far, near, light = colour(mood.far), colour(mood.near), colour(mood.light)
    shore = canvas.between(0.66, 0.72)
    canvas.sky(mood.sky, down_to=shore)
    canvas.stars(160, down_to=0.35, strength=0.5)
    canvas.clouds(mix(far, light, 0.25), amount=0.5, low=0.05, high=0.5, thick=0.4, stretch=5)
    canvas.glow(canvas.between(0.3, 0.7), shore, 0.26, light, 0.3, squash=2.6)
    if canvas.chance(0.3):
        canvas.disc(canvas.between(0.15, 0.85), 0.16, 0.03, mix(light, colour("ffffff"), 0.6))
    for at in range(3):
        paint = mix(mix(far, colour(mood.sky.split()[-1]), 0.25), near, (0.15, 0.55, 0.95)[at])
        _row_of_towers(
            canvas, shore, paint, tall=(0.46, 0.36, 0.24)[at], lit=(0.16, 0.3, 0.42)[at], wide=0.03 + 0.014 * at
        )
        canvas.glow(0.5, shore, 0.1, light, 0.05, squash=6)
    canvas.mirror(shore, near, calm=0.9, dim=0.12)
    row = round(shore * canvas.height)
    canvas.px[row - 2 : row + 1] = near * 0.5
    for x in np.arange(0.01, 1, 0.028):
        canvas.disc(float(x), shore - 0.006, 0.0035, colour("ffdca0"), soft=4)


def _row_of_towers(canvas: Canvas, shore: float, paint: Array, *, tall: float, lit: float, wide: float) -> None:
    x, foot = -10, round(shore * canvas.height)
    middle = canvas.between(0.3, 0.7)
    while x < canvas.width:
        width = int(canvas.between(0.7, 1.7) * wide * canvas.height) // 5 * 5 + 6
        crowd = 0.45 + 0.75 * np.exp(-(((x / canvas.width - middle) / 0.22) ** 2))
        top = foot - int(canvas.height * tall * canvas.between(0.3, 1.0) * crowd)
        _tower(
            canvas,
            (max(x, 0), top, min(x + width, canvas.width), foot),
            paint * np.float32(canvas.between(0.85, 1.1)),
            lit,
        )
        x += width + int(canvas.between(-0.3, 0.35) * width * 0.5)


def _tower(canvas: Canvas, box: tuple[int, int, int, int], paint: Array, lit: float) -> None:
    left, top, right, foot = box
    if right - left < 6 or top >= foot - 8:
        return
    body = canvas.px[top:foot, left:right]
    body[:] = paint
    body *= np.linspace(1.12, 0.88, right - left, dtype=np.float32)[None, :, None]
    if canvas.chance(0.3):
        mast, middle = int(canvas.height * canvas.between(0.02, 0.07)), (left + right) // 2
        canvas.px[max(0, top - mast) : top, middle : middle + 2] = paint
        canvas.disc(middle / canvas.width, (top - mast) / canvas.height, 0.003, colour("ff5a4a"))
    if canvas.chance(0.4):
        inset = (right - left) // 5
        canvas.px[max(0, top - 8) : top, left + inset : right - inset] = paint
    floors, panes = (foot - top - 6) // 6, (right - left - 4) // 5
    if floors < 1 or panes < 1:
        return
    on = canvas.rng.random((floors, panes)) < lit * canvas.between(0.4, 1.5)
    on |= (canvas.rng.random((floors, 1)) < 0.06) & (canvas.rng.random((floors, panes)) < 0.85)
    power = on * canvas.rng.uniform(0.45, 1.0, (floors, panes))
    cell = np.zeros((6, 5), np.float32)
    cell[1:4, 1:4] = 1
    mask = np.kron(power, cell).astype(np.float32)
    lamp = colour(LAMPS[int(canvas.rng.choice(5, p=(0.4, 0.2, 0.2, 0.12, 0.08)))])
    part = canvas.px[top + 5 : top + 5 + mask.shape[0], left + 2 : left + 2 + mask.shape[1]]
    part += (lamp - part) * mask[: part.shape[0], : part.shape[1], None]


def facade(canvas: Canvas, mood: Mood) -> None:
    """A house front: rows of windows, shutters and balconies, and a slanting shadow."""
    wall, accent, light = colour(mood.far), colour(mood.near), colour(mood.light)
    canvas.px[:] = wall * np.linspace(1.03, 0.94, canvas.height, dtype=np.float32)[:, None, None]
    plaster = canvas.noise(14, octaves=6, keep=0.65) - 0.5
    canvas.px *= 1 + plaster[..., None] * np.float32(0.16)
    columns, floors = int(canvas.between(3, 6)), int(canvas.between(2, 4))
    if canvas.height > canvas.width:
        floors += 1
    step_x, step_y = canvas.width / columns, canvas.height / floors
    sheet = Image.fromarray((np.clip(canvas.px, 0, 1) * 255).astype(np.uint8)).resize(
        (canvas.width * 2, canvas.height * 2), Image.Resampling.BILINEAR
    )
    pen = ImageDraw.Draw(sheet, "RGBA")
    style = (canvas.chance(0.65), canvas.chance(0.6), canvas.between(0.36, 0.48), canvas.between(0.52, 0.64))
    for floor in range(floors):
        ledge = (floor + 0.95) * step_y * 2
        pen.rectangle([0, ledge, canvas.width * 2, ledge + 9], fill=_rgb(mix(wall, light, 0.5)))
        pen.rectangle([0, ledge + 9, canvas.width * 2, ledge + 17], fill=(20, 15, 30, 60))
        for column in range(columns):
            middle, top = (column + 0.5) * step_x * 2, (floor + 0.16) * step_y * 2
            _window(
                canvas, pen, (middle, top, step_x * style[2], step_y * 2 * style[3]), (wall, accent, light), style[:2]
            )
    canvas.px[:] = np.asarray(sheet.reduce(2), np.float32) / 255
    lean, at = canvas.between(0.5, 1.1), canvas.between(0.6, 1.35)
    slope = canvas.columns / canvas.width + canvas.rows / canvas.height * np.float32(lean)
    shadow = smooth(at - 0.012, at + 0.012, slope + plaster * np.float32(0.02))
    canvas.px *= 1 - shadow[..., None] * (1 - np.array([0.5, 0.55, 0.7], np.float32))
    canvas.px += (1 - shadow[..., None]) * light * np.float32(0.05)


def _rgb(paint: Array) -> tuple[int, int, int]:
    red, green, blue = (int(value) for value in np.clip(paint * 255, 0, 255))
    return red, green, blue


def _window(
    canvas: Canvas,
    pen: ImageDraw.ImageDraw,
    box: tuple[float, float, float, float],
    paints: tuple[Array, Array, Array],
    style: tuple[bool, bool],
) -> None:
    middle, top, half, tall = box
    wall, accent, light = paints
    shutters, balcony = style
    left, right, foot = middle - half / 2, middle + half / 2, top + tall
    if shutters:
        for side in (left - half * 0.62, right + half * 0.06):
            leaf = _rgb(accent * np.float32(canvas.between(0.92, 1.1)))
            pen.rectangle([side + 6, top + 8, side + half * 0.56 + 6, foot + 8], fill=(20, 15, 30, 60))
            pen.rectangle([side, top, side + half * 0.56, foot], fill=leaf)
            for y in np.arange(top + 10, foot - 8, 9):
                pen.line([side + 7, y, side + half * 0.56 - 7, y], fill=(0, 0, 0, 50), width=3)
    pen.rectangle([left - 9, top - 12, right + 9, foot + 4], fill=_rgb(mix(wall, light, 0.65)))
    steps = ramp("20303f 4d6a80 9db9c6", 12) * np.float32(canvas.between(0.75, 1.1))
    if canvas.chance(0.16):
        steps = ramp("b9763a e8b466 ffe0a0", 12)
    for at, paint in enumerate(steps[::-1]):
        pen.rectangle([left, top + tall * at / 12, right, top + tall * (at + 1) / 12], fill=_rgb(paint))
    pen.polygon([(left, top), (left + half * 0.7, top), (left, top + tall * 0.5)], fill=(255, 255, 255, 34))
    pen.rectangle([left, top, right, top + 14], fill=(10, 12, 25, 90))
    frame = _rgb(mix(colour("f7f4ec"), wall, 0.12))
    pen.line([middle, top, middle, foot], fill=frame, width=8)
    pen.line([left, top + tall * 0.32, right, top + tall * 0.32], fill=frame, width=6)
    pen.rectangle([left - 16, foot, right + 16, foot + 12], fill=_rgb(mix(wall, light, 0.8)))
    if balcony:
        _balcony(canvas, pen, (left - half * 0.35, right + half * 0.35, foot + 8, tall * 0.3))


def _balcony(canvas: Canvas, pen: ImageDraw.ImageDraw, box: tuple[float, float, float, float]) -> None:
    left, right, foot, tall = box
    pen.polygon(
        [(left, foot + 10), (right, foot + 10), (right + 30, foot + 58), (left + 30, foot + 58)], fill=(20, 15, 30, 70)
    )
    pen.rectangle([left, foot - 2, right, foot + 14], fill=(60, 58, 66))
    for x in np.arange(left + 4, right, 13):
        pen.line([x, foot - tall, x, foot], fill=(34, 34, 42), width=3)
    pen.line([left, foot - tall, right, foot - tall], fill=(34, 34, 42), width=6)
    if canvas.chance(0.7):
        bloom = ((214, 58, 90), (240, 150, 60), (230, 110, 170), (240, 236, 230))[int(canvas.between(0, 4))]
        for _ in range(46):
            x, y = canvas.between(left, right), foot - tall + canvas.between(-20, 26)
            green = (40 + int(canvas.between(0, 30)), 92 + int(canvas.between(0, 50)), 58)
            size = canvas.between(5, 13)
            pen.ellipse([x - size, y - size, x + size, y + size], fill=bloom if canvas.chance(0.38) else green)


def rain(canvas: Canvas, mood: Mood) -> None:
    """Street lights out of focus behind a wet pane."""
    warm, light = colour(mood.far), colour(mood.light)
    canvas.sky(mood.sky)
    canvas.px *= 0.75 + canvas.noise(3, octaves=3)[..., None] * np.float32(0.6)
    canvas.glow(canvas.between(0.2, 0.8), 0.62, 0.35, warm, 0.22, squash=2.2)
    lights = (warm, light, mix(warm, light, 0.5), colour("ff5a4a"), colour("6fb7ff"), colour("7fe0a8"))
    for _ in range(60):
        y = float(np.clip(canvas.rng.normal(0.5, 0.17), 0.05, 0.95))
        paint = lights[int(canvas.rng.choice(6, p=(0.36, 0.26, 0.18, 0.09, 0.07, 0.04)))]
        _bokeh(canvas, canvas.between(0, 1), y, canvas.between(0.025, 0.085), paint, canvas.between(0.2, 0.75))
    for _ in range(9):
        _trail(canvas, canvas.between(0.02, 0.98), light)
    for _ in range(230):
        _drop(canvas, 0.003 + 0.02 * canvas.between(0, 1) ** 4)


def _bokeh(canvas: Canvas, x: float, y: float, radius: float, paint: Array, power: float) -> None:
    cx, cy, reach = x * canvas.width, y * canvas.height, radius * canvas.height
    top, left = max(0, int(cy - reach - 3)), max(0, int(cx - reach - 3))
    rows, columns = canvas.rows[top : int(cy + reach + 4)], canvas.columns[:, left : int(cx + reach + 4)]
    away = np.sqrt((rows - cy) ** 2 + (columns - cx) ** 2) / reach
    mask = smooth(1.06, 0.92, away) * (0.72 + 0.28 * away**4) * np.float32(power)
    part = canvas.px[top : top + rows.shape[0], left : left + columns.shape[1]]
    part += (1 - part * 0.6) * paint * mask[..., None]


def _trail(canvas: Canvas, x: float, light: Array) -> None:
    left, wide = int(x * canvas.width), int(canvas.between(3, 6))
    stop = int(canvas.between(0.3, 0.9) * canvas.height)
    part = canvas.px[:stop, left : left + wide]
    part *= np.linspace(0.95, 1.2, part.shape[1], dtype=np.float32)[None, :, None]
    part += light * np.float32(0.035)


def _drop(canvas: Canvas, radius: float) -> None:
    cx, cy = canvas.between(0, canvas.width), canvas.between(0, canvas.height)
    reach = radius * canvas.height
    top, left = max(0, int(cy - reach * 1.3)), max(0, int(cx - reach))
    rows, columns = canvas.rows[top : int(cy + reach * 1.3) + 2], canvas.columns[:, left : int(cx + reach) + 2]
    if rows.size == 0 or columns.size == 0:
        return
    v, u = (rows - cy) / (reach * 1.15), (columns - cx) / reach
    inside = smooth(1.05, 0.8, v * v + u * u)
    part = canvas.px[top : top + rows.shape[0], left : left + columns.shape[1]]
    hue = part.mean(axis=(0, 1)) + np.float32(0.05)
    paint = hue * (1.0 + 0.7 * np.clip(v, -0.6, 1))[..., None]
    paint = paint + (np.exp(-(((v + 0.45) ** 2 + (u + 0.3) ** 2) / 0.06)) * 0.55)[..., None]
    part += (paint - part) * (inside * np.float32(0.7))[..., None]
