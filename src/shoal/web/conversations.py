"""Direct conversations: the list, one conversation with a reply form, and new messages.

The message form has no visibility choice; every message it sends is direct.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal.commands import conversations as verbs
from shoal.commands import posts
from shoal.commands.members import MAX_MENTIONS, members_named
from shoal.commands.posts import Draft
from shoal.core.errors import InvalidInput, NotFound
from shoal.core.model import Member, Visibility
from shoal.core.text import Span, is_blank, mentions_of, parse, plain_excerpt
from shoal.graph.payloads.conversations import root_of
from shoal.http.routes import Route
from shoal.i18n import When
from shoal.queries import conversations as feed
from shoal.queries import threads
from shoal.queries.conversations import Conversation
from shoal.queries.hydration import Entry, hydrate
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.compose import SheetState, begun, check_says_something, form_bytes, sheet, submit
from shoal.web.compose_form import Writing, draft_of
from shoal.web.form_errors import error_text
from shoal.web.media import describe_pictures
from shoal.web.rendering import BeforeQuery, next_of, page, part
from shoal.web.request_context import IdForm, IdPath, PageContext
from shoal.web.view_models import Face, PostView, face_of, post_of

_ADDRESSED = re.compile(r"\s*@(\w+)(?:@[\w.-]+)?(?=[\s,:]|$)[,:]?")
_NAMES = 3
"""Maximum number of participants whose names a list entry shows; it shows only the number of the others."""


class ConversationView(msgspec.Struct, frozen=True):
    id: int
    path: str
    faces: tuple[Face, ...]
    names: str
    last: str
    """An excerpt of the newest message."""
    mine: bool
    """Whether the newest message is the viewer's."""
    photos: int
    when: When
    unread: bool


def _talk(ctx: PageContext, found: Conversation) -> ConversationView:
    last, post = found.last, found.last.post
    known = {person.member.name for person in found.people} | ({ctx.viewer.name} if ctx.viewer else set())
    return ConversationView(
        found.root_id,
        ctx.url(f"/conversations/{found.root_id}"),
        tuple(face_of(ctx, person.member) for person in found.people[:_NAMES]),
        _talk_names(ctx, found),
        post.spoiler or plain_excerpt(unaddressed(post.text, known), 90),
        post.author_id == ctx.viewer_id,
        len(last.media),
        ctx.when(post.created_at),
        found.unread,
    )


def _talk_names(ctx: PageContext, found: Conversation) -> str:
    names = ", ".join(person.member.shown_name for person in found.people[:_NAMES])
    if (rest := len(found.people) - _NAMES) <= 0:
        return names
    return ctx.words.counted("%(names)s and %(n)s other", "%(names)s and %(n)s others", rest, names=names)


def _messages(ctx: PageContext, entries: Sequence[Entry], known: Collection[str]) -> list[PostView]:
    """Return the messages of a conversation, oldest first, without the mentions of participants at their beginning."""
    ordered = sorted(entries, key=lambda entry: entry.post.id)
    posts = [replace(entry.post, text=unaddressed(entry.post.text, known)) for entry in ordered]
    return [post_of(ctx, replace(entry, post=post)) for entry, post in zip(ordered, posts, strict=True)]


def unaddressed(text: str, known: Collection[str]) -> str:
    """Return the text without leading mentions of these members."""
    at = 0
    while (match := _ADDRESSED.match(text, at)) is not None and match[1].lower() in known:
        at = match.end()
    # This is not a single expression, because Babel would take the following strings for arguments of `text`.
    text = text[at:]
    return text.strip()


def addressed(message: str, names: Sequence[str], domain: str = "") -> str:
    """Return the text with mentions of these members in front, so that they can read the message."""
    mentioned = mentions_of(message, domain)
    missing = [f"@{name}" for name in names if name.lower() not in mentioned]
    return " ".join([*missing, message]) if missing else message


_MESSAGES = 200
"""Messages that the page of a conversation shows."""


class MessageForm(IdForm, frozen=True, kw_only=True):
    """A message in a conversation, whose id is that of its first post."""

    text: Annotated[str, Meta(max_length=100_000)] = ""
    request: Annotated[str, Meta(max_length=100)] = ""
    """Idempotency key of the form."""


class TalkForm(IdForm, frozen=True, kw_only=True):
    do: Literal["remove", "unread"]


async def several(ctx: PageContext, query: BeforeQuery) -> Response:
    """List the member's conversations, the most recently active first."""
    member = ctx.member
    found = await feed.page(ctx.reads, member.id, query.cursor())
    talks = [_talk(ctx, item) for item in found.items]
    following = next_of(ctx, "/conversations", found.next)
    if ctx.partial:
        return part(ctx, "talks", talks=talks, next=following)
    title = ctx.words.text("Messages")
    return await page(ctx, "conversations", title=title, talks=talks, next=following)


async def one(ctx: PageContext, path: IdPath) -> Response:
    """Show a conversation and mark it as read."""
    member = ctx.member
    found = await feed.one(ctx.reads, member.id, path.id)
    if found.unread:
        await verbs.mark(ctx.writes, member.id, path.id, unread=False)
    return await _one(ctx, found)


async def answer(ctx: PageContext, asked: MessageForm) -> Response:
    member = ctx.checked(asked)
    found = await feed.one(ctx.reads, member.id, asked.id)
    if is_blank(asked.text):
        wrong = ctx.words.text("Write a message first.")
        return await _one(ctx, found, asked.text, wrong)
    names = [person.member.name for person in found.people if person.member.id != member.id]
    text = addressed(asked.text.strip(), names, ctx.writes.domain)
    try:
        await posts.create(
            ctx.writes,
            member.id,
            Draft(text=text, visibility=Visibility.DIRECT, parent_id=found.last.post.id, language=ctx.words.code),
            request=asked.request,
        )
    except InvalidInput as error:
        return await _one(ctx, found, asked.text, error_text(ctx.words, error))
    return ctx.go(f"/conversations/{asked.id}#end")


