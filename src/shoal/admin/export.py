"""Export of a member's own data: posts, uploads, reactions, relationships, follow periods, account history and settings.

Posts of other members are quoted only if the member may see them now. Secrets are excluded. An export is written to a
directory or a ZIP file, or streamed as a ZIP while it is created, without temporary files and in constant memory.
"""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import msgspec

from shoal.admin import export_writer
from shoal.admin.contract import AnyNetwork, member_named
from shoal.admin.export_writer import Export, FileSource, entry_of, export_target, file_name, iso, when
from shoal.admin.report import Progress, nothing
from shoal.commands.polls import poll_of, titles
from shoal.commands.scheduled_posts import draft_of
from shoal.core.feeds.declarations import NamedFeed
from shoal.core.ids import milliseconds_of
from shoal.core.model import Album, App, Media, Member, MemberList, Poll, Post, Revision, ScheduledPost, Token
from shoal.core.publishing import HeldContent
from shoal.core.signup import Invitation
from shoal.graph.access import filters_of, members_by_id
from shoal.graph.bulk import FIRST
from shoal.graph.contract import Assoc, AssocRow, Cursor, Store
from shoal.graph.feed_lookup import followed_feeds, saved_values
from shoal.graph.member_lookup import login_of
from shoal.graph.payloads.follows import follow_terms, mute_terms
from shoal.graph.payloads.members import MOST_PHOTOS, collected_of, in_order, personalization_of
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import (
    ASSOC_TYPES,
    AUDITED,
    BLOCKS,
    COLLECTS,
    ENDORSES,
    FEATURES_TAG,
    FOLLOWED_BY,
    FOLLOWS,
    FOLLOWS_TAG,
    HOLDS,
    LIKES,
    LISTS,
    LOGGED_IN,
    MUTES,
    MUTES_THREAD,
    NOTES,
    OWNS,
    OWNS_ALBUM,
    OWNS_FEED,
    OWNS_INVITATION,
    OWNS_LIST,
    PINS,
    POST_MARKS,
    POSTED,
    REACTS,
    REQUESTED_BY,
    REQUESTS,
    REVISED,
    SCHEDULES,
    SHARES,
    VOTES,
    WATCHES,
    AssocType,
)
from shoal.queries import moderation
from shoal.queries.context import Reads
from shoal.queries.follows import dated, known_since, recorded_periods
from shoal.queries.hydration import hydrate
from shoal.tasks import cancel


async def write_posts(export: Export) -> None:
    await export.array("posts", _posts(export, comments=False))
    await export.array("comments", _posts(export, comments=True))
    await export.objects("scheduled", SCHEDULES, ScheduledPost, _scheduled)
    await export.objects("held", HOLDS, HeldContent, _held)
    export.document("media", await _media(export))


