"""Accounts for moderators: list, show and moderate them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.commands import members, moderation, reports
from shoal.commands.context import Writes
from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput, NotAllowed, NotFound
from shoal.core.model import Member, Role
from shoal.core.visibility import STRANGER
from shoal.graph.access import members_by_id
from shoal.graph.contract import Cursor, Reader
from shoal.graph.schema import EVERYBODY, STAFF
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.mastodon_api.context import AppContext, Context, One, Router, actor, cursor_of, paged
from shoal.mastodon_api.entities import moderation as moderation_entities
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.moderation import AdminAccount
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.queries import moderation as moderation_queries
from shoal.queries.hydration import profiles
from shoal.queries.moderation import Members, MemberState, is_in

router = Router(role=Role.MODERATOR)

_log = logging.getLogger("shoal.moderation")
# Moderation actions are logged at any log level.
_log.setLevel(logging.INFO)

_Text = Annotated[str, Meta(max_length=400)]
_STAFF = 1_000
"""Maximum number of members with a role, which are read at once."""

Command = Callable[[Writes, int], Awaitable[Member]]


class AccountsQuery(PageQuery, frozen=True, kw_only=True):
    local: bool = False
    """Has no effect: all accounts are local."""
    remote: bool = False
    active: bool = False
    pending: bool = False
    disabled: bool = False
    silenced: bool = False
    suspended: bool = False
    sensitized: bool = False
    staff: bool = False
    username: _Text = ""
    """A prefix of the user name."""
    display_name: _Text = ""
    """A part of the display name, case-insensitive."""
    email: _Text = ""
    """The complete e-mail address."""
    ip: _Text = ""
    by_domain: _Text = ""


class AccountsQueryV2(PageQuery, frozen=True, kw_only=True):
    origin: Literal["local", "remote"] | None = None
    status: Literal["active", "pending", "disabled", "silenced", "suspended"] | None = None
    permissions: Literal["staff"] | None = None
    role_ids: Annotated[tuple[_Text, ...], Meta(max_length=20)] = ()
    invited_by: _Text = ""
    """The id of the inviting account."""
    username: _Text = ""
    display_name: _Text = ""
    by_domain: _Text = ""
    email: _Text = ""
    ip: _Text = ""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    id: Id
    type: Literal["none", "sensitive", "disable", "silence", "suspend"]
    report_id: Id | None = None
    """A report about the account, which the action resolves."""
    text: Annotated[str, Meta(max_length=5_000)] = ""
    """The reason, recorded in the audit log."""
    warning_preset_id: _Text = ""
    """Refused: there are no warning presets."""


@router.get("/api/v1/admin/accounts", scope="admin:read:accounts", answer=list[AdminAccount])
async def list_accounts(context: Context, params: AccountsQuery) -> object:
    """List accounts, newest first. A page may have fewer than `limit`; follow its Link header for more."""
    if params.remote or params.ip or params.by_domain:
        # These filters match no account: there are no remote accounts, and IP addresses are not stored.
        return b"[]"
    return await _account_page(context, params, _states(params), _roles(params.staff, ()))


@router.get("/api/v2/admin/accounts", scope="admin:read:accounts", answer=list[AdminAccount])
async def list_accounts_v2(context: Context, params: AccountsQueryV2) -> object:
    """List accounts, newest first, as in API v2. A page may have fewer than `limit`; follow its Link header for more."""
    if params.origin == "remote" or params.ip or params.by_domain:
        return b"[]"
    states = (params.status,) if params.status else ()
    return await _account_page(context, params, states, _roles(params.permissions == "staff", params.role_ids))


def _states(params: AccountsQuery) -> list[MemberState]:
    known: tuple[MemberState, ...] = ("active", "pending", "disabled", "silenced", "sensitized", "suspended")
    return [state for state in known if getattr(params, state)]


def _roles(staff: bool, ids: Sequence[str]) -> frozenset[Role]:
    roles = {role for role in Role if serializers.role(role).id in ids}
    return frozenset(roles | ({Role.MODERATOR, Role.ADMIN} if staff else set()))


async def _account_page(
    context: Context, params: AccountsQuery | AccountsQueryV2, states: Sequence[MemberState], roles: frozenset[Role]
) -> object:
    """List the members in all of these states with one of these roles; an empty set of roles allows any role."""
    inviter = params.invited_by if isinstance(params, AccountsQueryV2) else ""

    def test(member: Member) -> bool:
        return (
            (not roles or member.role in roles)
            and (not inviter or inviter == str(member.invited_by))
            and all(is_in(member, state) for state in states)
            and member.name.startswith(params.username.lower().removeprefix("@"))
            and params.display_name.lower() in member.display_name.lower()
        )

    cursor = cursor_of(params, 100, 200)
    if params.email:
        found = Members([], None)
        member = await members.find(context.app.writes, params.email) if "@" in params.email else None
        # Omit a member whose address the caller may not see: a search result would reveal that the address is theirs.
        seen = member is not None and _sees_address(context, member)
        if member is not None and seen and test(member) and cursor.after < member.id < cursor.before:
            found = Members([member], None)
    elif roles and Role.NONE not in roles:
        found = await _staff(context.app, cursor, test)
    else:
        found = await moderation_queries.members_page(context.app.store, cursor, test)
    body = await shown(context, found.members)
    return paged(context, body, [member.id for member in found.members], found.next, cursor)


async def _staff(app_context: AppContext, cursor: Cursor, test: Callable[[Member], bool]) -> Members:
    """Return a page of the members with a role who pass `test`. They are read from the separate list of moderators and admins."""
    listed = await app_context.graph.assoc_range(EVERYBODY, STAFF, Cursor(limit=_STAFF))
    staff = await members_by_id(app_context.graph, [assoc.id2 for assoc in listed])
    found = sorted((id_ for id_ in staff if cursor.after < id_ < cursor.before and test(staff[id_])), reverse=True)
    here = found[-cursor.limit :] if cursor.oldest_first else found[: cursor.limit]
    more = bool(here) and here[-1] != found[-1]
    return Members([staff[id_] for id_ in here], here[-1] if more or (here and cursor.oldest_first) else None)


async def shown(context: Context, found: Sequence[Member]) -> list[AdminAccount]:
    """Return members as moderators see them. E-mail addresses of members whose role is not below the caller's are omitted."""
    return await admin_accounts(context.app.graph, context.app.at, found, lambda member: _sees_address(context, member))


