"""Generated photos of cities, tables and close-ups, and `photograph`, which renders any scene of a plan as a JPEG.

Rendering is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from shoal_demo import landscapes
from shoal_demo.canvas import Array, Canvas, color, mix, ramp, resized, smooth
from shoal_demo.model import MOODS, Mood, Scene

LAMPS = ("ffd58a", "ffc065", "ffe6b8", "bfe0ff", "ff9f5a")


def city(canvas: Canvas, mood: Mood) -> None:
    """Draw a skyline with lit windows, reflected in a river."""
    far, near, light = color(mood.far), color(mood.near), color(mood.light)
    shore = canvas.between(0.66, 0.72)
    canvas.sky(mood.sky, down_to=shore)
    canvas.stars(160, down_to=0.35, strength=0.5)
    canvas.clouds(mix(far, light, 0.25), amount=0.5, low=0.05, high=0.5, thick=0.4, stretch=5)
    canvas.glow(canvas.between(0.3, 0.7), shore, 0.26, light, 0.3, squash=2.6)
    if canvas.chance(0.3):
        canvas.disc(canvas.between(0.15, 0.85), 0.16, 0.03, mix(light, color("ffffff"), 0.6))
    for at in range(3):
        paint = mix(mix(far, color(mood.sky.split()[-1]), 0.25), near, (0.15, 0.55, 0.95)[at])
        _row_of_towers(
            canvas, shore, paint, tall=(0.46, 0.36, 0.24)[at], lit=(0.16, 0.3, 0.42)[at], wide=0.03 + 0.014 * at
        )
        canvas.glow(0.5, shore, 0.1, light, 0.05, squash=6)
    canvas.mirror(shore, near, calm=0.9, dim=0.12)
    row = round(shore * canvas.height)
    canvas.px[row - 2 : row + 1] = near * 0.5
    for x in np.arange(0.01, 1, 0.028):
        canvas.disc(float(x), shore - 0.006, 0.0035, color("ffdca0"), soft=4)


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
        canvas.disc(middle / canvas.width, (top - mast) / canvas.height, 0.003, color("ff5a4a"))
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
    lamp = color(LAMPS[int(canvas.rng.choice(5, p=(0.4, 0.2, 0.2, 0.12, 0.08)))])
    part = canvas.px[top + 5 : top + 5 + mask.shape[0], left + 2 : left + 2 + mask.shape[1]]
    part += (lamp - part) * mask[: part.shape[0], : part.shape[1], None]


def facade(canvas: Canvas, mood: Mood) -> None:
    """Draw a house front: rows of windows, shutters and balconies, and a slanting shadow."""
    wall, accent, light = color(mood.far), color(mood.near), color(mood.light)
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
    frame = _rgb(mix(color("f7f4ec"), wall, 0.12))
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
    warm, light = color(mood.far), color(mood.light)
    canvas.sky(mood.sky)
    canvas.px *= 0.75 + canvas.noise(3, octaves=3)[..., None] * np.float32(0.6)
    canvas.glow(canvas.between(0.2, 0.8), 0.62, 0.35, warm, 0.22, squash=2.2)
    lights = (warm, light, mix(warm, light, 0.5), color("ff5a4a"), color("6fb7ff"), color("7fe0a8"))
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


def _table(canvas: Canvas, mood: Mood, *, planks: bool) -> None:
    codes = mood.sky.split()
    canvas.px[:] = ramp(mood.sky, canvas.height)[:, None, :]
    fibre = canvas.noise(26, octaves=5, stretch=14, keep=0.6) if planks else canvas.noise(24, octaves=6, keep=0.7)
    canvas.px *= (0.86 + fibre * np.float32(0.26))[..., None]
    if planks:
        for at in range(1, 5):
            row = int(canvas.height * at / 5 + canvas.between(-8, 8))
            canvas.px[row : row + 2] *= np.float32(0.55)
            canvas.px[row + 2 : row + 3] *= np.float32(1.12)
    canvas.glow(0.12, 0.1, 0.75, mix(color(codes[0]), color(mood.light), 0.6), 0.28, squash=1.3)


def _shadow(canvas: Canvas, x: float, y: float, radius: float, strength: float = 0.5) -> None:
    """Draw a soft shadow, as if light came from the upper left."""
    part, dx, dy = canvas.about(x, y, radius, reach=1.6)
    away = np.hypot(dx - np.float32(0.22), dy - np.float32(0.26))
    part *= (1 - smooth(1.28, 0.72, away) * np.float32(strength))[..., None]


def _dish(canvas: Canvas, x: float, y: float, radius: float, paint: Array, *, hollow: float = 0.2) -> None:
    """Draw a round dish from above: rim, inner slope and a highlight."""
    part, dx, dy = canvas.about(x, y, radius)
    away = np.hypot(dx, dy)
    facing = (dx + dy) * np.float32(0.7)
    slope = np.exp(-(((away - 0.72) / 0.16) ** 2)) * facing * np.float32(hollow)
    rim = np.exp(-(((away - 0.97) / 0.025) ** 2)) * (-facing) * np.float32(0.18)
    shade = 1 - facing * np.float32(0.05) + slope + rim
    edge = np.clip((1 - away) * radius * canvas.height + 0.5, 0, 1)
    part += (np.clip(paint * shade[..., None], 0, 1) - part) * edge[..., None]


def coffee(canvas: Canvas, mood: Mood) -> None:
    _table(canvas, mood, planks=mood.sky[0] != "e")
    x, y = canvas.between(0.4, 0.6), canvas.between(0.46, 0.56)
    size = canvas.between(0.3, 0.36) * min(1.0, canvas.width / canvas.height)
    china = color(mood.far)
    _shadow(canvas, x, y, size * 1.05)
    _dish(canvas, x, y, size, china)
    _shadow(canvas, x, y, size * 0.66, 0.42)
    _handle(canvas, x, y, size, china)
    _dish(canvas, x, y, size * 0.62, mix(china, color("ffffff"), 0.25), hollow=0.35)
    _latte(canvas, x, y, size * 0.53)
    if canvas.chance(0.8):
        _beans(canvas, x, y, size)


def _handle(canvas: Canvas, x: float, y: float, size: float, china: Array) -> None:
    cx, cy, reach = x * canvas.width, y * canvas.height, size * canvas.height
    angle = canvas.between(-0.7, 0.3)
    end = (cx + math.cos(angle) * reach * 0.88, cy + math.sin(angle) * reach * 0.88)

    def draw(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        pen.line([(cx * zoom, cy * zoom), (end[0] * zoom, end[1] * zoom)], fill=255, width=int(reach * 0.13 * zoom))
        knob = reach * 0.065
        pen.ellipse(
            [(end[0] - knob) * zoom, (end[1] - knob) * zoom, (end[0] + knob) * zoom, (end[1] + knob) * zoom], fill=255
        )

    mask = canvas.stencil(draw)
    canvas.px *= 1 - np.roll(mask, (7, 6), (0, 1))[..., None] * np.float32(0.22)
    canvas.cover(mask, mix(china, color("ffffff"), 0.2))


def _latte(canvas: Canvas, x: float, y: float, radius: float) -> None:
    part, dx, dy = canvas.about(x, y, radius)
    angle = canvas.between(-0.6, 0.6)
    u, v = dx * math.cos(angle) + dy * math.sin(angle), dy * math.cos(angle) - dx * math.sin(angle)
    away = np.hypot(dx, dy)
    crema, milk = color("8a4f24"), color("f6e7cf")
    paint = (
        mix(crema, color("4a2410"), 0.5) + (crema - mix(crema, color("3a1a0a"), 0.5)) * (1 - away**4)[..., None] * 0.9
    )
    leaf = np.abs(u) * (1.15 + 0.5 * (v + 0.6)) - (0.62 - 0.75 * (v + 0.1) ** 2)
    stripe = np.sin((v * 15) + np.abs(u) * 11 * (1 if canvas.chance(0.6) else -0.6))
    pattern = smooth(0.06, -0.06, leaf) * smooth(-0.35, 0.25, stripe)
    pattern = np.maximum(pattern, smooth(0.05, 0.02, np.abs(u)) * smooth(0.75, 0.7, np.abs(v)))
    paint = paint + (milk - paint) * (pattern * np.float32(0.92))[..., None]
    shade = 1 - np.clip((dx + dy) * -0.7 - 0.5, 0, 1) * np.float32(0.5)
    edge = np.clip((1 - away) * radius * canvas.height + 0.5, 0, 1)
    part += (paint * shade[..., None] - part) * edge[..., None]


def _beans(canvas: Canvas, x: float, y: float, size: float) -> None:
    for _ in range(9):
        angle, away = canvas.between(0, 6.28), size * canvas.between(1.2, 1.7)
        bx = x + math.cos(angle) * away * canvas.height / canvas.width
        by = y + math.sin(angle) * away
        _shadow_patch(canvas, bx, by, 0.02)
        canvas.disc(bx, by, 0.016, color("4a2a17"))
        canvas.disc(bx - 0.003, by - 0.005, 0.007, color("7d4f30"), soft=6, alpha=0.7)


def _shadow_patch(canvas: Canvas, x: float, y: float, radius: float) -> None:
    canvas.disc(x + radius * 0.25, y + radius * 0.4, radius, color("120c08"), soft=radius * canvas.height, alpha=0.5)


def fruit(canvas: Canvas, mood: Mood) -> None:
    """Draw round fruit on a cloth, partly covering each other, with leaves."""
    _table(canvas, mood, planks=mood.sky[0] in "db")
    skin, dark, light = color(mood.far), color(mood.near), color(mood.light)
    if canvas.chance(0.6):
        _shadow(canvas, 0.5, 0.52, 0.4)
        _dish(canvas, 0.5, 0.52, 0.39, mix(light, dark, 0.12), hollow=0.25)
    spots: list[tuple[float, float, float]] = []
    for _ in range(240):
        x, y, r = float(canvas.rng.normal(0.5, 0.09)), float(canvas.rng.normal(0.5, 0.13)), canvas.between(0.115, 0.14)
        gaps = (math.hypot((x - a) * canvas.width / canvas.height, y - b) - (r + s) * 0.88 for a, b, s in spots)
        if (
            len(spots) < 7
            and math.hypot((x - 0.5) * canvas.width / canvas.height, y - 0.52) < 0.27
            and all(gap > 0 for gap in gaps)
        ):
            spots.append((x, y, r))
    for x, y, r in sorted(spots, key=lambda spot: spot[1]):
        _ball(canvas, x, y, r, skin * np.array([1, canvas.between(0.9, 1.04), 1], np.float32), (dark, light))
    if len(spots) > 1:
        _leaf(canvas, *spots[0])
        _leaf(canvas, *spots[1])


def _ball(canvas: Canvas, x: float, y: float, radius: float, skin: Array, paints: tuple[Array, Array]) -> None:
    dark, light = paints
    part, u, v = canvas.about(x, y, radius, reach=1.8)
    part *= (1 - smooth(1.4, 0.7, np.hypot(u - 0.3, v - 0.36)) * np.float32(0.55))[..., None]
    away = np.minimum(u * u + v * v, 1)
    z = np.sqrt(1 - away)
    lit = np.clip(-0.5 * u - 0.55 * v + 0.67 * z, 0, 1)
    bounce = np.clip(0.55 * u + 0.5 * v, 0, 1) * (1 - z) * np.float32(0.35)
    paint = mix(skin, dark, 0.72) + (skin * 1.04 - mix(skin, dark, 0.72)) * (lit**0.75)[..., None]
    paint = paint + skin * bounce[..., None] + light * (np.clip(lit, 0, 1) ** 22 * np.float32(0.55))[..., None]
    hollow = np.exp(-(((u + 0.06) / 0.13) ** 2 + ((v + 0.3) / 0.1) ** 2)) * np.float32(0.5)
    paint = paint * (1 - hollow[..., None])
    edge = np.clip((1 - np.hypot(u, v)) * radius * canvas.height + 0.5, 0, 1)
    part += (paint - part) * edge[..., None]


def _leaf(canvas: Canvas, x: float, y: float, radius: float) -> None:
    cx, cy, reach = x * canvas.width, (y - radius * 0.3) * canvas.height, radius * canvas.height
    angle = canvas.between(-0.9, 0.5)
    along = np.linspace(0, 1, 22)
    bulge = np.sin(along * np.pi) ** 0.8 * 0.24

    def outline(side: float) -> list[tuple[float, float]]:
        u, v = along * 1.15, bulge * side - along**2 * 0.12
        px = cx + (u * math.cos(angle) - v * math.sin(angle)) * reach
        py = cy + (u * math.sin(angle) + v * math.cos(angle)) * reach
        return [(float(a), float(b)) for a, b in zip(px, py, strict=True)]

    mask = canvas.polygons(outline(1) + outline(-1)[::-1])
    canvas.px *= 1 - np.roll(mask, (9, 8), (0, 1))[..., None] * np.float32(0.3)
    canvas.cover(mask, color("5d9448"))
    canvas.cover(canvas.polygons(outline(1) + outline(0)[::-1]), color("437537"))


def flowers(canvas: Canvas, mood: Mood) -> None:
    petal, deep, light = color(mood.far), color(mood.near), color(mood.light)
    canvas.sky(mood.sky)
    canvas.px *= 0.8 + canvas.noise(4, octaves=3)[..., None] * np.float32(0.5)
    greens = (color(mood.sky.split()[0]), light, petal, mix(petal, deep, 0.4))
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
        [side - heart, side - heart, side + heart, side + heart], fill=(*_rgb(mix(deep, color("f2c14e"), 0.55)), 255)
    )
    for _ in range(40):
        a, d = canvas.between(0, 6.28), heart * canvas.between(0.2, 1.2)
        dot = (side + math.cos(a) * d, side + math.sin(a) * d)
        pen.ellipse([dot[0] - 3, dot[1] - 3, dot[0] + 3, dot[1] + 3], fill=(*_rgb(color("ffdf8a")), 255))
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
    """Paint a small mask whose corner (row, column) may be outside the canvas."""
    top, left = corner
    rows = slice(max(0, -top), max(0, min(mask.shape[0], canvas.height - top)))
    columns = slice(max(0, -left), max(0, min(mask.shape[1], canvas.width - left)))
    part = canvas.px[rows.start + top : rows.stop + top, columns.start + left : columns.stop + left]
    part += ((paint[rows, columns] if paint.ndim == 3 else paint) - part) * mask[rows, columns, None]


def _petal(pen: ImageDraw.ImageDraw, middle: int, reach: float, angle: float, paints: tuple[Array, Array]) -> None:
    """Draw one petal in slices from its dark root to its bright tip."""
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


def abstract(canvas: Canvas, mood: Mood) -> None:
    """Draw folds of color lit from one side, as in an extreme close-up."""
    high, wide = canvas.height // 3, canvas.width // 3
    one, other, third = (canvas.noise(cells, octaves=3, keep=0.3)[::3, ::3][:high, :wide] for cells in (1, 2, 2))
    y, x = np.mgrid[0:high, 0:wide]
    down = _folded(y + (other - 0.5) * high * 0.6, high)
    across = _folded(x + (third - 0.5) * wide * 0.6, wide)
    angle = canvas.between(0.3, 1.3) * (1 if canvas.chance(0.5) else -1)
    lean = (x / wide * math.cos(angle) + y / high * math.sin(angle)).astype(np.float32)
    bent = one[down, across] * 0.6 + other * 0.25 + lean * 0.5
    folds = np.sin(bent * np.pi * canvas.between(3.2, 5.2) + third * 3) * 0.5 + 0.5
    cloth = resized(resized(folds * 0.65 + bent * 0.35, high // 3, wide // 3), canvas.height, canvas.width)
    canvas.px[:] = ramp(mood.sky, 256)[(np.clip(cloth, 0, 1) * 255).astype(np.uint8)]
    slope = (cloth - np.roll(cloth, (6, 5), (0, 1))) * np.float32(9)
    slope[:6], slope[:, :5] = slope[6], slope[:, 5:6]
    canvas.px *= (1 + np.clip(slope, -0.6, 0.6) * np.float32(0.5))[..., None]
    canvas.shine(np.clip(slope - 0.2, 0, 1) ** 2 * np.float32(0.45), color(mood.light))
    canvas.shine(np.exp(-(((cloth - 0.62) / 0.03) ** 2)) * np.float32(0.12), color(mood.light))


def _folded(at: Array, size: int) -> Array:
    """Return positions, reflected back into the range where they exceed an edge."""
    inside: Array = (size - 1 - np.abs(size - 1 - np.abs(at))).astype(np.intp)
    return inside


PAINTERS: dict[str, Callable[[Canvas, Mood], None]] = {
    "mountains": landscapes.mountains,
    "desert": landscapes.desert,
    "snow": landscapes.snow,
    "forest": landscapes.forest,
    "sea": landscapes.sea,
    "aurora": landscapes.aurora,
    "stars": landscapes.stars,
    "city": city,
    "facade": facade,
    "rain": rain,
    "coffee": coffee,
    "fruit": fruit,
    "flowers": flowers,
    "abstract": abstract,
}


def photograph(scene: Scene) -> bytes:
    """Return a scene as a JPEG of `scene.width` by `scene.height` pixels. Raises `KeyError` for an unknown kind or mood."""
    canvas = Canvas(scene.width, scene.height, scene.seed)
    PAINTERS[scene.kind](canvas, MOODS[scene.kind][scene.mood])
    return canvas.finish()
