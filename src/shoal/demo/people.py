"""Makes the people of a plan: names and handles that go together, a line about themselves, interests, a home and a look."""

from __future__ import annotations

import re
from random import Random
from typing import NamedTuple

from shoal.core.places import Place
from shoal.demo import looks, scenes
from shoal.demo.cultures import BITS, CULTURES, JOBS, Culture
from shoal.demo.model import Person

SUFFIXES = ("draws", "outside", "reads", "makes", "writes", "walks", "on_film", "at_home", "and_co", "elsewhere")


FAIR = ("en", "de", "fr", "sv", "pl", "it")
"""Languages of cultures where hair is often fair."""


class _Name(NamedTuple):
    first: str
    last: str
    shown: str


def people(dice: Random, count: int) -> tuple[Person, ...]:
    """Make this many people, no two with one name; the first is the most widely known."""
    taken: set[str] = set()
    bag: list[Culture] = []
    made = []
    for rank in range(count):
        bag = bag or dice.sample(CULTURES, len(CULTURES))
        made.append(_person(dice, bag.pop(), rank, taken))
    return tuple(made)


def _person(dice: Random, culture: Culture, rank: int, taken: set[str]) -> Person:
    woman = dice.random() < 0.5
    name = _name(dice, culture, woman=woman)
    interests = tuple(dice.sample(tuple(BITS), dice.choice((2, 3, 3, 4))))
    city, latitude, longitude = dice.choice(culture.cities)
    wears = culture.wrap and (culture.wrap == "scarf") == woman and dice.random() < culture.wrapped
    return Person(
        name=_handle(dice, name, interests[0], taken),
        display_name=name.shown
        + (dice.choice((" 🌿", " ✨", " 📷", " 🌊", " ☕", " 🚲")) if dice.random() < 0.12 else ""),
        bio=_bio(dice, city, interests),
        interests=interests,
        language=culture.language,
        home=Place(latitude, longitude),
        weight=round(1 / (rank + 1) ** 0.85, 4),
        look=looks.cast(
            dice,
            culture.tones,
            soft=woman,
            fair=culture.language in FAIR and culture.tones[0] < 2,
            wrapped=culture.wrap if wears else "",
        ),
        header=scenes.header(dice, interests),
    )


def _name(dice: Random, culture: Culture, *, woman: bool) -> _Name:
    first, _, first_shown = dice.choice((culture.women if woman else culture.men).split()).partition("/")
    last, _, last_shown = dice.choice(culture.families.split()).partition("/")
    native = not (first_shown or "a").isascii() and ord((first_shown or "a")[0]) > 0x2FF
    if native and dice.random() < 0.5:
        shown = f"{last_shown}{first_shown}" if culture.family_first else f"{first_shown} {last_shown}"
    elif native:
        shown = f"{first} {last}"
    else:
        shown = f"{first_shown or first} {last_shown or last}" if dice.random() < 0.8 else first_shown or first
    return _Name(first.lower(), last.lower(), shown)


def _handle(dice: Random, name: _Name, interest: str, taken: set[str]) -> str:
    """Return a handle that nobody has; once the pleasant ones are taken, one with a number."""
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
    raise RuntimeError("ten thousand people of one name")


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