async def change(ctx: PageContext, asked: TalkForm) -> Response:
    member = ctx.checked(asked)
    if asked.do == "remove":
        await verbs.remove(ctx.writes, member.id, asked.id)
    else:
        await verbs.mark(ctx.writes, member.id, asked.id, unread=True)
    return ctx.go("/conversations")


async def _one(ctx: PageContext, found: Conversation, typed: str = "", wrong: str = "") -> Response:
    entries, more = await _entries(ctx, found)
    known = {person.member.name for person in found.people} | {ctx.member.name}
    return await page(
        ctx,
        "conversation",
        title=_talk_names(ctx, found),
        talk=_talk(ctx, found),
        posts=_messages(ctx, entries, known),
        more=more,
        typed=typed,
        wrong=wrong,
        limit=ctx.limits.text,
        request=secrets.token_urlsafe(12),
    )


async def _entries(ctx: PageContext, found: Conversation) -> tuple[list[Entry], bool]:
    """Return the messages and whether there are more. If the first one was deleted, return those around the newest."""
    reads, viewer, last = ctx.reads, ctx.viewer_id, found.last.post
    try:
        around = await threads.thread(reads, viewer, found.root_id, above=0, below=_MESSAGES)
        first = await hydrate(reads.graph, viewer, (found.root_id,), unasked=False)
        entries = [*first, *around.below]
    except NotFound:
        around = await threads.thread(reads, viewer, last.id, above=_MESSAGES, below=_MESSAGES)
        entries = [*around.above, found.last, *around.below]
    selected = {entry.post.id: entry for entry in entries if entry.post.visibility is Visibility.DIRECT}
    selected.setdefault(last.id, found.last)
    return [entry for entry in selected.values() if root_of(entry.post) == found.root_id], around.more


_Recipients = Annotated[str, Meta(max_length=4_000)]


class MessageQuery(msgspec.Struct, frozen=True):
    recipients: _Recipients = ""


class NewMessageForm(Writing, frozen=True, kw_only=True):
    """The compose form with the recipients of a message."""

    recipients: _Recipients = ""


async def new(ctx: PageContext, query: MessageQuery) -> Response:
    member = ctx.member
    names = " ".join(f"@{name.lstrip('@')}" for name in _words(query.recipients))
    return await sheet(ctx, member, SheetState(form=_direct(begun(member)), recipients=names))


async def send(ctx: PageContext, asked: NewMessageForm) -> Response:
    member = ctx.checked(asked)
    typed = SheetState(form=_direct(asked), recipients=asked.recipients)
    return await submit(ctx, member, typed, partial(_sent, recipients=asked.recipients))


def _direct(form: Writing) -> Writing:
    """Return only those form fields that a message has, with direct visibility."""
    selected = {name: getattr(form, name) for name in ("text", "spoiler", "sensitive", "language", "pictures", "files")}
    sending = {name: getattr(form, name) for name in ("form_token", "request", "asks", "do")}
    return Writing(**selected, **sending, visibility=Visibility.DIRECT.value)


async def _sent(ctx: PageContext, member: Member, form: Writing, *, recipients: str) -> str:
    writes = ctx.writes
    writes.pressure.check()
    names = _names(ctx, recipients)
    if not form.pictures:
        check_says_something(form.text)
    text = addressed(form.text.strip(), names, writes.domain)
    known = {mention.name for mention in await members_named(writes, text)}
    if missing := [name for name in names if name not in known]:
        unknown = ctx.words.text("There is no member @%(name)s.")
        raise InvalidInput(unknown % {"name": missing[0]}, field="recipients")
    await describe_pictures(ctx, member, form.pictures)
    made = await posts.create(
        writes, member.id, await draft_of(ctx.words, replace(form, text=text)), request=form.request
    )
    return f"/@{member.name}/{made.id}"


def _names(ctx: PageContext, recipients: str) -> list[str]:
    """Return the user names of the recipients. Raises `InvalidInput` for none, too many, or an invalid or unknown name."""
    _ = ctx.words.text
    here = ("", ctx.writes.domain.lower())
    found: dict[str, None] = {}
    for word in _words(recipients):
        mention = f"@{word.lstrip('@')}"
        match parse(mention):
            case [Span(kind="mention", end=end) as span] if end == len(mention) and span.domain in here:
                found[span.value] = None
            case _:
                raise InvalidInput(_("“%(word)s” is not a user name.") % {"word": word}, field="recipients")
    if not found:
        raise InvalidInput(_("Add at least one recipient."), field="recipients")
    if len(found) > MAX_MENTIONS:
        most = ctx.words.number(MAX_MENTIONS)
        raise InvalidInput(_("A message can have at most %(n)s recipients.") % {"n": most}, field="recipients")
    return list(found)


def _words(recipients: str) -> list[str]:
    return recipients.replace(",", " ").split()


def routes(settings: Settings) -> tuple[Route, ...]:
    return (
        routing.page("/conversations", several, BeforeQuery),
        routing.page("/conversations/{id}", one, IdPath),
        routing.form("/conversations/{id}", change, TalkForm),
        routing.form("/conversations/{id}/answer", answer, MessageForm),
        routing.page("/conversations/new", new, MessageQuery),
        routing.form("/conversations/new", send, NewMessageForm, max_body=form_bytes(settings)),
    )
