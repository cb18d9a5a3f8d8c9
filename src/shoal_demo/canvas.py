"""Drawing primitives for all generated photos.

Pixels are float32 in 0..1, `(height, width, 3)`; positions are fractions of the width and the height unless a name says
pixels. Drawing happens at 0.64 of the final size and is enlarged at the end, where grain hides the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw

Array = npt.NDArray[Any]

WORKING_SCALE = 0.64


def color(code: str) -> Array:
    """Return the three components of `rrggbb`."""
    return np.array([int(code[at : at + 2], 16) / 255 for at in (0, 2, 4)], np.float32)


def mix(one: Array, other: Array, share: float) -> Array:
    mixed: Array = one + (other - one) * np.float32(share)
    return mixed


def smooth(low: float, high: float, value: Array) -> Array:
    """Return 0 below `low`, 1 above `high`, and a smoothstep in between."""
    t: Array = np.clip((value - np.float32(low)) / np.float32(high - low), 0, 1)
    rise: Array = t * t * (3 - 2 * t)
    return rise


def ramp(codes: str, count: int) -> Array:
    """Return colors interpolated evenly over `count` steps: `(count, 3)`."""
    stops = np.stack([color(code) for code in codes.split()])
    at = np.linspace(0, len(stops) - 1, count)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, k]) for k in range(3)], 1).astype(np.float32)


def resized(field: Array, height: int, width: int) -> Array:
    picture = Image.fromarray(np.ascontiguousarray(field, np.float32))
    return np.asarray(picture.resize((width, height), Image.Resampling.BICUBIC), np.float32)


@lru_cache(4)
def _grain(size: tuple[int, int], strength: int) -> Image.Image:
    """Return film grain around middle gray. All photos of a size share it."""
    speck = np.random.default_rng(7).standard_normal((size[1], size[0]), np.float32) * strength + 128
    sheet = Image.fromarray(speck.astype(np.uint8))
    return Image.merge("RGB", (sheet, sheet, sheet))


class Canvas:
    def __init__(self, width: int, height: int, seed: int) -> None:
        self.final = (width, height)
        self.width, self.height = round(width * WORKING_SCALE), round(height * WORKING_SCALE)
        self.rng = np.random.default_rng(seed)
        # One plane per color in memory: masks then process contiguous rows, which is three times as fast.
        self.px: Array = np.zeros((3, self.height, self.width), np.float32).transpose(1, 2, 0)
        self.rows: Array = np.arange(self.height, dtype=np.float32)[:, None]
        self.columns: Array = np.arange(self.width, dtype=np.float32)[None, :]

    def between(self, low: float, high: float) -> float:
        """Return a random number in the range."""
        return float(self.rng.uniform(low, high))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    # Fields

    def noise(self, cells: int, *, octaves: int = 5, stretch: float = 1.0, keep: float = 0.5, height: int = 0) -> Array:
        """Return fractal noise in 0..1 with `cells` lumps down its height; `stretch` widens the lumps."""
        height = height or self.height
        rows, columns = cells + 1, max(2, round((cells + 1) * self.width / height / stretch))
        field, strength = self.rng.random((rows, columns), np.float32), 1.0
        for _ in range(octaves - 1):
            if rows >= height:
                break
            rows, columns, strength = rows * 2, columns * 2, strength * keep
            finer = self.rng.random((rows, columns), np.float32)
            field = resized(field, rows, columns) + finer * np.float32(strength)
        field = resized(field, height, self.width)
        low, high = field.min(), field.max()
        even: Array = (field - low) / (high - low)
        return even

    def curve(self, *, knots: int, octaves: int = 6, keep: float = 0.5, soft: bool = False) -> Array:
        """Return a random curve with values in 0..1 for each column, with `knots` bends in its coarsest octave."""
        at, total, strength = np.linspace(0, 1, self.width), np.zeros(self.width), 1.0
        for _ in range(octaves):
            values = self.rng.random(knots + 2)
            t = at * knots + self.rng.random() * 0.9
            if soft:
                t = np.floor(t) + (1 - np.cos((t % 1) * np.pi)) / 2
            total += np.interp(t, np.arange(knots + 2), values) * strength
            knots, strength = knots * 2, strength * keep
        total = (total - total.min()) / (total.max() - total.min())
        wander: Array = total.astype(np.float32)
        return wander

    def ridge(
        self, base: float, rise: float, *, knots: int, octaves: int = 6, keep: float = 0.5, soft: bool = False
    ) -> Array:
        """Return a skyline that rises `rise` above `base`: for each column, the row (in pixels) where the land begins."""
        wander = self.curve(knots=knots, octaves=octaves, keep=keep, soft=soft)
        return (np.float32(base) - np.float32(rise) * (wander - np.float32(0.12))) * np.float32(self.height)

    def stencil(self, draw: Callable[[ImageDraw.ImageDraw, float], None]) -> Array:
        """Return a smooth mask of the white shapes that `draw` paints on black; its second argument is the scale."""
        sheet = Image.new("L", (self.width * 2, self.height * 2))
        draw(ImageDraw.Draw(sheet), 2.0)
        return np.asarray(sheet.reduce(2), np.float32) / 255

    def polygons(self, *shapes: Sequence[tuple[float, float]]) -> Array:
        """Return a smooth mask of these shapes, given in pixels."""

        def draw(pen: ImageDraw.ImageDraw, zoom: float) -> None:
            for shape in shapes:
                pen.polygon([(x * zoom, y * zoom) for x, y in shape], fill=255)

        return self.stencil(draw)

    # Light and matter

    def sky(self, codes: str, *, down_to: float = 1.0) -> None:
        """Fill the canvas with a gradient that reaches its last color at `down_to`."""
        reach = max(2, round(self.height * down_to))
        steps = np.empty((self.height, 3), np.float32)
        steps[: min(reach, self.height)] = ramp(codes, reach)[: self.height]
        steps[reach:] = color(codes.rsplit(maxsplit=1)[-1])
        self.px[:] = steps[:, None, :]

    def cover(self, mask: Array, paint: Array, top: int = 0) -> None:
        """Paint rows from `top`, with the mask as opacity."""
        part = self.px[top : top + mask.shape[0]]
        for k in range(3):
            plane = part[..., k]
            plane += (paint[..., k] - plane) * mask

    def shine(self, mask: Array, light: Array, top: int = 0) -> None:
        """Add light to rows from `top`."""
        for k in range(3):
            self.px[top : top + mask.shape[0], :, k] += mask * light[k]

    def glow(self, x: float, y: float, radius: float, light: Array, strength: float, *, squash: float = 1.0) -> None:
        """Add a soft round light. `radius` is a fraction of the height; `squash` widens it."""
        reach = radius * self.height
        across = np.exp(-(((self.columns - x * self.width) / (reach * squash)) ** 2))
        down = np.exp(-(((self.rows - y * self.height) / reach) ** 2))
        self.shine(down * (across * np.float32(strength)), light)

    def disc(self, x: float, y: float, radius: float, paint: Array, *, soft: float = 1.5, alpha: float = 1.0) -> None:
        """Draw a filled circle with an edge `soft` pixels wide. `radius` is a fraction of the height."""
        cx, cy, reach = x * self.width, y * self.height, radius * self.height
        top, left = max(0, int(cy - reach - soft)), max(0, int(cx - reach - soft))
        bottom, right = int(cy + reach + soft) + 2, int(cx + reach + soft) + 2
        rows, columns = self.rows[top:bottom], self.columns[:, left:right]
        if rows.size and columns.size:
            away = np.sqrt((rows - cy) ** 2 + (columns - cx) ** 2)
            mask = np.clip((reach - away) / soft + 0.5, 0, 1) * np.float32(alpha)
            part = self.px[top:bottom, left:right]
            part += (paint - part) * mask[..., None]

    def about(self, x: float, y: float, radius: float, *, reach: float = 1.0) -> tuple[Array, Array, Array]:
        """Return the pixels up to `reach` radii around a position, and their distance from it, across and down, in radii."""
        size = radius * self.height
        cx, cy = x * self.width, y * self.height
        top, left = max(0, int(cy - size * reach) - 2), max(0, int(cx - size * reach) - 2)
        bottom, right = max(0, int(cy + size * reach) + 3), max(0, int(cx + size * reach) + 3)
        across, down = (self.columns[:, left:right] - cx) / size, (self.rows[top:bottom] - cy) / size
        return self.px[top:bottom, left:right], across, down

    def clouds(
        self, paint: Array, *, amount: float, low: float, high: float, thick: float = 0.7, stretch: float = 3.5
    ) -> None:
        """Draw clouds between two heights; `amount` is the fraction of the band that they cover."""
        reach = min(self.height, round(high * self.height * 1.15))
        field = self.noise(4, octaves=7, stretch=stretch, keep=0.55, height=reach)
        band = np.linspace(0, high * 1.15, reach, dtype=np.float32)[:, None]
        window = smooth(low - 0.12, low + 0.1, band) * (1 - smooth(high - 0.12, high + 0.1, band))
        mask = smooth(0.78 - amount * 0.5, 1.05 - amount * 0.35, field) * window * np.float32(thick)
        self.cover(mask, paint)

    def land(self, line: Array, crest: Array, foot: Array, *, deep: float = 0.35, relief: Array | None = None) -> None:
        """Draw land below a skyline, from one color at its crest to another `deep` further down."""
        top = max(0, int(line.min()) - 1)
        below = self.rows[top:] - line[None, :]
        mask = np.clip(below + 0.5, 0, 1)
        fade = np.clip(below / np.float32(deep * self.height), 0, 1)
        shade = None if relief is None else 1 + relief[top:]
        for k in range(3):
            plane, paint = self.px[top:, :, k], crest[k] + (foot[k] - crest[k]) * fade
            plane += ((paint if shade is None else paint * shade) - plane) * mask

    def stars(self, count: int, *, down_to: float, strength: float = 1.0) -> None:
        """Draw stars, most of them faint, thinning out toward `down_to`."""
        y = (self.rng.random(count) ** 1.2 * down_to * self.height).astype(int)
        x = (self.rng.random(count) * (self.width - 2)).astype(int) + 1
        bright = np.minimum(0.12 + self.rng.pareto(2.2, count) * 0.14, 1.0).astype(np.float32) * np.float32(strength)
        tint = 1 - self.rng.random((count, 3), np.float32) * np.array([0.2, 0.12, 0.15], np.float32)
        light = tint * bright[:, None]
        y = np.clip(y, 1, self.height - 2)
        np.add.at(self.px, (y, x), light)
        for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            np.add.at(self.px, (y + dy, x + dx), light * np.float32(0.32))

    def mirror(self, shore: float, tint: Array, *, calm: float = 0.7, dim: float = 0.25) -> None:
        """Draw still water below `shore` that reflects the part above; `dim` is the strength of the tint."""
        row = round(shore * self.height)
        count = self.height - row
        source = np.clip(row - 1 - np.arange(count) * 0.92, 0, row - 1).astype(int)
        near = np.linspace(0, 1, count, dtype=np.float32)[:, None]
        wave = (self.noise(60, octaves=2, stretch=10, height=count) - 0.5) * (2 + near * 26) * np.float32(1.4 - calm)
        down = np.clip(source[:, None] + wave, 0, row - 1).astype(np.intp)
        water = self.px[down, np.arange(self.width)[None, :]]
        water += (tint - water) * (np.float32(dim) + near[..., None] * np.float32(0.3))
        self.px[row:] = water * (1 + (wave * np.float32(0.008))[..., None])

    def finish(self, *, vignette: float = 0.28, contrast: float = 0.12, grain: int = 5, quality: int = 86) -> bytes:
        """Return the finished picture as a JPEG in its final size."""
        across = (self.columns / self.width - 0.5) ** 2
        down = (self.rows / self.height - 0.5) ** 2
        self.px *= (1 - np.float32(vignette) * 2 * (across + down))[..., None]
        px = np.ascontiguousarray((np.clip(self.px, 0, 1) * 255).astype(np.uint8))
        levels = [at / 255 for at in range(256)]
        tone = [round((v + contrast * v * (1 - v) * (2 * v - 1) * 2) * 255) for v in levels]
        picture = Image.fromarray(px).point(tone * 3).resize(self.final, Image.Resampling.BICUBIC)
        picture = ImageChops.add(picture, _grain(self.final, grain), 1, -128)
        out = BytesIO()
        picture.save(out, "JPEG", quality=quality)
        return out.getvalue()
