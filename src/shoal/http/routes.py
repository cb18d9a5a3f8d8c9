"""Declarations of routes, and the caller and context that a handler receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import inspect
from starlette.requests import Request

from shoal.core.model import Role

D_co = TypeVar("D_co", covariant=True)

Auth = Literal["public", "optional", "app", "client", "user", "browser"]


class Caller(msgspec.Struct, frozen=True):
    """The caller of a request: ids of the token, its app and its member. `member_id` is None for an app's own token."""

    token_id: int
    app_id: int
    member_id: int | None
    scopes: frozenset[str]
    role: Role = Role.NONE
    """The member's."""
    unguarded: bool = False
    """See `Member.unguarded`."""
    name: str = ""
    """The member's."""


ANONYMOUS = Caller(0, 0, None, frozenset())
"""Somebody without a token. The only caller whose `token_id` is 0."""


class Context(msgspec.Struct, Generic[D_co], frozen=True):
    """Arguments of a handler besides its parameters."""

    caller: Caller
    request: Request
    deps: D_co
    """The bundle that `build_app` was given."""
    path: Mapping[str, str]
    """Values of the path's braces. The params struct has them too; there they win over query and body."""


class Body(NamedTuple):
    """The answer of a route that answers no plain JSON."""

    content_type: str
    shape: object = None
    """The type of its value, where it is JSON under another name."""


AnyHandler = Callable[[Context[Any], Any], Awaitable[object]]
"""Answers a value to encode, `bytes` of JSON, a `Reply` or a Starlette `Response`."""

Authenticate = Callable[[Request], Awaitable[Caller | None]]
"""Returns the caller; None without a token. Raises `Unauthenticated`, or `NotAllowed` if the member may not log in.

It must not read the body.
"""


Bind = Callable[[Any, Caller, Request], object]
"""Returns the bundle that `build_app` was given, bound to whoever calls: for handlers that change something."""


class _Address(msgspec.Struct, frozen=True):
    method: str
    path: str
    handler: AnyHandler


class Route(_Address, frozen=True, kw_only=True):
    """One row of the API: what it needs, what it takes and what it answers.

    `auth` is "public" (nobody is asked for), "optional" (a token changes the answer), "app" (any token), "client" (an app's own
    token, and no member's), "user" (a member's token) or "browser" (a page: the cookie says who is logged in, if anybody is,
    and no token does). A member's or app's token needs `scope`; None is for public routes, for pages, and for "app" routes that
    any token may call.
    """

    scope: str | None = None
    auth: Auth = "user"
    role: Role = Role.NONE
    """The lowest role that the member must have; only for `auth="user"`."""
    limit_class: str = ""
    params: type[msgspec.Struct] | None = None
    max_body: int = 1 << 16
    """The largest body in bytes; one that is larger is refused before it is read."""
    on_disk: bool = False
    """Whether its files stay where they arrived, for the handler to copy them; otherwise they are in memory."""
    answer: object = None
    """The type of the answer, for the description of the API: of a value, or a `Body`."""
    also: tuple[tuple[int, str], ...] = ()
    """Statuses of good answers beside 200, with what each means."""
    refuses: tuple[int, ...] = ()
    """Statuses of refusals, beside those that are seen from what it takes."""
    what: str = ""
    """A summary for the description of the API; if empty, the first line of the handler's docstring."""
    delivers: bool = False
    """Whether what it does is delivered to others: it is refused, before anything else, while deliveries are behind."""
    page: bool = False
    """Whether it answers HTML for a person to read; its refusals are pages too."""
    remembered: bool = False
    """Whether its answers are remembered while everything that they are made of stays as it is."""
    by_owner: bool = False
    """Whether they are made of more than the graph, timelines and the clock. Of several processes on one SQLite file the owner
    alone gives such an answer."""
    once: bool = False
    """Whether a parameter that comes twice is refused, as RFC 6749, 3.1 asks; elsewhere the last one counts."""
    stub: bool = False
    """Whether it answers the empty shape alone: there is no such thing here."""

    @property
    def summary(self) -> str:
        """Return a summary of the route in one line."""
        return self.what or (self.handler.__doc__ or "").strip().partition("\n")[0]


class RouteGroup(NamedTuple):
    """The routes that belong together, as pages show them: a word, a sentence, and the rows."""

    name: str
    what: str
    routes: tuple[Route, ...]


LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)
"""Types of msgspec that are lists on the wire."""


def inner_types(info: inspect.Type) -> Iterator[tuple[str, inspect.Type]]:
    """Yield the types directly inside a type, each with what it adds to the path of a value."""
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
