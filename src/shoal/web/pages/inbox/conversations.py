"""Direct conversations: a list of them, and one as messages below each other with a form to answer."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from shoal.commands import conversations as verbs
from shoal.commands import posts
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Visibility
from shoal.core.text import is_blank
from shoal.graph.payloads.conversations import root_of
from shoal.http.convert import Id
from shoal.queries import conversations as feed
from shoal.queries import threads
from shoal.queries.conversations import Conversation
from shoal.queries.hydration import Entry, hydrate
from shoal.web import rows
from shoal.web.paging import BeforeQuery, next_of
from shoal.web.rendering import page, part
from shoal.web.views.conversations import addressed, messages_of, talk_names, talk_of
from shoal.web.views.errors.refusals import told
from shoal.web.visit import Form, Visit

_MESSAGES = 200
"""Messages of a conversation that its page shows."""


class TalkPath(BeforeQuery, frozen=True, kw_only=True):
    """A conversation, by the post that began it."""

    id: Id


class MessageForm(Form, frozen=True, kw_only=True):
    """A message to those in a conversation."""

    id: Id
    text: Annotated[str, Meta(max_length=100_000)] = ""
    request: Annotated[str, Meta(max_length=100)] = ""
    """Tells a form that is sent twice."""


class TalkForm(Form, frozen=True, kw_only=True):
    """A conversation that is to go from the list, or to count as unread."""

    id: Id
    do: Literal["remove", "unread"]


async def several(visit: Visit, query: BeforeQuery) -> Response:
    """A page of the member's conversations, the most recently active first."""
    member = visit.member
    found = await feed.page(visit.front.reads, member.id, query.cursor())
    talks = [talk_of(visit, one) for one in found.items]
    following = next_of(visit, "/conversations", found.next)
    if visit.partial:
        return part(visit, "talks", talks=talks, next=following)
    title = visit.words.text("Messages")
    return await page(visit, "conversations", title=title, talks=talks, next=following)


async def one(visit: Visit, path: TalkPath) -> Response:
    """A conversation; opening it marks it as read."""
    member = visit.member
    found = await feed.one(visit.front.reads, member.id, path.id)
    if found.unread:
        await verbs.mark(visit.front.writes, member.id, path.id, unread=False)
    return await _one(visit, found)


async def answer(visit: Visit, asked: MessageForm) -> Response:
    """Send a message to everybody in a conversation."""
    member = visit.checked(asked)
    found = await feed.one(visit.front.reads, member.id, asked.id)
    if is_blank(asked.text):
        wrong = visit.words.text("There is nothing to send yet: write something first.")
        return await _one(visit, found, asked.text, wrong)
    names = [one.member.name for one in found.people if one.member.id != member.id]
    text = addressed(asked.text.strip(), names, visit.front.writes.domain)
    try:
        await posts.create(
            visit.front.writes,
            member.id,
            Draft(text=text, visibility=Visibility.DIRECT, parent_id=found.last.post.id, language=visit.words.code),
            request=asked.request,
        )
    except InvalidInput as error:
        return await _one(visit, found, asked.text, told(visit.words, error))
    return visit.go(f"/conversations/{asked.id}#end")


async def change(visit: Visit, asked: TalkForm) -> Response:
    """Take a conversation off the list, or mark it as unread."""
    member = visit.checked(asked)
    if asked.do == "remove":
        await verbs.remove(visit.front.writes, member.id, asked.id)
    else:
        await verbs.mark(visit.front.writes, member.id, asked.id, unread=True)
    return visit.go("/conversations")


async def _one(visit: Visit, found: Conversation, typed: str = "", wrong: str = "") -> Response:
    entries, more = await _entries(visit, found)
    known = {one.member.name for one in found.people} | {visit.member.name}
    return await page(
        visit,
        "conversation",
        status=422 if wrong else 200,
        title=talk_names(visit, found),
        talk=talk_of(visit, found),
        posts=messages_of(visit, entries, known),
        more=more,
        typed=typed,
        wrong=wrong,
        limit=visit.front.writes.limits.text,
        request=secrets.token_urlsafe(12),
    )


async def _entries(visit: Visit, found: Conversation) -> tuple[list[Entry], bool]:
    """Return the messages of a conversation; where the first is gone, those around the newest."""
    reads, viewer, last = visit.front.reads, visit.viewer_id, found.last.post
    try:
        around = await threads.thread(reads, viewer, found.root_id, above=0, below=_MESSAGES)
        first = [entry for entry in await _start(visit, found.root_id) if entry.post.visibility is Visibility.DIRECT]
        entries = [*first, *around.below]
    except NotFound:
        around = await threads.thread(reads, viewer, last.id, above=_MESSAGES, below=_MESSAGES)
        entries = [*around.above, found.last, *around.below]
    kept = {entry.post.id: entry for entry in entries if entry.post.visibility is Visibility.DIRECT}
    kept.setdefault(last.id, found.last)
    return [entry for entry in kept.values() if root_of(entry.post) == found.root_id], around.more


async def _start(visit: Visit, root_id: int) -> list[Entry]:
    return await hydrate(visit.front.reads.graph, visit.viewer_id, (root_id,), unasked=False)


ROUTES = (
    rows.page("/conversations", several, BeforeQuery),
    rows.page("/conversations/{id}", one, TalkPath),
    rows.form("/conversations/{id}", change, TalkForm),
    rows.form("/conversations/{id}/answer", answer, MessageForm),
)
