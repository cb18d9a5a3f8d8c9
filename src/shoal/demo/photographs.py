"""Develops a scene of the plan into a JPEG: the same scene gives the same picture."""

from __future__ import annotations

from collections.abc import Callable

from shoal.demo import closeups, landscapes, skies, tables, towns
from shoal.demo.canvas import Canvas
from shoal.demo.model import Scene
from shoal.demo.palettes import MOODS, Mood

PAINTERS: dict[str, Callable[[Canvas, Mood], None]] = {
    "mountains": landscapes.mountains,
    "desert": landscapes.desert,
    "snow": landscapes.snow,
    "forest": landscapes.forest,
    "sea": skies.sea,
    "aurora": skies.aurora,
    "stars": skies.stars,
    "city": towns.city,
    "facade": towns.facade,
    "rain": towns.rain,
    "coffee": tables.coffee,
    "fruit": tables.fruit,
    "flowers": closeups.flowers,
    "abstract": closeups.abstract,
}


def photograph(scene: Scene) -> bytes:
    """The photo of a scene as a JPEG, `scene.width` by `scene.height` pixels. A kind or mood that is not listed is a `KeyError`."""
    canvas = Canvas(scene.width, scene.height, scene.seed)
    PAINTERS[scene.kind](canvas, MOODS[scene.kind][scene.mood])
    return canvas.finish()
