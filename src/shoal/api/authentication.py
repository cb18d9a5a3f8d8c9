"""Who asks: from the bearer token of a request to its caller, in one read of the token and one of its member."""

from __future__ import annotations

from functools import lru_cache

from starlette.requests import Request

from shoal.api.calls import Caller
from shoal.core.errors import NotAllowed, Unauthenticated
from shoal.core.model import Member
from shoal.graph.contract import Reader
from shoal.services.apps import check_token


async def caller_of(graph: Reader, request: Request) -> Caller | None:
    """The caller; None without a token. Raises `Unauthenticated` for a bad one, `NotAllowed` for a suspended member's."""
    text = _bearer(request)
    if text is None:
        return None
    token = await check_token(graph, text)
    scopes = _scopes(token.scopes)
    if not token.member_id:
        return Caller(token.id, token.app_id, None, scopes)
    member = (await graph.obj_get((token.member_id,))).get(token.member_id)
    if not isinstance(member, Member):
        raise Unauthenticated("The access token is invalid")
    if member.suspended:
        raise NotAllowed("Your login is currently disabled")
    return Caller(token.id, token.app_id, member.id, scopes)


def _bearer(request: Request) -> str | None:
    """The token in the header, or in the query, where clients put it that cannot set a header."""
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            kind, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if kind.lower() == "bearer" else ""
    if b"access_token=" in request.scope["query_string"]:
        return request.query_params.get("access_token")
    return None


@lru_cache(maxsize=1024)
def _scopes(scopes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(scopes)
