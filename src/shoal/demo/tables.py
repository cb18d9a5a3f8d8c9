"""Photos of what stands on a table: a cup of coffee, fruit. Painters as in `landscapes`."""

from __future__ import annotations

import math

import numpy as np
from PIL import ImageDraw

from shoal.demo.canvas import Array, Canvas, colour, mix, ramp, smooth
from shoal.demo.palettes import Mood


def _table(canvas: Canvas, mood: Mood, *, planks: bool) -> None:
    """A table top with light falling from one corner."""
    codes = mood.sky.split()
    canvas.px[:] = ramp(mood.sky, canvas.height)[:, None, :]
    fibre = canvas.noise(26, octaves=5, stretch=14, keep=0.6) if planks else canvas.noise(24, octaves=6, keep=0.7)
    canvas.px *= (0.86 + fibre * np.float32(0.26))[..., None]
    if planks:
        for at in range(1, 5):
            row = int(canvas.height * at / 5 + canvas.between(-8, 8))
            canvas.px[row : row + 2] *= np.float32(0.55)
            canvas.px[row + 2 : row + 3] *= np.float32(1.12)
    canvas.glow(0.12, 0.1, 0.75, mix(colour(codes[0]), colour(mood.light), 0.6), 0.28, squash=1.3)


def _shadow(canvas: Canvas, x: float, y: float, radius: float, strength: float = 0.5) -> None:
    """A soft shadow, as thrown by light from the upper left."""
    part, dx, dy = canvas.about(x, y, radius, reach=1.6)
    away = np.hypot(dx - np.float32(0.22), dy - np.float32(0.26))
    part *= (1 - smooth(1.28, 0.72, away) * np.float32(strength))[..., None]


def _dish(canvas: Canvas, x: float, y: float, radius: float, paint: Array, *, hollow: float = 0.2) -> None:
    """A round dish from above: rim, inner slope and a gleam."""
    part, dx, dy = canvas.about(x, y, radius)
    away = np.hypot(dx, dy)
    facing = (dx + dy) * np.float32(0.7)
    slope = np.exp(-(((away - 0.72) / 0.16) ** 2)) * facing * np.float32(hollow)
    rim = np.exp(-(((away - 0.97) / 0.025) ** 2)) * (-facing) * np.float32(0.18)
    shade = 1 - facing * np.float32(0.05) + slope + rim
    edge = np.clip((1 - away) * radius * canvas.height + 0.5, 0, 1)
    part += (np.clip(paint * shade[..., None], 0, 1) - part) * edge[..., None]


def coffee(canvas: Canvas, mood: Mood) -> None:
    """A cup from above, with a pattern in the milk."""
    _table(canvas, mood, planks=mood.sky[0] != "e")
    x, y = canvas.between(0.4, 0.6), canvas.between(0.46, 0.56)
    size = canvas.between(0.3, 0.36) * min(1.0, canvas.width / canvas.height)
    china = colour(mood.far)
    _shadow(canvas, x, y, size * 1.05)
    _dish(canvas, x, y, size, china)
    _shadow(canvas, x, y, size * 0.66, 0.42)
    _handle(canvas, x, y, size, china)
    _dish(canvas, x, y, size * 0.62, mix(china, colour("ffffff"), 0.25), hollow=0.35)
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
    canvas.cover(mask, mix(china, colour("ffffff"), 0.2))


def _latte(canvas: Canvas, x: float, y: float, radius: float) -> None:
    part, dx, dy = canvas.about(x, y, radius)
    turn = canvas.between(-0.6, 0.6)
    u, v = dx * math.cos(turn) + dy * math.sin(turn), dy * math.cos(turn) - dx * math.sin(turn)
    away = np.hypot(dx, dy)
    crema, milk = colour("8a4f24"), colour("f6e7cf")
    paint = (
        mix(crema, colour("4a2410"), 0.5) + (crema - mix(crema, colour("3a1a0a"), 0.5)) * (1 - away**4)[..., None] * 0.9
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
        canvas.disc(bx, by, 0.016, colour("4a2a17"))
        canvas.disc(bx - 0.003, by - 0.005, 0.007, colour("7d4f30"), soft=6, alpha=0.7)


def _shadow_patch(canvas: Canvas, x: float, y: float, radius: float) -> None:
    canvas.disc(x + radius * 0.25, y + radius * 0.4, radius, colour("120c08"), soft=radius * canvas.height, alpha=0.5)


def fruit(canvas: Canvas, mood: Mood) -> None:
    """Round fruit on a cloth, one in front of the other, with leaves."""
    _table(canvas, mood, planks=mood.sky[0] in "db")
    skin, dark, light = colour(mood.far), colour(mood.near), colour(mood.light)
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

    def outline(side: float, zoom: float) -> list[tuple[float, float]]:
        u, v = along * 1.15, bulge * side - along**2 * 0.12
        px = cx + (u * math.cos(angle) - v * math.sin(angle)) * reach
        py = cy + (u * math.sin(angle) + v * math.cos(angle)) * reach
        return [(float(a) * zoom, float(b) * zoom) for a, b in zip(px, py, strict=True)]

    def draw(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        pen.polygon(outline(1, zoom) + outline(-1, zoom)[::-1], fill=255)

    def lower(pen: ImageDraw.ImageDraw, zoom: float) -> None:
        pen.polygon(outline(1, zoom) + outline(0, zoom)[::-1], fill=255)

    mask = canvas.stencil(draw)
    canvas.px *= 1 - np.roll(mask, (9, 8), (0, 1))[..., None] * np.float32(0.3)
    canvas.cover(mask, colour("5d9448"))
    canvas.cover(canvas.stencil(lower), colour("437537"))
