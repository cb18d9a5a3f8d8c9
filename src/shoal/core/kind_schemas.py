"""JSON Schemas (2020-12) of kinds: accepted schemas, validation of data, and compatible changes.

An accepted schema has bounded costs: references only lead to `$defs` and never back to themselves, so it expands to a finite tree,
and patterns have the syntax of the Rust crate `regex`, which matches in linear time.

A new schema is compatible if it accepts everything that the old schema accepts. The comparison is conservative: it accepts a change
only if a rule below proves it. Both schemas are compared in expanded form, without references and annotations.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from itertools import count
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, Unfit

MAX_SCHEMA_BYTES = 64 * 1024
MAX_NODES = 2_000
"""Maximum subschemas of a schema, counting a referenced one at each reference."""
MAX_DEPTH = 32
MAX_STEPS = 50_000
"""Maximum steps of a comparison of two schemas: about half a second."""
_PATTERN_BYTES = 1 << 18
"""Maximum memory of a compiled pattern."""
_SHOWN = 60
"""Maximum characters of a value in a message."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MAPS = ("properties", "patternProperties", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    *("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_REFUSED = {
    **dict.fromkeys(
        ("$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "$vocabulary"),
        "use $defs and $ref",
    ),
    # The validator applies this keyword of former versions of JSON Schema, too.
    "dependencies": "use dependentRequired and dependentSchemas",
}
"""Keywords that are refused, each with what to use instead."""
_ANNOTATIONS = frozenset(
    (
        *("$schema", "$comment", "$defs", "title", "description", "default", "examples", "deprecated", "readOnly"),
        "writeOnly",
    )
)

Schema = dict[str, Any] | bool


def checked_schema(schema: object) -> str:
    """Return a schema as JSON text. Raises `InvalidInput` with the part of the schema and the allowed values."""
    if not isinstance(schema, dict):
        raise _invalid("schema", "must be an object")
    text = msgspec.json.encode(schema)
    if len(text) > MAX_SCHEMA_BYTES:
        raise _invalid("schema", f"at most {MAX_SCHEMA_BYTES} bytes of JSON (got {len(text)})")
    if schema.get("$schema", _DIALECT) != _DIALECT:
        raise _invalid("schema.$schema", f"must be {_DIALECT}")
    if schema.get("type") != "object":
        raise _invalid("schema.type", f'must be "object" (got {_shown(schema.get("type"))})')
    # Compile first, because the walk below relies on the types of all keywords.
    try:
        _compiled(text.decode())
    except _errors() as error:
        raise _invalid("schema", str(error).split("\n", 1)[0][:500]) from None
    expanded(text.decode())
    return text.decode()


def _invalid(part: str, words: str) -> InvalidInput:
    return InvalidInput(f"{part}: {words}", field="schema")


@lru_cache(maxsize=64)
def _compiled(schema: str) -> Any:
    """Return the compiled validator of a schema. Cached, because it is needed for each post of a kind."""
    library = importlib.import_module("jsonschema_rs")
    return library.Draft202012Validator(
        msgspec.json.decode(schema),
        validate_formats=True,
        pattern_options=library.RegexOptions(size_limit=_PATTERN_BYTES),
        offline=True,
    )


def _errors() -> tuple[type[Exception], ...]:
    library = importlib.import_module("jsonschema_rs")
    return library.ValidationError, library.ReferencingError, ValueError


def is_valid(schema: str, data: object) -> bool:
    return bool(_compiled(schema).is_valid(data))


def check_data(schema: str, data: object) -> None:
    """Raise `InvalidInput` if the data does not match the schema. The message names the path, the limit and the value."""
    error = next(iter(_compiled(schema).iter_errors(data)), None)
    if error is None:
        return
    path, words = _explained(error)
    raise InvalidInput(f"{path}: {words}", field="data")


def _path(keys: Sequence[str | int]) -> str:
    return "data" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)


_BOUNDS = {
    "maximum": "must be at most {}",
    "minimum": "must be at least {}",
    "exclusiveMaximum": "must be less than {}",
    "exclusiveMinimum": "must be greater than {}",
}
_LENGTHS = {
    "maxLength": "must have at most {} characters",
    "minLength": "must have at least {} characters",
    "maxItems": "must have at most {} items",
    "minItems": "must have at least {} items",
    "maxProperties": "must have at most {} properties",
    "minProperties": "must have at least {} properties",
}


