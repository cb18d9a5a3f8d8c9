"""Reports and members as those see them who look after the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from shoal.core.credentials import Login
from shoal.core.ids import milliseconds_of
from shoal.core.model import HIDDEN_BY_MODERATION, Member, Report, Review, Role
from shoal.core.visibility import STRANGER
from shoal.graph.access import members_by_id
from shoal.graph.contract import Cursor
from shoal.queries.hydration import Entry, Profile, hydrate_reported, profiles
from shoal.queries.moderation import WantedReports, reports_page
from shoal.web.views.people import Face, face_of
from shoal.web.views.posts import PostView, answered, post_of
from shoal.web.visit import Visit
from shoal.words.languages import When

_MOST_EARLIER = 20
"""Earlier reports about a member that are shown."""


class ReportedPost(msgspec.Struct, frozen=True):
    """A post that was reported, with what was done about it."""

    post: PostView
    hidden: bool
    waiting: bool
    cleared: bool


class ReportCard(msgspec.Struct, frozen=True):
    """A report, as the queue shows it."""

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
    """Reported posts that are gone."""
    assigned: Face | None
    closed_by: Face | None
    outcome: str
    """The decision; empty while the report is open."""


class MemberStanding(msgspec.Struct, frozen=True):
    """A member as moderators see them: what they are, what was done, and what may be done."""

    face: Face
    joined: When
    posts: str
    followers: str
    following: str
    email: str
    reason: str
    """Why they want to join, where they wait for approval."""
    states: tuple[str, ...]
    acts: tuple[tuple[str, str, str], ...]
    """Acts that the viewer may take: the word of the form, the words of the button, and the consequence in a sentence."""
    role: str
    pending: bool = False
    inviter: Face | None = None
    """The member who invited them; its path leads to their page for moderators."""


async def report_cards(visit: Visit, reports: Sequence[Report]) -> list[ReportCard]:
    """Return reports with all that they name; people and posts are read for all of them together."""
    graph = visit.front.graph
    ids = {id_ for one in reports for id_ in (one.reporter_id, one.target_id, one.assigned_to, one.closed_by)} - {0}
    people = await members_by_id(graph, list(ids))
    entries = await hydrate_reported(graph, list({id_ for one in reports for id_ in one.post_ids}))
    names = await answered(visit, entries)
    posts = {entry.id: _reported(visit, entry, names) for entry in entries}
    return [_card(visit, one, people, posts) for one in reports]


def _reported(visit: Visit, entry: Entry, names: Mapping[int, str]) -> ReportedPost:
    post = entry.post
    return ReportedPost(
        post_of(visit, entry, names),
        hidden=bool(post.hidden & HIDDEN_BY_MODERATION),
        waiting=post.review is Review.WAITING,
        cleared=post.review is Review.CLEARED,
    )


def _card(visit: Visit, report: Report, people: Mapping[int, Member], posts: Mapping[int, ReportedPost]) -> ReportCard:
    def face(id_: int) -> Face | None:
        return face_of(visit, people[id_]) if id_ in people else None

    rules = visit.front.settings.rules
    there = tuple(posts[id_] for id_ in report.post_ids if id_ in posts)
    return ReportCard(
        id=report.id,
        path=visit.url(f"/moderation/reports/{report.id}"),
        reporter=face(report.reporter_id),
        target=face(report.target_id),
        category=_categories(visit)[report.category],
        comment=report.comment,
        when=visit.when(milliseconds_of(report.id)),
        rules=tuple(rules[int(id_) - 1] for id_ in report.rule_ids if id_.isdigit() and 0 < int(id_) <= len(rules)),
        posts=there,
        lost=len(report.post_ids) - len(there),
        assigned=face(report.assigned_to),
        closed_by=face(report.closed_by),
        outcome=_outcome(visit, report),
    )


def _categories(visit: Visit) -> dict[str, str]:
    _ = visit.words.text
    return {
        "spam": _("Spam"),
        "legal": _("Against the law"),
        "violation": _("Against a rule"),
        "other": _("Something else"),
    }


def _outcome(visit: Visit, report: Report) -> str:
    _ = visit.words.text
    if not report.closed_at:
        return ""
    return _("Upheld") if report.upheld else _("Dismissed") if report.upheld is False else _("Closed")


async def earlier_reports(visit: Visit, member_id: int, without: int = 0) -> list[ReportCard]:
    """Return other reports about a member, open ones first, newest first."""
    found: list[Report] = []
    for resolved in (False, True):
        wanted = WantedReports(resolved, None, member_id)
        found += (await reports_page(visit.front.graph, Cursor(limit=_MOST_EARLIER), wanted)).reports
    return await report_cards(visit, [one for one in found if one.id != without][:_MOST_EARLIER])


async def standings(visit: Visit, members: Iterable[Member]) -> list[MemberStanding]:
    """Return members as the viewer, who is a moderator, may see them; three reads."""
    found = {member.id: member for member in members}
    graph = visit.front.graph
    known = await profiles(graph, found, None, dict.fromkeys(found, STRANGER))
    logins = await graph.obj_get([member.login_id for member in found.values() if member.login_id])
    inviters = await members_by_id(graph, list({member.invited_by for member in found.values()} - {0}))
    return [
        _standing(
            visit,
            known[id_],
            login if isinstance(login := logins.get(member.login_id), Login) else None,
            inviters.get(member.invited_by),
        )
        for id_, member in found.items()
    ]


def _standing(visit: Visit, profile: Profile, login: Login | None, inviter: Member | None) -> MemberStanding:
    member, words, viewer = profile.member, visit.words, visit.member
    may_act = viewer.id != member.id and viewer.role.rank > member.role.rank
    return MemberStanding(
        face=face_of(visit, member),
        joined=visit.when(member.created_at),
        posts=words.number(profile.posts),
        followers=words.number(profile.followers),
        following=words.number(profile.following),
        email=login.email if login and may_act else "",
        reason=login.reason if login else "",
        states=tuple(_states(visit, member)),
        acts=tuple(_acts(visit, member)) if may_act else (),
        role={Role.NONE: "", Role.MODERATOR: words.text("Moderator"), Role.ADMIN: words.text("Admin")}[member.role],
        pending=member.pending,
        inviter=_moderated(visit, inviter) if inviter else None,
    )


def _moderated(visit: Visit, member: Member) -> Face:
    """Return a member in a line that leads to their page for moderators."""
    return msgspec.structs.replace(face_of(visit, member), path=visit.url(f"/moderation/members/{member.id}"))


def _states(visit: Visit, member: Member) -> Iterable[str]:
    _ = visit.words.text
    if member.pending:
        yield _("waits for approval")
    elif member.departure_id:
        yield _("has left")
    elif member.suspended:
        yield _("suspended")
    if member.silenced:
        yield _("limited")
    if member.sensitized:
        yield _("pictures covered")
    if member.disabled:
        yield _("locked out")


def _acts(visit: Visit, member: Member) -> Iterable[tuple[str, str, str]]:
    """Yield what may be done about a member, or taken back: the gentlest first."""
    _ = visit.words.text
    if member.pending:
        yield "approve", _("Let in"), _("They can log in and post from now on.")
        yield "reject", _("Turn away"), _("The account is deleted; its name and address are free again.")
        return
    pairs = (
        (
            member.sensitized,
            "sensitize",
            _("Cover pictures"),
            _("All their pictures are shown only when asked for."),
            _("Uncover pictures"),
        ),
        (
            member.silenced,
            "silence",
            _("Limit"),
            _("Only their followers see their posts in lists, and they are in no trends."),
            _("End the limit"),
        ),
        (
            member.disabled,
            "disable",
            _("Lock out"),
            _("They cannot log in. What they posted stays."),
            _("Let them log in"),
        ),
        (
            member.suspended,
            "suspend",
            _("Suspend"),
            _("They and all their posts and files are out of sight. It can be undone."),
            _("End the suspension"),
        ),
    )
    for on, name, words, sentence, back in pairs:
        if name == "suspend" and member.departure_id:
            # Out of sight they are already, and only they can come back.
            continue
        yield (f"un{name}", back, "") if on else (name, words, sentence)
