"""The index of posts of a kind: the lists that contain a post, and the lists that a filter reads.

Each list has posts in the order of their ids, so a filtered feed is a merge of lists, newest first, and its cursor is an id. A post
is in one list for each term of a value:

- A text or truth value has one term.
- A number or time is rounded to 24 bits that keep the order, and has one term for each prefix of 4, 8, ... 24 bits. A range is
  covered by the fewest prefixes; if more than `MAX_LISTS` are needed, the prefixes at its ends are shorter and cover more.
- A place has the H3 cells of three sizes (`places`).
- A pair of properties has a term for each combination of their terms.

The lists contain every post that matches, and some that do not. Readers compare the data of the post with the filter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from typing import Literal, NamedTuple, get_args

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.places import DEFAULT_RADIUS_KM, Disk, Place, cells_of, cover, disk

IndexType = Literal["string", "number", "boolean", "time", "geo"]
INDEX_TYPES: tuple[IndexType, ...] = get_args(IndexType)

MAX_LISTS = 40
"""Maximum lists that a filter reads."""
MAX_VALUES = 10
"""Maximum values of a set."""
MAX_INDEXED = 8
MAX_PAIRS = 4
_LEVELS = 6
"""Prefixes of a number or time; each has 4 bits more than the one before."""
_BITS = 4
_CODES = 1 << _BITS * _LEVELS

Value = str | float | bool | Place
"""The value of an indexed property. A time is in Unix milliseconds."""


class Range(NamedTuple):
    """A range of numbers, or of times in Unix milliseconds, with both ends; None for no end."""

    low: float | None
    high: float | None

    def has(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


Selection = tuple[Value, ...] | Range | Disk
"""The selected values of a property: one of several, a range, or a circle on the map."""


class Filter(NamedTuple):
    path: str
    type: IndexType
    selection: Selection

    def admits(self, raw: object) -> bool:
        """Return whether the value at the path of a post's data, or None for none, is selected."""
        value = indexed_value(self.type, raw)
        if value is None:
            return False
        if isinstance(self.selection, Disk):
            return isinstance(value, Place) and self.selection.has(value)
        if isinstance(self.selection, Range):
            return self.selection.has(value)
        return value in self.selection


def indexed_value(type_: IndexType, raw: object) -> Value | None:
    """Return a JSON value as the type of its index; None if it has another type."""
    match type_, raw:
        case "boolean", bool():
            return raw
        case ("number", bool()) | ("time", bool()):
            return None
        case "number", int() | float():
            return raw
        case "string", str():
            return raw
        case "time", str():
            return moment_of(raw)
        case "geo", {"latitude": int() | float() as latitude, "longitude": int() | float() as longitude}:
            is_valid = abs(latitude) <= 90 and abs(longitude) <= 180 and bool not in (type(latitude), type(longitude))
            return Place(float(latitude), float(longitude)) if is_valid else None
    return None


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_LEAP_SECOND = re.compile(r":60(?:\.\d+)?(?=Z|[+-]|$)")


def moment_of(text: str) -> int | None:
    """Return a date, or a date with a time (RFC 3339), in Unix milliseconds; None for another text. The default zone is UTC."""
    text = text.upper()
    if not _MOMENT.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(_LEAP_SECOND.sub(":59.999", text))
    except ValueError:
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000)


# Codes of numbers and times

_OCTAVES = 64
_LEAST_EXPONENT = -19
_MANTISSA = 1 << 17
_HALF = _CODES // 2
_TIME_START = datetime(1900, 1, 1, tzinfo=UTC).timestamp() * 1_000
_TIME_STEP_MS = 16 * 60_000


def number_code(value: float) -> int:
    """Return 24 bits in the order of numbers: the sign, 6 bits of exponent and 17 of mantissa.

    Numbers below 2^-20 or from 2^44 on, in absolute value, have the code of these limits.
    """
    try:
        fraction, exponent = math.frexp(abs(value))
    except OverflowError:
        fraction, exponent = 0.5, 1_024
    octave = exponent - _LEAST_EXPONENT
    if not fraction or octave < 0:
        magnitude = 0
    elif octave >= _OCTAVES:
        magnitude = _HALF - 1
    else:
        magnitude = octave * _MANTISSA + int((fraction - 0.5) * 2 * _MANTISSA)
    return _HALF + magnitude if value >= 0 else _HALF - 1 - magnitude


