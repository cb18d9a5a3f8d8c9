"""Bearer token authentication, with one read of the token and one of its member, and the scopes of a token.

A server key with the scope `server:act` acts for the member in the header `Shoal-Member`: `id:N`, or `external:ISSUER:ID` with both
parts percent-encoded. Any other token ignores the header.

A scope is `read`, `write`, `follow`, `push`, `profile`, or a child such as `read:statuses` and `admin:write:reports`. A parent
grants its children; `follow` grants reading and writing of blocks, follows and mutes. Unknown scopes are refused when requested,
so none is ever stored. `in_words` describes scopes for the consent page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from starlette.requests import HTTPConnection

from shoal.commands import external_ids
from shoal.commands.oauth import TokenUses, check_token, check_welcome
from shoal.core.errors import InvalidInput, InvalidToken, NotAllowed
from shoal.core.external_ids import parse_external_id
from shoal.core.ids import MAX_ID
from shoal.core.model import App, Member
from shoal.core.tokens import Origin, origin_of
from shoal.graph.contract import Reader, find_object
from shoal.http.rate_limits import address_of
from shoal.http.routes import Caller

AREAS = {
    "accounts": "your profile and settings",
    "blocks": "whom you block",
    "bookmarks": "your bookmarks",
    "conversations": "your direct conversations",
    "favourites": "what you like",
    "filters": "your filters",
    "follows": "whom you follow, and who follows you",
    "lists": "your lists",
    "media": "your pictures and videos",
    "mutes": "whom you mute",
    "notifications": "your notifications",
    "reports": "what you reported",
    "search": "what you search for",
    "statuses": "all posts that you can see",
}
"""The areas that an app may read or write on behalf of a member, as described to the member."""
_ADMIN_AREAS = (
    "accounts",
    "reports",
    "domain_allows",
    "domain_blocks",
    "ip_blocks",
    "email_domain_blocks",
    "canonical_email_blocks",
)

_FOLLOW = frozenset(f"{verb}:{area}" for verb in ("read", "write") for area in ("blocks", "follows", "mutes"))

KNOWN = frozenset(
    {"read", "write", "follow", "push", "profile", "admin:read", "admin:write"}
    | {f"{verb}:{area}" for verb in ("read", "write") for area in AREAS}
    | {f"admin:{verb}:{area}" for verb in ("read", "write") for area in _ADMIN_AREAS}
)
"""All scopes that an app may request."""

SERVER_SCOPES: Mapping[str, str] = {
    "server": "Use all endpoints for server keys except webhooks, and act for members",
    "server:act": "Act for any member, within the other scopes of the key",
    "server:link": "Link external ids to existing members, and unlink them, which decides who can log in as a member",
    "server:members": "Create, change and look up members by external ids",
    "server:events": "Receive events about public data",
    "server:moderation": "See held content, and approve or reject it",
    "server:private": "Receive events about posts that are not public, too",
    "server:webhooks": "Manage webhooks",
}
"""Scopes that only a server key may have, described."""
_EXPLICIT = frozenset({"server:webhooks"})
"""Scopes that no wider scope includes. Webhooks send requests from the server, so a key that only has `server` may not add any."""
KEY_SCOPES = (KNOWN - {"push"}) | SERVER_SCOPES.keys()
"""All scopes that a server key may have. Push subscriptions belong to the session of an app."""

DEFAULT = ("read",)
_MEMBER_HEADER = b"shoal-member"


@lru_cache(maxsize=4096)
def granted(token_scopes: frozenset[str], needed: str) -> bool:
    if needed in token_scopes or ("follow" in token_scopes and needed in _FOLLOW):
        return True
    parent = "" if needed in _EXPLICIT else needed.rpartition(":")[0]
    return bool(parent) and granted(token_scopes, parent)


def parse(text: str) -> tuple[str, ...]:
    """Return the distinct scopes of a list separated by spaces (or by doubly encoded `+`), in order.

    An empty list is `DEFAULT`. Raises `InvalidInput` for an unknown scope.
    """
    asked = tuple(dict.fromkeys(text.replace("+", " ").split())) or DEFAULT
    unknown = [scope for scope in asked if scope not in KNOWN]
    if unknown:
        raise InvalidInput("the requested scope is invalid, unknown, or malformed", field="scope")
    return asked


def key_scopes(asked: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct scopes for a server key. Raises `InvalidInput` for other scopes, and if the key could do nothing."""
    scopes = tuple(dict.fromkeys(asked))
    if unknown := [scope for scope in scopes if scope not in KEY_SCOPES]:
        raise InvalidInput(
            f"scopes: {unknown[0]!r} is not a scope of server keys; use {', '.join(SERVER_SCOPES)}, read, write, follow, "
            "profile, admin:read, admin:write, or a part of these such as read:statuses",
            field="scopes",
        )
    if SERVER_SCOPES.keys().isdisjoint(scopes):
        raise InvalidInput(f"scopes: a server key needs at least one of {', '.join(SERVER_SCOPES)}", field="scopes")
    return scopes


