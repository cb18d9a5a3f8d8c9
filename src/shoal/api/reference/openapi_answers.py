"""Answers of a route in the OpenAPI document: the good ones, its errors by the table of errors, and who may call it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType, inspect

from shoal.api.http.calls import Body, Route
from shoal.api.http.convert import Id
from shoal.api.http.errors import TABLE
from shoal.api.http.pages import PageQuery
from shoal.api.http.protocol import SENTENCES
from shoal.api.http.scopes import KNOWN
from shoal.api.reference.openapi_schemas import Components, Schema

OAUTH: Final = "OAuth2"

_WINDOW: Final = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
_HEADERS: Final[Mapping[str, Schema]] = {
    "X-RateLimit-Limit": {"description": "Requests of this class in a window.", "schema": {"type": "integer"}},
    "X-RateLimit-Remaining": {"description": "What is left of them.", "schema": {"type": "integer"}},
    "X-RateLimit-Reset": {
        "description": "When the next window begins.",
        "schema": {"type": "string", "format": "date-time"},
    },
    "Link": {
        "description": 'The pages beside this one: `rel="next"` is older, `rel="prev"` is newer.',
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
    "WWW-Authenticate": {"description": "The kind of token that is asked for.", "schema": {"type": "string"}},
}
_WITH_STATUS: Final = {429: "Retry-After", 503: "Retry-After", 507: "Retry-After", 401: "WWW-Authenticate"}
_BASIC: Final = (400, 408, 413, 429, 431, 503)
"""Any request may be malformed, too slow, too large, one too many, or come while a store is away."""
_OF_CONNECTIONS: Final = (408, 431)
"""Answered by the connection, before the request is counted for a rate limit."""


class Detail(msgspec.Struct, kw_only=True):
    """An error in one field."""

    error: str
    """A word for programs, as `ERR_BLANK`."""
    description: str
    """A sentence for people that says what is wrong."""


class Error(msgspec.Struct, kw_only=True):
    """Why something was refused."""

    error: str
    """A sentence that is safe to show; of `/oauth/` a word of OAuth."""
    error_description: str | UnsetType = UNSET
    """A sentence about the error; on `/oauth/` only."""
    details: dict[str, list[Detail]] | UnsetType = UNSET
    """Errors by the name of their field."""


def answers_of(route: Route, components: Components) -> Schema:
    """Every answer that a route may give, by status."""
    headers = [*_WINDOW, "Link"] if _is_paged(route) else [*_WINDOW]
    good = {"content": _content(route.answer, components), "headers": _references(headers)}
    found: Schema = {"200": {"description": "Done.", **good}}
    found |= {str(status): {"description": what, **good} for status, what in route.also}
    return found | {str(status): {"$ref": f"#/components/responses/{_name(status)}"} for status in statuses_of(route)}


def statuses_of(route: Route) -> tuple[int, ...]:
    """The errors that a route may answer, from what it declares."""
    found = {*_BASIC, *route.refuses}
    fields = {field.encode_name for field in msgspec.structs.fields(route.params)} if route.params else set()
    if route.auth != "public" or "client_secret" in fields:
        found |= {401, 403}
    if route.auth == "user" or route.params is not None:
        found.add(422)
    if "{" in route.path or _takes_ids(route) or "acct" in fields:
        # What is meant may not be there, or belong to somebody who is suspended.
        found |= {404, 410}
    if route.method != "GET":
        found |= {409, 507}
    return tuple(sorted(found))


def responses(components: Components) -> Schema:
    """The errors, each once, in the words of the table."""
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


def shared_headers() -> Schema:
    """The headers that answers refer to."""
    return {name: dict(header) for name, header in _HEADERS.items()}


def security_schemes(base: str) -> Schema:
    """How a token is come by."""
    scopes = {scope: _what(scope) for scope in sorted(KNOWN)}
    token = {"tokenUrl": f"{base}/oauth/token", "scopes": scopes}
    return {
        "type": "oauth2",
        "description": "A token is sent as `Authorization: Bearer`. Each route names the scope that it needs; a parent grants its "
        "children.",
        "flows": {
            "authorizationCode": {"authorizationUrl": f"{base}/oauth/authorize", **token},
            "clientCredentials": token,
            "password": token,
        },
    }


def security_of(route: Route) -> list[Schema]:
    """Return alternative credentials for a route, in the form of OpenAPI: any one of them is enough."""
    needed: list[Schema] = [{OAUTH: [route.scope] if route.scope else []}]
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
    if route.params is None:
        return False
    names = {field.encode_name for field in msgspec.structs.fields(route.params)}
    return issubclass(route.params, PageQuery) or {"limit", "offset"} <= names


def _takes_ids(route: Route) -> bool:
    return route.params is not None and any(kind is Id for kind in _custom(inspect.type_info(route.params)))


def _custom(info: inspect.Type) -> Iterator[type]:
    if isinstance(info, inspect.CustomType):
        yield info.cls
    elif isinstance(info, inspect.StructType):
        for field in info.fields:
            yield from _custom(field.type)
    elif isinstance(info, inspect.UnionType):
        for kind in info.types:
            yield from _custom(kind)
    elif (item := getattr(info, "item_type", None)) is not None:
        yield from _custom(item)


def _content(answer: Any, components: Components) -> Schema:
    if isinstance(answer, Body):
        schema = {"type": "string"} if answer.shape is None else components.of(answer.shape)
        return {answer.content_type: {"schema": schema}}
    return {"application/json": {"schema": components.of(answer)}}


def _references(names: list[str]) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _name(status: int) -> str:
    return f"Error{status}"
