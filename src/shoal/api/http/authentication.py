"""Authentication: finds the caller of a bearer token, with one read of the token and one of its member."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import HTTPConnection

from shoal.api.http.calls import Caller
from shoal.api.http.limits.ratelimit import address_of
from shoal.commands.oauth import check_token, check_welcome
from shoal.commands.sessions import TokenUses
from shoal.core.errors import InvalidToken
from shoal.core.tokens import Origin, origin_of


async def caller_of(uses: TokenUses, request: HTTPConnection, *, staff_second_factor: bool = False) -> Caller | None:
    """The caller; None without a token. `staff_second_factor`: moderators and admins must have a second factor.

    Raises `Unauthenticated` for a bad one, `NotAllowed` for who may not come in.
    """
    text = bearer_of(request)
    return None if text is None else await caller_with(uses, request, text, staff_second_factor=staff_second_factor)


async def caller_with(
    uses: TokenUses, request: HTTPConnection, text: str, *, staff_second_factor: bool = False
) -> Caller:
    """The caller whose token this is, which is noted as used. Raises as `caller_of`."""
    token, member = await check_token(uses.writes, text)
    if not token.app_id:
        # The cookie of a browser opens pages of ours, and is no token of the API.
        raise InvalidToken
    if member is not None:
        check_welcome(member)
    uses.note(token, lambda: origin_of_request(request))
    if member is None:
        return Caller(token.id, token.app_id, None, _scopes(token.scopes))
    unguarded = member.unguarded(required=staff_second_factor)
    return Caller(token.id, token.app_id, member.id, _scopes(token.scopes), member.role, unguarded, member.name)


def bearer_of(request: HTTPConnection) -> str | None:
    """The token in the header, or in the query, where clients put it that cannot set a header."""
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            kind, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if kind.lower() == "bearer" else ""
    if b"access_token=" in request.scope["query_string"]:
        return request.query_params.get("access_token")
    return None


def origin_of_request(request: HTTPConnection) -> Origin:
    """Return the program that a request comes from, and its address."""
    return origin_of(address_of(request.scope), request.headers.get("user-agent", ""))


@lru_cache(maxsize=1024)
def _scopes(scopes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(scopes)
