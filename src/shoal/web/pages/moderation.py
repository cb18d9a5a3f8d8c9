"""The pages of those who look after the network: reports with their context, members, and what is done about them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import invitations, moderation, reports
from shoal.commands.context import Writes
from shoal.commands.second_factor import check_staff
from shoal.core.errors import NotAllowed, NotFound
from shoal.core.model import Member, Role
from shoal.graph.access import members_by_id
from shoal.http.convert import Id
from shoal.queries import moderation as moderation_queries
from shoal.queries.moderation import WantedReports
from shoal.web import rows
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page
from shoal.web.views.moderation import earlier_reports, report_cards, standings
from shoal.web.views.receipts import receipt
from shoal.web.views.settings.invitations import rows_of
from shoal.web.visit import Form, Visit

_log = logging.getLogger("shoal.moderation")

_REPORTS = 20
_MEMBERS = 40
_BULK = 100

MemberVerb = Callable[[Writes, int], Awaitable[Member]]
_VERBS: dict[str, MemberVerb] = {
    "sensitize": moderation.sensitize,
    "unsensitize": moderation.unsensitize,
    "silence": moderation.silence,
    "unsilence": moderation.unsilence,
    "disable": moderation.disable,
    "undisable": moderation.enable,
    "suspend": moderation.suspend,
    "unsuspend": moderation.restore,
    "approve": moderation.approve,
    "reject": moderation.reject,
}
_Name = Annotated[str, Meta(max_length=300)]
_Done = Annotated[str, Meta(max_length=40)]


class Queue(BeforeQuery, frozen=True, kw_only=True):
    """A page of reports."""

    show: Literal["open", "waiting", "closed"] = "open"
    done: _Done = ""


class ReportPath(msgspec.Struct, frozen=True):
    """A report, and what was just done about it."""

    id: Id
    done: _Done = ""


class ReportActForm(Form, frozen=True, kw_only=True):
    """A moderator's decision about a report."""

    id: Id
    do: Literal["uphold", "dismiss", "reopen", "take", "leave"]


class BulkForm(Form, frozen=True, kw_only=True):
    """A moderator's decision about several reports at once."""

    ids: Annotated[tuple[Id, ...], Meta(max_length=_BULK)] = ()
    do: Literal["uphold", "dismiss", "take"]


class MembersQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of members."""

    state: Literal["", "active", "pending", "disabled", "silenced", "sensitized", "suspended"] = ""
    name: _Name = ""


class MemberPath(msgspec.Struct, frozen=True):
    """A member, and what was just done about them."""

    id: Id
    done: _Done = ""


class MemberForm(Form, frozen=True, kw_only=True):
    """A moderator's act against a member, with its reason."""

    id: Id
    do: Literal[
        "sensitize",
        "unsensitize",
        "silence",
        "unsilence",
        "disable",
        "undisable",
        "suspend",
        "unsuspend",
        "approve",
        "reject",
    ]
    report: Id = Id(0)
    """The report on whose page it was done, which it upholds; 0 for none."""
    why: Annotated[str, Meta(max_length=1_000)] = ""


class EndOfInvitationForm(Form, frozen=True, kw_only=True):
    """An invitation of somebody that is to end."""

    id: Id


class HideForm(Form, frozen=True, kw_only=True):
    """A post that is taken out of sight, or shown again."""

    id: Id
    do: Literal["hide", "reveal"]


async def queue(visit: Visit, query: Queue) -> Response:
    """Reports, the newest first; with those about posts that wait apart."""
    _moderator(visit)
    wanted = WantedReports(query.show == "closed", waiting=query.show == "waiting")
    found = await moderation_queries.reports_page(visit.front.graph, query.cursor(_REPORTS), wanted)
    following = next_of(visit, "/moderation", found.next, show=query.show)
    return await page(
        visit,
        "moderation",
        title=visit.words.text("Moderation"),
        admin=visit.member.role is Role.ADMIN,
        cards=await report_cards(visit, found.reports),
        show=query.show,
        next=following,
        told=receipt(visit, query.done),
    )


async def report(visit: Visit, path: ReportPath) -> Response:
    """A report with its context: what it is about, who, and what was reported and done before."""
    _moderator(visit)
    filed = await reports.access_report(visit.front.graph, path.id)
    (card,) = await report_cards(visit, [filed])
    people = await members_by_id(visit.front.graph, (filed.target_id,))
    standing = next(iter(await standings(visit, people.values())), None)
    return await page(
        visit,
        "report",
        title=visit.words.text("Report"),
        card=card,
        standing=standing,
        earlier=await earlier_reports(visit, filed.target_id, filed.id),
        told=receipt(visit, path.done, standing),
    )


async def see_to(visit: Visit, asked: ReportActForm) -> Response:
    """Uphold, dismiss or reopen a report, take it on, or leave it to others."""
    me = _acting(visit, asked)
    await _see_to(visit, me, asked.id, asked.do)
    return visit.go(visit_path(f"/moderation/reports/{asked.id}", asked.do))


