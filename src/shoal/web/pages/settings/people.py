"""Muted and blocked members, and taking it back."""

from __future__ import annotations

from typing import Literal

from starlette.responses import Response

from shoal.graph.access import relations
from shoal.graph.payloads.follows import mute_terms
from shoal.graph.schema import BLOCKS, MUTES
from shoal.queries import members
from shoal.web import rows
from shoal.web.pages.settings.frame import settings_page
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.views.people import person_of
from shoal.web.visit import Visit

_SIZE = 40
_LISTS = {"muted": MUTES, "blocked": BLOCKS}


class MutedQuery(BeforeQuery, frozen=True, kw_only=True):
    """One of the two lists, and a page of it."""

    show: Literal["muted", "blocked"] = "muted"


async def show(visit: Visit, query: MutedQuery) -> Response:
    """The members whom one mutes, or blocks, the latest first."""
    member, reads, _ = visit.member, visit.front.reads, visit.words.text
    atype = _LISTS[query.show]
    found = await members.page(reads, member.id, member.id, atype, query.cursor(_SIZE), severed=True)
    stands = await relations(reads.graph, member.id, [one.member.id for one in found.profiles])
    ends = [mute_terms(data).expires_at if atype is MUTES else 0 for data in found.data]
    until = _("until %(when)s")
    shown = [
        person_of(visit, one, stands[one.member.id], until % {"when": visit.words.full(end)} if end else "")
        for one, end in zip(found.profiles, ends, strict=True)
    ]
    following = next_of(visit, "/settings/people", found.next, show=query.show)
    return await settings_page(visit, "people", tab=query.show, people=shown, next=following)


ROUTES = (rows.page("/settings/people", show, MutedQuery),)
