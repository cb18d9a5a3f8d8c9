"""Errors of msgspec, reworded for the sender of a request: which field is wrong, and what is allowed in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import inspect

from shoal.api.http.errors import Malformed
from shoal.core.errors import InvalidInput

_AT = " - at `$"
_INDEX = re.compile(r"\[[^\[\]]*\]")
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "Upload": "a file",
    "datetime": "a date and time as in ISO 8601",
}
_UNITS = {"str": "characters", "array": "items", "object": "items"}
_BOUNDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}


def refusal(said: str, struct: type[Any]) -> InvalidInput:
    """Return the error for a sentence of msgspec about a value of `struct`; a missing field is `Malformed`, as in Mastodon."""
    # The text may quote the value, which may look like a path.
    text, at, path = said.rpartition(_AT)
    text, path = (text, path.removesuffix("`").removeprefix(".")) if at else (said, "")
    if missing := re.match(r"Object missing required field `(.+)`", text):
        field = f"{path}.{missing[1]}".lstrip(".")
        return Malformed(f"{field} is missing", field=field)
    field = path or "the request"
    return InvalidInput(f"{field} {_allowed(text, _INDEX.sub('', path), struct)}", field=field)


def _allowed(text: str, path: str, struct: type[Any]) -> str:
    if text.startswith("Invalid enum value"):
        return f"must be one of {', '.join(_choices(struct).get(path, ()))}"
    if match := re.match(r"Expected `(\w+)` of length (<=|>=) (\d+)", text):
        return f"must have {_BOUNDS[match[2]]} {match[3]} {_UNITS.get(match[1], 'items')}"
    if match := re.match(r"Expected `\w+` (<=|>=|<|>) (\S+)", text):
        return f"must be {_BOUNDS[match[1]]} {match[2]}"
    if match := re.match(r"Expected `(\w+)", text):
        return f"must be {_KINDS.get(match[1], 'of another kind')}"
    return "is malformed"


def _choices(struct: type[Any]) -> Mapping[str, tuple[str, ...]]:
    """Map the path of each field with a fixed set of values to these values."""
    found: dict[str, tuple[str, ...]] = {}
    _collect(inspect.type_info(struct), "", found)
    return found


def _collect(info: inspect.Type, path: str, found: dict[str, tuple[str, ...]]) -> None:
    if isinstance(info, inspect.StructType):
        for field in info.fields:
            _collect(field.type, f"{path}.{field.encode_name}".lstrip("."), found)
    elif isinstance(info, inspect.EnumType):
        found[path] = tuple(str(member.value) for member in info.cls)
    elif isinstance(info, inspect.LiteralType):
        found[path] = tuple(map(str, info.values))
    elif isinstance(info, inspect.UnionType):
        for kind in info.types:
            _collect(kind, path, found)
    elif item := getattr(info, "item_type", None):
        _collect(item, path, found)
