"""Checks at the start that every route declares a scope, a class of rate limits, a maximum for each field, and the type of
its answer.

A route that forgets one does not start, so no part of the API is unlimited by accident.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import inspect

from shoal.api.http.calls import Auth
from shoal.api.http.convert import CursorId, Id, Json, Limit, Upload
from shoal.api.http.limits.ratelimit import UNLIMITED
from shoal.api.http.scopes import KNOWN
from shoal.core.model import Role

_BOUNDED_BY_NATURE = (
    inspect.BoolType,
    inspect.NoneType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.DateTimeType,
    inspect.DateType,
)
_SIZED = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
_OWN = (Id, CursorId, Json, Limit, Upload)
"""An `Upload` and a `Json` are as large as the body may be."""


def complaint(
    *,
    path_names: tuple[str, ...],
    scope: str | None,
    auth: str,
    role: Role,
    limit_class: str,
    classes: Collection[str],
    params: type[msgspec.Struct] | None,
    max_body: int,
    answer: object,
) -> str | None:
    """Return the error in a route's declaration, or None."""
    if auth not in get_args(Auth):
        return f"auth {auth!r} is not one of {', '.join(get_args(Auth))}"
    if scope is None and auth in {"optional", "client", "user"}:
        return "no scope is declared"
    if scope is not None and (scope not in KNOWN or auth in {"public", "browser"}):
        return f"scope {scope!r} is unknown, or declared on a public route or a page"
    if (scope or "").startswith("admin:") is not (role is not Role.NONE) or (role is not Role.NONE and auth != "user"):
        return f"scope {scope!r} and role {role.value!r}: what asks for one asks for the other, and for a member"
    if limit_class == UNLIMITED and (auth != "public" or params is not None):
        return "only a public route without parameters may be unlimited"
    if limit_class != UNLIMITED and limit_class not in classes:
        return f"limit class {limit_class!r} is not one of {', '.join(sorted(classes))}"
    if max_body < 0:
        return "max_body is negative"
    if answer is None:
        return "no answer is declared"
    return _complaint_of_params(path_names, params)


@cache
def _complaint_of_params(path_names: tuple[str, ...], params: type[msgspec.Struct] | None) -> str | None:
    if params is None:
        return None
    unnamed = set(path_names) - {field.encode_name for field in msgspec.structs.fields(params)}
    if unnamed:
        return f"{params.__name__} has no field for {', '.join(sorted(unnamed))} of the path"
    return next(unbounded(params), None)


def unbounded(struct: type[Any]) -> Iterator[str]:
    """A sentence for each field of the struct, or of one inside it, that has no maximum."""
    return _walk(inspect.type_info(struct), struct.__name__)


def _walk(info: inspect.Type, name: str) -> Iterator[str]:
    if isinstance(info, inspect.StructType):
        for field in info.fields:
            yield from _walk(field.type, f"{name}.{field.encode_name}")
    elif isinstance(info, inspect.Metadata):
        yield from _walk(info.type, name)
    elif isinstance(info, inspect.UnionType):
        for kind in info.types:
            yield from _walk(kind, name)
    elif isinstance(info, _SIZED):
        yield from [] if info.max_length is not None else [f"{name} has no max_length"]
        yield from _walk(info.item_type, f"{name}[]")
    elif isinstance(info, inspect.DictType):
        yield from [] if info.max_length is not None else [f"{name} has no max_length"]
        yield from _walk(info.key_type, f"{name} (keys)")
        yield from _walk(info.value_type, f"{name} (values)")
    elif isinstance(info, inspect.TupleType):
        for kind in info.item_types:
            yield from _walk(kind, f"{name}[]")
    else:
        yield from _walk_scalar(info, name)


def _walk_scalar(info: inspect.Type, name: str) -> Iterator[str]:
    if isinstance(info, inspect.StrType):
        yield from [] if info.max_length is not None else [f"{name} has no max_length"]
    elif isinstance(info, inspect.IntType | inspect.FloatType):
        low = info.ge if info.ge is not None else info.gt
        high = info.le if info.le is not None else info.lt
        yield from [] if low is not None and high is not None else [f"{name} has no ge and le"]
    elif isinstance(info, inspect.CustomType):
        yield from [] if info.cls in _OWN else [f"{name} is of a type that has no maximum"]
    elif not isinstance(info, _BOUNDED_BY_NATURE):
        yield f"{name} is of a type that has no maximum"
