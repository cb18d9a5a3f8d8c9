"""Shoal's own export of a member (`admin/export.py`): posts, comments and follows as documents, with `media/...`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterator

import msgspec

from shoal.admin.archives.entries import MAX_ENTRIES, Entries
from shoal.admin.archives.formats.documents import document, iso_moment, items
from shoal.admin.archives.formats.plain_text import with_options
from shoal.admin.archives.records import (
    ArchivedPhoto,
    ArchivedPost,
    ArchiveKind,
    ArchiveRecord,
    KnownFollows,
    Omission,
    SkippedRecord,
    odd_parts,
)
from shoal.core.errors import InvalidInput, TooLarge
from shoal.core.handles import MOST_HANDLES
from shoal.core.licenses import License
from shoal.core.model import MediaKind, Visibility
from shoal.core.photo_details import PhotoDetails
from shoal.core.text import MAX_USER_NAME

PROFILE = "profile.json"
_PROFILE_BYTES = 4 << 20
_FOLLOWS_BYTES = 16 << 20
_MEDIA_BYTES = 64 << 20
"""Maximum bytes of the names and descriptions of all photos together."""
_LATITUDE, _LONGITUDE = 90.0, 180.0
_ID = re.compile(r"[0-9]{1,18}")


class _ExportedPlace(msgspec.Struct, frozen=True):
    latitude: float
    longitude: float


class _ExportedPoll(msgspec.Struct, frozen=True):
    options: list[str]


class _ExportedPost(msgspec.Struct, frozen=True):
    id: str
    visibility: Visibility
    written: str = ""
    text: str = ""
    in_answer_to: str | None = None
    language: str = ""
    sensitive: bool = False
    spoiler: str = ""
    place: _ExportedPlace | None = None
    data: object = None
    kind: str | None = None
    media: list[str] = []
    poll: _ExportedPoll | None = None
    license: License = License.RESERVED
    downloads: bool = False


class _ExportedMedium(msgspec.Struct, frozen=True):
    file: str
    kind: MediaKind = MediaKind.IMAGE
    description: str = ""
    focus: tuple[float, float] = (0.0, 0.0)
    details: PhotoDetails | None = None
    shows_details: bool = False

    def photo(self, file: str) -> ArchivedPhoto:
        return ArchivedPhoto(file, self.description, self.focus, self.details, self.shows_details)


class _ExportedProfile(msgspec.Struct, frozen=True):
    name: str


class OwnExport:
    """An export by Shoal. `prefix` is the folder that contains its profile."""

    kind = ArchiveKind.SHOAL

    def __init__(self, entries: Entries, prefix: str) -> None:
        self._entries = entries
        self._prefix = prefix
        profile = document(entries, f"{prefix}{PROFILE}", _PROFILE_BYTES, _ExportedProfile)
        if profile is None:
            raise InvalidInput("file: profile.json in this export does not have Shoal's format", field="file")
        self.account = profile.name

    def records(self) -> Iterator[ArchiveRecord]:
        media = yield from self._media()
        for noun in ("posts", "comments"):
            with self._entries.opened(f"{self._prefix}{noun}.json") as file:
                for post, dropped in items(file, "", _ExportedPost):
                    if post is None:
                        yield SkippedRecord("posts", "", Omission.MALFORMED)
                    else:
                        yield from odd_parts(post.id, dropped)
                        yield from self._post(post, media)
        yield self._follows()

    def _post(self, post: _ExportedPost, media: dict[str, _ExportedMedium]) -> Iterator[ArchiveRecord]:
        if post.visibility is Visibility.DIRECT:
            yield SkippedRecord("posts", post.id, Omission.DIRECT)
            return
        photos: list[ArchivedPhoto] = []
        for name in post.media:
            medium = media.get(name, _ExportedMedium(name))
            if medium.kind is not MediaKind.IMAGE:
                yield SkippedRecord("photos", name, Omission.VIDEO)
            elif f"{self._prefix}{name}" not in self._entries:
                yield SkippedRecord("photos", name, Omission.MISSING)
            else:
                photos.append(medium.photo(f"{self._prefix}{name}"))
        options = post.poll.options if post.poll else []
        place = (post.place.latitude, post.place.longitude) if post.place else None
        if place and not (abs(place[0]) <= _LATITUDE and abs(place[1]) <= _LONGITUDE):
            yield SkippedRecord("parts", post.id, Omission.MALFORMED)
            place = None
        yield ArchivedPost(
            id=post.id,
            written=iso_moment(post.written),
            text=with_options(post.text, options),
            spoiler=post.spoiler,
            sensitive=post.sensitive,
            visibility=post.visibility,
            language=post.language,
            photos=tuple(photos),
            parent=post.in_answer_to or "",
            poll=bool(options),
            place=place,
            data=post.data,
            kind=post.kind or "",
            license=post.license,
            downloads=post.downloads,
        )

    def _media(self) -> Generator[ArchiveRecord, None, dict[str, _ExportedMedium]]:
        found: dict[str, _ExportedMedium] = {}
        letters = 0
        with self._entries.opened(f"{self._prefix}media.json") as file:
            for medium, dropped in items(file, "", _ExportedMedium):
                yield from odd_parts("media.json", dropped + (medium is None))
                if medium is None:
                    continue
                letters += len(medium.file) + len(medium.description)
                if letters > _MEDIA_BYTES:
                    raise TooLarge(f"file: media.json has more than {_MEDIA_BYTES} bytes", field="file")
                if len(found) >= MAX_ENTRIES:
                    raise TooLarge(f"file: an archive may contain at most {MAX_ENTRIES} files", field="file")
                found[medium.file] = medium
        return found

    def _follows(self) -> KnownFollows:
        name = f"{self._prefix}follows.csv"
        if name not in self._entries:
            return KnownFollows(())
        text = self._entries.read(name, _FOLLOWS_BYTES).decode("utf-8", "replace")
        named: list[tuple[int, str]] = []
        beyond = 0
        try:
            # Do not use `csv.DictReader`: for each row, it spends time on every column of the header, which may be very long.
            rows = csv.reader(io.StringIO(text, newline=""))
            header = next(rows, [])
            columns = (header.index("id"), header.index("name")) if {"id", "name"} <= set(header) else None
            for row in rows:
                if columns is None or len(row) <= max(columns) or not _ID.fullmatch(row[columns[0]]):
                    continue
                if len(named) < MOST_HANDLES:
                    named.append((int(row[columns[0]]), row[columns[1]][: MAX_USER_NAME + 1]))
                else:
                    beyond += 1
        except csv.Error as error:
            raise InvalidInput("file: follows.csv of this export is damaged", field="file") from error
        return KnownFollows(tuple(named), beyond)
