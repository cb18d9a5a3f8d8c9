"""New direct messages. The form has no choice of visibility: every message that it sends is direct."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal.commands import posts
from shoal.commands.members import MAX_MENTIONS, members_named
from shoal.core.errors import InvalidInput
from shoal.core.model import Member, Visibility
from shoal.core.text import Span, parse
from shoal.http.routes import Route
from shoal.settings import Settings
from shoal.web import rows
from shoal.web.pages.writing.compose import begun, form_bytes, says_something, sheet, submit
from shoal.web.pages.writing.files import describe_pictures
from shoal.web.views.conversations import addressed
from shoal.web.views.writing.sheet import SheetState
from shoal.web.views.writing.writing import Writing, draft_of
from shoal.web.visit import Visit

_Recipients = Annotated[str, Meta(max_length=4_000)]


class MessageQuery(msgspec.Struct, frozen=True):
    """The recipients of a new message, by their user names."""

    recipients: _Recipients = ""


class MessageForm(Writing, frozen=True, kw_only=True):
    """A message as typed, and its recipients."""

    recipients: _Recipients = ""


async def new(visit: Visit, query: MessageQuery) -> Response:
    """The form of a new message."""
    member = visit.member
    names = " ".join(f"@{name.lstrip('@')}" for name in _words(query.recipients))
    return await sheet(visit, member, SheetState(said=_direct(begun(member)), recipients=names))


async def send(visit: Visit, asked: MessageForm) -> Response:
    """Send the message, or show the form again with the reason why not."""
    member = visit.checked(asked)
    typed = SheetState(said=_direct(asked), recipients=asked.recipients)
    return await submit(visit, member, typed, partial(_sent, recipients=asked.recipients))


def _direct(said: Writing) -> Writing:
    """Return the fields of the form that a message has."""
    kept = {name: getattr(said, name) for name in ("text", "spoiler", "sensitive", "language", "pictures", "files")}
    sending = {name: getattr(said, name) for name in ("form_token", "request", "asks", "do")}
    return Writing(**kept, **sending, visibility=Visibility.DIRECT.value)


async def _sent(visit: Visit, member: Member, said: Writing, *, recipients: str) -> str:
    """Send a message, and return the path of its page."""
    writes = visit.front.writes
    writes.pressure.check()
    names = _names(visit, recipients)
    if not said.pictures and not says_something(said.text):
        raise InvalidInput("Text can't be blank", field="text")
    text = addressed(said.text.strip(), names, writes.domain)
    known = {mention.name for mention in await members_named(writes, text)}
    if missing := [name for name in names if name not in known]:
        unknown = visit.words.text("There is no member @%(name)s.")
        raise InvalidInput(unknown % {"name": missing[0]}, field="recipients")
    await describe_pictures(visit, member, said.pictures)
    made = await posts.create(writes, member.id, draft_of(replace(said, text=text)), request=said.request)
    return f"/@{member.name}/{made.id}"


def _names(visit: Visit, recipients: str) -> list[str]:
    """Return the user names of the recipients. Raises `InvalidInput` for none, for too many and for other words."""
    _ = visit.words.text
    here = ("", visit.front.writes.domain.lower())
    found: dict[str, None] = {}
    for word in _words(recipients):
        mention = f"@{word.lstrip('@')}"
        match parse(mention):
            case [Span(kind="mention", end=end) as span] if end == len(mention) and span.domain in here:
                found[span.value] = None
            case _:
                raise InvalidInput(_("“%(word)s” is not a user name.") % {"word": word}, field="recipients")
    if not found:
        raise InvalidInput(_("Name at least one recipient."), field="recipients")
    if len(found) > MAX_MENTIONS:
        most = visit.words.number(MAX_MENTIONS)
        raise InvalidInput(_("A message has at most %(n)s recipients.") % {"n": most}, field="recipients")
    return list(found)


def _words(recipients: str) -> list[str]:
    return recipients.replace(",", " ").split()


def routes(settings: Settings) -> tuple[Route, ...]:
    """Return the routes. The settings limit the size of the form and its files."""
    return (
        rows.page("/conversations/new", new, MessageQuery),
        rows.form("/conversations/new", send, MessageForm, max_body=form_bytes(settings)),
    )
