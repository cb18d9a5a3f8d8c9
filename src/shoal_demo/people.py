"""The people of a plan: the authors of posts (`CAST`), then generated ones, with biographies, interests, homes and looks.

`people.toml` has the names and texts.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from shoal.core.places import Place
from shoal_demo.model import Look, Person


class Culture(msgspec.Struct, frozen=True):
    """The names, cities and looks of people with one native language. `tones` is a range of indexes in `SKINS`.

    `wrap` is a scarf for women or a turban for men, and `wrapped` the fraction of people who wear it.
    """

    language: str
    women: str
    men: str
    families: str
    cities: tuple[tuple[str, float, float], ...]
    tones: tuple[int, int]
    wrap: str = ""
    wrapped: float = 0.0
    family_first: bool = False


SKINS = ("#fbdcc4", "#f6cba8", "#eab98f", "#d9a06f", "#c08552", "#9c6440", "#7a4a30", "#5a3524")
"""Skin tones from the lightest to the darkest. A culture has a range of them."""

DARK_HAIR = ("#17141a", "#241a1c", "#33221d", "#1d1a24")
FAIR_HAIR = ("#5b3a24", "#7c4f2a", "#a5682f", "#c98f4a", "#e0b86e", "#b4502a", "#3b2820")
GRAY_HAIR = ("#b9b4b1", "#d8d4d0", "#8e8a8c")
DYED_HAIR = ("#c9577f", "#3f8f8c", "#7a5cc0", "#d97b3a")

SOFT_STYLES = ("long", "waves", "bob", "fringe", "bun", "ponytail", "braids", "curls", "side", "curly")
SHORT_STYLES = (
    "crop",
    "side",
    "quiff",
    "curly",
    "shaggy",
    "crop",
    "side",
    "quiff",
    "shaggy",
    "curly",
    "balding",
    "bun",
)
TIGHT_STYLES = ("afro", "curls", "crop", "braids", "bun")
CLOTHES = ("crew", "vneck", "shirt", "hood", "turtle", "stripes", "blazer", "crew")
CLOTH_COLORS = (
    "#2f5d73",
    "#d9653b",
    "#3f7d5c",
    "#8a3f5f",
    "#e2a83c",
    "#4b4f8f",
    "#c94f4f",
    "#2b3a4f",
    "#6a8f9e",
    "#7d5a8c",
    "#e8e1d3",
    "#b5714a",
)
BACKDROPS = (
    ("#fde2c8", "#f3a98c"), ("#cfe8ea", "#86b9c9"), ("#fbe8a8", "#f2b866"), ("#dcd6f2", "#a79bd6"), ("#d6ecd0", "#8dbf98"),
    ("#fbd3dc", "#e794aa"), ("#cfdcf3", "#8aa6d8"), ("#f1e6d6", "#cdb291"), ("#2f4a68", "#1d2c48"), ("#c9f0e2", "#6cc0aa"),
)  # fmt: skip


def cast(dice: Random, tones: tuple[int, int], *, soft: bool, fair: bool = False, wrapped: str = "") -> Look:
    """Draw a random look with a skin tone from the range `tones` of rows in `SKINS`.

    `soft` selects hairstyles with longer hair, `fair` allows fair hair, and `wrapped` names a scarf or turban to wear.
    """
    tone = dice.randint(*tones)
    elder = dice.random() < 0.14
    tight = tone >= 6 and dice.random() < 0.8
    styles = TIGHT_STYLES if tight else SOFT_STYLES if soft else SHORT_STYLES
    style = dice.choice(styles[:3] if tight and not soft else styles)
    hat = wrapped or (
        dice.choice(("beanie", "cap", "straw"))
        if dice.random() < 0.13 and style not in {"bun", "afro", "quiff"}
        else ""
    )
    beard = "full" if wrapped == "turban" else ""
    if not soft and not beard and dice.random() < 0.5:
        beard = dice.choice(("stubble", "full", "goatee", "full", "stubble", "long"))
    return Look(
        skin=SKINS[tone],
        hair=style,
        hair_color=_hair_color(dice, fair=fair, elder=elder, soft=soft),
        beard=beard,
        glasses=dice.choice(("round", "square", "gold", "red")) if dice.random() < 0.3 else "",
        earrings=soft and dice.random() < 0.5,
        hat=hat,
        clothing=dice.choice(CLOTHES),
        clothing_color=dice.choice(CLOTH_COLORS),
        backdrop=dice.choice(BACKDROPS),
        mouth=dice.choice(("smile", "smile", "grin", "grin", "laugh" if tone < 7 else "grin")),
        soft=soft,
        freckles=fair and dice.random() < 0.2,
        elder=elder,
    )


def _hair_color(dice: Random, *, fair: bool, elder: bool, soft: bool) -> str:
    if elder:
        return dice.choice(GRAY_HAIR)
    if soft and dice.random() < 0.07:
        return dice.choice(DYED_HAIR)
    return dice.choice(FAIR_HAIR if fair else DARK_HAIR)


SUFFIXES = ("draws", "outside", "reads", "makes", "writes", "walks", "on_film", "at_home", "and_co", "elsewhere")


FAIR = ("en", "de", "fr", "sv", "pl", "it")
"""Languages of cultures where fair hair is common."""


class CastMember(msgspec.Struct, frozen=True):
    """An author of posts. The city determines the culture, from which the language, the location and the look follow."""

    name: str
    shown: str
    woman: bool
    city: str
    subject: str
    """The tag of all photos of the author, or of most of their other posts."""
    interests: tuple[str, ...]
    bio: str


SPOKEN = ("es", "pt", "de", "fr", "ja", "ar")
"""Languages of stories besides English. At least two generated people speak each of them."""


class _Cast(msgspec.Struct, frozen=True):
    jobs: tuple[str, ...]
    bits: dict[str, tuple[str, ...]]
    cultures: tuple[Culture, ...]
    cast: tuple[CastMember, ...]


_READ = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Cast)
JOBS, BITS, CULTURES, CAST = _READ.jobs, _READ.bits, _READ.cultures, _READ.cast
_CAST_FAMILIES = {role.name.partition("_")[2] for role in CAST}


class _Name(NamedTuple):
    first: str
    last: str
    shown: str


def people(dice: Random, count: int) -> tuple[Person, ...]:
    """Return people with unique names, the most famous first: those of `CAST`, then generated people."""
    taken = {role.name for role in CAST}
    bag = [culture for culture in CULTURES if culture.language in SPOKEN] * 2
    made = []
    for rank in range(count):
        if rank < len(CAST):
            made.append(_of_cast(dice, CAST[rank], rank))
            continue
        bag = bag or dice.sample(CULTURES, len(CULTURES))
        made.append(_generated(dice, bag.pop(), rank, taken))
    return tuple(made)


def _of_cast(dice: Random, role: CastMember, rank: int) -> Person:
    culture = next(one for one in CULTURES if any(city == role.city for city, *_ in one.cities))
    home = next(Place(*where) for city, *where in culture.cities if city == role.city)
    return Person(
        name=role.name,
        display_name=role.shown,
        bio=role.bio,
        interests=role.interests,
        language=culture.language,
        home=home,
        weight=_fame(rank),
        look=_look(dice, culture, woman=role.woman),
    )


def _generated(dice: Random, culture: Culture, rank: int, taken: set[str]) -> Person:
    woman = dice.random() < 0.5
    name = _name(dice, culture, woman=woman)
    interests = tuple(dice.sample(tuple(BITS), dice.choice((2, 3, 3, 4))))
    city, latitude, longitude = dice.choice(culture.cities)
    return Person(
        name=_handle(dice, name, interests[0], taken),
        display_name=name.shown
        + (dice.choice((" 🌿", " ✨", " 📷", " 🌊", " ☕", " 🚲")) if dice.random() < 0.12 else ""),
        bio=_bio(dice, city, interests),
        interests=interests,
        language=culture.language,
        home=Place(latitude, longitude),
        weight=_fame(rank),
        look=_look(dice, culture, woman=woman),
    )


def _fame(rank: int) -> float:
    return round(1.0 / math.pow(rank + 1, 0.85), 4)


def _look(dice: Random, culture: Culture, *, woman: bool) -> Look:
    wears = culture.wrap and (culture.wrap == "scarf") == woman and dice.random() < culture.wrapped
    return cast(
        dice,
        culture.tones,
        soft=woman,
        fair=culture.language in FAIR and culture.tones[0] < 2,
        wrapped=culture.wrap if wears else "",
    )


def _name(dice: Random, culture: Culture, *, woman: bool) -> _Name:
    first, _, first_shown = dice.choice((culture.women if woman else culture.men).split()).partition("/")
    families = [name for name in culture.families.split() if name.partition("/")[0].lower() not in _CAST_FAMILIES]
    last, _, last_shown = dice.choice(families).partition("/")
    native = not (first_shown or "a").isascii() and ord((first_shown or "a")[0]) > 0x2FF
    if native and dice.random() < 0.5:
        shown = f"{last_shown}{first_shown}" if culture.family_first else f"{first_shown} {last_shown}"
    elif native:
        shown = f"{first} {last}"
    else:
        shown = f"{first_shown or first} {last_shown or last}" if dice.random() < 0.8 else first_shown or first
    return _Name(first.lower(), last.lower(), shown)


def _handle(dice: Random, name: _Name, interest: str, taken: set[str]) -> str:
    """Return an unused handle, with a number if all handles without a number are taken."""
    first, last, _ = name
    ideas = [
        f"{first}_{last}", f"{first}{last}", f"{first}_{dice.choice(SUFFIXES)}", f"{first[0]}{last}", f"{first}.{interest}",
        f"{last}_{first}", f"{first}{dice.randint(71, 99)}", f"{first}_{last[0]}", f"hello_{first}", f"just_{first}",
    ]  # fmt: skip
    for idea in (*dice.sample(ideas[:6], 4), *ideas, *(f"{first}_{last}{number}" for number in range(2, 10_000))):
        handle = re.sub(r"[^a-z0-9_]", "_", idea)[:30]
        if handle not in taken:
            taken.add(handle)
            return handle
    raise RuntimeError("more than 10,000 members share a name")


def _bio(dice: Random, city: str, interests: tuple[str, ...]) -> str:
    job, one, other = dice.choice(JOBS), dice.choice(BITS[interests[0]]), dice.choice(BITS[interests[1]])
    line = dice.choice((
        f"{job} in {city}. {_capital(one)}, {other}.",
        f"{_capital(one)}. {_capital(other)}.",
        f"{city} · {job.lower()} · {one}",
        f"{job} by day. {_capital(one)}.",
        f"{_capital(other)}, and {one}. 📍 {city}",
        f"{_capital(one)}.",
        f"{job}, {city}. Mostly {interests[0]} and {interests[1]}.",
        f"Posts about {interests[0]}, {interests[1]} and {interests[-1] if len(interests) > 2 else 'the weather'}.",
    ))  # fmt: skip
    return re.sub(r"([^\w\s)])\.$", r"\1", line)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