async def see_to_several(visit: Visit, asked: BulkForm) -> Response:
    """Do the same with each of several reports."""
    me = _acting(visit, asked)
    for id_ in asked.ids:
        await _see_to(visit, me, id_, asked.do)
    return visit.go(visit_path("/moderation", asked.do))


async def _see_to(visit: Visit, me: Member, id_: int, do: str) -> None:
    writes = visit.front.writes
    match do:
        case "uphold" | "dismiss":
            await reports.resolve(writes, id_, me.id, upheld=do == "uphold")
        case "reopen":
            await reports.reopen(writes, id_)
        case "take" | "leave":
            await reports.assign(writes, id_, me.id if do == "take" else 0)
    _log.info("%s: %s report %s", me.id, do, id_)


async def members(visit: Visit, query: MembersQuery) -> Response:
    """Members, newest first: all, those in a state, or those whose names begin so."""
    _moderator(visit)
    begins = query.name.lower().removeprefix("@")

    def wanted(member: Member) -> bool:
        if query.state and not moderation_queries.is_in(member, query.state):
            return False
        return member.name.startswith(begins) or begins in member.display_name.lower()

    found = await moderation_queries.members_page(visit.front.scanner, query.cursor(_MEMBERS), wanted)
    following = next_of(visit, "/moderation/members", found.next, state=query.state, name=query.name)
    return await page(
        visit,
        "moderated_members",
        title=visit.words.text("Members"),
        admin=visit.member.role is Role.ADMIN,
        people=await standings(visit, found.members),
        state=query.state,
        name=query.name,
        next=following,
    )


async def member(visit: Visit, path: MemberPath) -> Response:
    """A member with all that moderators know of them."""
    _moderator(visit)
    found = await members_by_id(visit.front.graph, (path.id,))
    if path.id not in found:
        raise NotFound("There is no such member")
    (standing,) = await standings(visit, found.values())
    return await page(
        visit,
        "moderated_member",
        title=f"@{standing.face.name}",
        standing=standing,
        invitations=rows_of(visit, await invitations.of_member(visit.front.writes, path.id), own=False),
        earlier=await earlier_reports(visit, path.id),
        told=receipt(visit, path.done, standing),
    )


async def act(visit: Visit, asked: MemberForm) -> Response:
    """Do something about a member, or take it back. On the page of a report it upholds that."""
    me, writes = _acting(visit, asked), visit.front.writes.because(asked.why)
    found = await members_by_id(visit.front.graph, (asked.id,))
    if asked.id not in found:
        raise NotFound("There is no such member")
    moderation.check_may_act(me, found[asked.id])
    if asked.report:
        await reports.access_report(visit.front.graph, asked.report, about=asked.id)
    await _VERBS[asked.do](writes, asked.id)
    _log.info("%s: %s %s (%s); why: %r", me.id, asked.do, found[asked.id].name, asked.id, asked.why)
    if asked.report and not asked.do.startswith("un"):
        await reports.resolve(writes, asked.report, me.id, upheld=True)
    if asked.report:
        return visit.go(visit_path(f"/moderation/reports/{asked.report}", asked.do))
    if asked.do == "reject":
        return visit.go("/moderation/members", state="pending")
    return visit.go(visit_path(f"/moderation/members/{asked.id}", asked.do))


async def end_invitation(visit: Visit, asked: EndOfInvitationForm) -> Response:
    """End an invitation of a member with a lower role."""
    me = _acting(visit, asked)
    await invitations.end_as_staff(visit.front.writes, me.id, asked.id)
    _log.info("%s: end invitation %s", me.id, asked.id)
    return visit.back(asked, "/moderation/members")


async def hide(visit: Visit, asked: HideForm) -> Response:
    """Take a post out of everybody's sight but its author's, or show it again."""
    me = _acting(visit, asked)
    await (moderation.hide if asked.do == "hide" else moderation.reveal)(visit.front.writes, asked.id)
    _log.info("%s: %s post %s", me.id, asked.do, asked.id)
    return visit.back(asked, "/moderation")


def visit_path(path: str, done: str) -> str:
    """Return the path of a page that tells what was just done."""
    return f"{path}?done={done}"


def _moderator(visit: Visit) -> Member:
    """Return the moderator who is logged in. Raises `LogInFirst`, or `NotAllowed` for others."""
    me = visit.member
    if me.role.rank < Role.MODERATOR.rank:
        raise NotAllowed(visit.words.text("This page is for moderators."))
    check_staff(me, required=visit.front.settings.staff_second_factor)
    return me


def _acting(visit: Visit, asked: Form) -> Member:
    me = _moderator(visit)
    visit.check_sent(asked)
    return me


ROUTES = (
    rows.page("/moderation", queue, Queue),
    rows.form("/moderation", see_to_several, BulkForm),
    rows.page("/moderation/reports/{id}", report, ReportPath),
    rows.form("/moderation/reports/{id}", see_to, ReportActForm),
    rows.page("/moderation/members", members, MembersQuery),
    rows.page("/moderation/members/{id}", member, MemberPath, secret=True),
    rows.form("/moderation/members/{id}", act, MemberForm),
    rows.form("/moderation/invitations/{id}", end_invitation, EndOfInvitationForm),
    rows.form("/moderation/posts/{id}", hide, HideForm),
)
