"""The OpenAPI 3.1 document of a route table. Its generation is deterministic.

Structs in responses become named component schemas, because many responses share a struct. Parameters are inlined with their
maximums. Error responses follow the table of `errors.py`. Descriptions come from the docstrings of structs, and from the docstrings
below their fields.
"""

from __future__ import annotations

import ast
import inspect as sources
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from textwrap import dedent
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType, inspect

from shoal.core.ids import MAX_ID
from shoal.core.model import Role
from shoal.http.application import parameters
from shoal.http.authentication import KNOWN, SERVER_SCOPES
from shoal.http.errors import TABLE
from shoal.http.pagination import PageQuery
from shoal.http.params import CursorId, Id, Json, Limit, Upload
from shoal.http.protocol import SENTENCES
from shoal.http.routes import LISTS, Body, Route, RouteGroup, inner_types

Schema = dict[str, Any]

REF: Final = "#/components/schemas/"

_DIGITS: Final = "^[0-9]{1,19}$"
_BOUNDS: Final = (("ge", "minimum"), ("le", "maximum"), ("gt", "exclusiveMinimum"), ("lt", "exclusiveMaximum"))
_OWN: Final[Mapping[type, Schema]] = {
    Id: {"type": "string", "pattern": _DIGITS},
    CursorId: {"type": "string", "pattern": _DIGITS},
    Limit: {"type": "integer", "minimum": 0, "maximum": MAX_ID},
    Json: {"description": "Any JSON value; in a form, its JSON text."},
    Upload: {"type": "string", "format": "binary"},
}


class Components:
    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._names: dict[type, str] = {}

    def of(self, kind: Any) -> Schema:
        return self._of(inspect.type_info(kind))

    def _of(self, info: inspect.Type) -> Schema:
        if isinstance(info, inspect.StructType):
            return {"$ref": REF + self._named(info)}
        return _plain(info, self._of)

    def _named(self, info: inspect.StructType) -> str:
        name = self._names.get(info.cls)
        if name is None:
            name = self._names[info.cls] = self._free_name(info.cls)
            # Register the name before the fields are converted, because a struct may have a field of its own type.
            self.schemas[name] = {}
            self.schemas[name] = _struct(info, self._of)
        return name

    def _free_name(self, cls: type) -> str:
        if cls.__name__ not in self.schemas:
            return cls.__name__
        module = cls.__module__.rpartition(".")[2]
        return "".join(word.capitalize() for word in module.split("_")) + cls.__name__


def taken(info: inspect.Type) -> Schema:
    """Return the schema of a parameter, with structs inlined."""
    return _struct(info, taken, given=True) if isinstance(info, inspect.StructType) else _plain(info, taken)


def _struct(info: inspect.StructType, of: Callable[[inspect.Type], Schema], *, given: bool = False) -> Schema:
    """Return the schema of a struct. A field is required if it is always present or, in parameters (`given`), has no default."""
    docs = sentences(info.cls)
    left_out = {field.encode_name for field in msgspec.structs.fields(info.cls) if field.default is UNSET}
    optional = given or info.cls.__struct_config__.omit_defaults
    properties = {field.encode_name: _described(of(field.type), docs.get(field.name)) for field in info.fields}
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
    if isinstance(info, LISTS):
        return {"type": "array", "items": of(info.item_type), **_lengths(info, "minItems", "maxItems")}
    if isinstance(info, inspect.DictType):
        return {
            "type": "object",
            "additionalProperties": of(info.value_type),
            **_lengths(info, "minProperties", "maxProperties"),
        }
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
"""JSON schemas of plain types. Other types, such as `Any` or raw JSON, may have any value."""


def _choice(values: Any) -> Schema:
    return {"type": "integer" if isinstance(next(iter(values)), int) else "string", "enum": list(values)}


def _lengths(info: Any, least: str, most: str) -> Schema:
    found = ((least, info.min_length), (most, info.max_length))
    return {word: value for word, value in found if value is not None}


