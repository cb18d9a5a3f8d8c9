"""The audit log as a page shows it: a sentence for each entry."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.core.audit import TargetKind
from shoal.queries.moderation import DatedEntry
from shoal.web.views.moderating.audit_words import detail_words, verb_words
from shoal.web.visit import Visit
from shoal.words.languages import When


class AuditLine(msgspec.Struct, frozen=True):
    """An entry of the audit log."""

    id: int
    when: When
    verb: str
    """The act in words."""
    actor: str
    """The name that somebody had, with an @; words where nobody was logged in."""
    actor_path: str
    """Leads to their other acts; empty where nobody was logged in."""
    target: str
    """Empty where the words of the act say all."""
    target_path: str
    """Leads to what else was done to it; empty where it has no id."""
    address: str
    reason: str
    details: tuple[str, ...]


def lines_of(visit: Visit, entries: Sequence[DatedEntry]) -> list[AuditLine]:
    """Return entries as the page shows them; no read."""
    return [_line_of(visit, one) for one in entries]


def _line_of(visit: Visit, dated: DatedEntry) -> AuditLine:
    words, entry = visit.words, dated.entry
    # The address of a log-in that failed is gone with the member, but not that somebody outside made it.
    outside = dated.address or entry.holder_id
    nobody = words.text("Nobody who was logged in") if outside else words.text("The server or its operator")
    return AuditLine(
        id=dated.id,
        when=visit.when(dated.at),
        verb=verb_words(words, entry.verb),
        actor=f"@{entry.actor_name}" if entry.actor_id else nobody,
        actor_path=visit.url("/moderation/audit", actor=entry.actor_id) if entry.actor_id else "",
        target=_target(dated),
        target_path=visit.url("/moderation/audit", target=entry.target_id) if entry.target_id else "",
        address=dated.address,
        reason=entry.reason,
        details=tuple(detail_words(words, name, value) for name, value in entry.details.items()),
    )


def _target(dated: DatedEntry) -> str:
    entry = dated.entry
    sign = {TargetKind.MEMBER: "@", TargetKind.TAG: "#"}.get(entry.kind, "")
    if entry.target_name:
        return f"{sign if entry.target_id or sign == '#' else ''}{entry.target_name}"
    return str(entry.target_id) if entry.target_id else ""
