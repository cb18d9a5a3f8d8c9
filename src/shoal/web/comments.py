"""Comments: the thread around a post, the comment form, and votes in polls.

Replies are indented by their depth in the thread, up to `_DEEPEST` levels.
"""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import polls, posts
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput, ShoalError
from shoal.core.model import Post, Visibility
from shoal.graph.access import access_poll
from shoal.http.params import Id
from shoal.queries.hydration import Entry
from shoal.queries.threads import Thread
from shoal.web import routing
from shoal.web.compose import answering, check_says_something, visibility_words, wrong_of
from shoal.web.compose_form import Writing
from shoal.web.pending_actions import PendingAction
from shoal.web.rendering import page, part
from shoal.web.request_context import IdForm, Line, PageContext
from shoal.web.view_models import PostView, entry_with_id, post_of


class CommentForm(msgspec.Struct, frozen=True):
    answers: int
    text: str
    visibility: str
    visible_to: str
    """The visibility as one word."""
    request: str
    depth: int
    """Depth of the comment that is answered; -1 for the post of the page."""
    most: int
    more: str
    """URL of the full compose form, with pictures and all options."""
    wrong: str = ""


def comment_form(ctx: PageContext, values: Writing, depth: int = -1, *, wrong: str = "") -> CommentForm:
    return CommentForm(
        answers=values.reply_to,
        text=values.text,
        visibility=values.visibility,
        visible_to=visibility_words(ctx.words)[Visibility(values.visibility)][0],
        request=values.request if wrong else ctx.new_request(),
        depth=depth,
        most=ctx.limits.text,
        more=ctx.url("/compose", reply_to=values.reply_to),
        wrong=wrong,
    )


_DEEPEST = 4
"""Deeper comments are not indented any further: a line must stay wide enough to read."""


class ThreadView(msgspec.Struct, frozen=True):
    above: tuple[PostView, ...]
    below: tuple[PostView, ...]
    more: str
    """URL of further comments; empty if all are shown."""


def thread_of(ctx: PageContext, post: Post, found: Thread) -> ThreadView:
    depths = {post.id: -1}
    below = []
    for entry in found.below:
        depth = depths[entry.post.id] = depths.get(entry.post.parent_id, -1) + 1
        below.append(post_of(ctx, entry, depth=min(depth, _DEEPEST)))
    above = tuple(post_of(ctx, entry) for entry in found.above)
    return ThreadView(above, tuple(below), ctx.url(f"/posts/{post.id}/comments") if found.more else "")


_Depth = Annotated[int, Meta(ge=-1, le=100)]


class AnswerQuery(msgspec.Struct, frozen=True):
    """The post to reply to, and its depth in the thread."""

    id: Id
    depth: _Depth = 0


class NewComment(IdForm, frozen=True, kw_only=True):
    text: Annotated[str, Meta(max_length=200_000)] = ""
    spoiler: Line = ""
    visibility: Annotated[str, Meta(max_length=20)] = ""
    request: Annotated[str, Meta(max_length=100)] = ""
    depth: _Depth = -1
    """Depth of the comment that is answered; -1 for the post of the page."""


class VoteForm(IdForm, frozen=True, kw_only=True):
    """The indices of the chosen options."""

    choices: Annotated[tuple[Annotated[int, Meta(ge=0, le=1_000)], ...], Meta(max_length=100)] = ()


async def answer(ctx: PageContext, asked: AnswerQuery) -> Response:
    """Return the comment form for a script to insert. Without a script, redirect to the compose page."""
    member = ctx.member
    if not ctx.partial:
        return ctx.go("/compose", reply_to=asked.id)
    values = answering(member, await entry_with_id(ctx, asked.id))
    return part(ctx, "comment_form", form=comment_form(ctx, values, asked.depth), token=ctx.browser.form_token)


async def comment(ctx: PageContext, asked: NewComment) -> Response:
    """Create a comment. A script gets the rendered comment and an empty form for the next one."""
    answered = await entry_with_id(ctx, asked.id)
    pending = PendingAction("comment", asked.id, asked.text.strip(), asked.request)
    page_ = f"/@{answered.author.member.name}/{answered.post.id}"
    if ctx.viewer is None and not pending.at(page_):
        wrong = ctx.words.text("Log in first: a comment of this length can't be kept while you do.")
        form = comment_form(ctx, Writing(reply_to=asked.id, text=asked.text), asked.depth, wrong=wrong)
        return await _refused(ctx, form, answered)
    member = ctx.checked(asked, pending.at if pending.text else None, page_)
    values = answering(member, answered)
    written = msgspec.structs.replace(
        values,
        text=asked.text,
        spoiler=asked.spoiler,
        visibility=asked.visibility if asked.visibility in set(Visibility) else values.visibility,
        request=asked.request or secrets.token_urlsafe(12),
    )
    try:
        ctx.writes.pressure.check()
        check_says_something(asked.text)
        draft = Draft(
            text=asked.text,
            spoiler=asked.spoiler,
            visibility=Visibility(written.visibility),
            language=values.language,
            parent_id=asked.id,
        )
        made = await posts.create(ctx.writes, member.id, draft, request=written.request)
    except ShoalError as error:
        (wrong,) = wrong_of(ctx, error).values()
        return await _refused(ctx, comment_form(ctx, written, asked.depth, wrong=wrong), answered)
    if not ctx.partial:
        return ctx.go(f"/@{member.name}/{made.id}")
    shown = post_of(ctx, await entry_with_id(ctx, made.id), depth=min(asked.depth + 1, _DEEPEST))
    again = comment_form(ctx, values) if asked.depth < 0 else None
    return part(ctx, "comment_made", post=shown, form=again, token=ctx.browser.form_token)


async def _refused(ctx: PageContext, form: CommentForm, answered: Entry) -> Response:
    token = ctx.browser.form_token
    if ctx.partial:
        return part(ctx, "comment_form", status=422, form=form, token=token)
    title, post = ctx.words.text("New comment"), post_of(ctx, answered)
    return await page(ctx, "comment", status=422, title=title, form=form, post=post, token=token)


async def vote(ctx: PageContext, asked: VoteForm) -> Response:
    """Vote in a poll. A script gets the poll with its results."""
    member = ctx.checked(asked)
    poll = await access_poll(ctx.graph, member.id, asked.id)
    if not asked.choices:
        raise InvalidInput(ctx.words.text("Choose an option first."), field="choices")
    await polls.vote(ctx.writes, member.id, asked.id, asked.choices)
    if not ctx.partial:
        return ctx.back(asked)
    return part(ctx, "poll", post=post_of(ctx, await entry_with_id(ctx, poll.post_id)))


ROUTES = (
    routing.page("/posts/{id}/answer", answer, AnswerQuery),
    routing.form("/posts/{id}/comments", comment, NewComment),
    routing.form("/polls/{id}/vote", vote, VoteForm),
)
