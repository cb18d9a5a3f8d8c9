"""Report a post or a member to the moderators, and show the next steps."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import reports
from shoal.commands.reports import MAX_COMMENT, MAX_POSTS, Complaint
from shoal.core.errors import InvalidInput, NotAllowed, NotFound
from shoal.core.model import Member
from shoal.graph.access import access_member, relation
from shoal.graph.contract import Cursor
from shoal.http.params import Id
from shoal.mastodon_api.entities.moderation import rules_of
from shoal.queries import posts as post_queries
from shoal.queries.hydration import hydrate
from shoal.queries.posts import MemberFeedQuery
from shoal.web import routing
from shoal.web.form_errors import error_text
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, PageContext, Text, local
from shoal.web.view_models import PostView, entry_with_id, face_of, post_of, relationship_of

_POSTS = 12

Category = Literal["", "spam", "violation", "legal", "other"]


class ReportQuery(msgspec.Struct, frozen=True):
    post: Id = Id(0)
    member: Id = Id(0)
    to: Line = "/"


class ReportForm(Form, frozen=True, kw_only=True):
    member: Id
    category: Category = ""
    rules: Annotated[tuple[Annotated[str, Meta(max_length=20)], ...], Meta(max_length=100)] = ()
    posts: Annotated[tuple[Id, ...], Meta(max_length=MAX_POSTS)] = ()
    comment: Text = ""


class DoneQuery(msgspec.Struct, frozen=True):
    member: Id
    to: Line = "/"


async def ask(ctx: PageContext, query: ReportQuery) -> Response:
    ctx.member  # noqa: B018 (raises)
    chosen: tuple[int, ...] = ()
    member_id = int(query.member)
    if query.post:
        entry = await entry_with_id(ctx, query.post)
        member_id, chosen = entry.author.member.id, (entry.post.id,)
    empty = ReportForm(member=Id(member_id), posts=tuple(map(Id, chosen)), to=query.to)
    return await _form(ctx, await _target(ctx, member_id), empty)


async def send(ctx: PageContext, asked: ReportForm) -> Response:
    member = ctx.checked(asked)
    target = await _target(ctx, asked.member)
    _ = ctx.words.text
    if not asked.category:
        wrong = InvalidInput(_("Choose a reason."), field="category")
        return await _form(ctx, target, asked, wrong)
    rules = {rule.id for rule in rules_of(ctx.settings)}
    complaint = Complaint(
        post_ids=asked.posts,
        comment=asked.comment,
        category=asked.category,
        rule_ids=asked.rules if asked.category == "violation" else (),
    )
    try:
        await reports.file(ctx.writes, member.id, target.id, complaint, rules=rules)
    except InvalidInput as error:
        return await _form(ctx, target, asked, error)
    return ctx.go("/report/done", member=target.id, to=local(asked.to))


async def done(ctx: PageContext, query: DoneQuery) -> Response:
    """Show the next steps after a report, and actions that the reporter can take."""
    member, target = ctx.member, await _target(ctx, query.member)
    current = await relation(ctx.graph, member.id, target.id)
    return await page(
        ctx,
        "complained",
        title=ctx.words.text("Reported"),
        face=face_of(ctx, target),
        relationship=relationship_of(ctx, target, current),
        back=ctx.url(local(query.to)),
    )


async def _target(ctx: PageContext, member_id: int) -> Member:
    if not member_id:
        raise NotFound("There is no such member")
    target = await access_member(ctx.graph, member_id)
    if target.id == ctx.viewer_id:
        raise NotAllowed(ctx.words.text("You cannot report yourself."))
    return target


async def _form(ctx: PageContext, target: Member, asked: ReportForm, wrong: InvalidInput | None = None) -> Response:
    return await page(
        ctx,
        "complain",
        title=ctx.words.text("Report"),
        face=face_of(ctx, target),
        typed=asked,
        rules=rules_of(ctx.settings),
        posts=await _selectable(ctx, target, asked),
        most=MAX_COMMENT,
        wrong=error_text(ctx.words, wrong),
        field=wrong.field if wrong else "",
        back=ctx.url(local(asked.to)),
    )


async def _selectable(ctx: PageContext, target: Member, asked: ReportForm) -> list[PostView]:
    """Return the posts that the reporter can select. Posts that are already selected come first, then recent posts."""
    reads, viewer = ctx.reads, ctx.viewer_id
    recent = await post_queries.authored_page(
        reads, viewer, target.id, Cursor(limit=_POSTS), MemberFeedQuery(no_shares=True)
    )
    known = {entry.post.id: entry for entry in recent.entries}
    missing = [id_ for id_ in asked.posts if id_ not in known]
    named = await hydrate(reads.graph, viewer, missing, unasked=False) if missing else []
    entries = [*named, *sorted(known.values(), key=lambda entry: entry.post.id not in asked.posts)]
    return [post_of(ctx, entry) for entry in entries if entry.post.author_id == target.id]


ROUTES = (
    routing.page("/report", ask, ReportQuery),
    routing.form("/report", send, ReportForm),
    routing.page("/report/done", done, DoneQuery),
)