async def admin_accounts(
    graph: Reader, at: Addresses, found: Sequence[Member], sees_address: Callable[[Member], bool]
) -> list[AdminAccount]:
    """Return members as moderators see them, with the e-mail addresses that the reader may see."""
    members = {member.id: member for member in found}
    known = await profiles(graph, members, None, dict.fromkeys(members, STRANGER))
    logins = await graph.obj_get([member.login_id for member in found if member.login_id])
    answer = []
    for member in found:
        login = logins.get(member.login_id)
        email = login.email if isinstance(login, Login) and sees_address(member) else ""
        reason = login.reason if isinstance(login, Login) else ""
        account = serializers.account(known[member.id], at)
        answer.append(moderation_entities.admin_account(member, email, reason, account))
    return answer


def _sees_address(context: Context, member: Member) -> bool:
    return context.caller.role.rank > member.role.rank


@router.get("/api/v1/admin/accounts/{id}", scope="admin:read:accounts", answer=AdminAccount)
async def get_account(context: Context, params: One) -> object:
    """Show an account in any state, such as suspended or pending."""
    return (await shown(context, [await _member(context, params.id)]))[0]


@router.delete("/api/v1/admin/accounts/{id}", role=Role.ADMIN, scope="admin:write:accounts", answer=AdminAccount)
async def delete(context: Context, params: One) -> object:
    """Refused: posts are not deleted on behalf of a member. Suspend the account to hide them."""
    await _member(context, params.id)
    raise NotAllowed("Accounts cannot be deleted; suspend the account to hide all its content")


@router.post("/api/v1/admin/accounts/{id}/action", scope="admin:write:accounts", answer=dict)
async def act(context: Context, params: Act) -> None:
    """Suspend, silence, mark as sensitive or disable an account, or only resolve a report about it (`none`).

    No e-mail is sent; a request for one is ignored, because Mastodon.py asks for it by default.
    """
    if params.warning_preset_id:
        raise InvalidInput("warning_preset_id: warning presets are not supported", field="warning_preset_id")
    target = await _target(context, params.id)
    if params.report_id is not None:
        await reports.access_report(context.app.graph, params.report_id, about=target.id)
    verb, writes = _ACTS.get(params.type), context.app.writes.because(params.text)
    if verb is not None:
        await verb(writes, target.id)
    if params.report_id is not None:
        await reports.resolve(writes, params.report_id, actor(context))
    _log.info(
        "moderator %s: %s account %s (id %s); reason: %r",
        actor(context),
        verb.__name__ if verb is not None else "take no action on",
        target.name,
        target.id,
        params.text,
    )


_ACTS: dict[str, Command] = {
    "sensitive": moderation.sensitize,
    "disable": moderation.disable,
    "silence": moderation.silence,
    "suspend": moderation.suspend,
}


def _add(name: str, command: Command, what: str) -> None:
    """Add a route that approves a member, or undoes a moderation action, by `command`. `what` is its summary."""

    @router.post(f"/api/v1/admin/accounts/{{id}}/{name}", scope="admin:write:accounts", answer=AdminAccount, what=what)
    async def handler(context: Context, params: One) -> object:
        target = await _target(context, params.id)
        changed = await command(context.app.writes, target.id)
        _log.info("moderator %s: %s account %s (id %s)", actor(context), command.__name__, target.name, target.id)
        return (await shown(context, [changed]))[0]


_add("enable", moderation.enable, "Allow an account to log in again.")
_add("unsilence", moderation.unsilence, "Show an account in public lists again.")
_add("unsensitive", moderation.unsensitize, "Show media of an account as its author marked them again.")
_add("unsuspend", moderation.restore, "Restore a suspended account with all its posts.")
_add("approve", moderation.approve, "Approve an account that waits for approval.")


@router.post("/api/v1/admin/accounts/{id}/reject", scope="admin:write:accounts", answer=AdminAccount)
async def reject(context: Context, params: One) -> object:
    """Reject and delete an account that waits for approval. Its name and e-mail address become available again."""
    target = await _target(context, params.id)
    entity = (await shown(context, [target]))[0]
    await moderation.reject(context.app.writes, target.id)
    _log.info("moderator %s: reject account %s (id %s)", actor(context), target.name, target.id)
    return entity


async def _target(context: Context, id_: int) -> Member:
    """Return the member with this id if the caller may moderate them. Raises `NotFound` or `NotAllowed`."""
    found = await members_by_id(context.app.graph, (actor(context), id_))
    if id_ not in found:
        raise NotFound("Record not found")
    moderation.check_may_act(found[actor(context)], found[id_])
    return found[id_]


async def _member(context: Context, id_: int) -> Member:
    found = await members_by_id(context.app.graph, (id_,))
    if id_ not in found:
        raise NotFound("Record not found")
    return found[id_]