def _explained(error: Any) -> tuple[str, str]:
    """Return the path of a validation error, and a description."""
    path, keyword, details, got = _path(error.instance_path), error.kind.name, error.kind.as_dict(), error.instance
    if keyword == "required":
        return f"{path}.{details['property']}", "is required"
    if keyword in ("additionalProperties", "unevaluatedProperties") and details.get("unexpected"):
        return f"{path}.{details['unexpected'][0]}", "is not a property of this kind"
    if keyword in _BOUNDS:
        words = _BOUNDS[keyword].format(_shown(details["limit"]))
    elif keyword in _LENGTHS:
        return path, f"{_LENGTHS[keyword].format(details['limit'])} (got {len(got)})"
    elif keyword == "type":
        words = "must be " + " or ".join(map(_with_article, details["types"]))
    elif keyword == "enum":
        words = f"must be one of {', '.join(map(_shown, details['options'][:20]))}"
    elif keyword == "const":
        words = f"must be {_shown(details['expected_value'])}"
    elif keyword == "pattern":
        words = f"must match {details['pattern'][:_SHOWN]}"
    elif keyword == "format":
        words = f"must have the format {details['format'][:_SHOWN]}"
    elif keyword == "multipleOf":
        words = f"must be a multiple of {details['multiple_of']}"
    elif keyword == "uniqueItems":
        words = "must not have equal items"
    else:
        words = f"does not match {keyword!r} of the schema"
    return path, f"{words} (got {_shown(got)})"


def _with_article(type_: str) -> str:
    return type_ if type_ == "null" else f"{'an' if type_[0] in 'aio' else 'a'} {type_}"


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# Expansion


def expanded(schema: str) -> dict[str, Any]:
    """Return a schema without references and annotations. Raises `InvalidInput` for references that are not accepted."""
    root = msgspec.json.decode(schema)
    found = _Expansion(root.get("$defs") or {}).expand(root, "schema", ())
    return found if isinstance(found, dict) else {}


class _Expansion:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self._nodes = 0

    def expand(self, schema: Schema, part: str, inside: tuple[str, ...], depth: int = 0) -> Schema:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _invalid("schema", f"at most {MAX_NODES} subschemas, counting a definition at each reference to it")
        if depth > MAX_DEPTH:
            raise _invalid(part, f"at most {MAX_DEPTH} levels")
        if isinstance(schema, bool):
            return schema
        if refused := next((keyword for keyword in _REFUSED if keyword in schema), None):
            raise _invalid(f"{part}.{refused}", f"is not supported; {_REFUSED[refused]}")
        found: dict[str, Any] = {}
        for keyword, value in schema.items():
            inner = f"{part}.{keyword}"
            if keyword in _MAPS:
                found[keyword] = {
                    name: self.expand(each, f"{inner}.{name}", inside, depth + 1) for name, each in value.items()
                }
            elif keyword in _LISTS:
                found[keyword] = [
                    self.expand(each, f"{inner}[{at}]", inside, depth + 1) for at, each in enumerate(value)
                ]
            elif keyword in _SINGLE:
                found[keyword] = self.expand(value, inner, inside, depth + 1)
            elif keyword not in _ANNOTATIONS and keyword != "$ref":
                found[keyword] = value
        if "$ref" not in schema:
            return found
        target = self._target(schema["$ref"], f"{part}.$ref", inside, depth)
        if not found:
            return target
        found["allOf"] = [*found.get("allOf", ()), target]
        return found

    def _target(self, reference: str, part: str, inside: tuple[str, ...], depth: int) -> Schema:
        start, name = "#/$defs/", reference.removeprefix("#/$defs/")
        name = name.replace("~1", "/").replace("~0", "~")
        if not reference.startswith(start) or name not in self._definitions:
            raise _invalid(part, f"must be #/$defs/NAME of a definition (got {_shown(reference)})")
        if name in inside:
            raise _invalid(part, f"$defs.{name} must not refer to itself")
        return self.expand(self._definitions[name], f"schema.$defs.{name}", (*inside, name), depth + 1)