def time_code(moment: float) -> int:
    """Return 24 bits in the order of times: the steps of 16 minutes from 1900 to 2410, to which other times are clamped."""
    return min(max(0, int((moment - _TIME_START) // _TIME_STEP_MS)), _CODES - 1)


def _code(type_: IndexType, value: float) -> int:
    return time_code(value) if type_ == "time" else number_code(value)


def _prefix(code: int, level: int) -> str:
    return f"{level}:{code >> _BITS * (_LEVELS - level):x}"


def covering(low: int, high: int, most: int) -> list[str]:
    """Return at most `most` (16 or more) prefixes that together contain the codes from `low` to `high`, and few others."""
    whole: list[tuple[int, int]] = []
    partial: list[int] = [0]
    for level in range(1, _LEVELS + 1):
        shift = _BITS * (_LEVELS - level)
        inner, crossing = [], []
        for child in (parent << _BITS | digit for parent in partial for digit in range(1 << _BITS)):
            first, last = child << shift, (child + 1 << shift) - 1
            if low <= first and last <= high:
                inner.append((level, child))
            elif first <= high and last >= low:
                crossing.append(child)
        if level > 1 and len(whole) + len(inner) + len(crossing) > most:
            return [f"{at}:{prefix:x}" for at, prefix in (*whole, *((level - 1, each) for each in partial))]
        whole, partial = [*whole, *inner], crossing
    return [f"{at}:{prefix:x}" for at, prefix in (*whole, *((_LEVELS, each) for each in partial))]


# Terms


def _terms_of_value(type_: IndexType, value: Value) -> tuple[str, ...]:
    if isinstance(value, Place):
        return cells_of(value)
    if type_ in ("number", "time") and isinstance(value, int | float):
        code = _code(type_, value)
        return tuple(_prefix(code, level) for level in range(1, _LEVELS + 1))
    return (_exact(value),)


def _exact(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _selected_terms(filter_: Filter, most: int) -> list[str]:
    """Return the terms of the lists that contain all selected values."""
    type_, selection = filter_.type, filter_.selection
    if isinstance(selection, Disk):
        return list(cover(selection))
    if isinstance(selection, Range):
        low = 0 if selection.low is None else _code(type_, selection.low)
        high = _CODES - 1 if selection.high is None else _code(type_, selection.high)
        return covering(low, high, most) if low <= high else []
    return list(dict.fromkeys(_terms_of_value(type_, value)[-1] for value in selection))


def kind_name(kind: str) -> str:
    """Return the name of the list of all public posts of a kind."""
    return _exact([kind])


def author_name(kind: str, author_id: int) -> str:
    """Return the name of the list of a member's posts of a kind, whatever their visibility."""
    return _exact([kind, author_id])


def _value_name(kind: str, path: str, term: str) -> str:
    return _exact([kind, path, term])


def _pair_name(kind: str, paths: tuple[str, str], terms: tuple[str, str]) -> str:
    return _exact([kind, *paths, *terms])


def names_of(
    kind: str, index: Mapping[str, IndexType], pairs: Sequence[tuple[str, str]], values: Mapping[str, object]
) -> Iterator[str]:
    """Yield the names of the lists of the values of a post, by path. `values` has raw JSON values."""
    terms: dict[str, tuple[str, ...]] = {}
    for path, type_ in index.items():
        value = indexed_value(type_, values.get(path))
        terms[path] = () if value is None else _terms_of_value(type_, value)
        yield from (_value_name(kind, path, term) for term in terms[path])
    for pair in pairs:
        first, second = (terms[path] for path in pair)
        yield from (_pair_name(kind, pair, both) for both in product(first[-1:], second))


def selected_names(kind: str, filters: Sequence[Filter], pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of the lists, at most `MAX_LISTS`, that contain all posts that match one filter, or two of a declared pair.

    Raises `InvalidInput` for filters that would read more lists, and for filters that no list covers.
    """
    if len(filters) == 1:
        (only,) = filters
        return [_value_name(kind, only.path, term) for term in _selected_terms(only, MAX_LISTS)]
    by_path = {each.path: each for each in filters}
    pair = next((pair for pair in pairs if set(pair) == by_path.keys()), None)
    if pair is None:
        declared = ", ".join(map(" and ".join, pairs)) or "none"
        raise InvalidInput(
            f"filter: {' and '.join(by_path)} are no declared pair of the kind {kind} (pairs: {declared})",
            field="filter",
        )
    first, second = (by_path[path] for path in pair)
    if isinstance(first.selection, Range | Disk):
        raise InvalidInput(f"filter: with {second.path}, {first.path} takes values, not a range", field="filter")
    ones = _selected_terms(first, MAX_LISTS)
    if isinstance(second.selection, Range | Disk) and len(ones) > 1:
        raise InvalidInput(f"filter: with a range of {second.path}, {first.path} takes a single value", field="filter")
    others = _selected_terms(second, MAX_LISTS)
    if len(ones) * len(others) > MAX_LISTS:
        found = len(ones) * len(others)
        raise InvalidInput(f"filter: at most {MAX_LISTS} combinations of values (got {found})", field="filter")
    return [_pair_name(kind, pair, both) for both in product(ones, others)]


# Selections in requests


def selection_of(path: str, type_: IndexType, given: object) -> Selection:
    """Return what a caller selects of a property: a value, a list of values, a pair of limits, a `Disk`, or one of these as text.

    Texts are a value, `low..high` with an optional end, and `latitude,longitude,radius_km`. Raises `InvalidInput`.
    """
    if isinstance(given, Disk) and type_ == "geo":
        return given
    if type_ == "geo":
        return _disk(path, given)
    if type_ in ("number", "time"):
        if isinstance(given, str) and ".." in given:
            low, _, high = given.partition("..")
            given = (low or None, high or None)
        if isinstance(given, tuple):
            if len(given) != 2:
                raise _refused(path, "must be a range with two ends", given)
            return Range(*(None if each is None else _number(path, type_, each) for each in given))
    several = list(given) if isinstance(given, list | set | frozenset) else [given]
    if not 1 <= len(several) <= MAX_VALUES:
        raise InvalidInput(f"filter: {path} takes 1 to {MAX_VALUES} values (got {len(several)})", field="filter")
    return tuple(_single(path, type_, each) for each in several)


def _single(path: str, type_: IndexType, given: object) -> Value:
    if type_ in ("number", "time"):
        return _number(path, type_, given)
    if type_ == "boolean":
        if given in (True, "true"):
            return True
        if given in (False, "false"):
            return False
        raise _refused(path, "must be true or false", given)
    if not isinstance(given, str):
        raise _refused(path, "must be a text", given)
    return given


def _number(path: str, type_: IndexType, given: object) -> float:
    if isinstance(given, datetime) and type_ == "time":
        return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1_000)
    if type_ == "time" and isinstance(given, str) and (moment := moment_of(given)) is not None:
        return moment
    if type_ == "number" and isinstance(given, int | float | str) and not isinstance(given, bool):
        # Texts are read like the data of posts: integers of any size are exact, and there is no "nan".
        with suppress(msgspec.DecodeError):
            number = msgspec.json.decode(given, type=int | float) if isinstance(given, str) else given
            if isinstance(number, int) or math.isfinite(number):
                return number
    raise _refused(path, "must be a number" if type_ == "number" else "must be a date or time (RFC 3339)", given)


def _disk(path: str, given: object) -> Disk:
    try:
        parts = [float(part) for part in given.split(",")] if isinstance(given, str) else []
    except ValueError:
        parts = []
    if len(parts) not in (2, 3):
        raise _refused(path, "must be latitude,longitude,radius_km", given)
    try:
        return disk(parts[0], parts[1], parts[2] if len(parts) == 3 else DEFAULT_RADIUS_KM)
    except InvalidInput as error:
        raise InvalidInput(f"filter: {path}: {error}", field="filter") from None


def _refused(path: str, words: str, given: object) -> InvalidInput:
    return InvalidInput(f"filter: {path} {words} (got {str(given)[:60]!r})", field="filter")
