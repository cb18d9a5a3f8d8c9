"""The audit log as records of JSON: for clients of the API, and for operators."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from shoal.queries.moderation import DatedEntry


class AuditActor(msgspec.Struct):
    """A member who acted, under the name that they had."""

    id: str
    name: str


class AuditObject(msgspec.Struct):
    """The thing that an act was done to, as it was at the time; `id` is empty where there is none."""

    kind: str
    id: str
    name: str


class AuditRecord(msgspec.Struct):
    """An entry of the audit log. `actor` is null for nobody who was logged in, and for the command line."""

    id: str
    created_at: str
    verb: str
    actor: AuditActor | None
    target: AuditObject
    address: str
    """The client's IP address; empty where there was none."""
    reason: str
    details: dict[str, str | int]


def record_of(dated: DatedEntry) -> AuditRecord:
    """Return an entry as a record."""
    entry = dated.entry
    at = datetime.fromtimestamp(dated.at / 1000, UTC)
    return AuditRecord(
        id=str(dated.id),
        created_at=f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
        verb=entry.verb.value,
        actor=AuditActor(str(entry.actor_id), entry.actor_name) if entry.actor_id else None,
        target=AuditObject(entry.kind.value, str(entry.target_id) if entry.target_id else "", entry.target_name),
        address=dated.address,
        reason=entry.reason,
        details=entry.details,
    )
