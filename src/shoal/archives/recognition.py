"""Which network an archive is of, by what is in it."""

from __future__ import annotations

from pathlib import Path

from shoal.archives.bluesky import BlueskyArchive
from shoal.archives.car import is_car
from shoal.archives.entries import Entries
from shoal.archives.instagram import PAGES, POSTS, InstagramArchive
from shoal.archives.mastodon import OUTBOX, MastodonArchive
from shoal.archives.own_export import PROFILE, OwnExport
from shoal.archives.pixelfed import STATUSES, PixelfedArchive
from shoal.archives.records import ArchiveReader
from shoal.archives.x import SCRIPTS, XArchive
from shoal.core.errors import InvalidInput

_UNKNOWN = (
    "file: no archive that can be read; send the ZIP of Mastodon, Instagram (as JSON), X or Shoal, pixelfed-statuses.json of"
    " Pixelfed, or the CAR file of Bluesky"
)
_AS_PAGES = (
    "file: this archive of Instagram has pages and no data: ask Instagram for it again, and choose JSON as its format"
)
_HEAD = 4096


def reader_of(entries: Entries, folder: Path) -> ArchiveReader:
    """Return the reader of an archive; `folder` takes what it has to unpack. Raises `InvalidInput` for one of no known form."""
    return _of_one(entries, folder) if entries.single else _of_several(entries, folder)


def _of_one(entries: Entries, folder: Path) -> ArchiveReader:
    with entries.opened("") as file:
        head = file.read(_HEAD)
    if is_car(head):
        return BlueskyArchive(entries, folder)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        found = PixelfedArchive(entries)
        if found.is_one:
            return found
    raise InvalidInput(_UNKNOWN, field="file")


def _of_several(entries: Entries, folder: Path) -> ArchiveReader:
    if root := entries.root(OUTBOX):
        return MastodonArchive(entries, root.prefix)
    if root := entries.root(*SCRIPTS):
        return XArchive(entries, root)
    if root := entries.root(*POSTS):
        return InstagramArchive(entries, root)
    if root := entries.root(STATUSES):
        return PixelfedArchive(entries, root.found)
    if (root := entries.root(PROFILE)) and f"{root.prefix}media.json" in entries:
        return OwnExport(entries, root.prefix)
    if repositories := entries.below("", ".car"):
        return BlueskyArchive(entries, folder, repositories[0])
    raise InvalidInput(_AS_PAGES if entries.root(*PAGES) else _UNKNOWN, field="file")
