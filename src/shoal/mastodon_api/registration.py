"""Registration: sign-up through an app or a page, invitations, and deletion of the caller's account."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.commands import (
    account_deletions,
    blocklists,
    credentials,
    external_ids,
    invitations,
    members,
    oauth,
    publishing,
)
from shoal.core.blocklists import IpSeverity
from shoal.core.errors import InvalidInput, NotAllowed, SecondFactorNeeded, Taken, TooLarge
from shoal.core.external_ids import ExternalId
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import AccountDeletion, Member, Role
from shoal.core.signup import USUAL_SECONDS, Invitation, is_proof
from shoal.core.text import check_email, check_user_name
from shoal.graph.access import access_member
from shoal.graph.contract import Batch
from shoal.graph.schema import email_key, user_name_key
from shoal.http.authentication import granted, origin_of_request
from shoal.http.errors import Blank, NotAccepted, ValidationErrors
from shoal.http.rate_limits import address_of, address_prefix
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.context import AppContext, Context, One, Router, actor
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.serializers import moment
from shoal.mastodon_api.entities.statuses import Token
from shoal.mastodon_api.login_attempts import count_mail, hashing
from shoal.mastodon_api.oauth import app_of
from shoal.settings import Settings

router = Router()


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    username: str
    email: str
    password: str
    agreement: bool
    language: str = ""
    reason: str = ""
    """Why the person wants to join. It is stored if new members wait for approval."""
    invite_code: str = ""
    """The code of an invitation; empty if the person has none."""
    proof: str = ""
    """A proof of work (`core.signup`); empty if the client computed none."""
    external: ExternalId | None = None
    """The user of a login provider who joins, without a password."""
    verified: bool = False
    """Whether the login provider has verified `email`."""
    claimed: str = ""
    """An address at the login provider that the member does not get. If it is blocked, the sign-up is refused."""
    display_name: str = ""


def needs_approval(context: Context, *, invited: bool = False, proven: bool = True) -> bool:
    """Return whether a new member needs approval. Raises `NotAllowed` if sign-up is closed.

    An `invited` person may sign up while sign-up is closed, and needs approval only if an IP block requires it. Any
    other person needs approval if the server requires it for all, if an IP block requires it, or if the server requires
    a proof of work and `proven` is false.
    """
    settings = context.app.settings
    if not (settings.registrations or invited) or not (settings.password_login or settings.oidc_providers):
        raise NotAllowed("This server does not accept new members")
    severity = context.app.ip_guard.severity(context.request.scope)
    if severity is not None and severity.rank >= IpSeverity.SIGN_UP_BLOCK.rank:
        raise NotAllowed("This server does not accept new members from your IP address")
    unproven = settings.signup_work > 0 and not proven
    return ((settings.approval or unproven) and not invited) or severity is not None


def requires_confirmation(settings: Settings) -> bool:
    """Return whether new members must confirm their address before they can act."""
    return asks_confirmation(settings) and settings.email_confirmation == "required"


def asks_confirmation(settings: Settings) -> bool:
    """Return whether members are sent a mail to confirm their address."""
    return bool(settings.mail) and settings.email_confirmation != "none"


async def join(context: Context, form: Joining) -> Member:
    """Create a member, who is `pending` if approval is required or if a check holds the name.

    Raises `NotAllowed` if sign-up is closed, `InvalidInput` for an invalid or expired invitation, `ValidationErrors` with
    all errors found, each with its field, and `Rejected` by a check.
    """
    if form.invite_code:
        await invitations.offered(context.app.writes, form.invite_code)
    external = form.external
    if external is None and not context.app.settings.password_login:
        raise NotAllowed("This server accepts new members only through login providers")
    proven = bool(form.proof or external)
    pending = needs_approval(context, invited=bool(form.invite_code), proven=proven)
    client = address_of(context.request.scope)
    await _check(context.app, form, client, pending=pending)
    if form.proof and context.app.settings.signup_work:
        await _check_proof(context.app, form)
    confirms, required = asks_confirmation(context.app.settings), requires_confirmation(context.app.settings)
    invitation = (
        invitations.held(context.app.writes, form.invite_code, form.username) if form.invite_code else nullcontext()
    )
    reason, network = form.reason if pending else "", address_prefix(client) if client else ""
    decision = await publishing.check_name(context.app.writes, form.username.lower(), form.display_name)
    pending = pending or decision.action == "hold"
    if external is not None:
        async with invitation as invited:
            member = await external_ids.register(
                context.app.writes,
                external,
                form.username,
                email=form.email,
                confirmed=form.verified,
                unconfirmed=required and not form.verified,
                confirms=required and not form.verified,
                display_name=form.display_name,
                language=form.language,
                pending=pending,
                reason=reason,
                network=network,
                invited=invited,
            )
    else:
        async with hashing(context.request.scope), invitation as invited:
            member = await members.register(
                context.app.writes,
                form.username,
                password=form.password,
                email=form.email,
                language=form.language,
                pending=pending,
                reason=reason,
                unconfirmed=required,
                confirms=confirms,
                network=network,
                invited=invited,
            )
    if decision.unchecked:
        batch = Batch(shard_of(member.id))
        publishing.note_unchecked(context.app.writes, batch, decision, "profile", member)
        await context.app.writes.graph.commit(batch)
    return member


async def _check_proof(app_context: AppContext, form: Joining) -> None:
    """Raise `InvalidInput` for a wrong or expired proof of work.

    The client can then retry. Without the error, its user would have to wait for approval.
    """
    domain, bits, now = app_context.at.netloc, app_context.settings.signup_work, time.time_ns() // 1_000_000_000
    if not await asyncio.to_thread(is_proof, form.proof, domain, form.username, bits, now):
        raise InvalidInput(
            f"proof: expected a proof of work of {bits} bits for this name, at most an hour old", field="proof"
        )


async def _check(app_context: AppContext, form: Joining, client: str, *, pending: bool) -> None:
    errors: list[InvalidInput] = []
    name = _validated(errors, "username", form.username, check_user_name)
    try:
        if name:
            await blocklists.check_name(app_context.graph, name)
    except InvalidInput as error:
        errors.append(error)
        name = ""
    email = form.email
    if form.external is None or (requires_confirmation(app_context.settings) and not form.verified):
        email = _validated(errors, "email", form.email, check_email)
    if form.external is None:
        _validated(errors, "password", form.password, lambda text: members.check_password(app_context.writes, text))
    if not form.agreement:
        errors.append(NotAccepted("Service agreement must be accepted", field="agreement"))
    if pending and len(form.reason) > (most := app_context.writes.limits.reason):
        errors.append(TooLarge(f"Reason is too long (maximum is {most} characters)", field="reason"))
    try:
        for address in filter(None, dict.fromkeys((email, form.claimed))):
            await blocklists.check_email(app_context.writes, address, client)
    except InvalidInput as error:
        # For a blocked address, do not check whether a member has it, because the response would reveal that.
        errors.append(error)
        email = ""
    keys = {
        field: key(text)
        for field, text, key in (("username", name, user_name_key), ("email", email, email_key))
        if text
    }
    taken = await app_context.graph.key_get(list(keys.values())) if keys else {}
    errors += [
        Taken(f"{field.title()} has already been taken", field=field) for field, key in keys.items() if key in taken
    ]
    if errors:
        raise ValidationErrors(errors)


def _validated(errors: list[InvalidInput], field: str, text: str, check: Callable[[str], str]) -> str:
    """Return a field's value as it is stored. If the value is invalid, add the error to `errors` and return ""."""
    if not text.strip():
        errors.append(Blank(f"{field.title()} can't be blank", field=field))
        return ""
    try:
        return check(text)
    except InvalidInput as error:
        errors.append(error)
        return ""