@cache
def sentences(cls: type) -> Mapping[str, str]:
    """Return the docstring of each field of a struct, by field name; empty if the source is not available."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            found.update(_field_docs(base))
    return found


def _field_docs(cls: type) -> dict[str, str]:
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


OAUTH: Final = "OAuth2"
SERVER_KEY: Final = "ServerKey"

_WINDOW: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
_HEADERS: Final[Mapping[str, Schema]] = {
    "X-RateLimit-Limit": {"description": "Maximum requests of this class in a window.", "schema": {"type": "integer"}},
    "X-RateLimit-Remaining": {
        "description": "Remaining requests in the current window.",
        "schema": {"type": "integer"},
    },
    "X-RateLimit-Reset": {
        "description": "Start of the next window.",
        "schema": {"type": "string", "format": "date-time"},
    },
    "Link": {
        "description": 'Adjacent pages: `rel="next"` is older, `rel="prev"` is newer.',
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}},
    "WWW-Authenticate": {"description": "The required kind of token.", "schema": {"type": "string"}},
}
_WITH_STATUS: Final = {429: "Retry-After", 503: "Retry-After", 507: "Retry-After", 401: "WWW-Authenticate"}
_BASIC: Final = (400, 408, 413, 429, 431, 503)
"""Errors of any request: malformed, too slow, too large, over a limit, or while a store is unavailable."""
_OF_CONNECTIONS: Final = (408, 431)
"""Sent by the connection, before the request counts for a rate limit."""


class Detail(msgspec.Struct, kw_only=True):
    """An error in one field."""

    error: str
    """A machine-readable code, such as `ERR_BLANK`."""
    description: str
    """A human-readable description of the error."""


class Error(msgspec.Struct, kw_only=True):
    """The reason for an error response."""

    error: str
    """A message that is safe to show; on `/oauth/`, an OAuth error code."""
    error_description: str | UnsetType = UNSET
    """A description of the error; only on `/oauth/`."""
    held_id: str | UnsetType = UNSET
    """The id of content that was stored, and is waiting for approval by a moderator."""
    details: dict[str, list[Detail]] | UnsetType = UNSET
    """Errors by field."""


def answers_of(route: Route, components: Components) -> Schema:
    headers = [*_WINDOW, "Link"] if _is_paged(route) else [*_WINDOW]
    good = {"content": _content(route.answer, components), "headers": _references(headers)}
    found: Schema = {"200": {"description": "Success.", **good}}
    found |= {str(status): {"description": what, **good} for status, what in route.also}
    return found | {str(status): {"$ref": f"#/components/responses/{_name(status)}"} for status in statuses_of(route)}


def statuses_of(route: Route) -> tuple[int, ...]:
    found = {*_BASIC, *route.refuses}
    fields = _wire_names(route)
    if route.auth != "public" or "client_secret" in fields:
        found |= {401, 403}
    if route.auth == "user" or route.params is not None:
        found.add(422)
    if "{" in route.path or _takes_ids(route) or "acct" in fields:
        # The object may not exist, or belong to a suspended member.
        found |= {404, 410}
    if route.method != "GET":
        found |= {409, 507}
    return tuple(sorted(found))


def responses(components: Components) -> Schema:
    schema = components.of(Error)
    texts = {row.status: row.text for row in reversed(TABLE)} | {
        status: SENTENCES[status] for status in _OF_CONNECTIONS
    }
    return {
        _name(status): {
            "description": text,
            "content": {"application/json": {"schema": schema}},
            "headers": _references(_headers_of(status)),
        }
        for status, text in sorted(texts.items())
        if status != 405
    }


def _headers_of(status: int) -> list[str]:
    counted = [] if status in _OF_CONNECTIONS else [*_WINDOW]
    return [*counted, *filter(None, [_WITH_STATUS.get(status)])]


_KEY_SCHEME: Final[Schema] = {
    "type": "http",
    "scheme": "bearer",
    "description": "Send a server key (`shoal key create`) as `Authorization: Bearer`. With the scope `server:act`, a key can also "
    "call the routes for members, on behalf of the member in the header `Shoal-Member`: `external:ISSUER:ID`, both percent-"
    "encoded, or `id:N`. Scopes of server keys: "
    + "; ".join(f"`{scope}`: {what}" for scope, what in SERVER_SCOPES.items())
    + ".",
}


def _oauth_scheme(base: str) -> Schema:
    scopes = {scope: _what(scope) for scope in sorted(KNOWN)}
    token = {"tokenUrl": f"{base}/oauth/token", "scopes": scopes}
    return {
        "type": "oauth2",
        "description": "Send a token as `Authorization: Bearer`. Each route names its required scope; a parent scope includes its "
        "children.",
        "flows": {
            "authorizationCode": {"authorizationUrl": f"{base}/oauth/authorize", **token},
            "clientCredentials": token,
            "password": token,
        },
    }


_ACCESS: Final[Mapping[str, str]] = {
    "public": "public",
    "optional": "public; more for members",
    "app": "apps",
    "client": "apps without a member",
    "user": "members",
    "server": "server keys",
}


def access_of(route: Route) -> str:
    """Return which callers may use a route, such as `members`."""
    return {Role.NONE: _ACCESS[route.auth], Role.MODERATOR: "moderators", Role.ADMIN: "admins"}[route.role]


def security_of(route: Route) -> list[Schema]:
    """Return the alternative credentials for a route in the form of OpenAPI: any one is sufficient."""
    scheme = SERVER_KEY if route.auth == "server" else OAUTH
    needed: list[Schema] = [{scheme: [route.scope] if route.scope else []}]
    if route.auth == "public":
        return []
    return [{}, *needed] if route.auth == "optional" else needed


def _what(scope: str) -> str:
    *admin, verb, area = scope.split(":") if ":" in scope else (scope, "")
    if not area:
        return {
            "read": "Read everything of the member's",
            "write": "Change everything of the member's",
            "follow": "Read and change blocks, follows and mutes",
            "push": "Subscribe to push messages",
            "profile": "Read who the member is",
        }[verb]
    if verb == "admin":
        return f"{area.capitalize()} everything that administrators may"
    words = f"{verb.capitalize()} {area.replace('_', ' ')}"
    return f"{words}, as an administrator" if admin else words


def _is_paged(route: Route) -> bool:
    return route.params is not None and (
        issubclass(route.params, PageQuery) or {"limit", "offset"} <= _wire_names(route)
    )


def _wire_names(route: Route) -> set[str]:
    return {field.encode_name for field in _fields(route)}


def _takes_ids(route: Route) -> bool:
    return route.params is not None and _holds_id(inspect.type_info(route.params))


def _holds_id(info: inspect.Type) -> bool:
    is_id = isinstance(info, inspect.CustomType) and info.cls is Id
    return is_id or any(_holds_id(inner) for _, inner in inner_types(info))


def _content(answer: Any, components: Components) -> Schema:
    if isinstance(answer, Body):
        schema = {"type": "string"} if answer.shape is None else components.of(answer.shape)
        return {answer.content_type: {"schema": schema}}
    return {"application/json": {"schema": components.of(answer)}}


def _references(names: list[str]) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _name(status: int) -> str:
    return f"Error{status}"


_IN_QUERY: Final = frozenset({"GET", "HEAD"})
_NO_LIMIT: Final = Limit(-1)
"""The default of a limit for which 0 is a valid value."""
_RAISES: Final = re.compile(r" Raises `.*")
"""The sentences of a docstring that name Python exceptions. They are omitted from the document."""
_ABOUT: Final = (
    "The Mastodon client API of this server, and its extensions below `/api/shoal/`. Ids are strings of digits. Times are ISO 8601 "
    "in UTC with milliseconds. Parameters are accepted in the query, as JSON, URL-encoded or as multipart, as listed for each "
    "operation. Numbers and booleans may be strings: `0`, `f`, `false` and `off`, in any case, are false, an empty string is no "
    "value, and any other string or number is true. Paths that accept PUT also accept PATCH, and vice versa, with equal effect. "
    "An unknown path returns 404, an unsupported method 405, and an internal error 500, with the body of any other error."
)


def document_of(parts: Sequence[RouteGroup], base: str = "") -> Schema:
    """Return the OpenAPI document as JSON values; `base` is the path of the root URL as clients see it."""
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
            "headers": {name: dict(header) for name, header in _HEADERS.items()},
            "securitySchemes": {OAUTH: _oauth_scheme(base), SERVER_KEY: _KEY_SCHEME},
        },
    }


def name_of(route: Route) -> str:
    """Return the unique name of an operation, such as `get_v1_accounts_id_statuses`."""
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
    operation["x-access"] = access_of(route)
    operation["x-limit-class"] = route.limit_class
    operation["x-max-body"] = route.max_body
    if route.stub:
        operation["x-stub"] = True
    return operation


def _more_of(route: Route) -> str:
    """Return the handler's docstring below its first line, on one line; empty if the route declares a summary."""
    below = (route.handler.__doc__ or "").strip().partition("\n")[2]
    return "" if route.what else _RAISES.sub("", f" {' '.join(below.split())}").strip()


