"""Draw the land of the world as one SVG symbol, for maps of the web app, from coastlines of Natural Earth (public domain).

Run `npm pack world-atlas@2.0.2`, unpack it, and pass the folder: `python -m scripts.land ATLAS`; then run `scripts.web_files` to
update the checksums. One unit is a hundredth of a degree: x is the longitude, y the latitude from the equator downwards.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from scripts.web_files import STATIC, VENDOR

UNIT = 100
_NEAR = 2.5
"""Distance in units (3 km). A point that is nearer to the line between its neighbors is omitted."""
_SMALLEST = 8
"""Width in units. A smaller island is omitted."""

Point = tuple[float, float]


def main() -> None:
    atlas = Path(sys.argv[1])
    shutil.copy(atlas / "LICENSE", VENDOR / "world-atlas.LICENSE.txt")
    topology = json.loads((atlas / "land-50m.json").read_text())
    path = "".join(drawn for ring in rings(topology) if (drawn := outline(ring)))
    box = f"{-180 * UNIT} {-90 * UNIT} {360 * UNIT} {180 * UNIT}"
    symbol = f'<symbol id="land" viewBox="{box}" overflow="visible"><path d="{path}"/></symbol>'
    (STATIC / "land.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg">\n{symbol}\n</svg>\n')


def rings(topology: dict[str, Any]) -> Iterator[list[Point]]:
    """Yield the outlines of all land, in degrees. Format: https://github.com/topojson/topojson-specification"""
    arcs = [list(_arc(topology, deltas)) for deltas in topology["arcs"]]
    for geometry in topology["objects"]["land"]["geometries"]:
        for polygon in geometry["arcs"]:
            for ring in polygon:
                found: list[Point] = []
                for at in ring:
                    points = arcs[at] if at >= 0 else arcs[~at][::-1]
                    found += points[1:] if found else points
                yield found


def _arc(topology: dict[str, Any], deltas: Sequence[Sequence[int]]) -> Iterator[Point]:
    (scale_x, scale_y), (left, bottom) = topology["transform"]["scale"], topology["transform"]["translate"]
    x = y = 0
    for by_x, by_y in deltas:
        x, y = x + by_x, y + by_y
        yield x * scale_x + left, y * scale_y + bottom


def outline(ring: Sequence[Point]) -> str:
    """Return an outline as a path; empty for an island that is too small."""
    points = [(x * UNIT, -y * UNIT) for x, y in ring]
    xs, ys = zip(*points, strict=True)
    if max(max(xs) - min(xs), max(ys) - min(ys)) < _SMALLEST:
        return ""
    # A ring has no ends to keep, so it is cut at the point farthest from its first one.
    far = max(range(len(points)), key=lambda at: math.dist(points[0], points[at]))
    kept = [*simplified(points[: far + 1])[:-1], *simplified(points[far:])[:-1]]
    whole = [(round(x), round(y)) for x, y in kept]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(whole)]
    moves = " ".join(f"{x} {y}" for x, y in steps if (x, y) != (0, 0)).replace(" -", "-")
    return f"M{whole[0][0]} {whole[0][1]}l{moves}z" if len(whole) > 2 else ""


def simplified(points: Sequence[Point]) -> list[Point]:
    """Return a line without points that hardly change it (Douglas and Peucker 1973)."""
    kept, waiting = {0, len(points) - 1}, [(0, len(points) - 1)]
    while waiting:
        first, last = waiting.pop()
        inner = range(first + 1, last)
        at = max(inner, key=lambda n: _away(points[n], points[first], points[last]), default=0)
        if inner and _away(points[at], points[first], points[last]) > _NEAR:
            kept.add(at)
            waiting += [(first, at), (at, last)]
    return [points[at] for at in sorted(kept)]


def _away(point: Point, start: Point, end: Point) -> float:
    length = math.dist(start, end)
    if not length:
        return math.dist(point, start)
    across = (end[0] - start[0]) * (start[1] - point[1]) - (start[0] - point[0]) * (end[1] - start[1])
    return abs(across) / length


if __name__ == "__main__":
    main()
