"""Mastodon's archive: `actor.json` and `outbox.json` (ActivityStreams), with `media_attachments/files/...` beside them.

It is a ZIP, and was a `tar.gz` until Mastodon 4.2. It has no follow list; `following_accounts.csv`, which is exported by itself, is
read where it was put into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from shoal.archives.documents import items
from shoal.archives.entries import Entries
from shoal.archives.follow_lists import follow_list
from shoal.archives.moments import iso_moment
from shoal.archives.plain_text import plain
from shoal.archives.polls import with_options
from shoal.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
)
from shoal.core.errors import InvalidInput
from shoal.core.model import Visibility

OUTBOX = "outbox.json"
_ACTOR_BYTES = 1 << 20
_PUBLIC = frozenset({"https://www.w3.org/ns/activitystreams#Public", "as:Public", "Public"})
_FILES = "media_attachments/"

_Audience = str | list[str] | None


class _Attachment(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    media_type: str | None = None
    name: str | None = None
    focal_point: tuple[float, float] | None = None


class _Option(msgspec.Struct, frozen=True):
    name: str = ""


class _Note(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    published: str = ""
    summary: str | None = None
    in_reply_to: str | None = None
    to: _Audience = None
    cc: _Audience = None
    sensitive: bool | None = None
    content: str | None = None
    content_map: dict[str, str] | None = None
    attachment: list[_Attachment] | None = None
    one_of: list[_Option] | None = None
    any_of: list[_Option] | None = None


class _Activity(msgspec.Struct, frozen=True):
    type: str
    object: _Note | str
    id: str = ""


class _Actor(msgspec.Struct, frozen=True, rename="camel"):
    id: Annotated[str, msgspec.Meta(min_length=1)]
    preferred_username: str = ""


class MastodonArchive:
    """An archive whose outbox was found in the folder `prefix`."""

    kind = ArchiveKind.MASTODON

    def __init__(self, entries: Entries, prefix: str) -> None:
        self._entries = entries
        self._prefix = prefix
        name = f"{prefix}actor.json"
        try:
            self._actor = msgspec.json.decode(entries.read(name, _ACTOR_BYTES), type=_Actor)
        except msgspec.DecodeError as error:
            raise InvalidInput("file: actor.json of this archive is not of Mastodon's form", field="file") from error

    @property
    def account(self) -> str:
        """The address of the account's profile."""
        return self._actor.id

    def records(self) -> Iterator[ArchiveRecord]:
        """Yield the posts of the outbox, and the follow list if there is one."""
        with self._entries.opened(f"{self._prefix}{OUTBOX}") as file:
            for activity in items(file, "orderedItems", _Activity):
                if activity is None:
                    yield SkippedRecord("posts", "", Omission.MALFORMED)
                elif isinstance(activity.object, str):
                    yield SkippedRecord("posts", activity.object, Omission.BOOST)
                else:
                    yield from self._note(activity.object)
        if found := self._entries.root("following_accounts.csv"):
            yield follow_list(self._entries, found.found)

    def _note(self, note: _Note) -> Iterator[ArchiveRecord]:
        visibility = _visibility(note)
        written = iso_moment(note.published)
        if visibility is Visibility.DIRECT:
            yield SkippedRecord("posts", note.id, Omission.DIRECT)
            return
        photos: list[ArchivedPhoto] = []
        for attachment in note.attachment or ():
            found = self._photo(attachment)
            if isinstance(found, ArchivedPhoto):
                photos.append(found)
            else:
                yield SkippedRecord("photos", attachment.url, found)
        options = [option.name for option in note.one_of or note.any_of or ()]
        parent = note.in_reply_to or ""
        yield ArchivedPost(
            id=note.id,
            written=written,
            text=with_options(plain(note.content or ""), options),
            spoiler=plain(note.summary or ""),
            sensitive=bool(note.sensitive),
            visibility=visibility,
            language=next(iter(note.content_map or ()), ""),
            photos=tuple(photos),
            parent=parent,
            own_parent=parent.startswith(f"{self._actor.id}/"),
            poll=bool(options),
        )

    def _photo(self, attachment: _Attachment) -> ArchivedPhoto | Omission:
        if not (attachment.media_type or "image/").startswith("image/"):
            return Omission.VIDEO
        # A server that keeps files elsewhere has the name of its bucket before them.
        path = attachment.url[max(0, attachment.url.find(_FILES)) :].lstrip("/").removeprefix("system/")
        name = f"{self._prefix}{path}"
        if name not in self._entries:
            return Omission.MISSING
        return ArchivedPhoto(name, attachment.name or "", attachment.focal_point or (0.0, 0.0))


def _visibility(note: _Note) -> Visibility:
    """Return whom a post is for, by whom it was sent to: everybody, everybody but lists, followers, or single people."""
    to, cc = _listed(note.to), _listed(note.cc)
    if _PUBLIC.intersection(to):
        return Visibility.PUBLIC
    if _PUBLIC.intersection(cc):
        return Visibility.UNLISTED
    return Visibility.FOLLOWERS if any(who.endswith("/followers") for who in (*to, *cc)) else Visibility.DIRECT


def _listed(audience: _Audience) -> list[str]:
    return [audience] if isinstance(audience, str) else audience or []
