"""Moderation: reports with their context, members, and moderators' actions on them, each of which can be undone."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import invitations, moderation, reports
from shoal.commands.context import Writes
from shoal.core.credentials import Login
from shoal.core.errors import NotFound
from shoal.core.ids import milliseconds_of
from shoal.core.model import HIDDEN_BY_MODERATION, Member, Report, Review, Role
from shoal.core.visibility import STRANGER
from shoal.graph.access import members_by_id
from shoal.graph.contract import Cursor
from shoal.http.params import Id
from shoal.i18n import When
from shoal.queries import moderation as moderation_queries
from shoal.queries.hydration import Entry, Profile, hydrate_reported, profiles
from shoal.queries.moderation import ReportFilter
from shoal.web import routing
from shoal.web.invitations import rows_of
from shoal.web.rendering import BeforeQuery, next_of, page
from shoal.web.request_context import Form, Handle, IdForm, IdPath, PageContext
from shoal.web.view_models import AnsweredPost, Face, PostView, answered, face_of, post_of

_MOST_EARLIER = 20


class ReportedPost(msgspec.Struct, frozen=True):
    post: PostView
    hidden: bool
    waiting: bool


class ReportCard(msgspec.Struct, frozen=True):
    id: int
    path: str
    reporter: Face | None
    target: Face | None
    category: str
    comment: str
    when: When
    rules: tuple[str, ...]
    posts: tuple[ReportedPost, ...]
    lost: int
    assigned: Face | None
    closed_by: Face | None
    outcome: str
    """The moderators' decision as text; empty while the report is open."""


class MemberOverview(msgspec.Struct, frozen=True):
    face: Face
    joined: When
    posts: str
    followers: str
    following: str
    email: str
    reason: str
    """Why the member wants to join; only while they wait for approval."""
    states: tuple[str, ...]
    acts: tuple[tuple[str, str, str], ...]
    """Actions available to the viewer: value of the form field, label of the button, and a sentence about the effect."""
    role: str
    inviter: Face | None = None
    """The member whose invitation was used, with a link to the inviter's moderation page."""


async def _report_cards(ctx: PageContext, reports: Sequence[Report]) -> list[ReportCard]:
    """Return the view models of reports. The members and posts of all reports are read together."""
    graph = ctx.graph
    ids = {
        id_
        for shown_report in reports
        for id_ in (shown_report.reporter_id, shown_report.target_id, shown_report.assigned_to, shown_report.closed_by)
    } - {0}
    people = await members_by_id(graph, list(ids))
    entries = await hydrate_reported(graph, list({id_ for one in reports for id_ in one.post_ids}))
    parents = await answered(ctx, entries)
    posts = {entry.id: _reported(ctx, entry, parents) for entry in entries}
    return [_card(ctx, one, people, posts) for one in reports]


def _reported(ctx: PageContext, entry: Entry, parents: Mapping[int, AnsweredPost]) -> ReportedPost:
    post = entry.post
    return ReportedPost(
        post_of(ctx, entry, parents),
        hidden=bool(post.hidden & HIDDEN_BY_MODERATION),
        waiting=post.review is Review.WAITING,
    )


def _card(
    ctx: PageContext, report: Report, people: Mapping[int, Member], posts: Mapping[int, ReportedPost]
) -> ReportCard:
    def face(id_: int) -> Face | None:
        return face_of(ctx, people[id_]) if id_ in people else None

    rules = ctx.settings.rules
    there = tuple(posts[id_] for id_ in report.post_ids if id_ in posts)
    return ReportCard(
        id=report.id,
        path=ctx.url(f"/moderation/reports/{report.id}"),
        reporter=face(report.reporter_id),
        target=face(report.target_id),
        category=_categories(ctx)[report.category],
        comment=report.comment,
        when=ctx.when(milliseconds_of(report.id)),
        rules=tuple(rules[int(id_) - 1] for id_ in report.rule_ids if id_.isdigit() and 0 < int(id_) <= len(rules)),
        posts=there,
        lost=len(report.post_ids) - len(there),
        assigned=face(report.assigned_to),
        closed_by=face(report.closed_by),
        outcome=_outcome(ctx, report),
    )


def _categories(ctx: PageContext) -> dict[str, str]:
    _ = ctx.words.text
    return {
        "spam": _("Spam"),
        "legal": _("Illegal content"),
        "violation": _("Rule violation"),
        "other": _("Other"),
    }


