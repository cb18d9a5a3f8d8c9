"""Audit log entries: the verbs, targets and actors, and the throttling of repeated events.

Of the events with one key, the 1st, 10th, 100th ... per hour are logged. The number of distinct keys per hour is limited; events
with further keys are counted together. Counts are per process.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from shoal.core.blocklists import IpBlock
from shoal.core.errors import InvalidInput
from shoal.core.model import Member, Post, Report
from shoal.core.signup import Invitation
from shoal.core.text import check_text

MAX_REASON = 5_000
MAX_NAME = 255
"""Maximum characters of a target's name; a longer name is truncated."""
MAX_ADDRESS = 45
"""Maximum characters of an IP address: the length of the longest IPv6 address."""


class AuditVerb(StrEnum):
    """An action recorded in the audit log. The values are stored, and never change their meaning."""

    MEMBER_SUSPENDED = "member.suspended"
    MEMBER_UNSUSPENDED = "member.unsuspended"
    MEMBER_SILENCED = "member.silenced"
    MEMBER_UNSILENCED = "member.unsilenced"
    MEMBER_SENSITIZED = "member.sensitized"
    MEMBER_UNSENSITIZED = "member.unsensitized"
    MEMBER_DISABLED = "member.disabled"
    MEMBER_ENABLED = "member.enabled"
    MEMBER_ROLE_CHANGED = "member.role_changed"
    SIGN_UP_APPROVED = "sign_up.approved"
    SIGN_UP_REJECTED = "sign_up.rejected"
    POST_HIDDEN = "post.hidden"
    POST_REVEALED = "post.revealed"
    HELD_APPROVED = "held.approved"
    HELD_REJECTED = "held.rejected"
    CONTENT_UNCHECKED = "content.unchecked"
    POST_KEPT_FROM_TRENDS = "post.kept_from_trends"
    POST_ALLOWED_IN_TRENDS = "post.allowed_in_trends"
    POSTS_CHANGED = "posts.changed"
    POSTS_RESTORED = "posts.restored"
    RULE_CREATED = "rule.created"
    RULE_CHANGED = "rule.changed"
    RULE_STATE_CHANGED = "rule.state_changed"
    RULE_DELETED = "rule.deleted"
    TAG_DENIED = "tag.denied"
    TAG_ALLOWED = "tag.allowed"
    TAG_MERGED = "tag.merged"
    TAG_UNMERGED = "tag.unmerged"
    REPORT_RESOLVED = "report.resolved"
    REPORT_REOPENED = "report.reopened"
    REPORT_ASSIGNED = "report.assigned"
    REPORT_UNASSIGNED = "report.unassigned"
    REPORT_CATEGORIZED = "report.categorized"
    EMAIL_DOMAIN_BLOCKED = "email_domain.blocked"
    EMAIL_DOMAIN_UNBLOCKED = "email_domain.unblocked"
    EMAIL_BLOCKED = "email.blocked"
    EMAIL_UNBLOCKED = "email.unblocked"
    IP_BLOCKED = "ip.blocked"
    IP_BLOCK_CHANGED = "ip.block_changed"
    IP_UNBLOCKED = "ip.unblocked"
    NAME_BLOCKED = "name.blocked"
    NAME_UNBLOCKED = "name.unblocked"
    INVITATION_CREATED = "invitation.created"
    INVITATION_ENDED = "invitation.ended"
    LOGIN_SUCCEEDED = "login.succeeded"
    LOGIN_FAILED = "login.failed"
    APP_AUTHORIZED = "app.authorized"
    SESSION_ENDED = "session.ended"
    PASSWORD_CHANGED = "password.changed"  # noqa: S105  # an act, no password
    PASSWORD_RESET = "password.reset"  # noqa: S105  # an act, no password
    PASSWORD_SET = "password.set"  # noqa: S105  # an act, no password
    EMAIL_CHANGED = "email.changed"
    EMAIL_RESTORED = "email.restored"
    EMAIL_SET = "email.set"
    SECOND_FACTOR_ENABLED = "second_factor.enabled"
    SECOND_FACTOR_DISABLED = "second_factor.disabled"
    SECOND_FACTOR_RESET = "second_factor.reset"
    SECOND_FACTOR_CODES_RENEWED = "second_factor.codes_renewed"
    PASSKEY_ADDED = "passkey.added"
    PASSKEY_REMOVED = "passkey.removed"
    EXPORT_REQUESTED = "export.requested"
    ARCHIVE_IMPORTED = "archive.imported"
    DELETION_REQUESTED = "deletion.requested"
    DELETION_CANCELLED = "deletion.cancelled"
    DELETION_COMPLETED = "deletion.completed"
    JOBS_REPLAYED = "jobs.replayed"
    EXTERNAL_ID_LINKED = "external_id.linked"
    EXTERNAL_ID_UNLINKED = "external_id.unlinked"
    SERVER_KEY_CREATED = "server_key.created"
    SERVER_KEY_ROTATED = "server_key.rotated"
    SERVER_KEY_DELETED = "server_key.deleted"
    KIND_DECLARED = "kind.declared"
    REACTION_DECLARED = "reaction.declared"
    REACTION_RETIRED = "reaction.retired"
    FEED_CREATED = "feed.created"
    FEED_CHANGED = "feed.changed"
    FEED_DELETED = "feed.deleted"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_UPDATED = "webhook.updated"
    WEBHOOK_PAUSED = "webhook.paused"
    WEBHOOK_RESUMED = "webhook.resumed"
    WEBHOOK_ROTATED = "webhook.rotated"
    WEBHOOK_DELETED = "webhook.deleted"