_Word = Annotated[str, Meta(max_length=2_000)]
_LOCALE = re.compile(r"([a-z]{2,3})(?:[-_][A-Za-z0-9]{2,8}){0,3}")


class SignUp(msgspec.Struct, frozen=True):
    """Fields of the sign-up form. `username`, `email`, `password` and `agreement` are required. All errors are reported together.

    A date of birth is not required, and ignored if sent.
    """

    username: _Word = ""
    email: _Word = ""
    password: _Word = ""
    agreement: bool = False
    locale: Annotated[str, Meta(max_length=35)] = ""
    reason: Annotated[str, Meta(max_length=20_000)] = ""
    """Why the person wants to join: at most 420 characters. It is stored if new members wait for approval."""
    invite_code: _Word = ""
    """The code of an invitation, which allows signing up while sign-up is closed, and without approval."""
    proof: _Word = ""
    """A proof of work, if `configuration.accounts.signup_work` requires one."""


@router.post("/api/v1/accounts", auth="client", scope="write:accounts", limit_class="signup", answer=Token)
async def sign_up(context: Context, params: SignUp) -> object:
    """Create a member and return their token, which is valid at once, or after approval if sign-ups need it."""
    app = await app_of(context.app, context.caller.app_id)
    member = await join(
        context,
        Joining(
            username=params.username,
            email=params.email,
            password=params.password,
            agreement=params.agreement,
            language=_language(params.locale),
            reason=params.reason,
            invite_code=params.invite_code,
            proof=params.proof,
        ),
    )
    origin = origin_of_request(context.request)
    made = await oauth.issue_token(
        context.app.writes, app.id, member.id, app.scopes, generation=member.generation, origin=origin
    )
    return serializers.token(*made)