def _outcome(ctx: PageContext, report: Report) -> str:
    _ = ctx.words.text
    if not report.closed_at:
        return ""
    return _("Upheld") if report.upheld else _("Dismissed") if report.upheld is False else _("Closed")


async def _earlier_reports(ctx: PageContext, member_id: int, without: int = 0) -> list[ReportCard]:
    """Return the other reports about a member: first the open ones, then the others, each newest first."""
    found: list[Report] = []
    for resolved in (False, True):
        condition = ReportFilter(resolved, None, member_id)
        found += (await moderation_queries.reports_page(ctx.graph, Cursor(limit=_MOST_EARLIER), condition)).reports
    return await _report_cards(ctx, [other for other in found if other.id != without][:_MOST_EARLIER])


async def _overviews(ctx: PageContext, members: Iterable[Member]) -> list[MemberOverview]:
    """Return members as moderators see them. Costs three reads for all members."""
    found = {member.id: member for member in members}
    graph = ctx.graph
    known = await profiles(graph, found, None, dict.fromkeys(found, STRANGER))
    logins = await graph.obj_get([member.login_id for member in found.values() if member.login_id])
    inviters = await members_by_id(graph, list({member.invited_by for member in found.values()} - {0}))
    return [
        _overview(
            ctx,
            known[id_],
            login if isinstance(login := logins.get(member.login_id), Login) else None,
            inviters.get(member.invited_by),
        )
        for id_, member in found.items()
    ]


def _overview(ctx: PageContext, profile: Profile, login: Login | None, inviter: Member | None) -> MemberOverview:
    member, words, viewer = profile.member, ctx.words, ctx.member
    may_act = viewer.id != member.id and viewer.role.rank > member.role.rank
    return MemberOverview(
        face=face_of(ctx, member),
        joined=ctx.when(member.created_at),
        posts=words.number(profile.posts),
        followers=words.number(profile.followers),
        following=words.number(profile.following),
        email=login.email if login and may_act else "",
        reason=login.reason if login else "",
        states=tuple(_states(ctx, member)),
        acts=tuple(_acts(ctx, member)) if may_act else (),
        role={Role.NONE: "", Role.MODERATOR: words.text("Moderator"), Role.ADMIN: words.text("Admin")}[member.role],
        inviter=msgspec.structs.replace(face_of(ctx, inviter), path=ctx.url(f"/moderation/members/{inviter.id}"))
        if inviter
        else None,
    )


def _states(ctx: PageContext, member: Member) -> Iterable[str]:
    _ = ctx.words.text
    if member.pending:
        yield _("pending approval")
    elif member.departure_id:
        yield _("deletion requested")
    elif member.suspended:
        yield _("suspended")
    if member.silenced:
        yield _("limited")
    if member.sensitized:
        yield _("media marked as sensitive")
    if member.disabled:
        yield _("login disabled")


def _acts(ctx: PageContext, member: Member) -> Iterable[tuple[str, str, str]]:
    """Yield the actions that a moderator can take on a member or undo, the mildest action first."""
    _ = ctx.words.text
    if member.pending:
        yield "approve", _("Approve"), _("This member can then log in and post.")
        yield "reject", _("Reject"), _("The account is deleted, and its name and address can be used again.")
        return
    pairs = (
        (
            member.sensitized,
            "sensitize",
            _("Mark media as sensitive"),
            _("All media of this member are hidden behind a warning."),
            _("Unmark media as sensitive"),
        ),
        (
            member.silenced,
            "silence",
            _("Limit"),
            _("Only followers see this member's posts in timelines, and the posts cannot trend."),
            _("Undo limit"),
        ),
        (
            member.disabled,
            "disable",
            _("Disable login"),
            _("This member can no longer log in. The posts remain visible."),
            _("Enable login"),
        ),
        (
            member.suspended,
            "suspend",
            _("Suspend"),
            _("The member's profile, posts and files are hidden. You can undo this."),
            _("Unsuspend"),
        ),
    )
    for on, name, words, sentence, back in pairs:
        if name == "suspend" and member.departure_id:
            # The member is deleting the account, so it is hidden already. Only the member can cancel the deletion.
            continue
        yield (f"un{name}", back, "") if on else (name, words, sentence)