def check_subset(asked: Iterable[str], of_app: Iterable[str]) -> tuple[str, ...]:
    """Return the requested scopes.

    Raises `InvalidInput` if the app has registered neither a requested scope nor one that includes it.
    """
    owned, requested = frozenset(of_app), tuple(asked)
    if not all(granted(owned, scope) for scope in requested):
        raise InvalidInput("the requested scope is wider than the scopes the application registered for", field="scope")
    return requested


_WHOLE = {
    "read": "read everything that you can read, direct messages and settings included",
    "write": "act for you: post, like, share, follow, and change your profile and settings",
    "follow": "follow, mute and block for you, and see whom you follow, mute and block",
    "push": "send you notifications",
    "profile": "see your name and profile picture",
    "admin:read": "read everything that your role lets you read about all members",
    "admin:write": "do everything that your role lets you do to all members",
    "read:search": "search on your behalf",
    "write:accounts": "change your profile, your settings and your password",
    "write:favourites": "like posts for you",
    "write:media": "upload pictures and videos for you",
    "write:reports": "report others for you",
    "write:statuses": "post, edit, share and delete for you",
}
_VERBS = {"read": "see", "write": "change"}


def in_words(scopes: Sequence[str]) -> list[str]:
    """Describe the scopes, leaving out those that another scope in the list includes."""
    widest = [scope for scope in scopes if not granted(frozenset(scopes) - {scope}, scope)]
    return list(dict.fromkeys(map(_words, widest)))


def _words(scope: str) -> str:
    if words := _WHOLE.get(scope):
        return words
    head, _, area = scope.rpartition(":")
    if head.startswith("admin:"):
        return f"{_VERBS[head.removeprefix('admin:')]} {area.replace('_', ' ')} of the network, if your role allows it"
    return f"{_VERBS[head]} {AREAS[area]}"


async def caller_of(uses: TokenUses, request: HTTPConnection, *, staff_second_factor: bool = False) -> Caller | None:
    """Return the caller; None without a token. With `staff_second_factor`, moderators and admins need a second factor.

    Raises `Unauthenticated` for an invalid token, and `NotAllowed` for a member barred from logging in.
    """
    text = bearer_of(request)
    return None if text is None else await caller_with(uses, request, text, staff_second_factor=staff_second_factor)


async def caller_with(
    uses: TokenUses, request: HTTPConnection, text: str, *, staff_second_factor: bool = False
) -> Caller:
    """Return the caller with this token, and record its use. Raises `Unauthenticated` or `NotAllowed` (see `caller_of`)."""
    token, member = await check_token(uses.writes, text)
    if not token.app_id:
        # A browser's session cookie is not an API token.
        raise InvalidToken
    if member is not None:
        check_welcome(member)
    uses.note(token, lambda: origin_of_request(request))
    key = ""
    if token.server_key:
        app = await find_object(uses.writes.graph, App, token.app_id)
        if app is None:
            raise InvalidToken
        key, member = app.name, await _member_acted_for(uses.writes.graph, request, _scopes(token.scopes))
    if member is None:
        return Caller(token.id, token.app_id, None, _scopes(token.scopes), key=key)
    unguarded = member.unguarded(required=staff_second_factor)
    return Caller(token.id, token.app_id, member.id, _scopes(token.scopes), member.role, unguarded, member.name, key)


async def _member_acted_for(graph: Reader, request: HTTPConnection, scopes: frozenset[str]) -> Member | None:
    """Return the member in the header `Shoal-Member`; None without the header.

    Raises `InvalidInput` for a malformed header, and `NotAllowed` if the key may not act for the member.
    """
    given = [value for name, value in request.scope["headers"] if name == _MEMBER_HEADER]
    if not given:
        return None
    if len(given) > 1:
        raise InvalidInput("Shoal-Member: the header is given more than once")
    if not granted(scopes, "server:act"):
        raise NotAllowed("Shoal-Member: this server key lacks the scope server:act")
    kind, _, rest = given[0].decode("latin-1").strip().partition(":")
    if kind == "external":
        try:
            external = parse_external_id(rest)
        except InvalidInput as error:
            raise InvalidInput(f"Shoal-Member: external: {error}") from None
        member = await external_ids.find(graph, external)
    elif kind == "id" and rest.isascii() and rest.isdigit() and len(rest) < 20:
        member = await find_object(graph, Member, min(int(rest), MAX_ID))
    else:
        raise InvalidInput("Shoal-Member: expected id:N, the id of a member, or external:ISSUER:ID")
    if member is None:
        raise NotAllowed("Shoal-Member: there is no such member")
    check_welcome(member)
    return member


def bearer_of(request: HTTPConnection) -> str | None:
    """Return the token from the header, or from the query for clients that cannot set headers."""
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            kind, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if kind.lower() == "bearer" else ""
    if b"access_token=" in request.scope["query_string"]:
        return request.query_params.get("access_token")
    return None


def origin_of_request(request: HTTPConnection) -> Origin:
    return origin_of(address_of(request.scope), request.headers.get("user-agent", ""))


@lru_cache(maxsize=1024)
def _scopes(scopes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(scopes)
