"""The OpenAPI 3.1 document of the API, made of the route table: the same rows, the same document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from msgspec import inspect

from shoal.api.http.calls import Route, RouteGroup
from shoal.api.http.convert import Limit, Upload
from shoal.api.http.matching import parameters
from shoal.api.reference.openapi_answers import (
    OAUTH,
    answers_of,
    responses,
    security_of,
    security_schemes,
    shared_headers,
)
from shoal.api.reference.openapi_schemas import Components, Schema, sentences, taken

_IN_QUERY: Final = frozenset({"GET", "HEAD"})
_LISTS: Final = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
_NO_LIMIT: Final = Limit(-1)
"""The default of a limit that is not given, where 0 is one."""
_RAISES: Final = re.compile(r" Raises `.*")
"""Sentences in a verb's docstring that are for programmers, and left out of the document."""
_ABOUT: Final = (
    "The Mastodon client API as this server speaks it, and what it adds below `/api/shoal/`. Ids are texts of digits. Moments are "
    "ISO 8601 in UTC with milliseconds. Parameters may come in the query, as JSON, urlencoded or as multipart, whichever of them "
    "an operation lists; numbers and booleans may be texts: `0`, `f`, `false` and `off`, in any case, are false, an empty text is "
    "no value, and any other text or number is true. A path that takes PUT takes PATCH as well, and the reverse, with the same "
    "effect. A path that is not there answers 404, a method that a path does not have 405, and a mistake of ours 500, each with "
    "the same body as any other error."
)


def document_of(parts: Sequence[RouteGroup], base: str = "") -> Schema:
    """The document, ready for JSON; `base` is the path at which clients find the root."""
    components = Components()
    paths: dict[str, Schema] = {}
    for part in parts:
        for route in part.routes:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(part.name, route, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shoal", "version": version("shoal"), "description": _ABOUT},
        "servers": [{"url": base or "/"}],
        "tags": [{"name": part.name, "description": part.what} for part in parts if part.routes],
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "responses": responses(components),
            "headers": shared_headers(),
            "securitySchemes": {OAUTH: security_schemes(base)},
        },
    }


def name_of(route: Route) -> str:
    """The operation's name, unlike any other's: `get_v1_accounts_id_statuses`."""
    words = re.findall(r"[A-Za-z0-9]+", route.path.removeprefix("/api/"))
    return "_".join((route.method.lower(), *words))


def _operation(part: str, route: Route, components: Components) -> Schema:
    operation: Schema = {"operationId": name_of(route), "tags": [part], "summary": _RAISES.sub("", route.summary)}
    if text := _more_of(route):
        operation["description"] = text
    fields, schemas = _fields(route), _schemas(route)
    in_path = set(parameters(route.path))
    asked = [_parameter(field, schemas[field.encode_name], "path") for field in fields if field.encode_name in in_path]
    rest = [field for field in fields if field.encode_name not in in_path]
    if route.method in _IN_QUERY:
        asked += [_parameter(field, schemas[field.encode_name], "query") for field in rest]
    elif rest:
        operation["requestBody"] = _body(route, rest, schemas)
    if asked:
        operation["parameters"] = asked
    operation["responses"] = answers_of(route, components)
    operation["security"] = security_of(route)
    operation["x-auth"] = route.auth
    operation["x-limit-class"] = route.limit_class
    operation["x-max-body"] = route.max_body
    if route.stub:
        operation["x-stub"] = True
    return operation


def _more_of(route: Route) -> str:
    """Return the handler's docstring below its first line, on one line; empty if the route has a summary of its own."""
    below = (route.handler.__doc__ or "").strip().partition("\n")[2]
    return "" if route.what else _RAISES.sub("", f" {' '.join(below.split())}").strip()


def _fields(route: Route) -> tuple[inspect.Field, ...]:
    info = None if route.params is None else inspect.type_info(route.params)
    return info.fields if isinstance(info, inspect.StructType) else ()


def _schemas(route: Route) -> dict[str, Schema]:
    """Return the schema of each field by its name on the wire, with its description and default."""
    said = {} if route.params is None else sentences(route.params)
    return {field.encode_name: _schema(field, said.get(field.name)) for field in _fields(route)}


def _schema(field: inspect.Field, said: str | None) -> Schema:
    schema = taken(field.type)
    if isinstance(field.default, str | bool | int | float) and field.default not in ("", 0, _NO_LIMIT):
        schema["default"] = field.default
    return {**schema, "description": said} if said else schema


def _parameter(field: inspect.Field, schema: Schema, where: str) -> Schema:
    name = field.encode_name
    parameter: Schema = {"name": name, "in": where, "required": where == "path" or field.required}
    if "description" in schema:
        parameter["description"] = schema.pop("description")
    if where == "query":
        kinds = list(_kinds(field.type))
        if any(isinstance(kind, _LISTS) for kind in kinds):
            parameter["name"] = f"{name}[]"
        elif any(isinstance(kind, inspect.StructType) for kind in kinds):
            parameter |= {"style": "deepObject", "explode": True}
    parameter["schema"] = schema
    return parameter


def _kinds(info: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(info, inspect.UnionType):
        for kind in info.types:
            yield from _kinds(kind)
    else:
        yield info


def _body(route: Route, fields: Sequence[inspect.Field], schemas: Mapping[str, Schema]) -> Schema:
    """Return the request body, of one content type where it has no files: generators of clients fail on a choice.

    It is JSON, a form for OAuth (RFC 6749), and multipart with files.
    """
    files = [field for field in fields if _is_file(field)]
    content: dict[str, Any] = {}
    if not any(field.required for field in files):
        without_files = _object([field for field in fields if field not in files], schemas)
        if route.once:
            content["application/x-www-form-urlencoded"] = {"schema": without_files, **_encoding(without_files)}
        else:
            content["application/json"] = {"schema": without_files}
    if files:
        whole = _object(fields, schemas)
        content["multipart/form-data"] = {"schema": whole, **_encoding(whole)}
    return {"required": any(field.required for field in fields), "content": content}


def _is_file(field: inspect.Field) -> bool:
    return any(isinstance(kind, inspect.CustomType) and kind.cls is Upload for kind in _kinds(field.type))


def _object(fields: Sequence[inspect.Field], schemas: Mapping[str, Schema]) -> Schema:
    properties = {field.encode_name: schemas[field.encode_name] for field in fields}
    schema: Schema = {"type": "object", "properties": properties}
    if needed := [field.encode_name for field in fields if field.required]:
        schema["required"] = needed
    return schema


def _encoding(schema: Schema) -> Schema:
    """How a form says what is inside: `name[]=` for a list, `name[key]=` for an object."""
    styles = {
        name: {"style": "deepObject", "explode": True}
        for name, inner in schema["properties"].items()
        if inner.get("type") in ("object", "array", ["object", "null"], ["array", "null"])
    }
    return {"encoding": styles} if styles else {}
