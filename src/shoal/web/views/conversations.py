"""Direct conversations as pages show them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from shoal.core.text import mentions_of, plain_excerpt
from shoal.queries.conversations import Conversation
from shoal.queries.hydration import Entry
from shoal.web.views.people import Face, face_of
from shoal.web.views.posts import PostView, post_of
from shoal.web.visit import Visit
from shoal.words.languages import When

_ADDRESSED = re.compile(r"\s*@(\w+)(?:@[\w.-]+)?(?=[\s,:]|$)[,:]?")
_NAMES = 3
"""Members who are named; of more, only how many."""


class ConversationView(msgspec.Struct, frozen=True):
    """A conversation in a list."""

    id: int
    path: str
    faces: tuple[Face, ...]
    names: str
    last: str
    """How its newest message begins."""
    mine: bool
    """Whether that is the viewer's."""
    photos: int
    when: When
    unread: bool


def talk_of(visit: Visit, found: Conversation) -> ConversationView:
    """Return a conversation in a list."""
    last, post = found.last, found.last.post
    known = {one.member.name for one in found.people} | ({visit.viewer.name} if visit.viewer else set())
    return ConversationView(
        found.root_id,
        visit.url(f"/conversations/{found.root_id}"),
        tuple(face_of(visit, one.member) for one in found.people[:_NAMES]),
        talk_names(visit, found),
        post.spoiler or plain_excerpt(unaddressed(post.text, known), 90),
        post.author_id == visit.viewer_id,
        len(last.media),
        visit.when(post.created_at),
        found.unread,
    )


def talk_names(visit: Visit, found: Conversation) -> str:
    """Return the names of the others in a conversation."""
    shown = [one.member.shown_name for one in found.people]
    if len(shown) <= _NAMES:
        return ", ".join(shown)
    rest = len(shown) - _NAMES
    text = visit.words.plural("%(names)s and %(n)s other", "%(names)s and %(n)s others", rest)
    return text % {"names": ", ".join(shown[:_NAMES]), "n": visit.words.number(rest)}


def messages_of(visit: Visit, entries: Sequence[Entry], known: Collection[str]) -> list[PostView]:
    """Return the messages of a conversation, oldest first, without the names that each begins with: all read it anyway."""
    ordered = sorted(entries, key=lambda entry: entry.post.id)
    return [post_of(visit, msgspec.structs.replace(entry, post=_plain(entry, known))) for entry in ordered]


def _plain(entry: Entry, known: Collection[str]) -> msgspec.Struct:
    return msgspec.structs.replace(entry.post, text=unaddressed(entry.post.text, known))


def unaddressed(text: str, known: Collection[str]) -> str:
    """Return a text without the names of these members that it begins with."""
    at = 0
    while (match := _ADDRESSED.match(text, at)) is not None and match[1].lower() in known:
        at = match.end()
    text = text[at:]
    return text.strip()


def addressed(message: str, names: Sequence[str], domain: str = "") -> str:
    """Return a text that mentions all of these members, so that they can read it."""
    mentioned = mentions_of(message, domain)
    missing = [f"@{name}" for name in names if name.lower() not in mentioned]
    return " ".join([*missing, message]) if missing else message
