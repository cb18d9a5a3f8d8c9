"""Messages about a JSON document that is no valid declaration: the place of the error, and what is allowed there.

msgspec names the place, but neither the known fields nor the allowed values of a field. They are looked up in the types of the
declaration, along the path of the error in the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import inspect

_PATH = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>(?:\.[a-z_]+|\[(?:[0-9]{1,9}|\.\.\.)\])*)`\Z")
_STEP = re.compile(r"\.([a-z_]+)|\[([0-9]{1,9}|\.\.\.)\]")
_GIVEN = re.compile(
    r"(?P<before>Invalid (?:enum )?value '|Object contains unknown field `)(?P<given>.*)['`]", re.DOTALL
)
_PLAIN_KEY = re.compile(r"[\w.-]+")
_MOST_CHARACTERS = 60
"""Maximum characters of a given value or key in a message."""


class _Place(NamedTuple):
    path: str
    type: inspect.Type
    value: object


def message_of(error: Exception, document: object, model: type) -> str:
    """Return msgspec's message on a document (JSON text or decoded values), as `path: text; what is allowed`.

    The path is `declaration` for the whole document.
    """
    text, path, steps, of_key = str(error), "", list[re.Match[str]](), False
    if isinstance(error, msgspec.ValidationError) and (found := _PATH.search(text)):
        text, path, of_key = text[: found.start()], found["path"], found["key"] is not None
        steps = list(_STEP.finditer(path))
    if isinstance(document, str | bytes):
        with suppress(msgspec.MsgspecError, RecursionError):
            document = msgspec.json.decode(document)
    places = [_Place("", inspect.type_info(model), document)]
    for step in steps:
        places = [inner for place in places for inner in _inner(place, step)]
    if of_key:
        places = [key for place in places for key in _invalid_keys(place)][:1]
    allowed = ""
    if given := _GIVEN.fullmatch(text):
        if "field" in given["before"]:
            places = [place for place in places if isinstance(place.value, dict) and given["given"] in place.value]
            fields = ", ".join(_fields(places))
            allowed = f"; fields are {fields}" if fields else ""
        elif values := ", ".join(_values(places)):
            allowed = f"; allowed are {values}"
        text = f"{given['before']}{given['given'][:_MOST_CHARACTERS]}{text[-1]}"
    path = places[0].path if len(places) == 1 else path
    return f"{path.lstrip('.') or 'declaration'}: {text}{allowed}"


def key_step(key: object) -> str:
    """Return the step of a path to the value of this key in a mapping: `.key`, or `["key"]` for an unusual key."""
    shown = str(key)[:_MOST_CHARACTERS]
    return f".{shown}" if _PLAIN_KEY.fullmatch(shown) else f"[{json.dumps(shown, ensure_ascii=False)}]"


def _inner(place: _Place, step: re.Match[str]) -> Iterator[_Place]:
    """Iterate over the places to which a step of a path may lead. The path of msgspec does not name the keys of a mapping."""
    name, index = step.groups()
    value = place.value.get(name) if name and isinstance(place.value, dict) else None
    types = _alternatives(place)
    tags = tuple(type_.tag for type_ in types if isinstance(type_, inspect.StructType) and type_.tag_field == name)
    if value is not None and tags and value not in tags:
        yield _Place(f"{place.path}.{name}", inspect.LiteralType(tags), value)
    for type_ in types:
        if name and isinstance(type_, inspect.StructType):
            for field in type_.fields:
                if field.encode_name == name:
                    yield _Place(f"{place.path}.{name}", field.type, value)
        elif index == "..." and isinstance(type_, inspect.DictType) and isinstance(place.value, dict):
            for key, item in place.value.items():
                yield _Place(f"{place.path}{key_step(key)}", type_.value_type, item)
        elif index and isinstance(type_, inspect.VarTupleType) and isinstance(place.value, list | tuple):
            for item in place.value[int(index) : int(index) + 1] if index != "..." else ():
                yield _Place(f"{place.path}[{index}]", type_.item_type, item)


def _invalid_keys(place: _Place) -> Iterator[_Place]:
    """Iterate over the keys of a mapping that are no texts, or that are too short or too long."""
    for type_ in _alternatives(place):
        if not (isinstance(type_, inspect.DictType) and isinstance(place.value, dict)):
            continue
        key_type = type_.key_type
        for key in place.value:
            if not (isinstance(key, str) and isinstance(key_type, inspect.StrType) and _has_length(key, key_type)):
                yield _Place(f"{place.path}{key_step(key)}", key_type, key)


def _has_length(text: str, allowed: inspect.StrType) -> bool:
    return (allowed.min_length or 0) <= len(text) <= (allowed.max_length or len(text))


def _alternatives(place: _Place) -> list[inspect.Type]:
    """Return the types that the value may have; of structs with tags, the one with the tag of the value."""
    types = list(place.type.types) if isinstance(place.type, inspect.UnionType) else [place.type]
    tagged = [type_ for type_ in types if isinstance(type_, inspect.StructType) and type_.tag_field]
    if not tagged or not isinstance(place.value, dict):
        return types
    return [type_ for type_ in tagged if place.value.get(str(type_.tag_field)) == type_.tag] or types


def _fields(places: list[_Place]) -> list[str]:
    for place in places:
        for type_ in _alternatives(place):
            if isinstance(type_, inspect.StructType):
                return [*filter(None, (type_.tag_field,)), *(field.encode_name for field in type_.fields)]
    return []


def _values(places: list[_Place]) -> list[str]:
    """Return the values that a field may have: those of a literal, or the tags of structs."""
    found = [value for place in places if isinstance(place.type, inspect.LiteralType) for value in place.type.values]
    return list(map(str, filter(None, dict.fromkeys(found))))
