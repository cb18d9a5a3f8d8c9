"""The audit log, for admins: who did what to whom, when, why and from where. Nothing of it can be changed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.commands.second_factor import check_staff
from shoal.core.audit import AuditVerb
from shoal.core.errors import NotAllowed
from shoal.core.model import Role
from shoal.graph.member_lookup import id_called
from shoal.queries import moderation
from shoal.queries.moderation import WantedEntries
from shoal.web import rows
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page
from shoal.web.views.moderating.audit_log import lines_of
from shoal.web.views.moderating.audit_words import all_verbs
from shoal.web.visit import Visit

_ENTRIES = 40
_NOBODY = -1
"""An id that nobody has: of a name that nobody has."""

_Who = Annotated[str, Meta(max_length=300)]


class AuditLogQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of the audit log. Who acted and who or what it was about: a user name, or an id."""

    actor: _Who = ""
    target: _Who = ""
    verb: Annotated[str, Meta(max_length=40)] = ""


async def show(visit: Visit, query: AuditLogQuery) -> Response:
    """Entries, newest first: all, those of an actor, those about a target, or those of one kind of act."""
    me = visit.member
    if me.role.rank < Role.ADMIN.rank:
        raise NotAllowed(visit.words.text("This page is for admins."))
    check_staff(me, required=visit.front.settings.staff_second_factor)
    verb = AuditVerb(query.verb) if query.verb in set(AuditVerb) else None
    wanted = WantedEntries(
        await _id_of(visit, query.actor), await _id_of(visit, query.target), frozenset((verb,)) if verb else frozenset()
    )
    found = await moderation.audit_page(visit.front.graph, query.cursor(_ENTRIES), wanted)
    asked = {"actor": query.actor, "target": query.target, "verb": verb.value if verb else ""}
    return await page(
        visit,
        "audit_log",
        title=visit.words.text("Audit log"),
        admin=True,
        lines=lines_of(visit, found.entries),
        verbs=sorted(all_verbs(visit.words).items(), key=lambda one: one[1].casefold()),
        next=next_of(visit, "/moderation/audit", found.next, **asked),
        filtered=any(asked.values()),
        actor=asked["actor"],
        target=asked["target"],
        verb=asked["verb"],
    )


async def _id_of(visit: Visit, who: str) -> int | None:
    """Return the id that is meant by a user name or an id; None for an empty text."""
    name = who.strip()
    found = await id_called(visit.front.graph, name) if name else None
    return _NOBODY if name and found is None else found


ROUTES = (rows.page("/moderation/audit", show, AuditLogQuery),)