def _receipt(ctx: PageContext, done: str, overview: MemberOverview | None = None) -> str:
    """Return a message that confirms the action `done`; empty if `done` is empty."""
    _ = ctx.words.text
    name = f"@{overview.face.name}" if overview else ""
    posts = overview.posts if overview else "0"
    message = {
        "uphold": _("Report upheld. The posts stay hidden from public timelines, and the reporter is notified."),
        "dismiss": _(
            "Report dismissed. The posts are visible in public timelines again, and the reporter is notified."
        ),
        "reopen": _("Report reopened."),
        "take": _("Report assigned to you."),
        "leave": _("Report unassigned."),
        "sensitize": _("Media of all %(posts)s posts of %(name)s are marked as sensitive, including future ones."),
        "unsensitize": _("Media of %(name)s are no longer marked as sensitive by moderators."),
        "silence": _(
            "%(name)s is limited: %(posts)s posts are hidden from public timelines, tags, search and trends, except for followers."
        ),
        "unsilence": _("%(name)s is no longer limited: %(posts)s posts are public again."),
        "disable": _(
            "Login disabled for %(name)s: all sessions and apps were logged out. The %(posts)s posts remain visible."
        ),
        "undisable": _("%(name)s can log in again."),
        "suspend": _(
            "%(name)s is suspended: the profile and %(posts)s posts are hidden now, their files within a minute."
        ),
        "unsuspend": _("%(name)s is no longer suspended: %(posts)s posts and their files are visible again."),
        "approve": _("%(name)s was approved."),
        "hide": _("The post is now visible only to its author."),
        "reveal": _("The post is visible again."),
    }.get(done, "")
    return message % {"name": name, "posts": posts} if message else ""


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
_Done = Annotated[str, Meta(max_length=40)]


class Queue(BeforeQuery, frozen=True, kw_only=True):
    show: Literal["open", "waiting", "closed"] = "open"
    done: _Done = ""


class DonePath(IdPath, frozen=True):
    done: _Done = ""


class ReportActForm(IdForm, frozen=True, kw_only=True):
    do: Literal["uphold", "dismiss", "reopen", "take", "leave"]


class BulkForm(Form, frozen=True, kw_only=True):
    ids: Annotated[tuple[Id, ...], Meta(max_length=_BULK)] = ()
    do: Literal["uphold", "dismiss", "take"]


class MembersQuery(BeforeQuery, frozen=True, kw_only=True):
    state: Literal["", "active", "pending", "disabled", "silenced", "sensitized", "suspended"] = ""
    name: Handle = ""


class MemberForm(IdForm, frozen=True, kw_only=True):
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
    """The report on whose page the action was taken; 0 for none. The action also upholds this report."""
    why: Annotated[str, Meta(max_length=1_000)] = ""


class HideForm(IdForm, frozen=True, kw_only=True):
    do: Literal["hide", "reveal"]


async def queue(ctx: PageContext, query: Queue) -> Response:
    """List reports, newest first: open, closed, or only open reports about posts that wait for review."""
    me = ctx.staff(Role.MODERATOR)
    condition = ReportFilter(query.show == "closed", waiting=query.show == "waiting")
    found = await moderation_queries.reports_page(ctx.graph, query.cursor(_REPORTS), condition)
    following = next_of(ctx, "/moderation", found.next, show=query.show)
    return await page(
        ctx,
        "moderation",
        title=ctx.words.text("Moderation"),
        admin=me.role is Role.ADMIN,
        cards=await _report_cards(ctx, found.reports),
        show=query.show,
        next=following,
        confirmation=_receipt(ctx, query.done),
    )


async def report(ctx: PageContext, path: DonePath) -> Response:
    """Show a report with its context: the reported member and posts, and earlier reports and decisions."""
    ctx.staff(Role.MODERATOR)
    filed = await reports.access_report(ctx.graph, path.id)
    (card,) = await _report_cards(ctx, [filed])
    people = await members_by_id(ctx.graph, (filed.target_id,))
    overview = next(iter(await _overviews(ctx, people.values())), None)
    return await page(
        ctx,
        "report",
        title=ctx.words.text("Report"),
        card=card,
        overview=overview,
        earlier=await _earlier_reports(ctx, filed.target_id, filed.id),
        confirmation=_receipt(ctx, path.done, overview),
    )


async def see_to(ctx: PageContext, asked: ReportActForm) -> Response:
    """Apply a moderator's action to a report: uphold, dismiss, reopen, assign to self, or unassign."""
    me = _acting(ctx, asked)
    await _see_to(ctx, me, asked.id, asked.do)
    return ctx.go(f"/moderation/reports/{asked.id}", done=asked.do)


async def see_to_several(ctx: PageContext, asked: BulkForm) -> Response:
    me = _acting(ctx, asked)
    for id_ in asked.ids:
        await _see_to(ctx, me, id_, asked.do)
    return ctx.go("/moderation", done=asked.do)


