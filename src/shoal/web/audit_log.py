"""The page of the audit log for admins, with one sentence per entry."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.core.audit import AuditVerb, TargetKind
from shoal.core.model import Role
from shoal.graph.member_lookup import id_called
from shoal.i18n import Translated, When
from shoal.queries import moderation
from shoal.queries.moderation import AuditFilter, DatedEntry
from shoal.web import routing
from shoal.web.rendering import BeforeQuery, next_of, page
from shoal.web.request_context import Handle, PageContext


def _verbs(words: Translated) -> dict[AuditVerb, str]:
    _ = words.text
    return {
        AuditVerb.MEMBER_SUSPENDED: _("Member suspended"),
        AuditVerb.MEMBER_UNSUSPENDED: _("Member unsuspended"),
        AuditVerb.MEMBER_SILENCED: _("Member limited"),
        AuditVerb.MEMBER_UNSILENCED: _("Member no longer limited"),
        AuditVerb.MEMBER_SENSITIZED: _("Member's media marked as sensitive"),
        AuditVerb.MEMBER_UNSENSITIZED: _("Member's media no longer marked as sensitive"),
        AuditVerb.MEMBER_DISABLED: _("Login disabled"),
        AuditVerb.MEMBER_ENABLED: _("Login enabled"),
        AuditVerb.MEMBER_ROLE_CHANGED: _("Role changed"),
        AuditVerb.SIGN_UP_APPROVED: _("Sign-up approved"),
        AuditVerb.SIGN_UP_REJECTED: _("Sign-up rejected"),
        AuditVerb.POST_HIDDEN: _("Post hidden"),
        AuditVerb.POST_REVEALED: _("Post unhidden"),
        AuditVerb.HELD_APPROVED: _("Held content approved"),
        AuditVerb.HELD_REJECTED: _("Held content rejected"),
        AuditVerb.CONTENT_UNCHECKED: _("Content published without a check"),
        AuditVerb.POST_KEPT_FROM_TRENDS: _("Post removed from trends"),
        AuditVerb.POST_ALLOWED_IN_TRENDS: _("Post allowed in trends"),
        AuditVerb.POSTS_CHANGED: _("Posts changed in bulk"),
        AuditVerb.POSTS_RESTORED: _("Bulk change of posts undone"),
        AuditVerb.RULE_CREATED: _("Moderation rule created"),
        AuditVerb.RULE_CHANGED: _("Moderation rule changed"),
        AuditVerb.RULE_STATE_CHANGED: _("State of a moderation rule changed"),
        AuditVerb.RULE_DELETED: _("Moderation rule deleted"),
        AuditVerb.TAG_DENIED: _("Tag removed from the tag cloud"),
        AuditVerb.TAG_ALLOWED: _("Tag allowed in the tag cloud"),
        AuditVerb.TAG_MERGED: _("Tag merged into another"),
        AuditVerb.TAG_UNMERGED: _("Tag merge undone"),
        AuditVerb.REPORT_RESOLVED: _("Report closed"),
        AuditVerb.REPORT_REOPENED: _("Report reopened"),
        AuditVerb.REPORT_ASSIGNED: _("Report assigned"),
        AuditVerb.REPORT_UNASSIGNED: _("Report unassigned"),
        AuditVerb.REPORT_CATEGORIZED: _("Report category changed"),
        AuditVerb.EMAIL_DOMAIN_BLOCKED: _("E-mail domain blocked"),
        AuditVerb.EMAIL_DOMAIN_UNBLOCKED: _("E-mail domain unblocked"),
        AuditVerb.EMAIL_BLOCKED: _("E-mail address blocked"),
        AuditVerb.EMAIL_UNBLOCKED: _("E-mail address unblocked"),
        AuditVerb.IP_BLOCKED: _("Address range blocked"),
        AuditVerb.IP_BLOCK_CHANGED: _("Address range block changed"),
        AuditVerb.IP_UNBLOCKED: _("Address range unblocked"),
        AuditVerb.NAME_BLOCKED: _("User name blocked"),
        AuditVerb.NAME_UNBLOCKED: _("User name unblocked"),
        AuditVerb.INVITATION_CREATED: _("Invitation created"),
        AuditVerb.INVITATION_ENDED: _("Invitation revoked"),
        AuditVerb.LOGIN_SUCCEEDED: _("Login"),
        AuditVerb.LOGIN_FAILED: _("Login failed"),
        AuditVerb.APP_AUTHORIZED: _("App authorized"),
        AuditVerb.SESSION_ENDED: _("Session ended"),
        AuditVerb.PASSWORD_CHANGED: _("Password changed"),
        AuditVerb.PASSWORD_RESET: _("Password reset"),
        AuditVerb.PASSWORD_SET: _("Password set by an operator"),
        AuditVerb.EMAIL_CHANGED: _("E-mail address changed"),
        AuditVerb.EMAIL_RESTORED: _("E-mail address restored"),
        AuditVerb.EMAIL_SET: _("E-mail address set by an operator"),
        AuditVerb.SECOND_FACTOR_ENABLED: _("Second factor turned on"),
        AuditVerb.SECOND_FACTOR_DISABLED: _("Second factor turned off"),
        AuditVerb.SECOND_FACTOR_RESET: _("Second factor turned off by an operator"),
        AuditVerb.SECOND_FACTOR_CODES_RENEWED: _("Recovery codes renewed"),
        AuditVerb.PASSKEY_ADDED: _("Passkey added"),
        AuditVerb.PASSKEY_REMOVED: _("Passkey removed"),
        AuditVerb.EXPORT_REQUESTED: _("Data export downloaded"),
        AuditVerb.ARCHIVE_IMPORTED: _("Archive imported"),
        AuditVerb.DELETION_REQUESTED: _("Account deletion requested"),
        AuditVerb.DELETION_CANCELLED: _("Account deletion canceled"),
        AuditVerb.DELETION_COMPLETED: _("Account deleted"),
        AuditVerb.JOBS_REPLAYED: _("Jobs retried"),
        AuditVerb.EXTERNAL_ID_LINKED: _("External id linked"),
        AuditVerb.EXTERNAL_ID_UNLINKED: _("External id unlinked"),
        AuditVerb.SERVER_KEY_CREATED: _("Server key created"),
        AuditVerb.SERVER_KEY_ROTATED: _("Server key rotated"),
        AuditVerb.SERVER_KEY_DELETED: _("Server key deleted"),
        AuditVerb.KIND_DECLARED: _("Kind of posts declared"),
        AuditVerb.REACTION_DECLARED: _("Reaction declared"),
        AuditVerb.REACTION_RETIRED: _("Reaction retired"),
        AuditVerb.FEED_CREATED: _("Feed created"),
        AuditVerb.FEED_CHANGED: _("Feed changed"),
        AuditVerb.FEED_DELETED: _("Feed deleted"),
        AuditVerb.WEBHOOK_CREATED: _("Webhook created"),
        AuditVerb.WEBHOOK_UPDATED: _("Webhook changed"),
        AuditVerb.WEBHOOK_PAUSED: _("Webhook paused"),
        AuditVerb.WEBHOOK_RESUMED: _("Webhook resumed"),
        AuditVerb.WEBHOOK_ROTATED: _("Webhook secret rotated"),
        AuditVerb.WEBHOOK_DELETED: _("Webhook deleted"),
    }


def _detail(words: Translated, name: str, value: str | int) -> str:
    """Return a detail of an audit entry as text. A value without a translation is returned as stored."""
    _ = words.text
    shown = words.number(value) if isinstance(value, int) else _values(words).get(value, value)
    label = {
        "role": _("now"),
        "was": _("before"),
        "author": _("author"),
        "about": _("about"),
        "verdict": _("decision"),
        "to": _("for"),
        "category": _("category"),
        "severity": _("effect"),
        "uses": _("uses"),
        "why": _("why"),
        "count": _("failed logins in this hour"),
        "app": _("app"),
        "session": _("session"),
        "passkey": _("passkey"),
        "days": _("days until the deletion"),
        "target": _("into"),
        "jobs": _("jobs"),
        "scopes": _("scopes"),
        "grace": _("seconds of grace"),
        "key": _("server key"),
        "issuer": _("issuer"),
        "id_digest": _("digest of the external id"),
        "provider": _("login provider"),
        "state": _("state"),
        "action": _("action"),
        "posts": _("posts"),
        "types": _("types of events"),
        "format": _("format"),
        "private": _("private data"),
        "content": _("content"),
    }.get(name, name)
    return f"{label}: {shown}"


def _values(words: Translated) -> dict[str, str]:
    _ = words.text
    return {
        "": _("none"),
        "moderator": _("moderator"),
        "admin": _("admin"),
        "all": _("all"),
        "yes": _("yes"),
        "no": _("no"),
        "upheld": _("upheld"),
        "dismissed": _("dismissed"),
        "wrong password": _("wrong password"),
        "wrong code": _("wrong code"),
        "wrong passkey": _("wrong passkey"),
        "too many wrong passwords": _("too many wrong passwords"),
        "too many wrong codes": _("too many wrong codes"),
        "too many wrong passkeys": _("too many wrong passkeys"),
        "not allowed in": _("not allowed to log in"),
    }


class AuditLine(msgspec.Struct, frozen=True):
    id: int
    when: When
    verb: str
    actor: str
    """The actor's user name at the time of the action, with an @; a description if no member was logged in."""
    actor_path: str
    """Path of the list of the actor's entries; empty if no member was logged in."""
    target: str
    """The name or id of the object of the action; empty if the action has none."""
    target_path: str
    """Path of the list of entries about the target; empty if the target has no id."""
    address: str
    reason: str
    details: tuple[str, ...]


