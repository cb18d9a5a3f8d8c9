"""Declarations of routes, and the caller and context that a handler receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import inspect
from starlette.requests import Request

from shoal.core.model import Role

D_co = TypeVar("D_co", covariant=True)

Auth = Literal["public", "optional", "app", "client", "user", "server", "browser"]


class Caller(msgspec.Struct, frozen=True):
    """The authenticated caller: ids of the token, its app and its member. `member_id` is None for an app's own token."""

    token_id: int
    app_id: int
    member_id: int | None
    scopes: frozenset[str]
    role: Role = Role.NONE
    unguarded: bool = False
    """See `Member.unguarded`."""
    name: str = ""
    key: str = ""
    """Name of the server key that calls, possibly for the member; empty for any other token."""


ANONYMOUS = Caller(0, 0, None, frozenset())
"""A caller without a token, the only one whose `token_id` is 0."""


class Context(msgspec.Struct, Generic[D_co], frozen=True):
    """The request as a handler sees it, apart from its parameters."""

    caller: Caller
    request: Request
    app: D_co
    """The dependencies passed to `build_app`."""
    path: Mapping[str, str]
    """Values of the path parameters. The params struct also contains them, and there they override the query and the body."""


class Body(NamedTuple):
    content_type: str
    shape: object = None
    """The type of the value in JSON with another content type."""


AnyHandler = Callable[[Context[Any], Any], Awaitable[object]]
"""Returns a value to encode, `bytes` of JSON, a `Reply` or a Starlette `Response`."""

Authenticate = Callable[[Request], Awaitable[Caller | None]]
"""Returns the caller; None without a token. Raises `Unauthenticated`, or `NotAllowed` if the member may not log in.

It must not read the body.
"""


Bind = Callable[[Any, Caller, Request], object]
"""Returns the dependencies passed to `build_app`, bound to the caller of a route that changes something."""


class _Address(msgspec.Struct, frozen=True):
    method: str
    path: str
    handler: AnyHandler


class Route(_Address, frozen=True, kw_only=True):
    """A row of the route table: requirements, parameters and response.

    `auth` is "public" (no authentication), "optional" (a token changes the response), "app" (any token), "client" (an app's own
    token, without a member), "user" (a member's token), "server" (a server key that acts for no member) or "browser" (a page,
    authenticated by cookie instead of a token). A token needs `scope`; None is for public routes, pages, and "app" and "server"
    routes that any such token may call.
    """

    scope: str | None = None
    auth: Auth = "user"
    role: Role = Role.NONE
    """The lowest role that the member must have; only for `auth="user"`."""
    limit_class: str = ""
    params: type[msgspec.Struct] | None = None
    max_body: int = 1 << 16
    """Maximum of the body in bytes. A larger one is refused before it is read."""
    max_fields: int = 1_000
    """Maximum number of values in a JSON body, at all levels."""
    on_disk: bool = False
    """Whether uploaded files stay on disk for the handler to copy them, instead of being loaded into memory."""
    answer: object = None
    """The type of the response for the OpenAPI document: of a value, or a `Body`."""
    also: tuple[tuple[int, str], ...] = ()
    """Success statuses besides 200, with their descriptions."""
    refuses: tuple[int, ...] = ()
    """Error statuses in addition to those implied by the other declarations."""
    what: str = ""
    """The summary in the OpenAPI document; if empty, the first line of the handler's docstring."""
    delivers: bool = False
    """Whether its requests cause deliveries; they are refused while deliveries are behind."""
    page: bool = False
    """Whether it returns HTML; its errors are pages too."""
    cached: bool = False
    """Whether its responses are cached until their dependencies change."""
    by_owner: bool = False
    """Whether its responses depend on more than the graph, timelines and the clock. If so, only the owner of an SQLite file serves
    it, no reader process.
    """
    once: bool = False
    """Whether a repeated parameter is refused (RFC 6749, section 3.1); otherwise the last one counts."""
    stub: bool = False
    """Whether it always returns an empty response, because Shoal lacks the feature."""

    @property
    def summary(self) -> str:
        return self.what or (self.handler.__doc__ or "").strip().partition("\n")[0]


class RouteGroup(NamedTuple):
    """A group of routes in the OpenAPI document: its name, its description, and the routes."""

    name: str
    what: str
    routes: tuple[Route, ...]


LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
"""The msgspec types that are lists in JSON."""


def inner_types(info: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    """Yield the types nested directly in a type, each with the suffix that it adds to the path of a value."""
    if isinstance(info, inspect.StructType):
        yield from ((f".{field.encode_name}", field.type) for field in info.fields)
    elif isinstance(info, inspect.Metadata):
        yield "", info.type
    elif isinstance(info, inspect.UnionType):
        yield from (("", kind) for kind in info.types)
    elif isinstance(info, LISTS):
        yield "[]", info.item_type
    elif isinstance(info, inspect.DictType):
        yield from ((" (keys)", info.key_type), (" (values)", info.value_type))
    elif isinstance(info, inspect.TupleType):
        yield from (("[]", kind) for kind in info.item_types)
