"""Words for the acts of the audit log, and for what entries say besides."""

from __future__ import annotations

from shoal.core.audit import AuditVerb
from shoal.words.languages import Translated


def verb_words(words: Translated, verb: AuditVerb) -> str:
    """Return an act in words."""
    return all_verbs(words)[verb]


def all_verbs(words: Translated) -> dict[AuditVerb, str]:
    """Return all acts in words, in the order of the enumeration."""
    _ = words.text
    return {
        AuditVerb.MEMBER_SUSPENDED: _("Member suspended"),
        AuditVerb.MEMBER_UNSUSPENDED: _("Suspension lifted"),
        AuditVerb.MEMBER_SILENCED: _("Member limited"),
        AuditVerb.MEMBER_UNSILENCED: _("Limit lifted"),
        AuditVerb.MEMBER_SENSITIZED: _("Pictures of a member covered"),
        AuditVerb.MEMBER_UNSENSITIZED: _("Pictures of a member uncovered"),
        AuditVerb.MEMBER_DISABLED: _("Member locked out"),
        AuditVerb.MEMBER_ENABLED: _("Member may log in again"),
        AuditVerb.MEMBER_ROLE_CHANGED: _("Role changed"),
        AuditVerb.SIGN_UP_APPROVED: _("Sign-up approved"),
        AuditVerb.SIGN_UP_REJECTED: _("Sign-up rejected"),
        AuditVerb.POST_HIDDEN: _("Post hidden"),
        AuditVerb.POST_REVEALED: _("Post shown again"),
        AuditVerb.POST_KEPT_FROM_TRENDS: _("Post kept out of trends"),
        AuditVerb.POST_ALLOWED_IN_TRENDS: _("Post allowed in trends"),
        AuditVerb.TAG_DENIED: _("Tag denied"),
        AuditVerb.TAG_ALLOWED: _("Tag allowed"),
        AuditVerb.TAG_MERGED: _("Tag merged into another"),
        AuditVerb.TAG_UNMERGED: _("Tag counted for itself again"),
        AuditVerb.REPORT_RESOLVED: _("Report closed"),
        AuditVerb.REPORT_REOPENED: _("Report opened again"),
        AuditVerb.REPORT_ASSIGNED: _("Report taken on"),
        AuditVerb.REPORT_UNASSIGNED: _("Report left to others"),
        AuditVerb.REPORT_CATEGORIZED: _("Category of a report changed"),
        AuditVerb.EMAIL_DOMAIN_BLOCKED: _("E-mail domain blocked"),
        AuditVerb.EMAIL_DOMAIN_UNBLOCKED: _("E-mail domain unblocked"),
        AuditVerb.EMAIL_BLOCKED: _("E-mail address blocked"),
        AuditVerb.EMAIL_UNBLOCKED: _("E-mail address unblocked"),
        AuditVerb.IP_BLOCKED: _("Network blocked"),
        AuditVerb.IP_BLOCK_CHANGED: _("Block of a network changed"),
        AuditVerb.IP_UNBLOCKED: _("Network unblocked"),
        AuditVerb.NAME_BLOCKED: _("User name blocked"),
        AuditVerb.NAME_UNBLOCKED: _("User name unblocked"),
        AuditVerb.INVITATION_CREATED: _("Invitation made"),
        AuditVerb.INVITATION_ENDED: _("Invitation ended"),
        AuditVerb.LOGIN_SUCCEEDED: _("Log-in"),
        AuditVerb.LOGIN_FAILED: _("Log-in failed"),
        AuditVerb.APP_AUTHORIZED: _("App let in"),
        AuditVerb.SESSION_ENDED: _("Session ended"),
        AuditVerb.PASSWORD_CHANGED: _("Password changed"),
        AuditVerb.PASSWORD_RESET: _("Forgotten password replaced"),
        AuditVerb.PASSWORD_SET: _("Password set by an operator"),
        AuditVerb.EMAIL_CHANGED: _("E-mail address changed"),
        AuditVerb.EMAIL_RESTORED: _("E-mail address brought back"),
        AuditVerb.EMAIL_SET: _("E-mail address set by an operator"),
        AuditVerb.SECOND_FACTOR_ENABLED: _("Second factor turned on"),
        AuditVerb.SECOND_FACTOR_DISABLED: _("Second factor turned off"),
        AuditVerb.SECOND_FACTOR_RESET: _("Second factor turned off by an operator"),
        AuditVerb.SECOND_FACTOR_CODES_RENEWED: _("Recovery codes renewed"),
        AuditVerb.PASSKEY_ADDED: _("Passkey added"),
        AuditVerb.PASSKEY_REMOVED: _("Passkey removed"),
        AuditVerb.EXPORT_REQUESTED: _("Own data downloaded"),
        AuditVerb.ARCHIVE_IMPORTED: _("Archive of another network taken in"),
        AuditVerb.DELETION_REQUESTED: _("Deletion of an account requested"),
        AuditVerb.DELETION_CANCELLED: _("Deletion of an account cancelled"),
        AuditVerb.DELETION_COMPLETED: _("Account deleted"),
        AuditVerb.JOBS_REPLAYED: _("Jobs given another chance"),
    }


def detail_words(words: Translated, name: str, value: str | int) -> str:
    """Return a detail of an entry in words; its value as it is stored, where that is for programs."""
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
        "count": _("times within the hour"),
        "app": _("app"),
        "session": _("session"),
        "passkey": _("passkey"),
        "days": _("days until then"),
        "target": _("into"),
        "jobs": _("jobs"),
    }.get(name, name)
    return f"{label}: {shown}"


def _values(words: Translated) -> dict[str, str]:
    _ = words.text
    return {
        "": _("none"),
        "moderator": _("moderator"),
        "admin": _("admin"),
        "upheld": _("upheld"),
        "dismissed": _("dismissed"),
        "wrong password": _("wrong password"),
        "wrong code": _("wrong code"),
        "wrong passkey": _("wrong passkey"),
        "too many wrong passwords": _("too many wrong passwords"),
        "too many wrong codes": _("too many wrong codes"),
        "too many wrong passkeys": _("too many wrong passkeys"),
        "not allowed in": _("not allowed in"),
    }
