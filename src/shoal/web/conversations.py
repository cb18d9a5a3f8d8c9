"""Direct conversations: the list, one conversation with a reply form, and new messages.

The message form has no visibility choice; every message it sends is direct.
"""

from __future__ import annotations

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
from shoal.core.text import Span, addressed, is_blank, parse, plain_excerpt, unaddressed
from shoal.graph.contract import Cursor
from shoal.graph.payloads.conversations import root_of
from shoal.graph.schema import FOLLOWS
from shoal.http.routes import Route
from shoal.i18n import When
from shoal.queries import conversations as feed
from shoal.queries import members, threads
from shoal.queries.conversations import Conversation
from shoal.queries.hydration import Entry, hydrate
from shoal.settings import Settings
from shoal.web import routing
from shoal.web.compose import SheetState, begun, check_says_something, form_bytes, sheet, submit
from shoal.web.compose_form import Writing, as_id, draft_of
from shoal.web.form_errors import error_text
from shoal.web.media import describe_pictures
from shoal.web.rendering import BeforeQuery, next_of, page, part
from shoal.web.request_context import Handle, IdForm, IdPath, PageContext
from shoal.web.view_models import Face, PostView, face_of, post_of

_NAMES = 3
"""Maximum number of participants whose names a list entry shows. It shows only the number of the others."""


class ConversationView(msgspec.Struct, frozen=True):
    id: int
    path: str
    faces: tuple[Face, ...]
    names: str
    last: str
    mine: bool
    """Whether the viewer wrote the newest message."""
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
        post.spoiler or plain_excerpt(unaddressed(post.shown_text, known), 90),
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
    """Return the messages of a conversation, oldest first. Mentions of participants at the beginning of a message are removed."""
    ordered = sorted(entries, key=lambda entry: entry.post.id)
    posts = [replace(entry.post, text=unaddressed(entry.post.text, known)) for entry in ordered]
    return [post_of(ctx, replace(entry, post=post)) for entry, post in zip(ordered, posts, strict=True)]


_MESSAGES = 200


class MessageForm(IdForm, frozen=True, kw_only=True):
    text: Annotated[str, Meta(max_length=100_000)] = ""
    request: Annotated[str, Meta(max_length=100)] = ""


class TalkForm(IdForm, frozen=True, kw_only=True):
    do: Literal["remove", "unread"]


async def several(ctx: PageContext, query: BeforeQuery) -> Response:
    member = ctx.member
    found = await feed.page(ctx.reads, member.id, query.cursor())
    talks = [_talk(ctx, item) for item in found.items]
    following = next_of(ctx, "/conversations", found.next)
    if ctx.partial:
        return part(ctx, "talks", talks=talks, next=following)
    title = ctx.words.text("Messages")
    return await page(ctx, "conversations", title=title, talks=talks, next=following)


async def one(ctx: PageContext, path: IdPath) -> Response:
    member = ctx.member
    found = await _conversation(ctx, member, path.id)
    if found.unread:
        await verbs.mark(ctx.writes, member.id, path.id, unread=False)
    return await _one(ctx, found)


async def _conversation(ctx: PageContext, member: Member, root_id: int) -> Conversation:
    try:
        return await feed.one(ctx.reads, member.id, root_id)
    except NotFound:
        # Read the conversation by its first post, because the list does not contain a new conversation until its event
        # was processed.
        return await feed.begun(ctx.reads, member.id, root_id)


async def answer(ctx: PageContext, asked: MessageForm) -> Response:
    member = ctx.checked(asked)
    found = await _conversation(ctx, member, asked.id)
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
    """Return the messages of a conversation, and whether there are more.

    If the first message was deleted, return the messages around the newest one.
    """
    reads, viewer, last = ctx.reads, ctx.viewer_id, found.last.post
    try:
        thread = await threads.thread(reads, viewer, found.root_id, above=0, below=_MESSAGES)
        first = await hydrate(reads.graph, viewer, (found.root_id,), unasked=False)
        entries = [*first, *thread.below]
    except NotFound:
        thread = await threads.thread(reads, viewer, last.id, above=_MESSAGES, below=_MESSAGES)
        entries = [*thread.above, found.last, *thread.below]
    selected = {entry.post.id: entry for entry in entries if entry.post.visibility is Visibility.DIRECT}
    selected.setdefault(last.id, found.last)
    return [entry for entry in selected.values() if root_of(entry.post) == found.root_id], thread.more


_Recipients = Annotated[str, Meta(max_length=4_000)]


class MessageQuery(msgspec.Struct, frozen=True):
    recipients: _Recipients = ""


class NewMessageForm(Writing, frozen=True, kw_only=True):
    recipients: _Recipients = ""
    people: Annotated[tuple[Handle, ...], Meta(max_length=MAX_MENTIONS)] = ()


async def new(ctx: PageContext, query: MessageQuery) -> Response:
    member = ctx.member
    names = " ".join(f"@{name.lstrip('@')}" for name in _words(query.recipients))
    return await sheet(
        ctx, member, await _with_offers(ctx, member, SheetState(form=_direct(begun(member)), recipients=names))
    )


_OFFERED = 8


async def _with_offers(ctx: PageContext, member: Member, typed: SheetState) -> SheetState:
    if typed.recipients is None or _words(typed.recipients):
        return typed
    recent = await feed.page(ctx.reads, member.id, Cursor(limit=_OFFERED))
    people = [person.member for talk in recent.items for person in talk.people]
    if len(people) < _OFFERED:
        followed = await members.page(ctx.reads, member.id, member.id, FOLLOWS, Cursor(limit=_OFFERED))
        people += [profile.member for profile in followed.profiles]
    faces = {person.id: face_of(ctx, person) for person in people if person.id != member.id}
    return replace(typed, offered=tuple(faces.values())[:_OFFERED])


async def send(ctx: PageContext, asked: NewMessageForm) -> Response:
    member = ctx.checked(asked)
    recipients = " ".join((*(f"@{name}" for name in asked.people), asked.recipients)).strip()
    typed = SheetState(form=_direct(asked), recipients=recipients)
    return await submit(ctx, member, typed, partial(_sent, recipients=recipients))


def _direct(form: Writing) -> Writing:
    """Return the form with direct visibility. Fields that a message cannot have are removed."""
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
    before = await _same_people(ctx, member, known)
    form = replace(form, text=text, reply_to=as_id(before.last.post.id if before else 0))
    made = await posts.create(writes, member.id, await draft_of(ctx.words, form), request=form.request)
    return f"/conversations/{root_of(made)}#end"


_RECENT = 20
"""Number of the member's newest conversations that are searched for one with the recipients of a new message."""


async def _same_people(ctx: PageContext, member: Member, names: Collection[str]) -> Conversation | None:
    """Return a recent conversation whose participants are exactly these people; None if there is none."""
    recent = await feed.page(ctx.reads, member.id, Cursor(limit=_RECENT))
    people = {*names} - {member.name}

    def participants(talk: Conversation) -> set[str]:
        last = talk.last
        return {last.author.member.name, *(mention.name for mention in last.post.mentions)} - {member.name}

    return next((talk for talk in recent.items if participants(talk) == people), None)


def _names(ctx: PageContext, recipients: str) -> list[str]:
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
