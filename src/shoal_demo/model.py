"""The values of a demo plan (people, posts, follows, likes, shares), and the photos that people take, with their colors.

People and posts are referred to by their index in the plan. Times are Unix milliseconds, UTC.

Colors are `rrggbb`. `sky` is a gradient from the top of the picture down; `far` is the color of the distance (haze), and `near`
that of the foreground; `light` is the color of light sources.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec

from shoal.core.model import Visibility
from shoal.core.places import Place
from shoal_demo.texts import ALTS, MOOD_ALTS


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The properties that a portrait is drawn from; each word is a key in the tables of `people` and `portraits`."""

    skin: str
    hair: str
    hair_color: str
    beard: str = ""
    glasses: str = ""
    earrings: bool = False
    hat: str = ""
    clothing: str = "crew"
    clothing_color: str = "#3d5a80"
    backdrop: tuple[str, str] = ("#f6d5c0", "#e8a598")
    mouth: str = "smile"
    soft: bool = False
    """Lashes, thinner brows and slightly colored lips."""
    freckles: bool = False
    elder: bool = False


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a photo, which `photographs.photograph` renders."""

    kind: str
    mood: str
    seed: int
    width: int = 1280
    height: int = 853
    alt: str = ""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the network. `weight` is the relative fame, 1 for the most famous."""

    name: str
    display_name: str
    bio: str
    interests: tuple[str, ...]
    language: str
    """Their language besides English."""
    home: Place
    weight: float
    look: Look
    header: Scene


class PlannedPost(msgspec.Struct, frozen=True, kw_only=True):
    """A post, or a comment on the earlier post with index `parent`."""

    author: int
    moment: int
    text: str
    language: str = "en"
    visibility: Visibility = Visibility.PUBLIC
    scenes: tuple[Scene, ...] = ()
    place: Place | None = None
    parent: int | None = None


class DemoPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole network. Carry out `people`, `follows` and `posts` in this order."""

    people: tuple[Person, ...]
    follows: tuple[tuple[int, int], ...]
    """(follower, followed)."""
    posts: tuple[PlannedPost, ...]
    likes: tuple[tuple[int, int], ...]
    """(member, post)."""
    shares: tuple[tuple[int, int, int], ...]
    """(member, post, moment)."""


class Mood(NamedTuple):
    sky: str
    far: str
    near: str
    light: str


MOODS: dict[str, dict[str, Mood]] = {
    "mountains": {
        "dusk": Mood("2c2f63 6a4b8a c96f8c f2a07b ffd3a0", "b97f9d", "191731", "ffd9a6"),
        "dawn": Mood("5b8cc0 9fc0dc f3d3b4 ffe7c4", "aebfd6", "1f3448", "fff0cc"),
        "blue": Mood("0e2348 1d4374 4b7dae a6c6dc", "7fa3c6", "08152b", "e6f0ff"),
        "storm": Mood("3d4857 6d7a88 a3acb0 d6d2c4", "939ea6", "1b242b", "fff3d6"),
    },
    "sea": {
        "sunset": Mood("2b3467 7d4f8b e0706f ff9e5e ffd38a", "b8607a", "1a1f45", "fff0c0"),
        "moon": Mood("050b22 0d1e47 234073 4a6a9c", "2c4a7c", "040916", "eef4ff"),
        "noon": Mood("2f7fc4 6db0e0 b5dcef e6f3f2", "5fb4c6", "0f4f76", "ffffff"),
        "mist": Mood("8fa3b0 b4c2c8 d8dcd8 efe7da", "aebcc0", "3f5866", "fff6e0"),
    },
    "city": {
        "night": Mood("070b1f 111a3d 2a2f63 5d4a7c", "3a3d72", "080a18", "ffd27a"),
        "dusk": Mood("1d2a5c 5b4b8c c66a86 f9a66c", "8a5f8f", "151633", "ffd894"),
        "blue": Mood("0a1a3c 17376b 356299 7fa4c4", "3c648f", "071228", "ffe0a0"),
    },
    "forest": {
        "green": Mood("cfe6b8 b6d69a 8fbf7e 6da468", "a9cf96", "12301f", "fdffd9"),
        "autumn": Mood("f6dcae f0c07c d99550 b9713a", "e3b070", "32190f", "fff2c4"),
        "fog": Mood("dbe2e2 c8d3d4 aebdc0 93a6aa", "c3cfd1", "1d2a2f", "ffffff"),
    },
    "desert": {
        "gold": Mood("4f8fc7 9cc4dc f0dcb8 ffe6b8", "e9b878", "8f4a1f", "fff2cf"),
        "rose": Mood("3b3a74 8c5f96 e58f92 ffc79f", "d98a7f", "54243a", "ffdcb0"),
        "night": Mood("070d26 14224d 2f4478 5f6f9f", "56648c", "11162e", "e8eeff"),
    },
    "coffee": {
        "oak": Mood("c79a68 a97845", "f3ece2", "5a341b", "fff4e0"),
        "slate": Mood("5a6168 3b4147", "e9e6df", "191c20", "ffffff"),
        "linen": Mood("ece4d6 d6cab6", "5f8f8a", "7a6a55", "fffaf0"),
    },
    "fruit": {
        "oranges": Mood("2f5d62 1e3f45", "f08a24", "16292d", "fff0cc"),
        "lemons": Mood("7fb2c9 5b93b0", "f6cf3a", "2d5063", "fffbe0"),
        "plums": Mood("d9c2a6 bd9f7d", "5b3a78", "4b3323", "fff0e6"),
        "apples": Mood("e7dccb cdbda4", "c5322f", "5b4632", "fff6e6"),
    },
    "flowers": {
        "pink": Mood("6f9a63 3f6b46 21412f", "e8799a", "7d2348", "ffe3ea"),
        "yellow": Mood("5e8f9a 3d6b6b 1f3f3c", "f4bd3b", "a8540f", "fff6d0"),
        "white": Mood("4f6f8f 37506e 1d2c44", "f2efe6", "b9b39a", "ffffff"),
        "violet": Mood("93a86b 5f7f4f 2f4a35", "8f6bc9", "3d2470", "efe3ff"),
    },
    "aurora": {
        "green": Mood("040a1c 08203a 0f3d4d 1f5a5a", "123a45", "030710", "5dffa8"),
        "violet": Mood("080620 1b1146 352765 4b4a7c", "2a2458", "05040f", "7dffc8"),
    },
    "rain": {
        "amber": Mood("0d1220 1d1f2e 2b2229", "ffab4d", "05070d", "ffd9a0"),
        "neon": Mood("0a0c22 1a1440 2a1440", "ff5fa2", "04040f", "7fd8ff"),
        "dawn": Mood("566274 7f8793 a99b98", "ffd0a0", "2b333f", "fff1dd"),
    },
    "snow": {
        "bright": Mood("4f93d0 8fbfe4 cfe4f0 f4f6f2", "c3d6e8", "2b4763", "ffffff"),
        "pink": Mood("6f7db8 b69fca f0bfc4 fde0c8", "d7bfd3", "41406b", "fff0e0"),
        "blue": Mood("0f2044 274a7c 5f86b0 a9c2d8", "7f9dc0", "10203c", "ffd890"),
    },
    "abstract": {
        "ember": Mood("1a0b12 6a1b2a d4502e ffb35c fff0c8", "ff8a3d", "12060c", "fff2d0"),
        "ocean": Mood("061326 0f4560 1f8f9a 8fd8c4 f4f6e4", "2fb0b0", "030a16", "ffffff"),
        "orchid": Mood("150b2e 4a2478 b04fa0 f59fb4 fdf0e6", "c06fd0", "0d061f", "ffeaf6"),
        "stone": Mood("23272b 565b5c 9a958a d5ccb8 f6f1e4", "b0a890", "15181b", "ffffff"),
    },
    "facade": {
        "ochre": Mood("3f8fd2 8fc0e6", "e3a957", "7a3f22", "fff1cc"),
        "white": Mood("2f7fcf 7fb8e8", "f1ede3", "2c6ea0", "fffaf0"),
        "rose": Mood("5f9fd0 b0d2e6", "df8f86", "3f6f5c", "fff0e0"),
        "concrete": Mood("aab4bc d0d6d8", "a9a9a3", "3b4046", "ffffff"),
    },
    "stars": {
        "milky": Mood("050818 0b1433 1a2650 34406f", "8f8fd0", "03040b", "ffe9c8"),
        "teal": Mood("031018 072635 10485a 2a6c74", "7fc0c4", "02070b", "fff0d8"),
        "dusk": Mood("0b0f2e 1f2358 4c3a78 a0597c", "a890c8", "080616", "ffe0b0"),
    },
}


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


def scene(dice: Random, kind: str, mood: str, size: tuple[int, int] | None = None) -> Scene:
    """Return a photo; without a size, one of the usual shapes."""
    width, height = size or dice.choice(SHAPES)
    alt = f"{ALTS[kind]}, {MOOD_ALTS[mood]}."
    return Scene(kind=kind, mood=mood, seed=dice.randrange(1 << 31), width=width, height=height, alt=alt)


def header(dice: Random, interests: tuple[str, ...]) -> Scene:
    """Return a header picture of 1500 by 500 pixels that suits the interests."""
    liked = [kind for interest in interests for kind in KINDS[interest] if kind in WIDE_KINDS]
    kind = dice.choice(liked or WIDE_KINDS)
    return scene(dice, kind, dice.choice(tuple(MOODS[kind])), (1500, 500))


def whereabouts(dice: Random, kind: str, home: Place) -> Place:
    """Return where a photo was taken: usually far away if `FAR_PLACES` lists places for its kind, else near home."""
    spots = FAR_PLACES.get(kind, ())
    spot = dice.choice(spots) if spots and dice.random() < 0.8 else home
    return Place(round(spot.latitude + dice.gauss(0, 0.04), 4), round(spot.longitude + dice.gauss(0, 0.05), 4))