# Compatible changes

_NUMBERS = frozenset(("integer", "fraction"))
_TYPES = frozenset(("null", "boolean", "string", "array", "object")) | _NUMBERS
_UPPER = {"maxLength": "string", "maxItems": "array", "maxProperties": "object"}
_LOWER = {"minLength": "string", "minItems": "array", "minProperties": "object"}
_EQUAL = {"pattern": "string", "format": "string", "contentEncoding": "string", "contentMediaType": "string"}
_GROUPS = (
    ("not",),
    ("oneOf",),
    ("if", "then", "else"),
    ("contains", "minContains", "maxContains"),
    ("dependentSchemas",),
    ("unevaluatedProperties",),
    ("unevaluatedItems",),
)
"""Keywords that must stay as they are, or be removed together. The first of a group is the one without which it has no effect."""


_STEPS: ContextVar[Iterator[int]] = ContextVar("shoal_schema_steps")
"""Counts the steps of the current comparison. Nested branches multiply them."""


def incompatibilities(old: str, new: str) -> list[str]:
    """Return why data that is valid under `old` may be invalid under `new`, each reason with its path; empty if it is valid.

    Raises `Unfit` for schemas whose comparison takes more than `MAX_STEPS` steps.
    """
    _STEPS.set(count())
    return list(_narrowed(expanded(old), expanded(new), "data"))


def _narrowed(old: Schema, new: Schema, path: str) -> Iterator[str]:
    if next(_STEPS.get()) >= MAX_STEPS:
        raise Unfit("schema: has too many nested branches (allOf, anyOf) to be compared; declare another kind")
    if new is True or new == {} or old is False or _equal(old, new):
        return
    if new is False:
        yield f"{path}: is no longer allowed"
        return
    yield from _narrowed_object(old if isinstance(old, dict) else {}, new, path)


def _equal(one: object, other: object) -> bool:
    """Return whether two JSON values are equal. In Python, `1 == True`."""
    return one == other and msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


