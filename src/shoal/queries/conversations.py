"""Conversations of a member: threads of direct posts, the most recently active first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import msgspec

from shoal.core.errors import NotFound
from shoal.core.model import Post, Visibility
from shoal.graph.access import association
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.payloads.conversations import Talk, root_of, talk_id, talk_of
from shoal.graph.schema import CONVERSES
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Profile, hydrate, profiles_by_id
from shoal.queries.pagination import RowReader, read_items, unsifted


class Conversation(msgspec.Struct, frozen=True):
    root_id: int
    time: int
    """The position of the conversation in the list, for cursors."""
    unread: bool
    last: Entry
    """The newest post of the conversation that still exists."""
    people: tuple[Profile, ...]
    """The other members of the conversation, or only the viewer if there are none."""


class ConversationPage(NamedTuple):
    """A page of conversations. `next` is the `before` parameter of the next page; None at the end."""

    items: list[Conversation]
    next: int | None


_time = attrgetter("time")


class _Row(NamedTuple):
    time: int
    talk: Talk
    last: Entry


async def page(reads: Reads, viewer: int, cursor: Cursor) -> ConversationPage:
    """Return a page of the viewer's conversations that still have posts. Raises `InvalidInput` for a limit below 1."""
    rows = RowReader(cursor, partial(reads.graph.assoc_range, viewer, CONVERSES), unsifted, _time)
    return ConversationPage(*await read_items(cursor, rows, partial(_shown, reads, viewer), _time))


async def one(reads: Reads, viewer: int, root_id: int) -> Conversation:
    """Return a conversation, given the id of its root post. Raises `NotFound` if the viewer has no such conversation."""
    conversation = await association(reads.graph, viewer, CONVERSES, talk_id(root_id))
    found = await _shown(reads, viewer, [conversation]) if conversation is not None else []
    if not found:
        raise NotFound("Record not found")
    return found[0]


async def unread(reads: Reads, viewer: int, limit: int) -> int:
    """Count the unread conversations among the `limit` most recently active ones. If all are read, this costs one read."""
    found = map(_talk, await reads.graph.assoc_range(viewer, CONVERSES, Cursor(limit=limit)))
    talks = [(time, talk) for time, talk in found if talk.unread]
    # Do not count a conversation whose posts are all deleted or hidden from the viewer: `page` omits it.
    return len(await _with_last(reads, viewer, talks)) if talks else 0


async def begun(reads: Reads, viewer: int, post_id: int) -> Conversation:
    """Return the conversation that began with a direct post of the viewer, even if the viewer has removed it.

    Raises `NotFound` if there is no such post.
    """
    found = await _posts(reads, viewer, (post_id,))
    talk = Talk(post_id, unread=False, post_ids=(post_id,))
    last = _last(viewer, talk, found)
    if last is None or last.post.author_id != viewer:
        raise NotFound("Record not found")
    known = await profiles_by_id(reads.graph, viewer, [viewer, *_others(viewer, last.post)])
    return _made(viewer, _Row(post_id, talk, last), {profile.member.id: profile for profile in known})


async def _shown(reads: Reads, viewer: int, found: Sequence[Assoc]) -> list[Conversation]:
    rows = await _with_last(reads, viewer, list(map(_talk, found)))
    others = {member for row in rows for member in _others(viewer, row.last.post)}
    known = {profile.member.id: profile for profile in await profiles_by_id(reads.graph, viewer, [viewer, *others])}
    return [_made(viewer, row, known) for row in rows]


def _talk(assoc: Assoc) -> tuple[int, Talk]:
    return assoc.time, talk_of(assoc)


async def _with_last(reads: Reads, viewer: int, talks: Sequence[tuple[int, Talk]]) -> list[_Row]:
    """Return each conversation with its newest post that still exists. Older posts are read only if the newest is gone."""
    newest = await _posts(reads, viewer, [talk.post_ids[0] for _, talk in talks])
    lacking = [talk for _, talk in talks if _last(viewer, talk, newest) is None]
    older = await _posts(reads, viewer, [id_ for talk in lacking for id_ in talk.post_ids[1:]]) if lacking else {}
    entries = {**older, **newest}
    return [_Row(time, talk, last) for time, talk in talks if (last := _last(viewer, talk, entries)) is not None]


async def _posts(reads: Reads, viewer: int, ids: Sequence[int]) -> dict[int, Entry]:
    return {entry.id: entry for entry in await hydrate(reads.graph, viewer, ids, unasked=False)} if ids else {}


def _last(viewer: int, talk: Talk, entries: Mapping[int, Entry]) -> Entry | None:
    found = (entries.get(id_) for id_ in talk.post_ids)
    return next((entry for entry in found if entry is not None and _belongs(viewer, talk, entry.post)), None)


def _belongs(viewer: int, talk: Talk, post: Post) -> bool:
    """Return whether a post belongs to a conversation of the viewer: it is direct, in its thread, and the viewer takes part.

    The root of the thread may be public.
    """
    takes_part = viewer == post.author_id or any(mention.id == viewer for mention in post.mentions)
    return takes_part and post.visibility is Visibility.DIRECT and root_of(post) == talk.root_id


def _others(viewer: int, post: Post) -> list[int]:
    """Return all participants of a post except the viewer, the author first."""
    there = dict.fromkeys((post.author_id, *(mention.id for mention in post.mentions)))
    return [member for member in there if member != viewer]


def _made(viewer: int, row: _Row, known: Mapping[int, Profile]) -> Conversation:
    people = tuple(known[member] for member in _others(viewer, row.last.post) if member in known)
    own = (known[viewer],) if viewer in known else ()
    return Conversation(row.talk.root_id, row.time, row.talk.unread, row.last, people or own)