def _fields(route: Route) -> tuple[inspect.Field, ...]:
    info = None if route.params is None else inspect.type_info(route.params)
    return info.fields if isinstance(info, inspect.StructType) else ()


def _schemas(route: Route) -> dict[str, Schema]:
    docs = {} if route.params is None else sentences(route.params)
    return {field.encode_name: _schema(field, docs.get(field.name)) for field in _fields(route)}


def _schema(field: inspect.Field, docs: str | None) -> Schema:
    schema = taken(field.type)
    if isinstance(field.default, str | bool | int | float) and field.default not in ("", 0, _NO_LIMIT):
        schema["default"] = field.default
    return {**schema, "description": docs} if docs else schema


def _parameter(field: inspect.Field, schema: Schema, where: str) -> Schema:
    name = field.encode_name
    parameter: Schema = {"name": name, "in": where, "required": where == "path" or field.required}
    if "description" in schema:
        parameter["description"] = schema.pop("description")
    if where == "query":
        kinds = _kinds(field.type)
        if any(isinstance(kind, LISTS) for kind in kinds):
            parameter["name"] = f"{name}[]"
        elif any(isinstance(kind, inspect.StructType | inspect.DictType) for kind in kinds):
            parameter |= {"style": "deepObject", "explode": True}
    parameter["schema"] = schema
    return parameter


def _kinds(info: inspect.Type) -> tuple[inspect.Type, ...]:
    return info.types if isinstance(info, inspect.UnionType) else (info,)


def _body(route: Route, fields: Sequence[inspect.Field], schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema of the request body. Without files it has one content type, because client generators fail on a choice.

    The content type is JSON, a form for OAuth (RFC 6749), or multipart for files.
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
    """Return how a form encodes nested values: `name[]=` for a list, `name[key]=` for an object."""
    styles = {
        name: {"style": "deepObject", "explode": True}
        for name, inner in schema["properties"].items()
        if inner.get("type") in ("object", "array", ["object", "null"], ["array", "null"])
    }
    return {"encoding": styles} if styles else {}