MODERATION_VERBS = frozenset(
    {
        AuditVerb.MEMBER_SUSPENDED,
        AuditVerb.MEMBER_UNSUSPENDED,
        AuditVerb.MEMBER_SILENCED,
        AuditVerb.MEMBER_UNSILENCED,
        AuditVerb.MEMBER_SENSITIZED,
        AuditVerb.MEMBER_UNSENSITIZED,
        AuditVerb.MEMBER_DISABLED,
        AuditVerb.MEMBER_ENABLED,
        AuditVerb.MEMBER_ROLE_CHANGED,
        AuditVerb.SIGN_UP_APPROVED,
        AuditVerb.SIGN_UP_REJECTED,
        AuditVerb.POST_HIDDEN,
        AuditVerb.POST_REVEALED,
        AuditVerb.POST_KEPT_FROM_TRENDS,
        AuditVerb.HELD_APPROVED,
        AuditVerb.HELD_REJECTED,
        AuditVerb.POST_ALLOWED_IN_TRENDS,
        AuditVerb.POSTS_CHANGED,
        AuditVerb.POSTS_RESTORED,
        AuditVerb.RULE_CREATED,
        AuditVerb.RULE_CHANGED,
        AuditVerb.RULE_STATE_CHANGED,
        AuditVerb.RULE_DELETED,
        AuditVerb.TAG_DENIED,
        AuditVerb.TAG_ALLOWED,
        AuditVerb.TAG_MERGED,
        AuditVerb.TAG_UNMERGED,
        AuditVerb.REPORT_RESOLVED,
        AuditVerb.REPORT_REOPENED,
        AuditVerb.REPORT_ASSIGNED,
        AuditVerb.REPORT_UNASSIGNED,
        AuditVerb.REPORT_CATEGORIZED,
        AuditVerb.EMAIL_DOMAIN_BLOCKED,
        AuditVerb.EMAIL_DOMAIN_UNBLOCKED,
        AuditVerb.EMAIL_BLOCKED,
        AuditVerb.EMAIL_UNBLOCKED,
        AuditVerb.IP_BLOCKED,
        AuditVerb.IP_BLOCK_CHANGED,
        AuditVerb.IP_UNBLOCKED,
        AuditVerb.NAME_BLOCKED,
        AuditVerb.NAME_UNBLOCKED,
    }
)
"""Actions of moderators. The event log records only these: the other actions are members' own, or those of operators."""


class TargetKind(StrEnum):
    MEMBER = "member"
    POST = "post"
    TAG = "tag"
    REPORT = "report"
    INVITATION = "invitation"
    EMAIL_DOMAIN = "email_domain"
    EMAIL = "email"
    IP = "ip"
    NAME = "name"
    JOBS = "jobs"
    RULE = "rule"
    BULK_ACTION = "bulk_action"
    SERVER_KEY = "server_key"
    FEED = "feed"
    WEBHOOK = "webhook"
    KIND = "kind"
    REACTION = "reaction"


class AuditTarget(NamedTuple):
    """The object that an audited action concerns, with the name that the object had then."""

    kind: TargetKind
    id: int = 0
    """0 for a target without an id."""
    name: str = ""
    member_id: int = 0
    """Id of the member who owns the target; 0 for none."""


