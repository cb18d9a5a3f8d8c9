"""Comments: the thread around a post, the comment form, and votes in polls.

A reply mentions the participants, so that they are notified, but the mentions are neither typed nor shown.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import polls, posts
from shoal.commands.posts import Draft
from shoal.core.errors import Held, InvalidInput, ShoalError
from shoal.core.model import Visibility
from shoal.core.text import addressed
from shoal.graph.access import access_poll
from shoal.http.params import Id
from shoal.queries.hydration import Entry
from shoal.queries.threads import Thread
from shoal.web import routing
from shoal.web.compose import (
    SheetState,
    addressees,
    answering,
    check_says_something,
    replying_to,
    sheet,
    visibility_words,
    wrong_of,
)
from shoal.web.compose_form import Writing, as_id
from shoal.web.pending_actions import PendingAction
from shoal.web.rendering import page, part
from shoal.web.request_context import IdForm, Line, Names, PageContext
from shoal.web.view_models import AnsweredPost, PostView, entry_with_id, post_of


class CommentForm(msgspec.Struct, frozen=True):
    answers: int
    text: str
    spoiler: str
    """The content warning; empty if the comment answers a post without one, so that the form has no field for it."""
    visibility: str
    visible_to: str
    replying: str
    """A phrase with the members whom the comment will mention."""
    mentions: str
    """User names of the members whom the comment will mention, separated by spaces."""
    request: str
    depth: int
    """Depth of the comment that this comment replies to; -1 for a reply to the post of the page."""
    most: int
    more: str
    """URL of the full compose form, which has all options and accepts pictures."""
    wrong: str = ""


def comment_form(
    ctx: PageContext, entry: Entry, values: Writing | None = None, depth: int = -1, *, wrong: str = ""
) -> CommentForm:
    """Return the form for a comment on an entry. It is empty, or has the `values` of a form that was refused."""
    member = ctx.viewer
    values = values or (answering(member, entry) if member else Writing(reply_to=as_id(entry.post.id)))
    names = addressees(member, entry) if member else []
    return CommentForm(
        answers=values.reply_to,
        text=values.text,
        spoiler=values.spoiler,
        visibility=values.visibility,
        visible_to=visibility_words(ctx.words)[Visibility(values.visibility)][0],
        replying=replying_to(ctx.words, names, everyone=entry.post.visibility is Visibility.DIRECT),
        mentions=" ".join(names),
        request=values.request if wrong else ctx.new_request(),
        depth=depth,
        most=ctx.limits.text,
        more=ctx.url("/compose", reply_to=values.reply_to),
        wrong=wrong,
    )


_DEEPEST = 4
"""Replies to a comment at this depth are not indented further, so that their lines stay wide enough to read."""

Order = Literal["oldest", "liked"]


class CommentView(NamedTuple):
    post: PostView
    replies: Sequence[CommentView] = ()
    number: str = ""
    """A phrase with the number of all replies below the comment."""


class OrderLink(NamedTuple):
    path: str
    words: str
    chosen: bool


class ThreadView(msgspec.Struct, frozen=True):
    above: Sequence[PostView]
    below: Sequence[CommentView]
    orders: Sequence[OrderLink]
    """Links to the orders of comments; empty if there are fewer than two comments."""
    more: str
    """URL of further comments; empty if all are shown."""


def thread_of(ctx: PageContext, entry: Entry, found: Thread, order: Order = "oldest", grid: str = "") -> ThreadView:
    """Return the thread around a post. `grid` is the parameter of the same name in `PostPage`."""
    post, _ = entry.post, ctx.words.text
    entries = {one.post.id: one for one in (*found.above, entry, *found.below)}
    children: dict[int, list[Entry]] = {}
    for one in found.below:
        parent_id = one.post.parent_id if one.post.parent_id in entries else post.id
        children.setdefault(parent_id, []).append(one)
    if order == "liked":
        for siblings in children.values():
            siblings.sort(key=lambda one: -one.likes)

    def made(one: Entry, depth: int) -> PostView:
        parent = entries.get(one.post.parent_id)
        # Below the deepest level, replies are not indented, so the name shows which comment they answer.
        named = {one.post.parent_id: AnsweredPost(parent.author.member.name)} if parent and depth > _DEEPEST else {}
        return post_of(ctx, one, named, depth=min(depth, _DEEPEST), known=known_of(entries, one))

    def below(parent_id: int, depth: int) -> list[CommentView]:
        views: list[CommentView] = []
        for one in children.get(parent_id, ()):
            replies = below(one.post.id, depth + 1)
            if depth >= _DEEPEST:
                views += [CommentView(made(one, depth)), *replies]
            else:
                number = sum(1 for _ in _all(replies))
                words = ctx.words.counted("%(n)s reply", "%(n)s replies", number)
                views.append(CommentView(made(one, depth), replies, words))
        return views

    path = f"/@{entry.author.member.name}/{post.id}"
    orders = [
        OrderLink(ctx.url(path, order="" if key == "oldest" else key, grid=grid) + "#comments", words, key == order)
        for key, words in (("oldest", _("Oldest")), ("liked", _("Most liked")))
    ]
    return ThreadView(
        [post_of(ctx, one, known=known_of(entries, one)) for one in found.above],
        below(post.id, 0),
        orders if len(found.below) > 1 else (),
        ctx.url(f"/posts/{post.id}/comments") if found.more else "",
    )


def known_of(entries: Mapping[int, Entry], comment: Entry) -> Collection[str]:
    """Return the names of the participants of the post that a comment replies to.

    The result is empty unless this post is one of `entries`, the posts that the page shows above the comment.
    """
    parent = entries.get(comment.post.parent_id)
    return _participants(parent) if parent else ()


def _participants(entry: Entry) -> Collection[str]:
    """Return the names of the members that a reply mentions."""
    return {entry.author.member.name, *(mention.name for mention in entry.post.mentions)}


def _all(views: Sequence[CommentView]) -> Iterator[CommentView]:
    for view in views:
        yield view
        yield from _all(view.replies)


_Depth = Annotated[int, Meta(ge=-1, le=100)]


class AnswerQuery(msgspec.Struct, frozen=True):
    id: Id
    depth: _Depth = 0


class NewComment(IdForm, frozen=True, kw_only=True):
    text: Annotated[str, Meta(max_length=200_000)] = ""
    spoiler: Line = ""
    visibility: Annotated[str, Meta(max_length=20)] = ""
    request: Annotated[str, Meta(max_length=100)] = ""
    mentions: Names | None = None
    """User names of the participants that the comment mentions, as the form contained them."""
    depth: _Depth = -1
    """Depth of the comment that this comment replies to; -1 for a reply to the post of the page."""
    do: Literal["post", "more"] = "post"
    """`more` opens the compose form with the text."""


class VoteForm(IdForm, frozen=True, kw_only=True):
    choices: Annotated[tuple[Annotated[int, Meta(ge=0, le=1_000)], ...], Meta(max_length=100)] = ()


async def answer(ctx: PageContext, asked: AnswerQuery) -> Response:
    """Return the comment form, which a script inserts into the page. Without a script, redirect to the compose page."""
    if not ctx.partial:
        return ctx.go("/compose", reply_to=asked.id)
    form = comment_form(ctx, await entry_with_id(ctx, asked.id), depth=asked.depth)
    return part(ctx, "comment_form", form=form, token=ctx.browser.form_token)


async def comment(ctx: PageContext, asked: NewComment) -> Response:
    """Create a comment. A script gets the rendered comment, and an empty form for another comment."""
    answered = await entry_with_id(ctx, asked.id)
    pending = PendingAction("comment", asked.id, asked.text.strip(), asked.request)
    page_ = f"/@{answered.author.member.name}/{answered.post.id}"
    if ctx.viewer is None and not pending.at(page_):
        wrong = ctx.words.text("Log in first: a comment of this length can't be kept while you do.")
        values = Writing(reply_to=asked.id, text=asked.text)
        return await _refused(ctx, answered, comment_form(ctx, answered, values, asked.depth, wrong=wrong))
    member = ctx.checked(asked, pending.at if pending.text else None, page_)
    values = answering(member, answered)
    written = msgspec.structs.replace(
        values,
        text=asked.text,
        spoiler=asked.spoiler,
        visibility=asked.visibility if asked.visibility in set(Visibility) else values.visibility,
        request=asked.request or secrets.token_urlsafe(12),
    )
    if asked.do == "more":
        return await sheet(ctx, member, SheetState(form=written))
    try:
        ctx.writes.pressure.check()
        check_says_something(asked.text)
        draft = Draft(
            text=addressed(asked.text.strip(), addressees(member, answered, asked.mentions), ctx.writes.domain),
            visibility=Visibility(written.visibility),
            spoiler=asked.spoiler.strip(),
            language=values.language,
            parent_id=asked.id,
        )
        made = await posts.create(ctx.writes, member.id, draft, request=written.request)
    except Held:
        raise
    except ShoalError as error:
        (wrong,) = wrong_of(ctx, error).values()
        return await _refused(ctx, answered, comment_form(ctx, answered, written, asked.depth, wrong=wrong))
    if not ctx.partial:
        return ctx.go(f"/@{member.name}/{made.id}")
    depth = min(asked.depth + 1, _DEEPEST)
    named: dict[int, AnsweredPost] = {}
    if asked.depth + 1 > _DEEPEST:
        named[asked.id] = AnsweredPost(answered.author.member.name)
    shown = post_of(ctx, await entry_with_id(ctx, made.id), named, depth=depth, known=_participants(answered))
    again = comment_form(ctx, answered) if asked.depth < 0 else None
    post = post_of(ctx, await entry_with_id(ctx, asked.id)) if again else None
    return part(ctx, "comment_made", comment=CommentView(shown), form=again, post=post, token=ctx.browser.form_token)


async def _refused(ctx: PageContext, answered: Entry, form: CommentForm) -> Response:
    token = ctx.browser.form_token
    if ctx.partial:
        return part(ctx, "comment_form", status=422, form=form, token=token)
    title, post = ctx.words.text("New comment"), post_of(ctx, answered)
    return await page(ctx, "comment", status=422, title=title, form=form, post=post, token=token)


async def vote(ctx: PageContext, asked: VoteForm) -> Response:
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
