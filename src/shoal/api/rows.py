"""The words of rows: kinds of routes, so that a row is mostly a line, and a type checker holds each handler against its row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

import msgspec

from shoal.api.context import Handler
from shoal.api.entities.statuses import Status
from shoal.api.http.calls import Auth, Route
from shoal.api.http.pages import PageQuery, StatusesQuery
from shoal.api.listing import One
from shoal.core.model import Role

FORM = 64 * 1024
"""Bytes of a multipart body besides its files."""

P = TypeVar("P", bound=msgspec.Struct)


class Words(TypedDict, total=False):
    """The declarations of a row besides its address, its handler and its parameters: see `Route`."""

    scope: str
    auth: Auth
    role: Role
    limit_class: str
    max_body: int
    answer: object
    also: tuple[tuple[int, str], ...]
    refuses: tuple[int, ...]
    what: str
    delivers: bool
    page: bool
    remembered: bool
    by_owner: bool
    once: bool
    stub: bool


@dataclass(frozen=True, slots=True)
class RouteKind:
    """Rows that have these words in common. Each may say more, and may say something else instead.

    A row without parameters needs a handler that is given None, and one with parameters a handler that takes them.
    """

    words: Words

    @overload
    def __call__(self, method: str, path: str, handler: Handler[None], **more: Unpack[Words]) -> Route: ...

    @overload
    def __call__(
        self, method: str, path: str, handler: Handler[P], *, params: type[P], **more: Unpack[Words]
    ) -> Route: ...

    def __call__(
        self,
        method: str,
        path: str,
        handler: Handler[Any],
        *,
        params: type[msgspec.Struct] | None = None,
        **more: Unpack[Words],
    ) -> Route:
        words: Words = {**self.words, **more}
        return Route(method, path, handler, params=params, **words)

    def having(self, **more: Unpack[Words]) -> RouteKind:
        """Rows that have these words in common as well."""
        return RouteKind({**self.words, **more})

    def taking(self, params: type[P]) -> KindTaking[P]:
        """Rows that take these parameters."""
        return KindTaking(self, params)


@dataclass(frozen=True, slots=True)
class KindTaking(Generic[P]):
    """Rows that have their parameters in common, too."""

    kind: RouteKind
    params: type[P]

    def __call__(self, method: str, path: str, handler: Handler[P], **more: Unpack[Words]) -> Route:
        return self.kind(method, path, handler, params=self.params, **more)

    def having(self, **more: Unpack[Words]) -> KindTaking[P]:
        """Rows that have these words in common as well."""
        return KindTaking(self.kind.having(**more), self.params)


route = RouteKind({"limit_class": "api"})
"""For members."""
public = route.having(auth="public")
"""For everybody; nobody asks who it is."""
oauth = public.having(once=True)
"""For everybody, in the words of OAuth: a parameter that comes twice is refused."""
seen = route.having(auth="optional")
"""For everybody; who has a token may see more."""
staff = route.having(role=Role.MODERATOR)
"""For those who look after the network."""
admin = route.having(role=Role.ADMIN)
"""For admins alone."""
one = route.taking(One)
"""For members, about one thing."""
page = route.taking(PageQuery)
"""For members, a page of something of theirs."""
statuses_page = route.having(answer=list[Status]).taking(StatusesQuery)
"""For members, a page of statuses."""