def _narrowed_object(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[str]:
    if (values := _values(old)) is not None:
        schema = msgspec.json.encode(new).decode()
        yield from (f"{path}: {_shown(value)} is no longer allowed" for value in values if not is_valid(schema, value))
        return
    if "enum" in new or "const" in new:
        yield f"{path}: was limited to fixed values"
        return
    had, has = _types(old), _types(new)
    if not had <= has:
        yield f"{path}: the type was narrowed (from {_words(had)} to {_words(has)})"
        return
    if old.keys() & new.keys() & {"unevaluatedProperties", "unevaluatedItems"}:
        # These keywords depend on all others of the schema.
        yield f"{path}: changes next to unevaluatedProperties and unevaluatedItems are not compared"
        return
    yield from _narrowed_values(old, new, had, path)
    if "object" in had:
        yield from _narrowed_objects(old, new, path)
    if "array" in had:
        yield from _narrowed_arrays(old, new, path)
    yield from _narrowed_branches(old, new, path)


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return all values that a schema accepts, if it lists them; None otherwise."""
    if "const" not in schema and "enum" not in schema:
        return None
    text = msgspec.json.encode(schema).decode()
    return [value for value in ([schema["const"]] if "const" in schema else schema["enum"]) if is_valid(text, value)]


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    if "type" not in schema:
        return _TYPES
    given = schema["type"]
    types = frozenset((given,) if isinstance(given, str) else given)
    return types - {"number"} | _NUMBERS if "number" in types else types


def _words(types: frozenset[str]) -> str:
    shown = types - {"fraction"} - {"integer"} | {"number"} if "fraction" in types else types
    return "any" if types == _TYPES else " or ".join(sorted(shown))


def _narrowed_values(old: Mapping[str, Any], new: Mapping[str, Any], had: frozenset[str], path: str) -> Iterator[str]:
    if had & _NUMBERS:
        yield from _narrowed_bound(old, new, path, "maximum", "exclusiveMaximum", 1)
        yield from _narrowed_bound(old, new, path, "minimum", "exclusiveMinimum", -1)
        if "multipleOf" in new and not _is_multiple(old.get("multipleOf"), new["multipleOf"]):
            yield f"{path}: must now be a multiple of {new['multipleOf']}"
    for table, sign in ((_UPPER, 1), (_LOWER, -1)):
        for keyword, type_ in table.items():
            if type_ not in had or keyword not in new or (sign < 0 and not new[keyword]):
                continue
            if keyword not in old:
                yield f"{path}: {keyword} {new[keyword]} was added"
            elif sign * new[keyword] < sign * old[keyword]:
                yield f"{path}: {keyword} was changed from {old[keyword]} to {new[keyword]}"
    for keyword, type_ in _EQUAL.items():
        if type_ in had and keyword in new and new[keyword] != old.get(keyword):
            yield f"{path}: {keyword} {_shown(new[keyword])} was {'changed' if keyword in old else 'added'}"
    if "array" in had and new.get("uniqueItems") and not old.get("uniqueItems"):
        yield f"{path}: uniqueItems was added"


def _narrowed_bound(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, inclusive: str, exclusive: str, sign: int
) -> Iterator[str]:
    """Compare an upper bound or, with `sign` -1, a lower bound. Of two bounds of one schema, the exclusive one is the narrower."""
    former = [(sign * old[name], name is inclusive) for name in (inclusive, exclusive) if name in old]
    for name in (inclusive, exclusive):
        if name not in new:
            continue
        limit = (sign * new[name], name is inclusive)
        if not former:
            yield f"{path}: {name} {new[name]} was added"
        elif min(former) > limit:
            yield f"{path}: {name} was changed to {new[name]}"


def _is_multiple(old: object, new: object) -> bool:
    return old == new or (isinstance(old, int) and isinstance(new, int) and old % new == 0)


def _narrowed_objects(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{path}.{name}: is now required"
    for name, names in new.get("dependentRequired", {}).items():
        former = {*old.get("dependentRequired", {}).get(name, ()), *old.get("required", ())}
        for other in sorted(set(names) - former):
            yield f"{path}.{other}: is now required with {name}"
    if "propertyNames" in new:
        yield from _narrowed(old.get("propertyNames", True), new["propertyNames"], f"{path} (property names)")
    patterns = old.get("patternProperties")
    if not _equal(patterns, new.get("patternProperties")):
        yield f"{path}: patternProperties was changed"
        return
    had, has = old.get("properties", {}), new.get("properties", {})
    others, new_others = old.get("additionalProperties", True), new.get("additionalProperties", True)
    for name, schema in has.items():
        if name in had:
            yield from _narrowed(had[name], schema, f"{path}.{name}")
        elif any(_narrowed(True if patterns else others, schema, path)):
            yield f"{path}.{name}: was not a property before, so stored data may have any value there"
    for name, schema in had.items():
        if name not in has and any(_narrowed(schema, new_others, path)):
            yield f"{path}.{name}: the property was removed, and additionalProperties does not allow it"
    if any(_narrowed(others, new_others, path)):
        yield f"{path}: additionalProperties was narrowed"


def _narrowed_arrays(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[str]:
    had, has = old.get("prefixItems", []), new.get("prefixItems", [])
    others, new_others = old.get("items", True), new.get("items", True)
    for at in range(max(len(had), len(has))):
        before, after = (had[at] if at < len(had) else others), (has[at] if at < len(has) else new_others)
        yield from _narrowed(before, after, f"{path}[{at}]")
    yield from _narrowed(others, new_others, f"{path}[]")


def _narrowed_branches(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[str]:
    for group in _GROUPS:
        if group[0] in new and not all(_equal(old.get(name), new.get(name)) for name in group):
            yield f"{path}: {group[0]} was {'changed' if group[0] in old else 'added'}"
    for branch in new.get("allOf", ()):
        if not any(_covers(former, branch) for former in (*old.get("allOf", ()), old)):
            yield f"{path}: allOf was {'changed' if 'allOf' in old else 'added'}"
    branches = new.get("anyOf")
    if branches is not None and not any(_covers(old, branch) for branch in branches):
        former = old.get("anyOf")
        if former is None or not all(any(_covers(each, branch) for branch in branches) for each in former):
            yield f"{path}: anyOf was {'changed' if former else 'added'}"


def _covers(old: Schema, new: Schema) -> bool:
    return not any(_narrowed(old, new, ""))