def _line(ctx: PageContext, dated: DatedEntry) -> AuditLine:
    words, entry = ctx.words, dated.entry
    # Account deletion removes the address from failed logins of the account. `holder_id` remains, so the actor is still
    # shown as a visitor.
    outside = dated.address or entry.holder_id
    default_name = words.text("Anonymous visitor") if outside else words.text("Server or operator")
    if key := entry.details.get("key"):
        default_name = words.text("Server key %(name)s") % {"name": key}
    return AuditLine(
        id=dated.id,
        when=ctx.when(dated.at),
        verb=_verbs(words)[entry.verb],
        actor=f"@{entry.actor_name}" if entry.actor_id else default_name,
        actor_path=ctx.url("/moderation/audit", actor=entry.actor_id) if entry.actor_id else "",
        target=_target(dated),
        target_path=ctx.url("/moderation/audit", target=entry.target_id) if entry.target_id else "",
        address=dated.address,
        reason=entry.reason,
        details=tuple(_detail(words, name, value) for name, value in entry.details.items()),
    )


def _target(dated: DatedEntry) -> str:
    entry = dated.entry
    sign = {TargetKind.MEMBER: "@", TargetKind.TAG: "#"}.get(entry.kind, "")
    if entry.target_name:
        return f"{sign if entry.target_id or sign == '#' else ''}{entry.target_name}"
    return str(entry.target_id) if entry.target_id else ""


