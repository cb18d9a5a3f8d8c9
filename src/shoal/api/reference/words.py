"""A JSON Schema in words: what a value is, and how large it may be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from shoal.api.reference.openapi_schemas import REF, Schema

_WORDS: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}
_HUGE: Final = 10**15
"""A bound that nobody meets is not worth telling."""


_QUOTED: Final = re.compile(r"`([^`]+)`")


def prose(text: str) -> str:
    """A sentence as HTML: what stands in backticks is code."""
    return _QUOTED.sub(r"<code>\1</code>", escape(text))


def kind_of(schema: Schema, *, taken: bool = False) -> str:
    """Return a value's type as HTML, with a link for a shape. "or null" is left out for parameters (`taken`)."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(REF))
        return f'<a class="kind" href="#shape-{name}">{name}</a>'
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if not (taken and each == {"type": "null"})]
        return " or ".join(map(kind_of, kinds))
    first, *rest = _types(schema)
    return f"{_first_kind(first, schema)}{' or null' if rest and not taken else ''}"


def _types(schema: Schema) -> list[str]:
    kinds = schema.get("type", "anything")
    return [kinds] if isinstance(kinds, str) else kinds


def _first_kind(kind: str, schema: Schema) -> str:
    if "enum" in schema:
        return " ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"] if value is not None)
    if kind == "array":
        return f"list of {kind_of(schema['items'])}"
    if "additionalProperties" in schema:
        return f"object of {kind_of(schema['additionalProperties'])}"
    if schema.get("format") == "binary":
        return "file"
    if "pattern" in schema:
        return "id"
    return _WORDS.get(kind, kind)


def bounds_of(schema: Schema) -> str:
    """How large a value may be, as text; empty where its kind says all."""
    found = []
    if "maxLength" in schema:
        found.append(f"at most {schema['maxLength']:,} characters")
    if "maxItems" in schema:
        found.append(f"at most {schema['maxItems']:,} items")
        found.append(bounds_of(schema["items"]) and f"each {bounds_of(schema['items'])}")
    if "maximum" in schema and schema["maximum"] < _HUGE:
        found.append(f"{schema.get('minimum', 0):,} to {schema['maximum']:,}")
    return ", ".join(filter(None, found))


def rows_of(schema: Schema, before: str = "") -> Iterator[tuple[str, Schema, str, bool]]:
    """Each field of a body as a form writes it (`poll[options][]`): name, schema, sentence, and whether it is needed."""
    needed = schema.get("required", ())
    for key, inner in schema["properties"].items():
        name = f"{before}[{key}]" if before else key
        is_list = _is(inner, "array")
        held = inner["items"] if is_list else inner
        if "properties" in _plain(held):
            yield from rows_of(_plain(held), f"{name}[]" if is_list else name)
        else:
            yield f"{name}[]" if is_list else name, inner, inner.get("description", ""), not before and key in needed


def _is(schema: Schema, kind: str) -> bool:
    kinds = schema.get("type", "")
    return kind == kinds or kind in kinds


def _plain(schema: Schema) -> Schema:
    """The schema, or the one of several that is an object."""
    return next((each for each in schema.get("anyOf", ()) if "properties" in each), schema)