def _language(locale: str) -> str:
    found = _LOCALE.fullmatch(locale)
    return found[1] if found else ""


@router.post("/api/v1/emails/confirmations", scope="write:accounts", answer=dict)
async def resend_confirmation(context: Context, _params: None) -> None:
    """Resend the mail with which the caller confirms their address.

    Refused if the address is confirmed or missing, and if the server requires no confirmation.
    """
    member = await access_member(context.app.graph, actor(context))
    login = await members.login_of(context.app.writes, member)
    if login is None or not login.email or login.confirmed or not asks_confirmation(context.app.settings):
        raise NotAllowed("This method is only available while the e-mail is awaiting confirmation")
    await count_mail(context, login.email)
    await credentials.ask_confirmation(context.app.writes, member)


class NewInvite(msgspec.Struct, frozen=True, kw_only=True):
    max_uses: Annotated[int, Meta(ge=0, le=1_000_000)] = 1
    """How many people may sign up with the invitation: 1 to 100; 0, for moderators and admins, means any number."""
    expires_in: Annotated[int, Meta(ge=0, le=1_000_000_000)] = USUAL_SECONDS
    """Seconds until the invitation expires: an hour to 30 days; 0, for moderators and admins, means never."""
    autofollow: bool = False
    """Whether people who sign up with the invitation follow the caller."""


class InviteEntity(msgspec.Struct, kw_only=True):
    """An invitation to sign up."""

    id: str
    code: str
    """The `invite_code` of `POST /api/v1/accounts`."""
    url: str
    created_at: str
    expires_at: str | None
    max_uses: int | None
    uses: int
    autofollow: bool
    open: bool
    """Whether the invitation can be used now."""


@router.get("/api/shoal/v1/invites", scope="read:accounts", answer=list[InviteEntity])
async def list_invites(context: Context, _params: None) -> object:
    """List the caller's invitations, newest first, including expired and used-up ones."""
    return [
        _shown(context.app, invitation)
        for invitation in await invitations.of_member(context.app.writes, actor(context))
    ]


