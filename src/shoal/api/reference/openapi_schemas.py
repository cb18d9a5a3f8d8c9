"""JSON Schemas of the wire: of what a route answers, and of each parameter that it takes, with its maximum.

What is answered becomes named components, as values of one kind stand in many answers. What is taken is written where it is
taken. Sentences come from the docstrings of structs and from those below their fields.
"""

from __future__ import annotations

import ast
import inspect as sources
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final

import msgspec
from msgspec import UNSET, inspect

from shoal.api.http.convert import CursorId, Id, Json, Limit, Upload
from shoal.core.ids import MAX_ID

Schema = dict[str, Any]

REF: Final = "#/components/schemas/"

_DIGITS: Final = "^[0-9]{1,19}$"
_BOUNDS: Final = (("ge", "minimum"), ("le", "maximum"), ("gt", "exclusiveMinimum"), ("lt", "exclusiveMaximum"))
_OWN: Final[Mapping[type, Schema]] = {
    Id: {"type": "string", "pattern": _DIGITS},
    CursorId: {"type": "string", "pattern": _DIGITS},
    Limit: {"type": "integer", "minimum": 0, "maximum": MAX_ID},
    Json: {"description": "Any JSON value; in a form its text."},
    Upload: {"type": "string", "format": "binary"},
}


class Components:
    """The named schemas of a document, as they are come across."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of an answer of this type."""
        return self._of(inspect.type_info(kind))

    def _of(self, info: inspect.Type) -> Schema:
        if isinstance(info, inspect.StructType):
            return {"$ref": REF + self._named(info)}
        return _plain(info, self._of)

    def _named(self, info: inspect.StructType) -> str:
        name = self._names.get(info.cls)
        if name is None:
            name = self._names[info.cls] = self._free_name(info.cls)
            # Before its fields: a status holds a status.
            self.schemas[name] = {}
            self.schemas[name] = _struct(info, self._of)
        return name

    def _free_name(self, cls: type) -> str:
        if cls.__name__ not in self.schemas:
            return cls.__name__
        module = cls.__module__.rpartition(".")[2]
        return "".join(word.capitalize() for word in module.split("_")) + cls.__name__


def taken(info: inspect.Type) -> Schema:
    """The schema of a parameter, whole where it stands."""
    return _struct(info, taken, given=True) if isinstance(info, inspect.StructType) else _plain(info, taken)


def _struct(info: inspect.StructType, of: Callable[[inspect.Type], Schema], *, given: bool = False) -> Schema:
    """Return a struct's schema. Required: in answers, fields never left out; if `given`, those without a default."""
    said = sentences(info.cls)
    left_out = {field.encode_name for field in msgspec.structs.fields(info.cls) if field.default is UNSET}
    optional = given or info.cls.__struct_config__.omit_defaults
    properties = {field.encode_name: _described(of(field.type), said.get(field.name)) for field in info.fields}
    needed = [
        field.encode_name
        for field in info.fields
        if (field.required if optional else field.encode_name not in left_out)
    ]
    schema: Schema = {"type": "object", "properties": properties}
    if needed:
        schema["required"] = needed
    return _described(schema, sources.cleandoc(info.cls.__doc__ or "").partition("\n\n")[0])


def _described(schema: Schema, sentence: str | None) -> Schema:
    return {**schema, "description": sentence} if sentence else schema


def _plain(info: inspect.Type, of: Callable[[inspect.Type], Schema]) -> Schema:
    if isinstance(info, inspect.CustomType):
        return dict(_OWN[info.cls])
    if isinstance(info, inspect.Metadata):
        return {**of(info.type), **(info.extra_json_schema or {})}
    if isinstance(info, inspect.UnionType):
        return _union(info, of)
    if isinstance(info, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        return {"type": "array", "items": of(info.item_type), **_lengths(info, "minItems", "maxItems")}
    if isinstance(info, inspect.DictType):
        values = {} if isinstance(info.value_type, inspect.AnyType) else {"additionalProperties": of(info.value_type)}
        return {"type": "object", **values, **_lengths(info, "minProperties", "maxProperties")}
    return _scalar(info)


def _union(info: inspect.UnionType, of: Callable[[inspect.Type], Schema]) -> Schema:
    kinds = [of(kind) for kind in info.types if not isinstance(kind, inspect.NoneType)]
    null = len(kinds) < len(info.types)
    if len(kinds) == 1 and null and isinstance(kinds[0].get("type"), str):
        if "enum" in kinds[0]:
            return {**kinds[0], "type": [kinds[0]["type"], "null"], "enum": [*kinds[0]["enum"], None]}
        return {**kinds[0], "type": [kinds[0]["type"], "null"]}
    return {"anyOf": [*kinds, {"type": "null"}]} if null else {"anyOf": kinds}


def _scalar(info: inspect.Type) -> Schema:
    if isinstance(info, inspect.StrType):
        pattern = {} if info.pattern is None else {"pattern": info.pattern}
        return {"type": "string", **_lengths(info, "minLength", "maxLength"), **pattern}
    if isinstance(info, inspect.IntType | inspect.FloatType):
        bounds = {word: value for name, word in _BOUNDS if (value := getattr(info, name)) is not None}
        return {"type": "integer" if isinstance(info, inspect.IntType) else "number", **bounds}
    if isinstance(info, inspect.LiteralType):
        return _choice(info.values)
    if isinstance(info, inspect.EnumType):
        return _choice([member.value for member in info.cls])
    return {**_BY_NATURE.get(type(info), {})}


_BY_NATURE: Final[Mapping[type, Schema]] = {
    inspect.BoolType: {"type": "boolean"},
    inspect.NoneType: {"type": "null"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.DateType: {"type": "string", "format": "date"},
}
"""JSON schemas of plain types. A type that is not here, as `Any` or raw JSON, may be anything."""


def _choice(values: Any) -> Schema:
    return {"type": "integer" if isinstance(next(iter(values)), int) else "string", "enum": list(values)}


def _lengths(info: Any, least: str, most: str) -> Schema:
    found = ((least, info.min_length), (most, info.max_length))
    return {word: value for word, value in found if value is not None}


@cache
def sentences(cls: type) -> Mapping[str, str]:
    """Return the docstrings below the fields of a struct, by field; empty where its source is not at hand."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found.update(_said(base))
    return found


def _said(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(dedent(sources.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, str] = {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = getattr(below.value, "value", None)
            if isinstance(text, str):
                found[field.target.id] = " ".join(text.split())
    return found
