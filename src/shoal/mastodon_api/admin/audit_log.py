"""The audit log for admins. It is read-only."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from shoal.admin.audit_log import AuditRecord, record_of
from shoal.core.audit import AuditVerb
from shoal.core.model import Role
from shoal.http.pagination import PageQuery
from shoal.http.params import Id
from shoal.mastodon_api.context import Context, Router, cursor_of, paged
from shoal.queries import moderation
from shoal.queries.moderation import AuditFilter

router = Router(role=Role.ADMIN)


class AuditQuery(PageQuery, frozen=True, kw_only=True):
    actor_id: Id | None = None
    """Actions by this account; 0 for the command line and anonymous callers."""
    target_id: Id | None = None
    """Actions on the account, status, report or other object with this id."""
    verb: Annotated[tuple[AuditVerb, ...], Meta(max_length=len(AuditVerb))] = ()
    """Only these actions."""


@router.get("/api/v1/admin/audit_log", scope="admin:read", answer=list[AuditRecord])
async def list_entries(context: Context, params: AuditQuery) -> object:
    """List audit log entries, newest first: actor, action, target, reason and address.

    A page may have fewer than `limit` entries; follow its Link header for more.
    """
    cursor = cursor_of(params, 40, 100)
    query = AuditFilter(params.actor_id, params.target_id, frozenset(params.verb))
    found, after = await moderation.audit_page(context.app.graph, cursor, query)
    body = [record_of(entry) for entry in found]
    return paged(context, body, [entry.id for entry in found], after, cursor)