async def _see_to(ctx: PageContext, me: Member, id_: int, do: str) -> None:
    writes = ctx.writes
    match do:
        case "uphold" | "dismiss":
            await reports.resolve(writes, id_, me.id, upheld=do == "uphold")
        case "reopen":
            await reports.reopen(writes, id_)
        case "take" | "leave":
            await reports.assign(writes, id_, me.id if do == "take" else 0)
    _log.info("moderator %s: %s report %s", me.id, do, id_)


async def members(ctx: PageContext, query: MembersQuery) -> Response:
    me = ctx.staff(Role.MODERATOR)
    begins = query.name.lower().removeprefix("@")

    def condition(member: Member) -> bool:
        if query.state and not moderation_queries.is_in(member, query.state):
            return False
        return member.name.startswith(begins) or begins in member.display_name.lower()

    found = await moderation_queries.members_page(ctx.app.store, query.cursor(_MEMBERS), condition)
    following = next_of(ctx, "/moderation/members", found.next, state=query.state, name=query.name)
    return await page(
        ctx,
        "moderated_members",
        title=ctx.words.text("Members"),
        admin=me.role is Role.ADMIN,
        people=await _overviews(ctx, found.members),
        state=query.state,
        name=query.name,
        next=following,
    )


async def member(ctx: PageContext, path: DonePath) -> Response:
    ctx.staff(Role.MODERATOR)
    found = await members_by_id(ctx.graph, (path.id,))
    if path.id not in found:
        raise NotFound("There is no such member")
    (overview,) = await _overviews(ctx, found.values())
    return await page(
        ctx,
        "moderated_member",
        title=f"@{overview.face.name}",
        overview=overview,
        invitations=rows_of(ctx, await invitations.of_member(ctx.writes, path.id), own=False),
        earlier=await _earlier_reports(ctx, path.id),
        confirmation=_receipt(ctx, path.done, overview),
    )


async def act(ctx: PageContext, asked: MemberForm) -> Response:
    """Take an action on a member, or undo it. On the page of a report, this also upholds the report."""
    me, writes = _acting(ctx, asked), ctx.writes.because(asked.why)
    found = await members_by_id(ctx.graph, (asked.id,))
    if asked.id not in found:
        raise NotFound("There is no such member")
    moderation.check_may_act(me, found[asked.id])
    if asked.report:
        await reports.access_report(ctx.graph, asked.report, about=asked.id)
    await _VERBS[asked.do](writes, asked.id)
    _log.info(
        "moderator %s: %s account %s (id %s); reason: %r", me.id, asked.do, found[asked.id].name, asked.id, asked.why
    )
    if asked.report and not asked.do.startswith("un"):
        await reports.resolve(writes, asked.report, me.id, upheld=True)
    if asked.report:
        return ctx.go(f"/moderation/reports/{asked.report}", done=asked.do)
    if asked.do == "reject":
        return ctx.go("/moderation/members", state="pending")
    return ctx.go(f"/moderation/members/{asked.id}", done=asked.do)


async def end_invitation(ctx: PageContext, asked: IdForm) -> Response:
    me = _acting(ctx, asked)
    await invitations.end_as_staff(ctx.writes, me.id, asked.id)
    _log.info("moderator %s: revoke invitation %s", me.id, asked.id)
    return ctx.back(asked, "/moderation/members")


async def hide(ctx: PageContext, asked: HideForm) -> Response:
    me = _acting(ctx, asked)
    await (moderation.hide if asked.do == "hide" else moderation.reveal)(ctx.writes, asked.id)
    _log.info("moderator %s: %s post %s", me.id, asked.do, asked.id)
    return ctx.back(asked, "/moderation")


def _acting(ctx: PageContext, asked: Form) -> Member:
    me = ctx.staff(Role.MODERATOR)
    ctx.check_sent(asked)
    return me


ROUTES = (
    routing.page("/moderation", queue, Queue),
    routing.form("/moderation", see_to_several, BulkForm),
    routing.page("/moderation/reports/{id}", report, DonePath),
    routing.form("/moderation/reports/{id}", see_to, ReportActForm),
    routing.page("/moderation/members", members, MembersQuery),
    routing.page("/moderation/members/{id}", member, DonePath, secret=True),
    routing.form("/moderation/members/{id}", act, MemberForm),
    routing.form("/moderation/invitations/{id}", end_invitation, IdForm),
    routing.form("/moderation/posts/{id}", hide, HideForm),
)