async def _posts(export: Export, *, comments: bool) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the posts or, if `comments` is true, the comments, newest first, each with its revisions."""
    async with aclosing(export.pages(POSTED)) as pages:
        async for page in pages:
            ids = [entry.id2 for entry in page]
            nodes = await export.graph.obj_get(ids)
            pinned = (await export.graph.assoc_get(export.member.id, (PINS,), ids))[PINS]
            for id_ in ids:
                post = nodes.get(id_)
                if isinstance(post, Post) and bool(post.parent_id) is comments:
                    yield await _post(export, post, pinned=id_ in pinned)


async def _post(export: Export, post: Post, *, pinned: bool) -> dict[str, Any]:
    poll = await poll_of(export.graph, post)
    return {
        "id": str(post.id),
        "written": iso(post.created_at),
        "edited": iso(post.edited_at) or None,
        "in_answer_to": str(post.parent_id) if post.parent_id else None,
        "visibility": post.visibility,
        "language": post.language,
        "sensitive": post.sensitive,
        "spoiler": post.spoiler,
        "text": post.text,
        "tags": post.tags,
        "place": post.place._asdict() if post.place else None,
        "data": msgspec.Raw(post.json.encode()) if post.json else None,
        "kind": post.kind or None,
        "media": await _media_file_names(export, post.media),
        "poll": _poll(poll) if poll else None,
        "license": post.license,
        "downloads": post.downloads,
        "pinned": pinned,
        "history": await _history(export, post) if post.version > 1 else [],
    }


def _poll(poll: Poll) -> dict[str, Any]:
    return {"options": titles(poll), "multiple": poll.multiple, "until": iso(poll.expires_at)}


async def _history(export: Export, post: Post) -> list[dict[str, Any]]:
    found = await export.graph.assoc_range(post.id, REVISED, Cursor(limit=10_000, oldest_first=True))
    nodes = await export.graph.obj_get([revision.id2 for revision in found])
    revisions = [node for r in found if isinstance(node := nodes.get(r.id2), Revision)]
    return [{"written": iso(r.written), "spoiler": r.spoiler, "text": r.text} for r in revisions]


async def _media_file_names(export: Export, ids: Sequence[int]) -> list[str]:
    found = await export.graph.obj_get(ids)
    return [file_name(node) for id_ in ids if isinstance(node := found.get(id_), Media)]


async def _scheduled(export: Export, scheduled: ScheduledPost) -> dict[str, Any]:
    draft = draft_of(scheduled)
    return {
        "id": str(scheduled.id),
        "at": iso(scheduled.at),
        "in_answer_to": str(draft.parent_id) if draft.parent_id else None,
        "visibility": draft.visibility,
        "language": draft.language,
        "sensitive": draft.sensitive,
        "spoiler": draft.spoiler,
        "text": draft.text,
        "place": draft.place,
        "data": draft.data,
        "kind": draft.kind or None,
        "media": await _media_file_names(export, draft.media),
        "poll": {"options": draft.poll.options, "multiple": draft.poll.multiple} if draft.poll else None,
        "license": draft.license,
        "downloads": draft.downloads,
    }


async def _held(export: Export, held: HeldContent) -> dict[str, Any]:
    return {
        "id": str(held.id),
        "kind": held.kind,
        "written": iso(milliseconds_of(held.id)),
        "changes": str(held.target_id) if held.target_id else None,
        "visibility": held.visibility,
        "text": held.text,
        "data": msgspec.Raw(held.data.encode()) if held.data else None,
        "media": await _media_file_names(export, held.media),
        "descriptions": held.descriptions,
        "pictures": [await export.file(key) for key in held.files],
        "rejected": iso(held.rejected_at) or None,
        "refusal": held.refusal,
    }


async def _media(export: Export) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    async with aclosing(export.nodes(OWNS, Media)) as uploads:
        async for media in uploads:
            # Media that are being processed or could not be processed have no file.
            file = await export.file(media.key) if media.key else ""
            records.append(
                {
                    "id": str(media.id),
                    "kind": media.kind,
                    "file": file,
                    "description": media.description,
                    "focus": media.focus,
                    "details": media.details,
                    "shows_details": media.shows_details,
                }
            )
            export.progress("media", len(records), 0)
    return records


class _Table(NamedTuple):
    """A CSV table of the members or posts in a list. `more` names columns that only this table has."""

    atype: AssocType
    more: tuple[str, ...] = ()
    values: Callable[[Assoc], tuple[str, ...]] = lambda _assoc: ()


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _follow(assoc: Assoc) -> tuple[str, ...]:
    terms = follow_terms(assoc.data)
    return _yes(terms.shares), " ".join(terms.languages)


def _request(assoc: Assoc) -> tuple[str, ...]:
    return (*_follow(assoc), _yes(follow_terms(assoc.data).notify))


def _mute(assoc: Assoc) -> tuple[str, ...]:
    terms = mute_terms(assoc.data)
    return _yes(terms.notifications), iso(terms.expires_at)


def _note(assoc: Assoc) -> tuple[str, ...]:
    return (assoc.data.decode(),)


def _emoji(assoc: Assoc) -> tuple[str, ...]:
    return (" ".join(reaction.emoji for reaction in chosen_of(assoc)),)


_PEOPLE = {
    "follows": _Table(FOLLOWS, ("shares", "languages"), _follow),
    "followers": _Table(FOLLOWED_BY),
    "requests": _Table(REQUESTS, ("shares", "languages", "notify"), _request),
    "requested_by": _Table(REQUESTED_BY),
    "notified_of": _Table(WATCHES),
    "blocks": _Table(BLOCKS),
    "mutes": _Table(MUTES, ("notifications", "until"), _mute),
    "notes": _Table(NOTES, ("note",), _note),
    "endorsed": _Table(ENDORSES),
}
_POSTS = {
    "likes": _Table(LIKES),
    "shares": _Table(SHARES),
    **{mark.noun: _Table(mark.atype) for mark in POST_MARKS},
    "muted_threads": _Table(MUTES_THREAD),
    "reactions": _Table(REACTS, ("emoji",), _emoji),
}
_TAGS = {"followed_tags": FOLLOWS_TAG, "featured_tags": FEATURES_TAG}


async def write_relationships(export: Export) -> None:
    for noun, table in _POSTS.items():
        await _posts_reacted_to(export, noun, table)
    await _votes(export)
    for noun, table in _PEOPLE.items():
        await _people(export, noun, table)
    for noun, atype in _TAGS.items():
        await _tags(export, noun, atype)
    await _audited(export)


async def _posts_reacted_to(export: Export, noun: str, table: _Table) -> None:
    """Write the posts that the member reacted to. The author and text are included if the member may see the post."""

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        records = await _quoted(export, [assoc.id2 for assoc in page])
        return [(when(a.time), str(a.id2), *records.get(a.id2, ("", "")), *table.values(a)) for a in page]

    await export.table(noun, table.atype, ("time", "post", "author", "text", *table.more), rows)


async def _votes(export: Export) -> None:
    """Write the member's votes in existing polls. The texts of a poll are included if the member may see it."""

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        nodes = await export.graph.obj_get([assoc.id2 for assoc in page])
        voted = [(assoc, poll) for assoc in page if isinstance(poll := nodes.get(assoc.id2), Poll)]
        records = await _quoted(export, [poll.post_id for _, poll in voted])
        return [
            (when(assoc.time), str(poll.post_id), *records[poll.post_id], _chosen(assoc, poll))
            if poll.post_id in records
            else (when(assoc.time), str(poll.post_id), "", "", "")
            for assoc, poll in voted
        ]

    await export.table("votes", VOTES, ("time", "post", "author", "text", "chosen"), rows)


