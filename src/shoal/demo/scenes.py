"""Which photos people take: kinds by interest, moods, shapes, and the places where such a thing can be seen."""

from __future__ import annotations

from random import Random

from shoal.core.places import Place
from shoal.demo.captions import ALTS, MOOD_ALTS
from shoal.demo.model import Scene
from shoal.demo.palettes import MOODS

KINDS: dict[str, tuple[str, ...]] = {
    "hiking": ("mountains", "mountains", "forest", "snow"),
    "sea": ("sea", "sea", "sea"),
    "travel": ("desert", "sea", "facade", "aurora", "mountains"),
    "stargazing": ("stars", "stars", "aurora"),
    "coffee": ("coffee", "coffee", "rain"),
    "cooking": ("fruit", "fruit", "coffee"),
    "gardening": ("flowers", "flowers", "forest"),
    "city": ("city", "city", "facade", "rain"),
    "art": ("abstract", "abstract", "facade"),
    "books": ("coffee", "rain"),
    "music": ("rain", "city"),
    "cycling": ("mountains", "sea", "forest"),
    "code": ("coffee", "abstract", "city"),
    "animals": ("forest", "snow", "flowers"),
    "photography": ("city", "sea", "facade", "forest", "abstract", "snow", "desert"),
}

FAR_PLACES: dict[str, tuple[Place, ...]] = {
    "mountains": (
        Place(46.56, 7.97),
        Place(46.41, 11.84),
        Place(-50.94, -73.41),
        Place(36.24, 137.65),
        Place(42.64, 0.03),
    ),
    "desert": (Place(31.15, -4.01), Place(-24.73, 15.33), Place(29.58, 35.42), Place(-22.92, -68.29)),
    "aurora": (Place(69.65, 18.96), Place(68.36, 18.82), Place(64.13, -21.9), Place(62.45, -114.37)),
    "snow": (Place(66.5, 25.73), Place(43.34, 142.38), Place(46.02, 7.75)),
    "stars": (Place(28.76, -17.88), Place(-24.63, -70.4), Place(44.19, 7.05), Place(-43.99, 170.46)),
    "sea": (Place(38.69, -9.42), Place(36.39, 25.46), Place(50.07, -5.71), Place(-33.89, 151.27)),
}

SHAPES = ((1280, 853),) * 15 + ((1024, 1280),) * 3 + ((1080, 1080),) * 2
WIDE_KINDS = ("mountains", "sea", "desert", "snow", "stars", "aurora", "city", "forest", "abstract")


def scene(dice: Random, kind: str, mood: str) -> Scene:
    """A new photo of a kind and a mood."""
    width, height = dice.choice(SHAPES)
    alt = f"{ALTS[kind]}, {MOOD_ALTS[mood]}."
    return Scene(kind=kind, mood=mood, seed=dice.randrange(1 << 31), width=width, height=height, alt=alt)


def header(dice: Random, interests: tuple[str, ...]) -> Scene:
    """A header picture, 1500 by 500, to somebody's taste."""
    liked = [kind for interest in interests for kind in KINDS[interest] if kind in WIDE_KINDS]
    kind = dice.choice(liked or WIDE_KINDS)
    mood = dice.choice(tuple(MOODS[kind]))
    return Scene(
        kind=kind,
        mood=mood,
        seed=dice.randrange(1 << 31),
        width=1500,
        height=500,
        alt=f"{ALTS[kind]}, {MOOD_ALTS[mood]}.",
    )


def whereabouts(dice: Random, kind: str, home: Place) -> Place:
    """Where a photo was taken: far away if there is nothing of the kind at home, else a walk from home."""
    spots = FAR_PLACES.get(kind, ())
    spot = dice.choice(spots) if spots and dice.random() < 0.8 else home
    return Place(round(spot.latitude + dice.gauss(0, 0.04), 4), round(spot.longitude + dice.gauss(0, 0.05), 4))
