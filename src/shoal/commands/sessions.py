"""A member's sessions in apps and browsers: start, list and revoke.

A browser session stays logged in, so another app needs only an authorization, without a second login.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.commands.audit import note
from shoal.commands.context import Writes
from shoal.commands.oauth import (
    NewToken,
    add_token,
    check_token,
    check_welcome,
    expired,
    has_expired,
    revoke_token,
)
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import NotFound, Unauthenticated
from shoal.core.events import SessionsEnded
from shoal.core.model import HALFWAY, App, Member, Token
from shoal.core.tokens import NOWHERE, Origin
from shoal.graph.access import get_object, objects_of, pages_of
from shoal.graph.contract import Batch, Cursor
from shoal.graph.payloads.members import drop_login
from shoal.graph.schema import LOGGED_IN

_PAGE = 100
_PROVIDER = "provider:"
"""Scope of an incomplete session by which the login provider is remembered until the second factor."""
_MOST_NAMED = 1_000
"""Newest tokens that the event lists, so that the processes with open connections of these sessions can close them."""


class Session(NamedTuple):
    """A valid token and its app. The app is None for a browser session, or if the app was deleted."""

    token: Token
    app: App | None


class BrowserSession(NamedTuple):
    token: Token
    member: Member

    @property
    def provider(self) -> str:
        """The login provider that authenticated the member of an incomplete session; empty for a password."""
        return "".join(scope.removeprefix(_PROVIDER) for scope in self.token.scopes if scope.startswith(_PROVIDER))


class Sessions(NamedTuple):
    """A page of sessions, newest first; `next` is the cursor of the next page, None on the last page."""

    sessions: list[Session]
    next: int | None


async def begin(
    writes: Writes, member: Member, *, proved: bool = False, origin: Origin = NOWHERE, provider: str = ""
) -> NewToken:
    """Start a browser session of a member whose password was verified, or whom a login `provider` authenticated.

    If the member has a second factor, the session is incomplete (scope `HALFWAY`) until a code is verified; `proved` means that
    a code was verified already.
    """
    halfway = (HALFWAY, _PROVIDER + provider) if provider else (HALFWAY,)
    scopes = halfway if member.second_factor and not proved else ()
    old = await expired(writes, member.id)
    theirs = writes.by(writes.actor.proved(member))

    def extra(batch: Batch, id_: int) -> None:
        for session in old:
            drop_login(batch, member.id, session, id_)
        if not scopes:
            details = {"provider": provider} if provider else {}
            note(theirs, batch, AuditVerb.LOGIN_SUCCEEDED, member_target(member), **details)

    return await add_token(writes, 0, member.id, scopes, member.generation, origin, extra)


async def of_browser(writes: Writes, text: str) -> BrowserSession | None:
    """Return the session of this browser token; None if the token is invalid, or the session lacks the second factor.

    Raises `NotAllowed` if the member may not log in.
    """
    return await _of_browser(writes, text, ())


async def halfway(writes: Writes, text: str) -> BrowserSession | None:
    """Return the session of this browser token if it still lacks the second factor; None for any other token.

    Raises `NotAllowed` if the member may not log in.
    """
    return await _of_browser(writes, text, (HALFWAY,))


async def _of_browser(writes: Writes, text: str, scopes: tuple[str, ...]) -> BrowserSession | None:
    try:
        token, member = await check_token(writes, text)
    except Unauthenticated:
        return None
    if token.app_id or token.scopes[:1] != scopes or member is None:
        return None
    if has_expired(token, writes.new_id.now()):
        return None
    check_welcome(member)
    return BrowserSession(token, member)


async def leave(writes: Writes, text: str) -> None:
    try:
        token, member = await check_token(writes, text)
    except Unauthenticated:
        return
    if not token.app_id and member is not None:
        await revoke_token(writes.by(writes.actor.proved(member)), token)


async def page(writes: Writes, member_id: int, at: Cursor) -> Sessions:
    """Return a page of the member's sessions, newest first even if `at` reads oldest first."""
    graph, now = writes.graph, writes.new_id.now()
    listed = await graph.assoc_range(member_id, LOGGED_IN, at)
    listed.sort(key=lambda assoc: -assoc.time)
    found = await graph.obj_get([member_id, *(assoc.id2 for assoc in listed)])
    member = found.get(member_id)
    tokens = [
        node
        for assoc in listed
        if isinstance(node := found.get(assoc.id2), Token)
        and isinstance(member, Member)
        and node.generation == member.generation
        and not node.is_expired(now, writes.lifetime)
        and (node.app_id or not has_expired(node, now))
    ]
    apps = await graph.obj_get(list({token.app_id for token in tokens if token.app_id}))
    sessions = [Session(token, app if isinstance(app := apps.get(token.app_id), App) else None) for token in tokens]
    return Sessions(sessions, listed[-1].time if len(listed) == at.limit else None)


async def end(writes: Writes, member_id: int, token_id: int) -> None:
    """End one of the member's sessions. Raises `NotFound` for another member's session."""
    token = await get_object(writes.graph, Token, token_id)
    if token.member_id != member_id:
        raise NotFound("Record not found")
    await revoke_token(writes, token)


async def all_ended(writes: Writes, member_id: int) -> SessionsEnded:
    """Return the event that ends all of a member's sessions.

    The commit that emits the event must also increment the member's `generation`, which invalidates older tokens, or hide the
    member.
    """
    tokens = await writes.graph.assoc_range(member_id, LOGGED_IN, Cursor(limit=_MOST_NAMED))
    return SessionsEnded(member_id=member_id, token_ids=tuple(token.id2 for token in tokens), every=True)


async def end_others(writes: Writes, member_id: int, except_id: int) -> int:
    """End all of the member's sessions except the one with the token `except_id`, and return their number."""
    ended = 0
    async for listed in pages_of(writes.graph, member_id, LOGGED_IN, _PAGE):
        for token in await objects_of(writes.graph, Token, [assoc.id2 for assoc in listed if assoc.id2 != except_id]):
            await revoke_token(writes, token)
            ended += 1
    return ended