@router.post("/api/shoal/v1/invites", scope="write:accounts", answer=InviteEntity)
async def create_invite(context: Context, params: NewInvite) -> object:
    """Create an invitation. The setting `invitations` determines who may create one."""
    for_staff = invitations.is_for_staff(context.app.writes, uses=params.max_uses, seconds=params.expires_in)
    if for_staff and context.caller.unguarded:
        raise SecondFactorNeeded
    made = await invitations.create(
        context.app.writes, actor(context), uses=params.max_uses, seconds=params.expires_in, follow=params.autofollow
    )
    return _shown(context.app, made)


@router.delete("/api/shoal/v1/invites/{id}", scope="write:accounts", answer=dict)
async def revoke_invite(context: Context, params: One) -> None:
    """Revoke one of the caller's invitations. Staff with the scope `admin:write:accounts` may revoke any invitation."""
    app_context, caller = context.app, context.caller
    guarded_staff = caller.role is not Role.NONE and not caller.unguarded
    as_staff = guarded_staff and granted(caller.scopes, "admin:write:accounts")
    verb = invitations.end_as_staff if as_staff else invitations.end
    await verb(app_context.writes, actor(context), params.id)


def _shown(app_context: AppContext, invitation: Invitation) -> InviteEntity:
    return InviteEntity(
        id=str(invitation.id),
        code=invitation.code,
        url=f"{app_context.at.root}/invite/{invitation.code}",
        created_at=moment(invitation.created_at),
        expires_at=moment(invitation.expires_at) if invitation.expires_at else None,
        max_uses=invitation.most or None,
        uses=invitation.used,
        autofollow=invitation.follow,
        open=invitation.is_open(now_ms()),
    )


_Secret = Annotated[str, Meta(min_length=1, max_length=2_000)]


class OwnPassword(msgspec.Struct, frozen=True):
    password: _Secret


class NameAndPassword(msgspec.Struct, frozen=True):
    username: Annotated[str, Meta(min_length=1, max_length=300)]
    password: _Secret


class ReceiptPath(msgspec.Struct, frozen=True):
    receipt: Annotated[str, Meta(max_length=100)]


class DepartureEntity(msgspec.Struct, frozen=True):
    """The deletion of an account: when it was requested, is due, began and finished, and the numbers of deleted objects."""

    username: str
    asked_at: str
    deletes_at: str
    begun_at: str | None
    deleted_at: str | None
    counts: Mapping[str, int]
    """Empty until the deletion begins."""


class FarewellEntity(DepartureEntity, frozen=True):
    """An account deletion that was just requested.

    `receipt` is the secret with which its state can be read later. It is not shown again.
    """

    receipt: str


@router.post("/api/shoal/v1/leave", scope="write:accounts", limit_class="login", answer=FarewellEntity)
async def delete_account(context: Context, params: OwnPassword) -> object:
    """Delete the caller's account: it is hidden now and deleted after a grace period.

    All sessions are logged out, including this one.
    """
    farewell = await login_attempts.leave(context, actor(context), params.password)
    return FarewellEntity(**_fields(farewell.deletion), receipt=farewell.receipt)


@router.post("/api/shoal/v1/come_back", auth="public", limit_class="login", answer=dict, refuses=(401, 403))
async def cancel_deletion(context: Context, params: NameAndPassword) -> None:
    """Cancel the deletion of an account, so that its owner can log in again."""
    await login_attempts.come_back(context, params.username, params.password)


@router.get("/api/shoal/v1/receipts/{receipt}", auth="public", answer=DepartureEntity)
async def get_receipt(context: Context, params: ReceiptPath) -> object:
    """Show the state of an account deletion to the holder of its receipt, for a year."""
    return DepartureEntity(**_fields(await account_deletions.receipt(context.app.writes, params.receipt)))


def _fields(deletion: AccountDeletion) -> dict[str, Any]:
    return {
        "username": deletion.name,
        "asked_at": moment(deletion.asked_at),
        "deletes_at": moment(deletion.at),
        "begun_at": moment(deletion.begun_at) if deletion.begun_at else None,
        "deleted_at": moment(deletion.done_at) if deletion.done_at else None,
        "counts": deletion.counts,
    }
