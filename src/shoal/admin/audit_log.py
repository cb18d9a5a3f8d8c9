"""Audit log entries as JSON records, and the operations that list a page of them or export all of them to a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.core.audit import verb_of
from shoal.core.errors import NotFound
from shoal.graph.contract import MAX_TIME, Cursor, Reader
from shoal.graph.member_lookup import id_called
from shoal.queries import moderation
from shoal.queries.moderation import AuditFilter, DatedEntry


class AuditActor(msgspec.Struct):
    """The member who acted, with their user name at the time of the action."""

    id: str
    name: str


class AuditObject(msgspec.Struct):
    """The target of an action, with its name at the time of the action. `id` is empty if the target has none."""

    kind: str
    id: str
    name: str


class AuditRecord(msgspec.Struct):
    """An entry of the audit log. `actor` is null if no member was logged in, and for actions on the command line."""

    id: str
    created_at: str
    verb: str
    actor: AuditActor | None
    target: AuditObject
    address: str
    """The client's IP address; empty for an action without a client."""
    reason: str
    details: dict[str, str | int]


def record_of(dated: DatedEntry) -> AuditRecord:
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


MOST_LISTED = 100
"""Maximum entries of a page. Even with the longest reasons, they fit into one answer of the control socket."""
_WRITTEN_AT_ONCE = 500


class ListAudit(Operation[list[AuditRecord]]):
    """Read a page of the audit log, newest first, filtered by actor, target member and verb.

    An empty filter matches all entries.
    """

    actor: str = ""
    target: str = ""
    verb: str = ""
    before: int = 0
    limit: int = MOST_LISTED

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[AuditRecord]:
        query = AuditFilter(
            await _id_of(network, self.actor) if self.actor else None,
            await _id_of(network, self.target) if self.target else None,
            frozenset((verb_of(self.verb),)) if self.verb else frozenset(),
        )
        found: list[DatedEntry] = []
        before: int | None = self.before or MAX_TIME
        while before is not None and len(found) < self.limit:
            at = Cursor(before=before, limit=min(self.limit, MOST_LISTED) - len(found))
            page = await moderation.audit_page(network.reads.graph, at, query)
            found += page.entries
            before = page.next
        return [record_of(entry) for entry in found]


class ExportAudit(Operation[int]):
    """Write the whole audit log to a new local file as JSON Lines, oldest first; return the number of entries."""

    alone = True
    to: Path

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> int:
        # Only the owner may read the file, because the log contains IP addresses.
        file = os.fdopen(os.open(self.to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        written = 0
        try:
            with file:
                async with aclosing(_lines(network.reads.graph)) as blocks:
                    async for lines in blocks:
                        await asyncio.to_thread(file.writelines, lines)
                        written += len(lines)
                        progress("entries", written, 0)
        except BaseException:
            # Remove the file, so that no partial log remains.
            with suppress(OSError):
                self.to.unlink()
            raise
        return written


async def _lines(graph: Reader) -> AsyncGenerator[list[bytes], None]:
    lines: list[bytes] = []
    async with aclosing(moderation.everything(graph)) as entries:
        async for entry in entries:
            lines.append(msgspec.json.encode(record_of(entry)) + b"\n")
            if len(lines) == _WRITTEN_AT_ONCE:
                yield lines
                lines = []
    if lines:
        yield lines


async def _id_of(network: AnyNetwork, who: str) -> int:
    """Return the id of the member with this user name or id. Raises `NotFound` for an unknown name."""
    found = await id_called(network.reads.graph, who)
    if found is None:
        raise NotFound(f"no member {who!r}: use the id to find a deleted member")
    return found