def _chosen(assoc: Assoc, poll: Poll) -> str:
    return "; ".join(poll.options[position].title for position in assoc.data)


async def _quoted(export: Export, post_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Return the author and text of each post that the member may see now."""
    seen = await hydrate(export.graph, export.member.id, post_ids, unasked=False)
    return {entry.id: (entry.author.member.name, entry.post.text) for entry in seen}


async def _people(export: Export, noun: str, table: _Table) -> None:
    def since(assoc: Assoc) -> str:
        # A change of a follow's options may have changed the time of the association. Its data then contains the start
        # of the follow.
        follows = table.atype in (FOLLOWS, FOLLOWED_BY)
        return when(follow_terms(assoc.data).began(assoc.time) if follows else assoc.time)

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        found = await members_by_id(export.graph, [assoc.id2 for assoc in page])
        return [(since(a), str(a.id2), found[a.id2].name if a.id2 in found else "", *table.values(a)) for a in page]

    await export.table(noun, table.atype, ("time", "id", "name", *table.more), rows)


async def _tags(export: Export, noun: str, atype: AssocType) -> None:
    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        return [(when(assoc.time), assoc.data.decode()) for assoc in page]

    await export.table(noun, atype, ("time", "tag"), rows)


async def _audited(export: Export) -> None:
    """Write the audit log entries of the member's account with their IP addresses: actions, and failed logins."""

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        entries = await moderation.own(export.graph, export.member.id, page)
        return [
            (
                when(id_),
                entry.verb.value,
                address,
                "; ".join(f"{name}: {value}" for name, value in entry.details.items()),
            )
            for id_, entry, address in entries
        ]

    await export.table("account_activity", AUDITED, ("time", "act", "address", "details"), rows)


_FILES = {"follow_periods": FOLLOWS, "follower_periods": FOLLOWED_BY}


async def write_follow_periods(export: Export) -> None:
    """Write all recorded follow periods, including current follows, with the current name of the other member."""
    since = await known_since(export.reads)

    async def rows(page: dict[int, list[AssocRow]]) -> list[tuple[str, ...]]:
        return await _rows(export, page, since)

    for noun, atype in _FILES.items():
        await export.paged_table(noun, ("since", "until", "id", "name"), _pages(export, atype), rows)


async def _rows(export: Export, page: dict[int, list[AssocRow]], since: int) -> list[tuple[str, ...]]:
    names = await members_by_id(export.graph, list(page))
    found: list[tuple[str, ...]] = []
    for other, rows in page.items():
        alive = next((Assoc(*row[2:4], row.data) for row in rows if row.alive), None)
        ended = [Assoc(*row[2:4], row.data) for row in rows if not row.alive]
        name = names[other].name if other in names else ""
        found += [
            (iso(period.since or 0), iso(period.until or 0), str(other), name)
            for period in dated(recorded_periods(alive, ended), since)
        ]
    return found


async def _pages(export: Export, atype: AssocType) -> AsyncGenerator[dict[int, list[AssocRow]], None]:
    """Yield the stored follows in pages, which map the id of the other member to the rows of the follow.

    These are its association or tombstone and, if it has earlier periods, a tombstone that contains these periods.
    """
    past, after = ASSOC_TYPES[atype.history], FIRST
    while True:
        own, former = [await _part(export, kind, after) for kind in (atype, past)]
        full = [part[-1].id2 for part in (own, former) if len(part) == export_writer.PAGE]
        upto = min(full) if full else None
        page: dict[int, list[AssocRow]] = {}
        for row in (*own, *former):
            if upto is None or row.id2 <= upto:
                page.setdefault(row.id2, []).append(row)
        yield page
        if upto is None:
            return
        after = upto


async def _part(export: Export, atype: AssocType, after: int) -> list[AssocRow]:
    id1 = export.member.id
    page = await export.graph.assoc_scan((id1, atype.number, after), export_writer.PAGE)
    return [row for row in page if (row.id1, row.atype) == (id1, atype.number)]


_INTERNAL = frozenset({"login_id", "follows_inviter", "has_held"})
"""Internal fields of a member, which are not exported."""


async def write_settings(export: Export) -> None:
    await _profile(export)
    await export.objects("lists", OWNS_LIST, MemberList, _list)
    await export.objects("feeds", OWNS_FEED, NamedFeed, _feed)
    await export.array("followed_feeds", _followed_feeds(export))
    await export.objects("albums", OWNS_ALBUM, Album, _album)
    await export.objects("invitations", OWNS_INVITATION, Invitation, _invitation)
    await export.array("sessions", _sessions(export))
    await _passkeys(export)
    await _filters(export)
    await _ranking(export)


async def _profile(export: Export) -> None:
    values = {name: value for name, value in msgspec.structs.asdict(export.member).items() if name not in _INTERNAL}
    values["id"] = str(export.member.id)
    values["created_at"] = values.pop("dated")
    del values["email_hash"]
    values["findable_by_email"] = export.member.findable_by_email
    if (location := export.member.location) is not None:
        values["location"] = location._asdict() | {"place": location.place and location.place._asdict()}
    values["joined"] = iso(export.member.created_at)
    inviter = export.member.invited_by
    people = await members_by_id(export.graph, (inviter,)) if inviter else {}
    values["invited_by"] = people[inviter].name if inviter in people else None
    for name in ("avatar", "header"):
        if values[name]:
            values[name] = await export.file(values[name])
    export.document("profile", values)


async def _list(export: Export, list_: MemberList) -> dict[str, Any]:
    return {
        "title": list_.title,
        "replies": list_.replies,
        "exclusive": list_.exclusive,
        "members": await _list_member_names(export, list_.id),
    }


async def _followed_feeds(export: Export) -> AsyncGenerator[dict[str, Any], None]:
    for feed in await followed_feeds(export.graph, export.member.id):
        parameters = await saved_values(export.graph, export.member.id, feed)
        yield {"feed": feed.name or str(feed.id), "title": feed.title, "parameters": parameters}


async def _feed(export: Export, feed: NamedFeed) -> dict[str, Any]:
    return {
        "title": feed.title,
        "made": when(feed.id),
        "shared": feed.shared,
        "origin": str(feed.origin_id) if feed.origin_id else None,
        "declaration": feed.declaration.document(),
        "parameters": await saved_values(export.graph, feed.owner_id, feed),
    }


async def _list_member_names(export: Export, list_id: int) -> list[str]:
    names: list[str] = []
    async with aclosing(export.pages(LISTS, list_id)) as pages:
        async for page in pages:
            found = await members_by_id(export.graph, [entry.id2 for entry in page])
            names += [found[entry.id2].name for entry in page if entry.id2 in found]
    return names


async def _album(export: Export, album: Album) -> dict[str, Any]:
    """Return an album with its photos in order, each as the id of its post and the file name that `media.json` lists."""
    return {
        "title": album.title,
        "description": album.description,
        "made": when(album.id),
        "photos": await _photos(export, album.id),
    }


async def _invitation(_export: Export, invitation: Invitation) -> dict[str, Any]:
    return {
        "made": when(invitation.id),
        "until": iso(invitation.expires_at) or None,
        "uses": invitation.used,
        "most_uses": invitation.most or None,
        "follow": invitation.follow,
    }


async def _sessions(export: Export) -> AsyncGenerator[dict[str, Any], None]:
    async with aclosing(export.pages(LOGGED_IN)) as pages:
        async for page in pages:
            nodes = await export.graph.obj_get([entry.id2 for entry in page])
            tokens = [node for entry in page if isinstance(node := nodes.get(entry.id2), Token)]
            apps = await export.graph.obj_get(list({token.app_id for token in tokens} - {0}))
            for token in tokens:
                app, use = apps.get(token.app_id), token.use
                yield {
                    "app": app.name if isinstance(app, App) else None,
                    "program": use.program or None,
                    "system": use.system or None,
                    "made": when(token.id),
                    "made_from": use.made_from or None,
                    "last_used": iso(use.at) or None,
                    "last_used_from": use.used_from or None,
                }


async def _passkeys(export: Export) -> None:
    """Write the names and dates of the member's passkeys. The keys themselves are useless on other servers."""
    login = await login_of(export.graph, export.member)
    export.document(
        "passkeys",
        [
            {"name": passkey.name, "made": iso(passkey.made_at), "last_used": iso(passkey.used_at) or None}
            for passkey in (login.passkeys if login else ())
        ],
    )


async def _photos(export: Export, album_id: int) -> list[dict[str, str]]:
    collected = in_order(await export.graph.assoc_range(album_id, COLLECTS, Cursor(limit=MOST_PHOTOS)))
    nodes = await export.graph.obj_get([assoc.id2 for assoc in collected]) if collected else {}
    return [
        {"post": str(collected_of(assoc).post_id), "file": file_name(media)}
        for assoc in collected
        if isinstance(media := nodes.get(assoc.id2), Media)
    ]


async def _filters(export: Export) -> None:
    export.document(
        "filters",
        [
            {
                "title": filter_.title,
                "contexts": filter_.contexts,
                "action": filter_.action,
                "irreversible": filter_.irreversible,
                "until": iso(filter_.expires_at) or None,
                "keywords": [{"keyword": word.keyword, "whole_word": word.whole_word} for word in filter_.keywords],
                "posts": [str(post.post_id) for post in filter_.posts],
            }
            for filter_ in await filters_of(export.graph, export.member.id)
        ],
    )


async def _ranking(export: Export) -> None:
    """Write the member's ranking preferences, and their feedback ("more like this", "less like this")."""
    personalization = await personalization_of(export.graph, export.member.id)
    feedback = personalization.feedback
    authors = await members_by_id(export.graph, list(feedback.authors))
    export.document(
        "ranking",
        {
            "on": not personalization.off,
            "recipe": personalization.recipe,
            "interests": feedback.picked,
            "authors": {authors[id_].name: taps for id_, taps in feedback.authors.items() if id_ in authors},
            "tags": feedback.tags,
        },
    )


async def export(network: AnyNetwork, name: str, to: Path, progress: Progress = nothing) -> int:
    """Export all data of a member to a directory or a `.zip` file. After a failure, nothing remains.

    Returns the number of media files that were not found. Raises `NotFound` for an unknown name, and `InvalidInput` if
    the target already exists.
    """
    member = await member_named(network, name)
    with export_target(to) as opened:
        writing = Export(network.store, network.reads, network.media, member, opened, progress)
        await write_all(writing)
    return writing.lost


async def write_all(writing: Export) -> None:
    await write_settings(writing)
    await write_posts(writing)
    await write_relationships(writing)
    await write_follow_periods(writing)


_MOST_HELD = 4 * 1024 * 1024
"""Bytes in the buffer beyond which writing pauses. A single file may exceed them."""


class _StreamBuffer:
    """The file object into which a streamed ZIP is written. It buffers bytes until they are sent, and cannot seek."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self.ended = False

    def write(self, data: bytes) -> int:
        """Buffer a copy of the data, because the caller may use its memory again."""
        self._pieces.append(bytes(data))
        self._size += len(data)
        self._changed.set()
        return len(data)

    def flush(self) -> None:
        """Do nothing, because the buffer has no other buffer below it."""

    def end(self) -> None:
        self.ended = True
        self._changed.set()

    async def drain(self) -> None:
        """Wait until the buffer has at most `_MOST_HELD` bytes."""
        while self._size > _MOST_HELD:
            self._taken.clear()
            await self._taken.wait()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        while self._pieces or not self.ended:
            if self._pieces:
                piece = b"".join(self._pieces)
                self._pieces, self._size = [], 0
                self._taken.set()
                yield piece
            else:
                self._changed.clear()
                await self._changed.wait()


async def streamed(store: Store, reads: Reads, files: FileSource, member: Member) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a ZIP with all data of a member. It is created as fast as its bytes are consumed."""
    buffer = _StreamBuffer()
    writing = asyncio.create_task(_write(buffer, store, reads, files, member), name="shoal-export")
    writing.add_done_callback(lambda _done: buffer.end())
    try:
        async for piece in buffer.pieces():
            yield piece
        # Raise the writer's error, so that an incomplete ZIP does not look complete.
        await writing
    finally:
        await cancel(writing)


async def _write(buffer: _StreamBuffer, store: Store, reads: Reads, files: FileSource, member: Member) -> None:
    with zipfile.ZipFile(cast("IO[bytes]", buffer), "w", zipfile.ZIP_DEFLATED) as archive:
        await write_all(Export(store, reads, files, member, partial(entry_of, archive), nothing, buffer.drain))