_ENTRIES = 40
_NO_MATCH = -1
"""An id that no object has. It is used for a user name that does not exist, so that the filter finds no entry."""


class AuditLogQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of the audit log. `actor` and `target` are user names or ids."""

    actor: Handle = ""
    target: Handle = ""
    verb: Annotated[str, Meta(max_length=40)] = ""


async def show(ctx: PageContext, query: AuditLogQuery) -> Response:
    ctx.staff(Role.ADMIN)
    verbs = frozenset(verb for verb in AuditVerb if verb == query.verb)
    audit_filter = AuditFilter(await _id_of(ctx, query.actor), await _id_of(ctx, query.target), verbs)
    found = await moderation.audit_page(ctx.graph, query.cursor(_ENTRIES), audit_filter)
    asked: dict[str, Any] = {"actor": query.actor, "target": query.target, "verb": query.verb if verbs else ""}
    return await page(
        ctx,
        "audit_log",
        title=ctx.words.text("Audit log"),
        admin=True,
        lines=[_line(ctx, entry) for entry in found.entries],
        verbs=sorted(_verbs(ctx.words).items(), key=lambda item: item[1].casefold()),
        next=next_of(ctx, "/moderation/audit", found.next, **asked),
        filtered=any(asked.values()),
        **asked,
    )


async def _id_of(ctx: PageContext, who: str) -> int | None:
    """Return the member id for a user name or an id; None for an empty text."""
    name = who.strip()
    found = await id_called(ctx.graph, name) if name else None
    return _NO_MATCH if name and found is None else found


ROUTES = (routing.page("/moderation/audit", show, AuditLogQuery),)