class Actor(NamedTuple):
    member_id: int = 0
    """0 for the command line, for an anonymous client, and for a server key that acts for no member."""
    name: str = ""
    address: str = ""
    """The client's IP address; empty for an action of the server itself."""
    reason: str = ""
    key: str = ""
    """Name of the server key that acts, possibly for the member; empty for any other token."""

    def because(self, reason: str) -> Actor:
        """Return a copy of this actor with a reason for the action. Raises `InvalidInput` if the reason is too long."""
        return self._replace(reason=check_text(reason, field="reason", maximum=MAX_REASON))

    def proved(self, member: Member) -> Actor:
        return self._replace(member_id=member.id, name=member.name)


SYSTEM_ACTOR = Actor()
"""The actor of actions by the command line, or by the server itself."""


class AuditEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry of the audit log. Its id and time are stored in the association that lists it."""

    verb: AuditVerb
    actor_id: int
    """0 for the command line, for an anonymous client, and for a server key that acts for no member."""
    actor_name: str
    kind: TargetKind
    target_id: int
    target_name: str
    address: str = ""
    """The client's IP address; empty for an action of the server itself, or if the address is stored in a member's own list."""
    holder_id: int = 0
    """Id of the member whose own list stores the address; 0 for none."""
    reason: str = ""
    details: dict[str, str | int] = {}


def entry_of(verb: AuditVerb, actor: Actor, target: AuditTarget, details: dict[str, str | int]) -> AuditEntry:
    """Return the audit log entry of an action.

    For an action on the actor's own account, the IP address is left out: the member's own list of audit entries stores it. The
    address of a server key is that of another product, and no data of the member.
    """
    own = not actor.key and bool(actor.address and target.member_id) and actor.member_id in (0, target.member_id)
    return AuditEntry(
        verb=verb,
        actor_id=actor.member_id,
        actor_name=actor.name,
        kind=target.kind,
        target_id=target.id,
        target_name=target.name[:MAX_NAME],
        address="" if own else actor.address,
        holder_id=target.member_id if own else 0,
        reason=actor.reason,
        details={**details, "key": actor.key} if actor.key else details,
    )


def member_target(member: Member) -> AuditTarget:
    return AuditTarget(TargetKind.MEMBER, member.id, member.name, member.id)


def post_target(post: Post) -> AuditTarget:
    """Return a post as the target of an audited action.

    The target has no name. The post's owner is not recorded, because the owner is not the actor.
    """
    return AuditTarget(TargetKind.POST, post.id)


def report_target(report: Report) -> AuditTarget:
    return AuditTarget(TargetKind.REPORT, report.id)


def invitation_target(invitation: Invitation) -> AuditTarget:
    """Return an invitation as the target of an audited action, without a name, since its code is secret."""
    return AuditTarget(TargetKind.INVITATION, invitation.id, member_id=invitation.owner_id)


def ip_target(block: IpBlock) -> AuditTarget:
    return AuditTarget(TargetKind.IP, block.id, block.network)


def verb_of(text: str) -> AuditVerb:
    """Parse the name of an audited action. Raises `InvalidInput`, which lists the known names, for any other text."""
    try:
        return AuditVerb(text)
    except ValueError:
        raise InvalidInput(f"unknown action {text!r}; choose one of {', '.join(AuditVerb)}", field="verb") from None


HOUR_MS = 3_600_000


class Repeat(NamedTuple):
    times: int
    """Number of occurrences in this hour."""
    together: bool
    """Whether the count is that of all keys beyond the limit."""


class RepeatCounter:
    """Counts repeated events per hour. `most` limits the number of distinct keys per hour, and thereby memory."""

    def __init__(self, most: int = 500) -> None:
        self._most = most
        self._hour = 0
        self._counts: dict[str, int] = {}
        self._beyond = 0

    def count(self, what: str, now: int) -> Repeat | None:
        """Count an event with the key `what` at `now`, in Unix milliseconds.

        Returns the number of events in this hour if it is 1, 10, 100 and so on: then the caller logs the event. Otherwise None.
        """
        if now // HOUR_MS != self._hour:
            self._hour, self._counts, self._beyond = now // HOUR_MS, {}, 0
        together = what not in self._counts and len(self._counts) >= self._most
        if together:
            self._beyond += 1
        else:
            self._counts[what] = self._counts.get(what, 0) + 1
        count = self._beyond if together else self._counts[what]
        return Repeat(count, together) if str(count).strip("0") == "1" else None
