"""Places as text, and places typed into a form.

A server without the names of towns (`gazetteer.installed`) shows and reads coordinates instead.
"""

from __future__ import annotations

import asyncio
import re

from shoal import gazetteer
from shoal.core.errors import InvalidInput
from shoal.core.places import Location, Place, checked_place
from shoal.gazetteer import country_name
from shoal.i18n import Translated

_NUMBER = r"([+-]?\d{1,3}(?:[.,]\d{1,20})?(?:e-\d{1,2})?)"
_COORDINATES = re.compile(rf"\s*{_NUMBER}(?:\s*[,;]\s*|\s+){_NUMBER}\s*", re.ASCII)


def place_words(words: Translated, place: Place) -> str:
    """Return the place as the name of its town.

    If no town is known, return its coordinates to a hundredth of a degree (about a kilometer).
    """
    if label := town_label(words, place):
        return words.text("Near %(town)s") % {"town": label}
    return _coordinates(words, place)


def town_label(words: Translated, place: Place) -> str:
    """Return the town of a place, such as "Palermo, Italy"; empty if no town is known."""
    towns = gazetteer.installed()
    town = towns.town_near(place) if towns is not None else None
    return town.label(words.code) if town is not None else ""


def location_label(words: Translated, location: Location | None) -> str:
    """Return the place where a member lives, such as "Palermo, Italy" or "India"; empty if it is unknown."""
    if location is None:
        return ""
    country = country_name(location.country, words.code)
    return f"{location.town}, {country}" if location.town else country


def _coordinates(words: Translated, place: Place) -> str:
    _ = words.text
    north = _("%(n)s° N") if place.latitude >= 0 else _("%(n)s° S")
    east = _("%(n)s° E") if place.longitude >= 0 else _("%(n)s° W")
    return f"{north % {'n': f'{abs(place.latitude):.2f}'}}, {east % {'n': f'{abs(place.longitude):.2f}'}}"


def as_typed(place: Place | None) -> str:
    """Return coordinates in the format that `place_typed` parses; empty for no place."""
    return f"{place[0]!r}, {place[1]!r}" if place is not None else ""


async def place_typed(words: Translated, text: str, at: str = "") -> Place | None:
    """Return the place in a form's text; None for an empty text.

    `at` contains coordinates from a map, a device or an earlier form. They are used if this server would describe them
    by the same text. Raises `TooLarge` for a long text, and `InvalidInput` for an unknown town and for coordinates out
    of range.
    """
    if not text.strip():
        return None
    if (place := coordinates_typed(text)) is not None:
        return place
    if (exact := coordinates_typed(at)) is not None and town_label(words, exact) == text.strip():
        return exact
    if (towns := gazetteer.installed()) is None:
        raise InvalidInput("place: enter latitude and longitude in degrees, such as 45.44, 12.32", field="place")
    return (await asyncio.to_thread(towns.town, text, words.code, field="place")).place


def coordinates_typed(text: str) -> Place | None:
    """Parse a pair of coordinates; None for any other text. Raises `InvalidInput` if they are out of range."""
    found = _COORDINATES.fullmatch(text)
    return checked_place((_degrees(found[1]), _degrees(found[2]))) if found else None


def _degrees(text: str) -> float:
    return float(text.replace(",", "."))
