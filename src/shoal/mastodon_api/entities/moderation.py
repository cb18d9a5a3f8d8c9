"""JSON entities of reports and rules, and of accounts as moderators see them."""

from __future__ import annotations

import msgspec

from shoal.core import model
from shoal.core.ids import milliseconds_of
from shoal.i18n import language_tag
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.statuses import Account, Role, Status
from shoal.settings import Settings


class Rule(msgspec.Struct):
    """A rule of this server."""

    id: str
    text: str
    hint: str = ""


class Report(msgspec.Struct, kw_only=True):
    """A report, as seen by its author."""

    id: str
    action_taken: bool
    action_taken_at: str | None
    category: str
    comment: str
    forwarded: bool
    created_at: str
    status_ids: list[str]
    rule_ids: list[str]
    target_account: Account


class AdminIp(msgspec.Struct, kw_only=True):
    """An IP address that a member used."""

    ip: str
    used_at: str


class AdminAccount(msgspec.Struct, kw_only=True):
    """A member, as seen by moderators. IP addresses are not stored."""

    id: str
    username: str
    created_at: str
    email: str
    role: Role
    confirmed: bool
    suspended: bool
    silenced: bool
    disabled: bool
    approved: bool
    locale: str | None
    account: Account
    domain: None = None
    ip: None = None
    ips: list[AdminIp] = []
    sensitized: bool
    invite_request: str | None
    """Why the member wants to join, if sign-ups need approval."""
    invited_by_account_id: str | None
    """The member whose invitation was used."""


class AdminReport(msgspec.Struct, kw_only=True):
    """A report, as seen by moderators."""

    id: str
    action_taken: bool
    action_taken_at: str | None
    category: str
    comment: str
    forwarded: bool
    created_at: str
    updated_at: str
    account: AdminAccount | None
    target_account: AdminAccount | None
    assigned_account: AdminAccount | None
    action_taken_by_account: AdminAccount | None
    statuses: list[Status]
    waiting_status_ids: list[str]
    """Statuses that are hidden from public lists until a report about them is resolved."""
    upheld: bool | None
    """Whether a resolved report was justified."""
    rules: list[Rule]


def rules_of(settings: Settings) -> list[Rule]:
    """Return the rules of this network. The id of a rule is its position in the list, from 1."""
    return [Rule(str(number), text) for number, text in enumerate(settings.rules, 1)]


def report(filed: model.Report, target: Account) -> Report:
    return Report(
        id=str(filed.id),
        action_taken=bool(filed.closed_at),
        action_taken_at=closing(filed),
        category=filed.category,
        comment=filed.comment,
        forwarded=filed.forwarded,
        created_at=created(filed),
        status_ids=list(map(str, filed.post_ids)),
        rule_ids=list(filed.rule_ids),
        target_account=target,
    )


def created(filed: model.Report) -> str:
    return serializers.moment(milliseconds_of(filed.id))


def closing(filed: model.Report) -> str | None:
    return serializers.moment(filed.closed_at) if filed.closed_at else None


def admin_account(member: model.Member, email: str, reason: str, shown: Account) -> AdminAccount:
    return AdminAccount(
        id=str(member.id),
        username=member.name,
        created_at=serializers.moment(member.created_at),
        email=email,
        role=serializers.role(member.role),
        confirmed=not member.unconfirmed,
        suspended=member.suspended and not member.pending,
        silenced=member.silenced,
        disabled=member.disabled,
        approved=not member.pending,
        invite_request=reason or None,
        invited_by_account_id=str(member.invited_by) if member.invited_by else None,
        sensitized=member.sensitized,
        locale=language_tag(member.default_language) or None,
        account=shown,
    )
