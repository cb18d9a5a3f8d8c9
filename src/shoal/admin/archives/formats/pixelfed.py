"""Pixelfed's export: `pixelfed-statuses.json`, a list of posts as in its API, by itself or in a ZIP.

It refers to photos by URL and does not contain them. Photos are imported if the ZIP has files with the names in these URLs;
nothing is fetched from the network. `pixelfed-following.json` is read if it was added to the ZIP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from shoal.admin.archives.entries import Entries
from shoal.admin.archives.formats.documents import follow_list, iso_moment, items
from shoal.admin.archives.formats.plain_text import file_name, plain, unescape, with_options
from shoal.admin.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    Omission,
    SkippedRecord,
    odd_parts,
)
from shoal.core.model import Visibility

STATUSES = "pixelfed-statuses.json"
_VISIBILITIES = {
    "public": Visibility.PUBLIC,
    "unlisted": Visibility.UNLISTED,
    "private": Visibility.FOLLOWERS,
    "followers": Visibility.FOLLOWERS,
}


class _PixelfedPhoto(msgspec.Struct, frozen=True):
    url: str | None = None
    description: str | None = None
    mime: str | None = None


class _Account(msgspec.Struct, frozen=True):
    id: str = ""
    acct: str = ""
    url: str | None = None


class _Option(msgspec.Struct, frozen=True):
    title: str


class _Poll(msgspec.Struct, frozen=True):
    options: list[_Option]


class _Status(msgspec.Struct, frozen=True):
    id: str = ""
    media_attachments: list[_PixelfedPhoto] = []
    account: _Account = _Account()
    url: str | None = None
    uri: str | None = None
    in_reply_to_id: str | None = None
    in_reply_to_account_id: str | None = None
    content: str | None = None
    content_text: str | None = None
    created_at: str = ""
    sensitive: bool | None = None
    spoiler_text: str | None = None
    visibility: str | None = None
    language: str | None = None
    pf_type: str | None = None
    poll: _Poll | None = None

    @property
    def key(self) -> str:
        """The value that identifies the post: its id or, without an id, another unique value."""
        return self.id or self.uri or self.url or self.created_at


class PixelfedArchive:
    """A list of Pixelfed posts: the entry `name` of a ZIP, or a file that was uploaded by itself."""

    kind = ArchiveKind.PIXELFED

    def __init__(self, entries: Entries, name: str = "") -> None:
        self._entries = entries
        self._name = name
        bare = [(PurePosixPath(entry).name, entry) for entry in entries.names]
        often = Counter(name for name, _ in bare)
        self._files = {name: entry for name, entry in bare if often[name] == 1}
        with entries.opened(name) as file:
            accounts = (status.account for status, _ in items(file, "", _Status) if status)
            self._account = next(
                (account for account in accounts if account.id and (account.url or account.acct)), _Account()
            )

    @property
    def account(self) -> str:
        return self._account.url or self._account.acct

    @property
    def is_one(self) -> bool:
        """Whether the document is a Pixelfed export, which is a list with at least one Pixelfed post."""
        return self._account != _Account()

    def records(self) -> Iterator[ArchiveRecord]:
        with self._entries.opened(self._name) as file:
            for status, dropped in items(file, "", _Status):
                if status is None or not status.key:
                    yield SkippedRecord("posts", "", Omission.MALFORMED)
                else:
                    yield from odd_parts(status.key, max(dropped, not status.id))
                    yield from self._status(status)
        if found := self._entries.root("pixelfed-following.json", "following.json"):
            yield follow_list(self._entries, found.found)

    def _status(self, status: _Status) -> Iterator[ArchiveRecord]:
        where = status.uri or status.url or status.key
        if status.pf_type == "share":
            yield SkippedRecord("posts", where, Omission.BOOST)
            return
        if (status.pf_type or "").startswith("story"):
            yield SkippedRecord("posts", where, Omission.STORY)
            return
        visibility = _VISIBILITIES.get(status.visibility or "")
        if visibility is None:
            yield SkippedRecord("posts", where, Omission.DIRECT)
            return
        photos: list[ArchivedPhoto] = []
        for photo in status.media_attachments:
            file = self._files.get(file_name(photo.url or ""))
            if not (photo.mime or "image/").startswith("image/"):
                yield SkippedRecord("photos", photo.url or "", Omission.VIDEO)
            elif file is None:
                yield SkippedRecord("photos", photo.url or "", Omission.MISSING)
            else:
                photos.append(ArchivedPhoto(file, photo.description or ""))
        options = [option.title for option in status.poll.options] if status.poll else []
        # `content_text` contains HTML character references.
        text = unescape(status.content_text or "") or plain(status.content or "")
        yield ArchivedPost(
            id=status.key,
            written=iso_moment(status.created_at),
            text=with_options(text, options),
            spoiler=status.spoiler_text or "",
            sensitive=bool(status.sensitive),
            visibility=visibility,
            language=status.language or "",
            photos=tuple(photos),
            parent=status.in_reply_to_id or "",
            own_parent=bool(self._account.id) and status.in_reply_to_account_id == self._account.id,
            poll=bool(options),
        )
