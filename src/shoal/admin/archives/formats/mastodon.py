"""Mastodon's archive: `actor.json` and `outbox.json` (ActivityStreams), with `media_attachments/files/...`.

It is a ZIP, and was a `tar.gz` until Mastodon 4.2. It has no follow list; `following_accounts.csv`, a separate export, is
read if it was added to the archive.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from shoal.admin.archives.entries import Entries
from shoal.admin.archives.formats.documents import document, follow_list, iso_moment, items
from shoal.admin.archives.formats.plain_text import plain, with_options
from shoal.admin.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
    odd_parts,
)
from shoal.core.errors import InvalidInput
from shoal.core.model import Visibility

OUTBOX = "outbox.json"
_ACTOR_BYTES = 1 << 20
_PUBLIC = frozenset({"https://www.w3.org/ns/activitystreams#Public", "as:Public", "Public"})
_FILES = "media_attachments/"


class _Link(msgspec.Struct, frozen=True):
    """An object with a link. Pleroma and Akkoma write such an object where Mastodon writes a URL."""

    href: str = ""
    id: str = ""


_Address = str | _Link | None
_Recipients = _Address | list[str | _Link]
_Content = dict[str, str | None]


class _Attachment(msgspec.Struct, frozen=True, rename="camel"):
    url: _Address | list[_Link] = None
    media_type: str | None = None
    name: str | None = None
    focal_point: tuple[float, float] | None = None


class _Option(msgspec.Struct, frozen=True):
    name: str


class _Note(msgspec.Struct, frozen=True, rename="camel"):
    id: str = ""
    published: str = ""
    summary: str | None = None
    in_reply_to: _Address = None
    to: _Recipients = None
    cc: _Recipients = None
    sensitive: bool | None = None
    content: str | None = None
    content_map: _Content | list[_Content | str] | None = None
    attachment: list[_Attachment] | None = None
    one_of: list[_Option] | None = None
    any_of: list[_Option] | None = None


class _Activity(msgspec.Struct, frozen=True):
    object: _Note | str | list[_Note | str]
    id: str = ""


class _Actor(msgspec.Struct, frozen=True, rename="camel"):
    id: str


class MastodonArchive:
    """A Mastodon archive. `prefix` is the folder that contains its outbox."""

    kind = ArchiveKind.MASTODON

    def __init__(self, entries: Entries, prefix: str) -> None:
        self._entries = entries
        self._prefix = prefix
        actor = document(entries, f"{prefix}actor.json", _ACTOR_BYTES, _Actor)
        if actor is None or not actor.id:
            raise InvalidInput("file: actor.json in this archive does not have Mastodon's format", field="file")
        self.account = actor.id

    def records(self) -> Iterator[ArchiveRecord]:
        with self._entries.opened(f"{self._prefix}{OUTBOX}") as file:
            for activity, dropped in items(file, "orderedItems", _Activity):
                if activity is None or not activity.object:
                    yield SkippedRecord("posts", "", Omission.MALFORMED)
                    continue
                yield from odd_parts(activity.id, dropped)
                for note in activity.object if isinstance(activity.object, list) else (activity.object,):
                    if isinstance(note, str):
                        yield SkippedRecord("posts", note, Omission.BOOST)
                    else:
                        yield from self._note(note, note.id or activity.id)
        if found := self._entries.root("following_accounts.csv"):
            yield follow_list(self._entries, found.found)

    def _note(self, note: _Note, id_: str) -> Iterator[ArchiveRecord]:
        visibility = _visibility(note)
        written = iso_moment(note.published)
        if visibility is Visibility.DIRECT:
            yield SkippedRecord("posts", id_, Omission.DIRECT)
            return
        photos: list[ArchivedPhoto] = []
        for attachment in note.attachment or ():
            found = self._photo(attachment)
            if isinstance(found, ArchivedPhoto):
                photos.append(found)
            else:
                yield SkippedRecord("photos", _address(attachment.url), found)
        options = [option.name for option in note.one_of or note.any_of or ()]
        language, mapped = _mapped(note.content_map)
        parent = _address(note.in_reply_to)
        given = [note.in_reply_to, *_listed(note.to), *_listed(note.cc)]
        odd = sum(one is not None and not _address(one) for one in given) + (bool(note.content_map) and not language)
        yield from odd_parts(id_, odd)
        yield ArchivedPost(
            id=id_,
            written=written,
            text=with_options(plain(note.content or mapped), options),
            spoiler=plain(note.summary or ""),
            sensitive=bool(note.sensitive),
            visibility=visibility,
            language=language,
            photos=tuple(photos),
            parent=parent,
            own_parent=parent.startswith(f"{self.account}/"),
            poll=bool(options),
        )

    def _photo(self, attachment: _Attachment) -> ArchivedPhoto | Omission:
        if not (attachment.media_type or "image/").startswith("image/"):
            return Omission.VIDEO
        # If the server has external storage, the path begins with the name of the bucket.
        url = _address(attachment.url)
        path = url[max(0, url.find(_FILES)) :].lstrip("/").removeprefix("system/")
        name = f"{self._prefix}{path}"
        if name not in self._entries:
            return Omission.MISSING
        return ArchivedPhoto(name, attachment.name or "", attachment.focal_point or (0.0, 0.0))


def _address(given: _Address | list[_Link]) -> str:
    """Return a URL that is given as text, as an object with a link, or as a list of these."""
    if isinstance(given, list):
        given = given[0] if given else None
    if isinstance(given, _Link):
        return given.href or given.id
    return given or ""


def _mapped(given: _Content | list[_Content | str] | None) -> tuple[str, str]:
    """Return the first language and the first text in a map of texts by language, or in a list of maps and texts."""
    parts = given if isinstance(given, list) else [given or {}]
    texts = [item for part in parts for item in ([("", part)] if isinstance(part, str) else part.items())]
    return next((language for language, _ in texts if language), ""), next((text for _, text in texts if text), "")


def _visibility(note: _Note) -> Visibility:
    """Derive the visibility of a post from its recipients: public, unlisted, followers, or direct."""
    to, cc = ([_address(one) for one in _listed(given)] for given in (note.to, note.cc))
    if _PUBLIC.intersection(to):
        return Visibility.PUBLIC
    if _PUBLIC.intersection(cc):
        return Visibility.UNLISTED
    return Visibility.FOLLOWERS if any(who.endswith("/followers") for who in (*to, *cc)) else Visibility.DIRECT


def _listed(recipients: _Recipients) -> list[str | _Link]:
    if isinstance(recipients, list):
        return recipients
    return [] if recipients is None else [recipients]
